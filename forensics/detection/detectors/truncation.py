"""Records truncated after a clean failover: what producers with acks=1 lose.

A leader in sync has every committed record, but not the last ones that only the leader before it
had. Kafka cuts them when that one comes back to follow; as long as it does not, they lie there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import (
    DetectionContext,
    Row,
    group_by_gap,
    in_topics,
    partition_name,
)
from forensics.detection.shared.client_settings import knows_acks, topics_without_acks
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.text_format import brokers_text, quantity
from forensics.lib.time_units import to_iso
from forensics.run_output.findings import Finding, PartitionLoss, total_loss

NAME = "truncation"
_SHOWN = 20
# After these a broker writes nothing more.
_ENDED = ("crash", "controlled", "gone")
_CLEAN = (True, None)
_END_COLUMNS = (
    "topic", "partition", "node", "ts", "file", "line", "leader_epoch", "log_end", "high_watermark",
)  # fmt: skip
_CUT_COLUMNS = (
    "topic", "partition", "broker", "started_at", "leader_epoch", "cut_to", "log_end",
)  # fmt: skip
_LEADER_COLUMNS = (
    "topic", "partition", "incarnation", "leader_epoch", "leader", "log_end", "clean", "evidence",
)  # fmt: skip
_OF_QUORUM = ["__cluster_metadata", "@metadata"]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for truncations that follow each other and no unclean leader explains."""
    limits = context.limits[NAME]
    clean = pc.field("unclean").is_null() | (pc.field("unclean") == False)  # noqa: E712
    # What a quorum cuts off its own log was never committed, and no producer wrote it.
    clean &= ~pc.field("topic").isin(_OF_QUORUM)
    unread = context.count_beyond("cuts", limits["most"], clean)
    rows = context.first_rows("cuts", limits["most"], clean)
    context.look_up(place for row in rows for place in row["evidence"])
    for group in group_by_gap(rows, limits["stroke"]):
        losses = [(_loss(context, cuts), cuts) for cuts in _by_epoch(group)]
        for is_deep in (True, False):
            part = [one for one in losses if bool(one[0].below_high_watermark) is is_deep]
            if part:
                yield _finding(context, part, unread, is_deep=is_deep)
    yield from _left_behind(context)


def _left_behind(context: DetectionContext) -> Iterator[Finding]:
    """Yield a finding for each broker that is not back and has the last records of a log."""
    gone = {one.broker: one for one in context.absences if one.end is None and one.kind in _ENDED}
    last = _last_log_ends(context, gone)
    cuts = _drop_truncated(context, last)
    found: dict[int, list[_Left]] = defaultdict(list)
    for leaders in _next_leaders(context, last):
        left = next(filter(None, (_left_by(leader, last, gone, cuts) for leader in leaders)), None)
        if left is not None:
            found[left.broker].append(left)
    for broker, some in sorted(found.items()):
        yield _left_finding(context, gone[broker], some)


@dataclass(frozen=True)
class _Left:
    """Records of one partition that its next leader did not have, and who had most of them."""

    leader: Row
    own: Row
    broker: int
    holders: Sequence[int]
    lost_from: int


def _last_log_ends(
    context: DetectionContext, gone: Collection[int]
) -> dict[tuple[str, int, int], Row]:
    """Return the last line of some brokers on how long their log of each partition was."""
    if not gone:
        return {}
    told = (pc.field("kind") == "partition_state") & pc.field("ts").is_valid()
    told &= pc.field("node").isin([broker_node(broker) for broker in gone])
    told &= pc.field("log_end").is_valid() & pc.field("leader_epoch").is_valid()
    told &= ~pc.field("topic").isin(_OF_QUORUM)
    last: dict[tuple[str, int, int], Row] = {}
    for row in context.each("events", told, _END_COLUMNS):
        key = row["topic"], row["partition"], broker_id(row["node"]) or 0
        if key not in last or _order(last[key]) < _order(row):
            last[key] = row
    return last


