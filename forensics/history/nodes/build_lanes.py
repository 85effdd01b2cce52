"""Follows every broker, controller and client of a cluster through its events.

Lets a broker's lane be unknown where its log has a hole and no controller watched it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history.clocks.model import Clocks
from forensics.history.log_coverage import Coverage
from forensics.history.nodes.broker_states import (
    LIFECYCLE_KINDS,
    WAKE_UP_KINDS,
    Absence,
    Evidence,
    Span,
    build_broker_lanes,
    find_absences,
    insert_pauses,
)
from forensics.history.nodes.client_states import CLIENT_COLUMNS, ClientLanes
from forensics.history.nodes.controller_terms import (
    CONTROLLER_KINDS,
    ControllerTerm,
    ControllerTerms,
    close_terms,
    find_epoch_conflicts,
    find_terms,
)
from forensics.history.nodes.startup_windows import StartupWindows, read_startup_windows
from forensics.lib.arrow_io import SIGHTING, iter_rows, read_batches, read_events
from forensics.lib.time_units import SECOND
from forensics.schemas import LANES

# A process that is away is silent; one that is up, and silent too long, may be anything.
_ALIVE = ("up", "starting", "recovering")

Blank = tuple[int, int | None, Evidence]


def mark_unobserved(
    node: str, spans: Sequence[Span], coverage: Coverage, office: Sequence[ControllerTerm]
) -> list[Span]:
    """Cut out of a lane the stretches in which nobody could have told of this broker."""
    lane = list(spans)
    for blank in _blanks(node, coverage):
        if not _watched(node, blank, coverage, office):
            lane = [part for span in lane for part in _cut(span, blank)]
    return lane


def _blanks(node: str, coverage: Coverage) -> Iterator[Blank]:
    logs = coverage.logs_of(node)
    if not logs:
        return
    for begin, end in coverage.find_gaps(node):
        places = [
            {"file": one.file, "line": one.line}
            for log in logs
            for one in log.gaps
            if one.begin <= begin and one.end >= end
        ]
        if places:
            yield begin, end, places[0]
    if not coverage.reaches_end(node):
        last = max(logs, key=lambda log: log.last)
        file, line = last.ends[1]
        yield last.last, None, {"file": file, "line": line}


def _watched(node: str, blank: Blank, coverage: Coverage, office: Iterable[ControllerTerm]) -> bool:
    """Whether the log of another node that was the active controller covers the stretch."""
    begin, end, _ = blank
    until = coverage.end if end is None else end
    return any(
        other != node
        and span.state == "active"
        and span.begin <= begin
        and (span.end is None or span.end >= until)
        and coverage.is_logging_at(other, begin)
        and (coverage.is_logging_at(other, until) or coverage.reaches_end(other))
        and not any(a < until and b > begin for a, b in coverage.find_gaps(other))
        for other, _, span in office
    )


def _cut(span: Span, blank: Blank) -> Iterator[Span]:
    begin, end, place = blank
    over = span.end is None or span.end > begin
    if span.state not in _ALIVE or not over or (end is not None and end <= span.begin):
        yield span
        return
    start = max(begin, span.begin)
    if start > span.begin:
        yield Span(span.state, span.begin, start, span.evidence, span.epoch)
    stop = span.end if end is None or (span.end is not None and span.end <= end) else end
    yield Span("unknown", start, stop, [place])
    if stop is not None and (span.end is None or stop < span.end):
        yield Span(span.state, stop, span.end, span.evidence, span.epoch)


# Controllers repeat each other's news within that.
_ECHO = 5 * SECOND
# A controller goes on to apply what it has read for a while after it says that it has caught up.
_BEHIND = 10 * SECOND
# A line that is written as a process falls asleep, or wakes, is no sign of life in between.
_DOZING = SECOND // 2

Row = dict[str, Any]


class Lanes:
    """Lanes of brokers, controllers and clients, and the absences that follow from them."""

    def __init__(
        self,
        brokers: Mapping[int, list[Span]],
        controllers: Sequence[ControllerTerm],
        with_logs: frozenset[int] = frozenset(),
        terms: ControllerTerms | None = None,
        clients: Mapping[str, Sequence[Span]] | None = None,
    ) -> None:
        """Take what was followed; `speaking` are the brokers whose own logs are there."""
        self.brokers = brokers
        self.controllers = controllers
        self.terms = terms or ControllerTerms(controllers)
        self.clients = clients or {}
        self.absences: list[Absence] = [
            absence
            for broker, spans in brokers.items()
            for absence in find_absences(broker, spans, has_own_log=broker in with_logs)
        ]

    def table(self, coverage: Coverage | None = None) -> pa.Table:
        """Give the table of lanes; where the logs have holes, a lane is unknown."""
        office, known = self.terms.terms, coverage or Coverage()
        rows = [
            _row(f"broker-{broker}", "broker", broker, span)
            for broker, spans in self.brokers.items()
            for span in mark_unobserved(f"broker-{broker}", spans, known, office)
        ]
        rows += [_row(node, "controller", owner, span) for node, owner, span in office]
        rows += [
            _row(node, "client", None, span)
            for node, spans in self.clients.items()
            for span in spans
        ]
        return pa.Table.from_pylist(rows, schema=LANES)


def build_lanes(events: Path, clocks: Clocks, roles: Mapping[str, str | None]) -> Lanes:
    """Follow every broker, controller and client."""
    news = _news(read_events(events, LIFECYCLE_KINDS), read_startup_windows(events), clocks, roles)
    starts = [row for row in news if row["kind"] == "process_starting"]
    words = _last_words(events, starts, clocks)
    own = (_broker(node, roles) for node in roles)
    speaking = frozenset(broker for broker in own if broker is not None)
    brokers = build_broker_lanes(news, words)
    told = _told_of_controllers(events, clocks)
    reigns = find_terms(told)
    return Lanes(
        _with_pauses(brokers, events, clocks, roles),
        reigns,
        speaking,
        ControllerTerms(close_terms(reigns, told, brokers), find_epoch_conflicts(told)),
        _clients(events, clocks, roles),
    )


def _news(
    told: Sequence[Row], phases: StartupWindows, clocks: Clocks, roles: Mapping[str, str | None]
) -> list[Row]:
    """Keep what is told at first hand, and once."""
    # Where a controller tells live of fencings, what its log repeats of them adds nothing.
    live = {row["kind"] for row in told if row["telling"] is None}
    heard: dict[tuple[str, int | None], Row] = {}
    news: list[Row] = []
    for row in told:
        row["at"] = clocks.event_time(row)
        row["node_broker"] = _broker(row["node"], roles)
        if row["telling"] is not None:
            # What a controller reads from its log as it starts may have been long ago.
            if row["kind"] in live or _is_old(row, phases):
                continue
            before = heard.get((row["kind"], row["broker"]))
            if before and before["node"] != row["node"] and row["at"] - before["at"] < _ECHO:
                continue
            heard[row["kind"], row["broker"]] = row
        news.append(row)
    return news


def _is_old(row: Row, phases: StartupWindows) -> bool:
    stretches = phases.replaying.get(row["node"] or "", ())
    return any(begin <= row["ts"] <= end + _BEHIND for begin, end in stretches)


def _told_of_controllers(events: Path, clocks: Clocks) -> list[Row]:
    columns = [*SIGHTING, "controller", "controller_epoch", "text", "rule"]
    told = read_events(events, CONTROLLER_KINDS, columns)
    # Who is named without an epoch is named by every broker at every connection, and says little.
    kept = [
        row
        for row in told
        if row["kind"] != "controller_seen" or row["controller_epoch"] is not None
    ]
    return [row | {"at": clocks.event_time(row)} for row in kept]


def _clients(
    events: Path, clocks: Clocks, roles: Mapping[str, str | None]
) -> Mapping[str, Sequence[Span]]:
    """Follow clients in one streaming read: their errors may be as many as lines in the archive."""
    nodes = [node for node, role in roles.items() if role == "client"]
    found = ClientLanes()
    if not nodes:
        return {}
    batches = read_batches(events, CLIENT_COLUMNS, pc.field("node").isin(nodes))
    for row in iter_rows(batches, CLIENT_COLUMNS):
        if row["ts"] is not None:
            found.add_line(row, clocks.event_time(row))
    return found.build()


def _with_pauses(
    brokers: Mapping[int, list[Span]],
    events: Path,
    clocks: Clocks,
    roles: Mapping[str, str | None],
) -> Mapping[int, list[Span]]:
    """Look in the logs of brokers that were fenced for what they said as they woke."""
    names = {_broker(node, roles): node for node in roles}
    fenced = {
        broker: names[broker]
        for broker, spans in brokers.items()
        if broker in names and any(span.state == "fenced" for span in spans)
    }
    if not fenced:
        return brokers
    columns = [*SIGHTING, "text", "rule", "duration_ms"]
    wakes: dict[str, list[Row]] = {}
    for row in read_events(events, WAKE_UP_KINDS, columns):
        if row["node"] in fenced.values():
            wakes.setdefault(row["node"], []).append(row | {"at": clocks.event_time(row)})
    found = dict(brokers)
    for broker, node in fenced.items():
        silent = partial(_is_silent, events, clocks, node)
        found[broker] = insert_pauses(brokers[broker], wakes.get(node, ()), silent)
    return found


def _is_silent(events: Path, clocks: Clocks, node: str, begin: int, end: int) -> bool:
    """Whether a node's log has no event between two corrected moments."""
    # Clocks run evenly enough: what is taken off here is taken off there.
    off = begin - clocks.correct(node, begin)
    moment = pc.field("ts").cast(pa.int64())
    inside = (moment > begin + off + _DOZING) & (moment < end + off - _DOZING)
    data = ds.dataset(events, format="parquet")
    return int(data.count_rows(filter=(pc.field("node") == node) & inside)) == 0


