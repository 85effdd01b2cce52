"""Opens archives as streams of blocks, however they are nested; nothing is written to disk.

A split is opened as one part of a file (a range of bytes), or as all files inside a stream.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import IO, cast

from forensics.ingest import window_stacks
from forensics.ingest.compression import (
    DamageError,
    Decompressed,
    PeekableStream,
    Readable,
    Utf16Stream,
    sniff_format,
)
from forensics.ingest.documents import DocumentSplitter, Splitter, find_document, preview
from forensics.ingest.read_counters import ReadCounter, count_reads
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import RecordSplitter, SplitterOptions
from forensics.ingest.record_starts import HEAD_BYTES, MAX_RECORD, Signature
from forensics.ingest.window_stacks import LineJudge, WindowReader
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.wrapper_detection import WrapperStack, detect_wrappers, shipped_wrappers
from forensics.ingest.written_times import day_in_name
from forensics.lib import storage
from forensics.lib.secrets import NameMasker

FIRST_PREFIX = 256
_DIGITS_KEPT = 16
# Small enough to stay in the processor's cache while it is looked at again and again.
BLOCK = 4 << 20
_SMALL_BLOCK = 64 << 10
_MAX_DEPTH = 5
# A format (gzip, tar, zip, utf-16, ..), and the name of the member that was taken.
UnpackStep = tuple[str, str]
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class PrefixDigest:
    """Digests a file block by block: all of it, and its prefixes at lengths that double.

    A log that has grown begins with what it held before. The longest prefix that two files share
    tells this from two files that only begin alike.

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
            self.prefixes[str(self._next)] = self._whole.hexdigest()[:_DIGITS_KEPT]
            self._next *= 2
        self._whole.update(rest)
        self._read += len(rest)

    def hexdigest(self) -> str:
        """Return the digest of all blocks."""
        return self._whole.hexdigest()


@dataclass
class UnpackedFile:
    """One text file on its way out of an archive; `damaged` is set when its stream breaks.

    `steps` are the formats that were opened on the way, each with the member that was taken.
    """

    file: str
    source: Readable
    damaged: str | None = None
    steps: tuple[UnpackStep, ...] = ()

    @classmethod
    def unreadable(cls, file: str, why: str) -> UnpackedFile:
        """Build a file of which nothing can be read."""
        return cls(file, io.BytesIO(), why)


def unpack_files(
    name: str, source: Readable, steps: tuple[UnpackStep, ...] = ()
) -> Iterator[UnpackedFile]:
    """Yield the text files of a stream, which may be compressed, an archive, or both."""
    try:
        head = PeekableStream(source)
    except (DamageError, OSError) as error:
        yield UnpackedFile.unreadable(name, str(error))
        return
    kind = sniff_format(head.head)
    if len(steps) > _MAX_DEPTH and kind != "plain":
        why = f"archives nested more than {_MAX_DEPTH} deep; not opened"
        yield UnpackedFile.unreadable(name, why)
    elif kind == "tar":
        yield from _unpack_tar(name, head, steps)
    elif kind == "zip":
        yield from _unpack_zip(name, head, steps)
    elif kind == "utf-16":
        yield UnpackedFile(name, Utf16Stream(head), steps=(*steps, (kind, "")))
    elif kind == "plain":
        yield UnpackedFile(name, head, steps=steps)
    else:
        yield from unpack_files(name, Decompressed(head, kind), (*steps, (kind, "")))


def read_blocks(unpacked: UnpackedFile, size: int = BLOCK) -> Iterator[bytes]:
    """Read a file block by block, to the end or to the place where it breaks."""
    try:
        while block := unpacked.source.read(size):
            yield block
    except (DamageError, OSError, EOFError, tarfile.TarError, zlib.error, ValueError) as error:
        unpacked.damaged = str(error) or type(error).__name__


def open_zip_member(path: str, member: str) -> Readable:
    """Open one member of a zip file; reads its bytes itself, so that a truncation loses nothing."""
    with storage.open_file(path) as file, zipfile.ZipFile(file) as archive:
        info = archive.getinfo(member)
    return _open_entry(storage.open_file(path), info)


def _unpack_tar(
    name: str, source: Readable, steps: tuple[UnpackStep, ...]
) -> Iterator[UnpackedFile]:
    stream = _EndsAtDamage(source)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|", bufsize=BLOCK) as archive:
            for member in archive:
                if member.isreg() and not member.issparse():
                    # The stream stands at the member's first byte; the member's own reader would
                    # give nothing of a member that is not whole.
                    whole = _TarMember(cast("Readable", archive.fileobj), member.size, stream)
                    taken = (*steps, ("tar", member.name))
                    yield from unpack_files(f"{name}!{member.name}", whole, taken)
    except (tarfile.TarError, OSError, EOFError) as error:
        stream.damage = stream.damage or DamageError(str(error))
    if stream.damage:
        yield UnpackedFile.unreadable(name, f"the archive breaks off: {stream.damage}")


