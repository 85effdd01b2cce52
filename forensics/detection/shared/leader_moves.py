"""The moves of leaders that findings may have come of: whom they left, and which were planned.

Who led some partitions, and when: the rows of tables/leadership that a finding is about.

The moves of leaders behind errors: which move of a partition came last before a moment.

Of the partitions that clients complain of, every move is held in a few plain numbers, so that even
millions of them fit; moves by the same election away from the same leader, closely one after the
other, are one stroke.
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

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.lib.formatting import quantity
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import Finding


def read_leader_epochs(
    context: DetectionContext, partitions: Collection[str], columns: Sequence[str] = ()
) -> Iterator[Row]:
    """Read the leader epochs of some partitions; `columns` beside leader, begin and end."""
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    always = ["topic", "partition", "leader", "started_at", "ended_at"]
    for row in context.each("leadership", where, list(dict.fromkeys([*always, *columns]))):
        if partition_name(row) in partitions:
            yield row


# A partition; without a number all partitions of the topic.
Key = tuple[str, int | None]
_Numbers = npt.NDArray[np.int64]

_NONE = -2  # of leaders: not known
_SEPARATOR = "\0"
_MOVED_COLUMNS = ("topic", "partition", "leader_epoch", "leader", "previous_leader", "started_at",
            "election")  # fmt: skip
# What is no move of a leader that was there before.
_FIRST = "initial"


@dataclass(frozen=True)
class LeaderMove:
    """One move: what came of it, and the stroke that it belongs to."""

    start: int
    group: int
    # how the stroke began, and how this very leader was elected
    election: str
    own_election: str
    previous: int | None
    # from when on there was a leader again; null: these logs do not see one
    settled_at: int | None

    @property
    def is_first(self) -> bool:
        """Whether this was the first leader of a new partition."""
        return self.own_election == _FIRST


class LeaderMoveIndex:
    """The moves of some partitions within a time, each in order."""

    def __init__(
        self, context: DetectionContext, keys: Collection[Key], span: tuple[int, int], gap: int
    ) -> None:
        """Read them; a stroke ends where nothing moves for `gap` microseconds."""
        self._codes = {key: code for code, key in enumerate(sorted(keys, key=repr))}
        self._elections: list[str] = []
        rows = self._sorted(self._read(context, span))
        self._code, self._start, self._leader, self._previous, self._election = rows
        self._anchor = self._anchors()
        self._stroke = self._strokes(gap)
        self._bounds = np.searchsorted(self._code, np.arange(len(self._codes) + 1)).tolist()
        self._starts = array("q", self._start.tobytes())

    def last_before(
        self, key: Key, at: int, late: int, ahead: int, fresh: int | None = None
    ) -> LeaderMove | None:
        """Give the last move before a moment, if not by more than `late`, or one about to come.

        A client may hear of a move a little before anybody has logged it: `ahead`. That one counts
        where there is no other, or where the other is no longer `fresh`: who has had the time to
        hear of the last move stumbles over the next one.
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
        previous = int(self._previous[anchor])
        return LeaderMove(
            self._starts[row],
            int(self._stroke[row]),
            self._elections[int(self._election[anchor])],
            self._elections[int(self._election[row])],
            None if previous == _NONE else previous,
            None if settled is None else self._starts[settled],
        )

    def _read(self, context: DetectionContext, span: tuple[int, int]) -> Iterator[_Numbers]:
        topics = sorted({topic for topic, _ in self._codes})
        if not topics:
            return
        topic, moment = pc.field("topic"), pc.field("started_at")
        where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
        where &= (moment >= to_arrow_timestamp(span[0])) & (moment <= to_arrow_timestamp(span[1]))
        names = {_name(*key): code for key, code in self._codes.items()}
        wanted = pa.array(list(names))
        codes = np.array(list(names.values()), np.int64)
        for batch in context.batches("leadership", where, _MOVED_COLUMNS):
            moves = batch.filter(_is_move(batch))
            for found in _named(moves):
                at = pc.index_in(found, wanted)
                rows = moves.filter(at.is_valid())
                chosen = at.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
                if len(rows):
                    yield self._numbers(rows, codes[chosen])

    def _numbers(self, rows: pa.RecordBatch, codes: _Numbers) -> _Numbers:
        names = rows["election"].to_pylist()
        self._elections += [one for one in dict.fromkeys(names) if one not in self._elections]
        number = {name: at for at, name in enumerate(self._elections)}
        starts = rows["started_at"].cast(pa.int64())
        leaders, previous = (rows[name].fill_null(_NONE) for name in ("leader", "previous_leader"))
        plain = (codes, starts, rows["leader_epoch"].fill_null(-1), leaders, previous)
        columns = [np.asarray(one, np.int64) for one in plain]
        return np.array([*columns, [number[name] for name in names]], np.int64)

    def _sorted(self, parts: Iterable[_Numbers]) -> tuple[_Numbers, ...]:
        """Put moves in the order of partitions, time and epoch; the epoch is then of no use."""
        found = np.concatenate([np.zeros((6, 0), np.int64), *parts], axis=1)
        found = found[:, np.lexsort((found[2], found[1], found[0]))]
        return found[0], found[1], found[3], found[4], found[5]

    def _anchors(self) -> _Numbers:
        """Give for each move the one that it follows from: a leader after none is the same story.

        A key that stands for a whole topic mixes partitions, where nothing follows from the row
        before.
        """
        count = len(self._code)
        whole = np.array([key[1] is None for key in self._codes] or [False])
        follows = np.zeros(count, np.bool_)
        if count:
            follows[1:] = (self._code[1:] == self._code[:-1]) & (self._leader[:-1] == -1)
            follows &= ~whole[self._code]
        anchors: _Numbers = np.maximum.accumulate(np.where(follows, 0, np.arange(count)))
        return anchors

    def _strokes(self, gap: int) -> _Numbers:
        start, previous, election = (
            one[self._anchor] for one in (self._start, self._previous, self._election)
        )
        order = np.lexsort((start, previous, election))
        steps = [np.diff(one[order], prepend=one[order][:1]) for one in (previous, election)]
        apart = np.diff(start[order], prepend=start[order][:1]) > gap
        numbers = np.cumsum(apart | (steps[0] != 0) | (steps[1] != 0))
        strokes = np.empty(len(order), np.int64)
        strokes[order] = numbers
        return strokes


