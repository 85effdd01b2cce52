"""Addresses that brokers give out and nobody can use: unknown names, ports where nobody listens.

Addresses that clients are told and cannot use: by name, by broker, and by what went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "unreachable-listener"
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


def unreachable(context: DetectionContext) -> list[Unreachable]:
    """Find the addresses that clients could never use, though the brokers behind them ran."""
    if not context.visibility.has_kinds(*CLIENT_KINDS):
        return []
    found: dict[tuple[int | None, str, str], Unreachable] = {}
    for broker, node, client, burst, how in _failing(context):
        address = _address(burst)
        key = broker, address, how
        one = found.setdefault(key, Unreachable(*key, burst.begin, burst.end))
        one.begin, one.end = min(one.begin, burst.begin), max(one.end, burst.end)
        one.count += burst.count
        one.clients.add(client or node or "unknown")
        one.nodes.add(node)
        one.first += burst.first[:5]
    return sorted(found.values(), key=lambda one: (one.begin, one.address, one.how))


def _failing(
    context: DetectionContext,
) -> Iterator[tuple[int | None, str, str | None, EventSession, str]]:
    limits = context.limits[NAME]
    where = pc.field("kind").isin(list(CLIENT_KINDS))
    where &= pc.field("broker").is_null() | (pc.field("broker") >= 0)
    by, gather = ["node", "client", "broker"], ["detail", "kind"]
    near = round(limits["near"] * SECOND)

    def keep(row: Row) -> bool:
        """A name is unknown for good; to be refused says something while the broker runs only."""
        if row["kind"] == "client_connect_failed" or _UNRESOLVED.search(row["detail"] or ""):
            return True
        broker = broker_of(row["broker"])
        return broker is not None and is_up(context, broker, row["at"], near)

    for burst in find_sessions(context, where, by, limits["gap"], gather, limits["least"], keep):
        node, client, number = burst.subject
        how = _how(burst)
        if how is not None and burst.seconds >= limits["lasting"]:
            yield broker_of(number), node or "", client, burst, how


def _how(burst: EventSession) -> str | None:
    """Say why no connection came about; nothing if one ever did."""
    details, kinds = burst.value_counts["detail"], burst.value_counts["kind"]
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


def _address(burst: EventSession) -> str:
    told = burst.value_counts["detail"]
    names = [
        (count, found[1])
        for text, count in told.items()
        if text and (found := _ADDRESS.search(text)) is not None
    ]
    return max(names, default=(0, "an unknown address"))[1].lstrip("/")


def is_up(context: DetectionContext, broker: int, at: int, near: int) -> bool:
    """Whether a broker was seen to be up at a moment, and `near` microseconds around it."""
    spans = context.history.lanes.brokers.get(broker, ())
    last = context.logs_end + near
    return any(
        span.state == "up"
        and span.begin + near <= at
        and at + near <= (last if span.end is None else span.end)
        for span in spans
    )


NEEDS = LogRequirements(("client", "broker", "controller"))
_UNKNOWN_HOST = "java.net.UnknownHostException"
_MISSING = "LISTENER_NOT_FOUND"
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each address, and for each listener that is not there."""
    found = unreachable(context)
    settings = _settings(context) if found else []
    yield from (_of_clients(context, one, settings) for one in found)
    if context.visibility.has_kinds("peer_unreachable"):
        yield from (_of_servers(context, one) for one in _peers(context))
    yield from (_missing(context, one) for one in _unlisted(context))
    if context.visibility.has_kinds("client_address_unresolved"):
        yield from (_of_settings(context, one) for one in _bootstrap(context))


def _settings(context: DetectionContext) -> list[Row]:
    """Read what the brokers were told to give out."""
    if not context.visibility.has_kinds("setting_seen"):
        return []
    return context.events("setting_seen", where=pc.field("setting") == "advertised.listeners")


def _of_clients(context: DetectionContext, one: Unreachable, settings: Sequence[Row]) -> Finding:
    limits = context.limits[NAME]
    told = [row for row in settings if one.address in (row["value"] or "")][:1]
    evidence = [*one.first, *told]
    whose = "a broker" if one.broker is None else f"broker {one.broker}"
    names = sorted(one.clients)
    many = f"{len(names)} clients" if len(names) > 1 else names[0]
    what = {
        "unresolved": "its name is unknown there",
        "refused": "nobody listens there",
        "timed out": "no answer comes from there",
    }[one.how]
    return context.finding(
        NAME,
        limits["clients"],
        f"{many} cannot reach {whose} at {one.address}: {what}",
        one.begin,
        one.end,
        evidence,
        stated=bool(told),
        brokers=[] if one.broker is None else [one.broker],
        clients=names,
        measures={
            "how": one.how,
            "address": one.address,
            "errors": one.count,
            "clients": len(names),
            "advertised": bool(told),
        },
        explanation="The bootstrap address only leads to the metadata; from then on a client "
        f"goes to the address that each broker gives out, and {one.address} does not work from "
        f"where it runs. {_MEANINGS[one.how]}",
        actions=[
            "Look at advertised.listeners of every broker."
            if one.broker is None
            else context.commands.broker_config(one.broker, "advertised.listeners"),
            f"On the host of {quote(names[0])}: nc -vz {_spaced(one.address)}",
            (
                "Set advertised.listeners to what these clients can resolve and reach; a listener "
                "of its own for them if other clients need the one that is there."
            ),
        ],
        why=f"{one.count} failures for more than {limits['lasting']} s and not one connection "
        f"between them (at least {limits['least']} are needed)"
        + ("" if one.how == "unresolved" else "; the broker was up all the while"),
        doubts=_doubts(one, told),
    )


