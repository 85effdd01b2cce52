"""Splits the course of a clock into straight stretches with steps between them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from forensics.history.crowds import Line, Point, straight

__all__ = ["Stretch", "stretches"]

# A line and the first and the last moment that speak for it.
Stretch = tuple[Line, int, int]

# A node that hangs is late now and then, each time by something else; a step stays as it is.
_LEAST = 3
_SHARE = 0.5
_GAIN = 2
_DEEPEST = 6
# Metadata may reach a node half a second late for minutes on end, and one that hangs, seconds.
_LEAST_STEP_MS = 1000.0
_STEADY_MS, _UNSTEADY_MS = 500.0, 5000.0
_TIMES, _MANY, _FAR = 2.5, 8, 20
# What comes and goes and lasts no longer may be one pause; what stays to the end, or was so from
# the beginning, is believed sooner.
_HANG, _SHORT = 30_000_000, 10_000_000
# Where a line misses that share, other places are tried than those where its misses crowd.
_MISSED = 0.25
_TRIED = 48


def stretches(points: Sequence[Point], depth: int = 0) -> list[Stretch]:
    """Lay straight lines through points in the order of time, as few as explain them."""
    whole = straight(points)
    missed = set(range(len(points))) - set(whole.explains(points, _STEADY_MS))
    if len(missed) >= _LEAST and depth < _DEEPEST:
        tried = ((_gain(points, whole, cuts), cuts) for cuts in _cuts(points, sorted(missed)))
        gain, cuts = max(tried, key=lambda one: (one[0], [-cut for cut in one[1]]), default=(0, ()))
        if gain >= _GAIN:
            edges = [0, *cuts, len(points)]
            parts = [stretches(points[a:b], depth + 1) for a, b in pairwise(edges)]
            return _merged([one for part in parts for one in part])
    inside = whole.inside or tuple(range(len(points)))
    # One at either end may have come there by chance.
    stray = 1 if len(inside) >= 2 * _LEAST else 0
    return [(whole, points[inside[stray]][0], points[inside[-1 - stray]][0])]


def _cuts(points: Sequence[Point], missed: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Name the places where a step may be: around the crowd that a straight line misses, mostly."""
    count = len(points)
    rest = [points[n] for n in missed]
    crowd = {missed[n] for n in straight(rest).explains(rest, _STEADY_MS)}
    out = set(missed)
    weights = [1 if n in crowd else 0 if n in out else -1 for n in range(count)]
    begin, end = _heaviest(weights)
    if sum(weights[begin:end]) >= _LEAST:
        yield from {(begin,), (end,), (begin, end)}
    if len(missed) > _MISSED * count:
        yield from {(count * n // _TRIED,) for n in range(1, _TRIED)}


def _heaviest(weights: Sequence[int]) -> tuple[int, int]:
    """Find the run with the largest sum."""
    best = total = start = 0
    found = (0, 0)
    for n, weight in enumerate(weights):
        if total <= 0:
            total, start = 0, n
        total += weight
        if total > best:
            best, found = total, (start, n + 1)
    return found


def _gain(points: Sequence[Point], whole: Line, cuts: tuple[int, ...]) -> int:
    """Count the points more that lines between cuts explain; none, if these would be no steps."""
    parts = [points[begin:end] for begin, end in pairwise([0, *cuts, len(points)])]
    if min(map(len, parts)) < _LEAST:
        return 0
    lines = [straight(part) for part in parts]
    near = max(map(_unsteady, lines, parts))
    if near > _UNSTEADY_MS:
        return 0
    least = max(_LEAST_STEP_MS, _TIMES * near)
    if near > _STEADY_MS and min(map(len, parts)) < _MANY:
        least = _FAR * near
    for (before, after), part in zip(pairwise(lines), parts[1:], strict=True):
        if not _steps(before, after, part[0][0], least):
            return 0
    explained = 0
    for n, (line, part) in enumerate(zip(lines, parts, strict=True)):
        own = line.explains(part, near)
        if len(own) < max(_LEAST, _SHARE * len(part)) or part[own[-1]][0] - part[own[0]][0] < (
            _HANG if 0 < n < len(cuts) else _SHORT
        ):
            return 0
        explained += len(own)
    return explained - len(cuts) - len(whole.explains(points, near))


def _unsteady(line: Line, points: Sequence[Point]) -> float:
    """Give how far from a line what belongs to it may lie."""
    apart = [abs(delta - line.offset(at)) for at, delta in points]
    return max(_STEADY_MS, 2 * statistics.median_low(apart))


def _steps(before: Line, after: Line, at: int, least: float) -> bool:
    return abs(after.offset(at) - before.offset(at)) > least


def _merged(found: Sequence[Stretch]) -> list[Stretch]:
    """Join neighbours that turned out to be the same stretch."""
    kept: list[Stretch] = []
    for line, first, last in found:
        flat = bool(kept) and line.ppm == kept[-1][0].ppm == 0
        if flat and not _steps(kept[-1][0], line, first, _LEAST_STEP_MS):
            longer = max(kept[-1], (line, first, last), key=lambda one: len(one[0].inside))
            kept[-1] = (longer[0], kept[-1][1], last)
        else:
            kept.append((line, first, last))
    return kept
