"""Reads offsets and drifts off points that crowd: most nodes are well most of the time.

Splits the course of a clock into straight stretches with steps between them.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

# How far apart healthy nodes hear of a change.
TYPICAL_LAG_MS = 100.0
# When a state was seen (microseconds), and by how many milliseconds one clock was then ahead.
Point = tuple[int, float]

_BURST = 1_000_000
# How much longer one tail must be than the other to be called a tail.
_SKEWED = 2.0
# A crowd this many times as large as any other, and no smaller, is the truth without a doubt.
_DECISIVE, _CROWD = 2, 4
# The share of points by whose distance the doubt is measured: those beyond may just be late.
_NEARLY_ALL = 0.8
# With fewer points than that, all of them may be late.
_FAITH = 6
# Time services slew by no more, and clocks left alone run off by less.
_FASTEST_PPM = 500.0
# Later than that is no noise but a node that hung.
_USUAL_MS = 500.0
_WINDOWS, _IN_WINDOW = 12, 4
# A drift must explain more than a constant does: so many points, and such a share of all.
_MORE, _MORE_SHARE = 3, 0.1


@dataclass(frozen=True)
class FittedLine:
    """A straight stretch of a clock: an offset at a moment, a drift, and the doubt of both."""

    at: int
    offset_ms: float
    drift_ppm: float
    uncertainty_ms: float
    inliers: tuple[int, ...]

    def points_near(self, points: Sequence[Point], within_ms: float) -> list[int]:
        """Give the places of the points that lie near this line."""
        return [n for n, (at, d) in enumerate(points) if abs(d - self.offset_at(at)) <= within_ms]

    def offset_at(self, at: int) -> float:
        """Give the offset at a moment, in milliseconds."""
        return self.offset_ms + self.drift_ppm * (at - self.at) / 1e9


def estimate_offset(deltas: Sequence[float]) -> tuple[float, float]:
    """Read the offset of two clocks off how far apart they saw the same states, and its doubt.

    Nodes that are well see a change within a tenth of a second of each other, so the truth lies
    where the deltas crowd. A node that hangs sees things late, never early: of several crowds the
    one away from the long tail is believed.

    >>> estimate_offset([5000.0, 5010.0, 5200.0, 5300.0, 9000.0, 14000.0, 30000.0, 31000.0])[0]
    5000.0
    >>> abs(estimate_offset([-2.0, -1.0, 0.0, 1.0, 2.0])[0]) <= 2.0
    True
    """
    ordered = sorted(deltas)
    crowd = [_around(ordered, one) for one in ordered]
    fullest = max(crowd)
    dense = [at for at, count in enumerate(crowd) if 2 * count > fullest]
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    low, quarter, middle, most, high = (ordered[int(len(ordered) * share)] for share in shares)
    if high - middle > _SKEWED * (middle - low):
        edge = ordered[dense[0]]
        best, typical = _densest(ordered, edge, edge + 2 * TYPICAL_LAG_MS), quarter
    elif middle - low > _SKEWED * (high - middle):
        edge = ordered[dense[-1]]
        mirrored = [-one for one in reversed(ordered)]
        best, typical = -_densest(mirrored, -edge, 2 * TYPICAL_LAG_MS - edge), most
    else:
        at = min(dense, key=lambda at: (-crowd[at], abs(ordered[at] - middle)))
        best, typical = (
            _densest(ordered, ordered[at] - TYPICAL_LAG_MS, ordered[at] + TYPICAL_LAG_MS),
            middle,
        )
    count = _around(ordered, best)
    far = [
        (n, abs(one - best))
        for one, n in zip(ordered, crowd, strict=True)
        if abs(one - best) > 2 * TYPICAL_LAG_MS
    ]
    apart = sorted(abs(one - best) for one in ordered)
    doubt = max(abs(typical - best), apart[int(len(apart) * _NEARLY_ALL)])
    rival = max((n for n, _ in far), default=0)
    if count >= max(_CROWD, _DECISIVE * rival, len(ordered) / 2):
        doubt = min(doubt, TYPICAL_LAG_MS)
    # Another crowd of about the size may be the right one.
    rivals = [away + 2 * TYPICAL_LAG_MS for n, away in far if n >= _CROWD and _DECISIVE * n > count]
    return best, max([doubt, *rivals]) + TYPICAL_LAG_MS * max(1.0, _FAITH / len(ordered))


def _densest(ordered: Sequence[float], low: float, high: float) -> float:
    """Find where values between two bounds crowd most: the narrower half, again and again."""
    part = ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]
    while len(part) > 2:
        size = (len(part) + 1) // 2
        begin = min(range(len(part) - size + 1), key=lambda n: part[n + size - 1] - part[n])
        part = part[begin : begin + size]
    return part[0]


def dedupe_bursts(deltas: Iterable[Point]) -> list[Point]:
    """Keep the first of the points that came within a second: they are one, seen many times."""
    kept: list[Point] = []
    for at, delta in sorted(deltas):
        if not kept or at - kept[-1][0] > _BURST:
            kept.append((at, delta))
    return kept


def thin_evenly(points: Sequence[Point], limit: int) -> list[Point]:
    """Keep at most so many points, evenly over their order."""
    if len(points) <= limit:
        return list(points)
    return [points[len(points) * n // limit] for n in range(limit)]


def dedupe_by_either_clock(points: Iterable[Point]) -> tuple[list[Point], list[Point]]:
    """Reduce points to bursts by either clock, for either may be of the node that hung."""
    points = list(points)
    theirs = dedupe_bursts((at + int(delta * 1000), delta) for at, delta in points)
    return dedupe_bursts(points), [(at - int(delta * 1000), delta) for at, delta in theirs]


def downsample(points: Sequence[Point], limit: int) -> list[Point]:
    """Keep few points of many, evenly over time; of each burst there is one for either clock."""
    if len(points) <= limit:
        return sorted(points)
    mine, other = dedupe_by_either_clock(points)
    return sorted({*thin_evenly(mine, limit), *thin_evenly(other, limit)})


def median_residual(lines: Sequence[FittedLine], points: Sequence[Point]) -> float:
    """Give how far points lie from the line they belong to, as a rule."""
    apart = [min(abs(delta - line.offset_at(at)) for line in lines) for at, delta in points]
    usual = [one for one in apart if one <= _USUAL_MS]
    return statistics.median(usual) if usual else 0.0


def fit_line(points: Sequence[Point]) -> FittedLine:
    """Lay one line through points in the order of time: level, or sloping where that says more."""
    middle = points[len(points) // 2][0]
    level, doubt = estimate_offset([delta for _, delta in points])
    flat = FittedLine(middle, level, 0.0, doubt, _inside(points, middle, level, 0.0))
    ppm = _slope(points)
    rise = abs(ppm) * (points[-1][0] - points[0][0]) / 1e9
    if abs(ppm) <= _FASTEST_PPM and rise > 2 * TYPICAL_LAG_MS:
        rest = [delta - ppm * (at - middle) / 1e9 for at, delta in points]
        level, doubt = estimate_offset(rest)
        sloping = FittedLine(middle, level, ppm, doubt, _inside(points, middle, level, ppm))
        more = len(sloping.inliers) - len(flat.inliers)
        if more >= max(_MORE, _MORE_SHARE * len(points)):
            return sloping
    # A drift too small to be told is still there: it moves both ends away from the middle.
    unseen = min(rise, 2 * TYPICAL_LAG_MS, _FASTEST_PPM * (points[-1][0] - points[0][0]) / 1e9) / 2
    return FittedLine(flat.at, flat.offset_ms, 0.0, flat.uncertainty_ms + unseen, flat.inliers)


def _around(ordered: Sequence[float], one: float) -> int:
    return bisect_right(ordered, one + TYPICAL_LAG_MS) - bisect_left(ordered, one - TYPICAL_LAG_MS)


def _inside(points: Sequence[Point], middle: int, level: float, ppm: float) -> tuple[int, ...]:
    return tuple(
        index
        for index, (at, delta) in enumerate(points)
        if abs(delta - level - ppm * (at - middle) / 1e9) <= 2 * TYPICAL_LAG_MS
    )


def _slope(points: Sequence[Point]) -> float:
    """Give the median slope between the levels of windows, in parts per million."""
    count = min(_WINDOWS, len(points) // _IN_WINDOW)
    edges = [len(points) * n // count for n in range(count + 1)] if count > 2 else []
    levels = []
    for begin, end in zip(edges, edges[1:], strict=False):
        part = points[begin:end]
        levels.append((part[len(part) // 2][0], estimate_offset([delta for _, delta in part])[0]))
    slopes = [
        (later - sooner) * 1e9 / (after - before)
        for n, (before, sooner) in enumerate(levels)
        for after, later in levels[n + 1 :]
        if after > before
    ]
    return statistics.median(slopes) if slopes else 0.0


# A line and the first and the last moment that speak for it.
FittedSegment = tuple[FittedLine, int, int]

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


def fit_segments(points: Sequence[Point], depth: int = 0) -> list[FittedSegment]:
    """Lay straight lines through points in the order of time, as few as explain them."""
    whole = fit_line(points)
    missed = set(range(len(points))) - set(whole.points_near(points, _STEADY_MS))
    if len(missed) >= _LEAST and depth < _DEEPEST:
        tried = ((_gain(points, whole, cuts), cuts) for cuts in _cuts(points, sorted(missed)))
        gain, cuts = max(tried, key=lambda one: (one[0], [-cut for cut in one[1]]), default=(0, ()))
        if gain >= _GAIN:
            edges = [0, *cuts, len(points)]
            parts = [fit_segments(points[a:b], depth + 1) for a, b in pairwise(edges)]
            return _merged([one for part in parts for one in part])
    inside = whole.inliers or tuple(range(len(points)))
    # One at either end may have come there by chance.
    stray = 1 if len(inside) >= 2 * _LEAST else 0
    return [(whole, points[inside[stray]][0], points[inside[-1 - stray]][0])]


def _cuts(points: Sequence[Point], missed: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Name the places where a step may be: around the crowd that a straight line misses, mostly."""
    count = len(points)
    rest = [points[n] for n in missed]
    crowd = {missed[n] for n in fit_line(rest).points_near(rest, _STEADY_MS)}
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


