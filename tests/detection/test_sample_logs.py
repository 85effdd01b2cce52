"""What clients suffer in sample_logs/ is found there, with the severity that an expert would give.

Each of these recordings is about one thing that goes wrong; what was done stands in its truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors import detectors
from forensics.run_output.findings import Finding
from tests.recorded_runs import read_recording

SAMPLES = Path(__file__).parents[2] / "sample_logs"
MINE = (
    "authentication-failures",
    "client-disconnects",
    "connection-storm",
    "offset-reset",
    "out-of-order-sequence",
    "producer-fatal",
    "rebalance-storm",
    "record-too-large",
    "serialization-errors",
    "stale-metadata",
    "unreachable-listener",
)
Found = Mapping[str, list[Finding]]


def _folder(name: str) -> Path:
    return next(one for one in (SAMPLES / name).iterdir() if one.name.startswith("logs"))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Read a sample once, and ask the detectors of what clients suffer."""
    known: dict[str, Found] = {}

    def of(name: str) -> Found:
        if name not in known:
            case: DetectionContext = read_recording(tmp_path_factory, name).context()
            known[name] = {
                one.name: sorted(one.find(case), key=lambda found: (found.begin, found.id))
                for one in detectors()
                if one.name in MINE
            }
        return known[name]

    return of


def _short(client: str) -> str:
    """Name a client by its folder, whatever its log gives it for a name."""
    return client.partition("#")[0].removesuffix("/client.log").rpartition("/")[2]


def _expected(name: str, detector: str) -> list[dict[str, Any]]:
    truth = json.loads((SAMPLES / name / "truth" / "run.json").read_text())
    return [one for one in truth["expect"] if one["detector"] == detector]


def _loud(found: Found) -> set[str]:
    return {
        name
        for name, every in found.items()
        for one in every
        if one.severity not in ("info", "low")
    }


def test_a_group_that_polls_too_seldom_and_one_that_is_started_again_and_again(
    findings: Any,
) -> None:
    found = findings("391-rebalances")

    storms = {one.measures["group"]: one for one in found["rebalance-storm"]}
    wanted = {one["group"]: one["cause"] for one in _expected("391-rebalances", "rebalance-storm")}
    assert wanted == {group: one.measures["cause"] for group, one in storms.items()}
    assert {"medium"} == {one.severity for one in storms.values()}
    assert {"app-invoice1", "app-invoice2", "app-invoice3"} == set(storms["invoicing"].clients)
    assert 12 <= storms["thumbnails"].measures["rebalances"] <= 24
    assert {"rebalance-storm"} == _loud(found)


def test_records_that_are_too_large_and_the_setting_that_says_so(findings: Any) -> None:
    found = findings("430-too-large")

    limits = {
        _short(client): (one.measures["limit"], one.severity)
        for one in found["record-too-large"]
        for client in one.clients
    }
    wanted = {
        client: (one["limit"], one.get("severity", "medium"))
        for one in _expected("430-too-large", "record-too-large")
        for client in one["clients"]
    }
    # And Kafka's own tool, once.
    assert wanted | {"console-producer": ("max.request.size", "low")} == limits
    assert {"record-too-large"} == _loud(found)


def test_positions_that_were_gone_and_why(findings: Any) -> None:
    found = findings("282-expired-offsets")

    resets = {one.measures["group"]: one for one in found["offset-reset"]}
    wanted = _expected("282-expired-offsets", "offset-reset")
    assert {one["group"]: (one["topic"], one["cause"]) for one in wanted} == {
        group: (one.measures["topic"], one.measures["cause"]) for group, one in resets.items()
    }
    assert {"medium"} == {one.severity for one in resets.values()}
    assert "consumer fails" == resets["audit"].measures["ends"]
    assert 3 == resets["audit"].measures["times"]
    assert 900 < resets["report"].measures["skipped"] < 1100
    assert {"offset-reset"} == _loud(found)


def test_a_deleted_topic_a_misspelt_one_and_one_that_was_made_again(findings: Any) -> None:
    found = findings("362-deleted-topic")

    stale = {one.clients[0]: one for one in found["stale-metadata"]}
    assert {
        "app-sessions": ("stuck", "none_seen", "topic_deleted", "medium"),
        "app-report": ("stuck", "none_seen", "topic_deleted", "medium"),
        "app-typo": ("stuck", "none_seen", "topic_unknown", "medium"),
        "app-carts": ("transient", "none_seen", "topic_recreated", "info"),
    } == {
        client: (*(one.measures[key] for key in ("verdict", "cause", "suspect")), one.severity)
        for client, one in stale.items()
    }
    assert {"stale-metadata"} == _loud(found)


def test_wrong_advertised_listeners_are_not_taken_for_dead_brokers(findings: Any) -> None:
    found = findings("430-listener")

    unreachable = {one.brokers[0]: one for one in found["unreachable-listener"]}
    wanted = {
        one["brokers"][0]: one["advertised"]
        for one in _expected("430-listener", "bootstrap-trouble")
    }
    assert wanted == {broker: one.measures["address"] for broker, one in unreachable.items()}
    assert {1: "unresolved", 2: "refused"} == {
        broker: one.measures["how"] for broker, one in unreachable.items()
    }
    for one in unreachable.values():
        assert "medium" == one.severity
        assert {"app-rd", "app-stock", "app-web"} == set(map(_short, one.clients))
        assert one.measures["advertised"]
    assert {"unreachable-listener"} == _loud(found)


def test_clients_of_brokers_that_stall_have_bursts_that_are_expected(findings: Any) -> None:
    found = findings("282-stalls")

    assert {"info"} == {one.severity for one in found["stale-metadata"]}
    crashed = [one for one in found["stale-metadata"] if one.measures["cause"] == "broker_crash"]
    assert {"app-orders", "app-billing"} == {one.clients[0] for one in crashed}
    assert set() == _loud(found)


@pytest.mark.parametrize("name", ["391-rolling", "391-failed-disk"])
def test_clients_suffer_nothing_worth_a_morning_where_they_are_well(
    name: str, findings: Any
) -> None:
    found = findings(name)

    assert set() == _loud(found)
    causes = {one.measures["cause"] for one in found["stale-metadata"]}
    assert causes <= {"controlled_restart", "preferred_election", "reassignment"}


def test_each_burst_of_a_rolling_restart_has_the_cause_of_its_own_action(findings: Any) -> None:
    """Stops at 11:41:17, 11:41:48, 11:42:20; leaders go back, by hand at 11:42:49."""
    bursts = [
        (one.clients[0], one.measures["errors"], one.measures["cause"])
        for one in findings("391-rolling")["stale-metadata"]
    ]

    assert [
        ("app-billing", 4, "controlled_restart"),
        ("app-billing", 5, "controlled_restart"),
        ("app-orders", 1, "preferred_election"),
        ("app-billing", 9, "preferred_election"),
        ("app-orders", 10, "preferred_election"),
    ] == bursts
