"""Walks over the parts of a mail, or of a mailbox of several, and decodes each (RFC 2045).

A log comes as an attachment or as the text of a mail. Headers are read by the standard library, as
far as they are short; bodies are decoded line by line, as they may be long.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import Message

from forensics.ingest.compression import Readable
from forensics.ingest.pushback_stream import ForwardInput
from forensics.ingest.read_limits import Budget

_CHUNK = 64 << 10
# A line of a mail is short; one without an end is taken in pieces.
_LONGEST_LINE = 1 << 20
_MAX_NESTED = 32
_HEADER = re.compile(rb"(?:[!-9;-~]+:|[ \t]+\S|From )")
_FROM = re.compile(rb"From \S+ .*[0-9]{2}:[0-9]{2}")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]")
_TEXT = ("text/", "application/", "message/")
_DEFAULT_NAMES = {"text/html": "text.html", "text/csv": "text.csv"}


@dataclass(frozen=True)
class MailPart:
    """One part: its name, and why it is not read, if so."""

    name: bytes
    skipped: str | None = None


@dataclass
class _Level:
    """A multipart that is open: what stands between its parts, and whether one was plain text."""

    boundary: bytes
    is_alternative: bool
    has_text: bool = field(default=False)


class MailReader:
    """Walks over the parts of mails; while one is at hand, `read` gives its decoded bytes."""

    def __init__(self, source: Readable, budget: Budget | None = None) -> None:
        """Read `source` from its first byte."""
        self._input = ForwardInput(source)
        self._header_bytes = (budget or Budget()).limits.header_bytes
        # What was read of it, up to where, and lines that were looked at, the last one first.
        self._text, self._at = b"", 0
        self._again: list[bytes] = []
        self._levels: list[_Level] = []
        self._ends = True
        self._decode: Callable[[bytes], bytes] = self._plain
        # The break of the line before: the last one of a part belongs to the boundary.
        self._held = self._waiting = b""
        self.faults: list[str] = []
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[MailPart]:
        """Yield the parts that hold something, of all mails."""
        begins_part = True
        while True:
            if begins_part and (part := self._take_headers()) is not None:
                yield part
                while self.read(_CHUNK):
                    pass
            line = self._line()
            if not line:
                break
            begins_part = self._take_boundary(line) or self._begins_mail(line)
        if self._levels:
            self.faults.append("the mail ends before its last part does")
        if damage := self._input.damage:
            (self.notes if damage.harmless else self.faults).append(str(damage))

    def read(self, size: int = -1, /) -> bytes:
        """Read about `size` decoded bytes from the part at hand."""
        found: list[bytes] = []
        length = 0
        while not self._ends and (size < 0 or length < size):
            line = self._line()
            if not line or self._is_boundary(line) or self._begins_mail(line):
                self._again.append(line)
                self._ends = True
                found.append(self._finish())
                break
            part = self._decode(line)
            found.append(part)
            length += len(part)
        return b"".join(found)

    def _line(self) -> bytes:
        """Read the next line, with its break."""
        if self._again:
            return self._again.pop()
        while (end := self._text.find(b"\n", self._at)) < 0:
            part = b"" if len(self._text) - self._at > _LONGEST_LINE else self._input.take(_CHUNK)
            self._text, self._at = self._text[self._at :] + part, 0
            if not part:
                end = len(self._text) - 1
                break
        line, self._at = self._text[self._at : end + 1], end + 1
        return line

    def _take_headers(self) -> MailPart | None:
        """Read the headers of a part; None if it only holds others."""
        headers = self._read_headers()
        for _ in range(_MAX_NESTED):
            if headers.get_content_type() != "message/rfc822":
                break
            headers = self._read_headers()
        kind, boundary = headers.get_content_type(), headers.get_boundary()
        if kind.startswith("multipart/") and boundary and len(self._levels) < _MAX_NESTED:
            mark = b"--" + boundary.encode("utf-8", "surrogateescape")
            self._levels.append(_Level(mark, kind == "multipart/alternative"))
            return None
        self._ends = False
        self._held = self._waiting = b""
        coding = str(headers.get("Content-Transfer-Encoding", "")).strip().lower()
        codings = {"base64": self._base64, "quoted-printable": self._quoted}
        self._decode = codings.get(coding, self._plain)
        return self._name(headers, kind)

    def _read_headers(self) -> Message:
        lines: list[bytes] = []
        length = 0
        while line := self._line():
            if not line.strip() or not _HEADER.match(line):
                if line.strip():
                    self._again.append(line)
                break
            length += len(line)
            if length <= self._header_bytes and not (_FROM.match(line) and not lines):
                lines.append(line)
        return message_from_bytes(b"".join(lines), policy=policy.compat32)

    def _name(self, headers: Message, kind: str) -> MailPart:
        name = headers.get_filename() or headers.get_param("name")
        level = self._levels[-1] if self._levels else None
        text = name if isinstance(name, str) else _DEFAULT_NAMES.get(kind, "text")
        encoded = text.rpartition("/")[2].rpartition("\\")[2].encode("utf-8", "surrogateescape")
        if not kind.startswith(_TEXT):
            return MailPart(encoded, f"{kind}: holds no lines")
        if level and level.is_alternative:
            if kind != "text/plain" and level.has_text:
                return MailPart(encoded, "the same text once more, as HTML")
            level.has_text |= kind == "text/plain"
        return MailPart(encoded)

    def _is_boundary(self, line: bytes) -> bool:
        return line.startswith(b"--") and any(
            line.startswith(level.boundary) for level in self._levels
        )

    def _take_boundary(self, line: bytes) -> bool:
        """Close what a boundary closes; return True if it begins a part."""
        while self._levels and self._is_boundary(line):
            mark = self._levels[-1].boundary
            rest = line[len(mark) :].strip()
            if line.startswith(mark) and rest in (b"", b"--"):
                if rest:
                    self._levels.pop()
                return not rest
            self._levels.pop()
        return False

    def _begins_mail(self, line: bytes) -> bool:
        if not line.startswith(b"From ") or _FROM.match(line) is None:
            return False
        following = self._line()
        if following:
            self._again.append(following)
        if re.match(rb"[!-9;-~]+: ", following) is None:
            return False
        self._levels.clear()
        return True

    def _finish(self) -> bytes:
        """Return what was held back until the part ends."""
        if self._decode == self._base64:
            return _decode_base64(self._waiting)
        # Between a part and a boundary stands a break that belongs to neither's text.
        return b"" if self._levels else self._held

    def _plain(self, line: bytes) -> bytes:
        text = line.rstrip(b"\r\n")
        before, self._held = self._held, line[len(text) :]
        if text.startswith(b">From "):
            text = text[1:]
        return before + text

    def _quoted(self, line: bytes) -> bytes:
        text = line.rstrip(b"\r\n \t")
        before = self._held
        self._held = b"" if text.endswith(b"=") else b"\n"
        return before + binascii.a2b_qp(text.removesuffix(b"="))

    def _base64(self, line: bytes) -> bytes:
        self._waiting += _NOT_BASE64.sub(b"", line)
        if b"=" in self._waiting:
            # It ends here, whatever stands below it.
            text, self._waiting = _decode_base64(self._waiting), b""
            return text
        whole = len(self._waiting) // 4 * 4
        text, self._waiting = self._waiting[:whole], self._waiting[whole:]
        return _decode_base64(text)


def _decode_base64(text: bytes) -> bytes:
    whole = text.rstrip(b"=")
    try:
        return binascii.a2b_base64(whole + b"=" * (-len(whole) % 4))
    except binascii.Error:
        return b""
