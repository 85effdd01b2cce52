"""What Kafka promises: breaches are seen, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.elections import ControllerActions
from forensics.history.partitions.fold import FoldContext
from tests.history.log_lines import NO_CLOCKS, SECOND, event, fold
from tests.history.partitions.test_fold import sample

Row = dict[str, Any]


def state(second: float, node: int, leader: int, epoch: int, version: int, **more: Any) -> Row:
    facts: Row = {"leader": leader, "leader_epoch": epoch, "partition_epoch": version}
    return event(second, f"broker-{node}", **(facts | more))


def breaches(
    *events: Row, away: Sequence[Absence] = (), moves: ControllerActions | None = None
) -> list[Row]:
    known = FoldContext(
        NO_CLOCKS,
        StartupWindows({}, {}),
        tuple(away),
        elr=False,
        kraft=True,
        actions=moves or ControllerActions(),
    )
    return [row for row in fold(events, known) if row["table"] == "breaches"]


def names(*events: Row, **more: Any) -> list[str]:
    return [row["invariant"] for row in breaches(*events, **more)]


FIRST = state(1, 1, 1, 0, 0, isr=[1, 2], replicas=[1, 2, 3])


def test_a_quiet_partition_breaks_nothing() -> None:
    assert [] == names(FIRST, state(9, 2, 2, 1, 1, isr=[2], replicas=[1, 2, 3]))


def test_an_epoch_that_falls_is_a_breach_with_both_lines() -> None:
    [found] = breaches(FIRST, state(5, 2, 2, 4, 5), state(9, 3, 3, 3, 6))

    assert "epochs never fall" == found["invariant"]
    assert "leader epoch 3 at partition epoch 6 comes after leader epoch 4 at 5" == found["detail"]
    assert [50, 90] == [place["line"] for place in found["evidence"]]
    assert found["alone"] is False


def test_clocks_do_not_make_an_epoch_fall() -> None:
    """The partition's own count orders its states, not the time of day."""
    assert [] == names(state(100, 1, 1, 0, 0), state(30, 2, 2, 1, 1), state(50, 1, 1, 2, 2))


def test_two_leaders_in_one_epoch_are_a_breach_with_both_lines() -> None:
    [found] = breaches(FIRST, state(5, 2, 2, 0, 0, isr=[2]))

    assert "one leader per epoch" == found["invariant"]
    assert "epoch 0 is said to be led by 1 and by 2" == found["detail"]
    assert [10, 50] == [place["line"] for place in found["evidence"]]


@pytest.mark.parametrize(("begin", "end", "alone"), [(0, 4, True), (65.1, 70, False)])
def test_a_node_that_hung_may_have_spoken_of_the_past(
    begin: float, end: float, alone: bool
) -> None:
    hung = Absence(2, "pause", int(begin * SECOND), int(end * SECOND), ())
    [found] = breaches(FIRST, state(5, 2, 2, 0, 0), away=[hung])

    assert alone is found["alone"]


def test_two_nodes_that_say_so_are_not_one_that_hung() -> None:
    hung = Absence(2, "pause", 0, 4 * SECOND, ())
    said = [state(5, 2, 2, 0, 0), state(5, 3, 2, 0, 0), FIRST, state(2, 4, 1, 0, 0)]

    assert [False] == [row["alone"] for row in breaches(*said, away=[hung])]


def test_an_isr_outside_the_replicas_is_a_breach() -> None:
    bare = state(5, 2, 1, 0, 0, isr=[1, 4])

    assert ["ISR within replicas"] == names(FIRST, bare)
    assert [[50, 10]] == [[one["line"] for one in row["evidence"]] for row in breaches(FIRST, bare)]
    assert ["ISR within replicas"] == names(state(5, 1, 1, 0, 0, isr=[1, 4], replicas=[1, 2]))


def test_replicas_of_another_state_do_not_count() -> None:
    assert [] == names(FIRST, state(9, 1, 1, 0, 1, isr=[1, 2, 4]))


def test_a_leader_outside_its_isr_is_a_breach_unless_it_was_elected_uncleanly() -> None:
    said: Row = {"isr": [2], "replicas": [1, 2]}

    assert ["leader in ISR"] == names(state(5, 1, 1, 3, 4, **said))
    assert [] == names(state(5, 1, 1, 3, 4, recovery="RECOVERING", **said))
    assert [] == names(state(5, 1, -1, 3, 4, **said))


@pytest.mark.parametrize(("mark", "broken"), [(70, []), (71, ["high watermark within log"])])
def test_the_high_watermark_lies_in_the_log(mark: int, broken: list[str]) -> None:
    assert broken == names(state(5, 1, 1, 0, 0, log_end=70, high_watermark=mark))


def test_a_promise_that_is_broken_often_is_told_a_few_times_with_the_count() -> None:
    rows = [state(n, 1, 1, n, n, log_end=1, high_watermark=2) for n in range(1, 9)]

    assert [8, 8, 8] == [row["count"] for row in breaches(*rows)]


OLD = [FIRST, state(5, 2, 2, 4, 7, isr=[2, 3], replicas=[2, 3])]
NEW = [
    state(500, 3, 3, 0, 0, isr=[3, 4], replicas=[3, 4]),
    state(600, 4, 4, 1, 1, isr=[4], replicas=[3, 4]),
]


def test_a_topic_that_was_deleted_and_created_again_is_another() -> None:
    deleted = event(300, "broker-2", "log_deleted")

    assert [] == names(*OLD, deleted, *NEW)


def test_its_deletion_may_be_told_by_the_controller_alone() -> None:
    assert [] == names(*OLD, *NEW, moves=ControllerActions(deletions={"t": [300 * SECOND]}))
    assert names(*OLD, *NEW, moves=ControllerActions(deletions={"other": [300 * SECOND]}))


def test_epochs_that_begin_again_tell_it_too() -> None:
    again = state(500, 2, 3, 0, 0, log_end=0)

    assert [] == names(*OLD, again, *NEW)


def test_within_each_of_the_two_the_promises_hold() -> None:
    deleted = event(300, "broker-2", "log_deleted")

    assert ["one leader per epoch"] == names(*OLD, deleted, *NEW, state(700, 1, 3, 1, 1))


def test_the_order_of_events_does_not_matter() -> None:
    said = [FIRST, state(5, 2, 2, 0, 0), state(6, 3, 3, 0, 1), state(7, 3, 3, 2, 2)]

    assert breaches(*said) == breaches(*said[::-1])


def test_no_recorded_partition_breaks_a_promise() -> None:
    partitions, known = sample()

    for rows in partitions:
        assert [] == [row for row in fold(rows, known) if row["table"] == "breaches"]
