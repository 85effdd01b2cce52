"""Detects formats by their first bytes, never by name, and decompresses streams."""

from __future__ import annotations

import bz2
import codecs
import importlib
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol, cast

from isal import isal_zlib

# So many first bytes are looked at; a tar has its magic bytes at 257.
SNIFF_BYTES = 512
_CHUNK = 256 << 10
_STEP = 16 << 10
_BROKEN: tuple[type[Exception], ...] = (
    cast("type[Exception]", isal_zlib.error),
    zlib.error,
    OSError,
    EOFError,
    lzma.LZMAError,
)
_TAR_MAGIC = slice(257, 262)
# Deflate cannot do better than 1:1032; some GB of text that shrinks so far are no log.
_BOMB_RATIO, _BOMB_SIZE = 500, 8 << 30


class DamageError(Exception):
    """A stream that ends too early or is broken; says where."""


class Readable(Protocol):
    """A source of bytes; it returns none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        ...


def sniff_format(head: bytes) -> str:
    """Return the name of the format that begins with these bytes.

    >>> sniff_format(bytes.fromhex("1f8b08")), sniff_format(b"[2026-11-18")
    ('gzip', 'plain')
    """
    for magic, name in (
        (b"\x1f\x8b", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"PK\x05\x06", "zip"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(magic):
            return name
    return "tar" if head[_TAR_MAGIC] == b"ustar" else "plain"


class PeekableStream:
    """A stream whose first bytes can be looked at before they are read."""

    def __init__(self, source: Readable) -> None:
        """Look at the head of `source`."""
        self._source = source
        self.head = b""
        while len(self.head) < SNIFF_BYTES and (more := source.read(SNIFF_BYTES - len(self.head))):
            self.head += more
        self._left = self.head

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes, the head first."""
        if not self._left:
            return self._source.read(size)
        end = len(self._left) if size < 0 else size
        part, self._left = self._left[:end], self._left[end:]
        return part


class Decompressed:
    """A decompressed stream: returns every byte before a damage, then raises it."""

    def __init__(self, source: Readable, kind: str) -> None:
        """Decompress `source`, which is gzip, deflate, bzip2, xz or zstd."""
        self._source = source
        self._kind = kind
        self._make = _DECOMPRESSORS[kind]
        self._decompressor: Any = None
        self._input = b""
        self._read = self._written = 0
        self._full = False
        self._damage: DamageError | None = None

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises DamageError after the last good one."""
        left = _CHUNK if size < 0 else size
        parts: list[bytes] = []
        while left and self._damage is None:
            try:
                # In small steps: a decompressor that fails returns nothing of that step.
                part = self._step(min(left, _STEP))
            except DamageError as damage:
                self._damage = damage
                break
            if not part:
                break
            parts.append(part)
            left -= len(part)
        if self._damage is not None and not parts:
            raise self._damage
        return b"".join(parts)

    def _step(self, size: int) -> bytes:
        while True:
            if self._decompressor is None and not self._start_member():
                return b""
            try:
                out = self._inflate(size)
            except _BROKEN as error:
                message = f"{self._kind} data broken after {self._written} bytes of text: {error}"
                raise DamageError(message) from None
            if self._decompressor.eof:
                self._input = self._decompressor.unused_data + self._input
                self._decompressor = None
            self._written += len(out)
            if self._written > _BOMB_SIZE and self._written > _BOMB_RATIO * self._read:
                message = f"unpacks to more than {_BOMB_RATIO} times its size; stopped"
                raise DamageError(message)
            if out:
                return out

    def _start_member(self) -> bool:
        """Start the next member, if there is one; zeros as padding end a file, too."""
        if not self._input:
            self._input = self._source.read(_CHUNK)
            self._read += len(self._input)
        done = self._written and (self._kind == "deflate" or not self._input.strip(b"\0"))
        if done or not self._input:
            return False
        self._decompressor, self._full = self._make(), False
        return True

    def _inflate(self, size: int) -> bytes:
        decompressor = self._decompressor
        held = getattr(decompressor, "unconsumed_tail", b"")
        # A decompressor that returned as much as was asked for may hold more, without more input.
        starved = getattr(decompressor, "needs_input", not held and not self._full)
        if not held and not self._input and starved:
            self._input = self._source.read(_CHUNK)
            self._read += len(self._input)
            if not self._input:
                message = f"{self._kind} data cut off after {self._written} bytes of text"
                raise DamageError(message)
        data, self._input = held + self._input, b""
        out = bytes(decompressor.decompress(data, size))
        self._full = len(out) == size
        return out


class Utf16Stream:
    """UTF-16 text as UTF-8."""

    def __init__(self, source: Readable) -> None:
        """Decode `source`; what cannot be decoded is replaced."""
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")

    def read(self, size: int = -1, /) -> bytes:
        """Read about `size` bytes."""
        while raw := self._source.read(size):
            if text := self._decoder.decode(raw).encode():
                return text
        return self._decoder.decode(b"", final=True).encode()


def _zstd() -> Any:
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError:
        message = "zstd is read from Python 3.14 on; unpack it first (zstd -d)"
        raise DamageError(message) from None
    return zstd.ZstdDecompressor()


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(wbits=31),
    "deflate": lambda: isal_zlib.decompressobj(wbits=-15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zstd": _zstd,
}
