"""The page as people with a screen reader or weak sight meet it, judged by axe-core."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from forensics.report.histories import build_timelines
from forensics.report.histories.selection import Selection
from forensics.report.histories.timeline_page import write_page
from forensics.run_output.reader import load_run
from tests.browser.chromium import Tab
from tests.browser.walking import open_all, read_through

pytestmark = pytest.mark.browser

# Everything that WCAG 2.2 asks for at levels A and AA, and axe-core's own good advice.
RUN = """axe.run(document, {
  resultTypes: ["violations"],
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
})"""
BAD = {"serious", "critical"}


def judged(tab: Tab) -> list[str]:
    """Run axe-core in the page; gives what is wrong, with the place of it."""
    carrier = distribution("axe-playwright-python")
    source = Path(str(carrier.locate_file("axe_playwright_python/axe.min.js")))
    tab.run(source.read_text(encoding="utf-8") + ";0")
    found: dict[str, Any] = tab.run(RUN)
    return [
        f"{rule['impact']} {rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def bad(found: list[str]) -> list[str]:
    return [line for line in found if line.split()[0] in BAD]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_serious_is_wrong(tab: Tab, page: Path, scheme: str, width: int) -> None:
    tab.size(width)
    tab.prefer(prefers_color_scheme=scheme)
    tab.open(page)
    read_through(tab)
    open_all(tab)

    assert bad(judged(tab)) == []


@pytest.mark.parametrize(
    "wanted", [Selection(topics=("metrics-firehose",)), Selection(brokers=(2,))]
)
def test_nothing_serious_is_wrong_with_a_timeline(
    tab: Tab, page: Path, tmp_path: Path, wanted: Selection
) -> None:
    run = load_run(page.parent)
    tab.open(write_page(run, build_timelines(run, wanted), tmp_path / "timeline.html"))
    assert read_through(tab) > 0
    open_all(tab)

    assert bad(judged(tab)) == []


def test_the_judge_sees_what_is_wrong(tab: Tab, tmp_path: Path) -> None:
    """Nothing found means nothing only where something would have been found."""
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        "<!doctype html><html><title>x</title><main><h1>x</h1><img src='data:,'>"
        "<p style='color:#bbb'>too pale</p><button></button>"
        "<a href='#a' style='font-size:6px'>a</a> <a href='#b' style='font-size:6px'>b</a>"
        "</main></html>"
    )
    tab.open(wrong)
    rules = {line.split()[1] for line in bad(judged(tab))}

    assert {"html-has-lang:", "image-alt:", "button-name:", "color-contrast:"} <= rules
    # A rule of WCAG 2.2.
    assert "target-size:" in rules
