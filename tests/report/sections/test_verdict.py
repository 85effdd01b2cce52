"""The first screen: what, who, how long, what was lost, how sure, and nothing that is not so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from forensics.report.sections import verdict
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import document, file, finding, iso, lost, save

Rewrite = Callable[[Path, dict[str, Any]], None]


def text(html: str) -> str:
    """Read a section as a person does."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def draw(out: Path, *findings: dict[str, Any], verdict_: str = "incident", **more: Any) -> str:
    """Draw the verdict of a run with these findings."""
    write_findings(document(list(findings), verdict_) | more, out / "findings.json")
    return text(verdict.render(load_run(out)))


def test_every_number_is_the_one_of_findings_json_and_of_the_tables(unclean: Path) -> None:
    """Counted once more here, by hand: a verdict that miscounts is worse than none."""
    run = load_run(unclean)
    rows = next(one for one in run.findings if one.detector == "unclean-election").measures
    least = sum(row["lost_records_min"] for row in rows["partitions"])
    most = sum(row["lost_records_max"] for row in rows["partitions"])
    table = ds.dataset(unclean / "tables" / "leadership").to_table(["topic", "partition"])
    known = {(row["topic"], row["partition"]) for row in table.to_pylist()}
    errors = ds.dataset(unclean / "tables" / "events").to_table(["ts"])["ts"].to_pylist()
    start = min(one.start_ms for one in run.incidents if one.start_ms)
    first = min(errors).timestamp() - start / 1000

    says = text(verdict.render(run))

    assert f"data loss confirmed {least:,}..{most:,} records on {len(rows['partitions'])}" in says
    impact = run.document["impact"]
    assert f"Partitions unavailable {impact['partitions_unavailable']} of {len(known)}" in says
    assert "up to 40 s; 120 partition-seconds" in says
    assert f"First effect to first sign {first:.1f} s app-metrics: NOT_LEADER" in says


def test_a_sign_is_the_first_that_a_client_logged_after_the_first_effect(unclean: Path) -> None:
    """A warning of its start, and what a broker wrote, are none."""
    save(unclean, "files", [file("app", "client", role="client"), file("broker-1", "server")])
    at = 1_795_001_860_000_000
    told = [
        ("app", "client_setting_seen", "WARN", 50_000),
        ("broker-1", "replica_lags", "WARN", 50_100),
        ("app", "client_refresh", "INFO", 50_200),
        ("app", "fetch_failed", "WARN", 50_300),
        ("app", "client_error", "INFO", 51_000),
    ]
    save(unclean, "events", [
        {"node": node, "kind": kind, "level": level, "ts": at + after * 1000, "line": 1}
        for node, kind, level, after in told
    ])  # fmt: skip
    one = finding("F-1", "flapping-broker", "high", brokers=[2], **{"from": iso(50_000)})

    assert "First effect to first sign 300 ms app: fetch failed" in draw(unclean, one)


def test_a_setting_that_is_a_risk_does_not_begin_the_incident(unclean: Path) -> None:
    """It was so long before, and its clients have no errors by it."""
    risk = finding("F-1", "config-risk", "medium", clients=["app-x"], **{"from": iso(0)})
    real = finding("F-2", "flapping-broker", "high", brokers=[2], **{"from": iso(50_000)})

    says = draw(unclean, risk, real)

    assert "Started 2026-11-18 11:38:30" in says
    assert "Clients with sustained errors 0" in says
    assert "Also: flapping-broker" not in says
    assert "Also: config-risk" in says


def test_what_is_still_so_at_the_end_of_the_logs_is_not_called_over(unclean: Path) -> None:
    last = document([])["window"]["to"]
    says = draw(unclean, finding("F-1", "flapping-broker", "high", brokers=[2], to=last))

    assert "Ended not over the logs end 11:40:10" in says


def test_the_reason_of_the_confidence_stands_beside_it(unclean: Path) -> None:
    one = finding(
        "F-1", "flapping-broker", "high", brokers=[2], confidence_reason="two nodes say so"
    )
    says = draw(unclean, one, detectors=[{"detector": "x", "status": "not_evaluable"}])

    assert "How sure: two nodes say so; 1 kind of trouble could not be looked for" in says


def test_records_cut_cleanly_are_said_apart_from_lost_ones(unclean: Path) -> None:
    """None of them is lost to acks=all, and none is passed over in silence either."""
    cut = {"partition": "a-1", "lost_from": 3, "lost_to": 8, "lost_records_min": 2,
           "lost_records_max": 5}  # fmt: skip
    low = finding("F-2", "truncation", "low", measures={"partitions": [cut]})
    high = finding(
        "F-1", "unclean-election", "critical", measures={"partitions": [lost(0, 1, 845)]}
    )

    says = draw(unclean, high, low)

    assert "; data loss confirmed 845 records on 1 partition; " in says
    assert " 2 to 5 records of 1 partition were cut after clean changes of leader" in says


def test_a_clear_day_tells_what_was_looked_at(quiet: Path) -> None:
    says = text(verdict.render(load_run(quiet)))

    assert says.startswith("clear Nothing of level medium or higher found between")
    assert "Files 4 of 3 nodes, 0 damaged" in says
    assert "Kinds of trouble looked for 0" in says


def test_hostile_words_of_a_verdict_make_no_class_and_no_tag(
    unclean: Path, rewrite: Rewrite
) -> None:
    rewrite(unclean, {"verdict": '"><b onclick=x>', "findings": []})

    html = verdict.render(load_run(unclean))

    assert "<b onclick" not in html
    assert not re.search(r'class="[^"]*[<>]', html)


def test_titles_of_the_other_incidents_lead_to_their_cards(unclean: Path) -> None:
    found = [finding(f"F-{at}", "isr-storm", "high", title=f"Storm {at}") for at in range(6)]
    write_findings(document(found), unclean / "findings.json")
    html = verdict.render(load_run(unclean))

    assert '<a href="#F-1">Storm 1</a>' in html
    assert "and 2 findings more" in html


def test_how_much_of_the_loss_had_been_acknowledged_is_summed_up(unclean: Path) -> None:
    """That is what somebody will miss; a bound that is not known bounds nothing."""
    some = [lost(0, 1, 845) | {"acknowledged_min": 800, "acknowledged_max": 845},
            lost(1, 1, 900) | {"acknowledged_min": None, "acknowledged_max": 900}]  # fmt: skip
    one = finding("F-1", "unclean-election", "critical", measures={"partitions": some})
    assert "800 to 1,745 of the lost records had been acknowledged" in draw(unclean, one)

    some[1]["acknowledged_max"] = None
    assert "At least 800 of the lost records had been acknowledged" in draw(unclean, one)
