"""Partitions with fewer in-sync replicas than min.insync.replicas: acks=all is refused.

Leaders and clients log refused writes; where the minimum is known from settings, the ISRs show how
long partitions were below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.assignments import read_assignments, replicas_of
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.min_isr import REFUSALS, MinIsr, read_min_isr
from forensics.lib.intervals import IntervalIndex, merge
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import quantity, times_text
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "under-min-isr"
# Both the leader that refuses and the client that is refused log it.
NEEDS = LogRequirements(("broker", "client"), ("server",))
_KINDS = ("append_failed", "client_error", "produce_failed", "send_failed")
_COLUMNS = ("topic", "partition", "isr", "replicas", "leader", "started_at", "ended_at")
# How many partitions of a finding show their lines, and how many are named.
_SHOWN, _MAX_NAMES = 20, 10_000


@dataclass
class _Shortage:
    """Times of partitions below their minimum that lie close together."""

    begin: int
    end: int
    duration: int = 0
    longest: int = 0
    partitions: set[str] = field(default_factory=set)
    missing: set[int] = field(default_factory=set)
    cited: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, row: Row, end: int, missing: set[int]) -> None:
        """Add a version of a partition that was below its minimum until `end`."""
        begin = row["started_at"]
        self.begin, self.end = min(begin, self.begin), max(end, self.end)
        self.duration += end - begin
        self.longest = max(self.longest, end - begin)
        self.missing |= missing
        if len(self.partitions) < _MAX_NAMES:
            self.partitions.add(partition_name(row))
        if len(self.cited) < _SHOWN:
            self.cited += row["evidence"][:1]


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each time in which writes were refused, or partitions were short."""
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(_KINDS)) & pc.field("error").isin(list(REFUSALS))
    by, columns = ["topic", "partition"], ["node", "client", "error", "kind"]
    refusals = find_sessions(context, where, by, limits["stroke"], columns)
    # Between two of these writes went through, or nobody wrote.
    strokes = find_sessions(context, where, by, limits["retry"]) if refusals else []
    min_isr = read_min_isr(context)
    shortages = _find_shortages(context, min_isr) if min_isr.largest > 1 else []
    both: list[EventSession | _Shortage] = [*refusals, *shortages]
    both.sort(key=lambda one: (one.begin, one.end, isinstance(one, EventSession)))
    gap = limits["stroke"] * SECOND
    for group in sessions(both, lambda one: one.begin, gap, lambda one: one.end):
        refused = [one for one in group if isinstance(one, EventSession)]
        short = [one for one in group if isinstance(one, _Shortage)]
        longest = max((shortage.longest for shortage in short), default=0)
        if refused or longest > limits["unseen"] * SECOND:
            begin, end = group[0].begin, max(one.end for one in group)
            own = [one for one in strokes if begin <= one.begin <= end]
            yield _finding(context, refused, short, min_isr, own)


