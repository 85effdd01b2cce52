"""Finds the records in what stores and tests print for people: XML, YAML, and objects of Ruby.

An element, an item or an object is read as a JSON object is. A text in XML that holds the lines of
a log, such as what a test printed, gives its lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from forensics.ingest.csv_documents import Rows
from forensics.ingest.document_records import LineNumbers, Piece, make_piece
from forensics.ingest.json_objects import ObjectReader, begins_record
from forensics.ingest.json_wrappers import decode_loosely
from forensics.ingest.record_starts import MAX_RECORD
from forensics.lib.lined_documents import read_documents

_MAX_DEPTH, _MAX_VALUES = 64, 256
_XML = re.compile(rb"\s*<(?:\?xml\b|[A-Za-z_][\w:.-]*[\s/>])")
# A page may quote lines of logs, and the strings of a workbook stand without their order.
_NO_LOG = re.compile(rb"(?:\s*<[?!][^>]*>)*\s*<(?i:html|sst|worksheet|workbook|svg)\b")
_TAG = re.compile(
    rb"<[?!][^<>]*>"
    rb"|<(?P<end>/?)(?P<name>[A-Za-z_][\w:.-]*)(?P<more>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>"
)
_TAG_BEGINS = re.compile(rb"<(?:[A-Za-z_/!?]|\Z)")
_LONGEST_TAG = 64 << 10
_CDATA, _COMMENT_END = b"<![CDATA[", b"-->"
_UNTIL = {_CDATA: b"]]>", b"<!--": _COMMENT_END}
_NUMBER = re.compile(r"[0-9]{1,18}")
# So much of a text is looked at for records, and of a line.
_SEARCHED, _FIRST_LINES, _LOOKS_IN = 64 << 10, 200, 400
_ATTRIBUTE = re.compile(rb"([A-Za-z_][\w:.-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
# Attributes that name what an element holds.
_LABELS = ("k", "key", "name", "N")
_YAML_FIRST = re.compile(
    rb"---[ \t]*\r?\n|(?:- )?[A-Za-z_@\"'][\w.@/ \"'-]{0,80}:(?:[ \t]+[^\n]*)?\r?\n"
)
_OF_KUBERNETES = re.compile(rb"(?m)^(?:apiVersion|kind): ")
_YAML_PART = re.compile(rb"(?m)^---[ \t]*\r?\n|^( *)- ")
_RUBY_FIRST = re.compile(rb"\{[ \t]*\r?\n[ \t]*\"[^\"\n]*\" => ")
_RUBY_END = re.compile(rb"(?m)^\}[ \t]*\r?\n")
# Strings stay as they are; an arrow, an index, a time and nil stand outside of them.
_RUBY_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<arrow>=>)|(?P<index>\[\d+\] (?=\S))|(?P<nil>\bnil\b)'
    r"|(?P<time>\b\d{4}-\d\d-\d\d[T ][\d:.]+(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)"
    r"|(?P<object>#<[^<>\n]*>)"
)
_RUBY_ESCAPE = re.compile(r"\\([^\"\\/bfnrtu])")


def looks_like_xml(head: bytes) -> bool:
    """Return True if a text begins as XML does, and may hold records."""
    return _XML.match(head) is not None and _NO_LOG.match(head) is None


def looks_like_yaml(head: bytes) -> bool:
    """Return True if a text may be YAML, but not what Kubernetes is told."""
    first = head.partition(b"\n---")[0]
    return _YAML_FIRST.match(head) is not None and _OF_KUBERNETES.search(first) is None


def looks_like_ruby(head: bytes) -> bool:
    """Return True if a text begins as Ruby prints objects."""
    return _RUBY_FIRST.match(head) is not None


class YamlDocument(Rows):
    """Reads documents of YAML, or the items of the outermost list."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Begin before the first part."""
        super().__init__(readers)
        # What parts begin with: three dashes, or so many blanks before one.
        self._begin: re.Pattern[bytes] | None = None

    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        text = self._text
        if self._begin is None:
            self._begin = self._find_begin()
            if self._begin is None:
                return
        begins = [found.start() for found in self._begin.finditer(text)]
        yield from zip(begins, begins[1:], strict=False)
        last = begins[-1] if begins else 0
        if final or len(text) - last > 2 * MAX_RECORD:
            yield last, len(text)

    def _find_begin(self) -> re.Pattern[bytes] | None:
        found = _YAML_PART.search(self._text, 0)
        if found and found[1] is None and self._text.startswith(b"- ", found.end()):
            found = _YAML_PART.match(self._text, found.end())
        if found is None:
            # One mapping alone holds no log.
            return None
        if found[1] is None:
            return re.compile(rb"(?m)^---(?=[ \t]*\r?$)")
        return re.compile(rb"(?m)^%b(?=- )" % found[1])

    def _name(self, part: bytes) -> dict[str, Any]:
        # What follows the last item of a list breaks off what can be read as one.
        node = next((tree.to_plain() for tree in read_documents(part)), None)
        if isinstance(node, list) and len(node) == 1:
            node = node[0]
        return node if isinstance(node, dict) else {"unread": part}


