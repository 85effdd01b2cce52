"""Addresses that nobody can use, though the brokers behind them are well."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "unreachable-listener"
Row = dict[str, Any]
UNKNOWN = "Failed to resolve 'kafka-1.shop.invalid:9092': Name or service not known"
REFUSED = "Connect to ipv4#10.0.0.2:29092 failed: Connection refused (after 0ms in state CONNECT)"


def lost(second: float, broker: int | None = 2, detail: str | None = REFUSED, **more: Any) -> Row:
    facts = {"client": "app", "broker": broker, "detail": detail}
    return event(second, "app", "client_disconnected", **(facts | more))


def unnamed(second: float, **more: Any) -> Row:
    facts = {"client": "app", "broker": 1, "detail": "kafka-1.shop.invalid:9092"} | more
    return event(second, "app", "client_connect_failed", **facts)


def up(begin: float = 0, end: float | None = None) -> dict[int, list[Span]]:
    """Broker 2 is up for a while."""
    until = None if end is None else int(end * SECOND)
    return {2: [Span("up", int(begin * SECOND), until)]}


def cluster(*rows: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 1000, role="client", records=9), logs("b-2", 1000, role="broker")]
    return partial(case, events=rows, **({"files": files, "brokers": up()} | more))


def found(severity: str, how: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"how": how} | measures}]


CONNECT = (
    "[2026-11-18 19:55:{}0,912] WARN [Producer clientId=app-web] Error connecting to node "
    "kafka-1.shop.invalid:9092 (id: 1 rack: null) (org.apache.kafka.clients.NetworkClient)\n"
    "java.net.UnknownHostException: kafka-1.shop.invalid\n\tat java.base/java.net.InetAddress\n"
)
PEER = (
    "[2021-06-23 11:2{}:55,114] WARN [KafkaServer id=0] Error connecting to node "
    "your.host.name:9092 (id: 0 rack: null) (org.apache.kafka.clients.NetworkClient)\n"
    "java.net.UnknownHostException: your.host.name\n\tat java.base/java.net.InetAddress\n"
)

WRONG = "Connect to ipv4#10.0.0.{}:9092 failed: Connection refused (after 0ms in state CONNECT)"


def bootstrap(
    count: int, step: float = 5, *, broker: int | None = None, servers: int = 2
) -> list[Row]:
    """Let a client be refused by its bootstrap servers again and again."""
    return [lost(100 + step * n, broker, WRONG.format(8 + n % servers)) for n in range(count)]


def settings(servers: str) -> Row:
    facts = {"setting": "bootstrap.servers", "value": servers, "offset": 0}
    return event(90, "app", "client_setting_seen", **facts)


SCENARIOS = [
    Scenario(
        NAME, "fires", "a client that knows bootstrap servers alone, and nobody listens there",
        cluster(*bootstrap(4)),
        [{"severity": "medium", "clients": ["app"],
          "title": "app does not reach the cluster: its bootstrap servers (10.0.0.8:9092, "
                   "10.0.0.9:9092) take no connection",
          "measures": {"how": "bootstrap", "errors": 4}}],
    ),
    Scenario(
        NAME, "fires", "a Java client counts its bootstrap servers below zero",
        cluster(*bootstrap(4, broker=-1)), found("medium", "bootstrap", errors=4),
    ),
    Scenario(NAME, "boundary", "for less than a start takes", cluster(*bootstrap(4, 4.9))),
    Scenario(NAME, "boundary", "twice", cluster(*bootstrap(2, 60))),
    Scenario(
        NAME, "fires", "its only bootstrap server",
        cluster(settings("[10.0.0.8:9092]"), *bootstrap(4, servers=1)),
        found("medium", "bootstrap", errors=4),
    ),
    Scenario(
        NAME, "quiet", "two of its three bootstrap servers",
        cluster(settings("[10.0.0.7:9092, 10.0.0.8:9092, 10.0.0.9:9092]"), *bootstrap(4)),
    ),
    Scenario(
        NAME, "quiet", "a client that was connected before",
        cluster(event(90, "app", "group_joined", client="app", group="g"), *bootstrap(4)),
    ),
    Scenario(NAME, "quiet", "no broker ran then", cluster(*bootstrap(4), brokers=up(0, 50))),
    Scenario(
        NAME, "quiet", "connections that were made",
        cluster(*(lost(100 + 5 * n, None, "10.0.0.9:9092: Disconnected (after 9ms in state UP)")
                  for n in range(4))),
    ),
    Scenario(
        NAME, "fires", "lines of a client that is told an unknown name",
        from_logs({"app-web/client.log": "".join(map(CONNECT.format, range(5)))}),
        [{"severity": "medium", "brokers": [1], "clients": ["app-web"],
          "measures": {"how": "unresolved", "address": "kafka-1.shop.invalid:9092"}}],
    ),
    Scenario(
        NAME, "quiet", "dead broker, really a placeholder for its address",
        from_logs({"broker-0/server.log": "".join(map(PEER.format, range(3)))}),
        found("high", "unresolved", address="your.host.name:9092"),
    ),
    Scenario(
        NAME, "quiet", "dead broker, really a host that its clients do not know",
        cluster(lost(100, 1, UNKNOWN), lost(130, 1, UNKNOWN), lost(160, 1, UNKNOWN), brokers={}),
        found("medium", "unresolved", address="kafka-1.shop.invalid:9092", errors=3),
    ),
    Scenario(
        NAME, "fires", "a port where nobody listens, of a broker that runs",
        cluster(lost(100), lost(130), lost(160)),
        found("medium", "refused", address="10.0.0.2:29092", clients=1),
    ),
    Scenario(
        NAME, "fires", "as a Java client tells it, also of the broker as coordinator",
        cluster(*(lost(100 + n, detail="/10.0.0.2:29092") for n in range(30)),
                *(lost(100.1 + n, detail=None) for n in range(30)),
                *(lost(100 + n, 2147483645, "/10.0.0.2:29092") for n in range(30))),
        found("medium", "refused", address="10.0.0.2:29092", errors=90),
    ),
    Scenario(
        NAME, "fires", "no answer from a broker that runs",
        cluster(*(event(100 + 10 * n, "app", "client_connect_timeout", broker=2, client="app")
                  for n in range(4))),
        found("medium", "timed out"),
    ),
    Scenario(
        NAME, "fires", "a leader without a listener of that name",
        cluster(event(100, "app", "client_listener_missing", client="app", topic="t")),
        found("medium", "listener missing"),
    ),
    Scenario(
        NAME, "fires", "one of the bootstrap servers is not known",
        cluster(event(100, "app", "client_address_unresolved", detail="kafka9:9092")),
        found("low", "bootstrap", address="kafka9:9092"),
    ),
    Scenario(
        NAME, "quiet", "a broker that is down", cluster(lost(100), lost(130), lost(160), brokers={
            2: [Span("up", 0, 90 * SECOND), Span("crashed", 90 * SECOND, None)]}),
    ),
    Scenario(
        NAME, "quiet", "a broker of which no log is there",
        cluster(lost(100), lost(130), lost(160), brokers={}),
    ),
    Scenario(
        NAME, "quiet", "Bootstrap broker disconnected, really one of several that is down",
        cluster(*(lost(100 + n, -1, "kafka1:9092") for n in range(60))),
    ),
    Scenario(
        NAME, "quiet", "connections that were in place, and broke",
        cluster(*(lost(100 + n, detail=None) for n in range(60))),
    ),
    Scenario(NAME, "boundary", "two failures", cluster(lost(100), lost(130))),
    Scenario(
        NAME, "boundary", "three failures in just a quarter of a minute",
        cluster(lost(100), lost(110), lost(115)), found("medium", "refused"),
    ),
    Scenario(
        NAME, "boundary", "three failures in less than a quarter of a minute",
        cluster(lost(100), lost(110), lost(114.8)),
    ),
    Scenario(
        NAME, "boundary", "two minutes apart", cluster(lost(100), lost(220), lost(340)),
        found("medium", "refused"),
    ),
    Scenario(
        NAME, "boundary", "just more than two minutes apart",
        cluster(lost(100), lost(220.001), lost(340.002)),
    ),
    Scenario(
        NAME, "boundary", "ten seconds from the broker's start and stop",
        cluster(lost(100), lost(130), lost(160), brokers=up(90, 170)), found("medium", "refused"),
    ),
    Scenario(
        NAME, "boundary", "too near to the broker's start",
        cluster(lost(100), lost(130), lost(160), brokers=up(90.001, 170)),
    ),
    Scenario(
        NAME, "blind", "only what is of no use here",
        partial(case, files=[logs("x", 100, role="other", records=9)]),
        reason="there is no clients' or brokers' or controllers' log",
    ),
]  # fmt: skip
