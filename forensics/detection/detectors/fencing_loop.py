"""KRaft brokers that are fenced and let in again while their processes live on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.absence_causes import (
    absences_of,
    departure_kind,
    host_wide_absences,
    no_quorum_absences,
    registration_times,
    session_timeout,
)
from forensics.detection.shared.process_stalls import ProcessStall, find_stalls
from forensics.history.nodes.broker_states import Absence
from forensics.lib.node_ids import broker_node
from forensics.lib.sessionize import busiest_window, windows
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "fencing-loop"
NEEDS = SERVERS
_GREP = "grep -Ei 'heartbeat|RPC got timed out' server.log"


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker in a loop, and one for what all of them have in common."""
    if not context.history.context.kraft or not context.absences:
        return
    limits, starts = context.limits[NAME], registration_times(context)
    no_quorum, host_wide = no_quorum_absences(context), host_wide_absences(context)
    stalls: Sequence[ProcessStall] | None = None
    for broker in sorted({absence.broker for absence in context.absences}):
        own = (pc.field("node") == broker_node(broker)) & pc.field("last_ts").is_valid()
        if not context.tables.count_rows("files", own):
            # Whether its process hung only its own log tells; flapping-broker says the rest.
            continue
        fences = [
            absence
            for absence in absences_of(context, broker)
            if absence.fencing is not None
            and absence.kind in ("pause", "fenced", "gone", "unknown")
            and departure_kind(absence, starts.get(broker, ())) == "pause"
            and (absence.broker, absence.begin) not in no_quorum | host_wide
        ]
        run = busiest_window(fences, lambda absence: absence.noticed, limits["window"] * SECOND)
        if len(run) >= limits["cycles"]:
            if stalls is None:
                stalls = find_stalls(context, context.limits["long-pause"]["least"])
            hung = _count_hung(run, stalls)
            # A broker that mostly hung has a finding of its own: long-pause, or flapping-broker.
            if 2 * hung <= len(run) and _lived_on(context, broker, run):
                yield _finding(context, broker, run, hung)
    yield from _find_common_fences(context, host_wide)


def _lived_on(context: DetectionContext, broker: int, run: Sequence[Absence]) -> bool:
    """Return True if the broker wrote lines in most of the sessions at whose end it was fenced.

    Where none of its lines are of that time, nobody can tell whether its process lived.
    """
    session, node = round(session_timeout(context) * SECOND), broker_node(broker)
    looked_at = run[-_MAX_LOOKS:]
    lived = sum(
        not context.is_silent(node, one.noticed - session, one.noticed + _WAKING)
        for one in looked_at
    )
    return 2 * lived > len(looked_at)


# Each look reads the events.
_MAX_LOOKS = 9
_WAKING = SECOND // 2


def _count_hung(run: Sequence[Absence], stalls: Sequence[ProcessStall]) -> int:
    """Count the fences that a pause of the broker's own process explains."""
    return sum(
        any(
            stall.node == broker_node(absence.broker)
            and stall.begin <= absence.noticed <= stall.end
            for stall in stalls
        )
        for absence in run
    )


def _finding(context: DetectionContext, broker: int, run: Sequence[Absence], hung: int) -> Finding:
    limits = context.limits[NAME]
    begin, end = run[0].noticed, run[-1].end or run[-1].noticed
    evidence = [line for absence in run for line in absence.evidence]
    return context.finding(
        NAME,
        limits["severity"],
        f"Broker {broker} was fenced {len(run)} times and let in again, without a restart",
        begin,
        end,
        evidence,
        brokers=[broker],
        measures={"fences": len(run), "hung": hung, "brokers": 1},
        explanation="The controller got no heartbeat for a whole session, each time, from a process"
        " that lived on"
        ". Its heartbeats did not get through, or were not answered in time.",
        actions=[
            f"{_GREP}   # on broker {broker}: did it send any at these times?",
            context.commands.broker_config(broker, "broker.session.timeout.ms"),
            "Do not restart it before you know: a restart hides what it was, and heals nothing.",
        ],
        why=f"fenced {len(run)} times within {(run[-1].noticed - begin) / SECOND:.0f} s under one"
        f" registration; {limits['cycles']} within {limits['window']} s are a loop",
        doubts=["A quick restart may have been missed where the broker's own log has a gap."],
    )


def _find_common_fences(
    context: DetectionContext, host_wide: Collection[tuple[int, int]]
) -> Iterator[Finding]:
    """Find what fenced most brokers at once: the controller, its network, or their host."""
    limits = context.limits[NAME]
    gap = context.limits["flapping-broker"]["together"] * SECOND
    fenced = sorted(
        (
            absence
            for absence in context.absences
            if (absence.broker, absence.begin) in host_wide and absence.fencing is not None
        ),
        key=lambda absence: (absence.noticed, absence.broker),
    )
    groups = [
        group
        for group in windows(fenced, lambda absence: absence.noticed, gap)
        if len({absence.broker for absence in group}) > 1
    ]
    if not groups:
        return
    fences = [absence for group in groups for absence in group]
    longest = max(((one.end or context.logs_end) - one.noticed) / SECOND for one in fences)
    begin, end = fences[0].noticed, max(one.end or context.logs_end for one in fences)
    evidence = [line for absence in fences for line in absence.evidence]
    is_brief = longest < limits["brief"] and len(groups) < limits["cycles"]
    brokers = sorted({absence.broker for absence in fences})
    times = "" if len(groups) == 1 else f", {len(groups)} times"
    yield context.finding(
        NAME,
        limits["passing" if is_brief else "severity"],
        f"{len(brokers)} brokers were fenced in the same moment{times}, for up to {longest:.1f} s",
        begin,
        end,
        evidence,
        brokers=brokers,
        measures={"fences": len(fences), "hung": 0, "brokers": len(brokers)},
        explanation="Brokers that are fenced together have not all failed together: the controller"
        " was too busy to take their heartbeats, was cut off, had only just taken office, or the"
        " host of all of them froze.",
        actions=[
            f"{context.commands.controller()}   # did the controller change just before?",
            "Look at the controller's log and host at that moment, not at the brokers'.",
        ],
        why=f"{len(brokers)} brokers fenced at once, {len(groups)} times,"
        f" for up to {longest:.1f} s; {limits['brief']} s is the limit",
        doubts=["A rack or a switch that failed takes several brokers at once, too."],
    )
