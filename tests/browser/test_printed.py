"""The printed page: short, or everything open when that is asked for; nothing cut off."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pypdf
import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

# In inches.
PAPERS = {"A4": (8.27, 11.69), "Letter": (8.5, 11.0)}
FINDINGS = ("F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f")


# What the button does, but for the dialogue that asks for a printer.
ALL = """(() => {
  window.print = () => { window.printed = true; };
  document.getElementById("print-all").click();
})()"""


def printed(tab: Tab, paper: str, *, everything: bool = False) -> list[str]:
    """Print the page as it was opened, nothing looked at; gives the text of each sheet."""
    if everything:
        tab.run(ALL)
        tab.wait("window.printed")
    width, height = PAPERS[paper]
    data = tab.pdf(paperWidth=width, paperHeight=height, preferCSSPageSize=False)
    return [plain(sheet.extract_text()) for sheet in pypdf.PdfReader(io.BytesIO(data)).pages]


def plain(text: str) -> str:
    """Leave out how lines are broken and letters joined."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.parametrize("paper", PAPERS)
def test_five_sheets_say_what_happened_and_what_to_do(tab: Tab, page: Path, paper: str) -> None:
    """Printed at once, as `chromium --print-to-pdf` does, which waits for no figure."""
    tab.open(page)
    sheets = printed(tab, paper)
    text = "".join(sheets)
    found = json.loads((page.parent / "findings.json").read_text("utf-8"))["findings"]
    worst = [one for one in found if one["severity"] in ("critical", "high", "medium")]

    assert 2 <= len(sheets) <= 5
    assert "Wed2026-11-18,11:38:25" in sheets[0]
    for answer in ("Why", "Impact", "Donow", "Notknown"):
        assert answer.upper() in sheets[0].upper()
    for one in worst:
        assert one["id"] in text
        assert plain(one["title"]) in text
        assert all(plain(proof["text"])[:60] in text for proof in one["evidence"][:1])
    assert "metrics-firehose-1" in text
    # The picture of the timeline, which needs no script.
    assert "Findings,numberedasbelow" in text
    assert "Printeverything" in sheets[-1]
    assert "Leaderepochs" not in text
    # Nobody presses a button on paper.
    assert "CopyasMarkdown" not in text


@pytest.mark.parametrize("paper", PAPERS)
def test_who_asks_for_everything_gets_every_line_and_figure(
    tab: Tab, page: Path, paper: str
) -> None:
    blocks = re.findall(r'data-figure="[^"]+">(.*?)</script>', page.read_text("utf-8"))
    layouts = [json.loads(block)["layout"] for block in blocks]
    titles = Counter(
        plain(axis["title"]["text"])
        for layout in layouts
        for name, axis in layout.items()
        if name.startswith("xaxis") and axis.get("title", {}).get("text")
    )
    tab.open(page)
    text = "".join(printed(tab, paper, everything=True))

    assert len(layouts) >= 6
    assert titles
    assert {} == {one: many for one, many in titles.items() if text.count(one) < many}
    for name in FINDINGS:
        assert name in text, f"{name} is not on paper"
    for finding in json.loads((page.parent / "findings.json").read_text("utf-8"))["findings"]:
        assert plain(finding["title"]) in text
        for proof in finding["evidence"]:
            assert plain(proof["text"]) in text


def test_what_was_folded_is_folded_again_after_printing(tab: Tab, page: Path) -> None:
    tab.open(page)
    folded = "document.querySelectorAll('details:not([open])').length"
    before = tab.run(folded)

    printed(tab, "A4", everything=True)

    assert before > 0
    assert tab.run(folded) == before
    assert tab.run("document.documentElement.className") == ""


@pytest.mark.parametrize("paper", PAPERS)
def test_nothing_is_wider_than_the_paper(tab: Tab, page: Path, paper: str) -> None:
    """In the layout of print, no box reaches over the edge, and figures are whole."""
    tab.size(int((PAPERS[paper][0] - 0.8) * 96))
    tab.open(page)
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.run(ALL)
    tab.wait("window.printed")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.wait("[...document.querySelectorAll('.plot')].every((one) => one.querySelector('svg'))")
    tab.run("new Promise((done) => setTimeout(done, 500))")
    over = tab.run(
        """[...document.querySelectorAll("main *")]
          .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 &&
            !one.closest("svg, .hoverlayer, .strip"))
          .map((one) => one.outerHTML.slice(0, 120))"""
    )

    assert over == []
