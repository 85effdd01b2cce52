"""The weekly page, the index of weeks and a comparison, as a browser shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.weekly.comparison import compare
from forensics.weekly.pages.comparison_page import draw_comparison
from tests.browser.chromium import Tab
from tests.browser.test_axe import bad, judged
from tests.browser.test_printed import plain, printed
from tests.browser.test_script_off import text_of
from tests.browser.walking import hover, open_all, read_through
from tests.weekly.sample_summaries import make_quarter
from tests.weekly.store_pages import draw_store

pytestmark = pytest.mark.browser

NAMES = ("week", "index", "pair")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of the last of twelve weeks, the index, and two weeks beside each other."""
    folder, weeks = tmp_path_factory.mktemp("store"), make_quarter()
    pages = draw_store(folder, weeks)
    pair = draw_comparison(compare(weeks[-2], weeks[-1]), folder / "pair.html")
    return {"week": pages["2026-W47"], "index": pages["index"], "pair": pair}


def figures(tab: Tab) -> int:
    """Read the page through; gives how many figures were drawn."""
    count = read_through(tab)
    assert "could not be drawn" not in tab.run("document.body.innerText")
    return count


def test_a_weekly_page_asks_for_the_library_of_its_store_and_nothing_else(
    tab: Tab, drawn: dict[str, Path]
) -> None:
    page = drawn["week"]
    library = next(page.parents[2].glob("plotly.*.js"))
    tab.open(page)

    assert figures(tab) == 2
    open_all(tab)
    assert hover(tab) > 20
    assert tab.requests == [page.as_uri(), library.as_uri()]
    assert tab.complaints == []


def test_the_other_pages_speak_to_nobody(tab: Tab, drawn: dict[str, Path]) -> None:
    for name, many in (("index", 0), ("pair", 1)):
        tab.open(drawn[name])

        assert figures(tab) == many
        assert tab.complaints == []
    assert sorted(tab.requests) == sorted(drawn[name].as_uri() for name in ("index", "pair"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_nothing_serious_is_wrong_and_only_boxes_scroll_sideways(
    tab: Tab, drawn: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    tab.size(width)
    tab.prefer(prefers_color_scheme=scheme)
    tab.open(drawn[name])
    figures(tab)
    open_all(tab)

    assert bad(judged(tab)) == []
    assert tab.run("document.documentElement.scrollWidth") == width


def test_every_row_of_the_grid_is_named_and_has_its_lines(tab: Tab, drawn: dict[str, Path]) -> None:
    tab.open(drawn["week"])
    figures(tab)
    box = "document.getElementById('figure-trend')"
    names = tab.run(f"[...{box}.querySelectorAll('.ytick text')].map((one) => one.textContent)")

    assert [name for name in names if name] == ["all brokers", "broker 1", "broker 2", "broker 3"]
    # Six signals; three stretches of each row, and four of the one that has a week without logs.
    stretches = tab.run(f"{box}.querySelectorAll('.js-line').length")
    assert stretches == 6 * (3 + 3 + 4 + 3)


def test_without_scripts_the_page_tells_it_all_but_the_figures(
    tab: Tab, drawn: dict[str, Path]
) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(drawn["week"])

    assert "main-svg" not in text_of(tab, "main")
    told = {
        "#verdict": "399.8 of 504 h",
        "#findings": "flapping-broker: broker 2",
        "#trend": "21 (97 %)",
    }
    for part, words in told.items():
        assert words in text_of(tab, part)


def test_all_of_it_is_on_paper(tab: Tab, drawn: dict[str, Path]) -> None:
    tab.open(drawn["week"])
    text = "".join(printed(tab, "A4"))

    # Programs print as soon as a page has loaded, and nobody has scrolled through it.
    assert text.count("W36W47") == 1
    for words in ("399.8 of 504 h", "flapping-broker: broker 2", "Sun 2026-11-22",
                  "broker-restart: broker 1", "accepted until 2026-12-31", "orders-2"):  # fmt: skip
        assert plain(words) in text
