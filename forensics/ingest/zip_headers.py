"""The records of a zip: its directory, what ends it, and what stands before each entry."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO

LOCAL, CENTRAL, DESCRIPTOR = b"PK\x03\x04", b"PK\x01\x02", b"PK\x07\x08"
END, END64, LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
CENTRAL_HEADER = struct.Struct("<4sHHHHHHIIIHHHHHII")
END_RECORD = struct.Struct("<4sHHHHIIH")
_LOCATOR = struct.Struct("<4sIQI")
_END64_RECORD = struct.Struct("<4sQHHIIQQQQ")
ENCRYPTED, STREAMED = 1, 8
_ZIP64, _UNICODE_PATH = 1, 0x7075
_BIG = 0xFFFFFFFF
_SEARCHED_TAIL = (1 << 16) + END_RECORD.size
_CHUNK = 1 << 20
_UNIX_LINK, _UNIX_KINDS = 0o120000, 0o170000


class ZipError(Exception):
    """A record that makes no sense."""


@dataclass(frozen=True)
class ZipEntry:
    """What a record says of an entry; `at` is where its local header begins."""

    name: bytes
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    at: int
    is_link: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether it has no content."""
        return self.name.endswith(b"/") and not self.size

    @property
    def encrypted(self) -> bool:
        """Whether a password is needed."""
        return bool(self.flags & ENCRYPTED)

    @property
    def streamed(self) -> bool:
        """Whether its sizes stand behind it."""
        return bool(self.flags & STREAMED)


@dataclass(frozen=True)
class ZipDirectory:
    """Where the directory lies, and how far all places are behind what it says.

    `trailing` bytes of something else follow the zip.
    """

    at: int
    size: int
    entries: int
    shift: int
    trailing: int = 0


def find_directory(file: IO[bytes], size: int) -> ZipDirectory | None:
    """Find the directory of a zip at its end; None if it has none that makes sense."""
    tail_at = max(0, size - _SEARCHED_TAIL)
    file.seek(tail_at)
    tail = file.read(size - tail_at)
    at = len(tail)
    while (at := tail.rfind(END, 0, at)) >= 0:
        if len(tail) - at < END_RECORD.size:
            continue
        record = tail[at : at + END_RECORD.size]
        found = _read_end(file, tail_at + at, record)
        if found is not None:
            comment = END_RECORD.unpack(record)[-1]
            rest = tail[at + END_RECORD.size + comment :]
            return replace(found, trailing=len(rest) if rest.strip(b"\0\r\n") else 0)
    return None


def _read_end(file: IO[bytes], at: int, record: bytes) -> ZipDirectory | None:
    *_, entries, length, offset, _ = END_RECORD.unpack(record)
    end = at
    if at >= _LOCATOR.size:
        file.seek(at - _LOCATOR.size)
        locator = file.read(_LOCATOR.size)
        if locator[:4] == LOCATOR64:
            found = _read_end64(file, at, _LOCATOR.unpack(locator)[2])
            if found is None:
                return None
            end, entries, length, offset = found
    begin = end - length
    if begin < 0 or begin < offset or (entries and length < entries * CENTRAL_HEADER.size):
        return None
    file.seek(begin)
    if entries and file.read(4) != CENTRAL:
        return None
    return ZipDirectory(begin, length, entries, begin - offset)


def _read_end64(file: IO[bytes], at: int, offset: int) -> tuple[int, int, int, int] | None:
    # Where something stands before the zip, the record is not where the locator says.
    for place in (offset, at - _LOCATOR.size - _END64_RECORD.size):
        if 0 <= place <= at - _END64_RECORD.size:
            file.seek(place)
            record = file.read(_END64_RECORD.size)
            if record[:4] == END64:
                *_, entries, length, begin = _END64_RECORD.unpack(record)
                return place, entries, length, begin
    return None


