"""Random trees of logs, the archives that hold them, and what breaks archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.events.support_files.test_file_kinds import DOCUMENTS as KNOWN_DOCUMENTS
from tests.ingest import json_formats
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


# How stores and tools write records: JSON, CSV, XML, YAML, printed blocks.
FORMS: dict[str, json_formats.Write] = {
    f"{kind} {name}": write
    for kind, forms in (
        ("line", json_formats.LINES), ("parts", json_formats.PARTS),
        ("printed", json_formats.PRINTED), ("document", json_formats.DOCUMENTS),
    )
    for name, write in forms.items()
}  # fmt: skip
_RECORDS = [
    *json_formats.read_records((LOGS / "broker-1/server.log").read_text("utf-8")),
]


def document(random: Random) -> tuple[str, bytes]:
    """Write some records as a store or a tool does; return the name of the form, and the text."""
    begin = random.randrange(len(_RECORDS))
    records = _RECORDS[begin : begin + random.randint(1, 60)]
    name = random.choice(sorted(FORMS))
    return name, FORMS[name](records).encode()


# Longer documents are not read in pieces.
MOST_SPLIT = 200_000
# Fewer lines do not show who wrote them.
FEW = 20


def interleave(random: Random, files: dict[str, list[bytes]]) -> list[tuple[str, bytes]]:
    """Shuffle the lines of files into each other, each file's in its order, with its name."""
    left = {name: list(lines) for name, lines in files.items() if lines}
    mixed = []
    while left:
        name = random.choice(sorted(left))
        many = random.randint(1, 9)
        mixed += [(name, line) for line in left[name][:many]]
        left[name] = left[name][many:]
        left = {one: lines for one, lines in left.items() if lines}
    return mixed


# What strftime writes of a time, and what stands there by mistake.
_CLOCKS = (
    "%H:%M:%S",
    "%H:%M:%S,%f",
    "%H:%M:%S.%f",
    "%I:%M:%S,%f %p",
    "%H:%M",
    "%X",
    "%s",
    "24:00:00",
)
_DAYS = ("%Y-%m-%d", "%d/%b/%Y", "%d.%m.%Y", "%m/%d/%y", "%b %d", "%y%m%d", "", "%A, %d %B %Y",
         "2026-13-45", "0000-00-00", "9999-12-31", "1969-12-31", "29 Feb 2027")  # fmt: skip
_ZONES = ("", "", "Z", " UTC", "+0530", "-03:30", " +00:00", "+99:99", " CEST", " Europe/Berlin")


def time_form(random: Random) -> str:
    """Choose how times are written, as strftime knows it."""
    between = random.choice((" ", "T", "  ", ":", "_", ""))
    return random.choice(_DAYS) + between + random.choice(_CLOCKS) + random.choice(_ZONES)


def in_time_form(random: Random, form: str) -> bytes:
    """Write some records with times in a form, and a few with another one."""
    begin = random.randrange(len(_RECORDS))
    other = time_form(random)
    parts = []
    for one in _RECORDS[begin : begin + 60]:
        clock = one.at.strftime(other if random.random() < 0.02 else form)
        parts.append(f"[{clock}] {one.level} {one.message} ({one.logger})\n")
    return "".join(parts).encode()


_PARTS_OF_NAMES = (
    "a", "server.log", "..", ".", "", "/", "//", "\\", "\n", "\r", "\t", "\x1b[31m", "\x00", "é",
    "\u202e", "\udcff", "日本", "x" * 260, "!", "*", "?", "<b>", "'", '"', "$(id)", "`id`", "-rf",
    "=1+1", "%2e%2e", "C:", "CON", " ", "broker-1", ".lock", "_RESULT.json", "2026-11-18", ":",
    "#", "&amp;",
)  # fmt: skip


def name(random: Random) -> str:
    """Make a name of what names should not hold."""
    return "".join(random.choice(_PARTS_OF_NAMES) for _ in range(random.randint(1, 6)))


def pack_hostile(random: Random, tree: dict[str, bytes]) -> bytes:
    """Pack files under names that writers of archives refuse, as tar or zip."""
    packed = io.BytesIO()
    if random.random() < 0.5:
        with tarfile.open(fileobj=packed, mode="w", format=random.choice((0, 1, 2))) as archive:
            for name, content in tree.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                with suppress(ValueError):
                    archive.addfile(member, io.BytesIO(content))
            archive.addfile(tarfile.TarInfo("empty"))
        return packed.getvalue()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in tree.items():
            info = zipfile.ZipInfo("x" * len(name))
            info.filename = name.encode("utf-8", "replace").decode()
            archive.writestr(info, content)
    return packed.getvalue()
