"""How a run ends: the code, its reason, and the file that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from forensics import __version__, pipeline
from forensics.errors import ForensicsError
from forensics.run_result import (
    ExitCode,
    RunOutcome,
    Stopwatch,
    clear_result,
    decide_outcome,
    save_result,
)
from forensics.settings import Settings

ROOT = Path(__file__).parent.parent


def document(verdict: str, *levels: str) -> dict[str, Any]:
    findings = [{"severity": level} for level in levels]
    return {"verdict": verdict, "summary": "What there is.", "findings": findings}


def wishes(**more: Any) -> Settings:
    return Settings(("logs",), Path("out"), **more)


def test_stages_within_stages_last_no_longer_than_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark starts while an audit scans; that is one time, not two."""
    clock = iter([0.0, 1.0, 5.0, 9.0])
    monkeypatch.setattr("forensics.run_result.time.monotonic", lambda: next(clock))
    watch = Stopwatch()
    with watch.stage("scan"), watch.stage("start"):
        pass

    assert watch.seconds == {"start": 4.0, "scan": 5.0}


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [(None, 0), ("critical", 0), ("high", 3), ("medium", 3), ("info", 3)],
)
def test_findings_change_the_code_only_for_who_asked(fail_on: str | None, code: int) -> None:
    end = decide_outcome(document("incident", "high", "info"), (), (), wishes(fail_on=fail_on))

    assert code == end.code
    if fail_on == "high":
        assert "1 finding of level high or above" == end.reason
    if fail_on == "info":
        assert "2 findings of level info or above" == end.reason


@pytest.mark.parametrize(("strict", "code"), [(True, 4), (False, 0)])
def test_what_could_not_be_read_counts_for_who_is_strict(strict: bool, code: int) -> None:
    end = decide_outcome(document("clear"), ["a.gz: cut off"], (), wishes(strict=strict))

    assert code == end.code
    assert ("a.gz: cut off" in end.reason) is strict


def test_that_nobody_can_tell_is_not_that_all_is_well() -> None:
    assert ExitCode.CANNOT_TELL == decide_outcome(document("cannot_tell"), (), (), wishes()).code
    assert ExitCode.DONE == decide_outcome(document("clear"), (), (), wishes()).code
    closed = decide_outcome(document("incident", "high"), (), ["no lines"], wishes())
    assert (ExitCode.CANNOT_TELL, "the quality gate is closed: no lines") == (
        closed.code,
        closed.reason,
    )


def test_what_somebody_waits_for_comes_first() -> None:
    asked = wishes(fail_on="high", strict=True)

    assert (
        ExitCode.FINDINGS
        == decide_outcome(document("incident", "high"), ["cut"], ["gate"], asked).code
    )


def test_the_result_is_written_whole_over_the_one_before(tmp_path: Path) -> None:
    save_result(tmp_path / "out", RunOutcome(ExitCode.FAILED, "broken"))
    told = save_result(tmp_path / "out", RunOutcome(ExitCode.DONE, "fine"), verdict="clear")

    kept = json.loads((tmp_path / "out/_RESULT.json").read_text("utf-8"))
    assert kept == told
    assert (0, "fine", "clear", 1) == tuple(
        kept[name] for name in ("exit_code", "reason", "verdict", "schema")
    )
    assert __version__ == kept["version"]
    assert ["_RESULT.json"] == [path.name for path in (tmp_path / "out").iterdir()]
    clear_result(tmp_path / "out")
    assert [] == list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (ForensicsError("no Java"), 1, "ForensicsError: no Java"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_run_that_fails_says_so_too(
    error: BaseException, code: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(pipeline, "plan_inputs", fails)
    save_result(tmp_path, RunOutcome(ExitCode.DONE, "an earlier run"))

    said = ("postmortem", "logs", "-o", "out")
    with pytest.raises(type(error)):
        pipeline.postmortem(Settings(("logs",), tmp_path, command=said), lambda _: None)

    kept = json.loads((tmp_path / "_RESULT.json").read_text("utf-8"))
    assert (code, reason) == (kept["exit_code"], kept["reason"])
    assert list(said) == kept["command"]
    assert datetime.fromisoformat(kept["started"]) <= datetime.fromisoformat(kept["ended"])
    assert kept["peak_memory_mb"] > 1


def test_a_folder_that_cannot_be_written_is_what_went_wrong(tmp_path: Path) -> None:
    """Not that the file which says so cannot be written, either."""
    (tmp_path / "out").write_text("a file")
    (tmp_path / "a.log").touch()
    command = [sys.executable, "-m", "forensics", "postmortem", "a.log", "-o", "out/deep"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (1, "") == (done.returncode, done.stdout)
    assert "Error: out/deep: Not a directory\n" == done.stderr


def test_stages_are_timed_and_added_up() -> None:
    watch = Stopwatch()
    for _ in range(2):
        with watch.stage("scan"):
            pass

    assert ["scan"] == list(watch.seconds)
