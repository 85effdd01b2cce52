"""The engine without Spark: every stage in this process, one after the other.

It needs no Java and starts at once, and what it sorts is in memory: it is for a small archive, and
for a few lines, as in a rule's examples.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.engine.base import Batches, EventReader, GroupReducer
from forensics.engine.progress import SILENT, ProgressListener
from forensics.engine.task_files import make_empty
from forensics.errors import ForensicsError
from forensics.events.log_reader import Compiled
from forensics.events.scan import STAGED_SCHEMA, compile_patterns, load_scanner
from forensics.ingest.read_plan import Split, estimate_text_bytes
from forensics.lib.arrow_io import read_batches, write_batches, write_table
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.text_format import format_bytes

# More text is for Spark, which shares it among cores and does not hold it.
MAX_BYTES = 256 << 20


# So much text and more is read by two processes, if there are two.
SHARED_BYTES = 32 << 20
# Pieces of files are so large at most, where both may read them.
SHARED_PIECE = 16 << 20
# So many events about partitions and more are folded by two processes, a part of them at a time.
SHARED_EVENTS = 10_000
_PART_EVENTS = 2_000
_PARTITION = ("topic", "partition")


class LocalEngine:
    """Runs every stage in this process, and lets a second one take part in what is large."""

    def __init__(
        self,
        listener: ProgressListener = SILENT,
        max_bytes: float = float("inf"),
        second: SecondProcess = ALONE,
    ) -> None:
        """Tell a listener how much is read, and refuse archives with more text than `max_bytes`."""
        self._listener, self._max_bytes, self._second = listener, max_bytes, second

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        self._refuse_large(splits)
        second, written = ALONE, target.with_name(f"{target.name}_written")
        if sum(map(estimate_text_bytes, splits)) >= SHARED_BYTES:
            second = self._second
            # Who takes the last piece should have little to do.
            splits = sorted(splits, key=lambda split: -split.cost)
        compiled = compile_patterns(splits, overlays, context=context)
        work = _Scan(splits, overlays, context, compiled, written)
        ends = list(accumulate(split.bytes for split in splits))

        def tell(number: int) -> None:
            # What stands before it has been read, or is nearly.
            self._listener.bytes_read(ends[number] - splits[number].bytes, ends[-1])

        parts = second.share(len(splits), work, tell)
        self._listener.bytes_read(ends[-1], ends[-1])
        make_empty(target)
        for number, path in enumerate(parts):
            path.rename(target / f"part-{number}.parquet")
        shutil.rmtree(written)

    def _refuse_large(self, splits: Sequence[Split]) -> None:
        text = sum(map(estimate_text_bytes, splits))
        if text > self._max_bytes:
            raise ForensicsError(
                f"The archives hold about {format_bytes(int(text))} of text, and --engine local is"
                f" for {format_bytes(int(self._max_bytes))} at most. Leave --engine out: Spark"
                " reads archives of any size."
            )

    def for_table(self, table: Path) -> LocalEngine:
        """Return this engine: there is no other."""
        del table
        return self

    def map_batches(
        self,
        source: Path,
        target: Path,
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
        order: Sequence[str] = (),
    ) -> None:
        """Pass a table through a function of batches; each file is sorted by `order`."""
        batches = transform(read_batches(source))
        if order:
            table = pa.Table.from_batches(batches, schema)
            write_table(table.sort_by([(name, "ascending") for name in order]), target)
        else:
            write_batches(batches, schema, target)

    def map_partitions(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> pa.Table:
        """Hand the events of some kinds to a function, each partition's together."""
        events = _PartitionEvents(source, kinds, columns)
        second = self._second if len(events.table) >= SHARED_EVENTS else ALONE
        if not second.is_there:
            return _apply(events.table, transform, schema)
        parts = _cut_between_keys(events.table, _PARTITION, _PART_EVENTS)
        work = _Fold(events, parts, transform, schema)
        folded = dict(chain.from_iterable(second.share(len(parts), work)))
        return pa.concat_tables(folded[begin] for begin, _ in sorted(parts))

    def run_readers(
        self, source: Path, readers: Iterable[EventReader], schema: pa.Schema
    ) -> pa.Table:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""
        tables = []
        for reader in readers:
            chosen = pc.field("kind").isin(list(reader.kinds)) if reader.kinds else pc.scalar(True)
            for key in reader.keys:
                chosen &= pc.field(key).is_valid()
            events = pq.read_table(source, columns=list(reader.columns), filters=chosen)
            tables.append(_apply_sorted(events, reader.keys, reader, schema))
        return pa.concat_tables(tables)

    def write_temporary(self, table: pa.Table, target: Path) -> None:
        """Write a table that is read once and thrown away."""
        write_table(table, target)

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""
        chosen = pq.read_table(source, columns=list(columns), filters=pc.field("table") == table)
        write_table(chosen.sort_by([(name, "ascending") for name in order]), target)

    def reduce_groups(
        self,
        table: pa.Table,
        keys: list[str],
        reduce: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
        return _apply_sorted(table, keys, GroupReducer(keys, reduce), schema)


@dataclass(frozen=True)
class _Scan:
    """Reads some of the splits, and writes what is in them into a file of its own."""

    splits: Sequence[Split]
    overlays: str
    context: bool
    compiled: Compiled
    folder: Path

    def __call__(self, numbers: Iterator[int]) -> Path:
        """Return the file, which is whole."""
        scanner = load_scanner(self.overlays, context=self.context)
        scanner.reader.search_at_once(self.compiled)
        folder = self.folder / uuid.uuid4().hex
        rows = scanner.scan_all(self.splits[number] for number in numbers)
        write_batches(rows, STAGED_SCHEMA, folder)
        return folder / "part-0.parquet"


@dataclass(frozen=True)
class _PartitionEvents:
    """The events of some kinds about partitions; another process reads them by itself."""

    source: Path
    kinds: Sequence[str]
    columns: Sequence[str]

    def __getstate__(self) -> dict[str, object]:
        """Hand on where they are: reading them takes less than sending them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def table(self) -> pa.Table:
        """All of them, sorted by partition."""
        chosen = pc.field("kind").isin(list(self.kinds)) & pc.field("partition").is_valid()
        events = pq.read_table(self.source, columns=list(self.columns), filters=chosen)
        return events.sort_by([(key, "ascending") for key in _PARTITION])


@dataclass(frozen=True)
class _Fold:
    """Hands parts of the events of partitions to a function."""

    events: _PartitionEvents
    parts: Sequence[tuple[int, int]]
    transform: Callable[[Batches], Batches]
    schema: pa.Schema

    def __call__(self, numbers: Iterator[int]) -> list[tuple[int, pa.Table]]:
        """Return what comes of each part, by its first row."""
        found = []
        for number in numbers:
            begin, end = self.parts[number]
            events = self.events.table.slice(begin, end - begin)
            found.append((begin, _apply(events, self.transform, self.schema)))
        return found


def _cut_between_keys(ordered: pa.Table, keys: Sequence[str], rows: int) -> list[tuple[int, int]]:
    """Cut a sorted table into parts of about so many rows; groups stay whole.

    Return from which row to which each reaches, the largest first.
    """
    last = len(ordered) - 1
    is_new = np.zeros(last, bool)
    for key in keys:
        changes = pc.not_equal(ordered[key].slice(1), ordered[key].slice(0, last))
        is_new |= pc.fill_null(changes, fill_value=False).to_numpy()
    begins = np.flatnonzero(is_new) + 1
    wanted = np.searchsorted(begins, np.arange(rows, last, rows))
    edges = sorted({0, *begins[wanted[wanted < len(begins)]].tolist(), last + 1})
    return sorted(pairwise(edges), key=lambda part: part[0] - part[1])


def _apply_sorted(
    table: pa.Table, keys: Sequence[str], transform: Callable[[Batches], Batches], schema: pa.Schema
) -> pa.Table:
    return _apply(table.sort_by([(key, "ascending") for key in keys]), transform, schema)


def _apply(
    ordered: pa.Table, transform: Callable[[Batches], Batches], schema: pa.Schema
) -> pa.Table:
    return pa.Table.from_batches(transform(iter(ordered.to_batches())), schema)
