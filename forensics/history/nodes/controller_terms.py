"""Finds which node was the active controller in each epoch, and epochs that two nodes claim.

A term ends at the last sign of who had it, not where the next begins: the time between is `vacant`.
Who goes on after the next one began is `deposed`: nothing that it decides is committed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import EvidenceRow, Span, event_order, evidence_of
from forensics.lib.intervals import Interval, IntervalSet
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import SECOND

# States of a term; those of a controller's process stand beside them.
TERM_STATES = ("active", "vacant", "deposed")
_RESIGNS = ("controller_resigned", "controller_renouncing")
_NAMES = ("controller_elected", "controller_seen")
# Lines by which a node says that it gives up; the leader of the quorum is no controller without it.
_GIVES_UP = (*_RESIGNS, "controller_moved", "controller_forced_out", "raft_majority_lost")
CONTROLLER_KINDS = (*_NAMES, *_GIVES_UP, "raft_transition", "raft_fetch_timed_out")
LEADS, FOLLOWS = ("Leader", "LeaderState"), ("Follower", "FollowerState")
_ASKS = ("Prospective", "ProspectiveState")
# What only controllers log, without their id.
_UNSIGNED = ("unclean_election_chosen",)
# States of the process in which it cannot be a controller, in the order of trust.
_GONE = ("crashed", "paused", "isolated")
_ORDERLY = ("stopping", "stopped")
# Nodes' clocks, corrected or not, may be off by this much.
_CLOCK_SLACK = SECOND
# From the signal to stop until the controller, the last part of a process, has handed over.
_STOPPING = 60 * SECOND
_VOTERS = re.compile(r"voters=\[([\d, ]+)\]")
# Voters fetch at least that often.
_FETCHING = SECOND // 2
# A process that stood still logs again within that, or never.
_WAKES = 600 * SECOND

Event = Mapping[str, Any]


@dataclass(frozen=True)
class ControllerTerm:
    """A time in which a node was the active controller, held on to that, or nobody was."""

    node: str
    # the node's id; None if nobody was the controller, or the id is not known
    controller: int | None
    span: Span
    # how it ended: stopped, crashed, paused, isolated, no_majority (too few voters answered it),
    # resigned, unheard (others no longer heard of it, and its own log does not say why); None if no
    # line tells
    how: str | None = None
    # whether only those who followed it show it, so that it may have begun before
    is_inferred: bool = False
    # of one that was held on to: whose line shows that it was over
    deposed_by: str = ""


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
    # node and time of each return to a leader that did not answer
    vain_returns: frozenset[tuple[str, int]] = frozenset()


class Witnesses(Protocol):
    """What others, and the node's own log, show of the end of a controller."""

    def epochs_seen(self) -> frozenset[int]:
        """Return the epochs of the quorum that any node names, with a leader or without one."""

    def lost_contact(self, node: str, id_: int | None, begin: int, end: int) -> Event | None:
        """Return the first line, between two moments, of a node whose connection to it broke."""

    def lines(self, node: str, begin: int, end: int) -> tuple[Event, Event] | None:
        """Return the first and the last event that a node logged between two moments."""


@dataclass(frozen=True)
class _Ending:
    at: int
    how: str | None
    lines: Sequence[EvidenceRow]


