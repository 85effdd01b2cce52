"""Why processes ended, by those who ran them: Kubernetes, Docker, systemd, the kernel, the JVM.

They name pods, containers and machines. Which broker or controller that was is told by the names of
its logs, by the id that its environment gives it, or by the folder in which both lie; where nothing
tells, the line stands for itself and is nobody's reason.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run
from forensics.history.nodes.broker_states import Absence
from forensics.lib.intervals import IntervalIndex, index_by
from forensics.lib.node_ids import broker_id, broker_node
from forensics.lib.time_units import SECOND

_END_KINDS = (
    "process_ended", "kernel_killed", "jvm_crashed", "pod_evicted", "pod_stopped", "host_lost",
    "host_booted", "host_disk_failed",
)  # fmt: skip
# Why a process ended, the surest first; the others only say that somebody wanted it.
REASONS = (
    "oom", "java-memory", "jvm", "native", "evicted", "probe", "host", "heap", "killed", "exit",
    "asked", "host-disk",
)  # fmt: skip
# Reasons of an end that nobody asked for.
_OF_CRASHES = REASONS[: REASONS.index("asked")]
_OF_STOPS = ("evicted", "probe")
_AWAY = ("crash", "gone", "unknown", "fenced")
_SIGNALS = {"SIGKILL": "killed", "SIGTERM": "asked", "SIGINT": "asked"}
# The codes of processes that a signal ended, and of a JVM that is told to exit without memory.
_CODES = {"137": "killed", "143": "asked", "130": "asked", "134": "jvm", "139": "jvm", "3": "heap"}
_OF_CONTAINERS = ["pod_scheduled", "pod_restarted", "process_ended"]
# Tools round their times, and the clocks of machines are apart.
_SLACK = 3 * SECOND
# So long after the last sign of life a process may have ended, if nothing narrows it down.
_AFTER = 10 * SECOND
_NUMBERED = re.compile(r"(?:kafka|broker)s?[-_.]?(?P<id>\d{1,9})$", re.IGNORECASE)
# What makes `kafka-1` of `kafka`; a date is none.
_NEXT_NUMBER = re.compile(r"[-_]\d{1,3}(?!\d)")
_NUMBER = re.compile(r"(?:kafka|broker)s?[-_.]?(?P<id>\d{1,9})(?!\d)", re.IGNORECASE)
_PARTS = re.compile(r"[/!]")
_DIGIT = re.compile(r"\d")
# The main classes of brokers; those of ZooKeeper, Connect and tools are others.
_BROKERS = re.compile(r"\.(?:Supported)?Kafka$")


@dataclass(frozen=True)
class ProcessEnd:
    """One line that says why a process ended; `node` is None where nothing tells whose."""

    reason: str
    node: str | None
    # when, on the clock of those who logged it, and if it is a broker's machine on the broker's
    moments: tuple[int, ...]
    row: Row

    def is_between(self, low: int, high: int) -> bool:
        """Return True if it was between two moments, by any of the clocks."""
        return any(low <= moment <= high for moment in self.moments)


@once_per_run
def _read_process_ends(context: DetectionContext) -> Sequence[ProcessEnd]:
    """Read all lines that say why a process ended, in the order of time; undated ones come last."""
    rows = list(context.each("events", pc.field("kind").isin(list(_END_KINDS))))
    if not rows:
        return ()
    names = _Names(context)
    found = [
        ProcessEnd(reason, node, _moments(context, row, node), row)
        for row in rows
        if (reason := _reason(row)) is not None
        for node in names.nodes_of(row)
    ]
    return sorted(found, key=_order)


def _order(end: ProcessEnd) -> tuple[bool, int, str, int, int, str]:
    first, broker = min(end.moments, default=0), broker_id(end.node)
    number = -1 if broker is None else broker
    return not end.moments, first, end.row["file"], end.row["line"], number, end.node or ""


def _moments(context: DetectionContext, row: Row, node: str | None) -> tuple[int, ...]:
    if row["ts"] is None:
        return ()
    own = [row["at"]]
    if node is not None:
        # A journal is in the zone, and on the clock, of the machine that writes the node's logs.
        own.append(context.history.clocks.correct(node, row["ts"]))
    return tuple(dict.fromkeys(own))


def _reason(row: Row) -> str | None:
    """Return why a process ended as a word of `REASONS`; None where the line does not say."""
    kind, error = row["kind"], row["error"] or ""
    if kind == "kernel_killed" or error == "OOMKilled":
        return "oom"
    if kind == "jvm_crashed":
        return {"out of memory": "native", "OutOfMemoryError": "java-memory"}.get(error, "jvm")
    if kind == "pod_stopped":
        return "probe" if "probe" in (row["detail"] or "") else "asked"
    simple = {"pod_evicted": "evicted", "host_lost": "host", "host_booted": "host",
              "host_disk_failed": "host-disk"}  # fmt: skip
    if kind in simple:
        return simple[kind]
    if error.startswith("SIG"):
        return _SIGNALS.get(error, "jvm")
    code = row["value"]
    return None if code in (None, "0") else _CODES.get(code, "exit")


class _Names:
    """Which broker or controller a pod, a container or a machine is."""

    def __init__(self, context: DetectionContext) -> None:
        """Look at the names of the logs."""
        where = pc.field("role").isin(["broker", "controller"])
        logs = [
            (tuple(_PARTS.split(row["file"])), row["node"], row["role"])
            for row in context.each("files", where, ["file", "node", "role"])
        ]
        self._files = [
            (parts, broker)
            for parts, node, role in logs
            if role == "broker" and (broker := broker_id(node)) is not None
        ]
        self._controllers = [(parts, node) for parts, node, role in logs if role == "controller"]
        self._known = set(context.history.lanes.brokers) | {broker for _, broker in self._files}
        self._writers = {node for _, node, _ in logs}
        self._context = context

    def nodes_of(self, row: Row) -> Sequence[str | None]:
        """Return the nodes that a line is about: one, several on one machine, or [None]."""
        if row["node"] in self._writers:
            # It stands in the output of the process itself.
            return [row["node"]]
        found = [None if one is None else broker_node(one) for one in self._brokers_of(row)]
        if found != [None]:
            return found
        kind, _, name = (row["subject"] or "").partition(" ")
        if kind == "JVM" and _BROKERS.search(name):
            return [self._by_report(row)]
        return [self._controller_named(name) if kind in {"pod", "container"} else None]

    def _by_report(self, row: Row) -> str | None:
        """Return the broker whose JVM wrote a report that lies apart from all logs.

        Its logs lie where its command says, others tell of its process, or no other broker died at
        that time.
        """
        told = self._processes.get(row["position"], set())
        # All brokers of a machine may have logs in a folder `kafka`; names with numbers tell.
        folders = [part for part in _PARTS.split(row["value"] or "") if _DIGIT.search(part)]
        named = {broker for part in folders if (broker := self._broker_named(part)) is not None}
        for found in (told, named, self._gone_at(row)):
            if len(found) == 1:
                return broker_node(next(iter(found)))
            if found:
                break
        return None

    def _gone_at(self, row: Row) -> set[int]:
        """Return the brokers that may have died at the time of a report."""
        found = set()
        for absence in self._context.absences if row["ts"] is not None else ():
            low, high = _bracket(self._context, absence)
            moments = _moments(self._context, row, broker_node(absence.broker))
            if absence.kind in _AWAY and any(low <= moment <= high for moment in moments):
                found.add(absence.broker)
        return found

    @cached_property
    def _processes(self) -> Mapping[int, set[int]]:
        """The brokers of processes that others name by number."""
        found: dict[int, set[int]] = defaultdict(set)
        where = pc.field("kind").isin(list(_END_KINDS)) & pc.field("position").is_valid()
        for row in self._context.each("events", where):
            if not (row["subject"] or "").startswith("JVM "):
                found[row["position"]].update(
                    broker for node in self.nodes_of(row) if (broker := broker_id(node)) is not None
                )
        return found

    def _controller_named(self, name: str) -> str | None:
        """Return the controller whose logs lie under a name, if there is one only."""
        hits = {node for parts, node in self._controllers if any(_is_of(p, name) for p in parts)}
        return next(iter(hits)) if len(hits) == 1 else None

    def _brokers_of(self, row: Row) -> Sequence[int | None]:
        if row["broker"] is not None:
            return [row["broker"] if row["broker"] in self._known else None]
        kind, _, name = (row["subject"] or "").partition(" ")
        if kind in {"pod", "container"}:
            if (broker := self._by_environment.get(row["subject"])) is not None:
                return [broker]
            broker = self._broker_named(name)
            if broker is None and kind == "container":
                # Compose names containers by their services: kafka-broker-1-1.
                broker = self._broker_named(row["detail"] or "")
            return [broker]
        if kind == "JVM":
            return [self._by_folder(row["file"]) if _BROKERS.search(name) else None]
        on_host = self._on_host.get(name, ()) if name else ()
        if on_host:
            # A machine takes all its brokers along; the kernel kills one process.
            together = row["kind"] in ("host_lost", "host_booted", "host_disk_failed")
            return sorted(on_host) if together or len(on_host) == 1 else [None]
        named = self._by_path(name) if name else None
        return [named if named is not None else self._by_folder(row["file"])]

    def _broker_named(self, name: str) -> int | None:
        if (broker := self._by_path(name)) is not None:
            return broker
        found = _NUMBERED.search(name)
        if found and not self._is_renumbered and int(found["id"]) in self._known:
            return int(found["id"])
        return None

    def _by_path(self, name: str) -> int | None:
        """Return the broker whose logs lie under a name, if there is one only."""
        if not name:
            return None
        hits = {broker for parts, broker in self._files if any(_is_of(p, name) for p in parts)}
        return next(iter(hits)) if len(hits) == 1 else None

    def _by_folder(self, file: str) -> int | None:
        """Return the only broker with logs in the nearest folder above a file that has any."""
        folder = _PARTS.split(file)[:-1]
        while folder:
            own = tuple(folder)
            near = {broker for parts, broker in self._files if parts[: len(own)] == own}
            if near:
                return next(iter(near)) if len(near) == 1 else None
            folder.pop()
        return None

    @cached_property
    def _is_renumbered(self) -> bool:
        """Whether some pod's number is not the id of its broker, as where ids begin at 100."""
        return any(
            int(found["id"]) != broker
            for parts, broker in self._files
            for part in parts[1:]
            if (found := _NUMBER.search(part))
        )

    @cached_property
    def _by_environment(self) -> Mapping[str, int]:
        """The brokers of pods and containers whose environment names an id somewhere."""
        found: dict[str, set[int]] = defaultdict(set)
        where = pc.field("kind").isin(_OF_CONTAINERS) & pc.field("broker").is_valid()
        for row in self._context.each("events", where, ["subject", "broker"]):
            if row["subject"] and row["broker"] in self._known:
                found[row["subject"]].add(row["broker"])
        return {subject: next(iter(ids)) for subject, ids in found.items() if len(ids) == 1}

    @cached_property
    def _on_host(self) -> Mapping[str, set[int]]:
        """The brokers whose pods ran on each machine."""
        found: dict[str, set[int]] = defaultdict(set)
        where = pc.field("kind") == "pod_scheduled"
        for row in self._context.each("events", where, ["subject", "detail", "broker"]):
            pod = (row["subject"] or "").partition(" ")[2]
            broker = row["broker"] if row["broker"] is not None else self._broker_named(pod)
            # An id that no log knows is that of a controller, or of nobody here.
            if broker in self._known and row["detail"]:
                found[row["detail"]].add(broker)
                found[row["detail"].partition(".")[0]].add(broker)
        return found