def _doubts(one: Unreachable, told: Sequence[Row]) -> list[str]:
    found = []
    if not told:
        found.append("No broker's settings in the archive name this address.")
    if one.how == "timed out":
        found.append("A firewall or a broken route between the two looks the same.")
    if one.how == "unresolved":
        found.append("The name service of the client's host may have been out of order.")
    return found


def _spaced(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{quote(host.strip('[]'))} {quote(port)}" if host else quote(address)


_MEANINGS = {
    "unresolved": "The broker itself may be as well as can be.",
    "refused": "The broker ran all the while: the address is another one than it listens on.",
    "timed out": "The broker ran all the while.",
}


def _peers(context: DetectionContext) -> list[EventSession]:
    limits = context.limits[NAME]
    where = (pc.field("kind") == "peer_unreachable") & (pc.field("error") == _UNKNOWN_HOST)
    found = find_sessions(
        context, where, ["node", "value"], limits["gap"], ["peer"], limits["least"]
    )
    return [one for one in found if one.seconds >= limits["lasting"]]


def _of_servers(context: DetectionContext, one: EventSession) -> Finding:
    node, address = one.subject
    limits = context.limits[NAME]
    return context.finding(
NAME,
limits["servers"],
f"{node} cannot resolve {address}, an address of its own cluster",
one.begin,
one.end,
one.first,
brokers=[peer for peer in one.values("peer") if peer >= 0],
measures={
            "how": "unresolved", "address": address, "errors": one.count, "clients": 0,
            "advertised": False,
        },
explanation="Nodes of the cluster go to each other by the addresses that they give out. A "
        "name that nobody knows, such as a placeholder left in the settings, cuts them off, though "
        "every process is well.",
actions=[
            (f"On the host of {quote(node)}: getent hosts "
            f"{quote((address or '').rpartition(':')[0] or address)}"),
            "Set advertised.listeners to a name that every node resolves.",
        ],
why=f"{one.count} failures in {one.seconds:g} s (at least {limits['least']}, and for "
        f"{limits['lasting']} s)",
doubts=["The name service of that host may have been out of order."],
)  # fmt: skip


def _unlisted(context: DetectionContext) -> list[EventSession]:
    if not context.visibility.has_kinds("client_listener_missing", "client_failed", "client_error"):
        return []
    where = (pc.field("kind") == "client_listener_missing") | (pc.field("error") == _MISSING)
    limits = context.limits[NAME]
    return find_sessions(context, where, ["node", "client"], limits["gap"], ["topic"])


def _missing(context: DetectionContext, one: EventSession) -> Finding:
    node, client = one.subject
    name = client or node or "unknown"
    topics = one.values("topic")
    return context.finding(
NAME,
context.limits[NAME]["clients"],
f"{name}: brokers have no listener of the name that it uses",
one.begin,
one.end,
one.first,
clients=[name],
measures={
            "how": "listener missing", "address": None, "errors": one.count, "clients": 1,
            "advertised": False,
        },
explanation="The metadata is given for the listener on which it was asked for. A leader "
        "without a listener of that name cannot be named, so its partitions cannot be used.",
actions=[
            "Give every broker the same names of listeners (listeners, advertised.listeners).",
            *(context.commands.topic(topic) for topic in topics[:1]),
        ],
why="one such line says it",
doubts=["A broker that is just being given a new listener says so until it is restarted."],
)  # fmt: skip


def _bootstrap(context: DetectionContext) -> list[EventSession]:
    where = pc.field("kind") == "client_address_unresolved"
    return find_sessions(context, where, ["node"], context.limits[NAME]["gap"], ["detail"])


def _of_settings(context: DetectionContext, one: EventSession) -> Finding:
    node = one.subject[0] or "unknown"
    names = one.values("detail")
    shown = ", ".join(names[:_SHOWN]) or "an address"
    return context.finding(
NAME,
context.limits[NAME]["bootstrap"],
f"{node}: {shown} of its bootstrap servers cannot be resolved",
one.begin,
one.end,
one.first,
clients=[node],
measures={
            "how": "bootstrap", "address": names[0] if names else None, "errors": one.count,
            "clients": 1, "advertised": False,
        },
explanation="A client takes any of its bootstrap servers: as long as one of them is "
        "known it works. If none is, it does not start.",
actions=[f"Take {quote(shown)} out of bootstrap.servers, or give it a name that is known."],
why="one such line says it",
doubts=["The name service of that host may have been out of order."],
)  # fmt: skip
