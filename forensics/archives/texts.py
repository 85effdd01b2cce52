"""The texts of many lines in one buffer, rewritten all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from forensics.archives.lines import Flags
from forensics.archives.starts import PADDING, Bytes, Places

__all__ = ["Texts", "gather", "slices", "unpacked"]


@dataclass(frozen=True)
class Texts:
    """Text after text, with what separates them: text n lies from bound n to bound n + 1.

    `carried` tells the ones that were wrapped, `torn` the ones that go on in the next text, and
    `origins` who wrote each (empty where nobody is named).
    """

    data: Bytes
    bounds: Places
    carried: Flags
    torn: Flags
    origins: pa.Array | None = None

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.bounds) - 1

    @property
    def starts(self) -> Places:
        """Where each text begins."""
        return self.bounds[:-1]

    @property
    def stops(self) -> Places:
        """Where each text ends."""
        return self.bounds[1:]


def slices(data: Bytes, begins: Places, stops: Places) -> pa.Array:
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


def gather(data: Bytes, begins: Places, stops: Places) -> tuple[Bytes, Places]:
    """Put stretches of a buffer, given in order, one behind the other."""
    return unpacked(slices(data, begins, stops))


def unpacked(texts: pa.Array) -> tuple[Bytes, Places]:
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
