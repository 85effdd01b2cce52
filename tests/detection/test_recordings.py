"""What an expert says of whole recorded clusters: which detectors fire, how loudly, and no others.

Three of the recordings are samples of this project. The others are larger and lie elsewhere: name
their folder in KAFKA_RECORDINGS to have them read too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from forensics.detection.registry import detect
from forensics.detection.runner import DetectionResults
from forensics.sandbox import run_archives
from forensics.settings import SEVERITIES
from tests.recorded_runs import SAMPLES, read_recording

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ELSEWHERE = Path(os.environ.get("KAFKA_RECORDINGS", ROOT.parent / "shared/recordings"))

# Above info: the worst that each detector says.
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "430-quiet": {"truncation": "low"},
    "391-rolling": {"truncation": "low"},
    "430-unclean": {
        "client-config": "low",
        "unclean-election": "critical",
        "offline-partitions": "high",
        "broker-restart": "medium",
        "config-risk": "low",
        "truncation": "low",
    },
    "282-unclean": {
        "client-config": "low",
        "unclean-election": "critical",
        "controller-lost": "low",
        "offline-partitions": "high",
        "broker-restart": "medium",
        "config-risk": "low",
        "truncation": "low",
        "under-min-isr": "low",
    },
    "430-flapping": {
        "client-config": "low",
        "flapping-broker": "high",
        "truncation": "low",
        "offline-partitions": "medium",
    },
    "282-flapping": {
        "client-config": "low",
        "flapping-broker": "high",
        "offline-partitions": "medium",
        "under-min-isr": "medium",
        "session-expiry": "low",
        "truncation": "low",
    },
    "391-controllers": {
        "client-config": "low",
        "broker-restart": "medium",
        "controller-churn": "medium",
        "truncation": "low",
        "offline-partitions": "high",
    },
    "430-slow-skew": {
        "client-config": "low",
        "flapping-broker": "high",
        "clock-skew": "medium",
        "isr-storm": "low",
        "truncation": "low",
        "offline-partitions": "medium",
    },
}
# All of them end by themselves within seconds; each was tied by hand to what was done.
CAUSES: Mapping[str, Mapping[str, int]] = {
    "430-quiet": {"controlled_restart": 2, "preferred_election": 2},
    "391-rolling": {"controlled_restart": 2, "preferred_election": 3},
    "430-unclean": {"preferred_election": 4},
    "282-unclean": {"preferred_election": 5},
    "430-flapping": {"flapping": 3, "preferred_election": 6},
    "282-flapping": {"flapping": 2, "preferred_election": 2},
    "391-controllers": {"broker_crash": 4},
    "430-slow-skew": {"flapping": 1, "none_seen": 1, "preferred_election": 2},
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], DetectionResults]:
    known: dict[str, DetectionResults] = {}

    def give(name: str) -> DetectionResults:
        if name not in known:
            logs = logs_of(name)
            if logs.is_relative_to(SAMPLES):
                found = read_recording(tmp_path_factory, name)
            else:
                found = run_archives([str(logs)], tmp_path_factory.mktemp(name))
            known[name] = detect(found.tables, found.past)
        return known[name]

    return give


def logs_of(name: str) -> Path:
    places = [*(ROOT / "sample_logs" / name).glob("logs*"), ELSEWHERE / name / "logs"]
    for place in places:
        if place.exists():
            return place
    pytest.skip(f"THE RECORDING {name} IS NOT HERE: its findings are not checked ({ELSEWHERE})")


@pytest.mark.parametrize("name", EXPECTED)
def test_detectors_say_what_an_expert_would(
    name: str, answers: Callable[[str], DetectionResults]
) -> None:
    worst: dict[str, str] = {}
    for one in answers(name).findings:
        level = max(worst.get(one.detector, "info"), one.severity, key=SEVERITIES.index)
        worst[one.detector] = level

    assert EXPECTED[name] == {who: level for who, level in worst.items() if level != "info"}


@pytest.mark.parametrize("name", CAUSES)
def test_each_burst_of_stale_metadata_has_the_cause_that_was_done(
    name: str, answers: Callable[[str], DetectionResults]
) -> None:
    stale = [one for one in answers(name).findings if one.detector == "stale-metadata"]

    assert CAUSES[name] == Counter(one.measures["cause"] for one in stale)
    assert {"transient"} == {one.measures["verdict"] for one in stale}
    assert {"info"} == {one.severity for one in stale}


@pytest.mark.parametrize("name", EXPECTED)
def test_no_detector_is_blind_where_all_logs_are_there(
    name: str, answers: Callable[[str], DetectionResults]
) -> None:
    blind = {one.detector for one in answers(name).outcomes if one.status == "not_evaluable"}

    # Brokers have only said of future timestamps since 4.1.
    assert blind <= {"future-timestamps"}
