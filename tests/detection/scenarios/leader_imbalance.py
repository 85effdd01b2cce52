"""Leadership that piles up, and preferred elections that do not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, epoch, event, logs, version
from tests.detection.scenarios import Scenario, from_logs

NAME = "leader-imbalance"
# Where the logs of these cases end.
END = 10_000
Row = dict[str, Any]
# The first replica of some partitions, who leads them, and how many there are.
Lot = tuple[int, int, int]
# Broker 1 leads twice as many as it should, broker 2 nothing.
PILE: Sequence[Lot] = [(1, 1, 10), (2, 1, 10), (3, 3, 10)]


def led(
    lots: Sequence[Lot],
    begin: float = 100,
    events: Sequence[Row] = (),
    isr: Sequence[int] = (1, 2, 3),
    given_back: float | None = None,
) -> Callable[[Path], DetectionContext]:
    """Let partitions be led, with an ISR since some moment."""
    every = [lot for lot in lots for _ in range(lot[2])]
    return partial(
        case,
        events=events,
        isr=[version(at, isr, begin, partition=at, leader=None) for at in range(len(every))],
        leadership=[
            epoch(
                5, leader, 50, given_back, partition=at,
                replicas=[first, *(one for one in (1, 2, 3) if one != first)],
            )
            for at, (first, leader, _) in enumerate(every)
        ],
    )  # fmt: skip


WHY_NOT = "Look in the controller's log for why it does not give them back: it should by itself."
EACH = "leader.imbalance.check.interval.seconds"
OFF = event(1, "broker-1", "setting_seen", setting="auto.leader.rebalance.enable", value="false")
FAILED = event(900, "broker-1", "preferred_election_failed", topic="t", partition=3)


CONTROL = "(org.apache.kafka.controller.ReplicationControlManager)"
CREATED = (
    "Replayed PartitionRecord for new partition orders-{at} with topic ID TMlCK9LzTRuSMBv-gcB_jw"
    " and PartitionRegistration(replicas=[2, 1], directories=[A10eDOaswrK0gr6IKzU5ZA,"
    " CkXFJeR3bAP_5S6Sw23uVA], isr=[2, 1], removingReplicas=[], addingReplicas=[], elr=[],"
    " lastKnownElr=[], leader=2, leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)."
)
CHANGE = "partition change for orders-{at} with topic ID TMlCK9LzTRuSMBv-gcB_jw: {change}"
MOVED = "isr: [2, 1] -> [1], leader: 2 -> 1, leaderEpoch: 0 -> 1, partitionEpoch: 0 -> 1"
BACK = "isr: [1] -> [1, 2], partitionEpoch: 1 -> 2"


def lines() -> str:
    """Write how twelve partitions lose their leader, which comes back and does not lead again."""
    told_of = (
        (0, CREATED),
        (10, CHANGE.replace("{change}", MOVED)),
        (20, CHANGE.replace("{change}", BACK)),
    )
    found = [
        f"[2026-06-10 12:00:{second:02d},123] INFO [QuorumController id=3001] {text} {CONTROL}\n"
        for second, template in told_of
        for text in (template.replace("{at}", str(at)) for at in range(12))
    ]
    last = CREATED.replace("orders-{at}", "other-0")
    found.append(f"[2026-06-10 12:20:00,123] INFO [QuorumController id=3001] {last} {CONTROL}\n")
    return "".join(found)


SCENARIOS = [
    Scenario(
        NAME, "fires", "one broker leads everything", led([(1, 1, 6), (2, 1, 6), (3, 1, 6)]),
        [{"severity": "low", "confidence": "confirmed", "brokers": [1, 2, 3],
          "title": "Leadership piles up on broker 1: it leads 18 partitions, an even share would"
                   " be 6",
          "measures": {"misplaced": 12, "most_led": 18, "waiting": {"2": 6, "3": 6},
                       "leading_instead": {"1": 12}, "automatic": None}}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines",
        from_logs({"controller-3001/controller.log": lines()}),
        [{"severity": "low", "brokers": [1, 2], "measures": {"misplaced": 12, "most_led": 12}}],
    ),
    Scenario(
        NAME, "fires", "nobody is to give leadership back",
        led(PILE, events=[OFF]),
        [{"severity": "low", "measures": {"automatic": False}}],
    ),
    Scenario(
        NAME, "fires", "elections were tried, and failed",
        led(PILE, events=[FAILED]),
        [{"severity": "low", "measures": {"failed_elections": 1}}],
    ),
    Scenario(NAME, "boundary", "twice an even share", led(PILE), [{"severity": "low"}]),
    Scenario(
        NAME, "boundary", "less than that",
        led([(1, 1, 10), (2, 1, 9), (2, 2, 1), (3, 2, 1), (3, 3, 9)]),
        [{"severity": "info", "brokers": [2, 3], "measures": {"misplaced": 10}}],
    ),
    Scenario(NAME, "boundary", "five partitions", led([(1, 1, 5), (2, 1, 5), (3, 3, 5)]), [{}]),
    Scenario(NAME, "boundary", "four partitions", led([(1, 1, 5), (2, 1, 4), (3, 3, 5)])),
    Scenario(
        NAME, "boundary", "a tenth of a broker's partitions",
        led([(1, 1, 100), (2, 1, 10), (2, 2, 90), (3, 3, 100)]),
    ),
    Scenario(
        NAME, "boundary", "more than a tenth",
        led([(1, 1, 100), (2, 1, 11), (2, 2, 89), (3, 3, 100)]), [{"severity": "info"}],
    ),
    Scenario(NAME, "boundary", "for as long as three looks", led(PILE, END - 900),
             [{"severity": "low"}]),
    Scenario(NAME, "boundary", "for less", led(PILE, END - 899)),
    Scenario(
        NAME, "quiet", "the first replica is not in sync", led([(2, 1, 30)], isr=[1, 3]),
    ),
    Scenario(
        NAME, "fires", "it was given back before the logs end", led(PILE, given_back=2000),
        [{"severity": "low", "end": 2_000_000_000,
          "actions": ["Nothing to do: leadership was given back."]}],
    ),
    Scenario(NAME, "quiet", "it was given back soon", led(PILE, given_back=999)),
    Scenario(
        NAME, "fires", "the controller should do it, and looks more often",
        led(PILE, END - 90, [
            OFF | {"value": "true"},
            event(2, "broker-1", "setting_seen", setting=EACH, value="30"),
        ]),
        [{"severity": "low", "measures": {"automatic": True}, "actions": [WHY_NOT]}],
    ),
    Scenario(NAME, "quiet", "all lead what they should", led([(1, 1, 9), (2, 2, 9), (3, 3, 9)])),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
