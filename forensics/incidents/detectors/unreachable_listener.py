"""Addresses that brokers give out and nobody can use: unknown names, ports where nobody listens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.incidents.addresses import NAME, Unreachable, unreachable
from forensics.incidents.bursts import Burst, bursts
from forensics.incidents.case import Case, Row
from forensics.incidents.commands import word
from forensics.incidents.confidence import sureness
from forensics.incidents.finding import Finding
from forensics.incidents.needs import Needs

__all__ = ["find"]

NEEDS = Needs(("client", "broker", "controller"))
_UNKNOWN_HOST = "java.net.UnknownHostException"
_MISSING = "LISTENER_NOT_FOUND"
_SHOWN = 10


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each address, and for each listener that is not there."""
    found = unreachable(case)
    settings = _settings(case) if found else []
    yield from (_of_clients(case, one, settings) for one in found)
    if case.sight.tells("peer_unreachable"):
        yield from (_of_servers(case, one) for one in _peers(case))
    yield from (_missing(case, one) for one in _unlisted(case))
    if case.sight.tells("client_address_unresolved"):
        yield from (_of_settings(case, one) for one in _bootstrap(case))


def _settings(case: Case) -> list[Row]:
    """Read what the brokers were told to give out."""
    if not case.sight.tells("setting_seen"):
        return []
    return case.events("setting_seen", where=pc.field("setting") == "advertised.listeners")


def _of_clients(case: Case, one: Unreachable, settings: Sequence[Row]) -> Finding:
    limits = case.limits[NAME]
    told = [row for row in settings if one.address in (row["value"] or "")][:1]
    evidence = [*one.first, *told]
    confidence, reason = sureness(case, one.begin, one.end, evidence, stated=bool(told))
    whose = "a broker" if one.broker is None else f"broker {one.broker}"
    names = sorted(one.clients)
    many = f"{len(names)} clients" if len(names) > 1 else names[0]
    what = {
        "unresolved": "its name is unknown there",
        "refused": "nobody listens there",
        "timed out": "no answer comes from there",
    }[one.how]
    return Finding(
        detector=NAME,
        severity=str(limits["clients"]),
        confidence=confidence,
        title=f"{many} cannot reach {whose} at {one.address}: {what}",
        begin=one.begin,
        end=one.end,
        evidence=evidence,
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
            else case.commands.broker_config(one.broker, "advertised.listeners"),
            f"On the host of {word(names[0])}: nc -vz {_spaced(one.address)}",
            (
                "Set advertised.listeners to what these clients can resolve and reach; a listener "
                "of its own for them if other clients need the one that is there."
            ),
        ],
        why=f"{one.count} failures for more than {limits['lasting']} s and not one connection "
        f"between them (at least {limits['least']} are needed)"
        + ("" if one.how == "unresolved" else "; the broker was up all the while"),
        reason=reason,
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
    return f"{word(host.strip('[]'))} {word(port)}" if host else word(address)


_MEANINGS = {
    "unresolved": "The broker itself may be as well as can be.",
    "refused": "The broker ran all the while: the address is another one than it listens on.",
    "timed out": "The broker ran all the while.",
}


def _peers(case: Case) -> list[Burst]:
    limits = case.limits[NAME]
    where = (pc.field("kind") == "peer_unreachable") & (pc.field("error") == _UNKNOWN_HOST)
    found = bursts(case, where, ["node", "value"], limits["gap"], ["peer"], limits["least"])
    return [one for one in found if one.seconds >= limits["lasting"]]


def _of_servers(case: Case, one: Burst) -> Finding:
    node, address = one.subject
    limits = case.limits[NAME]
    confidence, reason = sureness(case, one.begin, one.end, one.first, stated=True)
    return Finding(
        detector=NAME,
        severity=str(limits["servers"]),
        confidence=confidence,
        title=f"{node} cannot resolve {address}, an address of its own cluster",
        begin=one.begin,
        end=one.end,
        evidence=one.first,
        brokers=[peer for peer in one.values("peer") if peer >= 0],
        measures={
            "how": "unresolved", "address": address, "errors": one.count, "clients": 0,
            "advertised": False,
        },
        explanation="Nodes of the cluster go to each other by the addresses that they give out. A "
        "name that nobody knows, such as a placeholder left in the settings, cuts them off, though "
        "every process is well.",
        actions=[
            (f"On the host of {word(node)}: getent hosts "
            f"{word((address or '').rpartition(':')[0] or address)}"),
            "Set advertised.listeners to a name that every node resolves.",
        ],
        why=f"{one.count} failures in {one.seconds:g} s (at least {limits['least']}, and for "
        f"{limits['lasting']} s)",
        reason=reason,
        doubts=["The name service of that host may have been out of order."],
    )  # fmt: skip


def _unlisted(case: Case) -> list[Burst]:
    if not case.sight.tells("client_listener_missing", "client_failed", "client_error"):
        return []
    where = (pc.field("kind") == "client_listener_missing") | (pc.field("error") == _MISSING)
    limits = case.limits[NAME]
    return bursts(case, where, ["node", "client"], limits["gap"], ["topic"])


def _missing(case: Case, one: Burst) -> Finding:
    node, client = one.subject
    name = client or node or "unknown"
    confidence, reason = sureness(case, one.begin, one.end, one.first, stated=True)
    topics = one.values("topic")
    return Finding(
        detector=NAME,
        severity=str(case.limits[NAME]["clients"]),
        confidence=confidence,
        title=f"{name}: brokers have no listener of the name that it uses",
        begin=one.begin,
        end=one.end,
        evidence=one.first,
        clients=[name],
        measures={
            "how": "listener missing", "address": None, "errors": one.count, "clients": 1,
            "advertised": False,
        },
        explanation="The metadata is given for the listener on which it was asked for. A leader "
        "without a listener of that name cannot be named, so its partitions cannot be used.",
        actions=[
            "Give every broker the same names of listeners (listeners, advertised.listeners).",
            *(case.commands.topic(topic) for topic in topics[:1]),
        ],
        why="one such line says it",
        reason=reason,
        doubts=["A broker that is just being given a new listener says so until it is restarted."],
    )  # fmt: skip


def _bootstrap(case: Case) -> list[Burst]:
    where = pc.field("kind") == "client_address_unresolved"
    return bursts(case, where, ["node"], case.limits[NAME]["gap"], ["detail"])


def _of_settings(case: Case, one: Burst) -> Finding:
    node = one.subject[0] or "unknown"
    names = one.values("detail")
    confidence, reason = sureness(case, one.begin, one.end, one.first, stated=True)
    shown = ", ".join(names[:_SHOWN]) or "an address"
    return Finding(
        detector=NAME,
        severity=str(case.limits[NAME]["bootstrap"]),
        confidence=confidence,
        title=f"{node}: {shown} of its bootstrap servers cannot be resolved",
        begin=one.begin,
        end=one.end,
        evidence=one.first,
        clients=[node],
        measures={
            "how": "bootstrap", "address": names[0] if names else None, "errors": one.count,
            "clients": 1, "advertised": False,
        },
        explanation="A client takes any of its bootstrap servers: as long as one of them is "
        "known it works. If none is, it does not start.",
        actions=[f"Take {word(shown)} out of bootstrap.servers, or give it a name that is known."],
        why="one such line says it",
        reason=reason,
        doubts=["The name service of that host may have been out of order."],
    )  # fmt: skip
