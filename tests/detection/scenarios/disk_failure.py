"""Log directories that failed or filled up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "disk-failure"
Row = dict[str, Any]


def error(second: float, **more: Any) -> Row:
    facts: Row = {"log_dir": "/d1", "topic": "t", "partition": 0, "error": "java.io.IOException",
                  "detail": "No space left on device"}  # fmt: skip
    return event(second, "broker-1", "disk_error", **(facts | more))


def of(*events: Row) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events))


LINES = """\
[2021-10-11 07:35:02,038] ERROR Error while appending records to orders-0 in dir /var/kafka \
(kafka.server.LogDirFailureChannel)
java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
[2021-10-11 07:35:02,040] WARN [ReplicaManager broker=1] Stopping serving replicas in dir \
/var/kafka (kafka.server.ReplicaManager)
[2021-10-11 07:35:02,060] INFO [ReplicaManager broker=1] Broker 1 stopped fetcher for partitions \
orders-3,orders-4 and stopped moving logs for partitions  because they are in the failed log \
directory /var/kafka. (kafka.server.ReplicaManager)
[2021-10-11 07:35:02,080] WARN Stopping serving logs in dir /var/kafka (kafka.log.LogManager)
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "a directory is full, told by Kafka's own lines",
        from_logs({"broker-1/server.log": LINES}),
        [{"severity": "high", "confidence": "likely", "brokers": [1],
          "partitions": ["orders-0", "orders-3", "orders-4"],
          "title": "Broker 1: log directory /var/kafka is full; 3 replicas in it offline to the "
                   "end of the logs",
          "measures": {"broker": 1, "log_dir": "/var/kafka", "reason": "full",
                       "error": "java.io.IOException: No space left on device"}}],
    ),
    Scenario(
        NAME, "fires", "no file was lost: the process had too many open ones",
        of(error(100, error="java.io.FileNotFoundException",
                 detail="/d1/t-0/0.index (Too many open files)")),
        [{"title": "Broker 1: log directory /d1 was given up: the process had too many open files",
          "measures": {"reason": "open files"}}],
    ),
    Scenario(
        NAME, "fires", "the disk is sound: no more files may be mapped",
        of(error(100, detail="Map failed")),
        [{"measures": {"reason": "maps"}}],
    ),
    Scenario(
        NAME, "fires", "the first error names the reason, and not what came of it",
        of(
            event(100.1, "broker-1", "log_dir_failed", log_dir="/d1", error="KAFKA_STORAGE_ERROR"),
            error(100, detail="Input/output error"),
        ),
        [{"measures": {"reason": "input/output",
                       "error": "java.io.IOException: Input/output error"}}],
    ),
    Scenario(
        NAME, "fires", "a topic deleted on Windows takes the directory with it",
        of(error(100, log_dir="C:\\data", error="java.nio.file.AccessDeniedException",
                 detail="C:\\data\\t-0 -> C:\\data\\t-0.4f-delete")),
        [{"measures": {"reason": "denied", "log_dir": "C:\\data"}}],
    ),
    *(
        Scenario(
            NAME, "fires", f"a directory is out of use until {text}",
            partial(case, files=[logs("broker-1", 900)], brokers={1: starts},
                    events=[event(100, "broker-1", "log_dir_failed", log_dir="/d1")]),
            [{"end": end * SECOND, "measures": {"still": still}}],
        )
        for text, starts, end, still in (
            ("the broker is started again",
             [Span("starting", 300 * SECOND, 310 * SECOND)], 300, False),
            ("the logs end", [], 900, True),
        )
    ),
    Scenario(
        NAME, "fires", "only the controller tells of it",
        of(event(100, "controller-1", "broker_dirs_offline", broker=2, detail="[abc]")),
        [{"brokers": [2], "severity": "high", "measures": {"log_dir": None, "error": None}}],
    ),
    Scenario(
        NAME, "boundary", "what the controller tells of a known failure is not told twice",
        of(error(100), event(101, "controller-1", "broker_dirs_offline", broker=1, detail="[a]")),
        [{"measures": {"log_dir": "/d1"}}],
    ),
    Scenario(NAME, "boundary", "two directories", of(error(100), error(100, log_dir="/d2")),
             [{"brokers": [1]}, {"brokers": [1]}]),
    Scenario(NAME, "boundary", "again after half an hour", of(error(100), error(1900)),
             [{"measures": {"lines": 2}}]),
    Scenario(NAME, "boundary", "again after longer", of(error(100), error(1900.5)),
             [{"measures": {"lines": 1}}, {"measures": {"lines": 1}}]),
    Scenario(
        NAME, "quiet", "a new directory is made, and one log cannot take records",
        of(
            event(100, "broker-1", "log_dir_missing", log_dir="/d1"),
            event(101, "broker-1", "append_failed", topic="t", partition=0,
                  error="NOT_ENOUGH_REPLICAS"),
        ),
    ),
    Scenario(NAME, "blind", "only clients' logs",
             partial(case, files=[logs("app", 100, role="client", records=9)]),
             reason="there is no brokers' or controllers' log"),
]  # fmt: skip
