"""Restarts of one broker: planned ones for the record, unplanned ones as incidents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, absence, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "broker-restart"


def one(kind: str, end: float | None = 109) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be away once."""
    return partial(case, away=[absence(2, kind, 100, end)])


def lives(states: Sequence[str], end: float | None) -> Callable[[Path], DetectionContext]:
    """Let broker 2 crash and be started, a state every ten seconds from the crash on."""
    spans = [
        Span(state, (100 + 10 * at) * SECOND, (110 + 10 * at) * SECOND)
        for at, state in enumerate(["crashed", *states])
    ]
    return partial(
        case, away=[absence(2, "crash", 100, end)], brokers={1: [], 2: spans, 3: []}
    )  # fmt: skip


def restarts(begins: Sequence[float]) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be restarted in order at some moments."""
    return partial(case, away=[absence(2, "controlled", begin, begin + 5) for begin in begins])


def each(count: int) -> Sequence[Mapping[str, Any]]:
    """Expect so many planned restarts."""
    return [{"severity": "info"}] * count


KILLED = {
    "broker-1/server.log": "[2026-11-18 11:44:00,000] INFO [KafkaServer id=1] started"
    " (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:59:00,000] INFO [KafkaServer id=1] shutting down (kafka.server.KafkaServer)\n",
    "broker-2/server.log": "[2026-11-18 11:45:49,000] INFO starting (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:45:52,000] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:46:12,000] INFO [BrokerToControllerChannelManager broker=2 name=alterIsr]:"
    " Recorded new controller, from now on will use broker 1 (kafka.server."
    "BrokerToControllerRequestThread)\n"
    "[2026-11-18 11:46:38,000] INFO starting (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:46:41,500] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n",
}
_START = (
    "[2026-11-18 11:46:{0:02d},000] INFO Registered kafka:type=kafka.Log4jController MBean"
    " (kafka.utils.Log4jControllerRegistration$)\n"
)
WRONG_SETTING = KILLED | {
    "broker-2/server.log": "[2026-11-18 11:45:49,000] INFO starting (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:45:52,000] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:46:12,000] INFO [KafkaServer id=2] shutting down (kafka.server.KafkaServer)\n"
    "[2026-11-18 11:46:14,000] INFO [KafkaServer id=2] shut down completed"
    " (kafka.server.KafkaServer)\n"
    + "".join(
        _START.format(second)
        + f"[2026-11-18 11:46:{second + 1:02d},000] ERROR Exiting Kafka due to fatal exception"
        " (kafka.Kafka$)\norg.apache.kafka.common.config.ConfigException: Invalid value oops\n"
        for second in (20, 30, 40)
    )
    + _START.format(50)
    + "[2026-11-18 11:46:52,000] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)\n",
}
RECOVERY = ["starting", "recovering", "stopped"]
UNCLEAN = KILLED | {
    "broker-2/server.log": KILLED["broker-2/server.log"].replace(
        "[2026-11-18 11:46:41,500]",
        "[2026-11-18 11:46:39,000] INFO Recovering 23 logs from /var/lib/kafka/b2 since no clean"
        " shutdown file was found (kafka.log.LogManager)\n[2026-11-18 11:46:41,500]",
    )
}

SCENARIOS = [
    Scenario(
        NAME, "fires", "a crash", one("crash"),
        [{"severity": "medium", "brokers": [2], "measures": {"kind": "crash", "away_s": 9.0}}],
    ),
    Scenario(
        NAME, "fires", "a start that found no mark of an orderly stop", from_logs(UNCLEAN),
        [{"brokers": [2], "confidence": "likely", "measures": {"kind": "crash"}},
         {"severity": "info", "brokers": [1]}],
    ),
    Scenario(
        NAME, "fires", "stopped in order, and three starts that end by a setting",
        from_logs(WRONG_SETTING),
        [{"severity": "high", "brokers": [2], "measures": {
            "kind": "controlled", "failed_starts": 3, "said": "Invalid value oops"}},
         {"severity": "info", "brokers": [1], "measures": {"kind": "controlled"}}],
    ),
    Scenario(
        NAME, "fires", "a log that goes on with a start", from_logs(KILLED),
        [{"severity": "medium", "brokers": [2], "confidence": "possible",
          "measures": {"kind": "crash"}},
         {"severity": "info", "brokers": [1], "measures": {"kind": "controlled"}}],
    ),
    Scenario(
        NAME, "fires", "fenced while its process went on", one("fenced"),
        [{"severity": "medium", "measures": {"kind": "unknown", "away_s": 9.0}}],
    ),
    Scenario(NAME, "fires", "a crash without a return", one("crash", None), [{"severity": "high"}]),
    Scenario(
        NAME, "fires", "a silence without a return", one("gone", None), [{"severity": "high"}],
    ),
    Scenario(NAME, "fires", "nobody knows how", one("unknown"), [{"severity": "low"}]),
    Scenario(
        NAME, "fires", "killed in its recovery again and again, until it was left alone",
        lives([*RECOVERY * 2, "starting", "recovering", "up"], 190),
        [{"severity": "high", "measures": {"kind": "crash", "starts": 3, "ended": "recovery"}}],
    ),
    Scenario(
        NAME, "fires", "it dies in each of its starts", lives(["starting", "crashed"] * 3, None),
        [{"severity": "high", "measures": {"starts": 3, "ended": "crash"}}],
    ),
    Scenario(
        NAME, "fires", "it is stopped in each of its starts",
        lives([*["starting", "stopping", "stopped"] * 3, "starting", "up"], 210),
        [{"severity": "high", "measures": {"starts": 4, "ended": "asked"}}],
    ),
    Scenario(
        NAME, "fires", "stopped and started far too often for a person",
        restarts(range(100, 700, 100)),
        [{"severity": "info"}, {"severity": "low", "measures": {"restarts": 6}}, *each(5)],
    ),
    Scenario(
        NAME, "boundary", "an operator's upgrade and its way back",
        restarts(range(100, 600, 100)), each(5),
    ),
    Scenario(
        NAME, "boundary", "the last at the end of the window",
        restarts([100, 200, 300, 400, 500, 3700]),
        [{"severity": "info"}, {"severity": "low", "measures": {"restarts": 6}}, *each(5)],
    ),
    Scenario(
        NAME, "boundary", "the last beyond it", restarts([100, 200, 300, 400, 500, 3700.001]),
        each(6),
    ),
    Scenario(
        NAME, "boundary", "the second start worked",
        lives(["starting", "crashed", "starting", "up"], 140),
        [{"severity": "medium", "measures": {"kind": "crash"}}],
    ),
    Scenario(
        NAME, "quiet", "orderly stop seen from the controller", one("controlled"),
        [{"severity": "info", "measures": {"kind": "controlled"}}],
    ),
    Scenario(
        NAME, "quiet", "all nodes at once: host sleep",
        partial(case, away=[absence(broker, "fenced", 100 + broker, 150) for broker in (1, 2, 3)]),
        [{"severity": "info"}] * 3,
    ),
    Scenario(NAME, "quiet", "nobody was away", case),
    Scenario(
        NAME, "quiet", "a session with ZooKeeper that ended while the process went on",
        partial(
            case, away=[absence(1, "fenced", 100, 103)], kraft=False,
            events=[event(102, "broker-1", "session_expired")],
        ),
    ),
    Scenario(
        NAME, "boundary", "fenced while another broker's session ended",
        partial(
            case, away=[absence(1, "fenced", 100, 103)], kraft=False,
            events=[event(102, "broker-2", "session_expired")],
        ),
        [{"brokers": [1]}],
    ),
    Scenario(
        NAME, "quiet", "a lost quorum",
        partial(case, away=[
            absence(1, "pause", 100 + 13.5 * at, 104.5 + 13.5 * at) for at in range(5)
        ]),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
