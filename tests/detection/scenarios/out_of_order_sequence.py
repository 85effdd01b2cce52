"""Batches out of sequence, and what came before them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import SECOND, case, epoch, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "out-of-order-sequence"
Row = dict[str, Any]


def refused(second: float, **more: Any) -> Row:
    facts = {"topic": "t", "partition": 0, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER", "broker": 1}
    return event(second, "b-1", "append_failed", **(facts | more))


def died(second: float) -> Row:
    facts = {"client": "app", "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    return event(second, "app", "producer_failed", **facts)


def moved(second: float, **more: Any) -> Row:
    return epoch(1, 2, second, previous_leader=1, **more)


def cut(second: float) -> Row:
    place = [{"file": "broker-9/server.log", "line": 1}]
    return row("cuts", topic="t", partition=0, started_at=int(second * SECOND), evidence=place)


def cluster(*rows: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 1000, role="client", records=9), logs("b-1", 1000, role="broker")]
    return partial(case, events=rows, files=files, **more)


def found(severity: str, cause: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"cause": cause} | measures}]


LINE = (
    "[2026-11-18 11:48:1{},158] ERROR [ReplicaManager broker=1] Error processing append operation "
    "on partition payments-3 (kafka.server.ReplicaManager)\norg.apache.kafka.common.errors."
    "OutOfOrderSequenceException: Out of order sequence number for producer 7 at offset 120 in "
    "partition payments-3: 12 (incoming seq. number), 9 (current end sequence number)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a broker",
        from_logs({"broker-1/server.log": "".join(map(LINE.format, range(3)))}),
        [{"severity": "medium", "partitions": ["payments-3"], "brokers": [1],
          "measures": {"cause": "none_seen", "errors": 3, "fatal": False}}],
    ),
    Scenario(
        NAME, "fires", "after a change of leader", cluster(
            *map(refused, (100, 101, 102)), leadership=[moved(99)]),
        found("medium", "leader_move", election="failover"),
    ),
    Scenario(
        NAME, "fires", "after the log was cut back", cluster(
            *map(refused, (100, 101, 102)), leadership=[moved(99)], cuts=[cut(99.5)]),
        found("medium", "truncation"),
    ),
    Scenario(
        NAME, "fires", "the producer dies of it", cluster(refused(100), died(101)),
        [{"severity": "medium", "clients": ["app"], "measures": {"fatal": True, "errors": 1}}],
    ),
    Scenario(
        NAME, "fires", "only the producer tells of it", cluster(died(101)),
        found("medium", "none_seen", fatal=True),
    ),
    Scenario(NAME, "quiet", "other errors", cluster(refused(100, error="NOT_ENOUGH_REPLICAS"))),
    Scenario(NAME, "quiet", "one, which a retry hides", cluster(refused(100)),
             found("low", "none_seen")),
    Scenario(NAME, "boundary", "two", cluster(refused(100), refused(101)),
             found("low", "none_seen", errors=2)),
    Scenario(
        NAME, "boundary", "three, a minute apart", cluster(*map(refused, (100, 160, 220))),
        found("medium", "none_seen", errors=3),
    ),
    Scenario(
        NAME, "boundary", "just more than a minute apart", cluster(refused(100), refused(160.001)),
        [*found("low", "none_seen", errors=1), *found("low", "none_seen", errors=1)],
    ),
    Scenario(
        NAME, "boundary", "two minutes after a move",
        cluster(refused(220), leadership=[moved(100)]), found("low", "leader_move"),
    ),
    Scenario(
        NAME, "boundary", "longer after a move",
        cluster(refused(220.001), leadership=[moved(100)]), found("low", "none_seen"),
    ),
    Scenario(
        NAME, "boundary", "two seconds before the first line about a move",
        cluster(refused(98), leadership=[moved(100)]), found("low", "leader_move"),
    ),
    Scenario(
        NAME, "boundary", "longer before the first line about a move",
        cluster(refused(97.999), leadership=[moved(100)]), found("low", "none_seen"),
    ),
    Scenario(
        NAME, "blind", "only a controller's log",
        partial(case, files=[logs("c-1", 100, role="controller", records=9)]),
        reason="there is no brokers' or clients' log",
    ),
]  # fmt: skip
