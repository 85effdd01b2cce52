"""Brokers that are restarted one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from forensics.history.nodes.controller_terms import ControllerTerm
from tests.detection.cases import SECOND, absence, case, epoch, event, logs, version
from tests.detection.scenarios import Scenario

NAME = "rolling-restart"
Row = dict[str, Any]


def roll(
    back_in_sync: float | None = 115, second: float = 120, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Restart broker 1 and then broker 2; broker 1 is in sync again at some moment."""
    isr = [version(1, [1, 2, 3], 0, 100), version(2, [2, 3], 100, back_in_sync)]
    isr += [] if back_in_sync is None else [version(3, [1, 2, 3], back_in_sync)]
    away = [absence(1, "controlled", 100, 110), absence(2, "controlled", second, second + 10)]
    given: dict[str, Any] = {"isr": isr, "away": away} | more
    return partial(case, **given)


def refused(*seconds: float, topic: str = "t") -> Sequence[Row]:
    return [event(at, "app", "client_error", topic=topic, partition=0, error="NOT_ENOUGH_REPLICAS")
            for at in seconds]  # fmt: skip


def named(*pairs: tuple[int, float, str]) -> Sequence[Row]:
    return [event(at, f"broker-{one}", "kafka_version", detail=name) for one, at, name in pairs]


SCENARIOS = [
    Scenario(
        NAME, "fires", "an upgrade",
        roll(events=named((1, 5, "3.5.2"), (2, 5, "3.5.2"), (1, 105, "3.7.1"), (2, 125, "3.7.1"))),
        [{"title": "Rolling restart: brokers 1, 2, from Kafka 3.5.2 to 3.7.1; each was in every ISR"
                   " again before the next stop"}],
    ),
    Scenario(
        NAME, "fires", "only one of two names another version",
        roll(events=named((1, 5, "3.5.2"), (2, 5, "3.5.2"), (1, 105, "3.7.1"), (2, 125, "3.5.2"))),
        [{"title": "Rolling restart: brokers 1, 2; each was in every ISR again before the next"
                   " stop"}],
    ),
    Scenario(
        NAME, "fires", "each was in sync again before the next stop", roll(),
        [{"severity": "info", "confidence": "confirmed", "brokers": [1, 2], "partitions": [],
          "title": "Rolling restart: brokers 1, 2; each was in every ISR again before the next"
                   " stop"}],
    ),
    Scenario(
        NAME, "fires", "the first was the active controller, and another one took over",
        roll(controllers=[
            ControllerTerm("broker-1", 1, Span("active", 0, 101 * SECOND)),
            ControllerTerm("broker-3", 3, Span("active", 102 * SECOND, None)),
        ]),
        [{"severity": "info", "measures": {"controllers": ["broker-1", "broker-3"]},
          "title": "Rolling restart: brokers 1, 2; each was in every ISR again before the next stop"
                   "; the active controller moved from broker-1 to broker-3"}],
    ),
    Scenario(
        NAME, "fires", "the first was not in sync yet",
        roll(back_in_sync=130),
        [{"severity": "low", "partitions": ["t-0"], "measures": {"hasty": [2]},
          "title": "Hasty rolling restart of brokers 1, 2: broker 2 was stopped 10.0 s after broker"
                   " 1 came back, before 1 partition had all replicas in sync again"}],
    ),
    Scenario(
        NAME, "fires", "and never was",
        roll(back_in_sync=None), [{"severity": "low", "measures": {"late_partitions": 1}}],
    ),
    Scenario(
        NAME, "fires", "the first was not even back",
        roll(back_in_sync=130, second=108),
        [{"severity": "low", "why": "broker 2 was stopped 2.0 s before broker 1 was back, before"
          " 1 partition had all replicas in sync again"}],
    ),
    Scenario(
        NAME, "fires", "and writes were refused meanwhile",
        roll(back_in_sync=130, events=refused(121, 129)),
        [{"severity": "medium", "measures": {"refused_s": 8.0}}],
    ),
    Scenario(
        NAME, "boundary", "refused a minute after the roll",
        roll(back_in_sync=130, events=refused(190)), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "refused a second later",
        roll(back_in_sync=130, events=refused(191)), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "writes to another topic were refused",
        roll(back_in_sync=130, events=refused(121, topic="u")), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "a partition had no leader for more than a second",
        roll(back_in_sync=130, leadership=[epoch(2, -1, 120, 121.001)]),
        [{"severity": "medium", "measures": {"leaderless_s": 1.0}}],
    ),
    Scenario(
        NAME, "boundary", "for a second",
        roll(back_in_sync=130, leadership=[epoch(2, -1, 120, 121)]), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "quiet", "another broker led that partition, and crashed",
        roll(back_in_sync=130,
             leadership=[epoch(2, 3, 100, 125), epoch(3, -1, 125, 140, previous_leader=3)],
             away=[absence(1, "controlled", 100, 110), absence(2, "controlled", 120, 130),
                   absence(3, "crash", 125, 140)]),
        [{"severity": "low", "measures": {"leaderless_s": 0.0}}],
    ),
    Scenario(
        NAME, "quiet", "the roll is over when it is shut down for good",
        roll(back_in_sync=130,
             leadership=[epoch(2, 3, 100, 170), epoch(3, -1, 170, previous_leader=3)],
             away=[absence(1, "controlled", 100, 110), absence(2, "controlled", 120, 130),
                   absence(2, "controlled", 170)]),
        [{"severity": "low", "measures": {"leaderless_s": 0.0}}],
    ),
    Scenario(
        NAME, "fires", "nobody logged an ISR", roll(isr=[]),
        [{"severity": "info", "title": "Rolling restart: brokers 1, 2; the logs do not show whether"
          " each was in sync again before the next stop"}],
    ),
    Scenario(NAME, "boundary", "half an hour between them", roll(second=110 + 1800),
             [{"severity": "info"}]),
    Scenario(NAME, "boundary", "and a second more", roll(second=110 + 1801)),
    Scenario(
        NAME, "quiet", "one broker, twice",
        roll(away=[absence(1, "controlled", 100, 110), absence(1, "controlled", 120, 130)]),
    ),
    Scenario(
        NAME, "quiet", "the cluster is shut down",
        roll(away=[absence(broker, "controlled", 100 + broker) for broker in (1, 2, 3)]),
    ),
    Scenario(
        NAME, "quiet", "one was restarted, another crashed",
        roll(away=[absence(1, "controlled", 100, 110), absence(2, "crash", 120, 130)]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
