"""Replicas whose logs differ, and no election tells why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.clocks.model import (
    ClockModel,
    Clocks,
    ClockSegment,
    UnexplainedInterval,
)
from tests.detection.cases import SECOND, absence, case, epoch, event, only_state_changes, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "divergence"
Row = dict[str, Any]


def line(second: float, kind: str, partition: int = 0, **more: Any) -> Row:
    """Let broker 1 tell of its log of one partition."""
    facts: Row = {"topic": "t", "partition": partition, "broker": 1}
    return event(second + partition / 10, "broker-1", kind, **(facts | more))


def fell(second: float, partition: int = 0) -> Row:
    """Let a high watermark fall by five."""
    return line(second, "high_watermark_fell", partition, high_watermark=54, cut_to=49)


SET_ANEW = ClockModel(
    [ClockSegment(0, 0.0, 0.0, 10.0, 0, 1000 * SECOND)],
    unexplained=[UnexplainedInterval(90 * SECOND, 110 * SECOND, 60_000.0)],
)


def cut(**more: Any) -> Row:
    """Make a cut of that log that is told elsewhere."""
    plain: Row = {
        "topic": "t",
        "partition": 0,
        "broker": 1,
        "cut_to": 49,
        "high_watermark": 54,
        "started_at": 100 * SECOND,
        "evidence": [{"file": "broker-9/server.log", "line": 1}],
    }
    return row("cuts", **(plain | more))


def torn(*moments: float, **more: Any) -> Callable[[Path], DetectionContext]:
    """Tear the epochs of one partition after the other."""
    some = [line(second, "epoch_conflict", at) for at, second in enumerate(moments)]
    return partial(case, events=some, **more)


BELOW = line(100, "truncated_below_high_watermark", high_watermark=54, cut_to=49)
LINES = """\
[2026-06-10 12:00:00,123] WARN [LeaderEpochCache orders-3] New epoch entry EpochEntry(epoch=5, \
startOffset=48120) caused truncation of conflicting entries ListBuffer(EpochEntry(epoch=6, \
startOffset=48130)). Cache now contains 4 entries. \
(org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache)
"""
MARK = """\
[2026-06-10 11:41:18,346] WARN [UnifiedLog partition=orders-3, dir=/data] Non-monotonic update of \
high watermark from (offset=54, segment=[0:4141]) to (offset=53, segment=[-1:-1]) \
(kafka.log.UnifiedLog)
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "leader epochs that tear", torn(100),
        [{"severity": "medium", "confidence": "confirmed", "brokers": [1], "partitions": ["t-0"],
          "measures": {"kinds": ["epoch_conflict"], "lines": 1}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-1/server.log": LINES}),
        [{"severity": "medium", "brokers": [1], "partitions": ["orders-3"]}],
    ),
    Scenario(
        NAME, "fires", "a high watermark that falls under one leader, in Kafka's words",
        from_logs({"broker-1/server.log": MARK}),
        [{"severity": "medium", "measures": {"kinds": ["high_watermark_fell"], "deepest": 1}}],
    ),
    Scenario(
        NAME, "fires", "committed records are cut, and nothing else tells of it",
        partial(case, events=[BELOW]),
        [{"severity": "high", "measures": {"deepest": 5}}],
    ),
    Scenario(
        NAME, "fires", "a broker stops rather than cut its log",
        partial(case, events=[line(100, "truncation_forbidden")]), [{"severity": "high"}],
    ),
    Scenario(
        NAME, "fires", "a cut that was not told as deep",
        partial(case, events=[BELOW], cuts=[cut(high_watermark=None)]), [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "a leader that is behind for more than a minute",
        partial(case, events=[line(second, "follower_epoch_ahead") for second in (100, 130, 161)]),
        [{"severity": "medium", "measures": {"kinds": ["follower_epoch_ahead"]}}],
    ),
    Scenario(
        NAME, "boundary", "a leader that is behind for a minute",
        partial(case, events=[line(second, "follower_epoch_ahead") for second in (100, 130, 160)]),
    ),
    Scenario(
        NAME, "boundary", "a minute apart", torn(100, 159.9),
        [{"partitions": ["t-0", "t-1"]}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart", torn(100, 160.9),
        [{"partitions": ["t-0"]}, {"partitions": ["t-1"]}],
    ),
    Scenario(
        NAME, "boundary", "a change of leader half a minute before",
        partial(case, events=[fell(100)], leadership=[epoch(1, 2, 70)]),
    ),
    Scenario(
        NAME, "boundary", "a change of leader long before",
        partial(case, events=[fell(100)], leadership=[epoch(1, 2, 69)]), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "quiet", "a change of leader at a time by a clock that may have been set anew",
        partial(case, events=[fell(100)], leadership=[epoch(1, 2, 40)],
                clocks=Clocks({}, {}, (), {"broker-1": SET_ANEW})),
    ),
    Scenario(
        NAME, "quiet", "a broker that came back just before",
        partial(case, events=[fell(100)], away=[absence(1, "controlled", 20, 95)]),
    ),
    Scenario(
        NAME, "quiet", "what an unclean election costs is told there",
        partial(case, events=[BELOW, fell(101), line(102, "epoch_conflict")],
                leadership=[epoch(1, 2, 60, clean=False)]),
    ),
    Scenario(
        NAME, "quiet", "a deep cut is told as that",
        partial(case, events=[BELOW], cuts=[cut()]),
    ),
    Scenario(
        NAME, "quiet", "truncations that cut nothing",
        partial(case, events=[line(second, "truncated_nothing") for second in (1, 2, 3)]),
    ),
    Scenario(
        NAME, "blind", "only state-change logs",
        only_state_changes,
        reason="there is no brokers' log (server.log)",
    ),
]  # fmt: skip
