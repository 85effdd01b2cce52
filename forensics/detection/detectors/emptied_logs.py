"""Brokers that came back without the records they had: a disk that was replaced, or emptied.

A broker that was in sync before it went away, and creates the log of the partition anew when it
comes back, has lost it. The last replica stays in the ISR, so it is elected again, and cleanly; if
its log is empty then, all older records are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    MAX_QUOTED_PARTITIONS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
    partition_name,
)
from forensics.detection.requirements import LogRequirements
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding, PartitionLoss

NAME = "emptied-logs"
NEEDS = LogRequirements(("broker",), ("server",))
_ISR = ("topic", "partition", "incarnation", "leader_epoch", "partition_epoch", "isr", "started_at")
_LEADING = (*EVIDENCE_COLUMNS, "topic", "partition", "leader_epoch", "log_end", "isr")
_OFFSETS = ("log_end", "high_watermark", "position")
# What says where a log begins: it was new, or older records were deleted, as retention does.
_BEGINS = ("log_created", "log_start_moved")
_Partition = tuple[str, int]
# A process that went on has its files still: what it creates as it wakes was made meanwhile.
_WENT_ON = ("pause", "isolated", "fenced")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time that a broker came back without its logs."""
    if not context.visibility.has_kinds("log_created"):
        return
    for absence, created in _read_created(context):
        emptied = _keep_known(context, absence, created)
        if emptied:
            yield _finding(context, absence, emptied)


def _read_created(context: DetectionContext) -> list[tuple[Absence, dict[_Partition, Row]]]:
    """Read which logs brokers created as they came back, by their absences."""
    wait = context.limits[NAME]["wait"] * SECOND
    found: dict[tuple[int, int], tuple[Absence, dict[_Partition, Row]]] = {}
    where = (pc.field("kind") == "log_created") & pc.field("ts").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, "topic", "partition"]):
        broker = broker_id(row["node"])
        for absence in (
            () if broker is None else context.absences_around(broker, row["at"] - wait, row["at"])
        ):
            start = context.next_start(absence.broker, absence.begin)
            is_new = absence.kind not in _WENT_ON and start is not None and start <= row["at"]
            if is_new and absence.end is not None and row["at"] <= absence.end + wait:
                key = absence.broker, absence.begin
                found.setdefault(key, (absence, {}))[1][row["topic"], row["partition"]] = row
    return [found[key] for key in sorted(found, key=lambda one: (one[1], one[0]))]


def _keep_known(
    context: DetectionContext, absence: Absence, created: Mapping[_Partition, Row]
) -> dict[_Partition, Row]:
    """Keep the logs of which the broker held an older one: it was in sync as it went away.

    A broker that goes just as a topic is made is in the ISR of partitions that it never heard of.
    """
    held = _read_held(context, absence, created)
    settled = absence.begin - context.limits[NAME]["settled"] * SECOND
    last: dict[_Partition, tuple[tuple[Any, ...], bool]] = {}
    made: dict[_Partition, int] = {}
    where = _is_one_of(created) & pc.field("started_at").is_valid()
    for row in context.each("isr", where, _ISR):
        partition = row["topic"], row["partition"]
        if partition not in created:
            continue
        if row["started_at"] <= created[partition]["at"]:
            made[partition] = max(made.get(partition, 0), row["incarnation"] or 0)
        order = (row["incarnation"] or 0, row["leader_epoch"] or 0, row["partition_epoch"] or 0)
        is_old = row["started_at"] < settled or partition in held
        if (
            is_old
            and row["started_at"] < absence.begin
            and order > last.get(partition, ((), False))[0]
        ):
            last[partition] = order, absence.broker in (row["isr"] or ())
    return {
        partition: row
        for partition, row in created.items()
        if partition in last and last[partition][1] and last[partition][0][0] == made[partition]
    }


def _read_held(
    context: DetectionContext, absence: Absence, created: Collection[_Partition]
) -> set[_Partition]:
    """Return the partitions whose log the broker itself told of before it went away."""
    kinds = ["log_created", "log_loaded", "high_watermark_loaded", "truncated"]
    where = pc.field("kind").isin(kinds) & pc.field("ts").is_valid() & _is_one_of(created)
    where &= pc.field("node") == broker_node(absence.broker)
    rows = context.each("events", where, [*EVIDENCE_COLUMNS, "topic", "partition"])
    return {(row["topic"], row["partition"]) for row in rows if row["at"] < absence.begin}


