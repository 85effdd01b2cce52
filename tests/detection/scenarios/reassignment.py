"""Partitions that are given other replicas: begun, done, never done."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.detection.cases import case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "reassignment"
Row = dict[str, Any]
FILES = [logs("controller-1", 10_000, role="controller"), logs("broker-1", 10_000, role="broker")]


def begun(second: float, partition: int = 0, node: str = "controller-1") -> Row:
    facts = {"topic": "t", "partition": partition, "telling": None}
    return event(second, node, "reassignment", detail="removingReplicas=[2], addingReplicas=[3]",
                 **facts)  # fmt: skip


def done(second: float, partition: int = 0, node: str = "controller-1") -> Row:
    return begun(second, partition, node) | {"detail": "removingReplicas=[], addingReplicas=[]"}


LINE = (
    "[2026-11-18 11:43:{second},203] INFO [QuorumController id=1] Replayed partition assignment"
    " change PartitionChangeRecord(partitionId=0, topicId=nKBqGmAxQSOsaSJRcziwZA, isr=[1, 2],"
    " leader=1, replicas=[3, 1, 2], removingReplicas={away}, addingReplicas={new},"
    " leaderRecoveryState=-1, directories=null, eligibleLeaderReplicas=null, lastKnownElr=null) for"
    " topic audit_log (org.apache.kafka.controller.ReplicationControlManager)\n"
)

SCENARIOS = [
    Scenario(
        NAME, "fires", "begun and done",
        partial(case, files=FILES, events=[begun(100), begun(101, 1), done(104), done(109, 1)]),
        [{"severity": "info", "partitions": ["t-0", "t-1"],
          "measures": {"partitions": 2, "not_done": 0, "duration_s": 9.0}}],
    ),
    Scenario(
        NAME, "fires", "told by the controller's own lines",
        from_logs({"controller-1/controller.log":
                   LINE.format(second="04", away="[2]", new="[3]")
                   + LINE.replace("[3, 1, 2]", "[3, 1]").format(second="06", away="[]", new="[]")}),
        [{"severity": "info", "partitions": ["audit_log-0"],
          "measures": {"not_done": 0, "cancelled": 0, "duration_s": 2.0}}],
    ),
    Scenario(
        NAME, "fires", "cancelled: the replicas are those of before",
        from_logs({"controller-1/controller.log":
                   LINE.format(second="04", away="[2]", new="[3]")
                   + LINE.replace("[3, 1, 2]", "[1, 2]").format(second="06", away="[]", new="[]")}),
        [{"title": "1 partition reassigned, and that was cancelled after 2 s", "doubts": [],
          "measures": {"not_done": 0, "cancelled": 1}}],
    ),
    Scenario(
        NAME, "fires", "changed on its way, and done",
        from_logs({"controller-1/controller.log":
                   LINE.format(second="04", away="[2]", new="[3]")
                   + LINE.format(second="05", away="[2, 3]", new="[4]")
                   + LINE.replace("[3, 1, 2]", "[4, 1]").format(second="06", away="[]", new="[]")}),
        [{"title": "1 partition reassigned, done after 2 s", "measures": {"cancelled": 0}}],
    ),
    Scenario(
        NAME, "fires", "under ZooKeeper only the end is logged",
        partial(case, files=FILES, kraft=False, events=[
            event(100, "broker-1", "reassignment_caught_up", topic="t", partition=0)]),
        [{"severity": "info", "measures": {"partitions": 1, "not_done": 0}}],
    ),
    Scenario(
        NAME, "fires", "never done",
        partial(case, files=FILES, events=[begun(100), begun(101, 1), done(104)]),
        [{"severity": "low", "measures": {"partitions": 2, "not_done": 1}}],
    ),
    Scenario(
        NAME, "quiet", "two of them, really a controller that repeats another",
        partial(case, files=FILES, events=[
            begun(100), begun(100.5, node="controller-2"), done(101),
            begun(101.5, node="controller-3"), done(102, node="controller-2")]),
        [{"measures": {"partitions": 1, "duration_s": 1.0}}],
    ),
    Scenario(
        NAME, "quiet", "a record that changes nothing", partial(case, files=FILES, events=[done(9)])
    ),
    Scenario(
        NAME, "boundary", "five minutes apart are one",
        partial(case, files=FILES, events=[begun(100), done(101), begun(400, 1), done(401, 1)]),
        [{"measures": {"partitions": 2}}],
    ),
    Scenario(
        NAME, "boundary", "just more than five minutes apart are two",
        partial(case, files=FILES, events=[
            begun(100), done(101), begun(400.001, 1), done(401, 1)]),
        [{"measures": {"partitions": 1}}, {"measures": {"partitions": 1}}],
    ),
    Scenario(
        NAME, "boundary", "half an hour, and not done", partial(case, files=[
            logs("controller-1", 1900, role="controller"), logs("broker-1", 1900, role="broker")],
            events=[begun(100)]),
        [{"severity": "info", "measures": {"not_done": 1}}],
    ),
    Scenario(
        NAME, "boundary", "more than half an hour, and not done", partial(case, files=[
            logs("controller-1", 1900.001, role="controller"),
            logs("broker-1", 1900, role="broker")], events=[begun(100)]),
        [{"severity": "low", "measures": {"not_done": 1}}],
    ),
    Scenario(
        NAME, "blind", "only a client's log",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no",
    ),
]  # fmt: skip
