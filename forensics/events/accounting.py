"""Adds up the accounts of all splits: one row for each file, and the first line of each split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from forensics.entries.pulse import BACK, LATER, SILENCE, Gap, farthest, longest
from forensics.events.falls import Fall, first_few
from forensics.masking import masked

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
    # where its time, and what it tells of epochs, goes backwards: a few, and how often in all
    steps: list[Gap] = field(default_factory=list)
    stepped: int = 0
    # steps back of which only the records after them tell whether time stays there
    open_steps: list[tuple[Gap, int]] = field(default_factory=list)
    falls: list[Fall] = field(default_factory=list)
    fallen: int = 0
    sha256: str | None = None
    # the digests of its first bytes, by how many they are
    heads: dict[str, str] = field(default_factory=dict)
    # what the lines are wrapped in, the outermost first
    wrapper: str | None = None
    broken: bool = False
    duplicate_of: str | None = None
    version: str | None = None
    node: str | None = None
    role: str | None = None

    def settle_steps(self, later: int) -> None:
        """Take the open steps for real that a later time is still behind."""
        real = [step for step, _ in self.open_steps if later < step[0]]
        self.stepped += len(real)
        self.steps = farthest([*self.steps, *real])
        self.open_steps = []

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
            "damaged": masked("; ".join(dict.fromkeys(self.notes))) if self.notes else None,
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
        total.heads = account.get("heads") or total.heads
        total.wrapper = account.get("wrapper") or total.wrapper
        if row["split"] < 0:
            continue
        total.bases[row["split"]] = base = total.counts["lines"]
        total.gaps = longest([*total.gaps, *_gaps(account, base, total.last)])
        _add_falls(total, account, base)
        total.levels.update(account.get("levels", {}))
        for name in _SUMS:
            total.counts[name] += account[name]
        total.counts["stray_lines"] += account.get("stray_lines", 0)
        total.layouts.update(account["layouts"])
        total.writers.update(account["writers"])
        total.notes += account["notes"]
        total.broken = total.broken or account["broken"]
        total.first = account["first"] if total.first is None else total.first
        total.last = total.last if account["last"] is None else account["last"]
    for total in files.values():
        # Of a very last record nobody knows whether it only came late.
        total.open_steps = [one for one in total.open_steps if one[1] < LATER]
        if total.last is not None:
            total.settle_steps(total.last)
    return files


def _gaps(account: Mapping[str, Any], base: int, last: int | None) -> Iterable[Gap]:
    """Give the silences of a split by the lines of its file, and the one before the split."""
    for begin, end, line in account.get("gaps", ()):
        yield begin, end, base + line
    first = account["first"]
    if last is not None and first is not None and first - last >= SILENCE:
        yield last, first, base + 1


def _add_falls(total: FileAccount, account: Mapping[str, Any], base: int) -> None:
    """Add where a split goes backwards, and whether it begins before the one before it ended."""
    steps = [(begin, end, base + line) for begin, end, line in account.get("steps", ())]
    total.stepped += account.get("stepped", 0)
    first, last = account["first"], total.last
    if first is not None:
        total.settle_steps(first)
        if last is not None and last - first >= BACK:
            steps.append((last, first, base + 1))
            total.stepped += 1
    total.steps = farthest([*total.steps, *steps])
    total.open_steps += [
        ((begin, end, base + line), left)
        for (begin, end, line), left in account.get("open_steps", ())
    ]
    falls = ((*fall[:5], base + fall[5]) for fall in account.get("falls", ()))
    total.falls = first_few([*total.falls, *falls])
    total.fallen += account.get("fallen", 0)


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
