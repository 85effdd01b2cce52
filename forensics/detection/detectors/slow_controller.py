"""A KRaft controller that is too slow: events that take seconds, heartbeats that wait too long."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CONTROLLERS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "slow-controller"
NEEDS = CONTROLLERS
_SLOW = ("quorum_event_slow", "quorum_overloaded")
# What a controller says that waits for voters, not for itself.
_WAITING = ("raft_majority_lost", "controller_renouncing", "controller_resigned")
_KEPT = 1000


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each spell of slow events of one controller."""
    limits = context.limits[NAME]
    slow = pc.field("kind").isin(_SLOW)
    found = find_sessions(
        context, slow, ["node"], limits["gap"], ["kind", "duration_ms", "detail", "broker"]
    )
    if not found:
        return
    waits = _waits(context)
    for burst in found:
        if not _excused(context, burst, waits):
            yield _finding(context, burst)


def _waits(context: DetectionContext) -> list[tuple[str, int]]:
    """Give when controllers lost their majority or their office; so few that all are kept."""
    rows = context.each("events", pc.field("kind").isin(_WAITING), ["node", "ts"])
    return sorted({(row["node"] or "", row["at"]) for row in rows if "at" in row})[:_KEPT]


def _excused(context: DetectionContext, burst: EventSession, waits: list[tuple[str, int]]) -> bool:
    """Whether the process stood still for as long, or its events waited for a lost majority."""
    [node] = burst.subject
    longest = max(burst.values("duration_ms"), default=0) * 1000
    low, high = burst.begin - longest - SECOND, burst.end + SECOND
    if any(one == node and low <= at <= high for one, at in waits):
        return True
    # One stroke of events that end together, and nothing written while they took: a pause.
    once = burst.end - burst.begin <= context.limits[NAME]["stroke"] * SECOND
    first = burst.first[0]["at"]
    return once and longest > 0 and bool(node) and context.is_silent(node, first - longest, first)


def _finding(context: DetectionContext, burst: EventSession) -> Finding:
    limits = context.limits[NAME]
    [node] = burst.subject
    longest = max(burst.values("duration_ms"), default=0)
    slow, late = (burst.value_counts["kind"][kind] for kind in _SLOW)
    often = slow >= limits["events"] or late >= limits["overloaded"]
    begin = burst.begin - min(longest * 1000, burst.begin)
    confidence, reason = context.confidence(begin, burst.end, burst.first, stated=True)
    brokers = burst.values("broker")
    return Finding(
        detector=NAME,
        severity=limits["often" if often else "seldom"],
        confidence=confidence,
        title=f"{node}: {slow} controller events took up to {longest / 1000:.1f} s"
        if slow
        else f"{node}: {late} heartbeats waited too long in the controller's queue",
        begin=begin,
        end=burst.end,
        evidence=burst.first,
        brokers=brokers,
        measures={
            "node": node,
            "events": slow,
            "overloaded": late,
            "longest_ms": longest,
            "slowest": burst.values("detail"),
        },
        explanation=_EXPLANATION,
        actions=[
            f"iostat -x   # on the host of {quote(node)}: how long does a write to its log take?",
            (
                f"{context.commands.quorum()}   # do the other voters keep up? Their slowness is "
                "its own."
            ),
            "Give controllers a disk and a machine that brokers do not share.",
        ],
        why=f"{slow} slow events and {late} heartbeats that waited, within"
        f" {(burst.end - burst.begin) / SECOND:.0f} s; {limits['events']} or"
        f" {limits['overloaded']} are too many",
        reason=reason,
        doubts=[
            "Events that wait for other voters to confirm look slow too.",
            "A pause of the process, if another thread wrote a line meanwhile, looks the same.",
        ],
    )


_EXPLANATION = (
    "The controller handles one event at a time: while one takes seconds, elections, heartbeats "
    "and new topics wait behind it, and brokers that are well may be fenced."
)
