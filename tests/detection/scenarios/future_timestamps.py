"""Records with times in the future, which keep their segments from being deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "future-timestamps"
WEEK = 604_800


def future(second: float, ahead: float | None = 3600, topic: str = "t") -> dict[str, Any]:
    """Let a segment be ahead of the moment by so many seconds."""
    largest = "" if ahead is None else f" largestRecordTimestamp={int((second + ahead) * 1000)})"
    text = f"LogSegment(baseOffset=0,{largest} contains future timestamp(s)"
    where = {"topic": topic, "partition": 0, "position": 0}
    return event(second, "broker-1", "future_timestamps", text=text, **where)


def of(*events: dict[str, Any]) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events))


LINE = (
    "[2026-06-10 12:00:00,123] WARN [UnifiedLog partition=orders-v2-3, dir=/var/lib/kafka/data] "
    "LogSegment(baseOffset=0, size=1048321, lastModifiedTime=1781092800123, "
    "largestRecordTimestamp={largest}) contains future timestamp(s), making it ineligible to be "
    "deleted (org.apache.kafka.storage.internals.log.UnifiedLog)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "microseconds for milliseconds, told by Kafka's own line",
        from_logs({"broker-1/server.log": LINE.format(largest=1_781_092_800_123_000)}),
        [{"severity": "medium", "confidence": "likely", "partitions": ["orders-v2-3"],
          "brokers": [1], "measures": {"topic": "orders-v2", "lines": 1}}],
    ),
    Scenario(NAME, "boundary", "a week ahead", of(future(100, WEEK)), [{"severity": "medium"}]),
    Scenario(NAME, "boundary", "a little less", of(future(100, WEEK - 1)), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "nobody tells how far", of(future(100, None)),
             [{"severity": "low", "measures": {"ahead_s": None}}]),
    Scenario(NAME, "boundary", "said again at the third look",
             of(future(100), future(1000)), [{"measures": {"lines": 2}}]),
    Scenario(NAME, "boundary", "said again later", of(future(100), future(1000.9)), [{}, {}]),
    Scenario(NAME, "boundary", "two topics", of(future(100), future(100, topic="u")), [{}, {}]),
    Scenario(NAME, "quiet", "segments are deleted by their age",
             of(event(100, "broker-1", "segment_deletable", topic="t", partition=0))),
    Scenario(
        NAME, "blind", "a version that keeps such segments without a word",
        partial(case, files=[
            logs("broker-1", 100, role="broker", records=9, kafka_version="3.9.1")
        ]),
        reason="Kafka says nothing of it before 4.1",
    ),
    Scenario(NAME, "blind", "only clients' logs",
             partial(case, files=[logs("app", 100, role="client", records=9)]),
             reason="there is no brokers' log"),
]  # fmt: skip
