r"""Finds the lines and the rows of a log in a page of HTML, and its lines in a text of RTF.

Logging libraries write tables of HTML, and people save what a browser or a word processor shows. A
row of a table is read as a JSON object is; any other text gives its lines.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from forensics.ingest.document_records import LineNumbers, Piece, make_piece
from forensics.ingest.json_objects import ObjectReader, has_own_time
from forensics.ingest.record_starts import MAX_RECORD
from forensics.ingest.time_formats import TIME_HINT

_HTML = re.compile(
    rb"(?i)(?:\s|<[?!][^>]*>)*<(?:html|head|body|table|pre|div|span|p|h[1-6]|ul|ol|br|meta)\b"
)
_RTF = b"{\\rtf"
_TIME = re.compile(rf"^.{{0,120}}?(?:{TIME_HINT})")
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b")
_LOOKS_IN = 240
# A tag, which holds no other, or text; a sign that begins no tag is text, too.
_HTML_TOKEN = re.compile(
    rb"<[?!][^<>]*>"
    rb"|<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9:-]*)"
    rb"(?P<more>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*)>"
    rb"|(?P<text>[^<]+|<)"
)
_COMMENT, _COMMENT_END = b"<!--", b"-->"
_ATTRIBUTE = re.compile(rb"(?i)\b(title|class)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_LONGEST_TAG = 64 << 10
# Such elements end a line where they begin and where they end.
_BLOCKS = frozenset(
    b"address article aside blockquote body br dd div dl dt footer form h1 h2 h3 h4 h5 h6"
    b" header hr li main nav ol option p section tbody tfoot thead ul".split()
)
_OF_TABLES = frozenset((b"table", b"tr", b"td", b"th"))
_UNSHOWN = frozenset((b"script", b"style", b"title", b"noscript", b"template"))
_PREFORMATTED = frozenset((b"pre", b"textarea"))
_FOLDED = re.compile(r"\s*\n\s*")
_MAX_CELLS = 64
# Control words, codes of characters, escaped signs, groups, line breaks of the file, text.
_RTF_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?[0-9]{1,10})? ?|\\'(?P<code>[0-9a-fA-F]{2})"
    rb"|\\(?P<sign>[^a-zA-Z])|(?P<group>[{}])|(?P<breaks>[\r\n]+)|(?P<text>[^\\{}\r\n]+)"
)
_RTF_LINES = frozenset((b"par", b"line", b"row", b"page", b"sect"))
_RTF_UNSHOWN = frozenset(
    b"fonttbl colortbl stylesheet info pict object header footer headerl headerr footerl footerr"
    b" listtable listoverridetable generator themedata datastore xmlnstbl".split()
)
_RTF_SIGNS = {
    b"tab": "\t", b"cell": "\t", b"emdash": "\u2014", b"endash": "\u2013", b"bullet": "\u2022",
    b"lquote": "\u2018", b"rquote": "\u2019", b"ldblquote": "\u201c", b"rdblquote": "\u201d",
}  # fmt: skip
_MAX_GROUPS = 256


def looks_like_html(head: bytes) -> bool:
    """Return True if a text begins as a page of HTML or a part of one does."""
    return _HTML.match(head) is not None


def looks_like_rtf(head: bytes) -> bool:
    """Return True if a text begins as RTF does."""
    return head.startswith(_RTF)


class _Markup(ABC):
    """What both have in common: tokens, and a line that is being written."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        self.readers = readers
        self.unread_lines = 0
        self._text = b""
        self._offset = 0
        self._lines = LineNumbers()
        self._pieces: list[Piece] = []
        self._line: list[str] = []
        self._size = 0
        self._place: tuple[int, int] | None = None

    def feed(self, block: bytes, *, final: bool) -> list[Piece]:
        """Take the next block; return the records that are whole now."""
        self._text += block
        self._lines.add(block)
        done = self._read_tokens(final=final)
        if final:
            self._finish()
        self._text = self._text[done:]
        self._offset += done
        self._lines.forget(self._offset)
        pieces, self._pieces = self._pieces, []
        return pieces

    @abstractmethod
    def _read_tokens(self, *, final: bool) -> int:
        """Read what is whole; return where the rest begins."""

    def _finish(self) -> None:
        self._end_line()

    def _number(self, at: int) -> tuple[int, int]:
        return self._offset + at, self._lines.number(self._offset + at)

    def _write(self, at: int, text: str) -> None:
        """Add to the line that is being written."""
        if self._place is None and text.strip():
            self._place = self._number(at)
        if self._size <= MAX_RECORD:
            self._line.append(text)
            self._size += len(text)

    def _clear(self) -> None:
        self._line, self._size, self._place = [], 0, None

    def _end_line(self) -> None:
        text, place = "".join(self._line).rstrip(), self._place
        self._clear()
        if text and place:
            self._give_line(place, text)

    def _give_line(self, place: tuple[int, int], text: str) -> None:
        offset, line = place
        whole = looks_like_record(text)
        text_bytes = text.encode("utf-8", "replace")[:MAX_RECORD]
        self._pieces.append(Piece(offset, line, line, text_bytes, whole=whole))


