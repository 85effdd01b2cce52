"""Reads cited lines again from archives, with the lines around them, or as a shell command.

A file is known by the name that the tables give it. If an archive was renamed, unpacked or packed
anew since, its files have other names; they are then found by the end of their names.
"""

from __future__ import annotations

import bisect
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import numpy as np

from forensics.ingest.archive_reader import open_parts
from forensics.ingest.formats import SNIFF_BYTES, TEXT_FORMATS, sniff_format
from forensics.ingest.packed_files import UnpackStep
from forensics.ingest.read_plan import ReadPlan, Split
from forensics.ingest.record_starts import HEAD_BYTES
from forensics.lib import storage

# Commands that read a compressed file, and the same from a pipe.
_READERS = {
    "gzip": ("zcat", "gzip -dc"),
    "bzip2": ("bzcat", "bzip2 -dc"),
    "xz": ("xzcat", "xz -dc"),
    "lzma": ("xzcat", "xz -dc"),
    "zstd": ("zstdcat", "zstd -dc"),
    "lz4": ("lz4 -dc", "lz4 -dc"),
    "compress": ("zcat", "gzip -dc"),
    "utf-8-sig": ("tail -c +4", "tail -c +4"),
    "cr": (r"tr '\r' '\n' <", r"tr '\r' '\n'"),
    **{
        name: (f"iconv -f {name.upper()} -t UTF-8",) * 2
        for name in (
            "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
        )
    },
}  # fmt: skip
# The formats that tar recognises by itself, in a file.
_KNOWN_TO_TAR = frozenset(("gzip", "bzip2", "xz", "lzma", "zstd", "compress"))
# Commands that write an object of a store to a pipe.
_FETCHERS = {
    "s3": "aws s3 cp {} -",
    "gs": "gcloud storage cat {}",
    "gcs": "gcloud storage cat {}",
    "hdfs": "hdfs dfs -cat {}",
    "viewfs": "hdfs dfs -cat {}",
    "abfs": "hdfs dfs -cat {}",
    "abfss": "hdfs dfs -cat {}",
}


def shell_command(path: str, steps: Sequence[UnpackStep], first: int, last: int) -> str | None:
    """Write the command that prints lines of a file; None where no plain tool can.

    >>> shell_command("logs.tar.gz", [("gzip", ""), ("tar", "b/server.log")], 5, 7)
    "tar -xOf logs.tar.gz -- b/server.log | sed -n '5,7p;7q'"
    >>> shell_command("server.log.gz", [("gzip", "")], 5, 5)
    "zcat server.log.gz | sed -n '5p;5q'"
    >>> shell_command("s3://logs/server.log.gz", [("gzip", "")], 5, 5)
    "aws s3 cp s3://logs/server.log.gz - | gzip -dc | sed -n '5p;5q'"
    """
    lines = f"{first}p" if first == last else f"{first},{last}p"
    sed = f"sed -n '{lines};{last}q'"
    parts: list[str] = []
    if storage.is_remote(path):
        fetcher = _FETCHERS.get(path.partition("://")[0])
        if fetcher is None:
            return None
        parts.append(fetcher.format(quote_for_shell(storage.display(path))))
    left = list(steps)
    while left:
        kind, member = left.pop(0)
        if kind in _KNOWN_TO_TAR and left and left[0][0] == "tar" and not parts:
            # tar detects how a file is compressed, but not how a pipe is.
            continue
        part = _shell_step(kind, member, "" if parts else quote_for_shell(path))
        if part is None:
            return None
        parts.append(part)
    return " | ".join([*parts, sed]) if parts else f"{sed} {quote_for_shell(path)}"


def _shell_step(kind: str, member: str, path: str) -> str | None:
    if kind in _READERS:
        plain, piped = _READERS[kind]
        return f"{plain} {path}" if path else piped
    if kind == "tar":
        return f"tar -xOf {path or '-'} -- {quote_for_shell(member)}"
    if kind == "zip" and path:
        # unzip would take the name for a pattern.
        literal = re.sub(r"([\[*?\\])", r"[\1]", member)
        return f"unzip -p {path} {quote_for_shell(literal)}"
    # A zip has its index at its end: no plain tool reads it from a pipe.
    return None


