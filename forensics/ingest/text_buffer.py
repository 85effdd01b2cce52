r"""The texts of many lines in one buffer, rewritten all at once.

Escapes of JSON strings (`\n`, `\"`, `\u003c`) are undone in place, as no character is longer than
its escape; the bytes that are left over are then taken out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.compression import Readable
from forensics.ingest.record_starts import PADDING, Bytes, Flags, Lines, Offsets

# Longer lines are no help: what tells a layout stands at both ends of a line.
LONGEST_LINE = 64 << 10


@dataclass(frozen=True)
class TextBuffer:
    """Text after text, with its line break: text n lies from bound n to bound n + 1.

    `carried` marks the texts that were wrapped, `continues` those that go on in the next text;
    `origins` is who wrote each (empty where nobody is named).
    """

    data: Bytes
    bounds: Offsets
    carried: Flags
    continues: Flags
    origins: pa.Array | None = None

    @classmethod
    def unwrapped(cls, data: Bytes, bounds: Offsets) -> TextBuffer:
        """Build a buffer of texts that no wrapper was taken off yet."""
        return cls(data, bounds, *(np.zeros(len(bounds) - 1, np.bool_) for _ in range(2)))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.bounds) - 1

    @property
    def starts(self) -> Offsets:
        """Where each text begins."""
        return self.bounds[:-1]

    @property
    def stops(self) -> Offsets:
        """Where each text ends."""
        return self.bounds[1:]

    @property
    def content(self) -> Bytes:
        """The bytes of all texts, without the padding."""
        return self.data[: int(self.bounds[-1])]

    def to_arrow(self) -> pa.Array:
        """Copy the texts into an Arrow array of bytes."""
        return slice_texts(self.data, self.starts, self.stops)


def cut_lines(lines: Lines, rows: Offsets, longest: int = LONGEST_LINE) -> pa.Array:
    """Copy some lines, each up to a length, in the order in which they are asked for."""
    begins = lines.starts[rows]
    order = np.argsort(begins, kind="stable")
    ends = np.minimum(lines.own_ends[rows], begins + longest)
    texts = slice_texts(lines.data, begins[order], ends[order])
    return texts.take(pa.array(np.argsort(order, kind="stable")))


def choose_texts(texts: TextBuffer, opened: Sequence[TextBuffer], chosen: Offsets) -> TextBuffer:
    """Take each line from what one stack made of it; 0 stands for the line as it is."""
    count = len(texts)
    rows = chosen * count + np.arange(count)
    every = [texts, *opened]
    data, bounds = to_buffer(
        pa.concat_arrays([one.to_arrow() for one in every]).take(pa.array(rows))
    )
    carried = np.concatenate([one.carried for one in every])[rows]
    continues = np.concatenate([one.continues for one in every])[rows]
    origins = None
    if any(one.origins is not None for one in opened):
        nobody = pa.nulls(count, pa.binary())
        both = [nobody if one.origins is None else one.origins for one in every]
        origins = pa.concat_arrays(both).take(pa.array(rows))
    return TextBuffer(data, bounds, carried, continues, origins)


def slice_texts(data: Bytes, begins: Offsets, stops: Offsets) -> pa.Array:
    """Copy parts of a buffer, given in order, into an Arrow array of bytes."""
    # Arrow needs one array of offsets: between two wanted texts it then has one that is not wanted.
    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2] = begins
    bounds[1::2] = stops
    if not len(bounds):
        return pa.array([], pa.binary())
    both = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, len(bounds), 2)))


def gather_texts(data: Bytes, begins: Offsets, stops: Offsets) -> tuple[Bytes, Offsets]:
    """Put parts of a buffer, given in order, one behind the other."""
    return to_buffer(slice_texts(data, begins, stops))


def to_buffer(texts: pa.Array) -> tuple[Bytes, Offsets]:
    """Return an Arrow array of bytes as one padded buffer and the bounds in it."""
    if not len(texts):
        return np.zeros(PADDING, np.uint8), np.zeros(1, np.int64)
    _, offsets, values = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    data: Bytes = np.zeros(size + PADDING, np.uint8)
    if size:
        data[:size] = np.frombuffer(values, np.uint8, size, first)
    return data, bounds - first


_BACKSLASH, _UNICODE, _ESCAPED_BREAK = ord("\\"), ord("u"), ord("n")
_HEX_DIGITS, _PAIR = 4, 6
_HIGH, _LOW, _BEYOND, _REPLACEMENT = 0xD800, 0xDC00, 0xE000, 0xFFFD

# Which character a backslash and this one stand for; most stand for themselves.
_ESCAPED = np.arange(256, dtype=np.uint8)
for _char, _code in zip(b"nrtbf", b"\n\r\t\b\f", strict=True):
    _ESCAPED[_char] = _code
_NIBBLE = np.full(256, -1, np.int64)
for _value, _char in enumerate(b"0123456789abcdef"):
    _NIBBLE[_char] = _NIBBLE[ord(chr(_char).upper())] = _value

Codes = npt.NDArray[np.int64]


def find_escapes(data: Bytes) -> Offsets:
    r"""Find the backslashes that begin an escape: in a row of them every other one.

    >>> find_escapes(np.frombuffer(rb'a\"b\\"', np.uint8)).tolist()
    [1, 4]
    """
    found = np.flatnonzero(data == _BACKSLASH)
    if not len(found):
        return found
    new = np.ones(len(found), np.bool_)
    new[1:] = np.diff(found) != 1
    first = found[new][np.cumsum(new) - 1]
    leads: Offsets = found[(found - first) % 2 == 0]
    return leads


def unescape(data: Bytes, bounds: Offsets, wanted: Flags) -> tuple[Bytes, Offsets]:
    """Undo the escapes in the wanted texts of a padded buffer."""
    size = int(bounds[-1])
    leads = find_escapes(data[:size])
    if not wanted.all():
        leads = leads[wanted[np.searchsorted(bounds, leads, "right") - 1]]
    if not len(leads):
        return data, bounds
    keep = np.ones(size, np.bool_)
    unicode = data[leads + 1] == _UNICODE
    simple = leads[~unicode]
    data[simple + 1] = _ESCAPED[data[simple + 1]]
    keep[simple] = False
    _unescape_unicode(data, leads[unicode], keep)
    # Bounds move by what is taken out before them.
    removed = np.flatnonzero(~keep)
    text: Bytes = np.zeros(size - len(removed) + PADDING, np.uint8)
    text[: size - len(removed)] = data[:size][keep]
    return text, bounds - np.searchsorted(removed, bounds)


def undo_escapes(text: str) -> str:
    r"""Undo the escapes of a text in which line breaks, tabs or quotes were escaped.

    Every backslash must begin an escape, and one of them a line that follows or begins there.

    >>> undo_escapes(r"a:\n\tb = 1"), undo_escapes(r"C:\new\table")
    ('a:\n\tb = 1', 'C:\\new\\table')
    """
    if "\\" not in text or not _WERE_BREAKS.search(text) or _NO_ESCAPE.search(text):
        return text
    return _ESCAPE.sub(lambda match: _MEANT.get(match[1], match[1]), text)


# What follows a line break in dumps of settings and in stack traces, and a tab that begins a line.
_BELOW = r"(?:Caused by|[\w.$-]+(?:Exception|Error|: | = )|\s|$)"
_WERE_BREAKS = re.compile(rf"^\\t|\\n(?:\\t|{_BELOW})|\\'")
_NO_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\(?![nrt\\'\"0bfv])")
_ESCAPE = re.compile(r"\\(.)")
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "v": "\v"}


def holds_breaks(data: Bytes) -> bool:
    """Return True if a line break seems to be escaped somewhere in a text."""
    # Hardly a log has a backslash: looking for one costs least.
    after = np.flatnonzero(data[:-1] == _BACKSLASH) + 1
    if not (data[after] == _ESCAPED_BREAK).any():
        return False
    return _BREAKS.search(data.tobytes()) is not None


def undo_breaks(texts: pa.Array, wanted: Flags) -> pa.Array:
    r"""Undo the escapes of the wanted texts that have lines below their first.

    Where other backslashes stand for themselves, only line breaks and tabs are undone.
    """
    looks = pc.and_(pc.match_substring_regex(texts, _BREAKS.pattern.decode()), pa.array(wanted))
    # The strings of objects keep their escapes.
    looks = pc.and_not(looks, pc.match_substring(texts, '{"'))
    rows = np.flatnonzero(looks.to_numpy(zero_copy_only=False))
    if not len(rows):
        return texts
    written = []
    for line in texts.take(pa.array(rows)).to_pylist():
        text = line.decode("utf-8", "surrogateescape")
        plain = undo_escapes(text)
        if plain == text:
            plain = re.sub(r"(?<!\\)\\([nt])", lambda match: _MEANT[match[1]], text)
        written.append(plain.encode("utf-8", "surrogateescape"))
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(written, pa.binary()))


# Below what was escaped stand frames, settings or a cause; at the end it closes the line.
_BREAKS = re.compile(
    rb"(?:^|\\n)\\t(?:at |[\w.-]+ = )|\\n(?:Caused by: |[\w.$-]+(?:Exception|Error)\b| ?\()"
)


def _unescape_unicode(data: Bytes, leads: Offsets, keep: Flags) -> None:
    r"""Write UTF-8 over `\uXXXX`; two halves of a pair become one character."""
    codes, leads = _read_codes(data, leads, len(keep))
    high = (codes >= _HIGH) & (codes < _LOW)
    low = (codes >= _LOW) & (codes < _BEYOND)
    if not len(codes):
        return
    paired = np.zeros(len(codes), np.bool_)
    paired[:-1] = high[:-1] & low[1:] & (np.diff(leads) == _PAIR)
    second = np.zeros(len(codes), np.bool_)
    second[1:] = paired[:-1]
    following = np.append(codes[1:], 0)
    whole = ((codes - _HIGH) << 10) + (following - _LOW) + 0x10000
    codes = np.where(paired, whole, np.where((high | low) & ~second, _REPLACEMENT, codes))
    for at in range(_PAIR):
        keep[leads + at] = False
    _write_utf8(data, leads[~second], codes[~second], keep)


def _read_codes(data: Bytes, leads: Offsets, size: int) -> tuple[Codes, Offsets]:
    """Read four hexadecimal digits after each lead; leads without them are left out."""
    leads = leads[leads + _PAIR <= size]
    digits = [_NIBBLE[data[leads + 2 + at]] for at in range(_HEX_DIGITS)]
    codes = np.zeros(len(leads), np.int64)
    valid = np.ones(len(leads), np.bool_)
    for digit in digits:
        codes = codes * 16 + digit
        valid &= digit >= 0
    return codes[valid], leads[valid]


def _write_utf8(data: Bytes, offsets: Offsets, codes: Codes, keep: Flags) -> None:
    for length, low, high, mark in (
        (1, 0, 0x80, 0),
        (2, 0x80, 0x800, 0xC0),
        (3, 0x800, 0x10000, 0xE0),
        (4, 0x10000, 0x110000, 0xF0),
    ):
        some = (codes >= low) & (codes < high)
        at, code = offsets[some], codes[some]
        for number in range(length):
            bits = code >> 6 * (length - 1 - number)
            data[at + number] = bits | mark if number == 0 else (bits & 0x3F) | 0x80
            keep[at + number] = True


_LONE_RETURN = re.compile(rb"\r(?!\n)")


# So many bytes of plain text, one after the other, are no characters of two bytes each; and so many
# characters of two or four bytes stand in no text of single bytes.
_NARROW, _WIDE = b"t" * 32, 12
# So far back the beginning of a stretch is looked for.
_LOOKS_BACK = 4096
_FORMS = bytes(
    ord("t") if byte in b"\t\n\r" or 32 <= byte < 127 else ord("x" if byte else "0")
    for byte in range(256)
)


class DecodedText:
    """Text of some coding as UTF-8; a mark of the coding at its beginning is no text.

    Where one program wrote UTF-16 and another went on in UTF-8, each stretch is read in its own.
    """

    def __init__(self, source: Readable, coding: str) -> None:
        """Decode `source`; what cannot be decoded is replaced."""
        self._source = source
        self._coding = coding
        self._decoder = codecs.getincrementaldecoder(coding)("replace")
        self._first = True
        self._width = 4 if "32" in coding else 2
        # Where the letters are among the bytes of a character.
        self._is_big = coding.endswith("be")
        self._is_narrow = False
        self._held = b""
        # The bytes of this stretch that were decoded.
        self._taken = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read about `size` bytes."""
        while raw := self._source.read(size):
            if text := self._decode(raw):
                return text
        return self._decode(b"", final=True)

    def _decode(self, raw: bytes, *, final: bool = False) -> bytes:
        text, self._held = self._held + raw, b""
        if self._first and len(text) >= self._width:
            self._is_big = self._is_big or text.startswith((codecs.BOM_UTF16_BE, b"\0\0\xfe\xff"))
        written: list[bytes] = []
        while text:
            wanted = self._wide_form if self._is_narrow else _NARROW
            at = text.translate(_FORMS).find(wanted)
            if at < 0:
                # What begins here may be told by the bytes that follow.
                kept = len(text) if final else self._settled(text)
                written.append(self._take(text[:kept]))
                self._held = text[kept:]
                break
            if not self._is_narrow:
                at = self._first_narrow(text, at)
            written.append(self._take(text[:at]))
            text = text[at:]
            self._turn(written)
        if final and not self._is_narrow:
            written.append(self._say(self._decoder.decode(b"", final=True)))
        return b"".join(written)

    @property
    def _wide_form(self) -> bytes:
        zeros = b"0" * (self._width - 1)
        return (zeros + b"t" if self._is_big else b"t" + zeros) * _WIDE

    def _settled(self, text: bytes) -> int:
        """Return how much of a text no other stretch can begin in."""
        if self._is_narrow:
            return max(0, len(text) - len(self._wide_form) - self._width)
        return max(text.rfind(b"\0") + 1, len(text) - _LOOKS_BACK)

    def _first_narrow(self, text: bytes, at: int) -> int:
        """Find where UTF-8 begins of which a later part is plain text."""
        begin = text.rfind(b"\0", 0, at) + 1
        try:
            text[begin:at].decode()
        except UnicodeDecodeError:
            begin = at
        # The last byte of a line break may be the first without a zero.
        is_break = (self._taken + begin) % self._width and text[begin] in b"\r\n"
        return begin + bool(is_break)

    def _turn(self, written: list[bytes]) -> None:
        """Go on in the other coding."""
        if self._is_narrow:
            marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            written[-1] = written[-1].removesuffix(marks[self._is_big])
            ending = ("-be" if self._is_big else "-le") if self._coding[-2:].isdigit() else ""
            self._decoder = codecs.getincrementaldecoder(self._coding + ending)("replace")
        else:
            written.append(self._say(self._decoder.decode(b"", final=True)))
        self._is_narrow = not self._is_narrow
        self._taken = 0

    def _take(self, raw: bytes) -> bytes:
        self._taken += len(raw)
        return raw if self._is_narrow else self._say(self._decoder.decode(raw))

    def _say(self, text: str) -> bytes:
        if self._first and text:
            text, self._first = text.removeprefix("\ufeff"), False
        return text.encode("utf-8", "replace")