def read_directory(
    file: IO[bytes], at: int, size: int, shift: int
) -> Iterator[tuple[int, ZipEntry]]:
    """Yield the records of a directory, each with its place; raises ZipError at a broken one."""
    data, begin = b"", at
    file.seek(at)
    end = at + size
    read_to = at
    while begin < end:
        if len(data) < CENTRAL_HEADER.size + 3 * (1 << 16) and read_to < end:
            file.seek(read_to)
            more = file.read(min(_CHUNK, end - read_to))
            if not more:
                # The records themselves say where the directory ends.
                end = read_to
            read_to += len(more)
            data += more
        # Many records are taken from one piece, which is cut only when it is used up.
        used = 0
        while begin < end:
            whole = read_to >= end or len(data) - used >= CENTRAL_HEADER.size + 3 * (1 << 16)
            if not whole:
                break
            entry, length = parse_central(data, used, shift)
            yield begin, entry
            used += length
            begin += length
        data = data[used:]


def parse_central(data: bytes, at: int, shift: int = 0) -> tuple[ZipEntry, int]:
    """Read one record of a directory, and how long it is."""
    if len(data) - at < CENTRAL_HEADER.size or data[at : at + 4] != CENTRAL:
        raise ZipError("a record of the directory is broken")
    found = CENTRAL_HEADER.unpack_from(data, at)
    _, made, _, flags, method, _, _, crc, packed, size, names, extras, comments = found[:13]
    attributes, offset = found[15], found[16]
    name_at = at + CENTRAL_HEADER.size
    name = data[name_at : name_at + names]
    extra = data[name_at + names : name_at + names + extras]
    length = CENTRAL_HEADER.size + names + extras + comments
    if at + length > len(data):
        raise ZipError("a record of the directory is broken")
    size, packed, offset = _wide(extra, size, packed, offset)
    link = made >> 8 == 3 and attributes >> 16 & _UNIX_KINDS == _UNIX_LINK
    name = _best_name(name, extra)
    return ZipEntry(name, method, flags, crc, packed, size, offset + shift, link), length


def parse_local(data: bytes, at: int = 0) -> tuple[ZipEntry, int] | None:
    """Read a local header and its length; None if it makes no sense or is not whole."""
    if len(data) - at < LOCAL_HEADER.size or data[at : at + 4] != LOCAL:
        return None
    found = LOCAL_HEADER.unpack_from(data, at)
    _, version, flags, method, _, _, crc, packed, size, names, extras = found
    length = LOCAL_HEADER.size + names + extras
    name = data[at + LOCAL_HEADER.size : at + LOCAL_HEADER.size + names]
    if version & 0xFF > 63 or method > 99 or not names or len(data) - at < length:
        return None
    extra = data[at + LOCAL_HEADER.size + names : at + length]
    size, packed, _ = _wide(extra, size, packed, 0)
    entry = ZipEntry(_best_name(name, extra), method, flags, crc, packed, size, at)
    return entry, length


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length


def _wide(extra: bytes, *numbers: int) -> tuple[int, int, int]:
    """Replace numbers that did not fit by those of the zip64 field."""
    wide = list(numbers)
    if _BIG in numbers:
        for kind, field in _fields(extra):
            if kind == _ZIP64:
                at = 0
                for index, number in enumerate(numbers):
                    if number == _BIG and at + 8 <= len(field):
                        wide[index] = int.from_bytes(field[at : at + 8], "little")
                        at += 8
    size, packed, offset = wide
    return size, packed, offset


def _best_name(name: bytes, extra: bytes) -> bytes:
    r"""Take the UTF-8 name that some tools add; those of Windows part folders by backslashes.

    >>> _best_name(rb"logs\broker-1\server.log", b""), _best_name(b"a/b\\c", b"")
    (b'logs/broker-1/server.log', b'a/b\\c')
    """
    if extra and not name.isascii():
        for kind, field in _fields(extra):
            if kind == _UNICODE_PATH and len(field) > 5:
                return field[5:]
    if b"\\" in name and b"/" not in name:
        with suppress(UnicodeDecodeError):
            # In other encodings this byte is a part of letters.
            name.decode()
            return name.replace(b"\\", b"/")
    return name
