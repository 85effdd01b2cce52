"""Leaders that drop followers from the ISR in great numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, only_state_changes, version
from tests.detection.scenarios import Scenario, from_logs

NAME = "isr-storm"
Row = dict[str, Any]


def drop(
    second: float, partition: int = 0, leader: int = 1, gone: Sequence[int] = (3,), **more: Any
) -> Row:
    """Let a leader drop followers from one partition of topic t."""
    left = [one for one in (1, 2, 3) if one not in gone]
    facts = {"topic": "t", "partition": partition, "broker": leader, "leader": leader}
    facts |= {"previous_isr": [1, 2, 3], "isr": left, "log_end": 500}
    return event(second, f"broker-{leader}", "isr_proposed", **(facts | more))


def drops(
    seconds: Iterable[float], *, back: float | None = None, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let one partition after the other lose broker 3; all are whole again at some moment."""
    moments = list(seconds)
    some = [drop(second, at, 1 + at % 2) for at, second in enumerate(moments)]
    end = moments[-1] if back is None else back
    whole = [
        one
        for at, second in enumerate(moments)
        for one in (
            version(1, [1, 2], second, end, partition=at),
            version(2, [1, 2, 3], end, partition=at),
        )
    ]
    return partial(case, events=some, isr=whole, **more)


def early(count: int) -> Iterable[float]:
    """Give moments within ten seconds."""
    return [100 + at for at in range(count)]


def lines() -> str:
    """Write what a leader logs whose follower is slow on twelve partitions."""
    found = []
    for at in range(12):
        found.append(
            f"[2026-06-10 12:00:{at + 10},123] INFO [Partition orders-{at} broker=1] Shrinking ISR"
            " from 1,2,3 to 1,2. Leader: (highWatermark: 480, endOffset: 500). Out of sync"
            " replicas: (brokerId: 3, endOffset: 420, lastCaughtUpTimeMs: 1781092780000)."
            " (kafka.cluster.Partition)"
        )
        found.append(
            f"[2026-06-10 12:00:{at + 10},223] INFO [Partition orders-{at} broker=1] ISR updated to"
            " 1,2 and version updated to 7 (kafka.cluster.Partition)"
        )
    found += [
        f"[2026-06-10 12:04:{at + 10},123] INFO [Partition orders-{at} broker=1] ISR updated to"
        " 1,2,3 and version updated to 8 (kafka.cluster.Partition)"
        for at in range(12)
    ]
    return "\n".join(found) + "\n"


SCENARIOS = [
    Scenario(
        NAME, "fires", "many partitions at once, and long", drops(early(10), back=300),
        [{
            "severity": "medium", "brokers": [3],
            "title": "Broker 3 dropped from the ISR 10 times on 10 partitions",
            "measures": {"shrinks": 10, "expands": 10, "partitions": 10, "slow_replicas": [3],
                         "cut_off_leaders": [], "still_short": 0},
        }],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-1/server.log": lines()}),
        [{
            "severity": "medium", "brokers": [3],
            "measures": {"shrinks": 12, "expands": 12, "partitions": 12, "slow_replicas": [3],
                         "widest_gap": 80},
        }],
    ),
    Scenario(
        NAME, "fires", "one partition again and again",
        partial(case, events=[drop(100 + 30 * at) for at in range(10)]),
        [{"severity": "medium", "partitions": ["t-0"],
          "measures": {"partitions": 1, "most_of_one_partition": 10, "widest_gap": None}}],
    ),
    Scenario(
        NAME, "fires", "a leader that nobody can read from is the patient, not its followers",
        partial(case, events=[drop(100 + at, at, 1, (2, 3)) for at in range(10)]),
        [{"brokers": [1], "measures": {"slow_replicas": [], "cut_off_leaders": [1]}}],
    ),
    Scenario(
        NAME, "fires", "short of a replica to the end",
        partial(
            case,
            events=[drop(second, at) for at, second in enumerate(early(10))],
            isr=[version(1, [1, 2], 100, partition=at) for at in range(10)],
        ),
        [{"severity": "medium", "measures": {"still_short": 10, "expands": 0}}],
    ),
    Scenario(NAME, "boundary", "nine drops", drops(early(9), back=300)),
    Scenario(
        NAME, "boundary", "a minute between two of them",
        drops([*early(5), *[164 + at for at in range(5)]], back=300),
        [{"measures": {"shrinks": 10}}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute between two of them",
        drops([*early(5), *[165 + at for at in range(5)]], back=300),
    ),
    Scenario(
        NAME, "boundary", "over after three lag time-outs", drops(early(10), back=190),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "over just after that", drops(early(10), back=191),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "a broker that hung is told of by itself",
        drops([160] * 10, back=300, away=[absence(3, "pause", 90, 100)]),
        [{"severity": "low", "measures": {"shrinks": 10}}],
    ),
    Scenario(
        NAME, "boundary", "a broker that hung long before explains nothing",
        drops([161] * 10, back=300, away=[absence(3, "pause", 90, 100)]),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "a leader that hung finds nobody fetching",
        drops([100] * 10, back=300, away=[absence(1, "pause", 160, 170),
                                          absence(2, "pause", 90, 95)]),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "a rolling restart: each follower is stopped on purpose",
        drops(early(10), back=300, away=[absence(3, "controlled", 95, 130)]),
    ),
    Scenario(
        NAME, "quiet", "ISRs that the controller makes smaller as a broker dies",
        partial(case, isr=[version(at % 2, [1, 2, 3][: 3 - at % 2], at, at + 1, partition=at // 2)
                           for at in range(40)]),
    ),
    Scenario(
        NAME, "quiet", "followers that come back",
        partial(case, events=[
            drop(100 + at, at, previous_isr=[1, 2], isr=[1, 2, 3]) for at in range(20)
        ]),
    ),
    Scenario(
        NAME, "blind", "only state-change logs",
        only_state_changes,
        reason="there is no brokers' log (server.log)",
    ),
]  # fmt: skip
