"""Groups stale-metadata errors of clients into episodes: those of one client after one move.

Errors without a known move belong together while they follow each other closely. Errors are read
twice and never held: archives may hold millions of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.detection.shared.event_sessions import add_first, trim_first
from forensics.detection.shared.leader_moves import Key, LeaderMove, LeaderMoveIndex
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND

# So many of the first moves are kept as evidence.
_MAX_MOVES = 5
_COLUMNS = ("node", "client", "ts", "topic", "partition", "error", "file", "line", "text", "rule")
# This error is not about who leads the partitions of a topic.
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


@dataclass(frozen=True)
class EpisodeLimits:
    """How far things may lie apart and still belong together, in seconds."""

    # errors of one episode, where no move is known
    gap: float
    # the last error after a move: a client may have had nothing to ask until then
    late: float
    # the first error before the first line about a move
    ahead: float
    # moves of one group
    stroke: float
    # a broker that came back, for errors that do not name their topic
    near: float
    # errors after a move that are due to it, whatever comes next
    fresh: float


@dataclass
class Episode:
    """Errors of one client, and the moves of leaders behind them."""

    node: str
    client: str
    begin: int
    end: int
    errors: int = 0
    topics: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    error_counts: Counter[str] = field(default_factory=Counter)
    first: list[Row] = field(default_factory=list)
    # the first moves as (partition, moment), all elections and leaders before, the last new leader
    moves: set[tuple[Key, int]] = field(default_factory=set)
    elections: set[tuple[str, int | None]] = field(default_factory=set)
    settled_at: int | None = None
    # errors while the partition had no leader
    leaderless: int = 0
    # when its topic was created
    created_at: int | None = None
    # the absence of a broker, where the errors do not name their topic
    absence: Absence | None = None

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / SECOND, 1)

    def add(self, row: Row, move: LeaderMove | None, key: Key) -> None:
        """Add one of its errors."""
        self.begin, self.end = min(self.begin, row["at"]), max(self.end, row["at"])
        self.errors += 1
        self.error_counts[row["error"]] += 1
        if row["topic"]:
            self.topics.add(row["topic"])
        if row["topic"] and row["partition"] is not None:
            self.partitions.add(partition_name(row))
        add_first(self.first, row)
        if move is not None:
            self._add_move(row, move, key)

    def _add_move(self, row: Row, move: LeaderMove, key: Key) -> None:
        if move.is_first:
            self.created_at = max(move.start, self.created_at or move.start)
        else:
            self.elections |= {(move.election, move.previous), (move.own_election, move.previous)}
        self.moves.add((key, move.start))
        if len(self.moves) > 4 * _MAX_MOVES:
            self.moves = _first_moves(self.moves)
        if move.settled_at is None or row["at"] < move.settled_at:
            self.leaderless += 1
        if move.settled_at is not None:
            self.settled_at = max(move.settled_at, self.settled_at or move.settled_at)

    def merge(self, other: Episode) -> None:
        """Add all of another episode of the same client."""
        self.begin, self.end = min(self.begin, other.begin), max(self.end, other.end)
        self.errors += other.errors
        self.leaderless += other.leaderless
        self.topics |= other.topics
        self.partitions |= other.partitions
        self.elections |= other.elections
        self.error_counts += other.error_counts
        self.first += other.first
        self.moves |= other.moves
        self.settled_at = _latest(self.settled_at, other.settled_at)
        self.created_at = _latest(self.created_at, other.created_at)
        self.trim()

    def trim(self) -> None:
        """Keep the first errors and moves only."""
        trim_first(self.first)
        self.moves = _first_moves(self.moves)


# Node and client; the group of moves, or None; without a move, the bucket of time.
_EpisodeKey = tuple[tuple[str, str], int | None, int]


def find_episodes(
    context: DetectionContext, errors: Sequence[str], limits: EpisodeLimits
) -> list[Episode]:
    """Find the episodes of every client, in the order of time."""
    where = (pc.field("kind") == "client_error") & pc.field("error").isin(errors)
    where &= pc.field("ts").is_valid()
    moves = _read_moves(context, where, limits)
    if moves is None:
        return []
    found: dict[_EpisodeKey, Episode] = {}
    for row in context.each("events", where, _COLUMNS):
        partition = (row["topic"] or "", row["partition"])
        move = _move_behind(row, partition, moves, limits) if row["topic"] else None
        absence = None if row["topic"] else _absence_behind(context, row, limits)
        key = _episode_key(row, move, absence, limits)
        if key not in found:
            found[key] = Episode(*key[0], row["at"], row["at"], absence=absence)
        found[key].add(row, move, partition)
    loose = [episode for key, episode in found.items() if key[1] is None]
    episodes = [episode for key, episode in found.items() if key[1] is not None]
    episodes += _merge_by_gap(loose, _micros(limits.gap))
    for episode in episodes:
        episode.trim()
    return sorted(episodes, key=lambda one: (one.begin, one.node, one.client, one.end))


def _read_moves(
    context: DetectionContext, where: pc.Expression, limits: EpisodeLimits
) -> LeaderMoveIndex | None:
    """Read the moves that may lie behind the errors, of all partitions that they are about."""
    keys: set[Key] = set()
    first = last = None
    for row in context.each("events", where, ["node", "ts", "topic", "partition"]):
        first, last = min(row["at"], first or row["at"]), max(row["at"], last or row["at"])
        if row["topic"]:
            keys.add((row["topic"], row["partition"]))
    if first is None or last is None:
        return None
    late = _micros(limits.late)
    return LeaderMoveIndex(context, keys, (first - late, last + late), _micros(limits.stroke))


def _move_behind(
    row: Row, partition: Key, moves: LeaderMoveIndex, limits: EpisodeLimits
) -> LeaderMove | None:
    times = (_micros(limit) for limit in (limits.late, limits.ahead, limits.fresh))
    move = moves.last_before(partition, row["at"], *times)
    if move is None or (move.is_first and row["at"] - move.start > _micros(limits.near)):
        return None
    # If nobody knows a topic, only its creation explains that.
    unknown = row["partition"] is None and row["error"] == _UNKNOWN_TOPIC
    return None if unknown and not move.is_first else move


def _absence_behind(context: DetectionContext, row: Row, limits: EpisodeLimits) -> Absence | None:
    begin, end = row["at"] + _micros(limits.ahead), row["at"] - _micros(limits.near)
    near = [
        absence
        for absence in context.absences
        if absence.begin <= begin and end <= (absence.begin if absence.end is None else absence.end)
    ]
    return max(near, key=lambda absence: absence.begin, default=None)


def _episode_key(
    row: Row, move: LeaderMove | None, absence: Absence | None, limits: EpisodeLimits
) -> _EpisodeKey:
    client = row["node"] or "", row["client"] or row["node"] or "unknown"
    if move is not None and not move.is_first:
        return client, move.group, 0
    if absence is not None:
        # The sign tells absences from groups of moves.
        return client, -1 - absence.begin, 0
    return client, None, row["at"] // max(_micros(limits.gap), 1)


def _merge_by_gap(episodes: Iterable[Episode], gap: int) -> Iterator[Episode]:
    """Merge the episodes of a client without a known move that follow each other closely."""
    ordered = sorted(episodes, key=lambda one: (one.node, one.client, one.begin))
    for _, own in groupby(ordered, lambda one: (one.node, one.client)):
        for first, *others in sessions(own, lambda one: one.begin, gap, lambda one: one.end):
            for other in others:
                first.merge(other)
            yield first


def _micros(seconds: float) -> int:
    return round(seconds * SECOND)


def _first_moves(moves: Iterable[tuple[Key, int]]) -> set[tuple[Key, int]]:
    return set(sorted(moves, key=lambda move: (move[1], repr(move[0])))[:_MAX_MOVES])


def _latest(one: int | None, other: int | None) -> int | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)