def quote_for_shell(name: str) -> str:
    r"""Quote a name for a shell; invisible characters are written as their codes.

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


# So much of a line is kept; the rest only goes into its digest.
MAX_LINE_BYTES = 1 << 20
_NEWLINE = 10


@dataclass(frozen=True)
class FoundLine:
    """One line of the unpacked file, without its line break."""

    number: int
    offset: int
    text: bytes
    size: int
    sha256: str


@dataclass(frozen=True)
class FileLocation:
    """A file of an archive: its name, and how to open it."""

    file: str
    split: Split
    steps: tuple[UnpackStep, ...]


@dataclass
class FoundFile:
    """The lines of one file that were asked for, and those around them."""

    location: FileLocation
    lines: dict[int, FoundLine] = field(default_factory=dict)
    # number of lines, if the file was read to its end
    count: int | None = None
    damaged: str | None = None


def look_up_lines(
    plan: ReadPlan, wanted: Mapping[str, Iterable[int]], context: int = 0
) -> dict[str, list[FoundFile]]:
    """Read the wanted lines of the wanted files, and as many lines before and after each.

    If no file has exactly the wanted name, all files that may be the one are returned, those with
    the longest common path first.
    """
    spans = {
        file: [(max(1, number - context), number + context) for number in numbers]
        for file, numbers in wanted.items()
    }
    found: dict[str, list[FoundFile]] = {file: [] for file in wanted}
    for split in _whole_files(plan):
        done = {name for name, files in found.items() if _has_exact(name, files)}
        candidates = _candidates(split, set(wanted) - done)
        if not candidates:
            continue
        for part in open_parts(split):
            names = [name for name in candidates if is_alike(name, part.file)]
            if not names:
                continue
            numbers = sorted({n for name in names for a, b in spans[name] for n in range(a, b + 1)})
            opened = FileLocation(part.file, split, part.unpacked.steps)
            place = FoundFile(opened)
            place.lines, place.count = _read(part.blocks, numbers)
            place.damaged = part.unpacked.damaged
            for name in names:
                found[name].append(place)
            done |= {name for name in names if name == part.file}
            if done >= set(candidates):
                break
    return {name: _nearest(name, files) for name, files in found.items()}


def path_tail(name: str) -> tuple[str, ...]:
    """Return the parts of a file's name below its archive.

    >>> path_tail("logs.tar.gz!broker-1/server.log")
    ('broker-1', 'server.log')
    """
    parts = tuple(part for part in re.split(r"[/!]", name) if part not in ("", "."))
    return parts[1:] or parts


def is_alike(wanted: str, name: str) -> bool:
    """Return True if two names can be of the same file: one ends like all of the other."""
    left, right = path_tail(wanted), path_tail(name)
    length = min(len(left), len(right))
    return wanted == name or left[-length:] == right[-length:]


def _has_exact(name: str, files: Sequence[FoundFile]) -> bool:
    return any(file.location.file == name for file in files)


def _nearest(name: str, files: Sequence[FoundFile]) -> list[FoundFile]:
    exact = [file for file in files if file.location.file == name]
    return exact or sorted(files, key=lambda file: -_common_parts(name, file.location.file))


def _common_parts(name: str, other: str) -> int:
    pairs = zip(reversed(path_tail(name)), reversed(path_tail(other)), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _whole_files(plan: ReadPlan) -> Iterator[Split]:
    """Yield every file of a plan once, to be read from its begin to its end."""
    for split in plan.splits:
        if split.role != "digest" and split.number == 0:
            if split.role != "range":
                yield split
                continue
            yield replace(split, role="range", begin=0, end=split.size or split.end)


def _candidates(split: Split, wanted: Iterable[str]) -> list[str]:
    """Choose the wanted files that a split can hold: it is one of them, or may unpack to one."""
    # The names that a stream unpacks to are not known before, but they begin with its own.
    return [
        name
        for name in wanted
        if is_alike(name, split.file) or name.startswith(f"{split.file}!") or _may_unpack(split)
    ]


def _may_unpack(split: Split) -> bool:
    if split.role in ("tar", "zip"):
        return True
    with storage.open_file(split.path) as file:
        file.seek(split.data_offset)
        return sniff_format(file.read(SNIFF_BYTES)) not in {"plain", *TEXT_FORMATS}


def _read(
    blocks: Iterator[bytes], wanted: Sequence[int]
) -> tuple[dict[int, FoundLine], int | None]:
    """Read some lines of a file; the second value is the number of lines, if all were read."""
    reader = _LineReader(wanted)
    for block in blocks:
        reader.feed(block)
        if reader.done:
            return reader.lines, None
    return reader.lines, reader.close()


class _OpenLine:
    """A line that is being read."""

    def __init__(self, offset: int) -> None:
        self.size = 0
        self._offset, self._text, self._digest = offset, b"", hashlib.sha256()

    def add(self, part: bytes) -> None:
        self.size += len(part)
        self._text += part[: MAX_LINE_BYTES - len(self._text)]
        self._digest.update(part)

    def finish(self, number: int) -> FoundLine:
        return FoundLine(number, self._offset, self._text, self.size, self._digest.hexdigest())


class _LineReader:
    """Counts the lines of a stream, and keeps the wanted ones."""

    def __init__(self, wanted: Sequence[int]) -> None:
        self.lines: dict[int, FoundLine] = {}
        self._wanted = wanted
        self._number, self._offset = 1, 0
        self._open_line: _OpenLine | None = None
        self._is_unfinished = False

    @property
    def done(self) -> bool:
        """Whether all wanted lines were read."""
        return not self._wanted or self._number > self._wanted[-1]

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        first, last = self._number, self._number + len(breaks)
        begin = bisect.bisect_left(self._wanted, first)
        open_line = None
        for number in self._wanted[begin : bisect.bisect_right(self._wanted, last)]:
            at = int(breaks[number - first - 1]) + 1 if number > first else 0
            continued = self._open_line if number == first else None
            line = continued or _OpenLine(self._offset + at)
            if number < last:
                line.add(block[at : int(breaks[number - first])])
                self.lines[number] = line.finish(number)
            else:
                line.add(block[at:])
                open_line = line
        self._open_line, self._number = open_line, last
        self._offset += len(block)
        self._is_unfinished = not block.endswith(b"\n")

    def close(self) -> int:
        """Take the last line, which may have no line break; return the number of lines."""
        if self._is_unfinished and self._open_line:
            self.lines[self._number] = self._open_line.finish(self._number)
        return self._number - (not self._is_unfinished)


def digest_and_head(opened: FileLocation) -> tuple[str, bytes]:
    """Read a whole file once more: its digest, as in the table of files, and its head."""
    digest, head = hashlib.sha256(), b""
    for part in open_parts(opened.split):
        if part.file == opened.file:
            for block in part.blocks:
                digest.update(block)
                head += block[: HEAD_BYTES - len(head)]
            break
    return digest.hexdigest(), head
