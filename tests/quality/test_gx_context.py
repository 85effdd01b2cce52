"""The context on disk, opened and run by Great Expectations alone, as its users do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from forensics.errors import ForensicsError
from forensics.quality.expectations import Expectation
from forensics.quality.gx_runner import GxRunner, check_context_folder, write_context
from tests.quality.cases import judged, later, rolling, spoilt

# Knows nothing of this package.
OPENED = """
import json, sys
import great_expectations as gx

context = gx.get_context(mode="file", project_root_dir=sys.argv[1])
context.variables.progress_bars = {"globally": False}
ran = context.checkpoints.get("kafka-forensics").run()
print(json.dumps({
    one.expectation_config.meta["id"]: bool(one.success)
    for told in ran.run_results.values() for one in told.results
}))
print(json.dumps(sorted(suite.name for suite in context.suites.all())))
"""


def opened(folder: Path, scratch: Path) -> tuple[dict[str, bool], list[str]]:
    # A file: where there is none, PySpark takes the process for its own tests and ends it.
    (scratch / "opened.py").write_text(OPENED)
    done = subprocess.run(
        [sys.executable, str(scratch / "opened.py"), str(folder)],
        cwd=scratch, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "kafka_forensics" not in done.stderr
    ran, suites = done.stdout.splitlines()[-2:]
    return json.loads(ran), json.loads(suites)


def frames() -> dict[str, pd.DataFrame]:
    return {"files": pd.DataFrame({"node": ["broker-1", None], "lines": [1, 3]})}


def few(**more: Any) -> list[Expectation]:
    kind = "ExpectColumnValuesToBeBetween"
    return [Expectation("e-lines", "files", kind, "W.", "o", "note", {"column": "lines"} | more)]


@pytest.mark.slow
def test_great_expectations_finds_in_the_context_what_the_gate_found(tmp_path: Path) -> None:
    logs = rolling(tmp_path / "rolling")

    def change(text: str) -> str:
        half = len(text) // 2
        return later(text[:half], 4000) + text[half:]

    spoiled = spoilt(logs, tmp_path / "logs", "broker-3/server.log", change)
    folder = tmp_path / "context"
    found = judged(spoiled, tmp_path / "out", gx_context=folder)
    ran, suites = opened(folder, tmp_path)

    assert {name: row["success"] for name, row in found.checks.items()} == ran
    assert False in ran.values()
    assert sorted({row["table"] for row in found.checks.values()}) == suites
    assert list((folder / "gx/uncommitted/data_docs").rglob("index.html"))


def test_a_second_run_renews_the_context_and_keeps_what_others_added(tmp_path: Path) -> None:
    folder = tmp_path / "context"
    write_context(folder, frames(), few(max_value=2))
    (folder / "gx/expectations/mine.json").write_text(
        '{"name": "mine", "id": "0d0a1a6e-0000-4000-8000-000000000000", "expectations": []}'
    )
    first = opened(folder, tmp_path)
    write_context(folder, frames(), few(max_value=3))

    assert ({"e-lines": False}, ["files", "mine"]) == first
    assert ({"e-lines": True}, ["files", "mine"]) == opened(folder, tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(ForensicsError, match="is not empty"):
        check_context_folder(tmp_path)
    check_context_folder(tmp_path / "new")


def test_without_the_wish_nothing_is_written(tmp_path: Path) -> None:
    assert GxRunner().validate("files", frames()["files"], few(max_value=5))[0].passed
    assert [] == list(tmp_path.iterdir())
