"""Groups stale-metadata errors into episodes: those of one application after one move of leaders.

An application is a process: the clients that log into the same lane. Errors without a known move
belong together while they follow each other closely. Errors are read twice and never held: archives
may hold millions of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
# The last move of so many partitions is kept.
_MAX_PARTITIONS = 200
_COLUMNS = ("node", "client", "ts", "topic", "partition", "error", "broker", "file", "line", "text",
            "rule")  # fmt: skip
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
    # what `late` is for nodes whose clients log a longer metadata.max.age.ms
    late_by_node: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Episode:
    """Errors of the clients of one process, and the moves of leaders behind them."""

    node: str
    begin: int
    end: int
    errors: int = 0
    clients: set[str] = field(default_factory=set)
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
    # the brokers that the errors name, the last move of each partition, and how long after the
    # move of its partition the last error came
    asked: Counter[int] = field(default_factory=Counter)
    latest: dict[Key, LeaderMove] = field(default_factory=dict)
    stale: int | None = None
    # how long after the move of its partition the first error came, at least
    delay: int | None = None

    @property
    def application(self) -> str:
        """Its name: that of its one client, or of the process."""
        return min(self.clients) if len(self.clients) == 1 else self.node

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / SECOND, 1)

    def add(self, row: Row, move: LeaderMove | None, key: Key) -> None:
        """Add one of its errors."""
        self.begin, self.end = min(self.begin, row["at"]), max(self.end, row["at"])
        self.errors += 1
        self.error_counts[row["error"]] += 1
        self.clients.add(row["client"] or row["node"] or "unknown")
        if row["broker"] is not None:
            self.asked[row["broker"]] += 1
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
        if key in self.latest or len(self.latest) < _MAX_PARTITIONS:
            self.latest[key] = max(move, self.latest.get(key, move), key=lambda one: one.start)
        since = max(0, row["at"] - move.start)
        self.delay = since if self.delay is None else min(since, self.delay)
        if len(self.moves) > 4 * _MAX_MOVES:
            self.moves = _first_moves(self.moves)
        if move.settled_at is None or move.left_at <= row["at"] < move.settled_at:
            self.leaderless += 1
        else:
            self.stale = max(self.stale or 0, row["at"] - move.settled_at)
        if move.settled_at is not None:
            self.settled_at = max(move.settled_at, self.settled_at or move.settled_at)

    def merge(self, other: Episode) -> None:
        """Add all of another episode of the same process."""
        self.begin, self.end = min(self.begin, other.begin), max(self.end, other.end)
        self.errors += other.errors
        self.leaderless += other.leaderless
        self.clients |= other.clients
        self.asked += other.asked
        self.latest |= {
            key: move
            for key, move in other.latest.items()
            if key not in self.latest or self.latest[key].start < move.start
        }
        self.stale, self.delay = _latest(self.stale, other.stale), _latest(self.delay, other.delay)
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


# Node; the group of moves, or None; without a move, whether nobody knows the topic, and the bucket
# of time.
_EpisodeKey = tuple[str, int | None, tuple[bool, int]]


def find_episodes(
    context: DetectionContext, errors: Sequence[str], limits: EpisodeLimits
) -> list[Episode]:
    """Find the episodes of every process, in the order of time."""
    where = (pc.field("kind") == "client_error") & pc.field("error").isin(errors)
    where &= pc.field("ts").is_valid()
    moves = _read_moves(context, where, limits)
    if moves is None:
        return []
    found: dict[_EpisodeKey, Episode] = {}
    for row in context.each("events", where, _COLUMNS):
        partition = (row["topic"] or "", row["partition"])
        if row["topic"]:
            move = _move_behind(row, partition, moves, limits)
            absence = _absence_since(context, row, move)
            move = move if absence is None and _is_near(row, move, limits) else None
        else:
            move, absence = None, _absence_behind(context, row, limits)
        key = _episode_key(row, move, absence, limits)
        if key not in found:
            found[key] = Episode(key[0], row["at"], row["at"], absence=absence)
        found[key].add(row, move, partition)
    episodes = [episode for key, episode in found.items() if key[1] is not None]
    for kind in (False, True):
        loose = (one for key, one in found.items() if key[1] is None and key[2][0] is kind)
        episodes += _merge_by_gap(loose, _micros(limits.gap))
    for episode in episodes:
        episode.trim()
    return sorted(episodes, key=lambda one: (one.begin, one.node, one.end))


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
    late = _micros(max([limits.late, *limits.late_by_node.values()]))
    return LeaderMoveIndex(context, keys, (first - late, last + late), _micros(limits.stroke))


def _move_behind(
    row: Row, partition: Key, moves: LeaderMoveIndex, limits: EpisodeLimits
) -> LeaderMove | None:
    late = max(limits.late, limits.late_by_node.get(row["node"] or "", 0))
    # If nobody knows a topic, only its creation explains that.
    unknown = row["partition"] is None and row["error"] == _UNKNOWN_TOPIC
    fresh = limits.near if unknown else limits.fresh
    times = (_micros(limit) for limit in (late, limits.ahead, fresh))
    move = moves.last_before(partition, row["at"], *times)
    return None if move is None or (unknown and not move.is_first) else move


def _is_near(row: Row, move: LeaderMove | None, limits: EpisodeLimits) -> bool:
    """Return False if an error comes too late to be about a new partition."""
    if move is None or not move.is_first:
        return True
    return bool(row["at"] - move.start <= _micros(limits.near))


def _absence_since(context: DetectionContext, row: Row, move: LeaderMove | None) -> Absence | None:
    """Return the last absence of the first leader of a partition before an error, if it had one.

    Then the error is about that, and not about a new partition that brokers do not know yet.
    """
    if move is None or not move.is_first or move.leader is None or row["error"] == _UNKNOWN_TOPIC:
        return None
    absences = context.absences_around(move.leader, move.start, row["at"])
    since = [one for one in absences if one.begin >= move.start]
    return max(since, key=lambda one: one.begin, default=None)


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
    process = row["node"] or row["client"] or "unknown"
    if move is not None and not move.is_first:
        return process, move.group, (False, 0)
    if absence is not None:
        # The sign tells absences from groups of moves.
        return process, -1 - absence.begin, (False, 0)
    bucket = row["at"] // max(_micros(limits.gap), 1)
    return process, None, (row["error"] == _UNKNOWN_TOPIC, bucket)


def _merge_by_gap(episodes: Iterable[Episode], gap: int) -> Iterator[Episode]:
    """Merge the episodes of a process without a known move that follow each other closely."""
    ordered = sorted(episodes, key=lambda one: (one.node, one.begin))
    for _, own in groupby(ordered, lambda one: one.node):
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
