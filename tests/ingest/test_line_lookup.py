"""A line is found again in every form an archive can have, and a plain command finds it too."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.ingest.line_lookup import (
    FoundFile,
    _LineReader,
    digest_and_head,
    is_alike,
    look_up_lines,
    quote_for_shell,
    shell_command,
)
from forensics.ingest.read_plan import plan_reading
from tests.ingest.sample_archives import ARCHIVES, FILES, LOG, TREE, tarred, utf16, write, zipped

WANTED = {"broker-1/server.log": [1, 2, 150, 300], "broker-1/state-change.log": [60]}
TOOLS = ("tar", "unzip", "zcat", "bzcat", "xzcat", "iconv", "sed")


def lines_of(name: str) -> list[bytes]:
    return TREE[name].rstrip(b"\n").split(b"\n")


def only(places: list[FoundFile]) -> FoundFile:
    assert len(places) == 1
    return places[0]


def checked(place: FoundFile, text: list[bytes], numbers: list[int], context: int) -> None:
    """Compare what was found with the lines themselves."""
    around = {
        near
        for number in numbers
        for near in range(number - context, number + context + 1)
        if 1 <= near <= len(text)
    }
    assert set(place.lines) == around
    for number, line in place.lines.items():
        assert (line.number, line.text) == (number, text[number - 1])
        assert line.offset == sum(len(one) + 1 for one in text[: number - 1])
        assert line.size == len(text[number - 1])
        assert line.sha256 == hashlib.sha256(text[number - 1]).hexdigest()


@pytest.mark.parametrize("form", ARCHIVES)
def test_lines_are_found_in_an_archive(form: str, tmp_path: Path) -> None:
    path = tmp_path / "logs.bin"
    path.write_bytes(ARCHIVES[form]())
    files = {split.file for split in plan_reading([str(path)]).splits}
    # The name is the one that the tables have; a zip in a tar has a name between.
    between = {"zip in tar.gz": "logs.zip!", "zip in zip": "logs.zip!", "tar in tar": "logs.tar!",
               "tar.gz in zip": "logs.tgz!"}.get(form, "")  # fmt: skip
    wanted = {f"logs.bin!{between}{name}": numbers for name, numbers in WANTED.items()}

    found = look_up_lines(plan_reading([str(path)]), wanted, 2)

    assert files
    for name, numbers in WANTED.items():
        place = only(found[f"logs.bin!{between}{name}"])
        checked(place, lines_of(name), numbers, 2)
        runs_plainly(path, place, lines_of(name))


def runs_plainly(path: Path, place: FoundFile, text: list[bytes]) -> None:
    """Run the command that a person would, and compare what it prints."""
    shown = shell_command(str(path), place.location.steps, 59, 60)
    if shown is None:
        assert ("zip",) in {step[:1] for step in place.location.steps[1:]}
        return
    if not all(map(shutil.which, TOOLS)):
        pytest.skip(f"not all of {', '.join(TOOLS)} are here")
    done = subprocess.run(["bash", "-c", shown], capture_output=True, check=False)
    assert done.stdout.rstrip(b"\n").split(b"\n") == text[58:60], (shown, done.stderr)


@pytest.mark.parametrize("form", FILES)
def test_lines_are_found_in_a_compressed_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / "it's a server.log"
    path.write_bytes(FILES[form](LOG))

    place = only(look_up_lines(plan_reading([str(path)]), {path.name: [1, 299, 300]}, 1)[path.name])

    checked(place, lines_of("broker-1/server.log"), [1, 299, 300], 1)
    runs_plainly(path, place, lines_of("broker-1/server.log"))


def test_a_file_in_a_folder_is_read_however_it_would_be_split(tmp_path: Path) -> None:
    write(tmp_path / "logs")
    work = plan_reading([str(tmp_path / "logs")], split_size=1024)

    place = only(
        look_up_lines(work, {"logs/broker-1/server.log": [150]}, 0)["logs/broker-1/server.log"]
    )

    assert len(work.splits) > 20
    checked(place, lines_of("broker-1/server.log"), [150], 0)


@pytest.mark.parametrize("now", ["unpacked", "renamed", "packed again", "deeper"])
def test_an_archive_that_has_moved_still_holds_the_line(now: str, tmp_path: Path) -> None:
    """It was logs.tar once; since, people have done with it what people do."""
    path = tmp_path / {"unpacked": "logs", "deeper": "cases"}.get(now, "case-17.tgz")
    if now in ("unpacked", "deeper"):
        write(path / "" if now == "unpacked" else path / "17/logs")
    else:
        path.write_bytes(tarred() if now == "renamed" else zipped(utf16()))
    name = "logs.tar!broker-1/server.log"

    place = only(look_up_lines(plan_reading([str(path)]), {name: [7]}, 0)[name])

    assert place.location.file != name
    checked(place, lines_of("broker-1/server.log"), [7], 0)


def test_the_file_of_the_whole_name_is_preferred_and_others_are_offered_else(
    tmp_path: Path,
) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder, {"broker-1/server.log": f"{folder}\n".encode() * 9})
    work = plan_reading([str(tmp_path / "a"), str(tmp_path / "b")])

    exact = look_up_lines(work, {"b/broker-1/server.log": [2]})["b/broker-1/server.log"]
    other = look_up_lines(work, {"old.tar!broker-1/server.log": [2]})["old.tar!broker-1/server.log"]

    assert [place.lines[2].text for place in exact] == [b"b"]
    assert {place.lines[2].text for place in other} == {b"a", b"b"}


def test_a_line_beyond_the_end_is_not_there_and_the_length_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, {"a.log": b"one\ntwo"}) / "a.log"

    place = only(look_up_lines(plan_reading([str(path)]), {"a.log": [2, 3]})["a.log"])

    assert list(place.lines) == [2]
    assert place.count == 2
    assert look_up_lines(plan_reading([str(path)]), {"elsewhere.log": [1]}) == {"elsewhere.log": []}


def test_what_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = ARCHIVES["tar.gz"]()
    path = tmp_path / "logs.tgz"
    path.write_bytes(packed[: len(packed) // 2])
    name = "logs.tgz!broker-1/server.log"

    place = only(look_up_lines(plan_reading([str(path)]), {name: [1, 300]})[name])

    assert place.lines[1].text == lines_of("broker-1/server.log")[0]
    assert 300 not in place.lines
    assert place.damaged


def test_the_whole_file_can_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "logs.tgz"
    path.write_bytes(ARCHIVES["gz in tar.gz"]())
    name = "logs.tgz!broker-1/server.log"
    place = only(look_up_lines(plan_reading([str(path)]), {name: [1]})[name])

    assert digest_and_head(place.location) == (hashlib.sha256(LOG).hexdigest(), LOG[: 256 << 10])


@given(
    st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    st.booleans(),
    st.sets(st.integers(1, 14)),
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
)
def test_lines_are_the_same_however_a_stream_comes(
    lines: list[bytes], ends: bool, wanted: set[int], sizes: list[int]
) -> None:
    text = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    real = text.split(b"\n")
    real = real[:-1] if not real[-1] else real
    reader = _LineReader(sorted(wanted))
    for block in in_blocks(text, sizes):
        reader.feed(block)

    count = reader.close()

    assert count == len(real)
    assert {n: line.text for n, line in reader.lines.items()} == {
        n: real[n - 1] for n in wanted if n <= len(real)
    }
    for line in reader.lines.values():
        assert text[line.offset : line.offset + line.size] == line.text


def in_blocks(text: bytes, sizes: list[int]) -> Iterator[bytes]:
    at, turn = 0, 0
    while at < len(text):
        yield text[at : at + sizes[turn % len(sizes)]]
        at += sizes[turn % len(sizes)]
        turn += 1


def test_names_are_alike_when_one_ends_like_the_other() -> None:
    assert is_alike("logs.tgz!b-1/server.log", "case/x/b-1/server.log")
    assert not is_alike("logs.tgz!b-1/server.log", "logs.tgz!b-2/server.log")
    assert not is_alike("logs/xserver.log", "logs/server.log")


@pytest.mark.parametrize(
    "name", ["a b", "it's", "$(touch x)", "a\nb", "\x1b[31m", "-rf", "é", "a\\b`id`", "!x"]
)
def test_a_name_is_quoted_so_that_a_shell_reads_it_back(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quote_for_shell(name)}"],
        capture_output=True, cwd=tmp_path, check=True,
    )  # fmt: skip

    assert done.stdout.decode() == name
    assert quote_for_shell(name).isprintable()
    assert not list(tmp_path.iterdir())


def test_names_that_unzip_would_take_for_patterns_are_not(tmp_path: Path) -> None:
    if not shutil.which("unzip"):
        pytest.skip("no unzip here")
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("server[1].log", "right\n")
        archive.writestr("server1.log", "wrong\n")
    shown = shell_command(str(path), [("zip", "server[1].log")], 1, 1)
    assert shown

    done = subprocess.run(["bash", "-c", shown], capture_output=True, check=True)

    assert done.stdout == b"right\n"
