"""Finds the moves of leaders that may lie behind errors and findings.

- `LeaderMoveIndex`: which move of a partition came last before an error. Every move is held in a
  few plain numbers, so that even millions fit; moves by the same kind of election that follow each
  other closely are one group.
- `MoveHistory`: the moves behind findings, for cause chains; which of them were planned
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    in_topics,
    once_per_run,
    partition_name,
)
from forensics.lib.sessionize import session_ids, sessions
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.lib.whole_numbers import whole_number
from forensics.run_output.findings import Finding

# A partition; without a number all partitions of the topic.
Key = tuple[str, int | None]
_Numbers = npt.NDArray[np.int64]

_UNKNOWN_LEADER = -2
_SEPARATOR = "\0"
_MOVE_COLUMNS = ("topic", "partition", "leader", "previous_leader", "started_at", "election")
# The election of the first leader of a new partition.
_FIRST_ELECTION = "initial"

_ENABLED, _INTERVAL = "auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds"


@dataclass(frozen=True)
class LeaderMove:
    """One move, and the group that it belongs to."""

    start: int
    group: int
    # how the group began, and how this leader was elected
    election: str
    own_election: str
    previous: int | None
    # when there was a leader again; None: no line tells of one
    settled_at: int | None
    # when the former leader's time ended: before `start` if nobody led in between
    left_at: int
    # that leader and its epoch, and the partition: a key may be a whole topic
    leader: int | None = None
    leader_epoch: int | None = None
    partition: int | None = None

    @property
    def is_first(self) -> bool:
        """Whether this was the first leader of a new partition."""
        return self.own_election == _FIRST_ELECTION


class LeaderMoveIndex:
    """The moves of some partitions within a span of time, in order."""

    def __init__(
        self, context: DetectionContext, keys: Collection[Key], span: tuple[int, int], gap: int
    ) -> None:
        """Read them; a group ends where nothing moves for `gap` microseconds."""
        self._codes = {key: code for code, key in enumerate(sorted(keys, key=repr))}
        self._elections: list[str] = []
        rows = self._sorted(self._read(context, span))
        self._code, self._start, self._epoch, self._leader, self._previous = rows[:5]
        self._election, self._partition = rows[5:]
        self._anchor = self._anchors()
        # What befalls several leaders at once is one move: an election of all preferred leaders, or
        # the loss of a rack.
        start, election = (moves[self._anchor] for moves in (self._start, self._election))
        self._group = session_ids(start, gap, election)
        self._bounds = np.searchsorted(self._code, np.arange(len(self._codes) + 1)).tolist()
        self._starts = array("q", self._start.tobytes())

    def last_before(
        self, key: Key, at: int, late: int, ahead: int, fresh: int | None = None
    ) -> LeaderMove | None:
        """Return the last move at most `late` before a moment, or one that is about to come.

        A client may hear of a move up to `ahead` before anybody has logged it. That one counts if
        there is no other, or the other is no longer `fresh`: a client that has had time to see the
        previous move must be reacting to the next one.
        """
        code = self._codes.get(key)
        if code is None:
            return None
        low, high = self._bounds[code], self._bounds[code + 1]
        after = bisect_right(self._starts, at, low, high)
        since = at - self._starts[after - 1] if after > low else late + 1
        until = self._starts[after] - at if after < high else ahead + 1
        if until <= ahead and since > (late if fresh is None else fresh):
            return self._move(after, high)
        return self._move(after - 1, high) if since <= late else None

    def _move(self, row: int, high: int) -> LeaderMove:
        anchor = int(self._anchor[row])
        settled = next((at for at in range(row, high) if self._leader[at] >= 0), None)
        previous, epoch = (
            int(self._previous[anchor]),
            int(self._epoch[row if settled is None else settled]),
        )
        return LeaderMove(
            self._starts[row],
            int(self._group[row]),
            self._elections[int(self._election[anchor])],
            self._elections[int(self._election[row])],
            None if previous == _UNKNOWN_LEADER else previous,
            None if settled is None else self._starts[settled],
            self._starts[anchor],
            None if settled is None else int(self._leader[settled]),
            None if settled is None or epoch < 0 else epoch,
            int(self._partition[row if settled is None else settled]),
        )

    def _read(self, context: DetectionContext, span: tuple[int, int]) -> Iterator[_Numbers]:
        where = in_topics(topic for topic, _ in self._codes) & _starts_within(*span)
        names = {_name(*key): code for key, code in self._codes.items()}
        wanted = pa.array(list(names))
        codes = np.array(list(names.values()), np.int64)
        for batch in context.batches("leadership", where, [*_MOVE_COLUMNS, "leader_epoch"]):
            moves = batch.filter(_is_move(batch))
            for partitions in _names(moves):
                index = pc.index_in(partitions, wanted)
                rows = moves.filter(index.is_valid())
                chosen = index.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
                if len(rows):
                    yield self._numbers(rows, codes[chosen])

    def _numbers(self, rows: pa.RecordBatch, codes: _Numbers) -> _Numbers:
        names = rows["election"].to_pylist()
        self._elections += [name for name in dict.fromkeys(names) if name not in self._elections]
        number = {name: index for index, name in enumerate(self._elections)}
        starts = rows["started_at"].cast(pa.int64())
        leaders, previous = (
            rows[name].fill_null(_UNKNOWN_LEADER) for name in ("leader", "previous_leader")
        )
        plain = (codes, starts, rows["leader_epoch"].fill_null(-1), leaders, previous)
        columns = [np.asarray(column, np.int64) for column in plain]
        elections = [number[name] for name in names]
        partitions = np.asarray(rows["partition"].fill_null(-1), np.int64)
        return np.array([*columns, elections, partitions], np.int64)

    def _sorted(self, parts: Iterable[_Numbers]) -> tuple[_Numbers, ...]:
        """Sort moves by key, time and epoch."""
        moves = np.concatenate([np.zeros((7, 0), np.int64), *parts], axis=1)
        return tuple(moves[:, np.lexsort((moves[2], moves[1], moves[0]))])

    def _anchors(self) -> _Numbers:
        """Return for each move the one it follows from: a leader after none belongs to that.

        A key for a whole topic mixes partitions, so nothing follows from the row before.
        """
        count = len(self._code)
        whole = np.array([key[1] is None for key in self._codes] or [False])
        follows = np.zeros(count, np.bool_)
        if count:
            follows[1:] = (self._code[1:] == self._code[:-1]) & (self._leader[:-1] == -1)
            follows &= ~whole[self._code]
        anchors: _Numbers = np.maximum.accumulate(np.where(follows, 0, np.arange(count)))
        return anchors


def _is_move(batch: pa.RecordBatch) -> pa.Array:
    """Mark the rows that moved the leadership, as far as their lines tell."""
    same = pc.fill_null(pc.equal(batch["leader"], batch["previous_leader"]), False)
    blank = pc.and_(batch["previous_leader"].is_null(), pc.equal(batch["election"], "unknown"))
    return pc.and_(pc.invert(same), pc.invert(pc.fill_null(blank, True)))


def _names(moves: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the partition of each row and its topic, as `_name` writes them."""
    topics, numbers = moves["topic"], moves["partition"].cast(pa.string())
    blank = pa.array([""] * len(moves), pa.string())
    return (
        pc.binary_join_element_wise(topics, numbers, _SEPARATOR),
        pc.binary_join_element_wise(topics, blank, _SEPARATOR),
    )


