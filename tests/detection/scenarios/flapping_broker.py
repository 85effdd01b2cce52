"""Brokers that leave and come back again and again; a rolling restart is not that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.nodes.broker_states import Absence
from tests.detection.cases import SECOND, Row, absence, case, event, logs, row
from tests.detection.scenarios import Scenario, from_logs

NAME = "flapping-broker"


def times(kind: str, begins: Sequence[float], broker: int = 2, last: float = 6) -> list[Absence]:
    """Let one broker be away at some moments, for a few seconds each."""
    return [absence(broker, kind, begin, begin + last) for begin in begins]


def cycles(kinds: Sequence[str]) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be away in some ways, one after the other."""
    away = [absence(2, kind, 100 * at, 100 * at + 6) for at, kind in enumerate(kinds, 1)]
    return partial(case, away=away)


def lone(step: float, length: float, count: int, **more: Any) -> Callable[[Path], DetectionContext]:
    """Let a controller without a majority fence its own broker and let it in, on and on."""
    away = [absence(1, "pause", 100 + step * at, 100 + step * at + length) for at in range(count)]
    return partial(case, away=away, **more)


def versions(
    number: int, drops: Sequence[float], leader: int, out: Sequence[int] = (2,)
) -> list[Row]:
    """Let a leader drop followers at some moments, and take them back 10 s later."""
    states: list[tuple[float, list[int]]] = [(1, [1, 2, 3])]
    for second in drops:
        left = [one for one in (1, 2, 3) if one not in out]
        states += [(second, left), (second + 10, [1, 2, 3])]
    return [
        row(
            "isr", topic="t", partition=number, partition_epoch=at, leader_epoch=0, leader=leader,
            isr=isr, replicas=[1, 2, 3], started_at=int(second * SECOND), how="observed",
            evidence=[{"file": f"broker-{leader}/server.log", "line": 1000 * number + at}],
        )
        for at, (second, isr) in enumerate(states)
    ]  # fmt: skip


def dropped(drops: Sequence[float], **more: Any) -> Callable[[Path], DetectionContext]:
    """Let two leaders drop broker 2 at some moments."""
    return partial(case, isr=[*versions(0, drops, 1), *versions(1, drops, 3)], **more)


CRASHES = {
    "broker-2/server.log": "".join(
        f"[2026-11-18 11:{minute:02d}:00,000] INFO Registered kafka:type=kafka.Log4jController"
        " MBean (kafka.utils.Log4jControllerRegistration$)\n"
        f"[2026-11-18 11:{minute:02d}:02,000] INFO [BrokerServer id=2] Transition from STARTING to"
        " STARTED (kafka.server.BrokerServer)\n"
        f"[2026-11-18 11:{minute:02d}:30,000] INFO [BrokerLifecycleManager id=2] Successfully"
        f" registered broker 2 with broker epoch {minute} (kafka.server.BrokerLifecycleManager)\n"
        for minute in (10, 11, 12, 13)
    )
}

