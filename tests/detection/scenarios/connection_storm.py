"""Too many connections, of one address or of all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "connection-storm"
Row = dict[str, Any]


def rejected(second: float, value: str = "/10.0.0.7") -> Row:
    return event(second, "b-1", "connection_rejected", value=value, count=4)


def run(count: int, step: float = 1) -> list[Row]:
    return [rejected(100 + n * step) for n in range(count)]


def broker(*rows: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=rows, files=[logs("b-1", 1000, role="broker", records=9)])


def found(severity: str, count: int, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"rejected": count} | measures}]


LINE = (
    "[2026-06-10 12:00:{}0,123] INFO Rejected connection from /10.0.0.7, address already has the "
    "configured maximum of 4 connections. (kafka.network.Acceptor)\n"
)
FILES = (
    "[2026-06-10 12:00:0{},123] ERROR Error while accepting connection (kafka.network.Acceptor)\n"
    "java.io.IOException: Too many open files\n\tat java.base/sun.nio.ch.Net.accept(Net)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a broker at the limit of an address",
        from_logs({"broker-1/server.log": "".join(LINE.format(n // 2) for n in range(12))}),
        found("medium", 12, limit="max.connections.per.ip", allowed=4, addresses={"10.0.0.7": 12}),
    ),
    Scenario(
        NAME, "fires", "lines of a broker without file handles",
        from_logs({"broker-1/server.log": "".join(map(FILES.format, range(3)))}),
        found("high", 3, limit="open files"),
    ),
    Scenario(
        NAME, "fires", "of many addresses",
        broker(*(rejected(100 + n, f"/10.0.0.{n}") for n in range(12))), found("medium", 12),
    ),
    Scenario(
        NAME, "quiet", "a listener that fails in another way",
        broker(event(100, "b-1", "broker_listener_failed", detail="Address already in use")),
    ),
    Scenario(NAME, "boundary", "nine", broker(*run(9)), found("low", 9)),
    Scenario(NAME, "boundary", "ten, a minute apart", broker(*run(10, 60)), found("medium", 10)),
    Scenario(NAME, "boundary", "just more than a minute apart", broker(*run(2, 60.001)),
             [*found("low", 1), *found("low", 1)]),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' log",
    ),
]  # fmt: skip
