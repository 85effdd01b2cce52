"""Says by its content what a file is that is no log, and reads it into events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from forensics.events.support_files import containers, host_logs, kafka_tools
from forensics.events.support_files.facts import Line, Reader, Row, read_moment
from forensics.events.support_files.kafka_tools import read_metadata_log
from forensics.ingest.record_splitter import LineCounts
from forensics.lib.secrets import mask_column
from forensics.parsing.entries import MAX_TEXT_BYTES
from forensics.schemas import EVENTS

# So much of the head decides; the first lines of a document say what it is.
_HEAD = 8 << 10
_LINES = 60
# Text has no zero bytes; one in a thousand is too many.
_BINARY_SHARE = 0.001
# A log that lost its bytes is all zeros: that is damage, and no other kind of file.
_EMPTIED_SHARE = 0.9
# A comment may tell when a file was written; of more lines with times most belong to a log.
_FEW = 3
_LONG_COMMENT = 120
_COUNTED = kafka_tools.read_counted_only


@dataclass(frozen=True)
class Format:
    """A kind of document: its name in the table of files, and its reader."""

    name: str
    read: Reader
    # whether only so much of it is looked at as fits into memory
    is_tree: bool = False
    is_host_log: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether nothing is read of it but how many lines it has."""
        return self.read is _COUNTED


