"""What holds for every input, however broken: the checks that fuzzing makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.ingest.scans import KINDS_OF_LINES, Scanned

_FACT = (
    "kind",
    "ts",
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "isr",
    "broker",
    "client",
    "error",
)
_PLACED = ("line", "offset", "text", *_FACT)

Facts = Counter[tuple[Any, ...]]


def facts(found: Scanned, *, placed: bool = False) -> Facts:
    """Count the events, without the names of files; `placed`: with their places in files."""
    names = _PLACED if placed else _FACT
    return Counter(
        tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names)
        for row in found.events
    )


def is_told(found: Scanned) -> bool:
    """Whether anything is said to be damaged, left out, or no log at all."""
    return bool(found.problems) or any(
        one.to_row()["damaged"] or any(name.endswith("not a log") for name in one.layouts)
        for one in found.files.values()
    )


def assert_adds_up(found: Scanned) -> None:
    """Every line of every file is of one kind, and none is counted twice."""
    for name, one in found.files.items():
        kinds = {kind: one.counts[kind] for kind in KINDS_OF_LINES}
        assert one.counts["lines"] == sum(kinds.values()), (name, one.counts["lines"], kinds)
        assert all(count >= 0 for count in kinds.values()), (name, kinds)
    for row in found.events:
        lines = found.files[row["file"]].counts["lines"]
        assert 1 <= row["line"] <= lines, (row["file"], row["line"], lines)


def assert_same(expected: Scanned, found: Scanned, *, placed: bool = True) -> None:
    """The same events, and as many lines of each kind."""
    before, after = facts(expected, placed=placed), facts(found, placed=placed)
    assert before == after, {"lost": _few(before - after), "added": _few(after - before)}
    if placed:
        assert _totals(expected) == _totals(found)


def assert_not_lost_in_silence(whole: Scanned, found: Scanned) -> None:
    """Where events are missing, something is said."""
    missing = facts(whole) - facts(found)
    assert not missing or is_told(found), {"lost in silence": _few(missing)}


def _totals(found: Scanned) -> Counter[str]:
    totals = Counter[str]()
    for one in found.files.values():
        totals.update({kind: one.counts[kind] for kind in ("lines", *KINDS_OF_LINES)})
    return totals


def _few(rows: Facts) -> list[tuple[tuple[Any, ...], int]]:
    return rows.most_common(3)
