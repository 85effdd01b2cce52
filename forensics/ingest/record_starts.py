"""The lines of a block, and which of them start a record.

A line has a place in the block and a text in memory. They are the same unless the file is read
through wrappers, which rewrite the text. A layout puts its timestamp at a fixed place of the line,
so a few eight-byte words tell the start of a record, without a regular expression and without a
Python object for any line.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# So much of one record (or one line) is kept; the rest is counted, and reported as too long.
MAX_RECORD = 1 << 20
# So much of a file decides if it has records at all; the same for every split size.
HEAD_BYTES = 256 << 10

# More lines than this are not looked at at once.
MOST_LINES = 512 << 10

_NEWLINE, _RETURN, _SPACE, _ESCAPE = 10, 13, 32, 27
# The lines of a stack trace or of a dump of settings that are not indented, and how much of a line
# is looked at.
_TRACE = (
    r"^(?:Caused by|Suppressed|Traceback|at |\.\.\. |[\w$.]*(?:Exception|Error|Throwable)\b"
    r"|[\w.-]+ =(?:\s|$)|\([\w.$-]+\)\s*$)"
)
_CONTINUATION_PROBE = 200
# Colours before the text of a line are ignored.
_COLOURS = r"(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]"
# Text in UTF-16 behind other text begins with a zero byte.
_OUTSIDE = r"""^(?:[^\x00-\x20)\]}"]|\x00)"""

# What editors write before text in UTF-8 and in UTF-16, and so many bytes of a line in UTF-16 are
# zeros, at least; those of characters beyond ASCII are not.
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WIDE_SHARE, _LEAST_WIDE = 0.4, 16

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lines:
    """Whole lines of a block, one after the other.

    In the block a line stands from `block_starts` to `block_ends`; all of them have `size` bytes.
    Their text is in `data`, from `starts` to `ends`, of `text_length` bytes with its line breaks.
    """

    data: Bytes
    block_starts: Offsets
    block_ends: Offsets
    size: int
    starts: Offsets
    ends: Offsets
    text_length: int
    kinds: npt.NDArray[np.uint8]
    # Only set for files in wrappers: whether a line goes on in the next one, whether it continues
    # the one before, and who wrote it.
    continues: Flags | None = None
    continued: Flags | None = None
    origins: pa.Array | None = None
    # Which stack of wrappers opened each, if several may.
    forms: Offsets | None = None
    # Lines of a part of a file without records, which belong to no record.
    loose: Flags | None = None

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.starts)

    @property
    def stops(self) -> Offsets:
        """Where the text of each line ends, with its line break."""
        return np.append(self.starts, self.text_length)[1:]

    @property
    def own_ends(self) -> Offsets:
        """Where each line's own text ends; `ends` may lie in a later line."""
        return self.ends if self.continues is None else np.minimum(self.ends, self.stops)

    def slice(self, begin: int, end: int) -> Lines:
        """Return the lines from one to another."""
        inside = end < len(self)
        rows = slice(begin, end)
        return Lines(
            data=self.data,
            block_starts=self.block_starts[rows],
            block_ends=self.block_ends[rows],
            size=int(self.block_starts[end]) if inside else self.size,
            starts=self.starts[rows],
            ends=self.ends[rows],
            text_length=int(self.starts[end]) if inside else self.text_length,
            kinds=self.kinds[rows],
            continues=None if self.continues is None else self.continues[rows],
            continued=None if self.continued is None else self.continued[rows],
            origins=None if self.origins is None else self.origins[rows],
            forms=None if self.forms is None else self.forms[rows],
            loose=None if self.loose is None else self.loose[rows],
        )

    def with_kinds(self, kinds: npt.NDArray[np.uint8]) -> Lines:
        """Set which signature each line begins with; none for one that continues another."""
        if self.continued is not None:
            kinds[self.continued] = 0
        return replace(self, kinds=kinds)

    def foreign_lines(self, owner: bytes | None) -> Flags:
        """Mark lines after a record that another writer wrote; `owner` wrote the last record."""
        foreign = np.zeros(len(self), np.bool_)
        if self.loose is not None:
            foreign |= self.loose & (self.kinds == 0)
        if self.origins is None:
            return foreign
        records = np.flatnonzero(self.kinds)
        others = np.flatnonzero(self.kinds == 0)
        above = np.searchsorted(records, others)
        owners = pa.concat_arrays(
            [pa.array([owner], pa.binary()), self.origins.take(pa.array(records))]
        )
        differs = pc.not_equal(self.origins.take(pa.array(others)), owners.take(pa.array(above)))
        foreign[others] |= pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
        return foreign


