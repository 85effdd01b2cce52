"""Writes the records of a log in other layouts, and puts other things before its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["LAYOUTS", "PREFIXES", "Record", "quoted", "records_of", "sent", "written"]

_HEAD = re.compile(r"^\[(?P<time>[^,\]]+),(?P<millis>\d{3})\] (?P<level>[A-Z]+) (?P<text>.*)$")
_TAIL = re.compile(r"^(?P<message>.*?) ?\((?P<logger>[\w.$-]+)\)$")
_THREADS = ("main", "kafka-request-handler-3", "ReplicaFetcherThread-0-2", "producer | app")
_OF_JAVA = {"WARN": "WARNING", "ERROR": "SEVERE", "FATAL": "SEVERE", "DEBUG": "FINE"}
_BREAK = "\n"
_LETTER = {"INFO": "I", "WARN": "W", "ERROR": "E", "DEBUG": "D", "TRACE": "T", "FATAL": "F"}


@dataclass(frozen=True)
class Record:
    """One record: `message` has several lines where its logger stands below; `more` follows."""

    time: datetime
    level: str
    message: tuple[str, ...]
    logger: str
    more: tuple[str, ...]
    number: int

    @property
    def thread(self) -> str:
        """Some thread."""
        return _THREADS[self.number % len(_THREADS)]

    @property
    def millis(self) -> str:
        """The milliseconds."""
        return self.time.strftime("%f")[:3]

    def written(self, form: str) -> str:
        """Write the time."""
        return self.time.strftime(form)

    def tail(self, front: str, back: str = "") -> list[str]:
        """Write the logger after the message, as Kafka does."""
        lines = [front + self.message[0], *self.message[1:]]
        lines[-1] += f" ({self.logger}){back}"
        return [*lines, *self.more]

    def lead(self, front: str) -> list[str]:
        """Write the logger before the message, in `front`."""
        return [front + self.message[0], *self.message[1:], *self.more]


def records_of(text: str) -> list[Record]:
    """Read a log in Kafka's own layout."""
    groups: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if match := _HEAD.match(line):
            groups.append((match, [match["text"]]))
        elif groups:
            groups[-1][1].append(line)
    records: list[Record] = []
    for head, lines in groups:
        ends = [at for at, line in enumerate(lines) if _TAIL.match(line)]
        if not ends:
            continue
        end = _TAIL.match(lines[ends[0]])
        assert end is not None
        time = datetime.strptime(head["time"], "%Y-%m-%d %H:%M:%S").replace(
            microsecond=1000 * int(head["millis"]), tzinfo=UTC
        )
        message = (*lines[: ends[0]], end["message"])
        more = tuple(lines[ends[0] + 1 :])
        records.append(Record(time, head["level"], message, end["logger"], more, len(records)))
    return records


def _iso(record: Record) -> str:
    return record.written("%Y-%m-%d %H:%M:%S") + "," + record.millis


def _short(logger: str) -> str:
    *folders, name = logger.split(".")
    return ".".join([folder[0] for folder in folders] + [name])


def _csv(record: Record) -> list[str]:
    text = record.message[0].replace('"', '""')
    lines = [f'"{_iso(record)}","{record.level}","{record.logger}","{text}']
    lines += [*record.message[1:], *record.more]
    return [*lines[:-1], lines[-1] + '"']


def _odd_thread(record: Record) -> str:
    """Some thread; the first records show no odd ones."""
    return ("Sensor (1)", "a | b", "main")[record.number % 3] if record.number > 70 else "main"


def _quoted(front: str, record: Record) -> list[str]:
    lines = record.lead(front + '"')
    return [*lines[:-1], lines[-1] + '"']


def _angled(front: str, record: Record) -> list[str]:
    lines = record.lead(front)
    return [*lines[:-1], lines[-1] + "> "]


def _pairs(record: Record, form: str) -> list[str]:
    return [
        form.format(
            time=record.written("%Y-%m-%dT%H:%M:%S") + "." + record.millis,
            level=record.level.lower(),
            logger=record.logger,
            thread=f"thread={json.dumps(record.thread)}",
            text=json.dumps("\n".join([*record.message, *record.more])),
        )
    ]


