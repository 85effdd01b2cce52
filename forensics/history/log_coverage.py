"""What the logs cover: for each node and kind of log from when to when, and where there are holes.

Absence is evidence only where somebody was there to write: everything that follows from nobody
having told of something must ask here first.

The table of coverage: what each node's logs cover, and what is missing and matters.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import FileAccount
from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence
from forensics.lib.arrow_io import read_batches
from forensics.parsing.time_statistics import MIN_SILENCE
from forensics.schemas import COVERAGE

SERVER_ROLES = ("broker", "controller")
# The logs of a broker or controller in the order of what they tell of partitions.
PARTITION_LOGS = ("state-change", "all", "controller", "server")
_KINDS = (
    ("state-change", re.compile(r"sta[tg]e-change\.")),
    ("controller", re.compile(r"(?:^|[a-z][-_.])controller\.(?!\d+$)")),
    ("gc", re.compile(r"(?:^|[-_.])gc\.|kafkaServer-gc|zookeeper-gc|^gc")),
    ("log-cleaner", re.compile(r"log-cleaner")),
    ("authorizer", re.compile(r"authorizer")),
    ("request", re.compile(r"kafka-request")),
    ("server", re.compile(r"(?:^|[-_.])server\.")),
)
# With less, a node that is only quiet cannot be told from one whose last lines are missing.
_TAIL = 30_000_000
_USUAL = 4
_FAR = 3


@dataclass(frozen=True)
class LogGap:
    """A stretch without a line, from the last line before to the first one after."""

    begin: int
    end: int
    file: str
    line: int


@dataclass(frozen=True)
class Log:
    """One kind of log of one node, in corrected time: all its files taken together."""

    node: str
    role: str
    kind: str
    first: int
    last: int
    gaps: tuple[LogGap, ...]
    files: tuple[str, ...]
    # the records of each first letter of a level
    levels: Mapping[str, int]
    records: int
    # the first file, and the last one with its last line
    ends: tuple[tuple[str, int], tuple[str, int]]
    # from when to when each file reaches
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def hides_info(self) -> bool:
        """Whether a level above INFO keeps out the lines that a history is made of."""
        if self.kind not in PARTITION_LOGS:
            # Others, such as that of requests, are kept at WARN by Kafka's own settings.
            return False
        loud = sum(self.levels.get(letter, 0) for letter in "WEF")
        quiet = sum(self.levels.get(letter, 0) for letter in "IDT")
        return loud > 0 and quiet == 0


@dataclass(frozen=True)
class Coverage:
    """All logs of all nodes, and when the last of them ends."""

    logs: tuple[Log, ...] = ()
    begin: int = 0
    end: int = 0
    _of: dict[str, list[Log]] = field(default_factory=dict, compare=False, repr=False)
    _quiet: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Sort the logs by their nodes."""
        for log in self.logs:
            self._of.setdefault(log.node, []).append(log)

    @property
    def nodes(self) -> Iterable[str]:
        """The brokers and controllers that have logs here."""
        return self._of.keys()

    def logs_of(self, node: str) -> Sequence[Log]:
        """Give the logs of a node."""
        return self._of.get(node, ())

    def partition_log(self, node: str) -> Log | None:
        """Give the log of a node that tells of its partitions."""
        kinds = {log.kind: log for log in self.logs_of(node)}
        return next((kinds[kind] for kind in PARTITION_LOGS if kind in kinds), None)

    def partition_log_gaps(self, node: str) -> Iterator[tuple[int, int]]:
        """Give the stretches in which a node tells nothing of partitions."""
        log = self.partition_log(node)
        for one in log.gaps if log else ():
            yield one.begin, one.end

    def last_line_at(self, node: str) -> int | None:
        """Give the moment of the last line that a node could have told of partitions in."""
        log = self.partition_log(node)
        return log.last if log else None

    def is_logging_at(self, node: str, at: int) -> bool:
        """Whether a node has logs around a moment, and was not silent in all of them."""
        logs = [log for log in self.logs_of(node) if log.kind in PARTITION_LOGS]
        return any(
            log.first - MIN_SILENCE <= at <= log.last + MIN_SILENCE for log in logs
        ) and not any(begin < at < end for begin, end in self.shared_gaps(node))

    def reaches_end(self, node: str) -> bool:
        """Whether the logs of a node go on until all logs end, but for what is usual for it."""
        last = max((log.last for log in self.logs_of(node)), default=None)
        return last is not None and self.end - last <= max(_TAIL, _FAR * self.usual_gap(node))

    def shared_gaps(self, node: str) -> list[tuple[int, int]]:
        """Give the stretches in which none of the logs of a node has a line."""
        if node not in self._quiet:
            # Asked for at every change of every partition.
            self._quiet[node] = _shared(self.logs_of(node))
        return self._quiet[node]

    def usual_gap(self, node: str) -> int:
        """Give how long a node may be silent without it meaning anything."""
        lengths = heapq.nlargest(_USUAL, (end - begin for begin, end in self.shared_gaps(node)))
        return lengths[_USUAL - 1] if len(lengths) >= _USUAL else _TAIL // _FAR

    def long_gap(self, node: str) -> int:
        """Give how long a silence of a node is far beyond the usual."""
        return _FAR * self.usual_gap(node)

    def find_gaps(self, node: str) -> list[tuple[int, int]]:
        """Give the silences of a node, in all its logs at once, that are far beyond the usual."""
        far = self.long_gap(node)
        return [(begin, end) for begin, end in self.shared_gaps(node) if end - begin > far]