# Resources of Kubernetes, whose keys may stand in any order.
_YAML = (
    rb"\s*(?:(?:#[^\n]*|---[ \t]*)\n)*"
    rb"(?:apiVersion|(?:items|kind)(?=[^\0]*\bapiVersion:)): ?[\w./]*\s*\n(?:[ \w-])"
)
_JSON = rb'\s*\{\s*"(?:apiVersion|(?:kind|items|metadata)(?=[^\0]*"apiVersion":))":'
# What df, top, free, ps, netstat, ss, kubectl, iostat and vmstat print first.
_COMMANDS = (
    rb"Filesystem\s|top - \d|\s+total\s+used\s+free|\s*(?:UID|USER|PID)\s+\S|Proto\s+Recv|"
    rb"Active Internet|Netid\s|NAME\s+[A-Z]|Linux \d|procs -"
)
_OF_TREES = (containers.read_resources, containers.read_inspection)
_SERVICE = "service status"
# A dot, a circle, a cross or an arrow stands before the name of a service.
_STATUS = (
    rb"(?:\xe2\x97\x8f|\xe2\x97\x8b|\xc3\x97|\xe2\x86\xbb|\*) [\w@.:\\-]+\.(?:service|scope)\b"
)
# What Kafka's tools print of a cluster at some moment, besides what is read.
_TOOLS = (
    rb"Cluster ID: \S+\s*(?:\n|$)|Feature: [\w.]+\s+SupportedMinVersion|"
    rb"Found (?:log|metadata) direct|No partition reassignments found|"
    rb"Status of partition reassignment|Current (?:partition replica assignment|ACLs for resource)|"
    rb"(?:Error: )?Consumer group '|"
    rb"TransactionalId\s+(?:Coordinator|ProducerId)|ProducerId\s+(?:ProducerEpoch|LatestCoord)|"
    rb"(?:Successfully completed|Valid replica already elected|Error completing) leader election|"
    rb"(?:[\w.-]{1,249}:\d{1,6}:\d{0,19}\s*\n){2}"
)
# Seconds since the start of a process whose start nobody knows.
_UNDATED_GC = "gc log without dates"
_GC_BANNER = rb"(?:(?:OpenJDK|Java|Memory:|CommandLine) [^\n]*\n){0,4}"
_TOOL = "output of a kafka tool"
# What logging libraries print first when nobody has told them where to log.
_NOISE = re.compile(
    rb"(?:(?:log4j:WARN|SLF4J: |SLF4J\(|WARNING: |OpenJDK \S+ \S+ VM warning: )[^\n]*\n)+"
)
# What begins so is never a log.
_BEGINNINGS = tuple(
    (re.compile(pattern), Format(name, reader, is_tree=reader in _OF_TREES))
    for pattern, name, reader in (
        (_YAML, "kubernetes yaml", containers.read_resources),
        (_JSON, "kubernetes json", containers.read_resources),
        (rb"Name:\s+\S+\s*\nNamespace:\s+\S+", "kubectl describe", containers.read_description),
        (rb"(?:NAMESPACE\s+)?LAST SEEN\s+(?:FIRST SEEN\s+COUNT\s+NAME|TYPE\s+REASON)",
         "kubernetes events", containers.read_event_list),
        (rb"(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE",
         "kubernetes pods", containers.read_pod_list),
        (rb'\s*\[?\s*\{\s*"Id": ?"[0-9a-f]{12,64}",\s*"(?:Created|Args|Path)":',
         "docker inspect", containers.read_inspection),
        (rb"\d{4}-\d\d-\d\dT\S+ (?:container|image|network|volume|plugin) [\w:]+[^(\n]{0,200} \(",
         "docker events", containers.read_events),
        (rb'\{"(?:status|Type|Action)":"[^"]*",(?:"id"|"Action"|"from"|"Actor")',
         "docker events", containers.read_events),
        (rb"#\s*\n# (?:A fatal error has been detected by|There is insufficient memory for)",
         "jvm crash report", host_logs.read_crash_report),
        (rb"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\s*\n)?Full thread dump ", "thread dump", _COUNTED),
        (rb"Attaching to process ID", "thread dump", _COUNTED),
        (rb"JAVA PROFILE 1\.0", "heap dump", _COUNTED),
        (rb" num +#instances +#bytes", "heap histogram", _COUNTED),
        (rb"(?:[^\n]{0,120}\n){0,4}?\s*Topic: ?[\w.-]+\s+(?:TopicId: ?\S+\s+)?Partition(?:Count)?:",
         "topic description", kafka_tools.read_described_topics),
        (rb"ClusterId:\s+\S+\s*\nLeaderId:", "quorum description",
         kafka_tools.read_described_quorum),
        (rb"(?:NodeId|ReplicaId)\s+(?:DirectoryId\s+)?LogEndOffset\s+Lag", "quorum description",
         kafka_tools.read_described_quorum),
        (rb"(?:Dynamic|All|Default) configs for \S+ .{0,300}are:", "configuration",
         kafka_tools.read_described_configs),
        (rb'Querying brokers for log dir|Received log dir|\{"version":1,"brokers":',
         "log directories", _COUNTED),
        (_STATUS, _SERVICE, host_logs.read_service_status),
        (rb"\[(?:\d+[.,]\d{3}s|\d{1,9}ms|\d+ns)\](?:\[[a-z]+ *\])?\[[\w,]+ *\] ", _UNDATED_GC,
         _COUNTED),
        (_GC_BANNER + rb"\d+[.,]\d{3}: \[(?:GC|Full GC|Pause|CMS|Concurrent)", _UNDATED_GC,
         _COUNTED),
        (rb"# (?:HELP|TYPE) [a-zA-Z_:]", "metrics", _COUNTED),
        (_TOOLS, _TOOL, _COUNTED),
        (rb"\S+:\d+ \(id: -?\d+ rack: \S+(?: isFenced: \w+)?\) -> \(", "api versions", _COUNTED),
        (rb"\s*GROUP\s+(?:TOPIC|COORDINATOR)", "group description", _COUNTED),
        (rb"#!", "script", _COUNTED),
        (_COMMANDS, "command output", _COUNTED),
        (rb"(?:\s*<\?xml[^>]*>)?\s*<(?:sst|worksheet)\b", "workbook, to be saved as CSV", _COUNTED),
        (rb"\s*<(?:\?xml|!DOCTYPE|html|[Cc]onfiguration)\b", "xml or html", _COUNTED),
        (rb"-----BEGIN [A-Z ]+-----", "certificate or key", _COUNTED),
        (rb"SQLite format 3\0", "database", _COUNTED),
        (rb"\x7fELF|\xca\xfe\xba\xbe|%PDF-|\x89PNG", "binary, not a log", _COUNTED),
    )
)  # fmt: skip
_DUMP = re.compile(
    rb"Dumping [^\n]+\n(?:[^\n]*\n)?(?:Log s|S)tarting offset: \d+|"
    rb"(?:Dumping [^\n]+\n)?Snapshot end"
)
_METADATA = re.compile(rb'(?m)^(?:\|? ?offset: .*| )payload: \{"type":"[A-Z_]+"')
_SETTING = re.compile(rb"^\s*[A-Za-z][\w.\-/\[\]]*\s*[=:](?:\s*\S.*)?$")
_INI = re.compile(rb"^\s*[\w.\-/ ]+=|^\[[^\]]*\]\s*$")
_METRIC = re.compile(
    rb"^[a-zA-Z_:][\w:.]*(?:\{[^{}]*\})? (?:[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|[-+]?Inf|NaN)"
    rb"(?: \d+)?$"
)
# A line of an object that is printed for people.
_JSON_LINE = re.compile(
    rb'^\s*(?:"[^"\\]*"\s*:\s*)?(?:[\]\[{}]+,?|\[\],?|\{\},?|"(?:[^"\\]|\\.)*",?'
    rb"|-?[0-9][0-9.eE+-]*,?|true,?|false,?|null,?)?\s*$"
)
_KEY = re.compile(rb"^(?: *- )* *(?:[\w./\"'-]+|\{.*\}):(?: .*)?$|^ *- .*$|^ +\S.*$")
_TABLE_HEAD = re.compile(rb"^[A-Z][A-Z0-9()%#/-]+(?: [A-Z]+)?(?: {2,}[A-Z%][A-Z0-9()%#:/ -]*)+\s*$")
_DATED = re.compile(rb"\d\d:\d\d:\d\d")
# A journal that holds these in a layout that nobody knows is a log that is not read.
_OF_KAFKA = re.compile(rb"org\.apache\.kafka|\(kafka\.|\bkafka\.(?:server|log|cluster|zk)\.")
_STATUS_LINES = 10
_HOST_LOG = Format("system journal", host_logs.read_host_lines, is_host_log=True)
_BINARY = Format("binary, not a log", _COUNTED)
_CONFIGURATION = Format("configuration", kafka_tools.read_properties)
_TOOL_OUTPUT = Format(_TOOL, _COUNTED)
_METRICS, _JSON_TEXT = Format("metrics", _COUNTED), Format("json", _COUNTED)
_OTHER_CONFIGURATION = Format("configuration", _COUNTED)


