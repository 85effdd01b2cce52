"""Chooses the clock that all others are told by: a steady one that most of them agree with."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.history.clocks import Course, Piece
from forensics.history.crowds import NEAR_MS

__all__ = ["central", "steadiness"]

# The course that all are first told by has no ends.
_ALWAYS = 2**60


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
) -> str:
    """Choose the node from which all others are nearest, over time: most clocks are right."""
    spans = {
        node: [edge - round(piece.offset(edge) * 1000) for piece, edge in _edges(course)]
        for node, course in courses.items()
    }
    known = [edge for span in spans.values() for edge in span if abs(edge) < _ALWAYS]
    if not known:
        return min(ties)
    begin, end = min(known), max(known)
    moments = [begin + (end - begin) * n // 8 for n in range(9)]
    values = {
        node: [course.piece(at).offset(at) for at in moments] for node, course in courses.items()
    }
    # Who is not heard of at a moment has no say.
    votes = [
        [values[node][n] for node, (first, last) in spans.items() if first <= at <= last]
        for n, at in enumerate(moments)
    ]
    # Half of those decide: one that is far off, or hangs, must not draw the rest to it.
    near = {
        node: sum(
            statistics.median_low(abs(a - b) for b in said)
            for a, said in zip(mine, votes, strict=True)
        )
        for node, mine in values.items()
    }
    # Of those that are about as near, the steadiest of those that most is known of.
    best = min(near[node] for node in ties) + NEAR_MS * len(moments)
    near_ones = [node for node in sorted(ties) if near[node] <= best]
    least = max(ties[node] for node in near_ones) / 2
    able = [node for node in near_ones if ties[node] >= least]
    return min(able, key=lambda node: (-steady[node], sum(values[node])))


def _edges(course: Course) -> list[tuple[Piece, int]]:
    """Give the first and the last moment that a course is known at, by the node's own time."""
    return [(course.pieces[0], course.pieces[0].first), (course.pieces[-1], course.pieces[-1].last)]
