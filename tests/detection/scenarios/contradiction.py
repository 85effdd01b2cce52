"""Lines that contradict each other."""

from __future__ import annotations

from functools import partial
from typing import Any

from forensics.history.nodes.broker_states import EvidenceRow
from forensics.history.nodes.controller_terms import EpochConflict
from tests.detection.cases import SECOND, case, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "contradiction"
Row = dict[str, Any]


def breach(second: float = 10, partition: int = 0, **more: Any) -> Row:
    """Break the promise that an epoch has one leader."""
    line = int(second * 10) + partition
    plain: Row = {
        "topic": "t",
        "partition": partition,
        "invariant": "one leader per epoch",
        "detail": "epoch 4 is said to be led by 1 and by 2",
        "leader_epoch": 4,
        "started_at": int(second * SECOND),
        "count": 1,
        "alone": False,
        "evidence": [{"file": f"broker-{one}/server.log", "line": line} for one in (1, 2)],
    }
    return row("breaches", **(plain | more))


RIVALS: tuple[EvidenceRow, ...] = tuple(
    {"file": f"c-{at}", "line": at, "text": "", "rule": None, "at": at * SECOND, "what": None}
    for at in (5, 9)
)
LEADS = (
    "[2026-06-10 11:38:5{second},653] INFO [Broker id={broker}] Leader orders-0 starts at leader"
    " epoch 4 from offset 30 with high watermark 0 ISR [{broker}] addingReplicas []"
    " removingReplicas []. Previous leader epoch was 3. (state.change.logger)\n"
)
SAME = (
    "[2026-06-10 11:38:5{second},653] WARN [Broker id=1] Ignoring LeaderAndIsr request from"
    " controller 1 with correlation id 3 epoch 1 for partition orders-0 since its associated leader"
    " epoch 4 is not higher than the current leader epoch 4 (state.change.logger)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "two leaders of one epoch", partial(case, breaches=[breach()]),
        [{"severity": "medium", "partitions": ["t-0"],
          "measures": {"invariant": "one leader per epoch", "breaches": 1}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines",
        from_logs({f"broker-{broker}/state-change.log": LEADS.format(broker=broker, second=broker)
              for broker in (1, 2)}),
        [{"severity": "medium", "partitions": ["orders-0"]}],
    ),
    Scenario(
        NAME, "fires", "only a node that hung says so",
        partial(case, breaches=[breach(alone=True)]),
        [{"severity": "low", "confidence": "possible"}],
    ),
    Scenario(
        NAME, "fires", "two controllers of one epoch",
        partial(case, rivalries=[EpochConflict(4, (1, 2), (RIVALS[0], RIVALS[1]))]),
        [{"severity": "medium", "measures": {"epoch": 4}}],
    ),
    Scenario(
        NAME, "boundary", "as many as are looked at",
        partial(case, breaches=[breach(partition=part) for part in range(1000)]),
        [{"measures": {"breaches": 1000, "rows_not_looked_at": 0}}],
    ),
    Scenario(
        NAME, "boundary", "more than are looked at",
        partial(case, breaches=[breach(partition=part) for part in range(1001)]),
        [{"measures": {"breaches": 1000, "rows_not_looked_at": 1}}],
    ),
    Scenario(
        NAME, "quiet", "a harmless repeat from the controller: equal epochs",
        from_logs({"broker-1/state-change.log": LEADS.format(broker=1, second=1)
              + SAME.format(second=2) + SAME.format(second=3)}),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
