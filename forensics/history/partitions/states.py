"""Puts statements in the order of Kafka's own counters: one state for each partition epoch.

The partition epoch (under ZooKeeper the version of the znode) orders all states of a partition,
whatever the clocks say. What no line states is filled in only where the counters leave one
possibility, and is then called inferred.

Numbers states that lines tell without a partition epoch, where the counters leave one place.

KRaft brokers before 3.2 say how a leader begins (its epoch, its ISR), but not in which version.
Every leader epoch begins with a version of its own. So where as many versions are missing between
two known ones as leaders began there, each of these has its number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations
from typing import Any, TypeVar

from forensics.history.partitions.observations import Observation

# Nodes hear of a change within seconds of each other.
_SLACK = 2_000_000
# More replicas than that in sync leave too many possibilities to look at.
_MANY = 6

Value = TypeVar("Value")


@dataclass(slots=True)
class PartitionState:
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
    fencing: Mapping[str, Any] | None = None
    observations: list[Observation] = field(default_factory=list)


def build_states(said: Sequence[Observation], *, elr: bool | None) -> list[PartitionState]:
    """Merge statements into states, ordered by partition epoch, and infer what must follow.

    `elr` says whether the cluster keeps eligible leader replicas (null: not known).
    """
    by_epoch: dict[int, list[Observation]] = {}
    for one in said:
        if one.partition_epoch is not None and one.partition_epoch >= 0:
            by_epoch.setdefault(one.partition_epoch, []).append(one)
    states = [_merged(epoch, by_epoch[epoch]) for epoch in sorted(by_epoch)]
    _fill_leader_epochs(states, said)
    states = _with_numbered(states, said)
    _fill_replicas(states)
    _fill_leaderless(states, elr=elr)
    _fill_between(states, elr=elr)
    return states


def first_reported_at(first: int | None, said: Iterable[Observation]) -> int | None:
    """Give the moment of the first news, unless somebody knew before that it was so."""
    known = min((one.at for one in said if not one.is_timely), default=None)
    if first is None or (known is not None and known < first - _SLACK):
        return None
    return first


def _merged(epoch: int, said: list[Observation]) -> PartitionState:
    news = [one.at for one in said if one.is_timely]
    return PartitionState(
        epoch,
        leader=_agreed(said, lambda one: one.leader),
        leader_epoch=_agreed(said, lambda one: one.leader_epoch),
        isr=_agreed(said, lambda one: one.isr),
        replicas=_agreed(said, lambda one: one.replicas),
        elr=_agreed(said, lambda one: one.elr),
        recovery=_agreed(said, lambda one: one.recovery),
        at=first_reported_at(min(news, default=None), said),
        observations=sorted(said, key=lambda one: (not one.is_new, one.sort_key)),
    )


def _agreed(
    said: Iterable[Observation], value: Callable[[Observation], Value | None]
) -> Value | None:
    """Give what most lines say; a tie goes to the smaller, so that the order does not matter."""
    values = [found for one in said if (found := value(one)) is not None]
    # Mostly they agree, and counting is asked for millions of times.
    if not values or values.count(values[0]) == len(values):
        return values[0] if values else None
    counts = Counter(values)
    return min(counts, key=lambda v: (-counts[v], str(v)))


def _with_numbered(
    states: list[PartitionState], said: Sequence[Observation]
) -> list[PartitionState]:
    """Add the states whose place only the counters tell."""
    known = [(one.partition_epoch, one.leader_epoch, one.isr, one.observations) for one in states]
    found = list(infer_partition_epochs(known, said))
    if not found:
        return states
    more = []
    for epoch, one in found:
        state = PartitionState(
            epoch, one.leader, one.leader_epoch, one.isr, one.replicas, inferred=True
        )
        state.at, state.observations = one.at if one.is_timely else None, [one]
        more.append(state)
    return sorted([*states, *more], key=lambda state: state.partition_epoch)


def _fill_leader_epochs(states: list[PartitionState], said: Sequence[Observation]) -> None:
    """Give a state its leader epoch where its neighbours, or its leader's own word, leave one."""
    who: dict[int, set[int]] = {}
    for one in said:
        if one.leader_epoch is not None and one.leader is not None:
            who.setdefault(one.leader_epoch, set()).add(one.leader)
    led: dict[int | None, list[int]] = {}
    for epoch in sorted(who):
        for leader in who[epoch]:
            led.setdefault(leader, []).append(epoch)
    told = sorted(who)
    _fill_by_leaders(states, said)
    for state, (low, high) in zip(states, _neighbours(states), strict=True):
        if state.leader_epoch is not None or low is None or high is None:
            # A leader that led once may have led again, in an epoch that no line tells of.
            continue
        if low == high:
            state.leader_epoch = low
            continue
        if bisect_right(told, high) - bisect_left(told, low) <= high - low:
            continue
        epochs = led.get(state.leader, [])
        first = bisect_left(epochs, low)
        if bisect_right(epochs, high) == first + 1:
            state.leader_epoch = epochs[first]


