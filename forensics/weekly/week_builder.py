"""Builds the folder of one week out of the events that are kept: tables, findings, pages.

What a week is made of is digested first, so that only those are built whose digest has changed.

Says which findings belong to a week: those that begin in it, told by corrected time.

So each is told of once, however many weeks it lasts; the day before a week is looked at only to
know how things stood when it began, and the day after to see how things went on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics import pipeline
from forensics.detection.runner import DetectionResults, Outcome
from forensics.engine.base import Engine
from forensics.events.file_accounts import FileAccount, assign_nodes
from forensics.events.packs import RuleSet
from forensics.lib.arrow_io import release_arrow_memory
from forensics.lib.deterministic_parquet import (
    PART_FILE,
    DeterministicWriter,
    iter_tables,
    merge_files,
)
from forensics.lib.time_units import to_arrow_timestamp, to_iso
from forensics.parsing.time_statistics import MIN_SILENCE
from forensics.pipeline import detect_and_gate
from forensics.report import page
from forensics.report.time_window import WindowedRun, narrow_run
from forensics.run_output.findings import Finding, write_findings
from forensics.run_output.reader import RunOutput
from forensics.run_result import Stopwatch
from forensics.schemas import BREACHES, CUTS, EVENTS, FILES, ISR, LEADERSHIP
from forensics.settings import Settings
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import Log, Manifest, account_json, disambiguate_names
from forensics.weekly.new_inputs import WeekEvents, events_file
from forensics.weekly.rules_digest import RulesDigest
from forensics.weekly.store_files import Transaction
from forensics.weekly.week_summary import summarise_week


def begun_in_week(answers: DetectionResults, week: Week) -> DetectionResults:
    """Keep what begins in a week, and count for each detector what is left."""
    found = [one for one in answers.findings if _begins(one, week)]
    hidden = [one for one in answers.suppressed if _begins(one.finding, week)]
    gone = {one.id for one in answers.findings} - {one.id for one in found}
    chains = [one for one in answers.chains if not any(name in str(one) for name in gone)]
    outcomes = [
        _outcome(
            one,
            sum(finding.detector == one.detector for finding in found),
            sum(taken.finding.detector == one.detector for taken in hidden),
        )
        for one in answers.outcomes
    ]
    return replace(answers, findings=found, suppressed=hidden, chains=chains, outcomes=outcomes)


def carried_over(findings: Sequence[Finding], week: Week) -> list[dict[str, Any]]:
    """Name what began before a week, and went on in it: the week before tells of it."""
    return [
        {
            "id": one.id, "detector": one.detector, "severity": one.severity, "title": one.title,
            "from": to_iso(one.begin), "to": to_iso(one.end),
        }
        for one in findings
        if one.begin < week.begin <= one.end
    ]  # fmt: skip


def narrow_to_week(out: Path, document: Mapping[str, Any], week: Week) -> WindowedRun:
    """Look at a run of nine days through the week in its middle, as far as logs reach."""
    run = RunOutput(out, document)
    begin, end = week.begin // 1000, week.end // 1000 - 1
    if run.window and run.window[0] < end and run.window[1] > begin:
        begin, end = max(begin, run.window[0]), min(end, run.window[1])
    return narrow_run(run, (begin, end))


def _begins(finding: Finding, week: Week) -> bool:
    return week.begin <= finding.begin < week.end


def _outcome(one: Outcome, found: int, taken: int) -> Outcome:
    status = "quiet" if one.status == "fired" and not found + taken else one.status
    return replace(one, findings=found, suppressed=taken, status=status)


SUMMARY = "week.json"
_SCHEMA = 1
_FOLDED = (
    ("leadership", LEADERSHIP, ("topic", "partition", "leader_epoch", "started_at", "leader")),
    ("isr", ISR, ("topic", "partition", "leader_epoch", "partition_epoch", "started_at", "leader")),
    ("cuts", CUTS, ("topic", "partition", "leader_epoch", "broker", "started_at", "cut_to")),
    ("breaches", BREACHES, ("topic", "partition", "invariant", "started_at", "detail")),
)


@dataclass(frozen=True)
class WeekBuilder:
    """Builds weeks of one store, all by the same rules."""

    draft: Transaction
    known: Manifest
    kept: Mapping[Week, WeekEvents]
    book: RulesDigest
    rules: RuleSet
    packs: tuple[Path, ...]

    def digest(self, week: Week) -> str:
        """Name all that a week is made of."""
        before, now, after = (self.kept.get(week.shift(by)) for by in (-1, 0, 1))
        made_of = {
            "schema": _SCHEMA,
            "rules": self.book.as_json(),
            "events": [
                before.last_day if before else None,
                now.all if now else None,
                after.first_day if after else None,
            ],
            "logs": [
                [log.id, one.file, log.read_by, account_json(one)] for log, one in self._logs(week)
            ],
        }
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def build(self, week: Week, engine: Engine, watch: Stopwatch) -> dict[str, Any]:
        """Write the folder of a week, all but its page; gives its findings.json."""
        out = self.draft.replace_folder(week_folder(week))
        settings = Settings((), out, packs=self.packs)
        counted = self._counted(week)
        chosen = self._logs(week)
        logs = {log.id: one for log, one in chosen}
        for name, one in logs.items():
            _narrow(one, counted.get(name))
        files = {one.file: one for one in logs.values()}
        assign_nodes(files)
        with watch.stage("history"):
            self._write_events(week, logs, settings.tables / "events")
            pipeline.assign_kafka_versions(files, settings.tables / "events")
            rows = [files[name].to_row() for name in sorted(files)]
            pipeline.write_table(
                pa.Table.from_pylist(rows, schema=FILES), settings.tables / "files"
            )
            past = pipeline.rebuild_history(engine, files, settings, _hush)
            for name, schema, order in _FOLDED:
                merge_files(settings.tables / name, schema, order)
        shutil.rmtree(settings.staging, ignore_errors=True)
        before: list[dict[str, Any]] = []

        def mine(answers: DetectionResults) -> DetectionResults:
            before.extend(carried_over(answers.findings, week))
            return begun_in_week(answers, week)

        document, _ = detect_and_gate(files, past, self.rules, settings, watch, select=mine)
        release_arrow_memory()
        older = sorted(one.file for log, one in chosen if log.read_by != self.book.reading)
        damaged = [f"{name}: {', '.join(files[name].notes)}" for name in sorted(files)
                   if files[name].broken]  # fmt: skip
        document |= {"carried_over": before, "older_rules": older, "damaged": damaged}
        with watch.stage("report"):
            return self._tell(week, out, document)

    def _tell(self, week: Week, out: Path, document: dict[str, Any]) -> dict[str, Any]:
        narrowed = narrow_to_week(out, document, week)
        told = dict(narrowed.document) | {"week": str(week)}
        write_findings(told, out / "findings.json")
        page.render_report(narrowed, out / page.PAGE_NAME, shared="../..")
        summary = summarise_week(out, str(week), document["older_rules"])
        text = json.dumps(summary, indent=1, sort_keys=True, ensure_ascii=False)
        self.draft.write(f"{week_folder(week)}/{SUMMARY}", text + "\n")
        return told

    def _logs(self, week: Week) -> list[tuple[Log, FileAccount]]:
        """Give all logs that may have lines around a week, each with a name of its own.

        What has no time at all is there, too, where it lies in one archive with something that has.
        """
        found = [
            (log, account)
            for log in self.known.current_logs()
            if (account := clip_account(log.parsed_account, *week.padded_range)).first is not None
            or week in log.weeks
        ]
        archives = {container for log, _ in found for container, _ in log.places}
        found += [
            (log, replace(log.parsed_account, counts=Counter(log.parsed_account.counts)))
            for log in self.known.current_logs()
            if log.parsed_account.first is None and not log.weeks
            if any(container in archives for container, _ in log.places)
        ]
        return self._named(found)

    def _named(self, logs: Sequence[tuple[Log, FileAccount]]) -> list[tuple[Log, FileAccount]]:
        ordered = sorted(logs, key=lambda one: (one[0].parsed_account.first or 0, one[0].id))
        names = {log.id: self.known.name(log) for log, _ in ordered}
        names = disambiguate_names(names, [log.id for log, _ in ordered])
        for log, account in ordered:
            account.file = names[log.id]
        return ordered

    def _events(self, week: Week, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Give the events of a week, of the day before and the day after, in a fixed order."""
        begin, end = map(to_arrow_timestamp, week.padded_range)
        inside = (pc.field("ts") >= begin) & (pc.field("ts") < end)
        for one in (week.shift(-1), week, week.shift(1)):
            path = self.draft.find(events_file(one))
            if path is not None:
                yield from iter_tables(path, columns, inside)

    def _counted(self, week: Week) -> dict[str, _Lines]:
        """Count the events of each log, and say from which line to which they stand."""
        found: dict[str, _Lines] = {}
        told = [("line", "count"), ("line", "min"), ("line", "max")]
        for part in self._events(week, ["file", "line"]):
            for row in part.group_by("file").aggregate(told).to_pylist():
                here = _Lines(row["line_count"], row["line_min"], row["line_max"])
                found[row["file"]] = found.get(row["file"], here.none) + here
        return found

    def _write_events(self, week: Week, logs: Mapping[str, FileAccount], target: Path) -> None:
        """Settle the events: the names of this week, and the nodes that they come from."""
        target.mkdir(parents=True)
        known = pa.array(list(logs), pa.string())
        names = pa.array([one.file for one in logs.values()], pa.string())
        nodes = pa.array([one.node for one in logs.values()], pa.string())
        with DeterministicWriter(target / PART_FILE, EVENTS) as writer:
            for part in self._events(week, EVENTS.names):
                # Left out is what has lines in those days, but far from where its others are.
                rows = part.filter(pc.is_in(part["file"], known))
                at = pc.index_in(rows["file"], known)
                columns = {name: rows[name] for name in EVENTS.names}
                columns |= {"file": names.take(at), "node": nodes.take(at)}
                writer.add(pa.table(columns))


