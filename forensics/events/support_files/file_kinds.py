"""Says by its content what a file is that is no log, and who reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from forensics.events.support_files import containers, host_logs, kafka_tools
from forensics.events.support_files.facts import Reader
from forensics.events.support_files.metadata_log import read_metadata_log

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
        (rb"\[\d+[.,]\d{3}s\]\[[a-z]+ *\]\[[\w,]+ *\] ", _UNDATED_GC, _COUNTED),
        (rb"\d+[.,]\d{3}: \[(?:GC|Full GC|Pause|CMS|Concurrent)", _UNDATED_GC, _COUNTED),
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