def _name(topic: str, partition: int | None) -> str:
    return f"{topic}{_SEPARATOR}{'' if partition is None else partition}"


def _starts_within(begin: int, end: int) -> pc.Expression:
    start = pc.field("started_at")
    return (start >= to_arrow_timestamp(begin)) & (start <= to_arrow_timestamp(end))


# Chains leave out moves beyond these.
_MAX_PARTITIONS, _MAX_MOVES = 2000, 100_000
# Planned moves that follow each other within this gap are one.
_PLANNED_GAP = 60 * SECOND
# Clients' clocks, which nothing corrects, and those of nodes may be off by this much.
_CLOCK_SLACK = 2 * SECOND
_PLANNED = {"preferred": "Preferred election", "reassignment": "Reassignment"}
_COORDINATOR = "__consumer_offsets"
_NEEDS_COORDINATORS = "rebalance-storm"
# Detectors whose partitions are looked up.
_NEEDS_MOVES = ("stale-metadata", "leader-not-available", "offline-partitions", "leader-imbalance",
           "under-min-isr", "isr-storm", "isr-flapping", "truncation")  # fmt: skip


# A partition, and when its leader moved.
LeaderAndEpoch = tuple[str, int]


@dataclass(frozen=True)
class PlannedMove:
    """Leaders that were moved on purpose, closely one after the other."""

    election: str
    begin: int
    end: int
    moves: frozenset[LeaderAndEpoch]
    line: Row | None

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions that they led."""
        return frozenset(name for name, _ in self.moves)

    @property
    def id(self) -> str:
        """An id that stays the same between runs."""
        text = repr([self.election, sorted(self.partitions), self.begin // SECOND])
        return "M-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def title(self) -> str:
        """The title of its node in a chain."""
        count = len(self.partitions)
        return f"{_PLANNED[self.election]} of {quantity(count, 'partition')}"


@dataclass
class MoveHistory:
    """The moves of the partitions that findings are about."""

    planned: Sequence[PlannedMove] = ()
    # when the leader of each partition moved, and what each broker lost, all in order
    _starts: dict[str, list[int]] = field(default_factory=dict)
    _lost: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    # the line by which each partition got a leader again
    _recoveries: dict[tuple[str, int], Row] = field(default_factory=dict)

    @classmethod
    def read(cls, context: DetectionContext, findings: Sequence[Finding]) -> MoveHistory:
        """Read them in one pass."""
        history = cls()
        planned: dict[str, list[Row]] = {}
        moves: dict[str, list[tuple[int, int]]] = {}
        for row in islice(_read_moves(context, findings), _MAX_MOVES):
            name, start = partition_name(row), row["started_at"]
            before = row["previous_leader"]
            if row["election"] in _PLANNED:
                planned.setdefault(row["election"], []).append(row)
            leader = row["leader"]
            if before == -1 and leader is not None and leader >= 0:
                history._recoveries[name, start] = row
            moves.setdefault(name, []).append((start, -1 if before is None else before))
        for name in sorted(moves):
            resolved = _resolve_previous(moves[name])
            history._starts[name] = [start for start, _ in resolved]
            for start, left in resolved:
                history._lost.setdefault(left, []).append((start, name))
        history._lost = {broker: sorted(lost) for broker, lost in history._lost.items()}
        groups = [group for kind in sorted(planned) for group in _group_planned(planned[kind])]
        ends = {finding.end for finding in findings if finding.detector == "offline-partitions"}
        ended = {key: row for key, row in history._recoveries.items() if key[1] in ends}
        lines = _read_lines(context, [*(group[0] for group in groups), *ended.values()])
        history._recoveries = {key: lines[key] for key in ended if key in lines}
        history.planned = [_planned_move(rows, lines) for rows in groups]
        return history

    def away_from(self, broker: int, begin: int, end: int) -> frozenset[LeaderAndEpoch]:
        """Return the moves away from a broker while it was away."""
        lost = self._lost.get(broker, ())
        first = bisect_left(lost, (begin - _CLOCK_SLACK, ""))
        last = bisect_left(lost, (end + _CLOCK_SLACK + 1, ""))
        return frozenset((name, at) for at, name in lost[first:last])

    def last_before(self, partitions: Collection[str], moment: int) -> frozenset[LeaderAndEpoch]:
        """Return the last move of each partition before a moment, or just about then."""
        moves = set()
        for name in partitions:
            starts = self._starts.get(name, ())
            if last := bisect_right(starts, moment + _CLOCK_SLACK):
                moves.add((name, starts[last - 1]))
        return frozenset(moves)

    def recovery_line(self, partitions: Collection[str], moment: int) -> Row | None:
        """Return the line by which the last of some partitions got a leader again."""
        lines = (self._recoveries.get((name, moment)) for name in sorted(partitions))
        return next((line for line in lines if line is not None), None)


def _resolve_previous(moves: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort moves; one from no leader at all left the broker that the move before it left."""
    resolved: list[tuple[int, int]] = []
    for start, left in sorted(moves):
        resolved.append((start, resolved[-1][1] if left == -1 and resolved else left))
    return resolved


