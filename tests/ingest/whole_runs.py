"""Reads archives by the stages of a run up to the tables of events and files, in this process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from forensics.engine.local import LocalEngine
from forensics.pipeline import plan_archives, scan_archives
from forensics.settings import Settings

__all__ = ["Facts", "Run", "read"]

Facts = Counter[tuple[Any, ...]]
_FACT = ("kind", "node", "topic", "partition", "leader", "leader_epoch", "isr", "broker", "error")
_KINDS_OF_LINES = ("records", "continuation_lines", "blank_lines", "unparsed_lines")


@dataclass(frozen=True)
class Run:
    """What was read, and what users are told."""

    rows: list[dict[str, Any]]
    files: list[dict[str, Any]]
    said: list[str]

    def facts(self, unit: int = 1000, *, dated: bool = True) -> Facts:
        """Count the events; `unit` is the precision of times in microseconds."""
        return Counter(
            (
                row["ts"].timestamp() * 1_000_000 // unit if dated and row["ts"] else None,
                *(tuple(one) if isinstance(one := row[name], list) else one for name in _FACT),
            )
            for row in self.rows
        )

    def notes(self) -> list[str]:
        """Return what is said to be damaged or left out."""
        return [line for line in self.said if line.startswith("warning")]

    def is_told(self) -> bool:
        """Whether anything is said to be damaged, left out, or no log at all."""
        unread = (str(one["layout"]).endswith("not a log") for one in self.files)
        return bool(self.notes()) or any(unread)


def read(*archives: Path) -> Run:
    """Read archives into a folder beside the first, and check that the lines add up."""
    said: list[str] = []
    settings = Settings(tuple(map(str, archives)), archives[0].parent / "out")
    work = plan_archives(settings, said.append)
    scan_archives(LocalEngine(), work, (), settings, said.append)
    rows, files = (
        pq.read_table(settings.tables / name).to_pylist() for name in ("events", "files")
    )
    for one in files:
        kinds = sum(one[kind] for kind in (*_KINDS_OF_LINES, "duplicate_lines"))
        assert kinds == one["lines"], one
    return Run(rows, files, said)
