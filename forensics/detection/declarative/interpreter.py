"""Interprets declared detectors: a few passes over the tables, times held as plain numbers."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import itemgetter
from typing import Any

from forensics.detection.context import DetectionContext, Row, by_time, partition_name
from forensics.detection.declarative.spec import (
    TABLES,
    DeclaredDetector,
    NearbyCondition,
    build_filter,
)
from forensics.detection.requirements import LogRequirements
from forensics.detection.runner import Detector
from forensics.detection.shared.event_sessions import Subject, SubjectSession, add_first, trim_first
from forensics.lib.node_ids import broker_id
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

# So many findings of one detector are shown; the first one counts the others.
_MAX_FINDINGS = 200
_NAME = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class _Nearby:
    """The times at which something happened that must be, or must not be, near a row."""

    condition: NearbyCondition
    must: bool
    times: Mapping[Subject, list[int]]

    @classmethod
    def read(cls, condition: NearbyCondition, context: DetectionContext, *, must: bool) -> _Nearby:
        times: dict[Subject, array[int]] = {}
        for row, begin, _ in _spans(condition.table, condition.where, context, condition.same):
            subject = tuple(row[name] for name in condition.same)
            times.setdefault(subject, array("q")).append(begin)
        return cls(condition, must, {key: sorted(held) for key, held in times.items()})

    def holds(self, row: Row, begin: int, end: int, context: DetectionContext) -> bool:
        """Return True if the condition holds; absence is not known in a gap of the logs."""
        within = round(self.condition.within * SECOND)
        low = begin if self.condition.when == "after" else begin - within
        high = begin if self.condition.when == "before" else end + within
        times = self.times.get(tuple(row[name] for name in self.condition.same), [])
        present = bisect_right(times, high) > bisect_left(times, low)
        if self.must or present:
            return present == self.must
        return high <= context.logs_end and next(context.visibility.gaps(low, high), None) is None


def make_detector(rule: DeclaredDetector) -> Detector:
    """Make a detector that interprets a declaration."""
    return Detector(rule.id, partial(_find, rule), LogRequirements(rule.roles), rule.means)


def _find(rule: DeclaredDetector, context: DetectionContext) -> Iterator[Finding]:
    limits = {**rule.limits, **context.limits.get(rule.id, {})}
    runs = [
        run
        for subject, spans in sorted(_spans_by_subject(rule, context, limits).items(), key=repr)
        for run in _find_runs(subject, spans, limits)
    ]
    runs.sort(key=lambda run: (-run.count, run.begin, repr(run.subject)))
    shown = sorted(runs[:_MAX_FINDINGS], key=lambda run: (run.begin, repr(run.subject)))
    _add_rows(rule, context, limits, shown)
    left_out = max(0, len(runs) - _MAX_FINDINGS)
    for run in shown:
        more = {"not_shown": left_out} if left_out and run is shown[0] else {}
        yield _finding(rule, context, limits, run, more)


def _spans_by_subject(
    rule: DeclaredDetector, context: DetectionContext, limits: Mapping[str, Any]
) -> dict[Subject, list[tuple[int, int]]]:
    found: dict[Subject, array[int]] = {}
    for row, begin, end in _matching_rows(rule, context, limits, ()):
        found.setdefault(tuple(row[name] for name in rule.by), array("q")).extend((begin, end))
    return {key: sorted(zip(held[::2], held[1::2], strict=True)) for key, held in found.items()}


def _matching_rows(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    more: Sequence[str],
) -> Iterator[tuple[Row, int, int]]:
    """Read the rows that match, from when to when, with what is near them looked up."""
    near = [_Nearby.read(one, context, must=True) for one in rule.then]
    near += [_Nearby.read(one, context, must=False) for one in rule.unless]
    columns = [*rule.by, *(name for one in near for name in one.condition.same), *more]
    min_length = limits.get("lasts", 0) * SECOND
    for row, begin, end in _spans(rule.table, rule.where, context, columns):
        if end - begin >= min_length and all(one.holds(row, begin, end, context) for one in near):
            yield row, begin, end


def _spans(
    table: str, where: Mapping[str, Any], context: DetectionContext, columns: Sequence[str]
) -> Iterator[tuple[Row, int, int]]:
    """Read rows with their begin and end; a row that is open at the end of the logs ends there."""
    schema, moment = TABLES[table]
    is_event, has_end = table == "events", "ended_at" in schema.names
    needed = [moment, *(["ended_at"] if has_end else [])]
    needed += ["node", "file", "line", "telling"] if is_event else []
    for row in context.each(table, build_filter(where), list(dict.fromkeys([*needed, *columns]))):
        # What a starting controller replays is history; of what has no time nobody knows.
        if is_event and (row["ts"] is None or not context.is_live(row)):
            continue
        begin = row.get("at") if is_event else row[moment]
        if begin is not None:
            end = row["ended_at"] if has_end else begin
            yield row, begin, max(begin, context.logs_end if end is None else end)


def _find_runs(
    subject: Subject, spans: Sequence[tuple[int, int]], limits: Mapping[str, Any]
) -> Iterator[SubjectSession]:
    """Find the runs of a subject's rows in which enough of them lie close together."""
    min_count, within = limits["count"], round(limits.get("within", 0) * SECOND)
    begins = [begin for begin, _ in spans]
    # A row counts if some window that contains it contains enough rows.
    counts = [False] * len(begins)
    for first in range(len(begins) - min_count + 1):
        if min_count <= 1 or begins[first + min_count - 1] - begins[first] <= within:
            counts[first : first + min_count] = [True] * min_count
    gap = within if min_count > 1 else round(limits["gap"] * SECOND)
    for run in sessions(compress(spans, counts), itemgetter(0), gap, itemgetter(1)):
        yield SubjectSession(subject, run[0][0], max(end for _, end in run), len(run))


