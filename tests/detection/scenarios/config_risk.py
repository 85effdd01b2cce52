"""What the logged settings allow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, epoch, event, logs
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


def rack(*names: str) -> list[Row]:
    """Put brokers 1, 2 and so on into racks."""
    return [
        setting("broker.rack", name, 10 + at, f"broker-{at}") for at, name in enumerate(names, 1)
    ]


def version_of(kafka: str) -> list[Row]:
    return [logs("broker-1", 10_000, role="broker", kafka_version=kafka)]


CREATED = """\
[2026-11-18 11:25:05,871] INFO Creating topic logs with configuration \
{unclean.leader.election.enable=true} and initial partition assignment \
HashMap(0 -> ArrayBuffer(1, 2)) (kafka.zk.AdminZkClient)
[2026-11-18 11:25:06,871] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
"""
LAG_TIME = "replica.lag.time.max.ms"


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
        [{"severity": "low", "measures": {"risk": "unclean-elections", "topics": ["t"],
          "met": "a replica out of sync was elected for t"}}],
    ),
    Scenario(
        NAME, "boundary", "one came, but for another topic than they are allowed for",
        of(on_topic("u", f"{UNCLEAN} to true"), leadership=[led(3, clean=False)]),
        [{"severity": "low", "measures": {"met": ""}}],
    ),
    Scenario(
        NAME, "fires", "unclean elections were allowed as a topic was created on ZooKeeper",
        from_logs({"broker-1/server.log": CREATED}),
        [{"severity": "low", "measures": {"risk": "unclean-elections", "topics": ["logs"]}}],
    ),
    Scenario(
        NAME, "fires", "and on KRaft",
        of(event(20, "controller-1", "topic_created", topic="t",
                 detail=f"configs=[CreatableTopicConfig(name='{UNCLEAN}', value='true')]")),
        [{"severity": "low", "measures": {"risk": "unclean-elections", "topics": ["t"]}}],
    ),
    Scenario(
        NAME, "fires", "two replicas, of three brokers", of(leadership=[led(2)]),
        [{"severity": "info", "title": "1 setting could be safer: only two replicas: t",
          "measures": {"risks": ["two-replicas"]}}],
    ),
    Scenario(
        NAME, "quiet", "two replicas, of two brokers",
        of(leadership=[led(2)], brokers={1: [], 2: []}),
    ),
    Scenario(
        NAME, "fires", "a minimum of one",
        of(setting(MINIMUM, 1), leadership=[led(3)]),
        [{"severity": "info", "measures": {"risks": ["min-isr-one"], "topics": ["t"]}}],
    ),
    Scenario(
        NAME, "quiet", "a minimum of one for an internal topic, as Kafka makes it",
        of(setting(MINIMUM, 1), leadership=[led(3, topic="__consumer_offsets")]),
    ),
    Scenario(
        NAME, "fires", "two replicas in one rack, though there are three racks",
        of(*rack("a", "a", "b", "c"), leadership=[led(3)]),
        [{"severity": "info", "brokers": [1, 2, 3], "measures": {"risks": ["one-rack"]},
          "title": "1 setting could be safer: two replicas in one rack: t (a, b)"}],
    ),
    Scenario(
        NAME, "quiet", "two racks for three replicas",
        of(*rack("a", "a", "b"), leadership=[led(3)]),
    ),
    Scenario(
        NAME, "quiet", "a broker whose rack is not known",
        of(*rack("a", "a", "b", "c"), leadership=[epoch(1, 1, 30, replicas=[1, 2, 9])]),
    ),
    Scenario(
        NAME, "fires", "nobody gives leadership back",
        of(setting("auto.leader.rebalance.enable", "false")),
        [{"severity": "info", "brokers": [1], "measures": {"risks": ["no-leader-rebalance"]}}],
    ),
    Scenario(
        NAME, "boundary", "less lag than Kafka allows since 2.5",
        of(setting(LAG_TIME, 29999), files=version_of("2.5.0")),
        [{"severity": "info", "measures": {"risks": ["lag-time-low"], "value": "29999"}}],
    ),
    Scenario(NAME, "quiet", "as much", of(setting(LAG_TIME, 30000), files=version_of("2.5.0"))),
    Scenario(
        NAME, "fires", "a minimum that can never be reached, and writes that were refused",
        of(setting(MINIMUM, 3), event(40, "broker-1", "append_failed", topic="t", partition=0,
           error="NOT_ENOUGH_REPLICAS"), leadership=[led(2)]),
        [{"severity": "low", "measures": {"risk": WRONG, "topics": ["t"], "value": "3"}}],
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
        [{"severity": "low", "measures": {"risk": "one-replica", "met": "t had no leader"}}],
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
    Scenario(NAME, "quiet", "the lag of old",
             of(setting(LAG_TIME, 10000), files=version_of("2.4.1"))),
    Scenario(NAME, "boundary", "the lag of old, in a new version", of(setting(LAG_TIME, 10000)),
             [{"severity": "info", "measures": {"risks": ["lag-time-low"]}}]),
    Scenario(
        NAME, "boundary", "fetches wait for as long as a follower may lag",
        of(setting(LAG_TIME, 30000), setting("replica.fetch.wait.max.ms", 30000, 11)),
        [{"severity": "low", "brokers": [1], "measures": {"risk": "fetch-wait"}}],
    ),
    Scenario(NAME, "quiet", "fetches wait for less",
             of(setting(LAG_TIME, 30000), setting("replica.fetch.wait.max.ms", 29999, 11))),
    Scenario(NAME, "boundary", "a short session", of(setting("broker.session.timeout.ms", 8999)),
             [{"measures": {"risk": "session-time-out", "met": ""}}]),
    Scenario(NAME, "quiet", "Kafka's session", of(setting("broker.session.timeout.ms", 9000))),
    Scenario(
        NAME, "fires", "a short session, and a broker that only paused was given up",
        of(setting("broker.session.timeout.ms", 3000), away=[absence(1, "pause", 50, 60)]),
        [{"severity": "low", "measures": {"met": "broker 1 was given up while it lived"}}],
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
        reason="no line mentions setting seen or config set",
    ),
]  # fmt: skip
