"""Runs a declared detector over the tables: a few readings, times held as plain numbers."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

_KEPT = 40
# So many findings of one detector are read by somebody; the first one counts the others.
_MOST = 200
_NAME = re.compile(r"\{([a-z_]+)\}")

Key = tuple[Any, ...]


@dataclass
class _Run:
    """Rows of one subject that make one finding."""

    key: Key
    begin: int
    end: int
    count: int
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class _Nearby:
    """When that was told which must be, or must not be, near a row."""

    asked: NearbyCondition
    must: bool
    told: Mapping[Key, list[int]]

    @classmethod
    def read(cls, asked: NearbyCondition, context: DetectionContext, *, must: bool) -> _Nearby:
        found: dict[Key, array[int]] = {}
        for row, begin, _ in _spans(asked.table, asked.where, context, asked.same):
            found.setdefault(tuple(row[name] for name in asked.same), array("q")).append(begin)
        return cls(asked, must, {key: sorted(held) for key, held in found.items()})

    def holds(self, row: Row, begin: int, end: int, context: DetectionContext) -> bool:
        """Whether it is so; that something is absent nobody says over a hole in the logs."""
        within = round(self.asked.within * SECOND)
        low = begin if self.asked.when == "after" else begin - within
        high = begin if self.asked.when == "before" else end + within
        moments = self.told.get(tuple(row[name] for name in self.asked.same), [])
        there = bisect_right(moments, high) > bisect_left(moments, low)
        if self.must or there:
            return there == self.must
        return high <= context.logs_end and next(context.visibility.gaps(low, high), None) is None


def make_detector(rule: DeclaredDetector) -> Detector:
    """Make a detector of what a file declares."""
    return Detector(rule.id, partial(_find, rule), LogRequirements(rule.roles), rule.means)


def _find(rule: DeclaredDetector, context: DetectionContext) -> Iterator[Finding]:
    limits = {**rule.limits, **context.limits.get(rule.id, {})}
    runs = [
        run
        for key, moments in sorted(_moments(rule, context, limits).items(), key=repr)
        for run in _runs(key, moments, limits)
    ]
    runs.sort(key=lambda run: (-run.count, run.begin, repr(run.key)))
    shown = sorted(runs[:_MOST], key=lambda run: (run.begin, repr(run.key)))
    _fill(rule, context, limits, shown)
    for at, run in enumerate(shown):
        more = {"not_shown": len(runs) - len(shown)} if not at and len(runs) > _MOST else {}
        yield _finding(rule, context, limits, run, more)


def _moments(
    rule: DeclaredDetector, context: DetectionContext, limits: Mapping[str, Any]
) -> dict[Key, list[tuple[int, int]]]:
    """Read when each subject had a row that fits, from when to when."""
    found: dict[Key, array[int]] = {}
    for row, begin, end in _rows(rule, context, limits, ()):
        held = found.setdefault(tuple(row[name] for name in rule.by), array("q"))
        held.extend((begin, end))
    return {key: sorted(zip(held[::2], held[1::2], strict=True)) for key, held in found.items()}


def _rows(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    more: Sequence[str],
) -> Iterator[tuple[Row, int, int]]:
    """Read the rows that fit, with what is near them looked up."""
    near = [_Nearby.read(one, context, must=True) for one in rule.then]
    near += [_Nearby.read(one, context, must=False) for one in rule.unless]
    wanted = [name for one in near for name in one.asked.same]
    least = limits.get("lasts", 0) * SECOND
    for row, begin, end in _spans(rule.table, rule.where, context, [*rule.by, *wanted, *more]):
        if end - begin >= least and all(one.holds(row, begin, end, context) for one in near):
            yield row, begin, end


def _spans(
    table: str, where: Mapping[str, Any], context: DetectionContext, columns: Sequence[str]
) -> Iterator[tuple[Row, int, int]]:
    """Read rows with their moments; what had not ended when the logs did lasts until then."""
    schema, moment = TABLES[table]
    ends = "ended_at" in schema.names
    read = [moment, *(["ended_at"] if ends else []), *(["node"] if table == "events" else [])]
    if table == "events":
        read += ["file", "line", "telling"]
    for row in context.each(table, build_filter(where), list(dict.fromkeys([*read, *columns]))):
        if table == "events" and not context.is_live(row):
            # What a starting controller reads up on is history.
            continue
        begin = row.get("at") if table == "events" else row[moment]
        if begin is not None:
            end = row["ended_at"] if ends else begin
            yield row, begin, max(begin, context.logs_end if end is None else end)


def _runs(key: Key, moments: list[tuple[int, int]], limits: Mapping[str, Any]) -> Iterator[_Run]:
    """Find the stretches of a subject's rows in which enough of them lie close together."""
    least, within = limits["count"], round(limits.get("within", 0) * SECOND)
    begins = [begin for begin, _ in moments]
    # A row counts where some window that holds it holds enough.
    fits = [False] * len(begins)
    for at in range(len(begins) - least + 1):
        if least <= 1 or begins[at + least - 1] - begins[at] <= within:
            fits[at : at + least] = [True] * least
    gap = within if least > 1 else round(limits["gap"] * SECOND)
    run: _Run | None = None
    for (begin, end), fit in zip(moments, fits, strict=True):
        if not fit:
            continue
        if run is not None and begin - run.end <= gap:
            run.end, run.count = max(run.end, end), run.count + 1
            continue
        if run is not None:
            yield run
        run = _Run(key, begin, end, 1)
    if run is not None:
        yield run


