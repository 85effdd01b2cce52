"""Writes Parquet whose bytes depend on the rows alone: sorted, in row groups of one size."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from forensics.lib.arrow_io import ROWS_OF_GROUP, read_batches
from forensics.schemas import without_meanings

PART_FILE = "part-0.parquet"
_BLOCK = 1 << 20


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
