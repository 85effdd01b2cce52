"""Cuts a stream of bytes into records, and gives every line one place in the account.

A record is a line that starts as some layout says, with the lines below it up to the next one.
Nothing here depends on where the stream was split: a split owns the records that start inside it,
reads on until the next one starts, and leaves what comes before its first record to its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.archives.starts import PADDING, Bytes, Places, Signature, classify

__all__ = ["HEAD", "LONGEST", "Account", "Cut", "Cutter"]

# How much of one record (or one line) is kept; the rest is counted, and said to be too long.
LONGEST = 1 << 20
# How much of a file decides whether it has records at all; the same for every split size.
HEAD = 256 << 10

_NEWLINE, _RETURN, _SPACE = 10, 13, 32

Kinds = npt.NDArray[np.uint8]


@dataclass
class Account:
    """What became of the lines of one split."""

    bytes: int = 0
    lines: int = 0
    records: int = 0
    continuation_lines: int = 0
    blank_lines: int = 0
    unparsed_lines: int = 0
    long_lines: int = 0
    layouts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """Records that lie in one buffer: places are relative to it, line numbers to the split."""

    data: Bytes
    offset: int
    starts: Places
    heads: Places
    ends: Places
    lines: Places
    kinds: Kinds


@dataclass(frozen=True)
class _Lines:
    """Whole lines of a buffer: where each starts, where its text ends, how far they all reach."""

    data: Bytes
    starts: Places
    ends: Places
    kinds: Kinds
    size: int

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> _Lines:
        """Keep the lines from one to another."""
        size = int(self.starts[end]) if end < len(self) else self.size
        cut = slice(begin, end)
        return _Lines(self.data, self.starts[cut], self.ends[cut], self.kinds[cut], size)


class Cutter:
    """Feeds on blocks of one file and yields cuts; remembers only an unfinished record."""

    def __init__(
        self,
        signatures: Sequence[Signature],
        *,
        offset: int = 0,
        limit: int | None = None,
        orphan: bool = False,
        headless: bool = False,
    ) -> None:
        """Start at `offset` of the file; own what starts before `limit`.

        `orphan`: this is not the first split, lines before its first record are a neighbour's.
        `headless`: the file's head has no record, so a line without a header is nobody's.
        """
        self.account = Account()
        self.done = False
        self._signatures = signatures
        self._offset = offset
        self._limit = limit
        self._skipping = orphan and not headless
        self._headless = headless
        self._seen = False
        self._tail = b""
        self._dropping = False

    def feed(self, block: bytes, *, final: bool = False) -> Cut | None:
        """Take the next block; give the records that are complete now, if any."""
        if self.done:
            return None
        if self._dropping:
            block = self._drop(block)
        text = self._tail + block if self._tail else block
        self._tail = b""
        lines = self._lines(text, final=final)
        if len(lines):
            return self._cut(text, lines, final=final)
        if len(text) > LONGEST:
            return self._give_up_line(text)
        self._tail = text
        return None

    def _lines(self, text: bytes, *, final: bool) -> _Lines:
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
        return _Lines(data, starts, ends, classify(data, starts, ends, self._signatures), size)

    def _drop(self, block: bytes) -> bytes:
        """Skip the rest of a line that is longer than we keep; its bytes still count."""
        at = block.find(b"\n")
        gone = len(block) if at < 0 else at + 1
        self._pass(gone)
        self._dropping = at < 0
        return block[gone:]

    def _pass(self, count: int) -> None:
        self._offset += count
        if not self._skipping:
            self.account.bytes += count

    def _give_up_line(self, text: bytes) -> Cut | None:
        """Give an endless line as far as we keep it, and let the rest of it go by."""
        lines = self._lines(text[:LONGEST], final=True)
        cut = self._cut(text[:LONGEST], lines, final=True)
        if not self.done:
            self._dropping = True
            self._pass(len(text) - LONGEST)
            self.account.long_lines += not self._skipping
        return cut

    def _cut(self, text: bytes, lines: _Lines, *, final: bool) -> Cut | None:
        lines = lines.part(0, self._owned(lines))
        begin = self._skipped(lines)
        if not final and not self.done:
            lines = self._without_last_record(lines)
        mine = lines.part(min(begin, len(lines)), len(lines))
        cut = self._records(mine)
        self._count(mine)
        if len(mine):
            self.account.bytes += mine.size - int(mine.starts[0])
        if not self.done:
            self._tail = text[lines.size :]
        self._offset += lines.size
        return cut

    def _owned(self, lines: _Lines) -> int:
        """Count the lines up to the first one that belongs to the next split."""
        if self._limit is None:
            return len(lines)
        beyond = lines.starts + self._offset >= self._limit
        if not (self._headless or (self._skipping and not lines.kinds[~beyond].any())):
            beyond &= lines.kinds > 0
        foreign = np.flatnonzero(beyond)
        self.done = bool(len(foreign))
        return int(foreign[0]) if self.done else len(lines)

    def _skipped(self, lines: _Lines) -> int:
        """Count the lines at the front that belong to the split before."""
        if not self._skipping:
            return 0
        records = np.flatnonzero(lines.kinds)
        self._skipping = not len(records)
        return int(records[0]) if len(records) else len(lines)

    def _without_last_record(self, lines: _Lines) -> _Lines:
        """Leave the last record for the next block, which may continue it, unless it is huge."""
        records = np.flatnonzero(lines.kinds)
        if not len(records) or lines.size - int(lines.starts[records[-1]]) > LONGEST:
            return lines
        return lines.part(0, int(records[-1]))

    def _records(self, lines: _Lines) -> Cut | None:
        records = np.flatnonzero(lines.kinds)
        if not len(records):
            return None
        starts = lines.starts[records]
        # What is looked at must not depend on how the blocks fell: never more than LONGEST.
        heads = np.minimum(lines.ends[records], starts + LONGEST)
        following = records + 1 if self._headless else np.append(records[1:], len(lines))
        ends = np.minimum(np.append(lines.starts, lines.size)[following], starts + LONGEST)
        numbers = self.account.lines + records + 1
        kinds = lines.kinds[records]
        return Cut(lines.data, self._offset, starts, heads, ends, numbers, kinds)

    def _count(self, lines: _Lines) -> None:
        account = self.account
        records = np.flatnonzero(lines.kinds)
        account.lines += len(lines)
        account.records += len(records)
        account.long_lines += int((lines.ends - lines.starts > LONGEST).sum())
        for kind, count in zip(*np.unique(lines.kinds, return_counts=True), strict=True):
            if kind:
                account.layouts[int(kind)] = account.layouts.get(int(kind), 0) + int(count)
        others = np.flatnonzero(lines.kinds == 0)
        blank = _blank(lines.data, lines.starts[others], lines.ends[others])
        first = 0 if self._seen else int(records[0]) if len(records) else len(lines)
        loose = ~blank & ((others < first) | self._headless)
        account.blank_lines += int(blank.sum())
        account.unparsed_lines += int(loose.sum())
        account.continuation_lines += int((~loose & ~blank).sum())
        self._seen = self._seen or bool(len(records))


def _blank(data: Bytes, starts: Places, ends: Places) -> npt.NDArray[np.bool_]:
    """Tell lines of nothing but white space; only lines that may be so are looked at closely."""
    blank: npt.NDArray[np.bool_] = ends <= starts
    second = data[np.minimum(starts + 1, np.maximum(ends - 1, starts))]
    maybe = np.flatnonzero(~blank & (data[starts] <= _SPACE) & (second <= _SPACE))
    if len(maybe):
        texts = pa.array([data[starts[at] : ends[at]].tobytes() for at in maybe], pa.binary())
        blank[maybe] = pc.match_substring_regex(texts, r"^\s*$").to_numpy(zero_copy_only=False)
    return blank
