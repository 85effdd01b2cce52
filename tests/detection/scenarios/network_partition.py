"""Two brokers that could not reach each other, while the others reached both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Absence
from tests.detection.cases import SECOND, absence, case, logs, version
from tests.detection.scenarios import Scenario
from tests.detection.scenarios.isr_storm import Row, drop

NAME = "network-partition"
SERVERS = [logs(f"broker-{one}", 10_000, role="broker", records=9) for one in (1, 2, 3)]


def mutual(
    each: int = 3,
    *more: Row,
    apart: float = 1,
    away: Sequence[Absence] = (),
    heard: Sequence[float] = (),
    back: float | None = None,
) -> Callable[[Path], DetectionContext]:
    """Let brokers 2 and 3 drop each other from some partitions."""
    rows = [
        drop(100 + apart * at, 2 * at + (leader == 3), leader=leader, gone=[5 - leader])
        for at in range(each)
        for leader in (2, 3)
    ]
    for line, second in zip(rows, heard, strict=False):
        gone = 5 - line["broker"]
        text = f"(brokerId: {gone}, endOffset: 7, lastCaughtUpTimeMs: {round(second * 1000)})"
        line["detail"] = text
    isr = [
        one
        for at in range(2 * each if back is not None else 0)
        for one in (version(1, [1, 2], 100, back, partition=at),
                    version(2, [1, 2, 3], back or 0, partition=at))
    ]  # fmt: skip
    return partial(case, files=SERVERS, events=[*rows, *more], away=away, isr=isr)


SCENARIOS = [
    Scenario(
        NAME, "fires", "two that drop each other", mutual(),
        [{"severity": "medium", "brokers": [2, 3], "measures": {"shrinks": 6, "partitions": 6}}],
    ),
    Scenario(
        NAME, "fires", "from when on they had not heard each other: the lines of the drops say it",
        mutual(heard=[72.5, 71, 12.3]),
        [{"begin": round(72.5 * SECOND), "measures": {"dropped_from": "1970-01-01T00:01:40.000Z"}}],
    ),
    Scenario(
        NAME, "boundary", "who lagged for long before tells nothing of the link",
        mutual(heard=[39]), [{"begin": 100 * SECOND}],
    ),
    Scenario(NAME, "boundary", "twice each way", mutual(2), [{}]),
    Scenario(NAME, "boundary", "once each way", mutual(1)),
    Scenario(NAME, "boundary", "a minute apart", mutual(3, apart=60), [{}]),
    Scenario(NAME, "boundary", "more than a minute apart", mutual(3, apart=60.5)),
    Scenario(
        NAME, "quiet", "one way only: a slow follower",
        partial(case, files=SERVERS, events=[
            drop(100 + at, at, leader=2, gone=[3]) for at in range(6)
        ]),
    ),
    Scenario(
        NAME, "quiet", "a third one drops it, too",
        mutual(3, *(drop(101 + at, 20 + at, leader=1, gone=[3]) for at in range(4))),
    ),
    Scenario(
        NAME, "quiet", "one of them hung",
        mutual(away=[absence(3, "pause", 90, 110)]),
    ),
    Scenario(
        NAME, "boundary", "one of them was stopped a minute before",
        mutual(away=[absence(3, "controlled", 10, 41)]),
    ),
    Scenario(
        NAME, "boundary", "one of them was stopped longer before",
        mutual(apart=0, away=[absence(3, "controlled", 10, 39.5)]), [{}],
    ),
    Scenario(
        NAME, "fires", "its brokers are shut down half a minute later, which takes nobody out",
        mutual(away=[absence(one, "controlled", 135) for one in (1, 2, 3)]),
        [{"measures": {"shrinks": 6, "partitions": 6}}],
    ),
    Scenario(
        NAME, "fires", "one partition that nobody wrote to before drops its follower later",
        mutual(3, drop(170, 30, leader=2, gone=[3]), back=180),
        [{"measures": {"shrinks": 7, "partitions": 7}}],
    ),
    Scenario(
        NAME, "blind", "only controllers' logs",
        partial(case, files=[logs("controller-1", 100, role="controller", records=9)]),
        reason="there is no brokers' log (server.log) in the archive",
    ),
]  # fmt: skip
