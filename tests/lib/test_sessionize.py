"""Sessions end before a gap; counting, columns and memory find the same ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forensics.lib.sessionize import (
    Session,
    SessionCounter,
    busiest_window,
    session_ids,
    sessions,
    windows,
)

moments = st.lists(st.integers(-50, 50), max_size=20)
gaps = st.integers(0, 9)
keyed = st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50)), max_size=20)


@given(moments, gaps)
def test_sessions_are_split_exactly_at_long_gaps(some: list[int], gap: int) -> None:
    ordered = sorted(some)
    found = list(sessions(ordered, int, gap))

    assert [one for group in found for one in group] == ordered
    assert all(b - a <= gap for group in found for a, b in zip(group, group[1:], strict=False))
    assert all(b[0] - a[-1] > gap for a, b in zip(found, found[1:], strict=False))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12), gaps)
def test_sessions_of_intervals_count_from_the_latest_end(
    some: list[tuple[int, int]], gap: int
) -> None:
    items = sorted((start, start + length) for start, length in some)
    found = list(sessions(items, lambda one: one[0], gap, lambda one: one[1]))

    assert [one for group in found for one in group] == items
    for one, other in zip(found, found[1:], strict=False):
        assert other[0][0] - max(end for _, end in one) > gap


def test_an_interval_within_another_does_not_end_its_session() -> None:
    items = [(0, 20), (1, 2), (19, 21)]
    assert list(sessions(items, lambda one: one[0], 0, lambda one: one[1])) == [items]


@given(moments, gaps)
def test_windows_are_bounded_from_their_first_item(some: list[int], width: int) -> None:
    ordered = sorted(some)
    found = list(windows(ordered, int, width))

    assert [one for group in found for one in group] == ordered
    assert all(group[-1] - group[0] <= width for group in found)
    assert all(b[0] - a[0] > width for a, b in zip(found, found[1:], strict=False))


@given(keyed, gaps, st.integers(1, 3), st.randoms(use_true_random=False))
def test_counted_sessions_are_those_in_memory_whatever_the_order(
    some: list[tuple[int, int]], gap: int, least: int, random: object
) -> None:
    random.shuffle(some)  # type: ignore[attr-defined]
    counter = SessionCounter[int](gap)
    for key, moment in some:
        counter.add(key, moment)

    expected = {}
    for key in {key for key, _ in some}:
        groups = sessions(sorted(at for one, at in some if one == key), int, gap)
        large = [Session(one[0], one[-1], len(one)) for one in groups if len(one) >= least]
        if large:
            expected[key] = large
    assert counter.sessions(least) == expected


@given(keyed, gaps)
def test_ids_of_columns_are_those_in_memory(some: list[tuple[int, int]], gap: int) -> None:
    keys, times = (np.array([one[at] for one in some], np.int64) for at in (0, 1))
    found: dict[int, set[tuple[int, int]]] = {}
    for number, one in zip(session_ids(times, gap, keys).tolist(), some, strict=True):
        found.setdefault(number, set()).add(one)

    expected = [
        {(key, at) for at in group}
        for key in sorted(set(keys.tolist()))
        for group in sessions(sorted(at for one, at in some if one == key), int, gap)
    ]
    assert [found[number] for number in sorted(found)] == expected


@given(moments, gaps)
def test_the_busiest_window_is_the_first_of_the_longest(some: list[int], width: int) -> None:
    ordered = sorted(some)
    all_windows = [[b for b in ordered[n:] if b - a <= width] for n, a in enumerate(ordered)]

    assert busiest_window(ordered, int, width) == max(all_windows, key=len, default=[])
