"""Whatever a name holds, no terminal obeys it, and what is written stays UTF-8."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from forensics.cli.app import _translate_errors
from forensics.engine.progress import Progress
from forensics.errors import ArchiveError, RuleError
from forensics.pipeline import postmortem
from forensics.run_result import ExitCode, RunOutcome, name_folder, save_result
from forensics.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
# An escape of terminals, a line break of old, half of a character, a mark that turns text round.
HOSTILE = "a\x1b[31mred\rb\udcff\u202e"


def test_a_note_of_a_run_shows_escapes_by_their_codes() -> None:
    stream = io.StringIO()

    Progress(stream).notify(f"warning: {HOSTILE}: cut off\nthe rest is read")

    expected = "warning: a<U+001B>[31mred<U+000D>b<U+DCFF><U+202E>: cut off\nthe rest is read\n"
    assert stream.getvalue() == expected


@pytest.mark.parametrize("error", [ArchiveError(HOSTILE), OSError(2, "No such file", HOSTILE)])
def test_an_error_shows_them_too(error: Exception) -> None:
    with pytest.raises(click.ClickException) as told, _translate_errors():
        raise error

    assert "a<U+001B>[31mred<U+000D>b<U+DCFF><U+202E>" in told.value.message


def test_what_a_store_says_is_told() -> None:
    denied = OSError(5, "AWS Error ACCESS_DENIED during PutObject", "s3://logs/out")

    with pytest.raises(click.ClickException) as told, _translate_errors():
        raise denied

    assert "s3://logs/out: AWS Error ACCESS_DENIED during PutObject" == told.value.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_a_sentence_even_where_no_file_is_named(number: int, tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=os.strerror(number)), _translate_errors():
        raise OSError(number, "Error writing bytes to file")

    told = name_folder(OSError(number, "whatever"), tmp_path)
    assert str(told) == (
        f"{tmp_path}: {os.strerror(number)}. Free some space there, or name another folder with -o."
    )


def test_too_little_memory_is_a_sentence() -> None:
    with pytest.raises(click.ClickException, match="not enough memory"), _translate_errors():
        raise MemoryError


def test_the_result_of_a_run_is_utf_8_and_whole(tmp_path: Path) -> None:
    outcome = RunOutcome(ExitCode.FAILED, f"{HOSTILE}\nline 2")

    save_result(tmp_path, outcome, command=("postmortem", HOSTILE))

    kept = json.loads((tmp_path / "_RESULT.json").read_bytes().decode("utf-8"))
    assert kept["command"] == ["postmortem", "a<U+001B>[31mred<U+000D>b\\xff<U+202E>"]
    assert kept["reason"].endswith("<U+202E>\nline 2")


def test_a_name_that_is_no_utf_8_ends_in_a_sentence(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/out\xff"

    done = subprocess.run(
        [sys.executable, "-m", "forensics", "report", name],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    Path(os.fsdecode(name)).mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "forensics", "report", name],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"out<U+DCFF> is no output folder" in done.stderr


def test_a_run_that_fails_leaves_no_half_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").touch()
    out = tmp_path / "out"
    (out / "tables" / "lanes").mkdir(parents=True)

    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    monkeypatch.setattr("forensics.pipeline.preload_library", fail)

    with pytest.raises(Exception, match="No space left on device"):
        postmortem(Settings((str(tmp_path / "a.log"),), out), list[str]().append)

    assert [path.name for path in out.iterdir()] == ["_RESULT.json"]
    assert json.loads((out / "_RESULT.json").read_text())["exit_code"] == 1


def test_a_problem_of_a_rule_keeps_one_line_each() -> None:
    with pytest.raises(click.ClickException) as told, _translate_errors():
        raise RuleError([])

    assert not told.value.message
