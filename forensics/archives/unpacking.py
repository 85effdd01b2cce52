"""Unpacks archives as streams: nothing is written to disk, however they are nested."""

from __future__ import annotations

import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, cast

from forensics import places
from forensics.archives.compression import (
    Damage,
    Inflated,
    Peekable,
    Readable,
    Transcoded,
    sniff,
)

__all__ = ["BLOCK", "Step", "Unpacked", "blocks", "unpack", "zip_member"]

# Small enough to stay in the processor's cache while it is looked at again and again.
BLOCK = 4 << 20
# An archive in an archive in an archive is enough for anybody.
_DEEPEST = 5
# What something is (gzip, tar, zip, utf-16, ..), and which member of it.
Step = tuple[str, str]
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@dataclass
class Unpacked:
    """One text file on its way out of an archive; `damaged` is set when its stream breaks.

    `steps` say what was opened on the way, and which of its members was taken where it has any.
    """

    file: str
    source: Readable
    damaged: str | None = None
    steps: tuple[Step, ...] = ()


def unpack(
    name: str, source: Readable, depth: int = 0, steps: tuple[Step, ...] = ()
) -> Iterator[Unpacked]:
    """Yield the text files of a stream, which may be compressed, an archive, or both."""
    try:
        head = Peekable(source)
    except (Damage, OSError) as error:
        yield Unpacked(name, _Nothing(), str(error))
        return
    kind = sniff(head.head)
    if depth > _DEEPEST and kind != "plain":
        yield Unpacked(name, _Nothing(), f"archives nested more than {_DEEPEST} deep; not opened")
    elif kind == "tar":
        yield from _tar(name, head, depth, steps)
    elif kind == "zip":
        yield from _nested_zip(name, head, depth, steps)
    elif kind == "utf-16":
        yield Unpacked(name, Transcoded(head), steps=(*steps, (kind, "")))
    elif kind == "plain":
        yield Unpacked(name, head, steps=steps)
    else:
        yield from unpack(name, Inflated(head, kind), depth + 1, (*steps, (kind, "")))


def blocks(item: Unpacked, size: int = BLOCK) -> Iterator[bytes]:
    """Read a file block by block, to the end or to the place where it breaks."""
    try:
        while block := item.source.read(size):
            yield block
    except (Damage, OSError, EOFError, tarfile.TarError, zlib.error, ValueError) as error:
        item.damaged = str(error) or type(error).__name__


def zip_member(path: str, member: str) -> Readable:
    """Open one member of a zip file; reads the bytes themselves, so that a cut loses nothing."""
    with places.opened(path) as file, zipfile.ZipFile(file) as archive:
        info = archive.getinfo(member)
    return _zip_stream(places.opened(path), info)


def _tar(name: str, source: Readable, depth: int, steps: tuple[Step, ...]) -> Iterator[Unpacked]:
    calm = _Calm(source)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", calm), mode="r|", bufsize=BLOCK) as archive:
            for member in archive:
                if member.isreg() and not member.issparse():
                    # The stream stands at the member's first byte; its own reader gives nothing
                    # of what it cannot give entirely.
                    whole = _Whole(cast("Readable", archive.fileobj), member.size, calm)
                    taken = (*steps, ("tar", member.name))
                    yield from unpack(f"{name}!{member.name}", whole, depth + 1, taken)
    except (tarfile.TarError, OSError, EOFError) as error:
        calm.damage = calm.damage or Damage(str(error))
    if calm.damage:
        yield Unpacked(name, _Nothing(), f"the archive breaks off: {calm.damage}")


def _nested_zip(
    name: str, source: Readable, depth: int, steps: tuple[Step, ...]
) -> Iterator[Unpacked]:
    """Read a zip inside something else; its index is at its end, so it goes to a spool first."""
    with tempfile.TemporaryFile() as spool:
        try:
            shutil.copyfileobj(cast("IO[bytes]", source), spool)
            archive = zipfile.ZipFile(spool)
        except (Damage, OSError, zipfile.BadZipFile) as error:
            yield Unpacked(name, _Nothing(), f"zip not readable: {error}")
            return
        for info in archive.infolist():
            if not info.is_dir():
                stream = _zip_stream(spool, info)
                taken = (*steps, ("zip", info.filename))
                yield from unpack(f"{name}!{info.filename}", stream, depth + 1, taken)


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
        return Inflated(raw, "deflate")
    if info.compress_type == zipfile.ZIP_BZIP2:
        return Inflated(raw, "bzip2")
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
            raise Damage(message)
        self.at += len(part)
        self.left -= len(part)
        return part


@dataclass
class _Calm:
    """A stream that ends where it breaks: tarfile would throw away what it has read so far."""

    source: Readable
    damage: Damage | None = None

    def read(self, size: int = -1, /) -> bytes:
        if self.damage is None:
            try:
                return self.source.read(size)
            except Damage as damage:
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
            raise Damage(message)
        return part


@dataclass
class _Broken:
    """A file that cannot be read at all, and why."""

    why: str

    def read(self, _size: int = -1, /) -> bytes:
        raise Damage(self.why)


class _Nothing:
    """A file of which nothing is left."""

    def read(self, _size: int = -1, /) -> bytes:
        return b""
