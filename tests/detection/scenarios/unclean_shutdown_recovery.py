"""Long recovery of logs after an unclean stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "unclean-shutdown-recovery"
Row = dict[str, Any]
States = tuple[tuple[str, float], ...]


def lane(*states: tuple[str, float]) -> dict[int, list[Span]]:
    """Let broker 1 go from state to state at some moments."""
    ends = [int(second * SECOND) for _, second in states[1:]]
    return {
        1: [
            Span(state, int(second * SECOND), end)
            for (state, second), end in zip(states, [*ends, None], strict=True)
        ]
    }


def segment(second: float, node: str = "broker-1", topic: str = "t") -> Row:
    """Let a segment be read again."""
    facts: Row = {"topic": topic, "partition": 0, "position": 0, "detail": "0/9"}
    return event(second, node, "log_recovering", **facts)


def loaded(second: float, ms: int) -> Row:
    return event(second, "broker-1", "logs_loaded", count=9, duration_ms=ms)


def of(*events: Row, states: States) -> Callable[[Path], DetectionContext]:
    return partial(case, events=list(events), brokers=lane(*states))


def after(seconds: float) -> Callable[[Path], DetectionContext]:
    """Let a start take so long, with recovery in it."""
    return of(segment(101), segment(102), states=(("starting", 100), ("up", 100 + seconds)))


STARTS = (("starting", 100), ("crashed", 140), ("starting", 150), ("stopping", 190),
          ("starting", 200), ("up", 230))  # fmt: skip

LINES = """\
[2026-11-18 11:00:00,000] INFO starting (kafka.server.KafkaServer)
[2026-11-18 11:00:01,000] INFO Attempting recovery for all logs in /d since no clean shutdown \
file was found (kafka.log.LogManager)
[2026-11-18 11:00:02,000] INFO [Log partition=t-0, dir=/d] Recovering unflushed segment 0 \
(kafka.log.Log)
[2026-11-18 11:03:22,000] INFO [Log partition=t-1, dir=/d] Recovering unflushed segment 0 \
(kafka.log.Log)
[2026-11-18 11:05:01,000] INFO Loaded 26 logs in 240000ms. (kafka.log.LogManager)
[2026-11-18 11:05:04,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
"""

SCENARIOS = [
    Scenario(
        NAME, "fires", "four minutes, told by Kafka's own lines",
        from_logs({"broker-1/server.log": LINES}),
        [{"severity": "low", "brokers": [1],
          "title": "Broker 1 needed 240 s to recover its logs after an unclean stop",
          "measures": {"segments": 2, "longest_s": 240.0, "broken_off": 0}}],
    ),
    Scenario(NAME, "boundary", "a minute", after(60), [{"severity": "low"}]),
    Scenario(NAME, "quiet", "a little less", after(59.9)),
    Scenario(NAME, "boundary", "ten minutes", after(600), [{"severity": "medium"}]),
    Scenario(NAME, "boundary", "almost ten minutes", after(599.9), [{"severity": "low"}]),
    Scenario(
        NAME, "fires", "stopped twice while it recovered, by who waited too short a time",
        of(segment(110), segment(160), segment(210), states=STARTS),
        [{"severity": "high", "measures": {"starts": 3, "broken_off": 2}}],
    ),
    Scenario(
        NAME, "fires", "stopped for the second time, and not seen to come up",
        of(segment(110), segment(160), states=(*STARTS[:4], ("stopped", 191))),
        [{"severity": "high",
          "title": "Broker 1 was stopped 2 times while it recovered its logs, and is not seen to "
          "come up"}],
    ),
    Scenario(
        NAME, "quiet", "stopped once while it recovered",
        of(segment(110), segment(160), states=(*STARTS[:3], ("up", 170))),
    ),
    Scenario(
        NAME, "quiet", "killed again and again, but each time with its logs loaded",
        of(segment(110), loaded(112, 2000), segment(160), loaded(162, 2000), segment(210),
           loaded(212, 2000), states=STARTS),
    ),
    Scenario(
        NAME, "boundary", "the logs were quick, and what took so long was something else",
        of(segment(101), loaded(103, 2000), states=(("starting", 100), ("up", 900))),
    ),
    Scenario(
        NAME, "boundary", "still at it when the logs end",
        of(segment(9000), states=(("starting", 8990),)),
        [{"title": "Broker 1 was still recovering its logs after 1010 s"}],
    ),
    Scenario(
        NAME, "quiet", "a controller that could not start: only the log of the metadata was read",
        of(*(segment(at, topic="__cluster_metadata") for at in (110, 160, 210)), states=STARTS),
    ),
    Scenario(
        NAME, "quiet", "a long start with nothing to recover",
        of(segment(101, "broker-2"), states=(("starting", 100), ("up", 900))),
    ),
    Scenario(NAME, "blind", "only clients' logs",
             partial(case, files=[logs("app", 100, role="client", records=9)]),
             reason="there is no brokers' log (server.log)"),
]  # fmt: skip
