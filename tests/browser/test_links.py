"""Links into the page: a ticket cites a finding, and the page opens there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

FINDINGS = ("F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f")


def shows(name: str) -> str:
    """Say that a finding is open and on the screen."""
    return f"""(() => {{
      const one = document.getElementById("{name}"), box = one.getBoundingClientRect();
      return one.checkVisibility() && box.height > 30 && box.top < innerHeight && box.bottom > 0;
    }})()"""


@pytest.mark.parametrize("name", FINDINGS)
def test_a_link_to_a_finding_opens_and_shows_it(tab: Tab, page: Path, name: str) -> None:
    """Those of level low and info are folded away, and are unfolded."""
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(page, f"#{name}")

    tab.wait(shows(name), patience=10)
    assert tab.run(f"document.querySelector(':target').id === '{name}'")


def test_without_a_link_the_folded_finding_is_not_shown(tab: Tab, page: Path) -> None:
    tab.open(page)

    assert not tab.run(shows("F-5f"))


def test_following_links_and_going_back_leads_where_one_was(tab: Tab, page: Path) -> None:
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(page)
    tab.run("location.hash = '#F-5f'")
    tab.wait(shows("F-5f"), patience=10)
    tab.run("location.hash = '#F-3f2a91c0'")
    tab.wait(shows("F-3f2a91c0"), patience=10)
    assert not tab.run(shows("F-5f"))

    tab.run("history.back()")

    tab.wait(f"location.hash === '#F-5f' && {shows('F-5f')}", patience=10)


def test_every_link_of_the_page_has_an_end(tab: Tab, page: Path) -> None:
    tab.open(page)
    dead = tab.run(
        """[...document.querySelectorAll("a[href^='#']")].map((one) => one.getAttribute("href"))
          .filter((end) => !document.getElementById(decodeURIComponent(end.slice(1))))"""
    )

    assert tab.run("document.links.length") > 15
    assert dead == []


@pytest.mark.parametrize("end", ["#F-00000000", "#%", "#%E0%A4%A", "#'><b>", "#../x", "#"])
def test_a_link_to_nothing_breaks_nothing(tab: Tab, page: Path, end: str) -> None:
    tab.open(page, end)

    assert tab.run("document.querySelector('#verdict').checkVisibility()")
    assert tab.complaints == []
