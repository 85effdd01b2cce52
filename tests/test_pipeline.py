"""Whole runs in one process and in two: the same bytes, also where the second one is lost."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics import pipeline
from forensics.detection import runner
from forensics.engine import local
from forensics.lib.second_process import ALONE, SecondProcess
from forensics.pipeline import postmortem
from forensics.report import page
from forensics.settings import Settings

LOGS = Path(__file__).parents[1] / "sample_logs/430-unclean/logs"
# What a run says when it has just begun, and when it has read everything.
BEGINNING, READ, FOUND = "archives", "events", "incidents"


@pytest.fixture
def second() -> Iterator[SecondProcess]:
    opened = SecondProcess()
    opened.open()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("alone"), ALONE)


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the archive count as a large one, all of whose work is shared."""
    if request.param == "large":
        for module in (pipeline, local):
            monkeypatch.setattr(module, "SHARED_BYTES", 0)
        monkeypatch.setattr(pipeline, "SHARED_PIECE", 100_000)
        monkeypatch.setattr(local, "SHARED_EVENTS", 0)
        for module in (runner, page):
            monkeypatch.setattr(module, "_MANY_EVENTS", 0)
    return str(request.param)


def run(out: Path, second: SecondProcess, lost_at: str = "never") -> dict[str, str]:
    """Run, and return the digest of each file that is left, but for the one with the times."""

    def notify(text: str) -> None:
        if text.startswith(lost_at):
            os.kill(second.pid or 0, signal.SIGKILL)

    postmortem(Settings((str(LOGS),), out, engine="local"), notify, second=second)
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "_RESULT.json"
    }


@pytest.mark.usefixtures("size")
def test_two_processes_leave_the_same_bytes(
    tmp_path: Path, alone: dict[str, str], second: SecondProcess
) -> None:
    assert alone == run(tmp_path, second)
    assert second.is_there


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("lost_at", [BEGINNING, READ, FOUND])
def test_a_lost_process_changes_nothing(
    tmp_path: Path, alone: dict[str, str], second: SecondProcess, lost_at: str
) -> None:
    assert alone == run(tmp_path, second, lost_at)
    # Once there is nothing left to ask, nobody hears of it.
    assert lost_at == FOUND or not second.is_there
