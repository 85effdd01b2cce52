"""The states of one partition, ordered by Kafka's own counters: one for each partition epoch.

The partition epoch (under ZooKeeper the version of the znode) orders all states of a partition,
whatever the clocks say. What no line logs is filled in only where the counters leave one
possibility, and is then called inferred.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise
from typing import Any, TypeVar

from forensics.history.partitions.observations import Observation, Observations
from forensics.lib.time_units import SECOND

# Nodes hear of a change within seconds of each other.
_SLACK = 2 * SECOND
# More replicas than that in sync leave too many possibilities to look at.
_MAX_ISR = 6

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


States = Sequence[PartitionState]


def build_states(observations: Observations, *, elr: bool | None) -> list[PartitionState]:
    """Merge observations into states, ordered by partition epoch, and infer what must follow.

    `elr` is whether the cluster keeps eligible leader replicas; None if nothing tells.
    """
    by_epoch: dict[int, list[Observation]] = defaultdict(list)
    for line in observations:
        if line.partition_epoch is not None and line.partition_epoch >= 0:
            by_epoch[line.partition_epoch].append(line)
    states = [_merge(epoch, by_epoch[epoch]) for epoch in sorted(by_epoch)]
    _fill_leader_epochs(states, observations)
    for epoch, line in list(infer_partition_epochs(states, observations)):
        state = PartitionState(epoch, line.leader, line.leader_epoch, line.isr, line.replicas)
        state.inferred, state.at = True, line.at if line.is_timely else None
        state.observations = [line]
        states.append(state)
    states.sort(key=lambda state: state.partition_epoch)
    _fill_replicas(states)
    _fill_leaderless(states, elr=elr)
    _fill_between(states, elr=elr)
    return states


def first_reported_at(moments: Iterable[int], observations: Iterable[Observation]) -> int | None:
    """Return the first of some moments, unless a node knew the state long before."""
    first = min(moments, default=None)
    known = min((line.at for line in observations if not line.is_timely), default=None)
    return None if first is None or (known is not None and known < first - _SLACK) else first


def _merge(epoch: int, lines: list[Observation]) -> PartitionState:
    if len(lines) == 1:
        # As nearly all are, of which there may be millions.
        (line,) = lines
        at = line.at if line.is_timely else None
        return PartitionState(
            epoch, line.leader, line.leader_epoch, line.isr, line.replicas, line.elr,
            line.recovery, at, observations=lines,
        )  # fmt: skip
    return PartitionState(
        epoch,
        leader=_agreed(lines, lambda line: line.leader),
        leader_epoch=_agreed(lines, lambda line: line.leader_epoch),
        isr=_agreed(lines, lambda line: line.isr),
        replicas=_agreed(lines, lambda line: line.replicas),
        elr=_agreed(lines, lambda line: line.elr),
        recovery=_agreed(lines, lambda line: line.recovery),
        at=first_reported_at((line.at for line in lines if line.is_timely), lines),
        observations=sorted(lines, key=lambda line: (not line.is_new, line.sort_key)),
    )


def _agreed(
    lines: Iterable[Observation], value_of: Callable[[Observation], Value | None]
) -> Value | None:
    """Return what most lines say; a tie goes to the smaller, so that the order does not matter."""
    values = [value for line in lines if (value := value_of(line)) is not None]
    # Mostly they agree, and this is called millions of times.
    if not values or values.count(values[0]) == len(values):
        return values[0] if values else None
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], str(value)))


def _fill_leader_epochs(states: States, observations: Observations) -> None:
    """Fill in leader epochs where the neighbours, or the leader's own lines, leave one."""
    _fill_by_leaders(states, observations)
    led_by = {
        (line.leader_epoch, line.leader)
        for line in observations
        if line.leader_epoch is not None and line.leader is not None
    }
    epochs_of: dict[int | None, list[int]] = defaultdict(list)
    for epoch, leader in sorted(led_by):
        epochs_of[leader].append(epoch)
    known = sorted({epoch for epoch, _ in led_by})
    for state, (low, high) in zip(states, _neighbours(states), strict=True):
        if state.leader_epoch is not None or low is None or high is None:
            continue
        if low == high:
            state.leader_epoch = low
        elif bisect_right(known, high) - bisect_left(known, low) > high - low:
            epochs = epochs_of.get(state.leader, [])
            first = bisect_left(epochs, low)
            # A leader that led once may have led again, in an epoch that no line logs.
            if bisect_right(epochs, high) == first + 1:
                state.leader_epoch = epochs[first]


def _fill_by_leaders(states: States, observations: Observations) -> None:
    """Fill in, for a state that its leader logged, the epoch in which that leader logged it leads.

    Under ZooKeeper a leader that writes an ISR names the version, and not its epoch.
    """
    missing = {id(x) for state in states if state.leader_epoch is None for x in state.observations}
    if not missing:
        return
    leading: dict[str, int] = {}
    epochs_of: dict[int, int] = {}
    for line in observations:
        if id(line) in missing:
            if line.by_leader and line.node in leading:
                epochs_of[id(line)] = leading[line.node]
        elif line.leader_epoch is not None:
            # A node that hears of a later epoch, and does not lead in it, leads no more.
            if line.by_leader and line.is_new:
                leading[line.node] = line.leader_epoch
            elif line.leader_epoch > leading.get(line.node, 0):
                leading.pop(line.node, None)
    for state, (low, high) in zip(states, _neighbours(states), strict=True):
        epochs = {epochs_of[id(x)] for x in state.observations if id(x) in epochs_of}
        fitting = [n for n in epochs if (low is None or low <= n) and (high is None or n <= high)]
        if state.leader_epoch is None and len(epochs) == len(fitting) == 1:
            state.leader_epoch = fitting[0]


