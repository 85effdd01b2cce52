"""Descriptions of topics, against the history or without a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs, version
from tests.detection.scenarios import Scenario

NAME = "described-state"


def printed(
    second: float | None, leader: int, isr: Sequence[int], end: float | None = 130, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let a tool print t-0, of which the logs know one state from 100 on."""
    row = event(second or 0, "file:topics.txt", "partition_described", topic="t", partition=0)
    row |= {"file": "topics.txt", "leader": leader, "isr": list(isr), "replicas": [1, 2, 3]}
    row |= {} if second is not None else {"ts": None}
    files = [logs("broker-1", 200, role="broker")]
    held = [version(3, [1, 2], 100, end, **more)]
    return partial(case, events=[row], isr=held, files=files)


SCENARIOS = [
    Scenario(NAME, "fires", "another leader", printed(115, 2, [1, 2]),
             [{"severity": "low", "partitions": ["t-0"], "measures": {"partitions": 1},
               "title": "A description of topics contradicts the logs on 1 partition"}]),
    Scenario(NAME, "fires", "another ISR", printed(115, 1, [1]), [{"severity": "low"}]),
    Scenario(NAME, "fires", "no leader, and no time", printed(None, -1, []),
             [{"severity": "info", "measures": {"without_leader": 1, "out_of_sync": 0}}]),
    Scenario(NAME, "fires", "out of sync, and no time", printed(None, 1, [1, 2]),
             [{"severity": "info", "measures": {"without_leader": 0, "out_of_sync": 1}}]),
    Scenario(NAME, "quiet", "the same in another order", printed(115, 1, [2, 1])),
    Scenario(NAME, "quiet", "all in sync, and no time", printed(None, 2, [1, 2, 3])),
    Scenario(NAME, "quiet", "a state that was concluded",
             printed(115, 2, [1, 2], how="inferred")),
    Scenario(NAME, "quiet", "a state whose end nobody saw", printed(115, 2, [1, 2], None)),
    Scenario(NAME, "boundary", "ten seconds after it began", printed(110, 2, [1, 2]), [{}]),
    Scenario(NAME, "boundary", "nine seconds after it began", printed(109, 2, [1, 2])),
    Scenario(NAME, "boundary", "ten seconds before it ended", printed(120, 2, [1, 2]), [{}]),
    Scenario(NAME, "boundary", "nine seconds before it ended", printed(121, 2, [1, 2])),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