@dataclass(frozen=True)
class TermEvents:
    """Events of CONTROLLER_KINDS in order, and what else tells how terms ended."""

    events: Sequence[Event]
    # states of the processes by node
    processes: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    # when each node was started
    starts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    witnesses: Witnesses | None = None
    # how long a follower waits for the leader of the quorum before it calls an election
    fetch_timeout: int = 2 * SECOND

    @cached_property
    def vain_returns(self) -> frozenset[tuple[str, int]]:
        """Return node and time of each return to a leader that did not answer.

        Since Kafka 4.0 (KIP-996) a follower that hears nothing of its leader asks the others first
        whether they would vote for it, and if they do not, follows the one that it knew again,
        though that may be dead. Whether it is shows when the next fetch is answered, or not.
        """
        vain: set[tuple[str, int]] = set()
        epochs: dict[str, int | None] = {}
        returns: dict[str, int] = {}
        for event in self.events:
            node, kind, at = event["node"] or "", event["kind"], event["at"]
            if kind not in ("raft_fetch_timed_out", "raft_transition"):
                continue
            returned = returns.pop(node, None)
            # Whoever was answered once stays for longer.
            if returned is not None and at - returned <= 3 * self.fetch_timeout // 2:
                vain.add((node, returned))
            if kind == "raft_transition":
                epoch = event["controller_epoch"]
                is_back = event["to_state"] in FOLLOWS and event["from_state"] in _ASKS
                if is_back and epochs.get(node) == epoch:
                    returns[node] = at
                epochs[node] = epoch
        return frozenset(vain)

    @cached_property
    def _times(self) -> Sequence[int]:
        return [event["at"] for event in self.events]

    def between(self, begin: int, end: int | None) -> Sequence[Event]:
        """Return the events from one moment up to, but without, another one."""
        last = len(self.events) if end is None else bisect_left(self._times, end)
        return self.events[bisect_left(self._times, begin) : last]


@dataclass(frozen=True)
class DeposedControllers:
    """Which lines of deposed controllers are void: what they decide then is never committed."""

    # node to the id of its controller and the times, beyond the doubt of the clocks
    times: Mapping[str, tuple[int | None, IntervalSet]] = field(default_factory=dict)

    @classmethod
    def from_terms(cls, deposed: Iterable[ControllerTerm], clocks: Clocks) -> DeposedControllers:
        """Take the terms that were held on to, after the moments that are sure to be too late."""
        found: dict[str, tuple[int | None, list[Interval]]] = {}
        for term in deposed:
            begin, end = term.span.begin, term.span.end or term.span.begin
            doubts = [clocks.uncertainty(node, begin) for node in (term.node, term.deposed_by)]
            known = [doubt for doubt in doubts if doubt is not None]
            if len(known) == len(doubts) and begin + sum(known) < end:
                times = found.setdefault(term.node, (term.controller, []))[1]
                times.append((begin + sum(known), end))
        return cls({node: (id_, IntervalSet(times)) for node, (id_, times) in found.items()})

    def include(self, row: Event, at: int) -> bool:
        """Return True if an event (node, kind, controller) is an act of a deposed controller."""
        controller, times = self.times.get(row["node"] or "", (None, None))
        if times is None or at not in times:
            return False
        # What a combined node logs as a broker is what the quorum committed.
        return row["controller"] == controller or row["kind"] in _UNSIGNED


def find_terms(events: Iterable[Event]) -> list[ControllerTerm]:
    """Return the term of each controller epoch, up to where the next one begins.

    If the log of a controller is missing, its term is known from those who followed it.
    """
    terms: dict[int, ControllerTerm] = {}
    named: dict[int, Event] = {}
    logged: set[int | None] = set()
    ordered_events = sorted(events, key=event_order)
    for event in ordered_events:
        epoch, kind = event["controller_epoch"], event["kind"]
        if kind == "raft_transition":
            logged.add(event["broker"])
        if epoch is None or event["controller"] is None:
            continue
        if kind == "controller_elected":
            logged.add(event["controller"])
            span = Span("active", event["at"], None, [evidence_of(event)], epoch)
            terms.setdefault(epoch, ControllerTerm(event["node"], event["controller"], span))
        elif _names_leader(event) and event["controller"] >= 0:
            named.setdefault(epoch, event)
    prefix = "broker" if _is_combined(ordered_events) else "controller"
    for epoch, event in named.items():
        controller = event["controller"]
        if epoch not in terms and controller not in logged:
            span = Span("active", event["at"], None, [evidence_of(event)], epoch)
            node = f"{prefix}-{controller}"
            terms[epoch] = ControllerTerm(node, controller, span, is_inferred=True)
    ordered = [terms[epoch] for epoch in sorted(terms)]
    for term, after in pairwise(ordered):
        term.span.end = after.span.begin
    return ordered


