"""What began an incident, and what it took: held against what was done to recorded clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.causality.trigger import find_trigger
from forensics.detection.detectors import detectors
from forensics.detection.impact import measure_impact
from forensics.detection.runner import DetectionResults, run_detectors
from forensics.history.nodes.broker_states import Span
from forensics.run_output.findings import Finding, PartitionLoss
from tests.detection.cases import SECOND, absence, case, epoch, event, version
from tests.recorded_runs import read_recording

SAMPLES = Path(__file__).parents[3] / "sample_logs"
Told = Mapping[str, Any]
# What each sample's headline may be, and what began it: how, at which node.
TRIGGERS: Mapping[str, tuple[set[str], set[tuple[str, str]]]] = {
    "430-unclean": ({"unclean-election"}, {("crash", "broker-1"), ("crash", "broker-2")}),
    "282-flapping": ({"flapping-broker"}, {("crash", "broker-2"), ("pause", "broker-3")}),
    "391-controllers": (
        {"offline-partitions", "controller-churn"},
        {("crash", "broker-1"), ("crash", "broker-2"), ("crash", "broker-3")},
    ),
    "332-cut-network": ({"isolated-broker", "offline-partitions"}, {("network", "broker-2")}),
    "411-deposed": (
        {"long-pause", "offline-partitions"}, {("pause", "broker-1"), ("pause", "broker-2")},
    ),
    "411-split-link": (
        {"network-partition"}, {("network", "broker-2"), ("network", "broker-3")},
    ),
    "391-rolling": (set(), set()),
}  # fmt: skip
DONE = {"kill": "crash", "pause": "pause", "cut": "network"}


@pytest.fixture(scope="module", params=TRIGGERS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    context = read_recording(tmp_path_factory, request.param).context()
    truth = json.loads((SAMPLES / request.param / "truth/run.json").read_text("utf-8"))
    return request.param, context, run_detectors(context, detectors()), truth["actions"]


@pytest.mark.slow
def test_what_was_done_is_named_and_dated(
    sample: tuple[str, Any, DetectionResults, list[dict[str, Any]]],
) -> None:
    name, _, results, actions = sample
    headlines, wanted = TRIGGERS[name]

    if headlines:
        assert results.findings[0].detector in headlines
    assert {(one["kind"], one["node"]) for one in results.trigger} == wanted
    ids = {finding.id for finding in results.findings}
    for one in results.trigger:
        assert one["finding"] in ids
        assert one["evidence"]
        done = [
            action["t"]
            for action in actions
            if DONE.get(action["do"]) == one["kind"] and action["node"] == one["node"]
        ]
        if done:
            # A broker that hangs is missed when it is to be heard of again, some seconds later.
            assert abs(datetime.fromisoformat(one["at"]).timestamp() - done[0]) <= 2


@pytest.mark.slow
def test_absences_are_of_the_kind_and_the_moment_of_what_was_done(
    sample: tuple[str, Any, DetectionResults, list[dict[str, Any]]],
) -> None:
    _, context, _, actions = sample
    kinds = {"kill": "crash", "pause": "pause", "cut": "isolated", "stop": "controlled"}
    end = next(one["t"] for one in actions if one["do"] == "clients-stopped")
    # A broker that failed to start was dead when it was killed again.
    done = [one for one in actions if one["do"] in kinds and one["t"] < end]
    found = [
        (one.broker, one.kind, one.begin / SECOND)
        for one in context.absences
        if one.begin < end * SECOND
    ]

    for broker, kind, begin in found:
        near = [
            one for one in done if one["node"] == f"broker-{broker}" and abs(one["t"] - begin) <= 2
        ]
        assert [kinds[one["do"]] for one in near] == [kind]


def finding(detector: str, severity: str = "high", **more: Any) -> Finding:
    line = {"file": "broker-1/server.log", "line": 7, "text": "x", "at": 100 * SECOND, "rule": None}
    return Finding(
        detector, severity, "confirmed", detector, 100 * SECOND, 130 * SECOND, [line], **more
    )


def led(leader: int, begin: float, end: float | None, partition: int = 0) -> dict[str, Any]:
    return epoch(leader, leader, begin, end, partition=partition, replicas=[1, 2, 3])


def triggers(
    tmp_path: Path, build: Callable[..., Any], *findings: Finding
) -> list[tuple[str, str, str | None]]:
    folder = tmp_path / findings[0].id if findings else tmp_path
    folder.mkdir(exist_ok=True)
    told = find_trigger(build(folder), findings)
    return [(one["kind"], one["node"], one["finding"]) for one in told]


def test_a_clear_run_has_no_trigger(tmp_path: Path) -> None:
    build = partial(case, away=[absence(1, "controlled", 100, 130)])

    assert triggers(tmp_path, build) == []
    assert find_trigger(build(tmp_path), [finding("broker-restart", "info", brokers=[1])]) == []


def test_only_what_took_these_partitions_away_began_it(tmp_path: Path) -> None:
    """Broker 2 led another partition; broker 3 led nothing."""
    build = partial(
        case,
        leadership=[led(1, 10, 110), epoch(4, -1, 110, 130), led(2, 10, 109, 1)],
        away=[absence(one, "crash", 100, 130) for one in (1, 2, 3)],
    )
    offline = finding("offline-partitions", brokers=[1], partitions=["t-0"])

    assert triggers(tmp_path, build, offline) == [("crash", "broker-1", None)]


def test_who_shrank_the_isr_before_began_it_too(tmp_path: Path) -> None:
    build = partial(
        case,
        leadership=[led(1, 10, 110), epoch(4, -1, 110, 130)],
        isr=[version(1, [1, 2], 10, 90), version(2, [1], 90, 110),
             version(3, [], 110, 130, leader=-1)],
        away=[absence(2, "pause", 80, 140), absence(1, "crash", 100, 130)],
    )  # fmt: skip
    losses = [PartitionLoss(partition="t-0", leader=2)]
    unclean = finding("unclean-election", brokers=[2], partitions=["t-0"], losses=losses)

    assert triggers(tmp_path, build, unclean) == [
        ("pause", "broker-2", None), ("crash", "broker-1", None),
    ]  # fmt: skip


def test_a_pause_that_was_over_began_nothing(tmp_path: Path) -> None:
    """Broker 2 was in sync again before broker 1 went."""
    build = partial(
        case,
        leadership=[led(1, 10, 110), epoch(4, -1, 110, 130)],
        isr=[version(1, [1, 2], 10, 40), version(2, [1], 40, 60), version(3, [1, 2], 60, 90),
             version(4, [1], 90, 110), version(5, [], 110, 130, leader=-1)],
        away=[absence(2, "pause", 30, 55), absence(1, "crash", 100, 130)],
    )  # fmt: skip
    offline = finding("offline-partitions", brokers=[1], partitions=["t-0"])

    assert triggers(tmp_path, build, offline) == [("crash", "broker-1", None)]


def test_a_broker_that_its_disk_took_down_is_the_disks_doing(tmp_path: Path) -> None:
    build = partial(
        case,
        events=[event(99, "broker-1", "log_dir_failed", log_dir="/data")],
        away=[absence(1, "crash", 100, 130)],
    )
    disk = finding("disk-failure", brokers=[1])

    assert triggers(tmp_path, build, disk) == [("disk", "broker-1", disk.id)]


def test_a_stop_long_after_a_disk_failed_is_not_the_disks_doing(tmp_path: Path) -> None:
    """A directory that failed is offline to the end; the broker is shut down with all others."""
    line = event(99, "broker-1", "log_dir_failed", log_dir="/data")
    build = partial(case, events=[line], away=[absence(1, "controlled", 900)])
    disk = replace(finding("disk-failure", brokers=[1]), end=1000 * SECOND)

    assert triggers(tmp_path, build, disk) == [("disk", "broker-1", disk.id)]


def test_a_broker_that_goes_on_without_a_disk_or_an_address_is_named(tmp_path: Path) -> None:
    disk = finding("disk-failure", brokers=[3])
    advertised = finding("unreachable-listener", brokers=[3], measures={"advertised": True})
    unknown = finding("unreachable-listener", brokers=[3], measures={"advertised": False})
    build = partial(case)

    assert triggers(tmp_path, build, disk) == [("disk", "broker-3", disk.id)]
    assert triggers(tmp_path, build, advertised) == [("config", "broker-3", advertised.id)]
    assert triggers(tmp_path, build, unknown) == []


@pytest.mark.parametrize(("waited", "told"), [(2, True), (0, False)])
def test_a_lost_controller_began_it_where_partitions_waited_for_the_next_one(
    tmp_path: Path, waited: int, told: bool
) -> None:
    build = partial(
        case,
        leadership=[led(1, 10, 110), epoch(4, -1, 110, 130)],
        away=[absence(1, "crash", 100, 130)],
    )
    offline = finding("offline-partitions", brokers=[1], partitions=["t-0"])
    lost = finding(
        "controller-lost", measures={"lost_by": ["controller-1"], "delayed_partitions": waited}
    )

    found = {(kind, node) for kind, node, _ in triggers(tmp_path, build, offline, lost)}
    assert found == {("crash", "broker-1")} | ({("controller", "controller-1")} if told else set())


def test_a_zookeeper_that_answers_nobody_began_it_beside_the_crash_meanwhile(
    tmp_path: Path,
) -> None:
    """Brokers 1 and 2 lost their sessions with it; 3 was killed by somebody."""
    build = partial(
        case,
        events=[event(120, f"broker-{one}", "session_expired") for one in (1, 2)],
        leadership=[
            led(1, 10, 120), epoch(4, -1, 120, 125),
            led(3, 10, 115, 1), epoch(4, -1, 115, 130, partition=1),
        ],
        away=[absence(1, "fenced", 118, 125), absence(2, "fenced", 118, 125),
              absence(3, "crash", 110, 140)],
        kraft=False,
    )  # fmt: skip
    offline = finding("offline-partitions", brokers=[1, 3], partitions=["t-0", "t-1"])
    silent = finding("session-expiry", "medium", measures={"kind": "unreachable"})

    assert triggers(tmp_path, build, offline, silent) == [
        ("unknown", "zookeeper", silent.id), ("crash", "broker-3", None),
    ]  # fmt: skip


def test_a_stopped_broker_that_its_settings_keep_down_is_the_settings_doing(
    tmp_path: Path,
) -> None:
    failed = event(
        106, "broker-1", "process_failed",
        error="org.apache.kafka.common.config.ConfigException", detail="Invalid value",
    )  # fmt: skip
    spans = [
        Span(state, at * SECOND, (at + 1) * SECOND)
        for at, state in ((100, "stopping"), (101, "stopped"), (105, "starting"), (106, "crashed"))
    ]
    away = [absence(1, "controlled", 100, None)]
    build = partial(case, events=[failed], away=away, brokers={1: spans})
    restart = finding("broker-restart", brokers=[1])

    assert triggers(tmp_path, build, restart) == [("config", "broker-1", restart.id)]


def test_the_impact_counts_what_nobody_planned(tmp_path: Path) -> None:
    stopped = [led(3, 10, 100.5, 1), led(2, 100.5, None, 1)]
    context = case(
        tmp_path,
        leadership=[led(1, 10, 110), epoch(4, -1, 110, 130), *stopped],
        away=[absence(1, "crash", 100, 140), absence(3, "controlled", 100, 120)],
    )

    assert measure_impact(context, []) == {
        "partitions_unavailable": 1, "partitions": 2, "partition_seconds": 30.0,
        "longest_s": 30.0, "planned_partition_seconds": 0.5, "clients_affected": 0,
        "records_lost_min": 0, "records_lost_max": 0, "unknown_leaders": None,
        "gives_up_early": [],
    }  # fmt: skip


def test_the_shutdown_at_the_end_of_the_logs_is_in_no_figure(tmp_path: Path) -> None:
    away = [absence(one, "controlled", 100) for one in (1, 2, 3)]
    context = case(tmp_path, leadership=[led(1, 10, None)], away=away)

    impact = measure_impact(context, [])
    assert impact["partitions_unavailable"] == 0
    assert (impact["partition_seconds"], impact["planned_partition_seconds"]) == (0.0, 0.0)


def test_records_that_nobody_had_acknowledged_are_not_lost(tmp_path: Path) -> None:
    """Producers with acks=all send them again; those of acks=1 only what nobody acknowledged."""
    cut = PartitionLoss(partition="t-0", lost_records_min=5, lost_records_max=7, cut_on=[1])
    truncated = [finding("truncation", "low", losses=[cut])]
    started = [
        event(50, "app", "client_setting_seen", offset=0, setting=setting, value=value)
        for setting, value in (("acks", "all"), ("client.id", "app"))
    ]
    careless = [row | {"value": "1"} if row["setting"] == "acks" else row for row in started]
    wrote = event(60, "app", "client_error", client="app", topic="t")
    lost = [
        tuple(measure_impact(case(folder, events=rows), truncated)[f"records_lost_{end}"]
              for end in ("min", "max"))
        for folder, rows in (
            (_made(tmp_path / "all"), started), (_made(tmp_path / "one"), [*careless, wrote]),
            (_made(tmp_path / "unknown"), []),
        )
    ]  # fmt: skip

    assert lost == [(0, 0), (0, 7), (0, 7)]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
