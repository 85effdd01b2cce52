"""Brokers that came back without the records they had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, absence, case, event, logs, only_state_changes, version
from tests.detection.scenarios import Scenario

NAME = "emptied-logs"
Row = dict[str, Any]


def came_back(
    created: float = 130, *, more: Sequence[Row] = (), others: Sequence[int] = (), **tables: Any
) -> Callable[[Path], DetectionContext]:
    """Broker 2 is away from 100 to 130, and creates its log of t-0; nobody else is in sync."""
    isr = [2, *others]
    place: Row = {"topic": "t", "partition": 0}
    made = event(created, "broker-2", "log_created", **place)
    leads = event(created + 1, "broker-2", "partition_state", **place, leader=2, leader_epoch=1,
                  isr=isr, log_end=0)  # fmt: skip
    usual: dict[str, Any] = {
        "isr": [version(0, isr, 10)],
        "away": [absence(2, "crash", 100, 130)],
        "brokers": {2: [Span("starting", 125 * SECOND, 130 * SECOND)]},
        "files": [logs("broker-2", 400, role="broker", records=9)],
    }
    return partial(case, events=[made, leads, *more], **(usual | tables))


READ = event(140, "app", "consumer_saw_truncation", topic="t", partition=0, position=144)

MADE = event(20, "broker-2", "log_created", topic="t", partition=0)

SCENARIOS = [
    Scenario(
        NAME, "fires", "a consumer had read further than the log reaches now",
        came_back(more=[READ, MADE]),
        [{"severity": "critical", "brokers": [2], "partitions": ["t-0"],
          "title": "Broker 2 came back without its logs of 1 partition;"
                   " at least 144 records of 1 partition gone",
          "measures": {"lost": 1, "records_min": 144}}],
    ),
    Scenario(
        NAME, "fires", "retention had deleted some of them before",
        came_back(more=[
            READ, MADE,
            event(50, "broker-2", "log_start_moved", topic="t", partition=0, position=100),
        ]),
        [{"severity": "critical", "measures": {"records_min": 44}}],
    ),
    Scenario(
        NAME, "fires", "an offset says nothing where no line tells where the log began",
        came_back(more=[READ]), [{"severity": "high", "measures": {"records_min": 0}}],
    ),
    Scenario(
        NAME, "fires", "no line tells whether there was anything in it",
        came_back(), [{"severity": "high", "measures": {"lost": 1, "records_min": 0}}],
    ),
    Scenario(
        NAME, "fires", "the others had the records",
        came_back(others=[1]), [{"severity": "medium", "measures": {"lost": 0, "created": 1}}],
    ),
    Scenario(
        NAME, "boundary", "created two minutes after the return",
        came_back(250), [{"severity": "high"}],
    ),
    Scenario(NAME, "boundary", "and a moment later than that", came_back(250.1)),
    Scenario(
        NAME, "boundary", "a topic that was made a minute before it went",
        came_back(isr=[version(0, [2], 40)]),
    ),
    Scenario(
        NAME, "boundary", "a moment earlier, so that it must have had the log",
        came_back(isr=[version(0, [2], 39.999)]), [{"severity": "high"}],
    ),
    Scenario(
        NAME, "fires", "a topic that was made just before it went, and it made the log",
        came_back(
            isr=[version(0, [2], 90)],
            more=[event(91, "broker-2", "log_created", topic="t", partition=0)],
        ),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "quiet", "a broker that was frozen, and started nothing",
        came_back(away=[absence(2, "pause", 100, 130)], brokers={2: []}),
    ),
    Scenario(
        NAME, "quiet", "a topic that was created while the broker was away",
        came_back(isr=[version(0, [2], 110)]),
    ),
    *(
        Scenario(
            NAME, "quiet", f"a process that went on ({kind}) creates what was made meanwhile",
            came_back(away=[absence(2, kind, 100, 130)]),
        )
        for kind in ("pause", "isolated", "fenced")
    ),
    Scenario(
        NAME, "quiet", "a topic that was deleted meanwhile, and created again",
        came_back(isr=[version(0, [2], 10), version(0, [2], 110, incarnation=1)]),
    ),
    Scenario(
        NAME, "quiet", "a replica that the broker got when it was back",
        came_back(isr=[version(0, [1], 10)]),
    ),
    Scenario(NAME, "quiet", "a log that was there", came_back(more=[], away=[])),
    Scenario(
        NAME, "blind", "only state-change logs",
        only_state_changes,
        reason="there is no brokers' log (server.log)",
    ),
]  # fmt: skip
