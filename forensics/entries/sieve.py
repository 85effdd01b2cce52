"""Lets through the records that can hold a fact: a cheap question before the dear one.

Where a layout ends a line with its logger, the last eight bytes of the line say whether any rule
listens to that logger: one look per line, whatever the number of rules. Elsewhere one scan for the
fixed texts of all rules decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.cutting import Cut
from forensics.archives.starts import Places, words_at
from forensics.entries.layouts import Layout

__all__ = ["Sieve", "texts"]

_WORD = 8
_HASH = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(48)
_CLOSING = ord(")")


class Sieve:
    """What passes may hold a fact; what does not pass cannot."""

    def __init__(self, loggers: Iterable[str], literals: Iterable[str]) -> None:
        """Listen to `loggers` (their last part) and look for `literals`."""
        self._table = np.zeros(1 << 16, np.bool_)
        self._short: dict[int, set[int]] = {}
        for name in sorted(set(loggers)):
            tail = (name + ")").encode()[-_WORD:]
            value = int.from_bytes(tail, "little")
            if len(tail) == _WORD:
                self._table[_hashed(np.array([value], np.uint64))] = True
            else:
                self._short.setdefault(len(tail), set()).add(value)
        words = sorted({text for text in literals if text})
        self._pattern = "|".join(re.escape(word) for word in words)
        self._loggers = frozenset(loggers)

    def keep(self, cut: Cut, groups: list[list[Layout]]) -> Places:
        """Give the numbers of the records of a cut that pass."""
        passed = np.zeros(len(cut.starts), np.bool_)
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(cut.kinds == kind)
            if not len(rows):
                continue
            if all(layout.logger_last for layout in layouts):
                passed[rows] = self._heard(cut, rows)
            elif not all(
                layout.logger and layout.logger not in self._loggers for layout in layouts
            ):
                found = pc.match_substring_regex(texts(cut, rows), self._pattern)
                passed[rows] = found.to_numpy(zero_copy_only=False)
        return np.flatnonzero(passed)

    def _heard(self, cut: Cut, rows: Places) -> npt.NDArray[np.bool_]:
        ends = cut.heads[rows]
        # A signature is longer than a word, so there are always eight bytes before the end.
        tails = words_at(cut.data, ends - _WORD)
        heard: npt.NDArray[np.bool_] = self._table[_hashed(tails)]
        for length, values in self._short.items():
            part = tails >> np.uint64(8 * (_WORD - length))
            for value in values:
                heard |= part == np.uint64(value)
        # A message of several lines has its logger further down: it is looked at closely.
        heard |= cut.data[ends - 1] != _CLOSING
        return heard


def texts(cut: Cut, rows: Places, *, whole: bool = False) -> pa.Array:
    """Give the first lines of records (or the whole records) as one Arrow array of bytes."""
    ends = cut.ends if whole else cut.heads
    # Between two wanted texts lies one that is not wanted: both are named by the same offsets.
    bounds = np.empty(2 * len(cut.starts), np.int32)
    bounds[0::2] = cut.starts
    bounds[1::2] = ends
    both = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(cut.data)]
    )
    return both.take(pa.array(2 * rows))


def _hashed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (words * _HASH) >> _HASH_SHIFT
