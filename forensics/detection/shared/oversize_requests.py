"""Requests so large that a broker closed the connection, and the clients that sent them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    once_per_run,
)
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.lib.whole_numbers import whole_number

REQUEST_LIMIT = "socket.request.max.bytes"
# The exception by which a broker refuses the size of a request.
RECEIVE_ERROR = "InvalidReceiveException"
_LIMITS = "record-too-large"
_SIZES = (
    re.compile(r"is (?P<size>\d+) bytes when serialized which is larger than (?P<most>\d+)"),
    re.compile(r"is (?P<size>\d+) bytes which exceeds the maximum configured .*?(?P<most>\d+)"),
    re.compile(r"size = (?P<size>\d+) larger than (?P<most>\d+)"),
    re.compile(r"is (?P<size>\d+) bytes when serialized"),
)
# The first byte of a TLS handshake.
_TLS = 0x16
# A client notices at once that its connection was closed.
_AT_ONCE = 2 * SECOND


@dataclass
class Oversize:
    """Records or requests that were refused for their size."""

    session: EventSession
    # the setting that refused them
    limit: str
    is_split: bool = False
    topic: str | None = None
    client: str | None = None
    clients: list[str] = field(default_factory=list)
    # the largest size that was refused, and the largest that is allowed
    size: int | None = None
    allowed: int | None = None
    lines: list[Row] = field(default_factory=list)


@once_per_run
def find_oversize_requests(context: DetectionContext) -> list[Oversize]:
    """Find requests so large that a broker closed the connection without an answer."""
    if not context.visibility.has_kinds("connection_failed"):
        return []
    where = pc.field("kind") == "connection_failed"
    where &= pc.match_substring(pc.field("error"), RECEIVE_ERROR)
    gap, columns = context.limits[_LIMITS]["gap"], ["detail", "broker"]
    sessions = find_sessions(context, where, ["node"], gap, columns, keep=_is_oversize)
    found = []
    for session in sessions:
        size, allowed = parse_sizes([text for text in session.values("detail") if text])
        clients, lines = _disconnected_clients(context, session)
        found.append(
            Oversize(
                session, REQUEST_LIMIT, clients=clients, size=size, allowed=allowed, lines=lines
            )
        )
    return found


def _is_oversize(row: Row) -> bool:
    size, _ = parse_sizes([row["detail"] or ""])
    return size is not None and is_request_size(size)


def parse_sizes(details: Sequence[str]) -> tuple[int | None, int | None]:
    """Return the largest size, and the largest that is allowed, that texts name."""
    sizes, allowed = [], []
    for text in details:
        match = next((hit for pattern in _SIZES if (hit := pattern.search(text))), None)
        if match is not None:
            sizes.append(whole_number(match["size"]))
            allowed.append(whole_number(match["most"]) if "most" in match.re.groupindex else None)
    return _largest(sizes), _largest(allowed)


def _largest(numbers: Iterable[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


def is_request_size(size: int) -> bool:
    """Return False if a size is really the first bytes of TLS or of plain text.

    >>> is_request_size(4_000_130), is_request_size(1195725856), is_request_size(369295616)
    (True, False, False)
    """
    begin = size.to_bytes(8, "big")[-4:]
    return begin[0] != _TLS and not all(0x20 <= byte < 0x7F for byte in begin)


def _disconnected_clients(
    context: DetectionContext, session: EventSession
) -> tuple[list[str], list[Row]]:
    """Name the clients whose requests broke most times when the broker closed a connection."""
    closed = sorted(row["at"] for row in session.first)
    counts: Counter[str] = Counter()
    lines: dict[str, Row] = {}
    for row in _broken_requests(context, closed):
        name = row["client"] or row["node"] or "unknown"
        counts[name] += 1
        lines[name] = min(lines.get(name, row), row, key=by_time)
    clients = sorted(name for name, count in counts.items() if 2 * count >= len(closed))
    return clients, [lines[name] for name in clients]


def _broken_requests(context: DetectionContext, closed: Sequence[int]) -> Iterator[Row]:
    """Yield requests that broke just after one of some moments, one per client and moment."""
    where = (pc.field("kind") == "client_request_cancelled") & (pc.field("detail") == "PRODUCE")
    seen: set[tuple[str | None, str | None, int]] = set()
    columns = [*EVIDENCE_COLUMNS, "client"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        index = bisect_right(closed, row["at"]) - 1
        key = row["node"], row["client"], index
        if index >= 0 and row["at"] - closed[index] <= _AT_ONCE and key not in seen:
            seen.add(key)
            yield row