def _drop_truncated(
    context: DetectionContext, last: dict[tuple[str, int, int], Row]
) -> dict[tuple[str, int], list[Row]]:
    """Drop logs that were cut since, and return the cuts of others: both are told as that."""
    cuts: dict[tuple[str, int], list[Row]] = defaultdict(list)
    if last:
        where = in_topics({topic for topic, _, _ in last})
        for cut in context.each("cuts", where, _CUT_COLUMNS):
            key = cut["topic"], cut["partition"]
            own = last.get((*key, -1 if cut["broker"] is None else cut["broker"]))
            if own is not None and cut["started_at"] >= own["at"]:
                del last[*key, cut["broker"]]
            cuts[key].append(cut)
    return cuts


def _order(row: Row) -> tuple[Any, ...]:
    return row["leader_epoch"], row["at"], row["line"]


def _next_leaders(
    context: DetectionContext, last: Collection[tuple[str, int, int]]
) -> Iterator[list[Row]]:
    """Yield the leaders of each partition, in order, if none of them is known to be unclean."""
    partitions = {(topic, partition) for topic, partition, _ in last}
    if not partitions:
        return
    rows: dict[tuple[str, int], list[Row]] = defaultdict(list)
    where = in_topics({topic for topic, _ in partitions})
    for row in context.each("leadership", where, _LEADER_COLUMNS):
        if (row["topic"], row["partition"]) in partitions:
            rows[row["topic"], row["partition"]].append(row)
    for key in sorted(rows):
        own = sorted(rows[key], key=lambda row: row["leader_epoch"])
        # A topic that was made again begins anew, and unclean leaders have a finding of their own.
        if len({row["incarnation"] for row in own}) == 1 and all(
            row["clean"] in _CLEAN for row in own
        ):
            yield own


def _left_by(
    leader: Row,
    last: Mapping[tuple[str, int, int], Row],
    gone: Collection[int],
    cuts: Mapping[tuple[str, int], Sequence[Row]],
) -> _Left | None:
    """Return what a leader did not have of the logs of some brokers; None if it had all."""
    key, kept = (leader["topic"], leader["partition"]), leader["log_end"]
    logs = ((broker, last.get((*key, broker))) for broker in sorted(gone))
    owns = {
        broker: own
        for broker, own in logs
        if own is not None
        and kept is not None
        and leader["leader"] != broker
        and leader["leader_epoch"] > own["leader_epoch"]
        # Below the high watermark it is another story: of a leader whose log was emptied.
        and (own["high_watermark"] or 0) <= kept < own["log_end"]
    }
    if not owns:
        return None
    broker = max(owns, key=lambda one: (owns[one]["log_end"], -one))
    own = owns[broker]
    # What others truncated of the same records is counted there.
    told = (
        cut["log_end"] or 0
        for cut in cuts.get(key, ())
        if (cut["leader_epoch"] or 0) > own["leader_epoch"] and cut["cut_to"] <= kept
    )
    lost_from = max([kept, *told])
    return _Left(leader, own, broker, [*owns], lost_from) if lost_from < own["log_end"] else None


def _left_loss(context: DetectionContext, left: _Left) -> PartitionLoss:
    leader, count = left.leader, left.own["log_end"] - left.lost_from
    have = "has" if len(left.holders) == 1 else "have"
    return PartitionLoss(
        partition=partition_name(leader),
        leader_epoch=leader["leader_epoch"],
        leader=leader["leader"],
        cut_on=[],
        lost_from=left.lost_from,
        lost_to=left.own["log_end"],
        lost_records_min=count,
        lost_records_max=count,
        below_high_watermark=0,
        written_to=to_iso(left.own["at"]),
        check=context.commands.leader_epochs(
            leader["topic"], leader["partition"], leader["leader_epoch"], leader["leader"]
        ),
        note=f"not yet: only {brokers_text(left.holders)} {have} them, not back in these logs",
    )


