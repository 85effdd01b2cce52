"""From archives to the past: the tables of events, files, clocks, lanes, leadership and ISR.

The wide parts are asked of an engine: Spark for archives, this process for a few lines.

From the past to what is said of it: findings, their document, and the checks of the tables.

The order of the work: archives, entries, events, history, incidents, quality, report.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from forensics import run_result
from forensics.detection import verdict
from forensics.detection.registry import detect
from forensics.detection.runner import DetectionResults
from forensics.engine.base import Engine, Notify
from forensics.engine.progress import SILENT, ProgressListener
from forensics.engine.spark import SparkEngine, translate_spark_errors
from forensics.events.file_accounts import (
    FileAccount,
    assign_nodes,
    make_event_finalizer,
    mark_duplicates,
    sum_accounts,
)
from forensics.events.packs import RuleSet, load_rule_set, open_pack, packs_to_json
from forensics.history import log_coverage
from forensics.history.clocks.anchors import ANCHORS, PAIRS, list_anchor_sources, make_pair_reducer
from forensics.history.log_coverage import build_coverage_table, find_named_nodes
from forensics.history.nodes import build_lanes
from forensics.history.nodes.startup_windows import read_startup_windows
from forensics.history.partitions.fold import FOLD_COLUMNS, FOLD_KINDS, FOLDED, FoldContext
from forensics.history.rebuild import (
    History,
    build_clocks,
    build_fold_context,
    fold_batches,
)
from forensics.ingest.read_plan import ReadPlan, plan_reading
from forensics.lib.arrow_io import read_events, release_arrow_memory
from forensics.quality.expectations import load_expectations
from forensics.quality.gate import apply_gate, downgrade_results, run_checks
from forensics.quality.gx_runner import load_checked_expectations, preload_library
from forensics.quality.metrics import GateInput
from forensics.report.page import draw_report
from forensics.run_output.findings import WORST_FIRST, write_findings
from forensics.run_output.reader import Tables
from forensics.run_result import ExitCode, RunOutcome, Stopwatch
from forensics.run_summary import summarise_coverage
from forensics.schemas import BREACHES, CLOCKS, CUTS, EVENTS, FILES, ISR, LEADERSHIP
from forensics.settings import Settings

_FOLDED = (
    ("leadership", LEADERSHIP),
    ("isr", ISR),
    ("cuts", CUTS),
    ("breaches", BREACHES),
)
_ORDER = ("topic", "partition", "leader_epoch", "partition_epoch")


def scan_archives(
    engine: Engine, work: ReadPlan, overlays: str, settings: Settings, say: Notify
) -> dict[str, FileAccount]:
    """Turn archives into the tables of events and files."""
    say(f"archives   {len(work.splits)} pieces of work")
    staged = settings.staging / "scan"
    engine.scan(work.splits, overlays, staged, context=settings.context)
    files = load_accounts(staged, work)
    mark_duplicates(files)
    assign_nodes(files)
    events = settings.tables / "events"
    engine.map_batches(staged, events, make_event_finalizer(files), EVENTS)
    assign_kafka_versions(files, events)
    rows = [files[name].to_row() for name in sorted(files)]
    write_table(pa.Table.from_pylist(rows, schema=FILES), settings.tables / "files")
    lines, found = (sum(row[name] for row in rows) for name in ("lines", "events"))
    empty = sum(not row["bytes"] and not row["damaged"] for row in rows)
    say(f"events     {found:,} in {lines:,} lines of {len(rows)} files, {empty} of them empty")
    for row in rows:
        if row["damaged"] and row["file"] not in dict(work.problems):
            say(f"warning: {row['file']}: {row['damaged']}; the rest is read")
    return files


def rebuild_history(
    engine: Engine, files: Mapping[str, FileAccount], settings: Settings, say: Notify
) -> History:
    """Turn events into clocks, lanes, leadership and ISR."""
    tables, events = settings.tables, settings.tables / "events"
    nodes = {one.node: one.role for one in files.values() if one.node and one.role}
    sources = list_anchor_sources(read_startup_windows(events))
    pairs = engine.run_readers(events, sources, ANCHORS)
    settle = make_pair_reducer(len(nodes))
    settled = engine.reduce_groups(pairs, ["node", "other"], settle, PAIRS)
    clocks = build_clocks(settled, events, sorted(nodes))
    write_table(pa.Table.from_pylist(list(clocks.rows), schema=CLOCKS), tables / "clocks")
    lanes = build_lanes.build_lanes(events, clocks, nodes)
    covered = log_coverage.measure_coverage(files.values(), clocks)
    write_table(lanes.table(covered), tables / "lanes")
    named = find_named_nodes(events)
    write_table(build_coverage_table(covered, lanes.absences, named), tables / "coverage")
    known = build_fold_context(events, clocks, lanes.absences, covered)
    fold_partitions(engine, known, settings)
    epochs = ds.dataset(tables / "leadership", format="parquet").count_rows()
    say(f"history    {epochs:,} leader epochs, {len(lanes.absences)} absences of brokers")
    return History(clocks, lanes, known)


def fold_partitions(engine: Engine, known: FoldContext, settings: Settings) -> None:
    """Fold each partition's events, and write leadership and ISR in the order of partitions."""
    folded = settings.staging / "folded"
    both = engine.map_partitions(
        settings.tables / "events",
        FOLD_KINDS,
        FOLD_COLUMNS,
        partial(fold_batches, context=known),
        FOLDED,
    )
    engine.write_temporary(both, folded)
    for name, schema in _FOLDED:
        order = [column for column in _ORDER if column in schema.names]
        engine.write_sorted(folded, name, schema.names, order, settings.tables / name)


