"""Sets of intervals of whole numbers (moments, offsets), each a pair (start, end).

Intervals are half-open, [start, end): `start` belongs to the interval, `end` does not. So intervals
that touch merge into one, neighbours never overlap, and an interval with start >= end is empty: no
function returns one. Every function takes intervals in any order, and returns them sorted and
disjoint.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable
from itertools import accumulate
from typing import Generic, TypeVar

Interval = tuple[int, int]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


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
    first, last = window
    near = [one for one in intervals if one[0] < last and one[1] > first]
    return merge((max(start, first), min(end, last)) for start, end in near)


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


class IntervalIndex(Generic[Item]):
    """Finds what lies around some time, among many things that each have a begin and an end.

    >>> words = IntervalIndex(["a", "word", "of"], lambda word: (len(word), 2 * len(word)))
    >>> words.around(3, 4), words.around(9, 9)
    (['word', 'of'], [])
    """

    def __init__(self, items: Iterable[Item], span: Callable[[Item], Interval]) -> None:
        """Sort the items by their begins; both ends belong to a span."""
        self._items = sorted(
            ((*span(item), place, item) for place, item in enumerate(items)),
            key=lambda one: one[:3],
        )
        self._begins = [begin for begin, *_ in self._items]
        self._reach = list(accumulate((end for _, end, *_ in self._items), max))

    def around(self, begin: int, end: int) -> list[Item]:
        """Return what meets the time from `begin` to `end`, in the order in which it was given."""
        first, last = bisect_left(self._reach, begin), bisect_right(self._begins, end)
        found = [one for one in self._items[first:last] if one[1] >= begin]
        return [item for _, _, _, item in sorted(found, key=lambda one: one[2])]


def index_by(
    items: Iterable[Item],
    keys: Callable[[Item], Iterable[Key]],
    span: Callable[[Item], Interval],
) -> dict[Key, IntervalIndex[Item]]:
    """Index the items of each key; an item may have several, or none.

    >>> index_by(["ab", "b"], set, lambda word: (len(word), len(word)))["b"].around(0, 1)
    ['b']
    """
    found: dict[Key, list[Item]] = {}
    for item in items:
        for key in keys(item):
            found.setdefault(key, []).append(item)
    return {key: IntervalIndex(own, span) for key, own in found.items()}
