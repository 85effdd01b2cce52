"""Partitions that lack replicas in sync."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Absence, Span
from tests.detection.cases import absence, case, event, logs, version
from tests.detection.scenarios import Scenario

NAME = "under-replicated"
CREATED = event(1, "broker-1", "topic_created", topic="t", detail="HashMap(0 -> List(1, 2, 3))")


def short(
    end: float | None = 401,
    *away: Absence,
    until: float = 10_000,
    known: Sequence[int] = (1, 2, 3),
    **more: Any,
) -> Callable[[Path], DetectionContext]:
    """Let partition t-0 lack broker 2 from 100 on."""
    given: dict[str, Any] = {"replicas": [1, 2, 3]} | more
    isr = [version(1, [1, 2, 3], 0, 100, **given), version(2, [1, 3], 100, end, **given)]
    isr += [] if end is None else [version(3, [1, 2, 3], end, **given)]
    files = [logs("broker-1", until)]
    brokers: dict[int, list[Span]] = {broker: [] for broker in known}
    return partial(case, isr=isr, away=away, files=files, events=[CREATED], brokers=brokers)


SCENARIOS = [
    Scenario(
        NAME, "fires", "for more than five minutes, its broker being up",
        short(),
        [{"severity": "medium", "confidence": "confirmed", "brokers": [2], "partitions": ["t-0"],
          "title": "1 partition without broker 2 in sync for up to 301 s"}],
    ),
    Scenario(NAME, "boundary", "for five minutes", short(400)),
    Scenario(
        NAME, "fires", "to the end of the logs",
        short(None, until=161),
        [{"severity": "medium", "measures": {"open": 1, "longest_s": 61.0},
          "title": "1 partition without broker 2 in sync to the end of the logs"}],
    ),
    Scenario(NAME, "boundary", "for a minute to the end", short(None, until=160)),
    Scenario(
        NAME, "fires", "where its replicas are known from its creation only",
        short(replicas=None), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "fires", "nobody knows how its broker was",
        short(known=(1, 3)), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "fires", "its broker had crashed",
        short(500, absence(2, "crash", 99, 300)),
        [{"severity": "low", "measures": {"away": True}}],
    ),
    Scenario(
        NAME, "quiet", "it had crashed, and is not back: that is told of the broker",
        short(None, absence(2, "crash", 99)), [{"severity": "info", "measures": {"away": True}}],
    ),
    Scenario(
        NAME, "boundary", "it had crashed a minute after that",
        short(500, absence(2, "crash", 160, 300)), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "it had crashed later",
        short(500, absence(2, "crash", 161, 300)), [{"severity": "medium"}],
    ),
    Scenario(NAME, "quiet", "it was restarted", short(450, absence(2, "controlled", 99, 400))),
    Scenario(NAME, "quiet", "it was stopped", short(None, absence(2, "controlled", 99))),
    Scenario(
        NAME, "quiet", "it was stopped soon after it had hung",
        short(None, absence(2, "pause", 40, 60), absence(2, "controlled", 99)),
    ),
    Scenario(
        NAME, "fires", "it was restarted, and stayed out of sync",
        short(None, absence(2, "controlled", 99, 400)), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
