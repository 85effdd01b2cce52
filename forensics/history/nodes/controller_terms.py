"""Finds which node was the active controller in each epoch, and epochs that two nodes claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from forensics.history.nodes.broker_states import EvidenceRow, Span, event_order, evidence_of
from forensics.lib.time_units import SECOND

_RESIGNS = ("controller_resigned", "controller_renouncing")
_NAMES = ("controller_elected", "controller_seen")
CONTROLLER_KINDS = (*_NAMES, *_RESIGNS)
# Nodes' clocks, corrected or not, may be off by this much.
_CLOCK_SLACK = SECOND

Event = Mapping[str, Any]


@dataclass(frozen=True)
class ControllerTerm:
    """A time in which a node was the active controller, held on to that, or nobody was."""

    node: str
    # the node's id; None if nobody was the controller, or the id is not known
    controller: int | None
    span: Span


@dataclass(frozen=True)
class EpochConflict:
    """One controller epoch that two nodes claim, or that two are said to hold."""

    epoch: int
    claimants: tuple[int, int]
    evidence: tuple[EvidenceRow, EvidenceRow]

    @property
    def invariant(self) -> str:
        """Return the name of the broken invariant."""
        return "one controller per epoch"

    @property
    def title(self) -> str:
        """Return the conflict as a sentence."""
        first, second = self.claimants
        return f"Controller epoch {self.epoch} is claimed for node {first} and for node {second}"


@dataclass(frozen=True)
class ControllerTerms:
    """The controllers' terms as they ended, with what lies between them, and rival claims."""

    terms: Sequence[ControllerTerm]
    conflicts: Sequence[EpochConflict] = ()


def find_terms(events: Iterable[Event]) -> list[ControllerTerm]:
    """Return the term of each controller epoch; it ends where the next one begins."""
    terms: dict[int, ControllerTerm] = {}
    for event in sorted(events, key=event_order):
        epoch = event["controller_epoch"]
        if event["kind"] == "controller_elected" and epoch is not None and epoch not in terms:
            span = Span("active", event["at"], None, [evidence_of(event)], epoch)
            terms[epoch] = ControllerTerm(event["node"], event["controller"], span)
    ordered = [terms[epoch] for epoch in sorted(terms)]
    for term, after in pairwise(ordered):
        term.span.end = after.span.begin
    return ordered


def close_terms(
    terms: Sequence[ControllerTerm], events: Iterable[Event], brokers: Mapping[int, Sequence[Span]]
) -> list[ControllerTerm]:
    """Find how each term ended: given up or cut off before the next, or held on to after it.

    Between a term that ended and the next epoch nobody was `active`: that time is `vacant`. A
    controller that was deposed and did not notice is `deposed` until it gives up.
    """
    resigned = [event for event in sorted(events, key=event_order) if event["kind"] in _RESIGNS]
    closed: list[ControllerTerm] = []
    for term, after in zip(terms, [*terms[1:], None], strict=False):
        span = term.span
        own = next((event for event in resigned if _gives_up(event, term, after, terms)), None)
        states = brokers.get(term.controller, ()) if term.controller is not None else ()
        end_at, line = _find_end(span, own, states) or (None, None)
        next_start = after.span.evidence[:1] if after is not None else []
        if end_at is None or line is None or (span.end is not None and end_at >= span.end):
            closed.append(term)
        else:
            ended = replace(span, end=end_at, evidence=[*span.evidence, line])
            closed.append(replace(term, span=ended))
            if after is not None and after.span.epoch == (span.epoch or 0) + 1:
                vacant = Span("vacant", end_at, span.end, [line, *next_start])
                closed.append(ControllerTerm(term.node, None, vacant))
        # A process that was started anew resigns from what it never held.
        alive = own is not None and end_at in (None, own["at"])
        if alive and own and span.end is not None and own["at"] > span.end + _CLOCK_SLACK:
            evidence = [*next_start, evidence_of(own)]
            deposed = Span("deposed", span.end, own["at"], evidence, span.epoch)
            closed.append(replace(term, span=deposed))
    return closed


def find_epoch_conflicts(events: Iterable[Event]) -> list[EpochConflict]:
    """Find controller epochs for which two controllers are named, by any nodes."""
    named: dict[int, dict[int, EvidenceRow]] = {}
    for event in sorted(events, key=event_order):
        epoch, controller = event["controller_epoch"], event["controller"]
        if event["kind"] in _NAMES and None not in (epoch, controller) and controller >= 0:
            named.setdefault(epoch, {}).setdefault(controller, evidence_of(event))
    return [
        EpochConflict(epoch, (first, second), (claims[first], claims[second]))
        for epoch, claims in sorted(named.items())
        if len(claims) > 1
        for first, second in [sorted(claims)[:2]]
    ]


def _gives_up(
    event: Event,
    term: ControllerTerm,
    after: ControllerTerm | None,
    terms: Sequence[ControllerTerm],
) -> bool:
    """Return True if a line ends just this term, and not a later one of the same node."""
    if event["node"] != term.node or event["at"] < term.span.begin:
        return False
    if event["controller_epoch"] not in (None, term.span.epoch):
        return False
    return after is None or not any(
        term.span.begin < other.span.begin <= event["at"]
        for other in terms
        if other.node == term.node
    )


def _find_end(
    span: Span, own: Event | None, states: Sequence[Span]
) -> tuple[int, EvidenceRow] | None:
    """Return when and by which line the node gave up, or its process ended, after the start."""
    ends = [(own["at"], evidence_of(own))] if own is not None else []
    ends += [
        (state.begin, state.evidence[0])
        for state in states
        if state.state in ("crashed", "stopped") and state.begin >= span.begin
    ]
    return min(ends, key=lambda end: end[0], default=None)
