"""Where a record starts: fixed bytes at fixed places, asked of all lines at once.

A layout puts its timestamp at a fixed place of the line, so the start of a record can be told from
a few eight-byte words, without a regular expression and without a Python object for any line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["PADDING", "Bytes", "Places", "Signature", "classify", "words_at"]

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
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


def words_at(data: Bytes, places: Places) -> Words:
    """Read the eight bytes at each place as one number; `data` is padded."""
    view: Words = np.ndarray((len(data) - 8,), dtype="<u8", buffer=data, strides=(1,))
    return view[places]


def classify(
    data: Bytes, starts: Places, ends: Places, signatures: Sequence[Signature]
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
            lines = lines[(words_at(data, starts[lines] + at) & mask) == value]
        kinds[lines] = number
    return kinds


def _word(part: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(part.ljust(8, b"\0"), "little"))
