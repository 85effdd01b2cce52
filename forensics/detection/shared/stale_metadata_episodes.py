"""Episodes of errors in clients: those of one client behind one stroke of moves belong together.

Errors behind which no move is seen belong together while they follow each other closely. Errors are
read twice, and never held: archives may hold millions of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, partition_name
from forensics.detection.shared.leader_moves import Key, LeaderMove, LeaderMoveIndex
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND

# Of errors and of moves so many of the first are kept as evidence.
_ERRORS, _MOVES = 40, 5
_COLUMNS = ("node", "client", "ts", "topic", "partition", "error", "file", "line", "text", "rule")
# An answer about a topic that is not known is not about who leads its partitions.
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


@dataclass(frozen=True)
class EpisodeLimits:
    """How far things may lie apart and still belong together, in seconds."""

    # errors behind which no move is seen, of one episode
    gap: float
    # how long after a move a client that had nothing to ask may stumble over it
    late: float
    # how much before the first line about a move a client may hear of it
    ahead: float
    # moves of one stroke
    stroke: float
    # a broker that came back, for errors that do not say which topic they are about
    near: float
    # how long after a move errors are its doing, whatever comes next
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
    # the first moves as (partition, moment), how any of them came about, the last new leader
    moves: set[tuple[Key, int]] = field(default_factory=set)
    elections: set[tuple[str, int | None]] = field(default_factory=set)
    settled_at: int | None = None
    # errors that came while the partition had no leader at all
    leaderless: int = 0
    # when a topic was created whose partitions it is about
    created_at: int | None = None
    # a broker's absence, where the errors do not say which topic they are about
    absence: Absence | None = None

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return round((self.end - self.begin) / SECOND, 1)

    def add(self, row: Row, move: LeaderMove | None, key: Key) -> None:
        """Take one of the errors that the episode consists of."""
        self.begin, self.end = min(self.begin, row["at"]), max(self.end, row["at"])
        self.errors += 1
        self.error_counts[row["error"]] += 1
        if row["topic"]:
            self.topics.add(row["topic"])
        if row["topic"] and row["partition"] is not None:
            self.partitions.add(partition_name(row))
        self.first.append(row)
        self.trim(4)
        if move is not None:
            self._follow(row, move, key)

    def _follow(self, row: Row, move: LeaderMove, key: Key) -> None:
        if move.is_first:
            self.created_at = max(move.start, self.created_at or move.start)
        else:
            self.elections |= {(move.election, move.previous), (move.own_election, move.previous)}
        self.moves.add((key, move.start))
        if move.settled_at is None or row["at"] < move.settled_at:
            self.leaderless += 1
        if move.settled_at is not None:
            self.settled_at = max(move.settled_at, self.settled_at or move.settled_at)

    def merge(self, other: Episode) -> None:
        """Take in all of another episode of the same client."""
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
        self.trim(4)

    def trim(self, slack: int = 1) -> None:
        """Keep the first errors and moves; `slack` times as many may wait for it."""
        if len(self.first) > slack * _ERRORS:
            self.first = sorted(self.first, key=by_time)[:_ERRORS]
        if len(self.moves) > slack * _MOVES:
            self.moves = _soonest(self.moves)


_Who = tuple[str, str]
# Whose, behind which stroke, and behind none in which stretch of time.
_Place = tuple[_Who, int | None, int]


def find_episodes(
    context: DetectionContext, errors: Sequence[str], limits: EpisodeLimits
) -> list[Episode]:
    """Find the episodes of every client, in the order of time."""
    where = (pc.field("kind") == "client_error") & pc.field("error").isin(errors)
    where &= pc.field("ts").is_valid()
    moved = _moved(context, where, limits)
    if moved is None:
        return []
    found: dict[_Place, Episode] = {}
    for row in context.each("events", where, _COLUMNS):
        key = (row["topic"] or "", row["partition"])
        move, away = _behind(context, row, key, moved, limits)
        place = _place(row, move, away, limits)
        if place not in found:
            found[place] = Episode(*place[0], row["at"], row["at"], absence=away)
        found[place].add(row, move, key)
    every = list(_joined(found, round(limits.gap * SECOND)))
    for one in every:
        one.first.sort(key=by_time)
        one.trim()
    return sorted(every, key=lambda one: (one.begin, one.node, one.client, one.end))


def _moved(
    context: DetectionContext, where: pc.Expression, reach: EpisodeLimits
) -> LeaderMoveIndex | None:
    """Read the moves of all partitions that errors are about, as far as they may lie behind."""
    keys: set[Key] = set()
    low = high = None
    for row in context.each("events", where, ["node", "ts", "topic", "partition"]):
        low, high = min(row["at"], low or row["at"]), max(row["at"], high or row["at"])
        if row["topic"]:
            keys.add((row["topic"], row["partition"]))
    if low is None or high is None:
        return None
    span = low - round(reach.late * SECOND), high + round(reach.late * SECOND)
    return LeaderMoveIndex(context, keys, span, round(reach.stroke * SECOND))


def _behind(
    context: DetectionContext, row: Row, key: Key, moved: LeaderMoveIndex, reach: EpisodeLimits
) -> tuple[LeaderMove | None, Absence | None]:
    """Give what lies behind an error: a move, or a broker that was away."""
    at, ahead = row["at"], round(reach.ahead * SECOND)
    if row["topic"]:
        late, fresh = round(reach.late * SECOND), round(reach.fresh * SECOND)
        move = moved.last_before(key, at, late, ahead, fresh)
        if move is None or (move.is_first and at - move.start > round(reach.near * SECOND)):
            return None, None
        # Only that a topic is new explains that nobody knows it.
        whole = row["partition"] is None and row["error"] == _UNKNOWN_TOPIC
        return (None if whole and not move.is_first else move), None
    near = round(reach.near * SECOND)
    gone = [a for a in context.absences if a.begin - ahead <= at <= _end(a) + near]
    return None, max(gone, key=lambda one: one.begin, default=None)


def _end(absence: Absence) -> int:
    return absence.begin if absence.end is None else absence.end


def _place(row: Row, move: LeaderMove | None, away: Absence | None, reach: EpisodeLimits) -> _Place:
    who = row["node"] or "", row["client"] or row["node"] or "unknown"
    if move is not None and not move.is_first:
        return who, move.group, 0
    if away is not None:
        # Absences are told apart from strokes by their sign.
        return who, -1 - away.begin, 0
    return who, None, row["at"] // max(round(reach.gap * SECOND), 1)


def _joined(found: Mapping[_Place, Episode], gap: int) -> Iterator[Episode]:
    """Join the stretches behind which no move is seen, and give all."""
    before: Episode | None = None
    loose = [(place, one) for place, one in found.items() if place[1] is None]
    yield from (one for place, one in found.items() if place[1] is not None)
    for _, one in sorted(loose, key=lambda pair: (pair[0][0], pair[1].begin)):
        same = before is not None and (before.node, before.client) == (one.node, one.client)
        if before is not None and same and one.begin - before.end <= gap:
            before.merge(one)
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before


def _soonest(moves: Iterable[tuple[Key, int]]) -> set[tuple[Key, int]]:
    return set(sorted(moves, key=lambda move: (move[1], repr(move[0])))[:_MOVES])


def _latest(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)
