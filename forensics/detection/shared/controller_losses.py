"""Active controllers that were lost: those that nobody stopped, and what waited meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run, partition_name
from forensics.detection.shared.absence_causes import absences_of
from forensics.detection.shared.process_ends import ProcessEnd, ends_of_controller
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.lib.intervals import IntervalSet
from forensics.lib.node_ids import broker_id
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND

CHURN = "controller-churn"
_CLOCK_SLACK = SECOND
# A new controller of a ZooKeeper cluster first reads all its state.
_READING = 60 * SECOND
# What waited for the next controller is done within that, once a broker's session is over.
_CATCHING_UP = 20 * SECOND
# The partitions that waited are looked for after so many losses.
_MAX_GAPS = 100
_HOW = {
    "crashed": "crashed",
    "paused": "froze",
    "isolated": "was cut off from the other controllers and went on running",
    "no_majority": "lost the majority of the controllers and resigned",
    "resigned": "resigned",
    "unheard": "stopped answering the other controllers, and the logs do not say why",
}


@dataclass(frozen=True)
class ControllerLoss:
    """One change of the active controller that nobody ordered."""

    before: ControllerTerm
    after: ControllerTerm
    # when the first one was lost, if any line tells, and when the next one was at work
    lost_at: int | None
    ready_at: int
    evidence: Sequence[Mapping[str, Any]]

    @property
    def begin(self) -> int:
        """When it was lost, or else when the next one began."""
        return self.after.span.begin if self.lost_at is None else self.lost_at

    @property
    def vacant_s(self) -> float:
        """How long nobody was the active controller, in seconds; 0 if nothing tells."""
        return round((self.ready_at - self.begin) / SECOND, 1)

    @property
    def broker(self) -> int | None:
        """The broker whose process was lost with the controller, if it is one."""
        return broker_id(self.before.node)

    @property
    def words(self) -> str:
        """How the controller was lost, as the rest of a sentence."""
        return _HOW.get(self.before.how or "", "was replaced, and no line says why")

    @property
    def sentence(self) -> str:
        """Who was lost, how, who took over, when and in which epoch."""
        before, after = self.before, self.after
        verb = "was elected again" if after.node == before.node else "took over"
        when = "" if self.lost_at is None else f" {self.vacant_s:.1f} s later"
        epochs = f"epoch {before.span.epoch}", f"epoch {after.span.epoch}"
        return f"{before.node} ({epochs[0]}) {self.words}; {after.node} {verb}{when} ({epochs[1]})."


@once_per_run
def lost_controllers(context: DetectionContext) -> list[ControllerLoss]:
    """Return every unplanned change of the active controller, in the order of epochs."""
    terms = sorted(
        (term for term in context.history.lanes.terms.terms if term.span.state == "active"),
        key=lambda term: term.span.epoch or 0,
    )
    if len(terms) <= 1:
        return []
    stops = [(row["node"], row["at"]) for row in context.events("process_stopping")]
    ready = context.events("controller_ready")
    return [
        _loss(before, after, ready)
        for before, after in pairwise(terms)
        # Clocks that contradict the epochs date nothing.
        if before.span.begin <= after.span.begin
        and _is_lost(context, before, after)
        and not _is_planned(context, stops, before, after)
    ]


def runs_of_losses(context: DetectionContext) -> Iterator[tuple[list[ControllerLoss], bool]]:
    """Yield losses that go on, each run with whether they are as many as churn."""
    limits = context.limits[CHURN]
    width, changes = limits["window"] * SECOND, limits["changes"]
    for run in sessions(sorted(lost_controllers(context), key=_began), _began, width):
        pairs = zip(run, run[changes - 1 :], strict=False)
        yield run, any(_began(last) - _began(first) <= width for first, last in pairs)


def ends_of_losses(context: DetectionContext, losses: Sequence[ControllerLoss]) -> list[ProcessEnd]:
    """Return what those who ran controllers say of their ends, the surest reason of each."""
    if not losses:
        return []
    begin, end = losses[0].begin, losses[-1].ready_at
    lost = [loss.before.node for loss in losses]
    nodes = dict.fromkeys([*lost, *sorted(context.history.lanes.processes)])
    found = (ends_of_controller(context, node, begin, end)[:1] for node in nodes)
    return [one for ends in found for one in ends]


def _began(loss: ControllerLoss) -> int:
    return loss.after.span.begin


def _loss(before: ControllerTerm, after: ControllerTerm, ready: Sequence[Row]) -> ControllerLoss:
    begin, end = after.span.begin, before.span.end
    is_dated = before.how is not None and end is not None and not after.is_inferred
    lost_at = end if is_dated and end is not None and end < begin else None
    works = [
        row for row in ready if row["node"] == after.node and 0 <= row["at"] - begin <= _READING
    ][:1]
    # The election of the one that was lost is no evidence of its loss.
    lines = before.span.evidence[1:] if lost_at is not None else []
    evidence = [*lines, *after.span.evidence[:1], *works]
    return ControllerLoss(before, after, lost_at, works[0]["at"] if works else begin, evidence)


def _is_lost(context: DetectionContext, before: ControllerTerm, after: ControllerTerm) -> bool:
    """Return True if another node took over, or the same one again that had been lost."""
    if before.controller != after.controller:
        return before.how != "stopped"
    if before.how is not None:
        return before.how not in ("stopped", "resigned")
    span = before.span
    return any(
        absence.broker == before.controller
        and absence.kind == "crash"
        and span.begin < absence.begin <= after.span.begin
        for absence in context.absences
    )


def _is_planned(
    context: DetectionContext,
    stops: Sequence[tuple[str, int]],
    term: ControllerTerm,
    after: ControllerTerm,
) -> bool:
    """Return True if the controller was being stopped on purpose: another one must follow."""
    moment, own_node, broker = after.span.begin, term.node, term.controller
    near = context.limits[CHURN]["near"] * SECOND
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


def delayed_failovers(context: DetectionContext, losses: Sequence[ControllerLoss]) -> list[str]:
    """Return the partitions whose leader was gone, and that waited for the next controller."""
    gaps = [
        (_began(loss) - _CLOCK_SLACK, loss.ready_at + _CATCHING_UP, brokers_gone(context, loss))
        for loss in losses[:_MAX_GAPS]
        if loss.lost_at is not None
    ]
    if not any(gone for _, _, gone in gaps):
        return []
    where = pc.field("election").isin(["failover", "unclean"])
    columns = ["topic", "partition", "started_at", "previous_leader"]
    return sorted({
        partition_name(row)
        for row in context.each("leadership", where & pc.field("started_at").is_valid(), columns)
        if any(
            begin <= row["started_at"] <= end and row["previous_leader"] in gone
            for begin, end, gone in gaps
        )
    })  # fmt: skip


def brokers_gone(context: DetectionContext, loss: ControllerLoss) -> set[int]:
    """Return the brokers that were away while nobody was the active controller."""
    return {
        absence.broker
        for absence in context.absences
        if absence.begin <= loss.ready_at + _CLOCK_SLACK
        and (absence.end is None or absence.end > loss.begin)
    }


def waiting_isr_changes(context: DetectionContext, losses: Sequence[ControllerLoss]) -> int:
    """Count what leaders proposed while nobody could decide on ISRs."""
    gaps = IntervalSet((loss.lost_at, loss.ready_at) for loss in losses if loss.lost_at is not None)
    where = (pc.field("kind") == "isr_proposed") & pc.field("ts").is_valid()
    rows = context.each("events", where, ["ts", "node"]) if gaps.intervals else ()
    return sum(row["at"] in gaps for row in rows)


def loss_measures(context: DetectionContext, losses: Sequence[ControllerLoss]) -> dict[str, Any]:
    """Return what is measured of controllers that were lost."""
    epochs = [loss.after.span.epoch for loss in losses]
    return {
        "epochs": [epoch for epoch in epochs if epoch is not None],
        "lost_by": sorted({loss.before.node for loss in losses}),
        "how": list(dict.fromkeys(loss.before.how or "unknown" for loss in losses)),
        "vacant_s": round(sum(loss.vacant_s for loss in losses), 1),
        "longest_s": max(loss.vacant_s for loss in losses),
        "delayed_partitions": len(delayed_failovers(context, losses)),
        "waiting_isr_changes": waiting_isr_changes(context, losses),
    }


def describe_waiting(measures: Mapping[str, Any]) -> str:
    """Say what had to wait for the next controller."""
    partitions, changes = measures["delayed_partitions"], measures["waiting_isr_changes"]
    waited = [
        f"{quantity(partitions, 'partition')} whose leader was gone" if partitions else "",
        f"{quantity(changes, 'change')} of the ISR that leaders asked for" if changes else "",
    ]
    named = " and ".join(filter(None, waited))
    return f" Waiting for the next controller: {named}." if named else ""
