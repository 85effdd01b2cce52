"""An active controller that was lost: nobody elects leaders until another one takes over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import SERVERS
from forensics.detection.shared.absence_causes import brokers_with_failed_disks
from forensics.detection.shared.controller_losses import (
    ControllerLoss,
    brokers_gone,
    describe_waiting,
    ends_of_losses,
    loss_measures,
    runs_of_losses,
)
from forensics.detection.shared.process_ends import END_WORDS, rows_of
from forensics.detection.shared.process_ends import quote as quote_end
from forensics.lib.node_ids import broker_node
from forensics.lib.text_format import join_names, quantity, times_text
from forensics.run_output.findings import Finding

NAME = "controller-lost"
NEEDS = SERVERS
# What a line of the controller itself, or of its process, shows.
_STATED = ("crashed", "no_majority", "resigned")
_MAX_NAMED = 5


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of losses; more of them within minutes are churn."""
    for run, is_churn in runs_of_losses(context):
        known = [loss for loss in run if loss.lost_at is not None]
        if known and not is_churn:
            yield _finding(context, known)


def _finding(context: DetectionContext, losses: Sequence[ControllerLoss]) -> Finding:
    limits, measures = context.limits[NAME], loss_measures(context, losses)
    # A broker that was lost with its controller is a finding of its own, and so is what it led.
    is_alone = any(loss.broker is None or loss.before.how == "no_majority" for loss in losses)
    is_long = measures["longest_s"] > limits["vacant"] or measures["delayed_partitions"] > 0
    level = "with_broker" if not is_alone else "long" if is_long else "short"
    first, last = losses[0], losses[-1]
    nodes = list(dict.fromkeys(loss.before.node for loss in losses))
    missing = _find_missing(context, losses)
    ends = ends_of_losses(context, losses)
    vacant = f"{measures['vacant_s']:.1f} s without an active controller"
    title = (
        f"{first.before.node}, the active controller, {first.words.partition(',')[0]}: {vacant}"
        if len(losses) == 1
        else f"The active controller was lost {times_text(len(losses))} ({join_names(nodes)}): "
        f"{vacant}"
    )
    return context.finding(
        NAME,
        limits[level],
        title,
        first.begin,
        last.ready_at,
        [*(line for loss in losses for line in loss.evidence), *rows_of(ends)],
        stated=all(loss.before.how in _STATED for loss in losses),
        brokers=sorted({loss.broker for loss in losses if loss.broker is not None}),
        measures={"node": first.before.node, "losses": len(losses), **measures},
        explanation=" ".join(loss.sentence for loss in losses[:_MAX_NAMED])
        + "".join(
            f" {end.node} {END_WORDS[end.reason].what}, by those who ran it: {quote_end(end.row)}."
            for end in ends[:_MAX_NAMED]
        )
        + f" Other controllers that were down then: {join_names(missing)}." * bool(missing)
        + describe_waiting(measures)
        + (_EXPLANATION if context.history.context.kraft else _ON_ZOOKEEPER),
        actions=[
            f"{context.commands.controller()}   # which node is it now, in which epoch?",
            _VOTERS
            if missing or all(loss.before.how == "no_majority" for loss in losses)
            else (_DISK if _had_no_disk(context, losses) else _LOOK).format(
                nodes=", ".join(map(quote, nodes[:_MAX_NAMED]))
            ),
        ],
        why=f"lost {quantity(len(losses), 'time')}, at most {measures['longest_s']:.1f} s without"
        f" one; limit: {limits['vacant']} s",
        doubts=["A controller stopped on purpose whose log is missing looks the same."],
    )


def _find_missing(context: DetectionContext, losses: Sequence[ControllerLoss]) -> list[str]:
    """Return the other controllers that were down while nobody was the active one."""
    return sorted(
        {
            node
            for loss in losses
            for node in _controllers_down(context, loss)
            if node not in (loss.before.node, loss.after.node)
        }
    )


def _controllers_down(context: DetectionContext, loss: ControllerLoss) -> Iterator[str]:
    # In a combined quorum each voter is a broker, too.
    if loss.before.how == "no_majority" and loss.broker is not None:
        yield from map(broker_node, brokers_gone(context, loss))
    for node, spans in context.history.lanes.processes.items():
        if any(
            span.state in ("crashed", "stopped")
            and span.begin <= loss.ready_at
            and (span.end is None or span.end >= loss.begin)
            for span in spans
        ):
            yield node


def _had_no_disk(context: DetectionContext, losses: Sequence[ControllerLoss]) -> bool:
    return {loss.broker for loss in losses} <= brokers_with_failed_disks(context)


_DISK = "See the finding about the log directory of {nodes}. Do not restart the other controllers."
_EXPLANATION = (
    " Until then no partition got a new leader, no ISR changed, no broker was let in or fenced."
    " Partitions with a live leader were served all the time."
)
_ON_ZOOKEEPER = (
    " Until then no partition got a new leader, and nobody reacted to brokers that came or went."
    " Partitions with a live leader were served all the time."
)
_VOTERS = (
    "Find out why so many controllers were away at once, and start those that still are: without a"
    " majority of the voters nobody is the active controller."
)
_LOOK = (
    "Find out what happened to {nodes}: exit code, kernel log, GC log, network. Do not restart the"
    " other controllers."
)
