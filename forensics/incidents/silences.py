"""Whether nodes wrote anything between two moments, by corrected times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case

__all__ = ["awake", "silent"]

_MICROS = 1_000_000
# A line written as a process falls asleep or wakes says nothing of the time in between.
_DOZING = _MICROS // 2


def silent(case: Case, node: str, begin: int, end: int) -> bool:
    """Whether a node that has logs wrote no event between two corrected moments."""
    where = _within(case, node, begin, end)
    return next(iter(case.each("events", where, ["line"])), None) is None


def awake(case: Case, spans: Sequence[tuple[str, int, int]]) -> set[str]:
    """Name the nodes that wrote an event in the span given for each; all in one look."""
    if not spans:
        return set()
    where = reduce(or_, (_within(case, *span) for span in spans))
    return {row["node"] for row in case.each("events", where, ["node"])}


def _within(case: Case, node: str, begin: int, end: int) -> pc.Expression:
    off = begin - case.past.clocks.correct(node, begin)
    low, high = (pa.scalar(at + off, pa.timestamp("us", "UTC")) for at in
                 (begin + _DOZING, end - _DOZING))  # fmt: skip
    return (pc.field("node") == node) & (pc.field("ts") > low) & (pc.field("ts") < high)
