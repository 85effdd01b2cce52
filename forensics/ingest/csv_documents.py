"""Finds the records in tables (CSV, TSV) and in the journal's own export.

A row of a table may take several lines: a quoted message holds line breaks. Stores write such
tables when people download what they see.
"""

from __future__ import annotations

import csv
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from forensics.ingest.document_records import LineNumbers, Piece, make_piece
from forensics.ingest.field_inference import Recorder, learn_fields, learn_nodes
from forensics.ingest.json_objects import ObjectReader, is_stamp
from forensics.ingest.json_wrappers import decode_loosely
from forensics.ingest.record_starts import MAX_RECORD
from forensics.ingest.text_buffer import undo_escapes
from forensics.ingest.time_formats import TIME_HINT

_QUOTE, _NEWLINE = ord('"'), ord("\n")
_DELIMITERS = ",;\t|"
_MAX_COLUMNS = 512
_BOM = b"\xef\xbb\xbf"
_LENGTH = 8
# What Excel is told of the delimiter, before the header.
_DELIMITER_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=.\r?\n?$")
_TIME = re.compile(TIME_HINT)
# A table without a header has so many cells a row, in so many of its rows.
_OF_ROWS, _FEWEST_CELLS, _NEARLY_ALL, _FIRST_BYTES = ",;", 3, 0.98, 64 << 10
_FEW_RECORDS = 3
# The first cells of a row stand in so much of it.
_ROW_BEGIN = 4096
_SAME_LENGTH = 0.9


# The delimiter of a table, and the names of its columns.
Header = tuple[str, list[str]]


def read_header(line: bytes) -> Header | None:
    """Read the first line of a table: its delimiter, and the names of its columns."""
    text = line.removeprefix(_BOM).decode("utf-8", "replace").strip("\r\n")
    delimiter = max(_DELIMITERS, key=text.count)
    if delimiter == "|" and " |" in text:
        # Columns that are padded for people are no cells.
        return None
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

    def __init__(
        self,
        readers: Sequence[ObjectReader],
        *,
        quotes: bool | None = None,
        columns: Header | None = None,
    ) -> None:
        """Begin before the header, if no `columns` are given.

        `quotes`: whether they enclose cells, where that is known.
        """
        super().__init__(readers)
        self._columns = self._header = columns
        self._known_quotes = quotes
        self._quotes = True

    def renew(self, readers: Sequence[ObjectReader]) -> TableDocument:
        """Return a document of the same kind that was fed nothing."""
        return TableDocument(readers, quotes=self._known_quotes, columns=self._columns)

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
        if found and _DELIMITER_LINE.match(head):
            head, found, rest = rest.partition(b"\n")
        if not found and not final:
            return False
        self._header = read_header(head) or (",", [])
        self._quotes = b'"' in head if self._known_quotes is None else self._known_quotes
        self._offset += len(self._text) - len(rest)
        self._text = rest
        return True

    @property
    def _is_plain(self) -> bool:
        """Whether quotes are nothing special: between tabs they are so if no name has them."""
        return self._header is not None and self._header[0] == "\t" and not self._quotes

    def _name(self, part: bytes) -> dict[str, Any]:
        delimiter, names = self._header or (",", [])
        text = part.decode("utf-8", "replace")
        if self._is_plain:
            row = [undo_escapes(cell) for cell in text.rstrip("\r\n").split(delimiter)]
        else:
            try:
                row = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
            except csv.Error:
                return {"unread": text}
        if names and len(row) > len(names):
            # What is not in quotes may hold the delimiter.
            row[len(names) - 1 :] = [delimiter.join(row[len(names) - 1 :])]
        return {
            name: _read_labels(name, value)
            for name, value in zip(names, row, strict=False)
            if value
        }

    def rows(self, head: bytes) -> Iterator[tuple[bool, Mapping[str, Any]]]:
        """Yield the rows of the head of a file, and whether each has as many cells as the header.

        To be asked of a document that was fed nothing.
        """
        self._text = head
        for begin, end in self._parts(final=False):
            part = self._text[begin:end]
            delimiter, names = self._header or (",", [])
            width = _count_cells(part, delimiter)
            yield width == len(names), self._name(part)


