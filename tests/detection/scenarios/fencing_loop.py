"""KRaft brokers that are fenced and let in again while their processes live on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Absence, EvidenceRow, Span
from forensics.lib.time_units import SECOND
from tests.detection.cases import absence, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "fencing-loop"
SERVERS = [logs(f"broker-{one}", 10_000, role="broker", records=9) for one in (1, 2, 3)]


def fence(begin: float, broker: int = 2, last: float = 6, kind: str = "fenced") -> Absence:
    """Let a controller fence a broker, in so many words."""
    one = absence(broker, kind, begin, begin + last)
    return replace(one, evidence=tuple({**place, "what": "fenced"} for place in one.evidence))


def hung(fenced: float) -> Span:
    """Let broker 2 hang from nine seconds before it is fenced."""
    place: EvidenceRow = {"file": "broker-2/server.log", "line": 7, "text": "woke", "at": 0}
    return Span("paused", int((fenced - 9) * SECOND), int((fenced + 5) * SECOND), [place])


def loop(begins: Sequence[float], **more: Any) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be fenced at some moments; it writes while it is."""
    events = [event(begin - 4, "broker-2", "heartbeat_failed") for begin in begins]
    return partial(
        case, files=SERVERS, away=[fence(begin) for begin in begins], events=events, **more
    )


def crowd(
    begins: Sequence[float], apart: float = 1, last: float = 6
) -> Callable[[Path], DetectionContext]:
    """Let two of three brokers be fenced nearly together."""
    brokers = list(enumerate((1, 2)))
    away = [fence(begin + apart * at, broker, last) for begin in begins for at, broker in brokers]
    return partial(case, files=SERVERS, away=away)


LET_IN = (
    "The request from broker 2 to unfence has been granted because it has caught up with the offset"
    " of its register broker record 6. (org.apache.kafka.controller.BrokerHeartbeatManager)"
)
FENCED = (
    "Fencing broker 2 because its session has timed out."
    " (org.apache.kafka.controller.ReplicationControlManager)"
)
LINES = {
    "broker-2/server.log": "".join(
        f"[2026-11-18 11:4{minute}:58,186] INFO [BrokerLifecycleManager id=2] Unable to send a"
        " heartbeat because the RPC got timed out before it could be sent."
        " (kafka.server.BrokerLifecycleManager)\n"
        for minute in (0, 1, 2)
    ),
    "controller-1/controller.log": "".join(
        f"[2026-11-18 11:4{minute}:{second},000] INFO [QuorumController id=1] {what}\n"
        for minute in (0, 1, 2, 3)
        for second, what in ((10, LET_IN), (59, FENCED))
    ),
}

SCENARIOS = [
    Scenario(
        NAME, "fires", "in the controller's own words", from_logs(LINES),
        [{"severity": "medium", "brokers": [2], "measures": {"fences": 4, "hung": 0}}],
    ),
    Scenario(
        NAME, "fires", "three fences of a broker that writes on", loop([100, 200, 300]),
        [{"severity": "medium", "brokers": [2], "measures": {"fences": 3, "hung": 0}}],
    ),
    Scenario(
        NAME, "quiet", "three fences of a broker of which no line is of that time",
        partial(case, files=SERVERS, away=[fence(begin) for begin in (100, 200, 300)]),
    ),
    Scenario(
        NAME, "quiet", "three fences of a broker that hangs",
        partial(
            case, files=SERVERS, away=[fence(at, kind="pause") for at in (100, 200, 300)],
            brokers={1: [], 2: [hung(at) for at in (100, 200, 300)], 3: []},
        ),
    ),
    Scenario(
        NAME, "fires", "several brokers at once, for long", crowd([100], last=12),
        [{"severity": "medium", "brokers": [1, 2], "measures": {"fences": 2, "brokers": 2}}],
    ),
    Scenario(
        NAME, "fires", "several brokers at once, again and again", crowd([100, 200, 300]),
        [{"severity": "medium", "measures": {"fences": 6}}],
    ),
    Scenario(NAME, "boundary", "two fences", loop([100, 200])),
    Scenario(
        NAME, "boundary", "four fences", loop([100, 200, 300, 400]), [{"measures": {"fences": 4}}],
    ),
    Scenario(
        NAME, "boundary", "the third at the end of the window", loop([100, 200, 3700]),
        [{"measures": {"fences": 3}}],
    ),
    Scenario(NAME, "boundary", "the third beyond it", loop([100, 200, 3700.001])),
    Scenario(NAME, "boundary", "as far apart as sessions are checked", crowd([100], 5), [{}]),
    Scenario(NAME, "boundary", "further apart: each for itself", crowd([100], 5.1)),
    Scenario(
        NAME, "boundary", "a change of the controller", crowd([100], 1, 9.9), [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "just too long for one", crowd([100], 1, 10), [{"severity": "medium"}],
    ),
    Scenario(
        NAME, "boundary", "longer still, by what one second makes", crowd([100], 1, 9.5),
        [{"severity": "low"}],
    ),
    Scenario(
        NAME, "boundary", "longer than that by another", crowd([100], 1, 10.5),
        [{"severity": "medium"}],
    ),
    Scenario(NAME, "boundary", "twice together", crowd([100, 200]), [{"severity": "low"}]),
    Scenario(
        NAME, "quiet", "restarts: each fence ends with a new registration",
        partial(
            case, files=SERVERS, away=[fence(one, kind="unknown") for one in (100, 200, 300)],
            events=[
                event(one + 3, "controller-1", "broker_registered", broker=2)
                for one in (100, 200, 300)
            ],
        ),
    ),
    Scenario(
        NAME, "quiet", "no log of its own, which would tell whether it hung",
        partial(
            case, files=[SERVERS[0], SERVERS[2]], away=[fence(at) for at in (100, 200, 300)]
        ),
    ),
    Scenario(
        NAME, "quiet", "crashes",
        partial(case, files=SERVERS, away=[fence(one, kind="crash") for one in (100, 200, 300)]),
    ),
    Scenario(
        NAME, "quiet", "orderly stops",
        partial(
            case, files=SERVERS, away=[fence(one, kind="controlled") for one in (100, 200, 300)]
        ),
    ),
    Scenario(
        NAME, "quiet", "a lost quorum",
        partial(case, files=SERVERS, away=[
            fence(100 + 13.5 * at, last=4.5) for at in range(8)
        ]),
    ),
    Scenario(NAME, "quiet", "a cluster on ZooKeeper", loop([100, 200, 300], kraft=False)),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