@dataclass(frozen=True)
class _Lines:
    """How many events of a log there are, and between which lines."""

    count: int
    first: int
    last: int

    @property
    def none(self) -> _Lines:
        """What changes nothing when this is added to it."""
        return _Lines(0, self.first, self.last)

    def __add__(self, other: _Lines) -> _Lines:
        first, last = min(self.first, other.first), max(self.last, other.last)
        return _Lines(self.count + other.count, first, last)


def _narrow(account: FileAccount, lines: _Lines | None) -> None:
    """Let an account tell of the events of some days alone."""
    account.counts["events"] = lines.count if lines else 0
    falls = [one for one in account.falls if lines and lines.first <= one[5] <= lines.last]
    account.fallen = _of_these(falls, account.falls, account.fallen)
    account.falls = falls


def week_folder(week: Week) -> str:
    """Name the folder of a week."""
    return f"weeks/{week}"


def clip_account(account: FileAccount, begin: int, end: int) -> FileAccount:
    """Give an account as if the file had no lines outside of some days; counts stay as they are."""
    ends = [at for at in (account.first, account.last) if at is not None]
    if ends == sorted(ends):
        ends = [min(max(at, begin), end) for at in ends if ends[0] < end and ends[-1] >= begin]
    else:
        # Its time goes backwards, so that nobody knows what lies between.
        ends = [at for at in ends if begin <= at < end]
    gaps = [
        (max(low, begin), min(high, end), line)
        for low, high, line in account.gaps
        if ends and min(high, end) - max(low, begin) >= MIN_SILENCE
    ]
    if (begin, end) in [gap[:2] for gap in gaps]:
        ends, gaps = [], []
    steps = [step for step in account.steps if any(begin <= at < end for at in step[:2])]
    return replace(
        account,
        counts=Counter(account.counts),
        notes=list(account.notes),
        first=ends[0] if ends else None,
        last=ends[-1] if ends else None,
        gaps=gaps,
        steps=steps,
        stepped=_of_these(steps, account.steps, account.stepped),
    )


def _of_these(kept: Sequence[object], listed: Sequence[object], count: int) -> int:
    """Count what is left of a list that may name only a few of all."""
    return len(kept) if not kept or len(listed) == count else count


def _hush(text: str) -> None:
    """Say nothing: a week is told of when it is done."""
