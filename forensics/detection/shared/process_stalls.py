"""Times in which a whole process stood still, by its own words or by what it found on waking.

A collector's line states a pause. A ZooKeeper client notices after two thirds of its session that
nothing came: if it notices much later, it did not run. A broker that was fenced, wrote nothing all
that time and went on without a start did not run either, and neither did a controller whose event
took long while its log was silent.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.shared.broker_absences import (
    is_silent,
    no_quorum_absences,
    session_timeout,
)
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND

_SILENCE = "silence"
# More than that are counted by nobody; the longest are kept.
_MOST = 5000
_COLUMNS = ("kind", "ts", "node", "file", "line", "text", "rule", "duration_ms", "value")
_STATED = ("gc_pause", "safepoint_pause", "allocation_stalled")
_SECONDS = ("gc_pause_early", "application_stopped")
# zookeeper.session.timeout.ms since 2.5; shorter ones are named as the session begins
_ZOOKEEPER = 18.0
# Looking into a log costs a read of the events: only that often, the longest first.
_LOOKS = 12


@dataclass(frozen=True)
class ProcessStall:
    """One time in which a node stood still; corrected microseconds."""

    node: str
    begin: int
    end: int
    source: str
    evidence: Sequence[Mapping[str, Any]] = field(default=(), compare=False)

    @property
    def duration(self) -> int:
        """How long it was."""
        return self.end - self.begin


def find_stalls(context: DetectionContext, min_seconds: float) -> list[ProcessStall]:
    """Give the stalls of at least so many seconds, by node; what overlaps is one."""
    every = [
        *_stated(context, min_seconds),
        *_woken(context, min_seconds),
        *_unheard(context),
        *_fenced(context, min_seconds),
    ]
    every += _slow(context, min_seconds)
    found: list[ProcessStall] = []
    reach = 0
    for one in sorted(every, key=lambda each: (each.node, each.begin, each.end, each.source)):
        last = found[-1] if found else None
        if last is not None and last.node == one.node and one.begin <= reach:
            found[-1] = _both(last, one)
            reach = max(reach, one.end)
        elif one.duration >= min_seconds * SECOND:
            found.append(one)
            reach = one.end
    return found


def _both(one: ProcessStall, other: ProcessStall) -> ProcessStall:
    """Make one of two that overlap: what the JVM itself measured says more than a silence."""
    told = [*one.evidence, *other.evidence]
    stated = [each for each in (one, other) if each.source != _SILENCE]
    if len(stated) == 1:
        return replace(stated[0], evidence=told)
    longer = max(one, other, key=lambda each: each.duration)
    begin, end = min(one.begin, other.begin), max(one.end, other.end)
    return replace(longer, begin=begin, end=end, evidence=told)


def _stated(context: DetectionContext, least: float) -> Iterator[ProcessStall]:
    """Read what the JVM itself says: milliseconds, or seconds as text in old ones."""
    kind, long = pc.field("kind"), pc.field("duration_ms") >= round(least * 1000)
    whole = pc.match_substring_regex(pc.field("value"), r"^[1-9]")
    where = (kind.isin(_STATED) & long) | (kind.isin(_SECONDS) & whole)
    rows = context.each("events", where & pc.field("ts").is_valid(), _COLUMNS)
    for row, length in heapq.nlargest(_MOST, _timed(rows), key=lambda one: one[1]):
        if length >= least * SECOND:
            how = "memory" if row["kind"] == "allocation_stalled" else "jvm"
            yield ProcessStall(row["node"] or "", row["at"] - length, row["at"], how, [row])


def _timed(rows: Iterable[Row]) -> Iterator[tuple[Row, int]]:
    for row in rows:
        if row["duration_ms"] is not None:
            yield row, row["duration_ms"] * 1000
        else:
            yield row, round(_number(row["value"]) * SECOND)


def _number(text: str | None) -> float:
    try:
        return float((text or "0").replace(",", "."))
    except ValueError:
        return 0.0


def _woken(context: DetectionContext, least: float) -> Iterator[ProcessStall]:
    """Find ZooKeeper clients that noticed far too late that nothing came."""
    kinds = pc.field("kind").isin(["zookeeper_connected", "zookeeper_disconnected"])
    long = pc.field("duration_ms") >= round(least * 1000)
    lasts: dict[str, int] = {}
    late: list[Row] = []
    for row in context.each("events", kinds & long & pc.field("ts").is_valid(), _COLUMNS):
        node = row["node"] or ""
        if row["kind"] == "zookeeper_connected":
            lasts[node] = max(row["duration_ms"], lasts.get(node, 0))
        else:
            late = [*late, row] if len(late) < _MOST else late
    for row in late:
        node, length = row["node"] or "", row["duration_ms"] * 1000
        session = lasts.get(node, round(_ZOOKEEPER * 1000)) * 1000
        if length - 2 * session / 3 >= least * SECOND:
            yield ProcessStall(node, row["at"] - length, row["at"], _SILENCE, [row])


def _unheard(context: DetectionContext) -> Iterator[ProcessStall]:
    """Take the pauses that lanes found: from a broker's last sign of life to its waking."""
    for broker, spans in context.history.lanes.brokers.items():
        for span in spans:
            if span.state == "paused":
                wake = max([span.end or span.begin, *(one["at"] for one in span.evidence)])
                yield ProcessStall(
                    f"broker-{broker}", span.begin, wake, _SILENCE, list(span.evidence)
                )


def _fenced(context: DetectionContext, least: float) -> Iterator[ProcessStall]:
    """Find brokers that were fenced, were silent all the while, and went on without a start."""
    nodes = {row["node"] for row in context.visibility.files if row["role"] == "broker"}
    lone = no_quorum_absences(context)
    lived: list[Absence] = [
        one
        for one in context.absences
        if one.kind == "pause" and one.end is not None and f"broker-{one.broker}" in nodes
        and (one.broker, one.begin) not in lone
    ]  # fmt: skip
    if not lived or not context.history.context.kraft:
        return
    session = round(session_timeout(context) * SECOND)
    lived.sort(key=lambda one: ((one.begin - (one.end or 0)), one.begin))
    for one in lived[:_LOOKS]:
        node, begin, end = f"broker-{one.broker}", one.begin - session, one.end or one.begin
        if end - begin >= least * SECOND and is_silent(context, node, begin, one.begin):
            yield ProcessStall(node, begin, end, _SILENCE, list(one.evidence))


def _slow(context: DetectionContext, least: float) -> Iterator[ProcessStall]:
    """Find controllers whose log was silent for as long as an event of theirs took."""
    long = pc.field("duration_ms") >= round(least * 1000)
    where = (pc.field("kind") == "quorum_event_slow") & long & pc.field("ts").is_valid()
    rows = heapq.nlargest(_LOOKS, context.each("events", where, _COLUMNS), key=_length)
    for row in rows:
        begin = row["at"] - row["duration_ms"] * 1000
        if row["node"] and is_silent(context, row["node"], begin, row["at"]):
            yield ProcessStall(row["node"], begin, row["at"], _SILENCE, [row])


def _length(row: Row) -> Any:
    return row["duration_ms"], -row["at"], -row["line"]
