"""The headers of tar archives, of every kind that people have: v7, ustar, GNU, pax, old star.

Nothing here reads data: `tar_reader.py` walks from header to header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from forensics.ingest.formats import TAR_BLOCK, tar_checksum_fits

# What stands in a header instead of a file, by the letter of its type.
SPECIAL = {
    b"1": "hard links",
    b"2": "symbolic links",
    b"3": "devices",
    b"4": "devices",
    b"5": "folders",
    b"6": "named pipes",
    b"D": "folders",
    b"V": "volume labels",
}
_NAMES = {b"L": "name", b"K": "link", b"N": "old names"}
PAX = (b"x", b"X", b"g")
SPARSE, CONTINUED = b"S", b"M"
_USTAR = b"ustar"
_GNU = b"ustar  \0"
_SPARSE_AT, _SPARSE_WIDTH = 386, 24
# More records of a header say nothing of a log.
_MAX_RECORDS = 20_000
# The checksum of a header, the type, a link's name, and a known form or none.
_HEADER = re.compile(rb"[ 0-7]{6}[ 0-7\0]{2}(?=.{101}(?:ustar|\0{8}))", re.DOTALL)
_CHECKSUM_AT = 148
# (offset, length) of the parts of a file that are stored; all else are holes.
SparseMap = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TarHeader:
    """One block of 512 bytes that describes what follows."""

    name: bytes
    type: bytes
    size: int
    link: bytes
    # what only an old GNU sparse file has
    sparse: SparseMap = ()
    sparse_goes_on: bool = False
    real_size: int = 0

    @property
    def stored(self) -> int:
        """How many bytes follow the header: links and devices have none, whatever they say."""
        return 0 if self.type in (b"1", b"2", b"3", b"4", b"5", b"6", b"V") else self.size

    @property
    def long_name(self) -> str | None:
        """What the data are a long name of, if they are one."""
        return _NAMES.get(self.type)


def padded(size: int) -> int:
    """Round up to whole blocks."""
    return -(-size // TAR_BLOCK) * TAR_BLOCK


def parse_header(block: bytes, *, damaged: bool = False) -> TarHeader | None:
    """Read a header; None if the block is none. A `damaged` one may have another checksum."""
    if not damaged and not tar_checksum_fits(block):
        return None
    size = _number(block[124:136])
    if size is None or size < 0:
        return None
    kind = block[156:157]
    name = _text(block[:100])
    if kind in (b"0", b"\0", b"7") and name.endswith(b"/"):
        # Version 7 has no type for a folder.
        kind = b"5"
    gnu = block[257:265] == _GNU
    prefix = b"" if gnu or block[257:262] != _USTAR or kind == SPARSE else _text(block[345:500])
    full = prefix + b"/" + name if prefix else name
    if kind != SPARSE:
        return TarHeader(full, kind, size, _text(block[157:257]))
    real = _number(block[483:495])
    parts = parse_sparse(block, _SPARSE_AT, 4)
    return TarHeader(full, kind, size, b"", parts, block[482] != 0, real or 0)


def find_header(data: bytes, begin: int = 0) -> int | None:
    """Find the first valid header, at any byte: a damaged stream has lost its blocks."""
    for found in _HEADER.finditer(data, begin + _CHECKSUM_AT):
        start = found.start() - _CHECKSUM_AT
        block = data[start : start + TAR_BLOCK]
        if len(block) == TAR_BLOCK and block[0] > 32 and parse_header(block):
            return start
    return None


def is_headless_tar(head: bytes) -> bool:
    """Return True if a tar whose first header is damaged begins like this."""
    return b"\0" in head[:TAR_BLOCK] and find_header(head) is not None


def parse_sparse(block: bytes, at: int, count: int) -> SparseMap:
    """Read the parts that stand in a block of an old GNU sparse file."""
    parts: list[tuple[int, int]] = []
    for begin in range(at, at + count * _SPARSE_WIDTH, _SPARSE_WIDTH):
        offset, size = _number(block[begin : begin + 12]), _number(block[begin + 12 : begin + 24])
        if offset is None or size is None or not block[begin]:
            break
        parts.append((offset, size))
    return tuple(parts)


def parse_pax(data: bytes) -> tuple[dict[str, bytes], list[tuple[str, bytes]], bool]:
    r"""Read a pax header: its records, those of a sparse file in order, and if all is well.

    >>> parse_pax(b"12 path=a/b\n")
    ({'path': b'a/b'}, [], True)
    """
    found: dict[str, bytes] = {}
    sparse: list[tuple[str, bytes]] = []
    at = 0
    for _ in range(_MAX_RECORDS):
        if at >= len(data) or not data[at]:
            return found, sparse, True
        blank = data.find(b" ", at, at + 20)
        digits = data[at:blank] if blank > 0 else b""
        end = at + int(digits) if digits.isdigit() else 0
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if blank < 0 or end > len(data) or end <= blank or not equals or data[end - 1] != 10:
            return found, sparse, False
        name = key.decode("utf-8", "surrogateescape")
        found[name] = value
        if name in ("GNU.sparse.offset", "GNU.sparse.numbytes"):
            sparse.append((name, value))
        at = end
    return found, sparse, False


def pax_sparse_map(pax: dict[str, bytes], ordered: list[tuple[str, bytes]]) -> SparseMap | None:
    """Return the map of a sparse file of the forms 0.0 and 0.1; None if there is none."""
    if "GNU.sparse.map" in pax:
        words = [word for word in pax["GNU.sparse.map"].split(b",") if word]
    elif ordered:
        words = [value for _, value in ordered]
    else:
        return None
    numbers = [int(word) if word.isdigit() and len(word) < 21 else -1 for word in words]
    return tuple(zip(numbers[::2], numbers[1::2], strict=False))


def is_sound_map(parts: SparseMap, stored: int, size: int) -> bool:
    """Return True if the parts follow each other, and there is as much data as they say."""
    end = total = 0
    for offset, length in parts:
        if offset < end or length < 0:
            return False
        end, total = offset + length, total + length
    return end <= size and total <= stored


def _number(field: bytes) -> int | None:
    """Read a number: octal digits, or binary where these were too few."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big")
        negative = field[0] & 0x40
        return value - (1 << 8 * len(field)) if negative else value - (0x80 << 8 * (len(field) - 1))
    digits = field.strip(b" \0").partition(b"\0")[0]
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]
