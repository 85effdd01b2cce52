"""The page speaks to nobody, and its console stays empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Tab
from tests.browser.walking import hover, open_all, read_through

pytestmark = pytest.mark.browser


def test_reading_the_whole_page_asks_for_the_file_and_nothing_else(tab: Tab, page: Path) -> None:
    """Every figure is drawn, everything is opened and hovered, and it is printed at the end."""
    tab.open(page)

    assert read_through(tab) >= 2
    open_all(tab)
    assert hover(tab) > 0
    tab.pdf()
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []


def test_a_figure_is_drawn_and_not_only_framed(tab: Tab, page: Path) -> None:
    """The library is packed in the page, and its policy lets it run."""
    tab.open(page)
    read_through(tab)

    assert "could not be drawn" not in tab.run("document.body.innerText")
    assert tab.run("document.querySelectorAll('.plot .trace').length") > 5


def test_a_page_that_speaks_is_heard(tab: Tab, tmp_path: Path) -> None:
    """Nothing seen means nothing only where something would have been seen."""
    loud = tmp_path / "loud.html"
    loud.write_text(
        "<!doctype html><img src='http://127.0.0.1:9/x.png'>"
        "<script>console.log('hello'); fetch('https://kafka.example/').catch(() => 0); oops()"
        "</script>"
    )

    tab.open(loud)
    said = "\n".join(tab.complaints)

    assert {"http://127.0.0.1:9/x.png", "https://kafka.example/"} <= set(tab.requests)
    assert "hello" in said
    assert "oops is not defined" in said


def test_the_policy_of_the_page_forbids_what_a_forged_script_would_do(
    tab: Tab, page: Path, tmp_path: Path
) -> None:
    """Even if something got in, nothing would run, and nothing would leave."""
    forged = "<img src='https://evil.example/x.png' onerror='window.attacked = 1'>"
    forged += "<script>window.attacked = 2</script>"
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text("utf-8").replace("<main>", f"<main>{forged}"), "utf-8")

    tab.open(broken)

    assert "Content Security Policy" in "\n".join(tab.complaints)
    assert tab.run("window.attacked ?? 'no'") == "no"
    assert tab.blocked == ["csp"]