def _finding(
    context: DetectionContext, absence: Absence, emptied: Mapping[_Partition, Row]
) -> Finding:
    broker, limits = absence.broker, context.limits[NAME]
    rows = sorted(emptied.values(), key=by_time)
    losses, lines = _find_losses(context, broker, emptied)
    least = sum(loss.lost_records_min for loss in losses)
    names = sorted(loss.partition for loss in losses)
    title = f"Broker {broker} came back without its logs of {quantity(len(rows), 'partition')}"
    if losses:
        which = quantity(len(names), "partition")
        gone = f"at least {quantity(least, 'record')} of {which} gone"
        title += f"; {gone if least else f'whatever {which} held before is gone'}"
    return context.finding(
        NAME,
        limits["lost" if least else "unknown" if losses else "copied"],
        title,
        absence.begin,
        rows[-1]["at"],
        [*lines, *rows[:MAX_QUOTED_PARTITIONS]],
        brokers=[broker],
        partitions=names or [partition_name(row) for row in rows],
        losses=losses,
        measures={
            "broker": broker,
            "created": len(rows),
            "lost": len(losses),
            "records_min": least,
        },
        explanation=_EXPLANATION.format(broker=broker) + (_LOST if losses else _COPIED),
        actions=[
            _LOOK.format(broker=broker),
            f"{context.commands.under_replicated()}   # are its replicas in sync again?",
            *([_SEND] if losses else []),
            "Give topics that matter three replicas: nothing else keeps records when a disk goes.",
        ],
        why=f"broker {broker} was in sync before, and created these logs within {limits['wait']} s"
        " of its return",
        doubts=["Replicas that were moved away and back while the broker was down look the same."],
    )


def _find_losses(
    context: DetectionContext, broker: int, emptied: Mapping[_Partition, Row]
) -> tuple[list[PartitionLoss], list[Row]]:
    """Find the partitions that the broker led next with an empty log, and what they had held."""
    led: dict[_Partition, Row] = {}
    where = (pc.field("kind") == "partition_state") & (pc.field("leader") == broker)
    where &= pc.field("log_end").is_valid() & pc.field("ts").is_valid() & _is_one_of(emptied)
    for row in context.each("events", where, _LEADING):
        partition = row["topic"], row["partition"]
        own = partition in emptied and broker_id(row["node"]) == broker
        if own and row["at"] >= emptied[partition]["at"]:
            known = led.get(partition)
            if known is None or by_time(row) < by_time(known):
                led[partition] = row
    # Where others are in sync, too, they hold the records.
    empty = {
        partition: row
        for partition, row in led.items()
        if row["log_end"] == 0 and row["isr"] == [broker]
    }
    seen = _read_held_records(context, empty, emptied) if empty else {}
    losses = [
        PartitionLoss(
            partition=partition_name(row),
            leader_epoch=row["leader_epoch"],
            leader=broker,
            previous_leader=broker,
            lost_from=0,
            lost_records_min=seen[partition][0] if partition in seen else 0,
            note="no line says where the log that was there before ended",
            acknowledged_min=seen[partition][0] if partition in seen else None,
        )
        for partition, row in sorted(empty.items())
    ]
    shown = [row for _, row in sorted(empty.items())]
    lines = [*(row for _, row in seen.values()), *shown]
    return losses, lines[: 2 * MAX_QUOTED_PARTITIONS]


def _read_held_records(
    context: DetectionContext, empty: Collection[_Partition], emptied: Mapping[_Partition, Row]
) -> dict[_Partition, tuple[int, Row]]:
    """Return how many records each log is known to have held at least, and the line.

    A consumer that finds the log cut back says where it had read to. That is only a number of
    records where it is also known where the log began: retention may have deleted all before.
    """
    ends: dict[_Partition, tuple[int, Row]] = {}
    begins: dict[_Partition, int] = {}
    columns = [*EVIDENCE_COLUMNS, "kind", "topic", "partition", *_OFFSETS]
    for row in context.each("events", _is_one_of(empty) & pc.field("ts").is_valid(), columns):
        partition = row["topic"], row["partition"]
        if partition not in empty:
            continue
        is_old = row["at"] < emptied[partition]["at"]
        is_own = row["node"] == emptied[partition]["node"]
        if is_old and is_own and row["kind"] in _BEGINS:
            begins[partition] = max(begins.get(partition, 0), row["position"] or 0)
        elif is_old or row["kind"] == "consumer_saw_truncation":
            highest = max(((row[name] or 0) for name in _OFFSETS), default=0)
            if highest > ends.get(partition, (0, row))[0]:
                ends[partition] = highest, row
    return {
        partition: (end - begins[partition], row)
        for partition, (end, row) in ends.items()
        if partition in begins and end > begins[partition]
    }


def _is_one_of(partitions: Collection[_Partition]) -> pc.Expression:
    return in_topics({topic for topic, _ in partitions})


_EXPLANATION = (
    "Broker {broker} held these logs, was in sync, and had to create them when it came back: their "
    "files were gone. "
)
_LOST = (
    "Where it was the only replica in sync it leads again all the same, with an empty log; Kafka "
    "calls that a clean election. Every older record of these partitions is gone."
)
_COPIED = "The other replicas had the records, and it copied them."
_LOOK = (
    "Find out whether the disk of broker {broker} was replaced, not mounted, or emptied; if its "
    "old files are somewhere, keep them: they hold what is gone."
)
_SEND = (
    "Have the producers of these partitions send again what they wrote, and reset their consumers: "
    "the logs begin anew at offset 0."
)
