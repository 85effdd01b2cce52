"""The last lines of a run: what was read, whose logs there are, the answer, and where to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from forensics.cli.app import print_rows
from forensics.report.headline import headline
from forensics.report.terminal_summary import summary_rows, week_rows
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.schemas import COVERAGE
from tests.report.sample_runs import document, save

RESULT: dict[str, Any] = {
    "archive": {"files": 3, "bytes": 1_500_000, "lines": 2000, "events": 300},
    "lines": {"records": 1900, "unparsed_lines": 100},
    "findings": {"critical": 1, "high": 0, "info": 2},
    "seconds": {"scan": 61.5},
}


def rows_of(out: Path, *archives: str) -> dict[str, str]:
    return dict(summary_rows(load_run(out), RESULT, archives))


def test_an_incident_is_told_as_on_the_page(unclean: Path) -> None:
    rows = rows_of(unclean, "logs.tar.gz", "my logs/")

    assert rows["read"] == "3 files, 1.5 MB, 2,000 lines (95 % understood), in 1 min 1 s"
    assert rows["found"] == "1 critical, 2 info"
    title, when = rows["INCIDENT"].splitlines()
    assert title == headline(load_run(unclean))
    assert when.startswith("Wed 2026-11-18, 11:")
    assert when.endswith("lost on 3 partitions. Confidence in what happened: confirmed.")
    archives = "--archive logs.tar.gz --archive 'my logs/'"
    assert rows["next"] == f"kafka-forensics show F-3f2a91c0 --out {unclean} {archives}"
    assert rows["page"] == (unclean / "report.html").as_uri()


def test_the_node_whose_logs_are_missing_is_named(unclean: Path) -> None:
    hole = dict.fromkeys(COVERAGE.names) | {"node": "broker-4", "role": "broker"}
    save(unclean, "coverage", [hole | {"state": "missing"}])
    told = rows_of(unclean)["logs of"]

    assert told.startswith("4 brokers, 1 client; MISSING: broker-4. ")
    assert "collect-logs.md" in told


def test_without_archives_nothing_is_to_be_looked_up_in_them(unclean: Path) -> None:
    assert rows_of(unclean)["next"].startswith("kafka-forensics export ")


def test_a_clear_run_says_so(quiet: Path) -> None:
    rows = rows_of(quiet)

    assert rows["CLEAR"].startswith("No incident in these logs; ")
    assert "INCIDENT" not in rows


def test_that_nobody_can_tell_is_said_once(unclean: Path) -> None:
    write_findings(document([], "cannot_tell"), unclean / "findings.json")

    assert rows_of(unclean)["CANNOT TELL"].startswith("No incident found, but the logs cover too")


def test_a_week_says_its_verdict_and_where_its_pages_are() -> None:
    result = {
        "week": "2026-W47", "verdict": "clear", "summary": "No incident", "reason": "No incident",
        "events": 12,
        "drawn": ["2026-W47"],
        "page": "/store/weeks/2026-W47/index.html", "index": "s3://audits/index.html",
    }  # fmt: skip

    assert dict(week_rows(result)) == {
        "read": "12 new events; 1 page drawn",
        "found": "nothing in 2026-W47",
        "CLEAR": "2026-W47: No incident",
        "page": "file:///store/weeks/2026-W47/index.html",
        "all weeks": "s3://audits/index.html",
    }


def test_a_verdict_is_coloured_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("read", "1 file"), ("INCIDENT", "lost\x1b[2J\nat noon")]
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    print_rows(rows)

    plain = capsys.readouterr().out
    assert plain == "read      1 file\nINCIDENT  lost<U+001B>[2J\n          at noon\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_rows(rows)
    assert click.unstyle(capsys.readouterr().out) == plain


@pytest.mark.parametrize(
    ("forced", "refused", "coloured"),
    [("1", "", True), ("0", "", False), ("", "", False), ("1", "1", False)],
)
def test_colours_can_be_asked_for_in_a_pipe_and_refused_anywhere(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    forced: str,
    refused: str,
    coloured: bool,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", forced)
    monkeypatch.setenv("NO_COLOR", refused)

    print_rows([("CLEAR", "No incident")])

    assert ("\x1b[" in capsys.readouterr().out) == coloured
