"""The order of the work: archives, entries, events, history, incidents, quality, report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from forensics import history, incidents, quality, report
from forensics.archives.planning import Plan, plan
from forensics.events.accounting import FileAccount, add_up, mark_duplicates
from forensics.events.nodes import assign
from forensics.events.packs import Catalogue, catalogue, open_pack, packed
from forensics.events.settling import settler
from forensics.settings import Settings
from forensics.spark import Cluster, told_plainly
from forensics.tables import BREACHES, CLOCKS, CUTS, EVENTS, FILES, ISR, LEADERSHIP

__all__ = ["postmortem"]

Say = Callable[[str], None]

_FOLDED = (
    ("leadership", LEADERSHIP),
    ("isr", ISR),
    ("cuts", CUTS),
    ("breaches", BREACHES),
)
_ORDER = ("topic", "partition", "leader_epoch", "partition_epoch")


def postmortem(settings: Settings, say: Say) -> dict[str, Any]:
    """Read archives and leave tables, findings and the page in the output folder."""
    packs = [open_pack(path) for path in settings.packs]
    rules = catalogue(packs)
    work = plan(settings.archives, settings.split_size)
    for label, problem in work.problems:
        say(f"warning: {label}: {problem}; the rest is read")
    shutil.rmtree(settings.staging, ignore_errors=True)
    settings.tables.mkdir(parents=True, exist_ok=True)
    with told_plainly():
        cluster = Cluster(settings.master)
        try:
            files = read(cluster, work, packed(packs), settings, say)
            past = rebuild(cluster, files, settings, say)
        finally:
            cluster.stop()
            shutil.rmtree(settings.staging, ignore_errors=True)
    return conclude(files, past, rules, settings, say)


def conclude(
    files: Mapping[str, FileAccount],
    past: history.Past,
    rules: Catalogue,
    settings: Settings,
    say: Say,
) -> dict[str, Any]:
    """Turn history into findings, check the tables, and draw the page."""
    found = incidents.find(settings.tables, past)
    document = incidents.document(settings.tables, files.values(), past.clocks, found, rules)
    say(f"incidents  {len(found)} findings, verdict: {document['verdict']}")
    checks = quality.check(settings.tables)
    write(checks, settings.tables / "checks")
    report.write(document, settings.out / "findings.json")
    page = report.draw(settings.out)
    say(f"report     {page}")
    return document


def read(
    cluster: Cluster, work: Plan, overlays: str, settings: Settings, say: Say
) -> dict[str, FileAccount]:
    """Turn archives into the tables of events and files."""
    say(f"archives   {len(work.splits)} pieces of work")
    staged = settings.staging / "scan"
    cluster.scan(work.splits, overlays, staged, context=settings.context)
    files = accounts(staged, work)
    mark_duplicates(files)
    assign(files)
    events = settings.tables / "events"
    cluster.each_batch(staged, events, settler(files), EVENTS)
    name_versions(files, events)
    rows = [files[name].row() for name in sorted(files)]
    write(pa.Table.from_pylist(rows, schema=FILES), settings.tables / "files")
    lines, found = (sum(row[name] for row in rows) for name in ("lines", "events"))
    empty = sum(not row["bytes"] and not row["damaged"] for row in rows)
    say(f"events     {found:,} in {lines:,} lines of {len(rows)} files, {empty} of them empty")
    for row in rows:
        if row["damaged"] and row["file"] not in dict(work.problems):
            say(f"warning: {row['file']}: {row['damaged']}; the rest is read")
    return files


def rebuild(
    cluster: Cluster, files: Mapping[str, FileAccount], settings: Settings, say: Say
) -> history.Past:
    """Turn events into clocks, lanes, leadership and ISR."""
    tables, events = settings.tables, settings.tables / "events"
    nodes = {one.node: one.role for one in files.values() if one.node and one.role}
    sources = history.anchor_sources(history.phases_of(events))
    pairs = cluster.together(events, sources, history.ANCHORS)
    settle = history.pair_settler(len(nodes))
    settled = cluster.each_group(pairs, ["node", "other"], settle, history.PAIRS)
    clocks = history.solve_clocks(settled, events, sorted(nodes))
    write(pa.Table.from_pylist(list(clocks.rows), schema=CLOCKS), tables / "clocks")
    lanes = history.lanes(events, clocks, nodes)
    covered = history.covered(files.values(), clocks)
    write(lanes.table(covered), tables / "lanes")
    named = history.named_nodes(events)
    write(history.coverage_table(covered, lanes.away, named), tables / "coverage")
    known = history.context(events, clocks, lanes.away, covered)
    fold(cluster, known, settings)
    epochs = ds.dataset(tables / "leadership", format="parquet").count_rows()
    say(f"history    {epochs:,} leader epochs, {len(lanes.away)} absences of brokers")
    return history.Past(clocks, lanes, known)


def fold(cluster: Cluster, known: history.Context, settings: Settings) -> None:
    """Fold each partition's events, and write leadership and ISR in the order of partitions."""
    folded = settings.staging / "folded"
    both = cluster.each_partition(
        settings.tables / "events",
        history.FOLD_KINDS,
        history.FOLD_COLUMNS,
        history.folder(known),
        history.FOLDED,
    )
    cluster.write(both, folded)
    for name, schema in _FOLDED:
        order = [column for column in _ORDER if column in schema.names]
        which = f"table = '{name}'"
        cluster.write_sorted(folded, which, schema.names, order, settings.tables / name)


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


def write(table: pa.Table, target: Path) -> None:
    """Write a small table as a folder of one Parquet file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pq.write_table(table, target / "part-0.parquet", compression="zstd")
