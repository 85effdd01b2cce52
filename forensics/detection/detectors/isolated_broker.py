"""Brokers that went on running, but could not reach the controller: a cut network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import BROKERS
from forensics.detection.shared.absence_causes import unplanned_absences
from forensics.detection.shared.flapping_brokers import find_flapping_absences, list_absences
from forensics.detection.shared.isr_changes import check_in_sync, say_in_sync_again
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import quantity, seconds_text, times_text
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "isolated-broker"
NEEDS = BROKERS


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that was cut off, again and again maybe."""
    flapping = find_flapping_absences(context)
    cut = [
        absence
        for broker, absences in unplanned_absences(context).items()
        for absence in absences
        if absence.kind == "isolated" and broker not in flapping
    ]
    gap = context.limits[NAME]["window"] * SECOND
    for _, own in groupby(cut, key=lambda absence: absence.broker):
        for run in sessions(own, lambda absence: absence.begin, gap):
            yield _finding(context, run)


def _finding(context: DetectionContext, run: Sequence[Absence]) -> Finding:
    broker, begin = run[0].broker, run[0].begin
    end = run[-1].end if run[-1].end is not None else max(context.logs_end, begin)
    longest = max((one.end or context.logs_end) - one.begin for one in run) / SECOND
    times = f" {times_text(len(run))}" if len(run) > 1 else ""
    out = "out of service up to" if len(run) > 1 else "out of service for"
    whom = "the controller" if context.history.context.kraft else "ZooKeeper"
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"Broker {broker} was cut off from {whom}{times}, {out} about {seconds_text(longest, 0)}",
        begin,
        end,
        [line for absence in run for line in absence.evidence],
        stated=False,
        brokers=[broker],
        measures={
            "cuts": len(run),
            "longest_s": round(longest, 1),
            "absences": list_absences(((one.begin, one.end) for one in run), run),
        },
        explanation=f"Broker {broker} went on running: its own log reports requests that time out,"
        f" while {whom} heard nothing from it for a whole session. Other brokers kept their"
        " sessions. Some clients and brokers may still have reached it: what producers wrote to it"
        " after other leaders were elected is truncated once it follows these."
        + say_in_sync_again(context, run[-1]),
        actions=[
            _CHECK.format(broker=broker),
            *check_in_sync(context, run[-1]),
        ],
        why=f"not heard of for longer than its session, {quantity(len(run), 'time')}, while its log"
        " went on",
        doubts=[
            "A controller, or a ZooKeeper server, that does not answer one broker looks the same.",
        ],
    )


_CHECK = (
    "Check the network of broker {broker} at these times: link, switch, firewall, security group, "
    "and its path to the controllers. A restart does not help: the process went on running."
)
