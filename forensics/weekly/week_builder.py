"""Builds the folder of one week out of the kept events: tables, findings, and postmortem.

What a week is made of is digested first, so that only weeks are built whose digest has changed.

A finding belongs to the week in which it begins, by corrected time. So it is reported once, however
many weeks it lasts; the day before a week is read only to know the states at its begin, and the day
after it to see how things went on.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from forensics import pipeline
from forensics.detection.runner import DetectionResults
from forensics.engine.base import Engine, Notify
from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount, assign_nodes, counted_events
from forensics.events.file_parts import place_shared
from forensics.events.node_map import parse_node_map
from forensics.events.packs import RuleSet
from forensics.events.repeated_lines import find_copies, name_by_repeats, take_out_second_processes
from forensics.events.undated_times import settle_midnights
from forensics.events.zone_changes import settle_zone_changes, shift_events
from forensics.lib.arrow_io import (
    PART_FILE,
    DeterministicWriter,
    iter_tables,
    merge_files,
    release_arrow_memory,
    write_table,
)
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.lib.time_units import to_arrow_timestamp, to_iso
from forensics.parsing.time_statistics import MIN_SILENCE
from forensics.report import page
from forensics.report.time_window import narrow_run
from forensics.run_output.findings import Finding, write_findings
from forensics.run_output.reader import RunOutput
from forensics.run_result import Stopwatch
from forensics.schemas import BREACHES, CUTS, EVENTS, FILES, ISR, LEADERSHIP
from forensics.settings import Settings
from forensics.weekly.atomic_commit import Transaction
from forensics.weekly.iso_week import Week
from forensics.weekly.manifest import Log, Manifest, account_json, disambiguate_names
from forensics.weekly.rules_digest import RulesDigest
from forensics.weekly.week_events import EVENT_ORDER, WeekEvents, events_file
from forensics.weekly.week_summary import SUMMARY_FILE, summarise_week

_SCHEMA = 2
# The tables that an engine leaves in several files, and the order that makes them one.
_REBUILT_TABLES = (
    ("leadership", LEADERSHIP, ("topic", "partition", "leader_epoch", "started_at", "leader")),
    ("isr", ISR, ("topic", "partition", "leader_epoch", "partition_epoch", "started_at", "leader")),
    ("cuts", CUTS, ("topic", "partition", "leader_epoch", "broker", "started_at", "cut_to")),
    ("breaches", BREACHES, ("topic", "partition", "invariant", "started_at", "detail")),
)


def begun_in_week(answers: DetectionResults, week: Week) -> DetectionResults:
    """Return the findings that begin in a week, counted anew for each detector."""
    found = [finding for finding in answers.findings if _begins(finding, week)]
    suppressed = [each for each in answers.suppressed if _begins(each.finding, week)]
    dropped = {finding.id for finding in answers.findings} - {finding.id for finding in found}
    chains = [chain for chain in answers.chains if not any(id_ in str(chain) for id_ in dropped)]
    outcomes = []
    for outcome in answers.outcomes:
        count = sum(finding.detector == outcome.detector for finding in found)
        hidden = sum(each.finding.detector == outcome.detector for each in suppressed)
        is_quiet = outcome.status == "fired" and not count + hidden
        status = "quiet" if is_quiet else outcome.status
        outcomes.append(replace(outcome, findings=count, suppressed=hidden, status=status))
    return replace(answers, findings=found, suppressed=suppressed, chains=chains, outcomes=outcomes)


def _begins(finding: Finding, week: Week) -> bool:
    return week.begin <= finding.begin < week.end


def carried_over(findings: Sequence[Finding], week: Week) -> list[dict[str, Any]]:
    """List what began before a week and went on in it; the week before reports it."""
    return [
        {
            "id": finding.id, "detector": finding.detector, "severity": finding.severity,
            "title": finding.title, "from": to_iso(finding.begin), "to": to_iso(finding.end),
        }
        for finding in findings
        if finding.begin < week.begin <= finding.end
    ]  # fmt: skip


def week_folder(week: Week) -> str:
    """Return the name of the folder of a week."""
    return f"weeks/{week}"


class _EventLines(NamedTuple):
    """How many events of a log there are, and between which lines."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class WeekBuilder:
    """Builds weeks of one store, all by the same rules."""

    files: Transaction
    manifest: Manifest
    events: Mapping[Week, WeekEvents]
    rules: RulesDigest
    catalogue: RuleSet
    node_map: tuple[str, ...] = ()
    cluster: str | None = None
    notify: Notify = print
    second: SecondProcess = ALONE

    def digest(self, week: Week) -> str:
        """Digest all that a week is made of."""
        before, now, after = (self.events.get(week.shift(by)) for by in (-1, 0, 1))
        content = {
            "schema": _SCHEMA,
            "rules": self.rules._asdict(),
            "events": [
                before.last_day if before else None,
                now.all if now else None,
                after.first_day if after else None,
            ],
            "logs": [
                [log.id, account.file, log.read_by, account_json(account)]
                for log, account in self._choose_logs(week)
            ],
        }
        if self.node_map:
            content["node_map"] = self.node_map
        if self.cluster:
            content["cluster"] = self.cluster
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def build(self, week: Week, engine: Engine, watch: Stopwatch) -> dict[str, Any]:
        """Write the folder of a week, all but its page, and return its findings.json."""
        out = self.files.replace_folder(week_folder(week))
        settings = Settings((), out, cluster=self.cluster)
        lines = self._count_events(week)
        logs = self._choose_logs(week)
        for log, account in logs:
            _narrow_account(account, lines.get(log.id))
            # What a log repeats depends on the others of the week.
            account.repeats = Counter()
        accounts = {account.file: account for _, account in logs}
        settle_midnights(accounts.values())
        settle_zone_changes(accounts.values())
        assign_nodes(accounts, parse_node_map(self.node_map))
        for account in accounts.values():
            account.parts = [clip_account(part, *week.padded_range) for part in account.parts]
        with watch.stage("history"):
            events = settings.tables / "events"
            whole = settings.staging / "events"
            owners = {log.id: account for log, account in logs}
            self._write_events(week, owners, whole)
            renamed = name_by_repeats(accounts, whole)
            if take_out_second_processes(accounts, whole) or renamed:
                shutil.rmtree(whole)
                self._write_events(week, owners, whole)
            if pipeline.write_unrepeated(engine, whole, iter, events, accounts, settings.staging):
                merge_files(events, EVENTS, EVENT_ORDER)
            else:
                settings.tables.mkdir(parents=True, exist_ok=True)
                whole.rename(events)
            mixed = self._keep_one_cluster(week, engine, accounts, settings)
            pipeline.assign_kafka_versions(accounts, events)
            pipeline.count_shared_events(accounts, events)
            find_copies(accounts.values())
            rows = [row for _, account in sorted(accounts.items()) for row in account.to_rows()]
            files = pa.Table.from_pylist(rows, schema=FILES)
            write_table(files, settings.tables / "files")
            # A week is reported when it is done, and not in between.
            past = pipeline.rebuild_history(engine, accounts, settings, lambda _: None)
            for name, schema, order in _REBUILT_TABLES:
                merge_files(settings.tables / name, schema, order)
        shutil.rmtree(settings.staging, ignore_errors=True)
        earlier: list[dict[str, Any]] = []

        def choose(answers: DetectionResults) -> DetectionResults:
            earlier.extend(carried_over(answers.findings, week))
            return begun_in_week(answers, week)

        document, _ = pipeline.detect_and_gate(
            accounts, past, self.catalogue, settings, watch, self.second, select=choose
        )
        release_arrow_memory()
        document |= {
            "carried_over": earlier,
            "older_rules": sorted(
                account.file for log, account in logs if log.read_by != self.rules.reading
            ),
            "damaged": [
                f"{name}: {', '.join(account.notes)}"
                for name, account in sorted(accounts.items())
                if account.broken
            ]
            + mixed,
        }
        with watch.stage("report"):
            return self._write_report(week, out, document)

    def _keep_one_cluster(
        self, week: Week, engine: Engine, accounts: Mapping[str, FileAccount], settings: Settings
    ) -> list[str]:
        """Leave out other clusters; say if a week may not be trusted because it has several."""
        events = settings.tables / "events"
        try:
            # The lines that name a cluster may be in other weeks.
            if pipeline.keep_one_cluster(engine, accounts, events, settings, must_name=False):
                merge_files(events, EVENTS, EVENT_ORDER)
        except ForensicsError as error:
            told = f"{week} is not to be trusted: {error}"
            self.notify(f"warning: {told}")
            return [told]
        return []

    def _write_report(self, week: Week, out: Path, document: dict[str, Any]) -> dict[str, Any]:
        whole = RunOutput(out, document)
        begin, end = week.window_ms[0], week.window_ms[1] - 1
        # The page shows the week as far as logs reach.
        if whole.window and whole.window[0] < end and whole.window[1] > begin:
            begin, end = max(begin, whole.window[0]), min(end, whole.window[1])
        run = narrow_run(whole, (begin, end))
        narrowed = dict(run.document) | {"week": str(week)}
        write_findings(narrowed, out / "findings.json")
        target, drawn = out / page.PAGE_NAME, partial(replace, run)
        page.render_report(drawn, target, shared="../..", second=self.second)
        summary = summarise_week(out, str(week), document["older_rules"])
        self.files.write(f"{week_folder(week)}/{SUMMARY_FILE}", summary.to_json())
        return narrowed

    def _choose_logs(self, week: Week) -> list[tuple[Log, FileAccount]]:
        """Return the logs that may have lines around a week, each with a name of its own.

        Logs without any time are there, too, if another log of the same archive is.
        """
        logs, undated = [], []
        for log in self.manifest.current_logs():
            account = clip_account(log.parsed_account, *week.padded_range)
            if account.first is not None or week in log.weeks:
                logs.append((log, account))
            elif log.parsed_account.first is None and not log.weeks:
                undated.append((log, account))
        archives = {container for log, _ in logs for container, _ in log.places}
        logs += [
            (log, account)
            for log, account in undated
            if any(container in archives for container, _ in log.places)
        ]
        logs.sort(key=lambda each: (each[0].parsed_account.first or 0, each[0].id))
        names = {log.id: self.manifest.name(log) for log, _ in logs}
        names = disambiguate_names(names, list(names))
        for log, account in logs:
            account.file = names[log.id]
        return logs

    def _read_events(self, week: Week, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the events of a week, of the day before and the day after, in a fixed order."""
        begin, end = map(to_arrow_timestamp, week.padded_range)
        is_inside = (pc.field("ts") >= begin) & (pc.field("ts") < end)
        for each in (week.shift(-1), week, week.shift(1)):
            path = self.files.find(events_file(each))
            if path is not None:
                yield from iter_tables(path, columns, is_inside)

    def _count_events(self, week: Week) -> dict[str, _EventLines]:
        """Return how many events each log has around a week, and between which lines."""
        figures = [("line", "count"), ("line", "min"), ("line", "max")]
        counted = [
            part.group_by("file").aggregate(figures)
            for part in self._read_events(week, ["file", "line"])
        ]
        if not counted:
            return {}
        figures = [("line_count", "sum"), ("line_min", "min"), ("line_max", "max")]
        total = pa.concat_tables(counted).group_by("file").aggregate(figures)
        columns = (total[f"{column}_{figure}"].to_pylist() for column, figure in figures)
        ranges = map(_EventLines, *columns)
        return dict(zip(total["file"].to_pylist(), ranges, strict=True))

    def _write_events(self, week: Week, accounts: Mapping[str, FileAccount], target: Path) -> None:
        """Write the events with the file names of this week, and the nodes that they come from."""
        target.mkdir(parents=True)
        ids = pa.array(list(accounts), pa.string())
        names = pa.array([account.file for account in accounts.values()], pa.string())
        nodes = pa.array([account.node for account in accounts.values()], pa.string())
        refused = [log for log, account in accounts.items() if account.is_refused]
        placements = (account.placement for account in accounts.values())
        shared = {number: one for number, one in enumerate(placements) if one}
        shifts = {
            number: account.shifts
            for number, account in enumerate(accounts.values())
            if account.shifts
        }
        with DeterministicWriter(target / PART_FILE, EVENTS) as writer:
            for part in self._read_events(week, EVENTS.names):
                # A log may have lines in those days, but far from all its others: it is left out.
                rows = part.filter(pc.is_in(part["file"], ids))
                rows = rows.filter(counted_events(rows, refused))
                index = pc.index_in(rows["file"], ids)
                columns = {name: rows[name] for name in EVENTS.names}
                numbers, lines = index.combine_chunks(), rows["line"].combine_chunks()
                part_nodes = place_shared(
                    nodes.take(index).combine_chunks(), numbers, lines,
                    rows["node"].combine_chunks(), shared,
                )  # fmt: skip
                columns |= {"file": names.take(index), "node": part_nodes}
                if shifts:
                    times = rows["ts"].combine_chunks()
                    columns["ts"] = shift_events(times, numbers, lines, shifts)
                writer.add(pa.table(columns))


def _narrow_account(account: FileAccount, lines: _EventLines | None) -> None:
    """Let an account count the events between some lines alone."""
    account.counts["events"] = lines.number if lines else 0
    falls = [fall for fall in account.falls if lines and lines.first <= fall[5] <= lines.last]
    account.fallen = _count_left(falls, account.falls, account.fallen)
    account.falls = falls


def clip_account(account: FileAccount, begin: int, end: int) -> FileAccount:
    """Return an account as if the file had lines on some days alone; counts stay as they are."""
    ends = [moment for moment in (account.first, account.last) if moment is not None]
    if ends == sorted(ends):
        is_near = bool(ends) and ends[0] < end and ends[-1] >= begin
        ends = [min(max(moment, begin), end) for moment in ends if is_near]
    else:
        # Its time goes backwards, so that nobody knows what lies between.
        ends = [moment for moment in ends if begin <= moment < end]
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
        stepped=_count_left(steps, account.steps, account.stepped),
    )


def _count_left(left: Sequence[object], join_names: Sequence[object], count: int) -> int:
    """Return the length of what is left of a list, or `count` if the list has not all items."""
    return len(left) if not left or len(join_names) == count else count