def _neighbours(states: States) -> list[tuple[int | None, int | None]]:
    """Return the known leader epochs next to each state, before and after."""
    epochs = [state.leader_epoch for state in states]
    below = list(accumulate(epochs, _latest))
    above = list(accumulate(reversed(epochs), _latest))[::-1]
    return list(zip([None, *below], [*above[1:], None], strict=False))[: len(epochs)]


def _latest(known: int | None, following: int | None) -> int | None:
    return known if following is None else following


def _fill_replicas(states: States) -> None:
    """Keep the replicas of the state before where a line does not repeat them."""
    replicas = None
    for state in states:
        replicas = state.replicas = state.replicas or replicas


def _fill_leaderless(states: States, *, elr: bool | None) -> None:
    """Fill in the ISR of a partition that has just lost its leader.

    Without eligible leader replicas the last member stays in the ISR; with them the ISR is empty.
    """
    for before, state in pairwise(states):
        if state.leader != -1 or state.isr is not None or elr is None:
            continue
        is_next = state.partition_epoch == before.partition_epoch + 1
        if elr:
            state.isr, state.inferred = (), True
        elif is_next and before.isr is not None and len(before.isr) == 1:
            state.isr, state.inferred = before.isr, True


def _fill_between(states: States, *, elr: bool | None) -> None:
    """Fill in the ISR of a leader that logged none, where its neighbours leave one possibility.

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
        possible = _possible_isrs(before.isr, int(leaders[1] or 0))
        next_isr = set(after.isr)
        if leaders[1] != leaders[2]:
            possible = [isr for isr in possible if next_isr <= set(isr)]
        elif state.leader_epoch is None or state.leader_epoch != after.leader_epoch:
            continue
        elif elr is False or next_isr == set(after.replicas or ()):
            possible = [isr for isr in possible if set(isr) < next_isr or set(isr) > next_isr]
        if len(possible) == 1:
            state.isr, state.inferred = possible[0], True


def _possible_isrs(isr: tuple[int, ...], leader: int) -> list[tuple[int, ...]]:
    """Return all that may be left of an ISR with a member that leads now; of a large one, none."""
    others = [member for member in isr if member != leader]
    if len(others) > _MAX_ISR:
        return []
    return [
        tuple(sorted((leader, *rest)))
        for count in range(len(others) + 1)
        for rest in combinations(others, count)
    ]


def infer_partition_epochs(
    states: States, observations: Observations
) -> Iterator[tuple[int, Observation]]:
    """Yield missing partition epochs with the lines by which their leaders begin.

    KRaft brokers before 3.2 log how a leader begins (its epoch, its ISR), but not in which version.
    Every leader epoch begins with a version of its own. So where as many versions are missing
    between two known ones as leaders began there, each of these has its number.
    """
    begins, later = _split_by_begin(observations)
    epochs = sorted(begins)
    for before, after in pairwise(states) if begins else ():
        low, high = before.leader_epoch, after.leader_epoch
        missing = range(before.partition_epoch + 1, after.partition_epoch)
        if low is None or high is None or not missing or high - low < len(missing):
            continue
        first, last = bisect_right(epochs, low), bisect_right(epochs, high)
        between = [begins[epoch] for epoch in epochs[first:last]]
        if between and between[-1].leader_epoch == high:
            lines = [*after.observations, *later.get(high, ())]
            if not _is_before(between[-1], after.isr, lines):
                between.pop()
        if len(between) == len(missing):
            yield from zip(missing, between, strict=True)


def _split_by_begin(
    observations: Observations,
) -> tuple[dict[int, Observation], dict[int, list[Observation]]]:
    """Return for each leader epoch how its leader begins, and what it logs as it goes on.

    Where leaders contradict each other about how one begins, nothing tells.
    """
    begins: dict[int, Observation] = {}
    later: dict[int, list[Observation]] = defaultdict(list)
    contradicted: set[int] = set()
    for line in observations:
        epoch = line.leader_epoch
        numbered = line.partition_epoch is not None
        if numbered or epoch is None or line.isr is None or not line.by_leader:
            continue
        if line.previous_epoch is not None and line.previous_epoch < epoch:
            if begins.setdefault(epoch, line).isr != line.isr:
                contradicted.add(epoch)
        else:
            later[epoch].append(line)
    return {epoch: one for epoch, one in begins.items() if epoch not in contradicted}, later


def _is_before(
    begin: Observation, isr: tuple[int, ...] | None, lines: Iterable[Observation]
) -> bool:
    """Return True if a leader began with an earlier version than the one with another ISR.

    What a node knows only grows: it logged that one later. Its line may lack the number, too; then
    the ISR must have grown, which only a leader that has begun can ask for.
    """
    if isr is None or isr == begin.isr:
        return False
    grown = set(begin.isr or ()) < set(isr)
    return any(
        line.node == begin.node and begin.sort_key < line.sort_key
        for line in lines
        if line.partition_epoch is not None or (grown and line.isr == isr)
    )
