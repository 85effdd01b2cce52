"""What commands over a saved run say for programs, and what with -q."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from forensics.cli.app import jobs_folder, make_group


def said(*arguments: str) -> str:
    done = CliRunner().invoke(make_group(jobs_folder()), arguments)
    assert (0, "") == (done.exit_code, done.stderr), done.output
    return done.stdout


def test_report_names_the_page_or_nothing(unclean: Path) -> None:
    page = str(unclean / "report.html")

    assert f"page: {page}\n" == said("report", str(unclean))
    assert {"page": page} == json.loads(said("report", str(unclean), "--json"))
    assert "" == said("report", str(unclean), "-q")


@pytest.mark.parametrize("form", ["markdown", "csv"])
def test_export_is_quiet_where_it_writes_a_file(form: str, unclean: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    words = ["export", str(unclean), "--format", form, "-o", str(target)]

    assert "" == said(*words, "-q")
    assert target.exists()
    assert f"written: {target}" in said(*words)


def test_show_gives_the_lines_of_evidence_as_objects(unclean: Path) -> None:
    finding = json.loads((unclean / "findings.json").read_text("utf-8"))["findings"][0]
    rows = json.loads(said("show", finding["id"], "-o", str(unclean), "--json"))

    assert [(one["file"], one["line"]) for one in finding["evidence"]] == [
        (row["file"], row["line"]) for row in rows
    ]
