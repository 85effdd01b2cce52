"""Statistics of a log: longest silences, backward jumps of time and of epochs, counts of levels.

All records are looked at, also those that no rule reads, so this must cost next to nothing: if the
`HH:mm:ss` of a record is that of the record before, comparing eight bytes is enough. An epoch that
falls within one file is worth a note, since Kafka only ever counts them up.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Bytes, Offsets, read_words
from forensics.lib.time_units import SECOND
from forensics.parsing.entries import read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.timestamps import NO_TIME, TimeFormat

# Shorter silences are not reported; of a file only the longest few are.
MIN_SILENCE = 10 * SECOND
_MAX_GAPS = 32
# Shorter jumps back are ignored: lines of concurrent threads may be out of order.
MIN_BACKWARD_JUMP = 2 * SECOND
_MAX_JUMPS = 8
# A thread that hung may write an old time, and others with it. Only if the time is still behind so
# many records later, it really went backwards.
CONFIRM_AFTER = 8
# Begin and end in microseconds as logged, and the line that ends it, counted within its split.
Gap = tuple[int, int, int]

# How many seconds each of the eight characters of `HH:mm:ss` counts; the colons count nothing.
_SECONDS_OF_DIGIT = np.array([3600 * 10, 3600, 0, 60 * 10, 60, 0, 10, 1], np.float64)
_NEAR = MIN_SILENCE // SECOND - 1
_DAY = 86_400


class TimeStatistics:
    """Collects the statistics of one split, block by block."""

    def __init__(self, groups: list[list[Layout]]) -> None:
        """Find the places of time and level in the layouts."""
        self.gaps: list[Gap] = []
        self.levels: Counter[str] = Counter()
        self._groups = groups
        self._clock = [_clock_at(group[0]) for group in groups]
        self._level = [_level_at(group) for group in groups]
        self._last: int | None = None
        self.backward = BackwardJumps()
        # where time falls back in the last block, also by a record that only came late
        self.fallen_back: list[Gap] = []

    def add(self, records: Records) -> None:
        """Count the records of a block."""
        self.fallen_back = []
        count = len(records.starts)
        if not count:
            return
        kinds = [int(one) for one in np.flatnonzero(np.bincount(records.kinds))]
        places, sure = records.starts.copy(), np.ones(count, bool)
        for kind in kinds:
            some = slice(None) if len(kinds) == 1 else np.flatnonzero(records.kinds == kind)
            starts, at = records.starts[some], self._clock[kind - 1]
            if at is None:
                sure[some] = False
            else:
                places[some] += at
            self._count_levels(records.data, starts, kind)
        self._find_gaps(records, places, sure)

    def _count_levels(self, data: Bytes, starts: Offsets, kind: int) -> None:
        at = self._level[kind - 1]
        if at is None:
            return
        found = np.bincount(data[starts + at])
        for letter in np.flatnonzero(found):
            self.levels[chr(letter)] += int(found[letter])

    def _find_gaps(self, records: Records, places: Offsets, sure: npt.NDArray[np.bool_]) -> None:
        """Compare each record with the one before; only likely silences are parsed entirely."""
        words = read_words(records.data, places)
        # Before the time of day stands the date.
        dates = read_words(records.data, np.maximum(places - 8, 0))
        differs = (words[1:] != words[:-1]) | (dates[1:] != dates[:-1])
        pairs = np.flatnonzero(differs | ~sure[1:] | ~sure[:-1]) + 1
        apart = (_to_seconds(words[pairs]) - _to_seconds(words[pairs - 1])) % _DAY
        maybe = (apart >= _NEAR) | (dates[pairs] != dates[pairs - 1])
        maybe |= ~sure[pairs] | ~sure[pairs - 1]
        # A jump back looks like nearly a whole day forward: it is parsed entirely, too.
        pairs = pairs[maybe]
        begins, ends = (read_times(records, rows, self._groups) for rows in (pairs - 1, pairs))
        edges = read_times(records, np.array([0, len(words) - 1], np.int64), self._groups)
        first, last = (int(edge) for edge in edges)
        known = (begins != NO_TIME) & (ends != NO_TIME)
        rows, begins, ends = pairs[known], begins[known], ends[known]
        if self._last is not None and first != NO_TIME:
            # The first record follows the last one of the block before.
            rows, begins, ends = (
                np.append(many, one)
                for many, one in ((rows, 0), (begins, self._last), (ends, first))
            )
        silent, back = ends - begins >= MIN_SILENCE, begins - ends >= MIN_BACKWARD_JUMP
        found = _Jumps(begins[silent], ends[silent], records.lines[rows[silent]])
        self.gaps = longest_gaps([*self.gaps, *found.largest(_MAX_GAPS)])
        jumps = _Jumps(begins[back], ends[back], records.lines[rows[back]])
        self.fallen_back = jumps.to_list()
        self.backward.add(records, jumps, rows[back], self._groups)
        self._last = last if last != NO_TIME else self._last


@dataclass(frozen=True)
class _Jumps:
    """Jumps of time, as columns: a log whose lines are out of order has very many."""

    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]

    def __getitem__(self, which: npt.NDArray[Any]) -> _Jumps:
        return _Jumps(self.begins[which], self.ends[which], self.lines[which])

    def largest(self, limit: int) -> list[Gap]:
        """Return the largest jumps, forward or back."""
        length = -np.abs(self.ends - self.begins)
        chosen = np.lexsort((self.lines, self.ends, self.begins, length))[:limit]
        return self[chosen].to_list()

    def to_list(self) -> list[Gap]:
        """Return the jumps as tuples."""
        columns = (self.begins.tolist(), self.ends.tolist(), self.lines.tolist())
        return list(zip(*columns, strict=True))


class BackwardJumps:
    """Finds where time goes backwards, and ignores a few records that come late."""

    def __init__(self) -> None:
        """Begin with no jump; `unconfirmed` ones wait for so many more records."""
        self.count = 0
        self.jumps: list[Gap] = []
        self.unconfirmed: list[tuple[Gap, int]] = []

    def add(
        self, records: Records, jumps: _Jumps, rows: Offsets, groups: list[list[Layout]]
    ) -> None:
        """Take the jumps of a block, and the records at which they are."""
        last = len(records.starts) - 1
        before, asked = [(step, left - 1) for step, left in self.unconfirmed], rows + CONFIRM_AFTER
        self.unconfirmed = [(step, row - last) for step, row in before if row > last]
        late = asked > last
        waiting = zip(jumps[late].to_list(), (asked[late] - last).tolist(), strict=True)
        self.unconfirmed += sorted(waiting)
        ready = [(step, row) for step, row in before if row <= last]
        if ready:
            earlier = np.array([step for step, _ in ready], np.int64)
            self._confirm(records, _Jumps(*earlier.T), np.array([row for _, row in ready]), groups)
        self._confirm(records, jumps[~late], asked[~late], groups)

    def _confirm(
        self, records: Records, jumps: _Jumps, rows: Offsets, groups: list[list[Layout]]
    ) -> None:
        """Count the jumps after which the time is still behind at the given records."""
        if not len(rows):
            return
        later = read_times(records, rows, groups)
        real = jumps[(later != NO_TIME) & (later < jumps.begins)]
        self.count += len(real.begins)
        self.jumps = largest_jumps([*self.jumps, *real.largest(_MAX_JUMPS)])


def longest_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """Return the longest silences, in the order of time."""
    kept = heapq.nsmallest(_MAX_GAPS, gaps, key=lambda gap: (gap[0] - gap[1], gap))
    return sorted(kept)


def largest_jumps(steps: Iterable[Gap]) -> list[Gap]:
    """Return the largest jumps back, in the order of lines."""
    kept = heapq.nsmallest(_MAX_JUMPS, steps, key=lambda step: (step[1] - step[0], step))
    return sorted(kept, key=lambda step: step[2])


def _to_seconds(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Read words of `HH:mm:ss` as seconds of a day."""
    digits = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8) & np.uint8(0x0F)
    seconds: npt.NDArray[np.int64] = (digits.astype(np.float64) @ _SECONDS_OF_DIGIT).astype(
        np.int64
    )
    return seconds


