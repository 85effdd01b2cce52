"""Topics for which clients were told that there is no leader."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.clocks.model import ClockModel, Clocks, ClockSegment
from tests.detection.cases import case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "leader-not-available"
Row = dict[str, Any]
ERROR = "LEADER_NOT_AVAILABLE"


def asked(second: float, topic: str | None = "t", client: str = "app-1") -> Row:
    """Tell a client that a topic has no leader."""
    return event(second, "app", "client_error", topic=topic, client=client, error=ERROR)


def at(*seconds: float, **more: Any) -> Callable[[Path], DetectionContext]:
    """Tell it at some moments."""
    return partial(case, events=[asked(second) for second in seconds], **more)


def lines(moments: int, apart: int) -> str:
    """Write the log of a producer that asks for a topic again and again."""
    return "".join(
        f"[2026-06-10 12:{second // 60:02d}:{second % 60:02d},123] WARN [Producer clientId=orders]"
        f" Error while fetching metadata with correlation id {turn + 1} :"
        " {orders-v2=LEADER_NOT_AVAILABLE} (org.apache.kafka.clients.NetworkClient)\n"
        for turn in range(moments)
        for second in [turn * apart]
    )


def made(second: float, broker: int | None) -> Row:
    """What the controller or a broker logs of the first leader of t-0."""
    facts = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, "broker": broker}
    node = "controller-1" if broker is None else f"broker-{broker}"
    return event(second, node, "partition_state", **facts)


CLOCKS = Clocks({}, {}, (), {
    node: ClockModel([ClockSegment(0, 0.0, 0.0, 100.0, 0, 1 << 60)])
    for node in ("broker-1", "controller-1")
})  # fmt: skip
REFUSED = event(99, "broker-1", "topic_refused", topic="t", error="INVALID_REPLICATION_FACTOR")

SCENARIOS = [
    Scenario(
        NAME, "fires", "longer than two minutes, and nobody knows why", at(100, 150, 200, 221),
        [{"severity": "high", "confidence": "confirmed", "clients": ["app-1"],
          "measures": {"topic": "t", "errors": 4, "duration_s": 121.0, "cause": "unknown"}}],
    ),
    Scenario(
        NAME, "fires", "told by a client's own lines",
        from_logs({"orders-app/app.log": lines(8, 20)}),
        [{"severity": "high", "clients": ["orders"],
          "measures": {"topic": "orders-v2", "errors": 8, "duration_s": 140.0}}],
    ),
    Scenario(
        NAME, "fires", "the partitions really had no leader",
        at(100, 150, 200, 221, leadership=[epoch(1, 1, 1, 99), epoch(2, -1, 99)]),
        [{"severity": "medium", "measures": {"cause": "leaderless"}}],
    ),
    Scenario(
        NAME, "fires", "they had one all the time: a listener",
        at(100, 150, 200, 221, leadership=[epoch(1, 1, 1)]),
        [{"severity": "high", "measures": {"cause": "led"}}],
    ),
    Scenario(
        NAME, "fires", "a topic that cannot be made",
        partial(case, events=[REFUSED, *(asked(second) for second in (100, 150, 200, 221))]),
        [{"severity": "high", "measures": {"cause": "refused"}}],
    ),
    Scenario(
        NAME, "fires", "a client that does not say which",
        partial(case, events=[asked(second, None) for second in (100, 150, 200, 221)]),
        [{"severity": "high", "partitions": [], "measures": {"topic": None}}],
    ),
    Scenario(
        NAME, "fires", "a cluster under load: a broker takes up a new topic late",
        partial(case, events=[*map(asked, range(100, 110)), made(100, None), made(109, 1)],
                leadership=[epoch(0, 1, 100, election="initial")], clocks=CLOCKS),
        [{"severity": "low", "measures": {"cause": "slow"}}],
    ),
    Scenario(
        NAME, "fires", "a cluster under load: the controller took long for an event",
        partial(case, leadership=[epoch(1, 1, 1)], events=[
            *map(asked, range(100, 110)),
            event(109, "controller-1", "quorum_event_slow", duration_ms=5001)]),
        [{"severity": "low", "measures": {"cause": "slow"}}],
    ),
    Scenario(
        NAME, "fires", "a cluster under load: a broker stood still",
        partial(case, leadership=[epoch(1, 1, 1)],
                files=[logs("broker-1", 10_000, role="broker")],
                events=[*map(asked, range(100, 110)),
                        event(105, "broker-1", "gc_pause", duration_ms=6000)]),
        [{"severity": "low", "measures": {"cause": "slow"}}],
    ),
    Scenario(
        NAME, "quiet", "a cluster under load, really a client that pauses",
        partial(case, leadership=[epoch(1, 1, 1)],
                files=[logs("broker-1", 10_000, role="broker"), logs("app", 900, role="client")],
                events=[*map(asked, range(100, 110)),
                        event(105, "app", "gc_pause", duration_ms=6000)]),
        [{"severity": "low", "measures": {"cause": "led"}}],
    ),
    Scenario(
        NAME, "boundary", "a topic that is made within five seconds", at(*range(100, 106))
    ),
    Scenario(NAME, "boundary", "six seconds", at(*range(100, 107)), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "two minutes", at(100, 160, 220), [{"severity": "low"}]),
    Scenario(
        NAME, "boundary", "more than a minute apart", at(100, 106, 167, 173),
        [{"severity": "low"}, {"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "a metadata storm as topics are made: low correlation ids, soon over",
        from_logs({"connect/app.log": lines(4, 1)}),
    ),
    Scenario(
        NAME, "quiet", "other errors",
        partial(case, events=[
            event(second, "app", "client_error", topic="t", error="NOT_LEADER_OR_FOLLOWER")
            for second in (100, 150, 200, 250)
        ]),
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("broker-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
