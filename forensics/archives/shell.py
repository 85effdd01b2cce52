"""The plain command that shows some lines of a file in an archive, for people without this tool."""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Sequence

from forensics import places
from forensics.archives.planning import Split
from forensics.archives.unpacking import Step

__all__ = ["command", "steps_of"]

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


def steps_of(split: Split, inside: Sequence[Step]) -> tuple[Step, ...]:
    """Say how to come from the file on disk to the text: what the plan opened, and what followed.

    A plan opens a zip, and a tar that is not compressed, by itself.
    """
    if split.member:
        return (("zip", split.member), *inside)
    if split.at:
        with places.opened(split.path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            member = next((one.name for one in archive if one.offset_data == split.at), "")
        return (("tar", member), *inside)
    return tuple(inside)


def command(path: str, steps: Sequence[Step], first: int, last: int) -> str | None:
    """Write the command that prints lines of a file; None where no plain tool can.

    >>> command("logs.tar.gz", [("gzip", ""), ("tar", "b/server.log")], 5, 7)
    "tar -xOf logs.tar.gz -- b/server.log | sed -n '5,7p;7q'"
    >>> command("server.log.gz", [("gzip", "")], 5, 5)
    "zcat server.log.gz | sed -n '5p;5q'"
    >>> command("s3://logs/server.log.gz", [("gzip", "")], 5, 5)
    "aws s3 cp s3://logs/server.log.gz - | gzip -dc | sed -n '5p;5q'"
    """
    wanted = f"{first}p" if first == last else f"{first},{last}p"
    sed = f"sed -n '{wanted};{last}q'"
    parts: list[str] = []
    if places.is_remote(path):
        fetcher = _FETCHERS.get(path.partition("://")[0])
        if fetcher is None:
            return None
        parts.append(fetcher.format(quoted(places.shown(path))))
    left = list(steps)
    while left:
        kind, member = left.pop(0)
        if kind in _READERS and left and left[0][0] == "tar" and not parts:
            # tar sees by itself how a file is compressed, but not how a pipe is.
            continue
        part = _part(kind, member, "" if parts else quoted(path))
        if part is None:
            return None
        parts.append(part)
    return " | ".join([*parts, sed]) if parts else f"{sed} {quoted(path)}"


def _part(kind: str, member: str, path: str) -> str | None:
    if kind in _READERS:
        plain, piped = _READERS[kind]
        return f"{plain} {path}" if path else piped
    if kind == "tar":
        return f"tar -xOf {path or '-'} -- {quoted(member)}"
    if kind == "zip" and path:
        return f"unzip -p {path} {quoted(_literal(member))}"
    # A zip has its index at its end: no plain tool reads it from a pipe.
    return None


def _literal(name: str) -> str:
    """Keep unzip from taking a name for a pattern."""
    return re.sub(r"([\[*?\\])", r"[\1]", name)


def quoted(name: str) -> str:
    r"""Quote a name for a shell; what cannot be seen is written as its code.

    >>> print(quoted("a\x1b[31m b"))
    $'a\x1b[31m b'
    """
    if name.isprintable():
        return shlex.quote(name)
    codes = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\\" else f"\\x{byte:02x}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f"$'{''.join(codes)}'"
