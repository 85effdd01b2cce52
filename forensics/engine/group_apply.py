"""Applies a function of tables to each group of sorted rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