Write = Callable[[Record], list[str]]
# How each layout writes a record.
LAYOUTS: dict[str, Write] = {
    "padded level": lambda r: r.tail(f"[{_iso(r)}] {r.level:<5} "),
    "level padded on the left": lambda r: r.tail(f"[{_iso(r)}] {r.level:>5} "),
    "thread": lambda r: r.tail(f"[{_iso(r)}] {r.level} [{r.thread}] "),
    "whole seconds": lambda r: r.tail(f"[{r.written('%Y-%m-%d %H:%M:%S')}] {r.level} "),
    "microseconds": lambda r: r.tail(f"[{r.written('%Y-%m-%d %H:%M:%S,%f')}] {r.level} "),
    "zone": lambda r: r.tail(f"[{_iso(r)}+0000] {r.level} "),
    "T and Z": lambda r: r.tail(f"{r.written('%Y-%m-%dT%H:%M:%S')}.{r.millis}Z {r.level} "),
    "halves of a day": lambda r: r.tail(f"[{r.written('%m/%d/%Y %I:%M:%S %p')}] {r.level} "),
    "date without separators, named month": lambda r: r.lead(
        f"[{r.written('%d%b%Y %H:%M:%S')}.{r.millis}] [{r.thread}/{r.level}] [{r.logger}/]: "
    ),
    "brackets as the JVM's": lambda r: r.lead(
        f"[{r.written('%Y-%m-%dT%H:%M:%S')}.{r.millis}+00:00][{r.level:<5}][{r.logger}] "
    ),
    "names of months": lambda r: r.tail(f"{r.written('%b %d, %Y %I:%M:%S %p')} {r.level} "),
    "day first": lambda r: r.tail(f"{r.written('%d.%m.%Y %H:%M:%S')} {r.level} "),
    "two-digit year": lambda r: r.lead(
        f"{r.written('%y/%m/%d %H:%M:%S')} {r.level} {r.logger.rpartition('.')[2]}: "
    ),
    "epoch": lambda r: r.tail(f"{int(1000 * r.time.timestamp())} {r.level} "),
    "unix date": lambda r: r.tail(f"{r.written('%a %b %d %H:%M:%S UTC %Y')} {r.level} "),
    "no level": lambda r: r.tail(f"[{_iso(r)}] "),
    "level in brackets": lambda r: r.tail(f"{_iso(r)} [{r.level:<5}] "),
    "level first": lambda r: r.tail(f"{r.level} [{_iso(r)}] "),
    "one letter": lambda r: r.tail(f"{_iso(r)} {_LETTER[r.level]} "),
    "small letters": lambda r: r.tail(f"{_iso(r)} | {r.level.lower()} | "),
    "thread at the end": lambda r: r.tail(f"{_iso(r)} {r.level} ", f" [{r.thread}]"),
    "Confluent for Kubernetes": lambda r: r.lead(
        f"[{r.level}] {_iso(r)} [{r.thread}] {r.logger} log - "
    ),
    "java.util.logging": lambda r: [
        f"{r.written('%b %d, %Y %I:%M:%S %p')} {r.logger} log",
        f"{_OF_JAVA.get(r.level, r.level)}: {r.message[0]}",
        *r.message[1:],
        *r.more,
    ],
    "message in the line below": lambda r: [
        f"{_iso(r)} - [{r.level}] - from {r.logger} in {r.thread} ",
        *r.message,
        *r.more,
        "",
    ],
    "level and message in the line below": lambda r: [
        f"{r.written('%Y-%m-%d %H:%M:%S')} [{r.thread}] {r.logger}.run()",
        f"{r.level}: {r.message[0]}",
        *r.message[1:],
        *r.more,
    ],
    "date and clock without separators": lambda r: r.lead(
        f"{_LETTER[r.level]} {r.written('%Y%m%d-%H%M%S')}.{r.millis} {r.thread} {r.logger} - "
    ),
    "calls of a program": lambda r: [
        f"[pid {41 + r.number % 9}] 11:38:25.1{r.number:05} write(1, {json.dumps(line + _BREAK)},"
        f" {len(line) + 1}) = {len(line) + 1}"
        for line in r.tail(f"[{_iso(r)}] {r.level} ")
    ],
    "rows of a database": lambda r: [
        f"INSERT INTO logs VALUES({r.number},'n1','"
        + "\n".join(r.tail(f"[{_iso(r)}] {r.level} ")).replace("'", "''")
        + "');"
    ],
    "files as loggers": lambda r: r.lead(
        f"[{_iso(r)}] {{{r.logger.rpartition('.')[2]}.py:{r.number + 1}}} {r.level} - "
    ),
    "level before a date without separators": lambda r: r.lead(
        f"{_LETTER[r.level]}{r.written('%Y%m%d %H:%M:%S.%f')} 41 {r.logger}.cc:{r.number + 1}] "
    ),
    "labels of a system log": lambda r: r.lead(
        f"<134>1 {r.written('%Y-%m-%dT%H:%M:%S')}.{r.millis}Z b-1 kafka {41 + r.number % 3} -"
        f' [mdc@18060 category="{r.logger}" priority="{r.level}" thread="main"] '
    ),
    "date and clock as fields": lambda r: r.lead(
        f"{r.written('%Y%m%d|%H:%M:%S')}.{r.millis}|{r.level}|main|{r.logger}|"
    ),
    "ends of lines shown": lambda r: [
        line.replace("\t", "^I") + "$" for line in r.tail(f"[{_iso(r)}] {r.level} ")
    ],
    "breaks of HTML": lambda r: [
        line.replace("&", "&amp;").replace(">", "&gt;") + "<br>"
        for line in r.tail(f"[{_iso(r)}] {r.level} ")
    ],
    "bars around the date": lambda r: r.lead(
        f"{r.written('%Y-%m-%d | %H:%M:%S')}.{r.millis} | {r.level:<5} | {r.thread:<20} |"
        f" {r.logger} | "
    ),
    "class behind a thread with bars": lambda r: r.lead(
        f"{_iso(r)} | {r.level:<5} | {r.thread:<20} | {r.logger.rpartition('.')[2]:<40} | "
        f"87 - org.apache.servicemix.bundles.kafka-clients - 3.7.0.1 | "
    ),
    "a rare thread": lambda r: r.lead(
        f"{_iso(r)} {r.level:<5} {'Endpoint#0-0-C-1' if r.number % 30 == 7 else 'main-7'}"
        f" {r.logger} "
    ),
    "brackets in a row": lambda r: r.lead(
        f"[{r.written('%Y-%m-%dT%H:%M:%S')},{r.millis}][{r.level:<5}][{r.logger}][main][3c4be5d6] "
    ),
    "bars": lambda r: r.lead(f"{_iso(r)} | {r.level:<5} | {r.thread:<20} | {r.logger:<40} | "),
    "short logger, thread behind it": lambda r: r.lead(
        f"{_iso(r)} {r.level:<5} [{_short(r.logger)}] ({r.thread}) "
    ),
    "method": lambda r: r.lead(
        f"{_iso(r)} {r.level:<5} [{r.thread}] {r.logger}.run(Any.java:7) - "
    ),
    "columns": _csv,
    "any method": lambda r: r.lead(
        f"[{r.level}] {_iso(r)} [{r.thread}] {r.logger} {('logInfo', 'run')[r.number % 2]} - "
    ),
    "thread behind the logger": lambda r: r.lead(f"{_iso(r)} {r.level} {r.logger}: [{r.thread}]: "),
    "fields between tabs": lambda r: r.lead(
        f"{_iso(r)}\t{r.level}\t{_odd_thread(r)}\t{r.logger}\tpkg/file.go:{r.number}\t"
    ),
    "fields between semicolons": lambda r: r.lead(
        f"{_iso(r)};{r.level};{_odd_thread(r)};{r.logger};"
    ),
    "quoted message": lambda r: _quoted(f"{_iso(r)} {r.level} {r.logger} ", r),
    "line of the code": lambda r: r.lead(
        f"{_iso(r)} | {r.level:<8} | {r.logger}:run:{r.number} - "
    ),
    "thread, logger and line": lambda r: r.lead(
        f"{_iso(r)} [myid:1] - {r.level:<5} [main:{_short(r.logger)}@{r.number}] - "
    ),
    "labelled brackets": lambda r: r.lead(
        f"[{_iso(r)}] [app] [{r.level}] [] [{r.logger}] [tid: _Name={r.thread}] [levelValue: 8] "
    ),
    "angle brackets": lambda r: _angled(
        f"####<{_iso(r)} UTC> <{r.level}> <{r.logger}> <host> <{r.thread}> <<anonymous>> <> <", r
    ),
    "level behind the logger": lambda r: r.lead(f"[{_iso(r)}] {r.logger}.{r.level}: "),
    "labels": lambda r: r.lead(
        f"time={_iso(r)}, level={r.level}, thread={r.thread}, logger={r.logger}, message="
    ),
    "pairs": lambda r: _pairs(r, "ts={time}Z level={level} logger={logger} {thread} msg={text}"),
    "pairs, message first": lambda r: _pairs(
        r, 'time="{time}Z" level={level} msg={text} {thread} logger={logger}'
    ),
}