def _names_leader(event: Event) -> bool:
    """Return True if a node says, as it learns it, whom it follows."""
    if event["kind"] == "raft_transition":
        return event["to_state"] in FOLLOWS and event["from_state"] != "null"
    return bool(event["kind"] == "controller_seen")


def _is_combined(events: Iterable[Event]) -> bool:
    """Return True if nodes named as brokers take part in the quorum themselves."""
    return any(
        broker_id(event["node"]) is not None
        and event["kind"] in _NAMES
        and event["controller_epoch"] is not None
        for event in events
    )


def find_deposed(terms: Sequence[ControllerTerm], known: TermEvents) -> list[ControllerTerm]:
    """Find the times in which a controller held on to its term after others had gone on.

    That is when the next one began, or before it when too few voters were left in its epoch.
    """
    deposed: list[ControllerTerm] = []
    following = zip([*terms[1:], None], _find_next_terms(terms), strict=False)
    for term, (after, until) in zip(terms, following, strict=False):
        own = _own_end(term, until, known)
        if own is None:
            continue
        begin, by, line = own["at"], term.node, [evidence_of(own)]
        if after is not None and after.span.begin < begin:
            begin, by, line = after.span.begin, after.node, after.span.evidence[:1]
        if (lost := _find_lost_voter(term, begin, known)) is not None:
            begin, by, line = lost["at"], lost["node"], [evidence_of(lost)]
        # A process that was started anew resigns from what it never held.
        if own["at"] <= begin + _CLOCK_SLACK or term.node == by:
            continue
        if not any(term.span.begin < at <= own["at"] for at in known.starts.get(term.node, ())):
            span = Span("deposed", begin, own["at"], [*line, evidence_of(own)], term.span.epoch)
            deposed.append(replace(term, span=span, deposed_by=by))
    return deposed


def _find_lost_voter(term: ControllerTerm, until: int, known: TermEvents) -> Event | None:
    """Return the line of the voter that went on to a later epoch and left no majority behind."""
    moved: set[str] = set()
    voters = 0
    for event in known.between(term.span.begin, until):
        node = event["node"] or ""
        if event["kind"] != "raft_transition" or _is_broker(node) != _is_broker(term.node):
            continue
        voters = max(voters, _count_voters(event))
        if node != term.node and (event["controller_epoch"] or 0) > (term.span.epoch or 0):
            moved.add(node)
        if moved and voters and voters - len(moved) <= voters // 2:
            return event
    return None


def close_terms(
    terms: Sequence[ControllerTerm], known: TermEvents, deposed: Sequence[ControllerTerm]
) -> list[ControllerTerm]:
    """End each term where its controller was lost; until the next epoch nobody is `active`."""
    held = {term.span.epoch: term for term in deposed}
    closed: list[ControllerTerm] = []
    following = zip([*terms[1:], None], _find_next_terms(terms), strict=False)
    for term, (after, until) in zip(terms, following, strict=False):
        span = term.span
        ending = _find_ending(term, after, until, known)
        if span.epoch in held:
            ending = _end_before(held[span.epoch], ending, known)
        if ending is None or (span.end is not None and ending.at >= span.end):
            closed.append(replace(term, how=ending.how if ending else None))
        else:
            ended = replace(span, end=ending.at, evidence=[*span.evidence, *ending.lines])
            closed.append(replace(term, span=ended, how=ending.how))
            if after is not None and ending.how and _follows(term, after, known):
                evidence = [*ending.lines, *after.span.evidence[:1]]
                vacant = Span("vacant", ending.at, span.end, evidence)
                closed.append(ControllerTerm(term.node, None, vacant))
        if span.epoch in held:
            closed.append(held[span.epoch])
    return closed


