"""Everything can be done without a mouse, and one sees where one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Tab
from tests.browser.walking import read_through

pytestmark = pytest.mark.browser

HERE = """(() => {
  const one = document.activeElement;
  const look = getComputedStyle(one), box = one.getBoundingClientRect();
  return {
    tag: one.localName, text: (one.innerText ?? "").trim().slice(0, 60),
    name: (one.ariaLabel ?? one.labels?.[0]?.textContent ?? one.textContent).trim(),
    ring: look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0,
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
    card: one.closest("article")?.id ?? "",
  };
})()"""


def walk(tab: Tab, most: int = 400) -> list[dict[str, Any]]:
    """Press Tab until the page ends; gives where one came."""
    stops: list[dict[str, Any]] = []
    for _ in range(most):
        tab.press("Tab")
        here = tab.run(HERE)
        if here["tag"] == "body":
            return stops
        stops.append(here)
    raise AssertionError("the page has no end for the keyboard")


@pytest.fixture
def read(tab: Tab, page: Path) -> Tab:
    tab.prefer(prefers_reduced_motion="reduce")
    tab.open(page)
    read_through(tab)
    tab.run("scrollTo({top: 0, behavior: 'instant'})")
    return tab


def test_every_stop_has_a_name_a_ring_and_can_be_seen(read: Tab) -> None:
    stops = walk(read)

    assert len(stops) > 20
    for stop in stops:
        assert stop["name"], stop
        assert stop["ring"], stop
        assert stop["seen"], stop


def test_the_first_stop_skips_to_the_summary(read: Tab) -> None:
    read.press("Tab")
    assert read.run(HERE)["text"] == "Skip to the summary"

    read.press("Enter")
    read.wait("location.hash === '#verdict'")
    read.press("Tab")

    assert read.run("!!document.activeElement.closest('#verdict')")


def test_every_finding_is_reached_and_its_evidence_opened(read: Tab) -> None:
    """What is folded opens by Enter, and what was in it is reached by the next Tab."""
    reached: set[str] = set()
    opened = 0
    for _ in range(400):
        read.press("Tab")
        here = read.run(HERE)
        if here["tag"] == "body":
            break
        reached.add(here["card"])
        if here["tag"] == "summary" and read.run("!document.activeElement.parentElement.open"):
            read.press("Enter")
            assert read.run("document.activeElement.parentElement.open")
            opened += 1

    assert {"F-3f2a91c0", "F-1b", "F-2c", "F-4e", "F-5f"} <= reached
    assert opened >= 3
    assert read.run("document.querySelectorAll('main details:not([open])').length") == 0


def test_a_command_is_copied_by_the_keyboard(read: Tab) -> None:
    """The clipboard of a browser without a window is the page's own here."""
    read.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    for _ in range(400):
        read.press("Tab")
        here = read.run(HERE)
        if here["text"] == "Copy" or here["tag"] == "body":
            break
        # Commands stand in the fold that says what to do.
        folded = "document.activeElement.parentElement.matches('.doing:not([open])')"
        if here["tag"] == "summary" and read.run(folded):
            read.press("Enter")
    assert here["tag"] == "button"

    read.press("Enter")

    read.wait("document.activeElement.textContent === 'Copied'")
    assert read.run("window.copied").startswith("kafka-get-offsets.sh --bootstrap-server")


def test_findings_are_filtered_by_the_keyboard(read: Tab) -> None:
    """Tab leads to the box, what is typed filters, Escape shows everything again."""
    cards = """[...document.querySelectorAll("article.card")]
      .filter((one) => one.checkVisibility()).map((one) => one.id)"""
    before = read.run(cards)
    for _ in range(40):
        read.press("Tab")
        if read.run("document.activeElement.id === 'find'"):
            break
    assert read.run(HERE)["name"] == "Filter"

    read.call("Input.insertText", text="broker:2 level:medium")
    read.wait("document.getElementById('found').innerText.startsWith('findings 1 of 5')")
    assert read.run(cards) == ["F-4e"]

    read.press("Escape")
    read.wait("document.getElementById('found').innerText === ''")
    assert read.run(cards) == before


def test_landmarks_and_headings_lead_through_the_page(read: Tab) -> None:
    """Read by the tree that a screen reader is given, not by the source."""
    nodes = read.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
    ]
    roles = [role for role, _ in named]

    assert roles.count("main") == 1
    assert roles.count("banner") == 1
    assert ("navigation", "Parts of this page") in named
    assert {"Summary", "Findings", "Timeline"} <= {name for role, name in named if role == "region"}
    assert not [name for role, name in named if role in ("button", "link", "region") and not name]