def _is_of(part: str, name: str) -> bool:
    """Return True if a folder or a file is of a pod: `kafka-1` and `kafka-1.log`, not `kafka-10`.

    >>> _is_of("kafka-1-kafka.log", "kafka-1"), _is_of("kafka-10.log", "kafka-1")
    (True, False)
    """
    rest = part.removeprefix(name)
    return rest != part and not rest[:1].isalnum() and not _NEXT_NUMBER.match(rest)


def ends_of_absence(context: DetectionContext, absence: Absence) -> list[ProcessEnd]:
    """Return what others say of the end that began an absence, the surest reason first."""
    allowed = _OF_CRASHES if absence.kind in _AWAY else _OF_STOPS
    if absence.kind not in (*_AWAY, "controlled"):
        return []
    low, high = _bracket(context, absence)
    node = broker_node(absence.broker)
    own = _last_words(context).get(node, ()) if absence.kind in _AWAY else ()
    near = [end for end in _ends_between(context, node, low, high) if end.reason in allowed]
    near += [end for end in own if end not in near and _is_of_life(context, end, absence)]
    # That a machine was lost says nothing if the broker on it was stopped in order before.
    return sorted(near, key=lambda end: (REASONS.index(end.reason), _order(end)))


@once_per_run
def _last_words(context: DetectionContext) -> dict[str, list[ProcessEnd]]:
    """Return what processes wrote into their own output as they ended, by their nodes."""
    found: dict[str, list[ProcessEnd]] = defaultdict(list)
    for end in _read_process_ends(context):
        if end.node and end.node == end.row["node"] and end.moments and end.reason in _OF_CRASHES:
            found[end.node].append(end)
    return found


