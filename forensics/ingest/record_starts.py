"""The lines of a block: where each stands in the file, and where its text lies in memory.

The two are the same unless the file is read through wrappers, which rewrite the text of a block
but leave every line its place in the file.

Where a record starts: fixed bytes at fixed places, asked of all lines at once.

A layout puts its timestamp at a fixed place of the line, so the start of a record can be told from
a few eight-byte words, without a regular expression and without a Python object for any line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# How much of one record (or one line) is kept; the rest is counted, and said to be too long.
MAX_RECORD = 1 << 20
# How much of a file decides whether it has records at all; the same for every split size.
HEAD_BYTES = 256 << 10

_NEWLINE, _RETURN = 10, 13

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
    # Only a file that is read through wrappers has these: the line goes on in the next one, the
    # line goes on with the one before, and who wrote the line.
    continues: Flags | None = None
    continued: Flags | None = None
    origins: pa.Array | None = None

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self.starts)

    @property
    def stops(self) -> Offsets:
        """Where the text of each line ends, with its line break."""
        return np.append(self.starts, self.text_length)[1:]

    @property
    def own_ends(self) -> Offsets:
        """Where each line's own text ends; that of a torn line may go on in the next lines."""
        return self.ends if self.continues is None else np.minimum(self.ends, self.stops)

    def slice(self, begin: int, end: int) -> Lines:
        """Keep the lines from one to another."""
        inside = end < len(self)
        cut = slice(begin, end)
        return Lines(
            data=self.data,
            block_starts=self.block_starts[cut],
            block_ends=self.block_ends[cut],
            size=int(self.block_starts[end]) if inside else self.size,
            starts=self.starts[cut],
            ends=self.ends[cut],
            text_length=int(self.starts[end]) if inside else self.text_length,
            kinds=self.kinds[cut],
            continues=None if self.continues is None else self.continues[cut],
            continued=None if self.continued is None else self.continued[cut],
            origins=None if self.origins is None else self.origins[cut],
        )

    def with_kinds(self, kinds: npt.NDArray[np.uint8]) -> Lines:
        """Say which layout each line begins like; a line that goes on with another does not."""
        if self.continued is not None:
            kinds[self.continued] = 0
        return replace(self, kinds=kinds)

    def foreign_lines(self, owner: bytes | None) -> Flags:
        """Tell the lines under a record that somebody else wrote; `owner` wrote the one before."""
        strange = np.zeros(len(self), np.bool_)
        if self.origins is None:
            return strange
        records = np.flatnonzero(self.kinds)
        others = np.flatnonzero(self.kinds == 0)
        above = np.searchsorted(records, others)
        owners = pa.concat_arrays(
            [pa.array([owner], pa.binary()), self.origins.take(pa.array(records))]
        )
        differs = pc.not_equal(self.origins.take(pa.array(others)), owners.take(pa.array(above)))
        strange[others] = pc.fill_null(differs, False).to_numpy(zero_copy_only=False)
        return strange


def find_lines(text: bytes, *, final: bool) -> Lines:
    """Find the whole lines of a block; at the end of a file the last one may lack its break."""
    data: Bytes = np.empty(len(text) + PADDING, np.uint8)
    data[: len(text)] = np.frombuffer(text, np.uint8)
    data[len(text) :] = 0
    breaks = np.flatnonzero(data[: len(text)] == _NEWLINE)
    size = int(breaks[-1]) + 1 if len(breaks) else 0
    starts = np.zeros(len(breaks), np.int64)
    starts[1:] = breaks[:-1] + 1
    if final and size < len(text):
        starts, breaks, size = np.append(starts, size), np.append(breaks, len(text)), len(text)
    returns = (breaks > starts) & (data[np.maximum(breaks - 1, 0)] == _RETURN)
    ends = breaks - returns
    return Lines(data, starts, ends, size, starts, ends, size, np.zeros(len(starts), np.uint8))


Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Words are read at any place of a buffer, so a buffer must be this much longer than its text.
PADDING = 128
# A digit is 0x30..0x39: the upper half of the byte decides; ':' to '?' pass too, and do no harm,
# since what passes is read again by the layout's own pattern when it matters.
DIGIT_MASK, DIGIT = 0xF0, 0x30


@dataclass(frozen=True)
class Signature:
    """The fixed start of one layout: for each byte a mask and the value that must be left.

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
        """How many bytes are looked at."""
        return len(self.masks)

    def words(self) -> list[tuple[int, np.uint64, np.uint64]]:
        """Give the signature as eight-byte words: place, mask, value."""
        return [
            (at, _word(self.masks[at : at + 8]), _word(self.values[at : at + 8]))
            for at in range(0, self.width, 8)
        ]


def read_words(data: Bytes, places: Offsets) -> Words:
    """Read the eight bytes at each place as one number; `data` is padded."""
    view: Words = np.ndarray((len(data) - 8,), dtype="<u8", buffer=data, strides=(1,))
    return view[places]


def match_starts(
    data: Bytes, starts: Offsets, ends: Offsets, signatures: Sequence[Signature]
) -> npt.NDArray[np.uint8]:
    """Say for each line which signature it starts with: 0 for none, else its number from 1."""
    kinds = np.zeros(len(starts), np.uint8)
    if not len(starts):
        return kinds
    first = data[starts]
    for number, signature in enumerate(signatures, 1):
        lines = np.flatnonzero(
            ((first & signature.masks[0]) == signature.values[0])
            & (ends - starts >= signature.width)
            & (kinds == 0)
        )
        for at, mask, value in signature.words():
            if not len(lines):
                break
            lines = lines[(read_words(data, starts[lines] + at) & mask) == value]
        kinds[lines] = number
    return kinds


def _word(part: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(part.ljust(8, b"\0"), "little"))
