"""Equal histories fold into one row and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report import saved, tracks
from forensics.report.folds import LONGEST, Reign, Strand, strands
from forensics.report.saved import load
from tests.report.samples import ELECTED, END, START, Row, reign, save

WHOLE = (4, 1, 0, 9000)


def drawn(out: Path, *rows: list[Row]) -> list[Strand]:
    save(out, "leadership", [one for some in rows for one in some])
    return strands(load(out))[0]


def test_equal_histories_are_one_row_that_lists_them(unclean: Path) -> None:
    """Epoch numbers may differ; the row gives their range."""
    rows = drawn(unclean, reign("a", 9, (7, 1, 0, 9000)), reign("a", 10, (4, 1, 300, 9400)))

    assert [row.members for row in rows] == [("a-9", "a-10")]
    assert rows[0].reigns[0] == Reign(
        1, (4, 7), START, START + 9400, unclean=False, election="failover", inferred=False
    )
    assert rows[0].label == "a-9 +1"


def test_most_harm_comes_first(unclean: Path) -> None:
    """Unclean before leaderless before moved before still."""
    torn = reign("d", 0, (5, 2, ELECTED, 90_000))
    dark, moved = reign("c", 0, (4, -1, 0, 9000)), reign("b", 0, WHOLE, (5, 2, 5000, 9000))
    rows = drawn(unclean, reign("a", 0, WHOLE), moved, dark, torn)

    assert [row.label for row in rows] == ["d-0", "c-0", "b-0", "a-0"]


def test_of_a_partition_with_very_many_epochs_the_worst_are_drawn(unclean: Path) -> None:
    """It is the first of all rows, and says how much there is in all."""
    spans = [(e, -1 if e % 100 == 7 else e % 3, e * 40, e * 40 + 40) for e in range(3000)]
    rows = drawn(unclean, reign("a", 0, *spans), reign("b", 0, WHOLE))

    assert [row.label for row in rows] == ["a-0", "b-0"]
    assert [len(row.reigns) for row in rows] == [LONGEST, 1]
    assert rows[0].harm == (0, 30 * 40, 3000)
    assert 30 == sum(one.leader == -1 for one in rows[0].reigns)


def test_a_history_may_go_on_in_the_next_part_of_the_table(
    unclean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = strands(load(unclean))
    monkeypatch.setattr(saved, "_PART", 2)

    assert whole == strands(load(unclean))


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
