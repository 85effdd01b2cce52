"""Connections of clients: to which broker they are, and which addresses never work.

A broker that refuses a client says something about its address only while it runs, so failures
count only if the broker was up around them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run
from forensics.detection.shared.client_settings import read_client_starts
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.arrow_io import is_any_of
from forensics.lib.time_units import SECOND

_LIMITS = "unreachable-listener"
# librdkafka says of a broker that refuses it that it has no connection, and why.
SASL_REFUSAL = r"^SASL (?:authentication error|\S+ mechanism handshake failed): "
_KINDS = ("client_connect_failed", "client_connect_timeout", "client_disconnected")
# A Java client's connection to broker N as coordinator is 2147483647 - N.
_COORDINATORS, _HIGHEST = 1 << 30, (1 << 31) - 1
_UNRESOLVED = re.compile(
    r"(?i)failed to resolve|unknown ?host|no such host|enotfound|getaddrinfo|name or service not"
    r"|nodename nor servname|temporary failure in name resolution|name resolution"
)
_REFUSED = re.compile(r"(?i)refused|actively refused")
_TIMED_OUT = re.compile(r"(?i)timed? ?out|setup timeout|no route to host|unreachable")
# What a client says when none of its servers answers.
_EVERY_DOWN = ["all_brokers_down", "client_rebootstrap"]
# A connection that was made, and what a client says as it ends.
_CONNECTED = re.compile(r"(?i)state (?:UP|APIVERSION_QUERY|AUTH)|terminating|_DESTROY")
_ADDRESS = re.compile(r"(?:^|[\s'\"/(#])((?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):\d{1,5})\b")


@dataclass
class UnreachableAddress:
    """One address of one broker that clients were given, and why it did not work."""

    broker: int | None
    address: str
    # unresolved, refused or timed out
    reason: str
    begin: int
    end: int
    count: int = 0
    clients: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    first: list[Row] = field(default_factory=list)


def broker_of_connection(number: int | None) -> int | None:
    """Return the broker that a client's connection is to; None for a bootstrap address.

    >>> broker_of_connection(2), broker_of_connection(2147483645), broker_of_connection(-1)
    (2, 2, None)
    """
    if number is None or number < 0:
        return None
    return _HIGHEST - number if number > _COORDINATORS else number


def is_up(context: DetectionContext, broker: int, moment: int, near: int) -> bool:
    """Return True if a broker was seen to be up at a moment, and `near` microseconds around it."""
    begins, reach = _read_up_times(context, broker, near)
    before = bisect_right(begins, moment - near)
    return before > 0 and moment + near <= reach[before - 1]


@once_per_run
def _read_up_times(
    context: DetectionContext, broker: int, near: int
) -> tuple[list[int], list[int]]:
    """Return when a broker's times of being up begin, and how far those up to each one reach."""
    last = context.logs_end + near
    times = sorted(
        (span.begin, last if span.end is None else span.end)
        for span in context.history.lanes.brokers.get(broker, ())
        if span.state == "up"
    )
    return [begin for begin, _ in times], list(accumulate((end for _, end in times), max))


@once_per_run
def find_unreachable_addresses(context: DetectionContext) -> list[UnreachableAddress]:
    """Find the addresses that clients could never use, though the brokers behind them ran."""
    if not context.visibility.has_kinds(*_KINDS):
        return []
    found: dict[tuple[int | None, str, str], UnreachableAddress] = {}
    for session, reason in _failed_connections(context):
        node, client, number = session.subject
        key = broker_of_connection(number), _address(session), reason
        address = found.setdefault(key, UnreachableAddress(*key, session.begin, session.end))
        address.begin = min(address.begin, session.begin)
        address.end = max(address.end, session.end)
        address.count += session.count
        address.clients.add(client or node or "unknown")
        address.nodes.add(node or "")
        address.first += session.first[:5]
    return sorted(found.values(), key=lambda one: (one.begin, one.address, one.reason))


@dataclass
class DeadBootstrap:
    """A client that got no connection to any bootstrap server, though the cluster ran."""

    session: EventSession
    addresses: Sequence[str]

    @property
    def subject(self) -> tuple[str | None, str | None]:
        """Its node, and its id."""
        node, client = self.session.subject
        return node, client