def _is_move(batch: pa.RecordBatch) -> pa.Array:
    """Whether each row moved the leadership, as far as its line tells."""
    same = pc.fill_null(pc.equal(batch["leader"], batch["previous_leader"]), False)
    blank = pc.and_(batch["previous_leader"].is_null(), pc.equal(batch["election"], "unknown"))
    return pc.and_(pc.invert(same), pc.invert(pc.fill_null(blank, True)))


def _named(moves: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Name the partition of each row, and its topic."""
    topics, numbers = moves["topic"], moves["partition"].cast(pa.string())
    blank = pa.array([""] * len(moves), pa.string())
    return (
        pc.binary_join_element_wise(topics, numbers, _SEPARATOR),
        pc.binary_join_element_wise(topics, blank, _SEPARATOR),
    )


def _name(topic: str, partition: int | None) -> str:
    return f"{topic}{_SEPARATOR}{'' if partition is None else partition}"


# Of so many partitions so many moves are looked at; what lies beyond is told by no chain.
_PARTITIONS, _ROWS = 2000, 100_000
_STROKE = 60 * SECOND
# Clients' clocks, which nothing corrects, and those who tell of a move may be off by this much.
_BLUR = 2 * SECOND
_PLANNED_COLUMNS = ("topic", "partition", "leader", "previous_leader", "started_at", "election")
_PLANNED = {"preferred": "Preferred election", "reassignment": "Reassignment"}
_COORDINATOR = "__consumer_offsets"
_GROUPS = "rebalance-storm"
# Whose partitions are asked for.
_ASKING = ("stale-metadata", "leader-not-available", "offline-partitions", "leader-imbalance",
           "under-min-isr", "isr-storm", "isr-flapping")  # fmt: skip


# A partition, and when its leader moved.
LeaderAndEpoch = tuple[str, int]


@dataclass(frozen=True)
class PlannedMove:
    """Leaders moved on purpose, all in one stroke."""

    election: str
    begin: int
    end: int
    moves: frozenset[LeaderAndEpoch]
    line: Row | None

    @property
    def partitions(self) -> frozenset[str]:
        """Whose leaders they were."""
        return frozenset(name for name, _ in self.moves)

    @property
    def id(self) -> str:
        """A name that stays the same between runs."""
        text = repr([self.election, sorted(self.partitions), self.begin // SECOND])
        return "M-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def title(self) -> str:
        """Say it in a line."""
        count = len(self.partitions)
        return f"{_PLANNED[self.election]} of {quantity(count, 'partition')}"


@dataclass
class MoveHistory:
    """What was read of the moves, and questions to it."""

    planned: Sequence[PlannedMove] = ()
    # when the leader of each partition moved, and each broker's losses, all in order
    _starts: dict[str, list[int]] = field(default_factory=dict)
    _left: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _back: dict[tuple[str, int], Row] = field(default_factory=dict)

    @classmethod
    def read(cls, context: DetectionContext, findings: Sequence[Finding]) -> MoveHistory:
        """Read the moves of the partitions that findings are about, in one pass."""
        found = cls()
        planned: dict[str, list[Row]] = {}
        moves: dict[str, list[tuple[int, int]]] = {}
        for row in islice(_rows(context, findings), _ROWS):
            name, start = partition_name(row), row["started_at"]
            before = row["previous_leader"]
            if row["election"] in _PLANNED:
                planned.setdefault(row["election"], []).append(row)
            if before == -1 and (row["leader"] or -1) >= 0:
                found._back[name, start] = row
            moves.setdefault(name, []).append((start, -1 if before is None else before))
        for name in sorted(moves):
            followed = _followed(moves[name])
            found._starts[name] = [at for at, _ in followed]
            for at, left in followed:
                found._left.setdefault(left, []).append((at, name))
        found._left = {broker: sorted(lost) for broker, lost in found._left.items()}
        strokes = [stroke for kind in sorted(planned) for stroke in _strokes(planned[kind])]
        ends = {finding.end for finding in findings if finding.detector == "offline-partitions"}
        found._back = {key: row for key, row in found._back.items() if key[1] in ends}
        evidence = [*(one[0] for one in strokes), *found._back.values()]
        told = _told(context, evidence)
        found._back = {key: told[key] for key in found._back if key in told}
        found.planned = [_shift(rows, told) for rows in strokes]
        return found

    def away_from(self, broker: int, begin: int, end: int) -> frozenset[LeaderAndEpoch]:
        """Give the moves away from a broker while it was gone."""
        lost = self._left.get(broker, ())
        first = bisect_left(lost, (begin - _BLUR, ""))
        last = bisect_left(lost, (end + _BLUR + 1, ""))
        return frozenset((name, at) for at, name in lost[first:last])

    def last_before(self, partitions: Collection[str], moment: int) -> frozenset[LeaderAndEpoch]:
        """Give the last move of each partition before a moment, or just about then."""
        found = set()
        for name in partitions:
            starts = self._starts.get(name, ())
            if last := bisect_right(starts, moment + _BLUR):
                found.add((name, starts[last - 1]))
        return frozenset(found)

    def recovery_line(self, partitions: Collection[str], moment: int) -> Row | None:
        """Find the line by which the last of some partitions got a leader again."""
        found = (self._back.get((name, moment)) for name in sorted(partitions))
        return next((one for one in found if one is not None), None)


def _followed(moves: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Order moves; one from no leader at all left whom the move before it left."""
    found: list[tuple[int, int]] = []
    for at, left in sorted(moves):
        found.append((at, found[-1][1] if left == -1 and found else left))
    return found


def _wanted(findings: Sequence[Finding]) -> list[str]:
    asking = [one for one in findings if one.detector in _ASKING]
    return sorted({name for one in asking for name in one.partitions})[:_PARTITIONS]


def _rows(context: DetectionContext, findings: Sequence[Finding]) -> Iterator[Row]:
    """Read the moves of some partitions, and of coordinators where groups have trouble."""
    wanted = _wanted(findings)
    offsets = any(finding.detector == _GROUPS for finding in findings)
    topics = {name.rpartition("-")[0] for name in wanted} | ({_COORDINATOR} if offsets else set())
    if not topics:
        return
    topic, start = pc.field("topic"), pc.field("started_at")
    low = min(finding.begin for finding in findings) - _STROKE
    high = max(finding.end for finding in findings) + _STROKE
    where = topic.isin(sorted(topics)) & (topic >= min(topics)) & (topic <= max(topics))
    where &= (
        (start >= to_arrow_timestamp(low))
        & (start <= to_arrow_timestamp(high))
        & (pc.field("election") != "initial")
    )
    names = pa.array(wanted, pa.string())
    for batch in context.batches("leadership", where, _PLANNED_COLUMNS):
        numbers = batch["partition"].cast(pa.string())
        mine = pc.is_in(pc.binary_join_element_wise(batch["topic"], numbers, "-"), names)
        if offsets:
            mine = pc.or_(mine, pc.equal(batch["topic"], _COORDINATOR))
        at = batch.schema.get_field_index("started_at")
        starts = batch["started_at"].cast(pa.int64())
        for row in batch.set_column(at, "started_at", starts).filter(mine).to_pylist():
            if row["leader"] != row["previous_leader"]:
                yield row


def _strokes(rows: Sequence[Row]) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda one: (one["started_at"], partition_name(one))):
        if groups and row["started_at"] - groups[-1][-1]["started_at"] <= _STROKE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _shift(rows: Sequence[Row], told: dict[LeaderAndEpoch, Row]) -> PlannedMove:
    return PlannedMove(
        rows[0]["election"],
        rows[0]["started_at"],
        rows[-1]["started_at"],
        frozenset((partition_name(row), row["started_at"]) for row in rows),
        told.get(_move(rows[0])),
    )


def _told(context: DetectionContext, rows: Sequence[Row]) -> dict[LeaderAndEpoch, Row]:
    """Look up the first line that tells of each of some moves."""
    wanted = {_move(row) for row in rows}
    if not wanted:
        return {}
    topics, moments = {row["topic"] for row in rows}, {at for _, at in wanted}
    where = pc.field("topic").isin(sorted(topics))
    where &= pc.field("started_at").isin(pa.array(sorted(moments), pa.timestamp("us", "UTC")))
    columns = ["topic", "partition", "started_at", "evidence"]
    lines = {
        _move(row): (row["evidence"][0]["file"], row["evidence"][0]["line"])
        for row in context.each("leadership", where, columns)
        if row["evidence"] and _move(row) in wanted
    }
    named = ({"file": file, "line": line} for file, line in lines.values())
    found = {(one["file"], one["line"]): one for one in context.read_lines(named) if "at" in one}
    return {move: found[line] for move, line in lines.items() if line in found}


def _move(row: Row) -> LeaderAndEpoch:
    return partition_name(row), row["started_at"]
