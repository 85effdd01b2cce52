"""Any two windows can be compared: of a store, of a postmortem, long or short."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forensics.errors import ForensicsError
from forensics.weekly.comparison import (
    Comparison,
    compare,
    comparison_json,
    comparison_text,
    count_pairs,
    join_windows,
    load_window,
)
from jobs.compare import command
from tests.weekly.sample_postmortem import run_postmortem
from tests.weekly.sample_summaries import DAY, WEEK, make_finding, make_week

SAMPLE = "282-flapping"
FLAPS = make_finding("flapping-broker", brokers=[2], size=4.0)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_postmortem(SAMPLE, tmp_path_factory.mktemp("flapping"))


@pytest.fixture(scope="module")
def store(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose one week is the recording; the week before has tables, and nothing in them."""
    store = tmp_path_factory.mktemp("store")
    for week in ("2026-W46", "2026-W47"):
        shutil.copytree(out, store / "weeks" / week)
    return store


def rates(comparison: Comparison, key: str, broker: int | None = None) -> tuple[Any, ...]:
    return next(pair.rates for pair in count_pairs(comparison, broker) if pair.signal == key)


def test_a_window_beside_itself_is_the_same(out: Path) -> None:
    whole = load_window(str(out))
    compared = compare(whole, whole)

    assert compared.verdict.word == "same"
    assert {one.state for one in compared.findings} == {"recurring"}


def test_windows_of_different_length_are_compared_by_the_hour() -> None:
    """Four times as much in four times as long is as much."""
    week = make_week("2026-W46", [FLAPS | {"count": 4}], signals={2: {"isr_drops": 700}})
    short = make_week("2026-W46", [FLAPS | {"size": 1.0}], signals={2: {"isr_drops": 100}})
    short.window = [week.window[0], week.window[0] + DAY]
    for node in short.nodes.values():
        node["covered_ms"] = DAY
    week.levels = {"high": 7}
    week.findings[0]["levels"] = {"high": 7}
    week.findings[0]["size"] = 7.0
    both = compare(short, week)

    assert both.verdict.word == "same"
    assert [one.state for one in both.findings] == ["recurring"]
    assert rates(both, "isr_drops") == pytest.approx((100 / 24, 100 / 24))
    assert rates(both, "isr_drops", 2) == pytest.approx((100 / 24, 100 / 24))


def test_half_the_logs_count_twice() -> None:
    a = make_week("2026-W45", signals={2: {"isr_drops": 84}})
    b = make_week("2026-W46", signals={2: {"isr_drops": 42}}, covered=0.5)

    assert rates(compare(a, b), "isr_drops", 2) == pytest.approx((0.5, 0.5))


def test_only_what_the_other_window_would_have_shown_is_new_or_resolved() -> None:
    deaf = make_week("2026-W45", covered={1: 1, 2: 0.2, 3: 1})
    whole = make_week("2026-W45")
    week = make_week("2026-W46", [FLAPS])

    assert [one.state for one in compare(whole, week).findings] == ["new"]
    assert [one.state for one in compare(deaf, week).findings] == ["not evaluable"]
    assert [one.state for one in compare(week, whole).findings] == ["resolved"]
    assert [one.state for one in compare(week, deaf).findings] == ["not evaluable"]


def test_of_a_broker_without_logs_nothing_is_not_zero() -> None:
    a = make_week("2026-W45", covered={1: 1, 2: 0, 3: 1})
    comparison = compare(a, make_week("2026-W46"))
    pair = next(one for one in count_pairs(comparison, 2) if one.signal == "isr_drops")

    assert pair.counts == (None, 0.0)
    assert pair.rates == (None, 0.0)