def _left_finding(context: DetectionContext, absence: Absence, found: Sequence[_Left]) -> Finding:
    losses = [_left_loss(context, left) for left in found]
    limits, broker = context.limits[NAME], absence.broker
    places: list[Mapping[str, Any]] = []
    for left in found[:_SHOWN]:
        places += [left.own, *left.leader["evidence"]]
    weak = set().union(*topics_without_acks(context).values())
    exposed = sorted({left.leader["topic"] for left in found} & weak)
    number, _ = total_loss(losses)
    on = quantity(len(losses), "partition")
    return context.finding(
        NAME,
        limits["acknowledged" if exposed else "uncommitted"],
        f"{quantity(number, 'record')} on {on} left on broker {broker}, which is not back",
        min(left.own["at"] for left in found),
        context.logs_end,
        context.read_lines(places),
        brokers=sorted({broker, *(loss.leader for loss in losses if loss.leader is not None)}),
        partitions=sorted(loss.partition for loss in losses),
        losses=losses,
        measures={
            "lost_records_min": number,
            "lost_records_max": number,
            "acks_one": exposed,
            "acks_known": knows_acks(context) and not topics_without_acks(context),
        },
        explanation=_LEFT.format(broker=broker)
        + (_LEFT_EXPOSED.format(", ".join(exposed)) if exposed else _LEFT_PLAIN),
        actions=[
            _COPY.format(broker=broker, name=losses[0].partition),
            losses[0].check,
        ],
        why=f"on {on} the next leader's log ended before that of broker {broker}",
        doubts=_DOUBTS[:1],
    )


def _by_epoch(group: Sequence[Row]) -> Iterator[list[Row]]:
    """Group the cuts of one partition by one leader: the same records, on each replica."""
    cuts: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in group:
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        cuts[row["topic"], row["partition"], epoch].append(row)
    yield from (cuts[key] for key in sorted(cuts))


def _loss(context: DetectionContext, rows: list[Row]) -> PartitionLoss:
    lost_from = min(row["cut_to"] for row in rows)
    ends = [row["log_end"] for row in rows if row["log_end"] is not None]
    deepest = max((row["high_watermark"] or 0) - row["cut_to"] for row in rows)
    written = [row["written_from"] for row in rows if row["written_from"] is not None]
    # Every replica with the last record had it by then; the earliest of these times bounds it best.
    last = max(ends, default=None)
    until = [row["written_to"] for row in rows if row["log_end"] == last and row["written_to"]]
    first = rows[0]
    return PartitionLoss(
        partition=partition_name(first),
        leader_epoch=first["leader_epoch"],
        leader=first["leader"],
        cut_on=sorted({row["broker"] for row in rows if row["broker"] is not None}),
        lost_from=lost_from,
        lost_to=last,
        lost_records_min=max(_certain_loss(row) for row in rows),
        lost_records_max=None if last is None else last - lost_from,
        below_high_watermark=max(0, deepest),
        written_from=to_iso(min(written)) if written else None,
        written_to=to_iso(min(until)) if until else None,
        check=context.commands.leader_epochs(
            first["topic"], first["partition"], first["leader_epoch"], first["leader"]
        ),
        note="" if ends else "no line says where the log ended before it was cut",
    )


def _certain_loss(row: Row) -> int:
    """Return how many records are gone for sure: those beyond all that the new leader had."""
    if row["kept"] is None:
        return 0
    kept = max(row["kept"], row["cut_to"])
    # A log that was cut, and not found too short to be cut, held one more record at least.
    end = row["log_end"] if row["log_end"] is not None else row["cut_to"] + 1
    return int(max(0, end - kept))


def _finding(
    context: DetectionContext,
    part: list[tuple[PartitionLoss, list[Row]]],
    unread: int,
    *,
    is_deep: bool,
) -> Finding:
    losses = [loss for loss, _ in part]
    rows = [row for _, rows in part for row in rows]
    least, most = total_loss(losses)
    limits = context.limits[NAME]
    begin, end = min(row["started_at"] for row in rows), max(row["started_at"] for row in rows)
    is_clean = all(row["unclean"] is False for row in rows)
    brokers = {row["broker"] for row in rows} | {row["leader"] for row in rows}
    evidence = context.read_lines(place for row in rows[:_SHOWN] for place in row["evidence"])
    weak = set().union(*topics_without_acks(context).values())
    exposed = sorted({row["topic"] for row in rows} & weak)
    kind = "committed" if is_deep else "acknowledged" if exposed else "uncommitted"
    told = knows_acks(context)
    plain = _EXPOSED.format(", ".join(exposed)) if exposed else _PLAIN + _ACKS[told]
    return context.finding(
        NAME,
        limits[kind],
        _title(losses, is_deep=is_deep, is_clean=is_clean),
        begin,
        end,
        evidence,
        brokers=sorted(broker for broker in brokers if broker is not None and broker >= 0),
        partitions=sorted({loss.partition for loss in losses}),
        losses=losses,
        measures={
            "lost_records_min": least,
            "lost_records_max": most,
            "cuts_not_looked_at": unread,
            "acks_one": exposed,
            # whether all that producers log says that none of them has acks=1 or 0
            "acks_known": told and (bool(exposed) or not topics_without_acks(context)),
        },
        explanation=(_DEEP if is_deep else plain)
        + ("" if is_clean else _OPEN)
        + (_UNREAD.format(unread) if unread else ""),
        actions=_actions(losses, is_deep=is_deep, is_safe=told and not exposed),
        why=_why(limits, losses, is_deep=is_deep),
        doubts=_DOUBTS_DEEP if is_deep else _DOUBTS,
    )


