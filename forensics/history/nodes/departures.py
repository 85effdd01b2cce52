"""Dates the moment at which a broker that nobody stopped went, and tells how it went.

A process that dies or hangs logs nothing about it. The moment lies between the last sign of life
(its own last line, the fencing less the session timeout, a request that others sent to it and that
was never answered) and the first word of others: their connections to it broke, or it was fenced.
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
from forensics.history.nodes.broker_states import EvidenceRow, Span, evidence_of
from forensics.lib.arrow_io import SIGHTING, is_any_of, iter_rows, read_batches, read_events
from forensics.lib.intervals import IntervalIndex
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import MILLISECOND, SECOND
from forensics.lib.whole_numbers import whole_number

# What a process logs of connections and requests to others that came to nothing.
WAIT_KINDS = ("zookeeper_disconnected", "peer_request_lost", "peer_timed_out", "heartbeat_failed")
# What other brokers and controllers log of a `peer`, and clients of a `broker`.
_BY_PEERS = ("peer_disconnected", "peer_request_lost", "fetch_request_failed", "peer_unreachable")
_BY_CLIENTS = ("client_disconnected", "client_request_cancelled", "fetch_failed")
# A connection that was merely idle is closed, too; a request that is lost with it was not idle.
_IDLE = ("peer_disconnected", "client_disconnected")
# What a peer sends again as soon as it is answered; not all versions name the request.
_ON_AND_ON = ("FETCH", None)
# The JVM logs these itself while all threads of the broker may stand still.
_BY_JVM = (
    "gc_pause", "gc_pause_short", "gc_pause_early", "safepoint_pause", "application_stopped",
    "allocation_stalled",
)  # fmt: skip
_COLUMNS = (
    "kind", "ts", "node", "file", "line", "broker", "peer", "duration_ms", "value", "text", "rule",
)  # fmt: skip
# Those of connections that were in use as they broke.
_IN_USE = ("peer_request_lost", "fetch_request_failed", "client_request_cancelled", "fetch_failed")
_NOT_REACHED = ("could not be established", "refused", "sessionId=INVALID", "sessionId=0,")
# A client calls the connection to its group's coordinator by this number less the broker's id.
_COORDINATORS = (1 << 31) - 1
_SESSION = 9 * SECOND
_HEARTBEAT = 2 * SECOND
# Controllers, and ZooKeeper, look for sessions that are over every now and then.
_TICK = 2 * SECOND
# Followers, and voters of a quorum, fetch at least that often.
_FETCHING = SECOND // 2
# A request on its way for longer than that was not lost with a process that died just then.
_IN_FLIGHT = 2 * SECOND
# Clients and fetchers try again at least that often, so longer silence parts two departures.
_RETRYING = 10 * SECOND
# All who had connections log within that that these broke.
_TOGETHER = SECOND
# A line written as a process falls asleep or wakes up.
_DOZING = SECOND // 2
# After a hang, everything that piled up is logged within that.
_WAKING = 2 * SECOND
# So many lines of a departure are kept; those who try on write thousands.
_MAX_LINES = 20_000


@dataclass
class _Departure:
    """A broker's span of being dead or fenced, with what is known of how it began."""

    broker: int
    span: Span
    # when it was up last for sure, and when others knew that it was not
    low: int
    high: int
    back: int | None
    fenced: int | None
    # between which moments the cluster heard of it for the last time
    heard: tuple[int, int] | None = None
    # how often a process that lives is heard of
    beat: int = _HEARTBEAT
    breaks: list[Mapping[str, Any]] = field(default_factory=list)
    waits: list[Mapping[str, Any]] = field(default_factory=list)
    # the broker's own last line before it should have been heard again, and the next one
    last_own: int | None = None
    first_own: int | None = None
    # whether a process that names itself nowhere started meanwhile
    may_have_started: bool = False

    @property
    def edge(self) -> int:
        """From when on a process that was alive would have been heard."""
        return self.heard[1] if self.heard else self.high

    @property
    def end(self) -> int:
        """Until when it was away, or a moment that never comes."""
        return self.back if self.back is not None else 1 << 62


