"""Partitions with fewer replicas in sync than min.insync.replicas: acks=all is refused.

That they were is told by leaders and clients; where settings tell the minimum, the time that
partitions spent below it is told by their ISRs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.min_isr import REFUSALS, MinIsr, find_min_isr
from forensics.lib.formatting import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "under-min-isr"
# Who refuses says so, and who is refused.
NEEDS = LogRequirements(("broker", "client"), ("server",))
_KINDS = ("append_failed", "client_error", "produce_failed", "send_failed")
_COLUMNS = ("topic", "partition", "isr", "replicas", "leader", "started_at", "ended_at")
# Of the partitions of one finding so many show their lines.
_SHOWN, _NAMES = 20, 10_000


@dataclass
class _Short:
    """Stretches of partitions below their minimum that lie close together."""

    begin: int
    end: int
    micros: int = 0
    longest: int = 0
    partitions: set[str] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    places: list[Mapping[str, Any]] = field(default_factory=list)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time in which writes were refused, or partitions were short."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(_KINDS)) & pc.field("error").isin(list(REFUSALS))
    gather = ["node", "client", "error", "kind"]
    refused = find_sessions(context, where, ["topic", "partition"], limits["stroke"], gather)
    wanted = find_min_isr(partial(context.each, "events"))
    short = _short(context, wanted) if wanted.largest > 1 else []
    every: list[EventSession | _Short] = [*refused, *short]
    for burst, stretch in _together(every, limits["stroke"] * SECOND):
        longest = max((one.longest for one in stretch), default=0)
        if burst or longest > limits["unseen"] * SECOND:
            yield _finding(context, burst, stretch, wanted)


def _short(context: DetectionContext, wanted: MinIsr) -> list[_Short]:
    """Find the stretches that partitions spent below their minimum; some close ones are joined."""
    gap = context.limits[NAME]["stroke"] * SECOND
    size = pc.list_value_length(pc.field("isr"))
    # Without a leader it is offline, which is told elsewhere; a line of an ISR need not name it.
    led = pc.field("leader").is_null() | (pc.field("leader") >= 0)
    where = (size < wanted.largest) & (size > 0) & led & pc.field("started_at").is_valid()
    stops = [
        (one.broker, one.begin - gap, (context.logs_end if one.end is None else one.end) + gap)
        for one in context.absences
        if one.kind == "controlled"
    ]
    found: dict[int, _Short] = {}
    for row in context.each("isr", where, [*_COLUMNS, "evidence"]):
        least = wanted.for_topic(row["topic"])
        missing = set(row["replicas"] or ()) - set(row["isr"])
        if least is None or len(row["isr"]) >= least:
            continue
        if missing and missing <= _stopped(stops, row):
            continue
        begin = row["started_at"]
        end = max(begin, context.logs_end if row["ended_at"] is None else row["ended_at"])
        one = found.setdefault(begin // max(gap, 1), _Short(begin, end))
        one.begin, one.end = min(begin, one.begin), max(end, one.end)
        one.micros, one.longest = one.micros + end - begin, max(one.longest, end - begin)
        one.missing |= missing
        if len(one.partitions) < _NAMES:
            one.partitions.add(partition_name(row))
        if len(one.places) < _SHOWN:
            one.places += row["evidence"][:1]
    return list(found.values())


def _stopped(stops: Iterable[tuple[int, int, int]], row: Row) -> set[int]:
    """Name the brokers that were on their way down or up on purpose then."""
    return {broker for broker, begin, end in stops if begin <= row["started_at"] <= end}


def _together(
    every: Iterable[EventSession | _Short], gap: int
) -> Iterator[tuple[list[EventSession], list[_Short]]]:
    """Put together what lies close in time."""
    group: list[EventSession | _Short] = []
    end = 0
    for one in sorted(every, key=_when):
        if group and one.begin - end > gap:
            yield _parted(group)
            group = []
        end = max(end, one.end) if group else one.end
        group.append(one)
    if group:
        yield _parted(group)


def _when(one: EventSession | _Short) -> tuple[int, int, bool]:
    return one.begin, one.end, isinstance(one, EventSession)


def _parted(group: Iterable[EventSession | _Short]) -> tuple[list[EventSession], list[_Short]]:
    group = list(group)
    refused = [one for one in group if isinstance(one, EventSession)]
    return refused, [one for one in group if isinstance(one, _Short)]


def _finding(
    context: DetectionContext,
    refused: Sequence[EventSession],
    short: Sequence[_Short],
    wanted: MinIsr,
) -> Finding:
    limits = context.limits[NAME]
    ends = [one.end for one in refused] or [one.end for one in short]
    begin = min([*(one.begin for one in refused), *(one.begin for one in short)])
    end = max(ends)
    lines = [row for one in refused[:_SHOWN] for row in one.first[:_SHOWN]]
    evidence = [*lines, *context.read_lines(place for one in short for place in one.places)]
    confidence, reason = context.confidence(begin, end, evidence, stated=bool(refused))
    names = {name for one in short for name in one.partitions}
    names |= {f"{one.subject[0]}-{one.subject[1]}" for one in refused if None not in one.subject}
    topics = sorted({name.rpartition("-")[0] for name in names}
                    | {one.subject[0] for one in refused if one.subject[0]})  # fmt: skip
    by_leaders, by_clients = _tellers(refused)
    seconds = max((one.seconds for one in refused), default=0.0)
    return Finding(
        detector=NAME,
        severity=_severity(limits, refused, seconds),
        confidence=confidence,
        title=_title(names or topics, refused, short, seconds),
        begin=begin,
        end=end,
        evidence=evidence,
        brokers=sorted({one for stretch in short for one in stretch.missing}),
        partitions=sorted(names),
        clients=sorted({name for one in refused for name in one.values("client")}),
        measures={
            "told_by_leaders": by_leaders,
            "told_by_clients": by_clients,
            "refused_s": seconds,
            "partitions": len(names),
            "partition_seconds": round(sum(one.micros for one in short) / SECOND, 1),
            "minimums": {topic: wanted.for_topic(topic) for topic in topics[:_SHOWN]},
        },
        explanation=_explanation(refused),
        actions=_actions(context, topics),
        why=_why(limits, refused, short, seconds),
        reason=reason,
        doubts=_DOUBTS,
    )


def _tellers(refused: Sequence[EventSession]) -> tuple[int, int]:
    """Count the refusals that leaders tell of, and those that clients do: mostly the same ones."""
    by_leaders = sum(one.value_counts["kind"]["append_failed"] for one in refused)
    return by_leaders, sum(one.count for one in refused) - by_leaders


def _severity(limits: Mapping[str, Any], refused: Sequence[EventSession], seconds: float) -> str:
    if not refused:
        return str(limits["unrefused"])
    if seconds > limits["given_up"]:
        return str(limits["long"])
    return str(limits["refused" if seconds > limits["blip"] else "short"])


def _title(
    names: Iterable[str], refused: Sequence[EventSession], short: Sequence[_Short], seconds: float
) -> str:
    count = len(set(names))
    where = quantity(count, "partition")
    if refused:
        return f"Writes refused for want of replicas in sync: {where}, up to {seconds:.0f} s"
    longest = max(one.longest for one in short) / SECOND
    return f"{where} below min.insync.replicas for up to {longest:.0f} s; no refused write is seen"


def _why(
    limits: Mapping[str, Any],
    refused: Sequence[EventSession],
    short: Sequence[_Short],
    seconds: float,
) -> str:
    if not refused:
        longest = max(one.longest for one in short) / SECOND
        return f"{longest:.1f} s below the minimum; up to {limits['unseen']} s are not told"
    count = max(_tellers(refused))
    return (
        f"{count} refusals, up to {seconds} s on one partition; up to {limits['blip']} s are a "
        f"passing one, and after {limits['given_up']} s producers give records up"
    )


def _explanation(refused: Sequence[EventSession]) -> str:
    told = [_MECHANISM]
    if any("NOT_ENOUGH_REPLICAS_AFTER_APPEND" in one.value_counts["error"] for one in refused):
        told.append(_AFTER)
    if not refused:
        told.append(_UNSEEN)
    return " ".join(told)


def _actions(context: DetectionContext, topics: Sequence[str]) -> list[str]:
    look = f"{context.commands.under_min_isr()}   # which of them are still short?"
    config = [
        f"{context.commands.topic_config(one)}   # is the minimum meant?" for one in topics[:1]
    ]
    return [look, *config, _DO_NOT]


_DO_NOT = (
    "Bring the missing brokers back rather than lower min.insync.replicas: with 1, acks=all means "
    "the leader alone."
)
_MECHANISM = (
    "With fewer replicas in sync than min.insync.replicas a leader refuses records sent with "
    "acks=all; producers try again until delivery.timeout.ms is over, and then give them up. "
    "Writes with acks=1 are taken, and live on too few brokers."
)
_AFTER = (
    "Some records were written before the ISR shrank and not acknowledged: they are sent again, and"
    " stand twice in the log if the producer is not idempotent."
)
_UNSEEN = "Nobody is seen to write with acks=all meanwhile."
_DOUBTS = (
    "Without clients' logs it is not known whether retries got the records through in the end.",
    "A minimum that was changed meanwhile holds here for the whole time.",
)
