"""How ISRs grew again after followers were dropped from them, as tables/isr tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of

__all__ = ["Growth", "growth"]

_COLUMNS = ("topic", "partition", "isr", "replicas", "leader", "started_at", "ended_at", "ended")


@dataclass(frozen=True)
class Growth:
    """What became of some partitions from a moment on."""

    # when an ISR grew
    moments: Sequence[int]
    # the partitions that were never seen whole again, though their end is known
    short: Sequence[str]

    def until(self, moment: int) -> int:
        """Count how often ISRs grew up to a moment."""
        return sum(one <= moment for one in self.moments)


def growth(case: Case, partitions: Collection[str], begin: int) -> Growth:
    """Follow the ISRs of some partitions."""
    moments: list[int] = []
    short: list[str] = []
    for rows in _each_partition(case, partitions, begin):
        known = [row for row in rows if row["isr"] is not None]
        moments += [
            after["started_at"]
            for before, after in zip(known, known[1:], strict=False)
            if set(after["isr"]) - set(before["isr"])
            and after["started_at"] is not None
            and after["started_at"] >= begin
        ]
        last = known[-1] if known else None
        # A cluster that is shut down leaves its partitions short, or without a leader, on its way.
        if last and last["ended"] == "open" and last["leader"] is not None and last["leader"] >= 0:
            whole = last["replicas"] is None or set(last["replicas"]) <= set(last["isr"])
            short += [] if whole else [name_of(last)]
    return Growth(sorted(moments), sorted(short))


def _each_partition(case: Case, partitions: Collection[str], begin: int) -> Iterator[Sequence[Row]]:
    """Read the versions of each partition that held at that moment or later, in their order."""
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    chosen = (
        row
        for row in case.each("isr", where, _COLUMNS)
        if (row["ended_at"] is None or row["ended_at"] >= begin) and name_of(row) in partitions
    )
    for _, rows in groupby(chosen, name_of):
        yield list(rows)
