"""Weeks as ISO 8601 numbers them, in UTC; moments are microseconds since 1970, as in the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from forensics.errors import ForensicsError
from forensics.lib.intervals import Interval
from forensics.lib.time_units import DAY, MILLISECOND

# Stands for the week of events that have no time.
UNDATED = "undated"
_NAME = re.compile(r"(?P<year>\d{4})-W(?P<number>\d{2})")
_FIRST_MONDAY = date(1970, 1, 5)
_FIRST_BEGIN = 4 * DAY
_WEEK = 7 * DAY


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
        """Read a name such as 2026-W46."""
        match = _NAME.fullmatch(name)
        try:
            year, number = (int(match["year"]), int(match["number"])) if match else (0, 0)
            monday = date.fromisocalendar(year, number, 1)
        except ValueError as error:
            message = f"{name!r} is no week; write the ISO year and week, as in 2026-W46."
            raise ForensicsError(message) from error
        return cls((monday - _FIRST_MONDAY).days // 7)

    @property
    def monday(self) -> date:
        """The first day."""
        return _FIRST_MONDAY + timedelta(weeks=self.number)

    @property
    def begin(self) -> int:
        """The first moment."""
        return _FIRST_BEGIN + self.number * _WEEK

    @property
    def end(self) -> int:
        """The first moment after the week."""
        return self.begin + _WEEK

    @property
    def window_ms(self) -> Interval:
        """The begin and end in milliseconds."""
        return self.begin // MILLISECOND, self.end // MILLISECOND

    @property
    def padded_range(self) -> Interval:
        """From when to when logs are read: a day more on both sides."""
        return self.begin - DAY, self.end + DAY

    def shift(self, weeks: int) -> Week:
        """Return the week so many weeks later, or earlier."""
        return Week(self.number + weeks)

    def __str__(self) -> str:
        year, number, _ = self.monday.isocalendar()
        return f"{year}-W{number:02d}"


def week_of(micros: int) -> Week:
    """Return the week of a moment.

    >>> str(week_of(1_798_761_599_000_000))  # 2026-12-31T23:59:59
    '2026-W53'
    """
    return Week((micros - _FIRST_BEGIN) // _WEEK)


# Any other date is wrong, and belongs to no week.
EARLIEST, LATEST = Week.parse("1990-W01"), Week.parse("2200-W01")
