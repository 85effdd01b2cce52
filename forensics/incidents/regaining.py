"""How ISRs became whole again after followers were dropped from them, as tables/isr tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of

__all__ = ["Growth", "growth"]

_RECOVERY_COLUMNS = ("topic", "partition", "isr", "replicas", "leader", "started_at", "ended_at", "ended")


@dataclass(frozen=True)
class Growth:
    """What became of the ISRs of some partitions after a run of drops."""

    # how often one of them grew, from the first drop to the moment when all that came back were
    expands: int
    back: int
    # the partitions that are short of a replica to the very end
    short: Sequence[str]


def growth(case: Case, partitions: Collection[str], begin: int, end: int) -> Growth:
    """Follow the ISRs of some partitions from the begin of a run, to when they are whole."""
    moments: list[int] = []
    short: list[str] = []
    back = end
    for rows in _each_partition(case, partitions, begin):
        known = [row for row in rows if row["isr"] is not None]
        if not known:
            continue
        moments += [
            after["started_at"]
            for before, after in pairwise(known)
            if set(after["isr"]) - set(before["isr"]) and (after["started_at"] or 0) >= begin
        ]
        wanted, seen = _wanted(known)
        whole = (row for row in known if wanted <= set(row["isr"]) and _holds(row, end))
        first = next(whole, None)
        if first is not None and seen:
            back = max(back, first["started_at"] or 0)
        elif first is None and known[-1]["ended"] == "open" and known[-1]["leader"] != -1:
            # A cluster that is shut down leaves its partitions without a leader.
            short.append(name_of(known[-1]))
    return Growth(sum(one <= back for one in moments), back, sorted(short))


def _wanted(known: Sequence[Row]) -> tuple[set[int], bool]:
    """Give the replicas that a whole ISR has, and whether that is more than a guess.

    Where no line tells the replicas, they are those that were in sync at any time: if that never
    changed, nothing can be said.
    """
    told = next((row["replicas"] for row in reversed(known) if row["replicas"]), None)
    if told:
        return set(told), True
    every = {one for row in known for one in row["isr"]}
    return every, any(set(row["isr"]) < every for row in known)


def _holds(row: Row, moment: int) -> bool:
    return row["ended_at"] is None or row["ended_at"] > moment


def _each_partition(case: Case, partitions: Collection[str], begin: int) -> Iterator[Sequence[Row]]:
    """Read the versions of each partition that held at that moment or later, in their order."""
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    chosen = (
        row
        for row in case.each("isr", where, _RECOVERY_COLUMNS)
        if _holds(row, begin) and name_of(row) in partitions
    )
    for _, rows in groupby(chosen, name_of):
        yield list(rows)