def _read_moves(context: DetectionContext, findings: Sequence[Finding]) -> Iterator[Row]:
    """Read the moves of some partitions, and of coordinators where groups have trouble."""
    partitions = {
        name for one in findings if one.detector in _NEEDS_MOVES for name in one.partitions
    }
    wanted = sorted(partitions)[:_MAX_PARTITIONS]
    topics = {name.rpartition("-")[0] for name in wanted}
    offsets = any(finding.detector == _NEEDS_COORDINATORS for finding in findings)
    if offsets:
        topics.add(_COORDINATOR)
    if not topics:
        return
    begin = min(finding.begin for finding in findings) - _PLANNED_GAP
    end = max(finding.end for finding in findings) + _PLANNED_GAP
    where = in_topics(topics) & _starts_within(begin, end)
    where &= pc.field("election") != _FIRST_ELECTION
    names = pa.array(wanted, pa.string())
    for batch in context.batches("leadership", where, _MOVE_COLUMNS):
        numbers = batch["partition"].cast(pa.string())
        chosen = pc.is_in(pc.binary_join_element_wise(batch["topic"], numbers, "-"), names)
        if offsets:
            chosen = pc.or_(chosen, pc.equal(batch["topic"], _COORDINATOR))
        index = batch.schema.get_field_index("started_at")
        starts = batch["started_at"].cast(pa.int64())
        for row in batch.set_column(index, "started_at", starts).filter(chosen).to_pylist():
            if row["leader"] != row["previous_leader"]:
                yield row


