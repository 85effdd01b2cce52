"""Decompresses streams: every member of them, also behind a broken one, and says what is wrong.

A stream returns every byte that it can, and tells of all damage at its end.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from isal import isal_zlib

from forensics.ingest.formats import SNIFF_BYTES, sniff_format
from forensics.ingest.read_limits import Budget, DamageError, OutputMeter
from forensics.ingest.zstd_lz4 import ArrowStream

_CHUNK = 256 << 10
# Where members are short, little is read at once: what follows a member is copied at its end.
_SHORT_CHUNK = 4 << 10
_STEP = 16 << 10
# A member without text costs as much as so many bytes that only repeat others.
_EMPTY_WEIGHS = 512
# A dictionary of this size unpacks everything that `xz -9` has packed, four times over.
_XZ_MEMORY = 256 << 20
_BROKEN: tuple[type[Exception], ...] = (
    cast("type[Exception]", isal_zlib.error),
    zlib.error,
    OSError,
    EOFError,
    MemoryError,
    lzma.LZMAError,
)
# Where another member may begin; formats without one have a single member.
_MEMBERS = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", re.DOTALL),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
}
_LONGEST_MAGIC = 16


class Readable(Protocol):
    """A source of bytes; it returns none at its end."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        ...


class PeekableStream:
    """A stream whose first bytes can be looked at before they are read.

    If the stream breaks among them, that is told when they have been read.
    """

    def __init__(self, source: Readable) -> None:
        """Look at the head of `source`."""
        self._source = source
        self._damage: DamageError | OSError | None = None
        self.head = b""
        try:
            while more := source.read(SNIFF_BYTES - len(self.head)):
                self.head += more
                if len(self.head) == SNIFF_BYTES:
                    break
        except (DamageError, OSError) as damage:
            self._damage = damage
        self._left = self.head

    @property
    def is_damaged(self) -> bool:
        """Whether it broke among its first bytes."""
        return self._damage is not None

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        if self._left:
            end = len(self._left) if size < 0 else size
            part, self._left = self._left[:end], self._left[end:]
            return part
        if self._damage is not None and size:
            damage, self._damage = self._damage, None
            raise damage
        return self._source.read(size)

    def read_ahead(self, size: int) -> bytes:
        """Look at more than the head, before anything is read."""
        parts = [self._left]
        count = len(self._left)
        try:
            while count < size and (more := self._source.read(size - count)):
                parts.append(more)
                count += len(more)
        except (DamageError, OSError) as damage:
            self._damage = damage
        self._left = b"".join(parts)
        return self._left


