"""One member of a gzip stream: header, deflated data, checksum.

Read here and not by zlib, which throws away the end of the text where only the checksum is wrong.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from isal import isal_zlib

_FIXED = 10
_TRAILER = struct.Struct("<II")
_EXTRA, _NAME, _COMMENT, _CRC = 4, 8, 16, 2
_LONGEST_HEADER = 1 << 20


class ChecksumError(Exception):
    """All of a member was read, and its checksum is another; `rest` follows the member."""

    def __init__(self, why: str, rest: bytes) -> None:
        super().__init__(why)
        self.rest = rest


class GzipMember:
    """Decompresses one member; it has the attributes of zlib's own objects."""

    def __init__(self) -> None:
        """Begin before the header."""
        self.eof = False
        self.unused_data = b""
        self.unconsumed_tail = b""
        self.needs_input = True
        self._head: bytes | None = b""
        self._tail = b""
        self._raw: Any = isal_zlib.decompressobj(wbits=-15)
        self._crc = self._size = 0

    def decompress(self, data: bytes, size: int) -> bytes:
        """Return at most `size` bytes of text."""
        if self._head is not None:
            self._head += data
            data = self._take_header()
            if self._head is not None:
                return b""
        if self._raw.eof:
            self._end(self._tail + data)
            return b""
        out: bytes = self._raw.decompress(data, size)
        self._crc = isal_zlib.crc32(out, self._crc)
        self._size += len(out)
        self.unconsumed_tail = self._raw.unconsumed_tail
        self.needs_input = not self.unconsumed_tail and len(out) < size
        if self._raw.eof:
            self.unconsumed_tail = b""
            if out:
                # A wrong checksum is told at the next call, when this text is safe.
                self._tail, self.needs_input = self._raw.unused_data, not self._raw.unused_data
            else:
                self._end(self._raw.unused_data)
        return out

    def _take_header(self) -> bytes:
        """Return what stands behind the header, once all of it is there."""
        head = self._head or b""
        if len(head) < _FIXED:
            return b""
        if head[:3] != b"\x1f\x8b\x08":
            raise zlib.error("incorrect header check")
        flags, at = head[3], _FIXED
        if flags & _EXTRA:
            at += 2 + int.from_bytes(head[at : at + 2], "little")
        for flag in (_NAME, _COMMENT):
            if flags & flag:
                end = head.find(b"\0", at)
                at = len(head) + 1 if end < 0 else end + 1
        at += 2 if flags & _CRC else 0
        if at > len(head):
            if len(head) > _LONGEST_HEADER:
                raise zlib.error("header too long")
            return b""
        self._head = None
        return head[at:]

    def _end(self, data: bytes) -> None:
        """Compare the checksum, once all of it is there."""
        self._tail, self.needs_input = data, True
        if len(data) < _TRAILER.size:
            return
        crc, size = _TRAILER.unpack_from(data)
        rest = data[_TRAILER.size :]
        if crc != self._crc or size != self._size & 0xFFFFFFFF:
            raise ChecksumError("a wrong checksum", rest)
        self.eof, self.unused_data = True, rest
