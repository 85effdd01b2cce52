"""Reads offsets and drifts off points that crowd: most nodes are well most of the time."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "NEAR_MS",
    "Line",
    "Point",
    "both_ways",
    "bursts",
    "noise",
    "offset_of",
    "sketch",
    "straight",
    "thinned",
]

# How far apart healthy nodes hear of a change.
NEAR_MS = 100.0
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
class Line:
    """A straight stretch of a clock: an offset at a moment, a drift, and the doubt of both."""

    at: int
    offset_ms: float
    ppm: float
    doubt_ms: float
    inside: tuple[int, ...]

    def explains(self, points: Sequence[Point], within_ms: float) -> list[int]:
        """Give the places of the points that lie near this line."""
        return [n for n, (at, d) in enumerate(points) if abs(d - self.offset(at)) <= within_ms]

    def offset(self, at: int) -> float:
        """Give the offset at a moment, in milliseconds."""
        return self.offset_ms + self.ppm * (at - self.at) / 1e9


def offset_of(deltas: Sequence[float]) -> tuple[float, float]:
    """Read the offset of two clocks off how far apart they saw the same states, and its doubt.

    Nodes that are well see a change within a tenth of a second of each other, so the truth lies
    where the deltas crowd. A node that hangs sees things late, never early: of several crowds the
    one away from the long tail is believed.

    >>> offset_of([5000.0, 5010.0, 5200.0, 5300.0, 9000.0, 14000.0, 30000.0, 31000.0])[0]
    5000.0
    >>> abs(offset_of([-2.0, -1.0, 0.0, 1.0, 2.0])[0]) <= 2.0
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
        best, typical = _densest(ordered, edge, edge + 2 * NEAR_MS), quarter
    elif middle - low > _SKEWED * (high - middle):
        edge = ordered[dense[-1]]
        mirrored = [-one for one in reversed(ordered)]
        best, typical = -_densest(mirrored, -edge, 2 * NEAR_MS - edge), most
    else:
        at = min(dense, key=lambda at: (-crowd[at], abs(ordered[at] - middle)))
        best, typical = _densest(ordered, ordered[at] - NEAR_MS, ordered[at] + NEAR_MS), middle
    count = _around(ordered, best)
    far = [
        (n, abs(one - best))
        for one, n in zip(ordered, crowd, strict=True)
        if abs(one - best) > 2 * NEAR_MS
    ]
    apart = sorted(abs(one - best) for one in ordered)
    doubt = max(abs(typical - best), apart[int(len(apart) * _NEARLY_ALL)])
    rival = max((n for n, _ in far), default=0)
    if count >= max(_CROWD, _DECISIVE * rival, len(ordered) / 2):
        doubt = min(doubt, NEAR_MS)
    # Another crowd of about the size may be the right one.
    rivals = [away + 2 * NEAR_MS for n, away in far if n >= _CROWD and _DECISIVE * n > count]
    return best, max([doubt, *rivals]) + NEAR_MS * max(1.0, _FAITH / len(ordered))


def _densest(ordered: Sequence[float], low: float, high: float) -> float:
    """Find where values between two bounds crowd most: the narrower half, again and again."""
    part = ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]
    while len(part) > 2:
        size = (len(part) + 1) // 2
        begin = min(range(len(part) - size + 1), key=lambda n: part[n + size - 1] - part[n])
        part = part[begin : begin + size]
    return part[0]


def bursts(deltas: Iterable[Point]) -> list[Point]:
    """Keep the first of the points that came within a second: they are one, seen many times."""
    kept: list[Point] = []
    for at, delta in sorted(deltas):
        if not kept or at - kept[-1][0] > _BURST:
            kept.append((at, delta))
    return kept


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Keep at most so many points, evenly over their order."""
    if len(points) <= most:
        return list(points)
    return [points[len(points) * n // most] for n in range(most)]


def both_ways(points: Iterable[Point]) -> tuple[list[Point], list[Point]]:
    """Reduce points to bursts by either clock, for either may be of the node that hung."""
    points = list(points)
    theirs = bursts((at + int(delta * 1000), delta) for at, delta in points)
    return bursts(points), [(at - int(delta * 1000), delta) for at, delta in theirs]


def sketch(points: Sequence[Point], most: int) -> list[Point]:
    """Keep few points of many, evenly over time; of each burst there is one for either clock."""
    if len(points) <= most:
        return sorted(points)
    mine, other = both_ways(points)
    return sorted({*thinned(mine, most), *thinned(other, most)})


def noise(lines: Sequence[Line], points: Sequence[Point]) -> float:
    """Give how far points lie from the line they belong to, as a rule."""
    apart = [min(abs(delta - line.offset(at)) for line in lines) for at, delta in points]
    usual = [one for one in apart if one <= _USUAL_MS]
    return statistics.median(usual) if usual else 0.0


def straight(points: Sequence[Point]) -> Line:
    """Lay one line through points in the order of time: level, or sloping where that says more."""
    middle = points[len(points) // 2][0]
    level, doubt = offset_of([delta for _, delta in points])
    flat = Line(middle, level, 0.0, doubt, _inside(points, middle, level, 0.0))
    ppm = _slope(points)
    rise = abs(ppm) * (points[-1][0] - points[0][0]) / 1e9
    if abs(ppm) <= _FASTEST_PPM and rise > 2 * NEAR_MS:
        rest = [delta - ppm * (at - middle) / 1e9 for at, delta in points]
        level, doubt = offset_of(rest)
        sloping = Line(middle, level, ppm, doubt, _inside(points, middle, level, ppm))
        more = len(sloping.inside) - len(flat.inside)
        if more >= max(_MORE, _MORE_SHARE * len(points)):
            return sloping
    # A drift too small to be told is still there: it moves both ends away from the middle.
    unseen = min(rise, 2 * NEAR_MS, _FASTEST_PPM * (points[-1][0] - points[0][0]) / 1e9) / 2
    return Line(flat.at, flat.offset_ms, 0.0, flat.doubt_ms + unseen, flat.inside)


def _around(ordered: Sequence[float], one: float) -> int:
    return bisect_right(ordered, one + NEAR_MS) - bisect_left(ordered, one - NEAR_MS)


def _inside(points: Sequence[Point], middle: int, level: float, ppm: float) -> tuple[int, ...]:
    return tuple(
        index
        for index, (at, delta) in enumerate(points)
        if abs(delta - level - ppm * (at - middle) / 1e9) <= 2 * NEAR_MS
    )


def _slope(points: Sequence[Point]) -> float:
    """Give the median slope between the levels of windows, in parts per million."""
    count = min(_WINDOWS, len(points) // _IN_WINDOW)
    edges = [len(points) * n // count for n in range(count + 1)] if count > 2 else []
    levels = []
    for begin, end in zip(edges, edges[1:], strict=False):
        part = points[begin:end]
        levels.append((part[len(part) // 2][0], offset_of([delta for _, delta in part])[0]))
    slopes = [
        (later - sooner) * 1e9 / (after - before)
        for n, (before, sooner) in enumerate(levels)
        for after, later in levels[n + 1 :]
        if after > before
    ]
    return statistics.median(slopes) if slopes else 0.0
