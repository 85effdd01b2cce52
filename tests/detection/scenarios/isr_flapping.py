"""Partitions whose ISR shrinks and grows again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, only_state_changes, version
from tests.detection.scenarios import Scenario, from_logs
from tests.detection.scenarios.isr_storm import drop

NAME = "isr-flapping"
Row = dict[str, Any]
SHRINKING = (
    "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 400, endOffset: 500). Out of sync"
    " replicas: (brokerId: 3, endOffset: 430, lastCaughtUpTimeMs: 1781092780000)."
)


def at(seconds: Iterable[float], **more: Any) -> Callable[[Path], DetectionContext]:
    """Let broker 1 drop broker 3 from one partition at some moments."""
    return partial(case, events=[drop(second) for second in seconds], **more)


def lines(cycles: int) -> str:
    """Write what a leader logs whose follower falls out again and again."""
    return "".join(
        f"[2026-06-10 12:{15 * turn:02d}:{second},123] INFO [Partition orders-0 broker=1] {text}"
        " (kafka.cluster.Partition)\n"
        for turn in range(cycles)
        for second, text in (
            (10, SHRINKING),
            (11, f"ISR updated to 1,2 and version updated to {7 + 2 * turn}"),
            (40, f"ISR updated to 1,2,3 and version updated to {8 + 2 * turn}"),
        )
    )


def in_and_out(leaders: Iterable[int]) -> list[Row]:
    """Let broker 3 leave and join the ISR of one partition of each leader, three times."""
    return [
        version(2 * turn + out, [1, 2] if out else [1, 2, 3], 100 + 600 * turn + 30 * out, end,
                partition=leader, leader=leader)
        for leader in leaders
        for turn in range(4)
        for out, end in ((0, 130 + 600 * turn), (1, 700 + 600 * turn))
    ]  # fmt: skip


SCENARIOS = [
    Scenario(
        NAME, "fires", "three times within the hour", at([100, 1000, 2000]),
        [{"severity": "medium", "brokers": [3], "partitions": ["t-0"],
          "measures": {"slow_replica": 3, "cycles": 3, "shrinks": 3, "leaders": [1]}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-1/server.log": lines(3)}),
        [{"severity": "medium", "brokers": [3], "partitions": ["orders-0"],
          "measures": {"cycles": 3, "widest_gap": 70}}],
    ),
    Scenario(
        NAME, "fires", "each follower is named with its partitions",
        partial(case, events=[
            drop(second + part, part, gone=[2 + part % 2])
            for second in (100, 1000, 2000) for part in range(3)
        ]),
        [{"brokers": [2], "partitions": ["t-0", "t-2"]},
         {"brokers": [3], "partitions": ["t-1"]}],
    ),
    Scenario(NAME, "boundary", "two times", at([100, 1000])),
    Scenario(NAME, "boundary", "twenty minutes apart", at([100, 1300, 2500]), [{"brokers": [3]}]),
    Scenario(NAME, "boundary", "longer apart", at([100, 1301, 2502])),
    Scenario(
        NAME, "boundary", "a broker that hung a minute before each time",
        at([160, 1000, 2000], away=[absence(3, "pause", 90, 100), absence(3, "pause", 930, 940)]),
    ),
    Scenario(
        NAME, "boundary", "a broker that hung longer before",
        at([161, 1001, 2000], away=[absence(3, "pause", 90, 100), absence(3, "pause", 930, 940)]),
        [{"brokers": [3]}],
    ),
    Scenario(
        NAME, "quiet", "each follower comes back once after a roll",
        partial(case, events=[drop(100 + part, part) for part in range(30)]),
    ),
    Scenario(
        NAME, "quiet", "what a storm tells is not told twice",
        at([100 + 20 * turn for turn in range(10)]),
    ),
    Scenario(
        NAME, "quiet", "a broker that several leaders drop is told of as flapping",
        partial(
            case, isr=in_and_out([1, 2]),
            events=[
                *(drop(130 + 600 * turn, leader, leader) for turn in range(4) for leader in (1, 2)),
                *(event(1, "broker-9", "partition_state") | {
                    "file": "broker-9/state-change.log", "line": 10_000 + number,
                } for number in range(8)),
            ],
        ),
    ),
    Scenario(
        NAME, "quiet", "a leader that is none and asks for ever",
        partial(case, events=[
            one
            for turn in range(9)
            for one in (
                drop(100 + 100 * turn),
                event(100.1 + 100 * turn, "broker-1", "isr_rejected", topic="t", partition=0,
                      broker=1, partition_epoch=5),
            )
        ]),
    ),
    Scenario(
        NAME, "blind", "only state-change logs",
        only_state_changes,
        reason="there is no brokers' log (server.log)",
    ),
]  # fmt: skip
