"""Equal histories fold into one row and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from forensics.report import tracks
from forensics.report.folds import Reign, fold, strands
from forensics.report.saved import load
from tests.report.samples import END, START, reign, save

WHOLE = Reign(1, (4, 4), 0, 9000, unclean=False, election="initial", inferred=False)


def test_equal_histories_are_one_row_that_lists_them() -> None:
    """Epoch numbers may differ; the row gives their range."""
    rows = fold([("a-10", [WHOLE]), ("a-9", [replace(WHOLE, epochs=(7, 7))])])

    assert [row.members for row in rows] == [("a-9", "a-10")]
    assert rows[0].reigns[0].epochs == (4, 7)
    assert rows[0].label == "a-9 +1"


def test_most_harm_comes_first() -> None:
    """Unclean before leaderless before moved before still."""
    dark = replace(WHOLE, leader=-1)
    torn = replace(WHOLE, unclean=True)
    moved = [WHOLE, replace(WHOLE, leader=2, start=5000)]
    rows = fold([("a-0", [WHOLE]), ("b-0", moved), ("c-0", [dark]), ("d-0", [torn])])

    assert [row.label for row in rows] == ["d-0", "c-0", "b-0", "a-0"]


def test_at_most_two_hundred_rows_and_four_thousand_bars(unclean: Path) -> None:
    """More is counted, not drawn."""
    rows = [
        row
        for number in range(300)
        for row in reign(
            "t", number, *((e, e % 3, number * 99 + e * 9000, None) for e in range(30))
        )
    ]
    save(unclean, "leadership", rows)
    drawn, partitions, _ = strands(load(unclean))

    assert partitions == 300
    assert len(drawn) <= 200
    assert sum(len(row.reigns) for row in drawn) <= 4000


def test_what_no_line_covers_is_unknown(unclean: Path) -> None:
    """A lane begins and ends with the window, and its holes are hatched."""
    lanes = tracks.lanes(load(unclean), "broker")
    third = [(lane.state, lane.start - START) for lane in lanes if lane.name == "broker 3"]
    second = [lane.state for lane in lanes if lane.name == "broker 2"]

    assert third == [("up", 0), ("unknown", 120_000)]
    assert second == ["unknown", "up", "crashed", "starting", "up"]
    assert max(lane.end for lane in lanes) == START + END


def test_debt_counts_partitions_at_each_moment(unclean: Path) -> None:
    """Three partitions without a leader, then none."""
    debt = tracks.debt(load(unclean))

    assert [level for _, level in debt["no leader"]] == [0, 3, 0, 0]
    assert max(level for _, level in debt["under-replicated"]) == 3


def test_client_errors_carry_the_verdict_of_their_episode(unclean: Path) -> None:
    """Every error is counted once, under what its episode was called."""
    _, counted = tracks.client_errors(load(unclean))

    assert {name: sum(bins.values()) for name, bins in counted.items()} == {"sustained": 400}


def test_the_view_is_the_incident_and_a_little_around_it(unclean: Path, quiet: Path) -> None:
    """A quiet day shows all of its window."""
    view = tracks.view(load(unclean))

    assert view is not None
    assert (view[0] - START, view[1] - START) == (29_709, 125_657)
    assert tracks.view(load(quiet)) == (START, START + END)
