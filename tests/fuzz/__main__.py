"""Tries random inputs for a while: `python -m tests.fuzz --seconds 60`.

It prints its seed, says what fails and how to see it again, and keeps each failing input in a
folder. It ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from types import FrameType

from tests.fuzz.targets import TARGETS, Target

# What one input may cost.
_SECONDS = 20
_MEMORY = 2 << 30


class TooSlowError(Exception):
    """An input that takes longer than it may."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlowError(f"more than {_SECONDS} s")

    # Of the processor: other work on the machine makes nothing slow that is not.
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _try_one(target: Target, seed: int, folder: Path) -> str | None:
    """Run a target once; return why it failed."""
    try:
        with _limited():
            target(Random(seed), folder)
    except Exception:  # noqa: BLE001 - whatever goes wrong is what is looked for
        return traceback.format_exc()
    return None


def _place(why: str) -> str:
    """Say in a word where a failure came from: failures of one place are kept a few times only."""
    lines = [line for line in why.splitlines() if line.startswith("  File ")]
    return f"{lines[-1]} {why.strip().splitlines()[-1].partition(':')[0]}" if lines else why


def _keep(keep: Path, name: str, seed: int, why: str, folder: Path) -> Path:
    kept = keep / f"{name}-{seed}"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, symlinks=True)
    (kept / "why.txt").write_text(why, "utf-8")
    return kept


def fuzz(names: list[str], seconds: float, seed: int, keep: Path, runs: int | None) -> int:
    """Try targets in turn until the time is over; return how many inputs failed."""
    tried, failed, places = Counter[str](), Counter[str](), Counter[str]()
    ends = time.monotonic() + seconds
    at = 0
    while time.monotonic() < ends and (runs is None or at < runs * len(names)):
        name, one = names[at % len(names)], seed + at // len(names)
        at += 1
        with TemporaryDirectory() as scratch:
            folder = Path(scratch)
            why = _try_one(TARGETS[name], one, folder)
            tried[name] += 1
            if why is None:
                continue
            failed[name] += 1
            place = _place(why)
            places[place] += 1
            if places[place] <= 3:
                kept = _keep(keep, name, one, why, folder)
                says = why.strip().splitlines()[-1][:300]
                print(f"FAILED {name}: {says}\n  kept in {kept}")
                print(f"  again: python -m tests.fuzz {name} --seed {one} --runs 1", flush=True)
    for name in names:
        print(f"{name}: {tried[name]} tried, {failed[name]} failed")
    return failed.total()


def main() -> int:
    """Read the command line and try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--seed", type=int, help="the first seed; another one each time if left out"
    )
    parser.add_argument("--runs", type=int, help="so many inputs of each target at the most")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-out"), help="folder of failing inputs"
    )
    asked = parser.parse_args()
    if unknown := sorted(set(asked.targets) - set(TARGETS)):
        parser.error(f"there is no target {', '.join(unknown)}")
    seed = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    _limit_memory()
    return (
        1
        if fuzz(asked.targets or list(TARGETS), asked.seconds, seed, asked.keep, asked.runs)
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