class WithoutMark:
    """UTF-8 without the mark at its beginning; its bytes stay as they are."""

    def __init__(self, source: Readable) -> None:
        """Read `source` behind its first three bytes."""
        self._source = source
        self._left = 3

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        while self._left and (skipped := self._source.read(self._left)):
            self._left -= len(skipped)
        return self._source.read(size)


class NewlineStream:
    """Lines that end in CR alone as lines that end in LF; CR LF stays."""

    def __init__(self, source: Readable) -> None:
        """Translate `source`."""
        self._source = source
        self._held = b""

    def read(self, size: int = -1, /) -> bytes:
        """Read about `size` bytes."""
        while True:
            raw = self._source.read(size)
            text = self._held + raw
            # Whether a return at the end stands alone is known when more is there.
            self._held = b"\r" if raw and text.endswith(b"\r") else b""
            text = text[: len(text) - len(self._held)]
            if text or not raw:
                return _LONE_RETURN.sub(b"\n", text)


class ZeroStream:
    """Texts that end in zeros as lines."""

    def __init__(self, source: Readable) -> None:
        """Translate `source`."""
        self._source = source

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        return self._source.read(size).replace(b"\0", b"\n")


def decode_text(source: Readable, kind: str) -> Readable:
    """Open text of one of TEXT_FORMATS."""
    special: dict[str, Callable[[Readable], Readable]] = {
        "utf-8-sig": WithoutMark,
        "cr": NewlineStream,
        "zeros": ZeroStream,
    }
    return special[kind](source) if kind in special else DecodedText(source, kind)
