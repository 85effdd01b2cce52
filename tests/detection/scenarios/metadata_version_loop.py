"""Brokers whose changes of the ISR are refused again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "metadata-version-loop"
Row = dict[str, Any]


def refused(second: float, partition: int = 0, version: int | None = 12) -> Row:
    """Refuse broker 1 another ISR of one partition."""
    facts = {"topic": "t", "partition": partition, "broker": 1, "partition_epoch": version}
    return event(second + partition / 10, "broker-1", "isr_rejected", **facts)


def at(seconds: Iterable[float], **more: Any) -> Callable[[Path], DetectionContext]:
    """Refuse at some moments."""
    return partial(case, events=[refused(second) for second in seconds], **more)


SESSION = event(95, "broker-1", "session_expired")
LEADERS = [epoch(1, 1, 10, 96), epoch(2, 2, 96)]


def lines(count: int) -> str:
    """Write the log of a broker that was thrown out and does not know it."""
    lost = "INFO zookeeper state changed (Expired) (org.I0Itec.zkclient.ZkClient)"
    return f"[2026-06-10 12:00:01,123] {lost}\n" + "".join(
        f"[2026-06-10 12:{turn // 6:02d}:{turn % 6}1,{milli}] INFO Partition [orders,3] on broker"
        f" 1: {text} (kafka.cluster.Partition)\n"
        for turn in range(1, count + 1)
        for milli, text in (
            (123, "Shrinking ISR for partition [orders,3] from 1,2,3 to 1"),
            (133, "Cached zkVersion [62] not equal to that in zookeeper, skip updating ISR"),
        )
    )


SCENARIOS = [
    Scenario(
        NAME, "fires", "a zombie leader after a lost session",
        partial(case, events=[SESSION, *(refused(second) for second in (100, 130, 161))],
                leadership=LEADERS),
        [{
            "severity": "high", "confidence": "confirmed", "brokers": [1, 2], "partitions": ["t-0"],
            "begin": 95_000_000, "end": 161_000_000,
            "measures": {"refusals": 3, "partitions": 1, "led_by_others": 1, "session_lost": True,
                         "registration_refused": False},
        }],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines of old",
        from_logs({"broker-1/server.log": lines(12)}),
        [{"severity": "high", "brokers": [1], "partitions": ["orders-3"],
          "measures": {"refusals": 12, "duration_s": 110.0, "session_lost": True}}],
    ),
    Scenario(
        NAME, "fires", "two partitions of one broker are one finding",
        partial(case, events=[refused(second, part) for second in (100, 130, 161)
                              for part in (0, 1)]),
        [{"brokers": [1], "partitions": ["t-0", "t-1"], "begin": 100_000_000,
          "measures": {"refusals": 6, "led_by_others": 0, "session_lost": False}}],
    ),
    Scenario(NAME, "boundary", "two refusals", at([100, 161])),
    Scenario(NAME, "boundary", "over within a minute", at([100, 130, 160])),
    Scenario(NAME, "boundary", "longer than a minute", at([100, 130, 161]), [{"severity": "high"}]),
    Scenario(
        NAME, "boundary", "two minutes between them", at([100, 220, 340]),
        [{"measures": {"refusals": 3}}],
    ),
    Scenario(NAME, "boundary", "more than two minutes between them", at([100, 221, 342])),
    Scenario(
        NAME, "boundary", "the session was lost ten minutes before",
        partial(case, events=[event(100, "broker-1", "session_expired"),
                              *(refused(second) for second in (700, 730, 761))]),
        [{"begin": 100_000_000, "measures": {"session_lost": True}}],
    ),
    Scenario(
        NAME, "boundary", "a session lost longer ago is another story",
        partial(case, events=[event(99, "broker-1", "session_expired"),
                              *(refused(second) for second in (700, 730, 761))]),
        [{"begin": 700_000_000, "measures": {"session_lost": False}}],
    ),
    Scenario(
        NAME, "quiet", "a leader that learns the new version after each refusal",
        partial(case, events=[refused(second, version=one)
                              for one, second in enumerate((100, 130, 161, 190))]),
    ),
    Scenario(
        NAME, "quiet", "one refusal of each of many partitions, at a change of controller",
        partial(case, events=[refused(100 + part, part) for part in range(99)]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