class RubyDocument(Rows):
    """Reads objects as Logstash's `rubydebug` prints them."""

    def _parts(self, *, final: bool) -> Iterator[tuple[int, int]]:
        begin = 0
        for found in _RUBY_END.finditer(self._text):
            yield begin, found.end()
            begin = found.end()
        if begin < len(self._text) and (final or len(self._text) - begin > 2 * MAX_RECORD):
            yield begin, len(self._text)

    def _name(self, part: bytes) -> dict[str, Any]:
        written = _RUBY_TOKEN.sub(_write_json, part.decode("utf-8", "replace"))
        node = decode_loosely(written.strip().encode())
        return node if isinstance(node, dict) else {"unread": part}


def _write_json(match: re.Match[str]) -> str:
    if match["string"] is not None:
        return _RUBY_ESCAPE.sub(_write_escape, match[0])
    if match["arrow"]:
        return ":"
    if match["index"]:
        return ""
    return "null" if match["nil"] else f'"{match[0]}"' if match["time"] else '""'


def _write_escape(match: re.Match[str]) -> str:
    return "\\u001b" if match[1] == "e" else match[1]


class _Text(NamedTuple):
    """A part of a text as it is in the file: its place, and whether it has references."""

    offset: int
    line: int
    raw: bytes
    escaped: bool


