"""Links into the page: a ticket cites a finding, and the page opens there."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.browser.chromium import Tab

pytestmark = pytest.mark.browser

FINDINGS = ("F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f")
RANGE = """(() => {
  const box = document.querySelector("#figure-timeline");
  return box?._fullLayout?.xaxis.range.map((one) => one.slice(0, 19)).join("..");
})()"""


def shows(name: str) -> str:
    """Say that a finding is open and on the screen."""
    return f"""(() => {{
      const one = document.getElementById("{name}"), box = one.getBoundingClientRect();
      return one.checkVisibility() && box.height > 30 && box.top < innerHeight && box.bottom > 0;
    }})()"""


def around(page: Path, name: str) -> str:
    """Give the stretch that the timeline is to show: the finding's, and a little on either side."""
    told = json.loads((page.parent / "findings.json").read_text("utf-8"))["findings"]
    one = next(one for one in told if one["id"] == name)
    begin, end = (datetime.fromisoformat(one[side]) for side in ("from", "to"))
    more = max((end - begin) / 5, timedelta(seconds=5))
    return "..".join(f"{side:%Y-%m-%d %H:%M:%S}" for side in (begin - more, end + more))


@pytest.mark.parametrize("name", FINDINGS)
def test_a_link_to_a_finding_opens_and_shows_it_and_zooms(tab: Tab, page: Path, name: str) -> None:
    """Those of level low and info are folded away, and are unfolded."""
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(page, f"#{name}")

    tab.wait(shows(name), patience=10)
    assert tab.run(f"document.querySelector(':target').id === '{name}'")
    tab.wait(f"{RANGE} === '{around(page, name)}'", patience=40)
    # What is drawn meanwhile has not pushed it off the screen.
    tab.wait(shows(name), patience=10)


def test_without_a_link_the_folded_finding_is_not_shown(tab: Tab, page: Path) -> None:
    tab.open(page)

    assert not tab.run(shows("F-5f"))


def test_following_links_and_going_back_leads_where_one_was(tab: Tab, page: Path) -> None:
    tab.prefer(prefers_reduced_motion="reduce")
    # Too small a window for both of them.
    tab.size(1280, 300)
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


PLACES = {
    "#p/metrics-firehose/1": "metrics-firehose-1",
    "#b/2": "2",
}


@pytest.mark.parametrize("end", PLACES)
def test_a_partition_and_a_broker_have_addresses(tab: Tab, page: Path, end: str) -> None:
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(page, end)

    tab.wait("!!document.querySelector('.here')", patience=10)
    assert PLACES[end] in tab.run("document.querySelector('.here').textContent")
    tab.wait(
        "(() => { const box = document.querySelector('.here').getBoundingClientRect(); "
        "return box.height > 0 && box.top < innerHeight && box.bottom > 0; })()",
        patience=10,
    )
    assert not tab.run("document.getElementById('no-such-place')")


def test_a_stretch_of_time_is_what_the_timeline_then_shows(tab: Tab, page: Path) -> None:
    """The second time may leave out the day, and it is the page's own, wherever it is read."""
    tab.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    tab.open(page, "#t/2026-11-18T11:38:50Z..11:39:05Z")

    tab.wait(f"{RANGE} === '2026-11-18 11:38:50..2026-11-18 11:39:05'", patience=40)


def test_a_finding_zooms_the_timeline_to_its_own_time(tab: Tab, page: Path) -> None:
    """From 11:38:48.922 to 11:38:51.318, and a little around it."""
    tab.call("Emulation.setTimezoneOverride", timezoneId="America/St_Johns")
    tab.open(page, "#F-1b")

    tab.wait(f"({RANGE} ?? '').startsWith('2026-11-18 11:38:43')", patience=40)
    assert tab.run(RANGE) == "2026-11-18 11:38:43..2026-11-18 11:38:56"


def test_addresses_can_be_put_together(tab: Tab, page: Path) -> None:
    tab.open(page, "#F-4e&t/2026-11-18T11:38:50Z..11:39:05Z")

    tab.wait(f"{RANGE} === '2026-11-18 11:38:50..2026-11-18 11:39:05'", patience=40)
    tab.wait(shows("F-4e"), patience=10)


@pytest.mark.parametrize(
    "end", ["#F-00000000", "#p/nowhere/1", "#b/77", "#t/yesterday..now", "#F-1b&b/77"]
)
def test_what_is_not_there_is_said(tab: Tab, page: Path, end: str) -> None:
    tab.open(page, end)

    said = tab.wait("document.getElementById('no-such-place')?.innerText", patience=10)
    assert "This page has nothing at" in said
    assert end.rpartition("&")[2].removeprefix("#") in said
    assert tab.run("document.getElementById('no-such-place').getAttribute('role')") == "alert"
    tab.run("location.hash = '#verdict'")
    tab.wait("!document.getElementById('no-such-place')", patience=10)
