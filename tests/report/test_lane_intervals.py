"""Lanes as a figure draws them, and the time that it shows first."""

from __future__ import annotations

import json
from pathlib import Path

from forensics.report import lane_intervals
from forensics.run_output.reader import load_run
from tests.report.sample_runs import END, START, document, finding, iso


def test_what_no_line_covers_is_unknown(unclean: Path) -> None:
    """A lane begins and ends with the window, and its holes are hatched."""
    lanes = lane_intervals.read_lanes(load_run(unclean), "broker")
    third = [(lane.state, lane.start - START) for lane in lanes if lane.name == "broker 3"]
    second = [lane.state for lane in lanes if lane.name == "broker 2"]

    assert third == [("up", 0), ("unknown", 120_000)]
    assert second == ["unknown", "up", "crashed", "starting", "up"]
    assert max(lane.end for lane in lanes) == START + END


def test_a_freeze_that_was_too_short_for_its_session_is_cut_out_of_what_was_up(
    unclean: Path,
) -> None:
    """A broker that the cluster never gave up has no state of its own for it."""
    froze = finding("F-2", "long-pause", "medium", brokers=[3], title="broker-3 froze for 6 s",
                    measures={"times": [{"from": iso(20_000), "seconds": 6.0}]})  # fmt: skip
    (unclean / "findings.json").write_text(json.dumps(document([froze])))
    lanes = lane_intervals.read_lanes(load_run(unclean), "broker")

    assert [(one.state, one.start - START) for one in lanes if one.name == "broker 3"] == [
        ("up", 0), ("paused", 20_000), ("up", 26_000), ("unknown", 120_000),
    ]  # fmt: skip


def test_the_view_is_the_incident_and_a_little_around_it(unclean: Path, quiet: Path) -> None:
    """A quiet day shows all of its window."""
    view = lane_intervals.choose_view(load_run(unclean))

    assert view is not None
    assert (view[0] - START, view[1] - START) == (30_700, 124_666)
    assert lane_intervals.choose_view(load_run(quiet)) == (START, START + END)