def _is_of_life(context: DetectionContext, end: ProcessEnd, absence: Absence) -> bool:
    """Return True if a process was not started between its last words and its absence, but in it.

    Such lines have no time: they are dated by the record above them, which may be much older.
    """
    start = context.next_start(absence.broker, max(end.moments))
    if start is None or absence.end is None:
        return start is None and absence.end is None
    return absence.begin <= start <= absence.end


def disk_lines_of_absence(context: DetectionContext, absence: Absence) -> list[Row]:
    """Return what the kernel says of the disks of a broker's machine as it went."""
    low, high = _bracket(context, absence)
    ends = _ends_between(context, broker_node(absence.broker), low - _AFTER, high)
    return [end.row for end in ends if end.reason == "host-disk"]


def _ends_between(
    context: DetectionContext, node: str, low: int, high: int
) -> Iterator[ProcessEnd]:
    index = _dated_ends(context).get(node)
    near = index.around(low, high) if index else ()
    return (end for end in near if end.is_between(low, high))


@once_per_run
def _dated_ends(context: DetectionContext) -> dict[str, IntervalIndex[ProcessEnd]]:
    return index_by(
        (end for end in _read_process_ends(context) if end.moments),
        lambda end: () if end.node is None else (end.node,),
        lambda end: (min(end.moments), max(end.moments)),
    )


