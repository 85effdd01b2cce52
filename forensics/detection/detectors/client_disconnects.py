"""Clients that lose their connections again and again, to brokers that run all the while."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.client_connections import (
    SASL_REFUSAL,
    broker_of_connection,
    find_dead_bootstraps,
    find_unreachable_addresses,
    is_up,
)
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.oversize_requests import find_oversize_requests
from forensics.history.partitions.observations import has_moment_between
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "client-disconnects"
NEEDS = CLIENTS
_KINDS = (
    "client_disconnected",
    "client_timeout",
    "client_connect_timeout",
    "client_request_cancelled",
    "all_brokers_down",
)
# A client that is being closed, and a connection that was idle for minutes (brokers and firewalls
# end those).
_CLOSING = re.compile(r"(?i)terminating|_DESTROY|handle destroyed")
_IDLE = re.compile(r"Disconnected \(after (\d{5,})ms in state UP")
_REFUSED = re.compile(SASL_REFUSAL)
_WORDS = {
    "client_timeout": "requests timed out",
    "client_connect_timeout": "connections timed out",
    "client_request_cancelled": "requests broken off",
    "client_disconnected": "disconnects",
    "all_brokers_down": "times without any broker",
}


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each client's run of disconnects that no stop of a broker explains."""
    if not context.visibility.has_kinds(*_KINDS):
        return
    limits, known = context.limits[NAME], _KnownCauses(context)
    by, columns = ["node", "client"], ["kind", "broker", "detail"]
    gap, least, where = limits["gap"], limits["least"], pc.field("kind").isin(list(_KINDS))
    for session in find_sessions(context, where, by, gap, columns, least, known.keep):
        yield _finding(context, session, is_oversize=known.is_oversize(session))


class _KnownCauses:
    """What other detectors report: brokers that were away, unusable addresses, large requests."""

    def __init__(self, context: DetectionContext) -> None:
        self._context = context
        self._near = round(context.limits[NAME]["near"] * SECOND)
        self._unreachable = {
            (node, address.broker)
            for address in find_unreachable_addresses(context)
            for node in address.nodes
        }
        self._oversize = find_oversize_requests(context)
        self._refused = _read_refusals(context)
        self._lost = {one.subject for one in find_dead_bootstraps(context)}

    def keep(self, row: Row) -> bool:
        """Return True for a disconnect that nothing else explains."""
        number, detail = row["broker"], row["detail"] or ""
        if number is not None and number < 0:
            return False
        if any(known.search(detail) for known in (_CLOSING, _IDLE, _REFUSED)):
            return False
        broker = broker_of_connection(number)
        if (row["node"] or "", broker) in self._unreachable:
            return False
        if broker is None and (row["node"], row["client"]) in self._lost:
            return False
        # A broker ends the connection of whom it refuses; that has a finding of its own.
        refused = self._refused.get((row["node"], row["client"]), ())
        if has_moment_between(refused, row["at"] - SECOND, row["at"] + SECOND):
            return False
        return not self._is_away(broker, row["at"])

    def _is_away(self, broker: int | None, moment: int) -> bool:
        """Return True if that broker, or any if the line names none, was not up about then."""
        lanes = self._context.history.lanes.brokers
        named = list(lanes) if broker is None else [broker]
        return any(
            lanes.get(each) and not is_up(self._context, each, moment, self._near) for each in named
        )

    def is_oversize(self, session: EventSession) -> bool:
        """Return True if a broker closed these connections because of what the client sent."""
        name = session.subject[1] or session.subject[0]
        return any(
            name in oversize.clients
            and oversize.session.begin - self._near <= session.end
            and session.begin <= oversize.session.end + self._near
            for oversize in self._oversize
        )


def _read_refusals(context: DetectionContext) -> dict[tuple[Any, Any], list[int]]:
    """Return when each client failed to prove who it is."""
    moments: dict[tuple[Any, Any], set[int]] = defaultdict(set)
    where = (pc.field("kind") == "client_authentication_failed") & pc.field("ts").is_valid()
    for row in context.each("events", where, ["node", "client", "ts", "file", "line"]):
        moments[row["node"], row["client"]].add(row["at"])
    return {name: sorted(own) for name, own in moments.items()}


def _finding(context: DetectionContext, session: EventSession, *, is_oversize: bool) -> Finding:
    limits = context.limits[NAME]
    node, client = session.subject
    name = client or node or "unknown"
    ends = map(broker_of_connection, session.values("broker"))
    brokers = sorted({broker for broker in ends if broker is not None})
    seen = [broker for broker in brokers if context.history.lanes.brokers.get(broker)]
    level = "long" if session.seconds >= limits["lasting"] else "short"
    return context.finding(
        NAME,
        limits["explained" if is_oversize else level if seen else "unknown"],
        f"{name} lost its connections {session.count} times in {session.seconds:g} s"
        + (f", to {_list_brokers(brokers)}" if brokers else ""),
        session.begin,
        session.end,
        session.first,
        stated=False,
        brokers=brokers,
        clients=[name],
        measures={
            "disconnects": session.count,
            "duration_s": session.seconds,
            "kinds": {
                _WORDS[kind]: count for kind, count in sorted(session.value_counts["kind"].items())
            },
            "explained": "requests too large" if is_oversize else None,
            "brokers_seen": bool(seen),
        },
        explanation=_explanation(session, seen, is_oversize=is_oversize),
        actions=[
            (
                f"On the host of {quote(name)}, while it lasts: ss -ti 'dport = :9092' "
                f"(retransmits, resets), and its own pauses."
            ),
            (
                "Look whether a firewall or load balancer between the two ends connections; its "
                "idle time-out has to be longer than connections.max.idle.ms."
            ),
        ],
        why=f"{session.count} disconnects, no two more than {limits['gap']} s apart, while the "
        f"brokers were up (at least {limits['least']}; {session.seconds:g} s of at least "
        f"{limits['lasting']} s)",
        doubts=[] if seen else ["No log of these brokers is there: they may have been down."],
    )


def _list_brokers(brokers: Sequence[int]) -> str:
    plural = "s" if len(brokers) > 1 else ""
    return f"broker{plural} {', '.join(map(str, brokers))}"


def _explanation(session: EventSession, seen: Sequence[int], *, is_oversize: bool) -> str:
    if is_oversize:
        return (
            "The broker closed the connections because of requests that were too large: that is "
            "a finding of its own, and this follows from it."
        )
    if not seen:
        return "Nothing here tells whether the brokers ran: if they were down, the client is right."
    kinds = session.value_counts["kind"]
    late = kinds["client_timeout"] + kinds["client_connect_timeout"]
    slow = (
        "Most of it are time-outs: brokers, or the way to them, did not answer in time."
        if 2 * late > session.count
        else "Something between the client and the brokers ends the connections, or the client "
        "itself stalls so long that others do."
    )
    return f"The brokers were up while the client lost its connections to them. {slow}"
