"""Whatever lies in a folder is read or said: links, pipes, files that go, names of any bytes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.events.scan import load_scanner
from forensics.ingest.read_plan import plan_reading
from tests.ingest.sample_archives import LOG, tarred, write, zipped
from tests.ingest.scans import scan


def test_links_out_of_the_folder_are_said_and_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "data/kafka-logs", {"server.log": LOG})
    root = write(tmp_path / "logs", {"broker-2/server.log": LOG})
    (root / "broker-1").symlink_to(outside)
    (root / "one.log").symlink_to(outside / "server.log")

    found = scan(root)

    assert {"logs/broker-2/server.log"} == set(found.files)
    assert {"logs/broker-1", "logs/one.log"} == {name for name, _ in found.problems}
    why = dict(found.problems)["logs/broker-1"]
    assert why.startswith(f"a link to {outside}, outside of the folder: not followed")
    assert {"links out of the folder": 2} == found.containers["logs"].left_out
    assert (3, 1) == (found.containers["logs"].entries, found.containers["logs"].read)


def test_broken_links_and_links_inside_are_told_apart(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", {"broker-1/server.log": LOG})
    (root / "gone.log").symlink_to("nowhere.log")
    (root / "itself").symlink_to("itself")
    (root / "same").symlink_to("broker-1")
    os.mkfifo(root / "pipe")

    found = scan(root)

    assert {"logs/gone.log", "logs/itself"} == {name for name, _ in found.problems}
    assert {
        "broken links": 2,
        "links to folders that are read where they lie": 1,
        "named pipes: not read": 1,
    } == found.containers["logs"].left_out


Harm = Callable[[Path], object]


def make_a_folder_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, tuple[Harm, str]] = {
    "vanished": (Path.unlink, "it was there when reading began, and is gone"),
    "a folder now": (
        make_a_folder_of,
        "it was a file when reading began, and is a folder now",
    ),
    "shorter": (lambda path: os.truncate(path, 100), "before the length it had at first"),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("packed", [None, tarred({"server.log": LOG}), zipped({"server.log": LOG})])
def test_a_file_that_changes_before_it_is_read_is_said(
    packed: bytes | None, harm: str, tmp_path: Path
) -> None:
    root = write(tmp_path / "logs", {"a.log": LOG, "b.log": LOG if packed is None else packed})
    change, says = HARMS[harm]
    plan = plan_reading([str(root)], 4096)
    change(root / "b.log")

    rows = [
        row
        for split in plan.splits
        for batch in load_scanner().scan(split)
        for row in batch.select(["file", "split", "account"]).to_pylist()
        if row["account"]
    ]

    accounts = [(row["file"], json.loads(row["account"])) for row in rows if row["split"] >= 0]
    notes = [note for file, one in accounts if "b.log" in file for note in one["notes"]]
    assert notes
    if harm != "shorter" or packed is None:
        assert any(says in note for note in notes)
    assert 300 == sum(one["lines"] for file, one in accounts if "a.log" in file)


def test_an_archive_root_that_vanished_ends_the_run(tmp_path: Path) -> None:
    """On a cluster a missing folder means that machines do not see the same files."""
    root = write(tmp_path / "logs/deep", {"a.log": LOG})
    plan = plan_reading([str(root)])
    shutil.rmtree(tmp_path / "logs")

    with pytest.raises(FileNotFoundError):
        list(load_scanner().scan(plan.splits[0]))


def test_names_that_are_not_utf_8_are_shown_with_their_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"br\xf6ker-1")
    write(tmp_path / name, {os.fsdecode(b"s\xe9rver.log"): LOG})
    (tmp_path / name / os.fsdecode(b"\xe4")).symlink_to("nowhere")
    (tmp_path / name / os.fsdecode(b"\xfc.tar")).write_bytes(tarred({"a.log": LOG}))

    found = scan(tmp_path / name)

    assert {r"br\xf6ker-1/s\xe9rver.log", r"br\xf6ker-1/\xfc.tar!a.log"} == set(found.files)
    assert {300} == {one.counts["lines"] for one in found.files.values()}
    assert {r"br\xf6ker-1", r"br\xf6ker-1/\xfc.tar"} == set(found.containers)
    row = found.containers[r"br\xf6ker-1"].to_row()
    assert [r"br\xf6ker-1/\xe4"] == row["reasons"][0]["examples"]


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("377abcaf271c0004", "a 7z archive, which is not read; unpack it first (7z x FILE)"),
        ("526172211a0700", "a RAR archive"),
        ("894c5a4f000d0a1a0a", "lzop data, which is not read; unpack it first (lzop -d FILE)"),
        ("303730373031", "a cpio archive"),
        ("edabeedb", "an RPM package"),
    ],
)
def test_what_is_not_read_is_named_with_the_command_that_unpacks_it(
    head: str, says: str, tmp_path: Path
) -> None:
    strange = bytes.fromhex(head) + bytes(range(256)) * 20
    root = write(
        tmp_path / "logs", {"a.log": LOG, "b": strange, "c.tar": tarred({"inside": strange})}
    )

    found = scan(root)

    told = dict(found.problems) | {name: one.notes[0] for name, one in found.files.items()
                                   if one.notes}  # fmt: skip
    assert {"logs/b", "logs/c.tar!inside"} == set(told)
    assert all(says in why for why in told.values())
