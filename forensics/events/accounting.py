"""Adds up the accounts of all splits: one row for each file, and the first line of each split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from forensics.entries.pulse import SILENCE, Gap, longest

__all__ = ["FileAccount", "add_up", "mark_duplicates"]

_SUMS = (
    "bytes",
    "lines",
    "records",
    "continuation_lines",
    "blank_lines",
    "unparsed_lines",
    "events",
)


@dataclass
class FileAccount:
    """All that is known of one file."""

    file: str
    counts: Counter[str] = field(default_factory=Counter)
    layouts: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    bases: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    first: int | None = None
    last: int | None = None
    # its longest silences, and how many records have a level that begins with which letter
    gaps: list[Gap] = field(default_factory=list)
    levels: Counter[str] = field(default_factory=Counter)
    sha256: str | None = None
    # what the lines are wrapped in, the outermost first
    wrapper: str | None = None
    broken: bool = False
    duplicate_of: str | None = None
    version: str | None = None
    node: str | None = None
    role: str | None = None

    def row(self) -> dict[str, Any]:
        """Give the row of the table of files."""
        counts = dict(self.counts)
        duplicate = self.duplicate_of is not None
        lines = {
            name: 0 if duplicate and name != "lines" else counts.get(name, 0) for name in _SUMS
        }
        layout = max(self.layouts, key=lambda name: (self.layouts[name], name), default=None)
        return lines | {
            "file": self.file,
            "node": self.node,
            "role": self.role,
            "layout": "+".join(name for name in (self.wrapper, layout) if name) or None,
            "kafka_version": self.version,
            "first_ts": _moment(self.first),
            "last_ts": _moment(self.last),
            "bytes": counts.get("bytes", 0),
            "duplicate_lines": counts.get("lines", 0) if duplicate else 0,
            "damaged": "; ".join(dict.fromkeys(self.notes)) or None,
            "sha256": self.sha256,
            "duplicate_of": self.duplicate_of,
        }


def add_up(rows: Iterable[Mapping[str, Any]]) -> dict[str, FileAccount]:
    """Add up accounts; each row has `file`, `split` and the account of that split.

    The line numbers of a split begin after the lines of the splits before it.
    """
    files: dict[str, FileAccount] = {}
    for row in sorted(rows, key=lambda row: (row["file"], row["split"])):
        total = files.setdefault(row["file"], FileAccount(row["file"]))
        account = row["account"]
        total.sha256 = account.get("sha256") or total.sha256
        total.wrapper = account.get("wrapper") or total.wrapper
        if row["split"] < 0:
            continue
        total.bases[row["split"]] = base = total.counts["lines"]
        total.gaps = longest([*total.gaps, *_gaps(account, base, total.last)])
        total.levels.update(account.get("levels", {}))
        for name in _SUMS:
            total.counts[name] += account[name]
        total.layouts.update(account["layouts"])
        total.writers.update(account["writers"])
        total.notes += account["notes"]
        total.broken = total.broken or account["broken"]
        total.first = account["first"] if total.first is None else total.first
        total.last = total.last if account["last"] is None else account["last"]
    return files


def _gaps(account: Mapping[str, Any], base: int, last: int | None) -> Iterable[Gap]:
    """Give the silences of a split by the lines of its file, and the one before the split."""
    for begin, end, line in account.get("gaps", ()):
        yield begin, end, base + line
    first = account["first"]
    if last is not None and first is not None and first - last >= SILENCE:
        yield last, first, base + 1


def mark_duplicates(files: Mapping[str, FileAccount]) -> None:
    """Let only one of several files with the same content count."""
    originals: dict[str, str] = {}
    for name in sorted(files):
        one = files[name]
        if one.sha256 and one.counts["bytes"]:
            original = originals.setdefault(one.sha256, name)
            one.duplicate_of = None if original == name else original


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)