def _find_shortages(context: DetectionContext, min_isr: MinIsr) -> list[_Shortage]:
    """Find the time that partitions spent below their minimum; what is close is joined."""
    gap = context.limits[NAME]["stroke"] * SECOND
    size = pc.list_value_length(pc.field("isr"))
    # A partition without a leader is offline, which has a detector; an ISR may name no leader.
    led = pc.field("leader").is_null() | (pc.field("leader") >= 0)
    where = (size < min_isr.largest) & (size > 0) & led & pc.field("started_at").is_valid()
    stops = IntervalIndex(
        (one for one in context.absences if one.kind == "controlled"),
        lambda one: (one.begin - gap, (context.logs_end if one.end is None else one.end) + gap),
    )
    assignments = read_assignments(context)
    shortages: dict[int, _Shortage] = {}
    for row in context.each("isr", where, [*_COLUMNS, "evidence"]):
        least, begin = min_isr.for_topic(row["topic"]), row["started_at"]
        missing = set(replicas_of(assignments, row)) - set(row["isr"])
        if least is None or len(row["isr"]) >= least:
            continue
        stopped = {one.broker for one in stops.around(begin, begin)}
        if missing and missing <= stopped:
            continue
        end = max(begin, context.logs_end if row["ended_at"] is None else row["ended_at"])
        shortage = shortages.setdefault(begin // max(gap, 1), _Shortage(begin, end))
        shortage.add(row, end, missing - stopped)
    return list(shortages.values())


def _finding(
    context: DetectionContext,
    refused: Sequence[EventSession],
    short: Sequence[_Shortage],
    min_isr: MinIsr,
    strokes: Sequence[EventSession],
) -> Finding:
    limits = context.limits[NAME]
    ends = [one.end for one in refused] or [one.end for one in short]
    begin = min([*(one.begin for one in refused), *(one.begin for one in short)])
    end = max(ends)
    lines = [row for one in refused[:_SHOWN] for row in one.first[:_SHOWN]]
    evidence = [*lines, *context.read_lines(line for one in short for line in one.cited)]
    names = {name for one in short for name in one.partitions}
    rejected = {f"{one.subject[0]}-{one.subject[1]}" for one in refused if None not in one.subject}
    names |= rejected
    topics = sorted({name.rpartition("-")[0] for name in names}
                    | {one.subject[0] for one in refused if one.subject[0]})  # fmt: skip
    by_leaders, by_clients = _count_by_source(refused)
    seconds = max((one.seconds for one in refused), default=0.0)
    return context.finding(
        NAME,
        _severity(limits, refused, seconds),
        _title(rejected or names or topics, strokes, short, limits["retry"] * SECOND),
        begin,
        end,
        evidence,
        stated=bool(refused),
        brokers=sorted({broker for one in short for broker in one.missing}),
        partitions=sorted(names),
        clients=sorted({name for one in refused for name in one.values("client")}),
        measures={
            "told_by_leaders": by_leaders,
            "told_by_clients": by_clients,
            "refused_s": seconds,
            "longest_s": max((one.seconds for one in strokes), default=None),
            "partitions": len(names),
            "partition_seconds": round(sum(one.duration for one in short) / SECOND, 1)
            if short
            else None,
            "minimums": {topic: min_isr.for_topic(topic) for topic in topics[:_SHOWN]},
        },
        explanation=_explanation(refused) + _describe_minimums(min_isr, topics),
        actions=_actions(context, topics),
        why=_why(limits, refused, short, seconds),
        doubts=_DOUBTS,
    )


def _count_by_source(refused: Sequence[EventSession]) -> tuple[int, int]:
    """Count the refusals that leaders log, and those that clients log: mostly the same ones."""
    by_leaders = sum(one.value_counts["kind"]["append_failed"] for one in refused)
    return by_leaders, sum(one.count for one in refused) - by_leaders


def _severity(limits: Mapping[str, Any], refused: Sequence[EventSession], seconds: float) -> str:
    if not refused:
        return str(limits["unrefused"])
    if seconds > limits["given_up"]:
        return str(limits["long"])
    return str(limits["refused" if seconds > limits["blip"] else "short"])


def _title(
    names: Iterable[str], strokes: Sequence[EventSession], short: Sequence[_Shortage], gap: int
) -> str:
    count = len(set(names))
    where = quantity(count, "partition")
    if strokes:
        seconds = max(one.seconds for one in strokes)
        long = f"up to {seconds:.0f} s" if seconds >= 1 else "less than 1 s"
        stretches = len(merge((one.begin, one.end + gap) for one in strokes))
        often = f" {times_text(stretches)}" if stretches > 1 else ""
        long += " at a time" * (stretches > 1)
        return f"Writes rejected{often}: too few in-sync replicas on {where}, for {long}"
    longest = max(one.longest for one in short) / SECOND
    return f"{where} below min.insync.replicas for up to {longest:.0f} s; no rejected write is seen"


def _why(
    limits: Mapping[str, Any],
    refused: Sequence[EventSession],
    short: Sequence[_Shortage],
    seconds: float,
) -> str:
    if not refused:
        longest = max(one.longest for one in short) / SECOND
        return f"{longest:.1f} s below the minimum; limit: {limits['unseen']} s"
    count = max(_count_by_source(refused))
    return (
        f"{quantity(count, 'rejection')}, over up to {seconds} s on one partition; limits: "
        f"{limits['blip']} s, and {limits['given_up']} s until producers give records up"
    )


def _explanation(refused: Sequence[EventSession]) -> str:
    parts = [_MECHANISM]
    if any("NOT_ENOUGH_REPLICAS_AFTER_APPEND" in one.value_counts["error"] for one in refused):
        parts.append(_AFTER)
    if not refused:
        parts.append(_UNSEEN)
    return " ".join(parts)


def _describe_minimums(min_isr: MinIsr, topics: Sequence[str]) -> str:
    known = [f"{topic} {least}" for topic in topics if (least := min_isr.for_topic(topic))]
    return f" The minimum, as logged: {', '.join(known[:_SHOWN])}." if known else ""


def _actions(context: DetectionContext, topics: Sequence[str]) -> list[str]:
    look = f"{context.commands.under_min_isr()}   # which of them are still short?"
    users = [topic for topic in topics if not topic.startswith("__")]
    config = [
        f"{context.commands.topic_config(one)}   # is the minimum meant?" for one in users[:1]
    ]
    return [look, *config, _DO_NOT]


_DO_NOT = (
    "Bring missing replicas back in sync rather than lower min.insync.replicas: with 1, acks=all "
    "means the leader alone."
)
_MECHANISM = (
    "With fewer in-sync replicas than min.insync.replicas a leader rejects records sent with "
    "acks=all; producers retry until delivery.timeout.ms is over, and then give them up. Writes "
    "with acks=1 are still accepted, with fewer copies than wanted."
)
_AFTER = (
    "Some records were written before the ISR shrank and were not acknowledged: they are sent"
    " again, and are duplicates if the producer is not idempotent."
)
_UNSEEN = "No rejected write with acks=all is logged in that time."
_DOUBTS = (
    "Without clients' logs it is not known whether retries got the records through in the end.",
    "A minimum that was changed in that time is taken for all of it.",
)
