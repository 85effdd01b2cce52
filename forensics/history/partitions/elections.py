"""How a leader came to lead: the kind of an election, by whose will, and whether it was clean."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.controller_actions import ControllerActions

# What is said of one partition's election, beside the state that it led to.
ELECTION_KINDS = (
    "preferred_election_done",
    "leader_selected",
    "leader_chosen",
    "reassignment",
    "reassignment_done",
)

# Nobody's partitions move before it leaves; clocks may make it look so.
_NEAR = 2_000_000
# A controller speaks of an election in the same breath as it is made.
_BREATH = 5_000_000
_HINTED = {
    "preferred_election_done": "preferred",
    "leader_selected": "failover",
    "leader_chosen": "failover",
}


@dataclass(frozen=True, slots=True)
class ElectionHint:
    """One line about a partition's election; `at` is corrected."""

    at: int
    kind: str
    leader: int | None
    replicas: tuple[int, ...] | None


@dataclass(frozen=True)
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
    # whether old and new are neighbours by the partition's own count of states
    is_adjacent: bool = False
    # whether the logs are here that would say how the old leader went
    departure_logged: bool = True

    @property
    def keeps_leader(self) -> bool:
        """Whether the leader is the same: the epoch was raised, and nobody was elected."""
        return self.new is not None and self.new >= 0 and self.new == self.old


def read_election_hints(rows: Iterable[Mapping[str, Any]], clocks: Clocks) -> list[ElectionHint]:
    """Read what is said of elections (ELECTION_KINDS), in the order of time."""
    found = [
        ElectionHint(
            clocks.event_time(row),
            row["kind"],
            row["leader"],
            None if row["replicas"] is None else tuple(row["replicas"]),
        )
        for row in rows
        if row["kind"] in ELECTION_KINDS and row["ts"] is not None
    ]
    return sorted(found, key=lambda one: (one.at, one.kind, one.leader or 0, one.replicas or ()))


def is_clean(change: LeaderChange) -> bool | None:
    """Whether no record that counted as committed could be lost; null when it cannot be told."""
    if change.new is None or change.new == -1:
        return None
    if change.epoch == 0 or change.new == change.old or change.new in (change.old_isr or ()):
        return True
    # A partition stays marked as recovering for a while, so the mark alone proves nothing about a
    # leader that was in sync; about one that was not known to be, it does.
    if change.is_recovering:
        return False
    if change.old_isr is None:
        return None
    if change.new in (change.elr or ()):
        return True
    # A KRaft controller marks an unclean leader as recovering, which every replica logs.
    return None if change.kraft and not change.old_isr else False


def classify_election(
    change: LeaderChange,
    away: Sequence[Absence],
    hints: Sequence[ElectionHint] = (),
    actions: ControllerActions | None = None,
) -> str:
    """Name the election in the words of the contract; where nobody was elected, it is unknown."""
    if change.epoch == 0:
        return "initial"
    if is_clean(change) is False:
        return "unclean"
    if change.keeps_leader:
        return "unknown"
    if change.new == -1:
        return _kind_of_loss(change, away, actions)
    told = _hinted(change, hints)
    if told or change.new is None or change.old is None:
        return told or "unknown"
    return _kind_by_states(change, _gone(change.old, change, away, actions), hints, actions)


def classify_manner(change: LeaderChange, actions: ControllerActions | None = None) -> str | None:
    """Say what the kind leaves open: by whose will, out of which set, or that nobody was elected.

    `automatic` and `manual` are unclean elections by the controller's own will and by somebody's
    order; `elr` is a clean one out of the eligible leader replicas; `epoch_bump` is none at all.
    """
    if change.keeps_leader and change.epoch > 0:
        return "epoch_bump"
    clean = is_clean(change)
    if clean is False:
        return actions.unclean_trigger(change.at) if actions else None
    eligible = change.new in (change.elr or ()) and change.new not in (change.old_isr or ())
    return "elr" if clean and eligible and change.epoch > 0 else None