def date_departures(
    brokers: Mapping[int, Sequence[Span]], events: Path, clocks: Clocks, coverage: Coverage,
    unnamed_starts: Iterable[int] = (),
) -> dict[int, list[Span]]:  # fmt: skip
    """Return the lanes with every unplanned departure at its best estimate, and called by its kind.

    A span of being fenced becomes `crashed`, `paused` or `isolated` where lines prove it.
    `unnamed_starts` are the logged times at which some process started, nobody can tell which.
    """
    departures = [
        found for broker in brokers for found in _find_departures(broker, brokers[broker])
    ]
    if departures:
        timeouts = _Sessions(events, clocks)
        for departure in departures:
            departure.heard = timeouts.last_heard(departure)
        _read_own_lines(departures, events, clocks)
        unnamed = list(unnamed_starts)
        for departure in departures:
            node, since = broker_node(departure.broker), departure.last_own or departure.low
            starts = (clocks.correct(node, start) for start in unnamed)
            departure.may_have_started = any(since <= start <= departure.end for start in starts)
        _read_lines_of_others(departures, brokers, events, clocks)
        together = _fenced_together(departures, len(brokers))
        together |= _unanswered_by_zookeeper(departures, brokers, events, clocks)
        for departure in departures:
            if departure.span.state == "crashed":
                _date_crash(departure)
            else:
                _date_fencing(departure, coverage, is_common=departure.high in together)
    changed = {id(one.span): one for one in departures}
    return {broker: list(_rebuild(spans, changed)) for broker, spans in brokers.items()}


def _find_departures(broker: int, spans: Sequence[Span]) -> Iterator[_Departure]:
    for index, span in enumerate(spans):
        before = spans[index - 1] if index else None
        if span.state == "crashed" and span.evidence[0]["what"] != "failed":
            fence = _fencing(span)
            low = span.begin if span.begin != fence else (before.begin if before else span.begin)
            ends = [moment for moment in (fence, span.end) if moment is not None and moment >= low]
            later = spans[index : index + 1]
            for span_after in spans[index + 1 :]:
                if span_after.state == "up":
                    break
                later = [*later, span_after]
            # The session of a process that is dead may run out when the next one has begun.
            fences = (at for one in later if (at := _fencing(one)) is not None)
            if ends:
                yield _Departure(broker, span, low, min(ends), span.end, next(fences, None))
        elif span.state == "fenced" and before is not None and before.state == "up":
            yield _Departure(broker, span, before.begin, span.begin, span.end, span.begin)


def _fencing(span: Span) -> int | None:
    return next((line["at"] for line in span.evidence if line.get("what") == "fenced"), None)


