"""Counts of a window: each thing once, on the broker that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forensics.lib.intervals import Interval
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.weekly.week_metrics import SignalCounts, count_signals
from tests.report import sample_runs as samples
from tests.report.sample_runs import Row

START = samples.START
WINDOW = START, START + 100_000


def count(out: Path, window: Interval = WINDOW, **tables: list[Row]) -> SignalCounts:
    for name in ("leadership", "isr", "lanes", "events", "clocks", "files"):
        samples.save(out, name, tables.get(name, []))
    write_findings(samples.document(tables.get("findings", [])), out / "findings.json")
    run = load_run(out)
    return count_signals(run, window, run.findings)


def leader_row(epoch: int, leader: int, before: int | None, at: int, **more: Any) -> Row:
    plain = {
        "topic": "orders", "partition": 0, "leader_epoch": epoch, "leader": leader,
        "previous_leader": before, "started_at": samples.at(at), "ended_at": samples.at(at + 1000),
        "election": "failover", "clean": True, "how": "observed",
    }  # fmt: skip
    return plain | more


def state_row(state: str, start: int, end: int | None, broker: int = 1) -> Row:
    return {
        "node": f"broker-{broker}", "role": "broker", "broker": broker, "state": state,
        "started_at": samples.at(start), "ended_at": samples.at(end),
        "evidence": [{"file": "a", "line": 1}],
    }  # fmt: skip


def by_broker(counts: SignalCounts, key: str) -> Mapping[int, float]:
    return {broker: each[key] for broker, each in counts.brokers.items() if each[key]}


def test_a_leader_that_is_lost_and_replaced_is_lost_once(tmp_path: Path) -> None:
    """A partition goes from 1 to nobody to 2: broker 1 lost it, and nobody lost nothing."""
    rows = [leader_row(0, 1, None, 0), leader_row(1, -1, 1, 10_000), leader_row(2, 2, -1, 12_000),
            leader_row(3, 2, 2, 20_000), leader_row(4, 1, 2, 30_000)]  # fmt: skip
    counts = count(tmp_path, leadership=rows)

    assert by_broker(counts, "leaders_lost") == {1: 1, 2: 1}
    assert counts.lost_at.tolist() == [START + 10_000, START + 30_000]
    assert counts.cluster["minutes_dark"] == round(1000 / 60_000, 3)


def test_a_state_whose_end_nobody_knows_counts_no_longer_than_it_surely_was(tmp_path: Path) -> None:
    sure = leader_row(1, -1, 1, 10_000, ended_at=samples.at(13_000), ended="unknown")
    open_end = leader_row(1, -1, 1, 10_000, ended_at=None, ended="unknown", partition=1)
    counts = count(tmp_path, leadership=[leader_row(0, 1, None, 0), sure, open_end])

    assert counts.cluster["minutes_dark"] == round(3000 / 60_000, 3)


def test_what_happened_before_or_after_the_window_is_not_in_it(tmp_path: Path) -> None:
    rows = [
        leader_row(0, 2, 1, -1),
        leader_row(1, 1, 2, 0),
        leader_row(2, 2, 1, 99_999),
        leader_row(3, 1, 2, 100_000),
    ]

    assert by_broker(count(tmp_path, leadership=rows), "leaders_lost") == {1: 1, 2: 1}


def test_an_unclean_election_counts_for_who_was_elected(tmp_path: Path) -> None:
    rows = [leader_row(0, -1, 1, 0), leader_row(1, 2, -1, 10, election="unclean", clean=False)]

    assert by_broker(count(tmp_path, leadership=rows), "unclean") == {2: 1}


def test_an_absence_is_counted_where_it_begins_and_its_minutes_where_they_pass(
    tmp_path: Path,
) -> None:
    rows = [
        state_row("up", 0, 40_000),
        state_row("crashed", 40_000, 120_000),
        state_row("up", 120_000, 150_000),
    ]
    first = count(tmp_path, (START, START + 100_000), lanes=rows)
    second = count(tmp_path, (START + 100_000, START + 150_000), lanes=rows)

    assert [each.away[1]["unplanned"] for each in (first, second)] == [1, 0]
    assert [each.away[1]["minutes"] for each in (first, second)] == [1.0, 0.333]


def test_who_does_not_come_back_is_away_until_the_servers_logs_end(tmp_path: Path) -> None:
    """A client that logs on for longer knows nothing of it."""
    rows = [state_row("up", 0, 40_000), state_row("crashed", 40_000, None)]
    files = [samples.file("broker-2", "server", last_ts=samples.at(70_000)),
             samples.file("app", "client", role="client", last_ts=samples.at(90_000))]  # fmt: skip
    counts = count(tmp_path, lanes=rows, files=files)

    assert (counts.away[1]["unplanned"], counts.away[1]["minutes"]) == (1, 0.5)


def test_who_was_told_to_stop_is_away_as_planned(tmp_path: Path) -> None:
    rows = [state_row("up", 0, 40_000), state_row("stopping", 40_000, 41_000),
            state_row("stopped", 41_000, 50_000), state_row("starting", 50_000, 55_000),
            state_row("up", 55_000, None)]  # fmt: skip
    counts = count(tmp_path, lanes=rows)

    assert (counts.away[1]["planned"], counts.away[1]["unplanned"]) == (1, 0)
    assert counts.away[1]["minutes"] == 0


def test_records_without_a_bound_are_not_added_up(tmp_path: Path) -> None:
    known = samples.finding("F-1", "unclean-election", "critical",
                            measures={"partitions": [samples.lost(0, 2, 845)]})  # fmt: skip
    open_ = samples.finding("F-2", "unclean-election", "critical",
                            measures={"partitions": [samples.lost(1, 2, None)]})  # fmt: skip
    row = dict(open_["measures"]["partitions"][0], lost_records_max=None)
    open_ = open_ | {"measures": {"partitions": [row]}}

    assert count(tmp_path / "a", findings=[known]).cluster["records_lost"] == 845
    assert count(tmp_path / "b", findings=[known, open_]).cluster["records_lost"] is None
