"""Clocks that are off, and controllers that change again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.detectors.clock_skew import find as find_skew
from forensics.detection.detectors.controller_churn import find as find_churn
from forensics.history.clocks.model import Clocks
from forensics.run_output.findings import Finding
from tests.detection.cases import SECOND, case, event, reign


def skews(
    folder: Path, offset: int | None, zone: int = 0, doubt: int = 10, **more: Any
) -> list[Finding]:
    """Give the findings for a cluster whose broker 2 is off."""
    plain = {
        "offset_ms": 0,
        "uncertainty_ms": 10,
        "anchors": 9,
        "zone_shift_minutes": 0,
        "reference": True,
    }
    off = plain | {
        "offset_ms": offset,
        "zone_shift_minutes": zone,
        "uncertainty_ms": doubt,
        "reference": False,
    }
    rows = ({"node": "broker-1"} | plain, {"node": "broker-2"} | off | more)
    clocks = Clocks({"broker-2": float(offset or 0)}, {"broker-2": zone}, rows)
    events = [event(second, "broker-2", "partition_state") for second in (5, 6)]
    return list(find_skew(case(folder, events=events, clocks=clocks)))


@pytest.mark.parametrize(
    ("offset", "severity"),
    [(1001, "low"), (4999, "low"), (5000, "medium"), (-5000, "medium"), (-1001, "low")],
)
def test_a_clock_that_is_off_by_more_than_a_second_is_told(
    offset: int, severity: str, tmp_path: Path
) -> None:
    [found] = skews(tmp_path, offset)

    assert (severity, [2], "drift", offset) == (
        found.severity,
        found.brokers,
        found.measures["kind"],
        found.measures["offset_ms"],
    )
    assert ("ahead" if offset > 0 else "behind") in found.title
    assert len(found.evidence) == 2


@pytest.mark.parametrize(
    ("offset", "more"), [(1000, {}), (3000, {"doubt": 3000}), (None, {}), (9000, {"anchors": 0})]
)
def test_a_clock_that_may_be_right_is_not(
    offset: int | None, more: dict[str, int], tmp_path: Path
) -> None:
    assert skews(tmp_path, offset, **more) == []


def test_a_zone_of_its_own_is_told_and_is_no_incident(tmp_path: Path) -> None:
    [found] = skews(tmp_path, 0, -300)

    assert (
        found.severity,
        found.measures["kind"],
        found.measures["zone_shift_minutes"],
    ) == ("low", "zone", -300)
    assert "-5 h" in found.title


def test_a_clock_that_was_set_anew_is_told_with_the_moment(tmp_path: Path) -> None:
    steps = [{"at": 1_795_000_000 * SECOND, "ms": -20_000}]
    [found] = skews(tmp_path, -20_000, kind="step", steps=steps)

    assert (found.severity, found.measures["kind"]) == ("medium", "step")
    assert "set back by 20.0 s at 11:06:40" in found.title
    assert "set anew" in found.explanation


def test_a_clock_that_runs_fast_is_told_with_its_rate(tmp_path: Path) -> None:
    [found] = skews(tmp_path, 6_000, kind="drift", drift_ppm=200.0)

    assert (
        found.severity,
        found.measures["kind"],
        found.measures["drift_ppm"],
    ) == ("medium", "drift", 200.0)
    assert "6.0 s ahead, running 720 ms an hour too fast" in found.title


def test_a_zone_that_all_share_is_not_told(tmp_path: Path) -> None:
    rows = tuple(
        {
            "node": f"broker-{n}",
            "offset_ms": 0,
            "uncertainty_ms": 1,
            "anchors": 9,
            "zone_shift_minutes": 60,
        }
        for n in (1, 2)
    )

    assert list(find_skew(case(tmp_path, clocks=Clocks({}, {}, rows)))) == []


def test_a_node_without_a_line_to_show_is_not_accused(tmp_path: Path) -> None:
    row = {
        "node": "app",
        "offset_ms": 9000,
        "uncertainty_ms": 1,
        "anchors": 9,
        "zone_shift_minutes": 0,
    }

    assert list(find_skew(case(tmp_path, clocks=Clocks({"app": 9000.0}, {}, (row,))))) == []


def churn(folder: Path, *begins: float, owners: tuple[int, ...] = (1, 2)) -> list[Finding]:
    """Give the findings for controllers that take turns; the first one only begins."""
    reigns = [
        reign(f"controller-{owners[n % len(owners)]}", owners[n % len(owners)], n, begin)
        for n, begin in enumerate((0.0, *begins))
    ]
    return list(find_churn(case(folder, controllers=reigns)))


def test_three_changes_within_ten_minutes_are_churn(tmp_path: Path) -> None:
    [found] = churn(tmp_path, 100, 300, 700)

    assert found.measures == {
        "changes": 3,
        "epochs": [1, 2, 3],
        "lost_by": ["controller-1", "controller-2"],
        "how": ["unknown"],
        "vacant_s": 0.0,
        "longest_s": 0.0,
        "delayed_partitions": 0,
        "waiting_isr_changes": 0,
    }
    assert (found.severity, found.begin, found.end) == ("medium", 100 * SECOND, 700 * SECOND)
    assert [place["line"] for place in found.evidence] == [1, 2, 3]


@pytest.mark.parametrize(
    "begins", [(), (100,), (100, 200), (100, 300, 700.001), (100, 701, 1302, 1903, 2504)]
)
def test_fewer_or_slower_changes_are_not(begins: tuple[float, ...], tmp_path: Path) -> None:
    assert churn(tmp_path, *begins) == []


def test_a_controller_that_follows_itself_did_not_change(tmp_path: Path) -> None:
    assert churn(tmp_path, 100, 200, 300, 400, owners=(1,)) == []


def test_two_runs_of_changes_are_two_findings(tmp_path: Path) -> None:
    found = churn(tmp_path, 100, 200, 300, 5000, 5100, 5200)

    assert [one.measures["changes"] for one in found] == [3, 3]