class _Sessions:
    """How long the sessions of brokers last, and when one could not run out."""

    def __init__(self, events: Path, clocks: Clocks) -> None:
        columns = [*SIGHTING, "duration_ms", "setting", "value", "broker", "controller", "telling"]
        kinds = ["zookeeper_connected", "setting_seen", "controller_elected", "broker_registered"]
        self._elected: list[int] = []
        self._registered: dict[int, list[int]] = defaultdict(list)
        self._timeouts: dict[str, int] = {}
        # what all say that nobody can tell apart
        self._unnamed = 0
        unnamed = set[int]()
        self._default = _SESSION
        # Settings are many, and seldom these.
        named = pc.field("setting").isin(_TIMEOUT_SETTINGS)
        where = (pc.field("kind") != "setting_seen") | named
        for row in read_events(events, kinds, columns, where):
            node, length = row["node"] or "", row["duration_ms"]
            if row["kind"] == "controller_elected":
                self._elected.append(clocks.event_time(row))
            elif row["kind"] == "broker_registered":
                if row["controller"] is not None and row["telling"] is None:
                    self._registered[row["broker"]].append(clocks.event_time(row))
            elif row["kind"] == "zookeeper_connected":
                self._default = 0
                if length:
                    self._timeouts[node] = length * MILLISECOND
                    unnamed |= {length} if not node else set()
            elif row["setting"] in _TIMEOUT_SETTINGS and (named := whole_number(row["value"])):
                self._timeouts.setdefault(node, named * MILLISECOND)
                unnamed |= {named} if not node else set()
        if len(unnamed) == 1:
            self._unnamed = unnamed.pop() * MILLISECOND

    def last_heard(self, departure: _Departure) -> tuple[int, int] | None:
        """Return between which moments a broker was heard for the last time.

        A KRaft controller that was elected meanwhile has given everybody a new session.
        """
        timeout = self._timeouts.get(broker_node(departure.broker), self._unnamed or self._default)
        slack = _TICK
        over = departure.fenced
        if over is None and departure.back is not None and self._default:
            # It registered anew before its session was over.
            starts = self._registered.get(departure.broker, ())
            over = min((at for at in starts if at >= departure.back), default=None)
        if not timeout or over is None or over - timeout > departure.high + timeout:
            return None
        heard = over - timeout
        # ZooKeeper keeps the sessions of its brokers whoever is the controller.
        if self._default and any(heard - timeout - slack < at <= over for at in self._elected):
            return None
        departure.beat = _HEARTBEAT if self._default else timeout // 3
        latest = heard + departure.beat
        return heard - slack, latest if departure.fenced is not None else departure.high


_TIMEOUT_SETTINGS = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")


def _read_own_lines(departures: Sequence[_Departure], events: Path, clocks: Clocks) -> None:
    """Find each broker's last line before it was missed and its first one after, in one pass."""
    of_node: dict[str, list[_Departure]] = defaultdict(list)
    for departure in departures:
        of_node[broker_node(departure.broker)].append(departure)
    # Clocks run evenly enough: one correction holds for the whole departure.
    edges = {
        node: [2 * one.edge - clocks.correct(node, one.edge) for one in own]
        for node, own in of_node.items()
    }
    where = is_any_of("node", of_node) & pc.field("ts").is_valid()
    where &= ~pc.field("kind").isin(_BY_JVM)
    for batch in read_batches(events, ["node", "ts"], where):
        for node in pc.unique(batch["node"]).to_pylist():
            own = batch["ts"].cast(pa.int64()).filter(pc.equal(batch["node"], node))
            times = np.sort(own.to_numpy(zero_copy_only=False))
            places = np.searchsorted(times, edges[node]).tolist()
            for departure, place in zip(of_node[node], places, strict=True):
                if place > 0:
                    known = departure.last_own
                    at = clocks.correct(node, int(times[place - 1]))
                    departure.last_own = at if known is None else max(at, known)
                if place < len(times):
                    known = departure.first_own
                    at = clocks.correct(node, int(times[place]))
                    departure.first_own = at if known is None else min(at, known)


