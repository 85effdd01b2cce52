"""The page in another browser than the one it was made with: as silent, as whole, as safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.report.page import draw_report
from tests.browser.firefox import Firefox
from tests.browser.outputs import ATTACKS, told_by
from tests.browser.test_hostile import HEADINGS
from tests.browser.walking import hover, open_all, read_through

pytestmark = pytest.mark.browser

RANGE = """document.querySelector("#figure-timeline")?._fullLayout?.xaxis.range
  .map((one) => one.slice(0, 19)).join("..")"""


def test_reading_the_whole_page_asks_for_nothing_and_the_console_stays_empty(
    firefox: Firefox, page: Path
) -> None:
    """Every figure is drawn, everything is opened and hovered, and something is searched."""
    firefox.open(page)

    assert read_through(firefox) >= 5
    open_all(firefox)
    assert hover(firefox) > 5
    firefox.run("filter.set('broker:2')")
    assert firefox.run("document.querySelectorAll('.plot .trace').length") > 5
    assert "could not be drawn" not in firefox.run("document.body.innerText")
    assert firefox.requests == []
    assert firefox.complaints == []


def test_a_page_that_speaks_is_heard(firefox: Firefox, tmp_path: Path) -> None:
    """Nothing seen means nothing only where something would have been seen."""
    loud = tmp_path / "loud.html"
    loud.write_text(
        "<!doctype html><meta charset='utf-8'><img src='http://127.0.0.1:8009/x.png'>"
        "<script>console.log('hello'); fetch('https://kafka.example/').catch(() => 0); oops()"
        "</script>"
    )

    firefox.open(loud)
    said = "\n".join(firefox.complaints)

    assert {"http://127.0.0.1:8009/x.png", "https://kafka.example/"} <= set(firefox.requests)
    assert "log: hello" in said
    assert "oops is not defined" in said


def test_the_policy_of_the_page_forbids_what_a_forged_script_would_do(
    firefox: Firefox, page: Path, tmp_path: Path
) -> None:
    forged = "<img src='https://evil.example/x.png' onerror='window.attacked = 1'>"
    forged += "<script>window.attacked = 2</script>"
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text("utf-8").replace("<main>", f"<main>{forged}"), "utf-8")

    firefox.open(broken)

    said = firefox.complaints
    assert sum("Content-Security-Policy" in one for one in said) == len(said) >= 2
    assert firefox.run("window.attacked ?? 'no'") == "no"
    assert firefox.requests == []


def test_logs_that_attack_their_reader_are_text(firefox: Firefox, tmp_path: Path) -> None:
    """All attacks at once; each by itself is met in Chromium."""
    firefox.open(draw_report(told_by(" ".join(ATTACKS), tmp_path)))
    read_through(firefox)
    open_all(firefox)
    hover(firefox)

    assert firefox.run("window.attacked ?? null") is None
    assert firefox.run("document.querySelectorAll('main img, main b b, h1').length") == 1
    assert "Forged" not in firefox.run(HEADINGS)
    assert firefox.run("[...document.links].every((one) => one.getAttribute('href')[0] === '#')")
    assert firefox.requests == []
    assert firefox.complaints == []


def test_a_link_to_a_finding_opens_it_and_zooms(firefox: Firefox, page: Path) -> None:
    """To the very range to which it zooms in Chromium."""
    firefox.open(page, "#F-1b")

    firefox.wait(f"({RANGE} ?? '').startsWith('2026-11-18 11:38:43')", patience=40)
    assert firefox.run(RANGE) == "2026-11-18 11:38:43..2026-11-18 11:38:56"
    assert firefox.run("document.querySelector('.here').id") == "F-1b"
