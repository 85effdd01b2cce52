"""Finds the records in tables (CSV, TSV) and in the journal's own export.

A row of a table may take several lines: a quoted message holds line breaks. Stores write such
tables when people download what they see.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forensics.ingest.document_pieces import LineNumbers, Piece, make_piece
from forensics.ingest.json_objects import ObjectReader
from forensics.ingest.record_starts import MAX_RECORD

_QUOTE, _NEWLINE = ord('"'), ord("\n")
_DELIMITERS = ",;\t"
_MAX_COLUMNS = 512
_BOM = b"\xef\xbb\xbf"
_LENGTH = 8


def read_header(line: bytes) -> tuple[str, list[str]] | None:
    """Read the first line of a table: its delimiter, and the names of its columns."""
    text = line.removeprefix(_BOM).decode("utf-8", "replace").strip("\r\n")
    delimiter = max(_DELIMITERS, key=text.count)
    try:
        names = next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error:
        return None
    if not 2 <= len(names) <= _MAX_COLUMNS or not all(name.strip() for name in names):
        return None
    return delimiter, [name.strip() for name in names]


class Rows(ABC):
    """What tables and journals have in common: parts of the text, one after the other."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        self.readers = readers
        self._text = b""
        self._offset = 0
        self._lines = LineNumbers()
        self.unread_lines = 0

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""
        self._text += block
        self._lines.add(block)
        pieces: list[Piece] = []
        done = 0
        for begin, end in self._parts(final=final):
            piece = self._read(self._text[begin:end], self._offset + begin, self._offset + end)
            if piece is not None:
                pieces.append(piece)
            done = end
        self._text = self._text[done:]
        self._offset += done
        self._lines.forget(self._offset)
        return pieces

    @abstractmethod
    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        """Yield where each part that is whole begins and ends in the text."""

    @abstractmethod
    def _name(self, part: bytes) -> dict[str, Any]:
        """Give each value of a part its name."""

    def _read(self, part: bytes, begin: int, end: int) -> Piece | None:
        first = self._lines.number(begin)
        last = max(first, self._lines.number(end) - part.endswith(b"\n"))
        node = self._name(part[:MAX_RECORD])
        for reader in self.readers:
            told = reader.read(node)
            if told is not None:
                return make_piece(begin, (first, last), told)
        if any(node.values()):
            self.unread_lines += last - first + 1
        return None


class TableDocument(Rows):
    """Reads a table; a line break inside quotes does not end a row."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Begin before the header."""
        super().__init__(readers)
        self._header: tuple[str, list[str]] | None = None

    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        if self._header is None and not self._take_header(final=final):
            return
        data = np.frombuffer(self._text, np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        quotes = np.zeros(len(breaks), np.int64)
        if not self._is_plain:
            quotes = np.searchsorted(np.flatnonzero(data == _QUOTE), breaks)
        begin, counted = 0, 0
        for at, count in zip(breaks.tolist(), quotes.tolist(), strict=True):
            # A quote that nothing closes does not swallow the rest of the file.
            if (count - counted) % 2 == 0 or at - begin > MAX_RECORD:
                yield begin, at + 1
                begin, counted = at + 1, count
        if final and begin < len(self._text):
            yield begin, len(self._text)

    def _take_header(self, *, final: bool) -> bool:
        head, found, rest = self._text.partition(b"\n")
        if not found and not final:
            return False
        self._header = read_header(head) or (",", [])
        self._offset += len(self._text) - len(rest)
        self._text = rest
        return True

    @property
    def _is_plain(self) -> bool:
        """Whether quotes are nothing special: between tabs they seldom are."""
        return self._header is not None and self._header[0] == "\t"

    def _name(self, part: bytes) -> dict[str, Any]:
        delimiter, names = self._header or (",", [])
        text = part.decode("utf-8", "replace")
        if self._is_plain:
            row = text.rstrip("\r\n").split(delimiter, max(0, len(names) - 1))
        else:
            try:
                row = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
            except csv.Error:
                return {"unread": text}
        return {name: value for name, value in zip(names, row, strict=False) if value}


class JournalDocument(Rows):
    """Reads what `journalctl -o export` writes: fields on lines, an empty line after each entry."""

    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        begin = 0
        while begin < len(self._text):
            end = self._end(begin)
            if end is None:
                if final or len(self._text) - begin > 2 * MAX_RECORD:
                    yield begin, len(self._text)
                return
            yield begin, end
            begin = end

    def _end(self, at: int) -> int | None:
        """Find the end of an entry; None if it is not there yet."""
        text = self._text
        while True:
            stop = text.find(b"\n", at)
            if stop < 0:
                return None
            if stop == at:
                return at + 1
            if text.find(b"=", at, stop) < 0:
                # A name alone: a length in eight bytes, and so many bytes.
                size = int.from_bytes(text[stop + 1 : stop + 1 + _LENGTH], "little")
                stop += _LENGTH + 1 + size
                if stop >= len(text):
                    return None
            at = stop + 1

    def _name(self, part: bytes) -> dict[str, Any]:
        node: dict[str, Any] = {}
        at = 0
        while at < len(part):
            stop = part.find(b"\n", at)
            stop = len(part) if stop < 0 else stop
            name, found, value = part[at:stop].partition(b"=")
            if not found and name:
                begin = stop + 1 + _LENGTH
                stop = begin + int.from_bytes(part[stop + 1 : begin], "little")
                value = part[begin:stop]
            if name:
                node[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            at = stop + 1
        return node
