"""How a leader came to lead: the kind of the election, who triggered it, and if it was clean."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.observations import has_moment_between
from forensics.lib.time_units import SECOND

_ELECTIONS_BY_HINT = {
    "preferred_election_done": "preferred",
    "leader_selected": "failover",
    "leader_chosen": "failover",
}
_OUTSIDE_ISR = "unclean_election_chosen"
# What is logged about one partition's election, beside the state that it led to.
ELECTION_KINDS = (*_ELECTIONS_BY_HINT, _OUTSIDE_ISR, "reassignment", "reassignment_done")

# Nobody's partitions move before it leaves; clocks may make it look so.
_CLOCK_SLACK = 2 * SECOND
# An absence explains a change until so long after its end.
_AFTER = 1 * SECOND
# A controller logs an election at once.
_HINT_NEAR = 5 * SECOND

_SHUTDOWNS = ("controlled_shutdown_asked", "brokers_shutting_down", "broker_shutdown_granted")
_DELETIONS = ("topic_deleted", "topic_deleting")
# After these a controller elects leaders by itself.
_TRIGGERS = ("leaders_changing", "unclean_enabled", "controller_ready")
_ELECTIONS = ("election_started", "unclean_election_chosen", "brokers_changed")
ACTION_KINDS = (*_SHUTDOWNS, *_DELETIONS, *_TRIGGERS, *_ELECTIONS)

# From the controller's decision until the last replica has logged it, on a busy machine.
_PROPAGATION = 15 * SECOND
# Clocks that nothing corrects may be off by this much.
_EARLY = 2 * SECOND
_TOGETHER = 1 * SECOND

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ElectionHint:
    """One line about a partition's election; `at` is corrected."""

    at: int
    kind: str
    leader: int | None
    replicas: tuple[int, ...] | None


Absences = Sequence[Absence]
Hints = Sequence[ElectionHint]


@dataclass(slots=True)
class LeaderChange:
    """A step from one leader epoch to the next, with what is known of both sides."""

    epoch: int
    at: int | None
    old: int | None
    new: int | None
    old_isr: tuple[int, ...] | None
    new_isr: tuple[int, ...] | None
    old_replicas: tuple[int, ...] | None
    replicas: tuple[int, ...] | None
    elr: tuple[int, ...] | None
    is_recovering: bool
    kraft: bool
    # whether old and new are neighbours by the partition epoch
    is_adjacent: bool = False
    # whether the logs are here that would show how the old leader left
    departure_logged: bool = True
    # who led before the partition lost its leader
    last_leader: int | None = None
    # whether the controller logged that no member of the ISR was alive
    chosen_outside_isr: bool = False
    # whether the cluster keeps eligible leader replicas; None if nothing tells
    keeps_elr: bool | None = False

    @property
    def keeps_leader(self) -> bool:
        """Return True if only the epoch was raised, and nobody was elected."""
        return self.new is not None and self.new >= 0 and self.new == self.old


def read_election_hints(rows: Iterable[Mapping[str, Any]], clocks: Clocks) -> list[ElectionHint]:
    """Read what is logged about elections (ELECTION_KINDS), in the order of time."""
    hints = [
        ElectionHint(
            clocks.event_time(row),
            row["kind"],
            row["leader"],
            None if row["replicas"] is None else tuple(row["replicas"]),
        )
        for row in rows
        if row["kind"] in ELECTION_KINDS and row["ts"] is not None
    ]
    return sorted(
        hints, key=lambda hint: (hint.at, hint.kind, hint.leader or 0, hint.replicas or ())
    )


def _is_clean_after_none(change: LeaderChange) -> bool | None:
    """Return True if the last leader leads again after there was none, False if another does.

    A controller before 1.1 takes even the last replica, which had led, out of the ISR.
    """
    if change.old != -1 or change.last_leader is None:
        return None
    if change.new == change.last_leader:
        return True
    return False if change.chosen_outside_isr else None


def is_chosen_outside_isr(hints: Hints, at: int | None, leader: int | None) -> bool:
    """Return True if a controller logged about then that it chose a leader outside the ISR."""
    return any(hint.kind == _OUTSIDE_ISR and hint.leader == leader for hint in _near(hints, at))


def _near(hints: Hints, at: int | None) -> Hints:
    if at is None:
        return ()
    return hints[_index_at(hints, at - _HINT_NEAR) : _index_at(hints, at + _HINT_NEAR)]


def is_clean_election(change: LeaderChange) -> bool | None:
    """Return True if no committed record could be lost, False if one could; None if unknown."""
    if change.new is None or change.new == -1:
        return None
    if change.epoch == 0 or change.new == change.old or change.new in (change.old_isr or ()):
        return True
    # A partition stays marked as recovering for a while, so the mark alone proves nothing about a
    # leader that was in sync; about one that was not known to be, it does.
    if change.is_recovering:
        return False
    if change.old_isr is None:
        return None if change.kraft else _is_clean_after_none(change)
    has_joined = change.kraft and _has_joined(change)
    if change.new in (change.elr or ()) or (has_joined and change.is_adjacent):
        return True
    # Brokers do not log who is eligible: whoever left an ISR that fell below its minimum is.
    is_hidden = has_joined or (change.elr is None and change.keeps_elr is not False)
    # A KRaft controller marks an unclean leader as recovering, which every replica logs.
    return None if change.kraft and (is_hidden or not change.old_isr) else False


