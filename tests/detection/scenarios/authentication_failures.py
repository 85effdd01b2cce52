"""Who is refused, by its address, and who only knocks at the wrong door."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "authentication-failures"
Row = dict[str, Any]


def refused(second: float, value: str = "/10.0.0.7", **more: Any) -> Row:
    facts = {"broker": 1, "value": value, "detail": "Authentication failed: Invalid username"}
    return event(second, "b-1", "authentication_failed", **(facts | more))


def run(count: int, step: float = 1, make: Callable[[float], Row] = refused) -> list[Row]:
    return [make(100 + n * step) for n in range(count)]


def stranger(second: float, size: int = 369295616) -> Row:
    detail = f"Invalid receive (size = {size} larger than 104857600)"
    facts = {"value": "/10.0.0.7 (channelId=x)", "error": "InvalidReceiveException"}
    return event(second, "b-1", "connection_failed", detail=detail, **facts)


def peer(second: float) -> Row:
    facts = {"broker": 1, "value": "kafka2/10.0.0.2", "detail": "SSL handshake failed"}
    return event(second, "b-1", "peer_unauthenticated", **facts)


def own(second: float) -> Row:
    facts = {"client": "app", "broker": 2, "detail": "SSL handshake failed"}
    return event(second, "app", "client_authentication_failed", **facts)


def cluster(*rows: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=rows, files=[logs("b-1", 1000, role="broker", records=9)])


def found(severity: str, mechanism: str, whose: str, count: int) -> list[dict[str, Any]]:
    measures = {"mechanism": mechanism, "failures": count}
    return [{"severity": severity, "clients": [whose], "measures": measures}]


LINE = (
    "[2026-06-10 12:00:0{},123] INFO [SocketServer listenerType=BROKER, nodeId=1] Failed "
    "authentication with /10.0.0.7 (channelId=10.0.0.1:9092-10.0.0.7:5{}-1) (Authentication failed "
    "during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512) "
    "(org.apache.kafka.common.network.Selector)\n"
)

RD_LINE = (
    "%3|179517689{}.796|FAIL|app#producer-1| [thrd:sasl_plaintext://127.0.0.1:19002/bootstrap]: "
    "sasl_plaintext://127.0.0.1:19002/bootstrap: SASL authentication error: Authentication failed "
    "during authentication due to invalid credentials (after 308ms in state AUTH_REQ)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a broker",
        from_logs({"broker-1/server.log": "".join(LINE.format(n, n) for n in range(6))}),
        found("medium", "sasl", "10.0.0.7", 6),
    ),
    Scenario(NAME, "fires", "a client that says it itself", cluster(*run(6, make=own)),
             found("medium", "ssl", "app", 6)),
    Scenario(NAME, "fires", "nodes of the cluster", cluster(*run(6, make=peer)),
             found("high", "ssl", "10.0.0.2", 6)),
    Scenario(
        NAME, "fires", "two addresses are two findings",
        cluster(*run(6), *run(6, make=lambda at: refused(at + 0.5, "/10.0.0.8:4711"))),
        [*found("medium", "sasl", "10.0.0.7", 6), *found("medium", "sasl", "10.0.0.8", 6)],
    ),
    Scenario(
        NAME, "fires", "one address that several brokers refuse is one finding",
        cluster(*run(3), *run(3, make=lambda at: {**refused(at + 0.3), "node": "b-2"})),
        [{"title": "10.0.0.7 was refused 6 times by b-1, b-2 in authentication",
          "measures": {"failures": 6, "told_by": "b-1, b-2"}}],
    ),
    Scenario(
        NAME, "fires", "a client of librdkafka that no broker accepts",
        from_logs({"app/client.log": "".join(RD_LINE.format(n) for n in range(6))}),
        [{"severity": "medium", "clients": ["app#producer-1"],
          "measures": {"mechanism": "sasl", "failures": 6}}],
    ),
    Scenario(NAME, "quiet", "TLS on a plain port", cluster(*run(6, make=stranger)),
             found("low", "tls_on_plain_port", "10.0.0.7", 6)),
    Scenario(
        NAME, "quiet", "requests that are too large",
        cluster(*run(6, make=lambda at: stranger(at, 200_000_000))),
    ),
    Scenario(NAME, "quiet", "a scan", cluster(*run(4, make=stranger))),
    Scenario(NAME, "boundary", "a scan that does not stop", cluster(*run(5, make=stranger)),
             found("low", "tls_on_plain_port", "10.0.0.7", 5)),
    Scenario(NAME, "boundary", "four", cluster(*run(4)), found("low", "sasl", "10.0.0.7", 4)),
    Scenario(NAME, "boundary", "five, five minutes apart", cluster(*run(5, 300)),
             found("medium", "sasl", "10.0.0.7", 5)),
    Scenario(
        NAME, "boundary", "just more than five minutes apart", cluster(*run(2, 300.001)),
        [*found("low", "sasl", "10.0.0.7", 1), *found("low", "sasl", "10.0.0.7", 1)],
    ),
    Scenario(
        NAME, "blind", "only what is of no use here",
        partial(case, files=[logs("x", 100, role="other", records=9)]),
        reason="there is no brokers' or clients' or controllers' log",
    ),
]  # fmt: skip
