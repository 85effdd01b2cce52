"""Finds single lines again in archives, in whatever form these come, with the lines around them.

A file is known by the name that the tables give it. An archive that was renamed, unpacked or
packed anew since has other names for the same files; those are found by the end of their names.

The plain command that shows some lines of a file in an archive, for people without this tool.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from forensics.ingest.archive_reader import UnpackStep, open_parts
from forensics.ingest.compression import SNIFF_BYTES, sniff_format
from forensics.ingest.read_plan import ReadPlan, Split
from forensics.ingest.record_starts import HEAD_BYTES
from forensics.lib import storage

# What reads a compressed file, and what reads it from a pipe.
_READERS = {
    "gzip": ("zcat", "gzip -dc"),
    "bzip2": ("bzcat", "bzip2 -dc"),
    "xz": ("xzcat", "xz -dc"),
    "zstd": ("zstdcat", "zstd -dc"),
    "utf-16": ("iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8"),
}


# What writes an object of a store to a pipe.
_FETCHERS = {
    "s3": "aws s3 cp {} -",
    "gs": "gcloud storage cat {}",
    "gcs": "gcloud storage cat {}",
    "hdfs": "hdfs dfs -cat {}",
    "viewfs": "hdfs dfs -cat {}",
    "abfs": "hdfs dfs -cat {}",
    "abfss": "hdfs dfs -cat {}",
}


def unpack_steps(split: Split, inside: Sequence[UnpackStep]) -> tuple[UnpackStep, ...]:
    """Say how to come from the file on disk to the text: what the plan opened, and what followed.

    A plan opens a zip, and a tar that is not compressed, by itself.
    """
    if split.member:
        return (("zip", split.member), *inside)
    if split.data_offset:
        with (
            storage.open_file(split.path) as file,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            member = next((one.name for one in archive if one.offset_data == split.data_offset), "")
        return (("tar", member), *inside)
    return tuple(inside)


def shell_command(path: str, steps: Sequence[UnpackStep], first: int, last: int) -> str | None:
    """Write the command that prints lines of a file; None where no plain tool can.

    >>> shell_command("logs.tar.gz", [("gzip", ""), ("tar", "b/server.log")], 5, 7)
    "tar -xOf logs.tar.gz -- b/server.log | sed -n '5,7p;7q'"
    >>> shell_command("server.log.gz", [("gzip", "")], 5, 5)
    "zcat server.log.gz | sed -n '5p;5q'"
    >>> shell_command("s3://logs/server.log.gz", [("gzip", "")], 5, 5)
    "aws s3 cp s3://logs/server.log.gz - | gzip -dc | sed -n '5p;5q'"
    """
    wanted = f"{first}p" if first == last else f"{first},{last}p"
    sed = f"sed -n '{wanted};{last}q'"
    parts: list[str] = []
    if storage.is_remote(path):
        fetcher = _FETCHERS.get(path.partition("://")[0])
        if fetcher is None:
            return None
        parts.append(fetcher.format(quote_for_shell(storage.display(path))))
    left = list(steps)
    while left:
        kind, member = left.pop(0)
        if kind in _READERS and left and left[0][0] == "tar" and not parts:
            # tar sees by itself how a file is compressed, but not how a pipe is.
            continue
        part = _part(kind, member, "" if parts else quote_for_shell(path))
        if part is None:
            return None
        parts.append(part)
    return " | ".join([*parts, sed]) if parts else f"{sed} {quote_for_shell(path)}"


def _part(kind: str, member: str, path: str) -> str | None:
    if kind in _READERS:
        plain, piped = _READERS[kind]
        return f"{plain} {path}" if path else piped
    if kind == "tar":
        return f"tar -xOf {path or '-'} -- {quote_for_shell(member)}"
    if kind == "zip" and path:
        return f"unzip -p {path} {quote_for_shell(_literal(member))}"
    # A zip has its index at its end: no plain tool reads it from a pipe.
    return None


def _literal(name: str) -> str:
    """Keep unzip from taking a name for a pattern."""
    return re.sub(r"([\[*?\\])", r"[\1]", name)


def quote_for_shell(name: str) -> str:
    r"""Quote a name for a shell; what cannot be seen is written as its code.

    >>> print(quote_for_shell("a\x1b[31m b"))
    $'a\x1b[31m b'
    """
    if name.isprintable():
        return shlex.quote(name)
    codes = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\\" else f"\\x{byte:02x}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f"$'{''.join(codes)}'"


# How much of one line is kept; the rest counts for its digest.
MAX_LINE_BYTES = 1 << 20
_NEWLINE = 10


@dataclass(frozen=True)
class FoundLine:
    """One line as it stands in the unpacked file, without its line break."""

    number: int
    offset: int
    text: bytes
    size: int
    sha256: str


@dataclass(frozen=True)
class FileLocation:
    """A file of an archive: its name, and how to come to it."""

    file: str
    split: Split
    steps: tuple[UnpackStep, ...]


@dataclass
class FoundFile:
    """What was found of one file: the lines that were asked for, and those around them."""

    location: FileLocation
    lines: dict[int, FoundLine] = field(default_factory=dict)
    # how many lines there are, where the file was read to its end
    count: int | None = None
    damaged: str | None = None


def look_up_lines(
    plan: ReadPlan, wanted: Mapping[str, Iterable[int]], context: int = 0
) -> dict[str, list[FoundFile]]:
    """Read the wanted lines of the wanted files, and as many lines before and after each.

    A file is given as often as there are files that may be the one that is meant, the one whose
    whole name is the wanted one alone.
    """
    spans = {
        file: [(max(1, number - context), number + context) for number in numbers]
        for file, numbers in wanted.items()
    }
    found: dict[str, list[FoundFile]] = {file: [] for file in wanted}
    for split in _whole(plan):
        done = {name for name, sightings in found.items() if _is_there(name, sightings)}
        meant = _meant(split, set(wanted) - done)
        if not meant:
            continue
        for piece in open_parts(split):
            names = [name for name in meant if is_alike(name, piece.file)]
            if not names:
                continue
            numbers = _merged(chain.from_iterable(spans[name] for name in names))
            opened = FileLocation(piece.file, split, unpack_steps(split, piece.unpacked.steps))
            place = FoundFile(opened)
            place.lines, place.count = _read(piece.blocks, numbers)
            place.damaged = piece.unpacked.damaged
            for name in names:
                found[name].append(place)
            done |= {name for name in names if name == piece.file}
            if done >= set(meant):
                break
    return {name: _nearest(name, sightings) for name, sightings in found.items()}


def path_tail(name: str) -> tuple[str, ...]:
    """Give the parts of a file's name below the archive that it came from.

    >>> path_tail("logs.tar.gz!broker-1/server.log")
    ('broker-1', 'server.log')
    """
    parts = tuple(part for part in re.split(r"[/!]", name) if part not in ("", "."))
    return parts[1:] or parts


def is_alike(wanted: str, name: str) -> bool:
    """Whether one name can stand for the same file as the other, once archives have moved."""
    one, other = path_tail(wanted), path_tail(name)
    most = min(len(one), len(other))
    return wanted == name or one[-most:] == other[-most:]


def _is_there(name: str, sightings: Sequence[FoundFile]) -> bool:
    return any(place.location.file == name for place in sightings)


def _nearest(name: str, sightings: Sequence[FoundFile]) -> list[FoundFile]:
    exact = [place for place in sightings if place.location.file == name]
    return exact or sorted(sightings, key=lambda place: -len(_common(name, place.location.file)))


def _common(one: str, other: str) -> list[str]:
    pairs = zip(reversed(path_tail(one)), reversed(path_tail(other)), strict=False)
    same: list[str] = []
    for mine, theirs in pairs:
        if mine != theirs:
            break
        same.append(mine)
    return same


def _whole(plan: ReadPlan) -> Iterator[Split]:
    """Give every file of a plan once, to be read from its begin to its end."""
    for split in plan.splits:
        if split.role != "digest" and split.number == 0:
            yield replace(split, role="stream", begin=0, end=split.size or split.end)


def _meant(split: Split, wanted: Iterable[str]) -> list[str]:
    """Choose the wanted files that a split can hold: it is one of them, or may unpack to one."""
    # What a stream unpacks to is not known before; its own name is the beginning of theirs.
    return [
        name
        for name in wanted
        if is_alike(name, split.file) or name.startswith(f"{split.file}!") or _may_unpack(split)
    ]


def _may_unpack(split: Split) -> bool:
    if split.member:
        return True
    with storage.open_file(split.path) as file:
        file.seek(split.data_offset)
        return sniff_format(file.read(SNIFF_BYTES)) not in ("plain", "utf-16")


def _merged(spans: Iterable[tuple[int, int]]) -> list[int]:
    return sorted({number for first, last in spans for number in range(first, last + 1)})


def _read(
    stream: Iterator[bytes], wanted: Sequence[int]
) -> tuple[dict[int, FoundLine], int | None]:
    """Read some lines of a file; gives how many it has where it was read to its end."""
    reader = _Reader(wanted)
    for block in stream:
        reader.feed(block)
        if reader.done:
            return reader.lines, None
    return reader.lines, reader.close()


class _Held:
    """A line that is being read."""

    def __init__(self, offset: int) -> None:
        self.size = 0
        self._offset, self._text, self._digest = offset, b"", hashlib.sha256()

    def take(self, part: bytes) -> None:
        self.size += len(part)
        self._text += part[: MAX_LINE_BYTES - len(self._text)]
        self._digest.update(part)

    def line(self, number: int) -> FoundLine:
        return FoundLine(number, self._offset, self._text, self.size, self._digest.hexdigest())


class _Reader:
    """Counts the lines of a stream, and keeps those that are wanted."""

    def __init__(self, wanted: Sequence[int]) -> None:
        self.lines: dict[int, FoundLine] = {}
        self._wanted = wanted
        self._number, self._offset = 1, 0
        self._held: _Held | None = None
        self._is_open = False

    @property
    def done(self) -> bool:
        """Whether nothing more is wanted."""
        return not self._wanted or self._number > self._wanted[-1]

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        first, last = self._number, self._number + len(breaks)
        begin = bisect.bisect_left(self._wanted, first)
        held = None
        for number in self._wanted[begin : bisect.bisect_right(self._wanted, last)]:
            at = int(breaks[number - first - 1]) + 1 if number > first else 0
            line = self._held if number == first and self._held else _Held(self._offset + at)
            if number < last:
                line.take(block[at : int(breaks[number - first])])
                self.lines[number] = line.line(number)
            else:
                line.take(block[at:])
                held = line
        self._held, self._number = held, last
        self._offset += len(block)
        self._is_open = not block.endswith(b"\n")

    def close(self) -> int:
        """Take the last line, which may have no line break; give how many there are."""
        if self._is_open and self._held:
            self.lines[self._number] = self._held.line(self._number)
        return self._number - (not self._is_open)


def digest_and_head(opened: FileLocation) -> tuple[str, bytes]:
    """Read a whole file once more: its digest, as the table of files has it, and its head."""
    digest, head = hashlib.sha256(), b""
    for piece in open_parts(opened.split):
        if piece.file == opened.file:
            for block in piece.blocks:
                digest.update(block)
                head += block[: HEAD_BYTES - len(head)]
            break
    return digest.hexdigest(), head
