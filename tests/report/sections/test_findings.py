"""The cards of the findings: what is on one, and how two hundred of them stay readable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from forensics.report.page import draw_report
from forensics.report.sections import findings
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import FILE, document, finding, proof, save


def draw(out: Path, *found: dict[str, Any], **more: Any) -> str:
    """Draw the cards of a run."""
    write_findings(document(list(found)) | more, out / "findings.json")
    return findings.render(load_run(out))


def test_a_card_says_why_it_fired_how_sure_it_is_and_what_would_make_it_wrong(
    unclean: Path,
) -> None:
    told = {
        "confidence": "likely",
        "confidence_reason": "two nodes tell of it",
        "why": "9 shrinks; 5 are a storm",
        "doubts": ["A <b>test</b> looks the same."],
        "state": "recurring, 3 weeks",
        "evidence": [proof(1, 1, "x")],
    }
    html = draw(unclean, finding("F-1", "isr-storm", "high", **told))

    assert "<dt>Why it fired</dt><dd>9 shrinks; 5 are a storm</dd>" in html
    assert "<dt>Confidence</dt><dd>likely: two nodes tell of it</dd>" in html
    assert "<li>A &lt;b&gt;test&lt;/b&gt; looks the same.</li>" in html
    assert "State: recurring, 3 weeks." in html
    assert "kafka-forensics show F-1 --archive ARCHIVE" in html


def test_of_thousands_of_findings_the_worst_have_cards_and_all_are_counted(tmp_path: Path) -> None:
    """A page of twenty megabytes opens nowhere; what has no card is still found and told."""
    levels = ["medium"] * 200 + ["low"] * 400 + ["info"] * 900
    found = [
        finding(f"F-{number:08x}", "stale-metadata", level, clients=[f"app-{number}"],
                title=f"app-{number} asked the wrong broker", evidence=[proof(1, 1, "x" * 200)] * 6)
        for number, level in enumerate(levels)
    ]  # fmt: skip
    for name in ("leadership", "isr", "events", "files", "lanes"):
        save(tmp_path, name, [])
    write_findings(document(found), tmp_path / "findings.json")
    html = draw_report(tmp_path).read_text("utf-8")

    assert len(html) < 6_000_000
    assert html.count("<article") == findings.MAX_CARDS
    assert html.count('class="card level-medium"') == 200
    assert "1,200 more do not: 300 low, 900 info" in html
    assert "And 200 findings more in findings.json." in html
    assert "kafka-forensics show ID" in html
    # Each link to a finding leads somewhere.
    links = set(re.findall(r'href="#(F-[0-9a-f]{8})"', html))
    assert links <= set(re.findall(r'id="(F-[0-9a-f]{8})"', html))


def test_without_earlier_runs_nothing_is_called_new(unclean: Path) -> None:
    assert "new and recurring ones are not told apart" in draw(unclean, finding("F-1", "x", "high"))


def test_states_are_told_and_counted(unclean: Path) -> None:
    """As the audit of the weeks writes them: since when, in how many weeks, accepted until when."""
    html = draw(
        unclean,
        finding("F-1", "x", "high", state="new"),
        finding("F-2", "x", "high", state="recurring", weeks=3, first_seen="2026-10-26"),
        finding("F-3", "x", "high", state="recurring", weeks=1, accepted_until="2026-12-31"),
    )

    assert "Compared with the weeks before: 2 recurring, 1 new." in html
    assert "State: new." in html
    assert "State: recurring (3 weeks, since 2026-10-26)." in html
    assert "State: recurring (1 week); accepted until 2026-12-31." in html


def test_a_chip_names_the_byte_and_the_file_that_its_line_is_of(unclean: Path) -> None:
    """From the events and the files; a line that no event is of has no byte."""
    save(unclean, "events", [{"file": FILE.format(1), "line": 7, "offset": 4321, "kind": "x"}])
    lines = [proof(1, 7, "seen"), proof(1, 8, "not an event")]
    html = draw(unclean, finding("F-1", "isr-storm", "high", evidence=lines))

    assert "<pre>seen</pre><small>byte 4,321, file SHA-256 0f0f0f0f0f0f0f0f…</small>" in html
    assert "<pre>not an event</pre><small>file SHA-256 0f0f0f0f0f0f0f0f…</small>" in html


def test_a_quoted_line_stands_between_those_that_were_read_around_it(unclean: Path) -> None:
    """Five to either side at most, each with its number; what was not read leaves a gap."""
    near = [
        {"file": FILE.format(1), "line": line, "offset": line, "text": f"<line {line}>"}
        for line in (14, 16, 19, 20, 21, 25, 26)
    ]
    save(unclean, "events", [*near, near[0] | {"file": "another"}])
    html = draw(unclean, finding("F-1", "isr-storm", "high", evidence=[proof(1, 20, "it")]))

    before = "…\n16  &lt;line 16&gt;\n…\n19  &lt;line 19&gt;"
    after = "21  &lt;line 21&gt;\n…\n25  &lt;line 25&gt;"
    around = f'<pre class="near">{before}</pre><pre>it</pre><pre class="near">{after}</pre>'
    assert around in html


def test_a_rule_is_linked_only_where_the_page_tells_of_it(unclean: Path) -> None:
    """A link that leads nowhere is worse than none."""
    told = {"known": {"means": "It is so.", "beware": ""}}
    quoted = [proof(1, 1, "a") | {"rule": "known@3.5"}, proof(1, 2, "b") | {"rule": "other@1"}]
    html = draw(unclean, finding("F-1", "isr-storm", "high", evidence=quoted), rules=told)

    assert '<a href="#rule-known">read by known</a>' in html
    assert "read by other" in html
    assert 'href="#rule-other"' not in html


def test_of_many_of_one_detector_the_worst_stand_open_and_the_rest_is_folded(unclean: Path) -> None:
    """The fold says what is in it, and every card is in the page under its own number."""
    many = [finding(f"F-{at:03}", "offline-partitions", "high") for at in range(200)]
    html = draw(unclean, *many, finding("F-other", "isr-storm", "medium"))
    outside = re.sub(r'<details class="below">.*?</details>(?=\n)', "", html, flags=re.DOTALL)

    assert html.count('class="card ') == 201
    assert outside.count('class="card ') == 4
    assert "197 more of Outage: 197 high" in html
    assert "201. isr-storm" in outside


def test_four_of_one_detector_are_not_folded_for_a_single_one(unclean: Path) -> None:
    html = draw(unclean, *(finding(f"F-{at}", "isr-storm", "high") for at in range(4)))

    assert "more of" not in html.replace("more below", "")


def test_the_last_row_is_never_nothing(unclean: Path) -> None:
    """What is of little weight, and what was accepted, is counted and can be unfolded."""
    gone = {"id": "F-9", "detector": "isr-storm", "severity": "high", "title": "a storm",
            "reason": "a planned move", "until": "2030-01-31"}  # fmt: skip
    html = draw(unclean, finding("F-1", "x", "info"), finding("F-2", "x", "low"), suppressed=[gone])

    assert "Show 2 low and info findings, 1 accepted" in html
    assert "a storm: accepted until 2030-01-31, a planned move" in html
    assert 'id="F-9"' in html
    assert "No other findings, none accepted" in draw(unclean)


def test_where_cards_are_many_each_quotes_fewer_lines(unclean: Path) -> None:
    """Seven findings with three lines each made a page longer than anybody reads."""
    lines = [
        proof(1, number, f"[2026-11-18 11:38:51,318] INFO line {number}") for number in (1, 2, 3)
    ]

    def quoted(cards: int) -> int:
        found = [finding(f"F-{number}", "isr-storm", "high", title=f"Storm {number}",
                         evidence=lines) for number in range(cards)]  # fmt: skip
        write_findings(document(found), unclean / "findings.json")
        return findings.render(load_run(unclean)).count('class="said"')

    assert quoted(2) == 6
    assert quoted(7) == 14
