"""The first screen alone says what, why, to whom, for how long, what to do, what is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

# A window of 1280 by 900; the summary leaves room for the timeline to begin.
SEEN = """(selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.getBoundingClientRect().bottom <= innerHeight && one.checkVisibility())
  .map((one) => one.innerText.replaceAll("\\n", " ")).join(" | ")"""


@pytest.mark.parametrize("width", [1280, 400])
def test_what_when_and_how_sure_stand_on_the_first_screen(tab: Tab, page: Path, width: int) -> None:
    tab.size(width)
    tab.open(page)
    said = tab.run(f"({SEEN})('.answer, .moment')")

    assert said.startswith("CRITICAL 2,535 to 3,400 records lost in metrics-firehose after an ")
    assert "Wed 2026-11-18, 11:38:25 \u2013 11:39:29 UTC (1 min 4 s), over." in said
    assert "Confidence in what happened: confirmed." in said
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelector('header').getBoundingClientRect().height") < 140


def test_all_answers_are_there_and_the_timeline_begins(tab: Tab, page: Path) -> None:
    tab.open(page)
    names = tab.run(f"({SEEN})('.answers dt')")

    assert names == "WHY | IMPACT | DO NOW | NOT KNOWN"
    assert "3 of 11 partitions unavailable" in tab.run(f"({SEEN})('.answers dd')")
    assert "Timeline" in tab.run(f"({SEEN})('h2')")
    assert tab.run("document.querySelectorAll('.answers li').length") <= 3
