"""Who was the active controller, by epoch, and where two nodes claim to be the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forensics.history.nodes.broker_states import Evidence, Span, event_order, evidence_of

CONTROLLER_KINDS = (
    "controller_elected",
    "controller_resigned",
    "controller_renouncing",
    "controller_seen",
)
_RESIGNS = ("controller_resigned", "controller_renouncing")
# Nodes' clocks, corrected or not, may be off by this much.
_BLUR = 1_000_000

# The node, its id, and the stretch of time.
ControllerTerm = tuple[str, int | None, Span]


@dataclass(frozen=True)
class EpochConflict:
    """One controller epoch that two nodes claim, or that two are said to hold."""

    epoch: int
    claimants: tuple[int, int]
    evidence: tuple[Evidence, Evidence]

    @property
    def invariant(self) -> str:
        """The promise that this breaks."""
        return "one controller per epoch"

    @property
    def title(self) -> str:
        """Say it in a sentence."""
        one, other = self.claimants
        return f"Controller epoch {self.epoch} is claimed for node {one} and for node {other}"


@dataclass(frozen=True)
class ControllerTerms:
    """The controllers' reigns as they ended, with what lies between them, and rival claims."""

    terms: Sequence[ControllerTerm]
    conflicts: Sequence[EpochConflict] = ()


def find_terms(events: Iterable[Mapping[str, Any]]) -> list[ControllerTerm]:
    """Say which node was the active controller, by epoch; a node's reign ends with the next."""
    reigns: dict[int, ControllerTerm] = {}
    for event in sorted(events, key=event_order):
        epoch = event["controller_epoch"]
        if event["kind"] != "controller_elected" or epoch is None or epoch in reigns:
            continue
        span = Span("active", event["at"], None, [evidence_of(event)], epoch)
        reigns[epoch] = (event["node"], event["controller"], span)
    ordered = [reigns[epoch] for epoch in sorted(reigns)]
    for (_, _, span), (_, _, after) in zip(ordered, ordered[1:], strict=False):
        span.end = after.begin
    return ordered


def close_terms(
    reigns: Sequence[ControllerTerm],
    events: Iterable[Mapping[str, Any]],
    brokers: Mapping[int, Sequence[Span]],
) -> list[ControllerTerm]:
    """Tell how each reign ended: given up or cut off before the next, or held on to after it.

    Between a reign that ended and the next epoch nobody was `active`: that time is `vacant`. Who
    was deposed and did not notice is `deposed` until it gives up.
    """
    resigned = [event for event in sorted(events, key=event_order) if event["kind"] in _RESIGNS]
    found: list[ControllerTerm] = []
    for reign, after in zip(reigns, [*reigns[1:], None], strict=False):
        node, owner, span = reign
        own = next((one for one in resigned if _gives_up(one, reign, after, reigns)), None)
        end = _last_moment(span, own, brokers.get(-1 if owner is None else owner, ()))
        if end is None or (span.end is not None and end[0] >= span.end):
            found.append(reign)
        else:
            found.append(
                (node, owner, replace(span, end=end[0], evidence=[*span.evidence, end[1]]))
            )
            if after is not None and after[2].epoch == (span.epoch or 0) + 1:
                places = [end[1], *after[2].evidence[:1]]
                found.append((node, None, Span("vacant", end[0], span.end, places)))
        # A process that was started anew resigns from what it never held.
        alive = own is not None and (end is None or end[0] == own["at"])
        if alive and own is not None and span.end is not None and own["at"] > span.end + _BLUR:
            places = [*(after[2].evidence[:1] if after else []), evidence_of(own)]
            found.append((node, owner, Span("deposed", span.end, own["at"], places, span.epoch)))
    return found


def find_epoch_conflicts(events: Iterable[Mapping[str, Any]]) -> list[EpochConflict]:
    """Find epochs of controllers for which two owners are named, by whomever."""
    named: dict[int, dict[int, Evidence]] = {}
    for event in sorted(events, key=event_order):
        told = event["kind"] in ("controller_elected", "controller_seen")
        epoch, owner = event["controller_epoch"], event["controller"]
        if told and epoch is not None and owner is not None and owner >= 0:
            named.setdefault(epoch, {}).setdefault(owner, evidence_of(event))
    found = []
    for epoch, owners in sorted(named.items()):
        one, *others = sorted(owners)
        found += [
            EpochConflict(epoch, (one, other), (owners[one], owners[other])) for other in others[:1]
        ]
    return found


def _gives_up(
    event: Mapping[str, Any],
    reign: ControllerTerm,
    after: ControllerTerm | None,
    reigns: Sequence[ControllerTerm],
) -> bool:
    """Whether a line is the end of just this reign, and not of a later one of the same node."""
    node, _, span = reign
    if event["node"] != node or event["at"] < span.begin:
        return False
    if event["controller_epoch"] is not None and event["controller_epoch"] != span.epoch:
        return False
    later = [one for other, _, one in reigns if other == node and one.begin > span.begin]
    return after is None or all(event["at"] < one.begin for one in later)


def _last_moment(
    span: Span, own: Mapping[str, Any] | None, life: Sequence[Span]
) -> tuple[int, Evidence] | None:
    """Find when the node gave up, or its process ended, if that was within the reign."""
    ends = [(own["at"], evidence_of(own))] if own is not None else []
    ends += [
        (one.begin, one.evidence[0])
        for one in life
        if one.state in ("crashed", "stopped") and one.begin >= span.begin
    ]
    return min(ends, key=lambda one: one[0], default=None)
