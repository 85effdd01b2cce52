"""Ends of processes that no absence explains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, logs
from tests.detection.scenarios import Scenario

NAME = "killed-process"


def ended(second: float | None, subject: str, **facts: Any) -> dict[str, Any]:
    """Let something say how a process ended."""
    row = event(second or 0, "file:pods.yaml", facts.pop("kind", "process_ended"), subject=subject)
    return (
        row
        | {"file": "pods.yaml", "error": "OOMKilled"}
        | facts
        | ({} if second is not None else {"ts": None})
    )


def told(*events: dict[str, Any], **more: Any) -> Callable[[Path], DetectionContext]:
    """Let broker 2 crash at 100, and others say something of it."""
    files: list[Any] = [logs("broker-2", 200, role="broker"), logs("broker-1", 200, role="broker")]
    away = [absence(2, "crash", 100, 120)]
    defaults: dict[str, Any] = {"files": files, "away": away}
    return partial(case, events=events, **(defaults | more))


SCENARIOS = [
    Scenario(
        NAME, "fires", "a pod that is no broker of these logs",
        told(ended(100, "pod kafka-7")),
        [{"severity": "low", "measures": {"reason": "oom", "ends": 1, "dated": 1},
          "title": "Pod kafka-7: a process was killed: memory had run out"}],
    ),
    Scenario(
        NAME, "fires", "another service",
        told(ended(100, "pod nginx"), ended(101, "pod nginx")),
        [{"severity": "info", "title": "Pod nginx: a process was killed: memory had run out 2"
          " times"}],
    ),
    Scenario(
        NAME, "fires", "a time that is not told",
        told(ended(None, "pod kafka-2")),
        [{"title": "Pod kafka-2: a process was killed: memory had run out, at a time that is not"
          " told"}],
    ),
    Scenario(
        NAME, "fires", "a machine that was lost",
        told(ended(100, "host worker-9", kind="host_lost", error="NodeNotReady")),
        [{"severity": "info", "title": "Host worker-9: it was lost or not ready"}],
    ),
    Scenario(NAME, "quiet", "it is why a broker went", told(ended(100, "pod kafka-2"))),
    Scenario(NAME, "quiet", "a stop that was asked for",
             told(ended(150, "pod kafka-7", error=None, value="143"))),
    Scenario(NAME, "boundary", "three seconds after it had started again",
             told(ended(124, "pod kafka-2")), [{"measures": {"reason": "oom"}}]),
    Scenario(NAME, "boundary", "thirteen seconds after its last sign of life",
             told(ended(113, "pod kafka-2"))),
    Scenario(NAME, "boundary", "fourteen seconds after it",
             told(ended(114, "pod kafka-2")), [{}]),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
