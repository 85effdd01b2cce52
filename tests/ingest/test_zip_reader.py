"""Zips are checked against their directory, their headers and their checksums."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.ingest.read_plan import plan_reading
from forensics.lib.limits import Limits
from tests.ingest.sample_archives import LOG, TREE, tarred, zipped
from tests.ingest.scans import Scanned, scan

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
methods = pytest.mark.parametrize("method", METHODS)
# On disk a zip is read by its directory, in a stream entry by entry.
inside = pytest.mark.parametrize("streamed", [False, True])
COUNTS = {name: len(text.splitlines()) for name, text in TREE.items()}


def read(packed: bytes, folder: Path, *, streamed: bool = False) -> Scanned:
    content = gzip.compress(packed) if streamed else packed
    (folder / "logs").write_bytes(content)
    return scan(folder / "logs")


def lines(found: Scanned) -> dict[str, int]:
    return {
        name.removeprefix("logs!"): one.counts["lines"]
        for name, one in found.files.items()
        if "!" in name
    }


class Pipe(io.BytesIO):
    """A file that cannot go back, so that lengths are written behind the entries."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise OSError

    def tell(self) -> int:
        raise OSError


def piped(method: int) -> bytes:
    packed = Pipe()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in TREE.items():
            with archive.open(name, "w") as entry:
                entry.write(content)
    return packed.getvalue()


@inside
@methods
def test_every_way_of_packing_is_read(method: int, streamed: bool, tmp_path: Path) -> None:
    for packed in (zipped(method=method), piped(method)):
        found = read(packed, tmp_path, streamed=streamed)
        assert COUNTS == lines(found)
        assert {} == found.notes()


@methods
def test_a_zip_that_is_cut_off_is_read_to_there(method: int, tmp_path: Path) -> None:
    packed = zipped(method=method)
    at = packed.index(b"other hosts")

    found = read(packed[: at - 10], tmp_path)

    assert 300 == lines(found)["broker-1/server.log"]
    assert "its directory is missing" in str(found.files["logs"].notes)


@inside
def test_a_wrong_checksum_is_said_and_the_text_is_kept(streamed: bool, tmp_path: Path) -> None:
    packed = bytearray(zipped())
    at = packed.index(LOG) + 1000
    packed[at] ^= 1

    found = read(bytes(packed), tmp_path, streamed=streamed)

    assert COUNTS == lines(found)
    assert ["the entry has a wrong checksum; some of its text is not what was packed"] == list(
        found.notes().values()
    )


@inside
def test_a_broken_entry_is_said_and_the_others_are_read(streamed: bool, tmp_path: Path) -> None:
    packed = bytearray(zipped(method=zipfile.ZIP_DEFLATED))
    at = packed.index(b"broker-1/server.log") + 200
    packed[at : at + 20] = b"\xff" * 20

    found = read(bytes(packed), tmp_path, streamed=streamed)

    got = lines(found)
    assert {name: got[name] for name in COUNTS if "server" not in name} == {
        name: count for name, count in COUNTS.items() if "server" not in name
    }
    assert found.files["logs!broker-1/server.log"].broken


@inside
@pytest.mark.parametrize("program", [b"MZ" + b"\x90" * 5000, b"\x7fELF" + bytes(9000)])
def test_what_unpacks_itself_is_a_zip(program: bytes, streamed: bool, tmp_path: Path) -> None:
    found = read(program + zipped(), tmp_path, streamed=streamed)

    assert COUNTS == lines(found)
    assert {} == found.notes()


@inside
def test_a_zip_in_front_of_a_zip_is_read_too(streamed: bool, tmp_path: Path) -> None:
    found = read(zipped({"a.log": LOG}) + zipped({"b.log": LOG}), tmp_path, streamed=streamed)

    assert {"a.log": 300, "b.log": 300} == lines(found)


@pytest.mark.parametrize("tail", [tarred({"b.log": LOG}), b"x" * 30_000])
def test_what_follows_a_zip_is_said(tail: bytes, tmp_path: Path) -> None:
    (tmp_path / "logs.zip").write_bytes(zipped({"a.log": LOG}) + tail)

    work = plan_reading([str(tmp_path / "logs.zip")])

    said = f"{len(tail):,} bytes that are no zip follow its end, unread"
    assert [said] == [why for _, why in work.problems]


@pytest.mark.parametrize("tail", [b"", b"\r\n", bytes(512)])
def test_what_fills_up_behind_a_zip_is_not_said(tail: bytes, tmp_path: Path) -> None:
    (tmp_path / "logs.zip").write_bytes(zipped({"a.log": LOG}) + tail)

    assert not plan_reading([str(tmp_path / "logs.zip")]).problems


def directory_record(name: bytes, raw: bytes, text: bytes, at: int) -> bytes:
    return (
        struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, zlib.crc32(text), len(raw),
            len(text), len(name), 0, 0, 0, 0, 0, at,
        )
        + name
    )  # fmt: skip


