"""What an engine offers to the stages: Spark for archives, one process for a few lines.

`ApplyByGroup` hands sorted rows, group by group, to a function of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.read_plan import Split

# What Spark calls a run whose archive is not known.
PROGRAM = "kafka-forensics"
Notify = Callable[[str], None]
Batches = Iterator[pa.RecordBatch]


def tell_nobody(_: str) -> None:
    """Drop what a run says on its way."""


class EventReader(Protocol):
    """A function of batches of events, sorted by keys, that names the events it reads."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose rows of equal values must come together."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of events; all, if none is named."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, including the keys."""

    def __call__(self, events: Batches) -> Batches:
        """Turn batches of events into batches of rows."""


class Engine(Protocol):
    """Runs what grows with the archive; its tables are opaque to its callers."""

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""

    def for_table(self, table: Path) -> Engine:
        """Return what works on a table soonest: this, or for a small table this process."""

    def map_batches(
        self,
        source: Path,
        target: Path,
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
        order: Sequence[str] = (),
    ) -> None:
        """Pass a table through a function of batches; each file is sorted by `order`."""

    def map_partitions(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> Any:
        """Hand the events of some kinds to a function, each partition's together."""

    def run_readers(self, source: Path, readers: Iterable[EventReader], schema: pa.Schema) -> Any:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""

    def write_temporary(self, table: Any, target: Path) -> None:
        """Write a table that is read once and thrown away."""

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""

    def reduce_groups(
        self, table: Any, keys: list[str], reduce: Callable[[pa.Table], pa.Table], schema: pa.Schema
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""


@dataclass(frozen=True)
class GroupReducer:
    """Reduces each group to a table; the rows must be sorted by the keys."""

    keys: Sequence[str]
    reduce: Callable[[pa.Table], pa.Table]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the reduced groups in order."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            for part in self._split_by_key(batch):
                if held and self._key(held[0]) != self._key(part):
                    yield from self.reduce(pa.Table.from_batches(held)).to_batches()
                    held = []
                held.append(part)
        if held:
            yield from self.reduce(pa.Table.from_batches(held)).to_batches()

    def _split_by_key(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Split a batch wherever a key changes."""
        changes = np.zeros(max(0, len(batch) - 1), bool)
        for key in self.keys:
            codes = batch.column(key).dictionary_encode().indices
            numbers = np.asarray(pc.fill_null(codes, -1))
            changes |= numbers[1:] != numbers[:-1]
        edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(batch)]
        for begin, end in zip(edges, edges[1:], strict=False):
            if end > begin:
                yield batch.slice(begin, end - begin)

    def _key(self, part: pa.RecordBatch) -> tuple[object, ...]:
        return tuple(part.column(key)[0].as_py() for key in self.keys)
