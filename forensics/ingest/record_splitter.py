"""Splits a stream of bytes into records, and counts every line once.

A record is a line that starts as some layout says, with the lines below it up to the next one.
The result does not depend on where the stream is split: a split owns the records that start inside
it, reads on until the next one starts, and leaves the lines before its first record to the split
before it.
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
    find_strays,
    match_starts,
)
from forensics.ingest.text_buffer import cut_lines
from forensics.ingest.time_formats import TIME_HINT
from forensics.ingest.window_formats import LEVEL_HINT, WindowReader
from forensics.ingest.wrapper_detection import WrapperStack, last_line_parts

_SPACE = 32
_RETURN = 13
# What looks like a record behind other text, where a line break should be.
_GLUED = (
    r"[^\x00\r\n][\x00\r]+[^\x00\r\n]{0,30}?[0-9]:[0-9]{2}:[0-9]{2}[^\x00\r\n]{0,60}?" + LEVEL_HINT
)
# More pods or containers in one part of a file are not told apart.
_MAX_ORIGINS = 500
# So many lines of a kind are named, and so much of a line is looked at.
MOST_NAMED, _LOOKS_IN, _TIME_IN = 8, 300, 120

Origin = bytes
Kinds = npt.NDArray[np.uint8]


@dataclass
class LineCounts:
    """How many lines of one split there are, and of which kind."""

    bytes: int = 0
    lines: int = 0
    records: int = 0
    continuation_lines: int = 0
    blank_lines: int = 0
    unparsed_lines: int = 0
    # later lines of records that do not look like part of one
    stray_lines: int = 0
    # what looks like later lines of a record, but stands behind lines of somebody else
    parted_lines: int = 0
    # later lines of records that look like records themselves: how many, and the first of them
    misread_lines: int = 0
    misread_at: list[int] = field(default_factory=list)
    long_lines: int = 0
    # lines in which others begin behind a zero byte or a carriage return
    glued_lines: int = 0
    layouts: dict[int, int] = field(default_factory=dict)
    # records by the stack of wrappers that opened them, where there was one
    forms: dict[int, int] = field(default_factory=dict)
    # the same by who wrote the lines, where something around them says so
    origins: dict[Origin, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Records:
    """Records in one buffer: their offsets in the file, and their line numbers in the split.

    A record lies from `starts` to `ends`, its first line ends at `heads`; it has so many lines in
    the file as `heights` says, and `kinds` are signatures.
    """

    data: Bytes
    offsets: Offsets
    starts: Offsets
    heads: Offsets
    ends: Offsets
    lines: Offsets
    heights: Offsets
    kinds: Kinds
    # who wrote each, where something around its lines says so
    origins: pa.Array | None = None
    # which stack of wrappers opened each, if several may
    forms: Offsets | None = None


@dataclass(frozen=True)
class TakenLines:
    """Lines of one split that were counted, whether they begin records or not.

    `numbers` are those of the lines; of a document, whose records are written anew, those of the
    first and the `lasts` of the last line that each is from.
    """

    text: bytes
    lines: Lines
    numbers: Offsets
    lasts: Offsets
    is_document: bool = False


@dataclass(frozen=True)
class SplitterOptions:
    """Which part of a file is split: it starts at `offset`, and owns what starts before `limit`.

    `continues_split`: lines before the first record belong to the split before.
    `headless`: the file's head has no record, so lines without a header belong to no record.
    `wrappers`: what all lines are wrapped in, or `windows`: what finds it in each part of the file;
    `before`: the line before `offset`.
    """

    offset: int = 0
    limit: int | None = None
    continues_split: bool = False
    headless: bool = False
    wrappers: WrapperStack | None = None
    before: bytes = b""
    windows: WindowReader | None = None


class RecordSplitter:
    """Splits blocks of one file into records; remembers only an unfinished one."""

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
        self._windows = part.windows
        self._torn = part.wrappers is not None and part.wrappers.is_split(part.before)
        if part.windows is not None:
            self._torn = part.windows.is_split(part.before, part.offset)
        self._owner: bytes | None = None
        # whether lines of somebody else stood behind the last record
        self._is_parted = False
        self._seen = False
        self._tail = b""
        self._dropping = False
        # the lines that the last block completed
        self.taken: list[TakenLines] = []
        # the lines of the last block that are blank, and those that belong to no record
        self.blank_at = self.unparsed_at = np.empty(0, np.int64)

    def feed(self, block: bytes, *, final: bool = False) -> Records | None:
        """Take the next block; return the records that are complete now, if any."""
        self.taken = []
        if self.done:
            return None
        if self._dropping:
            block = self._drop(block)
        text = self._tail + block if self._tail else block
        self._tail = b""
        lines = self._lines(text, final=final)
        if len(text) - lines.size > MAX_RECORD:
            return self._split_endless_line(text, lines.size + MAX_RECORD)
        if len(lines):
            return self._split(text, lines, final=final)
        self._tail = text
        return None

    def _lines(self, text: bytes, *, final: bool) -> Lines:
        lines = find_lines(text, final=final)
        if self._unwrapping:
            lines = self._unwrapping.unwrap(lines, torn_before=self._torn)
        lines = lines.with_kinds(
            match_starts(lines.data, lines.starts, lines.own_ends, self._signatures)
        )
        if self._windows:
            self._windows.learn(lines, self._offset, len(text), final=final)
            return self._windows.read(lines, self._offset, torn_before=self._torn)
        return lines

    def _drop(self, block: bytes) -> bytes:
        """Skip the rest of a line that is too long; its bytes still count."""
        end = block.find(b"\n")
        size = len(block) if end < 0 else end + 1
        self._skip_bytes(size)
        self._dropping = end < 0
        return block[size:]

    def _skip_bytes(self, count: int) -> None:
        self._offset += count
        if not self._skipping:
            self.counts.bytes += count

    def _split_endless_line(self, text: bytes, kept: int) -> Records | None:
        """Split an endless line as far as it is kept, and skip the rest of it."""
        lines = self._lines(text[:kept], final=True)
        records = self._split(text[:kept], lines, final=True)
        if not self.done:
            self._dropping = True
            self._skip_bytes(len(text) - kept)
            self.counts.long_lines += not self._skipping
        return records

    def _split(self, text: bytes, lines: Lines, *, final: bool) -> Records | None:
        lines = lines.slice(0, self._owned(lines))
        begin = self._skipped(lines)
        if not final and not self.done:
            lines = self._without_last_record(lines)
        owned = lines.slice(min(begin, len(lines)), len(lines))
        rows = np.flatnonzero(owned.kinds)
        foreign = owned.foreign_lines(self._owner)
        records = self._build_records(owned, rows, foreign)
        numbers = self.counts.lines + 1 + np.arange(len(owned))
        self.taken.append(TakenLines(text, owned, numbers, numbers))
        self._count(owned, foreign)
        if b"\0" in text or b"\r" in text:
            self.counts.glued_lines += _count_glued(owned)
        if len(owned):
            self.counts.bytes += owned.size - int(owned.block_starts[0])
        if not self.done:
            self._tail = text[lines.size :]
        self._offset += lines.size
        # What the next block must know of the last line and the last record.
        if lines.continues is not None and len(lines):
            self._torn = bool(lines.continues[-1])
        elif len(lines):
            self._torn = False
        if owned.origins is not None and len(rows):
            self._owner = owned.origins[int(rows[-1])].as_py()
        return records

    def _begins(self, lines: Lines) -> Flags:
        """Mark the lines at which a split may begin: records, or in a headless file all lines."""
        if not self._headless:
            begins: Flags = lines.kinds > 0
            if lines.loose is None:
                return begins
            return begins | (lines.loose & (True if lines.continued is None else ~lines.continued))
        return np.ones(len(lines), np.bool_) if lines.continued is None else ~lines.continued

    def _owned(self, lines: Lines) -> int:
        """Return the number of lines before the first one that belongs to the next split."""
        if self._limit is None:
            return len(lines)
        beyond = lines.block_starts + self._offset >= self._limit
        begins = self._begins(lines)
        if not (self._skipping and not begins[~beyond].any()):
            beyond &= begins
        others = np.flatnonzero(beyond)
        self.done = bool(len(others))
        return int(others[0]) if self.done else len(lines)

    def _skipped(self, lines: Lines) -> int:
        """Return the number of lines at the front that belong to the split before."""
        if not self._skipping:
            return 0
        begins = np.flatnonzero(self._begins(lines))
        self._skipping = not len(begins)
        return int(begins[0]) if len(begins) else len(lines)

    def _without_last_record(self, lines: Lines) -> Lines:
        """Leave the last record to the next block, which may continue it, unless it is huge."""
        records = np.flatnonzero(lines.kinds)
        if not len(records) or lines.size - int(lines.block_starts[records[-1]]) > MAX_RECORD:
            return lines
        return lines.slice(0, int(records[-1]))

    def _build_records(self, lines: Lines, rows: Offsets, foreign: Flags) -> Records | None:
        if not len(rows):
            return None
        starts = lines.starts[rows]
        following = self._following(lines, rows, foreign)
        # The text must not depend on where blocks end: never more than MAX_RECORD.
        ends = np.minimum(
            np.append(lines.starts, lines.text_length)[following], starts + MAX_RECORD
        )
        heads = np.minimum(lines.ends[rows], ends)
        # A carriage return at the end of a text closes the line, wherever the block ends.
        heads -= (heads == ends) & (heads > starts) & (lines.data[heads - 1] == _RETURN)
        places = lines.block_starts[rows] + self._offset
        numbers = self.counts.lines + rows + 1
        heights, kinds = following - rows, lines.kinds[rows]
        origins = None if lines.origins is None else lines.origins.take(pa.array(rows))
        forms = None if lines.forms is None else lines.forms[rows]
        return Records(
            lines.data, places, starts, heads, ends, numbers, heights, kinds, origins, forms
        )

    def _following(self, lines: Lines, records: Offsets, foreign: Flags) -> Offsets:
        """Return the first line that is no part of each record."""
        following: Offsets
        following = records + 1 if self._headless else np.append(records[1:], len(lines))
        if lines.continues is None and lines.loose is None:
            return following
        if self._headless and lines.continues is not None:
            following = last_line_parts(lines.continues)[records] + 1
        others = np.append(np.flatnonzero(foreign), len(lines))
        first = others[np.searchsorted(others, records)]
        if lines.continues is None:
            alone: Offsets = np.minimum(following, first)
            return alone
        # Wrapped text is shorter than the file; how much is kept depends on the file.
        near = np.searchsorted(lines.block_starts, lines.block_starts[records] + MAX_RECORD)
        bounded: Offsets = np.minimum(np.minimum(following, near), first)
        return bounded

    def _count(self, lines: Lines, foreign: Flags) -> None:
        counts = self.counts
        records = np.flatnonzero(lines.kinds)
        counts.lines += len(lines)
        counts.records += len(records)
        counts.long_lines += int((lines.block_ends - lines.block_starts > MAX_RECORD).sum())
        for kind, count in zip(*np.unique(lines.kinds, return_counts=True), strict=True):
            if kind:
                counts.layouts[int(kind)] = counts.layouts.get(int(kind), 0) + int(count)
        if lines.forms is not None:
            numbers = np.unique(lines.forms[records], return_counts=True)
            for form, count in zip(*numbers, strict=True):
                counts.forms[int(form)] = counts.forms.get(int(form), 0) + int(count)
        others = np.flatnonzero(lines.kinds == 0)
        blank = _find_blank(lines.data, lines.starts[others], lines.own_ends[others])
        first = 0 if self._seen else int(records[0]) if len(records) else len(lines)
        loose = ~blank & ((others < first) | foreign[others] | self._headless)
        counts.blank_lines += int(blank.sum())
        counts.unparsed_lines += int(loose.sum())
        self.blank_at = counts.lines - len(lines) + 1 + others[blank]
        self.unparsed_at = counts.lines - len(lines) + 1 + others[loose]
        if lines.origins is not None:
            self._count_by_origin(lines, others[blank], others[loose])
        later = others[~loose & ~blank]
        counts.continuation_lines += len(later)
        strays = find_strays(lines.data, lines.starts[later], lines.own_ends[later])
        counts.stray_lines += int(strays.sum())
        if strays.any():
            self._note_misread(lines, later[strays])
        if lines.origins is not None and not self._headless:
            parted = others[~blank & self._find_parted(others, records, foreign)]
            strays = find_strays(lines.data, lines.starts[parted], lines.own_ends[parted])
            counts.parted_lines += int((~strays).sum())
        self._seen = self._seen or bool(len(records))

    def _find_parted(self, lines: Offsets, records: Offsets, foreign: Flags) -> Flags:
        """Mark lines that stand behind one of somebody else since the last record."""
        ends = np.append(np.flatnonzero(foreign), len(foreign))
        # Up to where each record may reach; the first lines go on with that of the block before.
        reach = ends[np.searchsorted(ends, np.append(0, records))]
        reach[0] = -1 if self._is_parted else reach[0]
        if len(foreign):
            self._is_parted = bool(reach[-1] < len(foreign))
        parted: Flags = lines >= reach[np.searchsorted(records, lines, side="right")]
        return parted

    def _note_misread(self, lines: Lines, strays: Offsets) -> None:
        """Note which of the lines below records look like records themselves."""
        texts = cut_lines(lines, strays, _LOOKS_IN)
        timed = pc.match_substring_regex(pc.binary_slice(texts, 0, _TIME_IN), TIME_HINT)
        looks = pc.and_(timed, pc.match_substring_regex(texts, LEVEL_HINT))
        found = strays[looks.to_numpy(zero_copy_only=False)]
        counts = self.counts
        counts.misread_lines += len(found)
        left = MOST_NAMED - len(counts.misread_at)
        counts.misread_at += (counts.lines - len(lines) + 1 + found[:left]).tolist()

    def _count_by_origin(self, lines: Lines, blank: Offsets, loose: Offsets) -> None:
        """Count the lines of each origin."""
        coded = pc.fill_null(lines.origins, b"").dictionary_encode()
        codes, names = coded.indices.to_numpy(), coded.dictionary.to_pylist()
        kinds = (
            ("lines", np.arange(len(lines))), ("records", np.flatnonzero(lines.kinds)),
            ("blank_lines", blank), ("unparsed_lines", loose),
        )  # fmt: skip
        found = {name: np.bincount(codes[rows], minlength=len(names)) for name, rows in kinds}
        others = found["records"] + found["blank_lines"] + found["unparsed_lines"]
        found["continuation_lines"] = found["lines"] - others
        for number, origin in enumerate(names):
            is_full = len(self.counts.origins) >= _MAX_ORIGINS
            is_known = origin in self.counts.origins or not is_full
            known = self.counts.origins.setdefault(origin if is_known else b"", {})
            for name, counted in found.items():
                known[name] = known.get(name, 0) + int(counted[number])


def _count_glued(lines: Lines) -> int:
    """Count lines in which what looks like a record begins behind a zero or a return."""
    at = np.flatnonzero((lines.data == 0) | (lines.data == _RETURN))
    at = at[at < lines.text_length]
    rows = np.unique(np.searchsorted(lines.starts, at, "right") - 1)
    rows = rows[rows >= 0]
    inside = np.append(at, lines.text_length)[np.searchsorted(at, lines.starts[rows])]
    rows = rows[inside + 1 < lines.own_ends[rows]]
    found = pc.match_substring_regex(cut_lines(lines, rows), _GLUED)
    return int(pc.sum(found).as_py() or 0)


def _find_blank(data: Bytes, starts: Offsets, ends: Offsets) -> npt.NDArray[np.bool_]:
    """Mark lines of nothing but white space; only likely ones are looked at closely."""
    blank: npt.NDArray[np.bool_] = ends <= starts
    second = data[np.minimum(starts + 1, np.maximum(ends - 1, starts))]
    maybe = np.flatnonzero(~blank & (data[starts] <= _SPACE) & (second <= _SPACE))
    if len(maybe):
        texts = pa.array([data[starts[row] : ends[row]].tobytes() for row in maybe], pa.binary())
        blank[maybe] = pc.match_substring_regex(texts, r"^\s*$").to_numpy(zero_copy_only=False)
    return blank
