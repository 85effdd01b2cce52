"""Places times that have no date, or no year: by what the file and those around it tell.

A line that tells the time since 1970, too, tells the day of its file. Else it is the day on which
the file fits among the others: it does not overlap other parts of its own log, and overlaps the
logs of its folder, or else those of the archive. Where several days fit, or none, its events are
told without a time, and the file says why. Behind midnight it is the next day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.support_files.facts import YEARLESS
from forensics.events.zone_changes import Shift, shift_account
from forensics.ingest.time_formats import UNDATED
from forensics.lib.text_format import count
from forensics.lib.time_units import DAY, HOUR, to_arrow_timestamp, to_datetime

if TYPE_CHECKING:
    from forensics.events.file_accounts import FileAccount

Span = tuple[int, int]
Rows = npt.NDArray[np.int64]

# How a layout is shown whose times have no date.
_DATELESS = re.compile(r"%d\{(?:d{1,2}[:.]d{2}|[Hhk]{1,2}[:.]mm|ABSOLUTE)")
# What distinguishes the parts of one log: numbers and dates behind or before its ending.
_ROTATION = re.compile(r"[-_.]?\d[\d_-]*")
# Between two parts of a log time may stand still for so long, and lines be out of order by so much.
_LONGEST_REST, _JITTER = 6 * HOUR, 2_000_000
_MOST_DAYS = 40 * 366
# Where a year ends, times without one fall back by nearly as much.
_NEW_YEAR, _A_LEAP_YEAR = 300 * DAY, 366 * DAY


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


_BEGIN = _micros(datetime(*UNDATED, tzinfo=UTC))
# Times of day that go on for years have no date either.
_END = _micros(datetime(UNDATED[0] + 3, 1, 1, tzinfo=UTC))
_MARCH = _micros(datetime(UNDATED[0], 3, 1, tzinfo=UTC))
_YEARS = [_micros(datetime(YEARLESS + past, 1, 1, tzinfo=UTC)) for past in (0, 1)]
_ALL_TIMES = (-(1 << 62), 1 << 62)


@dataclass(frozen=True)
class Placed:
    """A file whose times got a day or a year, and by what."""

    file: str
    begins: int
    by: str
    what: str

    def __str__(self) -> str:
        form = "%Y" if self.what == "year" else "%Y-%m-%d"
        day = to_datetime(self.begins).strftime(form)
        return f"{self.file}: its times have no {self.what}; it begins in {day}, by {self.by}"


def place_undated(files: Iterable[FileAccount]) -> list[Placed]:
    """Give times without a date or a year those that other lines tell; return what was placed."""
    known = list(files)
    undated = [log for log in known if is_undated(log)]
    for log in known:
        if log.span is not None and not is_undated(log) and _is_placeholder(log.span[0]):
            _leave_lines_without_time(log)
    if not undated:
        return []
    dated = _Dated([log for log in known if log.span is not None and not is_undated(log)])
    placed = []
    for log in sorted(undated, key=lambda log: log.file):
        what = "date" if _lacks_date(log) else "year"
        found = _find_place(log, what, dated)
        if isinstance(found, str):
            _leave_without_time(log, f"its times have no {what}, and {found}")
            continue
        by, told = found
        _move(log, by, what)
        placed.append(Placed(log.file, log.first or 0, told, what))
    return placed


def leave_undated(files: Iterable[FileAccount]) -> None:
    """Say of files whose times have no date or year that they are told without a time."""
    for log in files:
        if is_undated(log):
            what = "date" if _lacks_date(log) else "year"
            _leave_without_time(log, f"its times have no {what}; put the day into the file's name")


def is_undated(log: FileAccount) -> bool:
    """Return True if the times of a log have no date, or no year."""
    return log.span is not None and all(map(_is_placeholder, log.span))


def _is_placeholder(moment: int) -> bool:
    return _BEGIN <= moment < _END


def tell_placed(placed: Sequence[Placed]) -> Iterator[str]:
    """Say where files were placed: each of a few, and of many the first."""
    if len(placed) > 3:
        yield f"{placed[0]}; so were {count(len(placed) - 1, 'more file')}"
    else:
        yield from map(str, placed)


def settle_midnights(files: Iterable[FileAccount]) -> None:
    """Let the day go on behind midnight, and the year behind its end, where times tell neither.

    Where time also leaps ahead by half a day, lines are out of order, and no day is sure.
    """
    for log in files:
        if is_undated(log) and not _lacks_date(log):
            for cut in log.cuts:
                if cut[1] - cut[2] >= _NEW_YEAR:
                    _shift(log, Shift(_A_LEAP_YEAR, cut[0]), (cut[1], cut[2], cut[0]))
            continue
        if not _lacks_date(log):
            continue
        falls = [cut for cut in log.cuts if cut[1] - cut[2] >= DAY // 2]
        if any(end - begin >= DAY // 2 for begin, end, _ in log.gaps):
            log.notes = [
                *log.notes,
                "its times have no date, and are not in order: days may be off",
            ]
            continue
        for cut in falls:
            _shift(log, Shift(DAY, cut[0]), (cut[1], cut[2], cut[0]))


def _lacks_date(log: FileAccount) -> bool:
    dateless = sum(count for form, count in log.forms.items() if _DATELESS.search(form))
    return bool(dateless) and dateless >= log.layouts.total()


def _shift(log: FileAccount, shift: Shift, own: tuple[int, int, int] | None = None) -> None:
    log.shifts = [*log.shifts, shift]
    for one in (log, *log.origins.values()):
        shift_account(one, shift, own)


class _Dated:
    """The logs that have dates, by their folders and the parts of logs there."""

    def __init__(self, logs: Sequence[FileAccount]) -> None:
        """Note the spans of logs, and which of two is the better witness."""
        self._logs = logs
        self._firsts, self._lasts = (
            np.array([one.span[end] for one in logs if one.span], np.int64) for end in (0, 1)
        )
        by_size = sorted(range(len(logs)), key=lambda at: (_records(logs[at]), logs[at].file))
        self._ranks = np.empty(len(logs), np.int64)
        self._ranks[by_size] = np.arange(len(logs))
        self._folders, self._stems = (
            np.array([of(one.file) for one in logs], object) for of in (_folder, _stem)
        )
        self._of_folder: dict[str, tuple[Rows, Rows]] = {}

    def around(self, file: str) -> tuple[Rows, Rows, Rows]:
        """Return the other parts of a file's log, what lies beside it, and all the rest."""
        folder = _folder(file)
        if folder not in self._of_folder:
            inside = self._folders == folder
            self._of_folder[folder] = np.flatnonzero(inside), np.flatnonzero(~inside)
        inside, others = self._of_folder[folder]
        own = self._stems[inside] == _stem(file)
        return inside[own], inside[~own], others

    def overlapping(self, rows: Rows, span: Span, by: int) -> Rows:
        """Return those of some logs that a span overlaps, if it is moved."""
        begins, ends = self._firsts[rows] + _JITTER, self._lasts[rows] - _JITTER
        return rows[(span[0] + by <= ends) & (span[1] + by >= begins)]

    def best(self, rows: Rows) -> str:
        """Return which of some logs tells the most."""
        return self._logs[int(rows[np.argmax(self._ranks[rows])])].file

    def nearest(self, rows: Rows, span: Span, by: int) -> tuple[int, str]:
        """Return how far the nearest of some logs is from a span that is moved, and its name."""
        away = np.maximum(self._firsts[rows] - span[1] - by, span[0] + by - self._lasts[rows])
        away = np.maximum(away, 0)
        nearest = int(away.min())
        return nearest, min(self._logs[int(row)].file for row in rows[away == nearest])

    def moves(self, rows: Rows, span: Span, what: str) -> Iterator[int]:
        """Yield the moves that may bring a span to where some logs are."""
        if not len(rows):
            return
        firsts, lasts = self._firsts[rows], self._lasts[rows]
        if what == "date":
            # Only days that some log is of are tried.
            days: set[int] = set()
            earliest, latest = (firsts - span[1]) // DAY - 1, (lasts - span[0]) // DAY + 1
            latest = np.minimum(latest, earliest + _MOST_DAYS)
            for first, last in set(zip(earliest.tolist(), latest.tolist(), strict=True)):
                days.update(range(first, last + 1))
            for day in sorted(days):
                yield day * DAY
            return
        begin = to_datetime(span[0])
        years = (to_datetime(int(edge)).year for edge in (firsts.min(), lasts.max()))
        for year in range(next(years) - 1, next(years) + 2):
            moved = _in_year(begin, year)
            if moved is not None:
                yield moved - span[0]


