"""The weekly audit: reads new archives into a store, and builds the weeks that they touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from forensics import run_result
from forensics.detection.registry import all_detectors
from forensics.engine.base import Engine, Notify, tell_nobody
from forensics.engine.local import SHARED_PIECE
from forensics.engine.progress import SILENT, ProgressListener
from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount
from forensics.events.node_map import parse_node_map
from forensics.events.packs import load_rule_set, open_packs, packs_to_json
from forensics.events.undated_times import leave_undated
from forensics.ingest.inputs import gather_inputs
from forensics.ingest.read_plan import split_files
from forensics.lib.folder_lock import FolderHeldError
from forensics.lib.limits import DEFAULT_LIMITS, Limits
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.secrets import mask_text
from forensics.lib.storage import display, is_remote, join
from forensics.pipeline import (
    load_accounts,
    notify_of_problems,
    notify_of_programs,
    open_engine,
)
from forensics.quality.gx_runner import load_checked_expectations, preload_library
from forensics.run_output.findings import WORST_FIRST
from forensics.run_result import ExitCode, RunOutcome, Stopwatch
from forensics.settings import SPLIT_SIZE, Settings
from forensics.weekly.atomic_commit import SCRATCH, STORE_FILE, StoreFiles
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import NewInputs
from forensics.weekly.notes import load_notes
from forensics.weekly.rules_digest import digest_rules
from forensics.weekly.store import Store, lock_store, open_remote_store

EngineFactory = Callable[[], AbstractContextManager[Engine]]


@dataclass(frozen=True)
class AuditRequest:
    """What an audit was asked to do; without archives it builds again what is kept."""

    archives: tuple[str, ...]
    # a folder, or the address of a store of objects
    store: str
    week: Week | None = None
    keep_weeks: int | None = None
    # how many seconds to wait for another run that holds the store
    wait: float = 0.0
    packs: tuple[Path, ...] = ()
    master: str | None = None
    split_size: int = SPLIT_SIZE
    fail_on: str | None = None
    strict: bool = False
    command: tuple[str, ...] = ()
    node_map: tuple[str, ...] = ()
    log_patterns: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    engine: str = "spark"
    # the id of the cluster whose logs alone count
    cluster: str | None = None

    @property
    def gives_logs(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.archives or self.commands)

    @property
    def settings(self) -> Settings:
        """The same, as far as the outcome of a run depends on it."""
        return Settings(
            self.archives, Path(self.store), packs=self.packs, fail_on=self.fail_on,
            strict=self.strict,
        )  # fmt: skip


def audit(
    request: AuditRequest,
    notify: Notify = tell_nobody,
    listener: ProgressListener = SILENT,
    engines: EngineFactory | None = None,
    second: SecondProcess = ALONE,
) -> dict[str, Any]:
    """Read archives into a store and draw the weeks that they change; return how it ended.

    Without archives every week is built again, or the one that was asked for. `engines` opens the
    engine when it is first needed; the default is Spark. `second` takes part in the work.
    """
    if not is_remote(request.store):
        StoreFiles(Path(request.store)).refuse_other_folders()
    with Stopwatch(listener) as watch:
        try:
            with _open_store(request, notify) as folder:
                engines = engines or partial(
                    open_engine, request.engine, request.master, _exchange(request, folder),
                    listener, request.settings.title, second=second,
                )  # fmt: skip
                return _run_and_save_result(request, folder, notify, watch, engines, second)
        except FolderHeldError as error:
            # The run that holds the store saves its result there; this one leaves no trace.
            code = int(ExitCode.STORE_LOCKED)
            return {"schema": 1, "exit_code": code, "reason": str(error), **watch.figures()}


def _open_store(request: AuditRequest, notify: Notify) -> AbstractContextManager[Path]:
    """Lock a store; the context is its folder, or the one that a remote store is mirrored in."""
    if is_remote(request.store):
        return open_remote_store(request.store, request.wait, notify)
    return _open_folder(Path(request.store), request.wait, notify)


def _exchange(request: AuditRequest, folder: Path) -> str:
    """Return where executors write: below the store, where they can."""
    if is_remote(request.store):
        return join(request.store, f"{SCRATCH}/{folder.name}")
    return str(folder / SCRATCH / "written")


@contextmanager
def _open_folder(folder: Path, wait: float, notify: Notify) -> Iterator[Path]:
    with lock_store(folder, wait, notify):
        yield folder


def _run_and_save_result(  # noqa: PLR0913, PLR0917
    request: AuditRequest, folder: Path, notify: Notify, watch: Stopwatch,
    engines: EngineFactory, second: SecondProcess,
) -> dict[str, Any]:  # fmt: skip
    """Run, and save how that ended in the store; the digests of a store leave that file out."""
    files = StoreFiles(folder)
    try:
        files.recover()
        run_result.clear_result(folder)
        outcome, figures = _run(request, files, notify, watch, engines, second)
    except BaseException as error:
        # It may be writing what is removed here.
        second.close()
        files.settle()
        run_result.save_failure(folder, error, request.command, watch)
        raise
    figures = {"command": request.command, **figures, **watch.figures()}
    return run_result.save_result(folder, outcome, **figures)


def _run(  # noqa: PLR0913, PLR0917
    request: AuditRequest, files: StoreFiles, notify: Notify, watch: Stopwatch,
    engines: EngineFactory, second: SecondProcess,
) -> tuple[RunOutcome, dict[str, Any]]:  # fmt: skip
    if not request.gives_logs and files.find(STORE_FILE) is None:
        store_name = display(request.store)
        raise ForensicsError(
            f"{store_name} is no store: it has no {STORE_FILE}. `audit` makes one of logs."
        )
    parse_node_map(request.node_map)
    packs = open_packs(request.packs, request.log_patterns)
    notify_of_programs(packs, notify)
    rules, digests = load_rule_set(packs), digest_rules(packs)
    # Report faults in the user's own expectations and notes before the work, not after it.
    load_checked_expectations(packs)
    notes = load_notes(files.root, [detector.name for detector in all_detectors(packs)])
    store = Store(
        files.begin(), digests, notes, request.node_map, request.cluster, notify
    )  # fmt: skip
    with ExitStack() as stack:
        with_spark = request.engine == "spark"
        engine = _LazyEngine(engines, stack, watch, second, with_spark=with_spark)
        figures: dict[str, Any] = {}
        if request.gives_logs:
            figures = _ingest(request, store, packs_to_json(packs), engine, notify, watch)
        store.drop_old_weeks(request.keep_weeks)
        weeks = _selected_weeks(request, store)
        forced = weeks if not request.gives_logs else ()
        for week, document in store.build_weeks(weeks, forced, engine, rules, watch):
            count, verdict = len(document["findings"]), document["verdict"]
            notify(f"{week}   {count} findings, verdict: {verdict}")
            figures.setdefault("built", []).append(str(week))
    with watch.stage("pages"):
        figures["drawn"] = [str(week) for week in store.draw_pages(weeks)]
        store.commit()
    return _conclude(request, store, figures)


def _ingest(  # noqa: PLR0913, PLR0917
    request: AuditRequest, store: Store, overlays: str, engine: _LazyEngine, notify: Notify,
    watch: Stopwatch,
) -> dict[str, Any]:  # fmt: skip
    """Read what is new, and put its events into their weeks."""
    with watch.stage("plan"):
        given = gather_inputs(
            request.archives, request.commands, store.files.scratch, request.limits
        )
        inputs = store.find_new(given)
    notify_of_problems(inputs.problems, notify)
    problems = {"problems": [": ".join(problem) for problem in inputs.problems]}
    notify(f"archives   {inputs.file_count} files, {len(inputs.unread)} of them not read before")
    staged = store.files.scratch / "scan"
    if not inputs.unread:
        return store.ingest(inputs, staged, {}) | problems
    with watch.stage("scan"):
        accounts = _scan_new(request, inputs, staged, overlays, engine)
    for name, account in sorted(accounts.items()):
        if account.notes:
            digest, inside = inputs.place_of(name)
            told = mask_text("; ".join(dict.fromkeys(account.notes)))
            notify(f"warning: {inputs.containers[digest].name}{inside}: {told}; the rest is read")
    with watch.stage("merge"):
        figures = store.ingest(inputs, staged, accounts)
    for name in figures["undated"]:
        notify(f"warning: {name}: no line of it has a time, so it belongs to no week")
    notify(f"events     {figures['events']:,} new in {len(figures['touched'])} weeks")
    return figures | problems


def _scan_new(
    request: AuditRequest, inputs: NewInputs, staged: Path, overlays: str, engine: _LazyEngine
) -> dict[str, FileAccount]:
    size = request.split_size
    if engine.second.is_there and request.engine == "local":
        size = min(size, SHARED_PIECE)
    work = split_files(inputs.files_to_read, size, request.limits)
    if not work.splits:
        return {
            name: FileAccount(name, notes=[problem], broken=True) for name, problem in work.problems
        }
    engine().scan(work.splits, overlays, staged)
    accounts = load_accounts(staged, work)
    # A log is kept by its content alone: what lies beside it today may be gone in another week.
    leave_undated(accounts.values())
    return accounts


def _selected_weeks(request: AuditRequest, store: Store) -> Sequence[Week]:
    """Return the weeks that are to be built and drawn."""
    weeks = store.weeks
    if request.week is None:
        return weeks
    if request.week not in weeks:
        existing = f"it has {weeks[0]} to {weeks[-1]}" if weeks else "it has no week at all"
        store.commit()
        raise ForensicsError(f"{display(request.store)} has no logs of {request.week}; {existing}.")
    return [request.week]


def _conclude(
    request: AuditRequest, store: Store, figures: dict[str, Any]
) -> tuple[RunOutcome, dict[str, Any]]:
    """Decide by the week that was asked for, or by the newest, how the run ended."""
    week = request.week or (store.weeks[-1] if store.weeks else None)
    document = store.document(week) if week else None
    if week is None or document is None:
        return RunOutcome(ExitCode.CANNOT_TELL, "no line of these logs has a time"), figures
    problems = [*figures.get("problems", ()), *document["damaged"]]
    closed = document.get("quality", {}).get("closed", ())
    outcome = run_result.decide_outcome(document, problems, closed, request.settings)
    severities = Counter(finding["severity"] for finding in document["findings"])
    address = display(request.store).rstrip("/")
    return outcome, figures | {
        "week": str(week),
        "verdict": document["verdict"],
        "summary": document["summary"],
        "findings": {severity: severities[severity] for severity in WORST_FIRST},
        "older_rules": len(document["older_rules"]),
        "weeks": {str(other): store.verdict(other) for other in store.weeks},
        "page": f"{address}/weeks/{week}/index.html",
        "index": f"{address}/index.html",
    }


class _LazyEngine:
    """An engine that is opened when it is first needed: most runs of a quiet day need none."""

    def __init__(
        self, engines: EngineFactory, stack: ExitStack, watch: Stopwatch, second: SecondProcess,
        *, with_spark: bool,
    ) -> None:  # fmt: skip
        self._engines, self._stack, self._watch, self.second = engines, stack, watch, second
        self._with_spark = with_spark
        self._engine: Engine | None = None

    def __call__(self) -> Engine:
        if self._engine is None:
            with self._watch.stage("start"):
                preload_library(with_spark=self._with_spark, second=self.second)
                self._engine = self._stack.enter_context(self._engines())
        return self._engine