class _Texts(tuple[_Text, ...]):
    """What an element holds besides elements."""

    __slots__ = ()

    @property
    def whole(self) -> str:
        parts = (_undo_references(one.raw) if one.escaped else one.raw for one in self)
        return b"".join(parts).decode("utf-8", "replace")

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the lines, each with its place."""
        begun: tuple[int, int, bytes] | None = None
        for one in self:
            at = one.offset
            for number, raw in enumerate(one.raw.splitlines(keepends=True), one.line):
                text = _undo_references(raw) if one.escaped else raw
                begun = (begun[0], begun[1], begun[2] + text) if begun else (at, number, text)
                if raw.endswith(b"\n"):
                    yield begun
                    begun = None
                at += len(raw)
        if begun:
            yield begun


@dataclass
class _Element:
    """An element that is still open: what it holds, by name."""

    name: bytes
    label: str
    offset: int
    line: int
    given: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    texts: list[_Text] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, label: str, value: Any) -> None:
        """Add what an inner element holds."""
        self.count += 1
        if label in self.values:
            known = self.values[label]
            self.values[label] = [*known, value] if isinstance(known, list) else [known, value]
        else:
            self.values[label] = value


class XmlDocument:
    """Reads elements of any names, from the inside out; a broken document as far as it goes.

    Nothing is looked up, and no reference but those to characters is followed.
    """

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Read elements by the first reader that knows them."""
        self.readers = readers
        self.unread_lines = 0
        self._text = b""
        self._offset = 0
        # What ends the text that is read as it is, or the comment that is not read.
        self._until = b""
        self._stack: list[_Element] = []
        self._lines = LineNumbers()
        self._pieces: list[Piece] = []
        # The names of elements that held records.
        self._of_records: set[bytes] = set()
        # Those in which lines of a log stood, and the names of what they stood in.
        self._of_lines: set[tuple[bytes, str]] = set()

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""
        self._text += block
        self._lines.add(block)
        done = self._read_tokens(final=final)
        while final and self._stack:
            self._end(len(self._text))
        self._text = self._text[done:]
        self._offset += done
        self._lines.forget(self._offset)
        pieces, self._pieces = self._pieces, []
        return pieces

    def _read_tokens(self, *, final: bool) -> int:
        """Read what is whole; return where the rest begins."""
        at, text = 0, self._text
        while at < len(text):
            stop = text.find(self._until, at) if self._until else _find_tag(text, at)
            if stop < 0:
                # What ends it may be cut; whole lines can be taken.
                whole = final or len(text) - at > MAX_RECORD
                stop = len(text) if whole else max(at, text.rfind(b"\n", at) + 1)
                self._add_text(at, text[at:stop])
                return stop
            self._add_text(at, text[at:stop])
            at = stop
            if self._until:
                at += len(self._until)
                self._until = b""
                continue
            if len(text) - at < len(_CDATA) and not final:
                return at
            opening = next((one for one in _UNTIL if text.startswith(one, at)), None)
            if opening:
                self._until, at = _UNTIL[opening], at + len(opening)
                continue
            found = _TAG.match(text, at, at + _LONGEST_TAG)
            if found is None:
                if not final and len(text) - at < _LONGEST_TAG:
                    return at
                # A sign that begins nothing is text.
                self._add_text(at, b"<")
                at += 1
                continue
            at = found.end()
            if found["name"]:
                self._take_tag(found)
        return at

    def _take_tag(self, tag: re.Match[bytes]) -> None:
        name, at = tag["name"], self._offset + tag.start()
        if tag["end"]:
            if any(one.name == name for one in self._stack):
                while self._stack[-1].name != name:
                    self._end(tag.start())
                self._end(tag.end())
            return
        if len(self._stack) >= _MAX_DEPTH:
            return
        given = {
            key.rpartition(b":")[2].decode(): _undo_references(one or two).decode(
                "utf-8", "replace"
            )
            for key, one, two in _ATTRIBUTE.findall(tag["more"])
        }
        # What names what an element holds stands first; other names belong to what it is.
        first = next(iter(given), "")
        label = given[first] if first in _LABELS else ""
        local = name.rpartition(b":")[2].decode()
        self._stack.append(_Element(name, label or local, at, self._lines.number(at), given))
        if tag["more"].rstrip().endswith(b"/"):
            self._end(tag.end())

    def _add_text(self, at: int, text: bytes) -> None:
        if not self._stack or not text or self._until == _COMMENT_END:
            return
        one, offset = self._stack[-1], self._offset + at
        one.texts.append(_Text(offset, self._lines.number(offset), text, not self._until))
        one.size += len(text)
        if one.size > MAX_RECORD:
            # No record is so long: these are lines, or nothing.
            self._give_lines(one)

    def _end(self, at: int) -> None:
        """Close the innermost element, which ends before an offset of the text."""
        one = self._stack.pop()
        texts = _Texts(one.texts)
        value: Any = texts
        if not one.values and not any(part.raw.strip() for part in one.texts):
            value = {
                key: int(text) if _NUMBER.fullmatch(text) else text
                for key, text in one.given.items()
            }
        elif one.values:
            value = self._close(one, at)
        if value is None:
            return
        if self._stack:
            above = self._stack[-1]
            above.add(one.label, value)
            above.size += one.size
            if above.count > _MAX_VALUES or above.size > MAX_RECORD:
                self._give_lines(above)
        else:
            self._give_lines(one)

    def _close(self, one: _Element, at: int) -> Any:
        """Return what an element with others in it holds; None if it was a record."""
        values = [*one.values.values()]
        said = any(part.raw.strip() for part in one.texts)
        if len(values) == 1 and not said and not one.given.keys() - {*_LABELS}:
            return values[0]
        node = {**one.given, **_to_plain(one.values)}
        for reader in self.readers:
            told = reader.read(node)
            if told is not None:
                last = self._lines.number(max(one.offset, self._offset + at - 1))
                piece = make_piece(one.offset, (one.line, last), told)
                if piece.whole:
                    self._of_records.add(one.name)
                if one.name in self._of_records:
                    # Lines below a record stand in elements of the same name.
                    self._pieces.append(piece)
                    return None
        self._give_lines(one)
        return node

    def _give_lines(self, one: _Element) -> None:
        """Give the lines of all texts of an element in which records stand, and forget the rest."""
        waiting: list[tuple[str, Any]] = [*one.values.items(), ("", _Texts(one.texts))]
        for label, some in waiting:
            parts = some if type(some) is list else [some]
            found = [part for part in parts if type(part) is _Texts]
            # Of elements with one name some hold lines below the record of another.
            known = (one.name, label) in self._of_lines
            known |= one.name in self._of_records and not one.values
            if not known and not any(
                begins_record(line) for texts in found for line in _cut(texts.whole)
            ):
                continue
            self._of_records.add(one.name)
            self._of_lines.add((one.name, label))
            for texts in found:
                for offset, line, text in texts.lines():
                    plain = text.rstrip(b"\r\n")
                    whole = begins_record(plain[:_LOOKS_IN].decode("utf-8", "replace"))
                    self._pieces.append(Piece(offset, line, line, plain, whole=whole))
        one.values, one.texts, one.count, one.size = {}, [], 0, 0


def _find_tag(text: bytes, at: int) -> int:
    found = _TAG_BEGINS.search(text, at)
    return found.start() if found else -1


def _cut(text: str) -> Iterator[str]:
    """Yield the beginnings of the first lines of a text."""
    for line in text[:_SEARCHED].split("\n")[:_FIRST_LINES]:
        yield line[:_LOOKS_IN]


def _to_plain(value: Any) -> Any:
    if isinstance(value, _Texts):
        return value.whole
    if type(value) is dict:
        return {key: _to_plain(one) for key, one in value.items()}
    return [_to_plain(one) for one in value] if type(value) is list else value


def _undo_references(text: bytes) -> bytes:
    if b"&" not in text:
        return text
    return html.unescape(text.decode("utf-8", "replace")).encode("utf-8", "replace")