def _read_lines_of_others(
    departures: Sequence[_Departure],
    brokers: Mapping[int, Sequence[Span]],
    events: Path,
    clocks: Clocks,
) -> None:
    """Read what others logged of the brokers around their departures, and what these waited for.

    Who is being stopped closes all its connections itself, which says nothing of the other end.
    """
    stops = {
        broker: IntervalIndex(
            [span for span in spans if span.state in ("stopping", "stopped")],
            lambda span: (span.begin, span.begin if span.end is None else span.end),
        )
        for broker, spans in brokers.items()
    }
    of_broker: dict[int, list[_Departure]] = defaultdict(list)
    for departure in departures:
        of_broker[departure.broker].append(departure)
    ids = [*of_broker, *(_COORDINATORS - broker for broker in of_broker)]
    kind, nodes = pc.field("kind"), [broker_node(broker) for broker in of_broker]
    where = kind.isin(_BY_PEERS) & pc.field("peer").isin(ids)
    where |= kind.isin(_BY_CLIENTS) & pc.field("broker").isin(ids)
    where |= kind.isin(WAIT_KINDS) & pc.field("node").isin(nodes)
    where &= pc.field("ts").is_valid()
    seen = {
        broker: IntervalIndex(own, lambda one: (one.low - _TOGETHER, one.high + _WAKING))
        for broker, own in of_broker.items()
    }
    away = {
        broker: IntervalIndex(own, lambda one: (one.low, one.end + _WAKING))
        for broker, own in of_broker.items()
    }
    for row in iter_rows(read_batches(events, _COLUMNS, where), _COLUMNS):
        row["at"] = clocks.event_time(row)
        target = row["peer"] if row["kind"] in _BY_PEERS else row["broker"]
        if target is not None and target > _COORDINATORS // 2:
            target = _COORDINATORS - target
        own = broker_id(row["node"])
        is_closing = own in stops and stops[own].around(row["at"], row["at"])
        if target in seen and own != target and not is_closing:
            for departure in seen[target].around(row["at"], row["at"]):
                _keep(departure.breaks, row)
        if row["kind"] in WAIT_KINDS and own in away:
            for departure in away[own].around(row["at"], row["at"]):
                _keep(departure.waits, row)


def _keep(rows: list[Mapping[str, Any]], row: Mapping[str, Any]) -> None:
    if len(rows) < _MAX_LINES:
        rows.append(row)


def _fenced_together(departures: Sequence[_Departure], brokers: int) -> set[int]:
    """Return the moments at which most brokers were fenced: not one of them was cut off alone."""
    fenced = sorted((one for one in departures if one.span.state == "fenced"), key=lambda x: x.high)
    return {
        one.high
        for group in sessions(fenced, lambda one: one.high, _WAKING)
        if len({one.broker for one in group}) > 1
        and 2 * len({one.broker for one in group}) > brokers
        for one in group
    }


def _unanswered_by_zookeeper(
    departures: Sequence[_Departure], brokers: Mapping[int, object], events: Path, clocks: Clocks
) -> set[int]:
    """Return the moments before which ZooKeeper had left most brokers without an answer.

    Whose session it ends then was not cut off alone: ZooKeeper froze, or was too slow.
    """
    nodes = {broker_node(broker): broker for broker in brokers}
    where = (pc.field("kind") == "zookeeper_disconnected") & is_any_of("node", nodes)
    columns = ("ts", "node", "file", "line", "duration_ms")
    waits: list[tuple[int, int, int]] = []
    for row in iter_rows(
        read_batches(events, columns, where & pc.field("duration_ms").is_valid()), columns
    ):
        at = clocks.event_time(row)
        waits.append((nodes[row["node"]], at - row["duration_ms"] * MILLISECOND, at))
    index = IntervalIndex(waits, lambda wait: wait[1:])
    found = set()
    for departure in departures:
        since = departure.heard[0] if departure.heard else departure.high - _SESSION
        near = index.around(since, departure.high)
        waiting = {broker for broker, *_ in near} | {departure.broker}
        if len(waiting) > 1 and 2 * len(waiting) > len(brokers):
            found.add(departure.high)
    return found


def _date_crash(departure: _Departure) -> None:
    """Date the death of a process."""
    low = max(departure.low, departure.heard[0]) if departure.heard else departure.low
    low = min(low, departure.high)
    high = min(departure.high, departure.heard[1]) if departure.heard else departure.high
    broken, lines = _find_break(departure, low, departure.high)
    high = max(low, min(high, lines[0]["at"] if lines else high))
    if broken is None and departure.heard:
        broken = (low + high) // 2
    _set_moment(departure.span, broken, lines, low, high)


