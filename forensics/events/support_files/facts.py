"""What readers of documents take and give: lines, and facts with the line that states each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from forensics.lib.lined_documents import Node, read_documents
from forensics.lib.time_units import MILLISECOND, SECOND

Row = dict[str, Any]
# So much of a document that is read as a whole is looked at.
MAX_WHOLE_BYTES = 8 << 20
# A time without a year is kept in this one, a leap year before Kafka, until the year is known.
YEARLESS = 1972


class Line(NamedTuple):
    """One line: its number, where it begins, and its text."""

    number: int
    offset: int
    text: str


Reader = Callable[[Iterable[Line]], Iterator[Row]]


def state(line: Line, kind: str, rule: str, ts: int | None = None, **facts: Any) -> Row:
    """Return the fact that a line states."""
    return {
        "kind": kind, "ts": ts, "line": line.number, "offset": line.offset,
        "rule": f"document.{rule}", "text": line.text, **facts,
    }  # fmt: skip


def read_tree(lines: Iterable[Line]) -> tuple[list[Line], list[Node]]:
    """Read YAML or JSON; return its lines, by number less one, and its documents."""
    kept, size = [], 0
    for line in lines:
        if size < MAX_WHOLE_BYTES:
            kept.append(line)
            size += len(line.text) + 1
    data = "\n".join(line.text for line in kept).encode("utf-8", "replace")
    return kept, list(read_documents(data))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\d*"
    r" ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        start=1,
    )
}
_WORDS = re.compile(
    r"(?:(?P<day1>\d{1,2}) (?P<month1>[A-Z][a-z]{2})|(?P<month2>[A-Z][a-z]{2}) +(?P<day2>\d{1,2}))"
    r"(?: (?P<year1>\d{4}))?,? (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?"
    r"(?: (?P<zone>Z|UTC|GMT|[+-]\d{4}))?(?: [A-Z]{3,4})?(?: (?P<year2>\d{4}))?"
)


def read_moment(text: str) -> int | None:
    """Read a time as tools write it, in microseconds since 1970 in UTC; None if there is none.

    A time without a zone is taken as it is; one without a year gets `YEARLESS`.

    >>> read_moment("2026-11-18T11:38:25.25Z") == read_moment("2026-11-18T12:38:25.25+01:00")
    True
    >>> read_moment("Wed, 18 Nov 2026 11:38:25 +0000") == read_moment("Wed Nov 18 11:38:25 2026")
    True
    >>> read_moment("0001-01-01T00:00:00Z"), read_moment("never")
    (None, None)
    """
    if found := _ISO.search(text):
        year, month, day = map(int, found["day"].split("-"))
        return _moment(year, month, day, found["time"], found["part"], found["zone"])
    if (found := _WORDS.search(text)) and (found["month1"] or found["month2"]) in _MONTHS:
        month = _MONTHS[found["month1"] or found["month2"]]
        year = int(found["year1"] or found["year2"] or YEARLESS)
        day = int(found["day1"] or found["day2"])
        return _moment(year, month, day, found["time"], found["part"], found["zone"])
    return None


def read_zoned_moment(text: str) -> int | None:
    """Read a time that says how far it is from UTC; None for any other.

    >>> read_zoned_moment("Wed Nov 18 11:40:00 CET 2026"), read_zoned_moment("2026-11-18 11:40:00")
    (None, None)
    """
    found = _ISO.search(text) or _WORDS.search(text)
    return read_moment(text) if found and found["zone"] else None


def _moment(  # noqa: PLR0913, PLR0917
    year: int, month: int, day: int, clock: str, part: str | None, zone: str | None
) -> int | None:
    hour, minute, second = map(int, clock.split(":"))
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    if year < _EPOCH.year:
        return None
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    micros += int((part or "0").ljust(6, "0")[:6])
    if zone and zone[0] in "+-":
        away = (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * SECOND
        micros -= away if zone[0] == "+" else -away
    return micros


def from_millis(text: str | None) -> int | None:
    """Read milliseconds since 1970; None for what is no time."""
    digits = text or ""
    return int(digits) * MILLISECOND if digits.isdecimal() and 9 < len(digits) < 15 else None


def whole_number(text: str | None, bits: int = 31) -> int | None:
    """Read a number that fits its column; None for all else.

    >>> whole_number("137"), whole_number("-1"), whole_number("4294967296"), whole_number("x")
    (137, -1, None, None)
    """
    plain = (text or "").strip()
    if not re.fullmatch(r"-?\d{1,18}", plain):
        return None
    number = int(plain)
    return number if -(1 << bits) <= number < 1 << bits else None
