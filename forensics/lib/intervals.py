"""Sets of intervals of whole numbers (moments, offsets), each a pair (start, end).

Intervals are half-open, [start, end): `start` belongs to the interval, `end` does not. So intervals
that touch merge into one, neighbours never overlap, and an interval with start >= end is empty: no
function returns one. Every function takes intervals in any order, and returns them sorted and
disjoint.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals that overlap or touch.

    >>> merge([(5, 6), (1, 3), (2, 4), (4, 5), (9, 9)])
    [(1, 6)]
    """
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def clip(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """Return what lies within a window.

    >>> clip([(0, 5), (8, 9)], (3, 8))
    [(3, 5)]
    """
    return merge((max(start, window[0]), min(end, window[1])) for start, end in intervals)


def gaps(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """Return the parts of a window that no interval covers.

    >>> gaps([(2, 4), (3, 6)], (0, 9))
    [(0, 2), (6, 9)]
    """
    covered = clip(intervals, window)
    starts = [window[0], *(end for _, end in covered)]
    ends = [*(start for start, _ in covered), window[1]]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def subtract(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return what lies in an interval, but in none of the others.

    >>> subtract([(0, 5), (6, 9)], [(1, 2), (4, 7)])
    [(0, 1), (2, 4), (7, 9)]
    """
    merged = merge(intervals)
    if not merged:
        return []
    return intersect(merged, gaps(others, (merged[0][0], merged[-1][1])))


def intersect(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """Return what lies both in an interval and in one of the others.

    >>> intersect([(0, 5), (6, 9)], [(1, 2), (4, 7)])
    [(1, 2), (4, 5), (6, 7)]
    """
    left, right = merge(intervals), merge(others)
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return common


def contains(intervals: Iterable[Interval], moment: int) -> bool:
    """Return True if a moment lies in an interval; an `IntervalSet` answers many of these faster.

    >>> contains([(1, 3)], 1), contains([(1, 3)], 3)
    (True, False)
    """
    return any(start <= moment < end for start, end in intervals)


def total_length(intervals: Iterable[Interval]) -> int:
    """Add up the lengths of intervals; what several of them cover counts once.

    >>> total_length([(1, 3), (2, 5), (7, 8)])
    5
    """
    return sum(end - start for start, end in merge(intervals))


class IntervalSet:
    """Intervals in which moments are looked up many times.

    >>> 4 in IntervalSet([(1, 3), (3, 5)]), 5 in IntervalSet([(1, 3), (3, 5)])
    (True, False)
    """

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        """Merge the intervals."""
        self.intervals = merge(intervals)
        self._starts = [start for start, _ in self.intervals]

    def __contains__(self, moment: int) -> bool:
        index = bisect_right(self._starts, moment) - 1
        return index >= 0 and moment < self.intervals[index][1]
