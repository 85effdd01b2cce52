"""Brokers that came back without the records they had: a disk that was replaced, or emptied.

A broker that was in sync before it went away, and creates the log of the partition anew when it
comes back, has lost it. The last replica stays in the ISR, so it is elected again, and cleanly; if
its log is empty then, all older records are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from forensics.lib.node_ids import broker_id
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
# An absence, and lines of the logs that the broker created as it came back.
_Return = tuple[Absence, dict[_Partition, Row]]
# A process that went on has its files still: what it creates as it wakes was made meanwhile.
_WENT_ON = ("pause", "isolated", "fenced")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time that a broker came back without its logs."""
    if not context.visibility.has_kinds("log_created"):
        return
    returns = _keep_known(context, _read_created(context))
    losses = _find_losses(context, returns)
    for number, (absence, emptied) in enumerate(returns):
        yield _finding(context, absence, emptied, *losses[number])


def _read_created(context: DetectionContext) -> list[_Return]:
    """Read which logs brokers created as they came back, by their absences."""
    wait = context.limits[NAME]["wait"] * SECOND
    found: dict[tuple[int, int], _Return] = {}
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


def _keep_known(context: DetectionContext, returns: Sequence[_Return]) -> list[_Return]:
    """Keep the logs of which the broker held an older one: it was in sync as it went away.

    A broker that goes just as a topic is made is in the ISR of partitions that it never heard of.
    All returns are looked at in one pass: there may be hundreds.
    """
    asked = _by_partition(returns)
    held = _read_held(context, asked)
    settled = context.limits[NAME]["settled"] * SECOND
    last: list[dict[_Partition, tuple[tuple[Any, ...], bool]]] = [{} for _ in returns]
    made: list[dict[_Partition, int]] = [{} for _ in returns]
    where = in_topics(topic for topic, _ in asked) & pc.field("started_at").is_valid()
    for row in context.each("isr", where, _ISR) if asked else ():
        partition, began = (row["topic"], row["partition"]), row["started_at"]
        order = (row["incarnation"] or 0, row["leader_epoch"] or 0, row["partition_epoch"] or 0)
        for number in asked.get(partition, ()):
            absence, created = returns[number]
            if began <= created[partition]["at"]:
                made[number][partition] = max(made[number].get(partition, 0), order[0])
            first_told = held.get((absence.broker, partition), absence.begin)
            is_old = began < absence.begin - settled or first_told < absence.begin
            newest = last[number].get(partition, ((), False))[0]
            if is_old and began < absence.begin and order > newest:
                last[number][partition] = order, absence.broker in (row["isr"] or ())
    kept = []
    for (absence, created), orders, incarnations in zip(returns, last, made, strict=True):
        emptied = {
            partition: row
            for partition, row in created.items()
            if partition in orders
            and orders[partition][1]
            and orders[partition][0][0] == incarnations[partition]
        }
        if emptied:
            kept.append((absence, emptied))
    return kept


def _read_held(
    context: DetectionContext, asked: Collection[_Partition]
) -> dict[tuple[int, _Partition], int]:
    """Return when a broker first told of its log of each partition."""
    kinds = ["log_created", "log_loaded", "high_watermark_loaded", "truncated"]
    where = pc.field("kind").isin(kinds) & pc.field("ts").is_valid()
    where &= in_topics(topic for topic, _ in asked)
    first: dict[tuple[int, _Partition], int] = {}
    columns = ["ts", "node", "file", "topic", "partition"]
    for row in context.each("events", where, columns) if asked else ():
        broker, partition = broker_id(row["node"]), (row["topic"], row["partition"])
        if broker is not None and partition in asked:
            key = broker, partition
            first[key] = min(row["at"], first.get(key, row["at"]))
    return first