def _has_joined(change: LeaderChange) -> bool:
    """Return True if a leader that was not in sync shares the ISR with one that was.

    KRaft's controller leaves an unclean leader alone in the ISR. So this one had joined by then, as
    replicas do by the very change that ends a reassignment.
    """
    return any(one != change.new and one in (change.old_isr or ()) for one in change.new_isr or ())


def classify_election(
    change: LeaderChange,
    absences: Absences,
    hints: Hints = (),
    actions: ControllerActions | None = None,
) -> str:
    """Return the kind of an election as the tables name it; `unknown` if nobody was elected."""
    actions = actions or ControllerActions()
    if change.epoch == 0:
        return "initial"
    if is_clean_election(change) is False:
        return "unclean"
    if change.keeps_leader:
        return "unknown"
    if change.new == -1:
        return _classify_loss(change, absences, actions)
    hinted = _hinted_election(change, hints)
    if hinted or change.new is None or change.old is None:
        return hinted or "unknown"
    departure = _departure_kind(change.old, change, absences, actions)
    return _classify_by_states(change, departure, hints, actions)


def classify_manner(change: LeaderChange, actions: ControllerActions | None = None) -> str | None:
    """Return what the kind leaves open: the trigger, the set elected from, or that nobody was.

    `automatic` and `manual` are unclean elections by the controller's own decision and by an
    admin's; `elr` is a clean one from the eligible leader replicas; `epoch_bump` is none at all.
    """
    if change.keeps_leader and change.epoch > 0:
        return "epoch_bump"
    clean = is_clean_election(change)
    if clean is False:
        return actions.unclean_trigger(change.at) if actions else None
    eligible = change.new in (change.elr or ()) and change.new not in (change.old_isr or ())
    return "elr" if clean and eligible and change.epoch > 0 else None


def _classify_loss(change: LeaderChange, absences: Absences, actions: ControllerActions) -> str:
    """Return how a partition lost its leader; if that is not known, look at all candidates."""
    if change.at is None:
        return "unknown"
    led = change.old is not None and change.old >= 0
    candidates = [change.old] if led else [*(change.old_isr or change.replicas or ())]
    kinds = {_departure_kind(broker, change, absences, actions) for broker in candidates}
    if kinds == {"controlled"}:
        return "controlled_shutdown"
    known = led and change.departure_logged
    return "failover" if known or (kinds and not kinds & {"controlled", None}) else "unknown"


def _classify_by_states(
    change: LeaderChange, departure: str | None, hints: Hints, actions: ControllerActions
) -> str:
    if change.old == -1:
        # Where it cannot be told who was in sync, it may have been unclean.
        return "unknown" if is_clean_election(change) is None else "failover"
    moved = change.replicas and change.old_replicas and change.replicas != change.old_replicas
    if moved or _is_reassigned_away(change, departure, hints):
        return "reassignment"
    in_sync = change.new_isr is not None and change.old in change.new_isr
    # A broker that stays in the ISR while the leadership is taken from it was neither dead nor
    # stopped.
    if departure and not (change.is_adjacent and in_sync):
        if departure == "controlled":
            return "controlled_shutdown"
        return "failover" if change.departure_logged else "unknown"
    if _is_preferred(change, actions, in_sync=in_sync):
        return "preferred"
    left = change.departure_logged and change.new_isr is not None and not in_sync
    return "failover" if left else "unknown"


def _is_preferred(change: LeaderChange, actions: ControllerActions, *, in_sync: bool) -> bool:
    """Return True if the old leader stays in sync, and the first replica leads instead.

    Where nothing tells who is in sync, or who the first replica is, the controller must have logged
    that it elected preferred leaders.
    """
    stays = in_sync and (change.is_adjacent or change.departure_logged)
    by_controller = actions.is_preferred_election(change.at)
    if not change.replicas:
        return by_controller and stays
    isr_unknown = change.new_isr is None and change.departure_logged
    return change.new == change.replicas[0] and (stays or (by_controller and isr_unknown))


def _hinted_election(change: LeaderChange, hints: Hints) -> str | None:
    if change.new is None:
        return None
    named = (hint.kind for hint in _near(hints, change.at) if hint.leader == change.new)
    return next((_ELECTIONS_BY_HINT[kind] for kind in named if kind in _ELECTIONS_BY_HINT), None)


