"""Timestamps at fixed places of a line, read from many lines at once by plain arithmetic."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forensics.ingest.record_starts import Bytes, Offsets
from forensics.lib.time_units import DAY, MINUTE, SECOND

NO_TIME = np.iinfo(np.int64).min
ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"

_TOKEN = re.compile(r"epoch|y+|M+|d+|H+|m+|s+|S+|Z|'(?P<text>[^']*)'|(?P<other>[^A-Za-z'])")
_ZULU, _MINUS, _COLON, _ZERO = ord("Z"), ord("-"), ord(":"), ord("0")
_HOURS, _MINUTES, _SECONDS = 23, 59, 60
# By the number of the month; the last one stands for all numbers that are no month.
_MONTH_LENGTHS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0])
# A clock that was never set begins in 1970, west of Greenwich the day before; no log is of 2200.
_EARLIEST, _LATEST = -DAY, 84_006 * DAY


class TimeFormatError(ValueError):
    """A time format that has an unknown letter."""


@dataclass(frozen=True)
class TimeFormat:
    """A format such as `yyyy-MM-dd HH:mm:ss,SSS`: every digit has its place.

    >>> TimeFormat.parse("HH:mm").shape
    'dd:dd'
    """

    shape: str
    parts: tuple[tuple[str, int, int], ...]
    zoned: bool

    @classmethod
    def parse(cls, text: str) -> TimeFormat:
        """Parse a format in Java's letters; `epoch` stands for ten digits of seconds."""
        shape, parts, at, zoned = "", [], 0, False
        while at < len(text):
            token = _TOKEN.match(text, at)
            if not token or zoned:
                message = f"cannot read {text[at:]!r} in the time {text!r}; use y M d H m s S Z"
                raise TimeFormatError(message)
            at = token.end()
            if token[0] == "Z":
                zoned = True
            elif token["text"] is not None or token["other"]:
                shape += token["text"] or token["other"]
            else:
                width = 10 if token[0] == "epoch" else len(token[0])
                parts.append((token[0][0], len(shape), width))
                shape += "d" * width
        return cls(shape, tuple(parts), zoned)

    @property
    def pattern(self) -> str:
        """The format as a regular expression."""
        fixed = "".join("[0-9]" if char == "d" else re.escape(char) for char in self.shape)
        return fixed + (ZONE if self.zoned else "")

    def read(self, data: Bytes, offsets: Offsets) -> npt.NDArray[np.int64]:
        """Read the times at some offsets, in microseconds of UTC; `NO_TIME` for nonsense."""
        value = {
            letter: self._digits(data, offsets + at, width) for letter, at, width in self.parts
        }
        micros = self._micros(value, len(offsets))
        if "e" in value:
            return _within_reach(value["e"] * SECOND + micros)
        zero = np.zeros(len(offsets), np.int64)
        year, month, day = (value.get(letter, zero + 1970 * (letter == "y")) for letter in "yMd")
        hour, minute, second = (value.get(letter, zero) for letter in "Hms")
        days = _days(year, month, day)
        times = ((days * 24 + hour) * 60 + minute) * 60 + second
        times = times * SECOND + micros
        if self.zoned:
            times -= _zone(data, offsets + len(self.shape)) * MINUTE
        valid = (day >= 1) & (day <= _MONTH_LENGTHS.take(month, mode="clip"))
        valid &= (hour <= _HOURS) & (minute <= _MINUTES) & (second <= _SECONDS)
        leap = np.flatnonzero((day == 29) & (month == 2))
        if len(leap):
            # A day that the year does not have is the first of March.
            valid[leap] &= _days(year[leap], month[leap], day[leap]) < _days(
                year[leap], month[leap] + 1, day[leap] - 28
            )
        return np.where(valid, _within_reach(times), NO_TIME)

    @staticmethod
    def _digits(data: Bytes, offsets: Offsets, width: int) -> npt.NDArray[np.int64]:
        total = np.zeros(len(offsets), np.int64)
        for at in range(width):
            total = total * 10 + (data[offsets + at] & 0x0F)
        return total

    def _micros(self, value: dict[str, npt.NDArray[np.int64]], count: int) -> npt.NDArray[np.int64]:
        width = next((width for letter, _, width in self.parts if letter == "S"), 0)
        fraction: npt.NDArray[np.int64] = value.get("S", np.zeros(count, np.int64))
        scale = 10 ** abs(6 - width)
        micros: npt.NDArray[np.int64] = fraction * scale if width <= 6 else fraction // scale
        return micros


def _within_reach(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the times that a log can have; of all others nothing is known."""
    return np.where((times >= _EARLIEST) & (times < _LATEST), times, NO_TIME)


def _days(
    year: npt.NDArray[np.int64], month: npt.NDArray[np.int64], day: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Count days since 1970-01-01; the year starts in March here, so that leap days come last."""
    year = year - (month <= 2)
    era, of_era = year // 400, year % 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def _zone(data: Bytes, offsets: Offsets) -> npt.NDArray[np.int64]:
    """Read `Z`, `+hhmm` or `+hh:mm` as minutes east of Greenwich."""

    def digit(offsets: Offsets) -> npt.NDArray[np.int64]:
        return data[offsets].astype(np.int64) - _ZERO

    after = offsets + 3 + (data[offsets + 3] == _COLON)
    minutes = digit(offsets + 1) * 600 + digit(offsets + 2) * 60
    minutes += digit(after) * 10 + digit(after + 1)
    minutes *= np.where(data[offsets] == _MINUS, -1, 1)
    return np.where(data[offsets] == _ZULU, 0, minutes)
