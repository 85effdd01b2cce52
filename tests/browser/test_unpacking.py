"""What is packed in the page is unpacked by the browser; one that cannot says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report.size_budget import gzip_base64
from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

TEXTS = {"nothing": "", "one letter": "a", "much": "leader epoch \u00e9\u20ac " * 9000}


@pytest.mark.parametrize("name", TEXTS)
def test_text_comes_out_as_it_went_in(tab: Tab, page: Path, name: str) -> None:
    tab.open(page)

    assert TEXTS[name] == tab.run(f"unpacking.text('{gzip_base64(TEXTS[name])}')")


def test_a_browser_that_cannot_unpack_says_so_and_keeps_the_picture(tab: Tab, page: Path) -> None:
    tab.call(
        "Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream"
    )
    tab.open(page)

    tab.wait("/could not be drawn: that takes Chrome/.test(document.body.innerText)")
    assert tab.run("document.querySelector('svg.still').getBoundingClientRect().height") > 200
