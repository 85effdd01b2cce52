"""Takes lines of logs out of JSON objects, one object a line.

Objects are parsed; of one that is cut off, what can still be read is read.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.field_inference import GUESSED_ROLE, find_writer_field, learn_fields
from forensics.ingest.json_objects import ObjectReader, ReadObject, find_line_path
from forensics.ingest.record_starts import MAX_RECORD, PADDING, Bytes
from forensics.ingest.text_buffer import TextBuffer, to_buffer, unescape
from forensics.ingest.wrapper_base import Wrapper

_OBJECT, _ARRAY = b"{", b"["
# What may stand before an object: the columns of Fluentd's files (time, tag), the tag and the time
# of Fluent Bit's, the time or the name in a list of Fluentd's protocol.
_BEFORE = re.compile(
    rb"(?:[^\s{}\"]{1,200}[ :]{1,2})?\[+\s*(?:[0-9.]+|\"[^\"\n]{0,200}\")\s*,\s*"
    rb"(?:\{\}\s*\]\s*,\s*)?(?=\{)|(?:[^\n\t{]{1,200}\t){1,3}(?=\{)"
)
_MARKS = b"\xef\xbb\xbf\x1e"
# The pairs of a cut object: keys and their strings or numbers. A string may have no end.
_PAIR = re.compile(
    rb'"((?:[^"\\\n]|\\.){1,128})"\s*:\s*(?:("(?:[^"\\\n]|\\[^\n])*(?:"|\\?\n?\Z))|(-?[0-9][0-9.]{0,30}))'
)
_PAIRS = re.compile(
    rb'^[A-Za-z_@][\w.@/-]*=(?:"(?:[^"\\\n]|\\[^\n])*"|[^\s"=]*)[ \t]+[A-Za-z_@][\w.@/-]*='
    rb"|^[A-Za-z_@][\w.@/-]*:[^\t\n]*(?:\t[A-Za-z_@][\w.@/-]*:[^\t\n]*){2}"
    rb"|^[^|\n]*\b(?:CEF|LEEF): ?[0-9.]+\|(?:[^|\n]*\|){4}[^\n]*[A-Za-z]="
)
# Pairs of labels between tabs (LTSV, LEEF), and those in which only a key ends a value (CEF).
_TABBED = re.compile(rb"(?:^|\t|\|)([A-Za-z_@][\w.@/-]*)[:=]([^\t\n]*)")
_HEADER = re.compile(rb"[^|\n]*\b(?:CEF|LEEF): ?[0-9.]+(?=\|)")
_EXTENDED = re.compile(rb"(?:^|[\s|])([A-Za-z][\w.]*)=")
_VALUE_ESCAPE = re.compile(r"\\([\\=|nrt])")
_LOGFMT = re.compile(rb"[A-Za-z_@][\w.@/-]*=")
_KEY_AND_VALUE = re.compile(rb'([A-Za-z_@][\w.@/-]*)=("(?:[^"\\\n]|\\[^\n])*"?|[^\s"]*)')
# What says that a line goes on in the next one, as CRI, journald and Docker's drivers write it.
_PARTIAL_FLAGS: Mapping[str, tuple[object, ...]] = {
    "logtag": ("P",),
    "partial_message": ("true", True),
    "CONTAINER_PARTIAL_MESSAGE": ("true", True),
}
# What is packed as base64 is so long, and a text of these characters with blanks between words.
_PACKED, _MAX_NESTS = 16, 4
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")
_IS_TEXT, _BLANK = re.compile(r"[^\x00-\x08\x0e-\x1a\x1c-\x1f]*"), re.compile(r"\s")
# More frames than this are no frames.
_MAX_FRAMES, _MAX_MISSED = 512, 64
decode_object = msgspec.json.Decoder().decode


@dataclass(frozen=True)
class JsonWrapper(Wrapper):
    """Each line is an object that holds a line, or the parts of a record."""

    names: Mapping[str, Sequence[str]]
    # A string under Docker's key that is so long, and has no line break, goes on in the next line.
    min_split_length: int | None = None
    reader: ObjectReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare the names."""
        object.__setattr__(self, "reader", ObjectReader(self.names))

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line may be an object, or hold one."""
        return _may_hold(line)

    def unwrap(self, texts: TextBuffer) -> TextBuffer:
        """Write what the objects hold; all other lines stay as they are."""
        rows = self._find_rows(texts)
        lines = texts.to_arrow()
        carried, torn, escaped = (np.zeros(len(texts), np.bool_) for _ in range(3))
        written: dict[int, bytes] = {}
        origins: dict[int, bytes] = {}
        frames = _Frames(self) if _is_utf8(texts.content) else None
        read = self.reader.read
        for row, line in zip(rows.tolist(), lines.take(pa.array(rows)).to_pylist(), strict=True):
            if frames is not None and (quick := frames.read(line)):
                carried[row] = escaped[row] = True
                written[row], origin = quick
                if origin:
                    origins[row] = origin
                continue
            node = self._parse(line)
            told = read(node) if node is not None else None
            if node is None or told is None:
                continue
            carried[row] = True
            text = to_bytes(told.text)
            if text[-1:] != b"\n":
                if self.splits_lines and self._goes_on(node, told, len(text)):
                    torn[row] = True
                else:
                    text += b"\n"
            written[row] = text
            if told.origin:
                origins[row] = to_bytes(told.origin)
        if not written:
            return replace(texts, carried=carried)
        data, bounds = unescape(*to_buffer(_replace_rows(lines, written)), escaped)
        return TextBuffer(
            data,
            bounds,
            carried,
            texts.continues | torn,
            _join_origins(texts.origins, origins, len(texts)),
        )

    def _find_rows(self, texts: TextBuffer) -> npt.NDArray[np.int64]:
        """Find the lines that may be objects."""
        firsts = texts.data[texts.starts]
        lasts = texts.stops - 1
        for line_break in b"\n\r":
            lasts -= texts.data[np.maximum(lasts, 0)] == line_break
        closed = texts.data[np.maximum(lasts, 0)]
        maybe = texts.stops - texts.starts > 2
        maybe &= (firsts == _OBJECT[0]) | (firsts == _ARRAY[0]) | np.isin(closed, _CLOSERS)
        rows: npt.NDArray[np.int64] = np.flatnonzero(maybe)
        return rows

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        try:
            node = decode_object(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            node = None
        node = node if type(node) is dict else find_object(line)
        return node if node is None else open_texts(node)

    def open(self, line: bytes) -> ReadObject | None:
        """Read a line; None if it holds nothing of a log."""
        node = self._parse(line)
        return None if node is None else self.reader.read(node)

    def learn(self, lines: Sequence[bytes], loggers: Collection[str] = ()) -> JsonWrapper | None:
        """Find the fields of records by their values, where no name tells them."""
        nodes = [node for node in map(self._parse, lines) if node is not None]
        learnt = learn_fields(self.reader, nodes, loggers)
        return None if learnt is None else replace(self, names=learnt.names)

    def settle(self, lines: Sequence[bytes], loggers: Collection[str] = ()) -> JsonWrapper:
        """Find what some lines tell of the others: where records stand, and who wrote them."""
        nodes = [node for node in map(self._parse, lines) if node is not None]
        settled = _settle_place(self.learn(lines, loggers) or self, nodes)
        field = find_writer_field([(node, settled.reader.read(node)) for node in nodes])
        if field is None:
            return settled
        return replace(settled, names={**settled.names, GUESSED_ROLE: (field,)})

    def _goes_on(self, node: Mapping[str, Any], told: ReadObject, length: int) -> bool:
        """Return True if what an object holds is a line that goes on in the next one."""
        for key, values in _PARTIAL_FLAGS.items():
            if key in node:
                return node[key] in values
        size = self.min_split_length
        is_docker = node.get("log") == told.text and "stream" in node
        return size is not None and length >= size and is_docker


def _settle_place(wrapper: JsonWrapper, nodes: Sequence[Mapping[str, Any]]) -> JsonWrapper:
    """Find the place of whole records, where other strings of the objects could be lines.

    What stands there in other objects is a line, too, such as those of a stack trace.
    """
    paths = Counter(path for node in nodes if (path := find_line_path(node)))
    if len(paths) != 1:
        return wrapper
    (path,) = paths
    for node in nodes:
        told, text = wrapper.reader.read(node), _value_at(node, path)
        if text is not None and (told is None or not told.text.startswith(text.strip())):
            names = (".".join(path[-3:]), *wrapper.names["message"])
            return replace(wrapper, names={**wrapper.names, "message": names})
    return wrapper


def _value_at(node: Mapping[str, Any], path: Sequence[str]) -> str | None:
    value: Any = node
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


_CLOSERS = np.frombuffer(b"}]", np.uint8)


class _Frames:
    """Reads lines whose objects differ in nothing but a string and the time, without reading all.

    What stands around the string (its frame) says whether it is a whole line, and who wrote it: it
    is read once. A string that needs a closer look is left to the reader.
    """

    def __init__(self, wrapper: JsonWrapper) -> None:
        self._wrapper = wrapper
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        # By the keys of an object: that of the line, and the keys whose values are looked at.
        self._shapes: dict[tuple[str, ...], tuple[str, tuple[str, ...]] | None] = {}
        self._frames: dict[tuple[object, ...], bytes | None] = {}
        # So many lines in a row had no shape.
        self._missed = 0
        self._longest = wrapper.min_split_length or MAX_RECORD

    def read(self, line: bytes) -> tuple[bytes, bytes] | None:
        """Return the string of a line with its escapes, and who wrote it; None if not sure."""
        if line[:1] != _OBJECT or len(self._frames) > _MAX_FRAMES or self._missed > _MAX_MISSED:
            return None
        self._missed += 1
        try:
            node = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        keys = tuple(node)
        if keys not in self._shapes:
            self._shapes[keys] = self._find_shape(node)
        shape = self._shapes[keys]
        if shape is None:
            return None
        key, others = shape
        frame = (keys, *[bytes(node[one]) for one in others])
        if frame not in self._frames:
            self._frames[frame] = self._read_frame(line, key)
        origin = self._frames[frame]
        text = bytes(node[key])
        plain = text[:1] == b'"' and text[1:2] != b" " and not may_be_packed(text[1:-1])
        if origin is None or not plain or len(text) >= self._longest:
            return None
        self._missed = 0
        if text[-3:-1] != rb"\n":
            # Ends in another character, unless that is written by its number.
            return None if text[-7:-5] == rb"\u" else (text[1:-1] + rb"\n", origin)
        return None if text[-4:-3] == b"\\" else (text[1:-1], origin)

    def _find_shape(self, node: Mapping[str, msgspec.Raw]) -> tuple[str, tuple[str, ...]] | None:
        held = [key for key in node if self._wrapper.reader.has_message([key])]
        nested = [key for key, value in node.items() if bytes(value)[:1] in (_OBJECT, _ARRAY)]
        if len(held) != 1 or held[0] in nested or len(self._shapes) > _MAX_FRAMES:
            return None
        told = [key for key in node if self._wrapper.reader.has_role(key)]
        flags = [key for key in node if key in _PARTIAL_FLAGS]
        return held[0], tuple(dict.fromkeys([*nested, *told, *flags]))

    def _read_frame(self, line: bytes, key: str) -> bytes | None:
        """Read who wrote the line under a key; None if it may be no whole line."""
        node = decode_loosely(line)
        if not isinstance(node, dict) or any(
            node.get(flag) in values for flag, values in _PARTIAL_FLAGS.items()
        ):
            return None
        origin = self._wrapper.reader.read_frame(node, key)
        return None if origin is None else to_bytes(origin)


def _is_utf8(data: Bytes) -> bool:
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


class PairsWrapper(JsonWrapper):
    """Each line is pairs of keys and values: `level=info msg="a text"`."""

    def looks_wrapped(self, line: bytes) -> bool:
        """Return True if the line begins with two pairs."""
        return _PAIRS.match(line) is not None

    def _find_rows(self, texts: TextBuffer) -> npt.NDArray[np.int64]:
        looks = pc.match_substring_regex(texts.to_arrow(), _PAIRS.pattern)
        rows: npt.NDArray[np.int64] = np.flatnonzero(looks.to_numpy(zero_copy_only=False))
        return rows

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        if not _PAIRS.match(line):
            return None
        line = line.rstrip(b"\r\n")
        if not _LOGFMT.match(line):
            header = _HEADER.match(line)
            line = line[header.end() :] if header else line
            tabbed = _TABBED.findall(line)
            if len(tabbed) > 1:
                return {key.decode(): _undo_escapes(value) for key, value in reversed(tabbed)}
            return _read_extension(line)
        found: dict[str, Any] = {}
        for key, value in _KEY_AND_VALUE.findall(line.rstrip(b"\r\n")):
            read = _read_string(value) if value[:1] == b'"' else value.decode("utf-8", "replace")
            found.setdefault(key.decode(), read)
        return found


def _read_extension(line: bytes) -> dict[str, Any]:
    """Read the pairs behind the header of a line of CEF: a value ends before the next key."""
    keys = list(_EXTENDED.finditer(line))
    ends = [*(key.start() for key in keys[1:]), len(line)]
    return {
        key[1].decode(): _undo_escapes(line[key.end() : end])
        for key, end in zip(reversed(keys), reversed(ends), strict=True)
    }


def _undo_escapes(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return _VALUE_ESCAPE.sub(lambda found: _VALUE_SIGNS.get(found[1], found[1]), text)


_VALUE_SIGNS = {"n": "\n", "r": "\r", "t": "\t"}


def _may_hold(line: bytes) -> bool:
    if line[:1] == _OBJECT:
        return b'"' in line[:64]
    return b'{"' in line[:512] and line[-4:].rstrip()[-1:] in (b"}", b"]", b",")


def find_object(line: bytes) -> dict[str, Any] | None:
    """Read the object of a line, which may be cut off or stand behind something."""
    if not _may_hold(line):
        return None
    # A byte order mark, or the separator of JSON sequences.
    line = line.lstrip(_MARKS)
    before = None if line[:1] == _OBJECT else _BEFORE.match(line)
    begin = before.end() if before else 0
    return decode_or_salvage(line[begin:].rstrip(b"\r\n"))


def to_bytes(text: str) -> bytes:
    r"""Write text as UTF-8; half of a pair of surrogates becomes the sign for what is not readable.

    >>> to_bytes("\ud83d|").decode()
    '\ufffd|'
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        pairs = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return pairs.encode("utf-8", "replace")


