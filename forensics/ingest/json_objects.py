"""Reads what a JSON object tells: a line of a log, or the parts of a record, and who wrote it.

Nothing is assumed of the program that wrote an object. Keys are known by their names
(rules/wrappers/json.yaml lists them), at any depth: of several with one name the nearest counts. A
string that begins with a time of its own is a whole line; a message beside a time, a level and a
logger becomes the plain record that Kafka would have written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from forensics.ingest.embedded_client_lines import (
    KAFKAJS,
    THREAD,
    Moment,
    is_of_kafkajs,
    keys_of_kafkajs,
    write_client_line,
)
from forensics.ingest.time_formats import is_whole_time
from forensics.ingest.wrapper_base import GUESSED

# Deeper nests hold nothing of a record; no hostile object costs more.
_MAX_DEPTH = 8
_MAX_PLANS = 4096
# An origin longer than this names nobody.
_MAX_NAME = 256
# What names the writer holds no message, and what describes an error holds no record.
_ORIGIN_NESTS = {"kubernetes", "labels", "resource", "host", "container", "docker", "agent"}
_ASIDE = {
    *_ORIGIN_NESTS, "annotations", "metadata", "cloud", "ecs", "tags", "error", "exception",
    "thrown", "mdc", "contextmap", "sourcelocation", "fieldserror", "attrs", "input",
}  # fmt: skip
_PARTS = ("message", "time", "day", "clock", "level", "logger", "component", "more")
_WRITER = ("pod", "container", "host", "program")
# The role of a field that may say who wrote a line, where no known name does.
GUESSED_ROLE = "guessed"
ROLES = (*_PARTS, *_WRITER)
# What may also stand in a nest that holds no record.
_OUTSIDE = {*_WRITER, GUESSED_ROLE, "more"}

# A line that brings its own time: up to a few signs, a date or a day's name, and a clock.
_OWN_HEAD = re.compile(
    r"(?:\x1b\[[0-9;]*m|[^\w\n]){0,4}(?:(?:[A-Z][a-z]{2}[ ,]{1,2}){0,2}[0-9][^\n]{0,24}?)?"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}|%[0-7]\||\{\""
)
_WHOLE_RECORD = re.compile(
    rf"(?:{_OWN_HEAD.pattern})[^\n]{{0,80}}?\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b"
)
_ISO_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,]([0-9]{1,9})[0-9]*)?\s?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
)
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}")
_ZERO_OFFSETS = (None, "Z", "UTC", "+00:00", "+0000", "-00:00", "-0000")
_DIGITS = re.compile(r"[0-9]{9,19}(?:\.[0-9]{1,9})?")
_SHORT_NUMBER = re.compile("[0-9]{1,10}")
_LEVEL, _LOGGER = re.compile(r"[A-Za-z]{1,16}|D[1-5]"), re.compile(r"[^\s()]{1,512}")
# Where a class logs and names no level, it is the usual one: Serilog leaves it out.
_USUAL_LEVEL, _OF_CLASS = "INFO", re.compile(r"(?:^|\.)[A-Z]\w*(?:\$\w*)*\.*$|\.logger$")
# A message in which names stand for values, those that are written in a way of their own, and
# braces that are meant as such.
_TEMPLATES = {"mt", "messagetemplate"}
_HOLE = re.compile(r"\{\{|\}\}|\{[@$]?([A-Za-z0-9_]{1,256})(?:,-?[0-9]{1,5})?(:[^{}\n]{1,256})?\}")
_RENDERED = "r"
# The loggers of Java are classes, and those of Kafka's own topics.
_CLASS = re.compile(r"(?:^|\.)[A-Z]\w*[$.]*$|\.logger$")
_LEVEL_NAMES = {
    "WARNING": "WARN", "ERR": "ERROR", "CRITICAL": "FATAL", "CRIT": "FATAL", "NOTICE": "INFO",
    "INFORMATION": "INFO", "INFORMATIONAL": "INFO", "EMERGENCY": "FATAL", "ALERT": "FATAL",
    "SEVERE": "ERROR", "VERBOSE": "TRACE",
    "T": "TRACE", "V": "TRACE", "D": "DEBUG", "I": "INFO", "W": "WARN", "E": "ERROR", "F": "FATAL",
    "C": "FATAL", **{f"D{at}": "DEBUG" for at in range(1, 6)},
}  # fmt: skip
# The numbers of syslog, and from 10 on those of bunyan and pino.
_SYSLOG = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_BUNYAN = {10: "TRACE", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}
# Numbers of seconds, milli-, micro- and nanoseconds since 1970 differ by their size: each range is
# of the years 2001 to 2128.
_EPOCHS = tuple((10**size, 5 * 10**size, 10.0 ** (15 - size)) for size in (9, 12, 15, 18))
_NANOS = {"nanos", "timenanos", "timestampnanos"}
_IGNORED_IN_KEYS = str.maketrans("", "", " ._-@#/$")
_GUESSED_LEVELS = {"severity", "status"}
_STORED_LINES = {"log", "textpayload", "logmessage", "logentry", "raw", "line"}
# Stands where a record names no logger.
_NO_LOGGER = "-"
# kafkajs writes its own lines as objects, and rules read them as they are.
_OBJECTS_AS_LINES = {KAFKAJS}
_PARTS_OF_OBJECTS = {"message", "time", "level", "logger", "host"}
# What Kafka's own brackets hold; Filebeat writes "unknown" where a message has none.
_COMPONENT = re.compile(r"=|[A-Za-z] ?.*[0-9]$")
# Such a text stands below the message of a record.
_BELOW = re.compile(r"\s|(?:Caused by|Suppressed): |[a-z]\w*(?:\.\w+)+(?:Exception|Error)\b")
# How stores name the type of a value (DynamoDB, Avro, OTLP; MongoDB puts a dollar before it).
_TYPE_NAMES = {"S", "N", "BOOL", "string", "long", "int", "stringValue", "intValue", "doubleValue"}
_PAIR_NAMES, _PAIR_VALUES = ("key", "field", "name"), ("value",)


def find_records(node: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the keys of strings that are whole records: they begin with a time, and a level."""
    for key, value in node.items():
        if isinstance(value, str) and _WHOLE_RECORD.match(value):
            yield key
        elif isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from find_records(value, depth + 1)


