"""Clients that lose their connections again and again, to brokers that run all the while."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.detectors.record_too_large import refused_requests
from forensics.detection.detectors.unreachable_listener import broker_of, is_up, unreachable
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import CLIENTS
from forensics.detection.shared.event_sessions import EventSession, find_sessions
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
# A client that is being closed, and a connection that nobody used for minutes (some of them are
# ten by default, and brokers and firewalls end them sooner).
_CLOSING = re.compile(r"(?i)terminating|_DESTROY|handle destroyed")
_IDLE = re.compile(r"Disconnected \(after (\d{5,})ms in state UP")
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
    limits = context.limits[NAME]
    told = _Told(context)
    by, gather = ["node", "client"], ["kind", "broker", "detail"]
    where = pc.field("kind").isin(list(_KINDS))
    for one in find_sessions(context, where, by, limits["gap"], gather, limits["least"], told.keep):
        yield _finding(context, one, told)


class _Told:
    """What is told of by others: brokers that were away, addresses and requests of no use."""

    def __init__(self, context: DetectionContext) -> None:
        self._context = context
        self._near = round(context.limits[NAME]["near"] * SECOND)
        self._lost = {(node, one.broker) for one in unreachable(context) for node in one.nodes}
        self._large = refused_requests(context)

    def keep(self, row: Row) -> bool:
        """Whether a disconnect is news."""
        number, detail = row["broker"], row["detail"] or ""
        if number is not None and number < 0:
            return False
        if _CLOSING.search(detail) or _IDLE.search(detail):
            return False
        broker = broker_of(number)
        if (row["node"] or "", broker) in self._lost:
            return False
        return not self._is_away(broker, row["at"])

    def _is_away(self, broker: int | None, at: int) -> bool:
        """Whether that broker, or any where the line names none, was not up about then."""
        lanes = self._context.history.lanes.brokers
        named = list(lanes) if broker is None else [broker]
        return any(
            lanes.get(one) and not is_up(self._context, one, at, self._near) for one in named
        )

    def large(self, burst: EventSession) -> bool:
        """Whether a broker closed these connections because of what the client sent."""
        name = burst.subject[1] or burst.subject[0]
        return any(
            name in one.clients
            and one.burst.begin - self._near <= burst.end
            and burst.begin <= one.burst.end + self._near
            for one in self._large
        )


def _finding(context: DetectionContext, one: EventSession, told: _Told) -> Finding:
    node, client = one.subject
    name = client or node or "unknown"
    brokers = sorted({broker for number in one.values("broker")
                      if (broker := broker_of(number)) is not None})  # fmt: skip
    seen = [broker for broker in brokers if context.history.lanes.brokers.get(broker)]
    large = told.large(one)
    return context.finding(
        NAME,
        _severity(context, one, large=large, known=bool(seen)),
        f"{name} lost its connections {one.count} times in {one.seconds:g} s"
        + (f", to {_named(brokers)}" if brokers else ""),
        one.begin,
        one.end,
        one.first,
        stated=False,
        brokers=brokers,
        clients=[name],
        measures={
            "disconnects": one.count,
            "duration_s": one.seconds,
            "kinds": {
                _WORDS[kind]: count for kind, count in sorted(one.value_counts["kind"].items())
            },
            "explained": "requests too large" if large else None,
            "brokers_seen": bool(seen),
        },
        explanation=_explanation(one, seen, large=large),
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
        why=f"{one.count} disconnects, no two more than {context.limits[NAME]['gap']} s apart, "
        f"while the brokers were up (at least {context.limits[NAME]['least']}; {one.seconds:g} s "
        f"of at least {context.limits[NAME]['lasting']} s)",
        doubts=[] if seen else ["No log of these brokers is there: they may have been down."],
    )


def _severity(context: DetectionContext, one: EventSession, *, large: bool, known: bool) -> str:
    limits = context.limits[NAME]
    if large:
        return str(limits["explained"])
    if not known:
        return str(limits["unknown"])
    return str(limits["long"] if one.seconds >= limits["lasting"] else limits["short"])


def _named(brokers: Sequence[int]) -> str:
    plural = "s" if len(brokers) > 1 else ""
    return f"broker{plural} {', '.join(map(str, brokers))}"


def _explanation(one: EventSession, seen: Sequence[int], *, large: bool) -> str:
    if large:
        return (
            "The broker closed the connections because of requests that were too large: that is "
            "told of by itself, and this follows from it."
        )
    if not seen:
        return "Nothing here tells whether the brokers ran: if they were down, the client is right."
    kinds = one.value_counts["kind"]
    late = kinds["client_timeout"] + kinds["client_connect_timeout"]
    slow = (
        "Most of it are time-outs: brokers, or the way to them, did not answer in time."
        if 2 * late > one.count
        else "Something between the client and the brokers ends the connections, or the client "
        "itself stalls so long that others do."
    )
    return f"The brokers were up while the client lost its connections to them. {slow}"
