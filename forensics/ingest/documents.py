"""Files that hold records in another way than one a line: documents, tables, or newest lines first.

Such a file is read from its begin to its end by one task. Its records become the lines of a text,
which is then read as any log is; each event keeps the place in the file where its record stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from forensics.ingest.csv_documents import (
    DrawnTable,
    JournalDocument,
    TableDocument,
    find_drawn_table,
    find_table,
)
from forensics.ingest.document_records import (
    Document,
    FramedDocument,
    LinedDocument,
    Piece,
    line_time,
    looks_framed,
)
from forensics.ingest.field_inference import (
    GUESSED_ROLE,
    Recorder,
    find_writer_field,
    learn_nodes,
    with_name,
)
from forensics.ingest.json_documents import SECTION, JsonDocument
from forensics.ingest.json_objects import ObjectReader
from forensics.ingest.json_wrappers import JsonWrapper, decode_object
from forensics.ingest.markup_documents import (
    HtmlDocument,
    RtfDocument,
    looks_like_html,
    looks_like_rtf,
)
from forensics.ingest.record_splitter import LineCounts, Records, TakenLines
from forensics.ingest.record_starts import HEAD_BYTES, MAX_RECORD, PADDING
from forensics.ingest.separator_patterns import common_prefix
from forensics.ingest.time_formats import TIME_HINT
from forensics.ingest.vertical_documents import FieldsDocument, find_fields
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.xml_yaml_documents import (
    RubyDocument,
    XmlDocument,
    YamlDocument,
    looks_like_ruby,
    looks_like_xml,
    looks_like_yaml,
)

# Before each line of the text stands who wrote it; rules/wrappers/document.yaml takes it off.
_MARK = b"\x01"
# The text is handed on in blocks of this size, wherever the blocks of the file end.
_BLOCK = 4 << 20
# So much is held back of a file whose newest record comes first, to turn it around.
_MAX_HELD = 256 << 20
# So many moments that differ tell in which order a file is written.
_ENOUGH = 32
_SAMPLE = 24
# An object begins on one of so many lines, if the file has any.
_FIRST_LINES = 64
# So many bytes of a file that has an object a line are looked at.
_FEW_OBJECTS = 32 << 10
# So many records under one key are no accident.
_FEW = 3
_BEFORE_OBJECT = b"\xef\xbb\xbf \t\r["
_JOURNAL = b"__CURSOR="
# What a record begins with behind a collector's time or none, and how Kafka's end.
_HEAD = re.compile(
    rb"[0-9]:[0-9]{2}:[0-9]{2}[^\n]{0,40}?\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b"
)
_HEAD_REACH = 300
_WHOLE = re.compile(rb"\([\w.$-]+\)[ \t]*\r?$")
_FRAME = re.compile(rb"(?:^|\s)at [\w.$/@]+\(")
_NEARLY_ALL, _MANY = 0.95, 4
# Lines are broken at such widths, and so many of them are full.
_NEWLINE = ord("\n")
_NARROWEST, _WIDEST, _FULL_SHARE, _MANY_FULL, _OPENED = 40, 1024, 0.02, 8, 0.2
# So many breaks are within words, and so many of the lines behind them begin each in its own way.
_WITHIN_WORDS, _BEGUN, _UNLIKE = 0.45, 5, 0.12
_TIMED = re.compile(rf".{{0,40}}?(?:{TIME_HINT})")
# Signs that are escaped where all of them are; quotes are so in strings, too.
_ESCAPED_SIGNS, _ALWAYS = b"[](),:.=-_*#|<>!+'\"&;$", 0.98
_PERCENT = re.compile(rb"%([0-9A-F]{2}|0a|[2-7][a-f])")
_ESCAPES = (b"\\", b"|", b"^", b"`")
# What is held of a piece beside its text.
_PIECE_BYTES = 300


class Splitter(Protocol):
    """Splits the blocks of a file into records."""

    counts: LineCounts
    done: bool
    # the lines that the last block completed
    taken: list[TakenLines]

    def feed(self, block: bytes, *, final: bool = False) -> Records | None:
        """Take the next block; return the records that are complete now, if any."""


_PRINTED: tuple[tuple[Callable[[bytes], bool], type[Document]], ...] = (
    (looks_like_xml, XmlDocument),
    (looks_like_html, HtmlDocument),
    (looks_like_rtf, RtfDocument),
    (looks_like_ruby, RubyDocument),
    (looks_like_yaml, YamlDocument),
)


def find_document(
    head: bytes, wrappers: Sequence[Wrapper], loggers: Collection[str] = ()
) -> Document | None:
    """Find how a file must be read as a whole, by its head; None if it is read line by line.

    `loggers` are the last parts of the names of Kafka's loggers.
    """
    readers = [one.reader for one in wrappers if type(one) is JsonWrapper]
    head = head[:HEAD_BYTES]
    document = _judge(head, readers, loggers) if readers else None
    if document is None:
        return None
    recorders = [Recorder(reader) for reader in document.readers]
    renew(document, recorders).feed(head, final=True)
    found = [find_writer_field(one.seen) for one in recorders]
    named = [
        with_name(reader, GUESSED_ROLE, field) if field else reader
        for reader, field in zip(document.readers, found, strict=True)
    ]
    return renew(document, named)


def _learn(
    document: Document, head: bytes, loggers: Collection[str]
) -> tuple[Document, list[Piece]]:
    """Find what the fields of a document hold by their values, where names do not tell.

    Return a document that reads by them and was fed the head, and what that gave.
    """
    recorders = [Recorder(reader) for reader in document.readers]
    fed = renew(document, recorders)
    pieces = fed.feed(head, final=True)
    learnt = [learn_nodes(one, loggers) for one in recorders]
    if any(learnt):
        fed = renew(
            document, [new or old for new, old in zip(learnt, document.readers, strict=True)]
        )
        pieces = fed.feed(head, final=True)
    else:
        fed.readers = document.readers
    return fed, pieces


def renew(document: Document, readers: Sequence[ObjectReader]) -> Document:
    """Return a document of the same kind that was fed nothing."""
    if isinstance(
        document, DrawnTable | TableDocument | FieldsDocument | WrappedLines | UnescapedLines
    ):
        return document.renew(readers)
    return type(document)(readers)


def preview(document: Document, head: bytes) -> bytes:
    """Return the text that the head of a document gives."""
    pieces = document.feed(head[:HEAD_BYTES], final=True)
    if _is_newest_first(pieces):
        pieces.reverse()
    return b"".join(map(_to_text, pieces))[:HEAD_BYTES]


def _judge(
    head: bytes, readers: Sequence[ObjectReader], loggers: Collection[str]
) -> Document | None:
    if head.startswith(_JOURNAL) or looks_framed(head):
        return (JournalDocument if head.startswith(_JOURNAL) else FramedDocument)(readers)
    if (lines_of := _find_lines_document(head, readers)) is not None:
        return lines_of
    for looks, printed in _PRINTED:
        if looks(head):
            document, pieces = _learn(printed(readers), head, loggers)
            whole = any(piece.whole for piece in pieces)
            if whole and 2 * document.unread_lines <= head.count(b"\n"):
                return printed(document.readers)
    fields = find_fields(head, readers, loggers)
    if fields is not None:
        return fields
    lines = head.split(b"\n", _FIRST_LINES)
    if any(line.lstrip(_BEFORE_OBJECT)[:1] == b"{" for line in lines[:_FIRST_LINES]):
        if by_line := _are_objects(lines[:_SAMPLE]):
            # A few objects of a line each tell all that a long head would.
            head = head[: head.find(b"\n", _FEW_OBJECTS) + 1] or head
        document, pieces = _learn(JsonDocument(readers), head, loggers)
        is_document = _is_document(head, document.readers, pieces, by_line=by_line)
        return JsonDocument(document.readers) if is_document else None
    table = find_table(head, readers, loggers) or find_drawn_table(head, readers, loggers)
    return table or (LinesDocument(readers) if _is_turned(head) else None)


def _find_lines_document(head: bytes, readers: Sequence[ObjectReader]) -> Document | None:
    """Read lines that were broken, or in which signs were escaped, as they were before."""
    if width := _wrapped_width(head):
        return WrappedLines(readers, width)
    if len(_PERCENT.findall(head)) > _MANY * head.count(b"\n") >= _FEW:
        return UnescapedLines(readers, b"%")
    for escape in _ESCAPES:
        if signs := _escaped_signs(head, escape):
            return UnescapedLines(readers, signs, escape)
    return None


def _is_turned(head: bytes) -> bool:
    """Return True if the newest line comes first, line by line, not record by record.

    Two things prove it: lines below a record have a collector's time of their own, or stand above
    the record that they belong to.
    """
    lines = head.split(b"\n")[:-1]
    first, last = (next(filter(None, map(line_time, some)), 0) for some in (lines, lines[::-1]))
    # Of nearly all files no more than two lines are read here.
    if first <= last:
        return False
    lines = [line for line in lines if line.strip()]
    if not _is_newest_first([Piece(0, 1, 1, line) for line in lines]):
        return False
    timed = [line_time(line) is not None for line in lines]
    heads = [bool(_HEAD.search(line, 0, _HEAD_REACH)) for line in lines]
    others = [line for line, is_head in zip(lines, heads, strict=True) if not is_head]
    if sum(timed) >= _NEARLY_ALL * len(lines):
        return len(others) - len(lines) + sum(timed) >= _FEW
    firsts = [at for at, is_head in enumerate(heads) if is_head]
    above = below = 0
    for one, two in zip(firsts, firsts[1:], strict=False):
        if two - one == 1 or any(timed[one + 1 : two]):
            continue
        opens = [not _WHOLE.search(lines[at]) for at in (one, two)]
        if opens[0] == opens[1]:
            # The frames of a stack trace stand below its exception.
            opens = [not _FRAME.search(lines[at]) for at in (one + 1, two - 1)]
        if opens[0] != opens[1]:
            below, above = below + opens[0], above + opens[1]
    return above > _MANY * below


class LinesDocument(LinedDocument):
    """Lines as they are; those with a time fall, so that they are turned around."""

    def _take(self, line: bytes, pieces: list[Piece]) -> None:
        if line.strip():
            pieces.append(Piece(self._offset, self._number, self._number, line))

    def _finish(self, pieces: list[Piece]) -> None:
        """Nothing is held back."""


class WrappedLines(LinedDocument):
    """Lines as a terminal or a form broke them: one that is full goes on in the next."""

    def __init__(self, readers: Sequence[ObjectReader], width: int = 0) -> None:
        """Begin before the first line; full lines are of one width, in characters."""
        super().__init__(readers)
        self._width = width
        self._open: Piece | None = None

    def renew(self, readers: Sequence[ObjectReader]) -> WrappedLines:
        """Return a document of the same width that was fed nothing."""
        return WrappedLines(readers, self._width)

    def _take(self, line: bytes, pieces: list[Piece]) -> None:
        piece = Piece(self._offset, self._number, self._number, line)
        if self._open is not None and _TIMED.match(line.decode("utf-8", "replace")):
            # The record above was just as long as a line; a new one begins.
            pieces.append(self._open)
            self._open = None
        if self._open is not None:
            piece = self._open._replace(last=self._number, text=self._open.text + line)
            self._open = None
        full = len(line.decode("utf-8", "replace")) == self._width
        if full and len(piece.text) < MAX_RECORD:
            self._open = piece
        elif piece.text.strip():
            pieces.append(piece)

    def _finish(self, pieces: list[Piece]) -> None:
        if self._open is not None:
            pieces.append(self._open)


def _wrapped_width(head: bytes) -> int:
    """Return the width at which the lines of a text were broken; 0 if they were not.

    Many lines are just as long, none is longer, and hardly a record begins below them.
    """
    data = np.frombuffer(head, np.uint8)
    lengths = np.diff(np.flatnonzero(data == _NEWLINE), prepend=-1) - 1
    if len(lengths) < _SAMPLE or not _NARROWEST <= lengths.max() <= _WIDEST:
        return 0
    # Only lines of other characters are longer in bytes.
    if 2 * int((lengths == lengths.max()).sum()) < _FULL_SHARE * len(lengths):
        return 0
    lines = [line.rstrip("\r") for line in head.decode("utf-8", "replace").split("\n")[:-1]]
    width = max(map(len, lines))
    full = [at for at, line in enumerate(lines[:-1]) if len(line) == width]
    begun = sum(_TIMED.match(lines[at + 1]) is not None for at in full)
    # Frames of a stack trace may be as long as each other, too.
    different = len({lines[at] for at in full})
    opened = sum(_TIMED.match(lines[at]) is not None for at in full)
    if different < max(_MANY_FULL, _FULL_SHARE * len(lines)) or opened < _OPENED * len(full):
        return 0
    # Records that are only as long as each other end where texts end, or have the same below them;
    # a break comes anywhere, mostly within a word.
    next_ones = {lines[at + 1][:_BEGUN] for at in full}
    within = sum(lines[at][-1].isalnum() and lines[at + 1][:1].isalnum() for at in full)
    if within < _WITHIN_WORDS * len(full) or len(next_ones) < _UNLIKE * len(full):
        return 0
    return width if begun <= (1 - _NEARLY_ALL) * len(full) else 0


class UnescapedLines(LinedDocument):
    """Lines in which an escape stands before every sign of some kinds.

    In Markdown that is a backslash, in what TeamCity is told a bar.
    """

    def __init__(
        self, readers: Sequence[ObjectReader], signs: bytes = b"", escape: bytes = b"\\"
    ) -> None:
        """Begin before the first line."""
        super().__init__(readers)
        self._signs, self._sign = signs, escape
        # Where it is no backslash the escape itself is escaped, too, and so are line breaks.
        own = signs + (b"" if escape == b"\\" else escape + b"nr")
        pattern = rb"%b([%b])" % (re.escape(escape), re.escape(own))
        self._escape = re.compile(pattern) if signs else None

    def renew(self, readers: Sequence[ObjectReader]) -> UnescapedLines:
        """Return a document of the same signs that was fed nothing."""
        return UnescapedLines(readers, self._signs, self._sign)

    def _take(self, line: bytes, pieces: list[Piece]) -> None:
        if line.strip():
            text = self._escape.sub(_undo_escape, line) if self._escape else line
            if self._signs == b"%":
                plain = line if b" " in line else line.replace(b"+", b" ")
                text = _PERCENT.sub(lambda one: bytes((int(one[1], 16),)), plain)
            pieces.append(Piece(self._offset, self._number, self._number, text))

    def _finish(self, pieces: list[Piece]) -> None:
        """Nothing is held back."""


def _undo_escape(found: re.Match[bytes]) -> bytes:
    return {b"n": b"\n", b"r": b""}.get(found[1], found[1])


def _escaped_signs(head: bytes, escape: bytes) -> bytes:
    """Return the signs before which an escape always stands in a text.

    What stands before and behind all lines may have them, too.
    """
    if head.count(escape) < _SAMPLE:
        return b""
    inside = head
    if escape != b"\\":
        # Latin-1 keeps every byte as it is.
        lines = [line.rstrip("\r") for line in head.decode("latin-1").split("\n")[:-1] if line]
        front = len(common_prefix(lines))
        back = len(common_prefix([line[::-1] for line in lines]))
        inside = "\n".join(line[front : len(line) - back] for line in lines).encode("latin-1")
    found = b""
    for sign in _ESCAPED_SIGNS:
        one = bytes((sign,))
        count = inside.count(escape + one)
        if one != escape and count >= _SAMPLE and count >= _ALWAYS * inside.count(one):
            found += one
    return found if escape == b"\\" or len(found) > 1 else b""


def _are_objects(lines: Sequence[bytes]) -> bool:
    """Return True if each of some lines is an object."""
    for line in lines:
        try:
            if type(decode_object(line)) is not dict:
                return False
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
    return len(lines) == _SAMPLE


def _is_document(
    head: bytes, readers: Sequence[ObjectReader], sample: Sequence[Piece], *, by_line: bool
) -> bool:
    """Tell objects that take several lines, or hold many records, from those of a line each.

    `sample` is what the head gave; `by_line`: each of the first lines is an object.
    """
    lines = [line for line in head.split(b"\n")[:-1] if line.strip(b" \t\r[],")][:_SAMPLE]
    if SECTION.search(head):
        return True
    if not any(piece.whole for piece in sample):
        return False
    counts = Counter(piece.line for piece in sample) if by_line else None
    whole = [
        line
        for number, line in enumerate(lines, 1)
        if _is_whole(line, readers, counts[number] if counts is not None else None)
    ]
    if 2 * len(whole) <= len(lines) or not lines:
        return True
    return _is_newest_first(sample) or _takes_lines(head, sample)


def _takes_lines(head: bytes, sample: Sequence[Piece]) -> bool:
    """Return True if some object among those of a line each takes several, and is whole."""
    lines = head.split(b"\n")
    for piece in sample:
        if piece.last > piece.line:
            try:
                decode_object(b"\n".join(lines[piece.line - 1 : piece.last]))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            return True
    return False


def _is_whole(line: bytes, readers: Sequence[ObjectReader], count: int | None) -> bool:
    """Return True if a line holds one record, or none because it is text.

    `count` is how many pieces it gave, if that is known.
    """
    inside = line.strip(b" \t\r[,")
    if inside[:1] not in (b"{", b"}", b'"', b"]"):
        return True
    try:
        node = decode_object(inside.rstrip(b",]"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    known = isinstance(node, dict) and any(reader.read(node) for reader in readers)
    if known and count is None:
        count = len(JsonDocument(readers).feed(inside, final=True))
    return known and count == 1


def _to_text(piece: Piece) -> bytes:
    prefix = _MARK + piece.origin.replace(_MARK, b"").replace(b"\n", b" ") + _MARK
    return prefix + piece.text.replace(b"\n", b"\n" + prefix) + b"\n"


def _is_newest_first(pieces: Sequence[Piece]) -> bool:
    moments = [piece.sort_key for piece in pieces if piece.sort_key is not None]
    pairs = list(zip(moments, moments[1:], strict=False))
    falls, rises = (sum(b < a for a, b in pairs), sum(b > a for a, b in pairs))
    return falls > 2 * rises and falls >= min(3, len(pairs)) > 0


class DocumentSplitter:
    """Splits a document into records, as a RecordSplitter does with lines."""

    def __init__(self, document: Document, inner: Splitter, *, first: bool) -> None:
        """Read a document; all of it belongs to the first split."""
        self.counts = LineCounts()
        self.done = not first
        self.taken: list[TakenLines] = []
        self._document, self._inner = document, inner
        self._text = bytearray()
        # For each piece: the number of its first line in the text; its place, height and last line.
        self._firsts: list[int] = []
        self._places: list[tuple[int, int, int, int]] = []
        self._text_lines = 0
        self._waiting: list[Piece] = []
        self._held = 0
        self._newest_first: bool | None = None
        self._record_lines: set[int] = set()
        self._breaks = 0
        self._last = b"\n"

    def feed(self, block: bytes, *, final: bool = False) -> Records | None:
        """Take the next block; return the records that are complete now, if any."""
        self.taken = []
        if self.done:
            return None
        self.counts.bytes += len(block)
        self._breaks += block.count(b"\n")
        self._last = block[-1:] or self._last
        self._add(self._document.feed(block, final=final), final=final)
        found = self._split(final=final)
        if final:
            self._count()
        return found

    def _add(self, pieces: list[Piece], *, final: bool) -> None:
        """Put pieces into the text, in the order of time."""
        self._waiting += pieces
        self._held += sum(len(piece.text) + _PIECE_BYTES for piece in pieces)
        if self._newest_first is None and not final:
            known = {piece.sort_key for piece in self._waiting}
            if len(known) <= _ENOUGH and self._held < _MAX_HELD:
                return
        if self._newest_first is None:
            self._newest_first = _is_newest_first(self._waiting)
        if self._newest_first and not final and self._held < _MAX_HELD:
            return
        for piece in reversed(self._waiting) if self._newest_first else self._waiting:
            text = _to_text(piece)
            height = text.count(b"\n")
            self._firsts.append(self._text_lines + 1)
            in_lines = piece.last - piece.line + 1 == height
            own = height if in_lines else 1
            self._places.append((piece.offset, piece.line, own, piece.last))
            self._text_lines += height
            self._text += text
        self._waiting, self._held = [], 0

    def _split(self, *, final: bool) -> Records | None:
        parts: list[Records] = []
        while len(self._text) >= _BLOCK or final:
            block = bytes(self._text[:_BLOCK])
            del self._text[:_BLOCK]
            last = final and not self._text
            records = self._inner.feed(block, final=last)
            self.taken += map(self._place_taken, self._inner.taken)
            if records is not None:
                parts.append(self._place(records))
            if last or not self._text:
                break
        return _concat_records(parts) if len(parts) > 1 else (parts[0] if parts else None)

    def _place(self, records: Records) -> Records:
        """Give records the places that they have in the file."""
        firsts = np.array(self._firsts, np.int64)
        places = np.array(self._places, np.int64).reshape(-1, 4)
        begins = np.searchsorted(firsts, records.lines, "right") - 1
        ends = np.searchsorted(firsts, records.lines + records.heights - 1, "right") - 1
        lines = places[begins, 1]
        self._record_lines.update(lines.tolist())
        # A later line of a record stands on a line of its own only where the whole record does so.
        heights = np.where(begins == ends, places[begins, 2], 1)
        return replace(records, offsets=places[begins, 0], lines=lines, heights=heights)

    def _place_taken(self, taken: TakenLines) -> TakenLines:
        """Give lines of the text the lines of the file that they are from."""
        firsts = np.array(self._firsts, np.int64)
        places = np.array(self._places, np.int64).reshape(-1, 4)
        pieces = np.searchsorted(firsts, taken.numbers, "right") - 1
        numbers, lasts = places[pieces, 1], places[pieces, 3]
        return replace(taken, text=b"", numbers=numbers, lasts=lasts, is_document=True)

    def _count(self) -> None:
        """Count every line of the file once."""
        own, inner = self.counts, self._inner.counts
        own.lines = self._breaks + (self._last != b"\n")
        own.records = len(self._record_lines)
        others = own.lines - own.records
        unread = self._document.unread_lines + inner.unparsed_lines
        own.unparsed_lines = min(others, unread) if own.records else others
        own.continuation_lines = others - own.unparsed_lines
        own.stray_lines, own.long_lines = inner.stray_lines, inner.long_lines
        own.parted_lines = inner.parted_lines
        own.misread_lines, own.glued_lines = inner.misread_lines, inner.glued_lines
        own.layouts, own.forms = dict(inner.layouts), dict(inner.forms)
        # Many records may stand in one line of a document: each origin counts its own.
        for origin, counts in inner.origins.items():
            own.origins[origin] = dict.fromkeys(("lines", "records"), counts["records"])


def _concat_records(parts: Sequence[Records]) -> Records:
    """Put the records of several blocks into one buffer."""
    data = np.concatenate(
        [part.data[: len(part.data)] for part in parts] + [np.zeros(PADDING, np.uint8)]
    )
    shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    moved = {
        name: np.concatenate(
            [getattr(part, name) + shift for part, shift in zip(parts, shifts, strict=True)]
        )
        for name in ("starts", "heads", "ends")
    }
    same = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("offsets", "lines", "heights", "kinds")
    }
    origins = [part.origins for part in parts if part.origins is not None]
    together = pa.concat_arrays(origins) if len(origins) == len(parts) else None
    return Records(data=data, **moved, **same, origins=together)
