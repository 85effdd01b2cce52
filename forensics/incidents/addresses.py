"""Addresses that clients are told and cannot use: by name, by broker, and by what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.incidents.bursts import Burst, bursts
from forensics.incidents.case import Case, Row

__all__ = ["NAME", "Unreachable", "broker_of", "is_up", "unreachable"]

NAME = "unreachable-listener"
_MICROS = 1_000_000
CLIENT_KINDS = (
    "client_connect_failed",
    "client_connect_timeout",
    "client_disconnected",
)
# A Java client's connection to broker N as coordinator is 2147483647 - N.
_COORDINATORS, _HIGHEST = 1 << 30, (1 << 31) - 1
_UNRESOLVED = re.compile(
    r"(?i)failed to resolve|unknown ?host|no such host|enotfound|getaddrinfo|name or service not"
    r"|nodename nor servname|temporary failure in name resolution|name resolution"
)
_REFUSED = re.compile(r"(?i)refused|actively refused")
_TIMED_OUT = re.compile(r"(?i)timed? ?out|setup timeout|no route to host|unreachable")
_ADDRESS = re.compile(r"(?:^|[\s'\"/(#])((?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):\d{1,5})\b")


@dataclass
class Unreachable:
    """One address of one broker that clients were told, and what came of it."""

    broker: int | None
    address: str
    how: str
    begin: int
    end: int
    count: int = 0
    clients: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    first: list[Row] = field(default_factory=list)


def broker_of(number: int | None) -> int | None:
    """Give the broker that a client's connection is to; null for a bootstrap address.

    >>> broker_of(2), broker_of(2147483645), broker_of(-1)
    (2, 2, None)
    """
    if number is None or number < 0:
        return None
    return _HIGHEST - number if number > _COORDINATORS else number


def unreachable(case: Case) -> list[Unreachable]:
    """Find the addresses that clients could never use, though the brokers behind them ran."""
    if not case.sight.tells(*CLIENT_KINDS):
        return []
    found: dict[tuple[int | None, str, str], Unreachable] = {}
    for broker, node, client, burst, how in _failing(case):
        address = _address(burst)
        key = broker, address, how
        one = found.setdefault(key, Unreachable(*key, burst.begin, burst.end))
        one.begin, one.end = min(one.begin, burst.begin), max(one.end, burst.end)
        one.count += burst.count
        one.clients.add(client or node or "unknown")
        one.nodes.add(node)
        one.first += burst.first[:5]
    return sorted(found.values(), key=lambda one: (one.begin, one.address, one.how))


def _failing(case: Case) -> Iterator[tuple[int | None, str, str | None, Burst, str]]:
    limits = case.limits[NAME]
    where = pc.field("kind").isin(list(CLIENT_KINDS))
    where &= pc.field("broker").is_null() | (pc.field("broker") >= 0)
    by, gather = ["node", "client", "broker"], ["detail", "kind"]
    near = round(limits["near"] * _MICROS)

    def keep(row: Row) -> bool:
        """A name is unknown for good; to be refused says something while the broker runs only."""
        if row["kind"] == "client_connect_failed" or _UNRESOLVED.search(row["detail"] or ""):
            return True
        broker = broker_of(row["broker"])
        return broker is not None and is_up(case, broker, row["at"], near)

    for burst in bursts(case, where, by, limits["gap"], gather, limits["least"], keep):
        node, client, number = burst.subject
        how = _how(burst)
        if how is not None and burst.seconds >= limits["lasting"]:
            yield broker_of(number), node or "", client, burst, how


def _how(burst: Burst) -> str | None:
    """Say why no connection came about; nothing if one ever did."""
    details, kinds = burst.seen["detail"], burst.seen["kind"]
    told = {text: count for text, count in details.items() if text}
    unresolved = sum(count for text, count in told.items() if _UNRESOLVED.search(text))
    unresolved = max(unresolved, kinds["client_connect_failed"])
    late = kinds["client_connect_timeout"]
    late += sum(n for text, n in told.items() if _TIMED_OUT.search(text) and "state UP" not in text)
    refused = sum(count for text, count in told.items() if _is_refused(text))
    # A Java client says of each failed try also, without a reason, that it is disconnected.
    lost = burst.count - sum(told.values()) - kinds["client_connect_timeout"]
    if lost > unresolved + late + refused + 1:
        return None
    most = max(unresolved, late, refused)
    if not most:
        return None
    return "unresolved" if most == unresolved else "refused" if most == refused else "timed out"


def _is_refused(text: str) -> bool:
    """Whether a reason says so; a Java client gives, of a broker that refuses, its address only."""
    bare = _ADDRESS.search(text)
    return bool(_REFUSED.search(text)) or (bare is not None and " " not in text.strip())


def _address(burst: Burst) -> str:
    told = burst.seen["detail"]
    names = [
        (count, found[1])
        for text, count in told.items()
        if text and (found := _ADDRESS.search(text)) is not None
    ]
    return max(names, default=(0, "an unknown address"))[1].lstrip("/")


def is_up(case: Case, broker: int, at: int, near: int) -> bool:
    """Whether a broker was seen to be up at a moment, and `near` microseconds around it."""
    spans = case.past.lanes.brokers.get(broker, ())
    last = case.end + near
    return any(
        span.state == "up"
        and span.begin + near <= at
        and at + near <= (last if span.end is None else span.end)
        for span in spans
    )
