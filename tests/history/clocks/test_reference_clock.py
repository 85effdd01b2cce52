"""All clocks are told by one that most agree with."""

from __future__ import annotations

from collections.abc import Mapping

from forensics.history.clocks.model import ClockModel, ClockSegment
from forensics.history.clocks.solver import choose_reference, solve_clocks
from tests.history.clocks.test_solver import SECOND, off, recovered, right, row_of, seen_by

ROOT = ClockModel((ClockSegment(0, 0.0, 0.0, 0.0, -(2**62), 2**62),))


def level(ms: float, first: int = 0, last: int = 800) -> ClockModel:
    return ClockModel((ClockSegment(0, ms, 0.0, 100.0, first * SECOND, last * SECOND),))


def chosen(courses: Mapping[str, ClockModel], **few: int) -> str:
    ties = {node: few.get(node, 10) for node in courses}
    return choose_reference(courses, ties, dict.fromkeys(courses, 0))


def test_of_three_clocks_the_one_that_differs_is_not_chosen() -> None:
    courses = {"a": ROOT, "b": level(20_000)}

    assert "b" != chosen(courses | {"c": level(20)})
    assert "a" != chosen(courses | {"c": level(19_980)})


def test_who_is_not_heard_of_has_no_say() -> None:
    """Two clients that are heard of once, at the beginning, do not outvote two brokers."""
    courses = {"a": ROOT, "b": level(20_000), "c": level(20_010)}
    courses |= {"d": level(0, 0, 10), "e": level(0, 0, 10)}

    assert chosen(courses, d=2, e=2) in "bc"


def test_who_little_is_known_of_is_not_chosen() -> None:
    courses = {"a": ROOT, "b": level(10), "c": level(-10)}

    assert "c" == chosen(courses)
    assert "a" == chosen(courses, c=2, b=4)


def test_one_clock_far_off_does_not_draw_the_reference_to_one_a_little_off() -> None:
    """Half of all are right: who is near to the one far off is not in their middle."""
    wrong = {"a": off(300), "b": right, "c": right, "d": off(37_000)}
    # Most is known of the one that is off.
    pairs = [pair for pair in seen_by(wrong) if "a" in (pair["node"], pair["other"])]
    found = solve_clocks(pairs, {}, list("abcd"))

    assert "offset" == row_of(found, "a")["kind"]
    assert [False, False] == [row_of(found, node)["reference"] for node in ("a", "d")]
    for name, ahead in wrong.items():
        recovered(found, name, ahead, range(1_000, 2_200, 50))
