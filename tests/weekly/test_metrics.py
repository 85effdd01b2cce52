"""Counts of a window: each thing once, on the broker that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forensics.lib.intervals import Interval
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.weekly.metrics import SignalCounts, count_signals
from tests.report import sample_runs as samples
from tests.report.sample_runs import Row

START = samples.START
WINDOW = START, START + 100_000


def counted(out: Path, window: Interval = WINDOW, **tables: list[Row]) -> SignalCounts:
    for name in ("leadership", "isr", "lanes", "events", "clocks", "files"):
        samples.save(out, name, tables.get(name, []))
    write_findings(samples.document(tables.get("findings", [])), out / "findings.json")
    run = load_run(out)
    return count_signals(run, window, run.findings)


def reign(epoch: int, leader: int, before: int | None, at: int, **more: Any) -> Row:
    plain = {
        "topic": "orders", "partition": 0, "leader_epoch": epoch, "leader": leader,
        "previous_leader": before, "started_at": samples.at(at), "ended_at": samples.at(at + 1000),
        "election": "failover", "clean": True, "how": "observed",
    }  # fmt: skip
    return plain | more


def lane(state: str, start: int, end: int | None, broker: int = 1) -> Row:
    return {
        "node": f"broker-{broker}", "role": "broker", "broker": broker, "state": state,
        "started_at": samples.at(start), "ended_at": samples.at(end),
        "evidence": [{"file": "a", "line": 1}],
    }  # fmt: skip


def told(found: SignalCounts, key: str) -> Mapping[int, float]:
    return {broker: one[key] for broker, one in found.brokers.items() if one[key]}


def test_a_leader_that_is_lost_and_replaced_is_lost_once(tmp_path: Path) -> None:
    """A partition goes from 1 to nobody to 2: broker 1 lost it, and nobody lost nothing."""
    rows = [reign(0, 1, None, 0), reign(1, -1, 1, 10_000), reign(2, 2, -1, 12_000),
            reign(3, 2, 2, 20_000), reign(4, 1, 2, 30_000)]  # fmt: skip
    found = counted(tmp_path, leadership=rows)

    assert told(found, "leaders_lost") == {1: 1, 2: 1}
    assert found.lost_at.tolist() == [START + 10_000, START + 30_000]
    assert found.cluster["minutes_dark"] == round(1000 / 60_000, 3)


def test_a_state_whose_end_nobody_knows_counts_no_longer_than_it_surely_was(tmp_path: Path) -> None:
    sure = reign(1, -1, 1, 10_000, ended_at=samples.at(13_000), ended="unknown")
    open_end = reign(1, -1, 1, 10_000, ended_at=None, ended="unknown", partition=1)
    found = counted(tmp_path, leadership=[reign(0, 1, None, 0), sure, open_end])

    assert found.cluster["minutes_dark"] == round(3000 / 60_000, 3)


def test_what_happened_before_or_after_the_window_is_not_in_it(tmp_path: Path) -> None:
    rows = [reign(0, 2, 1, -1), reign(1, 1, 2, 0), reign(2, 2, 1, 99_999), reign(3, 1, 2, 100_000)]

    assert told(counted(tmp_path, leadership=rows), "leaders_lost") == {1: 1, 2: 1}


def test_an_unclean_election_counts_for_who_was_elected(tmp_path: Path) -> None:
    rows = [reign(0, -1, 1, 0), reign(1, 2, -1, 10, election="unclean", clean=False)]

    assert told(counted(tmp_path, leadership=rows), "unclean") == {2: 1}


def test_an_absence_is_counted_where_it_begins_and_its_minutes_where_they_pass(
    tmp_path: Path,
) -> None:
    rows = [lane("up", 0, 40_000), lane("crashed", 40_000, 120_000), lane("up", 120_000, 150_000)]
    first = counted(tmp_path, (START, START + 100_000), lanes=rows)
    second = counted(tmp_path, (START + 100_000, START + 150_000), lanes=rows)

    assert [one.away[1]["unplanned"] for one in (first, second)] == [1, 0]
    assert [one.away[1]["minutes"] for one in (first, second)] == [1.0, 0.333]


def test_who_does_not_come_back_is_away_until_the_servers_logs_end(tmp_path: Path) -> None:
    """A client that logs on for longer knows nothing of it."""
    rows = [lane("up", 0, 40_000), lane("crashed", 40_000, None)]
    files = [samples.file("broker-2", "server", last_ts=samples.at(70_000)),
             samples.file("app", "client", role="client", last_ts=samples.at(90_000))]  # fmt: skip
    found = counted(tmp_path, lanes=rows, files=files)

    assert (found.away[1]["unplanned"], found.away[1]["minutes"]) == (1, 0.5)


def test_who_was_told_to_stop_is_away_as_planned(tmp_path: Path) -> None:
    rows = [lane("up", 0, 40_000), lane("stopping", 40_000, 41_000),
            lane("stopped", 41_000, 50_000), lane("starting", 50_000, 55_000),
            lane("up", 55_000, None)]  # fmt: skip
    found = counted(tmp_path, lanes=rows)

    assert (found.away[1]["planned"], found.away[1]["unplanned"]) == (1, 0)
    assert found.away[1]["minutes"] == 0


def test_records_without_a_bound_are_not_added_up(tmp_path: Path) -> None:
    known = samples.finding("F-1", "unclean-election", "critical",
                            measures={"partitions": [samples.lost(0, 2, 845)]})  # fmt: skip
    open_ = samples.finding("F-2", "unclean-election", "critical",
                            measures={"partitions": [samples.lost(1, 2, None)]})  # fmt: skip
    row = dict(open_["measures"]["partitions"][0], lost_records_max=None)
    open_ = open_ | {"measures": {"partitions": [row]}}

    assert counted(tmp_path / "a", findings=[known]).cluster["records_lost"] == 845
    assert counted(tmp_path / "b", findings=[known, open_]).cluster["records_lost"] is None