def _gain(points: Sequence[Point], whole: FittedLine, cuts: tuple[int, ...]) -> int:
    """Count the points more that lines between cuts explain; none, if these would be no steps."""
    parts = [points[begin:end] for begin, end in pairwise([0, *cuts, len(points)])]
    if min(map(len, parts)) < _LEAST:
        return 0
    lines = [fit_line(part) for part in parts]
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
        own = line.points_near(part, near)
        if len(own) < max(_LEAST, _SHARE * len(part)) or part[own[-1]][0] - part[own[0]][0] < (
            _HANG if 0 < n < len(cuts) else _SHORT
        ):
            return 0
        explained += len(own)
    return explained - len(cuts) - len(whole.points_near(points, near))


def _unsteady(line: FittedLine, points: Sequence[Point]) -> float:
    """Give how far from a line what belongs to it may lie."""
    apart = [abs(delta - line.offset_at(at)) for at, delta in points]
    return max(_STEADY_MS, 2 * statistics.median_low(apart))


def _steps(before: FittedLine, after: FittedLine, at: int, least: float) -> bool:
    return abs(after.offset_at(at) - before.offset_at(at)) > least


def _merged(found: Sequence[FittedSegment]) -> list[FittedSegment]:
    """Join neighbours that turned out to be the same stretch."""
    kept: list[FittedSegment] = []
    for line, first, last in found:
        flat = bool(kept) and line.drift_ppm == kept[-1][0].drift_ppm == 0
        if flat and not _steps(kept[-1][0], line, first, _LEAST_STEP_MS):
            longer = max(kept[-1], (line, first, last), key=lambda one: len(one[0].inliers))
            kept[-1] = (longer[0], kept[-1][1], last)
        else:
            kept.append((line, first, last))
    return kept