@once_per_run
def find_dead_bootstraps(context: DetectionContext) -> list[DeadBootstrap]:
    """Find clients whose bootstrap servers took no connection, and that met no broker at all.

    Whoever was connected once speaks of topics and groups, or of brokers by their numbers.
    """
    if not context.visibility.has_kinds(*_KINDS):
        return []
    limits = context.limits[_LIMITS]
    number, near = pc.field("broker"), round(limits["near"] * SECOND)
    brokers = [broker for broker, spans in context.history.lanes.brokers.items() if spans]
    told = (number >= 0) | pc.field("topic").is_valid() | pc.field("group").is_valid()
    clients = {file["node"] for file in context.visibility.files if file["role"] == "client"}
    of_clients = is_any_of("node", clients - {None})
    met = {row["node"] for row in context.each("events", told & of_clients, ["node"])}
    every_down = pc.field("kind").isin(_EVERY_DOWN)
    down = {row["node"] for row in context.each("events", every_down & of_clients, ["node"])}

    def keep(row: Row) -> bool:
        """A refusal says something only while the brokers run."""
        # An unknown name is told as such.
        detail = row["detail"] or ""
        named = row["kind"] == "client_connect_failed" or bool(_UNRESOLVED.search(detail))
        if named or row["node"] in met or _CONNECTED.search(detail):
            return False
        return any(is_up(context, one, row["at"], near) for one in brokers)

    where = pc.field("kind").isin(list(_KINDS)) & (number.is_null() | (number < 0))
    by, columns = ["node", "client"], ["detail", "kind", "broker"]
    found = []
    for session in find_sessions(context, where, by, limits["gap"], columns, limits["least"], keep):
        matches = (_ADDRESS.search(text) for text in session.values("detail"))
        addresses = sorted({match[1] for match in matches if match is not None})
        # Of several bootstrap servers one is enough.
        wanted = _bootstrap_servers(context, session.subject[0])
        is_all = len(addresses) > 1 or session.subject[0] in down
        if addresses and wanted:
            is_all = wanted <= {*addresses}
        if session.seconds >= limits["lasting"] and addresses and is_all:
            found.append(DeadBootstrap(session, addresses))
    return found


def _bootstrap_servers(context: DetectionContext, node: str | None) -> set[str]:
    """Return the bootstrap servers that a node's clients were started with, as far as logged."""
    starts = read_client_starts(context).get(node or "", ())
    lists = (one.values.get("bootstrap.servers", "").strip("[]") for one in starts)
    return {name.strip() for text in lists for name in text.split(",") if name.strip()}


def _failed_connections(context: DetectionContext) -> Iterator[tuple[EventSession, str]]:
    """Yield what each client met at each broker for long enough, and why it failed."""
    limits = context.limits[_LIMITS]
    where = pc.field("kind").isin(list(_KINDS))
    where &= pc.field("broker").is_null() | (pc.field("broker") >= 0)
    by, columns = ["node", "client", "broker"], ["detail", "kind"]
    near = round(limits["near"] * SECOND)

    def keep(row: Row) -> bool:
        """A name is unknown for good; a refusal says something only while the broker runs."""
        if row["kind"] == "client_connect_failed" or _UNRESOLVED.search(row["detail"] or ""):
            return True
        broker = broker_of_connection(row["broker"])
        return broker is not None and is_up(context, broker, row["at"], near)

    for session in find_sessions(context, where, by, limits["gap"], columns, limits["least"], keep):
        reason = _classify_failures(session)
        if reason is not None and session.seconds >= limits["lasting"]:
            yield session, reason


def _classify_failures(session: EventSession) -> str | None:
    """Return why no connection came about; None if one ever did."""
    kinds = session.value_counts["kind"]
    details = {text: count for text, count in session.value_counts["detail"].items() if text}
    unresolved = sum(count for text, count in details.items() if _UNRESOLVED.search(text))
    unresolved = max(unresolved, kinds["client_connect_failed"])
    late = kinds["client_connect_timeout"] + sum(
        count
        for text, count in details.items()
        if _TIMED_OUT.search(text) and "state UP" not in text
    )
    refused = sum(count for text, count in details.items() if _is_refusal(text))
    # A Java client also logs each failed attempt as a disconnect without a reason.
    disconnects = session.count - sum(details.values()) - kinds["client_connect_timeout"]
    if disconnects > unresolved + late + refused + 1:
        return None
    most = max(unresolved, late, refused)
    if not most:
        return None
    return "unresolved" if most == unresolved else "refused" if most == refused else "timed out"


def _is_refusal(text: str) -> bool:
    """Return True for a refusal; of one, a Java client gives nothing but the address."""
    address = _ADDRESS.search(text)
    return bool(_REFUSED.search(text)) or (address is not None and " " not in text.strip())


def _address(session: EventSession) -> str:
    addresses = [
        (count, match[1])
        for text, count in session.value_counts["detail"].items()
        if text and (match := _ADDRESS.search(text)) is not None
    ]
    return max(addresses, default=(0, "an unknown address"))[1].lstrip("/")
