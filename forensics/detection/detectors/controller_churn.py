"""Controllers that change again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.absence_causes import absences_of
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.lib.sessionize import windows
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "controller-churn"
_CLOCK_SLACK = SECOND
# At most so many of the nodes that lost the office are named.
_MAX_NAMED = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of changes that come closely one after the other."""
    limits = context.limits[NAME]
    terms = context.history.lanes.controllers
    if len(terms) <= limits["changes"]:
        return
    stops = [(row["node"], row["at"]) for row in context.events("process_stopping")]
    changes = [
        (before, after)
        for before, after in pairwise(terms)
        if (before.controller != after.controller or _died(context, before, after.span.begin))
        and not _is_planned(context, stops, before, after.span.begin)
    ]
    for run in windows(changes, lambda change: change[1].span.begin, limits["window"] * SECOND):
        if len(run) >= limits["changes"]:
            yield _finding(context, run)


def _died(context: DetectionContext, term: ControllerTerm, moment: int) -> bool:
    """Return True if the controller died in its term: the same node then begins another one."""
    broker, span = term.controller, term.span
    return any(
        absence.broker == broker
        and absence.kind == "crash"
        and span.begin < absence.begin <= moment
        for absence in context.absences
    )


def _is_planned(
    context: DetectionContext, stops: Sequence[tuple[str, int]], term: ControllerTerm, moment: int
) -> bool:
    """Return True if the controller was being stopped on purpose: another one must follow."""
    own_node, broker = term.node, term.controller
    near = context.limits[NAME]["near"] * SECOND
    absences = absences_of(context, broker) if broker is not None else []
    # A start that fails stops, too: by then the office was lost.
    dead = [(one.begin, one.end) for one in absences if one.kind == "crash"]
    stopped = [
        at
        for node, at in stops
        if node == own_node and not any(begin <= at <= (end or at) for begin, end in dead)
    ]
    stopped += [absence.begin for absence in absences if absence.kind == "controlled"]
    # What comes after the change did not bring it about, but for clocks that are a little off.
    return any(-_CLOCK_SLACK <= moment - at <= near for at in stopped)


def _finding(
    context: DetectionContext, run: Sequence[tuple[ControllerTerm, ControllerTerm]]
) -> Finding:
    limits = context.limits[NAME]
    spans = [after.span for _, after in run]
    begin, end = spans[0].begin, spans[-1].begin
    evidence = [line for span in spans for line in span.evidence]
    lost = [before.node for before, _ in run]
    worst, times = Counter(lost).most_common(1)[0]
    return context.finding(
        NAME,
        limits["severity"],
        f"The active controller changed {len(run)} times",
        begin,
        end,
        evidence,
        measures={
            "changes": len(run),
            "epochs": [span.epoch for span in spans if span.epoch is not None],
            "lost_by": sorted(set(lost)),
        },
        explanation="While controllers change, no leader is elected and no broker is fenced or let"
        " in: every failure in that time takes longer."
        + (f" {worst} lost the office {times} times." if times > 1 else ""),
        actions=[
            f"{context.commands.controller()}   # who is it now, and since which epoch?",
            _LOOK.format(nodes=", ".join(quote(node) for node in sorted(set(lost))[:_MAX_NAMED])),
        ],
        why=f"{len(run)} changes within {round((end - begin) / SECOND)} s that no planned stop"
        f" explains; {limits['changes']} within {limits['window']} s are churn",
        doubts=["Controllers restarted on purpose whose own logs are missing look the same."],
    )


_LOOK = (
    "Look at {nodes} just before each change: a pause, a restart, a lost session? Do not restart "
    "controllers to settle it."
)
