"""Finds times in which a whole process froze.

A line of the garbage collector states a pause. A ZooKeeper client notices after two thirds of its
session that nothing came: if it notices much later, it did not run. A broker that was fenced,
logged nothing all that time and went on without a restart did not run either, and neither did a
controller whose event took long while its log was silent, nor a process that was silent and noticed
far too late that a request of its own had timed out, nor a consumer that was removed from its group
for want of heartbeats and noticed that only seconds later.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, once_per_run
from forensics.detection.kafka_cli import GREP_PAUSES
from forensics.detection.shared.absence_causes import session_timeout
from forensics.detection.shared.client_settings import ClientStart, read_client_starts
from forensics.lib.arrow_io import is_any_of
from forensics.lib.intervals import index_by
from forensics.lib.node_ids import broker_node
from forensics.lib.time_units import MILLISECOND, SECOND

_SILENCE = "silence"
# The source of a stall that a collection logged which did not get to run.
STARVED = "starved"
_CPU_TIMES = re.compile(
    r"(?i)\buser=([0-9]{1,9}(?:[.,][0-9]{1,9})?)s?,? sys=([0-9]{1,9}(?:[.,][0-9]{1,9})?)s?,?"
    r" real=([0-9]{1,9}(?:[.,][0-9]{1,9})?)"
)
# The JVM writes what a collection used just after it.
_ACCOUNT = SECOND // 2
# Of a silence, the share that a collection must have to be its length.
_MOST = 0.8
# Of more stalls than these the longest are kept.
# No process stands still for longer than a year; a number beyond that is none.
_LONGEST_SECONDS = 366 * 86_400
_MAX_STALLS = 5000
_COLUMNS = ("kind", "ts", "node", "file", "line", "text", "rule", "duration_ms", "value")
_IN_MILLISECONDS = ("gc_pause", "safepoint_pause", "allocation_stalled")
_IN_SECONDS = ("gc_pause_early", "application_stopped")
# zookeeper.session.timeout.ms since 2.5; shorter ones are named as the session begins
_ZOOKEEPER_SESSION_MS = 18_000
# Each look into a log reads the events: only the longest absences get one.
_MAX_LOOKS = 12


@dataclass(frozen=True)
class ProcessStall:
    """One time in which a node was frozen; corrected microseconds."""

    node: str
    begin: int
    end: int
    source: str
    evidence: Sequence[Mapping[str, Any]] = field(default=(), compare=False)

    @property
    def duration(self) -> int:
        """How long it was."""
        return self.end - self.begin


@once_per_run
def find_stalls(context: DetectionContext, min_seconds: float) -> list[ProcessStall]:
    """Find the stalls of at least so many seconds, by node; those that overlap are one."""
    every = [
        *_stated_stalls(context, min_seconds),
        *_late_zookeeper_clients(context, min_seconds),
        *_paused_servers(context),
        *_silent_controllers(context, min_seconds),
        *_late_requests(context, min_seconds),
    ]
    every += _frozen_consumers(context, min_seconds, every)
    # A broker that was cut off is silent because it hears nobody, not because it was stopped.
    cut = [
        (broker_node(one.broker), one.begin, one.end or context.logs_end)
        for one in context.absences
        if one.kind == "isolated"
    ]
    # Lines of a file in which nobody can tell the nodes apart are of no process.
    every = [
        stall
        for stall in every
        if stall.node
        and (
            stall.source != _SILENCE
            or not any(n == stall.node and stall.begin < e and b < stall.end for n, b, e in cut)
        )
    ]
    found: list[ProcessStall] = []
    reach = 0
    for stall in sorted(every, key=lambda one: (one.node, one.begin, one.end, one.source)):
        last = found[-1] if found else None
        if last is not None and last.node == stall.node and stall.begin <= reach:
            found[-1] = _merge(last, stall)
            reach = max(reach, stall.end)
        elif stall.duration >= min_seconds * SECOND:
            found.append(stall)
            reach = stall.end
    return found


def _merge(one: ProcessStall, other: ProcessStall) -> ProcessStall:
    """Join two stalls that overlap: what the JVM itself measured is surer than a silence.

    A silence that is much longer was not the collector's alone.
    """
    evidence = [*one.evidence, *other.evidence]
    stated = [stall for stall in (one, other) if stall.source != _SILENCE]
    longer = max(one, other, key=lambda stall: stall.duration)
    if len(stated) == 1 and stated[0].duration >= _MOST * longer.duration:
        return replace(stated[0], evidence=evidence)
    begin, end = min(one.begin, other.begin), max(one.end, other.end)
    sources = [stall.source for stall in stated]
    source = STARVED if STARVED in sources else sources[0] if sources else longer.source
    return replace(longer, begin=begin, end=end, source=source, evidence=evidence)


def _stated_stalls(context: DetectionContext, min_seconds: float) -> Iterator[ProcessStall]:
    """Read pauses that the JVM logs: in milliseconds, or in seconds as text by old ones."""
    kind, long = pc.field("kind"), pc.field("duration_ms") >= round(min_seconds * 1000)
    whole = pc.match_substring_regex(pc.field("value"), r"^[1-9]")
    where = (kind.isin(_IN_MILLISECONDS) & long) | (kind.isin(_IN_SECONDS) & whole)
    rows = context.each("events", where & pc.field("ts").is_valid(), _COLUMNS)
    timed = ((row, _length(row)) for row in rows)
    accounts = index_by(
        context.events("gc_cpu"), lambda row: [row["file"]], lambda row: (row["at"], row["at"])
    )
    for row, length in heapq.nlargest(_MAX_STALLS, timed, key=lambda one: one[1]):
        if length >= min_seconds * SECOND:
            near = accounts.get(row["file"])
            account = near.around(row["at"], row["at"] + _ACCOUNT) if near else ()
            lines = [row, *account[:1]]
            source = "memory" if row["kind"] == "allocation_stalled" else "jvm"
            if source == "jvm" and any(_did_not_run(str(one["text"])) for one in lines):
                source = STARVED
            yield ProcessStall(row["node"] or "", row["at"] - length, row["at"], source, lines)


def _did_not_run(text: str) -> bool:
    """Return True if a collection worked for less than half of the time that it took.

    >>> _did_not_run("GC(12) User=0.01s Sys=0.00s Real=20.02s")
    True
    >>> _did_not_run("[Times: user=0.22 sys=0.00, real=0.24 secs]")
    False
    """
    said = _CPU_TIMES.search(text)
    if not said:
        return False
    user, system, real = (float(number.replace(",", ".")) for number in said.groups())
    return user + system < real / 2


def _length(row: Row) -> int:
    if row["duration_ms"] is not None:
        return int(row["duration_ms"]) * MILLISECOND
    try:
        seconds = float((row["value"] or "0").replace(",", "."))
    except ValueError:
        return 0
    return round(seconds * SECOND) if 0 <= seconds <= _LONGEST_SECONDS else 0


def _late_zookeeper_clients(
    context: DetectionContext, min_seconds: float
) -> Iterator[ProcessStall]:
    """Find ZooKeeper clients that noticed far too late that nothing came."""
    where = pc.field("kind").isin(["zookeeper_connected", "zookeeper_disconnected"])
    where &= (pc.field("duration_ms") >= round(min_seconds * 1000)) & pc.field("ts").is_valid()
    rows = heapq.nsmallest(2 * _MAX_STALLS, context.each("events", where, _COLUMNS), key=by_time)
    timeouts: dict[str, int] = {}
    connected: dict[str, bool] = {}
    for row in rows:
        if row["kind"] == "zookeeper_connected":
            timeouts[row["node"] or ""] = max(row["duration_ms"], timeouts.get(row["node"], 0))
    for row in rows:
        node, is_loss = row["node"] or "", row["kind"] == "zookeeper_disconnected"
        length = row["duration_ms"] * MILLISECOND
        session = timeouts.get(node, _ZOOKEEPER_SESSION_MS) * MILLISECOND
        # It pings each third of a session, and froze at some time between two answers.
        began = row["at"] - length + session // 6
        # A client that has no connection waits for one for as long as a session: that is no stall.
        due = 2 * session / 3 if connected.get(node, True) else session
        if is_loss and length - due >= min_seconds * SECOND:
            yield ProcessStall(node, began, row["at"], _SILENCE, [row])
        connected[node] = not is_loss


def _paused_servers(context: DetectionContext) -> Iterator[ProcessStall]:
    """Take the pauses of lanes: from a server's last sign of life to its waking."""
    lanes = context.history.lanes
    brokers = {broker_node(broker): spans for broker, spans in lanes.brokers.items()}
    for node, spans in [*brokers.items(), *lanes.processes.items()]:
        for span in spans:
            if span.state == "paused":
                end, evidence = span.end or context.logs_end, list(span.evidence)
                yield ProcessStall(node, span.begin, end, _SILENCE, evidence)