def measure_coverage(files: Iterable[FileAccount], clocks: Clocks) -> Coverage:
    """Gather what the logs of brokers and controllers cover."""
    found: dict[tuple[str, str, str], list[FileAccount]] = {}
    for one in files:
        if one.first is None or one.last is None or one.duplicate_of is not None:
            continue
        if one.role in SERVER_ROLES and one.node is not None:
            found.setdefault((one.node, one.role, classify_log_file(one.file)), []).append(one)
    logs = tuple(
        _log(node, role, kind, found[node, role, kind], clocks)
        for node, role, kind in sorted(found)
    )
    begin = min((log.first for log in logs), default=0)
    return Coverage(logs, begin, max((log.last for log in logs), default=0))


def classify_log_file(file: str) -> str:
    """Name the kind of log by the name of its file; `all` is where a process writes everything.

    >>> kind_of_log("logs.tgz!broker-1/state-change.log.2026-11-18-11")
    'state-change'
    >>> kind_of_log("controller-1.log")
    'all'
    """
    name = re.split(r"[/!]", file)[-1]
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "all")


def _log(node: str, role: str, kind: str, files: list[FileAccount], clocks: Clocks) -> Log:
    files = sorted(files, key=lambda one: (one.first or 0, one.last or 0, one.file))
    silences: list[LogGap] = []
    spans: dict[str, tuple[int, int]] = {}
    levels: dict[str, int] = {}
    reach: int | None = None
    for one in files:
        first, last = (clocks.correct(node, moment or 0) for moment in (one.first, one.last))
        spans[one.file] = (first, last)
        if reach is not None and first - reach >= MIN_SILENCE:
            silences.append(LogGap(reach, first, one.file, 1))
        for begin, end, line in one.gaps:
            silences.append(
                LogGap(clocks.correct(node, begin), clocks.correct(node, end), one.file, line)
            )
        reach = last if reach is None else max(reach, last)
        for letter, count in one.levels.items():
            levels[letter] = levels.get(letter, 0) + count
    start = min(clocks.correct(node, one.first or 0) for one in files)
    final = max(files, key=lambda one: (one.last or 0, one.file))
    return Log(
        node, role, kind, start, reach or start, tuple(silences),
        tuple(one.file for one in files), levels,
        sum(one.counts["records"] for one in files),
        ((files[0].file, 1), (final.file, max(1, final.counts["lines"]))), spans,
    )  # fmt: skip


