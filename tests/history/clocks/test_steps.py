"""Where what others saw does not fit a clock, its doubt says so."""

from __future__ import annotations

import pytest

from forensics.history.clocks.model import ClockModel, ClockSegment, ClockStep, UnexplainedInterval
from forensics.history.clocks.solver import solve_clocks
from forensics.history.clocks.steps import Residual, find_unexplained, measure_residual
from tests.history.clocks.test_solver import SECOND, recovered, right, row_of, seen_by

ALWAYS = 2**62


def seen(*misses: float, every: float = 5) -> list[Residual]:
    """Give sightings some seconds apart; those within 100 ms of the course fit it."""
    return [
        Residual(int(n * every * SECOND), int(n * every * SECOND), miss, abs(miss) <= 100)
        for n, miss in enumerate(misses)
    ]


def test_a_clock_that_always_fits_has_no_haze() -> None:
    assert () == find_unexplained(seen(0, 50, -100))
    assert () == find_unexplained([])


def test_a_miss_at_the_end_leaves_all_after_the_last_fit_in_doubt() -> None:
    """One word is not enough to say that the clock was set anew, nor that it was not."""
    assert (UnexplainedInterval(5 * SECOND, ALWAYS, 20_000.0),) == find_unexplained(
        seen(0, 0, 20_000)
    )


def test_a_clock_set_back_shows_the_time_before_its_step_again() -> None:
    assert (UnexplainedInterval(-15 * SECOND, ALWAYS, 20_000.0),) == find_unexplained(
        seen(0, 0, -20_000)
    )


def test_a_miss_at_the_beginning_leaves_all_before_the_first_fit_in_doubt() -> None:
    assert (UnexplainedInterval(-ALWAYS, 30 * SECOND, 20_000.0),) == find_unexplained(
        seen(20_000, 19_990, 0, 0)
    )


@pytest.mark.parametrize(
    ("misses", "ms"), [((0, 9_000, 4_000, 0), None), ((0, 9_000, 9_010, 0), 9_010.0)]
)
def test_between_two_fits_only_a_miss_that_stays_the_same_counts(
    misses: tuple[float, ...], ms: float | None
) -> None:
    """A node that hangs is late by something else each time."""
    found = find_unexplained(seen(*misses))

    assert ([] if ms is None else [UnexplainedInterval(0, 15 * SECOND + 9_010_000, ms)]) == list(
        found
    )


def test_the_order_in_which_others_are_asked_does_not_matter() -> None:
    points = seen(0, 0, 20_000, 20_000)

    assert find_unexplained(points) == find_unexplained(points[::-1])


def test_near_a_step_a_moment_may_belong_to_either_side() -> None:
    pieces = (ClockSegment(0, 0.0, 0.0, 100.0, 0, 1), ClockSegment(0, 20_000.0, 0.0, 100.0, 0, 1))
    step = ClockStep(10 * SECOND, 40 * SECOND, 25 * SECOND, 20_000.0, 20 * SECOND)
    course = ClockModel(pieces, (step,))

    assert measure_residual(course, 30 * SECOND, 30 * SECOND, 0.0).is_explained
    assert measure_residual(course, 30 * SECOND, 10 * SECOND, 0.0).is_explained
    assert not measure_residual(course, 50 * SECOND, 50 * SECOND, 0.0).is_explained


@pytest.mark.parametrize("size", [20_000.0, -20_000.0])
@pytest.mark.parametrize("node", ["a", "b"])
@pytest.mark.parametrize("when", [1_030, 2_145, 2_165])
def test_a_step_that_hardly_anything_tells_of_is_within_the_doubt(
    size: float, node: str, when: int
) -> None:
    """Whoever is set anew shortly before the end, or after the beginning, others stay right."""

    def stepped(at: int) -> float:
        return size if at >= when * SECOND else 0.0

    wrong = {name: stepped if name == node else right for name in "abc"}
    found = solve_clocks(seen_by(wrong), {}, list("abc"))
    level = size if when < 1_500 else 0.0

    assert abs(row_of(found, node)["offset_ms"] - level) < 1_000 or row_of(found, node)["steps"]
    for name, ahead in wrong.items():
        recovered(found, name, ahead, range(1_000, 2_200, 7))
