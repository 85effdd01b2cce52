"""Tells topics of one name apart: one that is deleted and created again begins anew at epoch 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forensics.history.partitions.observations import (
    Observation,
    Observations,
    has_moment_between,
)
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import MINUTE, SECOND

# Nodes hear of a deletion and of a creation within that.
_NEAR = MINUTE
# Nodes log one moment a little apart.
_SLACK = 2 * SECOND


@dataclass(frozen=True)
class Boundary:
    """Where a topic's next incarnation begins: for all, and for the nodes whose lines show it."""

    at: int
    by_node: Mapping[str, int] = field(default_factory=dict)

    def is_past(self, node: str, at: int) -> bool:
        """Return True if what a node logs at a moment is about the later incarnation."""
        return at >= self.by_node.get(node, self.at)


@dataclass(frozen=True)
class Incarnation:
    """A partition of one topic, from its creation to its deletion."""

    number: int = 0
    topic_id: str | None = None
    observations: Observations = ()
    deleted_at: int | None = None
    # when the next one begins
    replaced_at: int | None = None


@dataclass(frozen=True)
class Incarnations:
    """All incarnations of a partition, in their order, and the boundaries between them."""

    boundaries: Sequence[Boundary]
    parts: Sequence[Incarnation]

    def number_at(self, node: str | None, at: int) -> int:
        """Return the number of the incarnation that a line without a topic id is about."""
        return sum(boundary.is_past(node or "", at) for boundary in self.boundaries)


def find_incarnations(
    observations: Observations, deletions: Sequence[int], hints: Sequence[int] = ()
) -> Incarnations:
    """Split the observations of one partition, which are in the order of time.

    `deletions` are the moments at which a topic of that name was deleted; `hints` those at which
    one of its replicas was, which may be due to a reassignment.
    """
    ids = _order_ids(observations)
    restarts = _find_restarts(observations)
    if len(ids) > 1:
        boundaries = [_boundary_of_id(observations, topic_id, restarts) for topic_id in ids[1:]]
    else:
        boundaries = list(_boundaries_of_deletions(observations, deletions))
        begins = [boundary.at for boundary in boundaries]
        others = [one for one in restarts if all(abs(one[0] - at) > _NEAR for at in begins)]
        boundaries += _boundaries_of_restarts(others, hints)
        boundaries.sort(key=lambda boundary: boundary.at)
    found = Incarnations(boundaries, ())
    if not boundaries:
        # Nearly always; there may be a million lines, so they are not copied.
        strange = any(line.topic_id not in (None, *ids) for line in observations)
        own = [one for one in observations if one.topic_id in (None, *ids)] if strange else None
        return Incarnations((), tuple(_build(found, [own or observations], deletions)))
    parts: list[list[Observation]] = [[] for _ in range(len(boundaries) + 1)]
    for line in observations:
        if line.topic_id is None or ids == [line.topic_id]:
            parts[found.number_at(line.node, line.at)].append(line)
        elif line.topic_id in ids:
            parts[ids.index(line.topic_id)].append(line)
    return Incarnations(boundaries, tuple(_build(found, parts, deletions)))


def _build(
    found: Incarnations, parts: Sequence[Observations], deletions: Sequence[int]
) -> Iterator[Incarnation]:
    begins = [None, *(boundary.at for boundary in found.boundaries)]
    for number, (begin, end, lines) in enumerate(
        zip(begins, [*begins[1:], None], parts, strict=True)
    ):
        own = [at for at in deletions if (begin or at) <= at <= (at if end is None else end)]
        # A deletion may be put off, or be refused: then the topic's partitions are led on.
        leading = (line for line in lines if line.is_timely and (line.leader or 0) >= 0)
        led = max((line.at for line in leading if end is None or line.at < end), default=None)
        over = min((at for at in own if led is None or led <= at + _SLACK), default=None)
        topic_id = next((line.topic_id for line in lines if line.topic_id is not None), None)
        yield Incarnation(number, topic_id, lines, over, end)


def _order_ids(observations: Observations) -> list[str]:
    """Return the topic ids by when they were first logged, as news if any was.

    A controller that starts replays the records of topics that were deleted long before.
    """
    known = [line for line in observations if line.topic_id is not None]
    news = [line for line in known if line.is_new]
    return list(dict.fromkeys(line.topic_id or "" for line in news or known))


def _boundary_of_id(
    observations: Observations, topic_id: str, restarts: Sequence[tuple[int, str]]
) -> Boundary:
    by_node: dict[str, int] = {}
    for line in observations:
        if line.topic_id == topic_id:
            by_node.setdefault(line.node, line.at)
    begin = min(by_node.values())
    for at, node in restarts:
        if abs(at - begin) <= _NEAR:
            by_node[node] = min(at, by_node.get(node, at))
    return Boundary(begin, by_node)


def _boundaries_of_deletions(
    observations: Observations, deletions: Sequence[int]
) -> Iterator[Boundary]:
    """Yield those where a line after a deletion is about the first state, or an earlier one."""
    top, begun, last = 0, 0, 0
    ordered = sorted(deletions)
    pending = iter(ordered)
    deleted = next(pending, None)
    by_node: dict[str, int] = {}
    for line in observations:
        epoch = line.leader_epoch
        if epoch is None or not line.is_timely:
            continue
        # A topic may be deleted again before all nodes had time to hear that it was made.
        again = _is_young(line) and has_moment_between(ordered, last + _SLACK, line.at)
        if by_node and (again or line.at > begun + _NEAR):
            yield Boundary(begun, by_node)
            by_node, top = {}, 0
        while deleted is not None and begun and deleted <= begun:
            deleted = next(pending, None)
        after = deleted is not None and line.at > deleted
        if by_node and _is_young(line):
            by_node.setdefault(line.node, line.at)
        elif after and not by_node and (_is_young(line) or epoch < top):
            begun, by_node = line.at, {line.node: line.at}
        if _is_young(line):
            last = line.at
        top = max(top, epoch)
    if by_node:
        yield Boundary(begun, by_node)


def _boundaries_of_restarts(
    restarts: Sequence[tuple[int, str]], removals: Sequence[int]
) -> Iterator[Boundary]:
    """Yield those where epochs begin anew for two nodes, or for one that deleted its replica."""
    last: int | None = None
    for group in sessions(restarts, lambda one: one[0], _NEAR):
        by_node = {node: at for at, node in reversed(group)}
        begin = min(by_node.values())
        known = (at for at in removals if at <= max(by_node.values()) + _SLACK)
        if len(by_node) > 1 or any(last is None or at > last for at in known):
            yield Boundary(begin, by_node)
            last = begin


def _find_restarts(observations: Observations) -> list[tuple[int, str]]:
    """Find where a node that knew later epochs logs the very first state, as news."""
    grown: set[str] = set()
    found: list[tuple[int, str]] = []
    for line in observations:
        if line.leader_epoch is None or not line.is_new:
            continue
        if _is_young(line) and line.node in grown:
            found.append((line.at, line.node))
            grown.remove(line.node)
        elif line.leader_epoch > 0 or (line.partition_epoch or 0) > 0:
            grown.add(line.node)
    return found


def _is_young(line: Observation) -> bool:
    return line.leader_epoch == 0 and not line.partition_epoch and not line.log_end
