"""A KRaft controller that is too slow: events that take seconds, heartbeats that wait too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CONTROLLERS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "slow-controller"
NEEDS = CONTROLLERS
_SLOW = ("quorum_event_slow", "quorum_overloaded")
# Lines of a controller that waits for voters, and is not slow itself.
_WAITING = ("raft_majority_lost", "controller_renouncing", "controller_resigned")
_KEPT = 1000


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each controller and time in which it was slow again and again."""
    limits, where = context.limits[NAME], pc.field("kind").isin(_SLOW)
    columns = ["kind", "duration_ms", "detail", "broker"]
    found = find_sessions(context, where, ["node"], limits["gap"], columns)
    waits = _read_waits(context) if found else []
    spells: dict[str, list[EventSession]] = {}
    for spell in found:
        if not _is_excused(context, spell, waits):
            spells.setdefault(spell.subject[0], []).append(spell)
    rest = limits["rest"] * SECOND
    for _, own in sorted(spells.items(), key=lambda item: item[0] or ""):
        for run in sessions(own, lambda one: one.begin, rest, lambda one: one.end):
            yield _finding(context, run)


def _read_waits(context: DetectionContext) -> list[tuple[str, int]]:
    """Return when controllers lost their majority or their office."""
    rows = context.each("events", pc.field("kind").isin(_WAITING), ["node", "ts", "file", "line"])
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


def _finding(context: DetectionContext, run: Sequence[EventSession]) -> Finding:
    limits, node = context.limits[NAME], run[0].subject[0]
    longest = max(_values(run, "duration_ms"), default=0)
    counts = [[one.value_counts["kind"][kind] for kind in _SLOW] for one in run]
    slow, late = map(sum, zip(*counts, strict=True))
    is_often = any(
        events >= limits["events"] or waited >= limits["overloaded"] for events, waited in counts
    )
    first = max(run[0].values("duration_ms"), default=0) * 1000
    begin, end = run[0].begin - min(first, run[0].begin), run[-1].end
    brokers = _values(run, "broker")
    return context.finding(
        NAME,
        limits["often" if is_often else "seldom"],
        f"{node}: {slow} controller events took up to {longest / 1000:.1f} s"
        if slow
        else f"{node}: {late} heartbeats waited too long in the controller's queue",
        begin,
        end,
        [line for spell in run for line in spell.first],
        brokers=brokers,
        measures={
            "node": node,
            "events": slow,
            "overloaded": late,
            "longest_ms": longest,
            "spells": len(run),
            "slowest": _values(run, "detail"),
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
        f" {(end - run[0].begin) / SECOND:.0f} s; {limits['events']} or"
        f" {limits['overloaded']} are too many",
        doubts=[
            "Events that wait for other voters to confirm look slow too.",
            "A pause of the process, if another thread wrote a line in that time, looks the same.",
        ],
    )


def _values(run: Sequence[EventSession], column: str) -> list[Any]:
    return sorted({value for spell in run for value in spell.values(column)})


_EXPLANATION = (
    "The controller handles one event at a time: while one takes seconds, elections, heartbeats "
    "and new topics wait behind it, and brokers that are well may be fenced."
)
