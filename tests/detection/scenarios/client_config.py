"""What the logged settings of clients allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "client-config"
Row = dict[str, Any]
SELECTOR = "replica.selector.class"


def client(
    name: str = "app-1", second: float = 10, node: str = "app", **settings: object
) -> Sequence[Row]:
    """Let a client log its settings as it starts; underscores stand for dots."""
    every = {"client.id": name} | {key.replace("_", "."): str(it) for key, it in settings.items()}
    return [
        event(second, node, "client_setting_seen", setting=key, value=value, offset=int(second))
        | {"line": int(second * 10) + at}
        for at, (key, value) in enumerate(every.items())
    ]


def of(*events: Row, **more: Any) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events), **more)


def error(name: str, second: float = 40, **more: Any) -> Row:
    given = {"client": "app-1", "topic": "t", "partition": 0} | more
    return event(second, "app", "client_error", error=name, **given)


def cut(topic: str = "t") -> Row:
    """Let records of a topic be cut."""
    place = {"file": "broker-9/state-change.log", "line": 5}
    return row("cuts", topic=topic, partition=0, cut_to=5, started_at=50_000_000, evidence=[place])


def advice(*risks: str, **more: Any) -> Sequence[dict[str, Any]]:
    return [{"severity": "info", "measures": {"risks": list(risks)}} | more]


SELECTORS = [event(5, "broker-1", "setting_seen", setting=SELECTOR, value="null")]
LINES = """\
[2026-11-18 11:38:25,227] INFO ProducerConfig values:
\tacks = 1
\tbootstrap.servers = [kafka1:9092, kafka2:9092]
\tclient.id = app-metrics
\tenable.idempotence = true
 (org.apache.kafka.clients.producer.ProducerConfig)
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "told by Kafka's own lines", from_logs({"app/client.log": LINES}),
        advice("acks-one-safe", clients=["app-metrics"],
               title="1 setting could be safer: acks=1: app-metrics"),
    ),
    Scenario(
        NAME, "fires", "acks=1, and records of its topic were cut",
        of(*client(acks=1), error("NOT_LEADER_OR_FOLLOWER"), cuts=[cut()]),
        [{"severity": "low", "clients": ["app-1"],
          "measures": {"risk": "acks-one", "topics": ["t"]}}],
    ),
    Scenario(
        NAME, "boundary", "acks=1, and records of another topic were cut",
        of(*client(acks=1), error("NOT_LEADER_OR_FOLLOWER"), cuts=[cut("u")]),
        advice("acks-one-safe"),
    ),
    Scenario(
        NAME, "boundary", "another client of the process writes the topic",
        of(*client(acks=1), error("NOT_LEADER_OR_FOLLOWER", client="app-2"), cuts=[cut()]),
        advice("acks-one-safe"),
    ),
    Scenario(
        NAME, "quiet", "producers that wait for all, and records were cut",
        of(*client(acks=-1), error("NOT_LEADER_OR_FOLLOWER"), cuts=[cut()]),
    ),
    Scenario(
        NAME, "fires", "batches were sent again without idempotence",
        of(*client(acks=-1, enable_idempotence="false"), error("NETWORK_EXCEPTION"),
           error("REQUEST_TIMED_OUT", 41)),
        [{"severity": "low", "clients": ["app-1"], "measures": {"risk": "doubles",
          "met": "batches were retried that may have been written already: app-1 2 times"}}],
    ),
    Scenario(
        NAME, "boundary", "nothing was sent again",
        of(*client(acks=-1, enable_idempotence="false", retries=0), error("NETWORK_EXCEPTION")),
        advice("no-idempotence", "gives-up-early"),
    ),
    Scenario(
        NAME, "quiet", "with idempotence",
        of(*client(acks=-1, enable_idempotence="true"), error("NETWORK_EXCEPTION")),
    ),
    Scenario(
        NAME, "boundary", "too few retries", of(*client(acks=-1, retries=9)),
        advice("gives-up-early"),
    ),
    Scenario(NAME, "quiet", "enough of them", of(*client(acks=-1, retries=10))),
    Scenario(
        NAME, "quiet", "a Connect worker, which tries again by itself",
        of(*client(acks=-1, retries=0),
           *(row | {"rule": "connect.settings@2.0"} for row in client("w", 5))),
    ),
    Scenario(NAME, "quiet", "a consumer", of(*client(retries=0))),
    Scenario(
        NAME, "boundary", "too little time", of(*client(acks=-1, delivery_timeout_ms=29_999)),
        advice("gives-up-early"),
    ),
    Scenario(NAME, "quiet", "enough time", of(*client(acks=-1, delivery_timeout_ms=30_000))),
    Scenario(
        NAME, "fires", "too little time, and records were given up",
        of(*client(acks=-1, delivery_timeout_ms=5000),
           event(40, "app", "send_failed", client="app-1", topic="t")),
        [{"severity": "low", "measures": {"met": "app-1 gave records up"}}],
    ),
    Scenario(
        NAME, "boundary", "metadata that may be old",
        of(*client(metadata_max_age_ms=300_001)), advice("metadata-old"),
    ),
    Scenario(NAME, "quiet", "Kafka's age", of(*client(metadata_max_age_ms=300_000))),
    Scenario(
        NAME, "boundary", "metadata all the time",
        of(*client(metadata_max_age_ms=9999)), advice("metadata-young"),
    ),
    Scenario(NAME, "quiet", "every ten seconds", of(*client(metadata_max_age_ms=10_000))),
    Scenario(
        NAME, "fires", "offsets are committed by time",
        of(*client(enable_auto_commit="true", group_id="g")), advice("auto-commit"),
    ),
    Scenario(
        NAME, "quiet", "without a group nothing is committed",
        of(*client(enable_auto_commit="true", group_id="null")),
    ),
    Scenario(
        NAME, "fires", "one server to begin with",
        of(*client(bootstrap_servers="[kafka1:9092]")), advice("one-bootstrap-server"),
    ),
    Scenario(
        NAME, "quiet", "there is only one",
        of(*client(bootstrap_servers="[kafka1:9092]"), brokers={1: []}),
    ),
    Scenario(
        NAME, "quiet", "two of them", of(*client(bootstrap_servers="[kafka1:9092, kafka2:9092]"))
    ),
    Scenario(
        NAME, "fires", "a rack that no broker looks at",
        of(*SELECTORS, *client(client_rack="a")), advice("unused-rack"),
    ),
    Scenario(
        NAME, "quiet", "a rack that one looks at",
        of(SELECTORS[0] | {"value": "RackAwareReplicaSelector"}, *client(client_rack="a")),
    ),
    Scenario(NAME, "quiet", "nobody knows what brokers do", of(*client(client_rack="a"))),
    Scenario(
        NAME, "quiet", "the last start of a client counts",
        of(*client(second=10, acks=1), *client(second=20, acks=-1)),
    ),
    Scenario(
        NAME, "blind", "no line tells a setting",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="no line mentions client setting seen",
    ),
]  # fmt: skip
