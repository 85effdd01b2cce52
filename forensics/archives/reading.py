"""Reads splits: yields the files of a split as blocks of bytes, with where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO

from forensics import places
from forensics.archives.cutting import HEAD, LONGEST, Cutter, Part
from forensics.archives.digests import Digest
from forensics.archives.planning import Split
from forensics.archives.starts import Signature
from forensics.archives.unpacking import BLOCK, Unpacked, blocks, unpack, zip_member
from forensics.archives.unwrapping import Unwrapping, choose
from forensics.masking import Names
from forensics.meter import Meter, metered

__all__ = ["Opened", "Piece", "begin", "digest", "pieces"]


@dataclass
class Piece:
    """A part of one file: its blocks, and what a cutter must know about the part."""

    file: str
    number: int
    begin: int
    limit: int | None
    blocks: Iterator[bytes]
    head: bytes | None
    item: Unpacked
    whole: bool
    # the line before the part
    before: bytes = b""


@dataclass(frozen=True)
class Opened:
    """A piece that is ready to be cut: what its head says, and its blocks with the last marked."""

    head: bytes
    unwrapping: Unwrapping | None
    headless: bool
    cutter: Cutter
    blocks: Iterator[tuple[bytes, bool]]


def begin(piece: Piece, signatures: Sequence[Signature]) -> Opened:
    """Judge a piece by the head of its file: how its lines are wrapped, if it has records."""
    head, blocks = (piece.head, piece.blocks) if piece.head is not None else _peeked(piece.blocks)
    unwrapping = choose(head, signatures)
    probe = Cutter(signatures, Part(unwrapping=unwrapping))
    probe.feed(head[:HEAD], final=True)
    headless = probe.account.records == 0
    part = Part(
        offset=piece.begin,
        limit=piece.limit,
        orphan=piece.number > 0,
        headless=headless,
        unwrapping=unwrapping,
        before=piece.before,
    )
    return Opened(head, unwrapping, headless, Cutter(signatures, part), _with_last(blocks))


def pieces(split: Split, meter: Meter | None = None) -> Iterator[Piece]:
    """Open a split: one piece for a range, one for every file inside a stream."""
    if split.role == "range":
        with places.opened(split.path) as file:
            yield _range(split, metered(file, meter))
        return
    with places.opened(split.path) as file:
        whole = metered(file, meter)
        source = zip_member(split.path, split.member) if split.member else _at(whole, split)
        inside = Names()
        for item in unpack(split.file, source):
            yield Piece(inside.shown(item.file), 0, 0, None, blocks(item), None, item, whole=True)


def digest(split: Split) -> Digest:
    """Compute the digest of a whole plain file."""
    found = Digest()
    with places.opened(split.path) as file:
        for block in _stretch(file, split.at, split.size):
            found.update(block)
    return found


def _peeked(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Read enough of a file to judge it by its head; it is the first block of what is given."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD:
            break
    return head, chain([head], blocks)


def _with_last(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield blocks, each with whether it is the last one; there is always one."""
    held = b""
    for block in blocks:
        if held:
            yield held, False
        held = block
    yield held, True


def _range(split: Split, file: IO[bytes]) -> Piece:
    begin, before = split.begin, b""
    if begin:
        begin = _line_after(file, split)
        before = _line_before(file, split, begin)
    whole = split.end - split.begin == split.size
    head = None if whole else b"".join(_stretch(file, split.at, min(split.size, HEAD)))
    stretch = _beyond(file, split, begin)
    limit = None if split.end == split.size else split.end
    item = Unpacked(split.file, file)
    return Piece(split.file, split.number, begin, limit, stretch, head, item, whole, before)


def _beyond(file: IO[bytes], split: Split, begin: int) -> Iterator[bytes]:
    """Read a split, and then small blocks beyond it until the reader has what it owns."""
    yield from _stretch(file, split.at + begin, split.end - begin)
    begin = max(begin, split.end)
    yield from _stretch(file, split.at + begin, split.size - begin, 64 << 10)


def _line_after(file: IO[bytes], split: Split) -> int:
    """Find where the first line of a split starts: after the break that ends the line before."""
    at = split.begin - 1
    for block in _stretch(file, split.at + at, split.size - at, 64 << 10):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return split.size


def _line_before(file: IO[bytes], split: Split, begin: int) -> bytes:
    """Read the line that ends where the first line of a split starts, as far as a line is kept."""
    line = b""
    while begin - len(line) > 0 and len(line) <= LONGEST:
        size = min(64 << 10, begin - len(line))
        file.seek(split.at + begin - len(line) - size)
        line = file.read(size) + line
        found = line.rfind(b"\n", 0, -1)
        if found >= 0:
            return line[found + 1 :]
    return line


def _stretch(file: IO[bytes], at: int, length: int, size: int = BLOCK) -> Iterator[bytes]:
    while length > 0:
        file.seek(at)
        block = file.read(min(size, length))
        if not block:
            return
        yield block
        at += len(block)
        length -= len(block)


class _Part:
    """A stretch of an open file as a stream."""

    def __init__(self, file: IO[bytes], at: int, size: int) -> None:
        self._file, self._at, self._left = file, at, size

    def read(self, size: int = -1, /) -> bytes:
        self._file.seek(self._at)
        part = self._file.read(self._left if size < 0 else min(size, self._left))
        self._at += len(part)
        self._left -= len(part)
        return part


def _at(file: IO[bytes], split: Split) -> _Part:
    return _Part(file, split.at, split.size or split.end)
