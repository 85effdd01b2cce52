"""Controllers that change again and again."""

from __future__ import annotations

from collections.abc import Iterator

from forensics.history.lanes import Span
from forensics.incidents.case import Case
from forensics.incidents.finding import Finding

__all__ = ["find"]

NAME = "controller-churn"
_MICROS = 1_000_000


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each run of changes that come closely one after the other."""
    limits = case.limits[NAME]
    reigns = case.past.lanes.controllers
    changes = [
        after
        for (_, before_id, _), (_, after_id, after) in zip(reigns, reigns[1:], strict=False)
        if before_id != after_id
    ]
    run: list[Span] = []
    for span in [*changes, None]:
        far = span is None or (run and span.begin - run[0].begin > limits["window"] * _MICROS)
        if far and len(run) >= limits["changes"]:
            yield _finding(run)
        run = [] if far else run
        if span is not None:
            run.append(span)


def _finding(run: list[Span]) -> Finding:
    epochs = [span.epoch for span in run if span.epoch is not None]
    return Finding(
        detector=NAME,
        severity="medium",
        confidence="confirmed",
        title=f"The active controller changed {len(run)} times",
        begin=run[0].begin,
        end=run[-1].begin,
        evidence=[place for span in run for place in span.evidence],
        measures={"changes": len(run), "epochs": epochs},
        explanation="While controllers change, no leader is elected and no broker is fenced or let"
        " in: every failure in that time takes longer.",
        actions=["Look at the nodes that lost the role, just before each change."],
    )
