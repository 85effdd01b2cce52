"""Output folders as the rest of the program leaves them: an incident, a quiet day, recordings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forensics.run_output.findings import write_findings
from tests.recorded_runs import make_once
from tests.report.recorded import postmortem
from tests.report.sample_runs import (
    Row,
    clocks,
    document,
    errors,
    file,
    files,
    isr,
    lanes,
    leadership,
    save,
    unclean_findings,
)


@pytest.fixture
def unclean(tmp_path: Path) -> Path:
    """An output folder after an unclean election."""
    out = tmp_path / "out"
    for make in (leadership, isr, lanes, files, clocks):
        save(out, make.__name__, make())
    save(out, "events", errors())
    write_findings(document(unclean_findings()), out / "findings.json")
    return out


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    """An output folder of a day on which nothing went wrong."""
    out = tmp_path / "quiet"
    rows = [row for row in leadership() if row["topic"] == "orders-v2" and row["leader"] == 3]
    save(out, "leadership", rows)
    save(out, "files", [file(f"broker-{n}", "server") for n in (1, 2, 3)])
    for name in ("isr", "lanes", "clocks", "events"):
        save(out, name, [])
    write_findings(document([], "clear"), out / "findings.json")
    return out


@pytest.fixture
def rewrite() -> Callable[[Path, Row], None]:
    """Change some top-level keys of a saved findings.json."""

    def change(out: Path, keys: Row) -> None:
        path = out / "findings.json"
        write_findings(json.loads(path.read_text(encoding="utf-8")) | keys, path)

    return change


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the output folder of a recorded cluster, made when it is first asked for."""
    known: dict[str, Path] = {}

    def give(name: str) -> Path:
        if name not in known:
            made = make_once(
                tmp_path_factory, f"postmortem-{name}", lambda out: postmortem(name, out)
            )
            # What tests change is their worker's.
            known[name] = tmp_path_factory.mktemp(name) / "out"
            shutil.copytree(made, known[name])
        return known[name]

    return give
