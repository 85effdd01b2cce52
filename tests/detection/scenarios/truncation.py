"""Records cut off after a clean change of leader."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.detection.cases import SECOND, case, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "truncation"
Row = dict[str, Any]


def cut(second: float = 100, partition: int = 0, **more: Any) -> Row:
    """Make the cut of broker 1's log of 75 records to the 70 of the new leader, broker 2."""
    plain: Row = {
        "topic": "t",
        "partition": partition,
        "leader_epoch": 5,
        "leader": 2,
        "kept": 70,
        "broker": 1,
        "started_at": int(second * SECOND),
        "cut_to": 70,
        "log_end": 75,
        "high_watermark": 70,
        "unclean": False,
        "evidence": [{"file": "broker-9/server.log", "line": int(second * 10) + partition}],
    }
    return row("cuts", **(plain | more))


START = (
    "[2026-06-10 11:46:00,595] INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0]"
    " Truncating partition orders-v2-0 with TruncationState(offset=70, completed=true) due to"
    " leader epoch and offset EpochEndOffset(errorCode=0, partition=0, leaderEpoch=1, endOffset=99)"
    " (kafka.server.ReplicaFetcherThread)\n"
    "[2026-06-10 11:46:00,600] INFO [Log partition=orders-v2-0, dir=/data] Truncating to 70 has no"
    " effect as the largest offset in the log is 69 (kafka.log.Log)\n"
)

FILES = [logs("broker-1", 10_000, role="broker", kafka_version="3.9.1")]
EPOCH = (
    'cat LOG_DIR/{}/leader-epoch-checkpoint   # on broker 2: line "5 OFFSET": where epoch 5 begins'
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "what acks=1 loses at a clean change of leader", partial(case, cuts=[cut()]),
        [{"severity": "low", "confidence": "confirmed", "brokers": [1, 2], "partitions": ["t-0"],
          "measures": {"lost_records_min": 5, "lost_records_max": 5, "cuts_not_looked_at": 0}}],
    ),
    *(
        Scenario(
            NAME, "fires", f"producers log acks={acks}, and none writes to this topic",
            partial(case, cuts=[cut()], events=[
                event(50, "app", "client_setting_seen", offset=0, setting="acks", value=acks),
                event(50, "app", "client_setting_seen", offset=0, setting="client.id", value="app"),
                event(60, "app", "client_error", client="app", topic="other"),
            ]),
            [{"severity": "low", "measures": {"acks_one": [], "acks_known": acks == "all"}}],
        )
        for acks in ("all", "1")
    ),
    Scenario(
        NAME, "fires", "records that acks=1 had acknowledged",
        partial(case, cuts=[cut(), cut(topic="other")], events=[
            event(50, "app", "client_setting_seen", offset=0, setting="acks", value="1"),
            event(50, "app", "client_setting_seen", offset=0, setting="client.id", value="app"),
            event(60, "app", "client_error", client="app", topic="t"),
        ]),
        [{"severity": "medium", "measures": {"acks_one": ["t"]}}],
    ),
    Scenario(
        NAME, "fires", "a cut below the high watermark",
        partial(case, cuts=[cut(high_watermark=73)]),
        [{"severity": "high"}],
    ),
    Scenario(
        NAME, "boundary", "a minute apart", partial(case, cuts=[cut(), cut(160, 1)]),
        [{"partitions": ["t-0", "t-1"]}],
    ),
    Scenario(
        NAME, "boundary", "more than a minute apart", partial(case, cuts=[cut(), cut(161, 1)]),
        [{"partitions": ["t-0"]}, {"partitions": ["t-1"]}],
    ),
    Scenario(
        NAME, "boundary", "as many as are looked at",
        partial(case, cuts=[cut(100, part) for part in range(10_000)]),
        [{"measures": {"lost_records_max": 50_000, "cuts_not_looked_at": 0}}],
    ),
    Scenario(
        NAME, "boundary", "more than are looked at",
        partial(case, cuts=[cut(100, part) for part in range(10_001)]),
        [{"measures": {"lost_records_max": 50_000, "cuts_not_looked_at": 1}}],
    ),
    Scenario(
        NAME, "fires", "topics of users come first in what to do",
        partial(case, cuts=[cut(topic="__consumer_offsets"), cut()], files=FILES),
        [{"actions": sorted([EPOCH.format("t-0"),
          "Use acks=all in producers of t if it must not lose records."])}],
    ),
    Scenario(
        NAME, "fires", "no advice on acks for an internal topic",
        partial(case, cuts=[cut(topic="__consumer_offsets")], files=FILES),
        [{"actions": [EPOCH.format("__consumer_offsets-0")]}],
    ),
    Scenario(
        NAME, "quiet", "what an unclean leader made necessary is told there",
        partial(case, cuts=[cut(unclean=True)]),
    ),
    Scenario(
        NAME, "quiet", "a follower that starts finds nothing to cut",
        from_logs({"broker-1/server.log": START}),
    ),
    Scenario(
        NAME, "quiet", "what the quorum cuts off its own log",
        partial(case, cuts=[cut(topic="__cluster_metadata", unclean=None)]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