def _kind_of_loss(
    change: LeaderChange, away: Sequence[Absence], moves: ControllerActions | None
) -> str:
    """Say how a partition came to have no leader; if who led is not known, all who could count."""
    if change.at is None:
        return "unknown"
    led = change.old is not None and change.old >= 0
    could = [change.old] if led else [*(change.old_isr or change.replicas or ())]
    gone = {_gone(broker, change, away, moves) for broker in could}
    if gone == {"controlled"}:
        return "controlled_shutdown"
    sure = led and change.departure_logged
    return "failover" if sure or (gone and not gone & {"controlled", None}) else "unknown"


def _kind_by_states(
    change: LeaderChange,
    gone: str | None,
    said: Sequence[ElectionHint],
    moves: ControllerActions | None,
) -> str:
    if change.old == -1:
        # Where it cannot be told who was in sync, it may have been unclean.
        return "unknown" if is_clean(change) is None else "failover"
    moved = change.replicas and change.old_replicas and change.replicas != change.old_replicas
    if moved or _is_moving_out(change, gone, said):
        return "reassignment"
    old_stays = change.new_isr is not None and change.old in change.new_isr
    first = change.replicas[0] if change.replicas else None
    # Who stays in the ISR while the lead is taken from it was neither dead nor stopped.
    if gone and not (change.is_adjacent and old_stays):
        if gone == "controlled":
            return "controlled_shutdown"
        return "failover" if change.departure_logged else "unknown"
    stays = old_stays and (change.is_adjacent or change.departure_logged)
    # Where nobody says who stayed in sync, or who the first replica is, the controller must say
    # that it gave partitions back.
    back = moves is not None and moves.is_preferred_election(change.at)
    unsaid = change.new_isr is None and change.departure_logged
    if (change.new == first and (stays or (back and unsaid))) or (first is None and back and stays):
        return "preferred"
    left = change.departure_logged and change.new_isr is not None and not old_stays
    return "failover" if left else "unknown"


def _hinted(change: LeaderChange, said: Sequence[ElectionHint]) -> str | None:
    if change.at is None or change.new is None:
        return None
    begin = bisect_left(said, change.at - _BREATH, key=_moment)
    for hint in islice(said, begin, bisect_left(said, change.at + _BREATH, key=_moment)):
        if hint.kind in _HINTED and hint.leader == change.new:
            return _HINTED[hint.kind]
    return None


def _is_moving_out(change: LeaderChange, gone: str | None, said: Sequence[ElectionHint]) -> bool:
    """Whether a live leader is to leave the replicas by a reassignment that goes on."""
    if change.at is None or gone:
        return False
    until = bisect_left(said, change.at + _BREATH, key=_moment)
    before = (said[at] for at in range(until - 1, -1, -1))
    last = next((one for one in before if one.kind.startswith("reassign")), None)
    if last is None or last.kind == "reassignment_done" or last.replicas is None:
        return False
    return change.old not in last.replicas


def _moment(hint: ElectionHint) -> int:
    return hint.at


def _gone(
    broker: int | None,
    change: LeaderChange,
    away: Sequence[Absence],
    moves: ControllerActions | None,
) -> str | None:
    """Say how a broker was away just then."""
    if change.at is None:
        return None
    # What follows within the blur of clocks explains nothing where nobody says who left the ISR.
    early = _NEAR if change.new_isr is not None else 0
    if moves and moves.is_shutting_down(broker, change.at, early):
        return "controlled"
    for absence in away:
        ends = absence.end if absence.end is not None else change.at
        near = absence.begin - early <= change.at <= ends + 1_000_000
        if near and absence.broker == broker:
            # Who is missed before it stops had not begun to stop when it was missed.
            missed = absence.evidence and absence.evidence[0]["what"] == "fenced"
            return "unknown" if missed and absence.kind == "controlled" else absence.kind
    return None