def _end_before(held: ControllerTerm, ending: _Ending | None, known: TermEvents) -> _Ending:
    """End a term at the latest where its controller began to hold on to it in vain."""
    begin = held.span.begin
    if ending is not None and ending.at <= begin:
        return ending
    gone = (
        state.state
        for state in known.processes.get(held.node, ())
        if state.state in _GONE
        and state.begin <= begin + known.fetch_timeout
        and (state.end is None or state.end >= begin)
    )
    return _Ending(begin, next(gone, "unheard"), held.span.evidence[:1])


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


def _follows(term: ControllerTerm, after: ControllerTerm, known: TermEvents) -> bool:
    """Return True if no other controller can have led between two terms.

    Elections that nobody wins raise the epoch, too: those who took part name it.
    """
    if after.is_inferred:
        return False
    between = range((term.span.epoch or 0) + 1, after.span.epoch or 0)
    if not between:
        return True
    seen = known.witnesses.epochs_seen() if known.witnesses else frozenset()
    return seen.issuperset(between)


def _find_next_terms(terms: Sequence[ControllerTerm]) -> list[int | None]:
    """Return for each term when its node began a later one, if it did."""
    begins: dict[str, list[int]] = defaultdict(list)
    for term in terms:
        begins[term.node].append(term.span.begin)
    found: list[int | None] = []
    for term in terms:
        own = sorted(begins[term.node])
        later = bisect_right(own, term.span.begin)
        found.append(own[later] if later < len(own) else None)
    return found


def _own_end(term: ControllerTerm, until: int | None, known: TermEvents) -> Event | None:
    """Return the first line by which the node ends just this term, and not a later one."""
    window = known.between(term.span.begin, until)
    own = [event for event in window if _gives_up(event, term)]
    stated = (event for event in own if event["kind"] in _RESIGNS)
    return next(stated, own[0] if own else None)


def _gives_up(event: Event, term: ControllerTerm) -> bool:
    if event["node"] != term.node:
        return False
    if event["kind"] == "raft_transition":
        return event["broker"] == term.controller and event["from_state"] in LEADS
    return event["kind"] in _GIVES_UP and event["controller_epoch"] in (None, term.span.epoch)


def _find_ending(
    term: ControllerTerm, after: ControllerTerm | None, until: int | None, known: TermEvents
) -> _Ending | None:
    """Return when and how the node stopped to be the controller, before the next one began."""
    span, limit = term.span, term.span.end
    begun = [
        state
        for state in known.processes.get(term.node, ())
        if span.begin <= state.begin and (limit is None or state.begin < limit + _CLOCK_SLACK)
    ]
    own = _given_up(term, until, known)
    stops = [state for state in begun if state.state in _ORDERLY]
    if own is not None and any(
        own.at - _STOPPING <= stop.begin <= own.at + _CLOCK_SLACK for stop in stops
    ):
        return replace(own, how="stopped")
    gone = next((state for state in begun if _ends_term(state, limit)), None)
    if gone is not None and (own is None or gone.begin < own.at):
        return _Ending(gone.begin, gone.state, gone.evidence[:1])
    stop = next((stop for stop in stops if stop.state == "stopped"), None)
    if own is None and stop is not None:
        return _Ending(stop.begin, "stopped", stop.evidence[:1])
    unheard = _find_unheard(term, after, known) if after is not None else None
    return min(filter(None, (own, unheard)), key=lambda ending: ending.at, default=None)


def _ends_term(state: Span, limit: int | None) -> bool:
    """Return True if a process that was gone could not lead again before the next one did."""
    if state.state == "crashed":
        return True
    end = state.end
    return state.state in _GONE and (
        end is None or (limit is not None and end >= limit - _CLOCK_SLACK)
    )


