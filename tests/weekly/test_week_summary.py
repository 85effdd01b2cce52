"""A week's summary says what the cluster itself has recorded, and nothing of other weeks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.weekly.comparison import load_window
from forensics.weekly.week_summary import WeekSummary, summarise_week, summarise_window
from tests.report import sample_runs as samples
from tests.weekly.sample_postmortem import SAMPLES, run_postmortem
from tests.weekly.sample_summaries import HOUR, WEEK

WEEK_OF = "2026-W47"
SAMPLE = "282-flapping"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_postmortem(SAMPLE, tmp_path_factory.mktemp("flapping"))


@pytest.fixture(scope="module")
def summary(out: Path) -> Any:
    return summarise_week(out, WEEK_OF)


def recorded_losses() -> tuple[Counter[int], Counter[int]]:
    """Count from the cluster's own record who lost how many leaders and places in ISRs."""
    leaders: dict[tuple[str, int], int] = {}
    isrs: dict[tuple[str, int], set[int]] = {}
    lost, drops = Counter[int](), Counter[int]()
    for line in (SAMPLES / SAMPLE / "truth" / "partitions.jsonl").read_text().splitlines():
        row = json.loads(line)
        key = row["topic"], row["partition"]
        before = leaders.get(key, -1)
        lost.update([before] if before >= 0 and before != row["leader"] else [])
        drops.update(isrs.get(key, set()) - set(row["isr"]))
        leaders[key], isrs[key] = row["leader"], set(row["isr"])
    return lost, drops


def test_leaders_and_isrs_are_lost_as_often_as_the_cluster_has_recorded(summary: Any) -> None:
    lost, drops = recorded_losses()
    brokers = summary.signals["brokers"]

    assert {int(one): counts["leaders_lost"] for one, counts in brokers.items()} == lost
    assert {int(one): counts["isr_drops"] for one, counts in brokers.items()} == drops


def test_each_broker_was_away_as_often_as_it_was_killed_or_paused(summary: Any) -> None:
    away = {one: row["unplanned"] for one, row in summary.away.items()}

    assert away == {"1": 0, "2": 3, "3": 3}


def test_a_summary_is_the_same_each_time_and_fit_for_json(out: Path, summary: Any) -> None:
    again = summarise_week(out, WEEK_OF)

    assert again == summary
    assert json.dumps(vars(summary), allow_nan=False)
    assert WeekSummary.from_json(summary.to_json()) == summary


def test_hours_without_a_log_are_not_hours_without_trouble(summary: Any) -> None:
    lost = sum(recorded_losses()[0].values())

    assert sum(many or 0 for many in summary.hours) == lost
    # It was recorded on Wednesday, within the hour after 11:00; nobody logged anything else.
    assert [at for at, many in enumerate(summary.hours) if many is not None] == [2 * 24 + 11]


def test_coverage_is_what_the_logs_reach_over_and_no_more(out: Path, summary: Any) -> None:
    first, last = load_run(out).window or (0, 0)
    covered = {name: row["covered_ms"] for name, row in summary.nodes.items()}

    assert 0.9 * (last - first) < covered["broker-1"] <= last - first
    # Its logs end with its last crash, and it is not back when the others' end.
    assert 0 < covered["broker-2"] < 0.6 * (last - first)
    assert all(sum(row["days"]) == row["covered_ms"] for row in summary.nodes.values())


def test_another_week_has_nothing_of_this_one(out: Path) -> None:
    empty = summarise_week(out, "2026-W48")

    assert empty.verdict == "cannot_tell"
    assert (empty.findings, empty.nodes, empty.brokers) == ([], {}, [])
    assert empty.hours == [None] * 168
    assert empty.signals["brokers"] == {}
    assert empty.files["files"] == 0


def test_two_halves_have_what_the_whole_has(out: Path, summary: Any) -> None:
    """A count at an edge belongs to one side of it, and a state that goes on to both."""
    run = load_run(out)
    first, last = run.window or (0, 0)
    middle = (first + last) // 2
    halves = [summarise_window(run, span, "half") for span in ((first, middle), (middle, last + 1))]
    brokers = [one.signals["brokers"] for one in halves]

    for broker, row in summary.signals["brokers"].items():
        for key in ("leaders_lost", "isr_drops", "absences", "unclean", "errors"):
            assert sum(half.get(broker, {}).get(key, 0) for half in brokers) == row[key], key
        minutes = sum(half.get(broker, {}).get("minutes_away", 0) for half in brokers)
        assert minutes == pytest.approx(row["minutes_away"], abs=0.01)
    names = [row[0] for one in halves for group in one.findings for row in group["findings"]]
    assert sorted(names) == sorted(
        row[0] for group in summary.findings for row in group["findings"]
    )


def test_findings_of_the_same_trouble_stand_together_but_an_incident_stands_alone(
    out: Path, summary: Any
) -> None:
    document = json.loads((out / "findings.json").read_text("utf-8"))
    groups = summary.findings

    assert sum(group["count"] for group in groups) == len(document["findings"])
    keys = [(group["signature"], group["incident"]) for group in groups]
    assert len(set(keys)) == len(keys)
    assert ("flapping-broker: broker 2", True) in keys
    # Leaders were lost as a broker crashed; later, all were, as everybody was told to stop.
    outages = {key for key in keys if key[0].startswith("offline-partitions")}
    assert {is_incident for _, is_incident in outages} == {True, False}


def test_a_week_of_nothing_but_an_earlier_incident_is_not_called_an_incident(
    tmp_path: Path,
) -> None:
    """A finding belongs to the week in which it begins, and its verdict too."""
    for name in ("leadership", "isr", "lanes", "files", "clocks"):
        samples.save(tmp_path, name, getattr(samples, name)())
    whole = [samples.file(f"broker-{number}", "server") for number in (1, 2, 3)]
    samples.save(tmp_path, "files", whole)
    samples.save(tmp_path, "events", [])
    late = samples.finding("F-00000001", "broker-restart", "high", **{"from": samples.iso(10)})
    write_findings(samples.document([late]), tmp_path / "findings.json")
    start = samples.START
    before = summarise_window(load_run(tmp_path), (start, start + 11), "with it")
    after = summarise_window(load_run(tmp_path), (start + 11, start + samples.END), "after it")

    assert before.verdict == "incident"
    assert after.verdict == "clear"


def test_a_clock_that_is_off_puts_no_error_into_the_wrong_window(tmp_path: Path) -> None:
    """What a broker logged ten seconds late by its own clock happened ten seconds before."""
    clock = {"node": "broker-1", "offset_ms": 10_000, "zone_shift_minutes": 0, "anchors": 3}
    samples.save(tmp_path, "clocks", [clock])
    plain = {"kind": "client_error", "node": "broker-1", "file": "a", "line": 1, "level": "ERROR"}
    rows = [plain | {"ts": samples.at(after)} for after in (5_000, 12_000, 25_000)]
    samples.save(tmp_path, "events", rows)
    write_findings(samples.document([], "clear"), tmp_path / "findings.json")
    start = samples.START
    errors = [
        summarise_window(load_run(tmp_path), (start + a, start + b), "")
        .signals["brokers"]
        .get("1", {})
        for a, b in ((-10_000, 0), (0, 10_000), (10_000, 20_000))
    ]

    assert [row.get("errors", 0) for row in errors] == [1, 1, 1]


def test_windows_of_a_postmortem_are_named_as_people_write_them(out: Path) -> None:
    part = load_window(f"{out}@2026-11-18T11:46..2026-11-18T11:47")

    assert part.window[1] - part.window[0] == HOUR // 60
    assert WEEK > part.window[1] - part.window[0] > 0
