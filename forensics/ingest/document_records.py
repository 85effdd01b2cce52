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


# How a message of syslog is sent that may hold line breaks: its length, a blank, the message.
_LENGTH = rb"([1-9][0-9]{0,6}) (?=<[0-9]{1,3}>)"
_FRAMED = re.compile(rb"[ \t\r\n\0]*" + _LENGTH)
# Searched for without blanks before it: a file may hold megabytes of them.
_NEXT_FRAME = re.compile(_LENGTH)
_LONGEST_HEAD, _FRAMES = 64, 3
# What stands before its text, in the new form and in the old one; every line of it gets that.
_HEADER = re.compile(
    rb"<[0-9]{1,3}>"
    rb"(?:1 (?:[^\s]{1,255} ){5}(?:-|(?:\[(?:[^\]\\\n]|\\[^\n])*\])+) ?(?:\xef\xbb\xbf)?"
    rb"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [^\s]{1,255} [^\s:]{1,255}: ?)"
)
_MOST_LINES = 2000


class FramedDocument:
    """Reads messages of syslog that each stand behind their length in bytes (RFC 6587)."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Begin before the first message."""
        self.readers = readers
        self.unread_lines = 0
        self._rest = b""
        self._offset = 0
        self._numbers = LineNumbers()

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the messages that are whole now."""
        self._numbers.add(block)
        data, at, pieces = self._rest + block, 0, list[Piece]()
        while at < len(data):
            end = find_frame_end(data, at, final=final)
            if end is None:
                break
            found = _FRAMED.match(data, at, end)
            first, last = (self._numbers.number(self._offset + one) for one in (at, end - 1))
            if found:
                first = self._numbers.number(self._offset + found.start(1))
                text = _repeat_header(data[found.end() : end].rstrip(b"\r\n\0")[:MAX_RECORD])
                pieces.append(Piece(self._offset + found.start(1), first, last, text))
            else:
                # The end of a message whose beginning is missing.
                self.unread_lines += last - first
            at = end
        self._rest, self._offset = data[at:], self._offset + at
        self._numbers.forget(self._offset)
        return pieces


def _repeat_header(text: bytes) -> bytes:
    header = _HEADER.match(text)
    if header is None or text.count(b"\n") > _MOST_LINES:
        return text
    return text.replace(b"\n", b"\n" + header[0])


def find_frame_end(data: bytes, at: int, *, final: bool) -> int | None:
    """Return where a message that begins at a place ends, or what stands before the next one.

    None if more has to be read. A length that does not lead to the end or to another message is
    wrong, as where it counts characters; then the next one ends the message.
    """
    found = _FRAMED.match(data, at)
    if found:
        end = found.end() + int(found[1])
        if end + _LONGEST_HEAD > len(data) and not final and int(found[1]) <= MAX_RECORD:
            return None
        if _FRAMED.match(data, end) or (end <= len(data) and not data[end:].strip()):
            return end
    other = _NEXT_FRAME.search(data, found.end() if found else at)
    if other:
        return other.start(1)
    return len(data) if final or len(data) - at > MAX_RECORD else None


def looks_framed(head: bytes) -> bool:
    """Return True if messages stand behind their lengths, and not each on lines of its own."""
    first = _NEXT_FRAME.search(head)
    if first is None or first.start(1) > MAX_RECORD:
        return False
    at, joined = first.start(1), 0
    for _ in range(_FRAMES):
        found = _FRAMED.match(head, at)
        end = found.end() + int(found[1]) if found else 0
        if not found or end >= len(head) or not _FRAMED.match(head, end):
            return False
        joined += b"\n" not in head[end - 1 : end + 1]
        at = end
    return joined > 0