def load_accounts(staged: Path, work: ReadPlan) -> dict[str, FileAccount]:
    """Read the accounts of all splits, and give unreadable paths one too."""
    table = ds.dataset(staged, format="parquet").to_table(
        columns=["file", "split", "account"], filter=ds.field("account").is_valid()
    )
    rows = [row | {"account": json.loads(row["account"])} for row in table.to_pylist()]
    files = sum_accounts(rows)
    for label, problem in work.problems:
        files[label] = FileAccount(label, notes=[problem], broken=True)
    return files


def assign_kafka_versions(files: Mapping[str, FileAccount], events: Path) -> None:
    """Name the Kafka version that each file says, the newest one if there are several."""
    columns = ["kind", "ts", "node", "file", "line", "detail"]
    for row in read_events(events, ["kafka_version"], columns):
        files[row["file"]].version = row["detail"]


def write_table(table: pa.Table, target: Path) -> None:
    """Write a small table as a folder of one Parquet file."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    pq.write_table(table, target / "part-0.parquet", compression="zstd")


def _all(answers: DetectionResults) -> DetectionResults:
    return answers


def detect_and_gate(  # noqa: PLR0913
    files: Mapping[str, FileAccount],
    past: History,
    rules: RuleSet,
    settings: Settings,
    watch: Stopwatch,
    *,
    select: Callable[[DetectionResults], DetectionResults] = _all,
) -> tuple[dict[str, Any], DetectionResults]:
    """Turn history into findings, check what they rest on, and trust them no further than that.

    `select` takes the answers that are told of out of all that are found.
    """
    packs = [open_pack(path) for path in settings.packs]
    tables = Tables(settings.tables)
    with watch.stage("incidents"):
        answers = select(detect(tables, past, packs))
    with watch.stage("quality"):
        given = GateInput(tables, list(files.values()), past.clocks, answers.findings)
        gate = run_checks(given, load_expectations(packs), settings.data_docs)
        answers, gate = downgrade_results(answers, gate, given)
        write_table(gate.table(), settings.tables / "checks")
        document = verdict.build_findings_document(
            tables, files.values(), past.clocks, answers, rules
        )
    return apply_gate(document, gate, given), answers


def postmortem(
    settings: Settings, say: Notify, listener: ProgressListener = SILENT
) -> dict[str, Any]:
    """Read archives, leave tables, findings and the page in the output folder, and how it ended.

    What is given back is what `_RESULT.json` says: the exit code, its reason, and the figures.
    """
    with Stopwatch(listener) as watch:
        try:
            run_result.clear_result(settings.out)
            return _run_stages(settings, say, watch)
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            code = ExitCode.INTERRUPTED if stopped else ExitCode.FAILED
            because = "interrupted" if stopped else f"{type(error).__name__}: {error}"
            # Where the folder cannot be written, that is what went wrong, and is told.
            with suppress(OSError):
                end = RunOutcome(code, because)
                run_result.save_result(
                    settings.out, end, command=settings.command, **watch.figures()
                )
            raise


def _run_stages(settings: Settings, say: Notify, watch: Stopwatch) -> dict[str, Any]:
    packs = [open_pack(path) for path in settings.packs]
    rules = load_rule_set(packs)
    # What is wrong with somebody's own expectations is told before the work, not after it.
    load_checked_expectations(packs)
    with watch.stage("plan"):
        work = plan_reading(settings.archives, settings.split_size)
    for label, problem in work.problems:
        say(f"warning: {label}: {problem}; the rest is read")
    shutil.rmtree(settings.staging, ignore_errors=True)
    settings.tables.mkdir(parents=True, exist_ok=True)
    with translate_spark_errors():
        with watch.stage("start"):
            preload_library()
            cluster = SparkEngine(settings.master, watch.listener)
        try:
            with watch.stage("scan"):
                files = scan_archives(cluster, work, packs_to_json(packs), settings, say)
            with watch.stage("history"):
                past = rebuild_history(cluster, files, settings, say)
        finally:
            cluster.stop()
            shutil.rmtree(settings.staging, ignore_errors=True)
    release_arrow_memory()
    return finish_run(files, past, rules, settings, say, watch=watch)


def finish_run(  # noqa: PLR0913
    files: Mapping[str, FileAccount],
    past: History,
    rules: RuleSet,
    settings: Settings,
    say: Notify,
    *,
    watch: Stopwatch | None = None,
) -> dict[str, Any]:
    """Turn history into findings, check the tables, draw the page, and say how it ended."""
    watch = watch or Stopwatch()
    document, answers = detect_and_gate(files, past, rules, settings, watch)
    say(f"incidents  {len(answers.findings)} findings, verdict: {document['verdict']}")
    with watch.stage("report"):
        write_findings(document, settings.out / "findings.json")
        page = draw_report(settings.out)
    say(f"report     {page}")
    problems = [f"{name}: {', '.join(one.notes)}" for name, one in files.items() if one.broken]
    end = run_result.decide_outcome(document, problems, document["quality"]["closed"], settings)
    figures = _figures(document, files, answers)
    seen = {"coverage": summarise_coverage(settings.tables), "page": str(page)}
    told = {"command": settings.command, **figures, **seen, **watch.figures()}
    return run_result.save_result(settings.out, end, **told)


def _figures(
    document: Mapping[str, Any], files: Mapping[str, FileAccount], answers: DetectionResults
) -> dict[str, Any]:
    """Gather the figures that an end summary tells."""
    levels = Counter(one["severity"] for one in document["findings"])
    answered = Counter(one.status for one in answers.outcomes)
    lines = sum((one.counts for one in files.values()), Counter[str]())
    buckets = ("records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines")
    return {
        "verdict": document["verdict"],
        "summary": document["summary"],
        "archive": document["archive"],
        "lines": {name: lines[name] for name in buckets},
        "damaged": sum(one.broken for one in files.values()),
        "findings": {level: levels[level] for level in WORST_FIRST},
        "suppressed": len(answers.suppressed),
        "quality": _of_gate(document["quality"]),
        "detectors": {name: answered[name] for name in sorted(answered)},
        "slowest": dict(sorted(answers.seconds.items(), key=lambda one: (-one[1], one[0]))[:5]),
    }


def _of_gate(told: Mapping[str, Any]) -> dict[str, Any]:
    """Say how the checks of quality went, in numbers."""
    failed = Counter(one["consequence"] for one in told["failed"])
    return {"gate": told["gate"], "checks": told["checks"], "failed": dict(sorted(failed.items()))}