def _unpack_zip(
    name: str, source: Readable, steps: tuple[UnpackStep, ...]
) -> Iterator[UnpackedFile]:
    """Unpack a zip inside something else; its index is at its end, so it is spooled first."""
    with tempfile.TemporaryFile() as spool:
        try:
            shutil.copyfileobj(cast("IO[bytes]", source), spool)
            archive = zipfile.ZipFile(spool)
        except (DamageError, OSError, zipfile.BadZipFile) as error:
            yield UnpackedFile.unreadable(name, f"zip not readable: {error}")
            return
        for info in archive.infolist():
            if not info.is_dir():
                taken = (*steps, ("zip", info.filename))
                stream = _open_entry(spool, info)
                yield from unpack_files(f"{name}!{info.filename}", stream, taken)


def _open_entry(file: IO[bytes], info: zipfile.ZipInfo) -> Readable:
    if info.flag_bits & 1:
        return _Unreadable("the entry is encrypted; unpack it first")
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        return _Unreadable("the entry's header is not where the index says")
    _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    raw = _FileRange(file, start, info.compress_size, must_be_whole=True)
    if info.compress_type == zipfile.ZIP_STORED:
        return raw
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return Decompressed(raw, "deflate")
    if info.compress_type == zipfile.ZIP_BZIP2:
        return Decompressed(raw, "bzip2")
    why = f"compressed by method {info.compress_type}, which is not read; unpack it first"
    return _Unreadable(why)


@dataclass
class _FileRange:
    """Some bytes of an open file as a stream."""

    file: IO[bytes]
    offset: int
    left: int
    must_be_whole: bool = False

    def read(self, size: int = -1, /) -> bytes:
        self.file.seek(self.offset)
        part = self.file.read(self.left if size < 0 else min(size, self.left))
        if not part and self.left and size and self.must_be_whole:
            message = f"the file ends {self.left} bytes before the entry does"
            raise DamageError(message)
        self.offset += len(part)
        self.left -= len(part)
        return part


@dataclass
class _EndsAtDamage:
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
class _TarMember:
    """A member that must have the length its archive promises."""

    source: Readable
    left: int
    archive: _EndsAtDamage

    def read(self, size: int = -1, /) -> bytes:
        part = self.source.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(part)
        if not part and self.left > 0 and size:
            why = f": {self.archive.damage}" if self.archive.damage else ""
            message = f"the archive ends {self.left} bytes before this file does{why}"
            raise DamageError(message)
        return part


@dataclass
class _Unreadable:
    """A file that cannot be read at all, and why."""

    why: str

    def read(self, _size: int = -1, /) -> bytes:
        raise DamageError(self.why)


@dataclass
class FilePart:
    """A part of one file: its blocks, and what the splitter must know of it.

    `limit` is where the next part begins; `whole`: there is no other part; `before` is the line
    before the part; `head` is the head of the file, if the blocks do not begin with it.
    """

    file: str
    blocks: Iterator[bytes]
    unpacked: UnpackedFile
    number: int = 0
    begin: int = 0
    limit: int | None = None
    head: bytes | None = None
    whole: bool = True
    before: bytes = b""
    # Reads a window of the file, if the blocks are only a part of it.
    read_window: Callable[[int], tuple[bytes, bool]] | None = None


@dataclass(frozen=True)
class OpenedPart:
    """A part that is ready to be split: what its head tells, and its blocks, the last one marked.

    `headless`: the head of the file has no record. `windows` finds how the lines are written.
    """

    head: bytes
    wrappers: WrapperStack | None
    headless: bool
    splitter: Splitter
    blocks: Iterator[tuple[bytes, bool]]
    windows: WindowReader | None = None


def open_splitter(
    part: FilePart,
    signatures: Sequence[Signature],
    wrappers: Sequence[Wrapper] | None = None,
    judge: LineJudge | None = None,
) -> OpenedPart:
    """Judge a part by the head of its file: whether its lines are a document, or a log's own.

    With a `judge`, every window of a log is judged by itself.
    """
    blocks = part.blocks
    if judge is not None and part.read_window is None:
        blocks = _align(blocks)
    head, blocks = (part.head, blocks) if part.head is not None else _peek(blocks)
    known = shipped_wrappers() if wrappers is None else wrappers
    document = find_document(head, known)
    if document is None:
        part = replace(part, head=head, blocks=blocks)
        return _open_lines(part, signatures, known, judge)
    text = preview(type(document)([*document.readers]), head)
    inside = FilePart(part.file, iter(()), part.unpacked, head=text)
    inner = _open_lines(inside, signatures, known, judge)
    splitter = DocumentSplitter(document, inner.splitter, first=part.number == 0)
    return replace(inner, head=head, splitter=splitter, blocks=_mark_last(blocks))


