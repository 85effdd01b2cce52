"""Equal histories fold into one row, nothing is lost by it, and nothing short disappears."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forensics.report import time_bins
from forensics.report.figures import leadership
from forensics.report.partition_groups import (
    MAX_EPOCHS,
    GroupedHistories,
    PartitionGroup,
    group_partitions,
)
from forensics.run_output import reader
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import load_run
from tests.report.sample_runs import ELECTED, START, Row, at, reign, save

WHOLE = (4, 1, 0, 9000)


def fold(out: Path) -> GroupedHistories:
    found = group_partitions(load_run(out))
    assert found is not None
    return found


def drawn(out: Path, *rows: list[Row]) -> list[PartitionGroup]:
    save(out, "leadership", [one for some in rows for one in some])
    save(out, "isr", [])
    return list(fold(out).rows)


def test_equal_histories_are_one_row_that_lists_them(unclean: Path) -> None:
    """Epoch numbers may differ; the row gives their range."""
    rows = drawn(unclean, reign("a", 9, (7, 1, 0, 9000)), reign("a", 10, (4, 1, 300, 9400)))

    assert [row.members for row in rows] == [("a-9", "a-10")]
    assert rows[0].leader_epochs[0] == LeaderInterval(
        1, (4, 7), START, START + 9400, unclean=False, election="failover", inferred=False
    )
    assert rows[0].label == "a-9 +1"


def test_histories_a_tick_apart_are_alike_wherever_the_second_begins(unclean: Path) -> None:
    """Neither side of a full second tears them apart; more than a second does."""
    near = drawn(unclean, reign("a", 0, (0, 1, 990, 9000)), reign("a", 1, (0, 1, 1010, 9000)))
    far = drawn(unclean, reign("a", 0, (0, 1, 990, 9000)), reign("a", 1, (0, 1, 2010, 9000)))

    assert [len(row.members) for row in near] == [2]
    assert [len(row.members) for row in far] == [1, 1]


def test_partitions_with_other_replicas_in_sync_are_not_alike(unclean: Path) -> None:
    """The leaders are the same, the ISRs are not."""
    save(unclean, "leadership", [*reign("a", 0, WHOLE), *reign("a", 1, WHOLE)])
    whole = {"topic": "a", "replicas": [1, 2], "started_at": at(0), "ended_at": at(9000)}
    for other, rows in (([1], 2), ([1, 2], 1)):
        isrs = [whole | {"partition": 0, "isr": [1, 2]}, whole | {"partition": 1, "isr": other}]
        save(unclean, "isr", isrs)
        assert len(fold(unclean).rows) == rows


def test_the_fold_is_reversible(unclean: Path) -> None:
    """Each partition is a member of one row, and that row is its very history, to the tick."""
    rows = [row for n in range(40) for row in reign("a", n, (0, n % 3, 0, 1500 * (n % 4)),
                                                     (1, -1, 1500 * (n % 4), None))]  # fmt: skip
    found = drawn(unclean, rows)
    members = [name for row in found for name in row.members]

    assert sorted(members) == sorted(f"a-{n}" for n in range(40))
    assert len(found) == 12
    for row in found:
        for name in row.members:
            n = int(name.removeprefix("a-"))
            assert [one.leader for one in row.leader_epochs] == [n % 3, -1]
            assert abs(row.leader_epochs[0].end - START - 1500 * (n % 4)) <= 1000


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
    assert [len(row.leader_epochs) for row in rows] == [MAX_EPOCHS, 1]
    assert rows[0].impact == (0, 30 * 40, 0, 3000)
    assert 30 == sum(one.leader == -1 for one in rows[0].leader_epochs)
    assert rows[0].omitted_epochs == 3000 - MAX_EPOCHS


def test_a_history_may_go_on_in_the_next_part_of_the_table(
    unclean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fold(unclean)
    monkeypatch.setattr(reader, "_CHUNK_ROWS", 2)
    parts = fold(unclean)

    assert whole.rows == parts.rows
    assert np.array_equal(whole.grid.leaders, parts.grid.leaders)


def test_at_most_two_hundred_rows_and_the_bars_of_the_budget(unclean: Path) -> None:
    """More is counted, not drawn; the heatmap has more rows, and the others in one."""
    rows = [
        row
        for number in range(400)
        for row in reign(
            "t", number, *((e, (e + number) % 3, number * 99 + e * 9000, None) for e in range(15))
        )
    ]
    save(unclean, "leadership", rows)
    found = fold(unclean)
    lanes = leadership.choose_rows(found.rows)

    assert found.partition_count == 400
    assert 0 < len(lanes) <= 200
    assert sum(len(row.leader_epochs) for row in lanes) <= leadership.MAX_BARS
    assert len(found.grid.names) <= 300
    counted = int(found.grid.names[-1].removesuffix(" others"))
    assert counted + sum(len(row.members) for row in found.rows) == 400


def test_a_leader_of_forty_milliseconds_does_not_disappear(unclean: Path) -> None:
    """Its cell says that there were several, and its bar is exact; so with an ISR of a moment."""
    spans = [(0, 1, 0, 60_000), (1, 2, 60_000, 60_040), (2, 1, 60_040, None)]
    save(unclean, "leadership", [*reign("a", 0, *spans), *reign("a", 1, (0, 1, 0, None))])
    isrs = [([1, 2], 0, 60_000), ([1], 60_000, 60_040), ([1, 2], 60_040, None)]
    same = {"topic": "a", "partition": 0, "replicas": [1, 2]}
    save(unclean, "isr", [same | {"isr": isr, "started_at": at(a), "ended_at": at(b)}
                          for isr, a, b in isrs])  # fmt: skip
    found = fold(unclean)
    row = found.grid.names.index("a-0")
    cell = int(np.searchsorted(found.grid.edges, START + 60_010, "right")) - 1

    assert found.grid.leaders[row, cell] == time_bins.SEVERAL
    assert list(np.flatnonzero(found.grid.leaders[row] != 1)) == [cell]
    assert list(np.flatnonzero(found.grid.missing[row])) == [cell]
    exact = [(one.leader, one.end - one.start) for one in found.rows[row].leader_epochs]
    assert (2, 40) in exact


def test_what_began_nobody_knows_when_takes_no_time(unclean: Path) -> None:
    """What is known has an end; from then on until the next begins nothing is drawn as known."""
    known = reign("a", 0, (0, 1, 0, 9000), (2, 3, 20_000, 30_000))
    blank = [one | {"leader": -1, "started_at": None} for one in reign("a", 0, (1, 0, 0, 20_000))]
    rows = drawn(unclean, known + blank)

    spans = [(one.leader, one.start - START, one.end - START) for one in rows[0].leader_epochs]
    assert spans == [(1, 0, 9000), (-1, 20_000, 20_000), (3, 20_000, 30_000)]
    assert rows[0].impact[1] == 0