def _silent_controllers(context: DetectionContext, min_seconds: float) -> Iterator[ProcessStall]:
    """Find controllers whose log was silent for as long as an event of theirs took."""
    long = pc.field("duration_ms") >= round(min_seconds * 1000)
    where = (pc.field("kind") == "quorum_event_slow") & long & pc.field("ts").is_valid()
    rows = context.each("events", where, _COLUMNS)
    for row in heapq.nlargest(
        _MAX_LOOKS, rows, key=lambda row: (row["duration_ms"], -row["at"], -row["line"])
    ):
        begin = row["at"] - row["duration_ms"] * MILLISECOND
        if row["node"] and context.is_silent(row["node"], begin, row["at"]):
            yield ProcessStall(row["node"], begin, row["at"], _SILENCE, [row])


def _late_requests(context: DetectionContext, min_seconds: float) -> Iterator[ProcessStall]:
    """Find silent processes that noticed far too late that a request of theirs had timed out.

    A thread that has nothing else to send sleeps for one time-out more, and of two that freeze the
    other one would be blamed; members of a quorum fetch all the time. A clock that is set forward
    looks the same; but whoever freezes for longer than a session is fenced, so that longer ones are
    left to the lanes.
    """
    where = (pc.field("kind") == "peer_request_lost") & pc.field("ts").is_valid()
    where &= pc.field("duration_ms") >= round(min_seconds * 1000)
    found, session = [], session_timeout(context) * SECOND
    for row in context.each("events", where, (*_COLUMNS, "detail")):
        limit = _REQUEST_TIMEOUT.search(row["text"] or "")
        length = row["duration_ms"] * MILLISECOND
        # As a member of a quorum froze it had just sent a request.
        is_fetch = row["detail"] == "RaftManager" and row["value"] == "FETCH"
        late = length - (1 if is_fetch else 2) * int(limit[1]) * MILLISECOND if limit else 0
        if row["node"] and min_seconds * SECOND <= late and length < session:
            begin = row["at"] - (length - _FETCHING // 2 if is_fetch else late)
            found.append(ProcessStall(row["node"], begin, row["at"], _SILENCE, [row]))
    longest = heapq.nlargest(_MAX_STALLS, found, key=lambda one: (one.duration, -one.begin))
    for stall in _only_silent(context, longest) if longest else ():
        if stall.duration >= min_seconds * SECOND:
            yield stall


def _only_silent(
    context: DetectionContext, stalls: Sequence[ProcessStall]
) -> Iterator[ProcessStall]:
    """Yield the stalls in which the node wrote nothing, up to its waking, in one pass."""
    times: dict[str, list[int]] = defaultdict(list)
    nodes = sorted({stall.node for stall in stalls})
    low, high = min(one.begin for one in stalls), max(one.end for one in stalls)
    where = is_any_of("node", nodes) & pc.field("ts").is_valid()
    for row in context.each("events", where, ("node", "ts", "file", "line")):
        if low <= row["at"] <= high:
            times[row["node"]].append(row["at"])
    for own in times.values():
        own.sort()
    for stall in stalls:
        own = times[stall.node]
        # A line written as it falls asleep is none of that time; as it wakes, it writes much.
        later = own[bisect_right(own, stall.begin + _DOZING) :][:1]
        if not later or later[0] >= stall.end - _WAKING:
            yield replace(stall, end=min(stall.end, *later)) if later else stall


def _frozen_consumers(
    context: DetectionContext, min_seconds: float, known: Sequence[ProcessStall]
) -> Iterator[ProcessStall]:
    """Find consumers whose coordinator heard no heartbeat for a session, and that were silent.

    One that runs notices by itself when no answer comes. A coordinator that froze hears nobody.
    """
    where = (pc.field("kind") == "group_member_failed") & pc.field("ts").is_valid()
    where &= pc.field("member").is_valid() & pc.field("group").is_valid()
    columns = (*_COLUMNS, "member", "group", "broker")
    found: list[ProcessStall] = []
    for row in context.each("events", where, columns):
        start = _start_of_member(context, row["member"], row["group"])
        session = start.number("session.timeout.ms") if start is not None else None
        if start is None or session is None or len(found) == _MAX_STALLS:
            continue
        begin = row["at"] - session * MILLISECOND
        is_late = any(
            stall.node == row["node"] and stall.begin <= row["at"] and begin <= stall.end
            for stall in known
        )
        if not is_late and not context.absences_around(row["broker"], begin, row["at"]):
            found.append(ProcessStall(start.node, begin, row["at"], _SILENCE, [row]))
    lines = _read_lines_around(context, found) if found else {}
    for stall in found:
        own = lines[stall.node]
        later = own[bisect_right(own, (stall.begin + _DOZING,)) :][:1]
        if not later or later[0][0] < stall.end + min_seconds * SECOND:
            continue
        # A start in between is a crash, or somebody's doing.
        at, kind = later[0]
        if kind not in _STARTS:
            yield replace(stall, end=at)


def _start_of_member(context: DetectionContext, member: str, group: str) -> ClientStart | None:
    """Return the last start of the consumer that a member of a group is."""
    client = MEMBER_UUID.sub("", member)
    starts = (
        one
        for own in read_client_starts(context).values()
        for one in own
        if one.client == client and one.values.get("group.id") == group
    )
    return max(starts, key=lambda one: int(one.line["at"]), default=None)


def _read_lines_around(
    context: DetectionContext, stalls: Sequence[ProcessStall]
) -> dict[str, list[tuple[int, str]]]:
    """Read when the nodes of stalls wrote what, from the first stall on."""
    lines: dict[str, list[tuple[int, str]]] = defaultdict(list)
    where = is_any_of("node", sorted({stall.node for stall in stalls})) & pc.field("ts").is_valid()
    low = min(stall.begin for stall in stalls)
    for row in context.each("events", where, ("node", "ts", "file", "line", "kind")):
        if row["at"] >= low:
            lines[row["node"]].append((row["at"], row["kind"]))
    for own in lines.values():
        own.sort()
    return lines


# Behind the client's id, the coordinator gives members a UUID.
MEMBER_UUID = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_STARTS = ("client_setting_seen", "kafka_version", "process_clock")
_REQUEST_TIMEOUT = re.compile(r"request timeout: (\d{1,9})ms")
# Members of a KRaft quorum fetch at least that often.
_FETCHING = SECOND // 2
_DOZING = SECOND // 2
# After a freeze, everything that piled up is logged within that.
_WAKING = 2 * SECOND

_FILE_COLUMNS = ("file", "node", "first_ts", "last_ts")
_GC_FILE = re.compile(r"(?i)gc[^/]*\.log|gc\.log")


def gc_logs_cover(context: DetectionContext, spans: Iterable[tuple[str, int, int]]) -> bool:
    """Return True if GC logs cover these times of nodes: what they lack was no collection."""
    correct = context.history.clocks.correct
    logs = [
        (row["node"], correct(row["node"], row["first_ts"]), correct(row["node"], row["last_ts"]))
        for row in context.each("files", pc.field("first_ts").is_valid(), _FILE_COLUMNS)
        if _GC_FILE.search(row["file"])
    ]
    return all(
        any(node == name and first <= begin and end <= last for name, first, last in logs)
        for node, begin, end in spans
    )


def look_at_machine(hosts: str, *, knows_collector: bool, starved: bool = False) -> list[str]:
    """Say where to look after a process froze, and whether its GC log is still to be read."""
    machine = (
        f"iostat -x, vmstat, and the hypervisor of {hosts} at these times, and whether somebody "
        "stopped the process (kill -STOP, docker pause, a debugger)"
    )
    if starved:
        return [f"Look at {machine}; swapping, too (vmstat's si and so, a limit of the container)."]
    if knows_collector:
        return [f"Look at {machine}; its GC log shows no such pause."]
    return [
        f"Look first whether the JVM of {hosts} stopped then (its GC log); if not, at {machine}.",
        f"{GREP_PAUSES}   # on {hosts}: did the JVM stop then?",
    ]
