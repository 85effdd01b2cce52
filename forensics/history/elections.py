"""How a leader came to lead: the kind of an election, and whether it was clean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forensics.history.lanes import Absence

__all__ = ["Change", "is_clean", "kind_of"]

# A broker is named away a little before or after its partitions move.
_NEAR = 15_000_000


@dataclass(frozen=True)
class Change:
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
    recovering: bool
    kraft: bool


def is_clean(change: Change) -> bool | None:
    """Whether no record that counted as committed could be lost; null when it cannot be told."""
    if change.new is None or change.new == -1:
        return None
    if change.epoch == 0 or change.new == change.old or change.new in (change.old_isr or ()):
        return True
    # A partition stays marked as recovering for a while, so the mark alone proves nothing about a
    # leader that was in sync; about one that was not known to be, it does.
    if change.recovering:
        return False
    if change.old_isr is None:
        return None
    if change.new in (change.elr or ()):
        return True
    # A KRaft controller marks an unclean leader as recovering, which every replica logs.
    return None if change.kraft and not change.old_isr else False


def kind_of(change: Change, away: Sequence[Absence]) -> str:
    """Name the election in the words of the contract."""
    if change.epoch == 0:
        return "initial"
    if is_clean(change) is False:
        return "unclean"
    if change.old == -1 or change.new == -1:
        return "failover"
    moved = change.replicas and change.old_replicas and change.replicas != change.old_replicas
    if moved:
        return "reassignment"
    gone = _gone(change, away)
    if gone and change.new != change.old:
        return "controlled_shutdown" if gone == "controlled" else "failover"
    return _kind_among_the_living(change, gone)


def _kind_among_the_living(change: Change, gone: str | None) -> str:
    if change.old is None:
        return "unknown"
    preferred = change.replicas[0] if change.replicas else None
    if change.new == change.old:
        return "controlled_shutdown" if gone == "controlled" else "failover" if gone else "unknown"
    old_stays = change.new_isr is None or change.old in change.new_isr
    if change.new == preferred and old_stays:
        return "preferred"
    if change.new_isr is not None and change.old not in change.new_isr:
        return "failover"
    return "unknown"


def _gone(change: Change, away: Sequence[Absence]) -> str | None:
    """Say how the old leader (or, where the leader stays, some follower) was away just then."""
    if change.at is None:
        return None
    for absence in away:
        ends = absence.end if absence.end is not None else change.at
        if absence.begin - _NEAR <= change.at <= ends + 1_000_000:
            stays = change.new == change.old and absence.broker in (change.old_isr or ())
            if absence.broker == change.old or stays:
                return absence.kind
    return None
