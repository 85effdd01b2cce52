"""The leader epochs of one partition: who led, since when, and after which state."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forensics.history.partitions.observations import Observation
from forensics.history.partitions.states import PartitionState, first_reported_at

_JUST = 5_000_000
# Longer runs of leader epochs of which nothing is told are left out.
_LISTED = 1000


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
    # lines about the next epoch that say who led in this one
    next_observations: Sequence[Observation] = ()


def build_leader_epochs(
    said: Sequence[Observation], states: Sequence[PartitionState], *, kraft: bool
) -> list[LeaderEpoch]:
    """Gather the leader epochs from all that was said, in their order."""
    lines: dict[int, list[Observation]] = defaultdict(list)
    after: dict[int, list[Observation]] = defaultdict(list)
    mine: dict[int, list[PartitionState]] = defaultdict(list)
    before: dict[int, PartitionState] = {}
    marks: dict[str, list[int]] = defaultdict(list)
    for one in said:
        if one.leader_epoch is not None and one.leader_epoch >= 0:
            lines[one.leader_epoch].append(one)
            if one.previous_epoch == one.leader_epoch - 1 and one.previous_leader is not None:
                after[one.previous_epoch].append(one)
        if one.kind == "recovering":
            marks[one.node].append(one.at)
    for at, state in enumerate(states):
        epoch = state.leader_epoch
        if epoch is None or epoch < 0:
            continue
        if epoch not in mine and at and states[at - 1].partition_epoch == state.partition_epoch - 1:
            before[epoch] = states[at - 1]
        mine[epoch].append(state)
    found = [
        _reign(epoch, lines.get(epoch, ()), mine.get(epoch, ()), before.get(epoch), marks)
        for epoch in _without_gaps(sorted(lines.keys() | mine.keys()))
    ]
    for reign in found:
        # A replica that learns of an epoch says which one it knew before, and who led in it.
        _name_by_the_next(reign, after.get(reign.epoch, ()))
        if kraft:
            reign.at = _sure_start(reign, lines.get(reign.epoch, ()))
    return found


def _without_gaps(epochs: Sequence[int]) -> Iterator[int]:
    """Name also those between two others: they were, whether or not a line tells of them.

    So many that nobody could list them come of a number that is wrong, or of logs far apart.
    """
    last: int | None = None
    for epoch in epochs:
        if last is not None and epoch - last <= _LISTED:
            yield from range(last + 1, epoch)
        yield epoch
        last = epoch


def _reign(
    epoch: int,
    lines: Sequence[Observation],
    mine: Sequence[PartitionState],
    before: PartitionState | None,
    marks: Mapping[str, Sequence[int]],
) -> LeaderEpoch:
    first = mine[0] if mine else None
    named = [one for one in lines if one.leader is not None]
    own = [one.leader for one in named if one.by_leader] or [one.leader for one in named]
    leader = first.leader if first is not None and first.leader is not None else None
    moments = [one.at for one in lines if one.is_timely] + [s.at for s in mine if s.at is not None]
    start = first_reported_at(min(moments, default=None), lines)
    recovering = first is not None and first.recovery == "RECOVERING"
    recovering = recovering or any(
        _marked(marks.get(one.node, ()), one.at) for one in lines if one.by_leader and one.is_new
    )
    return LeaderEpoch(
        epoch,
        leader if leader is not None else (own[0] if own else None),
        start,
        sorted(lines, key=lambda one: (not one.is_new, not one.by_leader, one.sort_key)),
        first,
        before,
        recovering,
    )


def _name_by_the_next(reign: LeaderEpoch, after: Sequence[Observation]) -> None:
    leaders = {one.previous_leader for one in after}
    if reign.leader is None and len(leaders) == 1:
        reign.leader = leaders.pop()
        reign.next_observations = after


def _sure_start(reign: LeaderEpoch, lines: Sequence[Observation]) -> int | None:
    """Give the moment of the first state of an epoch, and never that of a later one.

    A line that tells of a change within the epoch says nothing of its beginning; one by which a
    replica learns of a new epoch does, and so does the state that follows the epoch before.
    """
    first = reign.first_state
    if first is None:
        return reign.at
    known = _follows(reign)
    sure = [
        one.at
        for one in lines
        if one.is_timely
        and (
            one.partition_epoch is None
            or (known and one.partition_epoch == first.partition_epoch)
            or (one.previous_epoch is not None and one.previous_epoch < reign.epoch)
        )
    ]
    if first.at is not None and known:
        sure.append(first.at)
    return first_reported_at(min(sure, default=None), lines)


def initial_isr(reign: LeaderEpoch, *, kraft: bool) -> tuple[int, ...] | None:
    """Give the ISR that an epoch began with, not one that it had later."""
    first = reign.first_state
    version = first.partition_epoch if first is not None else None
    if first is not None and first.isr is not None:
        # A ZooKeeper controller names leader and epoch only where it changes them.
        named = not kraft and any(one.leader_epoch == reign.epoch for one in first.observations)
        if named or _follows(reign):
            return first.isr
    begins = (
        one.isr
        for one in reign.observations
        if one.isr is not None
        and one.by_leader
        and one.partition_epoch in (None, version)
        and (one.previous_epoch is not None or one.partition_epoch is None or _follows(reign))
    )
    return next(begins, None)


def _follows(reign: LeaderEpoch) -> bool:
    """Whether the first state that is known of an epoch is its first state."""
    if reign.first_state is None:
        return False
    before = reign.state_before
    return reign.first_state.partition_epoch == 0 or (
        before is not None and before.leader_epoch is not None
    )


def _marked(marks: Sequence[int], start: int) -> bool:
    """Whether the leader said, just before it began, that the partition was recovering."""
    at = bisect_left(marks, start - _JUST)
    return at < len(marks) and marks[at] <= start
