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
from forensics.entries.splitting import named

__all__ = ["Sieve", "later_lines", "texts"]

_WORD = 8
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
            tail = (name + ")").encode()[-_WORD:]
            value = int.from_bytes(tail, "little")
            self._probes.setdefault(tail, set()).update(probes_by_logger[name])
            if len(tail) == _WORD:
                self._table[_hashed(np.array([value], np.uint64))] = True
            else:
                self._short.setdefault(len(tail), set()).add(value)
        self._any = _pattern({one for probes in self._probes.values() for one in probes})
        self._patterns: dict[int, str] = {}

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
            sorts: Iterable[tuple[str, npt.NDArray[np.bool_]]]
            if all(layout.logger_last for layout in layouts):
                tails = lifted["tail"].to_numpy()[rows]
                sorts = ((self._pattern_of(int(one)), tails == one) for one in np.unique(tails))
            else:
                sorts = self._by_name(lifted["text"].take(pa.array(rows)), layouts)
            for pattern, mine in sorts:
                some = rows[mine]
                if pattern and len(some):
                    texts = lifted["text"].take(pa.array(some))
                    found = pc.match_substring_regex(texts, pattern)
                    parts.append(some[found.to_numpy(zero_copy_only=False)])
        return lifted.take(pa.array(np.unique(np.concatenate(parts))))

    def _by_name(
        self, texts: pa.Array, layouts: list[Layout]
    ) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Sort texts by their loggers; each sort comes with the pattern of its rules.

        Layouts that begin alike may name the logger in different places: a text is asked in the
        name of each, and where none of them can find a name, for everything.
        """
        nameless = np.ones(len(texts), np.bool_)
        for layout in layouts:
            names = named(texts, layout).dictionary_encode()
            codes = names.indices.to_numpy(zero_copy_only=False)
            for code, name in enumerate(names.dictionary.to_pylist()):
                if name:
                    nameless &= codes != code
                    logger = name.decode("utf-8", "replace").rpartition(".")[2]
                    yield _pattern(self._by_logger.get(logger, ())), codes == code
        yield self._any, nameless

    def _pattern_of(self, tail: int) -> str:
        """Build the pattern for lines that end so: those of all loggers whose names fit."""
        if tail not in self._patterns:
            end = tail.to_bytes(_WORD, "little")
            wanted = {
                one for name, probes in self._probes.items() if end.endswith(name) for one in probes
            }
            # A message of several lines does not end with its logger, and may be of any.
            self._patterns[tail] = _pattern(wanted) if wanted else self._any
        return self._patterns[tail]

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


def _pattern(wanted: Iterable[str]) -> str:
    return "|".join(sorted(set(wanted)))


def _hashed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (words * _HASH) >> _HASH_SHIFT
