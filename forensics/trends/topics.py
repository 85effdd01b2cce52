"""Which topics a window names, and which of them its logs say were made or deleted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.report.saved import Saved
from forensics.trends.covering import Span

__all__ = ["named", "turns"]

# A summary is no catalogue; beyond that topics are counted.
KEPT_TOPICS, TURNS = 2000, 200
_TURNS = {"topic_created": "created", "topic_deleted": "deleted"}


def named(saved: Saved, window: Span) -> dict[str, Any]:
    """Count the partitions of each topic whose leader is known at some time of the window."""
    begun, over = ds.field("started_at"), ds.field("ended_at")
    where = (begun < _at(window[1])) & (over.is_null() | (over >= _at(window[0])))
    keys = ["topic", "partition"]
    known = pa.table({"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32())})
    for part in saved.parts("leadership", keys, where):
        known = pa.concat_tables([known, part.group_by(keys).aggregate([])])
    names = known.group_by(keys).aggregate([])["topic"].to_pylist()
    counted = sorted(Counter(names).items())
    return {
        "partitions": dict(counted[:KEPT_TOPICS]),
        "topics": len(counted),
        "all_partitions": len(names),
    }


def turns(saved: Saved, window: Span) -> dict[str, list[str]]:
    """Name the topics that some line of the window says were created or deleted."""
    moment = ds.field("ts")
    where = ds.field("kind").isin(sorted(_TURNS)) & ds.field("telling").is_null()
    where &= (moment >= _at(window[0])) & (moment < _at(window[1]))
    found: dict[str, set[str]] = {word: set() for word in _TURNS.values()}
    if "telling" in saved.columns("events"):
        for row in saved.rows("events", ["kind", "topic"], where):
            if row["topic"]:
                found[_TURNS[row["kind"]]].add(row["topic"])
    return {word: sorted(names)[:TURNS] for word, names in found.items()}


def _at(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, pa.timestamp("us", tz="UTC"))