def _bracket(context: DetectionContext, absence: Absence) -> tuple[int, int]:
    """Return between which moments the process ended that an absence is about."""
    low, high = absence.begin_bracket or (absence.begin, absence.begin + _AFTER)
    high = max(high, absence.begin)
    first = context.next_start(absence.broker, absence.begin)
    high += _SLACK
    return min(low, absence.begin) - _SLACK, high if first is None else min(high, first + SECOND)


def ends_of_controller(
    context: DetectionContext, node: str, begin: int, end: int
) -> list[ProcessEnd]:
    """Return what others say of the crashes of a controller that is no broker, within a time."""
    found: dict[int, ProcessEnd] = {}
    for span in context.history.lanes.processes.get(node, ()):
        low, high = span.begin - _SLACK, span.begin + _AFTER + _SLACK
        if span.state != "crashed" or begin > high or end < low:
            continue
        near = _ends_between(context, node, low, high)
        found |= {id(end): end for end in near if end.reason in _OF_CRASHES}
    return sorted(found.values(), key=lambda end: (REASONS.index(end.reason), _order(end)))


@once_per_run
def unattributed_ends(context: DetectionContext) -> Sequence[ProcessEnd]:
    """Return the ends that nobody asked for and that are no absence's reason."""
    told = {id(end) for absence in context.absences for end in ends_of_absence(context, absence)}
    return [
        end
        for end in _read_process_ends(context)
        if end.reason in _OF_CRASHES
        and id(end) not in told
        # A machine that starts is not the end of a process that anybody knows of.
        and end.row["kind"] != "host_booted"
    ]


def rows_of(ends: Iterable[ProcessEnd]) -> Iterator[Row]:
    """Yield the lines of some ends, each once."""
    seen = set()
    for end in ends:
        key = end.row["file"], end.row["line"]
        if key not in seen:
            seen.add(key)
            yield end.row


@dataclass(frozen=True)
class EndWords:
    """`what` it did, `why` that is so in a sentence, and what to do."""

    what: str
    why: str
    action: str
    doubts: tuple[str, ...] = ()


