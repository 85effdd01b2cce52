"""What happened: rows in order and group, causes only where they are certain, doubt where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.registry import all_detectors
from forensics.report.coverage_advice import find_alert, load_alerts
from forensics.report.incident_story import build_story
from forensics.report.sections import incident_story
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import (
    clocks,
    document,
    file,
    finding,
    iso,
    lanes,
    leadership,
    proof,
    save,
    unclean_findings,
)

KILLED, DARK, ELECTED, BACK = 45_700, 68_922, 71_318, 109_666


def link(role: str, to: str, at: int, **more: Any) -> dict[str, Any]:
    """Make one link of a chain."""
    plain: dict[str, Any] = {
        "role": role, "from": None, "to": to, "at": iso(at), "order": "told", "cause": False,
        "mechanism": "", "title": f"title of {to}", "evidence": [],
    }  # fmt: skip
    return plain | more


@pytest.fixture
def chained(unclean: Path) -> Path:
    """A run whose findings are tied."""
    quoted = [proof(1, 5, "source"), proof(1, 6, "no leader")]
    led = {"from": "F-4e", "cause": True, "mechanism": "It led these.", "evidence": quoted}
    left = {"from": "F-1b", "order": "open", "mechanism": "Nobody was left."}
    away = {"from": "F-4e", "mechanism": "It was away."}
    links = [
        link("trigger", "F-4e", KILLED, evidence=[proof(2, 7, "gone")]),
        link("propagation", "F-1b", DARK, **led),
        link("effect", "F-3f2a91c0", ELECTED, **left, evidence=[proof(3, 8, "unclean")]),
        link("effect", "F-3f2a91c0", ELECTED, **away),
        link("recovery", "F-1b", BACK, mechanism="All have leaders again."),
    ]
    chain = {"id": "C-1", "findings": ["F-4e", "F-1b", "F-3f2a91c0"], "links": links,
             "competing": []}  # fmt: skip
    write_findings(document(unclean_findings()) | {"chains": [chain]}, unclean / "findings.json")
    return unclean


def test_rows_go_from_the_trigger_to_the_recovery_and_by_time(chained: Path) -> None:
    rows, left = build_story(load_run(chained))
    groups = [row.group for row in rows]

    assert groups == sorted(
        groups, key=["trigger", "propagation", "effect", "recovery", "apart"].index
    )
    assert all(
        one.at <= other.at
        for one, other in zip(rows, rows[1:], strict=False)
        if one.group == other.group
    )
    assert left == 0


def test_a_cause_is_called_so_only_where_the_chain_is_certain(chained: Path) -> None:
    """Else one thing has led to another, or even that order is open."""
    why = {
        row.finding: row.causes
        for row in build_story(load_run(chained))[0]
        if row.group != "recovery"
    }

    assert why["F-1b"] == ("Cause: Broker 2 crashed. It led these.",)
    assert why["F-3f2a91c0"] == (
        (
            "Led to by: 3 partitions had no leader for 2.4 s. Nobody was left; which of the two "
            "came first cannot be told."
        ),
        "Led to by: Broker 2 crashed. It was away.",
    )


def test_the_line_of_a_row_is_its_own_and_not_that_of_its_source(chained: Path) -> None:
    rows = {
        row.finding: row for row in build_story(load_run(chained))[0] if row.group == "propagation"
    }

    assert [one.text for one in rows["F-1b"].proofs] == ["no leader"]


def test_what_no_chain_holds_is_there_and_apart(chained: Path) -> None:
    rows = build_story(load_run(chained))[0]

    assert [row.finding for row in rows if row.group == "apart"][:1] == ["F-2c"]


def test_clients_hang_on_what_had_happened_when_they_first_complained(chained: Path) -> None:
    """The client's first error comes 0.9 s after the partitions lost their leaders."""
    noticed = {
        row.text: [sign.client for sign in row.client_errors]
        for row in build_story(load_run(chained))[0]
    }

    assert [says for says, clients in noticed.items() if clients] == [
        "app-metrics worked with old leaders for 18 s"
    ]
    assert "client error, first of app-metrics" in incident_story.render(load_run(chained))


def test_rows_closer_than_the_clocks_are_joined_by_a_bracket(unclean: Path) -> None:
    """Broker 1 and broker 3 agree to 24 ms in this sample; a controller's line is of one clock."""
    save(unclean, "files", [file("broker-1", "server"), file("broker-3", "server")])
    save(unclean, "clocks", clocks())
    found = [
        finding(f"F-{name}", "isr-storm", "high", title=name, evidence=[proof(node, 1, name)],
                **{"from": iso(at), "to": iso(at)})
        for name, node, at in (
            ("0", 1, 10_000), ("a", 1, 50_000), ("b", 3, 50_020), ("c", 3, 50_030),
            ("d", 1, 51_000),
        )
    ]  # fmt: skip
    write_findings(document(found), unclean / "findings.json")

    doubts = {row.text: row.order_doubt for row in build_story(load_run(unclean))[0] if row.finding}

    assert doubts["b"] == "order uncertain: the clocks of broker-1 and broker-3 agree to 24 ms"
    assert doubts["c"] == doubts["d"] == ""
    assert 'class="unsure-end"' in incident_story.render(load_run(unclean))


def test_few_findings_are_filled_up_with_what_the_tables_tell(unclean: Path) -> None:
    """Brokers that went, and leaders that moved, within the time of the incident."""
    save(unclean, "lanes", lanes())
    save(unclean, "leadership", leadership())
    one = finding("F-1", "flapping-broker", "high", title="it flaps", brokers=[2],
                  **{"from": iso(40_000), "to": iso(BACK)})  # fmt: skip
    write_findings(document([one]), unclean / "findings.json")

    rows, _ = build_story(load_run(unclean))
    says = [row.text for row in rows]

    assert len(rows) >= 6
    assert "Broker 2 crashes" in says
    assert any("get another leader" in one for one in says)


def test_no_more_than_nine_rows_and_the_rest_is_counted(unclean: Path) -> None:
    found = [
        finding(f"F-{at:02}", "isr-storm", "high", title=f"storm {at}",
                **{"from": iso(at), "to": iso(at)})
        for at in range(30)
    ]  # fmt: skip
    write_findings(document(found), unclean / "findings.json")

    rows, left = build_story(load_run(unclean))

    assert (len(rows), left) == (9, 21)
    assert "And 21 rows of less weight" in incident_story.render(load_run(unclean))


def test_a_quiet_day_has_no_story(quiet: Path) -> None:
    assert "No incident in this window." in incident_story.render(load_run(quiet))


def test_every_detector_has_its_metric_or_is_known_to_have_none() -> None:
    """A metric is of Kafka's own; the name alone is shown."""
    assert {one.name for one in all_detectors()} <= set(load_alerts())
    assert find_alert("unclean-election") == "UncleanLeaderElectionsPerSec above 0"
    assert find_alert("truncation") == find_alert("a-packs-own") == ""
