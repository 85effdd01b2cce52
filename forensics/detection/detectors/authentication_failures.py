"""Clients and nodes that cannot prove who they are, by SASL or TLS, each by its address."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.detectors.record_too_large import is_request
from forensics.detection.kafka_cli import quote
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.event_sessions import EventSession, find_sessions
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
_RECEIVE = "InvalidReceiveException"
_STRANGER = "connection_failed"
_TLS = re.compile(r"(?i)ssl|tls|handshake|certificate|pkix")
_SIZE = re.compile(r"size = (\d+)")
# What follows an address: the channel, the port.
_ADDRESS = re.compile(r"^(?:[^/\s]*/)?(\[?[0-9a-fA-F.:]*[0-9a-fA-F]\]?)")
_PORT = re.compile(r"^(\d+\.\d+\.\d+\.\d+):\d+$")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each address, client or node that is refused."""
    limits = context.limits[NAME]
    kind, error = pc.field("kind"), pc.field("error")
    where = kind.isin(list(_KINDS)) | error.isin(list(_ERRORS))
    where |= (kind == _STRANGER) & pc.match_substring(error, _RECEIVE)
    by, gather = ["kind", "node", "client", "value"], ["detail", "error", "broker"]
    for one in find_sessions(context, where, by, limits["gap"], gather, keep=_plainly):
        if one.subject[0] != _STRANGER or one.count >= limits["least"]:
            yield _finding(context, one)


def _plainly(row: Row) -> bool:
    """Leave of an address what stays the same from one connection to the next.

    Of the broken connections only those count whose first bytes are no request's.
    """
    if row["kind"] == _STRANGER and row["error"] not in _ERRORS:
        size = _SIZE.search(row["detail"] or "")
        if size is None or is_request(int(size[1])):
            return False
    row["value"] = _address(row["value"])
    return True


def _address(value: str | None) -> str | None:
    """Give the address alone.

    >>> _address("kafka1/10.0.0.7"), _address("/10.0.0.7:5123 (channelId=a)"), _address("x.y")
    ('10.0.0.7', '10.0.0.7', 'x.y')
    """
    if value is None:
        return None
    word_ = value.partition(" ")[0]
    found = _ADDRESS.match(word_) if "/" in word_ else None
    plain = found[1] if found else word_
    port = _PORT.match(plain)
    return port[1] if port else plain


def _finding(context: DetectionContext, one: EventSession) -> Finding:
    kind, node, client, address = one.subject
    what = _mechanism(one)
    own = kind == "client_authentication_failed" or (kind not in _KINDS and kind != _STRANGER)
    name = (client or node or "unknown") if own else (address or "an unknown address")
    limits = context.limits[NAME]
    details = [text for text in one.values("detail") if text]
    return context.finding(
        NAME,
        _severity(context, one),
        _title(one, name, str(node), what),
        one.begin,
        one.end,
        one.first,
        stated=kind != _STRANGER,
        brokers=[broker for broker in one.values("broker") if 0 <= broker < 1 << 30],
        clients=[name],
        measures={
            "failures": one.count,
            "mechanism": what,
            "address": address,
            "told_by": node,
            "reasons": details[:10],
        },
        explanation=_MEANINGS[what],
        actions=[_ACTIONS[what].format(quote(name)), _LOOK],
        why=f"{one.count} failures, no two more than {limits['gap']} s apart; fewer than "
        f"{limits['least']} may be a slip",
        doubts=_doubts(kind),
    )


def _mechanism(one: EventSession) -> str:
    if one.subject[0] == _STRANGER:
        return "tls_on_plain_port"
    texts = [text for name in ("detail", "error") for text in one.values(name) if text]
    return "ssl" if any(_TLS.search(text) for text in texts) else "sasl"


def _severity(context: DetectionContext, one: EventSession) -> str:
    limits = context.limits[NAME]
    if one.subject[0] == _STRANGER:
        return str(limits["strangers"])
    if one.count < limits["least"]:
        return str(limits["few"])
    return str(limits["nodes" if one.subject[0] == "peer_unauthenticated" else "clients"])


def _title(one: EventSession, name: str, node: str, what: str) -> str:
    kind, many = one.subject[0], "once" if one.count == 1 else f"{one.count} times"
    if kind == _STRANGER:
        return f"{name} spoke to {node} {many} in what is no Kafka request (TLS, HTTP or a scan)"
    how = "the TLS handshake" if what == "ssl" else "authentication"
    if kind == "peer_unauthenticated":
        return f"{node} and its cluster's node at {name} failed {many} in {how}"
    by = f" by {node}" if kind == "authentication_failed" else ""
    return f"{name} was refused {many}{by} in {how}"


def _doubts(kind: str) -> list[str]:
    if kind == _STRANGER:
        return ["A port scanner or a health check does the same, and no client is concerned."]
    if kind == "authentication_failed":
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
