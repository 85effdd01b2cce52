"""What could not be seen, what to collect, what people noted, and the accounts at the end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forensics.report.coverage_advice import advise_collection
from forensics.report.sections import appendix, blind_spots, review_form
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import at, document, file, save

Rewrite = Callable[[Path, dict[str, Any]], None]


def hole(node: str, state: str, **more: Any) -> dict[str, Any]:
    """Make one row of coverage."""
    plain = {"node": node, "role": "broker", "log": "server", "state": state,
             "started_at": at(20_000), "ended_at": at(80_000), "why": f"why {state}"}  # fmt: skip
    return plain | more


def test_a_detector_without_an_answer_is_named_with_its_reason(
    unclean: Path, rewrite: Rewrite
) -> None:
    """Its silence is not the silence of a healthy cluster."""
    rewrite(unclean, {"detectors": [
        {"detector": "stale-metadata", "status": "not_evaluable", "about": "Stale errors.",
         "reasons": ["there is no clients' log in the archive"]},
        {"detector": "of-a-pack", "status": "failed", "reasons": ["it failed: KeyError: 'x'"]},
        {"detector": "isr-storm", "status": "quiet", "reasons": ["broker-2 was silent"]},
        {"detector": "clock-skew", "status": "quiet", "reasons": []},
    ]})  # fmt: skip
    html = blind_spots.render(load_run(unclean))

    assert "2 checks could not run:" in html
    assert "there is no clients' log in the archive" in html
    assert "it failed: KeyError: 'x'" in html
    assert "ISR storm: nothing found, but not seen: broker-2 was silent." in html
    assert "Clock skew" not in html


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("missing", "ssh broker-4 "),
        ("rotated", "ssh broker-4 "),
        ("hidden", "kafka-configs.sh --bootstrap-server BROKER:9092 --alter"),
        ("silent", 'journalctl --utc --since "2026-11-18 11:38:00" --until "2026-11-18 11:39:00"'),
    ],
)
def test_each_hole_comes_with_what_to_collect_next_time(
    quiet: Path, state: str, command: str
) -> None:
    save(quiet, "coverage", [hole("broker-4", state), hole("broker-1", "covered"),
                             hole("broker-2", "down")])  # fmt: skip
    html = blind_spots.render(load_run(quiet))

    assert f"broker-4 (server.log), 11:38:00 to 11:39:00: why {state}" in html
    assert "why covered" not in html
    assert "why down" not in html
    assert any(command in one.command for one in advise_collection(load_run(quiet)))


def test_a_command_for_the_shell_holds_a_name_of_a_log_as_one_word(quiet: Path) -> None:
    save(quiet, "coverage", [hole("b; rm -rf /", "missing")])

    line = advise_collection(load_run(quiet))[0].command

    assert shlex.split(line)[:2] == ["ssh", "b; rm -rf /"]


def test_logs_of_clients_are_asked_for_only_where_there_are_none(quiet: Path) -> None:
    asked = "Logs of the applications"
    assert any(asked in one.what for one in advise_collection(load_run(quiet)))

    save(quiet, "files", [file("broker-1", "server"), file("app", "client", role="client")])

    assert not any(asked in one.what for one in advise_collection(load_run(quiet)))


def test_the_review_is_blank_until_somebody_notes_something(quiet: Path) -> None:
    html = review_form.render(load_run(quiet))

    assert html.count('class="blank"') == len(review_form.PARTS)
    assert html.count("<tr>") == 1 + review_form.ROWS


def test_what_is_noted_stands_in_the_page_as_text(quiet: Path) -> None:
    (quiet / "notes.yaml").write_text(
        "went_well:\n  - the <b>alert</b> fired\nlucky: it was night\n"
        "actions:\n  - {what: forbid it, owner: Ann, due: 2030-01-31, ticket: OPS-1}\n"
    )
    html = review_form.render(load_run(quiet))

    assert "<li>the &lt;b&gt;alert&lt;/b&gt; fired</li>" in html
    assert "<li>it was night</li>" in html
    assert html.count('class="blank"') == len(review_form.PARTS) - 2
    assert re.search(r"forbid it</th><td[^>]*>Ann</td><td[^>]*>2030-01-31</td>", html)


@pytest.mark.parametrize("text", ["went_well: [", "- a\n- b\n", "a: 1\na: 2\n", "\x00"])
def test_notes_that_cannot_be_read_are_said_and_do_not_cost_the_page(
    quiet: Path, text: str
) -> None:
    (quiet / "notes.yaml").write_text(text)

    assert "notes.yaml could not be read" in review_form.render(load_run(quiet))


def test_the_example_in_the_page_is_itself_readable(quiet: Path) -> None:
    (quiet / "notes.yaml").write_text(review_form.EXAMPLE)

    html = review_form.render(load_run(quiet))

    assert "could not be read" not in html
    assert "OPS-1</td>" in html


def test_the_appendix_holds_every_digest_in_full(unclean: Path) -> None:
    """A digest that is cut identifies nothing."""
    packs = [{"name": "ours", "version": "3", "sha256": "ab" * 32}]
    write_findings(document([]) | {"packs": packs}, unclean / "findings.json")
    html = appendix.render(load_run(unclean))

    assert "ab" * 32 in html
    assert html.count("0f" * 32) == 9
    for word in ("ISR", "HW", "LEO", "ELR", "Leader epoch", "Partition epoch"):
        assert f"<dt>{word}</dt>" in html
    assert '<p id="report-tools" hidden></p>' in html