def test_a_stretch_over_two_weeks_is_both_together(store: Path) -> None:
    both = load_window("2026-11-14T00:00..2026-11-20T00:00", store)
    one = load_window("2026-W47", store)

    assert both.window[1] - both.window[0] == 6 * DAY
    assert both.signals["brokers"] == one.signals["brokers"]
    assert both.signals["cluster"] == one.signals["cluster"]
    keys = [{(group["signature"], group["count"]) for group in each.findings}
            for each in (both, one)]  # fmt: skip
    assert keys[0] == keys[1]
    covered = [{name: node["covered_ms"] for name, node in each.nodes.items()}
               for each in (both, one)]  # fmt: skip
    assert covered[0] == covered[1]


def test_two_weeks_together_have_the_counts_the_findings_and_the_logs_of_both() -> None:
    other = make_finding("stale-metadata", "medium", clients=["app"])
    one = make_week("2026-W45", [FLAPS], covered=0.25, signals={2: {"isr_drops": 3}})
    two = make_week("2026-W46", [FLAPS, other], signals={2: {"isr_drops": 4}})
    two.signals["cluster"]["records_lost"] = None
    both = join_windows(one, two)

    assert both.nodes["broker-2"]["covered_ms"] == round(1.25 * WEEK)
    assert both.signals["brokers"]["2"]["isr_drops"] == 7
    # No bound of one half is no bound of the whole.
    assert both.signals["cluster"]["records_lost"] is None
    assert both.levels == {"high": 2, "medium": 1}
    assert [(one["signature"], one["count"], one["size"]) for one in both.findings] == [
        ("flapping-broker: broker 2", 2, 8.0), ("stale-metadata: client app", 1, 1.0)
    ]  # fmt: skip
    assert compare(
        both, join_windows(one, replace(two, rules=[["ours", "b" * 64]]))
    ).verdict.why == ("A was read by other rules")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-W40", "has no week 2026-W40; it has 2026-W46 to 2026-W47"),
        ("2026-W60", "is no week"),
        ("2026-11-12..2026-11-10", "exchange the two"),
        ("yesterday..today", "write a stretch of time as"),
    ],
)
def test_what_cannot_be_meant_is_told(store: Path, text: str, says: str) -> None:
    with pytest.raises(ForensicsError, match=says):
        load_window(text, store)


def test_without_a_store_a_week_is_no_window() -> None:
    with pytest.raises(ForensicsError, match="--store STORE"):
        load_window("2026-W46")


def test_the_text_has_the_windows_the_word_and_every_count(out: Path) -> None:
    half = f"{out}@2026-11-18T11:48..2026-11-18T11:50"
    compared = compare(load_window(f"{out}@2026-11-18T11:46..2026-11-18T11:48"), load_window(half))
    text = "\n".join(comparison_text(compared))

    assert "2026-11-18 11:48:00-11:50:00 UTC (2 min), logs cover" in text
    assert f"B is WORSE: {compared.verdict.why}" in text
    assert "Leaderships lost" in text
    assert "flapping-broker: broker 3" in text


def test_the_command_writes_text_json_and_a_page(store: Path, tmp_path: Path) -> None:
    words = ["2026-W46", "2026-W47", "--store", str(store)]
    plain = CliRunner().invoke(command, words)
    page = tmp_path / "pair.html"
    machine = CliRunner().invoke(command, [*words, "--json", "--html", str(page)])

    assert (plain.exit_code, machine.exit_code) == (0, 0), plain.output + machine.output
    assert "\nB cannot be compared with A: " in plain.stdout
    document = json.loads(machine.stdout)
    expected = comparison_json(
        compare(load_window("2026-W46", store), load_window("2026-W47", store))
    )
    assert document == json.loads(json.dumps(expected))
    assert "CANNOT COMPARE" in page.read_text("utf-8").upper()
    assert f"page: {page}" in machine.stderr


def test_the_page_needs_a_folder_to_go_to(store: Path, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone" / "pair.html")
    words = ["2026-W46", "2026-W47", "--store", str(store), "--html", gone]
    result = CliRunner().invoke(command, words)

    assert result.exit_code != 0
    assert "there is no folder" in str(result.exception)
