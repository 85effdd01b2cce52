"""Consumers whose position is gone: they skip records, read them again, or stop.

Positions of consumers that were not there any more: which, why, and how much was skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "offset-reset"
_OUT = "OFFSET_OUT_OF_RANGE"
_RANGE = "position_out_of_range"
_CUT = ("consumer_saw_truncation", "client_truncation_seen")
_MISSING, _RESET, _DEAD = "position_missing", "position_reset", "group_dead"
_BY = ["node", "client", "group", "topic"]
_GATHER = ["kind", "error", "partition", "position", "count"]
_KEPT = 100
# An exception reaches the application at once.
_SOON = 10 * SECOND
_SERVER = ("log_start_moved", "topic_deleted")
_DELETED = "delete records"


@dataclass
class Reset:
    """One client's positions of one topic that were lost, and what it did then."""

    burst: EventSession
    cause: str = "unknown"
    fails: bool = False
    skipped: int = 0
    again: int = 0
    partitions: list[str] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)


def resets(context: DetectionContext) -> list[Reset]:
    """Find them; a new group, which has no position yet, is none."""
    kind = pc.field("kind")
    where = kind.isin([_RANGE, *_CUT]) | (pc.field("error") == _OUT)
    found = find_sessions(context, where, _BY, context.limits[NAME]["gap"], _GATHER)
    every = [_lost(one) for one in _named(found)]
    _follow(context, every)
    every += _forgotten(context)
    _seek(context, every)
    return sorted(every, key=lambda one: (one.burst.begin, repr(one.burst.subject)))


def _named(found: Sequence[EventSession]) -> list[EventSession]:
    """Leave out what an application says, without a topic, of what its consumer says in full."""
    full = [one for one in found if one.subject[3]]
    return [
        one
        for one in found
        if one.subject[3]
        or not any(other.subject[0] == one.subject[0] and _meets(other, one) for other in full)
    ]


def _meets(one: EventSession, other: EventSession) -> bool:
    return one.begin - _SOON <= other.end and other.begin <= one.end + _SOON


def _lost(burst: EventSession) -> Reset:
    one = Reset(burst, partitions=_names(burst), fails=not burst.value_counts["kind"][_RESET])
    if any(burst.value_counts["kind"][kind] for kind in _CUT):
        one.cause = "truncation"
    return one


def _names(burst: EventSession) -> list[str]:
    topic = burst.subject[3]
    return [f"{topic}-{number}" for number in burst.values("partition")] if topic else []


def _follow(context: DetectionContext, every: Sequence[Reset]) -> None:
    """See where consumers went on: a client's reset after it lost its position."""
    mine: dict[tuple[str | None, ...], list[Reset]] = defaultdict(list)
    for one in every:
        mine[one.burst.subject].append(one)
        _measure(one, [row for row in one.burst.first if row["kind"] == _RESET])
    if not mine or not context.visibility.has_kinds(_RESET):
        return
    near = round(context.limits[NAME]["near"] * SECOND)
    nodes = sorted({str(subject[0]) for subject in mine})
    where = (pc.field("kind") == _RESET) & pc.field("node").isin(nodes) & pc.field("ts").is_valid()
    went: dict[int, list[Row]] = defaultdict(list)
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, *_BY, *_GATHER]):
        for one in mine.get(tuple(row[name] for name in _BY), ()):
            if one.burst.begin <= row["at"] <= one.burst.end + near:
                one.fails = False
                went[id(one)] = sorted([*went[id(one)], row], key=by_time)[:_KEPT]
    for one in every:
        if not one.burst.value_counts["error"][_OUT]:
            _measure(one, went[id(one)])
            one.lines += went[id(one)][:5]


def _measure(one: Reset, went: Sequence[Row]) -> None:
    """Count the records between each lost position and where the consumer went on."""
    rows = sorted([*one.burst.first, *went], key=by_time)
    old: dict[int | None, int] = {}
    one.skipped = one.again = 0
    for row in {(row["file"], row["line"], row["partition"]): row for row in rows}.values():
        if row["kind"] == _RESET and row["count"] is not None:
            one.skipped += row["count"]
        elif row["position"] is None:
            continue
        elif row["kind"] != _RESET:
            old[row["partition"]] = row["position"]
        elif row["partition"] in old:
            step = row["position"] - old.pop(row["partition"])
            one.skipped, one.again = one.skipped + max(step, 0), one.again + max(-step, 0)


