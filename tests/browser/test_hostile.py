"""Logs that attack their reader: nothing runs, and nothing that they say becomes the page's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.lib.text_safety import visible
from forensics.report.page import draw_report
from tests.browser.chromium import Chromium, Tab
from tests.browser.outputs import ATTACKS, told_by
from tests.browser.walking import hover, open_all, read_through

pytestmark = pytest.mark.browser

# Every element of the page with the names of its attributes; a class only says how long a text is.
SHAPE = """[...document.querySelectorAll("*")]
  .filter((one) => !one.closest(".plot, template"))
  .map((one) => one.localName + " " + one.getAttributeNames().sort()
    .filter((name) => name !== "class").join(" "))"""
# Plotly makes elements out of what it takes for its own markup; a heatmap is a picture of its own.
PAINTED = """[...document.querySelectorAll(".plot a, .plot b, .plot i, .plot script,"
  + " .plot foreignObject, .plot tspan[style*='bold'], .plot tspan[style*='italic'],"
  + " .plot tspan[style*='color: red']"), ...[...document.querySelectorAll(".plot image")]
  .filter((one) => !one.href.baseVal.startsWith("data:image/png;base64,"))]
  .map((one) => one.outerHTML)"""
# What heads a part of the page: that of the whole page names the archive behind words of its own,
# and a title of a finding, below them, quotes what logs say.
HEADINGS = "[...document.querySelectorAll('h2')].map((one) => one.textContent).join()"
FIRST_WORDS = "document.querySelector('h1').textContent.slice(0, 19)"
UNSEEN = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/"


def read(tab: Tab, page: Path) -> list[str]:
    """Read a page as thoroughly as one can, and give its shape."""
    tab.open(page)
    read_through(tab)
    open_all(tab)
    hover(tab)
    shape: list[str] = tab.run(SHAPE)
    # Rows stand in the order of the names in them, which are not the same.
    return sorted(shape)


@pytest.fixture(scope="module")
def harmless(chromium: Chromium, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The shape of the same page where the logs hold nothing but a word, or half a character too.

    Tables hold no half of a character, so a client that has one in its name has a row of its own.
    """
    shapes = []
    for word in ("harmless", "harm\udc80less"):
        page = draw_report(told_by(word, tmp_path_factory.mktemp("harmless")))
        with chromium.tab() as tab:
            tab.size(1280)
            shapes.append(read(tab, page))
    return shapes


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_read_as_text(
    tab: Tab, harmless: list[list[str]], attack: str, tmp_path: Path
) -> None:
    """The page of hostile logs has the very elements of one whose logs are harmless."""
    page = draw_report(told_by(attack, tmp_path))

    shape = read(tab, page)
    assert "Findings" in tab.run(HEADINGS)
    ran: Any = tab.run("window.attacked ?? null")
    painted = tab.run(PAINTED)
    words = tab.run("document.body.innerText + document.title")
    hidden = tab.run(f"document.body.innerText.match({UNSEEN})?.[0].codePointAt(0) ?? null")

    assert ran is None
    assert painted == []
    assert hidden is None
    assert "Forged" not in tab.run(HEADINGS)
    assert tab.run(FIRST_WORDS) == "Kafka postmortem of"
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []
    assert visible(attack.encode("utf-8", "replace").decode()) in words
    assert shape == harmless["\udc80" in attack]


def test_links_lead_nowhere_but_into_the_page(tab: Tab, tmp_path: Path) -> None:
    tab.open(draw_report(told_by(" ".join(ATTACKS), tmp_path)))

    assert tab.run("[...document.links].every((one) => one.getAttribute('href')[0] === '#')")


def test_text_of_a_log_cannot_turn_the_direction_of_the_page(tab: Tab, tmp_path: Path) -> None:
    """A right-to-left override is shown as its code, in text and in figures."""
    tab.open(draw_report(told_by(ATTACKS[6], tmp_path)))
    read_through(tab)

    assert "safe⟨U+202E⟩gnp.exe" in tab.run("document.body.innerText")
    assert "U+202E" in tab.run("document.querySelector('#figure-leaders').textContent")
