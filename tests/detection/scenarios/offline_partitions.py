"""Partitions without a leader: nobody can write to them or read from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from forensics.detection.context import DetectionContext
from tests.detection.cases import Row, absence, case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "offline-partitions"


def lost(begin: float, end: float | None, partition: int = 0, **more: object) -> dict[str, object]:
    """Make an epoch without a leader, after broker 1."""
    return epoch(4, -1, begin, end, partition=partition, previous_leader=1, clean=None) | more


CHANGE = (
    "[2026-11-18 11:{at},000] INFO [Controller id=3 epoch=1] Changed partition orders-0 from"
    " OnlinePartition to {to} with state LeaderAndIsr(leader={leader}, leaderEpoch={epoch},"
    " isr=List(1), zkVersion={epoch}) (state.change.logger)\n"
)
LINES = {
    "broker-3/state-change.log": CHANGE.format(at="40:00", to="OnlinePartition", leader=1, epoch=4)
    + CHANGE.format(at="41:00", to="OfflinePartition", leader=-1, epoch=5)
    + CHANGE.format(at="41:27", to="OnlinePartition", leader=1, epoch=6)
}
DEAD = absence(1, "crash", 100, 160)


def led(begin: float, end: float | None, leader: int = 1, partition: int = 0) -> Row:
    """Let a broker lead a partition."""
    return epoch(leader, leader, begin, end, partition=partition, replicas=[1, 2, 3])


def lost_in_turn(ends: Sequence[float]) -> Callable[[Path], DetectionContext]:
    """Let one broker after the other die, nine seconds before others take over from it."""
    rows = [
        row
        for one, end in enumerate(ends, 1)
        for row in (led(10, end, one, one), led(end, None, 9, one))
    ]
    away = [absence(one, "crash", end - 9, end + 9) for one, end in enumerate(ends, 1)]
    return partial(case, leadership=rows, away=away)


STOPPED = absence(1, "controlled", 99, 119)

FAILED = (
    "[2026-11-18 11:41:00,0{0:02d}] ERROR [Controller id=3 epoch=1] Controller 3 epoch 1 failed to"
    " change state for partition orders-{0} from OfflinePartition to OnlinePartition"
    " (state.change.logger)\nkafka.common.StateChangeFailedException: Failed to elect leader for"
    " partition orders-{0} under strategy OfflinePartitionLeaderElectionStrategy(false)\n"
)
FAILED_ELECTIONS = {"broker-3/state-change.log": "".join(map(FAILED.format, range(53)))}
DEPOSED = {
    "broker-3/state-change.log": FAILED_ELECTIONS["broker-3/state-change.log"].replace(
        "Failed to elect leader for", "The controller was deposed while it wrote"
    )
}
HANDED_OVER = {
    "broker-3/state-change.log": FAILED_ELECTIONS["broker-3/state-change.log"].replace(
        "from OfflinePartition", "from OnlinePartition"
    )
}


def failed(second: float, **more: object) -> Row:
    """Let a controller fail to elect a leader."""
    facts = {"topic": "t", "partition": 9, "to_state": "OnlinePartition"} | more
    return event(second, "broker-3", "status_change_failed", from_state="OfflinePartition", **facts)


SCENARIOS = [
    Scenario(
        NAME, "fires", "nothing but elections that failed", from_logs(FAILED_ELECTIONS),
        [{"severity": "medium", "measures": {"partitions": 53, "longest_s": None},
          "title": "53 partitions got no leader: no in-sync replica was alive"}],
    ),
    Scenario(
        NAME, "fires", "elections that failed for another reason name none",
        from_logs(DEPOSED),
        [{"severity": "medium", "title": "53 partitions got no leader"}],
    ),
    Scenario(
        NAME, "boundary", "a failed election, tried again within a minute, and after more",
        partial(case, events=[failed(100), failed(160), failed(220.1)], kraft=False),
        [{"severity": "medium", "partitions": ["t-9"], "measures": {"partitions": 1}}] * 2,
    ),
    Scenario(
        NAME, "fires", "elections that fail as brokers are shut down",
        partial(case, events=[failed(100)], away=[absence(1, "controlled", 99)], kraft=False),
        [{"severity": "info", "measures": {"planned": True}}],
    ),
    Scenario(
        NAME, "boundary", "a controller that was started two minutes before, or a little more",
        partial(case, events=[event(10, "broker-3", "process_started"), failed(130),
                              failed(131, partition=8)], kraft=False),
        [{"partitions": ["t-8"]}],
    ),
    Scenario(
        NAME, "quiet", "nobody to hand over to in a shutdown", from_logs(HANDED_OVER),
    ),
    Scenario(
        NAME, "fires", "an outage that the states tell is told once",
        partial(case, events=[failed(101)], leadership=[lost(100, 107, 9)], kraft=False),
        [{"severity": "high", "measures": {"longest_s": 7.0}}],
    ),
    Scenario(
        NAME, "fires", "a stroke",
        partial(case, leadership=[lost(100, 107, 9), lost(101, 104, 10)]),
        [{"severity": "high", "brokers": [1], "partitions": ["t-10", "t-9"],
          "measures": {"partitions": 2, "partition_seconds": 10.0, "longest_s": 7.0, "still": 0}}],
    ),
    Scenario(
        NAME, "fires", "a controller's own words", from_logs(LINES),
        [{"severity": "high", "partitions": ["orders-0"], "measures": {"longest_s": 27.0}}],
    ),
    Scenario(
        NAME, "fires", "to the end of the logs", partial(case, leadership=[lost(100, None)]),
        [{"severity": "critical", "measures": {"still": 1}}],
    ),
    Scenario(
        NAME, "boundary", "for a moment at the end of the logs",
        partial(case, leadership=[lost(100, None)], files=[logs("broker-1", 100.9, role="broker")]),
        [{"severity": "low", "measures": {"still": 1}}],
    ),
    Scenario(
        NAME, "boundary", "for a second at the end of the logs",
        partial(case, leadership=[lost(100, None)], files=[logs("broker-1", 101, role="broker")]),
        [{"severity": "critical"}],
    ),
    Scenario(
        NAME, "boundary", "as short as clients bear", partial(case, leadership=[lost(100, 105)]),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "a little longer", partial(case, leadership=[lost(100, 105.001)]),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "as long as one more is short",
        partial(case, leadership=[lost(100, 106)]), [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "gone and chosen anew in two strokes",
        partial(case, leadership=[lost(100, 100.999)]), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "a whole second", partial(case, leadership=[lost(100, 101)]),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "a moment", partial(case, leadership=[lost(100, 100.01)]),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "a minute apart is one stroke",
        partial(case, leadership=[lost(100, 107), lost(167, 174, 1)]), [{}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart",
        partial(case, leadership=[lost(100, 107), lost(167.001, 174, 1)]), [{}, {}],
    ),
    Scenario(
        NAME, "boundary", "a stroke cannot be shorter by a second",
        partial(case, leadership=[lost(100, 107), lost(166.5, 174, 1)]), [{}],
    ),
    Scenario(
        NAME, "quiet", "its leader was shut down in order, and nobody else was in sync",
        partial(case, leadership=[lost(100, 120)], away=[STOPPED]), [{"severity": "info"}],
    ),
    Scenario(
        NAME, "boundary", "a dead leader, replaced in time",
        partial(case, leadership=[led(10, 130), led(130, None, 2)], away=[DEAD]),
        [{"severity": "medium", "measures": {"ways": {"leader_dead": 1}}}],
    ),
    Scenario(
        NAME, "boundary", "a dead leader, replaced late",
        partial(case, leadership=[led(10, 130.5), led(130.5, None, 2)], away=[DEAD]),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "a dead leader, replaced later by a second",
        partial(case, leadership=[led(10, 129.5), led(129.5, None, 2)], away=[DEAD]),
        [{"severity": "medium"}],
    ),
    *(
        Scenario(NAME, "boundary", f"{len(ends)} leaders lost", lost_in_turn(ends),
        [{"severity": severity, "measures": {"losses": len(ends)}}])
        for ends, severity in (([109, 139], "medium"), ([109, 139, 169], "high"))
    ),
    Scenario(NAME, "quiet", "a leader all along", partial(case, leadership=[epoch(1, 2, 1, 9)])),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