def _forgotten(context: DetectionContext) -> list[Reset]:
    """Find groups that come back after their offsets were dropped."""
    if not context.visibility.has_kinds(_DEAD) or not context.visibility.has_kinds(_MISSING):
        return []
    dead: dict[str, Row] = {}
    where = (pc.field("kind") == _DEAD) & pc.field("group").is_valid() & pc.field("ts").is_valid()
    for row in context.each("events", where, [*EVIDENCE_COLUMNS, "group"]):
        first = dead.get(row["group"])
        if first is None or by_time(row) < by_time(first):
            dead[row["group"]] = row

    def keep(row: Row) -> bool:
        """Whether the group was forgotten before."""
        return row["group"] in dead and bool(dead[row["group"]]["at"] <= row["at"])

    found = find_sessions(
        context, pc.field("kind") == _MISSING, _BY, context.limits[NAME]["gap"], _GATHER, keep=keep
    )
    return [
        Reset(one, "offsets_expired", partitions=_names(one), lines=[dead[one.subject[2]]])
        for one in found
    ]


def _seek(context: DetectionContext, every: Sequence[Reset]) -> None:
    """Look up why each position was not there any more."""
    mine: dict[str, list[Reset]] = defaultdict(list)
    for one in every:
        topic = one.burst.subject[3]
        if one.cause == "unknown" and topic:
            mine[topic].append(one)
    if not mine:
        return
    first: dict[int, Row] = {}
    near = round(context.limits[NAME]["near"] * SECOND)
    for row in _moves(context, sorted(mine)):
        for one in mine[row["topic"]]:
            known = first.get(id(one))
            if _concerns(row, one, near) and (known is None or _likelier(row) < _likelier(known)):
                first[id(one)] = row
    for one in every:
        if id(one) in first:
            one.cause, one.lines = _cause(first[id(one)]), [first[id(one)], *one.lines]
        elif one.cause == "unknown" and _was_cut(context, one):
            one.cause = "truncation"