def _constant(text: str) -> Callable[[int], str]:
    return lambda _: text


# What stands before each line, by the number of the line.
PREFIXES: dict[str, Callable[[int], str]] = {
    "a blank": _constant(" "),
    "a quotation": _constant("> "),
    "four blanks": _constant("    "),
    "stern": _constant("kafka-0 kafka "),
    "kubetail": _constant("[kafka-0] "),
    "trimmed zeros": lambda n: f"2026-11-18T11:31:58.{'4231' if n % 2 else '423111'}Z ",
    "journal, full": _constant("Wed 2026-11-18 11:31:58 UTC host-1 kafka[1234]: "),
    "journal, seconds": lambda n: f"{1795001518 + n}.423111 host-1 kafka[1234]: ",
    "syslog with a priority": _constant("<30>Nov 18 11:31:58 host-1 kafka[1234]: "),
    "syslog with counts": lambda n: f"{120 + n} <30>1 2026-11-18T11:31:58Z host-1 kafka 1 - - ",
    "a time as of Go's": _constant("2026/11/18 11:31:58 [info] 812#831 "),
    "a log stream": _constant("2026-11-18T11:31:58 ecs/kafka/abc123 "),
    "padded labels": _constant('2026-11-18T11:31:58Z {app="kafka", pod="kafka-0"}   '),
    "a download": _constant("2026-11-18T11:31:58.423Z "),
    "two times": _constant("1795001518423111111\t2026-11-18T11:31:58.423Z\t"),
    "numbers": lambda n: f"{n + 1}:",
    "numbers in a column": lambda n: f"{n + 1:>6}\t",
    "a file": _constant("server.log.2026-11-18-11:"),
    "a file and numbers": lambda n: f"/var/log/kafka/server.log:{n + 1}:",
    "a level": _constant("[INFO] "),
    "a store's columns": lambda n: (
        f"12345{n:05}\t2026-11-18T11:37:46Z\t2026-11-18T11:37:46Z\t9\tb1\t10.0.0.1\tUser\tInfo\tx\t"
    ),
    "a tag": _constant("2026-11-18T11:31:58+00:00\tkafka.broker\t"),
}


def quoted(line: str) -> str:
    """Write a line as a string in a list of JSON."""
    return f"    {json.dumps(line)},"


def sent(line: str) -> str:
    """Write a line as rsyslog does: tabs and breaks by their numbers."""
    line = line.replace("\t", "#011").replace("\n", "#012")
    return f"<30>Nov 18 11:38:00 host kafka[1]: {line}"


def written(records: Sequence[Record], write: Write) -> str:
    """Write records in a layout."""
    return "".join(line + "\n" for record in records for line in write(record))
