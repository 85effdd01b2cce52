"""Partitions without a leader: an incident, unless their brokers were shut down on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.detectors.offline_partitions import find
from tests.detection.cases import SECOND, absence, case, epoch


def offline(
    begin: float | None, end: float | None, partition: int = 0, **more: Any
) -> dict[str, Any]:
    """Make an epoch without a leader, after broker 1."""
    return epoch(
        4, -1, begin, end, **({"partition": partition, "previous_leader": 1, "clean": None} | more)
    )


def test_partitions_that_have_leaders_are_no_finding(tmp_path: Path) -> None:
    assert list(find(case(tmp_path, leadership=[epoch(0, 1, 1, 9), epoch(1, None, 9)]))) == []


def test_a_stroke_is_one_finding_with_all_its_partitions(tmp_path: Path) -> None:
    rows = [offline(100, 107, 10), offline(101, 104.5, 9)]

    [found] = find(case(tmp_path, leadership=rows))

    assert found.measures == {
        "partitions": 2,
        "partition_seconds": 10.5,
        "longest_s": 7.0,
        "still": 0,
    }
    assert found.to_json()["partitions"] == ["t-9", "t-10"]
    assert (found.begin, found.end, found.brokers) == (100 * SECOND, 107 * SECOND, [1])
    assert len(found.evidence) == 2


@pytest.mark.parametrize(("second", "strokes"), [(160, 1), (160.001, 2)])
def test_strokes_are_parted_by_more_than_a_minute(
    second: float, strokes: int, tmp_path: Path
) -> None:
    rows = [offline(100, 107), offline(second, second + 1, 1)]

    assert strokes == len(list(find(case(tmp_path, leadership=rows))))


@pytest.mark.parametrize(
    ("end", "severity"), [(105, "medium"), (105.001, "high"), (None, "critical")]
)
def test_the_longer_the_worse(end: float | None, severity: str, tmp_path: Path) -> None:
    [found] = find(case(tmp_path, leadership=[offline(100, end)]))

    assert severity == found.severity
    assert (10_000 * SECOND if end is None else int(end * SECOND)) == found.end


def test_a_loss_without_a_time_begins_where_it_ends_at_the_latest(tmp_path: Path) -> None:
    line = {"file": "broker-9/state-change.log", "line": 7}
    told = [epoch(5, 2, 107, evidence=[line])]
    rows = [offline(None, 107, evidence=[line]), *told]

    [found] = find(case(tmp_path, leadership=rows))

    assert (found.begin, found.measures["longest_s"]) == (107 * SECOND, 0.0)


@pytest.mark.parametrize(
    ("kind", "severity"), [("controlled", "info"), ("crash", "high"), ("pause", "high")]
)
def test_only_a_planned_stop_of_the_leader_excuses(
    kind: str, severity: str, tmp_path: Path
) -> None:
    found = find(case(tmp_path, leadership=[offline(100, 120)], away=[absence(1, kind, 99, 119)]))

    assert [severity] == [one.severity for one in found]


@pytest.mark.parametrize(
    ("begin", "end", "severity"),
    [
        (110, 130, "info"),
        (110.001, 130, "high"),
        (50, 100, "info"),
        (50, 99, "high"),
        (50, None, "info"),
    ],
)
def test_the_stop_must_be_near(
    begin: float, end: float | None, severity: str, tmp_path: Path
) -> None:
    """Brokers that stop together do not say so in the same second."""
    away = [absence(1, "controlled", begin, end)]

    assert [severity] == [
        one.severity for one in find(case(tmp_path, leadership=[offline(100, 120)], away=away))
    ]


def test_the_stop_of_another_broker_excuses_nothing(tmp_path: Path) -> None:
    away = [absence(2, "controlled", 99, 119)]

    assert [
        one.severity for one in find(case(tmp_path, leadership=[offline(100, 120)], away=away))
    ] == ["high"]


def test_planned_and_unplanned_ones_of_one_stroke_are_told_apart(tmp_path: Path) -> None:
    rows = [offline(100, 120), offline(101, 120, 1, previous_leader=2)]
    found = find(case(tmp_path, leadership=rows, away=[absence(1, "controlled", 99, 119)]))

    assert [(one.severity, one.partitions) for one in found] == [
        ("info", ["t-0"]),
        ("high", ["t-1"]),
    ]


@pytest.mark.parametrize(("stopping", "severity"), [((1, 2), "info"), ((1,), "high")])
def test_without_a_known_leader_all_who_could_have_led_must_be_stopping(
    stopping: tuple[int, ...], severity: str, tmp_path: Path
) -> None:
    row = offline(100, 120, previous_leader=None, previous_isr=[1, 2])
    away = [absence(broker, "controlled", 99, 119) for broker in stopping]

    assert [severity] == [one.severity for one in find(case(tmp_path, leadership=[row], away=away))]
