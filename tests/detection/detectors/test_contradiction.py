"""Broken promises: one finding for each, with both lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.detection.detectors.contradiction import find
from forensics.history.nodes.broker_states import EvidenceRow
from forensics.history.nodes.controller_terms import EpochConflict
from tests.detection.cases import SECOND, case, row

Row = dict[str, Any]


def breach(second: float = 10, **more: Any) -> Row:
    places = [{"file": "broker-9/server.log", "line": int(second * 10) + at} for at in (0, 1)]
    plain: Row = {
        "topic": "t",
        "partition": 0,
        "invariant": "one leader per epoch",
        "detail": "epoch 4 is said to be led by 1 and by 2",
        "leader_epoch": 4,
        "started_at": int(second * SECOND),
        "count": 1,
        "alone": False,
        "evidence": places,
    }
    return row("breaches", **(plain | more))


def test_a_broken_promise_is_a_finding_with_both_lines(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, breaches=[breach()]))

    assert (found.severity, found.confidence, found.partitions) == ("medium", "possible", ["t-0"])
    assert sorted(place["line"] for place in found.evidence) == [100, 101]
    assert "epoch 4 is said to be led by 1 and by 2" in found.title
    assert (found.measures["invariant"], found.measures["breaches"]) == ("one leader per epoch", 1)


def test_a_node_that_hung_is_believed_less(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, breaches=[breach(alone=True)]))

    assert (found.severity, found.confidence) == ("low", "possible")
    assert "hung" in found.explanation


def test_each_promise_is_one_finding_for_all_partitions(tmp_path: Path) -> None:
    rows = [
        breach(count=7),
        breach(12, count=7),
        breach(20, partition=1, count=2),
        breach(30, invariant="epochs never fall", detail="it falls"),
    ]
    falls, leaders = find(case(tmp_path, breaches=rows))

    assert (falls.measures["invariant"], falls.measures["breaches"]) == ("epochs never fall", 1)
    assert (leaders.measures["breaches"], leaders.partitions) == (9, ["t-0", "t-1"])
    assert leaders.title.endswith("and 1 partition more")
    assert (leaders.begin, leaders.end) == (10 * SECOND, 20 * SECOND)


def test_two_controllers_of_one_epoch_are_a_contradiction(tmp_path: Path) -> None:
    places: tuple[EvidenceRow, ...] = tuple(
        {"file": f"c-{at}", "line": at, "text": "", "rule": None, "at": at * SECOND, "what": None}
        for at in (5, 9)
    )
    [found] = find(case(tmp_path, rivalries=[EpochConflict(4, (1, 2), (places[0], places[1]))]))

    assert (found.severity, found.begin, found.end) == ("medium", 5 * SECOND, 9 * SECOND)
    assert found.measures["epoch"] == 4


def test_no_breach_is_no_finding(tmp_path: Path) -> None:
    assert list(find(case(tmp_path))) == []
