"""Addresses that brokers give out and nobody can use: unknown names, ports where nobody listens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.client_connections import (
    DeadBootstrap,
    UnreachableAddress,
    find_dead_bootstraps,
    find_unreachable_addresses,
)
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.lib.text_format import join_names
from forensics.run_output.findings import Finding

NAME = "unreachable-listener"
NEEDS = LogRequirements(("client", "broker", "controller"))
_UNKNOWN_HOST = "java.net.UnknownHostException"
_MISSING = "LISTENER_NOT_FOUND"
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each address, and for each listener that is not there."""
    addresses = find_unreachable_addresses(context)
    has_peers = context.visibility.has_kinds("peer_unreachable")
    settings = _read_advertised_listeners(context) if addresses or has_peers else []
    for address in addresses:
        yield _client_finding(context, address, settings)
    yield from _find_unresolved_peers(context, settings)
    yield from _find_missing_listeners(context)
    yield from _find_unresolved_bootstrap(context)
    for one in find_dead_bootstraps(context):
        yield _bootstrap_finding(context, one)


def _bootstrap_finding(context: DetectionContext, one: DeadBootstrap) -> Finding:
    """Build the finding on a client that never gets as far as the cluster."""
    node, client = one.subject
    name, session, limits = client or node or "unknown", one.session, context.limits[NAME]
    shown = join_names(one.addresses, _SHOWN)
    return context.finding(
        NAME,
        limits["clients"],
        f"{name} does not reach the cluster: its bootstrap servers ({shown}) take no connection",
        session.begin,
        session.end,
        session.first,
        clients=[name],
        measures=_measures("bootstrap", one.addresses[0], session.count, clients=1),
        explanation="Brokers ran all the while, and the client met none of them: whatever it wants"
        " to write or read waits. Either its bootstrap.servers are wrong or out of date, or"
        " something between the two refuses connections.",
        actions=[
            f"Set bootstrap.servers of {quote(name)} to brokers: {context.commands.places.brokers}",
            f"On the host of {quote(name)}: nc -vz {_host_and_port(one.addresses[0])}",
        ],
        why=f"{session.count} failures in {session.seconds:g} s, and not one connection"
        f" (at least {limits['least']}, and for {limits['lasting']} s)",
        doubts=["It may be a client of another cluster, whose brokers are not in these logs."],
    )


def _read_advertised_listeners(context: DetectionContext) -> list[Row]:
    """Read the addresses that brokers were configured to give out."""
    if not context.visibility.has_kinds("setting_seen"):
        return []
    return context.events("setting_seen", where=pc.field("setting") == "advertised.listeners")


def _client_finding(
    context: DetectionContext, address: UnreachableAddress, settings: Sequence[Row]
) -> Finding:
    limits = context.limits[NAME]
    named = [row for row in settings if address.address in (row["value"] or "")][:1]
    evidence = [*address.first, *named]
    broker = "a broker" if address.broker is None else f"broker {address.broker}"
    clients = sorted(address.clients)
    many = f"{len(clients)} clients" if len(clients) > 1 else clients[0]
    what = {
        "unresolved": "their hosts cannot resolve that name",
        "refused": "connections there are refused",
        "timed out": "no answer comes from there",
    }[address.reason]
    look = f"grep advertised.listeners server.properties   # on {broker}: what it gives out"
    if address.broker is None:
        look = "Look at advertised.listeners of every broker."
    return context.finding(
        NAME,
        limits["clients"],
        f"{many} cannot reach {broker} at {address.address}: {what}",
        address.begin,
        address.end,
        evidence,
        stated=bool(named),
        brokers=[] if address.broker is None else [address.broker],
        clients=clients,
        measures=_measures(
            address.reason,
            address.address,
            address.count,
            clients=len(clients),
            is_advertised=bool(named),
        ),
        explanation="The bootstrap address only leads to the metadata; from then on a client "
        "goes to the address that each broker gives out, and that one does not work from where the "
        f"client runs. {_MEANINGS[address.reason]}",
        actions=[
            (
                f"Set advertised.listeners{f' of {broker}' if address.broker is not None else ''} "
                "to an address that these clients can resolve and reach; a listener of its own for "
                "them if other clients need the one that is there."
            ),
            *(() if named else (look,)),
            f"On the host of {quote(clients[0])}: nc -vz {_host_and_port(address.address)}",
        ],
        why=f"{address.count} failures for more than {limits['lasting']} s and not one connection "
        f"between them (at least {limits['least']} are needed)"
        + ("" if address.reason == "unresolved" else "; the broker was up all the while"),
        doubts=_doubts(address, named),
    )


def _doubts(address: UnreachableAddress, named: Sequence[Row]) -> list[str]:
    doubts = []
    if not named:
        doubts.append("No broker's settings in the archive name this address.")
    if address.reason == "timed out":
        doubts.append("A firewall or a broken route between the two looks the same.")
    if address.reason == "unresolved":
        doubts.append("The name service of the client's host may have been out of order.")
    return doubts


def _host_and_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{quote(host.strip('[]'))} {quote(port)}" if host else quote(address)


