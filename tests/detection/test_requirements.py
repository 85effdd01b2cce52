"""What is not looked at is said: a table may be longer than what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors import contradiction, truncation
from forensics.run_output.findings import Finding
from tests.detection.cases import SECOND, case, row

Row = dict[str, Any]
Find = Callable[[DetectionContext], Iterator[Finding]]


def cut(partition: int, *, unclean: bool | None = False) -> Row:
    """Make the cut of 5 records, which all lie below the high watermark in odd partitions."""
    return row(
        "cuts", topic="t", partition=partition, leader_epoch=5, leader=2, kept=70, broker=1,
        started_at=100 * SECOND, cut_to=70, log_end=75, high_watermark=75 if partition % 2 else 70,
        unclean=unclean, evidence=[{"file": "broker-1/server.log", "line": partition}],
    )  # fmt: skip


def breach(partition: int, invariant: str = "one leader per epoch") -> Row:
    return row(
        "breaches", topic="t", partition=partition, invariant=invariant, detail="led by 1 and by 2",
        leader_epoch=4, started_at=10 * SECOND, count=1, alone=False,
        evidence=[{"file": "broker-1/server.log", "line": partition}],
    )  # fmt: skip


def reading(most: int, name: str, found: DetectionContext) -> DetectionContext:
    """Let a detector read no more than so many rows."""
    return replace(found, limits={**found.limits, name: {**found.limits[name], "most": most}})


@pytest.mark.parametrize(("most", "beyond"), [(0, 5), (3, 2), (5, 0), (6, 0)])
def test_what_some_leaves_out_is_counted(most: int, beyond: int, tmp_path: Path) -> None:
    found = case(tmp_path, cuts=[cut(at) for at in range(5)])

    assert found.count_beyond("cuts", most) == beyond
    assert len(found.first_rows("cuts", most)) + beyond == 5


def test_only_rows_that_are_asked_for_are_counted(tmp_path: Path) -> None:
    rows = [cut(at, unclean=bool(at % 2)) for at in range(5)]
    found = case(tmp_path, cuts=rows)

    assert found.count_beyond("cuts", 1, pc.field("unclean") == True) == 1  # noqa: E712
    assert found.count_beyond("cuts", 1, pc.field("partition") > 9) == 0


def test_nothing_is_beyond_a_table_that_is_not_there(tmp_path: Path) -> None:
    found = case(tmp_path)
    (tmp_path / "cuts" / "part-0.parquet").unlink()
    (tmp_path / "cuts").rmdir()

    assert found.count_beyond("cuts", 0) == 0


@pytest.mark.parametrize(("most", "unread"), [(4, 2), (5, 1), (6, 0), (100, 0)])
def test_cuts_that_are_not_looked_at_are_told_of(most: int, unread: int, tmp_path: Path) -> None:
    # The cut of an unclean election is none of truncation's, and is never missed.
    rows = [*(cut(at) for at in range(6)), cut(6, unclean=True)]

    found = list(truncation.find(reading(most, "truncation", case(tmp_path, cuts=rows))))

    assert len(found) == 2
    assert sum(len(one.losses) for one in found) == 6 - unread
    for one in found:
        assert one.measures["cuts_not_looked_at"] == unread
        assert (f"{unread} further rows of tables/cuts" in one.explanation) is (unread > 0)
        assert ("not looked at" in one.explanation) is (unread > 0)


@pytest.mark.parametrize(("most", "unread"), [(2, 2), (3, 1), (4, 0), (100, 0)])
def test_breaches_that_are_not_looked_at_are_told_of(
    most: int, unread: int, tmp_path: Path
) -> None:
    rows = [breach(0), breach(1, "epochs never fall"), breach(2), breach(3)]

    some = reading(most, "contradiction", case(tmp_path, breaches=rows))
    found = list(contradiction.find(some))

    assert len(found) == 2
    assert sum(one.measures["breaches"] for one in found) == 4 - unread
    for one in found:
        assert one.measures["rows_not_looked_at"] == unread
        assert (f"{unread} further rows of tables/breaches" in one.explanation) is (unread > 0)
        assert ("not looked at" in one.explanation) is (unread > 0)


@pytest.mark.parametrize(
    ("find", "name"),
    [(truncation.find, "truncation"), (contradiction.find, "contradiction")],
)
def test_what_is_not_looked_at_is_not_counted_as_seen(
    find: Find, name: str, tmp_path: Path
) -> None:
    rows = (0, 2, 4)
    some = case(tmp_path, cuts=[cut(at) for at in rows], breaches=[breach(at) for at in rows])

    (found,) = find(reading(1, name, some))

    assert found.partitions == ["t-0"]
