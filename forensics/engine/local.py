"""An engine without Spark: for a few lines, as in the examples of a rule, this process is enough.

It does what `forensics.engine.spark` does, with everything in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.engine.base import Batches, EventReader
from forensics.engine.group_apply import GroupReducer
from forensics.events.scan import STAGED_SCHEMA, load_scanner
from forensics.ingest.read_plan import Split


class LocalEngine:
    """Runs the wide parts right here, one after the other."""

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""
        reader = load_scanner(overlays, context=context)
        found = (batch for split in splits for batch in reader.scan(split))
        _save(pa.Table.from_batches(found, STAGED_SCHEMA), target)

    def map_batches(
        self, source: Path, target: Path, transform: Callable[[Batches], Batches], schema: pa.Schema
    ) -> None:
        """Pass a table through a function of batches."""
        batches = iter(pq.read_table(source).to_batches())
        _save(pa.Table.from_batches(transform(batches), schema), target)

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
        return _passed(events, ("topic", "partition"), transform, schema)

    def run_readers(
        self, source: Path, readers: Iterable[EventReader], schema: pa.Schema
    ) -> pa.Table:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""
        found = []
        for reader in readers:
            chosen = pc.field("kind").isin(list(reader.kinds))
            for key in reader.keys:
                chosen &= pc.field(key).is_valid()
            events = pq.read_table(source, columns=list(reader.columns), filters=chosen)
            found.append(_passed(events, reader.keys, reader, schema))
        return pa.concat_tables(found)

    def write_temporary(self, table: pa.Table, target: Path) -> None:
        """Write a table that is read once and thrown away."""
        _save(table, target)

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""
        chosen = pq.read_table(source, columns=list(columns), filters=pc.field("table") == table)
        _save(chosen.sort_by([(name, "ascending") for name in order]), target)

    def reduce_groups(
        self,
        table: pa.Table,
        keys: list[str],
        reduce: Callable[[pa.Table], pa.Table],
        schema: pa.Schema,
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
        return _passed(table, keys, GroupReducer(keys, reduce), schema)


def _passed(
    events: pa.Table,
    keys: Sequence[str],
    work: Callable[[Batches], Batches],
    schema: pa.Schema,
) -> pa.Table:
    ordered = events.sort_by([(key, "ascending") for key in keys])
    return pa.Table.from_batches(work(iter(ordered.to_batches())), schema)


def _save(table: pa.Table, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pq.write_table(table, target / "part-0.parquet", compression="zstd")
