"""The lines of a block: where each stands in the file, and where its text lies in memory.

The two are the same unless the file is read through wrappers, which rewrite the text of a block
but leave every line its place in the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.starts import PADDING, Bytes, Places

__all__ = ["HEAD", "LONGEST", "Flags", "Lines", "find_lines"]

# How much of one record (or one line) is kept; the rest is counted, and said to be too long.
LONGEST = 1 << 20
# How much of a file decides whether it has records at all; the same for every split size.
HEAD = 256 << 10

_NEWLINE, _RETURN = 10, 13

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Lines:
    """Whole lines of a block, one after the other.

    In the block a line stands from `places` to `reach`, and all of them have `size` bytes. Their
    text is in `data`, from `starts` to `ends`, and has `length` bytes with its line breaks.
    """

    data: Bytes
    places: Places
    reach: Places
    size: int
    starts: Places
    ends: Places
    length: int
    kinds: npt.NDArray[np.uint8]
    # Only a file that is read through wrappers has these: the line goes on in the next one, the
    # line goes on with the one before, and who wrote the line.
    torn: Flags | None = None
    joined: Flags | None = None
    origins: pa.Array | None = None

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self.starts)

    @property
    def stops(self) -> Places:
        """Where the text of each line ends, with its line break."""
        return np.append(self.starts, self.length)[1:]

    @property
    def parts(self) -> Places:
        """Where each line's own text ends; that of a torn line may go on in the next lines."""
        return self.ends if self.torn is None else np.minimum(self.ends, self.stops)

    def part(self, begin: int, end: int) -> Lines:
        """Keep the lines from one to another."""
        inside = end < len(self)
        cut = slice(begin, end)
        return Lines(
            data=self.data,
            places=self.places[cut],
            reach=self.reach[cut],
            size=int(self.places[end]) if inside else self.size,
            starts=self.starts[cut],
            ends=self.ends[cut],
            length=int(self.starts[end]) if inside else self.length,
            kinds=self.kinds[cut],
            torn=None if self.torn is None else self.torn[cut],
            joined=None if self.joined is None else self.joined[cut],
            origins=None if self.origins is None else self.origins[cut],
        )

    def of_kinds(self, kinds: npt.NDArray[np.uint8]) -> Lines:
        """Say which layout each line begins like; a line that goes on with another does not."""
        if self.joined is not None:
            kinds[self.joined] = 0
        return replace(self, kinds=kinds)

    def strangers(self, owner: bytes | None) -> Flags:
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
