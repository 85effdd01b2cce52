"""Controllers that change again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from forensics.incidents import Case
from tests.incidents.cases import case, logs, reign
from tests.incidents.scenarios import Scenario

NAME = "controller-churn"


def reigns(begins: Sequence[float], *, one: bool = False) -> Callable[[Path], Case]:
    """Let nodes follow each other in office at some moments; or one and the same again."""
    return partial(
        case,
        controllers=[
            reign(f"controller-{owner}", owner, term, begin)
            for term, begin in enumerate(begins)
            if (owner := 1 if one else 1 + term % 2)
        ],
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
    Scenario(NAME, "quiet", "the same node again", reigns([0, 100, 200, 300], one=True)),
    Scenario(
        NAME, "blind", "only clients' logs",
        partial(case, files=[logs("app", 100, role="client", records=9)]),
        reason="there is no brokers' or controllers' log",
    ),
]  # fmt: skip