def _date_fencing(departure: _Departure, coverage: Coverage, *, is_common: bool) -> None:
    """Tell whether a process that was fenced hung, was cut off or died, and since when."""
    span, heard, high = departure.span, departure.heard, departure.high
    low = max(departure.low, heard[0]) if heard else departure.low
    broken, lines = _find_break(departure, low, high - _TOGETHER)
    first = departure.first_own
    if departure.back is None and broken is not None and (first is None or first < broken):
        # The process was gone, and did not return: its connections broke, and it wrote no more.
        span.state = "crashed"
        _set_moment(span, broken, lines, low, high)
        return
    unanswered = [*_unanswered_fetches(departure, low), *_unanswered_waits(departure, low)]
    if not (heard or unanswered) or not _could_log(departure, coverage):
        return
    signs = [(low, high), *unanswered]
    if departure.last_own is not None:
        signs.append((departure.last_own, high))
    begin, latest = _between(signs, departure.edge)
    is_silent = first is None or first >= high - _DOZING
    if first is not None and not is_silent and _goes_on_waiting(departure, first):
        if not is_common:
            span.state = "isolated"
            sent = [(low, high), *_unanswered_fetches(departure, low)]
            begin, latest = _between(sent, departure.edge)
            _set_moment(span, min(begin, first), _wait_lines(departure), low, min(latest, first))
    elif is_silent or (heard and first is not None and first - begin > (high - heard[0]) // 2):
        if departure.back is not None:
            span.state = "paused"
        _set_moment(span, begin, _wait_lines(departure), low, min(latest, high))


def _could_log(departure: _Departure, coverage: Coverage) -> bool:
    """Return True if what a process logged as it was fenced would be here.

    In a file that several write to it is known by the lines that name it, before and after; of a
    start whose line names nobody it cannot be told whether it was this process.
    """
    # The log of a controller may have nothing to say for long.
    own = coverage.logs_of(broker_node(departure.broker))
    if own:
        logs = (log for log in own if log.kind != "controller")
        return any(log.first <= departure.high <= log.last for log in logs)
    named = departure.last_own is not None and departure.first_own is not None
    return named and not departure.may_have_started


def _between(signs: Iterable[tuple[int, int]], edge: int) -> tuple[int, int]:
    """Return the middle and the end of the time in which a process went.

    `signs` say when it was alive, and until when it would have shown the next one; no sign of life
    can be later than `edge`.
    """
    alive, until = max((sign for sign in signs if sign[0] <= edge), default=(edge, edge))
    latest = max(alive, min(until, edge))
    return (alive + latest) // 2, latest


def _find_break(
    departure: _Departure, low: int, high: int
) -> tuple[int | None, Sequence[Mapping[str, Any]]]:
    """Return when connections to a broker broke for good, and the lines that show it first.

    Without a moment the lines show only that it was gone by then: it refused new connections.
    """
    lines = sorted(
        (
            line
            for line in departure.breaks
            if low - _TOGETHER <= line["at"] <= high and _broke(line)
        ),
        key=lambda line: (line["at"], line["node"] or "", line["line"]),
    )
    for run in reversed(list(sessions(lines, lambda line: int(line["at"]), _RETRYING))):
        # A connection that broke with a request that had just been sent had lived until then.
        alive = max((line["at"] for line in run if _was_in_use(line)), default=low) - _TOGETHER
        gone = next(
            (
                line
                for line in run
                if line["at"] >= alive and (line["kind"] not in _IDLE or _refused(line))
            ),
            None,
        )
        if gone is None:
            continue
        first = [line for line in run if gone["at"] - _TOGETHER <= line["at"] <= gone["at"]]
        close = [line for line in run if abs(line["at"] - gone["at"]) <= _DOZING]
        cut = any(line["kind"] in _IN_USE and not _refused(line) for line in close)
        return max(low, first[0]["at"]) if cut else None, first[:3]
    return None, ()


def _broke(line: Mapping[str, Any]) -> bool:
    """Return True if a line shows a connection that broke, not a wait that ended."""
    length = line["duration_ms"]
    return length is None or length * MILLISECOND < _IN_FLIGHT


def _was_in_use(line: Mapping[str, Any]) -> bool:
    """Return True if a line shows a connection that broke while its other end was alive."""
    return line["kind"] in _IN_USE and line["duration_ms"] is not None and not _refused(line)


def _refused(line: Mapping[str, Any]) -> bool:
    """Return True if a line shows that a broker could not be reached anew."""
    text = line["text"] or ""
    return any(words in text for words in _NOT_REACHED)


def _unanswered_fetches(departure: _Departure, low: int) -> Iterator[tuple[int, int]]:
    """Yield when followers sent fetches that were never answered: they had just been served.

    The first request on a connection proves nothing: the host of a process that hangs takes it.
    """
    for line in departure.breaks:
        is_fetch = line["kind"] == "peer_request_lost" and line["value"] in _ON_AND_ON
        is_fetch = is_fetch and not _broke(line)
        if is_fetch and departure.edge <= line["at"]:
            sent = line["at"] - line["duration_ms"] * MILLISECOND
            if sent >= low:
                yield sent, sent + _FETCHING


def _unanswered_waits(departure: _Departure, low: int) -> Iterator[tuple[int, int]]:
    """Yield when the broker itself sent what it gave up as it woke: until then it was alive."""
    waits = [
        line
        for line in departure.waits
        if line["duration_ms"] and departure.edge <= line["at"] <= departure.end + _WAKING
    ]
    # Of several waits the shortest one began last: until then the process was alive.
    woke = min((line["at"] for line in waits), default=0)
    for line in waits:
        sent = line["at"] - line["duration_ms"] * MILLISECOND
        if line["at"] <= woke + _WAKING and low <= sent < departure.high:
            is_ping = line["kind"] == "zookeeper_disconnected"
            yield sent, sent + (departure.beat if is_ping else _FETCHING)


def _goes_on_waiting(departure: _Departure, since: int) -> bool:
    """Return True if the broker logs for some time, while it is away, that others do not answer.

    One that hung logs all that at once as it wakes.
    """
    waits = [line["at"] for line in departure.waits if since <= line["at"] < departure.end]
    return bool(waits) and max(waits) - since > _WAKING


def _wait_lines(departure: _Departure) -> Sequence[Mapping[str, Any]]:
    waits = (line for line in departure.waits if line["at"] >= departure.high - _SESSION)
    return sorted(waits, key=lambda line: (line["at"], line["line"]))[:2]


def _set_moment(
    span: Span, moment: int | None, lines: Iterable[Mapping[str, Any]], low: int, high: int
) -> None:
    """Move the begin of a span to the best estimate, and keep both ends of the bracket."""
    begin = low if moment is None else moment
    # A line of the moment itself comes first; the fencing, or the last own line, stays.
    shown: list[EvidenceRow] = [evidence_of(line) for line in lines]
    span.evidence = (
        [*shown, *span.evidence] if span.state == "crashed" else [*span.evidence, *shown]
    )
    span.begin, span.begin_bracket = begin, (min(low, begin), max(high, begin))


def _rebuild(spans: Sequence[Span], departures: Mapping[int, _Departure]) -> Iterator[Span]:
    """Put the spans of a lane together again; a process that woke is fenced until it is let in."""
    before: Span | None = None
    for span in spans:
        departure = departures.get(id(span))
        if departure is not None and before is not None:
            before.end = span.begin
        woke = departure.first_own if departure and span.state == "paused" else None
        if woke is not None and span.begin < woke < (span.end or woke):
            fenced = replace(span, state="fenced", begin=woke, begin_bracket=None)
            span.end = woke
            yield span
            before = fenced
        else:
            before = span
        yield before
