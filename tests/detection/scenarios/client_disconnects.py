"""Connections that are lost while the brokers run, and those that end as they should."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "client-disconnects"
Row = dict[str, Any]


def lost(second: float, broker: int | None = 2, **more: Any) -> Row:
    facts = {"client": "app", "broker": broker} | more
    return event(second, "app", "client_disconnected", **facts)


def run(count: int, step: float, begin: float = 100, **more: Any) -> list[Row]:
    return [lost(begin + n * step, **more) for n in range(count)]


def up(begin: float = 0, end: float | None = None) -> dict[int, list[Span]]:
    return {2: [Span("up", int(begin * SECOND), None if end is None else int(end * SECOND))]}


def client(*rows: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 5000, role="client", records=9), logs("b-2", 5000, role="broker")]
    return partial(case, events=rows, **({"files": files, "brokers": up()} | more))


def found(severity: str, count: int, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"disconnects": count} | measures}]


LINE = (
    "[2026-11-18 11:5{}:{}4,594] INFO [Producer clientId=app-orders] Disconnecting from node 3 due "
    "to request timeout. (org.apache.kafka.clients.NetworkClient)\n"
)
CLOSING = "Client is terminating (after 4711ms in state UP)"
IDLE = "Disconnected (after 300012ms in state UP, 1 identical error(s) suppressed)"

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a client, with no broker's log beside it",
        from_logs({"app/client.log": "".join(LINE.format(n // 6, n % 6) for n in range(24))}),
        found("low", 24, brokers_seen=False),
    ),
    Scenario(
        NAME, "fires", "for minutes, to a broker that runs", client(*run(40, 10)),
        [{"severity": "medium", "brokers": [2], "clients": ["app"],
          "measures": {"disconnects": 40, "duration_s": 390.0}}],
    ),
    Scenario(
        NAME, "quiet", "its bootstrap servers are wrong",
        client(event(99, "app", "all_brokers_down", client="app"),
               *run(40, 10, broker=None, detail="Connect to ipv4#10.0.0.9:9092 failed: Connection "
                    "refused (after 0ms in state CONNECT)")),
    ),
    Scenario(
        NAME, "quiet", "brokers refuse its password",
        client(*run(40, 10), *(
            event(100.01 + 10 * n, "app", "client_authentication_failed", client="app", broker=2)
            for n in range(40)
        )),
    ),
    Scenario(
        NAME, "boundary", "its password was refused, but long before",
        client(*run(40, 10),
               event(97, "app", "client_authentication_failed", client="app", broker=2)),
        found("medium", 40),
    ),
    Scenario(
        NAME, "quiet", "librdkafka says that it is refused",
        client(*run(40, 10, detail="SASL authentication error: Authentication failed")),
    ),
    Scenario(
        NAME, "fires", "since its requests are too large",
        client(*run(40, 10), *(row for n in range(40) for row in (
            event(99.9 + 10 * n, "b-2", "connection_failed", broker=2,
                  error="InvalidReceiveException", detail="size = 4000130 larger than 3000000"),
            event(100 + 10 * n, "app", "client_request_cancelled", client="app", broker=2,
                  detail="PRODUCE"),
        ))),
        found("low", 80, explained="requests too large"),
    ),
    Scenario(
        NAME, "quiet", "a broker that is down", client(*run(40, 10), brokers={
            2: [Span("up", 0, 90 * SECOND), Span("crashed", 90 * SECOND, None)]}),
    ),
    Scenario(
        NAME, "quiet", "Bootstrap broker disconnected, really one of several that is down",
        client(*run(40, 10, broker=-1)),
    ),
    Scenario(
        NAME, "quiet", "librdkafka FAIL lines, really a client terminating",
        client(*run(40, 0.1, detail=CLOSING)),
    ),
    Scenario(
        NAME, "quiet", "connections that nobody used for minutes",
        client(*run(40, 10, detail=IDLE)),
    ),
    Scenario(
        NAME, "quiet", "an address that was of no use from the start",
        client(*run(40, 10, detail="/10.0.0.2:29092")),
    ),
    Scenario(NAME, "boundary", "nineteen", client(*run(19, 10))),
    Scenario(NAME, "boundary", "twenty", client(*run(20, 10)), found("medium", 20)),
    Scenario(NAME, "boundary", "a minute apart", client(*run(20, 60)), found("medium", 20)),
    Scenario(NAME, "boundary", "just more than a minute apart", client(*run(30, 60.001))),
    Scenario(
        NAME, "boundary", "for a minute",
        client(*run(19, 1), lost(160)), found("medium", 20, duration_s=60.0),
    ),
    Scenario(
        NAME, "boundary", "for less than a minute",
        client(*run(19, 1), lost(159.8)), found("low", 20, duration_s=59.8),
    ),
    Scenario(
        NAME, "boundary", "just far enough from the broker's start",
        client(*run(20, 10), brokers=up(85)), found("medium", 20),
    ),
    Scenario(
        NAME, "boundary", "the first of them too near to the broker's start",
        client(*run(20, 10), brokers=up(85.001)),
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("b-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
