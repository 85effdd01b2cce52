"""One run writes a folder; who comes second is told who has it; the dead hold nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from forensics.lib import this_machine
from forensics.lib.folder_lock import (
    FolderHeldError,
    RemoteLock,
    find_owner,
    lock_address,
    lock_output,
)

HOLDER = """
import sys, time
from pathlib import Path
from forensics.lib.folder_lock import lock_output
with lock_output(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Hold a folder by another process."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_who_comes_second_is_told_who_holds_it(tmp_path: Path) -> None:
    holder = hold(tmp_path / "out")
    try:
        says = rf"Another run holds .*/out: process {holder.pid} on .* or name another folder\."
        with pytest.raises(FolderHeldError, match=says), lock_output(tmp_path / "out"):
            pass
        assert (find_owner(tmp_path / "out") or "").startswith(f"process {holder.pid} on ")
    finally:
        holder.kill()
        holder.wait()


def test_a_killed_process_holds_nothing_and_leaves_its_mark(tmp_path: Path) -> None:
    holder = hold(tmp_path)
    holder.kill()
    holder.wait()

    assert find_owner(tmp_path) is None
    assert (tmp_path / ".lock").is_file()
    with lock_output(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / ".lock").exists()


def test_of_many_that_come_at_once_one_gets_it_at_a_time(tmp_path: Path) -> None:
    inside, most, refused = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most, refused
        for _ in range(50):
            try:
                with lock_output(tmp_path):
                    with guard:
                        inside += 1
                        most = max(most, inside)
                    with guard:
                        inside -= 1
            except FolderHeldError:
                with guard:
                    refused += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1
    assert list(tmp_path.iterdir()) == []


def address_of(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return folder.as_uri()


def sizes(folder: Path) -> list[int]:
    return sorted(path.stat().st_size for path in folder.glob(".lock-*"))


def test_of_a_folder_in_a_store_one_run_has_hold_at_a_time(tmp_path: Path) -> None:
    address = address_of(tmp_path / "out")
    with lock_address(address) as lock:
        says = rf"Another run holds file://\S+/out: process {os.getpid()} on .* 5 minutes later\."
        with pytest.raises(FolderHeldError, match=says), lock_address(address):
            pass
        lock.confirm()
    with lock_address(address, 0):
        pass

    assert {0} == {*sizes(tmp_path / "out")}


def test_of_many_runs_that_want_a_store_each_gets_it_in_turn(tmp_path: Path) -> None:
    address, inside, most, done = address_of(tmp_path / "out"), 0, 0, 0

    def work() -> None:
        nonlocal inside, most, done
        with lock_address(address, 60):
            inside += 1
            most = max(most, inside)
            time.sleep(0.05)
            inside -= 1
            done += 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert (1, 5) == (most, done)


def test_the_first_of_two_that_come_at_once_waits_for_the_other_to_step_back(
    tmp_path: Path,
) -> None:
    address = address_of(tmp_path / "out")
    first, second = RemoteLock(address), RemoteLock(address)
    second._put(second._owner)
    threading.Timer(0.5, second.release).start()

    assert first.attempt() is None


def test_a_run_that_was_taken_for_dead_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with lock_address(address_of(folder)) as lock:
        (left,) = folder.glob(".lock-*")
        os.utime(left, (time.time() - 299, time.time() - 299))
        with pytest.raises(FolderHeldError), lock_address(address_of(folder)):
            pass
        os.utime(left, (time.time() - 302, time.time() - 302))
        with lock_address(address_of(folder)):
            pass
        with pytest.raises(FolderHeldError, match="has not been able to tell"):
            lock.confirm()


def test_what_runs_have_left_is_removed_another_day(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for _ in range(3):
        with lock_address(address_of(folder)):
            pass
    for path in folder.glob(".lock-*"):
        os.utime(path, (0, time.time() - 25 * 3600))
    with lock_address(address_of(folder)):
        assert 1 == len(sizes(folder))


def test_no_store_is_held_by_a_run_that_could_not_say_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is over, a thread may end before it begins."""
    monkeypatch.setattr(this_machine, "start_new_thread", lambda *_: 1)
    monkeypatch.setattr(this_machine, "_BEGINNING", 0.1)
    address = address_of(tmp_path / "out")

    with pytest.raises(MemoryError), lock_address(address):
        pass

    monkeypatch.undo()
    with lock_address(address):
        pass
