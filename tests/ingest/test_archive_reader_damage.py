"""What is broken is read as far as it goes, and named; its neighbours are read in full."""

from __future__ import annotations

import builtins
import gzip
import lzma
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from forensics.errors import ArchiveError
from forensics.ingest.record_starts import MAX_RECORD
from forensics.lib import storage
from tests.ingest.sample_archives import LOG, TREE, tarred, write, zipped
from tests.ingest.scans import KINDS_OF_LINES, scan


def save(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("share", [0.4, 0.7, 0.99])
def test_every_line_before_the_cut_of_a_gzip_is_read(share: float, tmp_path: Path) -> None:
    packed = gzip.compress(LOG * 3)
    packed = packed[: int(len(packed) * share)]
    left = zlib.decompressobj(31).decompress(packed)

    found = scan(save(tmp_path, "cut.gz", packed)).files["cut.gz"]

    # The last bytes of a stream may need what was cut off.
    assert len(left) - 10 <= found.counts["bytes"] <= len(left)
    assert abs(found.counts["lines"] - left.count(b"\n")) <= 1
    assert found.broken
    said = f"gzip data cut off after {found.counts['bytes']} bytes of text"
    # Dumps of settings in the text are cut, too.
    assert found.to_row()["damaged"].startswith(said)


def test_a_cut_xz_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = lzma.compress(LOG)

    found = scan(save(tmp_path, "cut.xz", packed[: len(packed) * 3 // 4])).files["cut.xz"]

    assert 100 < found.counts["lines"] < 300
    assert found.broken


def test_a_second_member_that_is_cut_does_not_touch_the_first(tmp_path: Path) -> None:
    packed = gzip.compress(LOG) + gzip.compress(LOG)[:8]

    found = scan(save(tmp_path, "two.gz", packed)).files["two.gz"]

    assert 300 == found.counts["lines"]
    assert found.broken


def test_a_gzip_broken_in_the_middle_says_where(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(LOG))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\xff" * 40

    found = scan(save(tmp_path, "broken.gz", bytes(packed))).files["broken.gz"]

    assert found.broken
    assert str(found.to_row()["damaged"]).startswith("gzip data ")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_tar_that_breaks_off_keeps_the_files_before(compress: Any, tmp_path: Path) -> None:
    packed = tarred({"whole.log": LOG, "cut.log": LOG, "gone.log": LOG})
    broken = compress(packed[: len(LOG) * 3 // 2])

    files = scan(save(tmp_path, "logs", broken)).files

    assert 300 == files["logs!whole.log"].counts["lines"]
    assert not files["logs!whole.log"].broken
    assert files["logs!cut.log"].broken
    assert 0 < files["logs!cut.log"].counts["lines"] < 300
    assert "the archive breaks off" in str(files["logs"].to_row()["damaged"])
    assert "logs!gone.log" not in files


def test_a_zip_without_its_index_is_read_by_its_entries(tmp_path: Path) -> None:
    whole = zipped(TREE)
    cut = save(tmp_path, "cut.zip", whole[: whole.index(b"PK\x01\x02")])
    good = save(tmp_path, "good.log", LOG)

    found = scan(cut, good)

    assert found.notes() == {"cut.zip": "its directory is missing: the zip was cut off"}
    assert 300 == found.files["cut.zip!broker-1/server.log"].counts["lines"]
    assert 300 == found.files["good.log"].counts["lines"]
    assert (5, 5) == (found.containers["cut.zip"].entries, found.containers["cut.zip"].read)


def test_an_encrypted_entry_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    packed = bytearray(zipped())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.find(mark) + flags] |= 1
    path = save(tmp_path, "logs.zip", bytes(packed))
    found = scan(path)

    why = "the entry is encrypted; unpack it first"
    assert (("logs.zip!app-billing/client.log", why),) == found.problems
    assert 300 == found.files["logs.zip!broker-1/server.log"].counts["lines"]
    assert {why: 1} == found.containers["logs.zip"].left_out


def test_an_entry_that_is_not_where_the_index_says_is_named(tmp_path: Path) -> None:
    packed = zipped({"a.log": LOG, "b.log": LOG}).replace(b"PK\x03\x04", b"PK\x03\x05", 1)
    path = save(tmp_path, "logs.zip", packed)
    # What the file begins with does not say that it is a zip, but what it ends with does.
    found = scan(path)

    why = "the entry's header is not where the index says"
    assert (("logs.zip!a.log", why),) == found.problems
    assert 300 == found.files["logs.zip!b.log"].counts["lines"]


def test_an_empty_file_has_no_lines_and_is_not_damaged(tmp_path: Path) -> None:
    for content in (b"", gzip.compress(b"")):
        one = scan(save(tmp_path, "empty.log", content)).files["empty.log"]
        assert (0, 0, None) == (one.counts["lines"], one.counts["bytes"], one.to_row()["damaged"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (bytes(5000), "binary data, not a log"),
        (b"Dear diary,\nnothing happened.\n", "text, not a log"),
        (b"12:01 Dear diary,\nnothing happened.\n", "no known log layout at its beginning"),
    ],
)
def test_what_is_no_log_is_counted_and_said(content: bytes, says: str, tmp_path: Path) -> None:
    one = scan(save(tmp_path, "strange", content)).files["strange"]

    assert says == one.to_row()["damaged"]
    assert content.count(b"\n") + (content[-1:] != b"\n") == one.counts["lines"]
    assert one.counts["lines"] == one.counts["unparsed_lines"] + one.counts["blank_lines"]
    assert 0 == one.counts["events"]


@pytest.mark.parametrize(
    "content", [bytes(range(32)) * 300, random.Random(1).randbytes(5000), bytes(90) + b"ab" * 99]
)
def test_a_binary_file_is_a_row_of_the_table_and_no_damage(content: bytes, tmp_path: Path) -> None:
    row = scan(save(tmp_path, "strange", content)).files["strange"].to_row()

    assert (None, "binary, not a log") == (row["damaged"], row["layout"])
    assert content.count(b"\n") + (content[-1:] != b"\n") == row["lines"]
    assert 0 == row["events"] == row["unparsed_lines"]


@pytest.mark.parametrize("split_size", [100_000, 1 << 20, 64 << 20])
@pytest.mark.parametrize("first", [b"", LOG[: LOG.index(b"\n")]])
def test_a_line_of_three_megabytes_is_one_line(
    first: bytes, split_size: int, tmp_path: Path
) -> None:
    """Only its first megabyte is looked at, and that is said; what comes after it is read."""
    assert 3 << 20 > MAX_RECORD
    text = first + b"x" * (3 << 20) + b"\n" + LOG
    one = scan(save(tmp_path, "long.log", text), split_size=split_size).files["long.log"]

    assert (301, len(text)) == (one.counts["lines"], one.counts["bytes"])
    assert 301 == sum(one.counts[name] for name in KINDS_OF_LINES)
    assert "1 line(s) longer than 1 MB, read in part" in str(one.to_row()["damaged"])


def test_a_missing_path_among_others_is_a_problem_and_alone_an_error(tmp_path: Path) -> None:
    missing, good = tmp_path / "nope", save(tmp_path, "good.log", LOG)

    assert (("nope", f"there is no file or folder {missing}"),) == scan(missing, good).problems
    with pytest.raises(ArchiveError, match=r"nothing to read in .*there is no file or folder"):
        scan(missing)


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no files"):
        scan(tmp_path)


def test_a_file_that_may_not_be_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop root, so the refusal is played."""

    def refuse(path: str, *rest: Any) -> Any:
        if path.endswith("secret.log"):
            raise PermissionError(13, "Permission denied", path)
        return builtins.open(path, *rest)

    secret = save(tmp_path, "secret.log", LOG)
    save(tmp_path, "server.log", LOG)
    monkeypatch.setattr(storage, "open", refuse, raising=False)

    found = scan(tmp_path)

    why = f"{secret} may not be read; check its permissions"
    assert ((f"{tmp_path.name}/secret.log", why),) == found.problems
    assert [f"{tmp_path.name}/server.log"] == list(found.files)


def test_links_that_lead_in_a_circle_do_not_lead_the_reader_there(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", {"server.log": LOG})
    (root / "here").symlink_to(".")
    (root / "itself").symlink_to("itself")
    (root / "other name.log").symlink_to("server.log")

    assert {"logs/server.log", "logs/other name.log"} == set(scan(root).files)


def test_names_may_hold_what_a_name_can_hold(tmp_path: Path) -> None:
    names = ["a b.log", "line\nbreak.log", "größe.log", "!#%\\.log", "-rf", "'\".log"]
    root = write(tmp_path / "logs", dict.fromkeys(names, TREE["broker-1/server.log"]))

    files = scan(root, split_size=8192).files

    assert {f"logs/{name}" for name in names} == set(files)
    assert {300} == {one.counts["lines"] for one in files.values()}
