"""Streams of text in other codings, as UTF-8 with lines that end in LF."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from forensics.ingest.compression import Readable

_LONE_RETURN = re.compile(rb"\r(?!\n)")


class DecodedText:
    """Text of some coding as UTF-8; a mark of the coding at its beginning is no text."""

    def __init__(self, source: Readable, coding: str) -> None:
        """Decode `source`; what cannot be decoded is replaced."""
        self._source = source
        self._decoder = codecs.getincrementaldecoder(coding)("replace")
        self._first = True

    def read(self, size: int = -1, /) -> bytes:
        """Read about `size` bytes."""
        while raw := self._source.read(size):
            if text := self._decode(raw):
                return text
        return self._decode(b"", final=True)

    def _decode(self, raw: bytes, *, final: bool = False) -> bytes:
        text = self._decoder.decode(raw, final)
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


def decode_text(source: Readable, kind: str) -> Readable:
    """Open text of one of TEXT_FORMATS."""
    special: dict[str, Callable[[Readable], Readable]] = {
        "utf-8-sig": WithoutMark,
        "cr": NewlineStream,
    }
    return special[kind](source) if kind in special else DecodedText(source, kind)
