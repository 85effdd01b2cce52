"""How many spans are open when: the same, however many and in whatever parts they come."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.report import time_bins
from forensics.report.time_bins import OpenSpanCounter, count_open_spans

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)))


@given(spans)
def test_each_moment_has_the_spans_that_are_open_then(given_spans: list[tuple[int, int]]) -> None:
    found = [(start, start + length) for start, length in given_spans]
    points = count_open_spans(found, (0, 60))

    assert [moment for moment, _ in points] == sorted({0, 60, *(m for one in found for m in one)})
    for (moment, level), _ in pairwise(points):
        assert level == sum(start <= moment < end for start, end in found)


@given(spans, st.integers(1, 5))
def test_spans_may_come_in_parts(given_spans: list[tuple[int, int]], size: int) -> None:
    pairs = np.array([(a, a + n) for a, n in given_spans], np.int64).reshape(-1, 2)
    changes = OpenSpanCounter((0, 60))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_bins, "_MAX_PENDING", 3)
        for begin in range(0, len(pairs), size):
            changes.add(pairs[begin : begin + size, 0], pairs[begin : begin + size, 1])

    assert count_open_spans([(a, b) for a, b in pairs.tolist()], (0, 60)) == changes.points()


def test_of_very_many_moments_the_highest_stay() -> None:
    many = [(moment, moment + 2) for moment in range(0, 60_000, 4)]
    points = count_open_spans([*many, (30_000, 30_001)], (0, 60_000))

    assert len(points) <= time_bins.MAX_POINTS + 1
    assert 2 == max(level for _, level in points)
