"""Work that two processes share: done once, in whichever of them, and done here if one is lost."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from forensics.lib import second_process
from forensics.lib.second_process import ALONE, SecondProcess, open_second_process

HERE = os.getpid()
PATIENCE = 120
# Opens a second process, gives it what never ends, and says its number.
HOLDER = """
import sys, time
from forensics.lib.second_process import SecondProcess
second = SecondProcess()
second.open()
second.start(time.sleep, 10_000)
print(second.pid, flush=True)
time.sleep(10_000)
"""


@pytest.fixture
def second() -> Iterator[SecondProcess]:
    opened = SecondProcess()
    opened.open()
    assert opened.is_there
    yield opened
    opened.close()


def who(_: object = None) -> int:
    return os.getpid()


def fail_with(text: str) -> None:
    raise KeyError(text)


def end_there(here: int) -> str:
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done here"


def too_much_there(here: int) -> str:
    if os.getpid() != here:
        raise MemoryError
    return "done here"


def take_all(parts: Iterator[int], begun: Path, stays: int | None = None) -> list[tuple[int, int]]:
    """Return the parts that were taken, and who took them; only the process `stays` survives it.

    Nobody takes a second part before both processes have one.
    """
    taken = []
    for part in parts:
        (begun / str(os.getpid())).touch()
        deadline = time.monotonic() + PATIENCE
        while len(list(begun.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        taken.append((part, os.getpid()))
        if stays not in {None, os.getpid()}:
            os.kill(os.getpid(), signal.SIGKILL)
    return taken


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_work_is_done_by_the_second_process(second: SecondProcess) -> None:
    first, other = second.start(who), second.start(divmod, 7, 2)

    assert ((3, 1), second.pid) == (other.result(), first.result())
    assert second.pid != HERE


def test_without_a_second_process_work_is_done_here(tmp_path: Path) -> None:
    (tmp_path / "somebody").touch()

    assert HERE == ALONE.start(who).result()
    assert [[(0, HERE), (1, HERE)]] == ALONE.share(2, partial(take_all, begun=tmp_path))


def test_an_error_of_the_work_is_raised_as_it_is(second: SecondProcess) -> None:
    with pytest.raises(KeyError, match="of the work"):
        second.start(fail_with, "of the work").result()

    assert second.start(who).result() == second.pid


def test_what_the_second_process_has_no_memory_for_is_done_here(second: SecondProcess) -> None:
    assert second.start(too_much_there, HERE).result() == "done here"


def test_what_cannot_be_sent_is_done_here(second: SecondProcess) -> None:
    assert second.start(lambda: who()).result() == HERE  # noqa: PLW0108


def test_all_is_done_here_once_the_second_process_has_ended(second: SecondProcess) -> None:
    assert second.start(end_there, HERE).result() == "done here"
    assert not second.is_there
    assert second.start(who).result() == HERE


def test_each_part_of_shared_work_is_done_once(second: SecondProcess, tmp_path: Path) -> None:
    results = second.share(40, partial(take_all, begun=tmp_path))

    assert {HERE, second.pid} == {who for done in results for _, who in done}
    assert list(range(40)) == sorted(part for done in results for part, _ in done)


def test_parts_that_a_lost_process_had_taken_are_done_here(
    second: SecondProcess, tmp_path: Path
) -> None:
    results = second.share(40, partial(take_all, begun=tmp_path, stays=HERE))

    assert [(part, HERE) for part in range(40)] == sorted(one for done in results for one in done)
    # Whoever comes later shares with nobody.
    assert [[(0, HERE), (1, HERE)]] == second.share(2, partial(take_all, begun=tmp_path))


def test_nobody_waits_for_a_process_that_has_taken_nothing(second: SecondProcess) -> None:
    second.start(time.sleep, 10_000)

    assert [[0, 1, 2]] == second.share(3, list)


def test_what_is_done_here_is_told(second: SecondProcess) -> None:
    told = list[int]()
    here, *_ = second.share(20, list, told.append)
    assert here == told

    assert [[0, 1, 2]] == ALONE.share(3, list, told.append)
    assert [*here, 0, 1, 2] == told


def test_parts_of_former_work_are_not_taken_from_the_next(second: SecondProcess) -> None:
    busy = second.start(time.sleep, 0.5)
    assert [[0, 1, 2]] == second.share(3, list)
    results = second.share(3, list)
    busy.result()

    assert [0, 1, 2] == sorted(part for done in results for part in done)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends when its work is done")
def test_it_ends_with_the_process_that_started_it() -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    process = int(holder.stdout.readline())
    assert is_running(process)

    holder.kill()
    holder.communicate(timeout=PATIENCE)

    deadline = time.monotonic() + PATIENCE
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(process)


def test_ctrl_c_does_not_end_it(second: SecondProcess) -> None:
    second.start(who).result()
    os.kill(second.pid or 0, signal.SIGINT)

    assert second.start(who).result() == second.pid


def test_closing_ends_it_in_the_middle_of_its_work() -> None:
    with open_second_process() as second:
        second.start(time.sleep, 10_000)
        process = second.pid

    assert process is None or not is_running(process)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("master", ["local[1]", "local", "local[2]", None])
@pytest.mark.parametrize("mappable", [None, 1 << 30])
def test_it_is_opened_where_there_is_a_core_and_room(
    monkeypatch: pytest.MonkeyPatch, cores: int, master: str | None, mappable: int | None
) -> None:
    opened = list[object]()
    monkeypatch.setattr(second_process, "usable_cores", lambda: cores)
    monkeypatch.setattr(second_process, "mappable_bytes", lambda: mappable)
    monkeypatch.setattr(SecondProcess, "open", lambda *given: opened.append(given))

    with open_second_process(["forensics"], master):
        pass

    wanted = cores == 2 and master in {"local[2]", None} and mappable is None
    assert int(wanted) == len(opened)


def test_a_python_that_cannot_be_started_again_does_all_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with open_second_process(["forensics"]) as second:
        assert not second.is_there
        assert second.start(who).result() == HERE


def test_modules_are_not_looked_for_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colorsys.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with open_second_process(["colorsys"]) as second:
        assert second.start(importlib.import_module("colorsys").rgb_to_hsv, 0, 0, 0).result() == (
            0.0,
            0.0,
            0,
        )
        assert second.is_there or second.pid is None
