"""The engine without Spark, with everything in memory: for a few lines, as in a rule's examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.engine.base import Batches, EventReader, GroupReducer
from forensics.events.scan import STAGED_SCHEMA, compile_patterns, load_scanner
from forensics.ingest.read_plan import Split
from forensics.lib.arrow_io import write_table


class LocalEngine:
    """Runs every stage in this process."""

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        scanner = load_scanner(overlays, context=context)
        scanner.reader.search_at_once(compile_patterns(splits, overlays, context=context))
        batches = (batch for split in splits for batch in scanner.scan(split))
        write_table(pa.Table.from_batches(batches, STAGED_SCHEMA), target)

    def map_batches(
        self,
        source: Path,
        target: Path,
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
        order: Sequence[str] = (),
    ) -> None:
        """Pass a table through a function of batches; each file is sorted by `order`."""
        batches = iter(pq.read_table(source).to_batches())
        result = pa.Table.from_batches(transform(batches), schema)
        if order:
            result = result.sort_by([(name, "ascending") for name in order])
        write_table(result, target)

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
