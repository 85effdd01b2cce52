"""The time that each node's logs cover, the gaps in them, and the table of coverage.

Absence is evidence only where a node could have logged: whoever concludes anything from missing
lines must ask here first.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import FileAccount
from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence, EvidenceRow
from forensics.lib.arrow_io import read_batches
from forensics.lib.intervals import Interval, intersect
from forensics.lib.node_ids import broker_node
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
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
_TAIL = 30 * SECOND
_USUAL = 4
_LONG = 3
# A line that is written as a process falls asleep, or wakes, is no sign of life in between.
_DOZING = SECOND // 2


@dataclass(frozen=True)
class LogGap:
    """A time without a line, from the last line before to the first one after it."""

    begin: int
    end: int
    file: str
    line: int

    @property
    def evidence(self) -> EvidenceRow:
        """Return the first line after the gap."""
        return {"file": self.file, "line": self.line}


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
    # the number of records by the first letter of their level
    levels: Mapping[str, int]
    records: int
    # the first line and the last one
    ends: tuple[EvidenceRow, EvidenceRow]
    # from when to when each file reaches
    spans: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def hides_info(self) -> bool:
        """Return True if a level above INFO keeps out the lines that a history is made of."""
        if self.kind not in PARTITION_LOGS:
            # Others, such as that of requests, are kept at WARN by Kafka's own settings.
            return False
        warnings = sum(self.levels.get(letter, 0) for letter in "WEF")
        return warnings > 0 and not any(self.levels.get(letter) for letter in "IDT")


@dataclass(frozen=True)
class Coverage:
    """All logs of all nodes, and when the last of them ends."""

    logs: tuple[Log, ...] = ()
    begin: int = 0
    end: int = 0

    @cached_property
    def _by_node(self) -> Mapping[str, Sequence[Log]]:
        by_node: dict[str, list[Log]] = defaultdict(list)
        for log in self.logs:
            by_node[log.node].append(log)
        return dict(by_node)

    @cached_property
    def _gaps_by_node(self) -> Mapping[str, list[Interval]]:
        return {node: _find_shared_gaps(logs) for node, logs in self._by_node.items()}

    @property
    def nodes(self) -> Iterable[str]:
        """Return the brokers and controllers that have logs here."""
        return self._by_node.keys()

    def logs_of(self, node: str) -> Sequence[Log]:
        """Return the logs of a node."""
        return self._by_node.get(node, ())

    def partition_log(self, node: str) -> Log | None:
        """Return the log of a node that tells most of its partitions."""
        kinds = {log.kind: log for log in self.logs_of(node)}
        return next((kinds[kind] for kind in PARTITION_LOGS if kind in kinds), None)

    def is_logging_at(self, node: str, at: int) -> bool:
        """Return True if a node has logs around a moment, and they have no gap there."""
        logs = [log for log in self.logs_of(node) if log.kind in PARTITION_LOGS]
        if not any(log.first - MIN_SILENCE <= at <= log.last + MIN_SILENCE for log in logs):
            return False
        return not any(begin < at < end for begin, end in self.shared_gaps(node))

    def reaches_end(self, node: str) -> bool:
        """Return True if a node's logs go on until all logs end, but for what is usual for it."""
        last = max((log.last for log in self.logs_of(node)), default=None)
        return last is not None and self.end - last <= max(_TAIL, _LONG * self.usual_gap(node))

    def shared_gaps(self, node: str) -> list[Interval]:
        """Return the gaps that all logs of a node share."""
        return self._gaps_by_node.get(node, [])

    def usual_gap(self, node: str) -> int:
        """Return how long a gap of a node may be without meaning anything."""
        lengths = heapq.nlargest(_USUAL, (end - begin for begin, end in self.shared_gaps(node)))
        return lengths[_USUAL - 1] if len(lengths) >= _USUAL else _TAIL // _LONG

    def long_gap(self, node: str) -> int:
        """Return from which length on a gap of a node is far beyond the usual."""
        return _LONG * self.usual_gap(node)

    def find_gaps(self, node: str) -> list[Interval]:
        """Find the gaps that all logs of a node share and that are far longer than usual."""
        limit = self.long_gap(node)
        return [(begin, end) for begin, end in self.shared_gaps(node) if end - begin > limit]


def span_as_logged(clocks: Clocks, node: str, begin: int, end: int) -> tuple[int, int]:
    """Return between which times, by its own clock, a node logs between two corrected moments."""
    # Clocks run evenly enough: the correction at the beginning holds until the end.
    correction = begin - clocks.correct(node, begin)
    return begin + correction + _DOZING, end + correction - _DOZING


