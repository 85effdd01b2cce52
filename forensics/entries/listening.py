"""Tells from the last bytes of a line whether some rule listens to the logger that ends it.

One look per line at eight bytes settles most lines, whatever the number of rules; where these fit,
the eight bytes before decide. Nothing is cut out of the line for it, and nothing is compared twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from forensics.archives.starts import Bytes, Places, words_at

__all__ = ["TAIL", "Ears"]

# Many names end alike in eight bytes (..Manager), hardly any two in so many.
TAIL = 16
_WORD = 8
_HASH = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(48)
# A shift by a whole word is not defined.
_NONE = np.uint64(0)
# All bytes of a word but its last, and a closing parenthesis for its last.
_OPEN = np.uint64(0x00FFFFFFFFFFFFFF)
_CLOSED = np.uint64(ord(")") << 56)
# What a line number is made of, where it is one: log4j prints ? or, ill configured, %L.
_DIGIT_LIKE = np.isin(np.arange(256), list(b"0123456789%L?"))
_LONGEST_NUMBER = 6
# What may stand before the last part of a logger's name.
_BEFORE = b".("

Words = npt.NDArray[np.uint64]


class Ears:
    """The loggers that are listened to, by how a line that they end looks from behind."""

    def __init__(self, loggers: Iterable[str]) -> None:
        """Listen to loggers, by the last part of their names."""
        size = 1 << (64 - int(_SHIFT))
        # By the last word: how many bytes of the word before it are to be compared, as bits.
        self._last = np.zeros(size, np.uint16)
        self._both = np.zeros(size, np.bool_)
        # Names shorter than a word, by their length.
        self._short: dict[int, npt.NDArray[np.bool_]] = {}
        for name in loggers:
            for before in _BEFORE:
                self._learn(bytes([before]) + name.encode() + b")")

    def hear(self, data: Bytes, ends: Places) -> npt.NDArray[np.bool_]:
        """Say of lines that end so whether somebody listens; three words lie before each end."""
        ends = _names_end(data, ends)
        # A name may be followed by a line number: what closes the line is put behind it again.
        last = (words_at(data, ends - (_WORD - 1)) & _OPEN) | _CLOSED
        heard = np.zeros(len(ends), np.bool_)
        sizes = self._last[_hashed(last)]
        for length, table in self._short.items():
            heard |= table[_hashed(last >> _bits(_WORD - length))]
        rows = np.flatnonzero(sizes)
        sizes, last = sizes[rows], last[rows]
        before = words_at(data, ends[rows] - (TAIL - 1))
        known = np.zeros(len(rows), np.bool_)
        for size in range(_WORD + 1):
            mine = np.flatnonzero(sizes & np.uint16(1 << size))
            if len(mine):
                rest = before[mine] >> _bits(_WORD - size) if size else before[mine] * _NONE
                known[mine] |= self._both[_hashed(_paired(last[mine], rest, size))]
        heard[rows] |= known
        return heard

    def _learn(self, end: bytes) -> None:
        last = np.array([int.from_bytes(end[-_WORD:], "little")], np.uint64)
        if len(end) < _WORD:
            table = self._short.setdefault(len(end), np.zeros(len(self._both), np.bool_))
            table[_hashed(last)] = True
            return
        rest = end[-TAIL:-_WORD]
        before = np.array([int.from_bytes(rest, "little")], np.uint64)
        self._last[_hashed(last)] |= np.uint16(1 << len(rest))
        self._both[_hashed(_paired(last, before, len(rest)))] = True


def _names_end(data: Bytes, ends: Places) -> Places:
    """Say where the loggers' names end: before the parenthesis, or before a line number."""
    ends = ends - 1
    numbered = np.flatnonzero(_DIGIT_LIKE[data[ends - 1]])
    if not len(numbered):
        return ends
    at = ends[numbered] - 1
    for _ in range(_LONGEST_NUMBER):
        at = at - _DIGIT_LIKE[data[at]]
    colon = data[at] == ord(":")
    ends[numbered[colon]] = at[colon]
    return ends


def _paired(last: Words, before: Words, size: int) -> Words:
    return (last ^ (before * _MIX)) + np.uint64(size)


def _bits(count: int) -> np.uint64:
    return np.uint64(8 * count)


def _hashed(words: Words) -> Words:
    return (words * _HASH) >> _SHIFT
