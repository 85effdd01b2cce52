"""Names weeks as ISO 8601 does, in UTC, and says when each begins and ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from forensics.errors import ForensicsError
from forensics.lib.time_units import DAY

# All moments here are microseconds since 1970, as everywhere in the tables.
# What has no time belongs to no week.
UNDATED = "undated"
_NAME = re.compile(r"(?P<year>\d{4})-W(?P<number>\d{2})")
_FIRST = date(1970, 1, 5)
_MONDAY = 4 * DAY
_DAYS = 7


@dataclass(frozen=True, order=True)
class Week:
    """One ISO week; `str` gives its name, and names sort as the weeks do.

    >>> week = Week.parse("2026-W46")
    >>> str(week), str(week.shift(1)), week.monday
    ('2026-W46', '2026-W47', datetime.date(2026, 11, 9))
    """

    # weeks since the one that begins on Monday, 5 January 1970
    number: int

    @classmethod
    def parse(cls, name: str) -> Week:
        """Read a name such as 2026-W46, or say what is wrong with it."""
        found = _NAME.fullmatch(name)
        try:
            year, number = (int(found[part]) for part in ("year", "number")) if found else (0, 0)
            monday = date.fromisocalendar(year, number, 1)
        except ValueError as error:
            message = f"{name!r} is no week; write the ISO year and week, as in 2026-W46."
            raise ForensicsError(message) from error
        return cls((monday - _FIRST).days // _DAYS)

    @property
    def monday(self) -> date:
        """The day on which it begins."""
        return _FIRST + timedelta(days=self.number * _DAYS)

    @property
    def begin(self) -> int:
        """Its first moment."""
        return _MONDAY + self.number * _DAYS * DAY

    @property
    def end(self) -> int:
        """The first moment after it."""
        return self.begin + _DAYS * DAY

    @property
    def padded_range(self) -> tuple[int, int]:
        """From when to when logs are looked at: a day more on both sides, the end not included."""
        return self.begin - DAY, self.end + DAY

    def shift(self, weeks: int) -> Week:
        """Give the week so many weeks later, or earlier."""
        return Week(self.number + weeks)

    def __str__(self) -> str:
        year, number, _ = self.monday.isocalendar()
        return f"{year}-W{number:02d}"


def week_of(micros: int) -> Week:
    """Give the week of a moment.

    >>> str(week_of(1_798_761_599_000_000))  # 2026-12-31T23:59:59
    '2026-W53'
    """
    return Week((micros - _MONDAY) // (_DAYS * DAY))


# What is told of any other time has a wrong date, and belongs to no week.
EARLIEST, LATEST = Week.parse("1990-W01"), Week.parse("2200-W01")
