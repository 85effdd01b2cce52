"""Clients and nodes that cannot prove who they are, by SASL or TLS, each by its address."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.client_connections import SASL_REFUSAL
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.detection.shared.oversize_requests import RECEIVE_ERROR, is_request_size
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import join_names, natural_key
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "authentication-failures"
NEEDS = LogRequirements(("broker", "client", "controller"))
_KINDS = ("authentication_failed", "client_authentication_failed", "peer_unauthenticated")
_ERRORS = (
    "SASL_AUTHENTICATION_FAILED",
    "SSL_AUTHENTICATION_FAILED",
    "AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
    "_AUTHENTICATION",
    "_SSL",
)
_CONNECTION_FAILED, _BY_BROKERS = "connection_failed", "authentication_failed"
_MOST_NAMED, _MOST_LINES = 5, 40
_TLS = re.compile(r"(?i)ssl|tls|handshake|certificate|pkix")
_SIZE = re.compile(r"size = (\d{1,18})\b")
# What follows an address: the channel, the port.
_ADDRESS = re.compile(r"^(?:[^/\s]*/)?(\[?[0-9a-fA-F.:]*[0-9a-fA-F]\]?)")
_PORT = re.compile(r"^(\d+\.\d+\.\d+\.\d+):\d+$")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each address, client or node that is refused."""
    limits = context.limits[NAME]
    kind, error = pc.field("kind"), pc.field("error")
    where = kind.isin(list(_KINDS)) | error.isin(list(_ERRORS))
    is_refused = pc.match_substring_regex(pc.field("detail"), SASL_REFUSAL)
    where |= (kind == "client_disconnected") & is_refused
    where |= (kind == _CONNECTION_FAILED) & pc.match_substring(error, RECEIVE_ERROR)
    by, columns = ["kind", "node", "client", "value"], ["detail", "error", "broker"]
    gap = limits["gap"]
    found = find_sessions(context, where, by, gap, columns, keep=_simplify_address)
    for session in _join_brokers(found, gap):
        if session.subject[0] != _CONNECTION_FAILED or session.count >= limits["least"]:
            yield _finding(context, session)


def _join_brokers(found: Iterable[EventSession], gap: float) -> Iterator[EventSession]:
    """Join what several brokers refused to one address at a time: who is refused asks the next."""
    told: dict[str, list[EventSession]] = defaultdict(list)
    for session in found:
        kind, _, _, address = session.subject
        if kind == _BY_BROKERS and address:
            told[address].append(session)
        else:
            yield session
    for address, own in sorted(told.items()):
        own.sort(key=lambda one: (one.begin, str(one.subject[1])))
        for group in sessions(own, lambda one: one.begin, gap * SECOND, lambda one: one.end):
            nodes = sorted({str(one.subject[1]) for one in group}, key=natural_key)
            counts: dict[str, Counter[Any]] = defaultdict(Counter)
            for one in group:
                for column, values in one.value_counts.items():
                    counts[column] += values
            yield EventSession(
                (_BY_BROKERS, join_names(nodes, _MOST_NAMED), None, address),
                group[0].begin,
                max(one.end for one in group),
                sum(one.count for one in group),
                sorted((row for one in group for row in one.first), key=by_time)[:_MOST_LINES],
                dict(counts),
            )


def _simplify_address(row: Row) -> bool:
    """Reduce an address to what stays the same from one connection to the next.

    A broken connection counts only if its first bytes are not the size of a request.
    """
    if row["kind"] == _CONNECTION_FAILED and row["error"] not in _ERRORS:
        size = _SIZE.search(row["detail"] or "")
        if size is None or is_request_size(int(size[1])):
            return False
    row["value"] = _address(row["value"])
    return True


def _address(value: str | None) -> str | None:
    """Return the address without channel and port.

    >>> _address("kafka1/10.0.0.7"), _address("/10.0.0.7:5123 (channelId=a)"), _address("x.y")
    ('10.0.0.7', '10.0.0.7', 'x.y')
    """
    if value is None:
        return None
    address = value.partition(" ")[0]
    match = _ADDRESS.match(address) if "/" in address else None
    host = match[1] if match else address
    port = _PORT.match(host)
    return port[1] if port else host


