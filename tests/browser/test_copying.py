"""Findings, tables and all the data are copied or saved from a file, under the page's policy."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from forensics.report.page import draw_report
from tests.browser.chromium import Tab
from tests.browser.outputs import ATTACKS, told_by

pytestmark = pytest.mark.browser

TAKE = "navigator.clipboard.writeText = async (text) => { window.copied = text; }; 0"
REFUSE = """navigator.clipboard.writeText = async () => { throw new Error("no"); };
  document.execCommand = () => { window.copied = document.activeElement.value; return true; }; 0"""


def press(tab: Tab, words: str, inside: str = "main") -> str:
    """Press a button by what it says, and give what it copied."""
    tab.run(f"""[...document.querySelector("{inside}").querySelectorAll("button")]
      .find((one) => one.textContent === "{words}").click()""")
    copied: str = tab.wait("window.copied", patience=5)
    tab.run("window.copied = null")
    return copied


def test_a_finding_is_copied_as_markdown(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run(TAKE)
    text = press(tab, "Copy as Markdown", "#F-3f2a91c0")

    assert text.startswith(
        "## 1. Broker 2 was elected from outside the ISR; broker 1 cut its log\n"
    )
    assert "\n- Partitions: metrics-firehose-0, metrics-firehose-1, metrics-firehose-2\n" in text
    assert "when it died. unclean.leader.election.enable let broker 2 lead" in text
    assert (
        "```text\nincident.tgz!broker-1/server.log:19001\n"
        "[2026-11-18 11:39:29,101] INFO Truncating to 0 has effect\n```"
    ) in text
    assert "```text\nkafka-get-offsets.sh --bootstrap-server" in text


def test_the_story_is_copied_as_a_table_of_markdown(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run(TAKE)
    lines = press(tab, "Copy as Markdown table", "#happened").splitlines()

    assert lines[0] == "| Time, UTC | What | Visible as |"
    assert lines[1] == "| --- | --- | --- |"
    assert lines[2].startswith("| **Trigger** |")
    assert {line.count(" | ") for line in lines[2:]} == {2}


def test_everything_is_copied_as_json(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.run(TAKE)

    copied = json.loads(press(tab, "Copy findings.json", "#appendix"))

    assert copied == json.loads((page.parent / "findings.json").read_text(encoding="utf-8"))


def test_everything_is_saved_as_a_file(tab: Tab, page: Path, tmp_path: Path) -> None:
    tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.open(page)
    tab.run("""[...document.querySelectorAll("#report-tools button")]
      .find((one) => one.textContent === "Save findings.json").click()""")
    run, deadline = tmp_path / "findings.json", time.monotonic() + 10
    while not run.exists() and time.monotonic() < deadline:
        time.sleep(0.05)

    assert json.loads(run.read_text("utf-8")) == json.loads(
        (page.parent / "findings.json").read_text("utf-8")
    )
    assert tab.complaints == []


def test_a_browser_that_does_not_lend_its_clipboard_copies_the_old_way(
    tab: Tab, page: Path
) -> None:
    tab.open(page)
    tab.run(REFUSE)

    assert press(tab, "Copy", "#F-3f2a91c0").startswith("kafka-get-offsets.sh")
    assert not tab.run("!!document.querySelector('textarea')")


@pytest.mark.parametrize("attack", ATTACKS)
def test_markdown_of_hostile_text_links_nothing_and_closes_no_fence(
    tab: Tab, attack: str, tmp_path: Path
) -> None:
    tab.open(draw_report(told_by(attack + " ``` \n# x @all http://evil.example", tmp_path)))
    tab.run(TAKE)
    text = press(tab, "Copy as Markdown", "#F-00000001")
    outside, fence = [], ""
    for line in text.splitlines():
        if not fence and line.startswith("```"):
            fence = line.removesuffix("text")
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    words = "\n".join(outside)

    assert fence == ""
    assert "Look at" in text
    assert "http://evil" not in words
    assert "<" not in words.replace("\\<", "")
    assert "@all" not in words
    assert not [line for line in outside if line.startswith("# ")]
    assert "\x1b" not in text
    assert "\u202e" not in text