def _given_up(term: ControllerTerm, until: int | None, known: TermEvents) -> _Ending | None:
    """Return the first own line by which the node lost its office before the next one had it."""
    found: _Ending | None = None
    for event in known.between(term.span.begin, until):
        if _gives_up(event, term):
            # One that waits for a majority had lost it before.
            is_alone = event["kind"] == "raft_majority_lost"
            waited = event["duration_ms"] if is_alone else 0
            at = max(term.span.begin, event["at"] - (waited or 0) * 1000)
            is_earlier = found is None or at < found.at
            if is_earlier and (term.span.end is None or at < term.span.end):
                how = "no_majority" if is_alone else "resigned"
                found = _Ending(at, how, [evidence_of(event)])
    return found


def _find_unheard(term: ControllerTerm, after: ControllerTerm, known: TermEvents) -> _Ending | None:
    """Return when this controller lost the last voter that it needed for a majority."""
    begin, end, node, witnesses = term.span.begin, after.span.begin, term.node, known.witnesses
    moved: dict[str, tuple[int, Event]] = {}
    voters = 0
    for event in known.between(begin, end + 1):
        other = event["node"] or ""
        if _is_broker(other) != _is_broker(node):
            continue
        voters = max(voters, _count_voters(event))
        if other == node:
            continue
        if event["kind"] == "raft_fetch_timed_out":
            # A leader answers each fetch within half a second, and the next one follows at once.
            heard = max(begin, event["at"] - known.fetch_timeout)
            moved.setdefault(other, (min(heard + _FETCHING // 2, event["at"]), event))
        elif event["controller_epoch"] == term.span.epoch and _finds_leader(event, known):
            moved.pop(other, None)
        elif event["kind"] == "raft_transition" and (event["controller_epoch"] or 0) > (
            term.span.epoch or 0
        ):
            moved.setdefault(other, (event["at"], event))
    needed = voters - 1 - voters // 2 if voters else len(moved) - 1
    if not moved:
        own = witnesses.lines(node, begin, end) if witnesses else None
        return _Ending(own[1]["at"], None, [evidence_of(own[1])]) if own is not None else None
    if needed >= len(moved):
        # Voters whose logs are missing may have followed it all the while.
        return None
    at, line = sorted(moved.values(), key=lambda one: (one[0], event_order(one[1])))[needed]
    if line["kind"] == "raft_transition":
        return _Ending(at, "resigned", [evidence_of(line)])
    heard = max(begin, line["at"] - known.fetch_timeout)
    lost = witnesses.lost_contact(node, term.controller, heard, line["at"]) if witnesses else None
    evidence = [evidence_of(event) for event in (lost, line) if event is not None]
    how = _unheard_how(term, line["at"], end, known, lost)
    return _Ending(at if lost is None else lost["at"], how, evidence)


def _finds_leader(event: Event, known: TermEvents) -> bool:
    """Return True if a node that had lost its leader found it again."""
    return _names_leader(event) and (event["node"], event["at"]) not in known.vain_returns


def _is_broker(node: str) -> bool:
    """Return True if a node votes as a broker does: in a combined quorum all do."""
    return broker_id(node) is not None


def _count_voters(event: Event) -> int:
    """Return how many voters a line of the quorum names, if it does."""
    found = _VOTERS.search(event["text"] or "") if event["kind"] == "raft_transition" else None
    return found[1].count(",") + 1 if found else 0


def _unheard_how(
    term: ControllerTerm, timed_out: int, end: int, known: TermEvents, lost: Event | None
) -> str:
    """Return how a controller was when others no longer heard of it, by its own log."""
    node, witnesses = term.node, known.witnesses
    own = witnesses.lines(node, term.span.begin, end) if witnesses else None
    if witnesses is None or own is None:
        return "unheard"
    if own[1]["at"] >= timed_out:
        return "isolated"
    later = witnesses.lines(node, end, end + _WAKES)
    if later is not None:
        started = any(own[1]["at"] < at <= later[0]["at"] for at in known.starts.get(node, ()))
        return "crashed" if started else "paused"
    return "crashed" if lost is not None else "unheard"
