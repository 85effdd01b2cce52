"""Partitions without a leader: nobody can write to them or read from them."""

from __future__ import annotations

from functools import partial

from tests.detection.cases import absence, case, epoch, logs
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
STOPPED = absence(1, "controlled", 99, 119)

SCENARIOS = [
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
        partial(case, leadership=[lost(100, 107), lost(160, 167, 1)]), [{}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart",
        partial(case, leadership=[lost(100, 107), lost(160.001, 167, 1)]), [{}, {}],
    ),
    Scenario(
        NAME, "boundary", "a stroke cannot be shorter by a second",
        partial(case, leadership=[lost(100, 107), lost(159.5, 167, 1)]), [{}],
    ),
    Scenario(
        NAME, "quiet", "its leader was shut down in order, and nobody else was in sync",
        partial(case, leadership=[lost(100, 120)], away=[STOPPED]), [{"severity": "info"}],
    ),
    Scenario(NAME, "quiet", "a leader all along", partial(case, leadership=[epoch(1, 2, 1, 9)])),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
