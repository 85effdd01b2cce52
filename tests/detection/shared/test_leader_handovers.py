"""How long brokers take to take up a new leader, and who led when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.detection.shared.leader_handovers import (
    Handover,
    measure_propagation,
    read_handovers,
    read_leader_terms,
)
from forensics.history.nodes.broker_states import Absence
from tests.detection.cases import SECOND, absence, case, epoch, event

Row = dict[str, Any]
KEY = ("t", 0, 1)


def state(second: float, broker: int | None, number: int = 1, **more: Any) -> Row:
    facts = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": number, "broker": broker}
    node = "controller-1" if broker is None else f"broker-{broker}"
    return event(second, node, "partition_state", **(facts | more))


def handover(folder: Path, *events: Row, since: float = 0) -> Handover:
    found = read_handovers(case(folder, events=events), {KEY: int(since * SECOND)})
    return found.get(KEY, Handover())


def test_of_each_broker_the_first_line_counts(tmp_path: Path) -> None:
    one = handover(tmp_path, state(100, None), state(105, 2), state(103, 2), state(104, 1),
                   state(99, 3, number=0), state(98, 3, topic="u"))  # fmt: skip

    assert one.decided is not None
    assert one.took_over is not None
    assert (one.decided["at"], one.took_over["at"]) == (100 * SECOND, 103 * SECOND)
    assert {broker: row["at"] // SECOND for broker, row in one.brokers.items()} == {2: 103, 1: 104}


def test_a_topic_that_was_made_again_has_the_same_epochs(tmp_path: Path) -> None:
    one = handover(tmp_path, state(10, None), state(11, 2), state(100, None), state(101, 2),
                   since=99)  # fmt: skip

    assert one.begin == 100 * SECOND


def test_the_slowest_broker_that_was_there(tmp_path: Path) -> None:
    one = handover(tmp_path, state(100, None), state(103, 2), state(150, 1))
    away: list[Absence] = [absence(1, "crash", 90, 149)]

    assert one.slowest([], 0) == (1, one.brokers[1], 50 * SECOND)
    assert one.slowest(away, 0) == (2, one.brokers[2], 3 * SECOND)
    # It was there for a while, but may have stood still before it was given up.
    late = [absence(1, "pause", 120, 149)]
    assert one.slowest(late, 9 * SECOND) == (1, one.brokers[1], 11 * SECOND)


def test_one_line_alone_measures_nothing(tmp_path: Path) -> None:
    built = case(tmp_path, events=[state(103, 2)])
    [one] = read_handovers(built, {KEY: 0}).values()

    assert measure_propagation(built, one) is None


def test_clocks_that_nobody_knows_make_nothing_sure(tmp_path: Path) -> None:
    built = case(tmp_path, events=[state(100, None), state(150, 2)])
    [one] = read_handovers(built, {KEY: 0}).values()
    measured = measure_propagation(built, one)

    assert measured is not None
    assert (measured.took, measured.doubt) == (50 * SECOND, None)
    assert not measured.is_surely_over(1)


def test_epochs_of_the_same_leader_are_one_reign(tmp_path: Path) -> None:
    epochs = [epoch(0, 1, 10, 20), epoch(1, 2, 20, 30), epoch(2, 2, 30, 40), epoch(3, -1, 40)]
    found = read_leader_terms(case(tmp_path, leadership=epochs), {"t-0"})

    assert [(one.leader, one.leader_epoch, one.begin, one.end) for one in found["t-0"]] == [
        (1, 0, 10 * SECOND, 20 * SECOND),
        (2, 1, 20 * SECOND, 40 * SECOND),
        (-1, 3, 40 * SECOND, None),
    ]


def test_a_topic_that_was_made_again_has_new_reigns(tmp_path: Path) -> None:
    epochs = [epoch(0, 1, 10, 20), epoch(1, 1, 20, 30), epoch(0, 1, 40)]
    found = read_leader_terms(case(tmp_path, leadership=epochs), {"t-0"})

    begins = [(one.leader_epoch, one.begin, one.end) for one in found["t-0"]]
    assert begins == [(0, 10 * SECOND, 30 * SECOND), (0, 40 * SECOND, None)]
