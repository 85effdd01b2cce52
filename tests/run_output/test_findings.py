"""A finding rests on evidence, keeps its name between runs, and stands in one order."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from forensics.run_output.findings import Finding, sort_findings

PLACE = {"file": "a.log", "line": 7, "text": "x", "at": 5}


def finding(severity: str = "high", begin: int = 1_000_000, **more: Any) -> Finding:
    plain = Finding("flapping-broker", severity, "confirmed", "It flaps", begin, begin, [PLACE])
    return replace(plain, **more)


def test_a_finding_without_evidence_cannot_be_made() -> None:
    with pytest.raises(
        ValueError, match="flapping-broker: a finding without evidence says nothing"
    ):
        finding(evidence=[])


@pytest.mark.parametrize("more", [{"severity": "grave"}, {"confidence": "sure"}])
def test_severities_and_confidences_are_those_of_the_contract(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no such severity or confidence"):
        finding(**more)


def test_an_id_does_not_change_with_words_or_within_a_second() -> None:
    one = finding(brokers=[2, 1], partitions=["b-0", "a-0"])
    same = finding("low", 1_900_000, title="Other words", brokers=[1, 2], partitions=["a-0", "b-0"])

    assert one.id == same.id
    assert "F-38a17577" == finding().id


@pytest.mark.parametrize(
    "more",
    [
        {"brokers": [2]},
        {"partitions": ["t-0"]},
        {"clients": ["c"]},
        {"begin": 2_000_000},
        {"detector": "x"},
    ],
)
def test_an_id_changes_with_who_and_when(more: dict[str, Any]) -> None:
    assert finding().id != finding(**more).id


def test_the_worst_comes_first_then_the_earliest_then_the_smallest_id() -> None:
    right = [
        finding("critical", 9_000_000),
        finding("high", 1_000_000),
        *sorted(
            (finding("high", 2_000_000, brokers=[n]) for n in range(5)), key=lambda one: one.id
        ),
        finding("medium"),
        finding("low"),
        finding("info", 0),
    ]
    mixed = list(right)
    random.Random(5).shuffle(mixed)

    assert right == sort_findings(mixed)


def test_partitions_are_sorted_by_number() -> None:
    found = finding(partitions=["t-10", "t-9", "a-b-2", "a-b-11"], brokers=[10, 9]).to_json()

    assert ["a-b-2", "a-b-11", "t-9", "t-10"] == found["partitions"]
    assert [9, 10] == found["brokers"]


def test_evidence_is_in_the_order_of_time_once_each_and_not_endless() -> None:
    places = [{"file": "a", "line": n, "text": f"{n}", "at": 100 - n} for n in range(60)]

    found = finding(evidence=places + places).to_json()["evidence"]

    assert list(range(59, 19, -1)) == [place["line"] for place in found]
    assert {"file", "line", "text", "rule"} == set(found[0])
