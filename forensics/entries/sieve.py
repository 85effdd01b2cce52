"""Lets through the records that can hold a fact: a cheap question before the dear one.

Where a layout ends a line with its logger, the last eight bytes of the line say whether any rule
listens to that logger: one look per line, whatever the number of rules. What is left is scanned,
many blocks at once, with one cheap pattern made of the rules of that very logger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.cutting import Cut
from forensics.archives.starts import Places, words_at
from forensics.entries.layouts import Layout
from forensics.entries.splitting import likely_first, named

__all__ = ["Sieve", "later_lines", "texts"]

# Rows of one sort, each with the one pattern that they are asked.
_Sorts = Iterator[tuple[str, npt.NDArray[np.bool_]]]
_WORD = 8
# Many names end alike in eight bytes (..Manager), hardly any two in so many.
_TAIL = 16
_HASH = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(48)
_CLOSING = ord(")")
_RETURN = ord("\r")
# So much is kept of a record's later lines: the settings a broker prints at its start, not a heap.
_MORE_KEPT = 64 << 10


class Sieve:
    """What passes may hold a fact; what does not pass cannot."""

    def __init__(self, probes_by_logger: Mapping[str, Iterable[str]]) -> None:
        """Listen to loggers (their last part); each has the cheap patterns of its rules."""
        self._table = np.zeros(1 << 16, np.bool_)
        self._short: dict[int, set[int]] = {}
        self._probes: dict[bytes, set[str]] = {}
        self._by_logger = {name: frozenset(probes) for name, probes in probes_by_logger.items()}
        for name in sorted(probes_by_logger):
            whole = (name + ")").encode()
            tail = whole[-_WORD:]
            value = int.from_bytes(tail, "little")
            self._probes.setdefault(whole[-_TAIL:], set()).update(probes_by_logger[name])
            if len(tail) == _WORD:
                self._table[_hashed(np.array([value], np.uint64))] = True
            else:
                self._short.setdefault(len(tail), set()).add(value)
        self._any = _pattern({one for probes in self._probes.values() for one in probes})
        self._named = {name.encode(): _pattern(one) for name, one in self._by_logger.items()}
        self._patterns: dict[frozenset[bytes], str] = {}

    def keep(self, cut: Cut, groups: list[list[Layout]]) -> Places:
        """Give the numbers of the records of a cut whose logger some rule listens to."""
        parts = []
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(cut.kinds == kind)
            if all(layout.logger_last for layout in layouts):
                parts.append(rows[self._heard(cut, rows)])
            elif not all(one.logger and one.logger not in self._by_logger for one in layouts):
                parts.append(rows)
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def narrow(self, lifted: pa.RecordBatch, groups: list[list[Layout]]) -> pa.RecordBatch:
        """Keep the records that meet the cheap pattern of some rule of their logger."""
        kinds = lifted["kind"].to_numpy()
        parts = [np.zeros(0, np.int64)]
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            texts = lifted["text"].take(pa.array(rows))
            last = all(layout.logger_last for layout in layouts)
            for pattern, mine in self._by_tail(texts) if last else self._by_name(texts, layouts):
                some = np.flatnonzero(mine)
                if pattern and len(some):
                    found = pc.match_substring_regex(texts.take(pa.array(some)), pattern)
                    parts.append(rows[some[found.to_numpy(zero_copy_only=False)]])
        return lifted.take(pa.array(np.unique(np.concatenate(parts))))

    def _by_tail(self, texts: pa.Array) -> _Sorts:
        """Sort texts by how they end; each sort comes with the pattern of its rules."""
        tails = pc.binary_slice(texts, -_TAIL, None).dictionary_encode()
        patterns = [self._pattern_of(tail) for tail in tails.dictionary.to_pylist()]
        return _sorted(tails.indices.to_numpy(zero_copy_only=False), patterns)

    def _by_name(self, texts: pa.Array, layouts: list[Layout]) -> _Sorts:
        """Sort texts by their loggers; each sort comes with the pattern of its rules.

        Layouts that begin alike may name the logger in different places: what has no known name by
        the first is asked by the next, and what nobody finds a name in is asked everything.
        """
        left = np.arange(len(texts))
        nameless = np.ones(len(texts), np.bool_)
        for layout in likely_first(texts, layouts):
            found = named(texts.take(pa.array(left)), layout).dictionary_encode()
            codes = found.indices.to_numpy(zero_copy_only=False)
            names = found.dictionary.to_pylist()
            patterns = [self._named.get(name.rpartition(b".")[2], "") for name in names]
            for pattern, mine in _sorted(codes, patterns):
                if pattern:
                    yield pattern, np.isin(np.arange(len(texts)), left[mine], assume_unique=True)
            nameless[left] &= ~np.array([bool(name) for name in names], np.bool_)[codes]
            left = left[~np.array([bool(one) for one in patterns], np.bool_)[codes]]
            if not len(left):
                return
        yield self._any, nameless

    def _pattern_of(self, tail: bytes) -> str:
        """Give the pattern for lines that end so: that of all loggers whose names fit."""
        # A message of several lines does not end with its logger, and may be of any.
        if not tail.endswith(b")"):
            return self._any
        fits = frozenset(name for name in self._probes if tail.endswith(name))
        if fits not in self._patterns:
            wanted = {one for name in fits for one in self._probes[name]}
            self._patterns[fits] = _pattern(wanted)
        return self._patterns[fits]

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


def texts(cut: Cut, rows: Places) -> pa.Array:
    """Give the first lines of records as one Arrow array of bytes."""
    return _between(cut, cut.starts, cut.heads, rows)


def later_lines(cut: Cut, rows: Places) -> pa.Array:
    """Give the lines that follow the first lines of records; empty where none does."""
    breaks = np.minimum(cut.heads, len(cut.data) - 1)
    begins = cut.heads + 1 + (cut.data[breaks] == _RETURN)
    ends = np.minimum(cut.ends, begins + _MORE_KEPT)
    return _between(cut, np.minimum(begins, ends), ends, rows)


def _between(cut: Cut, begins: Places, ends: Places, rows: Places) -> pa.Array:
    # Between two wanted texts lies one that is not wanted: both are named by the same offsets.
    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2] = begins
    bounds[1::2] = ends
    both = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(cut.data)]
    )
    return both.take(pa.array(2 * rows))


def _sorted(codes: npt.NDArray[np.int32], patterns: list[str]) -> _Sorts:
    """Sort rows by the pattern of their code; hostile logs hold more codes than patterns."""
    numbers = {pattern: number for number, pattern in enumerate(dict.fromkeys(patterns))}
    of_code = np.array([numbers[pattern] for pattern in patterns], np.int64)
    of_row = of_code[codes]
    for pattern, number in numbers.items():
        yield pattern, of_row == number


def _pattern(wanted: Iterable[str]) -> str:
    return "|".join(sorted(set(wanted)))


def _hashed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (words * _HASH) >> _HASH_SHIFT
