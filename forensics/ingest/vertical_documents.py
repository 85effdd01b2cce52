"""Finds records that are printed as fields, each on lines of its own.

Collectors and stores print so for people: the journal with `-o verbose`, OpenTelemetry's debug
exporter, databases in their vertical form. No program's names are known here: what comes back
once with every record is learnt from the head of the file, and says where a message ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from forensics.ingest.document_records import LinedDocument, Piece, make_piece
from forensics.ingest.field_inference import Recorder, find_message, learn_nodes, with_name
from forensics.ingest.json_objects import ObjectReader, is_stamp, is_whole_record
from forensics.ingest.json_wrappers import decode_loosely
from forensics.ingest.record_starts import MAX_RECORD

_FIELD = re.compile(
    rb"([ \t]*(?:-> )?)([A-Za-z_@][\w.@$ /-]{0,60}?)[ \t]*"
    rb"(=|:(?=[ \t\r\n]|$)|\|(?= ))(?:(?<=:) *| ?)"
)
# A field whose value begins with a date; most files have none. A break is found sooner than the
# beginning of a line.
_LIKELY = re.compile(
    rb"\n[ \t]*[A-Za-z_@][\w.@$ /-]{0,60}?[ \t]*(?:=|: +|\| )(?:[A-Z]\w*\()?\W{0,3}"
    rb"[0-9][^\n]{0,24}?[0-9]:[0-9]{2}:[0-9]{2}"
)
_TYPED = re.compile(rb"[A-Z][A-Za-z]*\(")
_DIGITS = re.compile(rb"[0-9]+")
_ZONE = re.compile(r" \+0000(?: UTC)?$")
_SHAPE = 16
_MIN_RECORDS, _MIN_KEYS, _REGULAR, _OFTEN = 3, 2, 0.9, 0.1
_MAX_FIELDS, _REACH = 256, 200
# Names that end at the same place begin at different ones.
_ALIGNED = 16

# What a line is: the name of a field and its sign, or the shape of any other line.
_Key = tuple[bytes, bytes]


def _split(line: bytes) -> tuple[_Key, bytes, int] | None:
    """Split a line of a field into its key, its name and the place of its value."""
    found = _FIELD.match(line)
    if found is None:
        return None
    return (_DIGITS.sub(b"0", found[2]), found[3]), found[2], found.end()


def _key(line: bytes) -> _Key:
    field = _split(line)
    if field is not None:
        return field[0]
    return _DIGITS.sub(b"0", line.strip())[:_SHAPE], b""


@dataclass(frozen=True)
class FieldForm:
    """How records are printed as fields: which field is the message, what begins and ends it."""

    message: _Key
    name: str
    starts: _Key
    # What comes once with every record, and what also ends a message.
    regular: frozenset[_Key]
    ends: frozenset[_Key]
    # Values stand in brackets behind the name of their type.
    typed: bool


def find_form(head: bytes, loggers: Collection[str] = ()) -> FieldForm | None:
    """Learn from the head of a file how its records are printed as fields, if they are."""
    if not _LIKELY.search(b"\n" + head):
        return None
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()]
    keys = [_key(line) for line in lines]
    message = _find_message(lines, keys, loggers)
    if message is None:
        return None
    places = [at for at, key in enumerate(keys) if key == message]
    own = sum(is_whole_record(line[:_REACH].decode("utf-8", "replace")) for line in lines)
    if len(places) < _MIN_RECORDS or 2 * own > len(places):
        return None
    gaps = [Counter(keys[a + 1 : b]) for a, b in zip(places, places[1:], strict=False)]
    once = Counter(key for gap in gaps for key, times in gap.items() if times == 1)
    often = {key for gap in gaps for key, times in gap.items() if times > 1}
    regular = {key for key, times in once.items() if times >= _REGULAR * len(gaps)}
    if len(regular) < _MIN_KEYS:
        return None
    first = lines[places[0]]
    indent = len(first) - len(first.lstrip())
    ends = {
        key
        for line, key in zip(lines, keys, strict=True)
        if once[key] >= _OFTEN * len(gaps) and key not in often and key[1] == message[1]
        and abs(len(line) - len(line.lstrip()) - indent) <= _ALIGNED
    }  # fmt: skip
    order = [key for key in keys[: places[1]] if key in regular]
    headers = [key for key in order if not key[1]]
    if any(shape.startswith(b"---") for shape, _ in headers) and _is_yaml(lines):
        # Documents of YAML have rules of their own.
        return None
    field = _split(first)
    name = field[1].decode("utf-8", "replace") if field else ""
    typed = all(_TYPED.match(_raw_value(lines[at])) for at in places)
    starts = order[0] if message != keys[0] or not order else message
    starts = next((key for key in order if not key[1] and keys.index(key) < places[0]), starts)
    return FieldForm(message, name, starts, frozenset(regular), frozenset(ends | regular), typed)


def _is_yaml(lines: Sequence[bytes]) -> bool:
    return any(line.rstrip() == b"---" for line in lines)


def _find_message(
    lines: Sequence[bytes], keys: Sequence[_Key], loggers: Collection[str]
) -> _Key | None:
    """Find the field of the message: the one of whole records, or by what the others hold."""
    holding: Counter[_Key] = Counter()
    values: dict[_Key, list[str]] = {}
    for line, key in zip(lines, keys, strict=True):
        if key[1]:
            value = _value(line).decode("utf-8", "replace")
            values.setdefault(key, []).append(value)
            holding[key] += is_whole_record(value)
    holding = +holding
    if holding:
        # In two fields it would be the prefix of a collector, with the name of who wrote a line.
        return next(iter(holding)) if len(holding) == 1 else None
    times = [
        key for key, some in values.items() if sum(map(is_stamp, some)) >= _REGULAR * len(some)
    ]
    count = max((len(values[key]) for key in times), default=0)
    if count < _MIN_RECORDS:
        return None
    # What comes as often as the time may be a part of the record.
    names = {key: some for key, some in values.items() if len(some) >= _REGULAR * count}
    nodes = [
        {repr(key): some[at] for key, some in names.items() if at < len(some) and some[at]}
        for at in range(count)
    ]
    path = find_message(nodes, loggers)
    return next((key for key in names if repr(key) == path), None)


def _raw_value(line: bytes) -> bytes:
    field = _split(line)
    return line[field[2] :].strip() if field else b""


def _value(line: bytes) -> bytes:
    value = _raw_value(line)
    typed = _TYPED.match(value)
    return value[typed.end() :] if typed else _unquote(value)


class FieldsDocument(LinedDocument):
    """Reads records that are printed as fields.

    What stands between the end of one record and the begin of the next, such as the attributes of
    a resource, belongs to all records below it.
    """

    def __init__(self, readers: Sequence[ObjectReader], form: FieldForm | None = None) -> None:
        """Begin before the first line."""
        super().__init__(readers)
        self.form = form
        self._fields: dict[str, str] = {}
        self._around: dict[str, str] = {}
        self._new_around: dict[str, str] = {}
        self._missing: set[_Key] = set()
        self._outside = True
        # The lines of the message, and where it begins.
        self._message: list[bytes] = []
        self._place: tuple[int, int, int] | None = None
        self._width = 0
        self._open = False

    def renew(self, readers: Sequence[ObjectReader]) -> FieldsDocument:
        """Return a document of the same form that was fed nothing."""
        return FieldsDocument(readers, self.form)

    def _take(self, line: bytes, pieces: list[Piece]) -> None:
        form = self.form
        if form is None:
            return
        field = _split(line)
        key = field[0] if field else _key(line) if line.strip() else None
        if key == form.starts or (key == form.message and self._place is not None):
            self._finish(pieces)
            self._outside, self._missing = False, set(form.regular)
        if key is not None:
            self._missing.discard(key)
        if key == form.message and field is not None:
            self._place = (self._offset, self._number, self._number)
            self._message, self._width, self._open = [line[field[2] :]], field[2], True
            return
        if self._open and key not in form.ends:
            self._add_below(line)
            return
        self._open = False
        if key is None:
            return
        if self._place is not None and not self._missing and key not in form.regular:
            self._outside = True
        if field is not None:
            name, value = field[1].decode("utf-8", "replace"), _read_value(line, field[2])
            into = self._new_around if self._outside else self._fields
            if value and len(into) < _MAX_FIELDS:
                into[name] = value

    def _add_below(self, line: bytes) -> None:
        """Add a later line of a message, without what was put before it."""
        assert self._place is not None
        if self.form is not None and self.form.message[1] == b"|":
            line = re.sub(rb"^[ \t]*\| ?", b"", line)
            self._message[-1] = re.sub(rb"[ \t]*\+$", b"", self._message[-1])
        elif line[: self._width].isspace() and len(line) > self._width:
            line = line[self._width :]
        size = self._offset - self._place[0]
        if size <= MAX_RECORD:
            self._message.append(line)
            self._place = (self._place[0], self._place[1], self._number)

    def _finish(self, pieces: list[Piece]) -> None:
        """Give out the record that ends here."""
        if self._place is not None and self.form is not None:
            offset, first, last = self._place
            text = b"\n".join(self._message).rstrip(b"\n")
            typed = _TYPED.match(text) if self.form.typed else None
            if typed and text.endswith(b")"):
                text = text[typed.end() : -1]
            text = _unquote(text)
            node: dict[str, Any] = {
                **self._fields, self.form.name: text.decode("utf-8", "replace")
            }  # fmt: skip
            for reader in self.readers:
                told = reader.read(node, self._around)
                if told is not None:
                    pieces.append(make_piece(offset, (first, last), told))
                    break
            else:
                self.unread_lines += last - first + 1
        if self._new_around:
            self._around = self._new_around
        self._fields, self._new_around = {}, {}
        self._place, self._message, self._open = None, [], False


def _read_value(line: bytes, at: int) -> str:
    value = line[at:].strip()
    typed = _TYPED.match(value)
    if typed and value.endswith(b")"):
        value = value[typed.end() : -1]
    value = _unquote(value)
    return _ZONE.sub("Z", value.decode("utf-8", "replace"))


def _unquote(value: bytes) -> bytes:
    """Return what stands in quotes, as TOML and others write texts."""
    if len(value) > 1 and value[:1] == b'"' == value[-1:]:
        read = decode_loosely(value)
        return read.encode("utf-8", "replace") if isinstance(read, str) else value
    return value


def find_fields(
    head: bytes, readers: Sequence[ObjectReader], loggers: Collection[str] = ()
) -> FieldsDocument | None:
    """Read a file as records printed as fields, if its head shows them."""
    form = find_form(head, loggers)
    if form is None:
        return None
    recorders = [Recorder(with_name(reader, "message", form.name)) for reader in readers]
    FieldsDocument(recorders, form).feed(head, final=False)
    learnt = [learn_nodes(one, loggers) or ObjectReader(one.names) for one in recorders]
    pieces = FieldsDocument(learnt, form).feed(head, final=False)
    if sum(piece.whole for piece in pieces) < _MIN_RECORDS:
        return None
    return FieldsDocument(learnt, form)
