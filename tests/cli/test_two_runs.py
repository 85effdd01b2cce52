"""Two runs on one output folder, and one of them is killed at any moment: the other is right.

By hand, for as many moments as there is time for: `python -m tests.cli.test_two_runs 20`.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ingest.sample_archives import write
from tests.ingest.written_logs import PLAIN

ROOT = Path(__file__).parents[2]
LOCAL, SPARK = ("--engine", "local"), ("--master", "local[2]")
PATIENCE = 300
# What tells of the hour of a run, and not of its logs.
_OF_NOW = ("_RESULT.json", ".lock")

Digests = Mapping[str, str]


@dataclass(frozen=True)
class Trial:
    """When the second run starts after the first, which one is killed, and when."""

    second_after: float
    first_dies: bool
    killed_after: float


@dataclass(frozen=True)
class Archive:
    """What a run reads, and what it gives where nobody disturbs it."""

    path: Path
    expected: Digests
    seconds: float


def start(archive: Path, out: Path, engine: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start a run in a session of its own."""
    command = [sys.executable, "-m", "forensics", "postmortem", str(archive), "-o", str(out), "-q"]
    return subprocess.Popen(
        [*command, *engine], cwd=ROOT, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def digests(out: Path) -> Digests:
    """Return the digest of every file that a run has left."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name not in _OF_NOW
    }


def make_archives(folder: Path, engine: tuple[str, ...]) -> list[Archive]:
    """Make two archives that differ, and run each alone."""
    found = []
    for name, most in (("one", 3), ("two", 2)):
        path = write(folder / name, dict(list(PLAIN.items())[:most]))
        begun, out = time.monotonic(), folder / f"{name}-alone"
        ended = start(path, out, engine)
        said = ended.communicate(timeout=PATIENCE)[1]
        assert ended.returncode in (0, 4), said
        found.append(Archive(path, digests(out), time.monotonic() - begun))
    return found


def faults_of(
    trial: Trial, one: Archive, two: Archive, out: Path, engine: tuple[str, ...]
) -> list[str]:
    """Run two archives into one folder, kill one of the runs, and say what is wrong."""
    begun = time.monotonic()
    runs = [(start(one.path, out, engine), one)]
    time.sleep(trial.second_after)
    runs.append((start(two.path, out, engine), two))
    time.sleep(max(0.0, trial.killed_after - (time.monotonic() - begun)))
    killed, whole = runs if trial.first_dies else reversed(runs)
    # What it has started outlives it, as where the kernel takes the memory of one process.
    killed[0].send_signal(signal.SIGKILL)
    said = whole[0].communicate(timeout=PATIENCE)[1]
    told = killed[0].communicate(timeout=PATIENCE)[1]
    was_over = killed[0].returncode != -signal.SIGKILL
    found, refused = [], "Another run holds" in said
    if whole[0].returncode in (0, 4) and killed[0].returncode in (0, 4):
        # One came after the other.
        left = digests(out)
        found += [] if left in (one.expected, two.expected) else ["what two runs left is of both"]
    elif whole[0].returncode in (0, 4):
        found += _differences("the run that lived", digests(out), whole[1].expected)
    elif refused and whole[0].returncode == 1:
        found += _half_read(out, killed[1])
    else:
        found.append(f"the run that lived ended with {whole[0].returncode}: {said}")
    if was_over and killed[0].returncode not in (0, 4) and "Another run holds" not in told:
        found.append(f"the run that was to be killed ended with {killed[0].returncode}: {told}")
    third = start(two.path, out, engine)
    said = third.communicate(timeout=PATIENCE)[1]
    if third.returncode not in (0, 4):
        found.append(f"the folder is held: {third.returncode}, {said}")
    found += _differences("a third run", digests(out), two.expected)
    if (out / ".lock").exists():
        found.append("the lock stays")
    return found


def _differences(whose: str, found: Digests, expected: Digests) -> list[str]:
    names = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
    return [f"{whose} left other files: {', '.join(sorted(names))}"] if names else []


def _half_read(out: Path, killed: Archive) -> list[str]:
    """Say whether what a killed run has left is read though it is not whole."""
    page = [sys.executable, "-m", "forensics", "report", str(out)]
    ran = subprocess.run(page, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        # It had just written all that it had to.
        whole = digests(out).items() >= killed.expected.items()
        return [] if whole else ["half a run was drawn"]
    is_sentence = "did not finish" in ran.stderr or "There is no" in ran.stderr
    return [] if is_sentence and "Traceback" not in ran.stderr else [f"report said {ran.stderr}"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Archive]:
    return make_archives(tmp_path_factory.mktemp("alone"), LOCAL)


# Shares of the time that a run takes.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "first_dies", "killed"), [(0.5, True, 0.7), (0.4, False, 0.6), (0.3, True, 0.95)]
)
def test_of_two_runs_the_one_that_is_not_killed_is_right(
    second: float, first_dies: bool, killed: float, archives: list[Archive], tmp_path: Path
) -> None:
    one, two = archives
    trial = Trial(second * one.seconds, first_dies, killed * one.seconds)

    assert faults_of(trial, one, two, tmp_path / "out", LOCAL) == []


def main() -> int:
    """Try random moments, and print how each ended; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int)
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    engine = LOCAL if given.engine == "local" else SPARK
    drawn, wrong = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        one, two = make_archives(Path(folder), engine)
        for run in range(given.runs):
            second = drawn.uniform(0, one.seconds)
            trial = Trial(second, drawn.random() < 0.5, drawn.uniform(second, 1.6 * one.seconds))
            faults = faults_of(trial, one, two, Path(folder, f"out-{run}"), engine)
            wrong += bool(faults)
            who = "first" if trial.first_dies else "second"
            told = "; ".join(faults) or "right"
            times = f"second after {second:.1f} s, {who} killed after {trial.killed_after:.1f} s"
            print(f"{run + 1}. {times}: {told}", flush=True)
    print(f"{wrong} of {given.runs} went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
