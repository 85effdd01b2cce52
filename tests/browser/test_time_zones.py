"""The page is the same wherever it is opened: its zone is its own, not the reader's."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report.page import redraw_report
from tests.browser.chromium import Chromium, Tab
from tests.browser.walking import read_through

pytestmark = pytest.mark.browser

ZONES = ("UTC", "Asia/Kolkata", "America/St_Johns")
TICKS = "[...document.querySelectorAll('.xtick text')].map((one) => one.textContent)"
BOXES = """[...document.querySelectorAll(".plot")].map((one) => {
  const box = one.getBoundingClientRect();
  return {x: box.x, y: box.y + scrollY, width: box.width, height: box.height};
})"""


def seen(chromium: Chromium, page: Path, zone: str) -> tuple[list[bytes], list[str], int]:
    """Give pictures of the figures, the words of their axes, and how far the zone is from UTC."""
    with chromium.tab() as tab:
        tab.call("Emulation.setTimezoneOverride", timezoneId=zone)
        tab.prefer(prefers_reduced_motion="reduce")
        tab.size(1280)
        tab.open(page)
        read_through(tab)
        tab.run("scrollTo({top: 0, behavior: 'instant'})")
        return settled(tab), tab.run(TICKS), tab.run("new Date(1795001860000).getTimezoneOffset()")


def settled(tab: Tab) -> list[bytes]:
    """Take pictures of all figures until they no longer change."""
    before: list[bytes] = []
    for _ in range(20):
        tab.run("new Promise((done) => setTimeout(done, 300))")
        pictures = [tab.picture(clip) for clip in tab.run(BOXES)]
        if pictures == before:
            return pictures
        before = pictures
    raise AssertionError("the figures never come to rest")


def test_figures_are_pixel_for_pixel_the_same_in_every_zone(chromium: Chromium, page: Path) -> None:
    found = {zone: seen(chromium, page, zone) for zone in ZONES}

    assert [found[zone][2] for zone in ZONES] == [0, -330, 210]
    first, words, _ = found["UTC"]
    assert len(first) >= 5
    assert any("11:38" in one for one in words)
    for pictures, ticks, _ in found.values():
        assert ticks == words
        assert pictures == first


def test_the_axes_of_a_page_in_another_zone_are_in_that_zone(
    chromium: Chromium, page: Path, tmp_path: Path
) -> None:
    moved = redraw_report(page.parent, zone="Asia/Kolkata", target=tmp_path / "moved.html")

    _, words, _ = seen(chromium, moved, "America/St_Johns")

    assert any("17:08" in one for one in words)
    assert not any("11:38" in one for one in words)
