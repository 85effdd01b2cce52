"""Leaders that were not in sync, and all that only looks like one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "unclean-election"
Row = dict[str, Any]


def unclean(begin: float = 100, number: int = 2, **more: Any) -> Row:
    """Make the epoch in which broker 2 leads uncleanly, after broker 1."""
    plain: Row = {"clean": False, "election": "unclean", "previous_leader": 1, "log_end": 400}
    return epoch(number, 2, begin, **(plain | more))


def log_event(second: float, node: str, kind: str, **facts: Any) -> Row:
    """Say something of the partition's log."""
    return event(second, node, kind, topic="t", partition=0, **facts)


def elected(*rows: Row, back: int | None = None) -> Callable[[Path], DetectionContext]:
    """Elect; the old leader comes back with a log of so many records, or never does."""
    events = [] if back is None else [log_event(150, "broker-1", "log_loaded", log_end=back)]
    return partial(case, leadership=[epoch(1, 1, 1), *rows], events=events)


CHANGE = (
    "[2026-06-10 11:38:{second},321] INFO [QuorumController id=3001] {word}partition change for"
    " orders-0 with topic ID TMlCK9LzTRuSMBv-gcB_jw: {change} "
    "(org.apache.kafka.controller.ReplicationControlManager)\n"
)
CREATED = (
    "[2026-06-10 11:38:11,512] INFO [QuorumController id=3001] Replayed PartitionRecord for new"
    " partition orders-0 with topic ID TMlCK9LzTRuSMBv-gcB_jw and PartitionRegistration("
    "replicas=[1, 2], directories=[A10eDOaswrK0gr6IKzU5ZA, CkXFJeR3bAP_5S6Sw23uVA], isr=[1, 2],"
    " removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=1,"
    " leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)."
    " (org.apache.kafka.controller.ReplicationControlManager)\n"
)
OFFLINE = CHANGE.format(
    second=40, word="", change="isr: [1, 2] -> [], leader: 1 -> -1, leaderEpoch: 0 -> 1, elr: []"
    " -> [1], partitionEpoch: 0 -> 1",
)  # fmt: skip
CHOSEN = CHANGE.format(
    second=51, word="UNCLEAN ", change="isr: [] -> [2], leader: -1 -> 2, leaderRecoveryState:"
    " RECOVERED -> RECOVERING, leaderEpoch: 1 -> 2, elr: [1] -> [], partitionEpoch: 1 -> 2",
)  # fmt: skip
LAST_KNOWN = CHANGE.format(
    second=51, word="UNCLEAN ", change="isr: [] -> [2], leader: -1 -> 2, leaderRecoveryState:"
    " RECOVERED -> RECOVERING, leaderEpoch: 1 -> 2, lastKnownElr: [2] -> [],"
    " partitionEpoch: 1 -> 2",
)  # fmt: skip
ELIGIBLE = CHANGE.format(
    second=51, word="", change="isr: [] -> [1], leader: -1 -> 1, leaderEpoch: 1 -> 2, elr: [1] ->"
    " [], partitionEpoch: 1 -> 2",
)  # fmt: skip
UNFENCED = (
    "[2026-06-10 11:38:05,123] INFO [QuorumController id=3001] The request from broker 1 to unfence"
    " has been granted because it has caught up with the offset of its register broker record 3."
    " (org.apache.kafka.controller.BrokerHeartbeatManager)\n"
    "[2026-06-10 11:38:05,124] INFO [QuorumController id=3001] Replayed"
    " BrokerRegistrationChangeRecord modifying the registration for broker 1:"
    " BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch=6, fenced=-1,"
    " inControlledShutdown=0, logDirs=[]) (org.apache.kafka.controller.ClusterControlManager)\n"
)
LEADS = (
    "[2026-06-10 11:38:51,653] INFO [Broker id=2] Leader orders-0 with topic id"
    " Some(TMlCK9LzTRuSMBv-gcB_jw) starts at leader epoch 2 from offset 30 with partition epoch 2,"
    " high watermark 0, ISR [2], adding replicas [] and removing replicas [] . Previous leader"
    " Some(-1) and previous leader epoch was 1. (state.change.logger)\n"
)
LOADED = (
    "[2026-06-10 11:39:27,679] INFO Completed load of Log(dir=/data/orders-0,"
    " topicId=TMlCK9LzTRuSMBv-gcB_jw, topic=orders, partition=0, highWatermark=0,"
    " lastStableOffset=0, logStartOffset=0, logEndOffset=845) with 1 segments, local-log-start-"
    "offset 0 and log-end-offset 845 in 14ms (1/1 completed in /data) (kafka.log.LogManager)\n"
)
SELECTOR = "(kafka.controller.OfflinePartitionLeaderSelector)\n"
COLD = (
    "[2015-09-14 15:35:13,095] DEBUG [OfflinePartitionLeaderSelector]: No broker in ISR is alive"
    f" for [test,0]. Pick the leader from the alive assigned replicas:  {SELECTOR}"
    "[2015-09-14 15:43:14,746] DEBUG [OfflinePartitionLeaderSelector]: Some broker in ISR is alive"
    f" for [test,0]. Select 0 from ISR 0 to be the leader. {SELECTOR}"
)
ALONE = (
    "[2015-09-30 22:03:48,237] INFO [TopicChangeListener on Controller 0]: New topics: [Set(w)],"
    " deleted topics: [Set()], new partition replica assignment [Map([w,0] -> List(0))]"
    " (kafka.controller.PartitionStateMachine$TopicChangeListener)\n"
    "[2015-09-30 22:23:41,595] WARN [OfflinePartitionLeaderSelector]: No broker in ISR is alive for"
    f" [w,0]. Elect leader 0 from live brokers 0. There's potential data loss. {SELECTOR}"
    "[2015-09-30 22:23:41,596] INFO [OfflinePartitionLeaderSelector]: Selected new leader and ISR"
    f' {{"leader":0,"leader_epoch":2,"isr":[0]}} for offline partition [w,0] {SELECTOR}'
)
SHUTDOWN = (
    "[2015-09-14 15:10:13,117] WARN [Kafka Server 0], Proceeding to do an unclean shutdown as all"
    " the controlled shutdown attempts failed (kafka.server.KafkaServer)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "records are gone for sure", elected(unclean(), back=1000),
        [{"severity": "critical", "confidence": "confirmed", "brokers": [1, 2],
          "partitions": ["t-0"]}],
    ),
    Scenario(
        NAME, "fires", "told by Kafka's own lines",
        from_logs({
            "controller-3001/controller.log": CREATED + OFFLINE + CHOSEN,
            "broker-2/state-change.log": LEADS,
            "broker-1/server.log": LOADED,
        }),
        [{"severity": "critical", "brokers": [1, 2], "partitions": ["orders-0"],
          "title": "Unclean election of broker 2 on 1 partition: 815 records lost"}],
    ),
    Scenario(
        NAME, "fires", "nobody tells where the old log ended", elected(unclean()),
        [{"severity": "high", "confidence": "confirmed"}],
    ),
    Scenario(
        NAME, "fires", "who was last known to be in sync leads again",
        from_logs({"controller-3001/controller.log": CREATED + OFFLINE + LAST_KNOWN}),
        [{"severity": "medium", "partitions": ["orders-0"]}],
    ),
    Scenario(
        NAME, "fires", "an election that was only inferred",
        elected(unclean(how="inferred"), back=1000),
        [{"severity": "critical", "confidence": "possible"}],
    ),
    Scenario(
        NAME, "boundary", "the old log ended where the new one did", elected(unclean(), back=400),
        [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "a minute apart", elected(unclean(), unclean(160, partition=1)),
        [{"partitions": ["t-0", "t-1"]}],
    ),
    Scenario(
        NAME, "fires", "one partition got two such leaders one after the other",
        elected(unclean(), unclean(160, leader_epoch=9)),
        [{"partitions": ["t-0"], "title": "Unclean election of broker 2 on 1 partition (2 times):"
          " whether records were lost is not in the logs"}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart",
        elected(unclean(), unclean(161, partition=1)),
        [{"partitions": ["t-0"]}, {"partitions": ["t-1"]}],
    ),
    Scenario(
        NAME, "quiet", "a cold start with brokers still down: nobody is elected",
        from_logs({"controller-0/controller.log": COLD}),
    ),
    Scenario(
        NAME, "quiet", "the only replica came back, and the controller warns of data loss",
        from_logs({"controller-0/controller.log": ALONE}),
    ),
    Scenario(
        NAME, "quiet", "the only replica leads again", elected(unclean(replicas=[2]), back=1000),
    ),
    Scenario(
        NAME, "quiet", "an unclean shutdown is no unclean election",
        from_logs({"broker-0/server.log": SHUTDOWN}),
    ),
    Scenario(
        NAME, "quiet", "a leader out of the eligible leader replicas is clean",
        from_logs({"controller-3001/controller.log": UNFENCED + CREATED + OFFLINE + ELIGIBLE}),
    ),
    Scenario(
        NAME, "quiet", "an election of which nobody can tell", elected(epoch(2, 2, 100, clean=None))
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
