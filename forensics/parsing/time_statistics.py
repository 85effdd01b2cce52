"""The pulse of a log: its longest silences, where its time goes backwards, and its levels.

Every record counts, also those that no rule reads, so it must cost next to nothing: a record whose
time reads `HH:mm:ss` like the one before is settled by one look at eight bytes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Bytes, Offsets, read_words
from forensics.parsing.entries import read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.timestamps import NO_TIME, TimeFormat

# Shorter silences are not told of, and no more than the longest few of a file.
MIN_SILENCE = 10_000_000
_KEPT = 32
# Shorter steps back are none: threads that write at once may come out of order.
MIN_BACKWARD_JUMP = 2_000_000
_STEPS_KEPT = 8
# A thread that hung may still write what it had to say, and others with it; so many records later
# time goes on where it was. What is still behind then went backwards.
CONFIRM_AFTER = 8
# Begin and end in microseconds as logged, and the line that ends it, counted from its split.
Gap = tuple[int, int, int]

# What each of the eight digits of `HH:mm:ss` counts, in seconds; the colons count nothing.
_SECOND = np.array([3600 * 10, 3600, 0, 60 * 10, 60, 0, 10, 1], np.float64)
_NEAR = MIN_SILENCE // 1_000_000 - 1
_DAY = 86_400


class TimeStatistics:
    """Takes the records of one split, cut by cut."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        """Find out where the layouts keep time and level."""
        self.gaps: list[Gap] = []
        self.levels: Counter[str] = Counter()
        self._groups = groups
        self._clock = [_clock_at(group[0]) for group in groups]
        self._level = [_level_at(group) for group in groups]
        self._last: int | None = None
        # where time goes backwards
        self.backward = BackwardJumps()

    def add(self, cut: Records) -> None:
        """Count the records of a cut."""
        count = len(cut.starts)
        if not count:
            return
        kinds = [int(one) for one in np.flatnonzero(np.bincount(cut.kinds))]
        places, sure = cut.starts.copy(), np.ones(count, bool)
        for kind in kinds:
            mine = slice(None) if len(kinds) == 1 else np.flatnonzero(cut.kinds == kind)
            starts, at = cut.starts[mine], self._clock[kind - 1]
            if at is None:
                sure[mine] = False
            else:
                places[mine] += at
            self._count_levels(cut.data, starts, kind)
        self._find_gaps(cut, places, sure)

    def _count_levels(self, data: Bytes, starts: Offsets, kind: int) -> None:
        at = self._level[kind - 1]
        if at is None:
            return
        found = np.bincount(data[starts + at])
        for letter in np.flatnonzero(found):
            self.levels[chr(letter)] += int(found[letter])

    def _find_gaps(self, cut: Records, places: Offsets, sure: npt.NDArray[np.bool_]) -> None:
        """Compare each record with the one before; only what may be a silence is read entirely."""
        words = read_words(cut.data, places)
        # What stands before the time of day is the date.
        dates = read_words(cut.data, np.maximum(places - 8, 0))
        differs = (words[1:] != words[:-1]) | (dates[1:] != dates[:-1])
        pairs = np.flatnonzero(differs | ~sure[1:] | ~sure[:-1]) + 1
        apart = (_seconds(words[pairs]) - _seconds(words[pairs - 1])) % _DAY
        maybe = (apart >= _NEAR) | (dates[pairs] != dates[pairs - 1])
        maybe |= ~sure[pairs] | ~sure[pairs - 1]
        # Backwards is nearly a whole day forwards: it is read entirely, too.
        pairs = pairs[maybe]
        begins, ends = (read_times(cut, rows, self._groups) for rows in (pairs - 1, pairs))
        edges = read_times(cut, np.array([0, len(words) - 1], np.int64), self._groups)
        first, last = (int(edge) for edge in edges)
        known = (begins != NO_TIME) & (ends != NO_TIME)
        rows, begins, ends = pairs[known], begins[known], ends[known]
        if self._last is not None and first != NO_TIME:
            # The first record comes after the last one of the cut before.
            rows, begins, ends = (
                np.append(many, one)
                for many, one in ((rows, 0), (begins, self._last), (ends, first))
            )
        silent, back = ends - begins >= MIN_SILENCE, begins - ends >= MIN_BACKWARD_JUMP
        found = _Jumps(begins[silent], ends[silent], cut.lines[rows[silent]])
        self.gaps = longest_gaps([*self.gaps, *found.largest(_KEPT)])
        jumps = _Jumps(begins[back], ends[back], cut.lines[rows[back]])
        self.backward.add(cut, jumps, rows[back], self._groups)
        self._last = last if last != NO_TIME else self._last


@dataclass(frozen=True)
class _Jumps:
    """Times that jump, as columns: a log whose lines are out of order has one at every second."""

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]

    def __getitem__(self, which: npt.NDArray[Any]) -> _Jumps:
        return _Jumps(self.begins[which], self.ends[which], self.lines[which])

    def largest(self, most: int) -> list[Gap]:
        """Give those that jump farthest, whichever way."""
        length = -np.abs(self.ends - self.begins)
        chosen = np.lexsort((self.lines, self.ends, self.begins, length))[:most]
        return self[chosen].to_list()

    def to_list(self) -> list[Gap]:
        """Give them as tuples."""
        columns = (self.begins.tolist(), self.ends.tolist(), self.lines.tolist())
        return list(zip(*columns, strict=True))


class BackwardJumps:
    """Tells time that goes backwards from a few records that come late."""

    def __init__(self) -> None:
        """Begin with no jump; `unconfirmed` ones wait for so many more records."""
        self.count = 0
        self.jumps: list[Gap] = []
        self.unconfirmed: list[tuple[Gap, int]] = []

    def add(self, cut: Records, jumps: _Jumps, rows: Offsets, groups: list[list[Layout]]) -> None:
        """Take the steps back of a cut, and at which of its records they are."""
        last = len(cut.starts) - 1
        before, asked = [(step, left - 1) for step, left in self.unconfirmed], rows + CONFIRM_AFTER
        self.unconfirmed = [(step, row - last) for step, row in before if row > last]
        late = asked > last
        waiting = zip(jumps[late].to_list(), (asked[late] - last).tolist(), strict=True)
        self.unconfirmed += sorted(waiting)
        ready = [(step, row) for step, row in before if row <= last]
        if ready:
            earlier = np.array([step for step, _ in ready], np.int64)
            self._confirm(cut, _Jumps(*earlier.T), np.array([row for _, row in ready]), groups)
        self._confirm(cut, jumps[~late], asked[~late], groups)

    def _confirm(
        self, cut: Records, jumps: _Jumps, rows: Offsets, groups: list[list[Layout]]
    ) -> None:
        """Count the steps after which time is still behind, by the records that tell."""
        if not len(rows):
            return
        later = read_times(cut, rows, groups)
        real = jumps[(later != NO_TIME) & (later < jumps.begins)]
        self.count += len(real.begins)
        self.jumps = largest_jumps([*self.jumps, *real.largest(_STEPS_KEPT)])


def longest_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """Keep the longest of some silences, in the order of time."""
    kept = heapq.nsmallest(_KEPT, gaps, key=lambda gap: (gap[0] - gap[1], gap))
    return sorted(kept)


def largest_jumps(steps: Iterable[Gap]) -> list[Gap]:
    """Keep the farthest of some steps back, in the order of lines."""
    kept = heapq.nsmallest(_STEPS_KEPT, steps, key=lambda step: (step[1] - step[0], step))
    return sorted(kept, key=lambda step: step[2])


def _seconds(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Read words that hold `HH:mm:ss` as seconds of a day."""
    digits = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8) & np.uint8(0x0F)
    seconds: npt.NDArray[np.int64] = (digits.astype(np.float64) @ _SECOND).astype(np.int64)
    return seconds


def _clock_at(layout: Layout) -> int | None:
    """Find where `HH:mm:ss` stands in a line, if the layout writes that."""
    time: TimeFormat = layout.time
    places = {letter: at for letter, at, _ in time.parts}
    hour = places.get("H")
    if hour is None or time.shape[hour : hour + 8] != "dd:dd:dd" or time.zoned:
        return None
    return layout.time_offset + hour


def _level_at(group: list[Layout]) -> int | None:
    """Find where the first letter of the level stands, if it is the same fixed place for all."""
    found = {layout.level_offset for layout in group}
    return found.pop() if len(found) == 1 else None