def recognise(head: bytes, *, headless: bool) -> Format | None:
    r"""Say what a file is by its head; None for a log, and for what nobody knows.

    `headless`: no line of the head begins a record of a known layout.

    >>> recognise(b"apiVersion: v1\nkind: Pod\n", headless=True).name
    'kubernetes yaml'
    >>> recognise(b"Dear diary,\nnothing happened.\n", headless=True)
    """
    begin = head[:_HEAD].removeprefix(b"\xef\xbb\xbf")
    if noise := _NOISE.match(begin):
        begin = begin[noise.end() :]
        if not begin.strip():
            return _TOOL_OUTPUT
    for pattern, known in _BEGINNINGS:
        if pattern.match(begin) and not (known.name == _SERVICE and _holds_log(head)):
            return known
    if _DUMP.match(begin):
        return _METADATA_LOG if _METADATA.search(head) else _SEGMENT
    return _recognise_headless(head) if headless and head else None


def _holds_log(head: bytes) -> bool:
    """Tell whether more of Kafka's lines follow than `systemctl status` shows unless asked."""
    return next(islice(_OF_KAFKA.finditer(head), _STATUS_LINES, None), None) is not None


def find_host_reader(head: bytes) -> Format | None:
    """Return the reader of the host's own lines, if a log is a journal or a syslog."""
    begin = head[:_HEAD].rpartition(b"\n")[0]
    text = begin.decode("utf-8", "replace")
    return _HOST_LOG if host_logs.looks_like_host_log(text) else None