def _moves(context: DetectionContext, topics: Sequence[str]) -> Iterator[Row]:
    if not context.visibility.has_kinds(*_SERVER):
        return
    where = pc.field("kind").isin(list(_SERVER)) & pc.field("topic").isin(list(topics))
    columns = [*EVIDENCE_COLUMNS, "kind", "topic", "partition", "position", "detail", "telling"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        if context.is_live(row):
            yield row


def _concerns(row: Row, one: Reset, near: int) -> bool:
    """Whether a line tells that what stood at a lost position was deleted before."""
    if row["at"] > one.burst.begin + near:
        return False
    if row["kind"] == "topic_deleted":
        return True
    lost = [
        told["position"]
        for told in one.burst.first
        if told["kind"] != _RESET and told["partition"] == row["partition"]
        and told["position"] is not None
    ]  # fmt: skip
    return bool(lost) and row["position"] is not None and row["position"] > min(lost)


def _likelier(row: Row) -> tuple[Any, ...]:
    """Put what passed the position before a deletion of the topic, and what came first first."""
    return (row["kind"] == "topic_deleted", *by_time(row))


def _cause(row: Row) -> str:
    if row["kind"] == "topic_deleted":
        return "topic_recreated"
    return "delete_records" if _DELETED in (row["detail"] or "").lower() else "retention"


def _was_cut(context: DetectionContext, one: Reset) -> bool:
    """Whether a log of the topic was cut back before."""
    topic = one.burst.subject[3]
    rows = context.each("cuts", pc.field("topic") == topic, ["partition", "started_at"])
    numbers = one.burst.value_counts["partition"]
    return any(
        row["partition"] in numbers
        and row["started_at"] is not None
        and row["started_at"] <= one.burst.end
        for row in rows
    )


NEEDS = CLIENTS


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client, group and topic."""
    yield from (_finding(context, one) for one in resets(context))


def _finding(context: DetectionContext, one: Reset) -> Finding:
    burst = one.burst
    node, client, group, topic = burst.subject
    name = client or node or "unknown"
    evidence = [*burst.first, *one.lines]
    return context.finding(
        NAME,
        context.limits[NAME][_limit(one)],
        f"{name}: {_what(one)} in {topic or 'a topic'}{_CAUSES[one.cause][0]}",
        burst.begin,
        burst.end,
        evidence,
        stated=one.cause != "offsets_expired",
        partitions=one.partitions,
        clients=[name],
        measures={
            "group": group,
            "topic": topic,
            "cause": one.cause,
            "ends": "consumer fails" if one.fails else "position reset",
            "times": burst.count,
            "skipped": one.skipped,
            "read_again": one.again,
        },
        explanation=f"{_CAUSES[one.cause][1]} {_END['fails' if one.fails else 'resets']}",
        actions=_actions(context, one),
        why=_why(one),
        doubts=_doubts(one),
    )


def _limit(one: Reset) -> str:
    if one.fails:
        return "fails"
    return "again" if one.again and not one.skipped else "skips"


def _what(one: Reset) -> str:
    if one.fails:
        return "its position is gone and it stops"
    if one.skipped:
        return f"its position is gone, and it skipped {one.skipped} records"
    if one.again:
        return f"its position is gone, and it reads {one.again} records again"
    return "its position is gone, and it went elsewhere"


def _actions(context: DetectionContext, one: Reset) -> list[str]:
    _, client, group, topic = one.burst.subject
    found = [context.commands.group(group)] if group else []
    if topic:
        found.append(context.commands.begin_offsets(topic))
    if one.fails and group and topic:
        reset = context.commands.reset_offsets(group, topic)
        return [f"{reset}   # only once it is clear that what is missing is not wanted", *found]
    return [*found, _CAUSES[one.cause][2].format(quote(client or "the consumer"))][:3]


def _why(one: Reset) -> str:
    text = f"{one.burst.count} lines of this client tell of it"
    if one.skipped or one.again:
        text += f": from the lost position to the new one it is {one.skipped or one.again} records"
    return text


def _doubts(one: Reset) -> list[str]:
    found = []
    if one.cause == "unknown":
        found.append("No line of a broker in the archive tells why the position was gone.")
    if one.cause == "offsets_expired":
        found.append("A group that somebody deleted on purpose looks the same.")
    if one.cause == "truncation":
        found.append("What the consumer had read of the cut part, nobody can read again.")
    return found


_END = {
    "fails": "auto.offset.reset is none, or the application does not handle it: the consumer stops "
    "with an exception, and does so again each time it is started.",
    "resets": "The consumer went where auto.offset.reset sends it: with latest it skips all that "
    "came meanwhile, with earliest it reads again all that is there.",
}
_CAUSES = {
    "retention": (
        " since retention had deleted it",
        (
            "What the consumer was to read next had already been deleted by retention: it was away "
            "for longer, or is slower, than the topic keeps records."
        ),
        "Raise retention.ms or retention.bytes of the topic above the longest time {} may be away.",
    ),
    "delete_records": (
        " since somebody deleted records",
        "Somebody deleted the records up to an offset beyond the consumer's position.",
        "Ask who ran kafka-delete-records while {} was reading.",
    ),
    "offsets_expired": (
        " since the group's offsets had expired",
        (
            "The group was empty for longer than offsets.retention.minutes, so its committed "
            "offsets were dropped, and it begins like a new one."
        ),
        "Raise offsets.retention.minutes of the brokers above the longest time {} may be away.",
    ),
    "truncation": (
        " since the log was cut back",
        (
            "The new leader's log ends before the consumer's position: records that it had read "
            "were cut off."
        ),
        (
            "Look at the finding about the unclean election or truncation; {} may have seen "
            "records that are gone."
        ),
    ),
    "topic_recreated": (
        " since the topic was deleted",
        "The topic was deleted, and the offsets of one of the same name begin anew.",
        "Reset the offsets of the group of {} when a topic is made anew.",
    ),
    "unknown": (
        "",
        "The position that the consumer asked for is not in the leader's log.",
        "Compare the committed offsets of {} with where the log begins and ends.",
    ),
}