class Decompressed:
    """A decompressed stream: returns every byte that can be had, and then raises what was wrong."""

    def __init__(
        self, source: Readable, kind: str, budget: Budget | None = None, *, single: bool = False
    ) -> None:
        """Decompress `source`, which has one of the formats of DECOMPRESSORS.

        `single`: what follows the first member belongs to something else.
        """
        self._source = source
        self._kind = kind
        self._make = DECOMPRESSORS[kind]
        self._magic = None if single else _MEMBERS.get(kind)
        self._decompressor: Any = None
        self._input = b""
        # What a decompressor was given last: in it the next member is looked for.
        self._fed = b""
        self._read = self._written = self._members = self._began = 0
        self._full = self._done = self._torn = False
        self._last = b""
        self._faults: list[str] = []
        self._harmless = True
        self._budget = budget or Budget()
        self._meter = OutputMeter(self._budget)

    @property
    def rest(self) -> bytes:
        """What was read of the source and does not belong to this stream."""
        return self._input

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises DamageError after the last good one."""
        left = _CHUNK if size < 0 else size
        parts: list[bytes] = []
        while left and not self._done:
            # In small steps: a decompressor that fails returns nothing of that step.
            part = self._step(min(left, _STEP))
            if not part:
                self._done = True
                break
            parts.append(part)
            left -= len(part)
        if not parts and self._faults and size:
            raise DamageError("; ".join(self._faults), harmless=self._harmless)
        return b"".join(parts)

    def _step(self, size: int) -> bytes:
        while True:
            try:
                if self._decompressor is None and not self._start_member():
                    return b""
                out = self._inflate(size)
                self._meter.take(out, self._read)
            except DamageError as damage:
                self._note(str(damage))
                return b""
            except ChecksumError as error:
                self._note(
                    f"{self._kind} data has {error}: some of its {self._written} bytes of text are"
                    " not what was packed"
                )
                self._decompressor, self._input = None, self._input + error.rest
                continue
            except _BROKEN as error:
                why = str(error) or type(error).__name__
                self._note(f"{self._kind} data broken after {self._written} bytes of text: {why}")
                if not self._find_member(self._fed[1:] + self._input):
                    return b""
                if self._last not in (b"", b"\n"):
                    # A line must not go on in another member.
                    self._last = b"\n"
                    return b"\n"
                continue
            self._written += len(out)
            if self._decompressor.eof:
                self._end_member()
            if out or self._done:
                self._last = out[-1:] or self._last
                return out

    def _end_member(self) -> None:
        """Go behind a member; of those without text no log has many."""
        self._input = self._decompressor.unused_data + self._input
        self._decompressor = None
        if self._written == self._began:
            try:
                self._budget.take_repeated(_EMPTY_WEIGHS)
            except DamageError as damage:
                self._note(str(damage))
                self._done = True
        self._began = self._written

    def _note(self, fault: str, *, harmless: bool = False) -> None:
        if len(self._faults) < 4:
            self._faults.append(fault)
        elif len(self._faults) == 4:
            self._faults.append("and more such faults")
        self._harmless = self._harmless and harmless

    def _start_member(self) -> bool:
        """Start the next member, if there is one; zeros as padding end a file, too."""
        if self._members and self._magic is None:
            return False
        if self._members:
            self._skip_zeros()
        while len(self._input) < _LONGEST_MAGIC and self._more():
            pass
        if not self._input:
            return False
        lost = self._members and not self._begins_member()
        if lost and not self._find_member(self._input, trailing=True):
            return False
        self._members += 1
        if self._members > self._budget.limits.members:
            self._budget.met.append("members")
            message = f"it has more than {self._budget.limits.members:,} members (limit members)"
            raise DamageError(message)
        self._decompressor, self._full = self._make(), False
        return True

    def _begins_member(self) -> bool:
        """Return True if another member begins here, be it cut off in its header."""
        magic = self._input[:_LONGEST_MAGIC]
        if self._magic is None or self._magic.match(magic):
            return True
        return len(magic) < _LONGEST_MAGIC and sniff_format(magic) == self._kind

    def _skip_zeros(self) -> None:
        self._input = self._input.lstrip(b"\0")
        while not self._input and self._more():
            self._input = self._input.lstrip(b"\0")

    def _more(self) -> bool:
        usual = 4 * self._read // self._members if self._members else _CHUNK
        data = self._source.read(min(max(usual, _SHORT_CHUNK), _CHUNK))
        self._read += len(data)
        self._input += data
        return bool(data)

    def _find_member(self, rest: bytes, *, trailing: bool = False) -> bool:
        """Look for the next member in what is left, and go on there."""
        self._decompressor, self._input = None, rest
        if self._magic is None:
            return False
        skipped = 0
        while True:
            if found := self._magic.search(self._input):
                skipped += found.start()
                self._input = self._input[found.start() :]
                self._note(f"{skipped} bytes skipped before the next {self._kind} member")
                return True
            keep = min(len(self._input), _LONGEST_MAGIC)
            skipped += len(self._input) - keep
            self._input = self._input[len(self._input) - keep :]
            if not self._more():
                break
        skipped += len(self._input)
        self._input = b""
        if trailing:
            told = f"{skipped} bytes that are no {self._kind} data follow its end"
            self._note(told, harmless=True)
        return False

    def _inflate(self, size: int) -> bytes:
        decompressor = self._decompressor
        held = getattr(decompressor, "unconsumed_tail", b"")
        # A decompressor that returned as much as was asked for may hold more, without more input.
        starved = getattr(decompressor, "needs_input", not held and not self._full)
        if not held and not self._input and starved and not self._more():
            message = f"{self._kind} data cut off after {self._written} bytes of text"
            raise DamageError(message)
        data, self._input = held + self._input, b""
        if data:
            self._fed = data
        out = bytes(decompressor.decompress(data, size))
        self._full = len(out) == size
        return out


def decompress(
    source: Readable, kind: str, budget: Budget | None = None, *, single: bool = False
) -> Readable:
    """Open a compressed stream; `single`: what follows its first member is something else."""
    if kind == "compress":
        return LzwStream(source, budget)
    opener = ArrowStream if kind in ARROW_FORMATS else Decompressed
    return opener(source, kind, budget, single=single)


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


_MAGIC = b"\x1f\x9d"
_CLEAR = 256
_BLOCK_MODE = 0x80
_LZW_CHUNK = 64 << 10
# The table of a log needs a few MB; one of a long run of one byte would need gigabytes.
_TABLE_BYTES = 128 << 20


class _Source(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class LzwStream:
    """A stream that `compress` has written, decompressed."""

    def __init__(self, source: _Source, budget: Budget | None = None) -> None:
        """Decompress `source`."""
        self._source = source
        self._input = b""
        self._read = 0
        self._ended = False
        self._meter = OutputMeter(budget or Budget())
        self._parts = self._decode()
        self._ready = b""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises DamageError after the last good one."""
        if not self._ready:
            self._ready = next(self._parts, b"")
        end = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:end], self._ready[end:]
        return out

    def _take(self, size: int) -> bytes:
        while len(self._input) < size and not self._ended:
            more = self._source.read(_LZW_CHUNK)
            self._ended = not more
            self._read += len(more)
            self._input += more
        part, self._input = self._input[:size], self._input[size:]
        return part

    def _decode(self) -> Iterator[bytes]:
        head = self._take(3)
        maxbits = head[2] & 0x1F if len(head) == 3 else 0
        if head[:2] != _MAGIC or not 9 <= maxbits <= 16:
            raise DamageError("compress data broken: its header makes no sense")
        block = bool(head[2] & _BLOCK_MODE)
        written = 0
        groups = self._groups(maxbits, block=block)
        try:
            while True:
                parts: list[bytes] = []
                count = 0
                for part in groups:
                    parts.append(part)
                    count += len(part)
                    if count >= _LZW_CHUNK:
                        break
                out = b"".join(parts)
                if not out:
                    return
                written += len(out)
                self._meter.take(out, self._read)
                yield out
        except DamageError as damage:
            if parts:
                yield b"".join(parts)
            message = str(damage).replace("@", f"after {written} bytes of text")
            raise DamageError(message) from None

    def _groups(self, maxbits: int, *, block: bool) -> Iterator[bytes]:
        """Yield the texts of all codes."""
        first = [bytes([code]) for code in range(256)] + ([b""] if block else [])
        table, bits, previous, held = list(first), 9, b"", 0
        while group := self._take(bits):
            number, mask = int.from_bytes(group, "little"), (1 << bits) - 1
            codes = len(group) * 8 // bits
            width = bits
            for at in range(codes):
                code = number >> width * at & mask
                if code == _CLEAR and block:
                    table, bits, previous, held = list(first), 9, b"", 0
                    break
                if code < len(table):
                    text = table[code]
                elif code == len(table) and previous:
                    text = previous + previous[:1]
                else:
                    raise DamageError("compress data broken @: a code that nothing defines")
                yield text
                if previous and len(table) < 1 << maxbits:
                    table.append(previous + text[:1])
                    held += len(previous) + 1
                    if held > _TABLE_BYTES:
                        raise DamageError("compress data stopped @: it only repeats one text")
                previous = text
                if len(table) == 1 << bits and bits < maxbits:
                    bits += 1
                    break


DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": GzipMember,
    "deflate": lambda: isal_zlib.decompressobj(wbits=-15),
    "zlib": lambda: isal_zlib.decompressobj(wbits=15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    "lzma": lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_XZ_MEMORY),
}
ARROW_FORMATS = frozenset(("zstd", "lz4"))
# The formats of a compressed file; zip has deflate inside.
COMPRESSIONS = (frozenset(DECOMPRESSORS) | ARROW_FORMATS | {"compress"}) - {"deflate"}
