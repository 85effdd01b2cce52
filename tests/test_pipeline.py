"""Whole runs in one process and in two: the same bytes, also where the second one is lost."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forensics.lib.second_process import ALONE, SecondProcess
from forensics.pipeline import postmortem
from forensics.settings import Settings

SAMPLE = Path(__file__).parents[1] / "sample_logs/391-failed-disk/logs.tar.gz"
# What a run says when it has just begun, and when it has read everything.
BEGINNING, READ = "archives", "events"


@pytest.fixture
def second() -> Iterator[SecondProcess]:
    opened = SecondProcess()
    opened.open()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(tmp_path_factory.mktemp("alone"), ALONE)


def run(out: Path, second: SecondProcess, lost_at: str = "never") -> dict[str, str]:
    """Run, and return the digest of each file that is left, but for the one with the times."""

    def notify(text: str) -> None:
        if text.startswith(lost_at):
            os.kill(second.pid or 0, signal.SIGKILL)

    postmortem(Settings((str(SAMPLE),), out, engine="local"), notify, second=second)
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "_RESULT.json"
    }


def test_two_processes_leave_the_same_bytes(
    tmp_path: Path, alone: dict[str, str], second: SecondProcess
) -> None:
    assert alone == run(tmp_path, second)
    assert second.is_there


@pytest.mark.parametrize("lost_at", [BEGINNING, READ])
def test_a_lost_process_changes_nothing(
    tmp_path: Path, alone: dict[str, str], second: SecondProcess, lost_at: str
) -> None:
    assert alone == run(tmp_path, second, lost_at)
    assert not second.is_there