def _find_unresolved_peers(context: DetectionContext, settings: Sequence[Row]) -> Iterator[Finding]:
    """Find nodes that cannot resolve the address of another node of their cluster."""
    if not context.visibility.has_kinds("peer_unreachable"):
        return
    limits = context.limits[NAME]
    gap, least = limits["gap"], limits["least"]
    where = (pc.field("kind") == "peer_unreachable") & (pc.field("error") == _UNKNOWN_HOST)
    by_address: dict[str, list[EventSession]] = {}
    for session in find_sessions(context, where, ["node", "value"], gap, ["peer"], least):
        if session.seconds >= limits["lasting"]:
            by_address.setdefault(session.subject[1] or "", []).append(session)
    for address, found in sorted(by_address.items()):
        yield _peer_finding(context, address, found, settings)


def _peer_finding(
    context: DetectionContext,
    address: str,
    found: Sequence[EventSession],
    settings: Sequence[Row],
) -> Finding:
    limits = context.limits[NAME]
    nodes = sorted({session.subject[0] or "a node" for session in found})
    peers = sorted({peer for session in found for peer in session.values("peer") if peer >= 0})
    named = [row for row in settings if address and address in (row["value"] or "")][:1]
    host = address.rpartition(":")[0] or address
    whose = f"the address of broker {peers[0]}" if len(peers) == 1 else "an address of its cluster"
    broker = f" of broker {peers[0]}" if len(peers) == 1 else ""
    shown = join_names(nodes[:_SHOWN])
    return context.finding(
        NAME,
        limits["servers"],
        f"{shown} cannot resolve {address}, {whose}",
        min(session.begin for session in found),
        max(session.end for session in found),
        [*named, *(row for session in found for row in session.first)],
        brokers=peers,
        measures=_measures(
            "unresolved",
            address,
            sum(session.count for session in found),
            clients=0,
            is_advertised=bool(named),
        ),
        explanation="Nodes of the cluster go to each other by the addresses that they give "
        "out. A name that nobody knows, such as a placeholder left in the settings, cuts them "
        "off, though every process is well: followers of the partitions that it leads cannot "
        "fetch, and leave their ISRs.",
        actions=[
            f"On the host of {quote(nodes[0])}: getent hosts {quote(host)}",
            (
                f"Set advertised.listeners{broker} to a name that every node resolves, and restart"
                f" {'it' if broker else 'that broker'}: until then it should lead nothing."
            ),
        ],
        why=f"{sum(session.count for session in found)} failures in"
        f" {max(session.seconds for session in found):g} s (at least {limits['least']}, and for "
        f"{limits['lasting']} s)",
        doubts=["The name service of that host may have been out of order."],
    )


def _find_missing_listeners(context: DetectionContext) -> Iterator[Finding]:
    """Find clients that use a listener name which not every leader has."""
    if not context.visibility.has_kinds("client_listener_missing", "client_failed", "client_error"):
        return
    where = (pc.field("kind") == "client_listener_missing") | (pc.field("error") == _MISSING)
    limits = context.limits[NAME]
    for session in find_sessions(context, where, ["node", "client"], limits["gap"], ["topic"]):
        node, client = session.subject
        name = client or node or "unknown"
        yield context.finding(
            NAME,
            limits["clients"],
            f"{name}: brokers have no listener of the name that it uses",
            session.begin,
            session.end,
            session.first,
            clients=[name],
            measures=_measures("listener missing", None, session.count, clients=1),
            explanation="The metadata is given for the listener on which it was asked for. A "
            "leader without a listener of that name cannot be named, so its partitions cannot be "
            "used.",
            actions=[
                "Give every broker the same names of listeners (listeners, advertised.listeners).",
                *(context.commands.topic(topic) for topic in session.values("topic")[:1]),
            ],
            why="one such line says it",
            doubts=[
                "A broker that is just being given a new listener says so until it is restarted."
            ],
        )


def _find_unresolved_bootstrap(context: DetectionContext) -> Iterator[Finding]:
    """Find clients that cannot resolve one of their bootstrap servers."""
    if not context.visibility.has_kinds("client_address_unresolved"):
        return
    where, limits = pc.field("kind") == "client_address_unresolved", context.limits[NAME]
    for session in find_sessions(context, where, ["node"], limits["gap"], ["detail"]):
        node = session.subject[0] or "unknown"
        names = session.values("detail")
        shown = ", ".join(names[:_SHOWN]) or "an address"
        yield context.finding(
            NAME,
            limits["bootstrap"],
            f"{node}: {shown} of its bootstrap servers cannot be resolved",
            session.begin,
            session.end,
            session.first,
            clients=[node],
            measures=_measures("bootstrap", names[0] if names else None, session.count, clients=1),
            explanation="A client takes any of its bootstrap servers: as long as one of them is "
            "known it works. If none is, it does not start.",
            actions=[
                f"Take {quote(shown)} out of bootstrap.servers, or give it a name that is known."
            ],
            why="one such line says it",
            doubts=["The name service of that host may have been out of order."],
        )


def _measures(
    how: str, address: str | None, errors: int, *, clients: int, is_advertised: bool = False
) -> dict[str, Any]:
    return {
        "how": how,
        "address": address,
        "errors": errors,
        "clients": clients,
        "advertised": is_advertised,
    }


_MEANINGS = {
    "unresolved": "The broker itself may be healthy.",
    "refused": "The broker ran all the while: the address is another one than it listens on.",
    "timed out": "The broker ran all the while.",
}