def _fill_by_leaders(states: list[PartitionState], said: Sequence[Observation]) -> None:
    """Give a state that its leader wrote the epoch in which that leader said it leads.

    Under ZooKeeper a leader that writes an ISR names the version, and not its epoch.
    """
    unnamed = {
        id(one) for state in states if state.leader_epoch is None for one in state.observations
    }
    if not unnamed:
        return
    leads: dict[str, int] = {}
    found: dict[int, int | None] = {}
    for one in said:
        if id(one) in unnamed:
            found[id(one)] = leads.get(one.node) if one.by_leader else None
        elif one.leader_epoch is not None:
            # Who hears of a later epoch, and does not lead in it, leads no more.
            if one.by_leader and one.is_new:
                leads[one.node] = one.leader_epoch
            elif one.leader_epoch > (leads.get(one.node) or 0):
                leads.pop(one.node, None)
    for state, (low, high) in zip(states, _neighbours(states), strict=True):
        epochs = {epoch for one in state.observations if (epoch := found.get(id(one))) is not None}
        if state.leader_epoch is None and len(epochs) == 1:
            (epoch,) = epochs
            if (low is None or low <= epoch) and (high is None or epoch <= high):
                state.leader_epoch = epoch


def _neighbours(states: list[PartitionState]) -> list[tuple[int | None, int | None]]:
    """Give the stated leader epochs next to each state, before and after."""
    epochs = [state.leader_epoch for state in states]
    below = list(accumulate(epochs, _latest))
    above = list(accumulate(reversed(epochs), _latest))[::-1]
    return list(zip([None, *below], [*above[1:], None], strict=False))[: len(epochs)]


def _latest(known: int | None, next_one: int | None) -> int | None:
    return known if next_one is None else next_one


def _fill_replicas(states: list[PartitionState]) -> None:
    """Keep the replicas of the state before where a line does not repeat them."""
    replicas = None
    for state in states:
        replicas = state.replicas or replicas
        state.replicas = replicas


def _fill_leaderless(states: list[PartitionState], *, elr: bool | None) -> None:
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


