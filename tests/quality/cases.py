"""A recorded cluster whose logs a test may spoil, and what is made of them without Spark."""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from forensics.events.packs import load_rule_set, open_pack
from forensics.pipeline import detect_and_gate
from forensics.run_result import Stopwatch, decide_outcome
from forensics.sandbox import run_archives
from forensics.settings import Settings

__all__ = ["Judged", "judged", "later", "rolling", "spoilt"]

SAMPLES = Path(__file__).parents[2] / "sample_logs"
_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)
Row = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """What findings.json would say, the checks, and how the run would end."""

    document: Row
    checks: Mapping[str, Row]
    code: int
    reason: str

    @property
    def failed(self) -> set[str]:
        """The checks that do not hold."""
        return {name for name, row in self.checks.items() if not row["success"]}

    def touched(self, check: str) -> list[Row]:
        """The findings that were downgraded for a check."""
        return [
            finding
            for finding in self.document["findings"]
            if any(step["check"] == check for step in finding["downgraded"])
        ]


def rolling(folder: Path) -> Path:
    """Unpack the logs of a rolling restart, of which nothing above `low` is found."""
    with zipfile.ZipFile(SAMPLES / "391-rolling/logs.zip") as packed:
        for name in packed.namelist():
            path = folder / name.removesuffix(".gz")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.decompress(packed.read(name)))
    return folder


def spoilt(logs: Path, target: Path, name: str, change: Callable[[str], str]) -> Path:
    """Give the same logs with one file changed; the others are links."""
    for path in sorted(logs.rglob("*.log*")):
        copy = target / path.relative_to(logs)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.as_posix().endswith(name):
            copy.write_text(change(path.read_text("utf-8")), "utf-8")
        else:
            copy.hardlink_to(path)
    return target


def later(text: str, seconds: float) -> str:
    """Move every time of a log of Kafka's."""

    def move(found: re.Match[str]) -> str:
        moment = datetime.fromisoformat(found[1]) + timedelta(seconds=seconds)
        return f"[{moment:%Y-%m-%d %H:%M:%S}"

    return _TIME.sub(move, text)


def judged(archive: Path, out: Path, packs: Sequence[Path] = (), **more: Any) -> Judged:
    """Read, rebuild and judge logs in this process."""
    opened = [open_pack(path) for path in packs]
    trial = run_archives([str(archive)], out, opened)
    wishes = Settings((str(archive),), out, packs=tuple(packs), **more)
    document, _ = detect_and_gate(
        trial.files, trial.past, load_rule_set(opened), wishes, Stopwatch()
    )
    end = decide_outcome(document, (), document["quality"]["closed"], wishes)
    rows = _table(out / "tables/checks")
    return Judged(document, {row["check"]: row for row in rows}, int(end.code), end.reason)


def _table(folder: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(folder).to_pylist()
    return rows