def may_be_packed(text: bytes) -> bool:
    """Return True if a text may stand for another one: as base64, or as an object."""
    return text[:1] == _OBJECT or (len(text) >= _PACKED and _BASE64.fullmatch(text) is not None)


def open_texts(node: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return an object in which texts that were packed as base64, or as objects, are open."""
    for key, value in node.items():
        if type(value) is str and (opened := _open_text(value)) is not None:
            node[key] = opened
        elif type(value) is dict and depth < _MAX_NESTS:
            node[key] = open_texts(value, depth + 1)
    return node


def _open_text(text: str) -> object:
    """Return what a text was packed from; None if it was not."""
    if text[:2] == '{"' and text.rstrip()[-1:] == "}":
        inside = decode_loosely(text.rstrip().encode("utf-8", "replace"))
        return inside if isinstance(inside, dict) and len(inside) > 1 else None
    if (
        len(text) < _PACKED
        or len(text) % 4
        or not _BASE64.fullmatch(text.encode("ascii", "replace"))
    ):
        return None
    try:
        plain = base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None
    return plain if _IS_TEXT.fullmatch(plain) and _BLANK.search(plain) else None


def decode_or_salvage(body: bytes) -> dict[str, Any] | None:
    """Decode an object; of a broken one give the keys and values that can be read."""
    node = decode_loosely(body)
    return salvage(body) if node is None else node if isinstance(node, dict) else None


def decode_loosely(body: bytes) -> object:
    """Decode a value, also one with tabs or halves of characters in its strings; None if broken."""
    # What follows an object in an array may follow it on its line.
    body = body.rstrip(b", \t")
    try:
        return decode_object(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(body.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        pass
    if body.endswith(b"]") and body.startswith(_OBJECT):
        return decode_loosely(body.rstrip(b"] \t"))
    return None


def salvage(body: bytes) -> dict[str, Any] | None:
    """Read the keys and values of a broken object, at any depth."""
    if body[:1] != _OBJECT:
        return None
    pairs: dict[str, Any] = {}
    for match in _PAIR.finditer(body):
        key, text, number = match.groups()
        value = _read_string(text) if text else _read_number(number)
        if value is not None:
            pairs.setdefault(key.decode("utf-8", "replace"), value)
    return pairs or None


def _read_string(text: bytes) -> str | None:
    r"""Read a string that may be cut off, even in the middle of an escape.

    >>> _read_string(rb'"a\"b\u00')
    'a"b'
    """
    inside = text[1:].rstrip(b"\n")
    if len(text) > 1 and text.endswith(b'"'):
        inside = inside[:-1]
    else:
        inside = re.sub(rb"(?<!\\)((?:\\\\)*)\\(?:u[0-9A-Fa-f]{0,3})?\Z", rb"\1", inside)
    data = np.frombuffer(inside.ljust(len(inside) + PADDING, b"\0"), np.uint8).copy()
    data, bounds = unescape(data, np.array([0, len(inside)], np.int64), np.ones(1, np.bool_))
    return data[: int(bounds[-1])].tobytes().decode("utf-8", "replace")


def _read_number(number: bytes) -> int | float | None:
    try:
        return float(number) if b"." in number else int(number)
    except ValueError:
        return None


def _replace_rows(lines: pa.Array, written: Mapping[int, bytes]) -> pa.Array:
    if len(written) == len(lines):
        return pa.array([*written.values()], pa.binary())
    rows = np.fromiter(written, np.int64, len(written))
    mask = np.zeros(len(lines), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(lines, pa.array(mask), pa.array([*written.values()], pa.binary()))


def _join_origins(
    before: pa.Array | None, origins: Mapping[int, bytes], count: int
) -> pa.Array | None:
    if not origins:
        return before
    named = pa.array([origins.get(row, b"") for row in range(count)], pa.binary())
    if before is None:
        return named
    joined = pc.binary_join_element_wise(before, named, b" ")
    # What stood before a line may be bytes of any kind.
    texts = pc.cast(joined, options=pc.CastOptions(pa.string(), allow_invalid_utf8=True))
    return pc.ascii_trim_whitespace(texts).cast(pa.binary())
