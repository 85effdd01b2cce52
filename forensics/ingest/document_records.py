"""The records that a document holds, each with its place, and the numbers of lines."""

from __future__ import annotations

import bisect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from forensics.ingest.json_objects import ObjectReader, ReadObject, has_own_time, read_moment
from forensics.ingest.json_wrappers import to_bytes
from forensics.ingest.record_starts import MAX_RECORD

_NEWLINE = 10
_TIME = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?")


class Piece(NamedTuple):
    """A record or a line of a log: where it stands, what it says, who wrote it, and when.

    It begins at `offset` and takes the lines from `line` to `last`; `text` has no last line break.
    `moment` is in microseconds, and null where the document has no time of its own for it; `whole`
    marks what came out of an object or a row and has the time of a record.
    """

    offset: int
    line: int
    last: int
    text: bytes
    origin: bytes = b""
    moment: int | None = None
    whole: bool = False

    @property
    def sort_key(self) -> int | None:
        """When it was: by the document, or else by its text."""
        if self.moment is not None:
            return self.moment
        return line_time(self.text)


def line_time(line: bytes) -> int | None:
    """Read the time near the beginning of a line, in microseconds."""
    found = _TIME.search(line, 0, 64)
    return read_moment(found[0].decode()) if found else None


def make_piece(offset: int, lines: tuple[int, int], told: ReadObject) -> Piece:
    """Make a piece of what an object tells."""
    text, origin = to_bytes(told.text).rstrip(b"\n"), to_bytes(told.origin)
    whole = told.is_record or has_own_time(told.text)
    return Piece(offset, *lines, text, origin, read_moment(told.time), whole)


class Document(Protocol):
    """Reads a file block by block, and gives the records that are whole."""

    readers: Sequence[ObjectReader]
    # lines of what was not understood
    unread_lines: int

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Read objects by the first reader that knows them."""

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""


class LineNumbers:
    """The numbers of the lines of a stream, from 1."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self._breaks: list[int] = []
        self._before = self._read = 0

    def add(self, block: bytes) -> None:
        """Take the next block."""
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + self._read
        self._breaks += breaks.tolist()
        self._read += len(block)

    def number(self, offset: int) -> int:
        """Return the number of the line that an offset is in."""
        return self._before + bisect.bisect_left(self._breaks, offset) + 1

    def forget(self, offset: int) -> None:
        """Forget the lines that end before an offset."""
        count = bisect.bisect_left(self._breaks, offset)
        self._before += count
        del self._breaks[:count]


class LinedDocument(ABC):
    """Reads a file line by line; of an endless line no more is kept than a record may have."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        self.readers = readers
        self.unread_lines = 0
        self._tail = b""
        # The place of the line in question.
        self._offset = self._number = self._skipped = 0

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""
        lines = (self._tail + block).split(b"\n")
        self._tail = lines.pop()
        if final and self._tail:
            lines.append(self._tail)
            self._tail = b""
        pieces: list[Piece] = []
        for line in lines:
            self._number += 1
            self._take(line[:MAX_RECORD].rstrip(b"\r"), pieces)
            self._offset += len(line) + self._skipped + 1
            self._skipped = 0
        self._skipped += max(0, len(self._tail) - MAX_RECORD)
        self._tail = self._tail[:MAX_RECORD]
        if final:
            self._finish(pieces)
        return pieces

    @abstractmethod
    def _take(self, line: bytes, pieces: list[Piece]) -> None:
        """Take a line; add the record that is whole now."""

    @abstractmethod
    def _finish(self, pieces: list[Piece]) -> None:
        """Add the record that ends with the file."""
