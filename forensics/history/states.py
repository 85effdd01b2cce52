"""Puts statements in the order of Kafka's own counters: one state for each partition epoch.

The partition epoch (under ZooKeeper the version of the znode) orders all states of a partition,
whatever the clocks say. What no line states is filled in only where the counters leave one
possibility, and is then called inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forensics.history.statements import Statement

__all__ = ["State", "begun", "in_order"]

# Nodes hear of a change within seconds of each other.
_SLACK = 2_000_000

Value = TypeVar("Value")


@dataclass
class State:
    """One version of one partition."""

    partition_epoch: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    recovery: str | None = None
    at: int | None = None
    inferred: bool = False
    fence: Mapping[str, Any] | None = None
    said: list[Statement] = field(default_factory=list)


def in_order(said: Sequence[Statement], *, elr: bool | None) -> list[State]:
    """Merge statements into states, ordered by partition epoch, and infer what must follow.

    `elr` says whether the cluster keeps eligible leader replicas (null: not known).
    """
    by_epoch: dict[int, list[Statement]] = {}
    for one in said:
        if one.partition_epoch is not None and one.partition_epoch >= 0:
            by_epoch.setdefault(one.partition_epoch, []).append(one)
    states = [_merged(epoch, by_epoch[epoch]) for epoch in sorted(by_epoch)]
    _fill_leader_epochs(states, said)
    _fill_replicas(states)
    _fill_leaderless(states, elr=elr)
    _fill_between_elections(states)
    return states


def begun(first: int | None, said: Iterable[Statement]) -> int | None:
    """Give the moment of the first news, unless somebody knew before that it was so."""
    known = min((one.at for one in said if not one.news), default=None)
    if first is None or (known is not None and known < first - _SLACK):
        return None
    return first


def _merged(epoch: int, said: list[Statement]) -> State:
    news = [one.at for one in said if one.news]
    return State(
        epoch,
        leader=_agreed(said, lambda one: one.leader),
        leader_epoch=_agreed(said, lambda one: one.leader_epoch),
        isr=_agreed(said, lambda one: one.isr),
        replicas=_agreed(said, lambda one: one.replicas),
        elr=_agreed(said, lambda one: one.elr),
        recovery=_agreed(said, lambda one: one.recovery),
        at=begun(min(news, default=None), said),
        said=sorted(said, key=lambda one: (not one.news, one.place)),
    )


def _agreed(said: Iterable[Statement], value: Callable[[Statement], Value | None]) -> Value | None:
    """Give what most lines say; a tie goes to the smaller, so that the order does not matter."""
    counts = Counter(v for v in map(value, said) if v is not None)
    return min(counts, key=lambda v: (-counts[v], str(v)), default=None)


def _fill_leader_epochs(states: list[State], said: Sequence[Statement]) -> None:
    """Give a state its leader epoch where its neighbours, or its leader's own word, leave one."""
    leaders: dict[int, set[int]] = {}
    for one in said:
        if one.leader_epoch is not None and one.leader is not None:
            leaders.setdefault(one.leader_epoch, set()).add(one.leader)
    known = [state.leader_epoch for state in states]
    for at, state in enumerate(states):
        if state.leader_epoch is not None:
            continue
        low = next((e for e in reversed(known[:at]) if e is not None), None)
        high = next((e for e in known[at + 1 :] if e is not None), None)
        if low is not None and low == high:
            state.leader_epoch = low
            continue
        fits = [
            epoch
            for epoch, who in leaders.items()
            if state.leader in who
            and (low is None or epoch >= low)
            and (high is None or epoch <= high)
        ]
        if len(fits) == 1:
            state.leader_epoch = fits[0]


def _fill_replicas(states: list[State]) -> None:
    """Keep the replicas of the state before where a line does not repeat them."""
    replicas = None
    for state in states:
        replicas = state.replicas or replicas
        state.replicas = replicas


def _fill_leaderless(states: list[State], *, elr: bool | None) -> None:
    """Give the ISR of a partition that has just lost its leader.

    Without eligible leader replicas the last member stays in the ISR; with them the ISR is empty.
    """
    for before, state in zip(states, states[1:], strict=False):
        if state.leader != -1 or state.isr is not None or elr is None:
            continue
        next_version = state.partition_epoch == before.partition_epoch + 1
        if elr:
            state.isr, state.inferred = (), True
        elif next_version and before.isr is not None and len(before.isr) == 1:
            state.isr, state.inferred = before.isr, True


def _fill_between_elections(states: list[State]) -> None:
    """Give the ISR of a leader that came and went before it could log anything.

    A record that changes the leader never adds to the ISR, and a clean leader is a member: so the
    ISR lies between the one before and the one after with the leader. Where these are the same,
    there is one possibility.
    """
    for before, state, after in zip(states, states[1:], states[2:], strict=False):
        if state.isr is not None or before.isr is None or after.isr is None:
            continue
        versions = [one.partition_epoch - before.partition_epoch for one in (state, after)]
        leaders = [one.leader for one in (before, state, after)]
        changed = leaders[0] != leaders[1] != leaders[2]
        alive = all(leader is not None and leader >= 0 for leader in leaders)
        same_replicas = before.replicas == state.replicas == after.replicas
        recovering = "RECOVERING" in (state.recovery, after.recovery)
        if versions == [1, 2] and changed and alive and same_replicas and not recovering:
            least = tuple(sorted({*after.isr, int(leaders[1] or 0)}))
            if least == before.isr:
                state.isr, state.inferred = before.isr, True
