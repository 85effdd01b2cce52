"""Controlled shutdowns that fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, epoch, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "failed-shutdown"


def given_up(*tries: float, **more: Any) -> Callable[[Path], DetectionContext]:
    """Let broker 1 stop without leave at 200, after some tries."""
    events = [event(200, "broker-1", "controlled_shutdown_failed", broker=1)]
    events += [event(second, "broker-1", "controlled_shutdown_delayed", broker=1, topic="t",
                     partition=0, error="NONE") for second in tries]  # fmt: skip
    return partial(case, events=events, **more)


def gone(second: float) -> dict[str, Any]:
    """Let broker 1 lead partition t-0 on paper for ten seconds after it stopped at a moment."""
    return {
        "leadership": [epoch(1, 1, 50, second + 10)],
        "away": [absence(1, "controlled", second)],
    }


def away(*brokers: int) -> list[Any]:
    return [absence(broker, "controlled", 190) for broker in brokers]


LINES = """\
[2026-11-18 11:45:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
[2026-11-18 11:49:59,199] WARN [KafkaServer id=1] Retrying controlled shutdown after the previous \
attempt failed... (kafka.server.KafkaServer)
[2026-11-18 11:50:09,255] WARN [KafkaServer id=1] Proceeding to do an unclean shutdown as all the \
controlled shutdown attempts failed (kafka.server.KafkaServer)
"""
OTHER = "[2026-11-18 11:45:00,000] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n"

SCENARIOS = [
    Scenario(
        NAME, "fires", "told by Kafka's own lines",
        from_logs({"broker-1/server.log": LINES, "broker-2/server.log": OTHER}),
        [{"severity": "low", "brokers": [1], "measures": {"tries": 1},
          "title": "Broker 1 stopped though its controlled shutdown had failed"}],
    ),
    Scenario(
        NAME, "fires", "it still led a partition",
        given_up(199, away=away(1)),
        [{"partitions": ["t-0"], "title": "Broker 1 stopped though its controlled shutdown had"
          " failed, still leading 1 partition"}],
    ),
    Scenario(NAME, "boundary", "two minutes of tries", given_up(80), [{"measures": {"tries": 1}}]),
    Scenario(NAME, "boundary", "an older try", given_up(79), [{"measures": {"tries": 0}}]),
    Scenario(NAME, "boundary", "nobody led a partition half a minute later",
             given_up(**gone(230)), [{"severity": "medium"}]),
    Scenario(NAME, "boundary", "or after that", given_up(**gone(231)),
             [{"severity": "low"}]),
    Scenario(NAME, "quiet", "the whole cluster is shut down", given_up(away=away(1, 2, 3))),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
