"""Followers that stop copying, or cannot fetch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.log_coverage import SILENT
from forensics.lib.time_units import SECOND
from tests.detection.cases import absence, case, event, logs, version
from tests.detection.scenarios import Scenario

NAME = "failing-fetcher"
Row = dict[str, Any]


def failed(second: float = 100) -> Row:
    """Let broker 2 give partition t-0 up."""
    return event(second, "broker-2", "partition_fetch_failed", topic="t", partition=0, broker=2,
                 leader=1)  # fmt: skip


def hole(begin: int, end: int) -> Row:
    """Let the logs of broker 2 have a hole."""
    return {"node": "broker-2", "role": "broker", "state": SILENT, "why": "no line",
            "started_at": begin * SECOND, "ended_at": end * SECOND}  # fmt: skip


def stopped(
    back: float | None = None, end: float = 10_000, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let it leave the ISR thereafter, and come back or not."""
    isr = [version(1, [1, 2, 3], 0, 130), version(2, [1, 3], 130, back)]
    isr += [] if back is None else [version(3, [1, 2, 3], back)]
    files = [logs("broker-1", end)]
    events = [failed(), *more.pop("events", ())]
    return partial(case, events=events, isr=isr, files=files, **more)


def refused(
    last: float = 161, count: int = 5, gap: float = 0, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let fetches of broker 2 from broker 1 fail from 100 on."""
    step = gap or (last - 100) / (count - 1)
    events: Sequence[Row] = [
        event(100 + at * step, "broker-2", "fetch_request_failed", broker=2, leader=1, error="E")
        for at in range(count)
    ]
    return partial(case, events=events, **more)


SCENARIOS = [
    Scenario(
        NAME, "fires", "a partition is given up for good", stopped(),
        [{"severity": "medium", "brokers": [2], "partitions": ["t-0"],
          "title": "Broker 2 stopped copying 1 partition and did not begin again"}],
    ),
    Scenario(
        NAME, "quiet", "it lies in a directory that failed, which has a finding of its own",
        stopped(events=[event(101, "broker-2", "replica_offline", log_dir="/d2", topic="t",
                              partition=0)]),
    ),
    Scenario(NAME, "boundary", "the logs end a minute later", stopped(end=160), [{}]),
    Scenario(NAME, "boundary", "the logs end before that", stopped(end=159)),
    Scenario(NAME, "quiet", "it came back", stopped(back=170)),
    Scenario(NAME, "quiet", "its broker goes as it is seen again, behind a hole of an hour",
             stopped(coverage=[hole(110, 3710)], away=[absence(2, "controlled", 3770)])),
    Scenario(NAME, "quiet", "its broker goes as it is seen again, behind the second of two holes",
             stopped(coverage=[hole(110, 150), hole(155, 3755)],
                     away=[absence(2, "controlled", 3800)])),
    Scenario(NAME, "boundary", "a minute of it is seen, before the hole and behind",
             stopped(coverage=[hole(110, 3710)], end=3760), [{}]),
    Scenario(NAME, "boundary", "its broker went half a minute later",
             stopped(away=[absence(2, "crash", 190)])),
    Scenario(NAME, "boundary", "its broker went later than that",
             stopped(away=[absence(2, "crash", 191)]), [{}]),
    Scenario(
        NAME, "fires", "a leader that is up cannot be fetched from",
        refused(),
        [{"severity": "medium", "brokers": [1, 2], "measures": {"failures": 5, "lasted_s": 61.0},
          "title": "Broker 2 could not fetch from broker 1 for 61 s (E)"}],
    ),
    Scenario(NAME, "boundary", "for a minute", refused(160)),
    Scenario(NAME, "boundary", "four failures", refused(count=4)),
    Scenario(NAME, "boundary", "half a minute between them", refused(gap=30), [{}]),
    Scenario(NAME, "boundary", "a little more", refused(gap=30.1)),
    Scenario(NAME, "quiet", "the leader was away", refused(away=[absence(1, "crash", 99, 150)])),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' log",
    ),
]  # fmt: skip
