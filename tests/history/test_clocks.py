"""Clocks are solved from what several nodes saw, and zones are told from drift."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.history.clocks import (
    ANCHORS,
    PAIRS,
    Clocks,
    anchors,
    bursts,
    offset_of,
    settle_pair,
    solve,
    zone_shifts,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
Pair = dict[str, object]


def pair(node: str, other: str, delta: float, count: int = 40, spread: float = 10.0) -> Pair:
    return {"node": node, "other": other, "count": count, "delta": delta, "spread": spread}


def offsets(clocks: Clocks) -> dict[str, tuple[int | None, int]]:
    return {row["node"]: (row["offset_ms"], row["zone_shift_minutes"]) for row in clocks.rows}


def test_a_state_that_two_nodes_saw_is_an_anchor() -> None:
    """Only the first time that each of them saw it counts."""
    seen = [("s", "b", 5_000), ("s", "a", 9_000), ("s", "a", 7_000), ("alone", "a", 1)]

    assert [("a", "b", 2.0, 5_000)] == anchors(seen)


def test_three_nodes_that_saw_a_state_make_three_anchors() -> None:
    found = anchors([("s", "c", 3_000), ("s", "a", 1_000), ("s", "b", 2_000)])

    assert [("a", "b", -1.0, 2_000), ("a", "c", -2.0, 3_000), ("b", "c", -1.0, 3_000)] == found


def test_without_a_tail_the_offset_is_in_the_middle() -> None:
    assert (100.0, 100.0) == offset_of([80.0, 90.0, 100.0, 110.0, 120.0])


@pytest.mark.parametrize("sign", [1, -1])
def test_with_a_tail_the_offset_is_at_the_sharp_edge(sign: int) -> None:
    """A node that hangs sees things late, never early."""
    late = [500.0, 510.0, 700.0, 710.0, 1_400.0, 2_000.0, 5_000.0, 5_010.0, 7_000.0, 9_000.0]
    offset, doubt = offset_of([sign * one for one in late])

    assert offset == sign * 500
    assert 900 <= doubt <= 2_100


def test_where_the_deltas_crowd_a_few_far_ones_do_not_count() -> None:
    """Two nodes that hang in turn leave tails on both sides."""
    deltas = [-28_000.0, -21_000.0, -30.0, -10.0, 0.0, 5.0, 20.0, 60.0, 90.0, 10_000.0, 26_000.0]
    offset, doubt = offset_of(deltas)

    assert abs(offset) <= 100
    assert doubt < 250


def test_one_anchor_is_believed_to_a_tenth_of_a_second_at_best() -> None:
    assert (7.0, 100.0) == offset_of([7.0])


@given(st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_an_offset_is_one_of_those_seen_and_does_not_depend_on_their_order(
    deltas: list[float], order: random.Random
) -> None:
    shuffled = list(deltas)
    order.shuffle(shuffled)
    offset, doubt = offset_of(deltas)

    assert offset in deltas
    assert doubt >= 1
    assert (offset, doubt) == offset_of(shuffled)


def test_what_came_within_a_second_counts_once() -> None:
    seen = [(900_000, 2.0), (0, 1.0), (1_000_001, 3.0), (1_900_000, 4.0), (9_000_000, 5.0)]

    assert [1.0, 3.0, 5.0] == bursts(seen)


def test_the_anchors_of_a_pair_become_one_row() -> None:
    rows = [("a", "b", 37_000.0 + n % 3, n * 2_000_000) for n in range(9)]
    table = pa.Table.from_pylist(
        [dict(zip(ANCHORS.names, row, strict=True)) for row in rows], ANCHORS
    )

    found = settle_pair(table)

    assert PAIRS == found.schema
    assert [pair("a", "b", 37_001.0, 9, 100.0)] == found.to_pylist()


def test_a_zone_is_read_off_lines_that_hold_the_epoch_time() -> None:
    moments = [("a", 1_000_000 * n, 1_000 * n) for n in range(3)]
    moments += [("b", 1_000_000 * n - 5 * HOUR * 1000, 1_000 * n + 200) for n in range(3)]
    moments += [("c", 1_000_000 + int(5.75 * HOUR * 1000), 1_000)]

    assert {"a": 0, "b": -300, "c": 345} == zone_shifts(moments)


def test_a_node_that_is_37_seconds_ahead_is_found() -> None:
    """Most agree; who differs is off."""
    found = solve(
        [pair("a", "b", -37_000), pair("a", "c", 0), pair("b", "c", 37_000)], {}, ["a", "b", "c"]
    )

    assert {"a": (0, 0), "b": (37_000, 0), "c": (0, 0)} == offsets(found)
    assert [True, False, True] == [row["reference"] for row in found.rows]
    assert [80, 80, 80] == [row["anchors"] for row in found.rows]


def test_a_zone_and_a_drift_are_told_apart() -> None:
    found = solve([pair("a", "b", 5 * HOUR - 2_000), pair("a", "c", 0)], {}, ["a", "b", "c"])

    assert (2_000, -300) == offsets(found)["b"]


def test_a_zone_that_was_read_is_not_solved_again() -> None:
    """A clock may be hours off in the right zone, if the lines say so."""
    pairs = [pair("a", "b", 5 * HOUR), pair("a", "c", 0)]

    assert (0, -300) == offsets(solve(pairs, {"b": -300}, ["a", "b", "c"]))["b"]
    assert (-5 * HOUR, 0) == offsets(solve(pairs, {"a": 0, "b": 0, "c": 0}, ["a", "b", "c"]))["b"]


def test_nodes_that_never_met_are_solved_through_one_in_the_middle() -> None:
    found = solve([pair("a", "b", -10_000), pair("b", "c", 4_000)], {}, ["a", "b", "c"])

    assert {"a": (-6_000, 0), "b": (4_000, 0), "c": (0, 0)} == offsets(found)


def test_the_strongest_pair_is_believed() -> None:
    pairs = [pair("a", "b", 0, 90), pair("b", "c", 0, 80), pair("a", "c", 9_000, 2)]

    assert {"a": (0, 0), "b": (0, 0), "c": (0, 0)} == offsets(solve(pairs, {}, ["a", "b", "c"]))


def test_a_node_that_nobody_met_has_no_offset() -> None:
    found = solve([pair("a", "b", 0)], {}, ["a", "b", "alone"])

    assert {"node": "alone", "offset_ms": None, "uncertainty_ms": None, "anchors": 0,
            "zone_shift_minutes": 0, "reference": False} == found.rows[1]  # fmt: skip
    assert 123 == found.correct("alone", 123)


def test_an_offset_within_its_own_doubt_corrects_nothing() -> None:
    pairs = [pair("a", "b", -30, spread=50.0), pair("a", "c", 0, spread=50.0)]
    found = solve(pairs, {}, ["a", "b", "c"])

    assert (30, 0) == offsets(found)["b"]
    assert 1_000_000 == found.correct("b", 1_000_000)


def test_a_sure_offset_and_a_zone_are_taken_off() -> None:
    found = solve([pair("a", "b", -37_000), pair("a", "c", 0)], {"b": 60}, ["a", "b", "c"])
    seen = 1_000_000_000

    # 37 s ahead of the others although its zone makes an hour of that: so it is behind by the rest.
    assert (37_000 - HOUR, 60) == offsets(found)["b"]
    assert seen - 37_000_000 == found.correct("b", seen)
    assert seen == found.correct(None, seen)


@given(
    st.permutations([pair("a", "b", -9_000, 5), pair("b", "c", 9_000, 7), pair("c", "d", 500, 9)])
)
def test_the_order_of_the_pairs_does_not_matter(pairs: list[Pair]) -> None:
    found = offsets(solve(pairs, {}, ["a", "b", "c", "d"]))

    assert {"a": (0, 0), "b": (9_000, 0), "c": (0, 0), "d": (-500, 0)} == found