def measure_coverage(files: Iterable[FileAccount], clocks: Clocks) -> Coverage:
    """Measure what the logs of brokers and controllers cover."""
    by_log: dict[tuple[str, str, str], list[FileAccount]] = defaultdict(list)
    for file in files:
        if file.first is None or file.last is None or (file.duplicate_of or file.copy_of):
            continue
        if file.role in SERVER_ROLES and file.node is not None:
            by_log[file.node, file.role, classify_log_file(file.file)].append(file)
    logs = tuple(_measure_log(*key, by_log[key], clocks) for key in sorted(by_log))
    begin = min((log.first for log in logs), default=0)
    return Coverage(logs, begin, max((log.last for log in logs), default=0))


def classify_log_file(file: str) -> str:
    """Name the kind of log by the name of its file; `all` is where a process writes everything.

    >>> classify_log_file("logs.tgz!broker-1/state-change.log.2026-11-18-11")
    'state-change'
    >>> classify_log_file("controller-1.log")
    'all'
    """
    name = _base_name(file)
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "all")


def _base_name(file: str) -> str:
    return re.split(r"[/!]", file)[-1]


def _measure_log(node: str, role: str, kind: str, files: list[FileAccount], clocks: Clocks) -> Log:
    files = sorted(files, key=lambda one: (one.first or 0, one.last or 0, one.file))
    gaps: list[LogGap] = []
    spans: dict[str, Interval] = {}
    levels: Counter[str] = Counter()
    reach: int | None = None
    for file in files:
        edges = (file.first or 0, file.last or 0)
        first, last = (clocks.correct(node, moment, file.file) for moment in edges)
        if reach is not None and first - reach >= MIN_SILENCE:
            gaps.append(LogGap(reach, first, file.file, 1))
        for *ends, line in file.gaps:
            begin, end = (clocks.correct(node, moment, file.file) for moment in ends)
            gaps.append(LogGap(begin, end, file.file, line))
        reach = last if reach is None else max(reach, last)
        spans[file.file] = (first, last)
        levels.update(file.levels)
    last_file = max(files, key=lambda one: (one.last or 0, one.file))
    return Log(
        node, role, kind,
        min(first for first, _ in spans.values()),
        max(last for _, last in spans.values()),
        tuple(gaps),
        tuple(file.file for file in files),
        dict(levels),
        sum(file.counts["records"] for file in files),
        ({"file": files[0].file, "line": 1},
         {"file": last_file.file, "line": max(1, last_file.counts["lines"])}),
        spans,
    )  # fmt: skip


def _find_shared_gaps(logs: Sequence[Log]) -> list[Interval]:
    if not logs:
        return []
    begin, end = min(log.first for log in logs), max(log.last for log in logs)
    shared = [(begin, end)]
    for log in logs:
        gaps = [(begin, log.first), *((gap.begin, gap.end) for gap in log.gaps), (log.last, end)]
        # The first line is outside: two gaps with one line between them are two.
        shared = intersect(shared, ((first + 1, last) for first, last in gaps))
    return [(first - 1, last) for first, last in shared if last - first + 1 >= MIN_SILENCE]


Row = dict[str, Any]

# What `state` says: lines from then to then; and why there are none.
COVERED, DOWN, SILENT, MISSING, ROTATED, HIDDEN = (
    "covered", "down", "silent", "missing", "rotated", "hidden"
)  # fmt: skip
# What is missing here could have told that something happened; a silent node has little to say.
LACKING_STATES = (MISSING, ROTATED, HIDDEN)
GAP_STATES = (SILENT, *LACKING_STATES)

_WHY = {
    DOWN: "the process was away",
    SILENT: "no line for far longer than is usual for this node",
    HIDDEN: "no line below WARN: a level hides INFO",
}
_MISSING_LOG = {
    "state-change": "no state-change.log: what this broker was told of leaders is not here",
    "server": "no server.log: what this process did, its starts and stops, is not here",
}
_NOBODY = "no log of this node, though others name it"
ENDS_EARLY = "its logs end long before the others'"
_NUMBER = re.compile(r"^(?P<base>.*\.log)\.(?P<number>\d{1,3})(?:\.(?:gz|zst|bz2|xz))?$")
_HOUR = re.compile(r"^(?P<base>.*\.log)\.(?P<day>\d{4}-\d\d-\d\d)-(?P<hour>\d\d)(?:\.gz)?$")
_NEAR = 2 * SECOND
_MAX_EVIDENCE = 4


def build_coverage_table(
    coverage: Coverage, absences: Iterable[Absence], named: Mapping[str, str]
) -> pa.Table:
    """Return one row for each covered time and each gap; `named` are the nodes to expect."""
    by_node: dict[str, list[Absence]] = defaultdict(list)
    for absence in absences:
        by_node[broker_node(absence.broker)].append(absence)
    rows: list[Row] = []
    for node in sorted({*coverage.nodes, *named}):
        logs = coverage.logs_of(node)
        if not logs:
            rows.append(
                _row(node, named[node], MISSING, (coverage.begin, coverage.end), why=_NOBODY)
            )
            continue
        for log in logs:
            rows += _log_rows(log, coverage)
        rows += _gap_rows(node, coverage, by_node[node])
    return pa.Table.from_pylist(rows, schema=COVERAGE)


