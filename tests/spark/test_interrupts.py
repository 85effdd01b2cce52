"""Ctrl-C and SIGTERM at any moment: one sentence, and nothing that is left behind.

By hand, for as many moments as there is time for: `python -m tests.spark.test_interrupts 50`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "sample_logs/430-unclean/logs"
# A loaded machine takes long to end a Java.
PATIENCE = 90
LOCAL, SPARK = ("--engine", "local"), ("--master", "local[2]")


@dataclass(frozen=True)
class Ended:
    """How a run ended that got a signal, and what it left."""

    code: int
    said: str
    processes: list[str]
    left: list[str]
    seconds: float

    @property
    def faults(self) -> list[str]:
        """What is wrong with it; a run that was over before the signal came is right."""
        if self.code in (0, 4):
            return []
        found = [f"ended with {self.code}"] if self.code != 130 else []
        found += [f"said {self.said!r}"] if self.said.strip() != "interrupted" else []
        found += [f"left the process {one}" for one in self.processes]
        return found + [f"left {one}" for one in self.left]


def stop_after(out: Path, seconds: float, number: int, engine: tuple[str, ...]) -> Ended:
    """Start a run in a session of its own, send it a signal after a while, and wait."""
    command = [sys.executable, "-m", "forensics", "postmortem", str(LOGS), "-o", str(out), "-q"]
    child = subprocess.Popen(
        [*command, *engine], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        try:
            said = child.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            # A terminal sends Ctrl-C to all of a group, and who stops a service to its first.
            if number == signal.SIGINT:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)
            began = time.monotonic()
            said = child.communicate(timeout=PATIENCE)[1]
            seconds = time.monotonic() - began
        deadline = time.monotonic() + PATIENCE
        while (processes := list(_session(child.pid))) and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        for pid, _ in _session(child.pid):
            os.kill(pid, signal.SIGKILL)
    left = [path.name for path in out.glob(".*")] if out.is_dir() else []
    result = out / "_RESULT.json"
    if child.returncode == 130 and result.exists():
        assert json.loads(result.read_text("utf-8"))["exit_code"] == 130
    return Ended(child.returncode, said, [name for _, name in processes], left, round(seconds, 1))


def _session(leader: int) -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text("utf-8", "replace").rpartition(") ")
        except OSError:
            continue
        state, _, _, session = rest.split()[:4]
        if int(session) == leader and state != "Z":
            yield int(path.parent.name), name.partition("(")[2]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [1.5, 4])
def test_a_run_in_this_process_ends_at_once(tmp_path: Path, seconds: float, number: int) -> None:
    assert stop_after(tmp_path / "out", seconds, number, LOCAL).faults == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("seconds", "number"), [(3, signal.SIGTERM), (8, signal.SIGINT), (14, signal.SIGTERM)]
)
def test_a_run_on_spark_leaves_nothing(tmp_path: Path, seconds: float, number: int) -> None:
    assert stop_after(tmp_path / "out", seconds, number, SPARK).faults == []


def main() -> int:
    """Stop runs at random moments, and print how each ended; returns 1 if one left something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int)
    parser.add_argument("--engine", choices=["local", "spark"], default="spark")
    parser.add_argument("--within", type=float, default=20, help="seconds that a run takes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    drawn, failed = random.Random(given.seed), 0
    for run in range(given.runs):
        seconds = drawn.uniform(0.5, given.within)
        number = drawn.choice([signal.SIGINT, signal.SIGTERM])
        with tempfile.TemporaryDirectory() as folder:
            ended = stop_after(
                Path(folder, "out"), seconds, number, LOCAL if given.engine == "local" else SPARK
            )
        failed += bool(ended.faults)
        told = "; ".join(ended.faults) or ("over" if ended.code != 130 else "nothing left")
        name = signal.Signals(number).name
        print(f"{run + 1}. {name} after {seconds:.1f} s: {told}, {ended.seconds} s", flush=True)
    print(f"{failed} of {given.runs} left something")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
