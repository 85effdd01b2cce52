"""One small tree of logs, and everything that people pack such a tree into."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

__all__ = ["LOG", "LOGS", "TREE", "gzipped", "tarred", "write", "zipped"]

LOGS = Path(__file__).parents[2] / "sample_logs/430-unclean/logs"

Tree = Mapping[str, bytes]


def beginning(name: str, lines: int) -> bytes:
    """Give the first lines of one of the sample logs."""
    return b"".join((LOGS / name).read_bytes().splitlines(keepends=True)[:lines])


LOG = beginning("broker-1/server.log", 300)
TREE: Tree = {
    "app-billing/client.log": beginning("app-billing/client.log", 40),
    "broker-1/server.log": LOG,
    "broker-1/state-change.log": beginning("broker-1/state-change.log", 60).rstrip(b"\n"),
    "broker-2/controller.log": b"",
    "other hosts/Größe\n2.log": beginning("broker-2/server.log", 30),
}


def write(folder: Path, tree: Tree = TREE) -> Path:
    """Write a tree into a folder."""
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tarred(tree: Tree = TREE, links: Iterable[tarfile.TarInfo] = ()) -> bytes:
    """Pack a tree as tar, with some links behind it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in tree.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for link in links:
            archive.addfile(link)
    return packed.getvalue()


def zipped(tree: Tree = TREE, method: int = zipfile.ZIP_STORED) -> bytes:
    """Pack a tree as zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in tree.items():
            archive.writestr(name, content)
    return packed.getvalue()


def gzipped(tree: Tree = TREE) -> Tree:
    """Compress each file of a tree by itself."""
    return {name: gzip.compress(content) for name, content in tree.items()}


def utf16(tree: Tree = TREE) -> Tree:
    """Write each file as Windows tools do; an empty one stays empty."""
    return {name: text.decode().encode("utf-16") if text else b"" for name, text in tree.items()}


# How the whole tree is packed into one file.
ARCHIVES: dict[str, Callable[[], bytes]] = {
    "tar": tarred,
    "tar.gz": lambda: gzip.compress(tarred()),
    "tar.bz2": lambda: bz2.compress(tarred()),
    "tar.xz": lambda: lzma.compress(tarred()),
    "zip, stored": zipped,
    "zip, bzip2": lambda: zipped(method=zipfile.ZIP_BZIP2),
    "zip, deflated": lambda: zipped(method=zipfile.ZIP_DEFLATED),
    "zip of gz": lambda: zipped(gzipped()),
    "zip of gz, deflated again": lambda: zipped(gzipped(), zipfile.ZIP_DEFLATED),
    "gz in tar": lambda: tarred(gzipped()),
    "gz in tar.gz": lambda: gzip.compress(tarred(gzipped())),
    "UTF-16 in tar.gz": lambda: gzip.compress(tarred(utf16())),
    "zip in tar.gz": lambda: gzip.compress(tarred({"logs.zip": zipped()})),
    "zip in zip": lambda: zipped({"logs.zip": zipped()}),
    "tar in tar": lambda: tarred({"logs.tar": tarred()}),
    "tar.gz in zip": lambda: zipped({"logs.tgz": gzip.compress(tarred())}),
}

# How one file is compressed.
FILES: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip twice": lambda text: gzip.compress(gzip.compress(text)),
    "gzip of three members": lambda text: b"".join(
        gzip.compress(part) for part in (text[:1000], b"", text[1000:])
    ),
    "gzip, padded with zeros": lambda text: gzip.compress(text) + bytes(512),
    "bzip2": bz2.compress,
    "bzip2 of two streams": lambda text: bz2.compress(text[:777]) + bz2.compress(text[777:]),
    "xz": lzma.compress,
    "xz of two streams": lambda text: lzma.compress(text[:777]) + lzma.compress(text[777:]),
    "UTF-16, little end first": lambda text: b"\xff\xfe" + text.decode().encode("utf-16-le"),
    "UTF-16, big end first": lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"),
    "UTF-16 in gzip": lambda text: gzip.compress(text.decode().encode("utf-16")),
}
