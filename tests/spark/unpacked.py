"""Unpacks archives with the standard library alone, to see what the program should have read."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["contents", "quoted", "shuffled_tar"]


def contents(archive: Path) -> dict[str, bytes]:
    """Give every file of an archive, under the name that the program gives it."""
    return {
        name: gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
        for name, text in _members(archive)
    }


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.is_dir():
        for path in sorted(archive.rglob("*")):
            if path.is_file():
                yield f"{archive.name}/{path.relative_to(archive).as_posix()}", path.read_bytes()
    elif archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                yield f"{archive.name}!{name}", packed.read(name)
    else:
        with tarfile.open(archive) as packed:
            for member in packed:
                content = packed.extractfile(member) if member.isreg() else None
                if content is not None:
                    yield f"{archive.name}!{member.name}", content.read()


def quoted(text: bytes, line: int) -> str:
    """Give the text of one line, as far as evidence quotes it."""
    found = text.split(b"\n")[line - 1].removesuffix(b"\r")
    return found[:2000].decode("utf-8", "replace")


def shuffled_tar(folder: Path, target: Path) -> Path:
    """Pack a folder as tar.gz, its members in an order that no listing would give."""
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda p: p.name[::-1]
    )
    with tarfile.open(target, "w:gz") as packed:
        for path in files[::2] + files[1::2]:
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = path.stat().st_size
            packed.addfile(member, io.BytesIO(path.read_bytes()))
    return target
