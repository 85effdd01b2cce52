"""A tar is read to its end, whatever lies between; what has no header is read all the same."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.ingest import archive_plan
from forensics.ingest.read_limits import Budget
from forensics.ingest.read_plan import plan_reading
from forensics.ingest.tar_reader import TarReader
from forensics.lib.limits import Limits
from tests.ingest.sample_archives import LOG, TREE, tarred, write
from tests.ingest.scans import Scanned, scan

Compress = Callable[[bytes], bytes]
either = pytest.mark.parametrize("compress", [bytes, gzip.compress])
LOGS = {name: content for name, content in TREE.items() if content}


def read(packed: bytes, folder: Path, compress: Compress = bytes) -> Scanned:
    (folder / "logs").write_bytes(compress(packed))
    return scan(folder / "logs")


def lines(found: Scanned) -> dict[str, int]:
    return {
        name.removeprefix("logs!"): one.counts["lines"]
        for name, one in found.files.items()
        if "!" in name
    }


EXPECTED = {
    name: text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
    for name, text in TREE.items()
}


def header_at(packed: bytes | bytearray, name: str) -> int:
    return packed.index(name.encode()) // 512 * 512


@either
@pytest.mark.parametrize("harm", ["zeros", "checksum", "letters"])
def test_what_follows_a_damaged_header_is_read(
    harm: str, compress: Compress, tmp_path: Path
) -> None:
    packed = bytearray(tarred())
    at = header_at(packed, "broker-1/server.log")
    damage = {"zeros": bytes(512), "letters": b"x" * 512}.get(harm)
    if damage:
        packed[at : at + 512] = damage
    else:
        packed[at + 150] ^= 1

    found = read(bytes(packed), tmp_path, compress)

    rest = {name: count for name, count in EXPECTED.items() if name != "broker-1/server.log"}
    got = lines(found)
    assert rest == {name: got.get(name) for name in rest}
    (lost,) = set(got) - set(rest)
    # A header of letters is one more line, as nothing tells it from text.
    assert got[lost] in {300, 301}
    at += 512 if harm == "zeros" else 0
    assert f"no valid header at byte {at}" in str(found.files[f"logs!{lost}"].notes)
    assert f"no valid header at byte {at}" in found.containers["logs"].faults
    assert (5, 5) == (found.containers["logs"].entries, found.containers["logs"].read)


@either
def test_a_tar_cut_between_two_members_says_that_its_end_is_missing(
    compress: Compress, tmp_path: Path
) -> None:
    packed = tarred()

    found = read(packed[: header_at(packed, "broker-1/state-change.log")], tmp_path, compress)

    assert 300 == lines(found)["broker-1/server.log"]
    assert "the archive has no end mark" in str(found.containers["logs"].faults)
    assert "the archive has no end mark" in str([*found.problems, found.notes()])


@either
@pytest.mark.parametrize("together", ["cat", "tar -A", "cat of two compressed ones"])
def test_tars_that_were_put_together_are_all_read(
    together: str, compress: Compress, tmp_path: Path
) -> None:
    first, second = tarred({"a.log": LOG}), tarred({"b.log": LOG, "c.log": LOG[:5000]})
    if together == "tar -A":
        first = first.rstrip(b"\0")
        first += bytes(-len(first) % 512)
    packed = compress(first + second)
    if together == "cat of two compressed ones":
        packed = compress(first) + compress(second)

    found = read(packed, tmp_path)

    assert {"a.log", "b.log", "c.log"} == set(lines(found))
    assert {} == found.notes()


@either
@pytest.mark.parametrize("form", ["gnu", "posix0.0", "posix0.1", "posix1.0"])
def test_sparse_members_are_read_with_their_holes(
    form: str, compress: Compress, tmp_path: Path
) -> None:
    text = LOG[:8192] + bytes(1 << 17) + b"\n" + LOG
    tree = tmp_path / "tree"
    write(tree, {"before.log": LOG, "sparse.log": b"", "z-after.log": LOG})
    with (tree / "sparse.log").open("wb") as file:
        for at in range(0, len(text), 4096):
            part = text[at : at + 4096]
            if part.strip(b"\0"):
                file.seek(at)
                file.write(part)
        file.truncate(len(text))
    options = ["--format=gnu"]
    if form != "gnu":
        options = ["--format=posix", f"--sparse-version={form.removeprefix('posix')}"]
    command = ["tar", "-S", *options, "-cf", str(tmp_path / "logs.tar"), "-C", str(tree), "."]
    subprocess.run(command, check=True)

    found = read((tmp_path / "logs.tar").read_bytes(), tmp_path, compress)
    wanted = scan(tree / "sparse.log").files["sparse.log"]
    got = found.files["logs!./sparse.log"]

    assert (wanted.counts, wanted.sha256) == (got.counts, got.sha256)
    assert 300 == lines(found)["./z-after.log"] == lines(found)["./before.log"]
    assert {"folders: not followed": 1} == found.containers["logs"].left_out


@either
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read(form: int, compress: Compress, tmp_path: Path) -> None:
    name = "/".join(["a-rather-long-folder"] * 14) + "/server.log"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(LOG)
        archive.addfile(member, io.BytesIO(LOG))

    assert {name: 300} == lines(read(packed.getvalue(), tmp_path, compress))


def as_version_7(packed: bytes) -> bytes:
    """Take the magic bytes out of every header."""
    blocks = [packed[at : at + 512] for at in range(0, len(packed), 512)]
    for number, block in enumerate(blocks):
        if block[257:262] == b"ustar":
            old = bytearray(block[:148] + b" " * 8 + block[156:257] + bytes(255))
            if old[156:157] == b"0":
                old[156] = 0
            old[148:156] = b"%06o\0 " % sum(old)
            blocks[number] = bytes(old)
    return b"".join(blocks)


@either
def test_the_tar_of_version_7_is_known_by_its_checksum(compress: Compress, tmp_path: Path) -> None:
    found = read(as_version_7(tarred(LOGS)), tmp_path, compress)

    assert {name: EXPECTED[name] for name in LOGS} == lines(found)
    assert {} == found.notes()


@either
def test_links_and_special_members_are_counted(compress: Compress, tmp_path: Path) -> None:
    soft, hard, pipe = (tarfile.TarInfo(name) for name in ("soft", "hard", "pipe"))
    soft.type, soft.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "a.log"
    pipe.type = tarfile.FIFOTYPE

    found = read(tarred({"a.log": LOG}, [soft, hard, pipe]), tmp_path, compress)

    assert {
        "symbolic links: not followed": 1,
        "hard links: not followed": 1,
        "named pipes: not followed": 1,
    } == found.containers["logs"].left_out
    assert {"a.log": 300} == lines(found)


@either
def test_two_members_of_one_name_are_both_read_and_said(compress: Compress, tmp_path: Path) -> None:
    packed = tarred({"a.log": LOG[:5000]}).rstrip(b"\0")
    packed += bytes(-len(packed) % 512)

    found = read(packed + tarred({"a.log": LOG}), tmp_path, compress)

    assert 300 == lines(found)["a.log#2"]
    assert "another member of this name" in str(found.files["logs!a.log#2"].notes)
    assert not found.files["logs!a.log#2"].broken


def with_size(name: str, kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@either
@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_a_header_that_is_too_long_is_skipped(
    kind: bytes, compress: Compress, tmp_path: Path
) -> None:
    size = 3 << 20
    packed = with_size("name", kind, size) + b"n" * size + tarred({"a.log": LOG})

    found = read(packed, tmp_path, compress)

    assert {"a.log": 300} == lines(found)
    assert "was skipped (limit header_bytes)" in str(found.files["logs!a.log"].notes)


@either
@pytest.mark.parametrize("kind", [b"L", b"x"])
def test_a_long_name_that_is_not_there_hides_no_file(
    kind: bytes, compress: Compress, tmp_path: Path
) -> None:
    packed = with_size("name", kind, 2 << 30) + tarred({"a.log": LOG, "b.log": LOG[:5000]})

    found = read(packed, tmp_path, compress)

    assert {"a.log", "b.log"} == set(lines(found))
    assert 300 == lines(found)["a.log"]
    assert "up to the next one, 0 bytes on" in str(found.files["logs!a.log"].notes)


@either
def test_a_member_that_claims_more_than_there_is_ends_with_the_archive(
    compress: Compress, tmp_path: Path
) -> None:
    packed = tarred({"a.log": LOG}).rstrip(b"\0")
    packed += bytes(-len(packed) % 512) + with_size("huge.log", b"0", 1 << 60) + LOG

    found = read(packed, tmp_path, compress)

    assert 300 == lines(found)["a.log"] == lines(found)["huge.log"]
    assert found.files["logs!huge.log"].broken


def test_a_hole_of_an_exabyte_is_left_out() -> None:
    header = bytearray(with_size("sparse.log", b"S", 512))
    header[386:410] = b"%011o\0%011o\0" % (0, 512)
    header[483:495] = (0x80 << 88 | 1 << 60).to_bytes(12, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    packed = bytes(header) + LOG[:512] + tarred({"a.log": LOG})
    reader = TarReader(io.BytesIO(packed), Budget(Limits(repeated_bytes=1 << 18)))
    sizes = {}
    for member in reader:
        sizes[member.name] = sum(len(part) for part in iter(lambda: reader.read(1 << 16), b""))
        if member.sparse:
            assert "bytes of a hole were left out (limit repeated_bytes)" in member.notes[0]

    assert {b"sparse.log": (1 << 20) + 512, b"a.log": len(LOG)} == sizes


def test_a_plan_does_not_grow_with_the_number_of_small_members(tmp_path: Path) -> None:
    path = tmp_path / "logs"
    path.write_bytes(tarred({f"pod-{number}/server.log": LOG[:600] for number in range(3000)}))

    plan = plan_reading([str(path)])

    assert len(plan.splits) < 300
    assert 3000 == plan.containers[0].entries
    assert 3000 == sum(max(1, split.entries) for split in plan.splits)


def test_small_members_that_share_a_split_are_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_plan, "_ALONE", 3)
    tree = {f"pod-{number}/server.log": LOG[: 600 + number] for number in range(12)}

    found = read(tarred(tree), tmp_path)

    assert set(tree) == set(lines(found))
    assert (12, 12) == (found.containers["logs"].entries, found.containers["logs"].read)


def test_more_entries_than_the_limit_are_not_read_and_said(tmp_path: Path) -> None:
    (tmp_path / "logs").write_bytes(tarred({f"{number}.log": LOG[:600] for number in range(20)}))
    found = scan(tmp_path / "logs", limits=Limits(entries=5))

    assert 5 == found.containers["logs"].read
    assert ["entries"] == found.containers["logs"].limits
    assert "more than 5 entries (limit entries)" in str(found.problems)


def test_names_that_are_not_utf_8_are_shown_with_their_bytes(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo(b"gr\xfcn.log".decode("utf-8", "surrogateescape"))
        member.size = len(LOG)
        archive.addfile(member, io.BytesIO(LOG))

    for compress in (bytes, gzip.compress):
        assert {r"gr\xfcn.log": 300} == lines(read(packed.getvalue(), tmp_path, compress))