def _finding(context: DetectionContext, session: EventSession) -> Finding:
    kind, node, client, address = session.subject
    mechanism = _mechanism(session)
    is_client = kind not in (_BY_BROKERS, "peer_unauthenticated", _CONNECTION_FAILED)
    name = (client or node or "unknown") if is_client else (address or "an unknown address")
    limits = context.limits[NAME]
    details = [text for text in session.values("detail") if text]
    return context.finding(
        NAME,
        _severity(context, session),
        _title(session, name, str(node), mechanism),
        session.begin,
        session.end,
        session.first,
        stated=kind != _CONNECTION_FAILED,
        brokers=[broker for broker in session.values("broker") if 0 <= broker < 1 << 30],
        clients=[name],
        measures={
            "failures": session.count,
            "mechanism": mechanism,
            "address": address,
            "told_by": node,
            "reasons": details[:10],
        },
        explanation=_MEANINGS[mechanism],
        actions=[_ACTIONS[mechanism].format(quote(name)), _LOOK],
        why=f"{session.count} failures, no two more than {limits['gap']} s apart; fewer than "
        f"{limits['least']} may be a slip",
        doubts=_doubts(kind),
    )


def _mechanism(session: EventSession) -> str:
    if session.subject[0] == _CONNECTION_FAILED:
        return "tls_on_plain_port"
    texts = [text for name in ("detail", "error") for text in session.values(name) if text]
    return "ssl" if any(_TLS.search(text) for text in texts) else "sasl"


def _severity(context: DetectionContext, session: EventSession) -> str:
    limits = context.limits[NAME]
    if session.subject[0] == _CONNECTION_FAILED:
        return str(limits["strangers"])
    if session.count < limits["least"]:
        return str(limits["few"])
    return str(limits["nodes" if session.subject[0] == "peer_unauthenticated" else "clients"])


def _title(session: EventSession, name: str, node: str, mechanism: str) -> str:
    kind, times = session.subject[0], "once" if session.count == 1 else f"{session.count} times"
    if kind == _CONNECTION_FAILED:
        return f"{name} spoke to {node} {times} in what is no Kafka request (TLS, HTTP or a scan)"
    how = "the TLS handshake" if mechanism == "ssl" else "authentication"
    if kind == "peer_unauthenticated":
        return f"{node} and its cluster's node at {name} failed {times} in {how}"
    by = f" by {node}" if kind == _BY_BROKERS else ""
    return f"{name} was refused {times}{by} in {how}"


def _doubts(kind: str) -> list[str]:
    if kind == _CONNECTION_FAILED:
        return ["A port scanner or a health check does the same, and no client is concerned."]
    if kind == _BY_BROKERS:
        return ["Several clients behind one address (a proxy, one host) count as one."]
    return []


_LOOK = (
    "Look since when it fails: a certificate that ran out, a password that was changed, or a "
    "client that is new."
)
_MEANINGS = {
    "sasl": "The name, password, token or mechanism was not accepted. Clients do not try a second "
    "one: until the settings change, nothing of theirs works.",
    "ssl": "The two sides could not agree on a TLS connection: a certificate that ran out or is "
    "not trusted, a host name that does not fit, or no common version.",
    "tls_on_plain_port": "The first bytes are those of TLS or of plain text, which a broker takes "
    "for the size of a request: security.protocol of a client does not fit the listener, or "
    "something that is no Kafka client knocks.",
}
_ACTIONS = {
    "sasl": "Compare sasl.mechanism and the credentials of {} with what the listener's "
    "sasl.enabled.mechanisms and users allow.",
    "ssl": "On the host of {}: openssl s_client -connect BROKER:9093 -showcerts </dev/null | "
    "openssl x509 -noout -dates -subject",
    "tls_on_plain_port": "Look what runs at {}, and whether its security.protocol fits the port.",
}
