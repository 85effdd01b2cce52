"""What the logged settings allow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, epoch, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "config-risk"
Row = dict[str, Any]
UNCLEAN = "unclean.leader.election.enable"
MINIMUM = "min.insync.replicas"


def setting(name: str, value: object, second: float = 10, node: str = "broker-1") -> Row:
    return event(second, node, "setting_seen", setting=name, value=str(value))


def on_topic(topic: str | None, detail: str, second: float = 20) -> Row:
    return event(second, "controller-1", "config_set", topic=topic, detail=detail)


def of(*events: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events), **more)


def led(replicas: int, **more: Any) -> Row:
    """Let partition t-0 have so many replicas."""
    return epoch(1, 1, 30, replicas=list(range(1, replicas + 1)), **more)


def cut(**more: Any) -> Row:
    """Let records of topic t be cut."""
    place = {"file": "broker-9/state-change.log", "line": 5}
    return row("cuts", topic="t", partition=0, cut_to=5, started_at=50_000_000, evidence=[place],
               **more)  # fmt: skip


LINES = """\
[2026-11-18 11:37:51,263] INFO KafkaConfig values: 
\tnode.id = 2
\tprocess.roles = [broker]
\treplica.lag.time.max.ms = 2000
\tunclean.leader.election.enable = true
 (org.apache.kafka.common.config.AbstractConfig)
"""  # noqa: W291

WRONG = "min-isr-unreachable"

SCENARIOS = [
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"broker-2/server.log": LINES}),
        [{"severity": "low", "measures": {"risk": risk}} for risk in
         ("unclean-elections", "lag-time")],
    ),
    Scenario(
        NAME, "fires", "unclean elections are allowed for a topic, and one came",
        of(on_topic("t", f"{UNCLEAN} to true"), leadership=[led(3, clean=False)]),
        [{"severity": "medium", "measures": {"risk": "unclean-elections", "topics": ["t"],
          "met": "a replica out of sync was elected for t"}}],
    ),
    Scenario(
        NAME, "boundary", "one came, but for another topic than they are allowed for",
        of(on_topic("u", f"{UNCLEAN} to true"), leadership=[led(3, clean=False)]),
        [{"severity": "low", "measures": {"met": ""}}],
    ),
    Scenario(
        NAME, "fires", "acks=1, and records were cut",
        of(event(10, "app", "client_setting_seen", setting="acks", value="1", client="app-1"),
           cuts=[cut()]),
        [{"severity": "medium", "clients": ["app-1"], "measures": {"risk": "acks-one"}}],
    ),
    Scenario(
        NAME, "quiet", "acks=1, and nothing was lost",
        of(event(10, "app", "client_setting_seen", setting="acks", value="1", client="app-1")),
    ),
    Scenario(
        NAME, "quiet", "records were cut, and producers wait for all",
        of(event(10, "app", "client_setting_seen", setting="acks", value="-1"), cuts=[cut()]),
    ),
    Scenario(
        NAME, "fires", "a minimum that can never be reached, and writes that were refused",
        of(setting(MINIMUM, 3), event(40, "broker-1", "append_failed", topic="t", partition=0,
           error="NOT_ENOUGH_REPLICAS"), leadership=[led(2)]),
        [{"severity": "medium", "measures": {"risk": WRONG, "topics": ["t"], "value": "3"}}],
    ),
    Scenario(
        NAME, "boundary", "as many as there are replicas",
        of(setting(MINIMUM, 2), leadership=[led(2)]),
        [{"severity": "low", "measures": {"risk": "min-isr-all"}}],
    ),
    Scenario(
        NAME, "quiet", "one less than there are replicas",
        of(setting(MINIMUM, 2), leadership=[led(3)]),
    ),
    Scenario(
        NAME, "fires", "one replica, whose broker died",
        of(leadership=[led(1), epoch(2, -1, 60, 90, replicas=[1], previous_leader=1)],
           away=[absence(1, "crash", 55, 80)]),
        [{"severity": "medium", "measures": {"risk": "one-replica", "met": "t had no leader"}}],
    ),
    Scenario(
        NAME, "boundary", "one replica, whose broker was stopped",
        of(leadership=[led(1), epoch(2, -1, 60, 90, replicas=[1], previous_leader=1)],
           away=[absence(1, "controlled", 55, 80)]),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "one replica, in a cluster of one",
        of(leadership=[led(1)], brokers={1: []}),
    ),
    Scenario(NAME, "boundary", "a short lag", of(setting("replica.lag.time.max.ms", 9999)),
             [{"severity": "low", "brokers": [1], "measures": {"risk": "lag-time"}}]),
    Scenario(NAME, "quiet", "the lag of old", of(setting("replica.lag.time.max.ms", 10000))),
    Scenario(NAME, "boundary", "a short session", of(setting("broker.session.timeout.ms", 8999)),
             [{"measures": {"risk": "session-time-out", "met": ""}}]),
    Scenario(NAME, "quiet", "Kafka's session", of(setting("broker.session.timeout.ms", 9000))),
    Scenario(
        NAME, "fires", "a short session, and a broker that only paused was given up",
        of(setting("broker.session.timeout.ms", 3000), away=[absence(1, "pause", 50, 60)]),
        [{"severity": "medium", "measures": {"met": "broker 1 was given up while it lived"}}],
    ),
    Scenario(NAME, "boundary", "a short session of ZooKeeper",
             of(setting("zookeeper.session.timeout.ms", 5999), kraft=False),
             [{"measures": {"risk": "session-time-out"}}]),
    Scenario(NAME, "quiet", "the session of old with ZooKeeper",
             of(setting("zookeeper.session.timeout.ms", 6000), kraft=False)),
    Scenario(NAME, "quiet", "a session of ZooKeeper that nobody uses",
             of(setting("zookeeper.session.timeout.ms", 10))),
    Scenario(
        NAME, "blind", "no line tells a setting",
        partial(case, files=[logs("broker-1", 100, role="broker", records=9)]),
        reason="no line tells of setting seen or config set or client setting seen",
    ),
]  # fmt: skip