END_WORDS = {
    "oom": EndWords(
        "was killed: memory had run out",
        "The kernel killed the process because memory had run out, that of its container's limit "
        "or that of the machine. A broker can log nothing about it.",
        "Compare the memory limit of broker {broker} with its heap (KAFKA_HEAP_OPTS), and leave "
        "room beside it for direct memory, threads and the page cache: raise the limit or lower "
        "the heap. On a machine that is shared, look what else took the memory.",
    ),
    "jvm": EndWords(
        "crashed: its JVM ended by a fault",
        "The JVM itself crashed, by a fault in its own code or in a native library.",
        "Read the problematic frame in hs_err_pid*.log of broker {broker}: a native library "
        "(compression, encryption) or the JVM is to be replaced by another version.",
    ),
    "native": EndWords(
        "ended: the system gave its JVM no more memory",
        "The JVM asked the system for memory, got none, and ended. Its heap need not have been "
        "full.",
        "Look at hs_err_pid*.log of broker {broker}: fewer threads or a smaller heap, more memory, "
        "or a higher vm.max_map_count, which brokers with many segments need.",
    ),
    "java-memory": EndWords(
        "ended: its JVM was out of memory",
        "The JVM could not give memory to the program (OutOfMemoryError) and was told to end then "
        "(-XX:+ExitOnOutOfMemoryError, -XX:+CrashOnOutOfMemoryError).",
        "Look what filled the heap of broker {broker} before it gets more (KAFKA_HEAP_OPTS); where "
        "its line names threads or direct memory, raise those limits instead.",
    ),
    "heap": EndWords(
        "ended with exit code 3, as a JVM does whose heap is full",
        "A JVM that is told to exit when its heap is full (-XX:+ExitOnOutOfMemoryError) ends with "
        "that code.",
        "Look what filled the heap of broker {broker} before it gets more (KAFKA_HEAP_OPTS).",
        ("Other programs may end with that code for other reasons.",),
    ),
    "evicted": EndWords(
        "was evicted from its machine",
        "Kubernetes took the pod off its machine: for lack of memory or disk there, or to make "
        "room for another pod.",
        "Give the pods of brokers requests that are their limits and a priority class, so that "
        "others go first, and a disruption budget; look what the machine of broker {broker} "
        "lacked.",
    ),
    "probe": EndWords(
        "was stopped because its liveness probe failed",
        "Kubernetes ends a container whose liveness probe fails. A broker that starts slowly, or "
        "is frozen for a while, is ended just so.",
        "kubectl describe pod   # of broker {broker}: which probe failed, after how long? A probe "
        "that only asks for the port, with a longer time-out, does less harm",
    ),
    "host": EndWords(
        "went with its machine",
        "Its machine went, or started anew: the process had no part in it.",
        "Look at the machine of broker {broker} (power, kernel, hypervisor) before the broker.",
    ),
    "killed": EndWords(
        "was killed by a signal (SIGKILL)",
        "Something killed the process by SIGKILL. Whoever ran it does not call it want of memory; "
        "a stop that takes longer than its time-out ends so, too.",
        "Look who killed broker {broker}: a person, a script, or a stop whose time-out "
        "(terminationGracePeriodSeconds, TimeoutStopSec, docker stop -t) is too short.",
        ("Some versions of container runtimes do not tell an OOM kill as one.",),
    ),
    "exit": EndWords(
        "ended with an error code",
        "The process ended itself, with a code that says that something had failed.",
        "Read the last lines that broker {broker} wrote, also those to its console: they say why.",
    ),
}


def quote(row: Row) -> str:
    """Say in a few words who says what of an end, and where.

    >>> quote({"subject": "pod k-2", "detail": "kafka", "error": "OOMKilled", "value": "137",
    ...        "file": "b.zip!pods/k-2.yaml", "line": 38, "kind": "process_ended"})
    'pod k-2 (kafka): OOMKilled, exit code 137 (b.zip!pods/k-2.yaml:38)'
    """
    detail = f" ({row['detail']})" if row["detail"] and len(row["detail"]) < _SHORT else ""
    code = f"exit code {row['value']}" if row["value"] and row["kind"] != "jvm_crashed" else None
    told = ", ".join(part for part in (row["error"], code) if part)
    what = told or row["kind"].replace("_", " ")
    return f"{row['subject'] or 'the JVM'}{detail}: {what} ({row['file']}:{row['line']})"


# Messages of events are longer; the evidence has them.
_SHORT = 60
