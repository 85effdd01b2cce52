"""Figures of the machine, on Linux as they are and on macOS as its manual says they would be."""

from __future__ import annotations

import atexit
import gc
import os
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from forensics import run_result
from forensics.cli import doctor, dry_run
from forensics.lib import this_machine
from forensics.lib.this_machine import (
    collect_garbage_seldom,
    keep_memory,
    peak_memory,
    usable_cores,
)


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system without Linux's calls and files, which counts memory in bytes."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    used = SimpleNamespace(ru_maxrss=300 << 20)
    monkeypatch.setattr(resource, "getrusage", lambda _: used)
    monkeypatch.setattr(run_result, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(doctor, "_read_text", lambda _: "")


def test_linux_tells_the_cores_that_may_be_used_and_memory_in_kilobytes() -> None:
    held = bytearray(os.urandom(1 << 20) * 50)

    assert len(os.sched_getaffinity(0)) == usable_cores()
    assert len(held) < peak_memory() < 64 << 30


@pytest.mark.usefixtures("mac")
def test_macos_has_other_names_and_units() -> None:
    assert (10, 300 << 20) == (usable_cores(), peak_memory())


@pytest.mark.usefixtures("mac")
def test_a_dry_run_and_the_memory_of_a_run_do_without_linux() -> None:
    memory = run_result.PeakMemory()
    memory.start()
    memory.stop()

    assert 300 << 20 == memory.bytes
    assert 0 == run_result._tree_memory(os.getpid())
    assert (10, 3) == (dry_run._cores(None), dry_run._cores("local[3]"))


@pytest.mark.usefixtures("mac")
def test_doctor_says_that_macos_was_not_tried(tmp_path: Path) -> None:
    found = {check.name: check for check in doctor.check_machine(dict(os.environ), tmp_path)}

    assert (doctor.WARNING, "Only Linux has been tried.") == (
        found["python"].state,
        found["python"].advice,
    )
    assert "nobody says how much is free" == found["memory"].message


def test_garbage_is_looked_for_seldom() -> None:
    before = gc.get_threshold()
    try:
        collect_garbage_seldom()

        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*before)
        atexit.unregister(gc.freeze)


def test_no_garbage_is_looked_for_at_the_end() -> None:
    program = (
        "import atexit, gc\n"
        "from forensics.lib.this_machine import collect_garbage_seldom\n"
        "atexit.register(lambda: print(gc.get_freeze_count()))\n"
        "collect_garbage_seldom()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert int(ended.stdout) > 1000


# What a process does that stands under `ulimit -v`, and what is seen of it.
_ENDS = {
    "as it should": ("sys.exit(3)", 3, ""),
    "by a library": ("os.abort()", 1, "there is not enough memory: `ulimit -v` lets a process map"),
    "without a word": ("os._exit(1)", 1, "there is not enough memory"),
    "by a signal": ("os.kill(os.getppid(), 15); time.sleep(60)", 143, ""),
    "by its own signal": ("os.kill(os.getpid(), 9)", 137, ""),
}


@pytest.mark.parametrize("way", _ENDS)
def test_a_process_with_little_memory_does_not_end_in_silence(way: str) -> None:
    does, code, says = _ENDS[way]
    program = f"import os, sys, time\nfrom forensics.lib import this_machine\n{_STAND_BY}{does}\n"

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert code == ran.returncode
    assert says in ran.stderr
    assert bool(says) == bool(ran.stderr)


_STAND_BY = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
this_machine.stand_by_child()
"""


def test_threads_that_cannot_be_started_are_memory_that_is_not_there() -> None:
    """Arrow waits for ever for a thread of its own that cannot be started."""
    program = (
        "import resource, threading\n"
        "from forensics.lib import this_machine\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "this_machine.check_threads(2)\n"
        "threading.stack_size(700 << 20)\n"
        "try:\n"
        "    this_machine.check_threads(2)\n"
        "except MemoryError as error:\n"
        "    print(error)\n"
        "threading.stack_size(1 << 30)\n"
        "print(this_machine.start_helper(print).is_alive())\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert "can't start new thread\nFalse\n" == ran.stdout


_HOLD_AND_LET_GO = """
from pathlib import Path
from forensics.lib.this_machine import return_memory
return_memory()
import numpy as np
import pyarrow as pa

def held():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) >> 10

before = held()
columns = [pa.array(np.arange(1 << 18)).cast(pa.int32()) for _ in range(200)]
most = held()
del columns
print(pa.default_memory_pool().backend_name, most - before, held() - before)
"""


@pytest.mark.skipif(not keep_memory(), reason="no glibc here, and nothing to set")
def test_memory_that_columns_took_is_returned() -> None:
    environment = {name: value for name, value in os.environ.items() if "MEMORY_POOL" not in name}
    command = [sys.executable, "-c", _HOLD_AND_LET_GO]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    name, most, left = said.stdout.split()

    assert name == "system"
    assert int(left) < int(most) / 2


def test_a_thread_that_ends_before_it_begins_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where memory is over, Python's own would wait for it forever."""
    monkeypatch.setattr(this_machine, "start_new_thread", lambda *_: 1)
    monkeypatch.setattr(this_machine, "_BEGINNING", 0.1)

    helper = this_machine.start_helper(print)
    helper.join(0.1)

    assert not helper.is_alive()
    for start in (lambda: this_machine.check_threads(1), lambda: this_machine.start_thread(print)):
        with pytest.raises(MemoryError, match="never began"):
            start()
