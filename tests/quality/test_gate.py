"""The gate: what the tables must fulfil, and what is said when they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics import tables
from forensics.quality import check, gate
from forensics.quality.expectations import EXPECTATIONS
from forensics.quality.gate import CHECKS

Row = dict[str, Any]
SECOND = 1_000_000


def file(lines: int = 1000, **more: int) -> Row:
    buckets = {"records": lines, "continuation_lines": 0, "blank_lines": 0}
    buckets |= {"unparsed_lines": 0, "duplicate_lines": 0, "lines": lines}
    return {"file": "server.log", **(buckets | more)}


def epoch(number: int = 0, begin: float | None = 1, end: float | None = None, **more: Any) -> Row:
    times = {
        "started_at": None if begin is None else int(begin * SECOND),
        "ended_at": None if end is None else int(end * SECOND),
    }
    return {"topic": "t", "partition": 0, "leader_epoch": number, "leader": 1, **times, **more}


def failures(folder: Path, files: Sequence[Row], leadership: Sequence[Row]) -> Mapping[str, str]:
    """Save two tables and check them; give what failed, and what was seen."""
    for name, rows in (("files", files), ("leadership", leadership)):
        (folder / name).mkdir()
        found = pa.Table.from_pylist(list(rows), schema=getattr(tables, name.upper()))
        pq.write_table(found, folder / name / "part-0.parquet")
    checks = check(folder)
    assert CHECKS == checks.schema
    assert len(EXPECTATIONS) == len(checks)
    return {row["consequence"]: row["observed"] for row in checks.to_pylist() if not row["success"]}


def test_tables_as_they_should_be_pass(tmp_path: Path) -> None:
    files = [
        file(),
        file(100, records=60, continuation_lines=30, blank_lines=5, unparsed_lines=5),
        file(100, records=0, duplicate_lines=100),
        file(0),
    ]
    leadership = [epoch(0, 1, 5), epoch(1, 5, 5), epoch(2, 5), epoch(0, 1, partition=1)]

    assert {} == failures(tmp_path, files, leadership)


def test_a_line_in_no_bucket_is_seen(tmp_path: Path) -> None:
    failed = failures(tmp_path, [file(), file(lines=1001, records=1000)], [epoch()])

    assert ["a line of this file is in no bucket: do not trust its counts"] == list(failed)
    assert ["1"] == list(failed.values())


@pytest.mark.parametrize(("unparsed", "fails"), [(50, 0), (51, 1), (1000, 1)])
def test_a_twentieth_of_a_file_may_be_unread(unparsed: int, fails: int, tmp_path: Path) -> None:
    one = file(records=1000 - unparsed, unparsed_lines=unparsed)

    assert fails == len(failures(tmp_path, [one], [epoch()]))


def test_two_leaders_in_one_epoch_are_seen(tmp_path: Path) -> None:
    failed = failures(tmp_path, [file()], [epoch(3), epoch(3), epoch(4)])

    assert ["two leaders in one epoch"] == [text.partition(":")[0] for text in failed]


@pytest.mark.parametrize(("end", "fails"), [(8, 0), (7.999, 1)])
def test_an_epoch_may_end_two_seconds_before_it_begins(
    end: float, fails: int, tmp_path: Path
) -> None:
    """Less than two is what clocks are allowed; more is a clock that was not found out."""
    assert fails == len(failures(tmp_path, [file()], [epoch(0, 10, end)]))


def test_an_epoch_without_a_time_is_not_judged_by_it(tmp_path: Path) -> None:
    assert {} == failures(tmp_path, [file()], [epoch(0, None, 5), epoch(1, 5)])


def test_nothing_read_is_a_failure_although_no_row_is_wrong(tmp_path: Path) -> None:
    assert ["nothing was read"] == list(failures(tmp_path, [], []))


def test_a_long_table_is_checked_in_parts_that_never_cut_a_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two epochs lie on both sides of what would be a cut."""
    monkeypatch.setattr(gate, "_PART", 2)
    rows = [epoch(0), epoch(0, partition=1), epoch(3, partition=1), epoch(3, partition=1)]
    rows += [epoch(0, 9, 5, partition=2), epoch(0, partition=3)]
    failed = failures(tmp_path, [file()], rows)

    assert 2 == len(failed)
    assert "-4.0" in failed.values()