def find_named_nodes(events: Path) -> dict[str, str]:
    """Find which brokers are named as leaders, in one streaming read of one column."""
    leaders: set[int] = set()
    for batch in read_batches(events, ["leader"]):
        leaders.update(one for one in pc.unique(batch["leader"]).to_pylist() if one is not None)
    return {broker_node(leader): "broker" for leader in sorted(leaders) if leader >= 0}


def _log_rows(log: Log, coverage: Coverage) -> Iterator[Row]:
    """Split the time of one log at its long gaps."""
    limit, long_gaps = coverage.long_gap(log.node), coverage.find_gaps(log.node)
    facts: Row = {"log": log.kind, "files": len(log.files), "records": log.records}
    begin, evidence = log.first, log.ends[0]
    for gap in sorted(log.gaps, key=lambda gap: gap.begin):
        shared = any(low < gap.end and gap.begin < high for low, high in long_gaps)
        if gap.end - gap.begin > limit and shared:
            span = (begin, gap.begin)
            yield _row(log.node, log.role, COVERED, span, **facts, evidence=[evidence])
            begin, evidence = gap.end, gap.evidence
    facts["evidence"] = [evidence, log.ends[1]]
    yield _row(log.node, log.role, COVERED, (begin, log.last), **facts)
    if log.hides_info:
        whole = (log.first, log.last)
        yield _row(log.node, log.role, HIDDEN, whole, why=_WHY[HIDDEN], **facts)
    if log.kind in PARTITION_LOGS:
        # The JVM's log, for one, is written over in a ring.
        yield from _rotation_rows(log)


def _gap_rows(node: str, coverage: Coverage, absences: Sequence[Absence]) -> Iterator[Row]:
    logs = coverage.logs_of(node)
    role, kinds = logs[0].role, {log.kind for log in logs}
    first, last = min(log.first for log in logs), max(log.last for log in logs)
    # A broker of its own writes every kind; a KRaft controller writes no state-change.log.
    expected = ("state-change", "server") if role == "broker" else ("server",)
    for kind in expected if "all" not in kinds else ():
        if kind not in kinds:
            yield _row(node, role, MISSING, (first, last), log=kind, why=_MISSING_LOG[kind])
    for begin, end in coverage.find_gaps(node):
        gaps = [gap for log in logs for gap in log.gaps if gap.begin < end and begin < gap.end]
        down = any(
            absence.kind in ("crash", "controlled")
            and absence.begin <= begin + _NEAR
            and (absence.end is None or end <= absence.end + _NEAR)
            for absence in absences
        )
        state = DOWN if down else SILENT
        evidence = [gap.evidence for gap in gaps[:_MAX_EVIDENCE]]
        yield _row(node, role, state, (begin, end), why=_WHY[state], evidence=evidence)
    if not coverage.reaches_end(node) and not any(one.end is None for one in absences):
        yield _row(node, role, MISSING, (last, coverage.end), why=ENDS_EARLY)


def _rotation_rows(log: Log) -> Iterator[Row]:
    """Find numbers and hours that are missing among the names of rotated files."""
    numbers: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    hours: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for file in log.files:
        folder, _, name = file.rpartition("/")
        if match := _NUMBER.match(name):
            numbers[folder, match["base"]][int(match["number"])] = file
        elif match := _HOUR.match(name):
            with suppress(ValueError):
                day = date.fromisoformat(match["day"]).toordinal()
                hours[folder, match["base"]][day * 24 + int(match["hour"])] = file
    for word, groups in (("number", numbers), ("hour", hours)):
        for (_, base), files in sorted(groups.items()):
            # An hour without a line has no file; only in the busiest log does that mean much.
            if word == "hour" and classify_log_file(base) not in ("server", "all"):
                continue
            for low, high in pairwise(sorted(files)):
                if high - low > 1:
                    yield _rotated_row(log, word, high - low - 1, files[low], files[high])


def _rotated_row(log: Log, word: str, count: int, low: str, high: str) -> Row:
    older, newer = (high, low) if word == "number" else (low, high)
    files = quantity(count, "rotated file")
    why = f"{files} missing between {_base_name(older)} and {_base_name(newer)}, by their {word}s"
    span = (log.spans.get(older, (None, None))[1], log.spans.get(newer, (None, None))[0])
    evidence = [{"file": older, "line": 1}, {"file": newer, "line": 1}]
    return _row(log.node, log.role, ROTATED, span, log=log.kind, why=why, evidence=evidence)


def _row(
    node: str, role: str, state: str, span: tuple[int | None, int | None], **columns: Any
) -> Row:
    row = {"node": node, "role": role, "state": state, "started_at": span[0], "ended_at": span[1]}
    return row | {"evidence": []} | columns
