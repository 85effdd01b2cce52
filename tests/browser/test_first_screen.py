"""The first screen alone says what, to whom, for how long, what was lost and how sure that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

# A small window, less what a browser takes of it.
HIGH = 600
SEEN = """(selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.getBoundingClientRect().bottom <= HIGH && one.checkVisibility())
  .map((one) => one.innerText.replaceAll("\\n", " ")).join(" | ")""".replace("HIGH", str(HIGH))


@pytest.mark.parametrize("width", [1280, 400])
def test_the_sentence_answers_all_five_on_the_first_screen(
    tab: Tab, page: Path, width: int
) -> None:
    tab.size(width)
    tab.open(page)
    sentence = tab.run(f"({SEEN})('.answer')")

    assert sentence.startswith("CRITICAL Unclean election on metrics-firehose-0, metrics")
    assert "2026-11-18 11:38:51-11:39:29 UTC (38.3 s)" in sentence
    assert "data loss confirmed 2,535..3,400 records on 3 partitions" in sentence
    assert "confidence confirmed." in sentence
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_the_cells_and_how_sure_it_is_are_there_too_on_a_small_notebook(
    tab: Tab, page: Path
) -> None:
    tab.open(page)
    cells = tab.run(f"({SEEN})('.cells > div')")
    more = tab.run(f"({SEEN})('.more > li')")

    for name in (
        "Started",
        "Ended",
        "Partitions unavailable 3",
        "Brokers 1, 2",
        "Clients",
        "First effect",
    ):
        assert name in cells
    assert "Worst: Broker 2 was elected from outside the ISR; broker 1 cut its log." in more