def _is_reassigned_away(change: LeaderChange, departure: str | None, hints: Hints) -> bool:
    """Return True if a live leader is to leave the replicas by a reassignment that goes on."""
    if change.at is None or departure:
        return False
    before = (hints[n] for n in range(_index_at(hints, change.at + _HINT_NEAR) - 1, -1, -1))
    # KRaft's controller writes each step down twice, once without the replicas.
    last = next(
        (
            hint
            for hint in before
            if hint.kind == "reassignment_done"
            or (hint.kind == "reassignment" and hint.replicas is not None)
        ),
        None,
    )
    if last is None:
        return False
    if last.kind == "reassignment_done":
        # The leader itself reports who is in sync; that it was the last step moves it away.
        is_near = abs(last.at - change.at) <= _HINT_NEAR
        return is_near and last.leader == change.old and change.old not in (change.new_isr or ())
    return last.replicas is not None and change.old not in last.replicas


def _index_at(hints: Hints, at: int) -> int:
    return bisect_left(hints, at, key=lambda hint: hint.at)


def _departure_kind(
    broker: int | None, change: LeaderChange, absences: Absences, actions: ControllerActions
) -> str | None:
    """Return how a broker was away at a change of leader; None if it was not."""
    if change.at is None:
        return None
    # If we do not know who left the ISR, do not accept a cause that lies within clock uncertainty
    # after the election.
    early = _CLOCK_SLACK if change.new_isr is not None else 0
    if actions.is_shutting_down(broker, change.at, early):
        return "controlled"
    for absence in absences:
        end = absence.end if absence.end is not None else change.at
        near = absence.noticed - early <= change.at <= end + _AFTER
        if near and absence.broker == broker:
            # A broker that is missed before it stops had not begun to stop when it was missed.
            missed = absence.evidence and absence.evidence[0]["what"] == "fenced"
            return "unknown" if missed and absence.kind == "controlled" else absence.kind
    return None


@dataclass(frozen=True)
class ControllerActions:
    """Moments of controllers' actions, in microseconds on the reference clock, each in order."""

    shutdowns: Mapping[int, Sequence[int]] = field(default_factory=dict)
    preferred_elections: Sequence[int] = ()
    # what makes a controller elect unclean leaders by itself, or because an admin asked for it
    automatic: Sequence[int] = ()
    manual: Sequence[int] = ()
    deletions: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> ControllerActions:
        """Collect actions from new events of ACTION_KINDS, with corrected times in `at`."""
        shutdowns: dict[int, list[int]] = defaultdict(list)
        deletions: dict[str, list[int]] = defaultdict(list)
        moments: dict[str | None, list[int]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["at"]):
            if _is_shutdown(event):
                shutdowns[event["broker"]].append(event["at"])
            elif event["kind"] in _DELETIONS and event["topic"]:
                deletions[event["topic"]].append(event["at"])
            else:
                moments[_classify(event)].append(event["at"])
        automatic = moments["automatic"]
        # An election that came with no action of the controller's own was asked for.
        asked = [
            at
            for at in moments["chosen"]
            if not has_moment_between(automatic, at - _TOGETHER, at + _TOGETHER)
        ]
        manual = sorted([*moments["manual"], *asked])
        return cls(shutdowns, moments["preferred"], automatic, manual, deletions)

    def is_shutting_down(self, broker: int | None, at: int | None, early: int = _EARLY) -> bool:
        """Return True if a broker had asked, shortly before, for a controlled shutdown."""
        moments = self.shutdowns.get(broker, ()) if broker is not None else ()
        return _is_due_to(moments, at, early)

    def is_preferred_election(self, at: int | None) -> bool:
        """Return True if the controller elected preferred leaders about then."""
        return _is_due_to(self.preferred_elections, at)

    def unclean_trigger(self, at: int | None) -> str | None:
        """Return whether an unclean election was `automatic` or `manual`; None if nothing tells."""
        automatic, manual = _is_due_to(self.automatic, at), _is_due_to(self.manual, at)
        if automatic == manual:
            # Both near: the moments do not tell which of them it was.
            return None
        return "automatic" if automatic else "manual"


def _is_due_to(moments: Sequence[int], at: int | None, early: int = _EARLY) -> bool:
    return at is not None and has_moment_between(moments, at - _PROPAGATION, at + early)


def _is_shutdown(event: Event) -> bool:
    entering = event["kind"] == "leaders_changing" and event["detail"] == "enterControlledShutdown"
    return event["broker"] is not None and (entering or event["kind"] in _SHUTDOWNS)


def _classify(event: Event) -> str | None:
    """Return which elections an event triggers; `chosen`: an unclean one, by whatever trigger."""
    kind, count = event["kind"], event["count"]
    if kind == "unclean_election_chosen":
        # With the partition's name it is the controller that looks for any leader by itself; with
        # the topic's id it is any unclean election.
        return "automatic" if event["topic"] else "chosen"
    if kind == "election_started" and event["detail"] == "PREFERRED":
        # A regular election that moved no leader says so.
        return "preferred" if count != 0 else None
    if kind == "election_started" and event["detail"] == "UNCLEAN":
        # Under ZooKeeper (no count) an unclean election is only logged so when an admin asks.
        if count is None:
            return "manual"
        return "automatic" if count else None
    if kind == "brokers_changed":
        return "automatic" if event["added"] or event["bounced"] else None
    return "automatic" if kind in _TRIGGERS else None
