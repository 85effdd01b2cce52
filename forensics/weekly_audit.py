"""The weekly audit: what is new goes into the store, and the weeks it touches are built anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics import run_result
from forensics.detection.registry import all_detectors
from forensics.engine.base import Engine, Notify
from forensics.engine.progress import SILENT, ProgressListener
from forensics.engine.spark import SparkEngine, translate_spark_errors
from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import load_rule_set, open_pack, packs_to_json
from forensics.ingest.read_plan import split_files
from forensics.lib.storage import display, is_remote
from forensics.pipeline import load_accounts
from forensics.quality.gx_runner import load_checked_expectations, preload_library
from forensics.run_result import ExitCode, RunOutcome, Stopwatch
from forensics.settings import SPLIT_SIZE, Settings
from forensics.weekly.iso_week import Week
from forensics.weekly.new_inputs import NewInputs
from forensics.weekly.notes import load_notes
from forensics.weekly.remote_store import open_remote_store
from forensics.weekly.rules_digest import digest_rules
from forensics.weekly.store import ScanResult, Store
from forensics.weekly.store_files import STORE_FILE, StoreFiles, StoreHeldError, lock_store

EngineFactory = Callable[[], AbstractContextManager[Engine]]


@dataclass(frozen=True)
class AuditRequest:
    """What an audit was asked to do; without archives it builds again what is kept."""

    archives: tuple[str, ...]
    # a folder, or the address of a store of objects
    store: str
    week: Week | None = None
    keep_weeks: int | None = None
    # seconds to wait for another run that holds the store
    wait: float = 0.0
    packs: tuple[Path, ...] = ()
    master: str | None = None
    split_size: int = SPLIT_SIZE
    fail_on: str | None = None
    strict: bool = False
    command: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        """The same, as far as the end of a run depends on it."""
        return Settings(
            self.archives,
            Path(self.store),
            packs=self.packs,
            fail_on=self.fail_on,
            strict=self.strict,
        )


def audit(
    request: AuditRequest,
    say: Notify,
    listener: ProgressListener = SILENT,
    engines: EngineFactory | None = None,
) -> dict[str, Any]:
    """Take archives into a store and draw the weeks that they change; gives how it ended.

    Without archives every week is built again, or the one that was asked for. `engines` opens
    what reads and rebuilds, when it is first needed; Spark, if nothing else is given.
    """
    if not is_remote(request.store):
        StoreFiles(Path(request.store)).refuse_other_folders()
    with Stopwatch(listener) as watch:
        try:
            with _open_store(request, say) as folder:
                return _run_and_save_result(
                    request, folder, say, watch, engines or _spark_engines(request, watch)
                )
        except StoreHeldError as error:
            # Whoever holds the store says in it how that run ended; this one leaves no trace.
            code = int(ExitCode.STORE_LOCKED)
            return {"schema": 1, "exit_code": code, "reason": str(error), **watch.figures()}


@contextmanager
def _open_store(wishes: AuditRequest, say: Notify) -> Iterator[Path]:
    """Hold a store, and give the folder that it is in, or is brought to."""
    if is_remote(wishes.store):
        with open_remote_store(wishes.store, wishes.wait, say) as folder:
            yield folder
    else:
        with lock_store(Path(wishes.store), wishes.wait, say):
            yield Path(wishes.store)


def _run_and_save_result(
    wishes: AuditRequest, folder: Path, say: Notify, watch: Stopwatch, engines: EngineFactory
) -> dict[str, Any]:
    """Run, and leave in the store how that ended; it is no part of what the store says."""
    shelf = StoreFiles(folder)
    try:
        shelf.recover()
        run_result.clear_result(folder)
        end, told = _run(wishes, shelf, say, watch, engines)
    except BaseException as error:
        shelf.roll_back()
        stopped = isinstance(error, KeyboardInterrupt)
        code = ExitCode.INTERRUPTED if stopped else ExitCode.FAILED
        because = "interrupted" if stopped else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            end = RunOutcome(code, because)
            run_result.save_result(folder, end, command=wishes.command, **watch.figures())
        raise
    return run_result.save_result(folder, end, command=wishes.command, **told, **watch.figures())


def _run(
    wishes: AuditRequest, shelf: StoreFiles, say: Notify, watch: Stopwatch, engines: EngineFactory
) -> tuple[RunOutcome, dict[str, Any]]:
    if not wishes.archives and shelf.find(STORE_FILE) is None:
        named = display(wishes.store)
        raise ForensicsError(
            f"{named} is no store: it has no {STORE_FILE}. `audit` makes one of logs."
        )
    packs = [open_pack(path) for path in wishes.packs]
    rules, book = load_rule_set(packs), digest_rules(packs)
    # What is wrong with somebody's own expectations is told before the work, not after it.
    load_checked_expectations(packs)
    # The same holds for notes.
    notes = load_notes(shelf.root, [one.name for one in all_detectors(packs)])
    store = Store(shelf.begin(), book, notes)
    with ExitStack() as opened:
        engine = _LazyEngine(engines, opened, watch)
        told: dict[str, Any] = {}
        if wishes.archives:
            told = _ingest(wishes, store, packs_to_json(packs), engine, say, watch)
        store.drop_old_weeks(wishes.keep_weeks)
        asked = _selected_weeks(wishes, store)
        forced = asked if not wishes.archives else ()
        for week, document in store.build_weeks(asked, forced, engine, rules, wishes.packs, watch):
            say(f"{week}   {len(document['findings'])} findings, verdict: {document['verdict']}")
            told.setdefault("built", []).append(str(week))
    with watch.stage("pages"):
        told["drawn"] = [str(week) for week in store.draw_pages(asked)]
        store.commit()
    return _conclude(wishes, store, told)


def _ingest(  # noqa: PLR0913, PLR0917
    wishes: AuditRequest,
    store: Store,
    overlays: str,
    engine: _LazyEngine,
    say: Notify,
    watch: Stopwatch,
) -> dict[str, Any]:
    """Read what is new, and put its events into their weeks."""
    with watch.stage("plan"):
        new = store.find_new(wishes.archives)
    for label, problem in new.problems:
        say(f"warning: {label}: {problem}; the rest is read")
    many = len(new.unread)
    say(f"archives   {new.files} files, {many} of them not read before")
    if not new.unread:
        return store.ingest(new, None) | {"problems": [": ".join(one) for one in new.problems]}
    with watch.stage("scan"):
        staged = store.transaction.scratch / "scan"
        read = _scan_new(new, staged, wishes.split_size, overlays, engine)
    with watch.stage("merge"):
        told = store.ingest(new, ScanResult(staged, read))
    for name in told["undated"]:
        say(f"warning: {name}: no line of it has a time, so it belongs to no week")
    say(f"events     {told['events']:,} new in {len(told['touched'])} weeks")
    return told | {"problems": [": ".join(one) for one in new.problems]}


def _scan_new(
    new: NewInputs, staged: Path, split_size: int, overlays: str, engine: _LazyEngine
) -> dict[str, FileAccount]:
    work = split_files(new.work, split_size)
    if not work.splits:
        return {name: _unreadable(name, problem) for name, problem in work.problems}
    engine().scan(work.splits, overlays, staged)
    return load_accounts(staged, work)


def _unreadable(name: str, problem: str) -> FileAccount:
    return FileAccount(name, notes=[problem], broken=True)


def _selected_weeks(wishes: AuditRequest, store: Store) -> Sequence[Week]:
    """Say which weeks are to be built and drawn."""
    weeks = store.weeks
    if wishes.week is None:
        return weeks
    if wishes.week not in weeks:
        there = f"it has {weeks[0]} to {weeks[-1]}" if weeks else "it has no week at all"
        store.commit()
        raise ForensicsError(f"{display(wishes.store)} has no logs of {wishes.week}; {there}.")
    return [wishes.week]


def _conclude(
    wishes: AuditRequest, store: Store, told: dict[str, Any]
) -> tuple[RunOutcome, dict[str, Any]]:
    """Say of the week that was asked for, or of the newest, how the run ended."""
    week = wishes.week or (store.weeks[-1] if store.weeks else None)
    document = store.document(week) if week else None
    if week is None or document is None:
        return RunOutcome(ExitCode.CANNOT_TELL, "no line of these logs has a time"), told
    problems = [*told.get("problems", ()), *document["damaged"]]
    closed = document.get("quality", {}).get("closed", ())
    end = run_result.decide_outcome(document, problems, closed, wishes.settings)
    levels = {
        level: sum(one["severity"] == level for one in document["findings"])
        for level in reversed(run_result.SEVERITIES)
    }
    seen = {
        "week": str(week),
        "verdict": document["verdict"],
        "summary": document["summary"],
        "findings": levels,
        "older_rules": len(document["older_rules"]),
        "weeks": {str(one): store.verdict(one) for one in store.weeks},
        "page": f"{display(wishes.store).rstrip('/')}/weeks/{week}/index.html",
        "index": f"{display(wishes.store).rstrip('/')}/index.html",
    }
    return end, told | seen


class _LazyEngine:
    """An engine that is opened when it is first asked for: most runs of a quiet day need none."""

    def __init__(self, engines: EngineFactory, opened: ExitStack, watch: Stopwatch) -> None:
        self._engines, self._opened, self._watch = engines, opened, watch
        self._engine: Engine | None = None

    def __call__(self) -> Engine:
        if self._engine is None:
            with self._watch.stage("start"):
                preload_library()
                self._engine = self._opened.enter_context(self._engines())
        return self._engine


def _spark_engines(wishes: AuditRequest, watch: Stopwatch) -> EngineFactory:
    @contextmanager
    def opened() -> Iterator[Engine]:
        with translate_spark_errors():
            cluster = SparkEngine(wishes.master, watch.listener)
            try:
                yield cluster
            finally:
                cluster.stop()

    return opened
