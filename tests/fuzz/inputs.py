"""Random trees of logs, the archives that hold them, and what breaks archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from random import Random

from tests.events.support_files.test_file_kinds import DOCUMENTS as KNOWN_DOCUMENTS
from tests.ingest.sample_archives import LOGS, Tree, tarred
from tests.ingest.wrapped_logs import WRAPS

Pack = Callable[[Tree], bytes]
Change = Callable[[Random, bytes], bytes]

# Each source gives one file of a tree at the most: the same lines in two files are one fact.
SOURCES = {
    name: (LOGS / name).read_bytes().splitlines(keepends=True)
    for name in (
        "app-billing/client.log",
        "app-rd/client.log",
        "app-report2/client.log",
        "broker-1/server.log",
        "broker-1/state-change.log",
        "broker-2/server.log",
        "controller-1/controller.log",
    )
}
# What lies beside logs, one of each kind.
DOCUMENTS = tuple(
    text if isinstance(text, bytes) else text.encode() for _, text, _ in KNOWN_DOCUMENTS.values()
)
_NAMES = ("", "incident 7/", "Größe/", "a/b/c/d/", "-x/", "logs\n2/")


def lines_of(random: Random, source: str, most: int = 60) -> list[bytes]:
    """Take some lines from one of the sample logs, from the first line of a record on."""
    lines = SOURCES[source]
    begin = random.randrange(len(lines))
    while begin and lines[begin][:1] in b"\t })":
        begin -= 1
    return lines[begin : begin + random.randint(1, most)]


def random_tree(random: Random, most: int = 4) -> Tree:
    """Make a tree of a few files; the last line of a file may lack its line break."""
    folder = random.choice(_NAMES)
    tree = {}
    for source in sorted(random.sample(sorted(SOURCES), random.randint(1, most))):
        text = b"".join(lines_of(random, source))
        tree[folder + source] = text.rstrip(b"\n") if random.random() < 0.2 else text
    return tree


def compress(random: Random) -> Callable[[bytes], bytes]:
    """Choose how one stream of bytes is compressed."""
    return random.choice((*STREAMS, _in_members))


def _gzipped(data: bytes) -> bytes:
    """Compress without the time of now: a seed gives the same bytes at any time."""
    return gzip.compress(data, mtime=0)


STREAMS: tuple[Callable[[bytes], bytes], ...] = (_gzipped, bz2.compress, lzma.compress)


def _in_members(data: bytes) -> bytes:
    """Compress as several members of one gzip, one of them empty."""
    cuts = (0, len(data) // 3, len(data) // 3, len(data))
    return b"".join(_gzipped(data[a:b]) for a, b in zip(cuts, (*cuts[1:], len(data)), strict=True))


def pack(random: Random, tree: Tree, depth: int = 2) -> bytes:
    """Pack a tree into one archive, which may hold archives and compressed files."""
    inside = dict(tree)
    for name in sorted(inside):
        if random.random() < 0.3:
            inside[name] = compress(random)(inside[name])
    if depth > 1 and len(inside) > 1 and random.random() < 0.4:
        moved = sorted(inside)[: random.randint(1, len(inside) - 1)]
        inner = pack(random, {name: inside.pop(name) for name in moved}, depth - 1)
        inside[f"inner-{depth}"] = inner
    packed = random.choice(_PACKS)(inside)
    return compress(random)(packed) if random.random() < 0.4 else packed


def _zipped(tree: Tree, method: int = zipfile.ZIP_STORED) -> bytes:
    """Pack a tree as zip, without the time of now."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in tree.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return packed.getvalue()


_PACKS: tuple[Pack, ...] = (
    tarred,
    _zipped,
    lambda tree: _zipped(tree, zipfile.ZIP_DEFLATED),
    lambda tree: tarred({name: tree[name] for name in reversed(list(tree))}),
)


def wrap(random: Random, text: bytes) -> bytes:
    """Wrap every line of a text as some collector does."""
    name = random.choice(sorted(WRAPS))
    return WRAPS[name](text.splitlines())


# What happens to bytes on their way.


def cut(random: Random, data: bytes) -> bytes:
    """Break off somewhere."""
    return data[: random.randrange(len(data) + 1)]


def flip(random: Random, data: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 8)):
        if changed:
            changed[random.randrange(len(changed))] ^= random.randint(1, 255)
    return bytes(changed)


def drop(random: Random, data: bytes) -> bytes:
    """Lose a piece in the middle."""
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.randint(1, 2000) :]


def overwrite(random: Random, data: bytes) -> bytes:
    """Write a piece over with zeros or noise."""
    at, size = random.randrange(len(data) + 1), random.randint(1, 2000)
    noise = bytes(size) if random.random() < 0.5 else Random(at).randbytes(size)
    return data[:at] + noise[: len(data) - at] + data[at + size :]


def insert(random: Random, data: bytes) -> bytes:
    """Put noise in between."""
    at = random.randrange(len(data) + 1)
    return data[:at] + Random(at).randbytes(random.randint(1, 600)) + data[at:]


def repeat(random: Random, data: bytes) -> bytes:
    """Write a piece twice."""
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.randint(1, 4000))
    return data[:end] + data[at:end] + data[end:]


DAMAGES: tuple[Change, ...] = (cut, flip, drop, overwrite, insert, repeat)


def damage(random: Random, data: bytes) -> bytes:
    """Damage bytes, once or a few times."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(DAMAGES)(random, data)
    return data


# What stands in logs beside log lines, by mistake or on purpose.
ODD_LINES = (
    b"",
    b"\r",
    b"\x00" * 40,
    b"\xff\xfe\xfd",
    b"\x1b[31m",
    b"[",
    b"{",
    b'{"log":',
    b'{"log":"' + b"\\" * 31,
    b"[2026-11-18",
    b"[2026-11-18 11:38:00,000] INFO",
    b"[2026-13-45 99:99:99,999] INFO x (kafka.server.KafkaServer)",
    b"[0000-00-00 00:00:00,000] INFO [Broker id=99999999999999999999] x (state.change.logger)",
    b"x" * 5000,
    b"(" * 500,
    b"[" * 500,
    "\u202e\u2028日本".encode(),
    b"\tat x.y.Z(Z.java:1)",
    b"java.lang.OutOfMemoryError: Java heap space",
    b"==> broker-2/server.log <==",
    b"kafka-1  | ",
)


def disturb(random: Random, lines: list[bytes]) -> list[bytes]:
    """Delete, repeat, move, cut and glue lines, and put odd ones in between."""
    lines = list(lines)
    for _ in range(random.randint(1, 8)):
        at = random.randrange(len(lines) + 1)
        match random.randrange(6):
            case 0:
                del lines[at : at + random.randint(1, 5)]
            case 1:
                lines[at:at] = lines[at : at + 3]
            case 2:
                random.shuffle(lines)
            case 3 if at < len(lines):
                lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            case 4 if at < len(lines):
                lines[at] = lines[at].rstrip(b"\n")
            case _:
                lines.insert(at, random.choice(ODD_LINES) + b"\n")
    return lines
