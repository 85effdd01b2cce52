"""Reads zips: one entry by its record in the directory, or all of them one after the other.

The second way needs no directory, so it reads a zip that was cut off, and one in a stream; what the
directory says is compared with what was there as soon as it comes by.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import IO

from isal import isal_zlib

from forensics.ingest.compression import Decompressed, Readable, decompress
from forensics.ingest.pushback_stream import ForwardInput
from forensics.ingest.read_limits import Budget, DamageError
from forensics.ingest.zip_headers import (
    CENTRAL,
    CENTRAL_HEADER,
    DESCRIPTOR,
    END,
    END64,
    END_RECORD,
    LOCAL,
    LOCAL_HEADER,
    LOCATOR64,
    ZipEntry,
    ZipError,
    parse_central,
    parse_local,
)

_CHUNK = 256 << 10
_LONGEST_HEADER = LOCAL_HEADER.size + 2 * (1 << 16)
_SIGNATURE = re.compile(rb"PK(?:\x03\x04|\x01\x02|\x05\x06|\x06\x06)")
STORED, DEFLATED, BZIP2, LZMA, ZSTD, XZ = 0, 8, 12, 14, 93, 95
_METHODS = {DEFLATED: "deflate", BZIP2: "bzip2", ZSTD: "zstd", XZ: "xz"}
_NAMES = {1: "Shrink", 6: "Implode", 9: "Deflate64", 97: "WavPack", 98: "PPMd", 99: "AES"}
# So much before the first entry may be a program that unpacks the rest.
_LONGEST_PROGRAM = 64 << 20


def why_unread(entry: ZipEntry) -> str | None:
    """Say why an entry cannot be read; None if it can."""
    if entry.encrypted:
        return "the entry is encrypted; unpack it first"
    if entry.method not in (STORED, LZMA, *_METHODS):
        named = f" ({_NAMES[entry.method]})" if entry.method in _NAMES else ""
        return f"compressed by method {entry.method}{named}, which is not read; unpack it first"
    return None


def open_entry(file: IO[bytes], entry: ZipEntry, budget: Budget | None = None) -> Readable:
    """Open an entry of a zip on disk by its record in the directory."""
    file.seek(entry.at)
    header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size or header[:4] != LOCAL:
        raise DamageError("the entry's header is not where the index says")
    names, extras = struct.unpack_from("<HH", header, 26)
    raw = _FileRange(file, entry.at + LOCAL_HEADER.size + names + extras, entry.packed)
    return _Checked(_unpack(raw, entry, budget), entry.crc, entry.size)


def _unpack(raw: Readable, entry: ZipEntry, budget: Budget | None) -> Readable:
    if entry.method == STORED:
        return raw
    if entry.method == LZMA:
        return Decompressed(_LzmaSource(raw, entry.size), "lzma", budget, single=True)
    return decompress(raw, _METHODS[entry.method], budget, single=True)


class _LzmaSource:
    """LZMA as zip has it, with the header that a .lzma file has."""

    def __init__(self, raw: Readable, size: int) -> None:
        head = raw.read(9)
        if len(head) < 9 or head[2:4] != b"\x05\0" or head[4] >= 225:
            raise DamageError("lzma data broken: its header makes no sense")
        self._head = head[4:] + (size.to_bytes(8, "little") if size else b"\xff" * 8)
        self._raw = raw

    def read(self, size: int = -1, /) -> bytes:
        part, self._head = self._head, b""
        return part or self._raw.read(size)


class _FileRange:
    """Some bytes of an open file, which must be there."""

    def __init__(self, file: IO[bytes], at: int, left: int) -> None:
        self._file, self._at, self._left = file, at, left

    def read(self, size: int = -1, /) -> bytes:
        self._file.seek(self._at)
        part = self._file.read(self._left if size < 0 else min(size, self._left))
        if not part and self._left and size:
            raise DamageError(f"the file ends {self._left} bytes before the entry does")
        self._at += len(part)
        self._left -= len(part)
        return part


class _Checked:
    """An entry whose checksum and length are compared at its end."""

    def __init__(self, source: Readable, crc: int, size: int) -> None:
        self._source, self._wanted = source, (crc, size)
        self._crc = self._size = 0

    def read(self, size: int = -1, /) -> bytes:
        part = self._source.read(size)
        self._crc = isal_zlib.crc32(part, self._crc)
        self._size += len(part)
        if self._size > self._wanted[1] + _CHUNK:
            raise DamageError(f"the entry has more than the {self._wanted[1]} bytes promised")
        if not part and size and (self._crc, self._size) != self._wanted:
            wanted, self._wanted = self._wanted, (self._crc, self._size)
            raise DamageError(_difference(wanted, self._size))
        return part


def _difference(wanted: tuple[int, int], size: int) -> str:
    if wanted[1] != size:
        return f"the entry has {size} bytes, and {wanted[1]} are promised"
    return "the entry has a wrong checksum; some of its text is not what was packed"


class ZipStream:
    """Walks over the entries of a zip in the order in which they lie, by their local headers."""

    def __init__(self, source: Readable, budget: Budget | None = None) -> None:
        """Read `source` from the first byte of a zip, or of the program before it."""
        self._input = ForwardInput(source)
        self._budget = budget or Budget()
        self.faults: list[str] = []
        self.notes: list[str] = []
        # entries that the directory names, and that were not there
        self.missing: list[bytes] = []
        self._seen: set[int] = set()
        self._listed: dict[int, bytes] = {}
        self._ended = False
        self._found = self._promised = 0

    def __iter__(self) -> Iterator[tuple[ZipEntry, Readable]]:
        """Yield entries with their text; what is left of one is skipped before the next."""
        while head := self._input.peek(4):
            if head == LOCAL:
                found = self._local()
                if found is not None:
                    entry, data = found
                    self._ended = False
                    yield entry, data
                    data.finish()
                    continue
            elif head == CENTRAL and self._central():
                continue
            elif head == END:
                self._end()
                continue
            elif head == END64:
                size = int.from_bytes(self._input.take(12)[4:], "little")
                self._input.skip(min(size, 1 << 20))
                continue
            elif head == LOCATOR64:
                self._input.take(20)
                continue
            elif head in (DESCRIPTOR, b"PK00") and not self._seen:
                # The mark of a zip that was to have several volumes.
                self._input.take(4)
                continue
            if not self._resync():
                break
        self._conclude()

    def _local(self) -> tuple[ZipEntry, _EntryData] | None:
        head = self._input.peek(LOCAL_HEADER.size)
        if len(head) < LOCAL_HEADER.size:
            return None
        names, extras = struct.unpack_from("<HH", head, 26)
        found = parse_local(self._input.peek(LOCAL_HEADER.size + names + extras))
        if found is None:
            return None
        entry, length = found
        self._input.skip(length)
        self._seen.add(hash(entry.name))
        self._found += 1
        return entry, _EntryData(self._input, entry, self._budget)

    def _central(self) -> bool:
        head = self._input.peek(CENTRAL_HEADER.size)
        if len(head) < CENTRAL_HEADER.size:
            return False
        length = CENTRAL_HEADER.size + sum(struct.unpack_from("<HHH", head, 28))
        try:
            entry, length = parse_central(self._input.peek(length), 0)
        except ZipError:
            return False
        self._input.skip(length)
        if hash(entry.name) not in self._seen and len(self._listed) < 1000:
            self._listed[hash(entry.name)] = entry.name
        return True

    def _end(self) -> None:
        record = self._input.take(END_RECORD.size)
        if len(record) == END_RECORD.size:
            self._ended = True
            self._promised += END_RECORD.unpack(record)[4]
            self._input.skip(END_RECORD.unpack(record)[-1])

    def _resync(self) -> bool:
        """Go to the next record, and say what was skipped; False where no zip is to be seen."""
        at, data, skipped = self._input.at, self._input.take(4), 0
        while True:
            found = _SIGNATURE.search(data, 1)
            if found:
                skipped += found.start()
                self._input.back(data[found.start() :])
                break
            keep = data[-3:]
            skipped += len(data) - len(keep)
            more = self._input.take_some(_CHUNK)
            if not more:
                skipped += len(keep)
                break
            if not self._seen and skipped > _LONGEST_PROGRAM:
                break
            data = keep + more
        if not self._seen:
            if skipped > _LONGEST_PROGRAM:
                self.faults.append(f"its first {skipped} bytes are no zip; not read further")
                return False
            self.notes.append(f"{skipped} bytes stand before the first entry")
        elif self._ended and not found:
            self.notes.append(f"{skipped} bytes that are no zip follow its end")
        elif len(self.faults) < 8:
            self.faults.append(f"{skipped} bytes at byte {at} belong to no entry")
        return True

    def _conclude(self) -> None:
        if self._input.damage:
            if self._input.damage.harmless:
                self.notes.append(str(self._input.damage))
            else:
                self.faults.append(f"the archive breaks off: {self._input.damage}")
        elif not self._ended:
            self.faults.append("its directory is missing: the zip was cut off")
        if self._promised > self._found:
            fault = f"its end names {self._promised} entries, and {self._found} were found"
            self.faults.append(fault)
        self.missing = [name for key, name in self._listed.items() if key not in self._seen]


class _EntryData:
    """The text of an entry in a stream, with what stands behind it."""

    def __init__(self, source: ForwardInput, entry: ZipEntry, budget: Budget) -> None:
        self._input, self._entry = source, entry
        self._open_end = entry.streamed and not entry.packed
        self._left = entry.packed
        self._crc = self._size = self._taken = 0
        self._stream: Readable | None = None
        self._budget = budget
        self._ended = False

    def read(self, size: int = -1, /) -> bytes:
        if self._ended:
            return b""
        if self._stream is None:
            self._stream = self._opened()
        part = self._stream.read(size)
        self._crc = isal_zlib.crc32(part, self._crc)
        self._size += len(part)
        if not part and size:
            self._close()
        return part

    def _opened(self) -> Readable:
        raw: Readable = _Raw(self)
        if self._open_end and self._entry.method == STORED:
            return _UntilDescriptor(self._input)
        return _unpack(raw, self._entry, self._budget)

    def take_raw(self, size: int) -> bytes:
        """Read packed bytes of the entry."""
        size = _CHUNK if size < 0 else size
        part = self._input.take_some(size if self._open_end else min(size, self._left))
        if not self._open_end and not part and self._left and size:
            why = f": {self._input.damage}" if self._input.damage else ""
            raise DamageError(f"the archive ends {self._left} bytes before the entry does{why}")
        self._left -= len(part)
        self._taken += len(part)
        return part

    def _close(self) -> None:
        """Compare checksum and length; where they stand behind the text, read them."""
        self._ended = True
        wanted = (self._entry.crc, self._entry.size)
        if self._open_end:
            rest = getattr(self._stream, "rest", b"")
            self._input.back(rest)
            wanted = self._descriptor(self._taken - len(rest))
        elif self._entry.streamed:
            self._input.skip(self._left)
            self._left = 0
            self._descriptor(self._entry.packed)
        self._stream = None
        if wanted != (self._crc, self._size):
            raise DamageError(_difference(wanted, self._size))

    def _descriptor(self, packed: int) -> tuple[int, int]:
        """Read what follows a streamed entry, of the two widths that it may have."""
        data = self._input.peek(24)
        marked = 4 if data.startswith(DESCRIPTOR) else 0
        if isinstance(self._stream, _UntilDescriptor):
            packed = self._size
        for layout, length in (("<III", 12), ("<IQQ", 20)):
            if len(data) >= marked + length:
                crc, given, size = struct.unpack_from(layout, data, marked)
                if given == packed:
                    self._input.skip(marked + length)
                    return crc, size
        return self._crc, self._size

    def finish(self) -> None:
        """Go behind the entry, and leave its stream, which holds this entry and much memory."""
        self._go_behind()
        self._stream = None

    def _go_behind(self) -> None:
        if not self._open_end:
            self._input.skip(self._left)
            if self._entry.streamed and not self._ended:
                self._ended = True
                self._descriptor(self._entry.packed)
            return
        if not self._entry.encrypted:
            try:
                while self.read(_CHUNK):
                    pass
            except DamageError:
                self._ended = True


class _Raw:
    """The packed bytes of an entry."""

    def __init__(self, entry: _EntryData) -> None:
        self._entry = entry

    def read(self, size: int = -1, /) -> bytes:
        return self._entry.take_raw(size)


class _UntilDescriptor:
    """A stored entry whose length stands behind it: its end is where checksum and length fit."""

    def __init__(self, source: ForwardInput) -> None:
        self._input = source
        self._crc = self._size = 0

    def read(self, size: int = -1, /) -> bytes:  # noqa: ARG002 - up to the next mark
        data = self._input.take(_CHUNK)
        if not data:
            if self._input.damage:
                raise self._input.damage
            raise DamageError("the archive ends before the entry does")
        at = 0
        while (at := data.find(b"PK", at)) >= 0:
            if at + 24 > len(data) and len(data) == _CHUNK:
                break
            if data[at : at + 4] == DESCRIPTOR and self._fits(data, at):
                break
            at += 2
        end = len(data) if at < 0 else at
        if at < 0 and data.endswith(b"P") and len(data) == _CHUNK:
            end -= 1
        part = data[:end]
        self._input.back(data[end:])
        self._crc = isal_zlib.crc32(part, self._crc)
        self._size += len(part)
        return part

    def _fits(self, data: bytes, at: int) -> bool:
        for layout in ("<4sIII", "<4sIQQ"):
            if len(data) - at >= struct.calcsize(layout):
                _, crc, packed, size = struct.unpack_from(layout, data, at)
                if packed == size == self._size + at:
                    return bool(crc == isal_zlib.crc32(data[:at], self._crc))
        return False