def _fill(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    runs: Sequence[_Run],
) -> None:
    """Read the rows once more, and give each run its first ones."""
    of: dict[Key, list[_Run]] = {}
    for run in runs:
        of.setdefault(run.key, []).append(run)
    more = ["text", "rule"] if rule.table == "events" else ["evidence"]
    for row, begin, _ in _rows(rule, context, limits, more) if runs else ():
        mine = of.get(tuple(row[name] for name in rule.by), [])
        at = bisect_right([run.begin for run in mine], begin) - 1
        if at >= 0 and begin <= mine[at].end:
            kept = mine[at].rows
            kept.append(row | {"at": begin})
            if len(kept) > 4 * _KEPT:
                kept[:] = sorted(kept, key=_order)[:_KEPT]


def _order(row: Row) -> tuple[Any, ...]:
    return by_time(row) if "text" in row else (row["at"], repr(row["evidence"][:1]))


def _finding(
    rule: DeclaredDetector,
    context: DetectionContext,
    limits: Mapping[str, Any],
    run: _Run,
    more: Mapping[str, Any],
) -> Finding:
    rows = sorted(run.rows, key=_order)[:_KEPT]
    places = rows
    if rule.table != "events":
        places = context.read_lines(one for row in rows for one in row["evidence"][:3])
    about = dict(zip(rule.by, run.key, strict=True))
    seconds = round((run.end - run.begin) / SECOND, 1)
    words = about | {"count": run.count, "seconds": seconds}
    stated = not rule.unless
    word, reason = context.confidence(run.begin, run.end, places, stated=stated)
    brokers = [about[name] for name in ("broker", "leader") if about.get(name) is not None]
    return Finding(
        detector=rule.id,
        severity=limits["level"],
        confidence=word,
        title=_said(rule.title, words),
        begin=run.begin,
        end=run.end,
        evidence=places,
        brokers=[one for one in brokers if one >= 0],
        partitions=[partition_name(about)] if {"topic", "partition"} <= set(about) else [],
        clients=[about["client"]] if about.get("client") else [],
        measures={"count": run.count, "seconds": seconds, **about, **more},
        explanation=rule.means,
        actions=[_said(one, words) for one in rule.actions],
        why=_why(limits, run.count, seconds),
        reason=reason,
        doubts=rule.beware,
    )


def _said(text: str, words: Mapping[str, Any]) -> str:
    given: Callable[[re.Match[str]], str] = lambda one: str(words.get(one[1], one[0]))  # noqa: E731
    return _NAME.sub(given, text)


def _why(limits: Mapping[str, Any], count: int, seconds: float) -> str:
    if limits["count"] > 1:
        return f"{count} in {seconds} s; {limits['count']} within {limits['within']} s are enough"
    if "lasts" in limits:
        return f"it lasted {seconds} s; {limits['lasts']} s are enough"
    return f"{count} seen; one is enough"
