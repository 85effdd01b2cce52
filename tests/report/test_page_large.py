"""A large cluster on a bad day: the page stays within its budgets, and says what it leaves out."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from forensics.report import lane_intervals, time_bins
from forensics.report.page import draw_report
from forensics.report.partition_groups import group_partitions
from forensics.run_output.reader import load_run
from tests.report.large_run import BROKERS, DAY, large
from tests.report.sample_runs import START

pytestmark = pytest.mark.slow

MOST_BYTES, MOST_BARS, MOST_ROWS, MOST_LANES = 6_000_000, 4_000, 300, 200


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 partitions, 30 brokers, 200 findings, 24 hours."""
    return large(tmp_path_factory.mktemp("large"))


@pytest.fixture(scope="module")
def figures(out: Path) -> dict[str, Any]:
    """The figures of its page, by name."""
    html = draw_report(out).read_text(encoding="utf-8")
    blocks = re.findall(r'data-figure="([^"]+)">(.*?)</script>', html)
    return {name: json.loads(block) for name, block in blocks}


def test_the_page_is_drawn_in_time_and_is_small(out: Path) -> None:
    begin = time.process_time()
    page = draw_report(out)

    assert time.process_time() - begin < 15
    assert page.stat().st_size <= MOST_BYTES


def test_also_at_its_worst_the_page_is_small(tmp_path: Path) -> None:
    """No two partitions alike, 200 findings with 40 lines each of text that nothing packs small."""
    begin = time.process_time()
    page = draw_report(large(tmp_path, worst=True))

    assert time.process_time() - begin < 30
    assert page.stat().st_size <= 0.96 * MOST_BYTES


def test_no_figure_has_more_than_a_browser_draws_at_once(figures: dict[str, Any]) -> None:
    """Bars in all, lanes of one figure, rows and cells of a heatmap, bands."""
    traces = [trace for one in figures.values() for trace in one["data"]]
    bars = [trace for trace in traces if trace["type"] == "bar"]
    maps = [trace for trace in traces if trace["type"] == "heatmap"]

    assert len(figures) >= 7
    assert sum(len(trace["x"]) for trace in bars) <= MOST_BARS
    lanes = {row for trace in figures["figure-leaders"]["data"] for row in trace["y"]}
    assert 10 < len(lanes) <= MOST_LANES
    assert maps
    for trace in maps:
        assert len(trace["y"]) <= MOST_ROWS
        assert len(trace["x"]) <= 601
    shapes = [len(one["layout"].get("shapes", ())) for one in figures.values()]
    assert 0 < max(shapes) <= 50


def test_every_partition_is_in_one_row(out: Path) -> None:
    """In a row of its own history, or in one that is counted."""
    fold = group_partitions(load_run(out))
    assert fold is not None

    counted = sum(
        int(name.split()[0].replace(",", ""))
        for name in fold.grid.names
        if re.fullmatch(r"[\d,]+ (others|with no change)", name)
    )
    drawn = [name for row in fold.rows for name in row.members]
    assert len(drawn) == len(set(drawn))
    assert len(drawn) + counted == fold.partition_count == 10_000


def test_the_same_colour_is_the_same_broker_on_every_figure(figures: dict[str, Any]) -> None:
    """Leaders, lives and returns; only greys are shared."""
    of_leaders = {
        trace["name"]: trace["marker"]["color"]
        for trace in figures["figure-leaders"]["data"]
        if trace["name"].startswith("broker ")
    }
    up = next(t for t in figures["figure-timeline"]["data"] if t.get("name") == "up")
    lives = dict(zip(up["y"], up["marker"]["color"], strict=True))

    assert len(set(of_leaders.values())) == len(of_leaders) == 8
    assert all(lives[name] == colour for name, colour in of_leaders.items())
    assert len(lives) == BROKERS


def test_a_count_of_partitions_is_right_at_each_point(out: Path) -> None:
    """Thinning keeps peaks, and does not stretch them over what comes after."""
    points = time_bins.count_degraded_partitions(load_run(out))["unavailable"]
    dark = sum(
        level * (after - moment)
        for (moment, level), (after, _) in zip(points, points[1:], strict=False)
    )
    exact = sum(
        row["ended_at"] - row["started_at"]
        for row in load_run(out).rows("leadership", ["leader", "started_at", "ended_at"])
        if row["leader"] == -1
    )

    # Many partitions are dark at once for two seconds each.
    assert max(level for _, level in points) > 300
    assert dark == pytest.approx(exact, rel=0.5)


def test_cells_are_short_where_findings_are(out: Path) -> None:
    run = load_run(out)
    fold = group_partitions(run)
    assert fold is not None
    widths = (fold.grid.edges[1:] - fold.grid.edges[:-1]).tolist()

    assert len(widths) <= 600
    assert min(widths) < 2000
    assert max(widths) <= 610_000
    assert (fold.grid.leaders == time_bins.SEVERAL).any()
    assert lane_intervals.choose_view(run) == (START, START + DAY)
