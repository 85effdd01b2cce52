"""A card on stale metadata names the finding that tells why its leaders moved, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.detection.causality.chains import explain_moves
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

LINE = {"file": "a", "line": 1, "text": "x"}


def finding(detector: str, begin: float, end: float, **more: Any) -> Finding:
    first, last = int(begin * SECOND), int(end * SECOND)
    return Finding(detector, "info", "likely", f"about {detector}", first, last, [LINE], **more)


def stale(cause: str = "broker_crash", **more: Any) -> Finding:
    measures = {"cause": cause, "led_before": [1], "led_since": "1970-01-01T00:01:40.000Z"}
    facts = {"measures": measures, "partitions": ["t-0"], "brokers": [1], "explanation": "It was."}
    return finding("stale-metadata", 101, 102, **(facts | more))


def test_the_crash_of_the_former_leader_explains_it() -> None:
    crash = finding("broker-restart", 95, 130, brokers=[1])
    told, other = explain_moves([stale(), crash])

    assert other == crash
    assert told.measures["explained_by"] == crash.id
    assert told.explanation == (
        f"It was. Why the leaders moved: finding {crash.id} (about broker-restart)."
    )


@pytest.mark.parametrize(
    ("cause", "other"),
    [
        ("broker_crash", finding("broker-restart", 95, 130, brokers=[2])),
        ("broker_crash", finding("broker-restart", 10, 69.9, brokers=[1])),
        ("broker_crash", finding("clock-skew", 95, 130, brokers=[1])),
        ("preferred_election", finding("broker-restart", 95, 130, brokers=[1])),
        ("none_seen", finding("broker-restart", 95, 130, brokers=[1])),
        ("unclean_election", finding("unclean-election", 95, 130, partitions=["t-1"], brokers=[1])),
    ],
    ids=["another broker", "long before", "another kind", "planned", "no move", "partition"],
)
def test_what_is_near_in_time_only_explains_nothing(cause: str, other: Finding) -> None:
    told, _ = explain_moves([stale(cause), other])

    assert told.explanation == "It was."


def test_an_unclean_election_is_found_by_its_partitions() -> None:
    unclean = finding("unclean-election", 99, 100, partitions=["t-0", "t-1"], brokers=[2])
    told, _ = explain_moves([stale("unclean_election"), unclean])

    assert told.measures["explained_by"] == unclean.id
