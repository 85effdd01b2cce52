"""Controllers that change again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.shared.controller_losses import (
    CHURN,
    ControllerLoss,
    describe_waiting,
    loss_measures,
    runs_of_losses,
)
from forensics.lib.text_format import times_text
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = CHURN
# At most so many changes, and nodes that were lost, are named.
_MAX_NAMED = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of changes that come closely one after the other."""
    for run, is_churn in runs_of_losses(context):
        if is_churn:
            yield _finding(context, run)


def _finding(context: DetectionContext, run: Sequence[ControllerLoss]) -> Finding:
    limits, measures = context.limits[NAME], loss_measures(context, run)
    begin, end = run[0].begin, run[-1].ready_at
    worst, times = Counter(loss.before.node for loss in run).most_common(1)[0]
    told = " ".join(loss.sentence for loss in run[:_MAX_NAMED])
    more = f" And {len(run) - _MAX_NAMED} more." if len(run) > _MAX_NAMED else ""
    # Why a broker went is asked by its own finding.
    went_with_brokers = all(loss.broker is not None for loss in run)
    nodes = ", ".join(map(quote, measures["lost_by"][:_MAX_NAMED]))
    vacant = f": {measures['vacant_s']:.1f} s without one" if measures["vacant_s"] else ""
    return context.finding(
        NAME,
        limits["severity"],
        f"The active controller changed {len(run)} times{vacant}",
        begin,
        end,
        [line for loss in run for line in loss.evidence],
        brokers=sorted({loss.broker for loss in run if loss.broker is not None}),
        measures={"changes": len(run), **measures},
        explanation=f"{told}{more} While controllers change, no leader is elected and no broker is"
        " fenced or let in: every failure in that time takes longer."
        + (f" {worst} was lost {times_text(times)}." if times > 1 else "")
        + describe_waiting(measures),
        actions=[
            f"{context.commands.controller()}   # who is it now, and since which epoch?",
            *([] if went_with_brokers else [_LOOK.format(nodes=nodes)]),
        ],
        why=f"{len(run)} changes within {round((end - begin) / SECOND)} s that no planned stop"
        f" explains; {limits['changes']} within {limits['window']} s are churn",
        doubts=["Controllers restarted on purpose whose own logs are missing look the same."],
    )


_LOOK = (
    "Look at {nodes} just before each change: a pause, a restart, a lost session? Do not restart "
    "controllers to settle it."
)
