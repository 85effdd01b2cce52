"""`show`: what a page cites is led back to the line, and what is no longer there is not shown."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forensics.cli.app import jobs_folder, make_group
from forensics.run_output.findings import write_findings
from tests.ingest.sample_archives import LOG, TREE, tarred, write
from tests.ingest.wrapped_logs import WRAPS
from tests.report.sample_runs import document, finding, save

NAME = "logs!broker-1/server.log"
LINES = [line.decode() for line in LOG.splitlines()]
Out = Callable[..., Path]


def show(*arguments: str | Path | int) -> Result:
    return CliRunner().invoke(make_group(jobs_folder()), ["show", *map(str, arguments)])


@pytest.fixture
def out(tmp_path: Path) -> Out:
    """Save a run whose one finding cites some lines."""

    def make(*cited: tuple[int, str], name: str = NAME, sha256: str | None = None) -> Path:
        folder = tmp_path / "out"
        proofs = [{"file": name, "line": number, "text": text} for number, text in cited]
        rows: list[dict[str, Any]] = [
            finding("F-3f2a91c0", "disk-failure", "high", evidence=proofs)
        ]
        save(folder, "files", [{"file": name, "node": "broker-1", "sha256": sha256}])
        save(folder, "events", [{"file": name, "line": 9, "text": LINES[8], "ts": 0}])
        write_findings(document(rows), folder / "findings.json")
        return folder

    return make


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.write_bytes(gzip.compress(tarred()))
    return path


def test_a_finding_leads_to_its_lines(out: Out, archive: Path) -> None:
    folder = out((7, LINES[6]), (150, LINES[149]))

    done = show("F-3f2a91c0", "--out", folder, "--archive", archive, "-C", 1)

    assert done.exit_code == 0
    assert "F-3f2a91c0  high  disk-failure" in done.stdout
    assert done.stdout.count("  the line that was cited\n") == 2
    assert f"  6  {LINES[5]}\n> 7  {LINES[6]}\n  8  {LINES[7]}\n" in done.stdout
    offset = sum(len(line) + 1 for line in LINES[:6])
    digest = hashlib.sha256(LINES[6].encode()).hexdigest()
    assert f"  byte {offset}, {len(LINES[6])} bytes, sha256 {digest}\n" in done.stdout
    assert f"  $ tar -xOf {archive} -- broker-1/server.log | sed -n '6,8p;8q'\n" in done.stdout


def test_five_lines_of_context_are_shown_where_nothing_is_said(out: Out, archive: Path) -> None:
    done = show("F-3f2a91c0", "--out", out((100, LINES[99])), "--archive", archive)

    numbers = re.findall(r"(?m)^[> ] ( *\d+)  \[", done.stdout)
    assert [int(one) for one in numbers] == list(range(95, 106))
    assert LINES[104] in done.stdout
    assert LINES[105] not in done.stdout


def test_a_line_that_is_another_now_is_never_passed_off(out: Out, tmp_path: Path) -> None:
    """One line was put in above it; the evidence is one line further down."""
    changed = dict(TREE) | {"broker-1/server.log": b"new\n" + LOG}
    (tmp_path / "logs").write_bytes(tarred(changed))

    done = show("F-3f2a91c0", "--out", out((7, LINES[6])), "--archive", tmp_path / "logs")

    assert done.exit_code == 1
    assert "NOT the line that was cited" in done.stdout
    assert f"  cited: {LINES[6]}\n" in done.stdout
    assert "1 of 1 could not be led back to the archive." in done.stderr


def test_a_quote_that_was_cut_is_the_beginning_of_its_line(out: Out, tmp_path: Path) -> None:
    long = "[2026-11-18 11:38:51,318] INFO " + "ä" * 400
    write(tmp_path / "logs", {"a.log": f"{long}\n{long[:100]}\n".encode()})
    cut = long.encode()[:240].decode("utf-8", "replace")

    whole = show("F-3f2a91c0", "--out", out((1, cut), name="logs/a.log"),
                 "--archive", tmp_path / "logs")  # fmt: skip
    short = show("F-3f2a91c0", "--out", out((2, long[:50]), name="logs/a.log"),
                 "--archive", tmp_path / "logs")  # fmt: skip

    assert (whole.exit_code, short.exit_code) == (0, 1)


@pytest.mark.parametrize("wrap", sorted(WRAPS))
def test_a_line_in_a_wrapper_is_known_again(out: Out, wrap: str, tmp_path: Path) -> None:
    """The quote is what Kafka wrote; the file holds what Docker and others made of it."""
    lines = LOG.splitlines()[:60]
    write(tmp_path / "logs", {"a.log": WRAPS[wrap](lines)})
    raw = (tmp_path / "logs/a.log").read_bytes().split(b"\n")
    number = next(at for at, line in enumerate(raw, 1) if b"INFO" in line)
    text = next(line for line in lines if b"INFO" in line).decode()

    done = show("F-3f2a91c0", "--out", out((number, text), name="logs/a.log"),
                "--archive", tmp_path / "logs", "-C", 0)  # fmt: skip
    other = show("F-3f2a91c0", "--out", out((number, text + "!"), name="logs/a.log"),
                 "--archive", tmp_path / "logs", "-C", 0)  # fmt: skip

    assert (done.exit_code, other.exit_code) == (0, 1)


def test_a_file_that_is_byte_for_byte_the_same_needs_no_quote(out: Out, archive: Path) -> None:
    folder = out((7, ""), sha256=hashlib.sha256(LOG).hexdigest())
    other = show("F-3f2a91c0", "--out", folder, "--archive", archive)
    assert "byte for byte the one that was read" in other.stdout

    done = show("F-3f2a91c0", "--out", out((7, ""), sha256="00"), "--archive", archive)

    assert done.exit_code == 1
    assert "NOT sure" in done.stdout


def test_a_place_can_be_shown_without_a_finding_and_without_a_run(
    out: Out, archive: Path, tmp_path: Path
) -> None:
    alone = show(f"{NAME}:8", "--out", tmp_path / "none", "--archive", archive, "-C", 0)
    told = show(f"{NAME}:9", "--out", out(), "--archive", archive, "-C", 0)

    assert (alone.exit_code, told.exit_code) == (0, 0)
    assert f"> 8  {LINES[7]}\n" in alone.stdout
    assert "nothing was saved of it" in alone.stdout
    assert "  the line that was cited\n" in told.stdout


@pytest.mark.parametrize(
    ("cited", "name", "says"),
    [
        (9999, NAME, "there is no such line: the file has 300 lines"),
        (1, "logs!broker-9/server.log", "no file of these archives has this name"),
    ],
)
def test_what_is_gone_is_said(out: Out, archive: Path, cited: int, name: str, says: str) -> None:
    done = show("F-3f2a91c0", "--out", out((cited, "x"), name=name), "--archive", archive)

    assert done.exit_code == 1
    assert says in done.stdout


def test_a_renamed_archive_is_named_as_it_is_now(out: Out, archive: Path, tmp_path: Path) -> None:
    moved = archive.rename(tmp_path / "case-17.tgz")

    done = show("F-3f2a91c0", "--out", out((7, LINES[6])), "--archive", moved)

    assert done.exit_code == 0
    assert "the line that was cited; the file is now called case-17.tgz!broker-1" in done.stdout


def test_of_two_files_of_that_name_the_one_that_holds_the_line_is_shown(
    out: Out, tmp_path: Path
) -> None:
    write(tmp_path / "a", {"broker-1/server.log": b"no\n" * 300})
    write(tmp_path / "b", {"broker-1/server.log": LOG})

    done = show("F-3f2a91c0", "--out", out((7, LINES[6])),
                "--archive", tmp_path / "a", "--archive", tmp_path / "b")  # fmt: skip

    assert done.exit_code == 0
    assert f">  7  {LINES[6]}" in done.stdout


def test_a_line_cannot_command_the_terminal(out: Out, tmp_path: Path) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07 \u202erever\u2028 \r[31m"
    write(tmp_path / "logs", {"a\x1b[31m.log": f"{hostile}\nx\n".encode()})
    name = "logs/a\x1b[31m.log"

    done = show("F-3f2a91c0", "--out", out((1, hostile), name=name), "--archive", tmp_path / "logs")

    assert done.exit_code == 0
    assert "⟨U+001B⟩[2J" in done.stdout
    assert not set("\x1b\x07\u202e\u2028\r") & set(done.stdout)


def test_an_endless_line_is_shown_in_part(out: Out, tmp_path: Path) -> None:
    write(tmp_path / "logs", {"a.log": b"x" * 5_000_000 + b"\n"})

    done = show("logs/a.log:1", "--out", out(), "--archive", tmp_path / "logs")

    assert len(done.stdout) < 4000
    assert "5000000 bytes" in done.stdout
    assert "more characters" in done.stdout


def test_without_an_archive_the_quotes_are_shown(out: Out) -> None:
    done = show("f-3f2a", "--out", out((7, LINES[6])))

    assert done.exit_code == 0
    assert f"{NAME}:7\n  {LINES[6]}\n" in done.stdout
    assert "As quoted in findings.json" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["F-0"], "there is no such finding in"),
        (["logs!a.log:7"], "Say where logs!a.log:7 is to be read: --archive ARCHIVE."),
        (["F-3f2a91c0", "--archive", "nowhere"], "there is no file or folder"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(out: Out, arguments: list[str], says: str) -> None:
    done = show(*arguments, "--out", out((7, LINES[6])))

    assert done.exit_code == 1
    assert says in done.stderr


def test_findings_that_begin_alike_are_not_guessed(out: Out) -> None:
    folder = out()
    rows = [finding(f"F-3f2a91c{n}", "disk-failure", "high") for n in (0, 1)]
    path = folder / "findings.json"
    write_findings(json.loads(path.read_text()) | {"findings": rows}, path)

    assert "several begin so" in show("F-3f2a", "--out", folder).stderr
    assert show("F-3f2a91c1", "--out", folder).exit_code == 0
