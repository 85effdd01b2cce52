"""What became of each partition, read a part of the table at a time and held in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

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
# Stands for a leader that is not known, where -1 says that there was none.
UNKNOWN_LEADER = -2
Ints = npt.NDArray[np.int64]
TopicPartition = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True)
class LeaderInterval:
    """One leader epoch, or the same one of several partitions."""

    leader: int | None
    epochs: tuple[int, int]
    start: int
    end: int
    unclean: bool
    election: str
    inferred: bool


@dataclass(frozen=True)
class LeaderHistory:
    """The leader epochs of one partition, or of several that are alike, by their start."""

    name: TopicPartition
    # unclean elections, time without a leader, leader epochs
    impact: tuple[int, int, int]
    # leader, first epoch, last epoch, start, end, marks: unclean 1, inferred 2
    columns: Ints
    elections: pa.Array

    def merge(self, other: LeaderHistory) -> LeaderHistory:
        """Put an equal history to this one: it reaches as far as both."""
        low, high = np.minimum(self.columns, other.columns), np.maximum(self.columns, other.columns)
        columns = np.stack([low[0], low[1], high[2], low[3], high[4], low[5]])
        return replace(self, columns=columns)

    def intervals(self) -> list[LeaderInterval]:
        """Spell the leader epochs out."""
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
    """Who was in sync with one partition's leader, by time."""

    name: TopicPartition
    # which ISR, its size, the replicas there should be, start, end; -1 is not known
    columns: Ints

    @property
    def single_isr_ms(self) -> int:
        """How long there was one replica in sync, or none, where there should be more."""
        _, size, wanted, start, end = self.columns
        return int(((end - start) * ((size >= 0) & (size <= 1) & (wanted > 1))).sum())


class IsrCodes:
    """Gives each different ISR a number, the same in all parts of a table."""

    def __init__(self) -> None:
        """Begin with none."""
        self.known: dict[str, int] = {}

    def encode(self, isrs: pa.ChunkedArray) -> Ints:
        """Give the numbers of some."""
        kind = isrs.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            return np.full(len(isrs), -1, np.int64)
        words = pc.binary_join(isrs.cast(pa.list_(pa.string())).combine_chunks(), ",")
        coded = words.dictionary_encode()
        names = coded.dictionary.to_pylist()
        places = np.array([self.known.setdefault(name, len(self.known)) for name in names] + [-1])
        indices = pc.fill_null(coded.indices, len(names)).to_numpy(zero_copy_only=False)
        found: Ints = places[indices.astype(np.int64)].astype(np.int64)
        return found

    @property
    def isrs(self) -> list[list[int]]:
        """Spell out each ISR, by its number."""
        return [[int(one) for one in name.split(",") if one] for name in self.known]


def read_leader_histories(run: RunOutput, whole: tuple[int, int]) -> Iterator[LeaderHistory]:
    """Read the leaders of each partition; the table holds a partition's rows together."""
    yield from _each(run, "leadership", LEADER_COLUMNS, lambda rows, at: _led(rows, at, whole))


def read_isr_histories(
    run: RunOutput, whole: tuple[int, int], codes: IsrCodes
) -> Iterator[IsrHistory]:
    """Read the ISRs of each partition; the table holds a partition's rows together."""
    yield from _each(run, "isr", ISR_COLUMNS, lambda rows, at: _in_sync(rows, at, whole, codes))


def read_change_times(run: RunOutput, whole: tuple[int, int]) -> Ints:
    """Give every moment at which a leader or an ISR changes, once."""
    found = np.array(whole, np.int64)
    for name in ("leadership", "isr"):
        waiting, held = [found], 0
        for part in run.chunks(name, ("started_at", "ended_at")):
            waiting += [_ints(part, "started_at", whole[0]), _ints(part, "ended_at", whole[1])]
            held += len(part)
            if held > max(len(found), 1 << 18):
                waiting, held = [np.unique(np.concatenate(waiting))], 0
        found = np.unique(np.concatenate(waiting))
    return found


def _each(
    run: RunOutput,
    table: str,
    columns: Sequence[str],
    cut: Callable[[pa.Table, Ints], Iterator[T]],
) -> Iterator[T]:
    held: pa.Table | None = None
    for part in run.chunks(table, columns):
        held = part if held is None else pa.concat_tables([held, part])
        starts = _starts(held)
        if len(starts) > 1:
            # The last partition may go on in the next part.
            yield from cut(held.slice(0, int(starts[-1])), starts[:-1])
            held = held.slice(int(starts[-1]))
    if held is not None and len(held):
        yield from cut(held, _starts(held))


