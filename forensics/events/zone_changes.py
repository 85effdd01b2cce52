"""Finds where logs without an offset change to or from summer time, and joins their times.

Where clocks go back an hour, a log shows that hour twice; where they go forward, one hour is
missing, as if nobody had lived then. A file's own lines show where: times that fall back, or a gap.
That it is the zone and not something else must be proved: by the zones of the world, which change
at that very minute; by lines that tell the time of day and the time since 1970, before and behind;
or, where times fall back, by several writers whose times do so at once. What is not proved is left.

An hour without a line may be an outage, too. Clocks went forward only where life went on: logs with
an offset of their own have no such hole, or what is left of the hole without the hour is a silence
as usual, no process starts behind it, and no server logs in it. Else it is said that nobody can
tell, and times are left as they are.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from forensics.events.writers import find_servers, is_folder
from forensics.lib.time_units import MINUTE, SECOND, TIMESTAMP, to_datetime
from forensics.parsing.time_statistics import MIN_SILENCE, Gap

if TYPE_CHECKING:
    from forensics.events.file_accounts import FileAccount

Numbers = npt.NDArray[np.int64]

# By so much zones change, and no longer may a log be silent around the change.
_SIZES = (60 * MINUTE, 30 * MINUTE)
_SLACK = 5 * MINUTE
# A silence is usual that is no longer than what so many records of its writer take, or than so many
# others; it is at most as long as few outages would leave by chance.
_USUAL, _OFTEN, _LONGEST_USUAL = 5, 3, MINUTE
# A log whose time falls back more often is out of order, or many in one.
_MAX_FALLS = 16
# Lines of concurrent threads may be out of order by so much.
_JITTER = SECOND
# A start tells the zone to within so much.
_CLOCK_REST = MINUTE


@dataclass(frozen=True)
class ZoneChange:
    """Times before `begin`, by the old offset, and from `end` on, by the new one, which is `by` on.

    `by` is negative where clocks went back.
    """

    begin: int
    end: int
    by: int
    is_proved: bool = True

    def __str__(self) -> str:
        """Say what changes."""
        if not self.is_proved:
            return (
                f"cannot tell whether clocks went forward by {self.by // MINUTE} min at"
                f" {_clock(self.begin)} or nothing was logged until {_clock(self.end)}; times are"
                " left as they are"
            )
        way = "back" if self.by < 0 else "forward"
        return (
            f"clocks went {way} by {abs(self.by) // MINUTE} min at {_clock(self.begin)}; times"
            " after that are told as if they had not"
        )

    @property
    def window(self) -> tuple[int, int]:
        """Return from when to when a time may be by either offset, or by none."""
        return min(self.begin, self.end), max(self.begin, self.end)


@dataclass(frozen=True)
class Shift:
    """What is added to the times of a file from a line on; `unknown` are times that are doubtful.

    Without a line the time decides: what is later than `unknown` is shifted.
    """

    by: int
    line: int | None = None
    unknown: tuple[int, int] = (0, 0)

    def apply(self, times: Numbers, lines: Numbers) -> Numbers:
        """Return the times by the old offset."""
        behind = times >= self.unknown[1] if self.line is None else lines >= self.line
        return np.where(behind, times + self.by, times)

    def is_doubtful(self, times: Numbers) -> npt.NDArray[np.bool_]:
        """Mark the times that nothing places."""
        inside = (times >= self.unknown[0]) & (times < self.unknown[1])
        return inside if self.line is None else np.zeros(len(times), np.bool_)


class _Logs:
    """The logs without offsets, and who wrote each: servers, else clients, by what they name."""

    def __init__(self, files: Iterable[FileAccount]) -> None:
        known = list(files)
        self.every = [one for one in known if _may_change(one)]
        self.zoned: dict[str, list[FileAccount]] = defaultdict(list)
        for one in known:
            if one.logs_offsets and one.span is not None:
                self.zoned[_folder(one)].append(one)
        self._by_folder: dict[str, set[str]] = defaultdict(set)
        for log in self.every:
            self._by_folder[_folder(log)] |= _named(log)

        self._by_writer: dict[str, list[FileAccount]] = defaultdict(list)
        for log in self.every:
            for name in self.writers(log):
                self._by_writer[name].append(log)

    def of_same(self, log: FileAccount) -> list[FileAccount]:
        """Return the logs that have a writer in common with a log."""
        found = {one.file: one for name in self.writers(log) for one in self._by_writer[name]}
        return list(found.values())

    def writers(self, log: FileAccount) -> frozenset[str]:
        """Return who wrote a log: those that it names, else those that its neighbours name."""
        named = _named(log) or self._by_folder[_folder(log)]
        return frozenset(named or {f"{_folder(log)}/"})


def settle_zone_changes(files: Iterable[FileAccount]) -> list[ZoneChange]:
    """Find the changes of zone, and bring the times of all files that they are in to one offset."""
    logs = _Logs(files)
    changes = _join_changes(_prove(logs))
    # The last one first: what is behind a change is shifted, and its own times are looked for.
    for change in reversed(changes):
        if not change.is_proved:
            for log, _ in _find_own(logs.every, change):
                log.notes = [*log.notes, str(change)]
            continue
        changed = {name for log, _ in _find_own(logs.every, change) for name in logs.writers(log)}
        for log in logs.every:
            if logs.writers(log) <= changed:
                _settle_file(log, change)
    return changes


def _may_change(one: FileAccount) -> bool:
    # Times with an offset of their own need no other.
    return not (one.is_document or one.is_yearless or one.zoned or one.span is None)


def _folder(log: FileAccount) -> str:
    return log.file[: max(log.file.rfind("/"), log.file.rfind("!"), 0)]


def _named(log: FileAccount) -> set[str]:
    servers = find_servers(log.writers)
    return servers or {name.partition(":")[2] for name in log.writers if not is_folder(name)}


def _prove(logs: _Logs) -> Iterator[ZoneChange]:
    """Yield what looks like a change of zone, and whether it is proved to be one."""
    seen = [(log, change) for log in logs.every for change in _candidates(log)]
    together: dict[tuple[int, int], set[frozenset[str]]] = defaultdict(set)
    for log, change in seen:
        for near in (-1, 0, 1):
            together[change.by, change.begin // _SLACK + near].add(logs.writers(log))
    for log, change in seen:
        own = logs.of_same(log)
        clocks = _ask_clocks(own, change)
        several = change.by < 0 and len(together[change.by, change.begin // _SLACK]) > 1
        if clocks is False or not (clocks or several or _is_known(change)):
            continue
        if change.by < 0:
            yield change
        elif all(_has_gap(one, change) for one in own):
            yield replace(change, is_proved=clocks or _lived_on(logs, own, change))


def _lived_on(logs: _Logs, own: Sequence[FileAccount], change: ZoneChange) -> bool:
    """Return True if no hour went by while a writer was silent for that of a change."""
    starts = (logged for one in own for _, logged, _ in one.clocks)
    if any(change.end <= logged <= change.end + _SLACK for logged in starts):
        return False
    if not all(_has_gap(one, change) for one in logs.every if find_servers(one.writers)):
        return False
    zoned = [one for name in {_folder(one) for one in own} for one in logs.zoned[name]]
    if any(_goes_on(one, change) for one in zoned):
        return True
    holes = [(one, gap) for one, gap in _find_own(own, change) if one.duplicate_of is None]
    if not holes:
        return False
    begin, end = max(gap[0] for _, gap in holes), min(gap[1] for _, gap in holes)
    pace = sum(
        max(1, one.counts["records"]) / max(SECOND, one.span[1] - one.span[0] - (gap[1] - gap[0]))
        for one, gap in holes
        if one.span is not None
    )
    busiest, hole = max(holes, key=lambda one: (one[0].counts["records"], one[0].file))
    lengths = sorted((gap[1] - gap[0] for gap in busiest.gaps if gap != hole), reverse=True)
    often = lengths[_OFTEN - 1] if len(lengths) >= _OFTEN else 0
    usual = min(max(MIN_SILENCE, _USUAL / pace, often), _LONGEST_USUAL)
    return end - begin - change.by <= usual


def _goes_on(zoned: FileAccount, change: ZoneChange) -> bool:
    """Return True if a log with its own offset has lines in the hour, by whichever zone it is."""
    first, last = zoned.span or (0, 0)
    for offset in _offsets_before(change):
        begin = change.begin - offset
        end = begin + change.by
        silent = any(gap[0] <= begin + _SLACK and gap[1] >= end for gap in zoned.gaps)
        if silent or first > begin or last < end:
            return False
    return True


def _has_gap(log: FileAccount, change: ZoneChange) -> bool:
    """Return True if a log has no line in the hour that is missing."""
    first, last = log.span or (0, 0)
    if first >= change.end or last <= change.begin:
        return True
    return any(
        begin <= change.begin + _SLACK and end >= change.end - _SLACK for begin, end, _ in log.gaps
    )


def _candidates(log: FileAccount) -> Iterator[ZoneChange]:
    """Yield where the time of a file changes by what a zone may change."""
    stretches = [find_servers(stretch) for stretch in log.stretches]
    for number, cut in enumerate(log.cuts if len(log.cuts) <= _MAX_FALLS else ()):
        pair = stretches[number : number + 2]
        # One log was put behind another: other servers write, or epochs fall with the time.
        apart = len(pair) > 1 and pair[0] and pair[1] and not pair[0] & pair[1]
        for size in _SIZES if not apart and not log.fallen else ():
            if -_JITTER <= size - (cut[1] - cut[2]) <= _SLACK:
                yield ZoneChange(cut[1], cut[2], -size)
    for begin, end, _ in log.gaps:
        for size in _SIZES:
            if -_JITTER <= end - begin - size <= _SLACK:
                yield ZoneChange(begin, end, size)


def _ask_clocks(logs: Iterable[FileAccount], change: ZoneChange) -> bool | None:
    """Ask the starts that tell both times of day: True, False, or None if they do not tell."""
    before, behind = Counter[int](), Counter[int]()
    for log in logs:
        cut = next((one[0] for one in log.cuts if _same(one, change)), None)
        for line, logged, epoch_ms in log.clocks:
            offset = round((logged - epoch_ms * 1000) / (15 * MINUTE)) * 15 * MINUTE
            if abs(logged - epoch_ms * 1000 - offset) > _CLOCK_REST:
                continue
            if cut is not None:
                (before if line < cut else behind)[offset] += 1
            elif logged <= change.window[0]:
                before[offset] += 1
            elif logged >= change.window[1]:
                behind[offset] += 1
    if len(before) != 1 or len(behind) != 1:
        return None
    return next(iter(behind)) - next(iter(before)) == change.by


def _same(cut: Sequence[int], change: ZoneChange) -> bool:
    return (cut[1], cut[2]) == (change.begin, change.end)


def _is_known(change: ZoneChange) -> bool:
    """Return True if some zone of the world changes its offset by so much just then."""
    return bool(_offsets_before(change))


def _offsets_before(change: ZoneChange) -> set[int]:
    """Return how far the zones that make a change are ahead of UTC before it."""
    begin = to_datetime(change.begin).replace(tzinfo=None)
    end = to_datetime(change.end).replace(tzinfo=None)
    by = timedelta(microseconds=change.by)
    found = set()
    for zone in _changing_zones(begin.date()):
        before, behind = begin.replace(tzinfo=zone), end.replace(tzinfo=zone, fold=1)
        ahead = before.utcoffset() or timedelta()
        changed = (behind.utcoffset() or timedelta()) - ahead
        if changed == by and all(_exists(one) for one in (before, behind)):
            found.add(ahead // timedelta(microseconds=1))
    return found


def _exists(moment: datetime) -> bool:
    """Return True if clocks of a zone ever show a moment: those that go forward leave out some."""
    there = moment.astimezone(UTC).astimezone(moment.tzinfo)
    return there.replace(tzinfo=None, fold=0) == moment.replace(tzinfo=None, fold=0)


@functools.cache
def _zones() -> tuple[zoneinfo.ZoneInfo, ...]:
    return tuple(
        zoneinfo.ZoneInfo(name)
        for name in sorted(zoneinfo.available_timezones())
        if not name.startswith("Etc/")
    )


@functools.cache
def _changing_zones(day: date) -> tuple[zoneinfo.ZoneInfo, ...]:
    """Return the zones that change about a day: on most days there is none."""
    noon = datetime.combine(day, time(12))
    edges = [noon - timedelta(days=2), noon + timedelta(days=2)]
    return tuple(
        zone
        for zone in _zones()
        if len({edge.replace(tzinfo=zone).utcoffset() for edge in edges}) > 1
    )


def _join_changes(changes: Iterable[ZoneChange]) -> list[ZoneChange]:
    """Join what several files show of one change: each shows it between other lines."""
    joined: list[ZoneChange] = []
    for one in sorted(changes, key=lambda change: (change.by, change.begin, change.end)):
        last = joined[-1] if joined else None
        if last and last.by == one.by and abs(last.begin - one.begin) <= _SLACK:
            begin, end = max(last.begin, one.begin), min(last.end, one.end)
            joined[-1] = ZoneChange(begin, end, one.by, last.is_proved or one.is_proved)
        else:
            joined.append(one)
    return sorted(joined, key=lambda change: (change.begin, change.end))


def _find_own(logs: Iterable[FileAccount], change: ZoneChange) -> Iterator[tuple[FileAccount, Gap]]:
    """Yield the files that show a change themselves, and between which times and at which line."""
    for log in logs:
        for line, begin, end, *_ in log.cuts if change.by < 0 else ():
            if _is_near(change, begin, end):
                yield log, (begin, end, line)
        for gap in log.gaps if change.by > 0 else ():
            if _is_near(change, gap[0], gap[1]):
                yield log, gap


def _is_near(change: ZoneChange, begin: int, end: int) -> bool:
    elapsed = end - begin - change.by
    return -_JITTER <= elapsed <= _SLACK and abs(begin - change.begin) <= _SLACK


def _settle_file(log: FileAccount, change: ZoneChange) -> None:
    """Bring the times of a file to the offset that it had before a change."""
    own = next((gap for _, gap in _find_own([log], change)), None)
    first, last = log.span or (0, 0)
    low, high = change.window
    if own is not None:
        shift = Shift(-change.by, own[2])
    elif last < low:
        return
    else:
        # Nothing of it falls into the window, or nothing tells on which side of the change it is.
        shift = Shift(-change.by, None, (low, high) if change.by < 0 else (high, high))
    log.shifts = [*log.shifts, shift]
    for one in (log, *log.origins.values()):
        shift_account(one, shift, own)
    if shift.line is None and change.by < 0 and first < high and last >= low:
        says = (
            f"its times from {_clock(low)} to {_clock(high)} may be by either of two offsets from"
            " UTC; events then are told without a time"
        )
        log.notes = [*log.notes, says]


def _clock(micros: int) -> str:
    return to_datetime(micros).strftime("%Y-%m-%d %H:%M:%S")


def shift_account(one: FileAccount, shift: Shift, own: Gap | None) -> None:
    """Shift what an account holds of times; `own` is the gap or the fall where a shift begins."""

    def move(time: int, line: int) -> int:
        return int(shift.apply(np.array([time]), np.array([line]))[0])

    end_line = one.begins + one.counts["lines"] if one.origin else one.counts["lines"]
    one.first = None if one.first is None else move(one.first, one.begins)
    one.last = None if one.last is None else move(one.last, max(end_line, one.begins))
    gaps = []
    for begin, end, line in one.gaps:
        moved = (move(begin, line - 1), move(end, line), line)
        if moved[1] - moved[0] >= MIN_SILENCE:
            gaps.append(moved)
    if own is not None and shift.by > 0:
        begin, end = own[0], own[1] + shift.by
        if end - begin >= MIN_SILENCE:
            gaps.append((begin, end, own[2]))
    one.gaps = sorted(gaps, key=lambda gap: gap[2])
    steps = [(move(a, line - 1), move(b, line), line) for a, b, line in one.steps]
    kept = [step for step in steps if step[0] > step[1]]
    one.stepped -= len(steps) - len(kept)
    one.steps = kept
    _shift_cuts(one, shift)


def _shift_cuts(one: FileAccount, shift: Shift) -> None:
    """Shift the cuts of a file; where time goes on after all, its stretches are one."""
    cuts, stretches = [], one.stretches[:1]
    for cut, stretch in zip(one.cuts, one.stretches[1:], strict=False):
        line, *edges = cut[:3]
        before, behind = shift.apply(np.array(edges), np.array([line - 1, line])).tolist()
        if before > behind:
            cuts.append((line, before, behind, *cut[3:]))
            stretches.append(stretch)
        else:
            stretches[-1] = stretches[-1] + stretch
    one.cuts, one.stretches = cuts, stretches


def shift_events(
    times: pa.Array, codes: pa.Array, lines: pa.Array, shifts: Mapping[int, Sequence[Shift]]
) -> pa.Array:
    """Shift the times of events; `codes` tell by which of the shifts, if by any."""
    numbers = codes.to_numpy()
    chosen = np.isin(numbers, list(shifts))
    if not chosen.any():
        return times
    micros = times.cast(pa.int64()).fill_null(0).to_numpy().copy()
    missing = times.is_null().to_numpy(zero_copy_only=False).copy()
    places = lines.to_numpy()
    for code in np.unique(numbers[chosen]).tolist():
        rows = np.flatnonzero(numbers == code)
        for shift in shifts[code]:
            missing[rows] |= shift.is_doubtful(micros[rows])
            micros[rows] = shift.apply(micros[rows], places[rows])
    return pa.array(micros, mask=missing).cast(TIMESTAMP)
