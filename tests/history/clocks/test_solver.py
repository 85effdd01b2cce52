"""Clocks are solved from what several nodes saw: zones, offsets, drifts and steps told apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.history.clocks.anchors import (
    ANCHORS,
    PAIRS,
    find_broker_anchors,
    find_group_anchors,
    pair_sightings,
    reduce_pair,
)
from forensics.history.clocks.line_fit import dedupe_bursts, estimate_offset
from forensics.history.clocks.model import (
    ClockModel,
    Clocks,
    ClockSegment,
    ClockStep,
    build_clock_rows,
)
from forensics.history.clocks.solver import estimate_zone_shifts, solve_clocks
from forensics.history.nodes.startup_windows import StartupWindows

MINUTE = 60_000
HOUR = 60 * MINUTE
SECOND = 1_000_000
Wrong = Callable[[int], float]


def seen_by(
    wrong: Mapping[str, Wrong], count: int = 60, every: float = 20, seed: int = 1
) -> list[dict[str, Any]]:
    """Give the pairs of nodes that all see a state every few seconds, as their clocks say.

    `wrong` gives for each node by how many milliseconds its clock is ahead at a true moment; a
    node hears of a state within 60 ms, and of some seconds later.
    """
    chance = random.Random(seed)
    sightings = []
    for state in range(count):
        true = int((1_000 + state * every) * SECOND)
        for node, ahead in wrong.items():
            late = chance.uniform(0, 60) if chance.random() < 0.9 else chance.uniform(0, 9_000)
            heard = true + int(late * 1000)
            sightings.append((state, node, heard + int(ahead(heard) * 1000)))
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for anchor in pair_sightings(sightings):
        found.setdefault((anchor[0], anchor[1]), []).append(anchor)
    return [settled(rows) for rows in found.values()]


def settled(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    named = [dict(zip(ANCHORS.names, row, strict=True)) for row in rows]
    row: dict[str, Any] = reduce_pair(pa.Table.from_pylist(named, ANCHORS)).to_pylist()[0]
    return row


def right(_: int) -> float:
    return 0.0


def off(ms: float) -> Wrong:
    return lambda _: ms


def row_of(clocks: Clocks, node: str) -> Mapping[str, Any]:
    return next(row for row in clocks.rows if row["node"] == node)


def recovered(clocks: Clocks, node: str, ahead: Wrong, seconds: Sequence[float]) -> None:
    """Check that moments of a node are corrected within the doubt that is stated."""
    for second in seconds:
        true = int(second * SECOND)
        logged = true + int(ahead(true) * 1000)
        doubt = clocks.uncertainty(node, logged)
        assert doubt is not None
        assert abs(clocks.correct(node, logged) - true) <= doubt, (node, second)


SPAN = (1_000, 1_300, 1_700, 2_150)


def test_a_state_that_two_nodes_saw_is_an_anchor() -> None:
    """Only the first time that each of them saw it counts."""
    seen = [("s", "b", 5_000), ("s", "a", 9_000), ("s", "a", 7_000), ("alone", "a", 1)]

    assert [("a", "b", 2.0, 5_000)] == pair_sightings(seen)


@pytest.mark.parametrize(("member", "ties"), [("app-1-5ab0695a", 1), ("inst-2-5ab0695a", 0)])
def test_a_static_member_may_join_a_generation_long_after_it_was_made(
    member: str, ties: int
) -> None:
    """The coordinator names it after its group.instance.id; it is let in without a rebalance."""
    plain = {"group": "g", "generation": 1, "member": None, "client": None}
    stable = plain | {"kind": "group_stable", "node": "broker-2", "ts": 1_000_000}
    joined = plain | {"kind": "group_joined", "node": "app", "ts": 77_000_000}

    assert len(find_group_anchors([stable, joined | {"member": member, "client": "app-1"}])) == ties
    assert len(find_group_anchors([stable, joined])) == 1


def test_three_nodes_that_saw_a_state_make_three_anchors() -> None:
    found = pair_sightings([("s", "c", 3_000), ("s", "a", 1_000), ("s", "b", 2_000)])

    assert [("a", "b", -1.0, 2_000), ("a", "c", -2.0, 3_000), ("b", "c", -1.0, 3_000)] == found


def test_without_a_tail_the_offset_is_in_the_middle() -> None:
    offset, doubt = estimate_offset([80.0 + n for n in range(0, 44, 4)])

    assert 80 <= offset <= 120
    assert 100 <= doubt <= 140


@pytest.mark.parametrize("sign", [1, -1])
def test_with_a_tail_the_offset_is_at_the_sharp_edge(sign: int) -> None:
    """A node that hangs sees things late, never early."""
    late = [500.0, 510.0, 700.0, 710.0, 1_400.0, 2_000.0, 5_000.0, 5_010.0, 7_000.0, 9_000.0]
    offset, doubt = estimate_offset([sign * one for one in late])

    assert abs(offset - sign * 500) <= 10
    assert 300 <= doubt <= 7_000


def test_where_the_deltas_crowd_a_few_far_ones_do_not_count() -> None:
    """Two nodes that hang in turn leave tails on both sides."""
    deltas = [-28_000.0, -21_000.0, -30.0, -10.0, 0.0, 5.0, 20.0, 60.0, 90.0, 10_000.0, 26_000.0]
    offset, doubt = estimate_offset(deltas)

    assert abs(offset) <= 100
    assert doubt < 250


def test_one_anchor_is_hardly_believed() -> None:
    assert (7.0, 600.0) == estimate_offset([7.0])


def test_two_crowds_of_a_size_leave_both_in_doubt() -> None:
    deltas = [float(n) for n in range(6)] + [4_000.0 + n for n in range(6)]
    offset, doubt = estimate_offset(deltas)

    assert abs(offset - 2_000) + doubt >= 4_000


@given(st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_an_offset_is_one_of_those_seen_and_does_not_depend_on_their_order(
    deltas: list[float], order: random.Random
) -> None:
    shuffled = list(deltas)
    order.shuffle(shuffled)
    offset, doubt = estimate_offset(deltas)

    assert offset in deltas
    assert doubt >= 100
    assert (offset, doubt) == estimate_offset(shuffled)


def test_what_came_within_a_second_counts_once() -> None:
    seen = [(900_000, 2.0), (0, 1.0), (1_000_001, 3.0), (1_900_000, 4.0), (9_000_000, 5.0)]

    assert [1.0, 3.0, 5.0] == [delta for _, delta in dedupe_bursts(seen)]


def test_the_anchors_of_a_pair_become_one_row() -> None:
    rows = [("a", "b", 37_000.0 + n % 3, n * 2_000_000) for n in range(12)]
    found = settled(rows)

    assert PAIRS.names == list(found)
    assert ("a", "b", 12) == tuple(found[n] for n in ("node", "other", "count"))
    assert 100 <= found["spread"] <= 102
    assert 37_000 <= found["delta"] <= 37_002
    assert 12 == len(found["points"])


def test_of_very_many_anchors_few_are_kept_and_they_span_the_same_time() -> None:
    rows = [("a", "b", float(n % 50), n * 300_000) for n in range(30_000)]
    found = settled(rows)
    moments = [point["at"] for point in found["points"]]

    assert len(moments) <= 2 * 512
    assert min(moments) < 60 * SECOND
    assert max(moments) > 8_900 * SECOND


def test_a_zone_is_read_off_lines_that_hold_the_epoch_time() -> None:
    moments = [("a", 1_000_000 * n, 1_000 * n) for n in range(3)]
    moments += [("b", 1_000_000 * n - 5 * HOUR * 1000, 1_000 * n + 200) for n in range(3)]
    moments += [("c", 1_000_000 + int(5.75 * HOUR * 1000), 1_000)]

    assert {"a": 0, "b": -300, "c": 345} == estimate_zone_shifts(moments)


@pytest.mark.parametrize(
    ("minutes", "zones"),
    [
        (14 * 60, {"a": 840}),
        (14 * 60 + 15, {}),
        (-7 * 24 * 60, {}),
        (67, {}),
        (64.9, {"a": 60}),
    ],
)
def test_nothing_beyond_fourteen_hours_or_between_quarters_is_a_zone(
    minutes: float, zones: dict[str, int]
) -> None:
    """Dates of a log may be moved by days, while the epoch time that stands in it is not."""
    assert estimate_zone_shifts([("a", int(minutes * 60 * SECOND), 0)]) == zones


def test_an_offset_of_days_is_no_zone() -> None:
    found = solve_clocks(
        seen_by({"a": right, "b": off(-7 * 24 * HOUR), "c": right}), {}, list("abc")
    )

    assert row_of(found, "b")["zone_shift_minutes"] == 0


@pytest.mark.parametrize(("uncertainty", "kind"), [(3_000.0, "none"), (2_000.0, "drift")])
def test_a_drift_within_its_own_uncertainty_corrects_nothing(uncertainty: float, kind: str) -> None:
    segment = ClockSegment(0, 0.0, 25.0, uncertainty, -100_000 * SECOND, 100_000 * SECOND)
    model = ClockModel((segment,))
    row = build_clock_rows(["a"], {"a": model}, {}, {}, ())[0]
    clocks = Clocks({}, {}, (), {"a": model})

    assert row["kind"] == kind
    assert (clocks.correct("a", segment.last) == segment.last) == (kind == "none")
    assert (row["stretches"][0]["drift_ppm"] == 0) == (kind == "none")


def test_a_time_with_an_offset_of_its_own_is_in_no_zone() -> None:
    clocks = Clocks({}, {"a": -300}, (), zoned=frozenset(["gc.log"]))

    assert clocks.correct("a", 0, "gc.log") == 0
    assert clocks.correct("a", 0, "server.log") == 5 * HOUR * 1000
    assert clocks.in_zone("a", 0, "gc.log") == -5 * HOUR * 1000
    assert clocks.in_zone("a", 0, "server.log") == 0


@pytest.mark.parametrize("ms", [-420_000.0, 400.0, 95_000.0, 37_000.0])
def test_a_constant_offset_is_found_on_the_node_that_has_it(ms: float) -> None:
    """Most agree; who differs is off."""
    found = solve_clocks(seen_by({"a": right, "b": off(ms), "c": right}), {}, ["a", "b", "c"])
    row = row_of(found, "b")

    assert "offset" == row["kind"]
    assert abs(row["offset_ms"] - ms) <= row["uncertainty_ms"] < 300
    assert ["none", "none"] == [row_of(found, node)["kind"] for node in ("a", "c")]
    assert 1 == sum(one["reference"] for one in found.rows)
    recovered(found, "b", off(ms), SPAN)


def test_of_two_nodes_the_one_ahead_is_off() -> None:
    found = solve_clocks(seen_by({"a": off(5_000), "b": right}), {}, ["a", "b"])

    assert [False, True] == [row["reference"] for row in found.rows]


def test_a_zone_and_an_offset_are_told_apart() -> None:
    found = solve_clocks(
        seen_by({"a": right, "b": off(2_000 - 5 * HOUR), "c": right}), {}, list("abc")
    )
    row = row_of(found, "b")

    assert -300 == row["zone_shift_minutes"]
    assert abs(row["offset_ms"] - 2_000) <= row["uncertainty_ms"]
    recovered(found, "b", off(2_000 - 5 * HOUR), SPAN)


def test_a_zone_alone_is_no_offset() -> None:
    found = solve_clocks(
        seen_by({"a": right, "b": off(-5 * HOUR), "c": right}), {"b": -300}, list("abc")
    )

    assert ("zone", -300) == tuple(row_of(found, "b")[n] for n in ("kind", "zone_shift_minutes"))


def test_a_zone_that_was_read_is_not_solved_again() -> None:
    """A clock may be hours off in the right zone, if the lines say so."""
    pairs = seen_by({"a": right, "b": off(-5 * HOUR), "c": right})
    row = row_of(solve_clocks(pairs, {"a": 0, "b": 0, "c": 0}, ["a", "b", "c"]), "b")

    assert ("offset", 0) == (row["kind"], row["zone_shift_minutes"])
    assert abs(row["offset_ms"] + 5 * HOUR) <= row["uncertainty_ms"]


def test_a_drift_is_told_from_a_step() -> None:
    """200 ppm over five hours are 3.6 seconds."""

    def fast(at: int) -> float:
        return 200 * (at - 1_000 * SECOND) / 1e9

    pairs = seen_by({"a": right, "b": fast, "c": right}, count=300, every=60)
    found = solve_clocks(pairs, {}, ["a", "b", "c"])
    row = row_of(found, "b")

    assert ("drift", []) == (row["kind"], row["steps"])
    assert 180 <= row["drift_ppm"] <= 220
    assert abs(row["offset_ms"] - 3_600) <= row["uncertainty_ms"]
    recovered(found, "b", fast, range(1_000, 19_000, 600))


@pytest.mark.parametrize("size", [20_000.0, -20_000.0, 3_000.0])
@pytest.mark.parametrize("when", [1_300, 1_605, 1_950])
def test_a_step_is_told_from_a_drift_and_dated(size: float, when: int) -> None:
    def stepped(at: int) -> float:
        return size if at >= when * SECOND else 0.0

    found = solve_clocks(seen_by({"a": right, "b": stepped, "c": right}), {}, ["a", "b", "c"])
    row = row_of(found, "b")
    [step] = row["steps"]

    assert "step" == row["kind"]
    assert ["none", "none"] == [row_of(found, node)["kind"] for node in ("a", "c")]
    assert abs(step["ms"] - size) <= 2 * row["uncertainty_ms"]
    assert abs(step["at"] - when * SECOND) <= 120 * SECOND
    recovered(found, "b", stepped, range(1_000, 2_200, 7))


def test_a_stretch_with_fewer_points_is_no_surer_than_one_with_more() -> None:
    """The few may agree by chance; how noisy a node is does not change with its clock."""

    def noisy(at: int) -> float:
        early = at < 1_900 * SECOND
        return ((at // SECOND * 7919) % 1_400 - 700.0) if early else 20_000.0

    found = solve_clocks(seen_by({"a": right, "b": noisy, "c": right}), {}, list("abc"))
    [before, after] = found.models["b"].segments

    assert after.uncertainty_ms >= before.uncertainty_ms > 600


def test_what_to_take_off_stands_in_the_row_zone_and_all() -> None:
    """Whoever reads the table alone corrects as is done here."""

    def stepped(at: int) -> float:
        return -HOUR + (20_000.0 if at >= 1_600 * SECOND else 0.0)

    pairs = seen_by({"a": right, "b": stepped, "c": right})
    found = solve_clocks(pairs, {"b": -60}, ["a", "b", "c"])
    first, second = row_of(found, "b")["stretches"]

    assert (None, -HOUR) == (first["since"], first["offset_ms"])
    assert abs(second["offset_ms"] + HOUR - 20_000) < 300
    assert abs(second["since"] + HOUR * 1000 - 1_610 * SECOND) < 40 * SECOND
    assert [0.0] == [one["offset_ms"] for one in row_of(found, "a")["stretches"]]


def test_a_clock_set_forth_and_back_has_two_steps() -> None:
    def stepped(at: int) -> float:
        return 8_000.0 if 1_400 * SECOND <= at < 1_800 * SECOND else 0.0

    found = solve_clocks(seen_by({"a": right, "b": stepped, "c": right}), {}, ["a", "b", "c"])

    assert [1, -1] == [1 if step["ms"] > 0 else -1 for step in row_of(found, "b")["steps"]]
    recovered(found, "b", stepped, range(1_000, 2_200, 7))


@pytest.mark.parametrize("seed", range(6))
def test_a_node_that_hangs_has_no_step(seed: int) -> None:
    """What it says late, it says late by something else each time."""
    chance = random.Random(seed)
    pauses = sorted(chance.uniform(1_000, 2_200) for _ in range(9))

    def hanging(at: int) -> float:
        ends = [begin + 14 for begin in pauses if begin <= at / SECOND < begin + 14]
        return max((end * 1000 - at / 1000 for end in ends), default=0.0)

    found = solve_clocks(
        seen_by({"a": right, "b": hanging, "c": right}, 200, 6, seed), {}, ["a", "b", "c"]
    )

    assert {"none"} == {row["kind"] for row in found.rows}
    recovered(found, "b", right, SPAN)


def let_in(second: float, node: str, kind: str, epoch: int | None = None) -> dict[str, Any]:
    return {"node": node, "ts": round(second * SECOND), "kind": kind, "file": "f", "line": 1,
            "telling": None, "broker": 4, "broker_epoch": epoch, "controller": None}  # fmt: skip


def test_a_broker_that_two_controllers_let_in_ties_no_clocks() -> None:
    """It was fenced meanwhile: its registration is the same one, the moment is not."""
    once = [
        let_in(1, name, "broker_registered", 7) for name in ("broker-1", "broker-3", "broker-4")
    ]
    once += [let_in(2, "broker-1", "broker_unfenced"), let_in(2.1, "broker-4", "process_started")]

    def ties(rows: Sequence[dict[str, Any]]) -> set[float]:
        return {row["delta"] for row in find_broker_anchors(rows, StartupWindows({}, {}))}

    assert {0.0, -100.0} == ties(once)
    assert {0.0} == ties([*once, let_in(92, "broker-3", "broker_unfenced")])


# When two of four brokers saw the same states, in seconds, and how many milliseconds the first one
# was ahead. Broker 2 had just started at 80 s, and froze from 82 to 104 s.
_LATE_TWICE = {
    "12": [(35.48, -111), (42.789, -376), (42.835, -445), (44.243, -153), (44.281, -207),
           (47.221, -122), (53.25, -517), (53.33, -638), (79.032, -44), (80.078, -44),
           (80.347, -6947), (104.081, -6614), (104.087, -6620)],
    "13": [(35.428, -101), (35.741, -445), (42.721, -308), (42.804, -414), (44.201, -127),
           (46.18, -316), (47.178, -71), (53.273, -581), (73.729, -289), (73.88, -480),
           (79.224, -236), (80.304, 1), (88.935, -443), (89.025, -533), (97.983, -516),
           (98.127, -660), (104.017, -23983), (126.808, -90550)],
    "14": [(35.427, -131)],
    "23": [(35.742, -262), (42.721, 68), (42.816, -79), (44.201, 80), (44.227, -22),
           (46.228, -46), (47.209, 0), (53.273, 57), (53.43, -180), (73.729, 6618),
           (79.224, -192), (80.304, 43), (88.483, 15598), (97.983, 6098), (98.008, 6073),
           (104.017, -23939)],
    "24": [(42.741, 67), (42.805, -68), (44.181, 93), (44.21, -5), (46.175, 38), (53.257, 179),
           (53.344, 26), (73.78, 6955), (88.484, 15597), (97.978, 6103), (104.318, 7)],
    "34": [(35.427, 314), (36.334, 90474), (42.741, 51), (42.793, -44), (44.181, 63),
           (44.21, 17), (53.257, 188), (53.344, -35), (73.718, 162), (73.78, -12), (88.489, -6),
           (89.977, -38), (97.978, 30), (104.318, -61)],
}  # fmt: skip


def test_who_is_late_by_as_much_twice_steps_no_other_clock() -> None:
    """A clock that is set is off from all others, and not from the one that was late."""
    rows = [
        settled([(*names, ms, round(at * SECOND)) for at, ms in points])
        for names, points in _LATE_TWICE.items()
    ]

    found = solve_clocks(rows, {}, list("1234"))

    assert [[]] * 4 == [row["steps"] for row in found.rows]
    assert all(abs(row["offset_ms"]) <= 500 for row in found.rows)


def test_doubt_grows_along_the_way_to_the_reference() -> None:
    pairs = seen_by({"a": right, "b": off(-6_000)}) + seen_by({"b": off(-6_000), "c": off(4_000)})
    pairs += seen_by({"c": off(4_000), "d": off(7_000)})
    found = solve_clocks(pairs, {}, list("abcd"))
    doubts = {row["node"]: row["uncertainty_ms"] for row in found.rows}
    reference = next(row["node"] for row in found.rows if row["reference"])
    way = [doubts[node] for node in "abcd"[: "abcd".index(reference) + 1]]

    assert min(doubts.values()) == doubts[reference]
    assert sorted(way, reverse=True) == way
    assert max(doubts.values()) >= 2 * doubts[reference]


def test_nodes_that_never_met_have_no_order() -> None:
    pairs = seen_by({"a": right, "b": right}) + seen_by({"x": right, "y": right})
    found = solve_clocks(pairs, {}, ["a", "b", "x", "y", "alone"])
    early, late = {"node": "a", "ts": 0}, 3_600 * SECOND

    assert -1 == found.compare(early, {"node": "b", "ts": late})
    assert found.compare(early, {"node": "x", "ts": late}) is None
    assert found.compare(early, {"node": "alone", "ts": late}) is None
    assert found.compare(early, {"node": None, "ts": late}) is None
    assert found.uncertainty("alone", 0) is None


@pytest.mark.parametrize(
    ("apart", "order"), [(0.05, None), (-0.05, None), (5, -1), (-5, 1), (0.15, None)]
)
def test_what_is_closer_than_the_doubt_of_both_has_no_order(apart: float, order: int) -> None:
    found = solve_clocks(seen_by({"a": right, "b": off(37_000), "c": right}), {}, ["a", "b", "c"])
    one = {"node": "a", "ts": 1_500 * SECOND}
    other = {"node": "b", "ts": 1_537 * SECOND + int(apart * SECOND)}

    assert order == found.compare(one, other)
    assert (None if order is None else -order) == found.compare(other, one)


def test_one_node_orders_its_own_lines_to_the_millisecond() -> None:
    clocks = solve_clocks(seen_by({"a": right, "b": right}), {}, ["a", "b"])

    assert -1 == clocks.compare({"node": "a", "ts": 5_000}, {"node": "a", "ts": 6_000})
    assert clocks.compare({"node": "a", "ts": 5_000}, {"node": "a", "ts": 5_000}) is None
    assert 1 == clocks.compare({"node": "lone", "ts": 6_000}, {"node": "lone", "ts": 5_000})


def test_a_node_that_nobody_met_has_no_offset() -> None:
    found = solve_clocks(seen_by({"a": right, "b": right}), {}, ["a", "b", "alone"])

    assert {"node": "alone", "offset_ms": None, "uncertainty_ms": None, "kind": None,
            "drift_ppm": None, "steps": None, "anchors": 0, "zone_shift_minutes": 0,
            "reference": False, "stretches": None} == row_of(found, "alone")  # fmt: skip
    assert 123 == found.correct("alone", 123)
    assert 123 == found.correct(None, 123)


def test_an_offset_within_its_own_doubt_corrects_nothing() -> None:
    piece = ClockSegment(0, 30.0, 0.0, 50.0, 0, SECOND)
    found = Clocks({}, {}, (), {"b": ClockModel((piece,))})

    assert 1_000_000 == found.correct("b", 1_000_000)
    assert 80_000 == found.uncertainty("b", 1_000_000)


def test_where_times_stand_twice_the_place_of_a_line_decides() -> None:
    """After a step back the same times come again."""
    pieces = (ClockSegment(0, 0.0, 0.0, 100.0, 0, 100 * SECOND),
              ClockSegment(0, -20_000.0, 0.0, 100.0, 80 * SECOND, 500 * SECOND))  # fmt: skip
    step = ClockStep(80 * SECOND, 120 * SECOND, 100 * SECOND, -20_000, 100 * SECOND, {"f": (6, 9)})
    clocks = Clocks({}, {}, (), {"b": ClockModel(pieces, (step,))})
    before = {"node": "b", "ts": 90 * SECOND, "file": "f", "line": 6}

    assert 90 * SECOND == clocks.event_time(before)
    assert 110 * SECOND == clocks.event_time(before | {"line": 9})
    assert -1 == clocks.compare(before, before | {"line": 9})
    assert clocks.compare(before, before | {"line": 7}) is None
    assert clocks.compare(before, before | {"file": "g", "line": 8}) is None
    assert 100_000 == clocks.uncertainty("b", 90 * SECOND, "f", 6)
    assert 20_100_000 == clocks.uncertainty("b", 90 * SECOND)


@settings(max_examples=20)
@given(st.permutations(list(combinations("abcd", 2))))
def test_the_order_of_the_pairs_does_not_matter(order: list[tuple[str, str]]) -> None:
    pairs = {
        (pair["node"], pair["other"]): pair
        for pair in seen_by({"a": right, "b": off(9_000), "c": right, "d": off(-500)}, 20)
    }

    expected = solve_clocks(list(pairs.values()), {}, list("abcd"))
    assert expected == solve_clocks([pairs[key] for key in order], {}, list("abcd"))
