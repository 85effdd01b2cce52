"""Rows out of Arrow batches and back, a few at a time: a partition may have a million of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

__all__ = ["batched", "partitions", "rows_of", "scanned"]

Row = dict[str, Any]

# Rows held as dictionaries at once; a row of events takes about a kilobyte.
_HELD = 5000
_READ = 50_000


def scanned(
    path: Path, columns: Sequence[str] | None = None, where: ds.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a table that grows with the archive: what is read ahead is held, so that is little."""
    return ds.dataset(path, format="parquet").to_batches(  # type: ignore[no-any-return]
        columns=None if columns is None else list(columns),
        filter=where,
        batch_size=_READ,
        batch_readahead=2,
        fragment_readahead=1,
    )


def partitions(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[Iterator[Row]]:
    """Give the rows of each partition in turn, times as microseconds.

    The rows of a partition must stand together, as sorting by topic and partition leaves them.
    """
    key = itemgetter("topic", "partition")
    for _, rows in groupby(rows_of(batches, columns), key):
        yield rows


def rows_of(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Row]:
    """Give rows with some columns, times as microseconds."""
    for batch in batches:
        for begin in range(0, len(batch), _HELD):
            part = batch.slice(begin, _HELD)
            values = [_values(part.column(name)) for name in columns]
            for row in zip(*values, strict=True):
                yield dict(zip(columns, row, strict=True))


def batched(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put rows into batches; a column that a row does not have is null."""
    rows = iter(rows)
    while some := list(islice(rows, _HELD)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_string(column.type):
        # A thousand rows that name the same file share one string, and not only for a moment.
        column = column.dictionary_encode()
        words = column.dictionary.to_pylist()
        return [None if at is None else words[at] for at in column.indices.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
