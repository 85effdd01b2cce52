"""The documents as a site, and the page for man."""

from __future__ import annotations

import json
from pathlib import Path

from tests.release.conftest import ROOT, Home, program, tool


def test_the_site_is_built_without_a_warning_and_can_be_searched(
    home: Home, tmp_path: Path
) -> None:
    said = home.run(
        tool("mkdocs"), "build", "--strict", "--quiet", "-f", ROOT / "mkdocs.yml", "-d", tmp_path,
        NO_MKDOCS_2_WARNING="1",
    )  # fmt: skip
    index = json.loads((tmp_path / "search/search_index.json").read_text("utf-8"))
    pages = {one["location"].partition("#")[0] for one in index["docs"]}

    assert "" == said
    assert {"", "tables/", "python-api/", "rules/isr/", "running/clusters/"} <= pages
    # Whoever reads it asks nobody else.
    for page in ("index.html", "tables/index.html"):
        text = (tmp_path / page).read_text("utf-8")
        assert "fonts.googleapis" not in text
        assert 'src="http' not in text


def test_links_out_of_the_documents_lead_to_the_repository(home: Home, tmp_path: Path) -> None:
    home.run(
        tool("mkdocs"), "build", "--strict", "--quiet", "-f", ROOT / "mkdocs.yml", "-d", tmp_path,
        NO_MKDOCS_2_WARNING="1",
    )  # fmt: skip
    rules = (tmp_path / "rules/isr/index.html").read_text("utf-8")

    assert "github.com/kafka-forensics/kafka-forensics/blob/main/rules/events/isr/" in rules


def test_man_shows_the_page(home: Home) -> None:
    page = ROOT / "docs/kafka-forensics.1"
    said = home.run(program("man"), "--warnings", "-E", "UTF-8", "-l", page, MANWIDTH="100")

    assert "kafka-forensics postmortem [OPTIONS] ARCHIVE..." in said
    assert "<standard input>" not in said


def test_the_hooks_are_such_as_pre_commit_takes(home: Home) -> None:
    home.run(tool("pre-commit"), "validate-config", ROOT / ".pre-commit-config.yaml")
    home.run(tool("pre-commit"), "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