def find_table(
    head: bytes, readers: Sequence[ObjectReader], loggers: Collection[str] = ()
) -> TableDocument | None:
    """Read a table whose names or cells tell which columns hold the parts of records."""
    first, _, rest = head.partition(b"\n")
    if _DELIMITER_LINE.match(first):
        first, _, rest = rest.partition(b"\n")
    header = read_header(first) if rest else None
    known = header is not None and any(reader.has_message(header[1]) for reader in readers)
    # The first line of a log is told from a header before any row is read: most files are logs.
    if header is None or (not known and _TIME.search(first.decode("utf-8", "replace"))):
        return _find_rows(head, readers, loggers)
    document, rows = _best_quotes(head, readers)
    regular = sum(same for same, _ in rows) >= _SAME_LENGTH * len(rows)
    if not known and not regular:
        return None
    nodes = [node for _, node in rows]
    learnt = [learn_fields(reader, nodes, loggers) or reader for reader in readers]
    pieces = document.renew(learnt).feed(head, final=False)
    return document.renew(learnt) if any(piece.whole for piece in pieces) else None


def _find_rows(
    head: bytes, readers: Sequence[ObjectReader], loggers: Collection[str]
) -> TableDocument | None:
    """Read a table without a header, if all its first rows have as many cells, and one is a time.

    Between tabs stand the parts of records that have a line each, too: no row takes several.
    """
    for delimiter in _OF_ROWS:
        some = _first_rows(head, delimiter)
        timed = [row for row in some if any(map(is_stamp, row))]
        width = Counter(map(len, timed)).most_common(1)[0][0] if timed else 0
        if width < _FEWEST_CELLS or len(timed) < _NEARLY_ALL * len(some):
            continue
        columns = (delimiter, [f"column {number + 1}" for number in range(width)])
        document = TableDocument(readers, columns=columns)
        rows = list(document.rows(head))
        if sum(same for same, _ in rows) < _NEARLY_ALL * len(rows):
            continue
        learnt = [learn_fields(reader, [node for _, node in rows], loggers) for reader in readers]
        found = document.renew([one for one in learnt if one is not None])
        pieces = found.renew(found.readers).feed(head, final=False)
        if sum(piece.whole for piece in pieces) >= _FEW_RECORDS:
            return found
    return None


def _first_rows(head: bytes, delimiter: str) -> list[list[str]]:
    """Return the first rows of a table; the last one of a short head may be cut."""
    text = head[:_FIRST_BYTES].decode("utf-8", "replace")
    if delimiter not in text[: text.find("\n")]:
        return []
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        found = list(islice(rows, _FIRST_LINES))
    except csv.Error:
        return []
    return found[:-1] if len(found) < _FIRST_LINES else found


def _best_quotes(
    head: bytes, readers: Sequence[ObjectReader]
) -> tuple[TableDocument, list[tuple[bool, Mapping[str, Any]]]]:
    """Find whether quotes enclose cells: with the right answer more rows are as long as the header.

    Programs that write tabs leave quotes alone, but Excel does not.
    """
    tried = []
    for quotes in (None, True):
        document = TableDocument(readers, quotes=quotes)
        rows = list(document.rows(head))
        tried.append((sum(same for same, _ in rows) / max(1, len(rows)), document, rows))
    _, document, rows = max(tried, key=lambda one: one[0])
    return document.renew(readers), rows


def _count_cells(row: bytes, delimiter: str) -> int:
    try:
        text = io.StringIO(row.decode("utf-8", "replace"), newline="")
        return len(next(csv.reader(text, delimiter=delimiter), []))
    except csv.Error:
        return 0


# Blanks before a bar are taken off with the cell: a pattern that tries them is slow.
_BARS = re.compile(r"[|\u2502\u2503\u2551] ?")
_RULER = re.compile(r"[\s|+:=_\u2500-\u257f-]+")
_ESCAPED_BAR = re.compile(r"\\([|\\])")
_BREAK = re.compile(r"<br ?/?>")
# The header of a drawn table, and the line below it, stand among so many first lines.
_FIRST_LINES = 40
_CORNER, _LINE = "\u250c", "\u2500"
_BAR_CHARS = "|\u2502\u2503\u2551"