def _fill_between(states: list[PartitionState], *, elr: bool | None) -> None:
    """Give the ISR of a leader that told none, where the states around it leave one possibility.

    A record that changes the leader never adds to the ISR, and a clean leader is a member. One
    that leaves the leader changes the ISR, and either adds to it or takes from it; unless it
    changes no more than the eligible leader replicas, of which a full ISR leaves none.
    """
    for before, state, after in zip(states, states[1:], states[2:], strict=False):
        if state.isr is not None or before.isr is None or after.isr is None:
            continue
        versions = [one.partition_epoch - before.partition_epoch for one in (state, after)]
        leaders = [one.leader for one in (before, state, after)]
        alive = all(leader is not None and leader >= 0 for leader in leaders)
        same_replicas = before.replicas == state.replicas == after.replicas
        recovering = "RECOVERING" in (state.recovery, after.recovery)
        if versions != [1, 2] or not alive or not same_replicas or recovering:
            continue
        if leaders[0] == leaders[1] or leaders[1] not in before.isr:
            continue
        possible = _possible(before.isr, int(leaders[1] or 0))
        if leaders[1] != leaders[2]:
            possible = [one for one in possible if set(after.isr) <= set(one)]
        elif state.leader_epoch is None or state.leader_epoch != after.leader_epoch:
            continue
        elif elr is False or set(after.isr) == set(after.replicas or ()):
            possible = [one for one in possible if _differ_by_one_way(one, after.isr)]
        if len(possible) == 1:
            state.isr, state.inferred = possible[0], True


def _possible(isr: tuple[int, ...], leader: int) -> list[tuple[int, ...]]:
    """Give all that may be left of an ISR with a member that leads now; of a large one, none."""
    others = [one for one in isr if one != leader]
    if len(others) > _MANY:
        return []
    return [
        tuple(sorted((leader, *some)))
        for count in range(len(others) + 1)
        for some in combinations(others, count)
    ]


def _differ_by_one_way(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return set(one) < set(other) or set(one) > set(other)


# Partition epoch, leader epoch, and ISR of a version that is known; and what was said of it.
Known = tuple[int, int | None, tuple[int, ...] | None, Sequence[Observation]]


def infer_partition_epochs(
    known: Sequence[Known], said: Sequence[Observation]
) -> Iterator[tuple[int, Observation]]:
    """Yield each number that was found with the leader's word for it; `known` is in order."""
    begins, later = _told_by_leaders(said)
    if not begins:
        return
    epochs = sorted(begins)
    for before, after in zip(known, known[1:], strict=False):
        low, high = before[1], after[1]
        missing = range(before[0] + 1, after[0])
        if low is None or high is None or not missing or high - low < len(missing):
            continue
        told_of = epochs[bisect_right(epochs, low) : bisect_right(epochs, high)]
        between = [begins[one] for one in told_of]
        if between and between[-1].leader_epoch == high:
            told = [*after[3], *later.get(high, ())]
            if not _precedes(between[-1], after[2], told):
                between.pop()
        if len(between) == len(missing):
            yield from zip(missing, between, strict=True)


def _told_by_leaders(
    said: Sequence[Observation],
) -> tuple[dict[int, Observation], dict[int, list[Observation]]]:
    """Give for each leader epoch how its leader begins, and what it tells as it goes on.

    Where leaders do not agree with each other how one begins, nobody knows.
    """
    begins: dict[int, Observation] = {}
    later: dict[int, list[Observation]] = {}
    torn: set[int] = set()
    for one in said:
        epoch = one.leader_epoch
        if one.partition_epoch is not None or epoch is None or one.isr is None or not one.by_leader:
            continue
        if one.previous_epoch is not None and one.previous_epoch < epoch:
            if begins.setdefault(epoch, one).isr != one.isr:
                torn.add(epoch)
        else:
            later.setdefault(epoch, []).append(one)
    return {epoch: one for epoch, one in begins.items() if epoch not in torn}, later


def _precedes(one: Observation, isr: tuple[int, ...] | None, told: Iterable[Observation]) -> bool:
    """Whether a leader began with an earlier version than one of its epoch that has another ISR.

    What a node knows only grows: it told of that one later. Its line may lack the number, too; then
    the ISR must have grown, for which nobody but a leader that has begun can ask.
    """
    if isr is None or isr == one.isr:
        return False
    grown = set(one.isr or ()) < set(isr)
    return any(
        each.node == one.node and one.sort_key < each.sort_key
        for each in told
        if each.partition_epoch is not None or (grown and each.isr == isr)
    )
