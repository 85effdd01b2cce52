"""Opens splits as parts of files, ready to be cut into records.

A split is opened as one part of a file (a range of bytes), or as all files inside a stream.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import IO

from forensics.ingest import window_formats
from forensics.ingest.compression import Readable
from forensics.ingest.container_accounts import ContainerAccount
from forensics.ingest.documents import DocumentSplitter, Splitter, find_document, preview, renew
from forensics.ingest.message_columns import LineJudge
from forensics.ingest.packed_files import BLOCK, UnpackedFile, Unpacker, read_blocks
from forensics.ingest.read_counters import ReadCounter, count_reads
from forensics.ingest.read_limits import DamageError
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import RecordSplitter, SplitterOptions
from forensics.ingest.record_starts import (
    HEAD_BYTES,
    MAX_RECORD,
    MOST_LINES,
    Signature,
    is_crowded,
)
from forensics.ingest.tar_reader import TarReader
from forensics.ingest.time_formats import day_in_name
from forensics.ingest.window_formats import WindowReader
from forensics.ingest.wrapper_base import Wrapper
from forensics.ingest.wrapper_detection import WrapperStack, detect_wrappers, shipped_wrappers
from forensics.ingest.zip_headers import ZipEntry, ZipError, read_directory
from forensics.ingest.zip_reader import open_entry
from forensics.lib import storage
from forensics.lib.secrets import NameMasker

FIRST_PREFIX = 256
_DIGITS_KEPT = 16
_SMALL_BLOCK = 64 << 10
# Bytes of a directory for an entry, at most on average; the last record ends a stretch anyway.
_NO_END = 1 << 62


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
    container: str | None = None


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
    document = find_document(head, known, judge.loggers if judge else ())
    if document is None:
        part = replace(part, head=head, blocks=blocks)
        return _open_lines(part, signatures, known, judge)
    text = preview(renew(document, document.readers), head)
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
        marked = _mark_last(_thin(blocks))
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


def open_parts(
    split: Split,
    counter: ReadCounter | None = None,
    finished: list[ContainerAccount] | None = None,
    block: int = BLOCK,
) -> Iterator[FilePart]:
    """Open a split: one part for a range, one for every file inside a stream.

    A file that is gone since it was planned, or cannot be read any more, is a part with a damage.
    The accounts of containers are added to `finished` as they come to their ends. Of a stream
    `block` bytes are read at once.
    """
    masker = NameMasker()
    # The names in a split are masked already.
    finished = finished if finished is not None else []
    unpacker = Unpacker(split.limits, split.size)
    try:
        with storage.open_file(split.path) as opened:
            file = count_reads(opened, counter)
            if split.role == "range":
                yield _open_range(split, file)
                return
            for unpacked in _unpack(split, file, unpacker):
                if split.note and unpacked.container == split.container:
                    unpacked.notes.append(split.note)
                container = unpacked.container and masker.mask(unpacked.container)
                yield FilePart(
                    masker.mask(unpacked.file), read_blocks(unpacked, block), unpacked,
                    container=container,
                )  # fmt: skip
                finished += _masked(unpacker.finished, masker)
                unpacker.finished.clear()
    except OSError as error:
        if not _is_gone(split.path, error):
            raise
        yield _gone(split, error)
        if split.role != "range" and split.container is not None:
            count = max(1, split.entries)
            lost = ContainerAccount(split.container, read=1)
            if count > 1:
                lost.leave_out("could not be opened again", count=count - 1)
            finished.append(lost)
    finished += _masked(unpacker.finished, masker)


def _unpack(split: Split, file: IO[bytes], unpacker: Unpacker) -> Iterator[UnpackedFile]:
    """Yield the files of a stream, or of a stretch of an archive."""
    if split.role == "stream":
        stretch = FileRange(file, split.data_offset, split.size or split.end)
        yield from unpacker.unpack(split.file, stretch, split.steps, split.container)
    elif split.role == "tar":
        stretch = FileRange(file, split.data_offset, split.size)
        reader = TarReader(stretch, unpacker.budget, split.data_offset)
        reader.expects_end = False
        yield from unpacker.unpack_section(split.file, reader, split.entries)
    else:
        entries = _records(split, file, unpacker)
        if not split.steps:
            yield from unpacker.unpack_records(split.file, entries, split.entries)
            return
        entry = next(entries, None)
        if entry is not None:
            yield from unpacker.unpack(split.file, entry[1], split.steps, split.container)
        elif split.container is not None:
            account = ContainerAccount(split.container)
            why = "the directory of the zip has changed since reading began"
            yield from unpacker.refuse(split.file, why, account)
            unpacker.finished.append(account)


def _records(
    split: Split, file: IO[bytes], unpacker: Unpacker
) -> Iterator[tuple[ZipEntry, Readable]]:
    """Yield entries of a zip by their records in its directory, from the first of the split."""
    records = read_directory(file, split.data_offset, _NO_END, split.shift)
    for _ in range(split.entries):
        try:
            _, entry = next(records)
        except (ZipError, StopIteration):
            return
        try:
            yield entry, open_entry(file, entry, unpacker.budget)
        except DamageError as damage:
            yield entry, _Unreadable(str(damage))


@dataclass(frozen=True)
class _Unreadable:
    """A file that cannot be read at all, and why."""

    why: str

    def read(self, _size: int = -1, /) -> bytes:
        raise DamageError(self.why)


def _masked(accounts: Sequence[ContainerAccount], masker: NameMasker) -> Iterator[ContainerAccount]:
    for one in accounts:
        names = masker.mask_all([name for name in (one.name, one.parent) if name is not None])
        yield one.renamed(names)


def _is_gone(path: str, error: OSError) -> bool:
    """Return True if one file is missing or changed, not all that this machine should see."""
    if not isinstance(error, FileNotFoundError):
        return True
    return not storage.is_remote(path) and os.path.isdir(os.path.dirname(path))  # noqa: PTH112, PTH120 - a plain text


def _gone(split: Split, error: OSError) -> FilePart:
    """Return the part for a file that was there when the work was planned."""
    if isinstance(error, FileNotFoundError):
        why = "it was there when reading began, and is gone"
    elif isinstance(error, IsADirectoryError):
        why = "it was a file when reading began, and is a folder now"
    else:
        why = f"cannot be read: {error.strerror or error}"
    unpacked = UnpackedFile.unreadable(split.file, why, split.container)
    whole = split.number == 0 and split.end == split.size
    return FilePart(
        split.file, iter(()), unpacked, split.number, whole=whole, container=split.container
    )


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
        if not waiting and len(block) == window_formats.WINDOW:
            yield block
            continue
        waiting.append(block)
        size += len(block)
        while size >= window_formats.WINDOW:
            whole = b"".join(waiting)
            yield whole[: window_formats.WINDOW]
            waiting, size = [whole[window_formats.WINDOW :]], size - window_formats.WINDOW
            if not size:
                waiting = []
    if size:
        yield b"".join(waiting)


def _thin(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Cut blocks of far too many lines: each line costs memory, however short it is."""
    for block in blocks:
        if is_crowded(block):
            size = MOST_LINES
            yield from (block[at : at + size] for at in range(0, len(block), size))
        else:
            yield block


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
    unpacked = UnpackedFile(split.file, file, steps=split.steps, container=split.container)
    blocks = _read_planned(_read_owned(file, split, begin), split, begin, unpacked)
    part = FilePart(split.file, blocks, unpacked, container=split.container)
    part.number, part.begin, part.before = split.number, begin, before
    part.limit = None if split.end == split.size else split.end
    part.whole = split.end - split.begin == split.size
    if not part.whole:
        part.head = b"".join(_read_range(file, split.data_offset, min(split.size, HEAD_BYTES)))
        part.read_window = partial(_read_window, file, split)
    return part


