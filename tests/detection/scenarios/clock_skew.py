"""Nodes whose clock or time zone is off; their times are corrected in everything else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from forensics.history.clocks.model import Clocks
from tests.detection.cases import SECOND, case, event, logs
from tests.detection.scenarios import Scenario, from_logs

NAME = "clock-skew"


def clocks(
    offset: int, zone: int = 0, doubt: int = 10, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let broker 2 be off, and broker 1 be right."""
    right = {
        "node": "broker-1", "offset_ms": 0, "uncertainty_ms": 10, "anchors": 9,
        "zone_shift_minutes": 0, "reference": True,
    }  # fmt: skip
    off = {
        "node": "broker-2", "offset_ms": offset, "uncertainty_ms": doubt,
        "zone_shift_minutes": zone, "reference": False,
    }  # fmt: skip
    known = Clocks(
        {"broker-2": float(offset)}, {"broker-2": zone}, (right, {**right, **off, **more})
    )
    events = [event(second, "broker-2", "partition_state") for second in (5, 6)]
    return partial(case, events=events, clocks=known)


def states(broker: int, minute: int) -> str:
    """Write down eight states of a partition, a second apart, as one broker's clock has them."""
    return "".join(
        f"[2026-11-18 11:{minute}:{second:02d},000] INFO [Partition orders-0 broker={broker}] ISR"
        f" updated to {1 + second % 2},3 and version updated to {second}"
        " (kafka.cluster.Partition)\n"
        for second in range(1, 9)
    )


SCENARIOS = [
    Scenario(
        NAME, "fires", "half a minute ahead", clocks(37_000),
        [{"severity": "medium", "brokers": [2],
          "measures": {"offset_ms": 37_000, "kind": "drift", "node": "broker-2"}}],
    ),
    Scenario(
        NAME, "fires", "set to and fro: no offset explains it", clocks(-20_048, doubt=46_963),
        [{"severity": "medium", "brokers": [2], "title": "The clock of broker-2 cannot be told: its"
          " times may be wrong by 47.0 s", "measures": {"kind": "unknown", "node": "broker-2"}}],
    ),
    Scenario(
        NAME, "boundary", "known to five seconds", clocks(0, doubt=5_000),
        [{"severity": "medium", "measures": {"kind": "unknown"}}],
    ),
    Scenario(NAME, "boundary", "known to a little less", clocks(0, doubt=4_999)),
    Scenario(
        NAME, "fires", "two logs of the same states, ten minutes apart",
        from_logs({"broker-1/server.log": states(1, 30), "broker-2/server.log": states(2, 40)}),
        [{"severity": "medium", "measures": {"kind": "drift"}}],
    ),
    Scenario(
        NAME, "fires", "set back while it ran",
        clocks(-20_000, kind="step", steps=[{"at": 1_795_000_000 * SECOND, "ms": -20_000}]),
        [{"severity": "medium", "measures": {"kind": "step"}}],
    ),
    Scenario(
        NAME, "fires", "a zone of its own", clocks(0, -300),
        [{"severity": "low", "measures": {"kind": "zone", "zone_shift_minutes": -300}}],
    ),
    Scenario(NAME, "boundary", "a second", clocks(1000)),
    Scenario(NAME, "boundary", "just over a second", clocks(1001), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "just under five seconds", clocks(-4999), [{"severity": "low"}]),
    Scenario(NAME, "boundary", "five seconds", clocks(-5000), [{"severity": "medium"}]),
    Scenario(NAME, "quiet", "within its own doubt", clocks(3000, doubt=3000)),
    Scenario(NAME, "quiet", "no anchors: nobody knows", clocks(9000, anchors=0)),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