def looks_like_record(text: str) -> bool:
    """Return True if a time and a level stand near the beginning of a line.

    >>> looks_like_record("INFO 20261118-113745.421 main started"), looks_like_record("INFO 1")
    (True, False)
    """
    head = text[:_LOOKS_IN]
    return _TIME.search(head) is not None and _LEVEL.search(head) is not None


class HtmlDocument(_Markup):
    """Reads the rows of tables as records, and all other text line by line."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Read rows by the first reader that knows them."""
        super().__init__(readers)
        self._hidden = b""
        self._depth = 0
        self._header: list[str] = []
        # The cells of the row in question: their names, and what they hold.
        self._cells: list[tuple[str, str, bool]] | None = None
        self._cell: tuple[str, bool] | None = None
        self._row_place = (0, 1)

    def _read_tokens(self, *, final: bool) -> int:
        at, text = 0, self._text
        ended = True
        while at < len(text):
            # A tag, a comment or a reference may be cut.
            waits = not final and len(text) - at < _LONGEST_TAG
            if ended and text.startswith(_COMMENT, at):
                end = text.find(_COMMENT_END, at) + len(_COMMENT_END)
                ended = end >= len(_COMMENT_END)
                if not ended and waits:
                    break
                at = end if ended else at
                continue
            found = _HTML_TOKEN.match(text, at)
            if found is None or (waits and found.end() == len(text)):
                break
            self._take(at, found)
            at = found.end()
        return at

    def _take(self, at: int, token: re.Match[bytes]) -> None:
        if self._hidden:
            if token["end"] and token["name"].lower() == self._hidden:
                self._hidden = b""
        elif token["text"] is not None:
            self._take_text(at, token["text"])
        elif token["name"]:
            self._take_tag(at, token)

    def _take_text(self, at: int, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        if "&" in text:
            text = html.unescape(text)
        text = text.replace("\r\n", "\n").replace("\xa0", " ")
        if not self._depth and self._cell is None:
            self._write(at, _FOLDED.sub(" ", text) if self._line else _FOLDED.sub("", text))
            return
        first, *others = text.split("\n")
        self._write(at, first)
        # The places of later lines are those of their line breaks in the file.
        begin = 0
        for line in others:
            begin = raw.find(b"\n", begin) + 1
            self._break_line()
            self._write(at + begin, line)

    def _break_line(self) -> None:
        """End a line of a text, or of a cell."""
        if self._cell is not None:
            self._write(0, "\n")
        else:
            self._end_line()

    def _take_tag(self, at: int, tag: re.Match[bytes]) -> None:
        name, closes = tag["name"].lower(), bool(tag["end"])
        if name in _UNSHOWN:
            self._hidden = b"" if closes else name
        elif name in _OF_TABLES:
            self._take_tag_of_table(at, name, tag)
        elif name in _PREFORMATTED:
            self._depth = max(0, self._depth + (-1 if closes else 1))
            if self._cell is None:
                self._end_line()
        elif name in _BLOCKS and (self._line or self._cell is None):
            if self._cell is None:
                self._end_line()
            elif name == b"br" or closes:
                self._write(0, "\n")

    def _take_tag_of_table(self, at: int, name: bytes, tag: re.Match[bytes]) -> None:
        if name in (b"td", b"th"):
            self._end_cell()
            if not tag["end"] and self._cells is not None:
                self._cell = (_label(tag["more"]), name == b"th")
            return
        self._end_row(at)
        self._end_line()
        if name == b"table":
            self._header = []
        elif not tag["end"]:
            self._cells, self._row_place = [], self._number(at)

    def _end_cell(self) -> None:
        if self._cell is not None and self._cells is not None and len(self._cells) < _MAX_CELLS:
            self._cells.append((self._cell[0], "".join(self._line), self._cell[1]))
        if self._cell is not None:
            self._clear()
        self._cell = None

    def _end_row(self, at: int) -> None:
        self._end_cell()
        cells, self._cells = self._cells, None
        if not cells:
            return
        if all(is_head for *_, is_head in cells):
            self._header = [text.strip() for _, text, _ in cells]
            return
        node: dict[str, Any] = {}
        for number, (label, text, _) in enumerate(cells):
            named = self._header[number] if number < len(self._header) else ""
            if len(cells) != len(self._header):
                named = ""
            if text.strip():
                node[_unused(named or label or "column", number, node)] = text.strip("\n\r")
        last = self._lines.number(max(self._row_place[0], self._offset + at - 1))
        for reader in self.readers:
            told = reader.read({key: value.strip() for key, value in node.items()})
            if told is not None and (told.is_record or has_own_time(told.text)):
                span = (self._row_place[1], last)
                self._pieces.append(make_piece(self._row_place[0], span, told))
                return
        # Numbers of lines stand beside lines, and a stack trace below the record that it is of.
        texts = [text for text in node.values() if not text.strip().isdigit()]
        for line in "\t".join(texts).split("\n"):
            if line.strip():
                self._give_line(self._row_place, line.rstrip())

    def _finish(self) -> None:
        self._end_row(len(self._text))
        self._end_line()


def _label(attributes: bytes) -> str:
    """Return what the attributes of a cell call it."""
    found = {key.lower(): one or two for key, one, two in _ATTRIBUTE.findall(attributes)}
    name = found.get(b"class") or found.get(b"title") or b""
    return name.decode("utf-8", "replace")[:_LOOKS_IN]


def _unused(name: str, number: int, node: Mapping[str, Any]) -> str:
    return name if name not in node and name != "column" else f"{name} {number + 1}"


class RtfDocument(_Markup):
    """Reads the lines of a text as word processors store it."""

    def __init__(self, readers: Sequence[ObjectReader]) -> None:
        """Begin before the first group."""
        super().__init__(readers)
        # For each open group whether it is shown; how many signs stand for one character.
        self._shown = [True]
        self._beyond = 0
        self._skips = 1
        self._skip = 0

    def _read_tokens(self, *, final: bool) -> int:
        at, text = 0, self._text
        while at < len(text):
            found = _RTF_TOKEN.match(text, at)
            if found is None:
                if not final and len(text) - at < len(b"\\'00"):
                    break
                at += 1
                continue
            if found.end() == len(text) and not final:
                break
            self._take(at, found)
            at = found.end()
        return at

    def _take(self, at: int, token: re.Match[bytes]) -> None:
        if token["group"]:
            self._take_group(token["group"])
        elif token["word"]:
            self._take_word(at, token["word"], token["number"])
        elif token["sign"] == b"*":
            self._shown[-1] = False
        elif token["sign"] in (b"\n", b"\r"):
            self._end_line()
        elif token["sign"] in (b"~", b"_", b"-"):
            self._add(at, {b"~": " ", b"_": "-"}.get(token["sign"], ""))
        elif token["code"]:
            self._add(at, bytes.fromhex(token["code"].decode()).decode("cp1252", "replace"))
        elif token["sign"] or token["text"]:
            raw = token["sign"] or token["text"]
            self._add(at, raw.decode("utf-8", "replace"))

    def _take_group(self, sign: bytes) -> None:
        if sign == b"{":
            if len(self._shown) < _MAX_GROUPS:
                self._shown.append(self._shown[-1])
            else:
                self._beyond += 1
        elif self._beyond:
            self._beyond -= 1
        elif len(self._shown) > 1:
            self._shown.pop()

    def _take_word(self, at: int, word: bytes, number: bytes | None) -> None:
        if word in _RTF_UNSHOWN:
            self._shown[-1] = False
        elif word in _RTF_LINES and self._shown[-1]:
            self._end_line()
        elif word in _RTF_SIGNS:
            self._add(at, _RTF_SIGNS[word])
        elif word == b"uc":
            self._skips = max(0, int(number or b"1"))
        elif word == b"u" and number is not None:
            self._add(at, chr(int(number) % 0x10000).encode("utf-8", "replace").decode())
            self._skip = self._skips

    def _add(self, at: int, text: str) -> None:
        # After a character by its number stands one for readers that do not know it.
        skipped = min(self._skip, len(text))
        self._skip -= skipped
        if self._shown[-1] and text[skipped:]:
            self._write(at, text[skipped:])
