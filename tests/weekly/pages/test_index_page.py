"""The index lists all weeks, the newest first, with the verdict that the week's own page has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from forensics.weekly.notes import Notes, load_notes
from forensics.weekly.pages import index_page
from forensics.weekly.pages.week_view import short_why, week_headline
from tests.weekly.sample_summaries import make_finding, make_quarter, make_week
from tests.weekly.store_pages import draw_store, section_text


def test_weeks_stand_with_the_newest_first_and_link_to_their_pages(tmp_path: Path) -> None:
    page = draw_store(tmp_path, make_quarter())["index"]
    weeks = re.findall(r'<th scope="row"[^>]*><div><a href="weeks/([^/]+)/index.html">',
                       page.read_text("utf-8"))  # fmt: skip

    assert weeks == sorted((one.week for one in make_quarter()), reverse=True)


def test_a_row_says_what_the_page_of_the_week_says(tmp_path: Path) -> None:
    pages = draw_store(tmp_path, make_quarter())
    text = section_text(pages["index"], "weeks")

    for one in index_page.build_views(make_quarter(), load_notes(tmp_path)):
        assert short_why(one) in text
        assert len(short_why(one).split()) <= 8
        shown = section_text(pages[one.name], "verdict")
        assert week_headline(one) in shown
        assert str(one.verdict.now) in shown
    row = "postmortem high worse 1 high finding, last week 0 1 high 1 0 1 0 86 %"
    assert f"2026-W42 from 2026-10-12 {row}" in text


def test_the_order_in_which_weeks_are_given_does_not_matter(tmp_path: Path) -> None:
    weeks = make_quarter()
    one = index_page.draw_index(_make_folder(tmp_path / "a"), weeks, Notes())
    other = index_page.draw_index(_make_folder(tmp_path / "b"), weeks[::-1], Notes())

    assert one.read_bytes() == other.read_bytes()


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_store_without_a_week_says_so(tmp_path: Path) -> None:
    page = index_page.draw_index(tmp_path, [], Notes())

    assert "No week is in this store yet" in page.read_text("utf-8")


def test_a_week_sees_no_further_back_than_a_quarter() -> None:
    """What was seen a year ago is new to anybody who reads the page."""
    old, new = (
        make_week("2025-W46", [make_finding("flapping-broker", brokers=[2])]),
        make_week("2026-W46"),
    )
    seen = index_page.build_views([old, replace(new, findings=old.findings)])[0]

    assert seen.names == ["2026-W46"]
    assert [one.state for one in seen.findings] == ["seen"]
