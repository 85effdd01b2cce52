"""What is made to hurt is refused in seconds, in little memory, with the name of the limit.

A process of its own reads all of them, so that its memory can be measured.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.sample_archives import LOG, tarred, zipped
from tests.ingest.test_zip_reader import overlapping

pytestmark = pytest.mark.slow

_MB = 1 << 20
# A process that has loaded the rules has 130 MB, and tests may share their processor.
_MOST_MB, _MOST_SECONDS = 300, 10

_READER = """
import json, sys, time
from forensics.errors import ForensicsError
from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
for name in sys.argv[1:]:
    begun, said, events = time.process_time(), [], 0
    try:
        work = plan_reading([name])
    except ForensicsError as error:
        said.append(str(error))
    else:
        said += [why for _, why in work.problems]
        for batch in (one for split in work.splits for one in load_scanner().scan(split)):
            accounts = [json.loads(text) for text in batch["account"].to_pylist() if text]
            for one in accounts:
                said += [*one.get("notes", ()), *one.get("faults", ()), *one.get("left_out", ())]
                events += one.get("events", 0)
        for one in work.containers:
            said += one.left_out
    # What getrusage tells may be of the process that started this one.
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) >> 10
    print(json.dumps([time.process_time() - begun, peak, events, sorted(set(said))]), flush=True)
"""


def _head(name: str, size: int, kind: bytes = b"0") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def _repeated(begin: bytes, unit: bytes, count: int, end: bytes = b"") -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [packer.compress(part) for part in (begin, *[unit] * count, end)]
    return b"".join(parts) + packer.flush()


def _empty_members(count: int) -> bytes:
    return b"".join(_head(f"{number}.log", 0) for number in range(count)) + tarred({"a.log": LOG})


def _nested(depth: int) -> bytes:
    packed = zipped({"a.log": LOG})
    for _ in range(depth):
        packed = zipped({f"{n}.zip": packed for n in range(16)}, zipfile.ZIP_DEFLATED)
    return packed


def _sparse(size: int) -> bytes:
    head = bytearray(_head("sparse.log", 512, b"S"))
    head[386:410] = b"%011o\0%011o\0" % (0, 512)
    head[483:495] = (0x80 << 88 | size).to_bytes(12, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + LOG[:512] + tarred({"a.log": LOG})


def _pax_map() -> bytes:
    """Write the map of a sparse file with numbers that nobody can write."""
    fields = {"GNU.sparse.realsize": "512", "GNU.sparse.map": f"0,{'9' * 5_000}"}
    member = tarfile.TarInfo("sparse.log")
    member.size, member.pax_headers = 512, fields
    return member.tobuf(tarfile.PAX_FORMAT) + LOG[:512]


def _damaged(name: str, text: bytes) -> bytes:
    head = _head(name, len(text))
    return head[:148] + b"zz" + head[150:] + text + _head("empty", 0)


# What is made, what is said of it, and whether the log beside it is read.
HURTING: dict[str, tuple[Callable[[], bytes], str, bool]] = {
    "50,000 empty members of one name in a tar.gz": (
        lambda: _repeated(b"", _head("a.log", 0), 50_000), "limit entries", False
    ),
    "30,000 empty members in a tar": (lambda: _empty_members(30_000), "empty files", True),
    "30,000 empty entries in a zip": (
        lambda: zipped({f"{n}.log": b"" for n in range(30_000)} | {"z": LOG}), "empty files", True
    ),
    "300,000 empty gzip members": (
        lambda: gzip.compress(LOG) + gzip.compress(b"") * 300_000, "limit repeated_bytes", True
    ),
    "400 MB of zeros behind PK in gz": (
        lambda: _repeated(b"PK\3\4", bytes(_MB), 400), "are no zip; not read further", False
    ),
    "1,000 entries of 64 MB that overlap": (
        lambda: overlapping(1000, bytes(64 * _MB)), "it overlaps another entry", False
    ),
    "zips of 16 zips, eight deep": (lambda: _nested(8), "nested more than 6 deep", False),
    "a hole of an exabyte": (lambda: _sparse(1 << 60), "limit repeated_bytes", True),
    "a long name of 40 MB": (
        lambda: _repeated(_head("x", 40 * _MB, b"L"), b"n" * _MB, 40, tarred({"a.log": LOG})),
        "limit header_bytes", True,
    ),
    "a long name that is not there": (
        lambda: _head("x", 2 << 30, b"L") + tarred({"a.log": LOG}), "limit header_bytes", True
    ),
    "a pax header of 2 GB that is not there": (
        lambda: _head("x", 2 << 30, b"x") + tarred({"a.log": LOG}), "limit header_bytes", True
    ),
    "a pax header of 40 MB": (
        lambda: _repeated(_head("x", 40 * _MB, b"x"), b"n" * _MB, 40, tarred({"a.log": LOG})),
        "limit header_bytes", True,
    ),
    "a pax header for all members, of 40 MB": (
        lambda: _repeated(_head("x", 40 * _MB, b"g"), b"n" * _MB, 40, tarred({"a.log": LOG})),
        "limit header_bytes", True,
    ),
    "a pax header with a map of numbers of 5,000 digits": (
        lambda: _pax_map() + tarred({"a.log": LOG}), "its map of holes contradicts itself", True
    ),
    "a member that claims an exabyte": (
        lambda: gzip.compress(_head("huge.log", 1 << 60) + LOG), "bytes before this file does", True
    ),
    "5,000 damaged headers": (
        lambda: tarred({"a.log": LOG})[:-1024] + _damaged("b.log", LOG[:512]) * 5_000,
        "more than 250 places",
        True,
    ),
    "a name of 60,000 bytes": (
        lambda: zipped({"n" * 60_000: LOG}), "", True
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Read all inputs in one process; the peak of its memory is that of the worst."""
    folder = tmp_path_factory.mktemp("hurting")
    paths = {name: folder / f"{number}.bin" for number, name in enumerate(HURTING)}
    for name, path in paths.items():
        path.write_bytes(HURTING[name][0]())
    words = [sys.executable, "-c", _READER, *map(str, paths.values())]
    root = Path(__file__).parents[2]
    ran = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return dict(zip(HURTING, map(json.loads, ran.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", HURTING)
def test_what_is_made_to_hurt_is_refused_at_little_cost(
    name: str, told: dict[str, list[Any]]
) -> None:
    seconds, peak, events, said = told[name]
    _, words, has_log = HURTING[name]

    assert words in " ".join(said)
    assert has_log == (events > 0)
    assert seconds < _MOST_SECONDS
    assert peak < _MOST_MB