def concat_lines(parts: Sequence[Lines]) -> Lines:
    """Put lines of one block together that were read in different ways."""
    texts, shifts, length = [], [], 0
    for part in parts:
        begin = int(part.starts[0])
        texts.append(part.data[begin : part.text_length])
        shifts.append(length - begin)
        length += part.text_length - begin
    data: Bytes = np.concatenate([*texts, np.zeros(PADDING, np.uint8)])

    def flags(name: str) -> Flags | None:
        columns = [getattr(part, name) for part in parts]
        if all(column is None for column in columns):
            return None
        blank = [np.zeros(len(part), np.bool_) for part in parts]
        pairs = zip(columns, blank, strict=True)
        return np.concatenate([none if column is None else column for column, none in pairs])

    origins = None
    if any(part.origins is not None for part in parts):
        origins = pa.concat_arrays(
            [pa.nulls(len(p), pa.binary()) if p.origins is None else p.origins for p in parts]
        )
    forms = None
    if any(part.forms is not None for part in parts):
        forms = np.concatenate(
            [np.zeros(len(p), np.int64) if p.forms is None else p.forms for p in parts]
        )
    moved = list(zip(parts, shifts, strict=True))
    return Lines(
        data=data,
        block_starts=np.concatenate([part.block_starts for part in parts]),
        block_ends=np.concatenate([part.block_ends for part in parts]),
        size=parts[-1].size,
        starts=np.concatenate([part.starts + shift for part, shift in moved]),
        ends=np.concatenate([part.ends + shift for part, shift in moved]),
        text_length=length,
        kinds=np.concatenate([part.kinds for part in parts]),
        continues=flags("continues"),
        continued=flags("continued"),
        origins=origins,
        forms=forms,
        loose=flags("loose"),
    )


def find_lines(text: bytes, *, final: bool) -> Lines:
    """Find the whole lines of a block; the last one of a file may have no break."""
    data: Bytes = np.empty(len(text) + PADDING, np.uint8)
    data[: len(text)] = np.frombuffer(text, np.uint8)
    data[len(text) :] = 0
    breaks = np.flatnonzero(data[: len(text)] == _NEWLINE)
    size = int(breaks[-1]) + 1 if len(breaks) else 0
    starts = np.zeros(len(breaks), np.int64)
    starts[1:] = breaks[:-1] + 1
    if final and size < len(text):
        starts, breaks, size = np.append(starts, size), np.append(breaks, len(text)), len(text)
    kinds = np.zeros(len(starts), np.uint8)
    lines = Lines(data, starts, breaks, size, starts, breaks, size, kinds)
    lines = _narrow(lines, holds_zeros=b"\0" in text)
    returns = (lines.ends > lines.starts) & (lines.data[np.maximum(lines.ends - 1, 0)] == _RETURN)
    block_ends = breaks - returns if lines.data is data else breaks
    return replace(lines, block_ends=block_ends, ends=lines.ends - returns)


def _narrow(lines: Lines, *, holds_zeros: bool) -> Lines:
    """Write lines in UTF-16 or UTF-32 amid others as these are; a mark before a line is no text.

    Between its characters such a line has zero bytes, and so has one behind a hole in a file.
    """
    data, starts, size = lines.data, lines.starts, lines.size
    gone = np.zeros(size, np.bool_)
    marked = starts[data[starts] == _MARKS[0][0]]
    marked = marked[(data[marked + 1] == _MARKS[0][1]) & (data[marked + 2] == _MARKS[0][2])]
    for at in range(3):
        gone[marked + at] = True
    if holds_zeros and len(starts):
        lengths = np.diff(np.append(starts, size))
        zeros = data[:size] == 0
        wide = np.add.reduceat(zeros, starts, dtype=np.int32) >= _WIDE_SHARE * lengths
        wide &= lengths >= _LEAST_WIDE
        gone |= zeros & np.repeat(wide, lengths)
        begins = starts[wide]
        pairs = data[begins].astype(np.int64) << 8 | data[begins + 1]
        begins = begins[np.isin(pairs, [one[0] << 8 | one[1] for one in _MARKS[1:]])]
        gone[begins] = gone[begins + 1] = True
    if not gone.any():
        return lines
    bounds = np.append(starts, size)
    bounds -= np.append(0, np.cumsum(np.add.reduceat(gone, starts, dtype=np.int64)))
    length = int(bounds[-1])
    text: Bytes = np.zeros(length + PADDING, np.uint8)
    text[:length] = data[:size][~gone]
    # Of a line break nothing goes.
    ends = bounds[1:] - (np.append(starts, size)[1:] - lines.ends)
    return replace(lines, data=text, starts=bounds[:-1], ends=ends, text_length=length)


Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Words are read at any offset of a buffer, so it must be longer than its text by so much.
PADDING = 128
# A digit is 0x30..0x39: the upper half of the byte decides. ':' to '?' pass, too; this is harmless,
# since the layout's own pattern reads the line again when it matters.
DIGIT_MASK, DIGIT = 0xF0, 0x30


