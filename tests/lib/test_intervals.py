"""Interval algebra is set algebra: each operation agrees with sets of single moments."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from forensics.lib.intervals import (
    Interval,
    IntervalIndex,
    IntervalSet,
    clip,
    gaps,
    intersect,
    merge,
    subtract,
    total_length,
)

moments = st.integers(-3, 25)
intervals = st.lists(st.tuples(moments, moments), max_size=8)
windows = st.tuples(moments, moments)


def moments_of(found: list[Interval]) -> set[int]:
    return {moment for start, end in found for moment in range(start, end)}


def is_normal(found: list[Interval]) -> bool:
    edges = [edge for interval in found for edge in interval]
    return all(one < other for one, other in zip(edges, edges[1:], strict=False))


@given(intervals, intervals, windows)
def test_operations_are_those_of_sets(
    some: list[Interval], others: list[Interval], window: Interval
) -> None:
    covered, other, inside = moments_of(some), moments_of(others), moments_of([window])
    results = {
        "merge": (merge(some), covered),
        "clip": (clip(some, window), covered & inside),
        "gaps": (gaps(some, window), inside - covered),
        "subtract": (subtract(some, others), covered - other),
        "intersect": (intersect(some, others), covered & other),
    }
    for name, (found, expected) in results.items():
        assert moments_of(found) == expected, name
        assert is_normal(found), name
    assert total_length(some) == len(covered)


@given(intervals, moments)
def test_a_set_of_intervals_is_half_open(some: list[Interval], moment: int) -> None:
    assert (moment in IntervalSet(some)) == (moment in moments_of(some))


@given(intervals, moments)
def test_open_edges_differ_at_starts_only(some: list[Interval], moment: int) -> None:
    """History used to leave out both edges of an interval."""
    ordered = sorted(some)
    reach = list(accumulate((end for _, end in ordered), max))
    before = bisect_left([start for start, _ in ordered], moment)
    inside = before > 0 and reach[before - 1] > moment

    if inside != (moment in IntervalSet(some)):
        assert moment in {start for start, _ in some}


@given(intervals, intervals)
def test_intersection_of_disjoint_intervals_is_that_of_log_coverage(
    some: list[Interval], others: list[Interval]
) -> None:
    left, right = merge(some), merge(others)
    found = [(max(start, other[0]), min(end, other[1])) for start, end in left for other in right]
    assert intersect(left, right) == [(start, end) for start, end in found if start < end]


@given(st.lists(st.tuples(moments, moments).map(sorted), max_size=8), windows.map(sorted))
def test_an_index_finds_what_meets_a_time_in_the_order_given(
    spans: list[list[int]], around: list[int]
) -> None:
    begin, end = around
    index = IntervalIndex(enumerate(spans), lambda one: (one[1][0], one[1][1]))

    found = index.around(begin, end)

    assert found == [one for one in enumerate(spans) if one[1][0] <= end and one[1][1] >= begin]
