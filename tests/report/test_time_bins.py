"""Bins cover the whole and are short where it matters; what is open, and what is counted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.report import time_bins
from forensics.report.partition_groups import heatmap_edges
from forensics.report.time_bins import OpenSpanCounter, bin_edges, count_open_spans, merge_bins
from forensics.run_output.reader import load_run
from tests.report.sample_runs import at, lanes, save

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


def test_debt_counts_partitions_at_each_moment(unclean: Path) -> None:
    """Three partitions without a leader, then none."""
    debt = time_bins.count_degraded_partitions(load_run(unclean))

    assert [level for _, level in debt["unavailable"]] == [0, 3, 0, 0]
    assert max(level for _, level in debt["under-replicated"]) == 3


def test_what_began_nobody_knows_when_is_not_counted(unclean: Path) -> None:
    """The logs of the broker that knew are missing: the partition may not have existed before."""
    rows = pq.read_table(unclean / "tables" / "leadership").to_pylist()
    begun = [row | {"started_at": None} if row["leader"] == -1 else row for row in rows]
    save(unclean, "leadership", begun)

    offline = time_bins.count_degraded_partitions(load_run(unclean))["unavailable"]
    assert {level for _, level in offline} == {0}


def test_the_shutdown_at_the_end_of_the_logs_is_no_debt(unclean: Path) -> None:
    """Replicas are missing as the brokers stop; nobody wanted to write any more."""
    end = 100_000
    state = {"topic": "orders-v2", "partition": 0, "replicas": [1, 2, 3], "how": "observed"}
    spans: tuple[tuple[list[int], int, int | None], ...] = (
        ([1, 2, 3], 0, end), ([1], end, end + 500), ([], end + 500, None),
    )  # fmt: skip
    save(unclean, "isr", [
        state | {"isr": isr, "started_at": at(start), "ended_at": at(till)}
        for isr, start, till in spans
    ])  # fmt: skip
    stop = {"node": "broker-1", "role": "broker", "broker": 1, "state": "stopping"}
    stop |= {"started_at": at(end), "ended_at": at(end + 900)}
    save(unclean, "lanes", [*lanes(), stop])
    gone = {"topic": "orders-v2", "partition": 0, "why": "no leader", "leader": None}
    gone |= {"started_at": at(end + 500), "ended_at": None, "planned": True}
    for planned, most in ((True, 0), (False, 1)):
        save(unclean, "outages", [gone | {"planned": planned}])
        debt = time_bins.count_degraded_partitions(load_run(unclean))["under-replicated"]
        assert max(level for _, level in debt) == most
        assert min(level for _, level in debt) == 0


def test_client_errors_carry_the_verdict_of_their_episode(unclean: Path) -> None:
    """Every error is counted once, under what its episode was called."""
    run = load_run(unclean)
    counted = time_bins.count_events(run, heatmap_edges(run, run.window or (0, 0)))

    assert {name: int(bins.sum()) for name, bins in counted.errors.items()} == {"sustained": 400}
    assert int(counted.facts.sum()) == 400
