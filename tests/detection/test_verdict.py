"""The verdict says what was found, and does not call silence health when little could be read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from forensics.detection.runner import DetectionResults
from forensics.detection.verdict import build_findings_document
from forensics.events.file_accounts import FileAccount
from forensics.events.packs import load_rule_set
from forensics.history.clocks.model import Clocks
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables
from tests.detection.cases import case, epoch

NO_CLOCKS = Clocks({}, {}, ())
RULES = load_rule_set()
PLACE = {"file": "a.log", "line": 7, "text": "x", "at": 5}


def finding(severity: str, title: str = "Something") -> Finding:
    return Finding("broker-restart", severity, "confirmed", title, 1, 1, [PLACE])


def account(lines: int = 100, loose: int = 0, *, broken: bool = False) -> FileAccount:
    counts = Counter({"lines": lines, "bytes": 10 * lines, "unparsed_lines": loose, "events": 3})
    notes = ["gzip stream ends early"] if broken else []
    return FileAccount("a.log", counts, first=1_000_000, last=9_000_000, notes=notes, broken=broken)


def verdict(folder: Path, file: FileAccount, *findings: Finding, epochs: int = 1) -> str:
    case(folder, leadership=[epoch(n, 1, n) for n in range(epochs)])
    return str(
        build_findings_document(
            Tables(folder), [file], NO_CLOCKS, DetectionResults(findings), RULES
        )["verdict"]
    )


@pytest.mark.parametrize(
    ("severity", "wanted"),
    [
        ("critical", "incident"),
        ("high", "incident"),
        ("medium", "incident"),
        ("low", "clear"),
        ("info", "clear"),
    ],
)
def test_a_finding_of_medium_or_worse_is_an_incident(
    severity: str, wanted: str, tmp_path: Path
) -> None:
    assert wanted == verdict(tmp_path, account(), finding(severity))


def test_an_incident_is_one_however_bad_the_logs_are(tmp_path: Path) -> None:
    assert "incident" == verdict(tmp_path, account(100, 99, broken=True), finding("high"), epochs=0)


@pytest.mark.parametrize(
    ("file", "epochs", "wanted"),
    [
        (account(100, 50), 1, "clear"),
        (account(100, 51), 1, "cannot_tell"),
        (account(0), 1, "cannot_tell"),
        (account(broken=True), 1, "cannot_tell"),
        (account(), 0, "cannot_tell"),
        (FileAccount("a", account().counts, notes=["binary data, not a log"]), 1, "clear"),
    ],
    ids=[
        "half unread",
        "more than half unread",
        "nothing read",
        "damaged",
        "no leader known",
        "beside it a file that is no log",
    ],
)
def test_silence_counts_only_when_enough_was_read(
    file: FileAccount, epochs: int, wanted: str, tmp_path: Path
) -> None:
    assert wanted == verdict(tmp_path, file, epochs=epochs)


@pytest.mark.parametrize(
    ("fatal", "wanted", "summary"),
    [
        (0, "clear", "No incident in these logs, which are complete enough to tell. But Odd."),
        (1, "cannot_tell", "No incident was found, but Odd, some of them at FATAL."),
    ],
)
def test_errors_that_no_rule_reads_are_said_and_fatal_ones_decide(
    fatal: int, wanted: str, summary: str, tmp_path: Path
) -> None:
    odd = Finding("unread-errors", "low", "confirmed", "Odd", 1, 1, [PLACE],
                  measures={"fatal": fatal})  # fmt: skip
    case(tmp_path, leadership=[epoch(0, 1, 1)])

    document = build_findings_document(
        Tables(tmp_path), [account()], NO_CLOCKS, DetectionResults([odd]), RULES
    )

    assert (document["verdict"], document["summary"]) == (wanted, summary)


def test_inferred_epochs_alone_prove_nothing(tmp_path: Path) -> None:
    case(tmp_path, leadership=[epoch(0, None, 1, how="inferred")])

    assert (
        "cannot_tell"
        == build_findings_document(
            Tables(tmp_path), [account()], NO_CLOCKS, DetectionResults(), RULES
        )["verdict"]
    )


def test_the_document_sums_up_what_was_read(tmp_path: Path) -> None:
    case(tmp_path, leadership=[epoch(0, 1, 1)])
    found = build_findings_document(
        Tables(tmp_path), [account(100), account(50)], NO_CLOCKS, DetectionResults(), RULES
    )

    assert {"files": 2, "bytes": 1500, "lines": 150, "events": 6} == found["archive"]
    assert {"from": "1970-01-01T00:00:01.000Z", "to": "1970-01-01T00:00:09.000Z"} == found["window"]
    assert (1, []) == (found["schema"], found["findings"])


def test_the_summary_is_the_worst_finding_and_how_many_more(tmp_path: Path) -> None:
    case(tmp_path, leadership=[epoch(0, 1, 1)])
    findings = [finding("critical", "The worst"), finding("medium"), finding("low")]

    assert (
        "The worst; 1 more finding"
        == build_findings_document(
            Tables(tmp_path), [account()], NO_CLOCKS, DetectionResults(findings), RULES
        )["summary"]
    )
    assert (
        "The worst"
        == build_findings_document(
            Tables(tmp_path), [account()], NO_CLOCKS, DetectionResults(findings[:1]), RULES
        )["summary"]
    )


def test_the_window_is_corrected_by_the_clocks(tmp_path: Path) -> None:
    """A node whose clock is ahead does not make the window longer."""
    case(tmp_path, leadership=[epoch(0, 1, 1)])
    ahead = account()
    ahead.node = "broker-2"
    clocks = Clocks({"broker-2": 1_000.0}, {"broker-2": 60}, ())

    window = build_findings_document(Tables(tmp_path), [ahead], clocks, DetectionResults(), RULES)[
        "window"
    ]

    assert {"from": "1969-12-31T23:00:00.000Z", "to": "1969-12-31T23:00:08.000Z"} == window


def test_the_rules_behind_the_evidence_are_explained_and_the_packs_named(tmp_path: Path) -> None:
    place = PLACE | {"rule": "leader.starts@3.6"}
    case(tmp_path, leadership=[epoch(1, 1, 1)])
    found = Finding("broker-restart", "low", "confirmed", "Something", 1, 1, [place])

    told = build_findings_document(
        Tables(tmp_path), [account()], NO_CLOCKS, DetectionResults([found]), RULES
    )

    assert list(told["rules"]) == ["leader.starts"]
    assert told["rules"]["leader.starts"]["means"].startswith("A broker begins to lead")
    assert [one["name"] for one in told["packs"]] == ["kafka-forensics"]
    assert len(told["packs"][0]["sha256"]) == 64
