"""How brokers came to be away: by themselves, all at once, or since nobody could hear them.

Whether nodes wrote anything between two moments, by corrected times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND, to_arrow_timestamp

# A line written as a process falls asleep or wakes says nothing of the time in between.
_DOZING = SECOND // 2


def is_silent(context: DetectionContext, node: str, begin: int, end: int) -> bool:
    """Whether a node that has logs wrote no event between two corrected moments."""
    where = _within(context, node, begin, end)
    return next(iter(context.each("events", where, ["line"])), None) is None


def nodes_that_logged(context: DetectionContext, spans: Sequence[tuple[str, int, int]]) -> set[str]:
    """Name the nodes that wrote an event in the span given for each; all in one look."""
    if not spans:
        return set()
    where = reduce(or_, (_within(context, *span) for span in spans))
    return {row["node"] for row in context.each("events", where, ["node"])}


def _within(context: DetectionContext, node: str, begin: int, end: int) -> pc.Expression:
    off = begin - context.history.clocks.correct(node, begin)
    low, high = (to_arrow_timestamp(at + off) for at in (begin + _DOZING, end - _DOZING))
    return (pc.field("node") == node) & (pc.field("ts") > low) & (pc.field("ts") < high)


# broker.session.timeout.ms, if no log names it
_SESSION = 9.0
# Which absences tell of a process that may have lived on.
_LIVED = ("pause", "gone", "unknown")
# Looking into logs costs a read of the events: only for so many strokes.
_LOOKS = 12


def unplanned_absences(context: DetectionContext) -> dict[int, list[Absence]]:
    """Give each broker's absences that were neither asked for nor somebody else's fault."""
    apart = host_wide_absences(context) | no_quorum_absences(context)
    found: dict[int, list[Absence]] = {}
    for one in sorted(context.absences, key=lambda each: (each.broker, each.begin)):
        if one.kind != "controlled" and (one.broker, one.begin) not in apart:
            found.setdefault(one.broker, []).append(one)
    return found


def absences_of(context: DetectionContext, broker: int) -> list[Absence]:
    """Give the absences of one broker, in order."""
    return sorted(
        (one for one in context.absences if one.broker == broker), key=lambda one: one.begin
    )


def host_wide_absences(context: DetectionContext) -> set[tuple[int, int]]:
    """Name the absences that most brokers began together, without a start: one pause of a host.

    A controller that fences everybody looks the same: either way it is nothing that one broker did.
    But where the node that hung was the controller's own, its hanging took the others along: then
    it is the one that wrote nothing before, while they did, and that came back after them.
    """
    lived = sorted(
        (one for one in context.absences if one.kind in _LIVED), key=lambda one: one.begin
    )
    known = {one.broker for one in context.absences} | set(context.history.lanes.brokers)
    gap = context.limits["flapping-broker"]["together"] * SECOND
    found: set[tuple[int, int]] = set()
    looks = 0
    for stroke in _strokes(lived, gap):
        brokers = {one.broker for one in stroke}
        if len(brokers) > 1 and 2 * len(brokers) > len(known):
            looks += 1
            hung = _hung(context, stroke) if looks <= _LOOKS else []
            found |= {(one.broker, one.begin) for one in stroke if one not in hung}
    return found


def _hung(context: DetectionContext, stroke: Sequence[Absence]) -> list[Absence]:
    """Pick out of a stroke the few that were silent for a session, and longer away than others."""
    session = round(session_timeout(context) * SECOND)
    logged = {row["node"] for row in context.visibility.files if row["role"] == "broker"}
    seen = [one for one in stroke if f"broker-{one.broker}" in logged]
    spans = [(f"broker-{one.broker}", one.begin - session, one.begin) for one in seen]
    names = nodes_that_logged(context, spans)
    heard = [one for one in seen if f"broker-{one.broker}" in names]
    still = [one for one in seen if one not in heard]
    if len(still) >= len(heard):
        return []
    longest = max((one.end or context.logs_end) - one.begin for one in heard)
    return [one for one in still if (one.end or context.logs_end) - one.begin > longest]


def no_quorum_absences(context: DetectionContext) -> set[tuple[int, int]]:
    """Name the absences of brokers whose controller had no majority: it could commit nothing.

    Each time it lets the broker in it waits for one session in vain and fences it, and half a
    session later, the time-out of a heartbeat, lets it in again. A broker that really hangs is
    heard of in between, and so is up for longer than its session.
    """
    found: set[tuple[int, int]] = set()
    if not context.history.context.kraft:
        return found
    for broker in {one.broker for one in context.absences}:
        for run in _lone_runs(context, absences_of(context, broker)):
            found |= {(one.broker, one.begin) for one in run}
    return found


def _lone_runs(
    context: DetectionContext, absences: Sequence[Absence]
) -> Iterable[Sequence[Absence]]:
    limits = context.limits["quorum-trouble"]
    if len(absences) < limits["lone"]:
        return
    session, slack = session_timeout(context) * SECOND, limits["slack"]
    run: list[Absence] = []
    for one in absences:
        length = None if one.end is None else one.end - one.begin
        heard = one.kind not in _LIVED or not _near(length, session / 2, slack)
        last = run[-1].end if run else None
        apart = last is not None and not _near(one.begin - last, session, slack)
        if heard or apart:
            if len(run) >= limits["lone"]:
                yield run
            run = []
        if not heard:
            run.append(one)
    if len(run) >= limits["lone"]:
        yield run


def _near(length: int | None, wanted: float, slack: float) -> bool:
    return length is not None and abs(length - wanted) <= slack * wanted


def session_timeout(context: DetectionContext) -> float:
    """Read how long a broker's session lasts, in seconds."""
    named = pc.field("setting") == "broker.session.timeout.ms"
    rows = context.each("events", (pc.field("kind") == "setting_seen") & named, ["value"])
    values = {row["value"] for row in rows}
    told = sorted(int(value) for value in values if value and value.isdigit() and int(value))
    return told[0] / 1000 if told else _SESSION


def registration_times(context: DetectionContext) -> dict[int, list[int]]:
    """Give when KRaft brokers registered: a process does so once, so each is a start."""
    if not context.history.context.kraft or not context.absences:
        return {}
    found: dict[int, set[int]] = {}
    told = (pc.field("kind") == "broker_registered") & pc.field("telling").is_null()
    for row in context.each("events", told & pc.field("ts").is_valid(), ["node", "ts", "broker"]):
        if row["broker"] is not None:
            found.setdefault(row["broker"], set()).add(row["at"])
    return {broker: sorted(moments) for broker, moments in found.items()}


def departure_kind(absence: Absence, starts: Sequence[int]) -> str:
    """Say how a broker left: crash, pause or unknown; `starts` are its registrations."""
    if absence.kind == "crash":
        return "crash"
    end = absence.end
    if end is not None and any(absence.begin < at <= end for at in starts):
        return "crash"
    if absence.kind == "unknown" and not (starts and end is not None):
        return "unknown"
    return "pause"


def _strokes(absences: Iterable[Absence], gap: int) -> Iterable[list[Absence]]:
    """Group absences that begin within `gap` of the first of them."""
    stroke: list[Absence] = []
    for one in absences:
        if stroke and one.begin - stroke[0].begin > gap:
            yield stroke
            stroke = []
        stroke.append(one)
    if stroke:
        yield stroke
