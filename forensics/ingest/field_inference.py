"""Finds what the fields of objects, rows and elements hold by their values, whatever their names.

A field of whole records is the message. Else a field of Kafka's loggers beside one of times proves
that records stand in parts: the longest other text is the message. A field that says who wrote
them holds few names, and lines that name their server agree with it: behind one name stands one
server. Whether it is so in the whole file is known only when all of it has been read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from forensics.ingest.json_objects import (
    GUESSED_ROLE,
    ObjectReader,
    ReadObject,
    find_records,
    is_stamp,
    open_typed,
)
from forensics.ingest.level_formats import is_level
from forensics.ingest.logger_names import is_logger
from forensics.ingest.time_formats import is_whole_time

__all__ = [
    "GUESSED_ROLE",
    "Recorder",
    "find_message",
    "find_writer_field",
    "learn_fields",
    "learn_nodes",
    "with_name",
]

_FEW_NAMES, _FEW_RECORDS, _MAX_DEPTH = 24, 4, 4
_NEARLY_ALL = 0.9
_NAME = re.compile(r"/?[A-Za-z0-9][\w.@/:-]{0,99}")
_NUMBER = re.compile(r"[0-9.:,-]*")
# The server that a message names in its first brackets.
_SERVER = re.compile(
    r"\[[A-Z][A-Za-z -]*?(?:\b(?:id|nodeId|brokerId|replicaId|controllerId|broker)=|[bB]roker )"
    r"([0-9]+)\b"
)
_REACH = 200
# Of the records of a sample so many have what makes a field one of times, levels or loggers.
_MOST, _SOME_LOGGERS, _FEW = 0.8, 0.4, 3
_MAX_LEVELS, _MAX_LOGGER, _MIN_MESSAGE = 8, 200, 12
_LETTER = re.compile("[TVDIWEFC]|D[1-5]")
_TRACE = re.compile(r"(?:^|\n)\s*at [\w.$/@]+\(|^[\w.$]+(?:Exception|Error)\b")
# The first brackets of Kafka's own messages.
_OWN_BRACKET = re.compile(r"\[[A-Z][A-Za-z -]*?(?:\b[A-Za-z]+=|[bB]roker )")
Columns = Mapping[tuple[str, ...], Sequence[Any]]
# Keys that hold names of machines more often than others do.
_HINTS = re.compile(
    r"host|node|pod|container|instance|machine|server|broker|source|tag|key", re.IGNORECASE
)

Seen = tuple[Mapping[str, Any], ReadObject | None]


class Recorder(ObjectReader):
    """Reads objects as another reader does, and keeps what it was asked."""

    def __init__(self, reader: ObjectReader) -> None:
        """Read by the names of a reader."""
        super().__init__(reader.names)
        self.seen: list[Seen] = []

    def read(
        self, node: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> ReadObject | None:
        """Read an object."""
        told = super().read(node, context)
        self.seen.append(({**(context or {}), **node}, told))
        return told


def with_name(reader: ObjectReader, role: str, name: str) -> ObjectReader:
    """Return a reader for which a key has a role before all others."""
    return ObjectReader({**reader.names, role: (name, *reader.names[role])})


def find_writer_field(seen: Sequence[Seen]) -> str | None:
    """Find the field that tells who wrote some objects; None if a known one does, or none can."""
    known = [(node, told) for node, told in seen if told is not None]
    if len({told.origin for _, told in known if told.origin}) > 1 or len(known) < _FEW_RECORDS:
        return None
    values: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for node, told in known:
        found = _SERVER.search(told.text, 0, _REACH)
        for path, value in _texts(node, ()):
            if value != told.text:
                values.setdefault(path, []).append((value, found[1] if found else ""))
    rated = []
    for path, some in values.items():
        names = {value for value, _ in some}
        if len(some) < _NEARLY_ALL * len(known) or not 1 < len(names) <= _FEW_NAMES:
            continue
        if not all(_NAME.fullmatch(one) and not is_level(one.encode()) for one in names):
            continue
        pairs = {(value, server) for value, server in some if server}
        servers = {server for _, server in pairs}
        if len(pairs) > len({value for value, _ in pairs}):
            continue
        if len(servers) < 2 and all(_NUMBER.fullmatch(one) for one in names):
            continue
        plain = sum(_NUMBER.fullmatch(one) is not None for one in names)
        rating = (len(servers) > 1, not plain, _HINTS.search(path[-1]) is not None, -len(names))
        rated.append((rating, path))
    # Of equal ones the first.
    best = max(rated, key=lambda one: one[0], default=None)
    return ".".join(best[1][-2:]) if best else None


def _texts(
    node: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in node.items():
        if type(value) is str and value:
            yield (*above, key), value
        elif type(value) is dict and len(above) < _MAX_DEPTH:
            yield from _texts(value, (*above, key))


def learn_fields(
    reader: ObjectReader, nodes: Sequence[Mapping[str, Any]], loggers: Collection[str] = ()
) -> ObjectReader | None:
    """Return a reader that knows the fields of some nodes by their values, if names do not.

    `loggers` are the last parts of the names of Kafka's loggers.
    """
    told = [reader.read(node) for node in nodes]
    keys = Counter(key for node in nodes for key in set(find_records(node)))
    unread = sum(one is None for one in told)
    if keys:
        if 2 * unread <= len(nodes):
            return None
        key, count = min(keys.items(), key=lambda one: (-one[1], one[0]))
        return with_name(reader, "message", key) if count >= min(_FEW, unread) else None
    columns: dict[tuple[str, ...], list[Any]] = {}
    for node in nodes:
        for path, value in _scalars(node, ()):
            columns.setdefault(path, []).append(value)
    roles = _roles_by_values(columns, len(nodes), loggers)
    if roles is None:
        return None
    if _agrees(told, nodes, roles):
        more = roles.get("more", ())
        roles = {"more": more} if more and not reader.has_role(more[-1]) else {}
        if not roles:
            return None
    for role, path in roles.items():
        reader = with_name(reader, role, ".".join(path[-3:]))
    return reader


def learn_nodes(recorder: Recorder, loggers: Collection[str] = ()) -> ObjectReader | None:
    """Learn from what a reader was asked: all of it, or what begins alike, if others do not."""
    nodes = [node for node, _ in recorder.seen]
    if (learnt := learn_fields(recorder, nodes, loggers)) is not None:
        return learnt
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        groups.setdefault(next(iter(node), ""), []).append(node)
    largest = max(groups.values(), key=len, default=[])
    return None if len(groups) < 2 else learn_fields(recorder, largest, loggers)


def find_message(nodes: Sequence[Mapping[str, Any]], loggers: Collection[str] = ()) -> str | None:
    """Return the key of the message, by what stands under the others; None if that proves none."""
    columns: dict[tuple[str, ...], list[Any]] = {}
    for node in nodes:
        for key, value in node.items():
            columns.setdefault((key,), []).append(value)
    roles = _roles_by_values(columns, len(nodes), loggers)
    return None if roles is None else roles["message"][0]


def _agrees(
    told: Sequence[ReadObject | None],
    nodes: Sequence[Mapping[str, Any]],
    roles: Mapping[str, tuple[str, ...]],
) -> bool:
    """Return True if records are read by known names, and name the same loggers."""
    records = [one for one in told if one is not None and one.is_record]
    if 2 * len(records) <= len(nodes):
        return False
    if "logger" not in roles:
        return True
    found = [dict(_scalars(node, ())).get(roles["logger"]) for node in nodes]
    same = sum(
        one is not None and f"({name})" in one.text for one, name in zip(told, found, strict=True)
    )
    return 2 * same > len(records)


def _roles_by_values(
    columns: Columns, count: int, loggers: Collection[str]
) -> dict[str, tuple[str, ...]] | None:
    """Find which columns hold time, level, logger, message and stack traces."""
    if count < _FEW:
        return None
    roles: dict[str, tuple[str, ...]] = {}
    names = {
        path: [one for one in some if type(one) is str and one] for path, some in columns.items()
    }
    times = [
        path for path, some in columns.items()
        if len(some) >= _MOST * count and sum(map(is_stamp, some)) >= _MOST * len(some)
    ]  # fmt: skip
    if times:
        # Of several times, such as that of the store, the record's own differs most.
        roles["time"] = max(times, key=lambda path: len(set(columns[path])))
    else:
        roles |= _day_and_clock(names, count)
        if not roles:
            return None
        times = [*roles.values()]
    for path, some in names.items():
        if path in times or len(some) < _SOME_LOGGERS * count:
            continue
        if len(set(some)) <= _MAX_LEVELS and all(map(_is_level, some)):
            roles.setdefault("level", path)
            continue
        known = sum(len(one) < _MAX_LOGGER and is_logger(one.strip(), loggers) for one in some)
        if known >= _SOME_LOGGERS * len(some):
            roles.setdefault("logger", path)
    taken = {*roles.values(), *times}
    texts = {path: some for path, some in names.items() if path not in taken and some}
    traces = [path for path, some in texts.items() if 2 * sum(map(_is_trace, some)) > len(some)]
    lengths = {
        path: sum(map(len, some)) / len(some)
        for path, some in texts.items()
        if path not in traces and len(some) >= _MOST * count and len(set(some)) >= _FEW
    }
    if not lengths:
        return None
    roles["message"] = max(lengths, key=lambda path: (lengths[path], path))
    if traces:
        roles["more"] = max(traces, key=lambda path: len(texts[path]))
    says = texts[roles["message"]]
    own = sum(_OWN_BRACKET.match(one) is not None for one in says)
    proved = "logger" in roles or own >= max(_FEW, 0.1 * len(says))
    return roles if proved and lengths[roles["message"]] >= _MIN_MESSAGE else None


def _day_and_clock(
    names: Mapping[tuple[str, ...], Sequence[str]], count: int
) -> dict[str, tuple[str, ...]]:
    """Find a column of days and one of times of day."""
    whole = [path for path, some in names.items() if len(some) >= _MOST * count]
    days = [path for path in whole if all(is_whole_time(f"{one} 0:00:00") for one in names[path])]
    clocks = [
        path for path in whole if all(is_whole_time(f"2000-01-01 {one}") for one in names[path])
    ]
    return {"day": days[0], "clock": clocks[0]} if days and clocks else {}


def _is_level(text: str) -> bool:
    return _LETTER.fullmatch(text) is not None or is_level(text.strip().encode())


def _is_trace(text: str) -> bool:
    return _TRACE.search(text) is not None


def _scalars(
    node: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        value = open_typed(value)  # noqa: PLW2901 - what it stands for
        if type(value) is dict and len(above) < _MAX_DEPTH:
            yield from _scalars(value, (*above, key))
        elif type(value) in (str, int, float):
            yield (*above, key), value
