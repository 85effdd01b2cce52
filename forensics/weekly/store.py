"""A store while a run works on it: what is known, which weeks there are, and what they hold.

What it says depends on the logs that were given, the rules, the notes and how many weeks are kept,
and on nothing else: neither on the order of runs, nor on their number, nor on the time of day.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics import __version__
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import RuleSet
from forensics.lib.deterministic_parquet import iter_tables, sort_rows
from forensics.run_result import Stopwatch
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import CONTAINERS, LOGS, Log, Manifest, supersede
from forensics.weekly.new_inputs import (
    EventsByWeek,
    NewInputs,
    WeekEvents,
    describe_week,
    events_file,
    find_new_inputs,
    merge_week,
    partition_by_week,
    register_inputs,
    weeks_with_events,
)
from forensics.weekly.notes import Notes
from forensics.weekly.pages import index_page, week_page
from forensics.weekly.rules_digest import RulesDigest
from forensics.weekly.store_files import NOTES, STORE_FILE, Transaction
from forensics.weekly.week_builder import SUMMARY, WeekBuilder, week_folder

_SCHEMA = 1
# So many weeks before it stand beside a week.
_EARLIER = 12
_LATEST = "latest.html"
_PLACE = ("line", "offset", "kind", "topic", "partition")


@dataclass(frozen=True)
class ScanResult:
    """What was read: staged events, and the accounts of all files by container and place."""

    staged: Path
    accounts: Mapping[str, FileAccount]


class Store:
    """One store, opened for one run; everything new is drafted until `commit`."""

    def __init__(self, draft: Transaction, book: RulesDigest, notes: Notes) -> None:
        """Read what the store says so far."""
        self.transaction = draft
        self._notes = notes
        self.rules = book
        self.manifest = Manifest.load(draft.find(CONTAINERS), draft.find(LOGS))
        head = draft.find(STORE_FILE)
        said = json.loads(head.read_text(encoding="utf-8")) if head else {"weeks": {}}
        dropped = said.get("dropped_before")
        # Weeks before this one were let go, and their logs are not read again.
        self._floor = Week.parse(dropped) if dropped else None
        self._said: dict[Week, dict[str, Any]] = {
            Week.parse(name): dict(one) for name, one in said["weeks"].items()
        }
        self._touched: set[Week] = set()

    @property
    def weeks(self) -> list[Week]:
        """Give the weeks of which there are logs, in order."""
        reached = {week for log in self.manifest.current_logs() for week in log.weeks_with_lines()}
        every = reached.union(weeks_with_events(self.transaction))
        return sorted(week for week in every if self._floor is None or week >= self._floor)

    def find_new(self, archives: Sequence[str]) -> NewInputs:
        """Look through archives for what was not read before."""
        return find_new_inputs(archives, self.manifest, self.rules.reading)

    def ingest(self, new: NewInputs, reading: ScanResult | None) -> dict[str, Any]:
        """Note what was given, and put the events of what is new into their weeks."""
        read = reading.accounts if reading else {}
        before = dict(self.manifest.logs)
        news = register_inputs(self.manifest, new, read, self.rules.reading)
        result = {"files": new.files, "new": len(new.unread), "read_bytes": new.size}
        if reading is None or not news:
            return result | {"events": 0, "touched": [], "undated": [], "superseded": 0}
        found = partition_by_week(
            reading.staged, news, read, self.transaction.scratch / "spread", self._floor
        )
        for name in news:
            self._note_weeks(name, found)
        begun = supersede(self.manifest, news, lambda log: self._rows(log, news, before, found))
        gone = begun | {name for name in news if name in before}
        skipped = {name for name in news if self.manifest.logs[name].superseded_by is not None}
        self._merge(found, gone, skipped, before)
        for name in begun | skipped:
            self.manifest.logs[name] = replace(self.manifest.logs[name], weeks=())
        undated = [
            self.manifest.name(self.manifest.logs[name])
            for name in news
            if self.manifest.logs[name].is_undated
        ]
        touched = [str(week) for week in sorted(self._touched)]
        return result | {
            "events": found.rows,
            "touched": touched,
            "undated": sorted(undated),
            "superseded": len(begun),
        }

    def drop_old_weeks(self, keep_weeks: int | None) -> None:
        """Let go of all weeks but the newest, if so many are wanted and there are more."""
        weeks = self.weeks
        if keep_weeks is None or len(weeks) <= keep_weeks:
            return
        self._floor = floor = weeks[-keep_weeks]
        for week in {*weeks_with_events(self.transaction), *weeks}:
            if week < floor:
                self.transaction.delete(events_file(week))
                self._said.pop(week, None)
        for name, log in self.manifest.logs.items():
            left = tuple(week for week in log.weeks if week >= floor)
            if left != log.weeks:
                self.manifest.logs[name] = replace(log, weeks=left)

    def build_weeks(  # noqa: PLR0913, PLR0917
        self, weeks: Sequence[Week], forced: Sequence[Week], engine: Any, rules: RuleSet,
        packs: tuple[Path, ...], watch: Stopwatch,
    ) -> Iterator[tuple[Week, Mapping[str, Any]]]:  # fmt: skip
        """Build those weeks anew that have changed; gives each with its findings.json."""
        self._count()
        kept = {
            week: WeekEvents(**one["events"])
            for week, one in self._said.items()
            if one.get("events")
        }
        builder = WeekBuilder(self.transaction, self.manifest, kept, self.rules, rules, packs)
        for week in weeks:
            digest = builder.digest(week)
            said = self._said.setdefault(week, {})
            if week in forced or said.get("built") != digest or self.document(week) is None:
                document = builder.build(week, engine(), watch)
                said["built"] = digest
                yield week, document

    def draw_pages(self, weeks: Sequence[Week]) -> list[Week]:
        """Draw the pages of those weeks that have changed, or whose past has; and the index."""
        self._forget()
        found = self.transaction.find(NOTES)
        said = found.read_bytes() if found else b""
        texts = {one: self._text(one) for one in self.weeks}
        there = [week for week in sorted(texts) if texts[week]]
        drawn = []
        for place, week in enumerate(there):
            past = there[max(0, place - _EARLIER) : place]
            digest = _digest(__version__, said.decode("utf-8", "replace"),
                             *(texts[one] for one in (*past, week)))  # fmt: skip
            name = f"{week_folder(week)}/index.html"
            if week not in weeks or (
                self._said[week].get("drawn") == digest and self.transaction.find(name)
            ):
                continue
            for beside in (SUMMARY, "findings.json"):
                self._bring(f"{week_folder(week)}/{beside}")
            week_page.draw_week(
                self.transaction.new_files / week_folder(week),
                [json.loads(texts[one]) for one in past],
                self._notes,
            )
            self._said[week]["drawn"] = digest
            drawn.append(week)
        if there:
            index_page.draw_index(
                self.transaction.new_files, [json.loads(texts[one]) for one in there], self._notes
            )
            self.transaction.write(_LATEST, _redirect(f"{week_folder(there[-1])}/index.html"))
        return drawn

    def document(self, week: Week) -> dict[str, Any] | None:
        """Give findings.json of a week, if it was built."""
        path = self.transaction.find(f"{week_folder(week)}/findings.json")
        return json.loads(path.read_text(encoding="utf-8")) if path else None

    def verdict(self, week: Week) -> str | None:
        """Say how a week was, if it was built."""
        document = self.document(week)
        return str(document["verdict"]) if document else None

    def commit(self) -> None:
        """Put all that was drafted in its place."""
        self._count()
        self.manifest.save(self.transaction.new_path(CONTAINERS), self.transaction.new_path(LOGS))
        head = {
            "schema": _SCHEMA,
            "rules": self.rules.as_json(),
            "dropped_before": str(self._floor) if self._floor else None,
            "weeks": {str(week): self._said[week] for week in sorted(self._said)},
        }
        self.transaction.write(STORE_FILE, json.dumps(head, indent=1, sort_keys=True) + "\n")
        self.transaction.commit()

    def _note_weeks(self, name: str, found: EventsByWeek) -> None:
        weeks = (week for week, logs in found.logs.items() if week is not None and name in logs)
        self.manifest.logs[name] = replace(self.manifest.logs[name], weeks=tuple(sorted(weeks)))

    def _rows(
        self, log: Log, news: Mapping[str, str], before: Mapping[str, Log], found: EventsByWeek
    ) -> pa.Table:
        """Give all events of a log, new or old, in the order of its lines."""
        wanted = pc.field("file") == log.id
        if log.id in news:
            paths = [found.files[week] for week, logs in found.logs.items() if log.id in logs]
        else:
            names = [events_file(week) for week in (*before[log.id].weeks, None)]
            paths = [path for name in names if (path := self.transaction.find(name))]
        every = [
            part for path in paths for part in iter_tables(path, ["file", *_PLACE, "text"], wanted)
        ]
        if not every:
            return pa.table({name: pa.nulls(0) for name in (*_PLACE, "text")})
        return sort_rows(pa.concat_tables(every), _PLACE)

    def _merge(
        self, found: EventsByWeek, gone: set[str], skipped: set[str], before: Mapping[str, Log]
    ) -> None:
        """Write those weeks anew that get or lose events."""
        losing = {week for name in gone if name in before for week in before[name].weeks}
        touched = {*losing, *found.files, None} if gone else set(found.files)
        for week in sorted(touched, key=lambda one: -1 if one is None else one.number):
            merge_week(self.transaction, week, found.table(week, skipped), gone)
        self._touched |= {week for week in touched if week is not None}

    def _count(self) -> None:
        """Digest the events of the weeks that were written anew."""
        for week in weeks_with_events(self.transaction):
            if week in self._touched or "events" not in self._said.get(week, {}):
                counted = describe_week(self.transaction, week)
                self._said.setdefault(week, {})["events"] = vars(counted) if counted else None
        for week in self._said:
            if self.transaction.find(events_file(week)) is None:
                self._said[week]["events"] = None
        self._touched.clear()

    def _forget(self) -> None:
        """Let the folders go of weeks that are no more."""
        weeks = set(self.weeks)
        self._said = {week: one for week, one in self._said.items() if week in weeks}
        for name in self.transaction.names("weeks"):
            if name.split("/")[1] not in map(str, weeks):
                self.transaction.delete(name)

    def _text(self, week: Week) -> str:
        path = self.transaction.find(f"{week_folder(week)}/{SUMMARY}")
        return path.read_text(encoding="utf-8") if path else ""

    def _bring(self, name: str) -> None:
        """Have a file among the new ones: what draws a page looks nowhere else."""
        path = self.transaction.find(name)
        if path is not None and path != self.transaction.new_files / name:
            self.transaction.write(name, path.read_text(encoding="utf-8"))


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(f"{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _redirect(to: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="0; url={to}"><title>The newest week</title></head>'
        f'<body><p><a href="{to}">The newest week</a></p></body></html>\n'
    )