def _open_lines(
    part: FilePart,
    signatures: Sequence[Signature],
    known: Sequence[Wrapper],
    judge: LineJudge | None,
) -> OpenedPart:
    """Judge a part by the head of its file: how lines are wrapped, and if it has records at all."""
    head, blocks = part.head or b"", part.blocks
    if judge is not None:
        windows = WindowReader(judge, head, known, part.read_window, day_in_name(part.file))
        options = SplitterOptions(
            offset=part.begin,
            limit=part.limit,
            continues_split=part.number > 0,
            before=part.before,
            windows=windows,
        )
        splitter = RecordSplitter(signatures, options)
        marked = _mark_last(blocks)
        return OpenedPart(head, windows.first_stack, windows.headless, splitter, marked, windows)
    wrappers = detect_wrappers(head, signatures, known)
    probe = RecordSplitter(signatures, SplitterOptions(wrappers=wrappers))
    probe.feed(head[:HEAD_BYTES], final=True)
    headless = probe.counts.records == 0
    options = SplitterOptions(
        offset=part.begin,
        limit=part.limit,
        continues_split=part.number > 0,
        headless=headless,
        wrappers=wrappers,
        before=part.before,
    )
    splitter = RecordSplitter(signatures, options)
    return OpenedPart(head, wrappers, headless, splitter, _mark_last(blocks))


def open_parts(split: Split, counter: ReadCounter | None = None) -> Iterator[FilePart]:
    """Open a split: one part for a range, one for every file inside a stream."""
    with storage.open_file(split.path) as opened:
        file = count_reads(opened, counter)
        if split.role == "range":
            yield _open_range(split, file)
            return
        stream = (
            open_zip_member(split.path, split.member)
            if split.member
            else _FileRange(file, split.data_offset, split.size or split.end)
        )
        names = NameMasker()
        for unpacked in unpack_files(split.file, stream):
            yield FilePart(names.mask(unpacked.file), read_blocks(unpacked), unpacked)


def digest_file(split: Split) -> PrefixDigest:
    """Compute the digest of a whole plain file."""
    digest = PrefixDigest()
    with storage.open_file(split.path) as file:
        for block in _read_range(file, split.data_offset, split.size):
            digest.update(block)
    return digest


def _peek(blocks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Read enough of a file to judge it by its head; the head is the first block that follows."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD_BYTES:
            break
    return head, chain([head], blocks)


def _align(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut blocks anew, at the windows of the file."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        if not waiting and len(block) == window_stacks.WINDOW:
            yield block
            continue
        waiting.append(block)
        size += len(block)
        while size >= window_stacks.WINDOW:
            whole = b"".join(waiting)
            yield whole[: window_stacks.WINDOW]
            waiting, size = [whole[window_stacks.WINDOW :]], size - window_stacks.WINDOW
            if not size:
                waiting = []
    if size:
        yield b"".join(waiting)


def _mark_last(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield blocks, each with whether it is the last one; there is always one."""
    previous = b""
    for block in blocks:
        if previous:
            yield previous, False
        previous = block
    yield previous, True


def _open_range(split: Split, file: IO[bytes]) -> FilePart:
    begin, before = split.begin, b""
    if begin:
        begin = _next_line(file, split)
        before = _line_before(file, split, begin)
    part = FilePart(split.file, _read_owned(file, split, begin), UnpackedFile(split.file, file))
    part.number, part.begin, part.before = split.number, begin, before
    part.limit = None if split.end == split.size else split.end
    part.whole = split.end - split.begin == split.size
    if not part.whole:
        part.head = b"".join(_read_range(file, split.data_offset, min(split.size, HEAD_BYTES)))
        part.read_window = partial(_read_window, file, split)
    return part


def _read_window(file: IO[bytes], split: Split, number: int) -> tuple[bytes, bool]:
    """Read one window of the whole file of a split, and say whether it is the last one."""
    begin = number * window_stacks.WINDOW
    size = min(window_stacks.WINDOW, split.size - begin)
    text = b"".join(_read_range(file, split.data_offset + begin, size))
    return text, begin + window_stacks.WINDOW >= split.size


def _read_owned(file: IO[bytes], split: Split, begin: int) -> Iterator[bytes]:
    """Read a split, and then small blocks beyond it until the reader has what it owns."""
    yield from _read_range(file, split.data_offset + begin, split.end - begin)
    begin = max(begin, split.end)
    yield from _read_range(file, split.data_offset + begin, split.size - begin, _SMALL_BLOCK)


def _next_line(file: IO[bytes], split: Split) -> int:
    """Find where the first line of a split starts: after the break that ends the line before."""
    begin = split.begin - 1
    blocks = _read_range(file, split.data_offset + begin, split.size - begin, _SMALL_BLOCK)
    for block in blocks:
        found = block.find(b"\n")
        if found >= 0:
            return begin + found + 1
        begin += len(block)
    return split.size


def _line_before(file: IO[bytes], split: Split, begin: int) -> bytes:
    """Read the line before the first line of a split; of a long one only its end."""
    line = b""
    while begin - len(line) > 0 and len(line) <= MAX_RECORD:
        size = min(_SMALL_BLOCK, begin - len(line))
        file.seek(split.data_offset + begin - len(line) - size)
        line = file.read(size) + line
        found = line.rfind(b"\n", 0, -1)
        if found >= 0:
            return line[found + 1 :]
    return line


def _read_range(file: IO[bytes], offset: int, length: int, size: int = BLOCK) -> Iterator[bytes]:
    """Read bytes in blocks; seeks before each, as several readers share the file."""
    source = _FileRange(file, offset, length)
    while length > 0 and (block := source.read(size)):
        yield block
