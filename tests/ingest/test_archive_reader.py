"""However a tree of logs is packed, the same lines, records and events come out."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import IO

import pytest

from forensics.ingest import archive_reader, window_formats
from forensics.ingest.read_plan import Split
from tests.ingest.sample_archives import ARCHIVES, FILES, LOG, TREE, tarred, write
from tests.ingest.scans import Scanned, account_of, scan


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Scanned:
    """The tree, read from a folder."""
    return scan(write(tmp_path_factory.mktemp("tree") / "plain0"))


def test_a_folder_is_read_file_by_file(plain: Scanned) -> None:
    accounts = plain.accounts(after="plain0/")

    assert set(TREE) == set(accounts)
    assert {
        name: text.count(b"\n") + (text[-1:] not in (b"", b"\n")) for name, text in TREE.items()
    } == {name: one["lines"] for name, one in accounts.items()}
    assert {name: len(text) for name, text in TREE.items()} == {
        name: one["bytes"] for name, one in accounts.items()
    }
    assert len(plain.events) > 50
    assert plain.notes() == {}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_every_archive_gives_what_the_folder_gives(
    kind: str, plain: Scanned, tmp_path: Path
) -> None:
    path = tmp_path / "logs"
    path.write_bytes(ARCHIVES[kind]())

    packed = scan(path)

    assert packed.notes() == {}
    assert plain.accounts(after="plain0/") == packed.accounts(after="!")
    assert plain.facts() == packed.facts()


@pytest.mark.parametrize("kind", FILES)
def test_every_compressed_file_gives_what_the_plain_one_gives(kind: str, tmp_path: Path) -> None:
    """No suffix says what it is; the first bytes do."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(LOG)
    packed.write_bytes(FILES[kind](LOG))

    wanted, found = scan(plain), scan(packed)

    assert found.notes() == {}
    assert account_of(wanted.files["plain"]) == account_of(found.files["packed"])
    assert wanted.facts() == found.facts()


def test_a_misleading_suffix_misleads_nobody(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(LOG)

    assert 300 == scan(path).files["server.log.gz"].counts["lines"]


def test_a_tar_s_links_are_not_followed_and_its_names_lead_nowhere(tmp_path: Path) -> None:
    """Nothing is written to disk, so that an absolute name or one with dots can do no harm."""
    soft, hard = tarfile.TarInfo("soft"), tarfile.TarInfo("hard")
    soft.type, soft.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "/abs/server.log"
    packed = tarred({"/abs/server.log": LOG, "../../up.log": LOG[:5000]}, [soft, hard])
    path = tmp_path / "logs.tgz"
    for content in (packed, gzip.compress(packed)):
        path.write_bytes(content)
        assert ["logs.tgz!../../up.log", "logs.tgz!/abs/server.log"] == sorted(scan(path).files)


def test_two_files_with_one_content_have_one_digest(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar"
    path.write_bytes(tarred({"a.log": LOG, "b.log.gz": gzip.compress(LOG)}))
    files = scan(path, split_size=4096).files

    assert files["logs.tar!a.log"].sha256 == files["logs.tar!b.log.gz"].sha256 is not None


def test_what_is_packed_too_often_is_not_opened_and_its_neighbours_are(tmp_path: Path) -> None:
    packed = tarred({"deepest.log": LOG})
    for depth in range(9):
        packed = tarred({f"beside-{depth}.log": LOG[:5000], f"{depth}.tar": packed})
    path = tmp_path / "logs.tar"
    path.write_bytes(packed)

    found = scan(path)

    assert ["archives nested more than 6 deep; not opened"] == list(found.notes().values())
    assert not any("deepest" in name for name in found.files)
    read = [name.rpartition("!")[2] for name, one in found.files.items() if one.counts["lines"]]
    assert {f"beside-{depth}.log" for depth in range(2, 9)} == set(read)


def test_of_a_file_read_in_parts_only_windows_at_their_edges_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    read = archive_reader._read_window

    def counted(file: IO[bytes], split: Split, number: int) -> tuple[bytes, bool]:
        again.append(number)
        return read(file, split, number)

    monkeypatch.setattr(window_formats, "WINDOW", 16 << 10)
    monkeypatch.setattr(archive_reader, "_read_window", counted)
    path = tmp_path / "server.log"
    path.write_bytes(LOG * 10)

    whole, parts = scan(path), scan(path, split_size=128 << 10)

    assert whole.facts() == parts.facts()
    edges = {at * 8 + side for at in range(1, len(LOG) * 10 // (128 << 10) + 1) for side in (-1, 0)}
    assert set(again) <= edges | {len(LOG) * 10 // (16 << 10)}
