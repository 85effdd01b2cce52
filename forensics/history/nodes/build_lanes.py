"""Builds the lanes of all brokers, controllers and clients from the table of events.

Where a broker's log has a gap and no controller observed it, its lane is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.clocks.model import Clocks
from forensics.history.log_coverage import Coverage
from forensics.history.nodes import broker_states
from forensics.history.nodes.broker_states import (
    FOREVER,
    Absence,
    EvidenceRow,
    Span,
    find_cluster_absences,
)
from forensics.history.nodes.controller_processes import ControllerHistory
from forensics.history.nodes.controller_terms import (
    ControllerTerm,
    ControllerTerms,
    DeposedControllers,
)
from forensics.history.nodes.departures import date_departures
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.lib.arrow_io import is_any_of, iter_rows, read_batches, read_events
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import MILLISECOND, SECOND
from forensics.schemas import LANES

# A process that is away is silent; one that is up, and silent too long, may be anything.
_ALIVE = ("up", "starting", "recovering")
# Controllers repeat each other's news within that.
_ECHO = 5 * SECOND
# A controller goes on to apply what it has read for a while after it logs that it has caught up.
_TRAILING = 10 * SECOND
# Lines that come behind others of the same process.
_ENDING = frozenset({"process_started", "process_stopped", "process_failed"})
_LEAVING = frozenset({"process_stopping", "process_stopped", "process_failed"})

Row = dict[str, Any]
Roles = Mapping[str, str | None]
# Begin, end (`FOREVER`: until the logs end), and a line that shows it.
Gap = tuple[int, int, EvidenceRow]

CLIENT_COLUMNS = ("kind", "ts", "node", "error", "file", "line", "duration_ms", "detail")

_STALE_ERRORS = (
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
)
_CONNECTION_ERRORS = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "TIMED_OUT", "DISCONNECTED")
_STATES_BY_KIND = {
    "client_refresh": "stale",
    "client_metadata_stale": "stale",
    "metadata_leaderless": "stale",
    "client_disconnected": "disconnected",
    "client_timeout": "disconnected",
    "client_connect_failed": "disconnected",
    "client_connect_timeout": "disconnected",
    "client_request_cancelled": "disconnected",
    "all_brokers_down": "disconnected",
}
# Clients try again and again; errors within that are one state.
_GAP = 10 * SECOND
_WHOLE_LOG = 1 << 62

# Answers to other requests come at once; those of a group wait for all its members.
_WAITED_MS = 1000
_WAITING_REQUESTS = ("JOIN_GROUP", "SYNC_GROUP", "JoinGroupRequest", "SyncGroupRequest")

# A moment, a line number and a file: lines are ordered so.
Line = tuple[int, int, str]


def mark_unobserved(
    node: str, spans: Sequence[Span], coverage: Coverage, terms: Sequence[ControllerTerm]
) -> list[Span]:
    """Make a lane unknown where nobody could have logged what this broker does."""
    lane = list(spans)
    for gap in _find_gaps(node, coverage):
        if not _is_observed(node, gap, coverage, terms):
            lane = [part for span in lane for part in _mark_gap(span, gap)]
    return lane


def _find_gaps(node: str, coverage: Coverage) -> Iterator[Gap]:
    logs = coverage.logs_of(node)
    for begin, end in coverage.find_gaps(node):
        gaps = (gap for log in logs for gap in log.gaps if gap.begin <= begin and gap.end >= end)
        gap = next(gaps, None)
        if gap is not None:
            yield begin, end, gap.evidence
    if logs and not coverage.reaches_end(node):
        last = max(logs, key=lambda log: log.last)
        yield last.last, FOREVER, last.ends[1]


def _is_observed(node: str, gap: Gap, coverage: Coverage, terms: Iterable[ControllerTerm]) -> bool:
    """Return True if the log of another node that was the active controller covers the gap."""
    begin, end = gap[0], coverage.end if gap[1] == FOREVER else gap[1]
    return any(
        term.node != node
        and term.span.state == "active"
        and term.span.begin <= begin
        and (term.span.end is None or term.span.end >= end)
        and coverage.is_logging_at(term.node, begin)
        and (coverage.is_logging_at(term.node, end) or coverage.reaches_end(term.node))
        and not any(a < end and b > begin for a, b in coverage.find_gaps(term.node))
        for term in terms
    )


def _mark_gap(span: Span, gap: Gap) -> Iterator[Span]:
    begin, end, line = gap
    span_end = FOREVER if span.end is None else span.end
    if span.state not in _ALIVE or span_end <= begin or end <= span.begin:
        yield span
        return
    start, stop = max(begin, span.begin), min(end, span_end)
    if start > span.begin:
        yield replace(span, end=start)
    yield Span("unknown", start, None if stop == FOREVER else stop, [line])
    if stop < span_end:
        yield replace(span, begin=stop)


@dataclass
class Lanes:
    """Lanes of brokers, controllers and clients, and the absences that follow from them.

    `controllers` are the terms by their elections alone, `terms` those with their real ends;
    `with_logs` are the brokers whose own logs are there.
    """

    brokers: Mapping[int, list[Span]]
    controllers: Sequence[ControllerTerm]
    with_logs: frozenset[int] = frozenset()
    terms: ControllerTerms = field(default_factory=lambda: ControllerTerms(()))
    # states of the processes of controllers that are no brokers
    processes: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    void: DeposedControllers = field(default_factory=DeposedControllers)
    clients: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    absences: list[Absence] = field(init=False)

    def __post_init__(self) -> None:
        """Find the absences."""
        self.absences = [
            absence
            for broker, spans in self.brokers.items()
            for absence in find_cluster_absences(
                broker, spans, has_own_log=broker in self.with_logs
            )
        ]

    def table(self, coverage: Coverage) -> pa.Table:
        """Return the table of lanes; in the gaps of logs, a lane is unknown."""
        terms = self.terms.terms
        rows = [
            _row(broker_node(broker), "broker", broker, span)
            for broker, spans in self.brokers.items()
            for span in mark_unobserved(broker_node(broker), spans, coverage, terms)
        ]
        rows += [_row(term.node, "controller", term.controller, term.span) for term in terms]
        ids = {term.node: term.controller for term in terms if term.controller is not None}
        rows += [
            _row(node, "controller", ids.get(node), span)
            for node, spans in self.processes.items()
            for span in mark_unobserved(node, spans, coverage, ())
        ]
        rows += [
            _row(node, "client", None, span)
            for node, spans in self.clients.items()
            for span in spans
        ]
        return pa.Table.from_pylist(rows, schema=LANES)


def build_lanes(
    events: Path, clocks: Clocks, roles: Roles, coverage: Coverage, startups: StartupWindows
) -> Lanes:
    """Follow every broker, controller and client."""
    own_logs = {id_: node for node in roles if (id_ := _broker_id(node, roles)) is not None}
    rows = broker_states.leave_out_second_processes(
        read_events(events, broker_states.LIFECYCLE_KINDS, broker_states.LIFECYCLE_COLUMNS)
    )
    controllers = ControllerHistory(events, clocks, roles, rows)
    news = _select_news(rows, startups, clocks, roles, controllers.void)
    starts = [row for row in news if row["kind"] == "process_starting"]
    last_lines = _read_last_lines(events, starts, clocks)
    brokers = broker_states.build_broker_lanes(news, last_lines)
    unnamed = [row["ts"] for row in starts if row["node"] is None]
    brokers = date_departures(brokers, events, clocks, coverage, unnamed)
    terms, processes = controllers.close(brokers, last_lines)
    return Lanes(
        brokers,
        controllers.terms,
        frozenset(broker for broker, node in own_logs.items() if coverage.logs_of(node)),
        terms,
        processes,
        controllers.void,
        _build_client_lanes(events, clocks, roles),
    )


def _select_news(
    rows: Sequence[Row],
    startups: StartupWindows,
    clocks: Clocks,
    roles: Roles,
    void: DeposedControllers,
) -> list[Row]:
    """Keep what is logged as it happens, and once."""
    # Where a controller logs fencings live, what its metadata log repeats of them adds nothing.
    live = {row["kind"] for row in rows if row["telling"] is None}
    last: dict[tuple[str, int | None], Row] = {}
    news: list[Row] = []
    writers = _find_writers(rows)
    for row in rows:
        writer = writers.get((row["file"], row["line"])) if row["node"] is None else None
        if writer is not None:
            row["node"] = broker_node(writer)
        row["at"] = clocks.event_time(row)
        row["node_broker"] = _broker_id(row["node"], roles)
        if void.include(row, row["at"]):
            continue
        if row["telling"] is not None:
            # What a controller reads from its log as it starts may have been long ago.
            is_old = startups.is_replaying(row["node"] or "", row["ts"], _TRAILING)
            if is_old or row["kind"] in live:
                continue
            before = last.get((row["kind"], row["broker"]))
            if before and before["node"] != row["node"] and row["at"] - before["at"] < _ECHO:
                continue
            last[row["kind"], row["broker"]] = row
        news.append(row)
    return news


def _find_writers(rows: Sequence[Row]) -> dict[tuple[str, int], int]:
    """Tell whose life lines tell of that name nobody, in files that several brokers write to.

    What begins a start or a stop belongs to the broker that is named next. Where two processes
    start or stop at once, and of what ends it, nobody can tell.
    """
    shared = {row["file"] for row in rows if row["node"] is None}
    by_life: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in broker_states.OWN_KINDS and row["file"] in shared:
            by_life[row["file"], row["kind"] in _LEAVING].append(row)
    found: dict[tuple[str, int], int] = {}
    for lines in by_life.values():
        waiting: list[Row] = []
        busy: set[int] = set()
        for row in sorted(lines, key=lambda row: row["line"]):
            broker = _named_broker(row)
            if broker is None:
                waiting += [row] if row["kind"] not in _ENDING else []
            else:
                rules = [one["rule"] for one in waiting]
                if not busy and len(set(rules)) == len(rules):
                    found |= {(one["file"], one["line"]): broker for one in waiting}
                waiting = []
                found[row["file"], row["line"]] = broker
                busy.add(broker)
                if row["kind"] in _ENDING:
                    busy.discard(broker)
    return found


def _named_broker(row: Row) -> int | None:
    named: int | None = broker_id(row["node"]) if row["node"] else row["broker"]
    return named


def _build_client_lanes(events: Path, clocks: Clocks, roles: Roles) -> Mapping[str, Sequence[Span]]:
    """Follow clients in one streaming read: their errors may be as many as lines in the archive."""
    nodes = [node for node, role in roles.items() if role == "client"]
    lanes = ClientLanes()
    batches = read_batches(events, CLIENT_COLUMNS, is_any_of("node", nodes)) if nodes else ()
    for row in iter_rows(batches, CLIENT_COLUMNS):
        if row["ts"] is not None:
            lanes.add_line(row, clocks.event_time(row))
    return lanes.build()


def _broker_id(node: str | None, roles: Roles) -> int | None:
    return broker_id(node) if roles.get(node or "") == "broker" else None


def _read_last_lines(
    events: Path, starts: Sequence[Row], clocks: Clocks
) -> dict[tuple[str, int], Row]:
    """Find the last line each process wrote before it was started again, in one streaming read."""
    last_lines: dict[tuple[str, int], Row] = {}
    starts_of: dict[str, set[int]] = defaultdict(set)
    for row in starts:
        if row["node"] is not None:
            starts_of[row["node"]].add(row["ts"])
    columns = ["node", "ts", "file", "line", "text", "rule"]
    wanted = is_any_of("node", starts_of) & pc.field("ts").is_valid()
    for batch in read_batches(events, columns, wanted) if starts_of else ():
        for node in pc.unique(batch["node"]).to_pylist():
            own = pa.Table.from_batches([batch]).filter(pc.field("node") == node)
            own = own.sort_by([(name, "ascending") for name in ("ts", "line", "file")])
            times = own["ts"].cast(pa.int64()).to_numpy()
            moments = sorted(starts_of[node])
            # The last line before each start.
            places = np.searchsorted(times, moments) - 1
            found = [
                (start, place)
                for start, place, at in zip(moments, places, times[places], strict=True)
                if place >= 0
                and ((node, start) not in last_lines or at >= last_lines[node, start]["ts"])
            ]
            rows = own.take(pa.array([place for _, place in found], pa.int64())).to_pylist()
            for (start, place), row in zip(found, rows, strict=True):
                last = int(times[place])
                row.update(ts=last, at=clocks.correct(node, last))
                best = last_lines.get((node, start))
                if best is None or (last, row["line"]) >= (best["ts"], best["line"]):
                    last_lines[node, start] = row
    return last_lines


def _row(node: str, role: str, broker: int | None, span: Span) -> Row:
    return {
        "node": node,
        "role": role,
        "broker": broker,
        "state": span.state,
        "started_at": span.begin,
        "ended_at": span.end,
        "started_after": span.begin_bracket[0] if span.begin_bracket else None,
        "started_before": span.begin_bracket[1] if span.begin_bracket else None,
        "evidence": [{"file": line["file"], "line": line["line"]} for line in span.evidence],
    }


class _Sessions:
    """Lines that follow each other closely; they may come in any order, and millions of them.

    Of each stretch of `gap` only the first and the last line are kept.
    """

    def __init__(self, gap: int) -> None:
        self._gap = gap
        self._ends: dict[int, tuple[Line, Line]] = {}

    def add(self, line: Line) -> None:
        """Add a line to its session."""
        first, last = self._ends.get(line[0] // self._gap, (line, line))
        self._ends[line[0] // self._gap] = min(first, line), max(last, line)

    def join(self) -> list[tuple[Line, Line]]:
        """Return the first and the last line of each session, in the order of time."""
        ends = (self._ends[stretch] for stretch in sorted(self._ends))
        groups = sessions(ends, lambda two: two[0][0], self._gap, lambda two: two[1][0])
        return [(group[0][0], group[-1][1]) for group in groups]


class ClientLanes:
    """Builds the lanes of clients from their lines, one by one; holds sessions, not lines."""

    def __init__(self) -> None:
        """Begin with no client."""
        self._errors: dict[tuple[str, str], _Sessions] = defaultdict(lambda: _Sessions(_GAP))
        # Silence is no gap in a client's log: a healthy client has nothing to log.
        self._logs: dict[str, _Sessions] = defaultdict(lambda: _Sessions(_WHOLE_LOG))
        # Of what ends in one stretch of time, the request that had waited longest.
        self._waits: dict[str, dict[int, tuple[int, Line]]] = defaultdict(dict)

    def add_line(self, row: Mapping[str, Any], at: int) -> None:
        """Add one line of a client's log, with its corrected time."""
        line = (at, row["line"], row["file"])
        self._logs[row["node"]].add(line)
        state = _state_of(row)
        if state is not None:
            self._errors[row["node"], state].add(line)
            waited = row.get("duration_ms") or 0
            if waited >= _WAITED_MS and row["detail"] not in _WAITING_REQUESTS:
                waits = self._waits[row["node"]]
                wait = at - waited * MILLISECOND, line
                waits[at // _GAP] = min(wait, waits.get(at // _GAP, wait))

    def build(self) -> dict[str, list[Span]]:
        """Return each client's lane, from the first line of its log to the last."""
        return {node: list(self._lane(node)) for node in sorted(self._logs)}

    def _lane(self, node: str) -> Iterator[Span]:
        [(first, last)] = self._logs[node].join()
        stale, disconnected = (
            [_span(state, *ends) for ends in self._errors[node, state].join()]
            for state in ("stale", "disconnected")
        )
        disconnected = _with_waits(disconnected, self._waits[node].values())
        # A broker that responds that it does not lead says more than one that does not respond.
        rest = [part for span in disconnected for part in _subtract(span, stale)]
        begin, line = first[0], _evidence(first)
        for span in sorted([*stale, *rest], key=lambda span: (span.begin, span.end or 0)):
            if span.begin > begin:
                yield Span("healthy", begin, span.begin, [line, span.evidence[0]])
            yield span
            begin, line = span.end or span.begin, span.evidence[-1]
        if last[0] > begin:
            yield Span("healthy", begin, last[0], [line, _evidence(last)])


def _with_waits(spans: Iterable[Span], waits: Iterable[tuple[int, Line]]) -> list[Span]:
    """Let spans begin with the requests that waited until then, and join those that meet."""
    waiting = [Span("disconnected", at, line[0], [_evidence(line)]) for at, line in waits]
    joined: list[Span] = []
    for span in sorted([*spans, *waiting], key=lambda one: (one.begin, one.end or one.begin)):
        last = joined[-1] if joined else None
        if last is None or span.begin > (last.end or last.begin):
            joined.append(span)
            continue
        last.end = max(last.end or last.begin, span.end or span.begin)
        last.evidence = [last.evidence[0], span.evidence[-1]]
    return joined


def _state_of(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "client_error":
        return _STATES_BY_KIND.get(row["kind"])
    if row["error"] in _STALE_ERRORS:
        return "stale"
    return "disconnected" if row["error"] in _CONNECTION_ERRORS else None


def _evidence(line: Line) -> EvidenceRow:
    return {"file": line[2], "line": line[1]}


def _span(state: str, first: Line, last: Line) -> Span:
    lines = dict.fromkeys((first, last))
    return Span(state, first[0], last[0], [_evidence(line) for line in lines])


def _subtract(span: Span, others: Sequence[Span]) -> Iterable[Span]:
    """Yield the parts of a span that no other one covers; a moment is a span, too."""
    begin, end = span.begin, span.end or span.begin
    for other in others:
        until = other.end or other.begin
        if until < begin or other.begin > end:
            continue
        if other.begin > begin:
            yield Span(span.state, begin, other.begin, [span.evidence[0], other.evidence[0]])
        begin = until
        if begin >= end:
            return
    yield Span(span.state, begin, end, list(span.evidence))
