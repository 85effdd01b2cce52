"""Quoted lines: the commands that show them again, and the whole of those that were cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forensics.report.page import draw_report
from forensics.run_output.findings import write_findings
from tests.browser import outputs
from tests.browser.chromium import Tab
from tests.report.test_size_budget import full_of_text

pytestmark = pytest.mark.browser

FIRST = "document.querySelector('.card .chip')"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose quoted lines are too long to stand in it."""
    out = outputs.unclean(tmp_path_factory.mktemp("long"))
    write_findings(full_of_text(60), out / "findings.json")
    return draw_report(out)


def test_an_open_line_says_how_to_see_it_with_those_around_it(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run(f"{FIRST}.open = true")
    tab.wait(f"!!{FIRST}.querySelector('.command')")
    lines = tab.run(f"{FIRST}.querySelector('.command').firstChild.data").splitlines()

    assert lines == [
        "kafka-forensics show 'incident.tgz!broker-1/server.log:18244' --archive ARCHIVE",
        "tar -xOf incident.tgz -- broker-1/server.log | sed -n '18239,18249p;18249q'",
    ]


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("logs/server.log:3", "sed -n '1,8p;8q' logs/server.log"),
        ("logs/server.log.1.gz:30", "zcat logs/server.log.1.gz | sed -n '25,35p;35q'"),
        ("a.zip!b/c.log:9", "unzip -p a.zip b/c.log | sed -n '4,14p;14q'"),
        ("a.tar.xz!c.log.bz2:9", "tar -xOf a.tar.xz -- c.log.bz2 | bzcat | sed -n '4,14p;14q'"),
        # What no plain tool reads from a pipe, and what would have to be quoted.
        ("a.zip!b.tar!c.log:9", None),
        ("my logs/c.log:9", None),
    ],
)
def test_the_plain_command_is_told_by_the_name(
    tab: Tab, page: Path, place: str, command: str | None
) -> None:
    tab.open(page)
    lines = tab.run(f"quotes.commands({json.dumps(place)})")

    assert lines[0] == f"kafka-forensics show '{place}' --archive ARCHIVE"
    assert lines[1:] == ([command] if command else [])


def test_a_name_does_not_break_out_of_its_command(tab: Tab, page: Path) -> None:
    """It is quoted; of one that cannot be typed the finding is asked for instead."""
    tab.open(page)
    quoted, odd = (
        tab.run(f"quotes.commands({json.dumps(name)}, 'F-1')")
        for name in ("it's; rm -r.log:3", "⟨U+001B⟩[31m.log:3")
    )

    assert quoted == [r"kafka-forensics show 'it'\''s; rm -r.log:3' --archive ARCHIVE"]
    assert odd == ["kafka-forensics show F-1 --archive ARCHIVE"]


def test_a_line_that_was_cut_is_whole_when_it_is_opened_and_saved(tab: Tab, long: Path) -> None:
    whole = json.loads((long.parent / "findings.json").read_text("utf-8"))
    tab.open(long)
    held = json.loads(tab.run("document.getElementById('report-data').textContent"))
    before = tab.run(f"{FIRST}.querySelector('pre').textContent")
    tab.run(f"{FIRST}.open = true")
    tab.wait(f"{FIRST}.querySelector('pre').textContent.length > 400")

    first = whole["findings"][0]["evidence"][0]["text"]
    assert len(before) == 120
    assert tab.run(f"{FIRST}.querySelector('pre').textContent") == first
    assert "more in findings.json" not in tab.run(f"{FIRST}.innerText")
    assert held != whole
    assert json.loads(tab.run("unpacking.findings()")) == whole
    assert tab.complaints == []


def test_evidence_of_what_happened_opens_in_a_row_of_full_width(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run("for (const one of document.querySelectorAll('.story .chip')) one.open = true")
    shares = tab.run("""[...document.querySelectorAll(".story .chip pre")].map((one) =>
      one.getBoundingClientRect().width / one.closest("table").getBoundingClientRect().width)""")

    assert len(shares) > 3
    assert min(shares) > 0.75
