"""The engine without Spark: every stage in this process, one after the other.

It needs no Java and starts at once, and what it sorts is in memory: it is for a small archive, and
for a few lines, as in a rule's examples.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

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
        chosen = pc.field("kind").isin(list(kinds)) & pc.field("partition").is_valid()
        events = pq.read_table(source, columns=list(columns), filters=chosen)
        return _apply_sorted(events, ("topic", "partition"), transform, schema)

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


def _apply_sorted(
    table: pa.Table, keys: Sequence[str], transform: Callable[[Batches], Batches], schema: pa.Schema
) -> pa.Table:
    ordered = table.sort_by([(key, "ascending") for key in keys])
    return pa.Table.from_batches(transform(iter(ordered.to_batches())), schema)
