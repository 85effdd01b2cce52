"""Without any script the page still answers: all but the figures is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser


def text_of(tab: Tab, selector: str) -> str:
    """Read what stands in an element, without running anything in the page."""
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    assert node, f"there is no {selector}"
    return str(tab.call("DOM.getOuterHTML", nodeId=node)["outerHTML"])


def boxed(tab: Tab, selector: str) -> float:
    """Give the height that an element really takes."""
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    return float(tab.call("DOM.getBoxModel", nodeId=node)["model"]["height"])


@pytest.fixture
def still(tab: Tab, page: Path) -> Tab:
    """The page in a browser whose scripts are off."""
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(page)
    return tab


def test_no_script_has_run(still: Tab) -> None:
    """Else the other tests of this file would prove nothing."""
    assert 'class="copy"' not in text_of(still, "main")
    assert "main-svg" not in text_of(still, "main")


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("#verdict", "2,535 to 3,400 records lost in metrics-firehose after an unclean"),
        ("#coverage", "No logs from controller-1 between"),
        ("#findings", "Broker 2 was elected from outside the ISR"),
        ("#ledger", "metrics-firehose-1"),
        ("#timeline", "Not in service at some time: broker 1, broker 2"),
        ("#appendix", "report-data"),
    ],
)
def test_what_matters_is_there_and_takes_room(still: Tab, part: str, says: str) -> None:
    """It is not only in the source: the browser gives it a box on the page."""
    assert says in text_of(still, part)
    assert boxed(still, part) > 20


def test_every_finding_is_there_with_its_first_line_of_evidence(still: Tab) -> None:
    for name in ("F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f"):
        assert text_of(still, f"#{name}")
    assert "metrics-firehose-0 is at epoch 2" in text_of(still, "#F-3f2a91c0")


def test_the_timeline_is_drawn_without_a_script(still: Tab) -> None:
    """As a picture with the findings' numbers and the lives of the brokers, as large as a chart."""
    picture = text_of(still, "#timeline svg.still")

    assert boxed(still, "#timeline svg.still") > 200
    for words in (">1<", "broker 1", "crashed", "metrics-firehose-0", "2026-11-18, UTC"):
        assert words in picture
    assert picture.count("<rect") > 20
    assert picture.count("<circle") == 5
    assert boxed(still, "#happened table") > 100


def test_what_is_folded_opens_without_a_script(still: Tab) -> None:
    """Details are the browser's own; a click opens them."""
    folded = "#findings details.below"
    assert " open" not in text_of(still, folded).partition(">")[0]
    root = still.call("DOM.getDocument")["root"]["nodeId"]
    summary = "#findings details.below > summary"
    node = still.call("DOM.querySelector", nodeId=root, selector=summary)["nodeId"]
    still.call("DOM.scrollIntoViewIfNeeded", nodeId=node)
    corners = still.call("DOM.getContentQuads", nodeId=node)["quads"][0]
    place = {"x": corners[0] + 8, "y": (corners[1] + corners[5]) / 2}
    for kind in ("mousePressed", "mouseReleased"):
        still.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    assert " open" in text_of(still, folded).partition(">")[0]


def test_the_page_says_that_figures_need_a_script(still: Tab) -> None:
    assert "The figures need JavaScript" in text_of(still, "noscript > p")
    assert boxed(still, "noscript > p") > 10