SCENARIOS = [
    Scenario(
        NAME, "fires", "three crashes", cycles(["crash"] * 3),
        [{"severity": "high", "brokers": [2],
          "measures": {"cycles": 3, "median_away_s": 6.0, "how": "crash"}}],
    ),
    Scenario(
        NAME, "fires", "a log that begins anew four times", from_logs(CRASHES),
        [{"brokers": [2], "measures": {"cycles": 3, "how": "crash"}}],
    ),
    Scenario(
        NAME, "fires", "three pauses", cycles(["pause"] * 3), [{"measures": {"how": "pause"}}],
    ),
    Scenario(
        NAME, "fires", "crashes and pauses", cycles(["crash", "pause", "crash"]),
        [{"measures": {"how": "mixed", "ways": {"crash": 2, "pause": 1}}}],
    ),
    Scenario(
        NAME, "fires", "a new registration each time is a new process",
        partial(
            case, away=times("unknown", [100, 200, 300]),
            events=[
                event(second, "controller-1", "broker_registered", broker=2)
                for second in (104, 204, 304)
            ],
        ),
        [{"measures": {"how": "crash"}}],
    ),
    Scenario(
        NAME, "fires", "the same registration all along is the same process",
        partial(
            case, away=times("unknown", [100, 200, 300]),
            events=[event(1, "controller-1", "broker_registered", broker=2)],
        ),
        [{"measures": {"how": "pause"}}],
    ),
    Scenario(
        NAME, "fires", "nobody knows how it went", cycles(["unknown"] * 3),
        [{"measures": {"how": "mixed"}}],
    ),
    Scenario(
        NAME, "fires", "out of the ISR again and again, and never away", dropped([100, 200, 300]),
        [{"severity": "medium", "brokers": [2], "partitions": ["t-0", "t-1"],
          "measures": {"cycles": 3, "how": "isr"}}],
    ),
    Scenario(NAME, "boundary", "two crashes", cycles(["crash"] * 2)),
    Scenario(
        NAME, "boundary", "four crashes are one finding", cycles(["crash"] * 4),
        [{"measures": {"cycles": 4}}],
    ),
    Scenario(
        NAME, "boundary", "the third at the end of the window",
        partial(case, away=times("crash", [100, 500, 3700])), [{"measures": {"cycles": 3}}],
    ),
    Scenario(
        NAME, "boundary", "the third just beyond it",
        partial(case, away=times("crash", [100, 500, 3700.001])),
    ),
    Scenario(NAME, "boundary", "out of the ISR twice", dropped([100, 200])),
    Scenario(
        NAME, "boundary", "out of the ISR three times, just apart", dropped([100, 131, 162]),
        [{"measures": {"cycles": 3}}],
    ),
    Scenario(NAME, "boundary", "out of the ISR three times in a stroke", dropped([100, 130, 160])),
    Scenario(
        NAME, "boundary", "brokers that hang one after the other are not one pause",
        partial(case, away=[
            one for at in (100, 200, 300)
            for one in (*times("pause", [at], 1), *times("pause", [at + 5.001], 2))
        ]),
        [{"brokers": [1]}, {"brokers": [2]}],
    ),
    Scenario(NAME, "quiet", "an operator's two restarts", cycles(["controlled"] * 2)),
    Scenario(NAME, "quiet", "failure callbacks of orderly stops", cycles(["controlled"] * 5)),
    Scenario(
        NAME, "quiet", "a rolling restart, with kill -9",
        partial(case, away=[absence(one, "crash", 100 * one, 100 * one + 9) for one in (1, 2, 3)]),
    ),
    Scenario(
        NAME, "quiet", "each follower returning once after a roll",
        partial(case, isr=[
            *versions(0, [100], 1), *versions(1, [200], 3), *versions(2, [300], 1),
        ]),
    ),
    Scenario(
        NAME, "quiet", "a leader that is cut off drops all its followers",
        partial(case, isr=versions(0, [100, 200, 300], 1, (2, 3))),
    ),
    Scenario(
        NAME, "quiet", "out of the ISR for it was restarted",
        dropped([100, 200, 300], away=times("controlled", [90, 190, 290])),
    ),
    Scenario(
        NAME, "quiet", "a host pause: all nodes at once",
        partial(case, away=[
            one for at in (100, 200, 300)
            for broker in (1, 2, 3) for one in times("pause", [at + broker * 2.5 - 2.5], broker)
        ]),
    ),
    Scenario(
        NAME, "quiet", "a lost quorum: fenced after each session, let in after half of one",
        lone(13.5, 4.5, 8),
    ),
    Scenario(
        NAME, "quiet", "a lost quorum with another session",
        lone(27, 9, 8, events=[
            event(1, "broker-1", "setting_seen", setting="broker.session.timeout.ms", value="18000")
        ]),
    ),
    Scenario(
        NAME, "boundary", "a broker that lives for a while between two pauses",
        lone(13.5 + 5, 4.5, 4), [{"measures": {"cycles": 4, "how": "pause"}}],
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
