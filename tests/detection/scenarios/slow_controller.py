"""A KRaft controller that is too slow: events that take seconds, heartbeats that wait too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from forensics.detection.context import DetectionContext
from tests.detection.cases import Row, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "slow-controller"
SERVERS = [logs("controller-1", 10_000, role="controller", records=9)]


def slow(
    seconds: Sequence[float], *others: Row, ms: int = 3000
) -> Callable[[Path], DetectionContext]:
    """Let events take long that end at some moments; the controller writes in between."""
    events = [
        event(second, "controller-1", "quorum_event_slow", duration_ms=ms, detail="writeNoOpRecord")
        for second in seconds
    ]
    busy = [event(second - 1.5, "controller-1", "partition_state") for second in seconds]
    return partial(case, files=SERVERS, events=[*events, *busy, *others])


def late(seconds: Sequence[float]) -> Callable[[Path], DetectionContext]:
    """Let heartbeats wait too long."""
    return partial(case, files=SERVERS, events=[
        event(second, "controller-1", "quorum_overloaded", broker=2) for second in seconds
    ])  # fmt: skip


def strokes(apart: float) -> Callable[[Path], DetectionContext]:
    """Let two events take 30 s while nothing is written, and end a little apart."""
    return partial(case, files=SERVERS, events=[
        event(second, "controller-1", "quorum_event_slow", duration_ms=30_000)
        for second in (100, 100 + apart)
    ])  # fmt: skip


LINES = {
    "controller-3/controller.log": "".join(
        f"[2026-11-18 11:37:{second:02d},295] ERROR [QuorumController id=3003] Exceptionally slow"
        " controller event writeNoOpRecord took 3502 ms."
        " (org.apache.kafka.controller.EventPerformanceMonitor)\n"
        for second in (9, 13, 17, 21)
    )
}

SCENARIOS = [
    Scenario(
        NAME, "fires", "four slow events", from_logs(LINES),
        [{"severity": "medium", "measures": {"events": 4, "longest_ms": 3502}}],
    ),
    Scenario(
        NAME, "fires", "heartbeats that wait", late([100, 101, 102]),
        [{"severity": "medium", "brokers": [2], "measures": {"events": 0, "overloaded": 3}}],
    ),
    Scenario(NAME, "boundary", "two that wait", late([100, 101]), [{"severity": "low"}]),
    Scenario(
        NAME, "boundary", "four that wait", late([100, 101, 102, 103]), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "three slow events", slow([100, 110, 120]),
        [{"severity": "medium", "measures": {"events": 3}}],
    ),
    Scenario(NAME, "boundary", "two slow events", slow([100, 110]), [{"severity": "low"}]),
    Scenario(
        NAME, "boundary", "a minute apart", slow([100, 160, 220]),
        [{"severity": "medium", "measures": {"events": 3, "spells": 1}}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart are two spells", slow([100, 160.5]),
        [{"severity": "low", "measures": {"events": 2, "spells": 2}}],
    ),
    Scenario(
        NAME, "boundary", "spells ten minutes apart", slow([100, 700]),
        [{"measures": {"spells": 2}}],
    ),
    Scenario(NAME, "boundary", "spells further apart", slow([100, 700.5]), [{}, {}]),
    Scenario(NAME, "boundary", "events that end within a second: one pause", strokes(1)),
    Scenario(NAME, "boundary", "events that end just over a second apart", strokes(1.1), [{}]),
    Scenario(NAME, "quiet", "host paused once", strokes(0.1)),
    Scenario(
        NAME, "quiet", "events that waited for a majority that was lost",
        slow([100, 101, 102], event(99.5, "controller-1", "raft_majority_lost")),
    ),
    Scenario(
        NAME, "quiet", "a summary each minute",
        partial(case, files=SERVERS, events=[
            event(100, "controller-1", "quorum_events_summary", duration_ms=400)
        ]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