def _clock_at(layout: Layout) -> int | None:
    """Return the offset of `HH:mm:ss` in a line, if the layout writes that."""
    time: TimeFormat = layout.time
    places = {letter: at for letter, at, _ in time.parts}
    hour = places.get("H")
    if hour is None or time.shape[hour : hour + 8] != "dd:dd:dd" or time.zoned:
        return None
    return layout.time_offset + hour


def _level_at(group: list[Layout]) -> int | None:
    """Return the offset of the level, if it has the same fixed place in all layouts."""
    found = {layout.level_offset for layout in group}
    return found.pop() if len(found) == 1 else None


COUNTERS = ("leader_epoch", "partition_epoch")
# A file that was made of two others regresses at nearly every partition; a few are enough.
MAX_KEPT = 50
# Topic, partition, which counter, from, to, and the line, counted from its split.
EpochRegression = tuple[str, int, str, int, int, int]

_KIND = "partition_state"
# One process has several threads, and a file may hold several processes: each writer in its order.
_WRITER = ("broker", "controller", "logger")
_COLUMNS = ("topic", "partition", "leader_epoch", "partition_epoch", "line", *_WRITER)


class EpochRegressions:
    """Collects the regressions of one piece of a file, whose events come in the order of lines."""

    def __init__(self) -> None:
        self.count = 0
        self.regressions: list[EpochRegression] = []
        self._last: dict[str, pa.RecordBatch] = {}

    def add(self, states: pa.RecordBatch) -> None:
        """Compare the epochs in states with the last ones of each partition and writer."""
        for counter in COUNTERS if len(states) else ():
            self._compare(states.filter(pc.greater_equal(states[counter], 0)), counter)

    def _compare(self, states: pa.RecordBatch, counter: str) -> None:
        if counter in self._last:
            states = pa.concat_batches([self._last[counter], states])
        if not len(states):
            return
        codes = (
            pc.dictionary_encode(states[name], null_encoding="encode").indices
            for name in ("topic", "partition", *_WRITER)
        )
        keys = np.stack([code.to_numpy(zero_copy_only=False) for code in codes])
        order = np.lexsort(keys)
        keys, value = keys[:, order], states[counter].to_numpy(zero_copy_only=False)[order]
        same = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
        fell = np.flatnonzero(same & (value[1:] < value[:-1]))
        if len(fell):
            before, after = (
                states.take(pa.array(order[rows])).to_pylist() for rows in (fell, fell + 1)
            )
            self._keep(counter, zip(before, after, strict=True))
        ends = np.flatnonzero(np.append(~same, True))
        self._last[counter] = states.take(pa.array(order[ends]))

    def _keep(self, counter: str, pairs: Iterable[tuple[dict[str, int], dict[str, int]]]) -> None:
        for before, after in pairs:
            # Both epochs are zero where a topic was created again.
            if after["leader_epoch"] or after["partition_epoch"]:
                self.count += 1
                where = str(after["topic"]), after["partition"], counter
                change = before[counter], after[counter], after["line"]
                self.regressions.append((*where, *change))
        self.regressions = keep_first(self.regressions)