def _broker(node: str | None, roles: Mapping[str, str | None]) -> int | None:
    digits = (node or "").rpartition("-")[2]
    return int(digits) if roles.get(node or "") == "broker" and digits.isdigit() else None


def _last_words(
    events: Path, starts: Sequence[Mapping[str, Any]], clocks: Clocks
) -> dict[tuple[str, int], dict[str, Any]]:
    """Find the last line each process wrote before it was started again, in one streaming read."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    wanted: dict[str, list[int]] = {}
    for row in starts:
        wanted.setdefault(row["node"], []).append(row["ts"])
    if not wanted:
        return found
    columns = ["node", "ts", "file", "line", "text", "rule"]
    for batch in read_batches(events, columns, pc.field("node").isin(list(wanted))):
        moments = batch["ts"].cast(pa.int64())
        for node in pc.unique(batch["node"]).to_pylist():
            mine = pc.equal(batch["node"], node)
            for start in wanted[node]:
                before = pc.and_(mine, pc.less(moments, start))
                last = pc.max(moments.filter(before)).as_py()
                best = found.get((node, start))
                if last is None or (best and best["ts"] > last):
                    continue
                rows = batch.filter(pc.and_(before, pc.equal(moments, last))).to_pylist()
                final = max(rows, key=lambda one: (one["line"], one["file"]))
                final.update(ts=last, at=clocks.correct(node, last))
                if best is None or (last, final["line"]) >= (best["ts"], best["line"]):
                    found[node, start] = final
    return found


def _row(node: str, role: str, broker: int | None, span: Span) -> dict[str, Any]:
    return {
        "node": node,
        "role": role,
        "broker": broker,
        "state": span.state,
        "started_at": span.begin,
        "ended_at": span.end,
        "evidence": [{"file": one["file"], "line": one["line"]} for one in span.evidence],
    }
