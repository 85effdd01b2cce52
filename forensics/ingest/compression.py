"""Decompresses streams: every member of them, also behind a broken one, and says what is wrong.

A stream returns every byte that it can, and tells of all damage at its end.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, Protocol, cast

from isal import isal_zlib

from forensics.ingest.budget import Budget, DamageError, OutputMeter
from forensics.ingest.formats import SNIFF_BYTES, sniff_format
from forensics.ingest.frames import ArrowStream
from forensics.ingest.gzip_member import ChecksumError, GzipMember
from forensics.ingest.lzw import LzwStream

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

    @property
    def consumed(self) -> int:
        """How many bytes of the source belong to what was read so far."""
        return self._read - len(self._input)

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


def decompress(
    source: Readable, kind: str, budget: Budget | None = None, *, single: bool = False
) -> Readable:
    """Open a compressed stream; `single`: what follows its first member is something else."""
    if kind == "compress":
        return LzwStream(source, budget)
    opener = ArrowStream if kind in ARROW_FORMATS else Decompressed
    return opener(source, kind, budget, single=single)
