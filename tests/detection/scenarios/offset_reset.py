"""Positions that are gone, why, and groups that only begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import SECOND, case, epoch, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "offset-reset"
Row = dict[str, Any]
WHOSE = {"client": "app", "group": "report", "topic": "t", "partition": 0}


def out(second: float, position: int = 100, **more: Any) -> Row:
    facts = WHOSE | {"position": position} | more
    return event(second, "app", "position_out_of_range", **facts)


def went(second: float, position: int, **more: Any) -> Row:
    return event(second, "app", "position_reset", **WHOSE, position=position, **more)


def missing(second: float) -> Row:
    return event(second, "app", "position_missing", **WHOSE)


def moved(second: float, position: int, why: str = "segment deletion") -> Row:
    facts = {"topic": "t", "partition": 0, "position": position, "detail": why}
    return event(second, "b-1", "log_start_moved", **facts)


def client(*rows: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    files = [logs("app", 1000, role="client", records=9), logs("b-1", 1000, role="broker")]
    return partial(case, events=rows, files=files, **more)


def found(severity: str, cause: str, **measures: Any) -> list[dict[str, Any]]:
    return [{"severity": severity, "measures": {"cause": cause} | measures}]


LINE = (
    "[2026-06-10 12:00:00,123] INFO [Consumer clientId=orders-svc, groupId=report] Fetch position "
    "FetchPosition{offset=48213, offsetEpoch=Optional[5], currentLeader=LeaderAndEpoch{leader="
    "Optional[kafka2:9092 (id: 2 rack: null)], epoch=5}} is out of range for partition "
    "orders-v2-3, resetting offset (org.apache.kafka.clients.consumer.internals.FetchCollector)\n"
    "[2026-06-10 12:00:00,143] INFO [Consumer clientId=orders-svc, groupId=report] Resetting "
    "offset for partition orders-v2-3 to position FetchPosition{offset=50000, "
    "offsetEpoch=Optional.empty, currentLeader=LeaderAndEpoch{leader=Optional[kafka2:9092 (id: 2 "
    "rack: az1)], epoch=5}}. (org.apache.kafka.clients.consumer.internals.SubscriptionState)\n"
)
CUT = row(
    "cuts", topic="t", partition=0, started_at=90 * SECOND, evidence=[{"file": "x", "line": 1}]
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "lines of a consumer that skips records",
        from_logs({"orders-svc/client.log": LINE}),
        [{"severity": "medium", "partitions": ["orders-v2-3"], "clients": ["orders-svc"],
          "measures": {"group": "report", "skipped": 1787, "cause": "unknown"}}],
    ),
    Scenario(
        NAME, "fires", "retention was faster", client(moved(50, 300), out(100), went(101, 300)),
        found("medium", "retention", skipped=200, ends="position reset"),
    ),
    Scenario(
        NAME, "fires", "somebody deleted records",
        client(moved(50, 300, "client delete records request"), out(100), went(101, 300)),
        found("medium", "delete_records", deleted=None),
    ),
    Scenario(
        NAME, "fires", "what was deleted on purpose is counted from where the log began",
        client(moved(40, 80), moved(50, 300, "client delete records request"),
               moved(50.1, 300, "client delete records request"), out(100), went(101, 300),
               leadership=[epoch(0, 1, 5, election="initial")]),
        found("medium", "delete_records", deleted=220),
    ),
    Scenario(
        NAME, "fires", "all of a topic that was made here",
        client(moved(50, 300, "client delete records request"), out(100), went(101, 300),
               leadership=[epoch(0, 1, 5, election="initial")]),
        found("medium", "delete_records", deleted=300),
    ),
    Scenario(
        NAME, "fires", "without a policy the consumer stops", client(moved(50, 300), out(100)),
        found("medium", "retention", ends="consumer fails"),
    ),
    Scenario(
        NAME, "fires", "the log was cut back, and records are read again",
        client(out(100), went(101, 40), cuts=[CUT]), found("low", "truncation", read_again=60),
    ),
    Scenario(
        NAME, "fires", "a consumer that says itself that the log was cut back",
        client(out(100) | {"kind": "consumer_saw_truncation"}, went(101, 40)),
        found("low", "truncation", read_again=60),
    ),
    Scenario(
        NAME, "fires", "to a consumer a topic that was made anew looks like a log that was cut",
        client(event(50, "b-1", "topic_deleted", topic="t"),
               out(100) | {"kind": "consumer_saw_truncation"}, went(101, 0)),
        found("low", "topic_recreated"),
    ),
    Scenario(
        NAME, "fires", "it was cut indeed, of a topic that was deleted some time before",
        client(event(50, "b-1", "topic_deleted", topic="t"),
               out(100) | {"kind": "consumer_saw_truncation"}, went(101, 40), cuts=[CUT]),
        found("low", "truncation", read_again=60),
    ),
    Scenario(
        NAME, "fires", "a group whose offsets had expired",
        client(event(50, "b-1", "group_dead", group="report"), missing(100), went(101, 900)),
        found("medium", "offsets_expired"),
    ),
    Scenario(
        NAME, "fires", "a group whose offsets had expired skips at most what came since it began",
        client(missing(10), went(11, 150), event(40, "b-1", "group_empty", group="report"),
               event(50, "b-1", "group_dead", group="report"), missing(100), went(101, 900)),
        found("medium", "offsets_expired", skipped=0, skipped_max=750),
    ),
    Scenario(
        NAME, "fires", "a topic that was deleted and made again",
        client(event(50, "b-1", "topic_deleted", topic="t"), out(100), went(101, 0)),
        found("low", "topic_recreated", read_again=100),
    ),
    Scenario(
        NAME, "fires", "librdkafka says it in one line",
        client(event(100, "app", "position_reset", error="OFFSET_OUT_OF_RANGE", topic="t",
                     partition=0, position=100)),
        found("medium", "unknown", ends="position reset"),
    ),
    Scenario(
        NAME, "fires", "kafka-go counts what it skips",
        client(out(100), went(101, 100, count=818)), found("medium", "unknown", skipped=818),
    ),
    Scenario(
        NAME, "quiet", "the application's own words for what its consumer said",
        client(out(100), event(100.5, "app", "application_error", error="OFFSET_OUT_OF_RANGE")),
        found("medium", "unknown", topic="t", ends="consumer fails"),
    ),
    Scenario(
        NAME, "fires", "only the application's own words",
        client(event(100.5, "app", "application_error", error="OFFSET_OUT_OF_RANGE")),
        found("medium", "unknown", topic=None),
    ),
    Scenario(NAME, "quiet", "a new group", client(missing(100), went(101, 0))),
    Scenario(
        NAME, "quiet", "a group that is forgotten after its end",
        client(missing(100), went(101, 0), event(200, "b-1", "group_dead", group="report")),
    ),
    Scenario(
        NAME, "quiet", "another group that was forgotten",
        client(event(50, "b-1", "group_dead", group="other"), missing(100)),
    ),
    Scenario(
        NAME, "boundary", "five minutes apart", client(out(100), out(400)),
        found("medium", "unknown", times=2),
    ),
    Scenario(
        NAME, "boundary", "just more than five minutes apart", client(out(100), out(400.001)),
        [*found("medium", "unknown", times=1), *found("medium", "unknown", times=1)],
    ),
    Scenario(
        NAME, "boundary", "the broker says it a minute later",
        client(out(100), went(101, 300), moved(160, 300)), found("medium", "retention"),
    ),
    Scenario(
        NAME, "boundary", "the broker says it too late",
        client(out(100), went(101, 300), moved(160.001, 300)), found("medium", "unknown"),
    ),
    Scenario(
        NAME, "boundary", "the log still held the position",
        client(moved(50, 100), out(100), went(101, 300)), found("medium", "unknown"),
    ),
    Scenario(
        NAME, "blind", "only brokers' logs",
        partial(case, files=[logs("b-1", 100, role="broker", records=9)]),
        reason="there is no clients' log",
    ),
]  # fmt: skip
