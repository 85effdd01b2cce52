"""KRaft brokers that are fenced and let in again while their processes live on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.broker_absences import (
    absences_of,
    departure_kind,
    host_wide_absences,
    no_quorum_absences,
    registration_times,
)
from forensics.detection.shared.process_stalls import find_stalls
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "fencing-loop"
NEEDS = SERVERS
_GREP = "grep -E 'heartbeat|RPC got timed out' server.log"


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker in a loop, and one for what all of them have in common."""
    if not context.history.context.kraft or not context.absences:
        return
    lone, crowd, starts = (
        no_quorum_absences(context),
        host_wide_absences(context),
        registration_times(context),
    )
    still = None
    for broker in sorted({one.broker for one in context.absences}):
        lived = [
            one
            for one in absences_of(context, broker)
            if one.fencing is not None
            and one.kind in ("pause", "gone", "unknown")
            and departure_kind(one, starts.get(broker, ())) == "pause"
            and (one.broker, one.begin) not in lone | crowd
        ]
        run = _busiest(context, lived)
        if len(run) >= context.limits[NAME]["cycles"]:
            still = _stood_still(context) if still is None else still
            yield _finding(context, broker, run, _hung(run, still))
    yield from _together(
        context, [one for one in context.absences if (one.broker, one.begin) in crowd]
    )


def _busiest(context: DetectionContext, absences: Sequence[Absence]) -> list[Absence]:
    window = context.limits[NAME]["window"] * SECOND
    best: list[Absence] = []
    for first in range(len(absences)):
        run = [one for one in absences[first:] if one.begin - absences[first].begin <= window]
        best = run if len(run) > len(best) else best
    return best


def _stood_still(context: DetectionContext) -> list[tuple[str, int, int]]:
    found = find_stalls(context, context.limits["long-pause"]["least"])
    return [(one.node, one.begin, one.end) for one in found]


def _hung(run: Sequence[Absence], still: Sequence[tuple[str, int, int]]) -> int:
    """Count the fences that a pause of the broker's own process explains."""
    return sum(
        any(node == f"broker-{one.broker}" and a <= one.begin <= b for node, a, b in still)
        for one in run
    )


def _finding(context: DetectionContext, broker: int, run: Sequence[Absence], hung: int) -> Finding:
    limits = context.limits[NAME]
    begin, end = run[0].begin, run[-1].end or run[-1].begin
    evidence = [place for one in run for place in one.evidence]
    mostly = 2 * hung > len(run)
    return context.finding(
        NAME,
        limits["hung" if mostly else "severity"],
        f"Broker {broker} was fenced {len(run)} times and let in again, without a restart",
        begin,
        end,
        evidence,
        brokers=[broker],
        measures={"fences": len(run), "hung": hung, "brokers": 1},
        explanation="The controller got no heartbeat for a whole session, each time, from a process"
        " that lived on"
        + (
            ": it stood still, see the pauses of this broker."
            if mostly
            else ". Its heartbeats did not get through, or were not answered in time."
        ),
        actions=[
            f"{_GREP}   # on broker {broker}: did it send any at these times?",
            context.commands.broker_config(broker, "broker.session.timeout.ms"),
            "Do not restart it before you know: a restart hides what it was, and heals nothing.",
        ],
        why=f"fenced {len(run)} times within {(run[-1].begin - begin) / SECOND:.0f} s under one"
        f" registration; {limits['cycles']} within {limits['window']} s are a loop",
        doubts=["Without the broker's own log a quick restart may have been missed."],
    )


def _together(context: DetectionContext, crowd: Sequence[Absence]) -> Iterator[Finding]:
    """Find what fenced most brokers at once: the controller, its network, or their host."""
    limits = context.limits[NAME]
    gap = context.limits["flapping-broker"]["together"] * SECOND
    strokes: list[list[Absence]] = []
    for one in sorted(crowd, key=lambda each: (each.begin, each.broker)):
        near = strokes and one.begin - strokes[-1][0].begin <= gap
        if near and one.fencing is not None:
            strokes[-1].append(one)
        elif one.fencing is not None:
            strokes.append([one])
    strokes = [one for one in strokes if len({each.broker for each in one}) > 1]
    if not strokes:
        return
    every = [one for stroke in strokes for one in stroke]
    longest = max(((one.end or context.logs_end) - one.begin) / SECOND for one in every)
    begin, end = every[0].begin, max(one.end or context.logs_end for one in every)
    evidence = [place for one in every for place in one.evidence]
    brief = longest < limits["brief"] and len(strokes) < limits["cycles"]
    brokers = sorted({one.broker for one in every})
    times = "" if len(strokes) == 1 else f", {len(strokes)} times"
    yield context.finding(
        NAME,
        limits["passing" if brief else "severity"],
        f"{len(brokers)} brokers were fenced in the same moment{times}, for up to {longest:.1f} s",
        begin,
        end,
        evidence,
        brokers=brokers,
        measures={"fences": len(every), "hung": 0, "brokers": len(brokers)},
        explanation="Brokers that are fenced together have not all failed together: the controller"
        " was too busy to take their heartbeats, was cut off, had only just taken office, or the"
        " host of all of them stood still.",
        actions=[
            f"{context.commands.controller()}   # did the controller change just before?",
            "Look at the controller's log and host at that moment, not at the brokers'.",
        ],
        why=f"{len(brokers)} brokers fenced at once, {len(strokes)} times,"
        f" for up to {longest:.1f} s; {limits['brief']} s pass unnoticed",
        doubts=["A rack or a switch that failed takes several brokers at once, too."],
    )
