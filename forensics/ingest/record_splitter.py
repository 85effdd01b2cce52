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

from forensics.ingest.record_starts import (
    MAX_RECORD,
    Bytes,
    Flags,
    Lines,
    Offsets,
    Signature,
    find_lines,
    match_starts,
)
from forensics.ingest.wrapper_detection import WrapperStack, last_line_parts

_SPACE = 32
_RETURN = 13
_CLOSING = np.frombuffer(b')]}"', np.uint8)
# How the lines of a stack trace begin that are not indented, as far as anybody need look.
_TRACE = r"^(?:Caused by|Suppressed|Traceback|at |\.\.\. |[\w$.]*(?:Exception|Error|Throwable)\b)"
_CONTINUATION_PROBE = 200
# Colours say nothing of what a line is.
_ESCAPE = 27
_COLOURED = np.frombuffer(b"\x1b^", np.uint8)
_COLOURS = r"(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]"
_OUTSIDE = r"""^[^\x00-\x20)\]}"]"""

Kinds = npt.NDArray[np.uint8]


@dataclass
class LineCounts:
    """What became of the lines of one split."""

    bytes: int = 0
    lines: int = 0
    records: int = 0
    continuation_lines: int = 0
    blank_lines: int = 0
    unparsed_lines: int = 0
    # of the later lines of records, those that look like nobody's
    stray_lines: int = 0
    long_lines: int = 0
    layouts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Records:
    """Records that lie in one buffer; where they lie in the file, and their lines in the split."""

    data: Bytes
    offsets: Offsets
    starts: Offsets
    heads: Offsets
    ends: Offsets
    lines: Offsets
    kinds: Kinds


@dataclass(frozen=True)
class SplitterOptions:
    """What a cutter must know of the part of a file that it reads.

    It starts at `offset` of the file and owns what starts before `limit`.
    `continues_split`: this is not the first split, lines before its first record are a neighbour's.
    `headless`: the file's head has no record, so a line without a header is nobody's.
    `wrappers`: what the lines are wrapped in; `before`: the line that stands before `offset`.
    """

    offset: int = 0
    limit: int | None = None
    continues_split: bool = False
    headless: bool = False
    wrappers: WrapperStack | None = None
    before: bytes = b""


