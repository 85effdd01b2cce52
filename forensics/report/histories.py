"""Who led each partition, read a part of the table at a time and held in columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.report.saved import Saved

__all__ = ["History", "Name", "Reign", "histories"]

COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "started_at", "ended_at", "election", "clean",
    "how",
)  # fmt: skip
# Brokers log the same change a little apart; histories this close are the same.
TICK = 1000
# Stands for a leader that is not known, where -1 says that there was none.
UNKNOWN = -2
Ints = npt.NDArray[np.int64]
Name = tuple[str, int]


@dataclass(frozen=True)
class Reign:
    """One leader epoch, or the same one of several partitions."""

    leader: int | None
    epochs: tuple[int, int]
    start: int
    end: int
    unclean: bool
    election: str
    inferred: bool


@dataclass(frozen=True)
class History:
    """The leader epochs of one partition, or of several that are alike, by their start."""

    name: Name
    harm: tuple[int, int, int]
    # leader, first epoch, last epoch, start, end, marks: unclean 1, inferred 2
    columns: Ints
    elections: pa.Array

    @cached_property
    def key(self) -> bytes:
        """The same for partitions with equal histories, whatever their epochs are."""
        leader, _, _, start, end, marks = self.columns
        alike = np.concatenate([leader, start // TICK, end // TICK, marks])
        return hashlib.blake2b(alike.tobytes(), digest_size=16).digest()

    def joined(self, other: History) -> History:
        """Put an equal history to this one: it reaches as far as both."""
        low, high = np.minimum(self.columns, other.columns), np.maximum(self.columns, other.columns)
        columns = np.stack([low[0], low[1], high[2], low[3], high[4], low[5]])
        return replace(self, columns=columns)

    def reigns(self) -> list[Reign]:
        """Spell the leader epochs out."""
        rows = zip(*self.columns.tolist(), self.elections.to_pylist(), strict=True)
        return [
            Reign(
                leader=None if leader == UNKNOWN else leader,
                epochs=(first, last),
                start=start,
                end=end,
                unclean=bool(marks & 1),
                election=election or "unknown",
                inferred=bool(marks & 2),
            )
            for leader, first, last, start, end, marks, election in rows
        ]


def histories(saved: Saved, whole: tuple[int, int]) -> Iterator[History]:
    """Read the history of each partition; the table holds a partition's rows together."""
    held: pa.Table | None = None
    for part in saved.parts("leadership", COLUMNS):
        held = part if held is None else pa.concat_tables([held, part])
        starts = _starts(held)
        if len(starts) > 1:
            # The last partition may go on in the next part.
            yield from _cut(held.slice(0, int(starts[-1])), starts[:-1], whole)
            held = held.slice(int(starts[-1]))
    if held is not None:
        yield from _cut(held, _starts(held), whole)


def _starts(rows: pa.Table) -> Ints:
    topics = pc.fill_null(rows["topic"].combine_chunks().dictionary_encode().indices, -1).to_numpy()
    numbers = _ints(rows, "partition", -1)
    changes = (topics[1:] != topics[:-1]) | (numbers[1:] != numbers[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _cut(rows: pa.Table, starts: Ints, whole: tuple[int, int]) -> Iterator[History]:
    begun, epoch = _ints(rows, "started_at", whole[0]), _ints(rows, "leader_epoch", -1)
    leader = _ints(rows, "leader", UNKNOWN)
    over = np.maximum(begun, _ints(rows, "ended_at", whole[1]))
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
        harm = (torn, off, int(size))
        yield History(name, harm, columns[:, mine], elections[mine])


def _names(rows: pa.Table, starts: Ints) -> Sequence[Name]:
    firsts = rows.select(["topic", "partition"]).take(pa.array(starts))
    topics, numbers = (firsts[name].to_pylist() for name in ("topic", "partition"))
    return list(zip(topics, numbers, strict=True))


def _ints(rows: pa.Table, name: str, missing: int) -> Ints:
    found: Ints = pc.fill_null(rows[name].cast(pa.int64()), missing).to_numpy()
    return found


def _flags(column: pa.ChunkedArray) -> Ints:
    found: Ints = pc.fill_null(column, fill_value=False).to_numpy().astype(np.int64)
    return found
