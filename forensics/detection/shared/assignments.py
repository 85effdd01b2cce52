"""The replicas of each partition, as lines told them last: of its leader, or of its creation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, once_per_run
from forensics.lib.whole_numbers import whole_number

_KEYS = ["topic", "partition"]
# ZooKeeper brokers log the replicas of a topic as it is made or grows, and never again.
_CREATED = ("topic_created", "partitions_added")
_ASSIGNED = re.compile(r"(\d+) -> \w+\((?:replicas=)?(\d[\d, ]*)")
Assignments = Mapping[tuple[str, int], Sequence[int]]


@once_per_run
def read_assignments(context: DetectionContext) -> Assignments:
    """Read the last replicas that are known of every partition."""
    found: dict[tuple[str, int], Sequence[int]] = {}
    # The same texts and lists over and over would be most of what a wide cluster's take.
    known: dict[Any, Any] = {}
    columns = ["topic", "detail", "ts", "node"]
    where = pc.field("kind").isin(list(_CREATED)) & pc.field("ts").is_valid()
    for row in sorted(context.each("events", where, columns), key=lambda row: int(row["at"])):
        for partition, replicas in _ASSIGNED.findall(row["detail"] or ""):
            numbers = [whole_number(one) for one in (partition, *re.findall(r"\d+", replicas))]
            if None not in numbers:
                number, *brokers = (one or 0 for one in numbers)
                found[row["topic"], number] = tuple(brokers)
    # In columns: the table may be long.
    valid = pc.field("replicas").is_valid()
    for batch in context.batches("leadership", valid, [*_KEYS, "replicas"]):
        table = pa.Table.from_batches([batch])
        index = pa.array(range(len(batch)), pa.int64())
        last = table.append_column("row", index).group_by(_KEYS).aggregate([("row", "max")])
        for row in table.take(last["row_max"]).to_pylist():
            topic, replicas = row["topic"], tuple(row["replicas"])
            key = known.setdefault(topic, topic), row["partition"]
            found[key] = known.setdefault(replicas, replicas)
    return found


def replicas_of(assignments: Assignments, row: Mapping[str, Any]) -> Sequence[int]:
    """Return the replicas of a partition as its row tells them, or as they were told last."""
    return row["replicas"] or assignments.get((row["topic"], row["partition"]), ())