class RecordSplitter:
    """Feeds on blocks of one file and yields cuts; remembers only an unfinished record."""

    def __init__(
        self, signatures: Sequence[Signature], part: SplitterOptions | None = None
    ) -> None:
        """Read a part of a file, or a whole one."""
        part = part or SplitterOptions()
        self.counts = LineCounts()
        self.done = False
        self._signatures = signatures
        self._offset = part.offset
        self._limit = part.limit
        self._skipping = part.continues_split
        self._headless = part.headless
        self._unwrapping = part.wrappers
        self._torn = part.wrappers is not None and part.wrappers.is_split(part.before)
        self._owner: bytes | None = None
        self._seen = False
        self._tail = b""
        self._dropping = False

    def feed(self, block: bytes, *, final: bool = False) -> Records | None:
        """Take the next block; give the records that are complete now, if any."""
        if self.done:
            return None
        if self._dropping:
            block = self._drop(block)
        text = self._tail + block if self._tail else block
        self._tail = b""
        lines = self._lines(text, final=final)
        if len(text) - lines.size > MAX_RECORD:
            return self._give_up_line(text, lines.size + MAX_RECORD)
        if len(lines):
            return self._cut(text, lines, final=final)
        self._tail = text
        return None

    def _lines(self, text: bytes, *, final: bool) -> Lines:
        lines = find_lines(text, final=final)
        if self._unwrapping:
            lines = self._unwrapping.unwrap(lines, torn_before=self._torn)
        return lines.with_kinds(
            match_starts(lines.data, lines.starts, lines.own_ends, self._signatures)
        )

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
            self.counts.bytes += count

    def _give_up_line(self, text: bytes, kept: int) -> Records | None:
        """Give an endless line as far as we keep it, and let the rest of it go by."""
        lines = self._lines(text[:kept], final=True)
        cut = self._cut(text[:kept], lines, final=True)
        if not self.done:
            self._dropping = True
            self._pass(len(text) - kept)
            self.counts.long_lines += not self._skipping
        return cut

    def _cut(self, text: bytes, lines: Lines, *, final: bool) -> Records | None:
        lines = lines.slice(0, self._owned(lines))
        begin = self._skipped(lines)
        if not final and not self.done:
            lines = self._without_last_record(lines)
        mine = lines.slice(min(begin, len(lines)), len(lines))
        records = np.flatnonzero(mine.kinds)
        strange = mine.foreign_lines(self._owner)
        cut = self._records(mine, records, strange)
        self._count(mine, strange)
        if len(mine):
            self.counts.bytes += mine.size - int(mine.block_starts[0])
        if not self.done:
            self._tail = text[lines.size :]
        self._offset += lines.size
        self._remember(lines, mine, records)
        return cut

    def _remember(self, lines: Lines, mine: Lines, records: Offsets) -> None:
        """Keep what the next block must know of the last line and the last record."""
        if lines.continues is not None and len(lines):
            self._torn = bool(lines.continues[-1])
        if mine.origins is not None and len(records):
            self._owner = mine.origins[int(records[-1])].as_py()

    def _begins(self, lines: Lines) -> Flags:
        """Tell the lines at which a split may begin: records, or in a headless file all lines."""
        if not self._headless:
            return lines.kinds > 0
        return np.ones(len(lines), np.bool_) if lines.continued is None else ~lines.continued

    def _owned(self, lines: Lines) -> int:
        """Count the lines up to the first one that belongs to the next split."""
        if self._limit is None:
            return len(lines)
        beyond = lines.block_starts + self._offset >= self._limit
        begins = self._begins(lines)
        if not (self._skipping and not begins[~beyond].any()):
            beyond &= begins
        foreign = np.flatnonzero(beyond)
        self.done = bool(len(foreign))
        return int(foreign[0]) if self.done else len(lines)

    def _skipped(self, lines: Lines) -> int:
        """Count the lines at the front that belong to the split before."""
        if not self._skipping:
            return 0
        begins = np.flatnonzero(self._begins(lines))
        self._skipping = not len(begins)
        return int(begins[0]) if len(begins) else len(lines)

    def _without_last_record(self, lines: Lines) -> Lines:
        """Leave the last record for the next block, which may continue it, unless it is huge."""
        records = np.flatnonzero(lines.kinds)
        if not len(records) or lines.size - int(lines.block_starts[records[-1]]) > MAX_RECORD:
            return lines
        return lines.slice(0, int(records[-1]))

    def _records(self, lines: Lines, records: Offsets, strange: Flags) -> Records | None:
        if not len(records):
            return None
        starts = lines.starts[records]
        following = self._following(lines, records, strange)
        # What is looked at must not depend on how the blocks fell: never more than LONGEST.
        ends = np.minimum(
            np.append(lines.starts, lines.text_length)[following], starts + MAX_RECORD
        )
        heads = np.minimum(lines.ends[records], ends)
        # Where a block ends there, the return is known to close the line; so it is elsewhere.
        heads -= (heads == ends) & (heads > starts) & (lines.data[heads - 1] == _RETURN)
        places = lines.block_starts[records] + self._offset
        numbers = self.counts.lines + records + 1
        return Records(lines.data, places, starts, heads, ends, numbers, lines.kinds[records])

    def _following(self, lines: Lines, records: Offsets, strange: Flags) -> Offsets:
        """Say for each record which line is the first that is no part of it."""
        following: Offsets
        following = records + 1 if self._headless else np.append(records[1:], len(lines))
        if lines.continues is None:
            return following
        if self._headless:
            following = last_line_parts(lines.continues)[records] + 1
        # Wrapped text is shorter than the file; what is kept goes by what stands in the file.
        near = np.searchsorted(lines.block_starts, lines.block_starts[records] + MAX_RECORD)
        others = np.append(np.flatnonzero(strange), len(lines))
        first = others[np.searchsorted(others, records)]
        following = np.minimum(np.minimum(following, near), first)
        return following

    def _count(self, lines: Lines, strange: Flags) -> None:
        account = self.counts
        records = np.flatnonzero(lines.kinds)
        account.lines += len(lines)
        account.records += len(records)
        account.long_lines += int((lines.block_ends - lines.block_starts > MAX_RECORD).sum())
        for kind, count in zip(*np.unique(lines.kinds, return_counts=True), strict=True):
            if kind:
                account.layouts[int(kind)] = account.layouts.get(int(kind), 0) + int(count)
        others = np.flatnonzero(lines.kinds == 0)
        blank = _blank(lines.data, lines.starts[others], lines.own_ends[others])
        first = 0 if self._seen else int(records[0]) if len(records) else len(lines)
        loose = ~blank & ((others < first) | strange[others] | self._headless)
        account.blank_lines += int(blank.sum())
        account.unparsed_lines += int(loose.sum())
        later = others[~loose & ~blank]
        account.continuation_lines += len(later)
        account.stray_lines += _strays(lines.data, lines.starts[later], lines.own_ends[later])
        self._seen = self._seen or bool(len(records))


def _strays(data: Bytes, starts: Offsets, ends: Offsets) -> int:
    """Count lines that are not indented, close no bracket and belong to no stack trace.

    Nearly none of a server's are so: many of them are lines of another program.
    """
    first = data[starts]
    maybe = np.flatnonzero(((first > _SPACE) & ~np.isin(first, _CLOSING)) | (first == _ESCAPE))
    if not len(maybe):
        return 0
    until = np.minimum(ends[maybe], starts[maybe] + _CONTINUATION_PROBE)
    heads = pa.array(
        [data[a:b].tobytes() for a, b in zip(starts[maybe], until, strict=True)], pa.binary()
    )
    if np.isin(first[maybe], _COLOURED).any():
        heads = pc.replace_substring_regex(heads, _COLOURS, "")
    stray = pc.and_(
        pc.match_substring_regex(heads, _OUTSIDE),
        pc.invert(pc.match_substring_regex(heads, _TRACE)),
    )
    return int(pc.sum(stray).as_py())


def _blank(data: Bytes, starts: Offsets, ends: Offsets) -> npt.NDArray[np.bool_]:
    """Tell lines of nothing but white space; only lines that may be so are looked at closely."""
    blank: npt.NDArray[np.bool_] = ends <= starts
    second = data[np.minimum(starts + 1, np.maximum(ends - 1, starts))]
    maybe = np.flatnonzero(~blank & (data[starts] <= _SPACE) & (second <= _SPACE))
    if len(maybe):
        texts = pa.array([data[starts[at] : ends[at]].tobytes() for at in maybe], pa.binary())
        blank[maybe] = pc.match_substring_regex(texts, r"^\s*$").to_numpy(zero_copy_only=False)
    return blank
