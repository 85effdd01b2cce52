"""Reads tables with bounded memory, converts batches to rows and back, and writes Parquet files.

A partition may have a million rows, so all of this works on a few thousand at a time.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv

from forensics.lib.this_machine import check_threads, keep_memory, mappable_bytes
from forensics.schemas import EVENTS, without_meanings

Row = dict[str, Any]

# Rows of a group in a file: a reader holds a whole group, and skips those that have nothing for it.
ROWS_OF_GROUP = 50_000
# Rows held as dictionaries at once; a row of events takes about a kilobyte.
_MAX_ROWS = 5000
PART_FILE = "part-0.parquet"
_BLOCK = 1 << 20


def iter_partitions(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[Iterator[Row]]:
    """Yield the rows of each partition, times as microseconds; the input is sorted by partition."""
    key = itemgetter("topic", "partition")
    for _, rows in groupby(iter_rows(batches, columns), key):
        yield rows


def iter_rows(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Row]:
    """Yield rows with some columns, times as microseconds."""
    for batch in batches:
        for begin in range(0, len(batch), _MAX_ROWS):
            part = batch.slice(begin, _MAX_ROWS)
            values = [_values(part.column(name)) for name in columns]
            for row in zip(*values, strict=True):
                yield dict(zip(columns, row, strict=True))


def to_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put rows into batches; a column that is missing in a row is null."""
    rows = iter(rows)
    while some := list(islice(rows, _MAX_ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_string(column.type):
        # Rows that name the same file share one string: this saves memory for as long as they live.
        column = column.dictionary_encode()
        words = column.dictionary.to_pylist()
        return [None if code is None else words[code] for code in column.indices.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


# As many as it starts after `map_little`.
_ARROW_THREADS = 3

# The columns that say when and where an event was seen.
SIGHTING = ("kind", "ts", "node", "file", "line")


def read_events(
    path: Path,
    kinds: Iterable[str],
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> list[dict[str, Any]]:
    """Read the events of some kinds, times as microseconds, in the order of time."""
    chosen = pc.field("kind").isin(list(kinds)) & pc.field("ts").is_valid()
    names = EVENTS.names if columns is None else columns
    rows = iter_rows(read_batches(path, names, chosen if where is None else chosen & where), names)
    return sorted(
        rows, key=lambda row: (row["ts"], row["node"] or "", row["line"], row["kind"], row["file"])
    )


def take_system_memory() -> None:
    """Let Arrow take its memory from glibc, where that is there.

    A scan makes and drops large columns all the time. Arrow's own allocator gives each back to the
    kernel, which clears the pages anew: a tenth of the time of a scan.
    """
    if keep_memory():
        pa.set_memory_pool(pa.system_memory_pool())


def start_threads() -> None:
    """Start the threads of Arrow: it waits for ever for one that it cannot start.

    Where `ulimit -v` counts what is mapped, there may be no room for them later on.
    """
    check_threads(_ARROW_THREADS)
    csv.read_csv(pa.BufferReader(b"a\n1\n"))


if mappable_bytes() is not None:
    start_threads()


def release_arrow_memory() -> None:
    """Return the memory that Arrow keeps for later; call it after a table that grows."""
    pa.default_memory_pool().release_unused()


def read_batches(
    table: Path | ds.Dataset,
    columns: Sequence[str] | None = None,
    where: ds.Expression | None = None,
    rows: int = ROWS_OF_GROUP,
    *,
    read_ahead: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read a table that grows with the archive, a few thousand rows at a time.

    One row group is read when the one before is used up: left to itself, Arrow reads up to a
    gigabyte ahead of whoever works slower than it reads. With `read_ahead` all columns of a group
    are asked for at once, as slow stores need it.
    """
    data = table if isinstance(table, ds.Dataset) else ds.dataset(table, format="parquet")
    wanted = None if columns is None else list(columns)
    if isinstance(data, ds.InMemoryDataset):
        held = data.to_batches(columns=wanted, filter=where, batch_size=rows, use_threads=False)
        yield from (batch for batch in held if len(batch))
        return
    options = ds.ParquetFragmentScanOptions(pre_buffer=read_ahead)
    for file in data.get_fragments(filter=where):
        for group in file.split_by_row_group(filter=where, schema=data.schema):
            found = group.to_table(
                data.schema, columns=wanted, filter=where, fragment_scan_options=options
            )
            yield from (batch for batch in found.to_batches(rows) if len(batch))


def is_any_of(column: str, values: Iterable[Any]) -> pc.Expression:
    """Filter rows by the values of a column; the bounds let Arrow skip whole row groups."""
    ordered = sorted(set(values))
    if not ordered:
        return pc.scalar(False)
    field = pc.field(column)
    return field.isin(ordered) & (field >= ordered[0]) & (field <= ordered[-1])


# So many batches are put together before they are written.
_MANY_BATCHES = 256


def write_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, target: Path, rows: int = ROWS_OF_GROUP
) -> None:
    """Write batches as a folder of one Parquet file, without holding them all."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    held: list[pa.RecordBatch] = []
    small: list[pa.RecordBatch] = []
    waiting = 0
    with pq.ParquetWriter(target / "part-0.parquet", schema, compression="zstd") as writer:
        for batch in batches:
            small.append(batch)
            waiting += len(batch)
            if len(small) >= _MANY_BATCHES:
                # Of a row each, they would take a hundred times what they hold.
                held, small = [*held, pa.concat_batches(small)], []
            if waiting >= rows:
                writer.write_table(pa.Table.from_batches([*held, *small], schema))
                held, small, waiting = [], [], 0
        writer.write_table(pa.Table.from_batches([*held, *small], schema))


def write_table(table: pa.Table, target: Path) -> None:
    """Write a small table as a folder of one Parquet file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    path = target / "part-0.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS_OF_GROUP)


class DeterministicWriter:
    """Writes the same file for the same rows, in whatever portions they are added."""

    def __init__(self, target: Path | pa.NativeFile, schema: pa.Schema) -> None:
        """Open a file."""
        self.rows = 0
        self._schema = schema
        self._pending: list[pa.Table] = []
        self._count = 0
        self._file = pq.ParquetWriter(target, schema, compression="zstd")

    def add(self, rows: pa.Table) -> None:
        """Append rows."""
        self._pending.append(rows.select(self._schema.names).cast(self._schema))
        self._count += len(rows)
        while self._count >= ROWS_OF_GROUP:
            self._write_group(ROWS_OF_GROUP)

    def close(self) -> None:
        """Write the rest."""
        if self._count:
            self._write_group(self._count)
        self._file.close()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, also after an error."""
        self.close()

    def _write_group(self, count: int) -> None:
        # The ends of chunks would change the pages of the file.
        held = pa.concat_tables(self._pending).combine_chunks()
        self._file.write_table(held.slice(0, count).combine_chunks(), row_group_size=count)
        self.rows += count
        self._pending = [held.slice(count)] if count < self._count else []
        self._count -= count


class _DigestSink(io.RawIOBase):
    """A file that is digested and not written."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        return len(data)


def digest_rows(tables: Iterable[pa.Table], schema: pa.Schema) -> str | None:
    """Return the digest of rows, None if there are none."""
    sink = _DigestSink()
    # What a column means may be said in other words, and the rows are the same.
    with DeterministicWriter(pa.PythonFile(sink, "w"), without_meanings(schema)) as writer:
        for table in tables:
            writer.add(table)
    return sink.digest.hexdigest() if writer.rows else None


def iter_tables(
    path: Path, columns: Sequence[str] | None = None, where: ds.Expression | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a file in its order, some thousands at a time."""
    for batch in read_batches(path, columns, where):
        yield pa.Table.from_batches([batch])


def sort_rows(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Sort rows by some columns; the sort is stable."""
    if len(table) < 2:
        return table
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in names]))


def merge_files(folder: Path, schema: pa.Schema, order: Sequence[str]) -> None:
    """Rewrite a table of several files as one sorted file."""
    found = ds.dataset(folder, format="parquet").to_table(columns=schema.names).cast(schema)
    for path in folder.iterdir():
        path.unlink()
    with DeterministicWriter(folder / PART_FILE, schema) as writer:
        writer.add(sort_rows(found, order))
