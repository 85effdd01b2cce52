"""The leader epochs of one partition: who led, since when, and after which state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forensics.history.partitions.observations import Observation, Observations, has_moment_between
from forensics.history.partitions.states import PartitionState, States, first_reported_at
from forensics.lib.time_units import SECOND

_JUST_BEFORE = 5 * SECOND
# Longer runs of leader epochs that no line logs are left out.
_MAX_UNKNOWN = 1000


@dataclass(slots=True)
class LeaderEpoch:
    """One leader epoch."""

    epoch: int
    leader: int | None
    at: int | None
    observations: list[Observation]
    first_state: PartitionState | None
    state_before: PartitionState | None
    is_recovering: bool
    # lines about the next epoch that name who led in this one
    next_observations: Observations = ()

    @property
    def replicas(self) -> tuple[int, ...] | None:
        """Return the replicas of the first known state."""
        return self.first_state.replicas if self.first_state else None


def build_leader_epochs(
    observations: Observations, states: States, *, kraft: bool
) -> list[LeaderEpoch]:
    """Gather the leader epochs from all observations, in their order."""
    lines: dict[int, list[Observation]] = defaultdict(list)
    lines_after: dict[int, list[Observation]] = defaultdict(list)
    recovering_at: dict[str, list[int]] = defaultdict(list)
    for line in observations:
        epoch = line.leader_epoch
        if epoch is not None and epoch >= 0:
            lines[epoch].append(line)
            if line.previous_epoch == epoch - 1 and line.previous_leader is not None:
                lines_after[line.previous_epoch].append(line)
        if line.kind == "recovering":
            recovering_at[line.node].append(line.at)
    states_of, before = _group_by_epoch(states)
    leader_epochs: list[LeaderEpoch] = []
    for number in _fill_gaps(sorted(lines.keys() | states_of.keys())):
        own = lines.get(number, ())
        found = _build(number, own, states_of.get(number, ()), before.get(number))
        # The leader logs, just before it begins, that the partition is recovering.
        found.is_recovering = found.is_recovering or any(
            has_moment_between(recovering_at.get(line.node, ()), line.at - _JUST_BEFORE, line.at)
            for line in own
            if line.by_leader and line.is_new
        )
        # A replica that learns of an epoch logs which one it knew before, and who led in it.
        leaders = {line.previous_leader for line in lines_after.get(number, ())}
        if found.leader is None and len(leaders) == 1:
            found.leader, found.next_observations = leaders.pop(), lines_after[number]
        if kraft:
            found.at = _sure_start(found, own)
        leader_epochs.append(found)
    return leader_epochs


def _group_by_epoch(
    states: States,
) -> tuple[dict[int, list[PartitionState]], dict[int, PartitionState]]:
    """Return the states of each leader epoch, and the state just before its first one."""
    states_of: dict[int, list[PartitionState]] = defaultdict(list)
    before: dict[int, PartitionState] = {}
    for last, state in zip([None, *states], states, strict=False):
        epoch = state.leader_epoch
        if epoch is None or epoch < 0:
            continue
        if epoch not in states_of and last and last.partition_epoch == state.partition_epoch - 1:
            before[epoch] = last
        states_of[epoch].append(state)
    return states_of, before


def _fill_gaps(epochs: Sequence[int]) -> Iterator[int]:
    """Yield also the epochs between two others: they were, whether or not a line logs them.

    So many that nobody could list them come of a number that is wrong, or of logs far apart.
    """
    last: int | None = None
    for epoch in epochs:
        if last is not None and epoch - last <= _MAX_UNKNOWN:
            yield from range(last + 1, epoch)
        yield epoch
        last = epoch


def _build(
    epoch: int, lines: Observations, states: States, before: PartitionState | None
) -> LeaderEpoch:
    first = states[0] if states else None
    named = [line for line in lines if line.leader is not None]
    leaders = [line.leader for line in named if line.by_leader] or [line.leader for line in named]
    if first is not None and first.leader is not None:
        leaders = [first.leader]
    moments = [line.at for line in lines if line.is_timely]
    moments += [state.at for state in states if state.at is not None]
    return LeaderEpoch(
        epoch,
        leaders[0] if leaders else None,
        first_reported_at(moments, lines),
        sorted(lines, key=lambda line: (not line.is_new, not line.by_leader, line.sort_key)),
        first,
        before,
        first is not None and first.recovery == "RECOVERING",
    )


def _sure_start(epoch: LeaderEpoch, lines: Observations) -> int | None:
    """Return the moment of the first state of an epoch, and never that of a later one.

    A line about a change within the epoch proves nothing about its beginning; one by which a
    replica learns of a new epoch does, and so does the state that follows the epoch before.
    """
    first = epoch.first_state
    if first is None:
        return epoch.at
    # A state that is dated by the fencing of the leader before is the first one.
    known = _is_first_known(epoch) or first.fencing is not None
    sure = [
        line.at
        for line in lines
        if line.is_timely
        and (
            line.partition_epoch is None
            or (known and line.partition_epoch == first.partition_epoch)
            or (line.previous_epoch is not None and line.previous_epoch < epoch.epoch)
        )
    ]
    if first.at is not None and known:
        sure.append(first.at)
    return first_reported_at(sure, lines)


def initial_isr(epoch: LeaderEpoch, *, kraft: bool) -> tuple[int, ...] | None:
    """Return the ISR that an epoch began with, not one that it had later."""
    first, known = epoch.first_state, _is_first_known(epoch)
    if first is not None and first.isr is not None:
        # A ZooKeeper controller names leader and epoch only where it changes them.
        named = any(line.leader_epoch == epoch.epoch for line in first.observations)
        if known or (named and not kraft):
            return first.isr
    version = first.partition_epoch if first is not None else None
    begins = (
        line.isr
        for line in epoch.observations
        if line.isr is not None
        and line.by_leader
        and line.partition_epoch in (None, version)
        and (line.previous_epoch is not None or line.partition_epoch is None or known)
    )
    return next(begins, None)


def _is_first_known(epoch: LeaderEpoch) -> bool:
    """Return True if the first known state of an epoch is its first state."""
    first, before = epoch.first_state, epoch.state_before
    return first is not None and (
        first.partition_epoch == 0 or (before is not None and before.leader_epoch is not None)
    )