@dataclass(frozen=True)
class Signature:
    """The fixed start of one layout: a mask for each byte, and the value of the masked byte.

    >>> Signature.of("[dd:", digits="d").width
    4
    """

    masks: bytes
    values: bytes

    @classmethod
    def of(cls, text: str, digits: str = "d") -> Signature:
        """Build a signature from text in which one character stands for any digit."""
        masks = bytes(DIGIT_MASK if char == digits else 0xFF for char in text)
        values = bytes(DIGIT if char == digits else ord(char) for char in text)
        return cls(masks, values)

    @property
    def width(self) -> int:
        """The number of bytes that are looked at."""
        return len(self.masks)

    @cached_property
    def words(self) -> list[tuple[int, np.uint64, np.uint64]]:
        """Return the signature as eight-byte words: offset, mask, value."""
        return [
            (i, _word(self.masks[i : i + 8]), _word(self.values[i : i + 8]))
            for i in range(0, self.width, 8)
        ]


def read_words(data: Bytes, offsets: Offsets) -> Words:
    """Read the eight bytes at each offset as one number; `data` is padded."""
    view: Words = np.ndarray((len(data) - 8,), dtype="<u8", buffer=data, strides=(1,))
    return view[offsets]


def match_starts(
    data: Bytes, starts: Offsets, ends: Offsets, signatures: Sequence[Signature]
) -> npt.NDArray[np.uint8]:
    """Return the number of the signature that each line starts with, from 1; 0 for none."""
    kinds = np.zeros(len(starts), np.uint8)
    if not len(starts):
        return kinds
    left, lengths = np.arange(len(starts)), ends - starts
    present = np.flatnonzero(np.bincount(data[starts]))
    words: dict[int, Words] = {}
    for number, signature in enumerate(signatures, 1):
        if not ((present & signature.masks[0]) == signature.values[0]).any():
            continue
        fits = lengths >= signature.width
        for offset, mask, value in signature.words:
            # Many signatures begin alike: what one of them read of all lines serves the next.
            if offset not in words:
                words[offset] = read_words(data, starts + offset)
            fits &= (words[offset] & mask) == value
            if not fits.any():
                break
        else:
            kinds[left[fits]] = number
            others = ~fits
            left, starts, lengths = left[others], starts[others], lengths[others]
            words = {offset: read[others] for offset, read in words.items()}
    return kinds


def spread_rows(rows: Offsets, count: int) -> Offsets:
    """Return so many of some rows, from all over them."""
    chosen = np.linspace(0, len(rows) - 1, count).astype(np.int64)
    return rows if len(rows) <= count else rows[chosen]


def is_crowded(text: bytes) -> bool:
    """Return True if the lines of a text are shorter than those of any log."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _NEWLINE)) > MOST_LINES


def find_strays(data: Bytes, starts: Offsets, ends: Offsets) -> Flags:
    """Mark lines that are not indented, close no bracket and belong to no stack trace.

    A server hardly writes any: many of them are lines of another program.
    """
    strays = np.zeros(len(starts), np.bool_)
    first = data[starts]
    begins = ((first > _SPACE) & ~np.isin(first, _CLOSING)) | (first == _ESCAPE) | (first == 0)
    maybe = np.flatnonzero(begins)
    if not len(maybe):
        return strays
    until = np.minimum(ends[maybe], starts[maybe] + _CONTINUATION_PROBE)
    heads = pa.array(
        [data[a:b].tobytes() for a, b in zip(starts[maybe], until, strict=True)], pa.binary()
    )
    if np.isin(first[maybe], _COLOURED).any():
        heads = pc.replace_substring_regex(heads, _COLOURS, "")
    outside = pc.match_substring_regex(heads, _OUTSIDE)
    strays[maybe] = pc.and_not(outside, pc.match_substring_regex(heads, _TRACE))
    return strays


_CLOSING = np.frombuffer(b')]}"', np.uint8)
_COLOURED = np.frombuffer(b"\x1b^", np.uint8)


def _word(part: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(part.ljust(8, b"\0"), "little"))