def _shared(logs: Sequence[Log]) -> list[tuple[int, int]]:
    """Give the stretches in which none of several logs has a line."""
    if not logs:
        return []
    whole = (min(log.first for log in logs), max(log.last for log in logs))
    shared = [whole]
    for log in logs:
        quiet = [(whole[0], log.first), *((s.begin, s.end) for s in log.gaps)]
        quiet.append((log.last, whole[1]))
        shared = _common(shared, sorted(one for one in quiet if one[0] < one[1]))
    return [one for one in shared if one[1] - one[0] >= MIN_SILENCE]


def _common(
    some: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Intersect two sorted lists of stretches."""
    found: list[tuple[int, int]] = []
    at = 0
    for begin, end in some:
        while at and other[at - 1][1] > begin:
            at -= 1
        while at < len(other) and other[at][0] < end:
            low, high = max(begin, other[at][0]), min(end, other[at][1])
            if low < high:
                found.append((low, high))
            at += 1
    return found


Row = dict[str, Any]

# What `state` says: lines from then to then; and why there are none.
COVERED, DOWN, SILENT, MISSING, ROTATED, HIDDEN = (
    "covered", "down", "silent", "missing", "rotated", "hidden"
)  # fmt: skip
GAP_STATES = (SILENT, MISSING, ROTATED, HIDDEN)

_WHY = {
    COVERED: None,
    DOWN: "the process was away",
    SILENT: "no line for far longer than is usual for this node",
    HIDDEN: "no line below WARN: a level hides INFO",
}
_LACKS = {
    "state-change": "no state-change.log: what this broker was told of leaders is not here",
    "server": "no server.log: what this process did, its starts and stops, is not here",
}
_NOBODY = "no log of this node, though others name it"
_NUMBER = re.compile(r"^(?P<base>.*\.log)\.(?P<number>\d{1,3})(?:\.(?:gz|zst|bz2|xz))?$")
_HOUR = re.compile(r"^(?P<base>.*\.log)\.(?P<day>\d{4}-\d\d-\d\d)-(?P<hour>\d\d)(?:\.gz)?$")
_NEAR = 2_000_000


def build_coverage_table(
    coverage: Coverage, away: Iterable[Absence], named: Mapping[str, str]
) -> pa.Table:
    """Give one row for each stretch of coverage and each hole; `named` are the nodes to expect."""
    gone: dict[str, list[Absence]] = {}
    for absence in away:
        gone.setdefault(f"broker-{absence.broker}", []).append(absence)
    rows: list[Row] = []
    for node in sorted({*coverage.nodes, *named}):
        logs = coverage.logs_of(node)
        if not logs:
            rows.append(
                _row(node, named[node], None, MISSING, coverage.begin, coverage.end, _NOBODY)
            )
            continue
        for log in logs:
            rows += _of_log(log, coverage)
        rows += _holes_of(node, coverage, gone.get(node, ()))
    return pa.Table.from_pylist(rows, schema=COVERAGE)


def find_named_nodes(events: Path) -> dict[str, str]:
    """Read which brokers are named as leaders, in one streaming read of one column."""
    found: set[int] = set()
    for batch in read_batches(events, ["leader"]):
        found.update(one for one in pc.unique(batch["leader"]).to_pylist() if one is not None)
    return {f"broker-{one}": "broker" for one in sorted(found) if one >= 0}


def _of_log(log: Log, coverage: Coverage) -> Iterator[Row]:
    """Cut the time of one log where it is silent for too long."""
    far = coverage.long_gap(log.node)
    begin, evidence = log.first, [_place(*log.ends[0])]
    for one in sorted(log.gaps, key=lambda silence: silence.begin):
        shared = any(
            low < one.end and one.begin < high for low, high in coverage.find_gaps(log.node)
        )
        if one.end - one.begin <= far or not shared:
            continue
        yield _row(log.node, log.role, log.kind, COVERED, begin, one.begin, None, log, evidence)
        begin, evidence = one.end, [_place(one.file, one.line)]
    evidence = [*evidence, _place(*log.ends[1])]
    yield _row(log.node, log.role, log.kind, COVERED, begin, log.last, None, log, evidence)
    if log.hides_info:
        why = _WHY[HIDDEN]
        yield _row(log.node, log.role, log.kind, HIDDEN, log.first, log.last, why, log, evidence)
    if log.kind in PARTITION_LOGS:
        # The JVM's log, for one, is written over in a ring.
        yield from _rotations(log)


def _holes_of(node: str, coverage: Coverage, gone: Sequence[Absence]) -> Iterator[Row]:
    logs = coverage.logs_of(node)
    role, kinds = logs[0].role, {log.kind for log in logs}
    first, last = min(log.first for log in logs), max(log.last for log in logs)
    if "all" not in kinds:
        # A broker of its own writes every kind; a KRaft controller writes no state-change.log.
        wanted = ("state-change", "server") if role == "broker" else ("server",)
        for kind in wanted:
            if kind not in kinds:
                yield _row(node, role, kind, MISSING, first, last, _LACKS[kind])
    for begin, end in coverage.find_gaps(node):
        places = [
            _place(one.file, one.line)
            for log in logs
            for one in log.gaps
            if one.begin < end and begin < one.end
        ]
        down = any(
            absence.kind in ("crash", "controlled")
            and absence.begin <= begin + _NEAR
            and (absence.end is None or end <= absence.end + _NEAR)
            for absence in gone
        )
        state = DOWN if down else SILENT
        yield _row(node, role, None, state, begin, end, _WHY[state], None, places[:4])
    if not coverage.reaches_end(node) and not any(one.end is None for one in gone):
        why = "its logs end long before the others'"
        yield _row(node, role, None, MISSING, last, coverage.end, why)


def _rotations(log: Log) -> Iterator[Row]:
    """Find numbers and hours that are missing among the names of rotated files."""
    numbers: dict[tuple[str, str], dict[int, str]] = {}
    hours: dict[tuple[str, str], dict[int, str]] = {}
    for file in log.files:
        folder, _, name = file.rpartition("/")
        if found := _NUMBER.match(name):
            numbers.setdefault((folder, found["base"]), {})[int(found["number"])] = file
        elif found := _HOUR.match(name):
            hour = int(pa.scalar(found["day"]).cast(pa.date32()).value) * 24 + int(found["hour"])
            hours.setdefault((folder, found["base"]), {})[hour] = file
    for word, groups in (("number", numbers), ("hour", hours)):
        for (_, base), files in sorted(groups.items()):
            # An hour without a line has no file; only in the busiest log does that mean much.
            if word == "hour" and classify_log_file(base) not in ("server", "all"):
                continue
            known = sorted(files)
            for low, high in zip(known, known[1:], strict=False):
                if high - low > 1:
                    yield _missing_files(log, word, high - low - 1, files[low], files[high])


def _missing_files(log: Log, word: str, count: int, low: str, high: str) -> Row:
    older, newer = (high, low) if word == "number" else (low, high)
    many = f"{count} rotated {'file' if count == 1 else 'files'}"
    spans = log.spans
    begin, end = spans.get(older, (None, None))[1], spans.get(newer, (None, None))[0]
    why = f"{many} missing between {_name(older)} and {_name(newer)}, by their {word}s"
    return _row(log.node, log.role, log.kind, ROTATED, begin, end, why, None,
                [_place(older, 1), _place(newer, 1)])  # fmt: skip


def _name(file: str) -> str:
    return re.split(r"[/!]", file)[-1]


def _place(file: str, line: int) -> Row:
    return {"file": file, "line": line}


def _row(  # noqa: PLR0913, PLR0917
    node: str,
    role: str,
    kind: str | None,
    state: str,
    begin: int | None,
    end: int | None,
    why: str | None,
    log: Log | None = None,
    evidence: Sequence[Row] = (),
) -> Row:
    return {
        "node": node,
        "role": role,
        "log": kind,
        "state": state,
        "started_at": begin,
        "ended_at": end,
        "why": why,
        "files": len(log.files) if log else None,
        "records": log.records if log else None,
        "evidence": list(evidence),
    }
