"""Partitions with fewer replicas in sync than min.insync.replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, logs, version
from tests.detection.scenarios import Scenario, from_logs

NAME = "under-min-isr"
Row = dict[str, Any]


def refused(second: float, partition: int = 0, **more: Any) -> Row:
    """Let a leader refuse records of one partition."""
    facts: Row = {"topic": "t", "partition": partition, "broker": 1, "error": "NOT_ENOUGH_REPLICAS"}
    return event(second, "broker-1", "append_failed", **(facts | more))


def at(seconds: Iterable[float], **more: Any) -> Callable[[Path], DetectionContext]:
    """Refuse records at some moments."""
    return partial(case, events=[refused(second) for second in seconds], **more)


def wants(least: int, second: float = 1, topic: str | None = None) -> Row:
    """Let a line tell the minimum."""
    kind = "config_set" if topic else "setting_seen"
    detail = f"min.insync.replicas to {least}" if topic else None
    value = None if topic else str(least)
    name = None if topic else "min.insync.replicas"
    return event(second, "broker-1", kind, topic=topic, setting=name, value=value, detail=detail)


# The line that tells of a version of the ISR.
TOLD = event(100, "broker-9", "partition_state") | {
    "file": "broker-9/state-change.log",
    "line": 10_001,
}


def below(seconds: float, *told_by: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    """Let one partition have one replica in sync for some time."""
    short = version(1, [1], 100, 100 + seconds)
    return partial(case, events=[TOLD, *told_by], isr=[short], **more)


LINES = """\
[2026-11-18 11:48:10,158] ERROR [ReplicaManager broker=1] Error processing append operation on \
partition orders-3 (kafka.server.ReplicaManager)
org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR Set(1) is \
insufficient to satisfy the min.isr requirement of 2 for partition orders-3
[2026-11-18 11:48:40,158] ERROR [ReplicaManager broker=1] Error processing append operation on \
partition orders-3 (kafka.server.ReplicaManager)
org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR Set(1) is \
insufficient to satisfy the min.isr requirement of 2 for partition orders-3
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "leaders refuse records for half a minute", at([100, 115, 130]),
        [{"severity": "medium", "confidence": "confirmed", "partitions": ["t-0"],
          "measures": {"told_by_leaders": 3, "told_by_clients": 0, "refused_s": 30.0}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-1/server.log": LINES}),
        [{"severity": "medium", "partitions": ["orders-3"],
          "measures": {"refused_s": 30.0, "minimums": {"orders": 2}}}],
    ),
    Scenario(
        NAME, "fires", "a client is told, and its brokers' logs are not here",
        partial(case, events=[
            event(second, "app", "client_error", client="app-1", topic="t", partition=0,
                  error="NOT_ENOUGH_REPLICAS_AFTER_APPEND")
            for second in (100, 110)
        ]),
        [{"severity": "medium", "clients": ["app-1"], "measures": {"told_by_clients": 2}}],
    ),
    Scenario(
        NAME, "fires", "below the minimum of the brokers' settings", below(40, wants(2)),
        [{"severity": "low", "partitions": ["t-0"], "brokers": [2, 3],
          "measures": {"partition_seconds": 40.0, "minimums": {"t": 2}}}],
    ),
    Scenario(
        NAME, "fires", "below the minimum of the topic", below(40, wants(1), wants(2, 2, "t")),
        [{"severity": "low", "measures": {"minimums": {"t": 2}}}],
    ),
    Scenario(
        NAME, "fires", "below the minimum where no line tells the replicas",
        partial(case, events=[TOLD, wants(2)],
                isr=[version(1, [1], 100, 140, replicas=None)]),
        [{"severity": "low", "brokers": []}],
    ),
    Scenario(
        NAME, "fires", "another partition was below it, too, and nobody wrote there",
        partial(case, events=[refused(110), refused(120), TOLD, wants(2)],
                isr=[version(1, [1], 100, 140), version(1, [1], 100, 140, partition=1)]),
        [{"severity": "medium", "partitions": ["t-0", "t-1"],
          "title": "Writes rejected: too few in-sync replicas on 1 partition, for up to 10 s"}],
    ),
    Scenario(
        NAME, "fires", "refusals and the time below are one finding",
        partial(case, events=[refused(110), refused(120), TOLD, wants(2)],
                isr=[version(1, [1], 100, 140)]),
        [{"severity": "medium", "end": 120_000_000, "measures": {"partition_seconds": 40.0}}],
    ),
    Scenario(
        NAME, "fires", "three times, with time between them in which writes went through",
        at([100, 104, 118, 125, 140, 147]),
        [{"title": "Writes rejected 3 times: too few in-sync replicas on 1 partition, for up to "
                   "7 s at a time", "measures": {"longest_s": 7.0, "refused_s": 47.0}}],
    ),
    *(
        Scenario(NAME, "boundary", f"rejected again after {gap} s", at([100, 100 + gap]),
                 [{"severity": "medium", "measures": {"longest_s": longest}}])
        for gap, longest in ((10, 10.0), (11, 0.0))
    ),
    Scenario(NAME, "boundary", "five seconds", at([100, 105]), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "six seconds", at([100, 106]), [{"severity": "medium"}]),
    Scenario(
        NAME, "boundary", "as long as producers try", at([100, 160, 215]),
        [{"severity": "medium", "measures": {"refused_s": 115.0}}],
    ),
    Scenario(
        NAME, "boundary", "longer than producers try", at([100, 160, 216]),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart", at([100, 161]),
        [{"severity": "low"}, {"severity": "low"}],
    ),
    Scenario(NAME, "boundary", "below for as long as one stall", below(30, wants(2))),
    Scenario(NAME, "boundary", "below for longer", below(31, wants(2)), [{"severity": "low"}]),
    Scenario(NAME, "quiet", "nobody tells what the minimum is", below(900)),
    Scenario(NAME, "quiet", "the minimum is one", below(900, wants(1))),
    Scenario(NAME, "quiet", "another topic has another minimum", below(900, wants(2, 2, "other"))),
    Scenario(
        NAME, "quiet", "the minimum was taken back", below(900, wants(2, 2, "t"), wants(1, 3, "t"))
    ),
    Scenario(
        NAME, "quiet", "the others are restarted on purpose",
        below(50, wants(2), away=[absence(2, "controlled", 100, 140),
                                  absence(3, "controlled", 99, 145)]),
    ),
    Scenario(
        NAME, "quiet", "records that are refused for other reasons",
        partial(case, events=[refused(second, error="MESSAGE_TOO_LARGE") for second in (1, 50)]),
    ),
    Scenario(
        NAME, "blind", "only state-change logs",
        partial(case, files=[
            logs("broker-1", 100, file="broker-1/state-change.log", role="broker", records=9)
        ]),
        reason="there is no brokers' or clients' log (server.log)",
    ),
]  # fmt: skip
