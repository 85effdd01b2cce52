"""Writes the records of a plain log as collectors, stores and JSON layouts write them.

Each writer has the shape that its program gives; all texts are ours.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from xml.sax.saxutils import escape

__all__ = ["DOCUMENTS", "LINES", "PARTS", "Record", "read_records"]

START = re.compile(r"\[([-\d]+ [:\d]+),(\d{3})\] (\w+) ")
LOGGER = re.compile(r" \(([\w.$]+)\)$", re.MULTILINE)
KOLKATA = timezone(timedelta(hours=5, minutes=30))


@dataclass(frozen=True)
class Record:
    """One record of a plain log, and its parts; `message` has what stands below, too."""

    text: str
    at: datetime
    level: str
    logger: str
    message: str

    @property
    def iso(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03}Z"

    @property
    def nanos(self) -> str:
        return f"{int(self.at.timestamp())}{self.at.microsecond:06}000"

    @property
    def millis(self) -> int:
        return int(self.at.timestamp()) * 1000 + self.at.microsecond // 1000


Object = dict[str, Any]
Write = Callable[[Sequence[Record]], str]


def read_records(text: str) -> Iterator[Record]:
    """Take a log of Kafka's own layout apart."""
    starts = [*(found.start() for found in START.finditer(text)), len(text)]
    for begin, end in zip(starts, starts[1:], strict=False):
        record = text[begin:end].rstrip("\n")
        head, logger = START.match(record), LOGGER.search(record)
        if head and logger:
            at = datetime.strptime(head[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            message = record[head.end() : logger.start()] + record[logger.end() :]
            moment = at + timedelta(milliseconds=int(head[2]))
            yield Record(record, moment, head[3], logger[1], message)


def compact(node: object) -> str:
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def each_line(make: Callable[[Record, str], Object]) -> Write:
    """Write one object for each line of the plain log."""
    return lambda records: "".join(
        compact(make(one, line)) + "\n" for one in records for line in one.text.split("\n")
    )


def each_record(make: Callable[[Record], Object], dump: Callable[[object], str] = compact) -> Write:
    """Write one object for each record."""
    return lambda records: "".join(dump(make(one)) + "\n" for one in records)


POD = {
    "pod_name": "kafka-0",
    "namespace_name": "kafka",
    "container_name": "kafka",
    "labels": {"message": "none", "log": "none"},
}

# Collectors and stores: each line of a log is a string somewhere in an object on a line.
LINES: Mapping[str, Write] = {
    "docker": each_line(
        lambda one, line: {"log": line + "\n", "stream": "stdout", "time": one.iso}
    ),
    "docker with attributes": each_line(
        lambda one, line: {
            "log": line + "\n",
            "stream": "stdout",
            "attrs": {"tag": "kafka-1", "log": "none"},
            "time": one.iso,
        }
    ),
    "fluent bit": each_line(
        lambda one, line: {
            "date": one.millis / 1000,
            "stream": "stdout",
            "logtag": "F",
            "kubernetes": POD,
            "log": line,
        }
    ),
    "fluentd": lambda records: "".join(
        f"{one.at:%Y-%m-%dT%H:%M:%S+00:00}\tkube.kafka\t"
        + compact({"container_name": "/kafka-1", "log": line})
        + "\n"
        for one in records
        for line in one.text.split("\n")
    ),
    "fluentd forward": lambda records: "".join(
        compact([one.millis / 1000, {"kubernetes": POD, "log": line}]) + "\n"
        for one in records
        for line in one.text.split("\n")
    ),
    "filebeat": each_line(
        lambda one, line: {
            "@timestamp": one.iso,
            "@metadata": {"beat": "filebeat"},
            "error": {"message": "none"},
            "log": {"offset": 1, "file": {"path": "a"}},
            "message": line,
            "host": {"name": "b1"},
        }
    ),
    "vector": each_line(
        lambda one, line: {
            "file": "/logs/server.log",
            "host": "b1",
            "message": line,
            "source_type": "file",
            "timestamp": one.iso,
        }
    ),
    "elasticsearch": each_line(
        lambda one, line: {
            "_index": "kafka-2026",
            "_id": "1",
            "_score": 1,
            "_source": {
                "message": line,
                "@timestamp": one.iso,
                "kubernetes": {"pod": {"name": "kafka-0"}},
            },
        }
    ),
    "elasticsearch fields": each_line(
        lambda one, line: {
            "_index": "kafka",
            "fields": {"message": [line], "@timestamp": [one.iso]},
        }
    ),
    "splunk": each_line(
        lambda one, line: {
            "preview": False,
            "offset": 1,
            "result": {"_raw": line, "_time": one.iso, "host": "b1"},
        }
    ),
    "splunk hec": each_line(
        lambda one, line: {
            "time": one.millis / 1000,
            "host": "b1",
            "sourcetype": "kafka",
            "event": line,
        }
    ),
    "google": each_line(
        lambda one, line: {
            "insertId": "1",
            "logName": "projects/p/logs/stdout",
            "severity": "INFO",
            "resource": {"type": "k8s_container", "labels": {"pod_name": "kafka-0"}},
            "textPayload": line,
            "timestamp": one.iso,
        }
    ),
    "google json": each_line(
        lambda one, line: {
            "severity": "INFO",
            "jsonPayload": {"message": line},
            "timestamp": one.iso,
            "resource": {"labels": {"pod_name": "kafka-0", "message": "none"}},
        }
    ),
    "logcli": each_line(
        lambda one, line: {
            "labels": {"pod": "kafka-0", "level": "info"},
            "line": line,
            "timestamp": one.iso,
        }
    ),
    "azure": each_line(
        lambda one, line: {
            "TimeGenerated": one.iso,
            "Computer": "aks-1",
            "LogLevel": "INFO",
            "PodName": "kafka-0",
            "ContainerName": "kafka",
            "LogMessage": line,
        }
    ),
    "datadog": each_line(
        lambda one, line: {
            "id": "A",
            "type": "log",
            "attributes": {
                "status": "info",
                "service": "kafka",
                "host": "b1",
                "message": line,
                "timestamp": one.iso,
            },
        }
    ),
    "journal": each_line(
        lambda one, line: {
            "__CURSOR": "s=1",
            "__REALTIME_TIMESTAMP": str(one.millis * 1000),
            "_HOSTNAME": "b1",
            "MESSAGE": line,
            "_PID": "7",
        }
    ),
    "journal in bytes": each_line(
        lambda one, line: {
            "__REALTIME_TIMESTAMP": str(one.millis * 1000),
            "_HOSTNAME": "b1",
            "MESSAGE": list(line.encode()),
        }
    ),
    "victorialogs": each_line(
        lambda one, line: {"_time": one.iso, "_stream": '{pod="kafka-0"}', "_msg": line}
    ),
    "fluent bit's file": lambda records: "".join(
        f"kube.kafka: [{one.millis / 1000}, {compact({'log': line, 'stream': 'stdout'})}]\n"
        for one in records
        for line in one.text.split("\n")
    ),
    "fluent bit's events": lambda records: "".join(
        compact([[one.millis / 1000, {}], {"log": line}]) + "\n"
        for one in records
        for line in one.text.split("\n")
    ),
    "rsyslog": each_line(
        lambda one, line: {
            "timestamp": one.iso,
            "host": "b1",
            "severity": "info",
            "message": line if line[:1].isspace() else f" {line}",
        }
    ),
    "dynatrace": each_line(
        lambda one, line: {"timestamp": one.millis, "content": line, "loglevel": "INFO"}
    ),
    "names of one's own": each_line(
        lambda one, line: {"when": one.iso, "data": {"zeile": line, "quelle": "kafka"}}
    ),
    "a byte order mark": lambda records: "\ufeff" + LINES["filebeat"](records),
    "a sequence": lambda records: "".join(
        "\x1e" + line + "\n" for line in LINES["filebeat"](records).splitlines()
    ),
    "a message twice": each_record(
        lambda one: {
            "_source": {
                "@timestamp": one.iso,
                "host": {"name": "b1"},
                "loglevel": one.level,
                "message": [one.text, one.message],
            }
        }
    ),
    "two collectors": lambda records: (
        LINES["fluent bit"](records[:60]) + LINES["filebeat"](records[60:])
    ),
}


def ecs(one: Record) -> Object:
    return {
        "@timestamp": one.iso,
        "ecs.version": "1.2.0",
        "log.level": one.level,
        "message": one.message,
        "process.thread.name": "main",
        "log.logger": one.logger,
    }


def log4j2(one: Record) -> Object:
    instant = {"epochSecond": int(one.at.timestamp()), "nanoOfSecond": one.at.microsecond * 1000}
    return {
        "instant": instant,
        "thread": "main",
        "level": one.level,
        "loggerName": one.logger,
        "message": one.message,
        "endOfBatch": False,
        "loggerFqcn": "org.apache.logging.X",
        "contextMap": {"message": "none"},
        "threadId": 1,
    }


def spaced(node: object) -> str:
    return json.dumps(node)


OF_SERILOG = {"TRACE": "Verbose", "WARN": "Warning", "ERROR": "Error", "FATAL": "Fatal"}
NUMBER = re.compile(r"(?<![\w.-])[0-9]{1,15}(?![\w.-])")


def serilog(one: Record, message: str, holes: Mapping[str, Any], logger: str) -> Object:
    """Write a record as Serilog does, which leaves its usual level out."""
    text = "@mt" if holes else "@m"
    node = {"@t": one.iso.replace("Z", "1230Z"), text: message, **holes, logger: one.logger}
    return node | ({} if one.level == "INFO" else {"@l": OF_SERILOG.get(one.level, "Debug")})


def template(one: Record) -> Object:
    """Write the numbers of a message beside it, the first one twice: as it was written, too."""
    holes: dict[str, Any] = {}
    first, line_break, below = one.message.partition("\n")

    def dig(number: re.Match[str]) -> str:
        name = f"Value{len(holes)}"
        holes[name] = int(number[0])
        return "{" + name + ("" if len(holes) > 1 else ":000") + "}"

    plain = NUMBER.search(first)
    text = NUMBER.sub(dig, first.replace("{", "{{").replace("}", "}}")) + line_break + below
    if plain is None:
        return serilog(one, one.message, {}, "SourceContext")
    return serilog(one, text, {"@r": [plain[0]], **holes}, "SourceContext")


def mongod(one: Record) -> Object:
    """Write a record as mongod does."""
    moment = {"$date": one.iso.replace("Z", "+00:00")}
    head = {"t": moment, "s": one.level[0], "c": one.logger, "id": 20883, "ctx": "main"}
    return head | {"msg": one.message, "attr": {"after": "1 s"}}


# Layouts that write a record in its parts.
PARTS: Mapping[str, Write] = {
    "serilog compact": each_record(lambda one: serilog(one, one.message, {}, "Class")),
    "serilog template": each_record(template),
    "mongod": each_record(mongod),
    "seconds and nanoseconds": each_record(
        lambda one: {
            "severity": one.level,
            "message": one.message,
            "logger": one.logger,
            "timestampSeconds": one.millis // 1000,
            "timestampNanos": one.millis % 1000 * 10**6,
        }
    ),
    "timestamp of parts": each_record(
        lambda one: {
            "job": "2026-11-18_03",
            "logger": one.logger,
            "message": one.message,
            "thread": "22",
            "severity": one.level,
            "timestamp": {"seconds": one.millis // 1000, "nanos": one.millis % 1000 * 10**6},
        }
    ),
    "ecs": each_record(ecs),
    "ecs nested": each_record(
        lambda one: {
            "@timestamp": one.iso,
            "log": {"level": one.level, "logger": one.logger},
            "process": {"thread": {"name": "main"}},
            "error": {"message": "none"},
            "message": one.message,
        }
    ),
    "logstash": each_record(
        lambda one: {
            "@timestamp": one.at.astimezone(KOLKATA).isoformat(),
            "@version": "1",
            "message": one.message,
            "logger_name": one.logger,
            "thread_name": "main",
            "level": one.level,
            "level_value": 20000,
        },
        spaced,
    ),
    "log4j2": each_record(log4j2),
    "log4j2 millis": each_record(
        lambda one: {
            "timeMillis": one.millis,
            "level": one.level,
            "loggerName": one.logger,
            "message": one.message,
        }
    ),
    "gelf": each_record(
        lambda one: {
            "version": "1.1",
            "host": "b1",
            "short_message": one.message,
            "full_message": one.message,
            "timestamp": one.millis / 1000,
            "level": {"ERROR": 3, "WARN": 4, "INFO": 6}.get(one.level, 7),
            "_thread": "main",
            "_logger": one.logger,
        }
    ),
    "gcp": each_record(
        lambda one: {
            "timestamp": one.iso,
            "severity": one.level,
            "message": one.message,
            "logging.googleapis.com/sourceLocation": {"function": "a.b.c"},
            "_thread": "main",
            "_logger": one.logger,
        }
    ),
    "jboss": each_record(
        lambda one: {
            "timestamp": one.at.isoformat(),
            "sequence": 1,
            "loggerClassName": "org.X",
            "loggerName": one.logger,
            "level": one.level,
            "message": one.message,
            "threadName": "main",
            "mdc": {"message": "none"},
        }
    ),
    "python": each_record(
        lambda one: {
            "asctime": f"{one.at:%Y-%m-%d %H:%M:%S},{one.at.microsecond // 1000:03}",
            "levelname": one.level,
            "name": one.logger,
            "message": one.message,
        },
        spaced,
    ),
    "zap": each_record(
        lambda one: {
            "level": one.level.lower(),
            "ts": one.millis / 1000,
            "logger": one.logger,
            "caller": "a/b.go:7",
            "msg": one.message,
        }
    ),
    "slog": each_record(
        lambda one: {"time": one.iso, "level": one.level, "msg": one.message, "logger": one.logger}
    ),
    "pino": each_record(
        lambda one: {
            "level": {"ERROR": 50, "WARN": 40, "INFO": 30}.get(one.level, 20),
            "time": one.millis,
            "pid": 1,
            "hostname": "b1",
            "name": one.logger,
            "msg": one.message,
        }
    ),
    "filebeat's kafka module": each_record(
        lambda one: {
            "@timestamp": one.iso,
            "log": {"level": one.level, "offset": 7},
            "kafka": {"log": module_parts(one)},
            "message": module_message(one),
        }
    ),
    "datadog": each_record(
        lambda one: {
            "content": {
                "timestamp": one.iso,
                "host": "b1",
                "message": one.message,
                "attributes": {
                    "level": one.level,
                    "logger": {"name": one.logger, "thread_name": "x"},
                },
            }
        }
    ),
    "log4j2, complete": lambda records: (
        "[\n" + ",\n".join(compact(log4j2(one)) for one in records) + "\n]\n"
    ),
    "serilog": each_record(
        lambda one: {"@t": one.iso, "@m": one.message, "@l": one.level, "SourceContext": one.logger}
    ),
    "dotnet": each_record(
        lambda one: {
            "Timestamp": one.iso,
            "LogLevel": one.level,
            "Category": one.logger,
            "Message": one.message,
            "State": {"Message": "none"},
        }
    ),
    "names in objects": each_record(
        lambda one: {
            "timestamp": one.iso,
            "level": {"name": one.level, "code": 1},
            "logger": {"name": one.logger},
            "message": one.message,
        }
    ),
    "ecs in docker's": each_record(
        lambda one: {"log": compact(ecs(one)) + "\n", "stream": "stdout", "time": one.iso}
    ),
    "ecs in splunk's": each_record(lambda one: {"result": {"_raw": compact(ecs(one))}}),
    "unknown": each_record(
        lambda one: {
            "eventTime": one.iso,
            "lvl": one.level,
            "loggerName": one.logger,
            "threadName": "main",
            "rawMessage": one.message,
        }
    ),
}


def module_parts(one: Record) -> Object:
    component = re.match(r"\[([^\]]+)\] ", one.message)
    return {"class": one.logger} | ({"component": component[1]} if component else {})


def module_message(one: Record) -> str:
    return re.sub(r"^\[[^\]]+\] ", "", one.message)


def pretty(node: object) -> str:
    return json.dumps(node, indent=2)


def hits(records: Sequence[Record]) -> Object:
    found = [
        {
            "_index": "kafka",
            "_id": str(at),
            "_source": {
                "@timestamp": one.iso,
                "message": one.text,
                "host": {"name": "b1"},
                "tags": ["a", "b"],
            },
            "sort": [one.millis],
        }
        for at, one in enumerate(records)
    ]
    return {"took": 7, "timed_out": False, "hits": {"total": {"value": len(found)}, "hits": found}}


def loki(records: Sequence[Record]) -> Object:
    values = [[one.nanos, line] for one in records for line in one.text.split("\n")]
    stream = {"stream": {"pod": "kafka-0", "level": "info"}, "values": values}
    return {
        "status": "success",
        "data": {
            "resultType": "streams",
            "result": [stream],
            "stats": {"summary": {"execTime": 0.1}},
        },
    }


def otlp(records: Sequence[Record]) -> Object:
    entries = [
        {
            "timeUnixNano": one.nanos,
            "severityText": one.level,
            "body": {"stringValue": one.text},
            "attributes": [{"key": "log.file.name", "value": {"stringValue": "server.log"}}],
        }
        for one in records
    ]
    attributes = [{"key": "k8s.pod.name", "value": {"stringValue": "kafka-0"}}]
    scopes = [{"scope": {}, "logRecords": entries}]
    return {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": scopes}]}


def otlp_parts(records: Sequence[Record]) -> Object:
    scopes = [
        {
            "scope": {"name": one.logger},
            "logRecords": [
                {
                    "timeUnixNano": one.nanos,
                    "severityText": one.level,
                    "severityNumber": 9,
                    "body": {"stringValue": one.message},
                }
            ],
        }
        for one in records
    ]
    return {"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": scopes}]}


def log_events(records: Sequence[Record]) -> Object:
    events = [
        {"timestamp": one.millis, "message": one.text, "ingestionTime": one.millis + 9}
        for one in records
    ]
    return {"events": events, "nextForwardToken": "f/1", "nextBackwardToken": "b/1"}


def filtered(records: Sequence[Record]) -> Object:
    events = [
        {"logStreamName": "b1", "timestamp": one.millis, "message": one.text, "eventId": "1"}
        for one in records
    ]
    return {"events": events, "searchedLogStreams": []}


def firehose(records: Sequence[Record]) -> str:
    batches = [records[at : at + 20] for at in range(0, len(records), 20)]
    return "".join(
        compact(
            {
                "messageType": "DATA_MESSAGE",
                "owner": "1",
                "logGroup": "msk",
                "logStream": "b1",
                "subscriptionFilters": ["all"],
                "logEvents": [
                    {"id": "1", "timestamp": one.millis, "message": one.text} for one in batch
                ],
            }
        )
        for batch in batches
    )


def insights(records: Sequence[Record]) -> Object:
    rows = [
        [
            {"field": "@timestamp", "value": f"{one.at:%Y-%m-%d %H:%M:%S.%f}"[:-3]},
            {"field": "@message", "value": one.text},
            {"field": "@ptr", "value": "x"},
        ]
        for one in reversed(records)
    ]
    return {"results": rows, "statistics": {"recordsMatched": 7.0}, "status": "Complete"}


def azure_tables(records: Sequence[Record]) -> Object:
    columns = [
        {"name": "TimeGenerated", "type": "datetime"},
        {"name": "PodName", "type": "string"},
        {"name": "LogMessage", "type": "string"},
    ]
    rows = [[one.iso, "kafka-0", one.text] for one in records]
    return {"tables": [{"name": "PrimaryResult", "columns": columns, "rows": rows}]}


def google_list(records: Sequence[Record]) -> list[Object]:
    return [
        {
            "insertId": "1",
            "resource": {"labels": {"pod_name": "kafka-0"}},
            "textPayload": one.text,
            "timestamp": one.iso,
        }
        for one in reversed(records)
    ]


def grafana(records: Sequence[Record]) -> list[Object]:
    return [
        {"line": line, "timestamp": one.nanos, "date": one.iso, "fields": {"pod": "kafka-0"}}
        for one in reversed(records)
        for line in reversed(one.text.split("\n"))
    ]


def as_csv(
    header: Sequence[str], row: Callable[[Record], Sequence[object]], *, newest_first: bool
) -> Write:
    """Write a table with quotes where they are needed; messages may take several lines."""

    def write(records: Sequence[Record]) -> str:
        page = io.StringIO()
        table = csv.writer(page, lineterminator="\n")
        table.writerow(header)
        table.writerows(row(one) for one in (reversed(records) if newest_first else records))
        return page.getvalue()

    return write


def jackson(node: Mapping[str, Any]) -> str:
    """Write an object as Jackson prints it for people."""
    return json.dumps(node, indent=2, separators=(",", " : "))


# Documents that hold many records in one line, or each over several lines.
def each_of(records: Sequence[Record]) -> Iterator[tuple[Record, str]]:
    return ((one, line) for one in records for line in one.text.split("\n"))


def in_lines(make: Callable[[Record, str], str]) -> Write:
    """Write a text for each line of the plain log."""
    return lambda records: "".join(
        make(one, line) for one in records for line in one.text.split("\n")
    )


def rubydebug(one: Record, line: str) -> str:
    return (
        f'{{\n       "message" => {json.dumps(line).replace("#{", chr(92) + "#{")},\n'
        f'    "@timestamp" => {one.iso},\n          "host" => {{\n        "name" => "broker-1"\n'
        '    },\n          "tags" => [\n        [0] "a",\n        [1] nil\n    ]\n}\n'
    )


def yaml_text(line: str) -> str:
    """Write a line in quotes, folded at its first blank in the middle."""
    quoted = line.replace("'", "''")
    at = quoted.find(" ", len(quoted) // 2)
    folds = at > 0 and "  " not in quoted[at - 1 : at + 2] and quoted[at + 1 :].strip()
    return f"'{quoted[:at]}\n  {quoted[at + 1 :]}'" if folds else f"'{quoted}'"


def yaml_entry(one: Record, line: str) -> str:
    return (
        "---\ninsertId: a1\nlabels: {k8s-pod/app: kafka}\nresource:\n  labels:\n"
        "    pod_name: kafka-0\n  type: k8s_container\nseverity: INFO\n"
        f"textPayload: {json.dumps(line) if chr(9) in line else yaml_text(line)}\n"
        f"timestamp: '{one.iso}'\n"
    )


def yaml_item(one: Record, line: str) -> str:
    return f"  - eventId: '1'\n    message: {json.dumps(line)}\n    timestamp: {one.millis}\n"


def xml_result(one: Record) -> str:
    return (
        f"\t<result offset='0'>\n\t\t<field k='_raw'><v xml:space='preserve'>{escape(one.text)}</v>"
        f"</field>\n\t\t<field k='_time'><value><text>{one.iso}</text></value></field>\n"
        "\t\t<field k='host'>\n\t\t\t<value><text>broker-1</text></value>\n\t\t</field>\n"
        "\t</result>\n"
    )


def xml_event(one: Record) -> str:
    return (
        f'<log4j:event logger="{one.logger}" timestamp="{one.millis}" level="{one.level}"'
        f' thread="main">\r\n<log4j:message><![CDATA[{one.message}]]></log4j:message>\r\n'
        '<log4j:properties><log4j:data name="application" value="a"/></log4j:properties>\r\n'
        "</log4j:event>\r\n\r\n"
    )


def ecs_in_lines(one: Record) -> str:
    """Write what stands below a message, or else some tag, as a list of a line each."""
    first, *below = one.message.split("\n")
    node = compact({**ecs(one), "message": first})
    name, values = ("error.stack_trace", below) if below else ("tags", ["a"])
    some = ",\n\t".join(map(compact, values))
    return f'{node[:-1]},"{name}":[\n\t{some}]}}\n' if below or not len(first) % 5 else f"{node}\n"


# What is printed for people, and is not JSON.
PRINTED: Mapping[str, Write] = {
    "rubydebug": in_lines(rubydebug),
    "gcloud yaml": in_lines(yaml_entry),
    "aws yaml": lambda records: (
        "events:\n" + in_lines(yaml_item)(records) + "nextForwardToken: f/1\n"
    ),
    "splunk xml": lambda records: (
        "<?xml version='1.0' encoding='UTF-8'?>\n<results preview='0'>\n<meta>\n<fieldOrder>\n"
        "<field>_raw</field>\n</fieldOrder>\n</meta>\n"
        + "".join(map(xml_result, records))
        + "</results>\n"
    ),
    "objects with names of one's own": lambda records: pretty(
        [{"wann": one.iso, "wer": "kafka-0", "roh": line} for one, line in each_of(records)]
    ),
    "log4j xml": lambda records: "".join(map(xml_event, records)),
    "test report": lambda records: (
        '<?xml version="1.0"?>\n<testsuite name="a" timestamp="2026-11-18T11:00:00">\n'
        '  <testcase name="b()" classname="a" time="1.0"/>\n'
        "  <!-- a & b < c -->\n  <system-out><![CDATA["
        + "".join(f"{one.text}\n" for one in records).replace("]]>", "]]]]><![CDATA[>")
        + "]]></system-out>\n  <system-err/>\n</testsuite>\n"
    ),
}


def framed(text: str) -> str:
    """Put the length in bytes before a message of syslog (RFC 6587)."""
    return f"{len(text.encode())} {text}"


DOCUMENTS: Mapping[str, Write] = {
    "syslog behind its length": lambda records: "".join(
        framed(f'<14>1 {one.iso} b1 kafka 12 ID7 [x@32473 a="\\]"] {one.text}') for one in records
    ),
    "old syslog behind its length": lambda records: "".join(
        framed(f"<14>{one.at:%b %d %H:%M:%S} b1 kafka[12]: {line}" + "\n" * (at % 2))
        for at, one in enumerate(records)
        for line in one.text.split("\n")
    ),
    **PRINTED,
    "ecs with stacks in lines": lambda records: "".join(map(ecs_in_lines, records)),
    "search response": lambda records: compact(hits(records)),
    "search response, newest first": lambda records: compact(hits([*reversed(records)])),
    "search response, indented": lambda records: pretty(hits(records)),
    "loki": lambda records: compact(loki(records)),
    "loki, newest first": lambda records: compact(
        {
            "data": {
                "result": [
                    {**one, "values": one["values"][::-1]}
                    for one in loki(records)["data"]["result"]
                ]
            }
        }
    ),
    "otlp": lambda records: "".join(
        compact(otlp(records[at : at + 30])) + "\n" for at in range(0, len(records), 30)
    ),
    "otlp in parts": lambda records: pretty(otlp_parts(records)),
    "get-log-events": lambda records: json.dumps(log_events(records), indent=4),
    "filter-log-events": lambda records: json.dumps(filtered(records), indent=4),
    "firehose": firehose,
    "insights": lambda records: json.dumps(insights(records), indent=4),
    "log analytics": lambda records: compact(azure_tables(records)),
    "google list": lambda records: pretty(google_list(records)),
    "grafana": lambda records: pretty(grafana(records)),
    "splunk results": lambda records: pretty(
        {
            "messages": [{"type": "INFO", "text": "none"}],
            "results": [{"_raw": one.text, "_time": one.iso} for one in reversed(records)],
        }
    ),
    "splunk rows": lambda records: compact(
        {"fields": ["_raw", "host"], "rows": [[one.text, "b1"] for one in records]}
    ),
    "elasticsearch sql": lambda records: compact(
        {
            "columns": [{"name": "message", "type": "text"}, {"name": "host", "type": "text"}],
            "rows": [[one.text, "b1"] for one in records],
        }
    ),
    "bulk": lambda records: "".join(
        compact({"index": {"_index": "kafka"}}) + "\n" + compact({"message": one.text}) + "\n"
        for one in records
    ),
    "batches of one": lambda records: "".join(firehose([one]) + "\n" for one in records),
    "one behind the other": lambda records: "".join(
        compact({"@timestamp": one.iso, "message": one.text}) for one in records
    ),
    "layout in loki": lambda records: compact(
        {
            "data": {
                "result": [
                    {
                        "stream": {"pod": "kafka-0"},
                        "values": [[one.nanos, compact(ecs(one))] for one in records],
                    }
                ]
            }
        }
    ),
    "after other text": lambda records: (
        "===> Launching kafka ...\n" + "".join(jackson(log4j2(one)) + "\n" for one in records)
    ),
    "log4j2, indented": lambda records: "".join(jackson(log4j2(one)) + "\n" for one in records),
    "log4j2, complete and indented": lambda records: (
        "[\n" + "\n, ".join(jackson(log4j2(one)) for one in records) + "\n]\n"
    ),
    "journal, indented": lambda records: "".join(
        json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(one.millis * 1000),
                "_HOSTNAME": "b1",
                "MESSAGE": one.text,
            },
            indent="\t",
        )
        + "\n"
        for one in records
    ),
    "logcli, newest first": lambda records: "".join(
        compact({"labels": {"pod": "kafka-0"}, "line": line, "timestamp": one.iso}) + "\n"
        for one in reversed(records)
        for line in reversed(one.text.split("\n"))
    ),
    "kibana csv": as_csv(
        ["@timestamp", "host.name", "message"],
        lambda one: [f"{one.at:%b %d, %Y @ %H:%M:%S.000}", "b1", one.text],
        newest_first=True,
    ),
    "splunk csv": as_csv(
        ["_raw", "_time", "host", "source"],
        lambda one: [one.text, one.iso, "b1", "server.log"],
        newest_first=True,
    ),
    "insights csv": as_csv(
        ["@timestamp", "@message", "@logStream"],
        lambda one: [f"{one.at:%Y-%m-%d %H:%M:%S.%f}"[:-3], one.text, "b1"],
        newest_first=True,
    ),
    "google csv": as_csv(
        [
            "insertId",
            "labels.x",
            "resource.labels.pod_name",
            "severity",
            "textPayload",
            "timestamp",
        ],
        lambda one: ["1", "y", "kafka-0", "INFO", one.text, one.iso],
        newest_first=False,
    ),
    "azure csv": lambda records: (
        "\ufeff"
        + as_csv(
            ["TimeGenerated [UTC]", "PodName", "LogMessage"],
            lambda one: [one.iso, "kafka-0", one.text],
            newest_first=True,
        )(records)
    ),
    "tabs": lambda records: (
        "@timestamp\tmessage\n"
        + "".join(f"{one.iso}\t{line}\n" for one in records for line in one.text.split("\n"))
    ),
    "csv in parts": as_csv(
        ["timestamp", "level", "logger", "message"],
        lambda one: [one.iso, one.level, one.logger, one.message],
        newest_first=False,
    ),
}
