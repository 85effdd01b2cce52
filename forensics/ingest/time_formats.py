"""The ways in which times are written in logs, and how many of them are read at once.

A form is a pattern with named parts. All forms are read into one: date, time of day with
microseconds, and whether the offset from UTC was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

_ABBREVIATIONS = {
    "Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 60, "CET": 60, "CEST": 120, "EET": 120,
    "EEST": 180, "MSK": 180, "JST": 540, "AEST": 600, "AEDT": 660, "EST": -300, "EDT": -240,
    "CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
}  # fmt: skip
_NAMED_ZONES = "|".join(sorted(_ABBREVIATIONS, key=lambda name: (-len(name), name)))
_REGION = r"(?:\[[A-Z][A-Za-z_]+(?:/[A-Za-z_]+)+\])?"
# An offset from UTC where one must stand, and the name of a month.
ZONE = rf"(?:{_NAMED_ZONES}|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)"
_ZONE = (
    rf"(?P<zone> ?(?:(?:{_NAMED_ZONES})\b|[+-][0-9]{{2}}:?[0-9]{{2}}\b)|[+-][0-9]{{2}}\b)?{_REGION}"
)
_AFTER_SECONDS = rf"(?:[.,:](?P<f>[0-9]{{1,9}}))?(?: ?(?P<ap>[AaPp])\.?[Mm]\b\.?)?{_ZONE}"
_CLOCK = rf"(?P<h>[0-9]{{1,2}})[:.](?P<mi>[0-9]{{2}})[:.](?P<s>[0-9]{{2}}){_AFTER_SECONDS}"
_MONTHS = (
    ("jan",), ("feb",), ("mar", "mrz", "mär"), ("apr",), ("may", "mai"), ("jun",), ("jul",),
    ("aug",), ("sep",), ("oct", "okt"), ("nov",), ("dec", "dez"),
)  # fmt: skip
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_NAMES = "|".join(_MONTH_OF)
MONTH = rf"(?i:{_NAMES})[a-z]{{0,6}}"
_MONTH = rf"(?P<mon>{MONTH})\.?"
_WEEKDAY = r"(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? )?"
_GAP = r"(?:T|[ _]+|, ?| ?- ?|:| ?[|;] ?|\t)"
_NAMED_GROUP = re.compile(r"\(\?P<\w+>")
_PIVOT = 70
_WIDTH = 26
_EMPTY_TIME = b"0000-00-00 00:00:00,000000"


@dataclass(frozen=True)
class TimeForm:
    """One way to write a time; `order` says which of the parts `a b c` is year, month and day."""

    id: str
    pattern: str
    order: str = ""
    # The day that its file tells, for times that have no date or no year.
    day: tuple[int, int, int] | None = None
    # Minutes east of Greenwich, where a pattern says them and not the line.
    offset: int | None = None

    @property
    def unnamed(self) -> str:
        """The pattern without names, for times that nobody reads."""
        return _NAMED_GROUP.sub("(?:", self.pattern)

    @property
    def has_date(self) -> bool:
        """Whether it writes a date."""
        return self.id != "clock"

    def on(self, day: tuple[int, int, int] | None) -> TimeForm:
        """Return the form for a file of one day."""
        return self if self.has_year else replace(self, day=day)

    @property
    def has_year(self) -> bool:
        """Whether it writes a year."""
        return any(name in self.pattern for name in ("<y>", "<e>", "<c>"))


_Y4 = r"(?P<y>[12][0-9]{3})"
_D = r"(?P<d>[0-9]{1,2})"
_FORMS = (
    TimeForm("ymd", rf"{_Y4}[-/.](?P<mo>[0-9]{{1,2}})[-/.]{_D}{_GAP}{_CLOCK}"),
    TimeForm(
        "compact",
        r"(?P<y>20[0-9]{2})(?P<mo>[01][0-9])(?P<d>[0-3][0-9])[T _|;,\t-]?(?P<h>[0-2][0-9]):?"
        rf"(?P<mi>[0-5][0-9]):?(?P<s>[0-5][0-9])(?:[.,]?(?P<f>[0-9]{{1,9}}))?{_ZONE}\b",
    ),
    TimeForm(
        "day-month-year", rf"{_WEEKDAY}{_D}[ /.-]{{0,2}}{_MONTH}[ /,-]{{0,2}}{_Y4}{_GAP}{_CLOCK}"
    ),
    TimeForm(
        "day-month-short-year",
        rf"{_WEEKDAY}{_D}[ /.-]{{1,2}}{_MONTH}[ /,-]{{1,2}}(?P<y>[0-9]{{2}}){_GAP}{_CLOCK}",
    ),
    TimeForm(
        "month-day-year",
        rf"{_WEEKDAY}{_MONTH}[ /-]{{1,2}}{_D}(?:st|nd|rd|th)?,?[ /-]{_Y4}"
        rf"(?:,? (?:at|@) )?{_GAP}?{_CLOCK}",
    ),
    TimeForm("year-month-day", rf"{_Y4}[ /.-]{_MONTH}[ /.-]{_D}{_GAP}{_CLOCK}"),
    TimeForm("year-last", rf"{_WEEKDAY}{_MONTH} {{1,2}}{_D} {_CLOCK} {_Y4}\b"),
    TimeForm("month-day", rf"{_WEEKDAY}{_MONTH} {{1,2}}{_D},? {_CLOCK}"),
    TimeForm("day-month", rf"{_WEEKDAY}{_D}[ /-]{_MONTH},? {_CLOCK}"),
    TimeForm(
        "numeric",
        rf"(?P<a>[0-9]{{1,2}})[-/.](?P<b>[0-9]{{1,2}})[-/.](?P<c>[0-9]{{4}}){_GAP}{_CLOCK}",
    ),
    TimeForm(
        "short-year",
        rf"(?P<a>[0-9]{{2}})[-/.](?P<b>[0-9]{{2}})[-/.](?P<c>[0-9]{{2}}){_GAP}{_CLOCK}",
    ),
    TimeForm("no-year", rf"(?P<a>[0-9]{{2}})[-/.]?(?P<b>[0-9]{{2}}) {_CLOCK}"),
    TimeForm("epoch", r"(?P<e>1[0-9]{9})(?:[.,]?(?P<f>[0-9]{1,9}))?\b"),
    TimeForm("clock", _CLOCK),
)
_BY_ID = {form.id: form for form in _FORMS}
# What a time holds, whatever its form: a clock, a date and a clock without separators, seconds.
TIME_HINT = (
    r"[0-9]:[0-9]{2}:[0-9]{2}|[0-9]{2}\.[0-9]{2}\.[0-9]{2}[ .,]|\b1[0-9]{9}"
    r"|\b[TDIWEFVC]?20[0-9]{6}[T _|;,\t-]?[0-9]{2}:?[0-9]{2}"
)
_FINDER = re.compile(
    r"(?<![0-9A-Za-z:])(?:"
    + "|".join(f"(?P<f{at}>{form.unnamed})" for at, form in enumerate(_FORMS))
    + r")(?![0-9A-Za-z])|(?<=\b[TDIWEFVC])"
    + f"(?:(?P<f{len(_FORMS)}>{_BY_ID['no-year'].unnamed})"
    + f"|(?P<f{len(_FORMS) + 1}>{_BY_ID['compact'].unnamed}))"
)
_DAY_IN_NAME = re.compile(
    r"(?<![0-9])(20[0-9]{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12][0-9]|3[01])(?:[0-9]{2})?(?![0-9])"
)
_ORDERS = {"numeric": ("dmy", "mdy"), "short-year": ("ymd", "dmy", "mdy"), "no-year": ("md", "dm")}
_MAX_MONTH, _MAX_DAY = 12, 31
_LONGEST_TIME = 48


@dataclass(frozen=True)
class FoundTime:
    """A time in a line: its form, and where it stands."""

    form: str
    begin: int
    end: int


# The day of files whose names tell none, until something else does: in a leap year, long before
# Kafka.
UNDATED = (1976, 1, 1)


def day_in_name(name: str) -> tuple[int, int, int] | None:
    """Return the day in the name of a rotated log.

    >>> day_in_name("logs.zip!broker-1/server.log.2026-11-18-11")
    (2026, 11, 18)
    """
    found = _DAY_IN_NAME.findall(name.rpartition("!")[2].rpartition("/")[2])
    days = {(int(year), int(month), int(day)) for year, month, day in found}
    return days.pop() if len(days) == 1 else None


def find_times(line: str) -> Iterator[FoundTime]:
    """Find what may be times, from left to right.

    >>> [one.form for one in find_times("[2026-11-18 11:31:58,423] INFO since 11:30:00")]
    ['ymd', 'clock']
    """
    for match in _FINDER.finditer(line):
        number = int((match.lastgroup or "f0")[1:])
        form = (*_FORMS, _BY_ID["no-year"], _BY_ID["compact"])[number]
        yield FoundTime(form.id, match.start(), match.end())


def is_whole_time(text: str) -> bool:
    """Return True if a text is a time with its date and year, and nothing else.

    >>> is_whole_time("18.11.2026 11:38:14,676"), is_whole_time("11:38:14"), is_whole_time("at 1")
    (True, False, False)
    """
    text = text.strip()
    if len(text) > _LONGEST_TIME:
        return False
    found = next(find_times(text), None)
    whole = found is not None and found.begin == 0 and found.end == len(text)
    return whole and _BY_ID[found.form].has_date and _BY_ID[found.form].has_year  # type: ignore[union-attr]


def choose_order(form_id: str, texts: Iterable[str]) -> TimeForm:
    """Return a form with the order of its numbers: the first order in which all dates exist."""
    form = _BY_ID[form_id]
    if form_id not in _ORDERS:
        return form
    compiled = re.compile(form.pattern)
    found = [match for text in texts if (match := compiled.match(text))]
    parts = [tuple(int(value) for value in _ordered(match)) for match in found]
    halves = {match["ap"] for match in found} - {None}
    orders = list(_ORDERS[form_id])
    if form_id == "numeric" and halves:
        # Twelve-hour clocks and the month first go together.
        orders.reverse()
    if form_id == "short-year" and any("." in match[0][:6] for match in found):
        # Dots go with the day first.
        orders = ["dmy", "ymd", "mdy"]
    possible = [
        order
        for order in orders
        if all(_exists(dict(zip(order, one, strict=False))) for one in parts)
    ]
    return TimeForm(form.id, form.pattern, (possible or orders)[0])


def _ordered(match: re.Match[str]) -> list[str]:
    return [match[name] for name in "abc" if name in match.re.groupindex]


def _exists(date: dict[str, int]) -> bool:
    return 1 <= date["m"] <= _MAX_MONTH and 1 <= date["d"] <= _MAX_DAY


def write_times(fields: pa.StructArray, form: TimeForm) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Write times as `yyyy-MM-dd HH:mm:ss,SSSSSS`, and say which had an offset, brought to UTC.

    A part that is missing is that of the form's day, or of the first day of 1970. An impossible
    date becomes zeros, which no layout takes for a time.
    """
    names = {field.name for field in fields.type}
    count = len(fields)

    def number(name: str, default: int) -> Numbers:
        return _numbers(fields.field(name), default) if name in names else np.full(count, default)

    micros = _fraction(fields.field("f")) if "f" in names else np.zeros(count, np.int64)
    if "e" in names:
        total = number("e", 0) * 1_000_000 + micros
        return _render(total, np.ones(count, np.bool_)), np.ones(count, np.bool_)
    known = form.day or (1970, 1, 1)
    year, month, day = (
        number(name, default) for name, default in zip(("y", "mo", "d"), known, strict=True)
    )
    for part, letter in zip("abc", form.order, strict=False):
        value = number(part, 0)
        year, month, day = (
            value if letter == own else old
            for own, old in zip("ymd", (year, month, day), strict=True)
        )
    if "mon" in names:
        month = _months(fields.field("mon"))
    year = np.where(year < _PIVOT, year + 2000, np.where(year < 100, year + 1900, year))
    hour, minute, second = number("h", 0), number("mi", 0), number("s", 0)
    if "ap" in names:
        half = pc.fill_null(pc.utf8_upper(fields.field("ap").cast(pa.string())), "")
        hour = np.where(_equal(half, "P") & (hour < 12), hour + 12, hour)
        hour = np.where(_equal(half, "A") & (hour == 12), 0, hour)
    valid = (month >= 1) & (month <= _MAX_MONTH) & (day >= 1) & (hour < 24) & (minute < 60)
    valid &= (second <= 60) & (year > 0)
    month, year = np.where(valid, month, 1), np.where(valid, year, 1970)
    months = (year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    valid &= day <= following - first
    seconds = ((first + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    zoned = np.zeros(count, np.bool_)
    if "zone" in names:
        offsets, zoned = _offsets(fields.field("zone"))
        seconds = seconds - offsets * 60
    elif form.offset is not None:
        seconds, zoned = seconds - form.offset * 60, np.ones(count, np.bool_)
    return _render(seconds * 1_000_000 + micros, valid), zoned


def _equal(texts: pa.Array, value: str) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pc.equal(texts, value).to_numpy(zero_copy_only=False)
    return flags


def _numbers(texts: pa.Array, default: int) -> Numbers:
    texts = texts.cast(pa.string())
    filled = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), str(default), texts)
    values: Numbers = pc.fill_null(filled, str(default)).cast(pa.int64()).to_numpy()
    return values


def _fraction(texts: pa.Array) -> Numbers:
    padded = pc.binary_join_element_wise(pc.fill_null(texts, b""), b"000000", b"")
    return _numbers(pc.binary_slice(padded, 0, 6), 0)


def _months(texts: pa.Array) -> Numbers:
    codes = texts.dictionary_encode()
    numbers = [
        _MONTH_OF.get((name or b"").decode("utf-8", "replace").lower()[:3], 0)
        for name in codes.dictionary.to_pylist()
    ]
    found: Numbers = np.array(numbers, np.int64)[codes.indices.to_numpy(zero_copy_only=False)]
    return found


def _offsets(texts: pa.Array) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    codes = pc.fill_null(texts, b"").dictionary_encode()
    names = [
        (zone or b"").decode("utf-8", "replace").strip() for zone in codes.dictionary.to_pylist()
    ]
    minutes = np.array([_minutes(name) for name in names], np.int64)
    indices = codes.indices.to_numpy()
    return minutes[indices], np.array([bool(name) for name in names])[indices]


def _minutes(zone: str) -> int:
    if not zone or zone in _ABBREVIATIONS:
        return _ABBREVIATIONS.get(zone, 0)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    size = int(digits[:2]) * 60 + int(digits[2:4])
    return -size if zone.startswith("-") else size


def _render(micros: Numbers, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Write moments as text, by plain arithmetic on digits."""
    days, of_day = np.divmod(micros, 86_400_000_000)
    distinct, back = np.unique(days, return_inverse=True)
    dates = np.datetime_as_string(distinct.astype("datetime64[D]"))
    rows = np.zeros((len(micros), _WIDTH), np.uint8)
    known = [date.encode() if len(date) == 10 else _EMPTY_TIME[:10] for date in dates.tolist()]
    if known:
        rows[:, :10] = np.frombuffer(b"".join(known), np.uint8).reshape(-1, 10)[back]
    rows[:, 10:] = np.frombuffer(_EMPTY_TIME[10:], np.uint8)
    seconds, parts = np.divmod(of_day, 1_000_000)
    for at, width, value in (
        (11, 2, seconds // 3600), (14, 2, seconds // 60 % 60), (17, 2, seconds % 60), (20, 6, parts)
    ):  # fmt: skip
        for place in range(width):
            rows[:, at + place] = 48 + value // 10 ** (width - 1 - place) % 10
    rows[~valid] = np.frombuffer(_EMPTY_TIME, np.uint8)
    bounds = np.arange(0, rows.size + 1, _WIDTH, dtype=np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), len(micros), buffers)


def form_of(form_id: str) -> TimeForm:
    """Return a form by its name."""
    return _BY_ID[form_id]
