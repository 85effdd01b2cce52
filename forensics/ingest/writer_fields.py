"""Finds the field of objects and rows that says who wrote them, where no known name does.

It holds few names, and lines that name their server agree with it: behind one name stands one
server. Whether it is so in the whole file is known only when all of it has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forensics.ingest.json_objects import GUESSED_ROLE, ObjectReader, ReadObject
from forensics.ingest.written_levels import is_level

__all__ = ["GUESSED_ROLE", "Recorder", "find_writer_field", "with_name"]

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
