"""Lines of librdkafka and kafkajs inside the messages of other programs, written as their own.

Both hand their lines to callbacks in parts, which programs put together in their own ways. But the
text of librdkafka begins with the name of its thread, that of kafkajs with the name of its module,
and has its own keys beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

# The logger of records that name none; rules decide by the message alone.
UNNAMED = "unnamed"
KAFKAJS = "kafkajs"
# What every line of librdkafka has, and how far before it its other parts may begin.
THREAD = "[thrd:"
_REACH = 300
# Before the text stands a whole line as librdkafka prints it, an object of its parts, or its parts
# in the orders and with the signs that programs choose.
_CLIENT = r"[^\s\[\]|:]{1,200}#(?:producer|consumer)-[0-9]+"
_WHOLE = re.compile(r"%[0-7]\|[0-9]{9,11}\.[0-9]+\|[A-Z_]+\|[^|\n]+\| $")
_OBJECT = re.compile(r"\"fac\":\s?\"(?P<fac>[A-Z_]+)\"[^{}]*\"message\":\s?\"$")
_PARTS = re.compile(
    r"(?:^|[\s:;,(\[\])>\"'=])(?:RDKAFKA-[0-7]-|\[[0-7],|\[client\.id:(?P<id>[^\]\n]+)\] \[rdk:)?"
    rf"(?:\[?(?P<before>{_CLIENT})\]?:? )?(?:\[?(?P<fac>[A-Z][A-Z_]{{1,19}})\]?:? )?"
    rf"(?:\[?(?P<after>{_CLIENT})\]?:? |\[(?P<named>[^\]\[|\n]{{1,200}})\]:? )?$"
)
_NAMES = ("id", "before", "after", "named")
_FACILITY = re.compile(r"[A-Z][A-Z_]{1,19}")
_NO_FACILITIES = {"INFO", "WARN", "WARNING", "DEBUG", "TRACE", "NOTICE", "CRITICAL"}
# How the text of a lost connection ends, whose facility is FAIL.
_FAILED = re.compile(r"\(after [0-9]+ms in state [A-Z_]+")
# The numbers of syslog, which librdkafka writes for its levels.
_NUMBERS = {"FATAL": 2, "ERROR": 3, "WARN": 4, "INFO": 6, "DEBUG": 7}
KAFKAJS_MODULES = (
    "Connection", "BrokerPool", "Broker", "Cluster", "Consumer", "ConsumerGroup", "Runner",
    "Producer", "Admin",
)  # fmt: skip
_MODULE = rf"\[(?:{'|'.join(KAFKAJS_MODULES)})\] "
_OF_KAFKAJS = re.compile(rf"(?:^|\s)(?P<says>{_MODULE}[^\n{{]*?)\s*(?P<keys>\{{\"[^\n]*\}})\s*$")
_KAFKAJS_KEYS = (
    "broker", "clientId", "error", "correlationId", "size", "stack", "retryCount", "retryTime",
    "topic", "partition", "offset", "groupId", "memberId", "leaderId", "isLeader",
    "memberAssignment", "groupProtocol", "duration",
)  # fmt: skip
# Messages without a match hold no line of either.
MAYBE_CLIENT_LINE = rf"\[thrd:|{_MODULE}[^\n]*\{{\""


@dataclass(frozen=True)
class Moment:
    """The time (yyyy-MM-dd HH:mm:ss,SSSSSS, in UTC if `zoned`) and the level of a message."""

    time: str
    level: str
    zoned: bool = True

    def write(self, message: str, logger: str) -> str:
        """Write a record as those of found layouts are."""
        return f"[{self.time}{'Z' if self.zoned else ''}] {self.level} {message} ({logger})"


def write_client_line(
    message: str, moment: Moment, logger: str = "", client: str = ""
) -> str | None:
    """Write the line of a library in a message; None if there is none.

    `logger` may be the facility of librdkafka; without one, what it says tells which it is.

    >>> write_client_line("FAIL: [thrd:a]: b", Moment("2026-11-18 11:38:25,852000", "WARN"))
    '[2026-11-18 11:38:25,852000Z] WARN [thrd:a]: b (FAIL)'
    """
    at = message.find(THREAD)
    if at < 0:
        return _write_kafkajs(message, moment)
    head, says = message[max(0, at - _REACH) : at], message[at:]
    if whole := _WHOLE.search(head):
        return whole[0] + says
    found = _OBJECT.search(head)
    if found:
        says = says.partition('"')[0]
    found = found or _PARTS.search(head)
    parts = found.groupdict() if found else {}
    facility = parts.get("fac") or ""
    if not facility or facility in _NO_FACILITIES:
        facility = logger if _FACILITY.fullmatch(logger) else ""
    if not facility and _FAILED.search(says):
        facility = "FAIL"
    client = next(filter(None, map(parts.get, _NAMES)), client)
    if not (facility and client):
        return moment.write(says, facility or UNNAMED)
    second, number = f"{moment.time[:19]}.{moment.time[20:23]}", _NUMBERS.get(moment.level, 6)
    if not moment.zoned:
        return f"{number}|{second}|{client}|{facility}| {says}"
    try:
        seconds = int(datetime.fromisoformat(second[:19]).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
    return f"%{number}|{seconds}{second[19:]}|{facility}|{client}| {says}"


def _write_kafkajs(message: str, moment: Moment) -> str | None:
    """Write a text of kafkajs and the object behind it."""
    found = _OF_KAFKAJS.search(message)
    if found is None:
        return None
    try:
        keys = json.loads(found["keys"])
    except (ValueError, RecursionError):
        return None
    own = keys_of_kafkajs(keys)
    if not own:
        return None
    line = json.dumps({"m": found["says"]} | own, separators=(",", ":"), ensure_ascii=False)
    return moment.write(line.removeprefix('{"m":"'), KAFKAJS)


def keys_of_kafkajs(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return what kafkajs itself says beside its text."""
    return {key: value for key, value in keys.items() if key in _KAFKAJS_KEYS}


def is_of_kafkajs(message: str, keys: Mapping[str, Any]) -> bool:
    """Return True if a message beside some keys is a line of kafkajs, whoever logged it."""
    return re.match(_MODULE, message) is not None and bool(keys_of_kafkajs(keys))