def find_line_path(node: Mapping[str, Any], above: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the keys that lead to a string that is a whole record; none if there is no such."""
    for key, value in node.items():
        if isinstance(value, str) and _WHOLE_RECORD.match(value):
            return (*above, key)
        if isinstance(value, dict) and len(above) < _MAX_DEPTH:
            path = find_line_path(value, (*above, key))
            if path:
                return path
    return ()


def is_whole_record(text: str) -> bool:
    """Return True if a text begins with a time, and a level behind it."""
    return _WHOLE_RECORD.match(text) is not None


def has_own_time(text: str) -> bool:
    """Return True if a text begins with a time, as the lines of most logs do."""
    return _OWN_HEAD.match(text) is not None


def begins_record(text: str) -> bool:
    """Return True if a text begins with a time, and a level behind it."""
    return _WHOLE_RECORD.match(text) is not None


def fold_key(key: str) -> str:
    """Reduce a key to what matters of it.

    >>> fold_key("log.level"), fold_key("@timestamp"), fold_key("loggerName")
    ('loglevel', 'timestamp', 'loggername')
    """
    return key.translate(_IGNORED_IN_KEYS).lower()


class ReadObject(NamedTuple):
    """What an object tells: its text without the last line break, and who wrote it.

    `is_record`: the text was put together from the parts of a record; `time` is what the store or
    the writer says of when it was.
    """

    text: str
    origin: str
    is_record: bool
    time: object


# How good a key is for a role: those of the object itself are better than those around it, then
# their order counts, then their depth. The less the better.
_Rank = tuple[int, int, int]
_Roles = tuple[tuple[str, int], ...]
# Level, time, logger, message.
_Parts = tuple[str, str, str, str]
_Plan = list[tuple[str, str, int, _Roles]]


@dataclass(slots=True)
class _Found:
    """The best value of each role so far."""

    values: dict[str, Any] = field(default_factory=dict)
    ranks: dict[str, _Rank] = field(default_factory=dict)

    def offer(self, role: str, rank: _Rank, value: object) -> None:
        if role not in self.ranks or rank < self.ranks[role]:
            self.ranks[role], self.values[role] = rank, value


class ObjectReader:
    """Reads objects by the names that keys have.

    What each key of an object may hold is remembered by the object's keys, so that a file's next
    objects cost little; nothing else is remembered, so an object says the same wherever it stands.
    """

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        """Read by these names, for each role the best first."""
        self.names = {role: tuple(names.get(role, ())) for role in (*ROLES, GUESSED_ROLE)}
        self._roles: dict[str, list[tuple[str, int]]] = {}
        for role, keys in self.names.items():
            for rank, key in enumerate(keys):
                self._roles.setdefault(fold_key(key), []).append((role, rank))
        self._plans: dict[tuple[str, ...], _Plan] = {}

    def has_message(self, keys: Sequence[str]) -> bool:
        """Return True if one of some keys may hold a message."""
        plan = self._make_plan("", dict.fromkeys(keys))
        return any(role == "message" for *_, roles in plan for role, _ in roles)

    def has_role(self, key: str) -> bool:
        """Return True if a value under a key says more than a time or the message."""
        plan = self._make_plan("", {key: ""})
        return any(role not in ("message", "time") for *_, roles in plan for role, _ in roles)

    def read(
        self, node: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> ReadObject | None:
        """Read an object; `context` is what stands around it in its document."""
        found = _Found()
        if context:
            self._collect(context, "", 0, found, aside=True)
            found.ranks = {role: (1, rank[1], rank[2]) for role, rank in found.ranks.items()}
        self._collect(node, "", 0, found, aside=False)
        values = found.values
        message = values.get("message")
        if message is None:
            return None
        if "day" in values and "clock" in values:
            values["time"] = f"{values['day']} {values['clock']}"
        # With one of these it cannot be but a line.
        if found.ranks["message"][1] == 0:
            # rsyslog puts a blank before every message.
            message = message.lstrip(" ")
        whole = found.ranks["message"][1] == 0
        if not whole and self._is_template(found):
            message = _fill_template(message, node)
        whole |= "level" not in values and not _is_class(values.get("logger"))
        record = None if whole else self._write_record(node, message, found)
        if record is None and values.get("logger") in _OBJECTS_AS_LINES:
            return None
        origin = _join_origin(values)
        return ReadObject(record or message, origin, record is not None, values.get("time"))

    def read_frame(self, node: Mapping[str, Any], key: str) -> str | None:
        """Return who wrote the line that stands under a key; None if it may be no whole line.

        Where nothing but the string under this key is a message, and nothing a level or a logger,
        the string is the line, whatever it holds.
        """
        roles = [roles for one, _, nests, roles in self._make_plan("", {key: ""}) if not nests]
        if not roles or "message" not in dict(roles[0]):
            return None
        found = _Found()
        self._collect({one: node[one] for one in node if one != key}, "", 0, found, aside=False)
        if not found.values.keys().isdisjoint(("message", "level", "logger")):
            return None
        others = [role for role, _ in roles[0] if role != "message"]
        return None if others else _join_origin(found.values)

    def _collect(
        self, node: Mapping[str, Any], above: str, depth: int, found: _Found, *, aside: bool
    ) -> None:
        plan = self._plans.get((above, *node))
        for key, folded, nests, roles in plan if plan is not None else self._make_plan(above, node):
            value = node[key]
            if type(value) is list:
                value = _unlist(value, roles)
            value = open_typed(value)
            if type(value) is dict:
                if roles and roles[0][0] in ("more", "time"):
                    found.offer(roles[0][0], (0, roles[0][1], depth), value)
                if depth < _MAX_DEPTH:
                    under = f"{above.rpartition('.')[2]}.{folded}"
                    self._collect(value, under, depth + 1, found, aside=aside or folded in _ASIDE)
            elif roles and value is not None:
                _offer_value(found, roles, value, depth + nests, aside=aside)

    def _make_plan(self, above: str, node: Mapping[str, Any]) -> _Plan:
        """Find what keys may hold; each is known by itself, or with those above it."""
        plan: _Plan = []
        near, far = above.rpartition(".")[2], above.replace(".", "")
        for key in node:
            folded = fold_key(key)
            # A key with dots stands for nests: its last parts are known, too.
            *outer, last = [fold_key(part) for part in key.split(".")]
            paths = {folded, near + folded, far + folded, last, "".join([*outer[-1:], last])}
            aside = not _ASIDE.isdisjoint(outer)
            best: dict[str, int] = {}
            for path in paths:
                for role, rank in self._roles.get(path, ()):
                    if not aside or role in _OUTSIDE or path == folded:
                        best[role] = min(rank, best.get(role, rank))
            plan.append((key, folded, len(outer), tuple(best.items())))
        # Objects whose keys are values would fill the memory.
        if len(self._plans) < _MAX_PLANS:
            self._plans[above, *node] = plan
        return plan

    def _write_record(self, node: Mapping[str, Any], message: str, found: _Found) -> str | None:
        """Write the parts of a record as Kafka's own layout does; None if one is missing."""
        values = found.values
        stamp = format_time(_with_nanos(values.get("time"), node))
        level = read_level(values["level"]) if "level" in values else _USUAL_LEVEL
        if stamp is None or level is None:
            return None
        logger = values.get("logger")
        if THREAD in message or is_of_kafkajs(message, node):
            return self._write_client_line(node, (level, stamp, str(logger), message))
        if logger is None:
            # Stores guess a level for any line: only one that its program gave makes a record.
            guessed = fold_key(self.names["level"][found.ranks["level"][1]]) in _GUESSED_LEVELS
            stored = fold_key(self.names["message"][found.ranks["message"][1] - 1]) in _STORED_LINES
            # Numbers of syslog are what collectors have for streams.
            guessed |= type(values["level"]) is int and values["level"] < len(_SYSLOG)
            if guessed or stored or found.ranks["level"][0] or _BELOW.match(message):
                return None
            logger = _NO_LOGGER
        if not isinstance(logger, str) or not _LOGGER.fullmatch(logger := logger.strip()):
            return None
        if logger in _OBJECTS_AS_LINES:
            return self._write_object(node, (level, stamp, logger, message))
        component = values.get("component")
        named = isinstance(component, str) and _COMPONENT.search(component)
        if named and not message.startswith("["):
            message = f"[{component}] {message}"
        if not _CLASS.search(logger) and _STAMP.fullmatch(stamp):
            # Microseconds: another layout than Kafka's own, of programs that nobody knows.
            stamp += "000"
        first, line_break, rest = message.partition("\n")
        below = (line_break + rest).rstrip("\n")
        stack = _write_trace(values.get("more"))
        if stack and stack not in message:
            below += f"\n{stack}"
        return f"[{stamp}] {level} {first.rstrip(chr(13))} ({logger}){below}"

    def _is_template(self, found: _Found) -> bool:
        names, rank = self.names["message"], found.ranks["message"][1]
        return 0 < rank <= len(names) and fold_key(names[rank - 1].rpartition(".")[2]) in _TEMPLATES

    def _write_client_line(self, node: Mapping[str, Any], parts: _Parts) -> str | None:
        """Write the line of a library that an application logged; the keys may hold its parts."""
        level, stamp, logger, message = parts
        if THREAD not in message:
            own = node if logger in _OBJECTS_AS_LINES else keys_of_kafkajs(node)
            return self._write_object(own, (level, stamp, KAFKAJS, message))
        told = {fold_key(key): node[key] for key in node if isinstance(node[key], str)}
        facility, client = told.get("fac") or told.get("facility", ""), told.get("name", "")
        moment = Moment(f"{stamp}000", level)
        return write_client_line(message, moment, facility, client if "#" in client else "")

    def _write_object(self, node: Mapping[str, Any], parts: _Parts) -> str | None:
        """Write an object in the order of its writer; None if that is how it stands there."""
        level, stamp, logger, message = parts
        if not _STAMP.fullmatch(stamp):
            return None
        moment = f"{stamp[:10]}T{stamp[11:19]}.{stamp[20:]}Z"
        written = {"level": level, "timestamp": moment, "logger": logger, "message": message}
        if list(node)[:4] == [*written]:
            return None
        # What holds these under other names is left out, as is what other libraries add.
        told = {
            key
            for key, _, _, roles in self._make_plan("", node)
            if any(role in _PARTS_OF_OBJECTS for role, _ in roles)
        }
        others = {key: node[key] for key in node if key not in {*told, *written, "pid", "v"}}
        return msgspec.json.encode(written | others).decode()


def _is_class(logger: object) -> bool:
    return type(logger) is str and _OF_CLASS.search(logger) is not None


def _fill_template(message: str, node: Mapping[str, Any]) -> str:
    """Put values into a message, by their names in its object or in one that this holds.

    >>> _fill_template("{Of:000} of {Name} {{x}} {Gone}", {"Of": 7, "@r": ["007"], "Name": "a"})
    '007 of a {x} {Gone}'
    """
    nodes = [node, *(one for one in node.values() if type(one) is dict)]
    rendered = next((one for key, one in node.items() if fold_key(key) == _RENDERED), None)
    written = iter(rendered if type(rendered) is list else ())

    def fill(hole: re.Match[str]) -> str:
        name, form = hole.groups()
        if name is None:
            return hole[0][0]
        own = next(written, None) if form else None
        value = own if own is not None else next((one[name] for one in nodes if name in one), None)
        if value is None:
            return hole[0]
        return value if type(value) is str else msgspec.json.encode(value).decode()

    return _HOLE.sub(fill, message)


def open_typed(value: Any) -> Any:
    """Return what stands in an object that only names the type of a value.

    >>> open_typed({"$date": "2026-11-18"}), open_typed({"N": "1"}), open_typed({"level": "INFO"})
    ('2026-11-18', '1', {'level': 'INFO'})
    """
    if type(value) is dict and len(value) == 1:
        ((name, inner),) = value.items()
        if type(inner) is dict and name in _TYPE_NAMES:
            return open_typed(inner)
        if name[:1] == "$" or name in _TYPE_NAMES:
            return inner if type(inner) is not list else value
    return value


def _offer_value(found: _Found, roles: _Roles, value: object, depth: int, *, aside: bool) -> None:
    for role, rank in roles:
        if role == "message":
            if type(value) is str and not aside:
                rated = (0, _rate_message(value, rank), depth)
                # Of two that begin alike the longer one has the lines below.
                if found.ranks.get(role) == rated and value.startswith(found.values[role]):
                    found.values[role] = value
                found.offer(role, rated, value)
        elif value != "" and (not aside or role in _OUTSIDE):
            found.offer(role, (0, rank, depth), value)


def _rate_message(value: str, rank: int) -> int:
    """Rate a message: a whole line is better than any other, and any is better than none."""
    if not value:
        return 1000 + rank
    return 0 if _OWN_HEAD.match(value) else 1 + rank


def _unlist(value: list[Any], roles: _Roles) -> object:
    """Return the one value of a list, its bytes as text, or its pairs of names and values.

    Of several texts a message is the whole line, if there is one; a stack trace is all of them.
    """
    if len(value) == 1 and not isinstance(value[0], dict):
        return value[0]
    if value and all(type(one) is int and 0 <= one < 256 for one in value):
        return bytes(value).decode("utf-8", "replace")
    if roles and value and all(type(one) is str for one in value):
        if any(role == "more" for role, _ in roles):
            return "\n".join(value)
        if any(role == "message" for role, _ in roles):
            if len(value) > 1 and all(one.endswith("\n") for one in value[:-1]):
                # Notebooks keep what a cell printed line by line.
                return "".join(value)
            return next((one for one in value if _OWN_HEAD.match(one)), None)
    return dict(read_pairs(value))


def read_pairs(values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of a list such as [{"key": "host", "value": {"stringValue": "b1"}}]."""
    for one in values:
        if not isinstance(one, dict) or not 2 <= len(one) <= 3:
            return
        name = next((one[key] for key in _PAIR_NAMES if isinstance(one.get(key), str)), None)
        if name is None or "value" not in one:
            return
        value = one["value"]
        if isinstance(value, dict) and len(value) == 1:
            (value,) = value.values()
        yield name, value


def _join_origin(values: Mapping[str, Any]) -> str:
    """Name who wrote a line: the pod and its container, the container, or the host."""
    guessed = values.get(GUESSED_ROLE)
    if isinstance(guessed, str) and len(guessed) <= _MAX_NAME:
        return GUESSED + guessed.strip("/")
    if values.keys().isdisjoint(_WRITER):
        return ""
    pod, container, host, program = (
        one.strip("/") if isinstance(one, str) and len(one) <= _MAX_NAME else ""
        for one in (values.get(role) for role in _WRITER)
    )
    if pod:
        return f"{pod}/{container}" if container else pod
    if container:
        return container
    return " ".join(one for one in (host, program) if one)


def read_level(value: object) -> str | None:
    """Read a level: a name, or a number of syslog, bunyan or pino."""
    if isinstance(value, str) and _LEVEL.fullmatch(value := value.strip()):
        name = value.upper()
        return _LEVEL_NAMES.get(name, name)
    if type(value) is int:
        return _SYSLOG[value] if 0 <= value < len(_SYSLOG) else _BUNYAN.get(value)
    return None


def read_moment(value: object) -> int | None:
    """Read a time as microseconds; one without an offset is taken for UTC."""
    if isinstance(value, str):
        match = _ISO_TIME.fullmatch(value)
        if match:
            return _iso_micros(match)
        return _epoch_micros(float(value)) if _DIGITS.fullmatch(value) else None
    if isinstance(value, dict):
        # As Log4j 2 writes it, and as Google's Timestamp is written.
        seconds = value.get("epochSecond", value.get("seconds"))
        nanos = value.get("nanoOfSecond", value.get("nanos", 0))
        # YAML that is read as text has them as digits.
        parts = [str(one) for one in (seconds, nanos) if _SHORT_NUMBER.fullmatch(str(one))]
        if len(parts) < len("sn") or int(parts[0]) >= _EPOCHS[0][1]:
            return None
        return int(parts[0]) * 1_000_000 + int(parts[1]) // 1000
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _epoch_micros(value)


def _with_nanos(value: object, node: Mapping[str, Any]) -> object:
    """Put whole seconds and the nanoseconds that stand beside them together.

    >>> _with_nanos(1795001518, {"timestampSeconds": 1795001518, "timestampNanos": 42})
    {'epochSecond': 1795001518, 'nanoOfSecond': 42}
    """
    low, high, _ = _EPOCHS[0]
    if type(value) is int and low <= value < high:
        for key, nanos in node.items():
            if fold_key(key) in _NANOS and type(nanos) is int and 0 <= nanos < 10**9:
                return {"epochSecond": value, "nanoOfSecond": nanos}
    return value


def is_stamp(value: object) -> bool:
    """Return True if a value is a time with a date, in any form, and nothing else."""
    if read_moment(value) is not None:
        return True
    return type(value) is str and is_whole_time(value)


def _epoch_micros(value: float) -> int | None:
    """Read a number by its size: seconds, milli-, micro- or nanoseconds since 1970."""
    for low, high, factor in _EPOCHS:
        if low <= value < high:
            return round(value * factor)
    return None


def _iso_micros(match: re.Match[str]) -> int | None:
    day, clock, part, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)
    except ValueError:
        return None
    micros = int(moment.timestamp()) * 1_000_000 + int((part or "0").ljust(6, "0")[:6])
    if zone not in _ZERO_OFFSETS:
        digits = zone[1:].replace(":", "")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        micros += minutes * 60_000_000 * (1 if zone[0] == "-" else -1)
    return micros


def format_time(value: object) -> str | None:
    """Write a time as Kafka's own layout does; one with an offset is brought to UTC."""
    if isinstance(value, str):
        match = _ISO_TIME.fullmatch(value)
        if match and match[4] in _ZERO_OFFSETS:
            return f"{match[1]} {match[2]},{(match[3] or '').ljust(3, '0')[:3]}"
    micros = read_moment(value)
    if micros is None:
        # As it is: the layout of the record that it stands in is found as that of any line.
        return value.strip() if isinstance(value, str) and is_whole_time(value) else None
    try:
        moment = datetime.fromtimestamp(micros // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S},{micros // 1000 % 1000:03}"


def _write_trace(value: object) -> str:
    """Write a stack trace: as it is, or from its parts as Java prints it."""
    if isinstance(value, str):
        return value.strip("\n")
    if not isinstance(value, dict):
        return ""
    value = {fold_key(key): one for key, one in value.items()}
    name = _first_string(value, ("name", "exceptiontype", "type", "class", "exceptionclass"))
    says = _first_string(value, ("message", "exceptionmessage"))
    for key in ("extendedstacktrace", "stacktrace", "frames"):
        frames = value.get(key)
        if isinstance(frames, str):
            return frames.strip("\n")
        if isinstance(frames, list):
            lines = [f"{name}: {says}" if says else name]
            lines += (
                f"\tat {one.get('class', '')}.{one.get('method', '')}"
                f"({one.get('file') or 'Unknown Source'}:{one.get('line', '')})"
                for one in frames
                if isinstance(one, dict)
            )
            return "\n".join(lines)
    return f"{name}: {says}" if name and says else name


def _first_string(node: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((node[key] for key in keys if isinstance(node.get(key), str)), "")
