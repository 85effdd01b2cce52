"""Controllers that change again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "controller-churn"
_BLUR = SECOND
# Of the nodes that lost the office so many are named.
_NAMED = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of changes that come closely one after the other."""
    limits = context.limits[NAME]
    reigns = context.history.lanes.controllers
    if len(reigns) <= limits["changes"]:
        return
    stops = [(row["node"], row["at"]) for row in context.events("process_stopping")]
    changes = [
        (before, after)
        for before, after in zip(reigns, reigns[1:], strict=False)
        if (before[1] != after[1] or _fell(context, before, after[2].begin))
        and not _planned(context, stops, before, after[2].begin)
    ]
    run: list[tuple[ControllerTerm, ControllerTerm]] = []
    for change in [*changes, None]:
        far = change is None or (
            run and change[1][2].begin - run[0][1][2].begin > limits["window"] * SECOND
        )
        if far and len(run) >= limits["changes"]:
            yield _finding(context, run)
        run = [] if far else run
        if change is not None:
            run.append(change)


def _fell(context: DetectionContext, before: ControllerTerm, moment: int) -> bool:
    """Whether who was in office died meanwhile: it is another office when the same node has it."""
    _, owner, span = before
    return any(
        one.broker == owner and one.kind == "crash" and span.begin < one.begin <= moment
        for one in context.absences
    )


def _planned(
    context: DetectionContext, stops: Sequence[tuple[str, int]], before: ControllerTerm, moment: int
) -> bool:
    """Whether who was in office was being stopped on purpose: then another one must follow."""
    node, owner, _ = before
    near = context.limits[NAME]["near"] * SECOND
    # A start that fails stops, too: by then the office was lost.
    dead = [one for one in context.absences if one.broker == owner and one.kind == "crash"]
    told = [
        at
        for one, at in stops
        if one == node and not any(d.begin <= at <= (d.end or at) for d in dead)
    ]
    told += [
        one.begin for one in context.absences if one.broker == owner and one.kind == "controlled"
    ]
    # What comes after the change did not bring it about, but for clocks that are a little off.
    return any(-_BLUR <= moment - at <= near for at in told)


def _finding(
    context: DetectionContext, run: list[tuple[ControllerTerm, ControllerTerm]]
) -> Finding:
    limits = context.limits[NAME]
    spans = [after[2] for _, after in run]
    begin, end = spans[0].begin, spans[-1].begin
    evidence = [place for span in spans for place in span.evidence]
    lost = [before[0] for before, _ in run]
    often, times = Counter(lost).most_common(1)[0]
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
        + (f" {often} lost the office {times} times." if times > 1 else ""),
        actions=[
            f"{context.commands.controller()}   # who is it now, and since which epoch?",
            _LOOK.format(nodes=", ".join(quote(one) for one in sorted(set(lost))[:_NAMED])),
        ],
        why=f"{len(run)} changes within {round((end - begin) / SECOND)} s that no planned stop"
        f" explains; {limits['changes']} within {limits['window']} s are churn",
        doubts=["Controllers restarted on purpose whose own logs are missing look the same."],
    )


_LOOK = (
    "Look at {nodes} just before each change: a pause, a restart, a lost session? Do not restart "
    "controllers to settle it."
)
