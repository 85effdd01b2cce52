"""What Kafka's tools printed of partitions: against the history, or as it is if no time is told.

A description contradicts the history only if its moment is told with its zone, and if the history
has one observed state from well before to well after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, in_topics, partition_name
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_iso
from forensics.run_output.findings import Finding

NAME = "described-state"
_SHOWN = 10
_COLUMNS = ("topic", "partition", "leader", "isr", "started_at", "ended_at", "how", "evidence")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield what contradicts the history, and of each file what cannot be dated."""
    if not context.visibility.has_kinds("partition_described"):
        return
    described = context.rows("events", pc.field("kind") == "partition_described")
    pairs = list(_contradictions(context, [row for row in described if "at" in row]))
    if pairs:
        yield _contradiction(context, pairs)
    undated: dict[str, list[Row]] = defaultdict(list)
    for row in described:
        if "at" not in row and (row["leader"] == -1 or len(row["isr"]) < len(row["replicas"])):
            undated[row["file"]].append(row)
    for file in sorted(undated):
        yield _undated(context, file, undated[file])


def _contradictions(
    context: DetectionContext, described: Sequence[Row]
) -> Iterator[tuple[Row, Row]]:
    """Yield each description with the state that it contradicts."""
    slack = context.limits[NAME]["slack"] * SECOND
    by_partition: dict[str, list[Row]] = defaultdict(list)
    for row in described:
        by_partition[partition_name(row)].append(row)
    if not by_partition:
        return
    where = in_topics({row["topic"] for row in described}) & (pc.field("how") == "observed")
    for held in context.each("isr", where, _COLUMNS):
        end = held["ended_at"]
        for row in by_partition.get(partition_name(held), ()):
            is_sure = end is not None and held["started_at"] is not None
            if (
                is_sure
                and held["started_at"] + slack <= row["at"] <= end - slack
                and _differs(row, held)
            ):
                yield row, held


def _differs(row: Row, held: Mapping[str, object]) -> bool:
    leader, isr = held["leader"], held["isr"]
    other_leader = leader is not None and leader != row["leader"]
    return other_leader or (isinstance(isr, list) and sorted(row["isr"]) != sorted(isr))


def _contradiction(context: DetectionContext, pairs: Sequence[tuple[Row, Row]]) -> Finding:
    names = sorted({partition_name(row) for row, _ in pairs})
    row, held = pairs[0]
    lines = context.read_lines(one for _, state in pairs[:_SHOWN] for one in state["evidence"])
    moments = [row["at"] for row, _ in pairs]
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"A description of topics contradicts the logs on {quantity(len(names), 'partition')}",
        min(moments),
        max(moments),
        [*(one for one, _ in pairs[:_SHOWN]), *lines],
        stated=False,
        partitions=names,
        measures={"partitions": len(names)},
        explanation=f"At {to_iso(row['at'])} the tool printed leader {row['leader']} and ISR "
        f"{row['isr']} for {names[0]}; by the logs it was led by {held['leader']} with ISR "
        f"{held['isr']} from {to_iso(held['started_at'])} to {to_iso(held['ended_at'])}. {_MEANS}",
        actions=[_LOOK],
        why=f"one state lasts {context.limits[NAME]['slack']} s and more on both sides of it",
        doubts=["The clock of the machine that ran the tool may be off."],
    )


def _undated(context: DetectionContext, file: str, rows: Sequence[Row]) -> Finding:
    lost = [row for row in rows if row["leader"] == -1]
    names = sorted({partition_name(row) for row in rows})
    at = context.logs_end
    return context.finding(
        NAME,
        context.limits[NAME]["shown"],
        f"{file} shows {quantity(len(lost), 'partition')} without a leader and "
        f"{quantity(len(rows) - len(lost), 'partition')} with replicas out of sync, at a time that "
        "is not told",
        at,
        at,
        rows[:_SHOWN],
        partitions=names,
        measures={"without_leader": len(lost), "out_of_sync": len(rows) - len(lost)},
        explanation="It is what a tool printed, at a moment that stands neither in the file nor in "
        "its name, so it is set against no history.",
        actions=["Save descriptions with their time: date -u before kafka-topics --describe."],
        why="partitions whose leader is none or whose ISR lacks replicas",
    )


_MEANS = (
    "Either the tool spoke to another cluster or from stale metadata, or the logs lack a change."
)
_LOOK = "Compare the cluster ids, and collect state-change.log and controller.log of that time."