def find_news(events: pa.RecordBatch) -> pa.Array:
    """Mark the events whose epochs are compared.

    Only news counts, since a node that replays the past may begin at its beginning. The first
    state of a new topic counts, too: no epoch from before is held against what follows it.
    """
    fresh = pc.fill_null(pc.equal(events["telling"], "fresh"), fill_value=False)
    news = pc.or_(events["telling"].is_null(), pc.and_(fresh, _initial_states(events)))
    news = pc.and_(news, pc.equal(events["kind"], _KIND))
    for name in ("topic", "partition"):
        news = pc.and_(news, events[name].is_valid())
    return news


def list_states(events: pa.RecordBatch, news: pa.Array) -> pa.RecordBatch:
    """Return what is compared of the events that are news."""
    states = events.select(_COLUMNS).filter(news)
    initial = _initial_states(states)
    for counter in COUNTERS:
        # An initial state may leave out one of its epochs: it is zero.
        filled = pc.if_else(initial, pc.fill_null(states[counter], 0), states[counter])
        states = states.set_column(_COLUMNS.index(counter), counter, filled)
    return states


def keep_first(regressions: Iterable[EpochRegression]) -> list[EpochRegression]:
    """Keep the first of some regressions, in the order of lines."""
    return sorted(regressions, key=lambda regression: (regression[5], *regression[:5]))[:MAX_KEPT]


def _initial_states(events: pa.RecordBatch) -> pa.Array:
    """Mark the states in which one epoch is zero, and the other one is zero or missing."""
    values = [events[name] for name in COUNTERS]
    zero = pc.and_(*(pc.equal(pc.fill_null(value, 0), 0) for value in values))
    return pc.and_(zero, pc.or_(*(value.is_valid() for value in values)))