def _add_rows(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    runs: Sequence[SubjectSession],
) -> None:
    """Read the rows once more, and give each run its first ones."""
    by_subject: dict[Subject, list[SubjectSession]] = {}
    for run in runs:
        by_subject.setdefault(run.subject, []).append(run)
    more = ["text", "rule"] if rule.table == "events" else ["evidence"]
    for row, begin, _ in _matching_rows(rule, context, limits, more) if runs else ():
        own = by_subject.get(tuple(row[name] for name in rule.by), [])
        index = bisect_right([run.begin for run in own], begin) - 1
        if index >= 0 and begin <= own[index].end:
            add_first(own[index].first, row | {"at": begin}, _order)
    for run in runs:
        trim_first(run.first, _order)


def _order(row: Row) -> tuple[Any, ...]:
    return by_time(row) if "text" in row else (row["at"], repr(row["evidence"][:1]))


def _finding(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    run: SubjectSession,
    more: Mapping[str, Any],
) -> Finding:
    evidence = run.first
    if rule.table != "events":
        evidence = context.read_lines(one for row in run.first for one in row["evidence"][:3])
    subject = dict(zip(rule.by, run.subject, strict=True))
    values = subject | {"count": run.count, "seconds": run.seconds}
    own = broker_id(subject.get("node"))
    if own is not None:
        values["node"] = f"broker {own}"
    title = _fill_in(rule.title, values)
    brokers = [subject[name] for name in ("broker", "leader") if subject.get(name) is not None]
    if "broker" not in subject and own is not None:
        brokers.append(own)
    return context.finding(
        rule.id,
        limits["level"],
        title[:1].upper() + title[1:],
        run.begin,
        run.end,
        evidence,
        stated=not rule.unless,
        brokers=[broker for broker in brokers if broker >= 0],
        partitions=[partition_name(subject)] if {"topic", "partition"} <= set(subject) else [],
        clients=[subject["client"]] if subject.get("client") else [],
        measures={"count": run.count, "seconds": run.seconds, **subject, **more},
        explanation=rule.means,
        actions=[_fill_in(action, values) for action in rule.actions],
        why=_why(limits, run.count, run.seconds),
        doubts=rule.beware,
    )


def _fill_in(text: str, values: Mapping[str, Any]) -> str:
    return _NAME.sub(lambda name: str(values.get(name[1], name[0])), text)


def _why(limits: Mapping[str, Any], count: int, seconds: float) -> str:
    if limits["count"] > 1:
        return f"{count} in {seconds} s; {limits['count']} within {limits['within']} s are enough"
    if "lasts" in limits:
        return f"it lasted {seconds} s; {limits['lasts']} s are enough"
    return f"{count} seen; one is enough"
