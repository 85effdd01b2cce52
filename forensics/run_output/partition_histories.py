"""Leaders and ISRs of each partition, read in chunks of the tables and held in columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.run_output.reader import RunOutput

LEADER_COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "started_at", "ended_at", "election", "clean",
    "how",
)  # fmt: skip
ISR_COLUMNS = ("topic", "partition", "partition_epoch", "isr", "replicas", "started_at", "ended_at")
# A leader that is not known; -1 means that there was none.
UNKNOWN_LEADER = -2
Ints = npt.NDArray[np.int64]
TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class LeaderInterval:
    """A leader epoch, or equal ones of several partitions."""

    leader: int | None
    epochs: tuple[int, int]
    start: int
    end: int
    unclean: bool
    election: str
    inferred: bool


@dataclass(frozen=True)
class LeaderHistory:
    """The leader epochs of a partition, or of several with equal ones, by their start."""

    name: TopicPartition
    # unclean elections, time without a leader, leader epochs
    impact: tuple[int, int, int]
    # leader, first epoch, last epoch, start, end, marks: unclean 1, inferred 2
    columns: Ints
    elections: pa.Array

    def merge(self, other: LeaderHistory) -> LeaderHistory:
        """Return this history with each interval extended over that of an equal history."""
        low, high = np.minimum(self.columns, other.columns), np.maximum(self.columns, other.columns)
        columns = np.stack([low[0], low[1], high[2], low[3], high[4], low[5]])
        return replace(self, columns=columns)

    def intervals(self) -> list[LeaderInterval]:
        """Return the leader epochs as objects."""
        rows = zip(*self.columns.tolist(), self.elections.to_pylist(), strict=True)
        return [
            LeaderInterval(
                leader=None if leader == UNKNOWN_LEADER else leader,
                epochs=(first, last),
                start=start,
                end=end,
                unclean=bool(marks & 1),
                election=election or "unknown",
                inferred=bool(marks & 2),
            )
            for leader, first, last, start, end, marks, election in rows
        ]


@dataclass(frozen=True)
class IsrHistory:
    """The ISRs of a partition, by their start."""

    name: TopicPartition
    # code of the ISR, its size, number of replicas, start, end; -1 if not known
    columns: Ints

    @property
    def single_isr_ms(self) -> int:
        """How long at most one replica was in sync, if there are more replicas."""
        _, size, replicas, start, end = self.columns
        return int(((end - start) * ((size >= 0) & (size <= 1) & (replicas > 1))).sum())


class IsrCodes:
    """Gives each different ISR a number, the same in all chunks of a table."""

    def __init__(self) -> None:
        """Start without numbers."""
        self._codes: dict[str, int] = {}

    def encode(self, isrs: pa.ChunkedArray) -> Ints:
        """Return the numbers of some ISRs, -1 if not known."""
        kind = isrs.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return np.full(len(isrs), -1, np.int64)
        words = pc.binary_join(isrs.cast(pa.list_(pa.string())).combine_chunks(), ",")
        coded = words.dictionary_encode()
        names = coded.dictionary.to_pylist()
        codes = [self._codes.setdefault(name, len(self._codes)) for name in names]
        indices = pc.fill_null(coded.indices, len(names)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*codes, -1], np.int64)[indices.astype(np.int64)])

    @property
    def isrs(self) -> list[list[int]]:
        """The ISRs, by their numbers."""
        return [[int(broker) for broker in name.split(",") if broker] for name in self._codes]


def read_leader_histories(run: RunOutput, window: tuple[int, int]) -> Iterator[LeaderHistory]:
    """Read the leaders of each partition, whose rows stand together in the table."""
    for rows in _whole_partitions(run, "leadership", LEADER_COLUMNS):
        yield from _leader_histories(rows, _starts(rows), window)


def read_isr_histories(
    run: RunOutput, window: tuple[int, int], codes: IsrCodes
) -> Iterator[IsrHistory]:
    """Read the ISRs of each partition, whose rows stand together in the table."""

    def narrow(rows: pa.Table) -> pa.Table:
        # A partition may have a million of them, and lists take more room than numbers.
        numbers = {
            "code": codes.encode(rows["isr"]),
            "size": _sizes(rows, "isr"),
            "wanted": _sizes(rows, "replicas"),
        }
        kept = rows.drop_columns(["isr", "replicas"])
        for name, column in numbers.items():
            kept = kept.append_column(name, pa.array(column, pa.int32()))
        return kept

    for rows in _whole_partitions(run, "isr", ISR_COLUMNS, narrow):
        yield from _isr_histories(rows, _starts(rows), window)


def read_change_times(run: RunOutput, window: tuple[int, int]) -> Ints:
    """Return the times at which a leader or an ISR changes, each once."""
    found, waiting, held = np.array(window, np.int64), list[Ints](), 0
    for name in ("leadership", "isr"):
        for chunk in run.chunks(name, ("started_at", "ended_at")):
            times = [_ints(chunk, "started_at", window[0]), _ints(chunk, "ended_at", window[1])]
            waiting.append(_each_once(times))
            held += len(waiting[-1])
            if held > max(len(found) // 4, 1 << 18):
                found, held = _each_once([found, *waiting]), 0
                waiting.clear()
    return _each_once([found, *waiting])


def _each_once(times: Sequence[Ints]) -> Ints:
    """Return times in order, each once: as `np.unique`, with one copy of them less."""
    ordered = np.concatenate(times)
    ordered.sort()
    is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    return np.asarray(ordered[is_new])


def _whole_partitions(
    run: RunOutput,
    table: str,
    columns: Sequence[str],
    narrow: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> Iterator[pa.Table]:
    """Yield a table in chunks, each with all rows of its partitions."""
    held: list[pa.Table] = []
    for chunk in run.chunks(table, columns):
        rows = narrow(chunk)
        if held and _key(held[-1], -1) != _key(rows, 0):
            yield pa.concat_tables(held)
            held = []
        # The last partition may go on in the next chunk.
        if last := int(_starts(rows)[-1]):
            yield pa.concat_tables([*held, rows.slice(0, last)])
            held, rows = [], rows.slice(last)
        held.append(rows)
    if held:
        yield pa.concat_tables(held)


def _key(rows: pa.Table, at: int) -> tuple[str, int]:
    return rows["topic"][at].as_py(), rows["partition"][at].as_py()


def _starts(rows: pa.Table) -> Ints:
    topics = pc.fill_null(rows["topic"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
    numbers = _ints(rows, "partition", -1)
    changes = (topics[1:] != topics[:-1]) | (numbers[1:] != numbers[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _leader_histories(
    rows: pa.Table, starts: Ints, window: tuple[int, int]
) -> Iterator[LeaderHistory]:
    epoch, leader = _ints(rows, "leader_epoch", -1), _ints(rows, "leader", UNKNOWN_LEADER)
    owner = _owners(rows, starts)
    begin, end = _times(rows, window)
    unclean = _flags(pc.equal(rows["clean"].cast(pa.bool_()), False))
    marks = unclean + 2 * _flags(pc.equal(rows["how"].cast(pa.string()), "inferred"))
    order = np.lexsort((epoch, begin, owner))
    columns = _ordered((leader, epoch, epoch, begin, end, marks), order)
    elections = rows["election"].cast(pa.string()).combine_chunks().take(pa.array(order))
    leaderless = np.where(leader == -1, end - begin, 0)
    impacts = (np.add.reduceat(measure, starts).tolist() for measure in (unclean, leaderless))
    for name, part, impact in zip(
        _names(rows, starts), _slices(rows, starts), zip(*impacts, strict=True), strict=True
    ):
        size = part.stop - part.start
        yield LeaderHistory(name, (*impact, size), columns[:, part], elections[part])


def _isr_histories(rows: pa.Table, starts: Ints, window: tuple[int, int]) -> Iterator[IsrHistory]:
    version, owner = _ints(rows, "partition_epoch", -1), _owners(rows, starts)
    begin, end = _times(rows, window)
    order = np.lexsort((version, begin, owner))
    code, size, wanted = (_ints(rows, name, -1) for name in ("code", "size", "wanted"))
    columns = _ordered((code, size, wanted, begin, end), order)
    for name, part in zip(_names(rows, starts), _slices(rows, starts), strict=True):
        yield IsrHistory(name, columns[:, part])


def _ordered(columns: Sequence[Ints], order: Ints) -> Ints:
    """Put columns into an order, one after the other: they may be long."""
    ordered = np.empty((len(columns), len(order)), np.int64)
    for at, column in enumerate(columns):
        ordered[at] = column[order]
    return ordered


def _owners(rows: pa.Table, starts: Ints) -> Ints:
    """Return for each row the number of its partition."""
    return np.repeat(np.arange(len(starts)), np.diff([*starts, len(rows)]))


def _slices(rows: pa.Table, starts: Ints) -> list[slice]:
    edges = [*starts.tolist(), len(rows)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _times(rows: pa.Table, window: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return begins and ends; of what began at an unknown moment nothing is drawn or counted."""
    end = _ints(rows, "ended_at", window[1])
    begin = np.where(rows["started_at"].is_null().to_numpy(), end, _ints(rows, "started_at", 0))
    return begin, np.maximum(begin, end)


def _sizes(rows: pa.Table, name: str) -> Ints:
    if pa.types.is_null(rows[name].type):
        return np.full(len(rows), -1, np.int64)
    return np.asarray(pc.fill_null(pc.list_value_length(rows[name]), -1), np.int64)


def _names(rows: pa.Table, starts: Ints) -> list[TopicPartition]:
    firsts = rows.select(["topic", "partition"]).take(pa.array(starts))
    # The partitions of a topic share its name, however many they are.
    topics = [one and sys.intern(one) for one in firsts["topic"].to_pylist()]
    return list(zip(topics, firsts["partition"].to_pylist(), strict=True))


def _ints(rows: pa.Table, name: str, missing: int) -> Ints:
    return np.asarray(pc.fill_null(rows[name].cast(pa.int64()), missing), np.int64)


def _flags(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column, fill_value=False), np.int64)
