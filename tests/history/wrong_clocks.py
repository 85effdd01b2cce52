"""Rewrites the times that log lines begin with, as a wrong clock would have written them."""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["Wrong", "by", "drifting", "rewritten", "rewritten_copy", "stepping", "unpacked"]

# From the true time to what the clock shows, both in microseconds of the epoch.
Wrong = Callable[[int], int]

_DATED = re.compile(r"^(\[?)(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)([,.])(\d{3})", re.MULTILINE)
_EPOCH = re.compile(r"^(%\d\|)(\d+)\.(\d{3})", re.MULTILINE)


def by(seconds: float) -> Wrong:
    """Make a clock that is off by a constant."""
    return lambda micros: micros + round(seconds * 1_000_000)


def drifting(ppm: float, since: int) -> Wrong:
    """Make a clock that runs too fast, and was right once."""
    return lambda micros: micros + round((micros - since) * ppm / 1_000_000)


def stepping(seconds: float, at: int) -> Wrong:
    """Make a clock that is set anew at some moment."""
    return lambda micros: micros + (round(seconds * 1_000_000) if micros >= at else 0)


def rewritten(text: str, wrong: Wrong) -> str:
    """Give the text of a log with the times its lines begin with changed."""

    def dated(found: re.Match[str]) -> str:
        bracket, day, between, clock, point, millis = found.groups()
        true = datetime.fromisoformat(f"{day}T{clock}.{millis}+00:00")
        shown = _EPOCH_START + timedelta(microseconds=wrong(_micros(true)))
        stamp = shown.strftime(f"%Y-%m-%d{between}%H:%M:%S")
        return f"{bracket}{stamp}{point}{shown.microsecond // 1000:03}"

    def epoch(found: re.Match[str]) -> str:
        before, seconds, millis = found.groups()
        shown = wrong(int(seconds) * 1_000_000 + int(millis) * 1000) // 1000
        return f"{before}{shown // 1000}.{shown % 1000:03}"

    return _EPOCH.sub(epoch, _DATED.sub(dated, text))


def unpacked(recording: Path, target: Path) -> Path:
    """Unpack the logs of a recording of sample_logs into a plain tree, one folder for each node."""
    if (recording / "logs.tar.gz").exists():
        with tarfile.open(recording / "logs.tar.gz") as archive:
            archive.extractall(target)
        return target / "logs"
    if (recording / "logs.zip").exists():
        with zipfile.ZipFile(recording / "logs.zip") as archive:
            archive.extractall(target)
        for packed in sorted(target.rglob("*.gz")):
            packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
            packed.unlink()
        return target
    return recording / "logs"


def rewritten_copy(logs: Path, target: Path, wrong: dict[str, Wrong]) -> Path:
    """Copy a tree of logs, the files of some nodes (folders) with wrong times."""
    for path in sorted(logs.rglob("*")):
        if path.is_file():
            copy = target / path.relative_to(logs)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes()
            if path.parent.name in wrong:
                changed = rewritten(text.decode("latin-1"), wrong[path.parent.name])
                text = changed.encode("latin-1")
            copy.write_bytes(text)
    return target


_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH_START) // timedelta(microseconds=1)
