"""Partitions without a leader: an incident, unless their brokers were shut down on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.detectors.offline_partitions import find
from tests.detection.cases import SECOND, absence, case, epoch, event, version


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

    assert {name: found.measures[name] for name in ("partitions", "partition_seconds")} == {
        "partitions": 2,
        "partition_seconds": 10.5,
    }
    assert (found.measures["longest_s"], found.measures["still"]) == (7.0, 0)
    assert found.measures["losses"] == 1
    assert found.measures["ways"] == {"no_leader": 2}
    assert found.to_json()["partitions"] == ["t-9", "t-10"]
    assert (found.begin, found.end, found.brokers) == (100 * SECOND, 107 * SECOND, [1])
    assert len(found.evidence) == 2


@pytest.mark.parametrize(("second", "strokes"), [(167, 1), (167.001, 2)])
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


def test_nothing_is_counted_from_a_moment_that_is_not_known(tmp_path: Path) -> None:
    told = epoch(5, 2, 107)

    assert list(find(case(tmp_path, leadership=[offline(None, 107), told]))) == []


def led(begin: float, end: float | None, leader: int = 1, partition: int = 0) -> dict[str, Any]:
    return epoch(leader, leader, begin, end, partition=partition, replicas=[1, 2, 3])


@pytest.mark.parametrize(("kind", "way"), [("crash", "leader_dead"), ("pause", "leader_hung")])
def test_a_leader_that_is_gone_counts_from_when_it_went(
    kind: str, way: str, tmp_path: Path
) -> None:
    rows = [led(10, 109), led(109, None, 2)]
    events = [event(100, "broker-1", "log_rolled", line=1000)]
    away = [absence(1, kind, 100, 120)]

    [found] = find(case(tmp_path, leadership=rows, events=events, away=away))

    assert (found.severity, found.brokers) == ("medium", [1])
    assert (found.begin, found.end) == (100 * SECOND, 109 * SECOND)
    assert found.measures["ways"] == {way: 1}


def test_brokers_whose_sessions_ended_with_zookeeper_did_not_freeze(tmp_path: Path) -> None:
    rows = [led(10, 102, one, one) for one in (1, 2)]
    rows += [led(102, None, 3, one) | {"leader_epoch": 10} for one in (1, 2)]
    events = [event(100 + one / 10, f"broker-{one}", "session_expired") for one in (1, 2, 3)]
    away = [absence(one, "fenced", 100, 103) for one in (1, 2)]

    [found] = find(case(tmp_path, leadership=rows, events=events, away=away, kraft=False))

    assert found.explanation.startswith(
        "Their leaders (brokers 1, 2) were without a session with ZooKeeper until they registered"
        " anew."
    )


@pytest.mark.parametrize(("end", "severity"), [(130, "medium"), (130.001, "high")])
def test_a_failover_may_take_as_long_as_sessions_do(
    end: float, severity: str, tmp_path: Path
) -> None:
    rows = [led(10, end), led(end, None, 2)]

    [found] = find(case(tmp_path, leadership=rows, away=[absence(1, "crash", 100, 160)]))

    assert found.severity == severity


@pytest.mark.parametrize(("crashes", "severity"), [(2, "medium"), (3, "high")])
def test_leaders_that_are_lost_again_and_again_are_worse(
    crashes: int, severity: str, tmp_path: Path
) -> None:
    away = [absence(one, "crash", 100 + 30 * one, 120 + 30 * one) for one in range(1, crashes + 1)]
    rows = [
        row
        for one in range(1, crashes + 1)
        for row in (
            led(10, 109 + 30 * one, one, one),
            led(109 + 30 * one, None, 9, one) | {"leader_epoch": 10},
        )
    ]

    [found] = find(case(tmp_path, leadership=rows, away=away))

    assert (found.severity, found.measures["losses"]) == (severity, crashes)


@pytest.mark.parametrize(("replicas", "severity"), [([1], "info"), ([1, 2], "high")])
def test_a_stop_is_planned_unless_a_live_replica_was_not_in_sync(
    replicas: list[int], severity: str, tmp_path: Path
) -> None:
    row = offline(100, 120, replicas=replicas)

    [found] = find(case(tmp_path, leadership=[row], away=[absence(1, "controlled", 99, 119)]))

    assert found.severity == severity


def test_the_brokers_to_start_are_those_of_the_last_isr(tmp_path: Path) -> None:
    """Broker 3 left long before, and broker 2 lives."""
    rows = [led(10, 100), offline(100, None, leader_epoch=4)]
    isr = [version(1, [1, 2, 3], 10, 50), version(2, [1, 2], 50, 100)]
    away = [absence(1, "crash", 100), absence(3, "crash", 40)]

    [found] = find(case(tmp_path, leadership=rows, isr=isr, away=away))

    assert found.actions[1].startswith("Start the brokers that were last in sync: 1. ")


def test_a_broker_whose_disk_failed_is_not_to_be_started(tmp_path: Path) -> None:
    rows = [led(10, 100), offline(100, None, leader_epoch=4)]
    events = [event(99, "broker-1", "log_dir_failed", log_dir="/data")]
    isr = [version(1, [1], 10, 100)]

    [found] = find(
        case(tmp_path, leadership=rows, isr=isr, events=events, away=[absence(1, "crash", 100)])
    )

    assert found.actions[1].startswith("Do not run an unclean election")
