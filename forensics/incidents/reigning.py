"""Who led some partitions, and when: the rows of tables/leadership that a finding is about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of

__all__ = ["reigns_of"]


def reigns_of(
    case: Case, partitions: Collection[str], columns: Sequence[str] = ()
) -> Iterator[Row]:
    """Read the leader epochs of some partitions; `columns` beside leader, begin and end."""
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    always = ["topic", "partition", "leader", "started_at", "ended_at"]
    for row in case.each("leadership", where, list(dict.fromkeys([*always, *columns]))):
        if name_of(row) in partitions:
            yield row