def _finding(
    context: DetectionContext,
    absence: Absence,
    emptied: Mapping[_Partition, Row],
    losses: Sequence[PartitionLoss],
    lines: Sequence[Row],
) -> Finding:
    broker, limits = absence.broker, context.limits[NAME]
    rows = sorted(emptied.values(), key=by_time)
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
    context: DetectionContext, returns: Sequence[_Return]
) -> list[tuple[list[PartitionLoss], list[Row]]]:
    """Find the partitions that each broker led next with an empty log, and what they had held."""
    asked = _by_partition(returns)
    led: list[dict[_Partition, Row]] = [{} for _ in returns]
    where = (pc.field("kind") == "partition_state") & pc.field("log_end").is_valid()
    where &= pc.field("ts").is_valid() & in_topics(topic for topic, _ in asked)
    for row in context.each("events", where, [*_LEADING, "leader"]) if asked else ():
        partition, broker = (row["topic"], row["partition"]), broker_id(row["node"])
        for number in asked.get(partition, ()) if broker == row["leader"] else ():
            absence, emptied = returns[number]
            if absence.broker == broker and row["at"] >= emptied[partition]["at"]:
                known = led[number].get(partition)
                if known is None or by_time(row) < by_time(known):
                    led[number][partition] = row
    empty = [
        # Where others are in sync, too, they hold the records.
        {
            partition: row
            for partition, row in leads.items()
            if row["log_end"] == 0 and row["isr"] == [absence.broker]
        }
        for leads, (absence, _) in zip(led, returns, strict=True)
    ]
    held = _read_held_records(context, empty, returns)
    return [
        (
            [_loss(row, seen.get(partition)) for partition, row in sorted(rows.items())],
            [*(row for _, row in seen.values()), *(row for _, row in sorted(rows.items()))][
                : 2 * MAX_QUOTED_PARTITIONS
            ],
        )
        for rows, seen in zip(empty, held, strict=True)
    ]


def _loss(row: Row, seen: tuple[int, Row] | None) -> PartitionLoss:
    return PartitionLoss(
        partition=partition_name(row),
        leader_epoch=row["leader_epoch"],
        leader=row["leader"],
        previous_leader=row["leader"],
        lost_from=0,
        lost_records_min=seen[0] if seen else 0,
        note="no line says where the log that was there before ended",
        acknowledged_min=seen[0] if seen else None,
    )


def _read_held_records(
    context: DetectionContext,
    empty: Sequence[Mapping[_Partition, Row]],
    returns: Sequence[_Return],
) -> list[dict[_Partition, tuple[int, Row]]]:
    """Return how many records each log is known to have held at least, and the line, by return.

    A consumer that finds the log cut back says where it had read to. That is only a number of
    records where it is also known where the log began: retention may have deleted all before.
    """
    ends: list[dict[_Partition, tuple[int, Row]]] = [{} for _ in returns]
    begins: list[dict[_Partition, int]] = [{} for _ in returns]
    asked = _by_partition(
        [(absence, rows) for (absence, _), rows in zip(returns, empty, strict=True)]
    )
    where = in_topics(topic for topic, _ in asked) & pc.field("ts").is_valid()
    columns = [*EVIDENCE_COLUMNS, "kind", "topic", "partition", *_OFFSETS]
    for row in context.each("events", where, columns) if asked else ():
        partition = row["topic"], row["partition"]
        for number in asked.get(partition, ()):
            created = returns[number][1][partition]
            is_old = row["at"] < created["at"]
            if is_old and row["node"] == created["node"] and row["kind"] in _BEGINS:
                known = begins[number].get(partition, 0)
                begins[number][partition] = max(known, row["position"] or 0)
            elif is_old or row["kind"] == "consumer_saw_truncation":
                highest = max(((row[name] or 0) for name in _OFFSETS), default=0)
                if highest > ends[number].get(partition, (0, row))[0]:
                    ends[number][partition] = highest, row
    return [
        {
            partition: (end - began[partition], row)
            for partition, (end, row) in ended.items()
            if partition in began and end > began[partition]
        }
        for ended, began in zip(ends, begins, strict=True)
    ]


def _by_partition(
    returns: Sequence[tuple[Absence, Collection[_Partition]]],
) -> dict[_Partition, list[int]]:
    """List, for each partition, the returns that concern it, by their numbers."""
    asked: dict[_Partition, list[int]] = defaultdict(list)
    for number, (_, partitions) in enumerate(returns):
        for partition in partitions:
            asked[partition].append(number)
    return dict(asked)


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
