"""Finds the records in JSON documents: many in one line, or one over many lines.

Answers of Elasticsearch, Loki or CloudWatch, batches of OpenTelemetry, and objects printed for
people. Brackets are found many at once; only what they enclose is parsed. What is a record is
decided from the outside in: an element that reads as a record is one, unless it holds a list of
them; what stands around a list (labels, the names of columns) belongs to each of its records.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from forensics.ingest.document_records import LineNumbers, Piece, make_piece
from forensics.ingest.json_objects import (
    ObjectReader,
    begins_record,
    fold_key,
    has_own_time,
    read_moment,
    read_pairs,
)
from forensics.ingest.json_wrappers import decode_loosely, open_texts, salvage, to_bytes
from forensics.ingest.record_starts import MAX_RECORD, Offsets
from forensics.ingest.text_buffer import find_escapes

_QUOTE, _NEWLINE, _BACKSLASH = ord('"'), ord("\n"), b"\\"
_OPENING, _CLOSING = b"{[", b"}]"
_BRACKETS = np.frombuffer(_OPENING + _CLOSING, np.uint8)
# What may stand before a value on its line, and around values.
_BETWEEN = b" \t\r\n,[]"
# What stands around a list is looked at if it is no longer than this, for so many of its lists.
_MAX_CONTEXT, _MAX_LISTS = 64 << 10, 64
_MAX_DEPTH = 64
# So many brackets are looked at before what they enclose is given out.
_AT_ONCE = 1 << 16
_FEW = 3
# What `kubectl cluster-info dump` puts around the log of a container.
SECTION = re.compile(
    rb"^==== (?P<edge>START|END) logs for container (?P<container>\S+) of pod"
    rb" (?:[^\s/]+/)?(?P<pod>\S+) ====\s*$",
    re.MULTILINE,
)
# So much of a text is looked at for records, and of a line.
_SEARCHED, _FIRST_LINES, _LOOKS_IN = 64 << 10, 200, 400
# What stands around code in chats and tickets, and the signs that some of them escape.
_FENCE, _REFERENCE = "```", re.compile("&(?:lt|gt|amp);")
_SCOPES = ("scope", "instrumentationScope")
Context = Mapping[str, Any]


@dataclass(slots=True)
class _Node:
    """An object or a list in the text, from `start` to `end` (-1: still open)."""

    start: int
    is_object: bool
    end: int = -1
    children: list[_Node] = field(default_factory=list)
    # what was read around its lists, and for how many
    context: Context | None = None
    asked: int = 0


class JsonDocument:
    """Reads a stream of JSON values, block by block."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Read objects by the first reader that knows them."""
        self.readers = readers
        self._text = bytearray()
        # The offset in the file of the first byte that is kept, and of the first that is not read.
        self._base = self._scanned = 0
        self._in_string = False
        self._stack: list[_Node] = []
        self._too_deep = 0
        self._lines = LineNumbers()
        # From here on nothing was given out, and up to there a line is text.
        self._given = self._text_until = 0
        self._pieces: list[Piece] = []
        # Who wrote the lines of text, if a line before them tells.
        self._origin = b""
        self.unread_lines = 0

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""
        self._text += block
        self._lines.add(block)
        self._scan(final=final)
        if final:
            self._close_all(self._base + len(self._text))
            self._give_text(self._base + len(self._text), final=True)
        elif self._stack:
            self._drain()
        else:
            self._give_text(self._scanned, final=False)
        self._forget()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _scan(self, *, final: bool) -> None:
        """Find the brackets outside strings; a string ends with its line, whatever it holds."""
        end = len(self._text)
        if not final:
            # An escape must not be cut.
            end -= len(self._text) - len(self._text.rstrip(_BACKSLASH))
        begin = self._scanned - self._base
        data = np.frombuffer(bytes(self._text[begin:end]), np.uint8)
        quotes = np.flatnonzero(data == _QUOTE)
        leads = find_escapes(data)
        if len(leads):
            quotes = quotes[~np.isin(quotes, leads + 1)]
        breaks = np.flatnonzero(data == _NEWLINE)
        brackets = np.flatnonzero(np.isin(data, _BRACKETS))
        inside = self._count_quotes(quotes, breaks, brackets) % 2 == 1
        self._in_string = bool(
            self._count_quotes(quotes, breaks, np.array([len(data)], np.int64))[0] % 2
        )
        places = brackets[~inside]
        chars, places = data[places], places + self._scanned
        for at in range(0, len(places), _AT_ONCE):
            some = slice(at, at + _AT_ONCE)
            for place, char in zip(places[some].tolist(), chars[some].tolist(), strict=True):
                self._take(place, char)
            self._scanned = int(places[some][-1]) + 1
            if self._stack:
                self._drain()
        self._scanned = self._base + end

    def _count_quotes(self, quotes: Offsets, breaks: Offsets, places: Offsets) -> Offsets:
        """Count the quotes on the line of each place before it."""
        line = np.searchsorted(breaks, places) - 1
        firsts = np.searchsorted(quotes, np.append(breaks, 0))
        begins = np.where(line >= 0, firsts[line], -int(self._in_string))
        counts: Offsets = np.searchsorted(quotes, places) - begins
        return counts

    def _take(self, at: int, char: int) -> None:
        if at < self._text_until:
            return
        if char in _OPENING:
            self._open(at, is_object=char == _OPENING[0])
        elif self._too_deep:
            self._too_deep -= 1
        elif self._stack:
            self._close(at, is_object=char == _CLOSING[0])

    def _open(self, at: int, *, is_object: bool) -> None:
        if len(self._stack) >= _MAX_DEPTH:
            self._too_deep += 1
            return
        if self._stack and is_object and self._stack[-1].is_object and self._starts_line(at):
            # No object stands directly in an object: the one before was cut off.
            self._close_all(at)
        if not self._stack:
            if not is_object or not self._may_begin(at):
                return
            self._give_text(at, final=True)
        node = _Node(at, is_object)
        if self._stack:
            self._stack[-1].children.append(node)
        self._stack.append(node)

    def _close(self, at: int, *, is_object: bool) -> None:
        while self._stack[-1].is_object != is_object and len(self._stack) > 1:
            self._stack.pop().end = at
        node = self._stack.pop()
        node.end = at + 1
        if not self._stack:
            self._finish(node)

    def _starts_line(self, at: int) -> bool:
        return at == self._base or self._text[at - 1 - self._base] == _NEWLINE

    def _may_begin(self, at: int) -> bool:
        """Return True if a value may begin here; else the whole line is text."""
        begin = max(self._text.rfind(b"\n", 0, at - self._base) + 1, self._given - self._base)
        if not self._text[begin : at - self._base].strip(_BETWEEN):
            return True
        end = self._text.find(b"\n", at - self._base)
        self._text_until = self._base + (len(self._text) if end < 0 else end)
        return False

    def _close_all(self, at: int) -> None:
        """Close what is open: the document is cut off here."""
        if not self._stack:
            return
        for node in self._stack:
            node.end = at
        root = self._stack[0]
        self._stack, self._too_deep = [], 0
        self._finish(root)

    def _finish(self, root: _Node) -> None:
        if root.context is not None:
            # It was too long to be a record, and its first elements were given out before.
            self._read_inside(root, {})
        elif not self._read_element(root, {}):
            self._count_unread(root)
        self._given = root.end

    def _drain(self) -> None:
        """Give out the whole elements of what is too long to be a record itself."""
        context: Context = {}
        for node, inner in zip(self._stack, [*self._stack[1:], None], strict=True):
            if self._scanned - node.start <= MAX_RECORD:
                return
            done = [child for child in node.children if child is not inner]
            node.context = self._context_before(
                node, inner or (done[-1] if done else None), context
            )
            for child in done:
                self._read_child(child, node, node.context)
            node.children = [] if inner is None else [inner]
            context = node.context

    def _forget(self) -> None:
        """Forget the text that is no longer needed."""
        young = [node.start for node in self._stack if self._scanned - node.start <= MAX_RECORD]
        keep = min([*young[:1], self._scanned])
        if not self._stack:
            keep = min(keep, max(self._base, self._given))
            last = self._text.rfind(b"\n", 0, self._scanned - self._base)
            keep = max(keep, min(self._given, self._base + last + 1))
        if keep > self._base:
            del self._text[: keep - self._base]
            self._base = keep
            self._lines.forget(keep)

    def _give_text(self, until: int, *, final: bool) -> None:
        """Give out what stands between values: lines of text, as they are."""
        begin = max(self._given, self._base) - self._base
        end = until - self._base
        if not final:
            end = self._text.rfind(b"\n", begin, end) + 1
        if end <= begin:
            return
        at = begin
        for line in bytes(self._text[begin:end]).splitlines(keepends=True):
            if line.strip(_BETWEEN):
                offset = self._base + at
                self._give_line(offset, line.rstrip(b"\r\n"))
            at += len(line)
        self._given = self._base + end

    def _give_line(self, offset: int, line: bytes) -> None:
        number = self._lines.number(offset)
        if line.startswith(b"====") and (found := SECTION.match(line)):
            begins = found["edge"] == b"START"
            self._origin = b"%b/%b" % (found["pod"], found["container"]) if begins else b""
            self.unread_lines += 1
            return
        self._pieces.append(Piece(offset, number, number, line, self._origin))

    def _slice(self, node: _Node) -> bytes:
        return bytes(self._text[node.start - self._base : node.end - self._base])

    def _read_element(self, node: _Node, context: Context) -> bool:
        """Read an element of a list, or a value of its own; return True if it held records."""
        text = self._slice(node) if node.end - node.start <= MAX_RECORD else b""
        value: Any = decode_loosely(text) if text else None
        if isinstance(value, list):
            value = _name_row(value, context)
        if isinstance(value, dict):
            value = open_texts(value)
        if isinstance(value, dict) and self._give(node, value, context):
            return True
        if self._read_inside(node, context):
            return True
        # Of an object that is cut off, what can be read is read.
        broken = salvage(text) if text and value is None and node.is_object else None
        if broken is not None and self._give(node, broken, context):
            return True
        return isinstance(value, dict) and self._give_texts(node, value)

    def _read_inside(self, node: _Node, context: Context) -> bool:
        found = False
        for child in node.children:
            around = self._context_before(node, child, context)
            found |= self._read_child(child, node, around)
        return found

    def _read_child(self, child: _Node, node: _Node, context: Context) -> bool:
        if node.is_object:
            return bool(child.children) and self._read_inside(child, context)
        return self._read_element(child, context)

    def _context_before(self, node: _Node, child: _Node | None, context: Context) -> Context:
        """Read what stands in an object before one of its values, beside what stands around it."""
        if child is None or not node.is_object or node.asked >= _MAX_LISTS:
            return node.context if node.context is not None else context
        if not self._base <= node.start < child.start <= node.start + _MAX_CONTEXT:
            return node.context if node.context is not None else context
        node.asked += 1
        before = bytes(self._text[node.start - self._base : child.start - self._base])
        try:
            own = msgspec.json.decode(before + b"null}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return context
        return {**context, **own}

    def _give(self, node: _Node, value: dict[str, Any], context: Context) -> bool:
        scopes = {name: context[name] for name in _SCOPES if name in context}
        for reader in self.readers:
            told = reader.read({**scopes, **value} if scopes else value, context)
            if told is None:
                continue
            plain = told.text.startswith(_FENCE) or not has_own_time(told.text)
            if not told.is_record and plain and self._give_texts(node, value):
                return True
            if node.children and any(_holds_records(one, reader) for one in value.values()):
                return False
            first, last = self._lines.number(node.start), self._lines.number(node.end - 1)
            self._pieces.append(make_piece(node.start, (first, last), told))
            return True
        return False

    def _give_texts(self, node: _Node, value: Mapping[str, Any]) -> bool:
        """Give the lines of a log that stand in the texts of an object, whatever its keys."""
        texts = [_plain_text(text) for text in _log_texts(value)]
        first, last = self._lines.number(node.start), self._lines.number(node.end - 1)
        self._pieces += [
            Piece(node.start, first, last, to_bytes(text), whole=True) for text in texts
        ]
        return bool(texts)

    def _count_unread(self, node: _Node) -> None:
        self.unread_lines += self._lines.number(node.end - 1) - self._lines.number(node.start) + 1


def _name_row(row: Sequence[Any], context: Context) -> dict[str, Any] | None:
    """Give names to the values of a row: those of columns, of pairs, or Loki's time and line."""
    for names in _column_names(context, len(row)):
        return dict(zip(names, row, strict=True))
    if len(row) > 1 and isinstance(row[1], str) and read_moment(row[0]) is not None:
        more = row[2] if len(row) > len("ab") and isinstance(row[2], dict) else {}
        return {**more, "timestamp": row[0], "line": row[1]}
    return dict(read_pairs(row)) or None


def _column_names(context: Context, size: int) -> Iterator[list[str]]:
    """Yield the lists of so many names that stand before a list of rows."""
    for value in context.values():
        if not isinstance(value, list) or len(value) != size:
            continue
        names = [_column_name(one) for one in value]
        if all(names) and len(set(names)) == size:
            yield [name or "" for name in names]


def _column_name(column: object) -> str | None:
    """Return the name of a column, which may stand in an object beside its type."""
    if isinstance(column, dict):
        column = next(
            (value for key, value in column.items() if fold_key(key).endswith("name")), None
        )
    return column if isinstance(column, str) else None


def _log_texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts in a value in which lines of a log stand, one below the other."""
    if isinstance(value, str):
        if "\n" in value and any(map(begins_record, _first_lines(value))):
            yield value
    elif isinstance(value, dict | list) and depth < _MAX_DEPTH:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _log_texts(one, depth + 1)


def _first_lines(text: str) -> Iterator[str]:
    for line in text[:_SEARCHED].split("\n")[:_FIRST_LINES]:
        yield line.removeprefix(_FENCE)[:_LOOKS_IN]


def _plain_text(text: str) -> str:
    """Return a text without what a chat puts around code, and the signs that it escapes."""
    lines = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")]
    lines = [line.removeprefix(_FENCE).removesuffix(_FENCE) for line in lines]
    if _REFERENCE.search(text):
        lines = [html.unescape(line) for line in lines]
    return "\n".join(lines)


def _holds_records(value: object, reader: ObjectReader, depth: int = 0) -> bool:
    """Return True if a list of records is somewhere in a value."""
    if depth > _FEW or not isinstance(value, dict | list):
        return False
    if isinstance(value, dict):
        return any(_holds_records(one, reader, depth + 1) for one in value.values())
    for one in _elements(value[:_FEW]):
        told = reader.read(one)
        if told is not None and read_moment(told.time) is not None:
            return True
    return any(_holds_records(one, reader, depth + 1) for one in value[:_FEW])


def _elements(values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for value in values:
        named = _name_row(value, {}) if isinstance(value, list) else value
        if isinstance(named, dict):
            yield named