def overlapping(count: int, text: bytes) -> bytes:
    """Pack one content under many names."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = packer.compress(text) + packer.flush()
    local = struct.pack(
        "<4sHHHHHIIIHH", b"PK\x03\x04", 20, 0, 8, 0, 0, zlib.crc32(text), len(raw), len(text), 5, 0
    )
    body = local + b"0.log" + raw
    records = b"".join(directory_record(b"%d.log" % n, raw, text, 0) for n in range(count))
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, count, count, len(records), len(body), 0)
    return body + records + end


def test_entries_that_overlap_are_refused(tmp_path: Path) -> None:
    found = read(overlapping(50, LOG), tmp_path)

    assert {"0.log": 300} == lines(found)
    assert {"it overlaps another entry; refused": 49} == found.containers["logs"].left_out


def test_entries_that_unpack_to_too_much_are_refused_by_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    path.write_bytes(zipped({f"{n}.log": bytes(4 << 20) for n in range(9)}, zipfile.ZIP_DEFLATED))
    plan = plan_reading([str(path)], limits=Limits(repeated_bytes=4 << 20))

    assert 4 == len(plan.splits)
    assert {"(limit ratio)"} == {why[-13:] for _, why in plan.problems}


def test_an_entry_that_only_the_directory_names_is_said(tmp_path: Path) -> None:
    packed = zipped({"a.log": LOG, "b.log": LOG})
    found = read(packed[packed.index(b"PK\x03\x04", 4) :], tmp_path, streamed=True)

    assert {"b.log": 300, "a.log": 0} == lines(found)
    assert {"named by the directory, and not there": 1} == found.containers["logs"].left_out


def test_two_entries_of_one_name_are_both_read_and_said(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.log", LOG[:5000])
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.log", LOG)

    for streamed in (False, True):
        found = read(packed.getvalue(), tmp_path, streamed=streamed)
        assert 300 == lines(found)["a.log#2"]
        assert "another member of this name" in str(found.files["logs!a.log#2"].notes)


def test_many_small_entries_share_a_split(tmp_path: Path) -> None:
    path = tmp_path / "logs.zip"
    path.write_bytes(zipped({f"{number}/server.log": LOG[:600] for number in range(3000)}))

    plan = plan_reading([str(path)])

    assert len(plan.splits) < 300
    assert 3000 == plan.containers[0].entries == sum(split.entries for split in plan.splits)


def test_small_entries_that_share_a_split_are_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forensics.ingest.archive_plan._ALONE", 2)
    tree = {f"pod-{number}/server.log": LOG[: 600 + number] for number in range(12)}

    found = read(zipped(tree, zipfile.ZIP_DEFLATED), tmp_path)

    assert set(tree) == set(lines(found))
    assert (12, 12) == (found.containers["logs"].entries, found.containers["logs"].read)


def test_names_that_are_not_utf_8_are_shown_with_their_bytes(tmp_path: Path) -> None:
    packed = zipped({"grXn.log": LOG}).replace(b"grXn.log", b"gr\xfcn.log")

    for streamed in (False, True):
        assert {r"gr\xfcn.log": 300} == lines(read(packed, tmp_path, streamed=streamed))


def test_other_archives_inside_are_read(tmp_path: Path) -> None:
    packed = zipped({"a.tar.bz2": bz2.compress(tarred({"server.log": LOG}))})

    assert {"a.tar.bz2!server.log": 300} == lines(read(packed, tmp_path))


@pytest.mark.parametrize("pack", [zipped, tarred, lambda tree: gzip.compress(tarred(tree))])
def test_of_many_empty_entries_some_are_listed_and_all_are_counted(
    pack: Callable[[dict[str, bytes]], bytes], tmp_path: Path
) -> None:
    tree = {f"{number}.log": b"" for number in range(300)} | {"server.log": LOG}

    found = read(pack(tree), tmp_path)

    assert 101 == len(found.files)
    assert 300 == lines(found)["server.log"]
    whole = found.containers["logs"]
    assert (301, 101, {"empty files": 200}) == (whole.entries, whole.read, dict(whole.left_out))


def test_names_of_windows_are_folders(tmp_path: Path) -> None:
    packed = zipped({name.replace("/", "\\"): text for name, text in TREE.items()})
    plain = read(zipped(TREE), tmp_path)

    found = read(packed, tmp_path)

    assert found.files.keys() == plain.files.keys()
    assert found.facts() == plain.facts()


def test_zips_in_a_zip_leave_nothing_to_the_collector_of_garbage(tmp_path: Path) -> None:
    """It looks seldom, and each entry that waits for it holds its decompressor."""
    inner = zipped({f"{number}.log": LOG for number in range(16)}, zipfile.ZIP_DEFLATED)
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({f"{number}.zip": inner for number in range(16)}))
    gc.collect()
    gc.disable()
    try:
        found = scan(path)
        left = gc.collect()
    finally:
        gc.enable()

    assert len(found.files) == 256
    assert left < 100