def _why(limits: Mapping[str, Any], losses: Sequence[PartitionLoss], *, is_deep: bool) -> str:
    deepest = max(loss.below_high_watermark or 0 for loss in losses)
    how = f"up to {deepest:,} records below the high watermark" if is_deep else "nothing committed"
    count = quantity(len({loss.partition for loss in losses}), "partition")
    return f"truncated on {count}, no two more than {limits['stroke']} s apart; {how}"


def _title(losses: Sequence[PartitionLoss], *, is_deep: bool, is_clean: bool) -> str:
    least, most = total_loss(losses)
    count = len({loss.partition for loss in losses})
    where = f"on {quantity(count, 'partition')}"
    if most is None:
        much = f"At least {least:,} records" if least else "An unknown number of records"
    elif least == most:
        much = f"{most:,} record{'' if most == 1 else 's'}"
    else:
        much = f"{least:,} to {most:,} records"
    how = "after a clean failover" if is_clean else "after a leader change"
    deep = "below the high watermark " if is_deep else ""
    return f"{much} truncated {deep}{where} {how}"


_PLAIN = (
    "The new leader was in sync and has every committed record. It did not have these last ones "
    "yet, and the replicas that had them truncated them when they began to follow it. Producers "
    "with acks=all were not told that they were written"
)
_ACKS = {
    True: ", and none with acks=1 or 0 is seen to write to these topics.",
    False: "; those with acks=1 or 0 may have been. Which acks producers use is not in these logs.",
}
_EXPOSED = (
    "The new leader was in sync, but did not have these last records yet, and the replicas that "
    "had them truncated them when they began to follow it. Producers of {} run with acks=1 or 0: "
    "they were told that records were written that are gone."
)
_DEEP = (
    "The log was truncated below its own high watermark: records that were committed and "
    "acknowledged to producers with acks=all; consumers may have read them. No unclean election is "
    "seen here."
)
_LEFT = (
    "The next leader's log ended before that of broker {broker}, so these records are in no log of "
    "a replica that runs. Broker {broker} truncates them when it comes back and follows. "
)
_LEFT_EXPOSED = (
    "Producers of {} run with acks=1 or 0: they were told that these records were written."
)
_LEFT_PLAIN = "None was committed: producers with acks=all were not told that they were written."
_COPY = (
    "Before broker {broker} is started, copy its folder of {name} if these records matter and "
    "their producers have not sent them again."
)
_DOUBTS = (
    "A producer that still held the records and sent them again has lost nothing.",
    "The high watermark of a follower lags behind: some of it may have been committed after all.",
)
_DOUBTS_DEEP = (
    "A log that was emptied or restored from a copy is truncated in the same way.",
    "An unclean election whose lines are missing here explains it too.",
)
_UNREAD = " {:,} further rows of tables/cuts were not looked at, so there may be more than this."
_OPEN = " Not all leaders in between are in the logs, nor whether every election was clean."


def _actions(losses: Sequence[PartitionLoss], *, is_deep: bool, is_safe: bool) -> list[str]:
    # Brokers write internal topics themselves, with acks=all.
    users = [loss for loss in losses if not loss.partition.startswith("__")]
    checks = [(users or losses)[0].check]
    if is_deep:
        return [*checks, "Look whether a disk lost writes, or a log was restored from a copy."]
    if not users:
        return checks
    if is_safe:
        return [*checks, "Nothing to do: producers with acks=all send such records again."]
    topic = users[0].partition.rpartition("-")[0]
    return [*checks, f"Use acks=all in producers of {topic} if it must not lose records."]
