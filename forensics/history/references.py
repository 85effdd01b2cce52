"""Chooses the clock that all others are told by: a steady one that most of them agree with."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.history.clocks import Course
from forensics.history.crowds import NEAR_MS

__all__ = ["central", "steadiness"]


def steadiness(pairs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count for each node the points that agree with one constant offset, less the others."""
    total: dict[str, int] = defaultdict(int)
    for pair in pairs:
        near = [abs(point["delta"] - pair["delta"]) <= 2 * NEAR_MS for point in pair["points"]]
        for end in ("node", "other"):
            total[pair[end]] += 2 * sum(near) - len(near)
    return total


def central(
    courses: Mapping[str, Course], ties: Mapping[str, int], steady: Mapping[str, int]
) -> list[str]:
    """Name the nodes from which all others are nearest, over time: most clocks are right."""
    spans = [(p.first, p.last) for c in courses.values() for p in c.pieces if abs(p.first) < 2**60]
    if not spans:
        return [min(ties)]
    begin, end = min(first for first, _ in spans), max(last for _, last in spans)
    moments = [begin + (end - begin) * n // 8 for n in range(9)]
    values = {
        node: [course.piece(at).offset(at) for at in moments] for node, course in courses.items()
    }
    all_now = list(zip(*values.values(), strict=True))
    # Half of the others decide: one that is far off, or hangs, must not draw the rest to it.
    near = {
        node: sum(
            statistics.median_low(abs(a - b) for b in now)
            for a, now in zip(mine, all_now, strict=True)
        )
        for node, mine in values.items()
    }
    # Of those that are about as near, the steadiest of those that most is known of.
    best = min(near[node] for node in ties) + NEAR_MS * len(moments)
    near_ones = [node for node in sorted(ties) if near[node] <= best]
    known = max(ties[node] for node in near_ones) / 2
    able = [node for node in near_ones if ties[node] >= known]
    return sorted(able, key=lambda node: (-steady[node], sum(values[node])))
