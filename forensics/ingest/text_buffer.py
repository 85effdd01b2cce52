r"""Undoes the escapes of JSON strings, of a whole block at once: `\n`, `\"`, `\u003c`.

What an escape says is never longer than the escape, so a block is rewritten in place and what is
left over is taken out.

The texts of many lines in one buffer, rewritten all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from forensics.ingest.record_starts import PADDING, Bytes, Flags, Offsets


@dataclass(frozen=True)
class TextBuffer:
    """Text after text, with what separates them: text n lies from bound n to bound n + 1.

    `carried` marks the texts that were wrapped, `continues` those that go on in the next text;
    `origins` is who wrote each (empty where nobody is named).
    """

    data: Bytes
    bounds: Offsets
    carried: Flags
    continues: Flags
    origins: pa.Array | None = None

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.bounds) - 1

    @property
    def starts(self) -> Offsets:
        """Where each text begins."""
        return self.bounds[:-1]

    @property
    def stops(self) -> Offsets:
        """Where each text ends."""
        return self.bounds[1:]


def slice_texts(data: Bytes, begins: Offsets, stops: Offsets) -> pa.Array:
    """Copy stretches of a buffer, given in order, into an Arrow array of bytes."""
    # Between two wanted texts lies one that is not wanted: both are named by the same offsets.
    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2] = begins
    bounds[1::2] = stops
    if not len(bounds):
        return pa.array([], pa.binary())
    both = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, len(bounds), 2)))


def gather_texts(data: Bytes, begins: Offsets, stops: Offsets) -> tuple[Bytes, Offsets]:
    """Put stretches of a buffer, given in order, one behind the other."""
    return to_buffer(slice_texts(data, begins, stops))


def to_buffer(texts: pa.Array) -> tuple[Bytes, Offsets]:
    """Give an Arrow array of bytes as one padded buffer and the bounds in it."""
    if not len(texts):
        return np.zeros(PADDING, np.uint8), np.zeros(1, np.int64)
    _, offsets, values = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    data: Bytes = np.zeros(size + PADDING, np.uint8)
    if size:
        data[:size] = np.frombuffer(values, np.uint8, size, first)
    return data, bounds - first


_BACKSLASH, _QUOTE, _UNICODE = ord("\\"), ord('"'), ord("u")
_HEX_DIGITS, _PAIR = 4, 6
_HIGH, _LOW, _AFTER, _REPLACED = 0xD800, 0xDC00, 0xE000, 0xFFFD

# What the character after a backslash stands for; most stand for themselves.
_MEANT = np.arange(256, dtype=np.uint8)
for _char, _code in zip(b"nrtbf", b"\n\r\t\b\f", strict=True):
    _MEANT[_char] = _code
_NIBBLE = np.full(256, -1, np.int64)
for _value, _char in enumerate(b"0123456789abcdef"):
    _NIBBLE[_char] = _NIBBLE[ord(chr(_char).upper())] = _value

Codes = npt.NDArray[np.int64]


def find_escapes(data: Bytes) -> Offsets:
    r"""Find the backslashes that begin an escape: in a row of them every other one.

    >>> find_escapes(np.frombuffer(rb'a\"b\\"', np.uint8)).tolist()
    [1, 4]
    """
    found = np.flatnonzero(data == _BACKSLASH)
    if not len(found):
        return found
    new = np.ones(len(found), np.bool_)
    new[1:] = np.diff(found) != 1
    first = found[new][np.cumsum(new) - 1]
    leads: Offsets = found[(found - first) % 2 == 0]
    return leads


def string_ends(data: Bytes, leads: Offsets, begins: Offsets) -> Offsets:
    """Find for each string the quote that ends it; behind the buffer where there is none."""
    quoted = np.zeros(len(data) + 1, np.bool_)
    quoted[leads + 1] = True
    quotes = np.flatnonzero(data == _QUOTE)
    quotes = np.append(quotes[~quoted[quotes]], len(data))
    return quotes[np.searchsorted(quotes, begins)]


def unescape(data: Bytes, bounds: Offsets, wanted: Flags) -> tuple[Bytes, Offsets]:
    """Undo the escapes in the wanted texts of a padded buffer."""
    size = int(bounds[-1])
    leads = find_escapes(data[:size])
    if not wanted.all():
        leads = leads[wanted[np.searchsorted(bounds, leads, "right") - 1]]
    if not len(leads):
        return data, bounds
    keep = np.ones(size, np.bool_)
    unicode = data[leads + 1] == _UNICODE
    simple = leads[~unicode]
    data[simple + 1] = _MEANT[data[simple + 1]]
    keep[simple] = False
    _unicode(data, leads[unicode], keep)
    # Bounds move by what is taken out before them.
    gone = np.flatnonzero(~keep)
    moved = bounds - np.searchsorted(gone, bounds)
    text: Bytes = np.zeros(size - len(gone) + PADDING, np.uint8)
    text[: size - len(gone)] = data[:size][keep]
    return text, moved


def _unicode(data: Bytes, leads: Offsets, keep: Flags) -> None:
    r"""Write UTF-8 over `\uXXXX`; two halves of a pair become one character."""
    codes, leads = _codes(data, leads, len(keep))
    high = (codes >= _HIGH) & (codes < _LOW)
    low = (codes >= _LOW) & (codes < _AFTER)
    if not len(codes):
        return
    paired = np.zeros(len(codes), np.bool_)
    paired[:-1] = high[:-1] & low[1:] & (np.diff(leads) == _PAIR)
    second = np.zeros(len(codes), np.bool_)
    second[1:] = paired[:-1]
    following = np.append(codes[1:], 0)
    whole = ((codes - _HIGH) << 10) + (following - _LOW) + 0x10000
    codes = np.where(paired, whole, np.where((high | low) & ~second, _REPLACED, codes))
    for at in range(_PAIR):
        keep[leads + at] = False
    _write(data, leads[~second], codes[~second], keep)


def _codes(data: Bytes, leads: Offsets, size: int) -> tuple[Codes, Offsets]:
    """Read four hexadecimal digits behind each lead; leads without them are left out."""
    leads = leads[leads + _PAIR <= size]
    digits = [_NIBBLE[data[leads + 2 + at]] for at in range(_HEX_DIGITS)]
    codes = np.zeros(len(leads), np.int64)
    sound = np.ones(len(leads), np.bool_)
    for digit in digits:
        codes = codes * 16 + digit
        sound &= digit >= 0
    return codes[sound], leads[sound]


def _write(data: Bytes, places: Offsets, codes: Codes, keep: Flags) -> None:
    for length, least, most, mark in (
        (1, 0, 0x80, 0),
        (2, 0x80, 0x800, 0xC0),
        (3, 0x800, 0x10000, 0xE0),
        (4, 0x10000, 0x110000, 0xF0),
    ):
        some = (codes >= least) & (codes < most)
        at, code = places[some], codes[some]
        for number in range(length):
            bits = code >> 6 * (length - 1 - number)
            data[at + number] = bits | mark if number == 0 else (bits & 0x3F) | 0x80
            keep[at + number] = True