def _find_place(log: FileAccount, what: str, dated: _Dated) -> tuple[int, str] | str:
    """Return how far a file is to be moved, and by what; or why nobody can tell."""
    span = log.span
    assert span is not None
    told = {_nearest_day(epoch * 1000 - logged) for _, logged, epoch in log.clocks}
    if what == "date" and told:
        if len(told) == 1:
            return told.pop(), "its lines that tell the time since 1970"
        return "its lines that tell the time since 1970 name several days"
    own, beside, others = dated.around(log.file)
    for around in (beside, others):
        moves = [
            by
            for by in dated.moves(np.concatenate([own, around]), span, what)
            if len(dated.overlapping(around, span, by))
            and not len(dated.overlapping(own, span, by))
        ]
        if len(moves) == 1:
            return moves[0], dated.best(dated.overlapping(around, span, moves[0]))
        if moves:
            return f"they fit on {count(len(moves), what.replace('date', 'day'))} of the logs there"
    near = [
        by
        for by in dated.moves(own, span, what)
        if dated.nearest(own, span, by)[0] <= _LONGEST_REST
        and not len(dated.overlapping(own, span, by))
    ]
    if len(near) == 1:
        nearest = dated.nearest(own, span, near[0])[1]
        return near[0], f"{nearest}, which is a part of the same log"
    name = _name(log.file)
    return (
        "nothing there tells it; put the day into the file's name, such as"
        f" {name}.2026-11-18"
    )  # fmt: skip


