"""One run writes a folder; who comes second is told who has it; the dead hold nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forensics.lib.folder_lock import FolderHeldError, find_owner, lock_output

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
