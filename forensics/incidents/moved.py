"""The moves of leaders behind errors: which move of a partition came last before a moment.

Of the partitions that clients complain of, every move is held in a few plain numbers, so that even
millions of them fit; moves by the same election away from the same leader, closely one after the
other, are one stroke.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case

__all__ = ["Key", "Move", "Moved"]

# A partition; without a number all partitions of the topic.
Key = tuple[str, int | None]
_Numbers = npt.NDArray[np.int64]

_MICROS = 1_000_000
_NONE = -2  # of leaders: not known
_SEPARATOR = "\0"
_MOVED_COLUMNS = ("topic", "partition", "leader_epoch", "leader", "previous_leader", "started_at",
            "election")  # fmt: skip
# What is no move of a leader that was there before.
_FIRST = "initial"


@dataclass(frozen=True)
class Move:
    """One move: what came of it, and the stroke that it belongs to."""

    start: int
    stroke: int
    # how the stroke began, and how this very leader was elected
    election: str
    own: str
    previous: int | None
    # from when on there was a leader again; null: these logs do not see one
    settled: int | None

    @property
    def created(self) -> bool:
        """Whether this was the first leader of a new partition."""
        return self.own == _FIRST


class Moved:
    """The moves of some partitions within a time, each in order."""

    def __init__(self, case: Case, keys: Collection[Key], span: tuple[int, int], gap: int) -> None:
        """Read them; a stroke ends where nothing moves for `gap` microseconds."""
        self._codes = {key: code for code, key in enumerate(sorted(keys, key=repr))}
        self._elections: list[str] = []
        rows = self._sorted(self._read(case, span))
        self._code, self._start, self._leader, self._previous, self._election = rows
        self._anchor = self._anchors()
        self._stroke = self._strokes(gap)
        self._bounds = np.searchsorted(self._code, np.arange(len(self._codes) + 1)).tolist()
        self._starts = array("q", self._start.tobytes())

    def behind(
        self, key: Key, at: int, late: int, ahead: int, fresh: int | None = None
    ) -> Move | None:
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

    def _move(self, row: int, high: int) -> Move:
        anchor = int(self._anchor[row])
        settled = next((at for at in range(row, high) if self._leader[at] >= 0), None)
        previous = int(self._previous[anchor])
        return Move(
            self._starts[row],
            int(self._stroke[row]),
            self._elections[int(self._election[anchor])],
            self._elections[int(self._election[row])],
            None if previous == _NONE else previous,
            None if settled is None else self._starts[settled],
        )

    def _read(self, case: Case, span: tuple[int, int]) -> Iterator[_Numbers]:
        topics = sorted({topic for topic, _ in self._codes})
        if not topics:
            return
        topic, moment = pc.field("topic"), pc.field("started_at")
        where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
        where &= (moment >= _moment(span[0])) & (moment <= _moment(span[1]))
        names = {_name(*key): code for key, code in self._codes.items()}
        wanted = pa.array(list(names))
        codes = np.array(list(names.values()), np.int64)
        for batch in case.batches("leadership", where, _MOVED_COLUMNS):
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


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.timestamp("us", tz="UTC"))
