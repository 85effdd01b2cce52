"""Estimates the offset and drift between two clocks, and splits them into segments at steps.

Points are robustly fitted: most nodes are healthy most of the time, so the truth lies where points
are dense, and a node that hangs only adds outliers on one side.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter

from forensics.history.clocks.model import OffsetLine
from forensics.lib.sessionize import windows
from forensics.lib.time_units import SECOND

# How far apart healthy nodes hear of a change.
LAG_MS = 100.0
# When a state was seen (microseconds), and by how many milliseconds one clock was then ahead.
Point = tuple[int, float]

# How much longer one tail must be than the other to be called a tail.
_SKEWED = 2.0
# A cluster this many times as large as any other, and no smaller, is certainly the truth.
_DECISIVE, _CLUSTER = 2, 4
# The share of points whose distance gives the uncertainty: those beyond may just be late.
_NEARLY_ALL = 0.8
# With fewer points than that, all of them may be late.
_FEW = 6
# Time services slew by no more, and clocks left alone run off by less.
_MAX_DRIFT_PPM = 500.0
# Later than that is no noise but a node that hung.
_MAX_NOISE_MS = 500.0
_WINDOWS, _POINTS_PER_WINDOW = 12, 4
# A drift must explain more than a constant does: so many points, and such a share of all.
_MORE, _MORE_SHARE = 3, 0.1


@dataclass(frozen=True)
class FittedLine(OffsetLine):
    """A line fitted to points."""

    # indices of the points near the line
    inliers: tuple[int, ...] = ()

    def points_near(self, points: Sequence[Point], within_ms: float) -> list[int]:
        """Return the indices of the points that lie near this line."""
        return [n for n, (at, d) in enumerate(points) if abs(d - self.offset_at(at)) <= within_ms]


def estimate_offset(deltas: Sequence[float]) -> tuple[float, float]:
    """Estimate the offset of two clocks, and its uncertainty, from when both saw the same states.

    Healthy nodes see a change within a tenth of a second of each other, so the truth lies where
    the deltas are dense. A node that hangs sees things late, never early: of several clusters the
    one away from the long tail is believed.

    >>> estimate_offset([5000.0, 5010.0, 5200.0, 5300.0, 9000.0, 14000.0, 30000.0, 31000.0])[0]
    5000.0
    >>> abs(estimate_offset([-2.0, -1.0, 0.0, 1.0, 2.0])[0]) <= 2.0
    True
    """
    ordered = sorted(deltas)
    density = [_count_near(ordered, delta) for delta in ordered]
    densest = max(density)
    dense = [index for index, count in enumerate(density) if 2 * count > densest]
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    p10, p25, median, p75, p90 = (ordered[int(len(ordered) * share)] for share in shares)
    if p90 - median > _SKEWED * (median - p10):
        edge = ordered[dense[0]]
        best, typical = _find_mode(ordered, edge, edge + 2 * LAG_MS), p25
    elif median - p10 > _SKEWED * (p90 - median):
        edge = ordered[dense[-1]]
        mirrored = [-delta for delta in reversed(ordered)]
        best, typical = -_find_mode(mirrored, -edge, 2 * LAG_MS - edge), p75
    else:
        index = min(dense, key=lambda n: (-density[n], abs(ordered[n] - median)))
        centre = ordered[index]
        best, typical = _find_mode(ordered, centre - LAG_MS, centre + LAG_MS), median
    count = _count_near(ordered, best)
    distances = [abs(delta - best) for delta in ordered]
    far = [(n, apart) for apart, n in zip(distances, density, strict=True) if apart > 2 * LAG_MS]
    nearly_all = sorted(distances)[int(len(distances) * _NEARLY_ALL)]
    uncertainty = max(abs(typical - best), nearly_all)
    rival = max((n for n, _ in far), default=0)
    if count >= max(_CLUSTER, _DECISIVE * rival, len(ordered) / 2):
        uncertainty = min(uncertainty, LAG_MS)
    # Another cluster of about the size may be the right one.
    rivals = [apart + 2 * LAG_MS for n, apart in far if n >= _CLUSTER and _DECISIVE * n > count]
    return best, max([uncertainty, *rivals]) + LAG_MS * max(1.0, _FEW / len(ordered))


def _find_mode(ordered: Sequence[float], low: float, high: float) -> float:
    """Return where values between two bounds are densest: halve to the narrower part repeatedly."""
    part = ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]
    while len(part) > 2:
        size = (len(part) + 1) // 2
        begin = min(range(len(part) - size + 1), key=lambda n: part[n + size - 1] - part[n])
        part = part[begin : begin + size]
    return part[0]


def dedupe_bursts(points: Iterable[Point]) -> list[Point]:
    """Keep the first of the points that came within a second: they are one, seen many times."""
    return [burst[0] for burst in windows(sorted(points), itemgetter(0), SECOND)]


def thin_evenly(points: Sequence[Point], limit: int) -> list[Point]:
    """Keep at most so many points, evenly over their order."""
    if len(points) <= limit:
        return list(points)
    return [points[len(points) * n // limit] for n in range(limit)]


def dedupe_by_either_clock(points: Iterable[Point]) -> tuple[list[Point], list[Point]]:
    """Dedupe bursts by each of the two clocks, as either node may have hung."""
    points = list(points)
    by_other = dedupe_bursts((at + int(delta * 1000), delta) for at, delta in points)
    return dedupe_bursts(points), [(at - int(delta * 1000), delta) for at, delta in by_other]


def downsample(points: Sequence[Point], limit: int) -> list[Point]:
    """Keep few of many points, evenly over time, deduped by each of the two clocks."""
    if len(points) <= limit:
        return sorted(points)
    by_one, by_other = dedupe_by_either_clock(points)
    return sorted({*thin_evenly(by_one, limit), *thin_evenly(by_other, limit)})


def median_residual(lines: Sequence[FittedLine], points: Sequence[Point]) -> float:
    """Return the median distance of points from the nearest line, without those of hangs."""
    apart = [min(abs(delta - line.offset_at(at)) for line in lines) for at, delta in points]
    usual = [distance for distance in apart if distance <= _MAX_NOISE_MS]
    return statistics.median(usual) if usual else 0.0


def fit_line(points: Sequence[Point]) -> FittedLine:
    """Fit one line through points in the order of time: level, or sloping if that explains more."""
    middle = points[len(points) // 2][0]
    flat = _fit_level(points, middle, 0.0)
    drift = _median_drift(points)
    length = points[-1][0] - points[0][0]
    rise = abs(drift) * length / 1e9
    if abs(drift) <= _MAX_DRIFT_PPM and rise > 2 * LAG_MS:
        sloping = _fit_level(points, middle, drift)
        more = len(sloping.inliers) - len(flat.inliers)
        if more >= max(_MORE, _MORE_SHARE * len(points)):
            return sloping
    # A drift too small to be measured is still there: it moves both ends away from the middle.
    unseen = min(rise, 2 * LAG_MS, _MAX_DRIFT_PPM * length / 1e9) / 2
    return replace(flat, uncertainty_ms=flat.uncertainty_ms + unseen)


def _fit_level(points: Sequence[Point], middle: int, drift: float) -> FittedLine:
    """Fit a line of a given drift."""
    rest = [delta - drift * (at - middle) / 1e9 for at, delta in points]
    offset, uncertainty = estimate_offset(rest)
    line = FittedLine(middle, offset, drift, uncertainty)
    return replace(line, inliers=tuple(line.points_near(points, 2 * LAG_MS)))


def _count_near(ordered: Sequence[float], value: float) -> int:
    return bisect_right(ordered, value + LAG_MS) - bisect_left(ordered, value - LAG_MS)


def _median_drift(points: Sequence[Point]) -> float:
    """Return the median slope between the levels of windows, in parts per million."""
    count = min(_WINDOWS, len(points) // _POINTS_PER_WINDOW)
    edges = [len(points) * n // count for n in range(count + 1)] if count > 2 else []
    levels = []
    for begin, end in pairwise(edges):
        window = points[begin:end]
        offset, _ = estimate_offset([delta for _, delta in window])
        levels.append((window[len(window) // 2][0], offset))
    slopes = [
        (later - sooner) * 1e9 / (after - before)
        for n, (before, sooner) in enumerate(levels)
        for after, later in levels[n + 1 :]
        if after > before
    ]
    return statistics.median(slopes) if slopes else 0.0


@dataclass(frozen=True)
class FittedSegment:
    """A line, and the first and the last moment of the points near it."""

    line: FittedLine
    first: int
    last: int


# A node that hangs is late now and then, each time by something else; a step stays as it is.
_MIN_POINTS = 3
_MIN_SHARE = 0.5
_MIN_GAIN = 2
_MAX_DEPTH = 6
# Metadata may reach a node half a second late for minutes on end, and one that hangs, seconds.
_MIN_STEP_MS = 1000.0
_STEADY_MS, _UNSTEADY_MS = 500.0, 5000.0
_TIMES, _MANY, _FAR = 2.5, 8, 20
# What comes and goes and lasts no longer may be one pause; what stays to the end, or was so from
# the beginning, is believed sooner.
_HANG, _SHORT = 30 * SECOND, 10 * SECOND
# Where a line misses that share, splits are tried elsewhere than around its misses too.
_MISSED = 0.25
_TRIED = 48


def fit_segments(
    points: Sequence[Point], depth: int = 0, *, steps: bool = True
) -> list[FittedSegment]:
    """Fit straight lines through points in the order of time, as few as explain them.

    Without `steps` that is one line.
    """
    whole = fit_line(points)
    missed = set(range(len(points))) - set(whole.points_near(points, _STEADY_MS))
    if steps and len(missed) >= _MIN_POINTS and depth < _MAX_DEPTH:
        tried = (
            (_gain_of(points, whole, splits), splits)
            for splits in _candidate_splits(points, sorted(missed))
        )
        best = max(tried, key=lambda one: (one[0], [-n for n in one[1]]), default=(0, ()))
        if best[0] >= _MIN_GAIN:
            edges = [0, *best[1], len(points)]
            parts = [fit_segments(points[a:b], depth + 1) for a, b in pairwise(edges)]
            return _merge_equal([segment for part in parts for segment in part])
    inliers = whole.inliers or tuple(range(len(points)))
    # One at either end may have come there by chance.
    stray = 1 if len(inliers) >= 2 * _MIN_POINTS else 0
    return [FittedSegment(whole, points[inliers[stray]][0], points[inliers[-1 - stray]][0])]


def _candidate_splits(points: Sequence[Point], missed: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield where steps may be: mostly around the cluster of points that a straight line misses."""
    count = len(points)
    rest = [points[n] for n in missed]
    cluster = {missed[n] for n in fit_line(rest).points_near(rest, _STEADY_MS)}
    outliers = set(missed)
    weights = [1 if n in cluster else 0 if n in outliers else -1 for n in range(count)]
    begin, end = _find_heaviest_run(weights)
    if sum(weights[begin:end]) >= _MIN_POINTS:
        yield from {(begin,), (end,), (begin, end)}
    if len(missed) > _MISSED * count:
        yield from {(count * n // _TRIED,) for n in range(1, _TRIED)}


def _find_heaviest_run(weights: Sequence[int]) -> tuple[int, int]:
    """Find the run with the largest sum."""
    best = total = start = 0
    run = (0, 0)
    for n, weight in enumerate(weights):
        if total <= 0:
            total, start = 0, n
        total += weight
        if total > best:
            best, run = total, (start, n + 1)
    return run


def _gain_of(points: Sequence[Point], whole: FittedLine, splits: tuple[int, ...]) -> int:
    """Count the points that splitting explains in addition; 0 if the splits would be no steps."""
    parts = [points[begin:end] for begin, end in pairwise([0, *splits, len(points)])]
    if min(map(len, parts)) < _MIN_POINTS:
        return 0
    lines = [fit_line(part) for part in parts]
    near = max(map(_width_of, lines, parts))
    if near > _UNSTEADY_MS:
        return 0
    min_step = max(_MIN_STEP_MS, _TIMES * near)
    if near > _STEADY_MS and min(map(len, parts)) < _MANY:
        min_step = _FAR * near
    for (before, after), part in zip(pairwise(lines), parts[1:], strict=True):
        if not _is_step(before, after, part[0][0], min_step):
            return 0
    explained = 0
    for n, (line, part) in enumerate(zip(lines, parts, strict=True)):
        own = line.points_near(part, near)
        if len(own) < max(_MIN_POINTS, _MIN_SHARE * len(part)):
            return 0
        if part[own[-1]][0] - part[own[0]][0] < (_HANG if 0 < n < len(splits) else _SHORT):
            return 0
        explained += len(own)
    return explained - len(splits) - len(whole.points_near(points, near))


def _width_of(line: FittedLine, points: Sequence[Point]) -> float:
    """Return how far from a line the points that belong to it may lie."""
    apart = [abs(delta - line.offset_at(at)) for at, delta in points]
    return max(_STEADY_MS, 2 * statistics.median_low(apart))


def _is_step(before: FittedLine, after: FittedLine, micros: int, min_step: float) -> bool:
    return abs(after.offset_at(micros) - before.offset_at(micros)) > min_step


def _merge_equal(segments: Sequence[FittedSegment]) -> list[FittedSegment]:
    """Join neighbours that turned out to be the same segment."""
    merged: list[FittedSegment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        flat = last is not None and segment.line.drift_ppm == last.line.drift_ppm == 0
        if last and flat and not _is_step(last.line, segment.line, segment.first, _MIN_STEP_MS):
            better = max(last, segment, key=lambda one: len(one.line.inliers))
            merged[-1] = FittedSegment(better.line, last.first, segment.last)
        else:
            merged.append(segment)
    return merged