_METADATA_LOG = Format("metadata log", read_metadata_log)
_SEGMENT = Format("log segment dump", _COUNTED)


def _recognise_headless(head: bytes) -> Format | None:
    zeros = head.count(0)
    if zeros > len(head) * _BINARY_SHARE:
        return None if zeros > len(head) * _EMPTIED_SHARE else _BINARY
    host = find_host_reader(head)
    if host and not _OF_KAFKA.search(head):
        return host
    lines = [line for line in islice(head[:_HEAD].splitlines(), _LINES) if line.strip()]
    if len(lines) > _FEW and 2 * sum(1 for line in lines if _DATED.search(line)) > len(lines):
        return None
    told = [line for line in lines if line.lstrip()[:1] not in (b"#", b"!", b";")]
    # Comments may hold the time at which a file was written; all else with a time may be a log, and
    # its records may begin as comments do.
    heads = [line for line in lines if line not in told and len(line) <= _LONG_COMMENT]
    # No configuration has many comments with times.
    dated = sum(1 for line in head.splitlines() if line[:1] == b"#" and _DATED.search(line))
    if dated > _LINES or any(_DATED.search(line) for line in lines if line not in heads):
        return None
    if not told:
        return _OTHER_CONFIGURATION if lines else None
    return _recognise_lines(told, is_kafka=kafka_tools.KNOWN.search(head) is not None)


def _recognise_lines(lines: list[bytes], *, is_kafka: bool) -> Format | None:
    """Say what some lines are, none of which is a comment."""
    if _all_match(_SETTING, lines) and (is_kafka or all(b"=" in line for line in lines)):
        return _CONFIGURATION if is_kafka else _OTHER_CONFIGURATION
    is_object = lines[0].lstrip()[:1] in (b"{", b"[")
    for pattern, known in (
        (_METRIC, _METRICS), (_INI, _OTHER_CONFIGURATION), *([(_JSON_LINE, _JSON_TEXT)] * is_object)
    ):  # fmt: skip
        if _all_match(pattern, lines):
            return known
    if len(lines) > 1 and _TABLE_HEAD.match(lines[0]):
        return Format("command output", _COUNTED)
    if len(lines) > 1 and b":" in lines[0] and _all_match(_KEY, lines):
        return Format("yaml", _COUNTED)
    return None


def _all_match(pattern: re.Pattern[bytes], lines: list[bytes]) -> bool:
    # The last line may be cut off.
    return all(pattern.match(line) for line in lines[:-1] or lines)


# So much of a line is looked at; the rest is only counted.
_MAX_LINE = 1 << 20
_BATCH = 20_000
# What a tool printed holds for the moment at which it ran: some note it in the name of the file.
_OF_A_MOMENT = ("partition_described", "quorum_described", "quorum_replica_described")
_TIME_IN_NAME = re.compile(
    r"(?P<day>20\d\d-?[01]\d-?[0-3]\d)[T_-](?P<hour>[0-2]\d)[:_-]?(?P<minute>[0-5]\d)"
    r"[:_-]?(?P<second>[0-5]\d)Z"
)


