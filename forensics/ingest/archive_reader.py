"""Unpacks archives as streams: nothing is written to disk, however they are nested.

Digests of a file while it is read: of all of it, and of its head at lengths that double.

A log that is still written to begins with what it held before: two files with the same head are
told apart from two that only look alike by the longest head that both have.

Reads splits: yields the files of a split as blocks of bytes, with where they stand.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, cast

from forensics.ingest.compression import (
    DamageError,
    Decompressed,
    PeekableStream,
    Readable,
    Utf16Stream,
    sniff_format,
)
from forensics.ingest.read_counters import ReadCounter, count_reads
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import RecordSplitter, SplitterOptions
from forensics.ingest.record_starts import HEAD_BYTES, MAX_RECORD, Signature
from forensics.ingest.wrapper_detection import WrapperStack, detect_wrappers
from forensics.lib import storage
from forensics.lib.secrets import NameMasker

FIRST_PREFIX = 256
_KEPT = 16


class PrefixDigest:
    """Takes a file block by block.

    >>> digest = PrefixDigest()
    >>> digest.update(b"x" * 600)
    >>> sorted(digest.prefixes)
    ['256', '512']
    """

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.prefixes: dict[str, str] = {}
        self._whole = hashlib.sha256()
        self._read = 0
        self._next = FIRST_PREFIX

    def update(self, block: bytes) -> None:
        """Take the next block."""
        rest = memoryview(block)
        while self._read + len(rest) >= self._next:
            part, rest = rest[: self._next - self._read], rest[self._next - self._read :]
            self._whole.update(part)
            self._read = self._next
            self.prefixes[str(self._next)] = self._whole.hexdigest()[:_KEPT]
            self._next *= 2
        self._whole.update(rest)
        self._read += len(rest)

    def hexdigest(self) -> str:
        """Give the digest of all that was taken."""
        return self._whole.hexdigest()


# Small enough to stay in the processor's cache while it is looked at again and again.
BLOCK = 4 << 20
# An archive in an archive in an archive is enough for anybody.
_MAX_DEPTH = 5
# What something is (gzip, tar, zip, utf-16, ..), and which member of it.
UnpackStep = tuple[str, str]
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass
class Unpacked:
    """One text file on its way out of an archive; `damaged` is set when its stream breaks.

    `steps` say what was opened on the way, and which of its members was taken where it has any.
    """

    file: str
    source: Readable
    damaged: str | None = None
    steps: tuple[UnpackStep, ...] = ()


def unpack_files(
    name: str, source: Readable, depth: int = 0, steps: tuple[UnpackStep, ...] = ()
) -> Iterator[Unpacked]:
    """Yield the text files of a stream, which may be compressed, an archive, or both."""
    try:
        head = PeekableStream(source)
    except (DamageError, OSError) as error:
        yield Unpacked(name, _Nothing(), str(error))
        return
    kind = sniff_format(head.head)
    if depth > _MAX_DEPTH and kind != "plain":
        yield Unpacked(name, _Nothing(), f"archives nested more than {_MAX_DEPTH} deep; not opened")
    elif kind == "tar":
        yield from _tar(name, head, depth, steps)
    elif kind == "zip":
        yield from _nested_zip(name, head, depth, steps)
    elif kind == "utf-16":
        yield Unpacked(name, Utf16Stream(head), steps=(*steps, (kind, "")))
    elif kind == "plain":
        yield Unpacked(name, head, steps=steps)
    else:
        yield from unpack_files(name, Decompressed(head, kind), depth + 1, (*steps, (kind, "")))


def read_blocks(item: Unpacked, size: int = BLOCK) -> Iterator[bytes]:
    """Read a file block by block, to the end or to the place where it breaks."""
    try:
        while block := item.source.read(size):
            yield block
    except (DamageError, OSError, EOFError, tarfile.TarError, zlib.error, ValueError) as error:
        item.damaged = str(error) or type(error).__name__


def open_zip_member(path: str, member: str) -> Readable:
    """Open one member of a zip file; reads the bytes themselves, so that a cut loses nothing."""
    with storage.open_file(path) as file, zipfile.ZipFile(file) as archive:
        info = archive.getinfo(member)
    return _zip_stream(storage.open_file(path), info)


def _tar(
    name: str, source: Readable, depth: int, steps: tuple[UnpackStep, ...]
) -> Iterator[Unpacked]:
    calm = _Calm(source)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", calm), mode="r|", bufsize=BLOCK) as archive:
            for member in archive:
                if member.isreg() and not member.issparse():
                    # The stream stands at the member's first byte; its own reader gives nothing
                    # of what it cannot give entirely.
                    whole = _Whole(cast("Readable", archive.fileobj), member.size, calm)
                    taken = (*steps, ("tar", member.name))
                    yield from unpack_files(f"{name}!{member.name}", whole, depth + 1, taken)
    except (tarfile.TarError, OSError, EOFError) as error:
        calm.damage = calm.damage or DamageError(str(error))
    if calm.damage:
        yield Unpacked(name, _Nothing(), f"the archive breaks off: {calm.damage}")


def _nested_zip(
    name: str, source: Readable, depth: int, steps: tuple[UnpackStep, ...]
) -> Iterator[Unpacked]:
    """Read a zip inside something else; its index is at its end, so it goes to a spool first."""
    with tempfile.TemporaryFile() as spool:
        try:
            shutil.copyfileobj(cast("IO[bytes]", source), spool)
            archive = zipfile.ZipFile(spool)
        except (DamageError, OSError, zipfile.BadZipFile) as error:
            yield Unpacked(name, _Nothing(), f"zip not readable: {error}")
            return
        for info in archive.infolist():
            if not info.is_dir():
                stream = _zip_stream(spool, info)
                taken = (*steps, ("zip", info.filename))
                yield from unpack_files(f"{name}!{info.filename}", stream, depth + 1, taken)


def _zip_stream(file: IO[bytes], info: zipfile.ZipInfo) -> Readable:
    if info.flag_bits & 1:
        return _Broken("the entry is encrypted; unpack it first")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        return _Broken("the entry's header is not where the index says")
    _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    raw = _Region(file, start, info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        return raw
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return Decompressed(raw, "deflate")
    if info.compress_type == zipfile.ZIP_BZIP2:
        return Decompressed(raw, "bzip2")
    return _Broken(f"compressed by method {info.compress_type}, which is not read; unpack it first")


@dataclass
class _Region:
    """A stretch of a file."""

    file: IO[bytes]
    at: int
    left: int

    def read(self, size: int = -1, /) -> bytes:
        self.file.seek(self.at)
        part = self.file.read(self.left if size < 0 else min(size, self.left))
        if not part and self.left and size:
            message = f"the file ends {self.left} bytes before the entry does"
            raise DamageError(message)
        self.at += len(part)
        self.left -= len(part)
        return part


@dataclass
class _Calm:
    """A stream that ends where it breaks: tarfile would throw away what it has read so far."""

    source: Readable
    damage: DamageError | None = None

    def read(self, size: int = -1, /) -> bytes:
        if self.damage is None:
            try:
                return self.source.read(size)
            except DamageError as damage:
                self.damage = damage
        return b""


@dataclass
class _Whole:
    """A member that must have the length its archive promises."""

    source: Readable
    left: int
    archive: _Calm

    def read(self, size: int = -1, /) -> bytes:
        part = self.source.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(part)
        if not part and self.left > 0 and size:
            why = f": {self.archive.damage}" if self.archive.damage else ""
            message = f"the archive ends {self.left} bytes before this file does{why}"
            raise DamageError(message)
        return part


@dataclass
class _Broken:
    """A file that cannot be read at all, and why."""

    why: str

    def read(self, _size: int = -1, /) -> bytes:
        raise DamageError(self.why)


class _Nothing:
    """A file of which nothing is left."""

    def read(self, _size: int = -1, /) -> bytes:
        return b""


@dataclass
class FilePart:
    """A part of one file: its blocks, and what a cutter must know about the part."""

    file: str
    number: int
    begin: int
    limit: int | None
    blocks: Iterator[bytes]
    head: bytes | None
    unpacked: Unpacked
    whole: bool
    # the line before the part
    before: bytes = b""


@dataclass(frozen=True)
class OpenedPart:
    """A piece that is ready to be cut: what its head says, and its blocks with the last marked."""

    head: bytes
    wrappers: WrapperStack | None
    headless: bool
    splitter: RecordSplitter
    blocks: Iterator[tuple[bytes, bool]]


def open_splitter(piece: FilePart, signatures: Sequence[Signature]) -> OpenedPart:
    """Judge a piece by the head of its file: how its lines are wrapped, if it has records."""
    head, blocks = (piece.head, piece.blocks) if piece.head is not None else _peeked(piece.blocks)
    unwrapping = detect_wrappers(head, signatures)
    probe = RecordSplitter(signatures, SplitterOptions(wrappers=unwrapping))
    probe.feed(head[:HEAD_BYTES], final=True)
    headless = probe.counts.records == 0
    part = SplitterOptions(
        offset=piece.begin,
        limit=piece.limit,
        continues_split=piece.number > 0,
        headless=headless,
        wrappers=unwrapping,
        before=piece.before,
    )
    return OpenedPart(
        head, unwrapping, headless, RecordSplitter(signatures, part), _with_last(blocks)
    )


def open_parts(split: Split, meter: ReadCounter | None = None) -> Iterator[FilePart]:
    """Open a split: one piece for a range, one for every file inside a stream."""
    if split.role == "range":
        with storage.open_file(split.path) as file:
            yield _range(split, count_reads(file, meter))
        return
    with storage.open_file(split.path) as file:
        whole = count_reads(file, meter)
        source = open_zip_member(split.path, split.member) if split.member else _at(whole, split)
        inside = NameMasker()
        for item in unpack_files(split.file, source):
            yield FilePart(
                inside.mask(item.file), 0, 0, None, read_blocks(item), None, item, whole=True
            )


def digest_file(split: Split) -> PrefixDigest:
    """Compute the digest of a whole plain file."""
    found = PrefixDigest()
    with storage.open_file(split.path) as file:
        for block in _stretch(file, split.data_offset, split.size):
            found.update(block)
    return found


def _peeked(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Read enough of a file to judge it by its head; it is the first block of what is given."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD_BYTES:
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


def _range(split: Split, file: IO[bytes]) -> FilePart:
    begin, before = split.begin, b""
    if begin:
        begin = _line_after(file, split)
        before = _line_before(file, split, begin)
    whole = split.end - split.begin == split.size
    head = (
        None if whole else b"".join(_stretch(file, split.data_offset, min(split.size, HEAD_BYTES)))
    )
    stretch = _beyond(file, split, begin)
    limit = None if split.end == split.size else split.end
    item = Unpacked(split.file, file)
    return FilePart(split.file, split.number, begin, limit, stretch, head, item, whole, before)


def _beyond(file: IO[bytes], split: Split, begin: int) -> Iterator[bytes]:
    """Read a split, and then small blocks beyond it until the reader has what it owns."""
    yield from _stretch(file, split.data_offset + begin, split.end - begin)
    begin = max(begin, split.end)
    yield from _stretch(file, split.data_offset + begin, split.size - begin, 64 << 10)


def _line_after(file: IO[bytes], split: Split) -> int:
    """Find where the first line of a split starts: after the break that ends the line before."""
    at = split.begin - 1
    for block in _stretch(file, split.data_offset + at, split.size - at, 64 << 10):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return split.size


def _line_before(file: IO[bytes], split: Split, begin: int) -> bytes:
    """Read the line that ends where the first line of a split starts, as far as a line is kept."""
    line = b""
    while begin - len(line) > 0 and len(line) <= MAX_RECORD:
        size = min(64 << 10, begin - len(line))
        file.seek(split.data_offset + begin - len(line) - size)
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
    return _Part(file, split.data_offset, split.size or split.end)
