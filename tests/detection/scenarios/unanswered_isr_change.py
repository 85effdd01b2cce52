"""Leaders that ask for another ISR and hear nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, logs, only_state_changes, version
from tests.detection.scenarios import Scenario, from_logs
from tests.detection.scenarios.isr_storm import drop

NAME = "unanswered-isr-change"
Row = dict[str, Any]
# A wish of partition 9 that is answered at once: answers are logged here.
ANSWERED = (drop(10, 9), version(1, [1, 2], 10.1, partition=9))


def wishes(
    partitions: Iterable[int], wait: float | None = None, last: float = 10_000, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Ask at 100 seconds for each partition; each is answered after some time, or never."""
    some = list(partitions)
    answers = [] if wait is None else [version(2, [1, 2], 100 + wait, partition=p) for p in some]
    return partial(
        case, events=[ANSWERED[0], *(drop(100, p) for p in some)], isr=[ANSWERED[1], *answers],
        files=[logs("broker-1", last)], **more,
    )  # fmt: skip


def lines() -> str:
    """Write the log of a leader whose wishes go unheard from the fourth on."""
    shrink = (
        "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 480, endOffset: 500). Out of sync"
        " replicas: (brokerId: 3, endOffset: 420, lastCaughtUpTimeMs: 1781092780000)."
    )
    said = [(at, at, shrink) for at in range(8)]
    said += [(at, at, "ISR updated to 1,2 and version updated to 7") for at in range(4)]
    said += [(59, 9, "ISR updated to 1,2 and version updated to 7")]
    return "".join(
        f"[2026-06-10 12:00:{second:02d},123] INFO [Partition orders-{partition} broker=1] {text}"
        " (kafka.cluster.Partition)\n"
        for second, partition, text in sorted(said, key=lambda one: one[0])
    )


SCENARIOS = [
    Scenario(
        NAME, "fires", "never answered", wishes(range(3)),
        [{"severity": "medium", "confidence": "possible", "brokers": [1],
          "partitions": ["t-0", "t-1", "t-2"],
          "measures": {"asked": 3, "never_answered": 3, "longest_s": None}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-1/server.log": lines()}),
        [{"severity": "medium", "brokers": [1],
          "partitions": ["orders-4", "orders-5", "orders-6", "orders-7"]}],
    ),
    Scenario(
        NAME, "fires", "answered after half a minute", wishes(range(3), 30),
        [{"severity": "low", "measures": {"never_answered": 0, "longest_s": 30.0}}],
    ),
    Scenario(NAME, "boundary", "two of them", wishes(range(2))),
    Scenario(NAME, "boundary", "answered after ten seconds", wishes(range(3), 10)),
    Scenario(
        NAME, "boundary", "answered after eleven", wishes(range(3), 11), [{"severity": "low"}]
    ),
    Scenario(NAME, "quiet", "the logs end before an answer was due", wishes(range(9), last=110)),
    Scenario(
        NAME, "quiet", "the leader died in between",
        wishes(range(9), away=[absence(1, "crash", 105, 200)]),
    ),
    Scenario(
        NAME, "quiet", "a refusal is an answer",
        partial(case, isr=[ANSWERED[1]], events=[
            ANSWERED[0],
            *(drop(100, part) for part in range(9)),
            *(event(101 + part / 10, "broker-1", "isr_rejected", topic="t", partition=part,
                    broker=1) for part in range(9)),
        ]),
    ),
    Scenario(
        NAME, "quiet", "a version of Kafka that does not log answers",
        partial(case, events=[drop(100, part) for part in range(9)]),
    ),
    Scenario(
        NAME, "quiet", "asked again and again until it is answered",
        partial(case, isr=[ANSWERED[1], version(2, [1, 2], 109)],
                events=[ANSWERED[0], *(drop(second) for second in (100, 103, 106))]),
    ),
    Scenario(
        NAME, "blind", "only state-change logs",
        only_state_changes,
        reason="there is no brokers' log (server.log)",
    ),
]  # fmt: skip