class DocumentLines:
    """The lines of some blocks, counted as they are read.

    The first line that is not blank is the record, all others belong to it.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self.counts = LineCounts()
        self._blocks, self._offset = blocks, 0

    def __iter__(self) -> Iterator[Line]:
        """Yield every line, without its line break."""
        for raw, size in _cut_lines(self._blocks):
            self._count(raw, size)
            text = raw.decode("utf-8", "replace").rstrip("\r")
            if not self._offset:
                text = text.removeprefix("\ufeff")
            yield Line(self.counts.lines, self._offset, text)
            self._offset += size

    def drain(self) -> None:
        """Count what no reader has asked for."""
        for _ in self:
            pass

    def _count(self, raw: bytes, size: int) -> None:
        counts = self.counts
        counts.bytes += size
        counts.lines += 1
        counts.long_lines += size > _MAX_LINE
        if not raw.strip():
            counts.blank_lines += 1
        elif counts.records:
            counts.continuation_lines += 1
        else:
            counts.records = 1


def _cut_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line, cut where it is too long, and its size with the line break."""
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        lines = block.split(b"\n")
        for line in lines[:-1]:
            yield b"".join([*parts, line])[:_MAX_LINE], size + len(line) + 1
            parts, size = [], 0
        if size < _MAX_LINE:
            parts.append(lines[-1])
        size += len(lines[-1])
    if size:
        yield b"".join(parts)[:_MAX_LINE], size


class ProbedLines:
    """The few lines of a log that hold a probe, with their numbers in the whole file."""

    def __init__(self, probe: re.Pattern[bytes]) -> None:
        self._probe = probe
        self._tail = b""
        self._number, self._offset = 1, 0

    def feed(self, block: bytes, *, final: bool) -> Iterator[Line]:
        """Take the next block; yield the lines that are complete now."""
        text = self._tail + block
        end = len(text) if final else text.rfind(b"\n") + 1
        seen = 0
        for found in self._probe.finditer(text, 0, end):
            start = text.rfind(b"\n", 0, found.start()) + 1
            if start < seen:
                continue
            self._number += text.count(b"\n", seen, start)
            stop = text.find(b"\n", found.start(), end)
            stop = end if stop < 0 else stop
            line = text[start : min(stop, start + _MAX_LINE)].decode("utf-8", "replace")
            yield Line(self._number, self._offset + start, line.rstrip("\r"))
            self._number += 1
            seen = min(stop + 1, end)
        self._number += text.count(b"\n", seen, end)
        self._offset += end
        self._tail = text[end:]
        if len(self._tail) > _MAX_LINE:
            # Nothing that is looked for is so long: what follows is a part of the same line.
            self._offset += len(self._tail)
            self._tail = b""


def read_events(format_: Format, lines: Iterable[Line], file: str) -> Iterator[pa.RecordBatch]:
    """Yield what a document states as events; secrets in the lines it quotes are masked."""
    moment = _moment_of(file)
    rows: list[Row] = []
    for row in format_.read(lines):
        if row["ts"] is None and row["kind"] in _OF_A_MOMENT:
            row["ts"] = moment
        rows.append(row)
        if len(rows) == _BATCH:
            yield to_batch(rows)
            rows = []
    if rows:
        yield to_batch(rows)


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    """Return facts as events; secrets in the lines they quote are masked."""
    rows = sorted(rows, key=lambda row: row["offset"])
    columns: dict[str, pa.Array] = {}
    for field in EVENTS:
        values: list[Any] = [row.get(field.name) for row in rows]
        columns[field.name] = pa.array(values, field.type)
    columns["text"] = mask_column(
        pa.array([row["text"].encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore") for row in rows])
    )
    for name in ("detail", "value"):
        columns[name] = mask_column(columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)


def _moment_of(file: str) -> int | None:
    """Return the moment that stands in the name of a file, in UTC.

    >>> _moment_of("b.tgz!a/topics-2026-11-18T113845Z.txt") == _moment_of("20261118_113845Z")
    True
    """
    found = _TIME_IN_NAME.search(re.split(r"[/!]", file)[-1])
    if not found:
        return None
    digits = found["day"].replace("-", "")
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
    return read_moment(f"{day}T{found['hour']}:{found['minute']}:{found['second']}Z")