def _starts(rows: pa.Table) -> Ints:
    topics = pc.fill_null(rows["topic"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
    numbers = _ints(rows, "partition", -1)
    changes = (topics[1:] != topics[:-1]) | (numbers[1:] != numbers[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _led(rows: pa.Table, starts: Ints, whole: tuple[int, int]) -> Iterator[LeaderHistory]:
    epoch, leader = _ints(rows, "leader_epoch", -1), _ints(rows, "leader", UNKNOWN_LEADER)
    begun, over = _times(rows, starts, epoch, whole)
    unclean = _flags(pc.equal(rows["clean"].cast(pa.bool_()), False))
    marks = unclean + 2 * _flags(pc.equal(rows["how"].cast(pa.string()), "inferred"))
    sizes = np.diff([*starts, len(rows)])
    order = np.lexsort((epoch, begun, np.repeat(np.arange(len(starts)), sizes)))
    columns = np.stack([leader, epoch, epoch, begun, over, marks])[:, order]
    elections = rows["election"].cast(pa.string()).combine_chunks().take(pa.array(order))
    dark = np.where(leader == -1, over - begun, 0)
    harms = zip(*(np.add.reduceat(one, starts).tolist() for one in (unclean, dark)), strict=True)
    names = _names(rows, starts)
    for name, begin, size, (torn, off) in zip(names, starts, sizes, harms, strict=True):
        mine = slice(int(begin), int(begin + size))
        yield LeaderHistory(name, (torn, off, int(size)), columns[:, mine], elections[mine])


def _in_sync(
    rows: pa.Table, starts: Ints, whole: tuple[int, int], codes: IsrCodes
) -> Iterator[IsrHistory]:
    version = _ints(rows, "partition_epoch", -1)
    begun, over = _times(rows, starts, version, whole)
    size, wanted = _sizes(rows, "isr"), _sizes(rows, "replicas")
    sizes = np.diff([*starts, len(rows)])
    order = np.lexsort((version, begun, np.repeat(np.arange(len(starts)), sizes)))
    columns = np.stack([codes.encode(rows["isr"]), size, wanted, begun, over])[:, order]
    for name, begin, many in zip(_names(rows, starts), starts, sizes, strict=True):
        yield IsrHistory(name, columns[:, int(begin) : int(begin + many)])


def _times(
    rows: pa.Table, starts: Ints, versions: Ints, whole: tuple[int, int]
) -> tuple[Ints, Ints]:
    """Give begin and end; what began nobody knows when began after what was before it."""
    over = _ints(rows, "ended_at", whole[1])
    sizes = np.diff([*starts, len(rows)])
    owner = np.repeat(np.arange(len(starts)), sizes)
    order = np.lexsort((np.arange(len(rows)), versions, owner))
    before = np.full(len(rows), whole[0], np.int64)
    follows = np.flatnonzero(owner[order][1:] == owner[order][:-1])
    before[order[follows + 1]] = over[order[follows]]
    begun = np.where(rows["started_at"].is_null().to_numpy(), np.minimum(before, over),
                     _ints(rows, "started_at", whole[0]))  # fmt: skip
    return begun, np.maximum(begun, over)


def _sizes(rows: pa.Table, name: str) -> Ints:
    if pa.types.is_null(rows[name].type):
        return np.full(len(rows), -1, np.int64)
    found: Ints = pc.fill_null(pc.list_value_length(rows[name]), -1).to_numpy().astype(np.int64)
    return found


def _names(rows: pa.Table, starts: Ints) -> Sequence[TopicPartition]:
    firsts = rows.select(["topic", "partition"]).take(pa.array(starts))
    topics, numbers = (firsts[name].to_pylist() for name in ("topic", "partition"))
    return list(zip(topics, numbers, strict=True))


def _ints(rows: pa.Table, name: str, missing: int) -> Ints:
    found: Ints = pc.fill_null(rows[name].cast(pa.int64()), missing).to_numpy()
    return found


def _flags(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column, fill_value=False).to_numpy().astype(np.int64)
    return found
