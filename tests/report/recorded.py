"""Postmortems of recorded clusters, made in this process: no Spark, no Java, some seconds each.

Called as a program it makes them in a process of its own: `python -m tests.report.recorded OUT`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from forensics import pipeline
from forensics.events.packs import load_rule_set
from forensics.sandbox import run_archives
from forensics.settings import Settings

__all__ = ["RECORDINGS", "SAMPLES", "postmortem", "run_recording"]

SAMPLES = Path(__file__).parents[2] / "sample_logs"
# An unclean election, a flapping broker, controllers that die one after the other, and a stretch
# in which nothing is wrong.
RECORDINGS = {
    "430-unclean": "logs",
    "282-flapping": "logs.tar.gz",
    "391-controllers": "logs.tar.gz",
    "391-rolling": "logs.zip",
}


def postmortem(name: str, out: Path) -> Path:
    """Read a recording and leave everything that a postmortem leaves in `out`."""
    return run_recording(SAMPLES / name / RECORDINGS[name], out)


def run_recording(archive: Path, out: Path) -> Path:
    """Read an archive and leave everything that a postmortem leaves in `out`."""
    read = run_archives([str(archive)], out)
    settings = Settings((str(archive),), out)
    pipeline.finish_run(read.files, read.past, load_rule_set(()), settings, _hush)
    return out


def _hush(text: str) -> None:
    """Say nothing."""


def main(out: Path, names: Sequence[str] = tuple(RECORDINGS)) -> None:
    """Make all of them."""
    for name in names:
        postmortem(name, out / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