def _group_planned(rows: Iterable[Row]) -> Iterator[list[Row]]:
    ordered = sorted(rows, key=lambda row: (row["started_at"], partition_name(row)))
    return sessions(ordered, lambda row: int(row["started_at"]), _PLANNED_GAP)


def _planned_move(rows: Sequence[Row], lines: dict[LeaderAndEpoch, Row]) -> PlannedMove:
    return PlannedMove(
        rows[0]["election"],
        rows[0]["started_at"],
        rows[-1]["started_at"],
        frozenset(_move(row) for row in rows),
        lines.get(_move(rows[0])),
    )


def _read_lines(context: DetectionContext, rows: Sequence[Row]) -> dict[LeaderAndEpoch, Row]:
    """Look up the first line that tells of each of some moves."""
    moves = {_move(row) for row in rows}
    if not moves:
        return {}
    starts = pa.array(sorted({start for _, start in moves}), pa.timestamp("us", "UTC"))
    where = in_topics(row["topic"] for row in rows) & pc.field("started_at").isin(starts)
    columns = ["topic", "partition", "started_at", "evidence"]
    places = {
        _move(row): row["evidence"][0]
        for row in context.each("leadership", where, columns)
        if row["evidence"] and _move(row) in moves
    }
    lines = context.read_lines(places.values())
    by_place = {(line["file"], line["line"]): line for line in lines if "at" in line}
    keys = {move: (place["file"], place["line"]) for move, place in places.items()}
    return {move: by_place[key] for move, key in keys.items() if key in by_place}


def _move(row: Row) -> LeaderAndEpoch:
    return partition_name(row), row["started_at"]


@once_per_run
def _rebalance_settings(context: DetectionContext) -> dict[str, list[Row]]:
    """Read the lines of brokers and controllers that name these settings."""
    found: dict[str, list[Row]] = {_ENABLED: [], _INTERVAL: []}
    where = (pc.field("kind") == "setting_seen") & pc.field("setting").isin(list(found))
    columns = [*EVIDENCE_COLUMNS, "setting", "value"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        found[row["setting"]].append(row)
    return found


def switched_off(context: DetectionContext) -> list[Row]:
    """Return the lines that show it switched off."""
    return [row for row in _rebalance_settings(context)[_ENABLED] if row["value"] == "false"]


def rebalances_itself(context: DetectionContext) -> bool | None:
    """Return whether the controller does it; None if no line tells."""
    values = {row["value"] for row in _rebalance_settings(context)[_ENABLED]}
    return None if not values else "false" not in values


def rebalance_interval(context: DetectionContext) -> int:
    """Return how often it looks, in seconds: as logged, or Kafka's default."""
    values = (whole_number(row["value"]) for row in _rebalance_settings(context)[_INTERVAL])
    return max((value for value in values if value is not None), default=300)
