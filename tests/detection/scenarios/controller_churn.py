"""Controllers that change again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forensics.detection.context import DetectionContext
from tests.detection.cases import absence, case, event, logs, reign
from tests.detection.scenarios import Scenario

NAME = "controller-churn"


def reigns(
    begins: Sequence[float], *, one: bool = False, **more: Any
) -> Callable[[Path], DetectionContext]:
    """Let nodes follow each other in office at some moments; or one and the same again."""
    return partial(
        case,
        controllers=[
            reign(f"controller-{owner}", owner, term, begin)
            for term, begin in enumerate(begins)
            if (owner := 1 if one else 1 + term % 2)
        ],
        **more,
    )


SCENARIOS = [
    Scenario(
        NAME, "fires", "three changes within minutes", reigns([0, 100, 200, 300]),
        [{"severity": "medium", "measures": {"changes": 3, "epochs": [1, 2, 3]}}],
    ),
    Scenario(NAME, "boundary", "two changes", reigns([0, 100, 200])),
    Scenario(
        NAME, "boundary", "four changes are one finding", reigns([0, 100, 200, 300, 400]),
        [{"measures": {"changes": 4}}],
    ),
    Scenario(
        NAME, "boundary", "the third at the end of the window", reigns([0, 100, 200, 700]),
        [{"measures": {"changes": 3}}],
    ),
    Scenario(NAME, "boundary", "the third just beyond it", reigns([0, 100, 200, 700.001])),
    Scenario(
        NAME, "quiet", "controllers that are restarted in turn",
        reigns(
            [0, 100, 200, 300],
            events=[
                event(100 * at - 30, f"controller-{1 + (at - 1) % 2}", "process_stopping")
                for at in (1, 2, 3)
            ],
        ),
    ),
    Scenario(
        NAME, "quiet", "combined nodes whose own stop is told by others",
        reigns(
            [0, 100, 200, 300],
            away=[
                absence(1 + (at - 1) % 2, "controlled", 100 * at - 5, 100 * at + 20)
                for at in (1, 2, 3)
            ],
        ),
    ),
    Scenario(
        NAME, "boundary", "a stop that is too far from the change",
        reigns(
            [0, 100, 200, 300],
            events=[event(169, "controller-2", "process_stopping")],
        ),
        [{"measures": {"changes": 3}}],
    ),
    Scenario(
        NAME, "boundary", "stopped as long before as a hand-over takes",
        reigns([0, 100, 200, 300], events=[event(170, "controller-2", "process_stopping")]),
    ),
    Scenario(
        NAME, "boundary", "a stop that comes after the change",
        reigns([0, 100, 200, 300], events=[event(202, "controller-2", "process_stopping")]),
        [{"measures": {"changes": 3}}],
    ),
    Scenario(NAME, "quiet", "the same node again", reigns([0, 100, 200, 300], one=True)),
    Scenario(
        NAME, "fires", "the same node again, which died each time",
        reigns(
            [0, 100, 200, 300], one=True,
            away=[absence(1, "crash", 100 * at - 50, 100 * at - 1) for at in (1, 2, 3)],
        ),
        [{"measures": {"changes": 3}}],
    ),
    Scenario(
        NAME, "fires", "nodes that die, and fail as they are started again",
        reigns(
            [0, 100, 200, 300],
            away=[absence(1 + (at - 1) % 2, "crash", 100 * at - 20) for at in (1, 2, 3)],
            events=[
                event(100 * at - 5, f"controller-{1 + (at - 1) % 2}", "process_stopping")
                for at in (1, 2, 3)
            ],
        ),
        [{"measures": {"changes": 3}}],
    ),
    Scenario(
        NAME, "boundary", "changes that go on for longer than the window are one finding",
        reigns([0, 100, 200, 300, 800, 1400, 2000]),
        [{"measures": {"changes": 6}}],
    ),
    Scenario(
        NAME, "boundary", "changes after a longer rest are another one",
        reigns([0, 100, 200, 300, 901, 1001, 1101]),
        [{"measures": {"changes": 3}}, {"measures": {"changes": 3}}],
    ),
    Scenario(
        NAME, "quiet", "the same node again, which hung",
        reigns(
            [0, 100, 200, 300], one=True,
            away=[absence(1, "pause", 100 * at - 50, 100 * at - 1) for at in (1, 2, 3)],
        ),
    ),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