def _records(log: FileAccount) -> int:
    return log.counts["records"]


def _in_year(moment: datetime, year: int) -> int | None:
    try:
        return _micros(moment.replace(year=year))
    except ValueError:
        return None


def _move(log: FileAccount, by: int, what: str) -> None:
    _shift(log, Shift(by, 0))
    log.clocks = [(line, logged + by, epoch) for line, logged, epoch in log.clocks]
    first, last = log.span or (0, 0)
    march = _MARCH + by
    if what == "year" and first < march <= last and to_datetime(march).day == 2:
        # The year is no leap year, as the one was by which its times were read.
        _shift(log, Shift(-DAY, None, (march, march)))


def _leave_without_time(log: FileAccount, why: str) -> None:
    log.shifts = [*log.shifts, Shift(0, None, _ALL_TIMES)]
    log.notes = [*log.notes, f"{why}; its events are told without a time"]
    for one in (log, *log.origins.values()):
        one.first = one.last = None
        one.gaps, one.steps, one.open_steps, one.cuts = [], [], [], []
        one.stepped = 0
        one.stretches = [sum(one.stretches, Counter())]
    log.clocks = []


def _leave_lines_without_time(log: FileAccount) -> None:
    """Leave what some lines say of times, where others have a date."""
    log.shifts = [*log.shifts, Shift(0, None, (_BEGIN, _END))]
    log.notes = [*log.notes, "some of its times have no date; these events are told without a time"]
    for one in (log, *log.origins.values()):
        ends = [end for end in (one.first, one.last) if end is not None]
        ends = [end for end in ends if not _is_placeholder(end)]
        one.first, one.last = min(ends, default=None), max(ends, default=None)
        one.gaps = [gap for gap in one.gaps if not any(map(_is_placeholder, gap[:2]))]
        steps = [step for step in one.steps if not any(map(_is_placeholder, step[:2]))]
        one.stepped -= len(one.steps) - len(steps)
        one.steps = steps
        if any(map(_is_placeholder, (edge for cut in one.cuts for edge in cut[1:3]))):
            one.cuts, one.stretches = [], [sum(one.stretches, Counter())]


def _nearest_day(micros: int) -> int:
    return (micros + DAY // 2) // DAY * DAY


def _folder(name: str) -> str:
    return name[: max(name.rfind("/"), name.rfind("!"), 0)]


def _name(file: str) -> str:
    return file[max(file.rfind("/"), file.rfind("!")) + 1 :]


def _stem(file: str) -> str:
    return _ROTATION.sub("", _name(file))


# Facts of documents, whose times stand apart from each other.


def find_window(moments: Iterable[int | None]) -> Span | None:
    """Return from when to when logs reach, if any has a time."""
    known = [moment for moment in moments if moment is not None]
    return (min(known), max(known)) if known else None


def settle_years(times: pa.Array, window: Span | None) -> pa.Array:
    """Move times without a year to the year that lies nearest; null where nothing tells."""
    begin, end = map(to_arrow_timestamp, _YEARS)
    lacks = pc.and_(pc.greater_equal(times, begin), pc.less(times, end))
    if not pc.any(lacks).as_py():
        return times
    micros = times.cast(pa.int64()).to_pylist()
    settled = [
        _settle(moment, window) if lacking else moment
        for moment, lacking in zip(micros, lacks.to_pylist(), strict=True)
    ]
    return pa.array(settled, pa.int64()).cast(times.type)


def _settle(moment: int, window: Span | None) -> int | None:
    if window is None:
        return None
    written = to_datetime(moment)
    years = {to_datetime(edge).year + away for edge in window for away in (-1, 0, 1)}
    moved = [_in_year(written, year) for year in sorted(years)]
    found = [
        (max(window[0] - micros, micros - window[1], 0), micros)
        for micros in moved
        if micros is not None
    ]
    return min(found)[1] if found else None