def _read_window(file: IO[bytes], split: Split, number: int) -> tuple[bytes, bool]:
    """Read one window of the whole file of a split, and say whether it is the last one."""
    begin = number * window_formats.WINDOW
    size = min(window_formats.WINDOW, split.size - begin)
    text = b"".join(_read_range(file, split.data_offset + begin, size))
    return text, begin + window_formats.WINDOW >= split.size


def _read_planned(
    blocks: Iterator[bytes], split: Split, at: int, unpacked: UnpackedFile
) -> Iterator[bytes]:
    """Read a range; a file that has shrunk or fails since it was planned is damaged."""
    try:
        for block in blocks:
            at += len(block)
            yield block
    except OSError as error:
        unpacked.damaged = f"cannot be read behind byte {at}: {error.strerror or error}"
        return
    if at < split.end:
        unpacked.damaged = f"it ends {split.size - at} bytes before the length it had at first"


def _read_owned(file: IO[bytes], split: Split, begin: int) -> Iterator[bytes]:
    """Read a split, window by window, and then small blocks until the reader has what it owns."""
    cut = min(split.end, begin + -begin % window_formats.WINDOW)
    yield from _read_range(file, split.data_offset + begin, cut - begin)
    yield from _read_range(file, split.data_offset + cut, split.end - cut)
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
        part = file.read(size)
        if not part:
            # The file has been cut since it was planned.
            break
        line = part + line
        found = line.rfind(b"\n", 0, -1)
        if found >= 0:
            return line[found + 1 :]
    return line


def _read_range(file: IO[bytes], offset: int, length: int, size: int = BLOCK) -> Iterator[bytes]:
    """Read bytes in blocks; seeks before each, as several readers share the file."""
    source = FileRange(file, offset, length)
    while length > 0 and (block := source.read(size)):
        yield block


@dataclass
class FileRange:
    """Some bytes of an open file as a stream; the file may be read by others meanwhile."""

    file: IO[bytes]
    offset: int
    left: int

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes."""
        self.file.seek(self.offset)
        part = self.file.read(self.left if size < 0 else min(size, self.left))
        self.offset += len(part)
        self.left -= len(part)
        return part
