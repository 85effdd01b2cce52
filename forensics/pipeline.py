"""A postmortem, stage by stage: plan -> scan -> rebuild -> detect -> gate -> report.

An engine runs what grows with the archive, scan and rebuild: Spark for archives, this process for
a few lines. The other stages read the tables that these two have left in the output folder.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics import run_result
from forensics.detection import verdict
from forensics.detection.registry import detect
from forensics.detection.runner import DetectionResults
from forensics.engine.base import PROGRAM, Engine, Notify, tell_nobody
from forensics.engine.local import MAX_BYTES, SHARED_BYTES, SHARED_PIECE, LocalEngine
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError
from forensics.events import repeated_lines
from forensics.events.file_accounts import (
    FileAccount,
    assign_nodes,
    configured_patterns,
    make_event_finalizer,
    sum_ordered_accounts,
)
from forensics.events.file_parts import folder_of, list_node_accounts
from forensics.events.node_map import find_unused, parse_node_map
from forensics.events.packs import (
    Pack,
    RuleSet,
    load_rule_set,
    open_packs,
    pack_patterns,
    packs_to_json,
)
from forensics.events.preflight import refuse_other_input
from forensics.events.scan import TEXT_NOTE, preload_patterns, preload_scanner
from forensics.events.undated_times import place_undated, settle_midnights, tell_placed
from forensics.events.zone_changes import settle_zone_changes
from forensics.history import log_coverage
from forensics.history.clocks.anchors import ANCHORS, PAIRS, list_anchor_sources, make_pair_reducer
from forensics.history.cluster_ids import (
    ANY_CLUSTER,
    find_cluster_ids,
    leave_out_others,
    refuse_several_clusters,
)
from forensics.history.log_coverage import build_coverage_table, find_named_nodes
from forensics.history.mixed_clusters import refuse_contradictions, refuse_strangers
from forensics.history.nodes import build_lanes
from forensics.history.nodes.startup_windows import read_startup_windows
from forensics.history.partitions.fold import FOLD_COLUMNS, FOLD_KINDS, FOLDED, FoldContext
from forensics.history.partitions.outages import build_outages, read_offline_replicas
from forensics.history.rebuild import History, build_clocks, build_fold_context, fold_batches
from forensics.ingest.container_accounts import (
    CONTAINER_SPLIT,
    ContainerAccount,
    sum_containers,
    wrong_sums,
)
from forensics.ingest.inputs import gather_inputs
from forensics.ingest.read_plan import ReadPlan, estimate_text_bytes, plan_inputs
from forensics.lib.arrow_io import (
    is_any_of,
    read_batches,
    read_events,
    release_arrow_memory,
    to_batches,
    write_batches,
    write_table,
)
from forensics.lib.folder_lock import lock_output
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.text_format import count, join_names
from forensics.quality.expectations import load_expectations
from forensics.quality.gate import apply_gate, begin_checks, downgrade_results
from forensics.quality.gx_runner import (
    check_context_folder,
    load_checked_expectations,
    preload_library,
)
from forensics.quality.metrics import GateInput
from forensics.report.page import draw_report
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import Tables
from forensics.run_output.remote_folder import place_name
from forensics.run_result import Stopwatch, summarise_coverage
from forensics.schemas import (
    BREACHES,
    CLOCKS,
    CONTAINERS,
    CUTS,
    EVENTS,
    FILES,
    ISR,
    LAYOUTS,
    LEADERSHIP,
)
from forensics.settings import Settings

_FOLDED = (("leadership", LEADERSHIP), ("isr", ISR), ("cuts", CUTS), ("breaches", BREACHES))
# More warnings than this are one line for each reason.
_MAX_WARNINGS = 3
_ACCOUNTS_AT_ONCE = 1000
_NUMBERS = re.compile(r"\d[\d,]*")
# Nearly all questions are about a few kinds of events, and skip the parts of a file without them.
_BY_KIND = ("kind", "topic", "partition", "file", "line", "offset")
_ORDER = ("topic", "partition", "incarnation", "leader_epoch", "partition_epoch")


def postmortem(
    settings: Settings,
    notify: Notify = tell_nobody,
    listener: ProgressListener = SILENT,
    second: SecondProcess = ALONE,
) -> dict[str, Any]:
    """Read archives; leave tables, findings, the page and `_RESULT.json` in the output folder.

    `second` takes part in it. Return what `_RESULT.json` says: exit code, reason and figures.
    """
    with lock_output(settings.out), Stopwatch(listener) as watch:
        try:
            run_result.clear_result(settings.out)
            return _run_stages(settings, notify, watch, second)
        except BaseException as error:
            # It may be writing what is removed here.
            second.close()
            # What is there of this run is half of it, and the disk may be full.
            run_result.remove_half_run(settings)
            told = run_result.name_folder(error, settings.out)
            run_result.save_failure(settings.out, told, settings.command, watch)
            raise told from error


def _run_stages(
    settings: Settings, notify: Notify, watch: Stopwatch, second: SecondProcess
) -> dict[str, Any]:
    rules = load_rule_set(open_packs(settings.packs, settings.log_patterns))
    notify_of_programs(rules.overlays, notify)
    # Faults in the user's own expectations are told before the work.
    load_checked_expectations(rules.overlays)
    if settings.gx_context is not None:
        check_context_folder(settings.gx_context)
    parse_node_map(settings.node_map)
    with watch.stage("plan"):
        if second.is_there and settings.engine == "local":
            settings = replace(settings, split_size=min(settings.split_size, SHARED_PIECE))
        work = plan_archives(settings, notify)
        if not settings.node_map:
            # Whoever says who wrote the files knows that they are logs.
            refuse_other_input(work, rules.overlays)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, settings.staging, ignore_errors=True)
        with watch.stage("start"):
            overlays = packs_to_json(rules.overlays)
            preload_patterns(work.splits, overlays, context=settings.context)
            text = sum(map(estimate_text_bytes, work.splits))
            with_spark = settings.engine == "spark"
            preload = partial(preload_library, with_spark=with_spark, second=second)
            if is_shared := second.is_there and not with_spark and text >= SHARED_BYTES:
                second.start(preload_scanner, overlays, context=settings.context)
            else:
                preload()
            engine = stack.enter_context(
                open_engine(
                    settings.engine, settings.master, settings.exchange, watch.listener,
                    settings.title, is_small=text <= MAX_BYTES, second=second,
                )
            )  # fmt: skip
        run_result.begin_output(settings)
        with watch.stage("scan"):
            files = scan_archives(engine, work, rules.overlays, settings, notify)
        if is_shared:
            preload()
        if text >= SHARED_BYTES:
            # Clocks and states of nodes are rebuilt by one process.
            second.preload(["forensics.report.page"])
        with watch.stage("history"):
            history = rebuild_history(engine, files, settings, notify)
    release_arrow_memory()
    return finish_run(files, history, rules, settings, notify, watch, second)


def open_engine(  # noqa: PLR0913
    name: str,
    master: str | None,
    exchange: str,
    listener: ProgressListener = SILENT,
    title: str = PROGRAM,
    *,
    is_small: bool = False,
    second: SecondProcess = ALONE,
) -> AbstractContextManager[Engine]:
    """Open what runs the stages: Spark on `master`, or this process and a second one.

    Executors write into the folder `exchange`; Spark shows `title`. This process could read a small
    archive.
    """
    if name == "local":
        return nullcontext(LocalEngine(listener, MAX_BYTES, second))
    # Only who asks for it waits for its modules.
    from forensics.engine.spark import open_spark  # noqa: PLC0415

    return open_spark(exchange, master, listener, title, is_small=is_small, second=second)


def notify_of_programs(packs: Sequence[Pack], notify: Notify) -> None:
    """Say which packs hold Python that is about to run."""
    for pack in packs:
        if pack.programs:
            notify(f"packs      runs Python of pack {pack.origin}")


def finish_run(  # noqa: PLR0913, PLR0917
    files: Mapping[str, FileAccount],
    history: History,
    rules: RuleSet,
    settings: Settings,
    notify: Notify,
    watch: Stopwatch | None = None,
    second: SecondProcess = ALONE,
) -> dict[str, Any]:
    """Run the stages that need no engine, and save how the run ended."""
    watch = watch or Stopwatch()
    document, answers = detect_and_gate(files, history, rules, settings, watch, second)
    notify(f"incidents  {len(answers.findings)} findings, verdict: {document['verdict']}")
    problems = [f"{name}: {', '.join(file.notes)}" for name, file in files.items() if file.broken]
    outcome = run_result.decide_outcome(document, problems, document["quality"]["closed"], settings)
    figures = run_result.count_figures(document, files, answers)
    with watch.stage("report"):
        write_findings(document, settings.out / "findings.json")
        # The page is made of what was saved, and needs the room.
        del document, answers
        page = draw_report(settings.out, second=second)
    page_name = str(page) if settings.address is None else f"{place_name(settings.out)}/{page.name}"
    notify(f"report     {page_name}")
    return run_result.save_result(
        settings.out, outcome, command=settings.command, **figures,
        coverage=summarise_coverage(settings.tables), page=page_name, **watch.figures(),
    )  # fmt: skip


# plan


def plan_archives(settings: Settings, notify: Notify) -> ReadPlan:
    """Plan which task reads what, and make the folders of the run."""
    shutil.rmtree(settings.staging, ignore_errors=True)
    inputs = gather_inputs(settings.archives, settings.commands, settings.staging, settings.limits)
    work = plan_inputs(inputs, settings.split_size, settings.limits)
    notify_of_problems(work.problems, notify)
    settings.tables.mkdir(parents=True, exist_ok=True)
    return work


# scan


def scan_archives(
    engine: Engine, work: ReadPlan, packs: Sequence[Pack], settings: Settings, notify: Notify
) -> dict[str, FileAccount]:
    """Turn archives into the tables of events and files."""
    notify(f"archives   {len(work.splits)} pieces of work")
    staged = settings.staging / "scan"
    engine.scan(work.splits, packs_to_json(packs), staged, context=settings.context)
    files = load_accounts(staged, work)
    if patterns := configured_patterns(files.values()):
        notify(f"layouts    read again by the pattern of a configuration: {'; '.join(patterns)}")
        packs = [*packs, pack_patterns("the archive's configuration", patterns, "configuration")]
        engine.scan(work.splits, packs_to_json(packs), staged, context=settings.context)
        files = load_accounts(staged, work)
    engine = engine.for_table(staged)
    containers = load_containers(staged, work)
    save_containers(containers, files, settings.tables)
    repeated_lines.mark_duplicates(files)
    settle_midnights(files.values())
    for placed in tell_placed(place_undated(files.values())):
        notify(f"times      {placed}")
    for change in settle_zone_changes(files.values()):
        notify(f"zone       {change}")
    node_map = parse_node_map(settings.node_map)
    assign_nodes(files, node_map)
    repeated_lines.name_by_repeats(files, staged)
    repeated_lines.take_out_second_processes(files, staged)
    for pattern in find_unused(((name, one.origins) for name, one in files.items()), node_map):
        notify(f"warning: --map {pattern}: no file, pod or container has such a name")
    events = settings.tables / "events"
    settle_events(engine, staged, events, files, settings)
    keep_one_cluster(engine, files, events, settings)
    if settings.cluster is None:
        tell_strangers(files, events, notify)
    assign_kafka_versions(files, events)
    count_shared_events(files, events)
    repeated_lines.find_copies(files.values())
    stretches = [row for name in sorted(files) for row in files[name].to_layout_rows()]
    write_table(pa.Table.from_pylist(stretches, schema=LAYOUTS), settings.tables / "layouts")
    sums = Counter[str]()
    damaged: list[tuple[str, str]] = []

    def rows() -> Iterator[dict[str, Any]]:
        for name in sorted(files):
            for row in files[name].to_rows():
                sums.update(lines=row["lines"], events=row["events"])
                yield row
            whole = files[name].to_row() if files[name].parts else row
            if whole["damaged"] not in (None, TEXT_NOTE):
                damaged.append((name, whole["damaged"]))

    write_batches(to_batches(rows(), FILES), FILES, settings.tables / "files")
    empty = sum(not file.counts["bytes"] and not file.notes for file in files.values())
    told = f"{sums['events']:,} in {sums['lines']:,} lines of {len(files)} files"
    notify(f"events     {told}, {empty} of them empty")
    known = dict(work.problems)
    notify_of_problems([(name, why) for name, why in damaged if name not in known], notify)
    return files


def notify_of_problems(problems: Sequence[tuple[str, str]], notify: Notify) -> None:
    """Say which files cannot be read, or not whole: a few by name, many in one line a reason."""
    if len(problems) <= _MAX_WARNINGS:
        for name, why in problems:
            notify(f"warning: {name}: {why}; the rest is read")
        return
    reasons: dict[str, dict[str, str]] = {}
    for name, why in problems:
        # Numbers and names differ from file to file.
        reasons.setdefault(_NUMBERS.sub("n", why.replace(name, "it")), {})[name] = why
    for told in reasons.values():
        names, why = list(told), next(iter(told.values()))
        if len(names) == 1:
            notify(f"warning: {names[0]}: {why}; the rest is read")
            continue
        # What is told of the first is no figure of the others.
        whose = "" if len({*told.values()}) == 1 else "the first of them: "
        files = f"{count(len(names), 'file')} ({join_names(names)})"
        notify(f"warning: {files}: {whose}{why}; the rest is read")


def keep_one_cluster(
    engine: Engine,
    files: Mapping[str, FileAccount],
    events: Path,
    settings: Settings,
    *,
    must_name: bool = True,
) -> bool:
    """Leave out the files and events of other clusters, or refuse them if none was asked for.

    Return True if there were any.
    """
    if settings.cluster == ANY_CLUSTER:
        return False
    ids = find_cluster_ids(events)
    if settings.cluster is None:
        refuse_several_clusters(files, ids)
        refuse_contradictions(files, events)
        return False
    others = leave_out_others(files, ids, settings.cluster, must_name=must_name)
    for name, reason in others.items():
        files[name].leave_out(reason)
    if others:
        names, kept = pa.array(sorted(others), pa.string()), settings.staging / "of_cluster"

        def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (batch.filter(pc.invert(pc.is_in(batch["file"], names))) for batch in batches)

        engine.map_batches(events, kept, keep, EVENTS)
        shutil.rmtree(events)
        kept.rename(events)
    refuse_contradictions([name for name in files if name not in others], events)
    return bool(others)


def tell_strangers(files: Mapping[str, FileAccount], events: Path, notify: Notify) -> None:
    """Refuse clusters without a common topic, or say that there may be two of them."""
    folders = {name: folder_of(name) for name in files}
    homes = {(part.node, folders[part.file]) for part in list_node_accounts(files.values())}
    if max(Counter(node for node, _ in homes).values(), default=0) < 2:
        # Every node has one folder.
        return
    strangers = refuse_strangers(events)
    if strangers is None:
        return
    notify(f"warning: these may be logs of two clusters: {strangers}; they are read as one")
    for name, file in files.items():
        if folders[name] in strangers.folders[1]:
            note = f"perhaps of another cluster than {strangers.names[0]}, read as one with it"
            file.notes = [*file.notes, note]


def settle_events(
    engine: Engine, staged: Path, events: Path, files: Mapping[str, FileAccount], settings: Settings
) -> None:
    """Write the table of events: with lines and nodes of whole files, and what is repeated once."""
    finalize = make_event_finalizer(files)
    if not write_unrepeated(engine, staged, finalize, events, files, settings.staging):
        engine.map_batches(staged, events, finalize, EVENTS, _BY_KIND)


def write_unrepeated(  # noqa: PLR0913, PLR0917
    engine: Engine,
    source: Path,
    prepare: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    events: Path,
    files: Mapping[str, FileAccount],
    scratch: Path,
) -> bool:
    """Write prepared events, those that several files of a node have once; False if none may be."""
    compared = repeated_lines.find_comparable_files(files.values())
    if not compared:
        return False
    digested, marked = scratch / "digested", scratch / "marked"
    digest = repeated_lines.digest_events(compared)
    engine.map_batches(
        source, digested, lambda batches: map(digest, prepare(batches)), repeated_lines.DIGESTED
    )
    order = repeated_lines.rank_files(files[name] for name in compared)
    cuts = {name: tuple(cut[0] for cut in files[name].cuts) for name in order if files[name].cuts}
    marker, counter = repeated_lines.RepeatMarker(order, cuts), repeated_lines.RepeatCounter()
    rows = engine.run_readers(digested, [marker], repeated_lines.MARKED)
    engine.write_temporary(rows, marked)
    cut = repeated_lines.find_cut_repeats(marked, compared)
    if cut:
        mark, whole = repeated_lines.CutMarker(cut), scratch / "marked_whole"
        engine.map_batches(marked, whole, mark, repeated_lines.MARKED)
        marked = whole
    engine.map_batches(marked, events, repeated_lines.keep_unrepeated, EVENTS, _BY_KIND)
    counts = engine.run_readers(marked, [counter], repeated_lines.REPEATED_LINES)
    repeats = engine.reduce_groups(
        counts,
        list(repeated_lines.REPEATED_LINES.names[:3]),
        repeated_lines.sum_counts,
        repeated_lines.REPEATED_LINES,
    )
    repeated_lines.note_repeats(files, repeats)
    return True


def load_accounts(staged: Path, work: ReadPlan) -> dict[str, FileAccount]:
    """Sum the accounts of all splits by file; paths that cannot be read get an account, too."""
    table = ds.dataset(staged, format="parquet").to_table(
        columns=["file", "split", "account"], filter=ds.field("account").is_valid()
    )
    table = table.sort_by([("file", "ascending"), ("split", "ascending")])
    # Of very many files, few are held as objects at once.
    batches = table.to_batches(max_chunksize=_ACCOUNTS_AT_ONCE)
    files = sum_ordered_accounts(row for batch in batches for row in batch.to_pylist())
    for label, problem in work.problems:
        account = files.setdefault(label, FileAccount(label))
        account.notes.append(problem)
        account.broken = True
    return files


def load_containers(staged: Path, work: ReadPlan) -> dict[str, ContainerAccount]:
    """Sum the accounts of all containers."""
    table = ds.dataset(staged, format="parquet").to_table(
        columns=["account"], filter=ds.field("split") == CONTAINER_SPLIT
    )
    return sum_containers(work.containers, map(json.loads, table["account"].to_pylist()))


def save_containers(
    containers: Mapping[str, ContainerAccount], files: Mapping[str, FileAccount], tables: Path
) -> None:
    """Write the table of containers; a run whose sums contradict each other ends here."""
    rows = [containers[name].to_row() for name in sorted(containers)]
    write_table(pa.Table.from_pylist(rows, schema=CONTAINERS), tables / "containers")
    for wrong in wrong_sums(containers, (file.container for file in files.values())):
        raise ForensicsError(f"the accounts do not add up: {wrong}; please report this")


def assign_kafka_versions(files: Mapping[str, FileAccount], events: Path) -> None:
    """Note for each file the Kafka version that it names, the last one if there are several."""
    columns = ["kind", "ts", "node", "file", "line", "detail"]
    for row in read_events(events, ["kafka_version"], columns):
        file = files[row["file"]]
        owners = [part for part in file.parts if part.node == row["node"]]
        for one in (file, *owners):
            one.version = row["detail"]


def count_shared_events(files: Mapping[str, FileAccount], events: Path) -> None:
    """Count the events of each node in files that several share."""
    shared = [name for name, file in files.items() if file.parts]
    counts: Counter[tuple[str, str | None]] = Counter()
    wanted = is_any_of("file", shared)
    for batch in read_batches(events, ["file", "node"], wanted) if shared else ():
        grouped = pa.Table.from_batches([batch]).group_by(["file", "node"])
        for row in grouped.aggregate([([], "count_all")]).to_pylist():
            counts[row["file"], row["node"]] += row["count_all"]
    for name in shared:
        for part in files[name].parts:
            # Repeats were counted before they were left out.
            part.counts["events"] = counts[name, part.node] + part.counts["repeated_events"]


# rebuild


def rebuild_history(
    engine: Engine, files: Mapping[str, FileAccount], settings: Settings, notify: Notify
) -> History:
    """Turn events into clocks, lanes, coverage, leadership and ISR."""
    tables, events = settings.tables, settings.tables / "events"
    engine = engine.for_table(events)
    accounts = list_node_accounts(files.values())
    nodes = {file.node: file.role for file in accounts if file.node and file.role}
    startups = read_startup_windows(events)
    sources = list_anchor_sources(startups)
    anchors = engine.run_readers(events, sources, ANCHORS)
    reduce_pair = make_pair_reducer(len(nodes))
    pairs = engine.reduce_groups(anchors, ["node", "other"], reduce_pair, PAIRS)
    clocks = build_clocks(pairs, events, sorted(nodes), accounts)
    write_table(pa.Table.from_pylist(list(clocks.rows), schema=CLOCKS), tables / "clocks")
    covered = log_coverage.measure_coverage(accounts, clocks)
    lanes = build_lanes.build_lanes(events, clocks, nodes, covered, startups)
    write_table(lanes.table(covered), tables / "lanes")
    named = find_named_nodes(events)
    write_table(build_coverage_table(covered, lanes.absences, named), tables / "coverage")
    context = build_fold_context(events, clocks, lanes, covered, startups)
    _fold_partitions(engine, context, settings)
    offline = read_offline_replicas(events, clocks, lanes.brokers)
    outages = build_outages(
        tables / "leadership", lanes.absences, offline, context.actions.deletions
    )
    write_table(outages, tables / "outages")
    epochs = ds.dataset(tables / "leadership", format="parquet").count_rows()
    notify(f"history    {epochs:,} leader epochs, {len(lanes.absences)} absences of brokers")
    return History(clocks, lanes, context)


def _fold_partitions(engine: Engine, context: FoldContext, settings: Settings) -> None:
    """Fold each partition's events, and write the tables of partitions in their order."""
    events, folded = settings.tables / "events", settings.staging / "folded"
    fold = partial(fold_batches, context=context)
    rows = engine.map_partitions(events, FOLD_KINDS, FOLD_COLUMNS, fold, FOLDED)
    engine.write_temporary(rows, folded)
    for name, schema in _FOLDED:
        order = [column for column in _ORDER if column in schema.names]
        engine.write_sorted(folded, name, schema.names, order, settings.tables / name)


# detect and gate


def detect_and_gate(  # noqa: PLR0913, PLR0917
    files: Mapping[str, FileAccount],
    history: History,
    rules: RuleSet,
    settings: Settings,
    watch: Stopwatch,
    second: SecondProcess = ALONE,
    *,
    select: Callable[[DetectionResults], DetectionResults] | None = None,
) -> tuple[dict[str, Any], DetectionResults]:
    """Ask the detectors, check the tables, and trust the findings no further than these hold.

    `select` keeps some of the answers. Return the document of findings, and the answers.
    """
    tables, expectations = Tables(settings.tables), load_expectations(rules.overlays)
    given = GateInput(tables, list(files.values()), history.clocks)
    check = begin_checks(second, given, expectations, settings.data_docs, settings.gx_context)
    with watch.stage("incidents"):
        answers = detect(tables, history, rules.overlays, second)
        answers = select(answers) if select else answers
    with watch.stage("quality"):
        given = replace(given, findings=answers.findings)
        gate = check(given)
        answers, gate = downgrade_results(answers, gate, given)
        write_table(gate.table(), settings.tables / "checks")
        document = verdict.build_findings_document(
            tables, files.values(), history.clocks, answers, rules
        )
    return apply_gate(document, gate, given), answers
