"""A store while a run works on it: what is known, which weeks there are, and what they hold.

Its content depends on the logs that were given, the rules, the notes and how many weeks are kept,
and on nothing else: neither on the order of runs, nor on their number, nor on the time of day.

A store among objects is copied into a folder, and what a run changed is put back at once: the
changes go up as a single object, the journal, and only then file by file to their places; the
journal is emptied when all is there. A run that opens a store with a journal replays it first, so a
killed run has changed nothing, or all.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics import __version__
from forensics.engine.base import Notify
from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import RuleSet
from forensics.ingest.inputs import Inputs
from forensics.lib.arrow_io import iter_tables, sort_rows
from forensics.lib.folder_lock import LOCK_FILE, lock_address, name_owner, try_lock, wait_for_lock
from forensics.lib.storage import ObjectStore
from forensics.run_result import Stopwatch
from forensics.weekly.atomic_commit import ADVICE, NOTES_FILE, SCRATCH, STORE_FILE, Transaction
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import (
    CONTAINERS,
    LOGS,
    Log,
    Manifest,
    NewInputs,
    find_new_inputs,
    mark_superseded_logs,
    register_inputs,
)
from forensics.weekly.notes import Notes
from forensics.weekly.pages import index_page, week_page
from forensics.weekly.rules_digest import RulesDigest, digest_texts
from forensics.weekly.week_builder import WeekBuilder, week_folder
from forensics.weekly.week_events import (
    EventsByWeek,
    check_events,
    describe_week,
    events_file,
    merge_week,
    partition_by_week,
    read_figures,
    weeks_with_events,
)
from forensics.weekly.week_summary import SUMMARY_FILE, WeekSummary

_SCHEMA = 1
# A week's page compares it with so many weeks before it.
_MAX_EARLIER_WEEKS = 12
_LATEST = "latest.html"
_LOG_ORDER = ("line", "offset", "kind", "topic", "partition")
_JOURNAL = ".commit.tar"
_DELETED = "gone.json"


class Store:
    """One store, opened for one run; all changes are staged until `commit`."""

    def __init__(  # noqa: PLR0913, PLR0917
        self, files: Transaction, rules: RulesDigest, notes: Notes,
        node_map: tuple[str, ...] = (), cluster: str | None = None, notify: Notify = print,
    ) -> None:  # fmt: skip
        """Read what is in the store so far.

        `node_map` says which files are whose, and `cluster` which cluster's logs count.
        """
        self._node_map, self._cluster, self._notify = node_map, cluster, notify
        self.files, self.rules, self._notes = files, rules, notes
        self.manifest = Manifest.load(files.find(CONTAINERS), files.find(LOGS))
        check_events(files)
        head = files.read_json(STORE_FILE) or {"weeks": {}}
        dropped, states = head.get("dropped_before"), head.get("weeks")
        if not isinstance(states, dict) or not all(
            isinstance(one, dict) for one in states.values()
        ):
            raise ForensicsError(f"{files.find(STORE_FILE)} has no weeks. {ADVICE}")
        # Weeks before this one were dropped, and their logs are not read again.
        self._first_kept = Week.parse(str(dropped)) if dropped else None
        # Of each week what its events are, and digests of what it was built and drawn from.
        self._states: dict[Week, dict[str, Any]] = {
            Week.parse(name): dict(state) for name, state in states.items()
        }
        self._changed_weeks: set[Week] = set()

    @property
    def weeks(self) -> list[Week]:
        """The weeks of which there are logs, in order."""
        weeks = set(weeks_with_events(self.files))
        for log in self.manifest.current_logs():
            weeks |= log.weeks_with_lines()
        first = self._first_kept
        return sorted(week for week in weeks if first is None or week >= first)

    def find_new(self, inputs: Inputs) -> NewInputs:
        """Find in archives what was not read before."""
        return find_new_inputs(inputs, self.manifest, self.rules.reading)

    def ingest(
        self, new: NewInputs, staged: Path, accounts: Mapping[str, FileAccount]
    ) -> dict[str, Any]:
        """Note what was given, put new events into their weeks, and return the figures of it.

        `staged` is the folder of read_batches events; accounts have the names that files had there.
        """
        before = dict(self.manifest.logs)
        new_logs = register_inputs(self.manifest, new, accounts, self.rules.reading)
        result = {"files": new.file_count, "new": len(new.unread), "read_bytes": new.bytes_to_read}
        if not new_logs:
            return result | {"events": 0, "touched": [], "undated": [], "superseded": 0}
        scratch = self.files.scratch / "spread"
        events = partition_by_week(staged, new_logs, accounts, scratch, first_kept=self._first_kept)
        for id_ in new_logs:
            weeks = (week for week, logs in events.logs.items() if week and id_ in logs)
            self._set_weeks(id_, sorted(weeks))
        superseded = mark_superseded_logs(
            self.manifest, new_logs, lambda log: self._read_log(log, new_logs, before, events)
        )
        skipped = {id_ for id_ in new_logs if self.manifest.logs[id_].superseded_by is not None}
        removed = superseded | (new_logs.keys() & before.keys())
        self._merge(events, removed, skipped, before)
        for id_ in superseded | skipped:
            self._set_weeks(id_, ())
        logs = (self.manifest.logs[id_] for id_ in new_logs)
        return result | {
            "events": events.rows,
            "touched": [str(week) for week in sorted(self._changed_weeks)],
            "undated": sorted(self.manifest.name(log) for log in logs if log.is_undated),
            "superseded": len(superseded),
        }

    def drop_old_weeks(self, keep_weeks: int | None) -> None:
        """Drop all weeks but the newest, if so many are to be kept and there are more."""
        weeks = self.weeks
        if keep_weeks is None or len(weeks) <= keep_weeks:
            return
        self._first_kept = first = weeks[-keep_weeks]
        for week in {*weeks_with_events(self.files), *weeks}:
            if week < first:
                self.files.delete(events_file(week))
                self._states.pop(week, None)
        for id_, log in self.manifest.logs.items():
            self._set_weeks(id_, [week for week in log.weeks if week >= first])

    def build_weeks(
        self, weeks: Sequence[Week], forced: Sequence[Week], engine: Any, rules: RuleSet,
        watch: Stopwatch,
    ) -> Iterator[tuple[Week, Mapping[str, Any]]]:  # fmt: skip
        """Build those weeks that have changed; yield each with its findings.json."""
        self._describe_changed_weeks()
        events = {
            week: read_figures(state["events"])
            for week, state in self._states.items()
            if state.get("events")
        }
        builder = WeekBuilder(
            self.files, self.manifest, events, self.rules, rules, self._node_map,
            self._cluster, self._notify, engine.second,
        )  # fmt: skip
        for week in weeks:
            digest = builder.digest(week)
            state = self._states.setdefault(week, {})
            if week in forced or state.get("built") != digest or self.document(week) is None:
                document = builder.build(week, engine(), watch)
                state["built"] = digest
                yield week, document

    def draw_pages(self, weeks: Sequence[Week]) -> list[Week]:
        """Draw the pages of those weeks that have changed, or whose past has; and the index."""
        self._delete_dropped_weeks()
        notes = self.files.read(NOTES_FILE)
        names = {week: f"{week_folder(week)}/{SUMMARY_FILE}" for week in self.weeks}
        texts = {week: text for week, name in names.items() if (text := self.files.read(name))}
        built = sorted(texts)
        drawn = []
        for index, week in enumerate(built):
            past = built[max(0, index - _MAX_EARLIER_WEEKS) : index]
            digest = digest_texts([__version__, notes, *(texts[each] for each in (*past, week))])
            folder = week_folder(week)
            is_drawn = self._states[week].get("drawn") == digest
            if week not in weeks or (is_drawn and self.files.find(f"{folder}/index.html")):
                continue
            summary, *earlier = (WeekSummary.from_json(texts[each]) for each in (week, *past))
            page = self.files.new_path(f"{folder}/index.html")
            week_page.draw_week(summary, earlier, self._notes, page)
            self._states[week]["drawn"] = digest
            drawn.append(week)
        if built:
            summaries = [WeekSummary.from_json(texts[week]) for week in built]
            index_page.draw_index(self.files.staged, summaries, self._notes)
            self.files.write(_LATEST, _redirect(f"{week_folder(built[-1])}/index.html"))
        return drawn

    def document(self, week: Week) -> dict[str, Any] | None:
        """Return findings.json of a week, if it was built."""
        return self.files.read_json(f"{week_folder(week)}/findings.json")

    def verdict(self, week: Week) -> str | None:
        """Return the verdict of a week, if it was built."""
        document = self.document(week)
        return str(document["verdict"]) if document else None

    def commit(self) -> None:
        """Make all staged changes at once."""
        self._describe_changed_weeks()
        self.manifest.save(self.files.new_path(CONTAINERS), self.files.new_path(LOGS))
        head = {
            "schema": _SCHEMA,
            "rules": self.rules._asdict(),
            "dropped_before": str(self._first_kept) if self._first_kept else None,
            "weeks": {str(week): self._states[week] for week in sorted(self._states)},
        }
        self.files.write(STORE_FILE, json.dumps(head, indent=1, sort_keys=True) + "\n")
        self.files.commit()

    def _set_weeks(self, id_: str, weeks: Sequence[Week]) -> None:
        log = self.manifest.logs[id_]
        if log.weeks != tuple(weeks):
            self.manifest.logs[id_] = replace(log, weeks=tuple(weeks))

    def _read_log(
        self, log: Log, new_logs: Mapping[str, str], before: Mapping[str, Log],
        events: EventsByWeek,
    ) -> pa.Table:  # fmt: skip
        """Return all events of a log, new or old, in the order of its lines."""
        if log.id in new_logs:
            paths = [events.files[week] for week, logs in events.logs.items() if log.id in logs]
        else:
            names = [events_file(week) for week in (*before[log.id].weeks, None)]
            paths = [path for name in names if (path := self.files.find(name))]
        columns, is_wanted = ["file", *_LOG_ORDER, "text"], pc.field("file") == log.id
        tables = [part for path in paths for part in iter_tables(path, columns, is_wanted)]
        if not tables:
            return pa.table({name: pa.nulls(0) for name in (*_LOG_ORDER, "text")})
        return sort_rows(pa.concat_tables(tables), _LOG_ORDER)

    def _merge(
        self, events: EventsByWeek, removed: set[str], skipped: set[str], before: Mapping[str, Log]
    ) -> None:
        """Write the weeks anew that get new events, or lose those of removed logs."""
        changed = set(events.files)
        if removed:
            losing = (week for id_ in removed & before.keys() for week in before[id_].weeks)
            changed.update(losing, [None])
        for week in sorted(changed, key=lambda week: -1 if week is None else week.number):
            merge_week(self.files, week, events.read(week, skipped), removed)
        self._changed_weeks |= {week for week in changed if week is not None}

    def _describe_changed_weeks(self) -> None:
        """Count and digest the events of the weeks that were written anew."""
        for week in weeks_with_events(self.files):
            if week in self._changed_weeks or "events" not in self._states.get(week, {}):
                events = describe_week(self.files, week)
                self._states.setdefault(week, {})["events"] = events and events._asdict()
        for week, state in self._states.items():
            if self.files.find(events_file(week)) is None:
                state["events"] = None
        self._changed_weeks.clear()

    def _delete_dropped_weeks(self) -> None:
        weeks = {str(week): week for week in self.weeks}
        kept = set(weeks.values())
        self._states = {week: state for week, state in self._states.items() if week in kept}
        for name in self.files.names("weeks"):
            if name.split("/")[1] not in weeks:
                self.files.delete(name)


def _redirect(to: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="0; url={to}"><title>The newest week</title></head>'
        f'<body><p><a href="{to}">The newest week</a></p></body></html>\n'
    )


@contextmanager
def lock_store(store: Path, wait: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a store on a disk; wait so many seconds for another run to release it."""
    store.mkdir(parents=True, exist_ok=True)
    with (store / LOCK_FILE).open("a+", encoding="utf-8") as file:
        wait_for_lock(lambda: try_lock(file), str(store), wait, say)
        name_owner(file)
        try:
            yield
        finally:
            # The file stays: a waiting run has it open, and must not lock one that is gone.
            file.truncate(0)


