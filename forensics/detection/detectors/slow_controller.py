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
# Lines of a controller that waits for voters, and is not slow itself.
_WAITING = ("raft_majority_lost", "controller_renouncing", "controller_resigned")
_KEPT = 1000


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each session of slow events of one controller."""
    gap, where = context.limits[NAME]["gap"], pc.field("kind").isin(_SLOW)
    columns = ["kind", "duration_ms", "detail", "broker"]
    found = find_sessions(context, where, ["node"], gap, columns)
    waits = _read_waits(context) if found else []
    for session in found:
        if not _is_excused(context, session, waits):
            yield _finding(context, session)


def _read_waits(context: DetectionContext) -> list[tuple[str, int]]:
    """Return when controllers lost their majority or their office."""
    rows = context.each("events", pc.field("kind").isin(_WAITING), ["node", "ts"])
    return sorted({(row["node"] or "", row["at"]) for row in rows if "at" in row})[:_KEPT]


def _is_excused(
    context: DetectionContext, session: EventSession, waits: list[tuple[str, int]]
) -> bool:
    """Return True if the process stood still for as long, or waited for a lost majority."""
    [node] = session.subject
    longest = max(session.values("duration_ms"), default=0) * 1000
    low, high = session.begin - longest - SECOND, session.end + SECOND
    if any(waiting_node == node and low <= at <= high for waiting_node, at in waits):
        return True
    # Events that end together, and nothing logged while they took: a pause.
    is_one_moment = session.end - session.begin <= context.limits[NAME]["stroke"] * SECOND
    first = session.first[0]["at"]
    return (
        is_one_moment
        and longest > 0
        and bool(node)
        and context.is_silent(node, first - longest, first)
    )


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    limits = context.limits[NAME]
    [node] = session.subject
    longest = max(session.values("duration_ms"), default=0)
    slow, late = (session.value_counts["kind"][kind] for kind in _SLOW)
    is_often = slow >= limits["events"] or late >= limits["overloaded"]
    begin = session.begin - min(longest * 1000, session.begin)
    brokers = session.values("broker")
    return context.finding(
        NAME,
        limits["often" if is_often else "seldom"],
        f"{node}: {slow} controller events took up to {longest / 1000:.1f} s"
        if slow
        else f"{node}: {late} heartbeats waited too long in the controller's queue",
        begin,
        session.end,
        session.first,
        brokers=brokers,
        measures={
            "node": node,
            "events": slow,
            "overloaded": late,
            "longest_ms": longest,
            "slowest": session.values("detail"),
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
        f" {(session.end - session.begin) / SECOND:.0f} s; {limits['events']} or"
        f" {limits['overloaded']} are too many",
        doubts=[
            "Events that wait for other voters to confirm look slow too.",
            "A pause of the process, if another thread wrote a line meanwhile, looks the same.",
        ],
    )


_EXPLANATION = (
    "The controller handles one event at a time: while one takes seconds, elections, heartbeats "
    "and new topics wait behind it, and brokers that are well may be fenced."
)
