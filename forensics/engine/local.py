"""The engine without Spark: every stage in this process, one after the other.

It needs no Java and starts at once, and what it sorts is in memory: it is for a small archive, and
for a few lines, as in a rule's examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.engine.base import Batches, EventReader, GroupReducer
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError
from forensics.events.scan import STAGED_SCHEMA, Scanner, compile_patterns, load_scanner
from forensics.ingest.read_plan import Split, estimate_text_bytes
from forensics.lib.arrow_io import read_batches, write_batches, write_table
from forensics.lib.text_format import format_bytes

# More text is for Spark, which shares it among cores and does not hold it.
MAX_BYTES = 256 << 20


class LocalEngine:
    """Runs every stage in this process."""

    def __init__(
        self, listener: ProgressListener = SILENT, max_bytes: float = float("inf")
    ) -> None:
        """Tell a listener how much is read, and refuse archives with more text than `max_bytes`."""
        self._listener, self._max_bytes = listener, max_bytes

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        self._refuse_large(splits)
        scanner = load_scanner(overlays, context=context)
        scanner.reader.search_at_once(compile_patterns(splits, overlays, context=context))
        write_batches(self._scan(scanner, splits), STAGED_SCHEMA, target)

    def _scan(self, scanner: Scanner, splits: Sequence[Split]) -> Batches:
        yield from scanner.scan_all(self._tell(splits))

    def _tell(self, splits: Sequence[Split]) -> Iterator[Split]:
        """Yield splits, and tell the listener of each that was read."""
        done, total = 0, sum(split.bytes for split in splits)
        for split in splits:
            yield split
            done += split.bytes
            self._listener.bytes_read(done, total)

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


def _apply_sorted(
    table: pa.Table, keys: Sequence[str], transform: Callable[[Batches], Batches], schema: pa.Schema
) -> pa.Table:
    ordered = table.sort_by([(key, "ascending") for key in keys])
    return pa.Table.from_batches(transform(iter(ordered.to_batches())), schema)