class DrawnTable(Rows):
    """Reads a table that is drawn with bars, as consoles of databases and Markdown do.

    A line that fills no column of a time goes on in the row above, as does one without bars.
    """

    def __init__(self, readers: Sequence[ObjectReader], names: Sequence[str] = ()) -> None:
        """Begin before the header, which names the columns."""
        super().__init__(readers)
        self._names = list(names)
        self._begun = False

    def renew(self, readers: Sequence[ObjectReader]) -> DrawnTable:
        """Return a document of the same columns that was fed nothing."""
        return DrawnTable(readers, self._names)

    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        begin, at = 0, 0
        while (stop := self._text.find(b"\n", at)) >= 0 or (final and at < len(self._text)):
            stop = len(self._text) - 1 if stop < 0 else stop
            if self._begins_row(self._text[at : stop + 1]):
                if at > begin:
                    yield begin, at
                begin = at
            at = stop + 1
            if at - begin > MAX_RECORD:
                yield begin, at
                begin = at
        if final and begin < len(self._text):
            yield begin, len(self._text)

    def _begins_row(self, line: bytes) -> bool:
        cells = split_row(line[:_ROW_BEGIN].decode("utf-8", "replace"), len(self._names))
        return (len(cells) > 1 and (bool(cells[0]) or bool(cells[1]))) or is_ruler(line)

    def _name(self, part: bytes) -> dict[str, Any]:
        lines = part.decode("utf-8", "replace").splitlines()
        rows = [split_row(line, len(self._names)) for line in lines if not is_ruler(line.encode())]
        if not rows or rows[0] == self._names:
            return {}
        cells = [*rows[0], *[""] * (len(self._names) - len(rows[0]))]
        for line, row in zip(lines[1:], rows[1:], strict=False):
            if len(row) == len(cells):
                # Where a cell goes on, its bar has another sign before it.
                cells = [
                    f"{cell.removesuffix('+').rstrip()}\n{more}" if more else cell
                    for cell, more in zip(cells, row, strict=True)
                ]
            else:
                cells[-1] += f"\n{line.rstrip().rstrip(_BAR_CHARS)}"
        return {
            name: _BREAK.sub("\n", cell)
            for name, cell in zip(self._names, cells, strict=True)
            if cell
        }


def _drawn_names(lines: Sequence[bytes]) -> list[str]:
    """Find the names of a drawn table: above a ruler, or in it."""
    for above, line in zip(lines, lines[1:], strict=False):
        text = above.decode("utf-8", "replace")
        inside = text.strip()
        if inside[:1] == _CORNER and inside.count(_LINE) > len(_LINE):
            inside_names = re.split(rf"[{_LINE}\u252c\u2510{_CORNER}]+", inside)
            names = [name for name in inside_names if name]
        elif is_ruler(line):
            names = split_row(text)
        else:
            continue
        if 1 < len(names) == len(set(names)) and all(names):
            return names
    return []


def is_ruler(line: bytes) -> bool:
    """Return True if a line is drawn between the rows of a table."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return len(text) > len("---") and _RULER.fullmatch(text) is not None and text.strip() != ""


def split_row(line: str, count: int = 0) -> list[str]:
    r"""Split a row of a drawn table; the last of `count` cells may hold bars itself.

    >>> split_row("| 1 | a | b |", 2), split_row(" 1 | a\\|b ")
    (['1', 'a | b'], ['1', 'a|b'])
    """
    text = line.rstrip("\r\n").rstrip()
    bars = [at for at in _BARS.finditer(text) if text[at.start() - 1 : at.start()] != "\\"]
    if bars and not text[: bars[0].start()].strip():
        text_begin, bars = bars[0].end(), bars[1:]
    else:
        text_begin = len(text) - len(text.lstrip(" "))
    if bars and bars[-1].end() == len(text):
        bars, text = bars[:-1], text[: bars[-1].start()]
    if count:
        bars = bars[: count - 1]
    cells, begin = [], text_begin
    for bar in bars:
        cells.append(text[begin : bar.start()])
        begin = bar.end()
    cells.append(text[begin:])
    return [_ESCAPED_BAR.sub(r"\1", cell).rstrip().strip("`") for cell in cells]


def find_drawn_table(
    head: bytes, readers: Sequence[ObjectReader], loggers: Collection[str] = ()
) -> DrawnTable | None:
    """Read a table that is drawn with bars, if its columns hold records or their parts."""
    lines = head.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    names = _drawn_names(lines)
    if not names:
        return None
    recorders = [Recorder(reader) for reader in readers]
    DrawnTable(recorders, names).feed(head, final=True)
    learnt = [learn_nodes(one, loggers) or one for one in recorders]
    document = DrawnTable([ObjectReader(one.names) for one in learnt], names)
    pieces = document.renew(document.readers).feed(head, final=True)
    return document if sum(piece.whole for piece in pieces) >= _FEW_RECORDS else None


def _read_labels(name: str, value: str) -> Any:
    """Read the object of a cell that holds labels; a message may be an object itself."""
    if value[:2] != '{"' or not name.lower().endswith(("labels", "attributes", "resource")):
        return value
    node = decode_loosely(value.encode())
    return node if isinstance(node, dict) else value


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
