"""Stretches of time: they cover the whole, are few, and are short where it matters."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forensics.report.time_bins import bin_edges, merge_bins

lengths = st.integers(1, 40 * 86_400_000)


@given(lengths, st.lists(st.floats(-0.5, 1.5), max_size=60), st.integers(1, 600))
def test_they_cover_the_whole_without_gaps_and_are_few(
    length: int, shares: list[float], most: int
) -> None:
    found = bin_edges((1000, 1000 + length), [1000 + int(length * one) for one in shares], most)

    assert (found[0], found[-1]) == (1000, 1000 + length)
    assert len(found) <= most + 1
    assert (np.diff(found) > 0).all()


def test_they_are_about_a_second_where_something_happens_and_minutes_elsewhere() -> None:
    found = bin_edges((0, 86_400_000), [36_000_000, 36_040_000])
    widths = np.diff(found)
    near = widths[np.searchsorted(found, 36_000_000, "right") - 1]

    assert near < 2000
    assert 300_000 < widths.max() <= 620_000


def test_the_first_moments_are_the_last_to_do_without() -> None:
    """Of thousands of moments not all get short stretches; the most important ones do."""
    rest = list(range(0, 86_400_000, 60_000))
    found = bin_edges((0, 86_400_000), [50_000_123, *rest])

    assert np.diff(found)[np.searchsorted(found, 50_000_123, "right") - 1] < 2000


def test_put_together_they_still_cover_the_whole() -> None:
    fine = bin_edges((0, 86_400_000), [1_000_000])
    found = merge_bins(fine, 100)

    assert len(found) <= 101 + 1
    assert (found[0], found[-1]) == (fine[0], fine[-1])
    assert set(found.tolist()) <= set(fine.tolist())
