"""Random packings of small trees of logs, and what comes out of them, without parsing a line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from forensics.errors import ArchiveError
from forensics.ingest.archive_reader import open_parts
from forensics.ingest.container_accounts import ContainerAccount, sum_containers, wrong_sums
from forensics.ingest.read_plan import plan_reading
from forensics.lib.limits import Limits
from tests.ingest.sample_archives import LOG, tarred, zipped

Pack = Callable[[dict[str, bytes]], bytes]
LINES = LOG.splitlines(keepends=True)
PACKINGS: dict[str, Pack] = {
    "tar": tarred,
    "tar.gz": lambda tree: gzip.compress(tarred(tree), mtime=0),
    "tar.bz2": lambda tree: bz2.compress(tarred(tree)),
    "tar.xz": lambda tree: lzma.compress(tarred(tree)),
    "tar, a gzip member each": lambda tree: b"".join(
        gzip.compress(part, mtime=0) for part in pieces(tarred(tree), 2048)
    ),
    "zip": zipped,
    "zip, deflated": lambda tree: zipped(tree, zipfile.ZIP_DEFLATED),
    "zip in tar.gz": lambda tree: gzip.compress(tarred({"a.zip": zipped(tree)}), mtime=0),
    "tar of gz": lambda tree: tarred({n: gzip.compress(t, mtime=0) for n, t in tree.items()}),
    "zip of zlib": lambda tree: zipped({n: zlib.compress(t) for n, t in tree.items()}),
}
SMALL = Limits(entries=500, unpacked_bytes=1 << 24, repeated_bytes=1 << 20, seconds=20)


def pieces(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into pieces."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def random_tree(random: Random) -> dict[str, bytes]:
    """Make some small logs."""
    return {
        f"broker-{number}/server.log": b"".join(random.choices(LINES, k=random.randrange(1, 40)))
        for number in range(random.randrange(1, 6))
    }


def damage(random: Random, data: bytes) -> bytes:
    """Cut, flip, blank, insert, repeat, or put something behind or in front."""
    at, to = sorted(random.randrange(len(data) + 1) for _ in range(2))
    short = min(to, at + random.choice((1, 4, 64, 600, 5000)))
    return random.choice((
        lambda: data[:at],
        lambda: data[:at] + data[short:],
        lambda: data[:at] + bytes(byte ^ 1 << random.randrange(8) for byte in data[at : at + 1])
        + data[at + 1 :],
        lambda: data[:at] + bytes(short - at) + data[short:],
        lambda: data[:at] + random.randbytes(short - at) + data[short:],
        lambda: data[:at] + random.randbytes(3) + data[at:],
        lambda: data + data[at:short],
        lambda: data[at:short] + data,
        lambda: data + bytes(512) + data,
    ))()  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The texts of all files, what is said of them, and the accounts of all containers."""

    texts: Counter[bytes]
    said: tuple[str, ...]
    containers: dict[str, ContainerAccount]

    @property
    def everything(self) -> bytes:
        return b"".join(self.texts)


def unpack(path: Path) -> Found:
    """Read everything that a plan finds, and check that the sums of all containers are right."""
    try:
        plan = plan_reading([str(path)], 4096, SMALL)
    except ArchiveError as error:
        return Found(Counter(), (str(error),), {})
    finished: list[ContainerAccount] = []
    parents: list[str | None] = []
    texts: dict[str, bytes] = {}
    said = [why for _, why in plan.problems]
    for split in plan.splits:
        if split.role == "digest" or split.number:
            continue
        for part in open_parts(split, None, finished):
            texts[part.file] = texts.get(part.file, b"") + b"".join(part.blocks)
            parents.append(part.container)
            said += [*part.unpacked.notes, part.unpacked.damaged or ""]
    containers = sum_containers(plan.containers, map(vars, finished))
    # A file of several splits is one file, and so is one that two splits have said something of.
    named = dict(zip([*texts], parents, strict=False)) if len(parents) == len(texts) else None
    there = list(named.values()) if named is not None else parents
    assert list(wrong_sums(containers, there)) == []
    return Found(Counter(texts.values()), tuple(filter(None, said)), containers)