@contextmanager
def open_remote_store(address: str, wait: float, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield a folder with the content of a store; its changes are put back if the run succeeds."""
    store = ObjectStore(address)
    with (
        lock_address(address, wait, say) as lock,
        TemporaryDirectory(prefix="kafka-forensics-") as scratch,
    ):
        folder = Path(scratch)
        _replay_journal(store)
        before = _download(store, folder)
        # A run that was killed has left there what its executors wrote.
        store.remove_folder(SCRATCH)
        try:
            yield folder
        finally:
            store.remove_folder(SCRATCH)
        lock.confirm()
        _upload_changes(store, folder, before)


def _download(store: ObjectStore, folder: Path) -> dict[str, str]:
    """Copy all files of a store, and return their digests."""
    digests = {}
    for name in filter(_is_visible, store.names()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with store.open(name) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
        digests[name] = _digest(path)
    return digests


def _upload_changes(store: ObjectStore, folder: Path, before: dict[str, str]) -> None:
    paths = {path.relative_to(folder).as_posix(): path
             for path in sorted(folder.rglob("*")) if path.is_file()}  # fmt: skip
    changed = [name for name, path in paths.items()
               if _is_visible(name) and _digest(path) != before.get(name)]  # fmt: skip
    deleted = sorted(set(before) - set(paths))
    if not changed and not deleted:
        return
    with TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        packed = Path(scratch) / "journal.tar"
        with tarfile.open(packed, "w") as journal:
            content = json.dumps(deleted).encode()
            member = tarfile.TarInfo(_DELETED)
            member.size = len(content)
            journal.addfile(member, io.BytesIO(content))
            for name in changed:
                journal.add(paths[name], f"new/{name}")
        with packed.open("rb") as file:
            store.put(_JOURNAL, file)
    try:
        _replay_journal(store)
    except KeyboardInterrupt:
        # All of it is in the store already: what readers see must not stay half of it until the
        # next run. Who is in a hurry interrupts again.
        _replay_journal(store)
        raise


def _replay_journal(store: ObjectStore) -> None:
    """Do what the journal says, if there is one; doing it twice does no more than once."""
    if not store.size(_JOURNAL):
        return
    with store.open(_JOURNAL) as file, tarfile.open(fileobj=file, mode="r:") as journal:
        for member in journal:
            content = journal.extractfile(member) or io.BytesIO()
            if member.name == _DELETED:
                deleted = json.loads(content.read())
            else:
                store.put(member.name.removeprefix("new/"), content)
    for name in deleted:
        store.remove(name)
    store.put(_JOURNAL, io.BytesIO())


def _is_visible(name: str) -> bool:
    """Return True if a file is a part of the store; hidden ones belong to a run."""
    return not any(part.startswith(".") for part in name.split("/"))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
