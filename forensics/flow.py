"""From archives to the past: the tables of events, files, clocks, lanes, leadership and ISR.

The wide parts are asked of an engine: Spark for archives, this process for a few lines.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from forensics import history
from forensics.archives.planning import Plan
from forensics.engine_base import Engine, Say
from forensics.events.accounting import FileAccount, add_up, mark_duplicates
from forensics.events.nodes import assign
from forensics.events.settling import settler
from forensics.settings import Settings
from forensics.tables import BREACHES, CLOCKS, CUTS, EVENTS, FILES, ISR, LEADERSHIP

__all__ = ["read", "rebuild", "write_table"]

_FOLDED = (
    ("leadership", LEADERSHIP),
    ("isr", ISR),
    ("cuts", CUTS),
    ("breaches", BREACHES),
)
_ORDER = ("topic", "partition", "leader_epoch", "partition_epoch")


def read(
    engine: Engine, work: Plan, overlays: str, settings: Settings, say: Say
) -> dict[str, FileAccount]:
    """Turn archives into the tables of events and files."""
    say(f"archives   {len(work.splits)} pieces of work")
    staged = settings.staging / "scan"
    engine.scan(work.splits, overlays, staged, context=settings.context)
    files = accounts(staged, work)
    mark_duplicates(files)
    assign(files)
    events = settings.tables / "events"
    engine.each_batch(staged, events, settler(files), EVENTS)
    name_versions(files, events)
    rows = [files[name].row() for name in sorted(files)]
    write_table(pa.Table.from_pylist(rows, schema=FILES), settings.tables / "files")
    lines, found = (sum(row[name] for row in rows) for name in ("lines", "events"))
    empty = sum(not row["bytes"] and not row["damaged"] for row in rows)
    say(f"events     {found:,} in {lines:,} lines of {len(rows)} files, {empty} of them empty")
    for row in rows:
        if row["damaged"] and row["file"] not in dict(work.problems):
            say(f"warning: {row['file']}: {row['damaged']}; the rest is read")
    return files


def rebuild(
    engine: Engine, files: Mapping[str, FileAccount], settings: Settings, say: Say
) -> history.Past:
    """Turn events into clocks, lanes, leadership and ISR."""
    tables, events = settings.tables, settings.tables / "events"
    nodes = {one.node: one.role for one in files.values() if one.node and one.role}
    sources = history.anchor_sources(history.phases_of(events))
    pairs = engine.together(events, sources, history.ANCHORS)
    settle = history.pair_settler(len(nodes))
    settled = engine.each_group(pairs, ["node", "other"], settle, history.PAIRS)
    clocks = history.solve_clocks(settled, events, sorted(nodes))
    write_table(pa.Table.from_pylist(list(clocks.rows), schema=CLOCKS), tables / "clocks")
    lanes = history.lanes(events, clocks, nodes)
    covered = history.covered(files.values(), clocks)
    write_table(lanes.table(covered), tables / "lanes")
    named = history.named_nodes(events)
    write_table(history.coverage_table(covered, lanes.away, named), tables / "coverage")
    known = history.context(events, clocks, lanes.away, covered)
    fold(engine, known, settings)
    epochs = ds.dataset(tables / "leadership", format="parquet").count_rows()
    say(f"history    {epochs:,} leader epochs, {len(lanes.away)} absences of brokers")
    return history.Past(clocks, lanes, known)


def fold(engine: Engine, known: history.Context, settings: Settings) -> None:
    """Fold each partition's events, and write leadership and ISR in the order of partitions."""
    folded = settings.staging / "folded"
    both = engine.each_partition(
        settings.tables / "events",
        history.FOLD_KINDS,
        history.FOLD_COLUMNS,
        history.folder(known),
        history.FOLDED,
    )
    engine.write(both, folded)
    for name, schema in _FOLDED:
        order = [column for column in _ORDER if column in schema.names]
        engine.write_sorted(folded, name, schema.names, order, settings.tables / name)


def accounts(staged: Path, work: Plan) -> dict[str, FileAccount]:
    """Read the accounts of all splits, and give unreadable paths one too."""
    table = ds.dataset(staged, format="parquet").to_table(
        columns=["file", "split", "account"], filter=ds.field("account").is_valid()
    )
    rows = [row | {"account": json.loads(row["account"])} for row in table.to_pylist()]
    files = add_up(rows)
    for label, problem in work.problems:
        files[label] = FileAccount(label, notes=[problem], broken=True)
    return files


def name_versions(files: Mapping[str, FileAccount], events: Path) -> None:
    """Name the Kafka version that each file says, the newest one if there are several."""
    columns = ["kind", "ts", "node", "file", "line", "detail"]
    for row in history.events_of(events, ["kafka_version"], columns):
        files[row["file"]].version = row["detail"]


def write_table(table: pa.Table, target: Path) -> None:
    """Write a small table as a folder of one Parquet file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pq.write_table(table, target / "part-0.parquet", compression="zstd")
