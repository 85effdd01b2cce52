"""Weeks are those of ISO 8601, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forensics.errors import ForensicsError
from forensics.weekly.iso_week import Week, week_of


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("moment", "week"),
    [
        ("2026-11-16T00:00:00", "2026-W47"),
        ("2026-11-15T23:59:59.999999", "2026-W46"),
        # A year may have 53 weeks, and its first days may belong to the year before.
        ("2026-12-31T12:00:00", "2026-W53"),
        ("2027-01-03T23:59:59", "2026-W53"),
        ("2027-01-04T00:00:00", "2027-W01"),
        ("2024-12-30T00:00:00", "2025-W01"),
        ("1969-12-31T00:00:00", "1970-W01"),
    ],
)
def test_a_moment_belongs_to_one_week(moment: str, week: str) -> None:
    found = week_of(micros(moment))

    assert week == str(found)
    assert found == Week.parse(week)
    assert found.begin <= micros(moment) < found.end == found.shift(1).begin


@pytest.mark.parametrize(
    "name", ["2026-W54", "2027-W53", "2026-W00", "2026W46", "46", "0000-W01", ""]
)
def test_what_is_no_week_is_told(name: str) -> None:
    with pytest.raises(ForensicsError, match=r"is no week; write the ISO year and week"):
        Week.parse(name)


def test_names_sort_as_weeks_do() -> None:
    names = [str(Week.parse("2026-W50").shift(by)) for by in range(8)]

    assert sorted(names) == names
