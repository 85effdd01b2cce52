"""Topics of one name that were deleted and created again are told apart, each with its history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.elections import ControllerActions
from forensics.history.partitions.fold import FoldContext
from tests.history.log_lines import NO_CLOCKS, SECOND, event, fold

Row = dict[str, Any]
KRAFT = FoldContext(NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=True)
ZOOKEEPER = replace(KRAFT, kraft=False)
OLD, NEW = "OLD-4567890123456789-A", "NEW-4567890123456789-B"


def leads(second: float, leader: int, epoch: int, version: int | None = None, **more: Any) -> Row:
    facts: Row = {"leader": leader, "leader_epoch": epoch, "partition_epoch": version}
    return event(second, f"broker-{leader}", **facts, **more)


def deleted(context: FoldContext, *seconds: float) -> FoldContext:
    """Make a cluster in which the topic was deleted at some moments."""
    moments = [int(second * SECOND) for second in seconds]
    return replace(context, actions=ControllerActions(deletions={"t": moments}))


def history(
    *rows: Row, context: FoldContext = KRAFT, table: str = "leadership"
) -> list[tuple[Any, ...]]:
    number = "leader_epoch" if table == "leadership" else "partition_epoch"
    return [
        (
            row["incarnation"],
            row[number],
            row["leader"],
            None if row["started_at"] is None else row["started_at"] / SECOND,
            None if row["ended_at"] is None else row["ended_at"] / SECOND,
        )
        for row in fold(rows, context)
        if row["table"] == table
    ]


FIRST = (leads(10, 1, 0, 0), leads(20, 2, 1, 1), leads(30, 3, 2, 2))
AGAIN = (leads(50, 2, 0, 0), leads(60, 1, 1, 1))
# Broker 2 and broker 1 led before, so epochs fall for both.
APART = [
    (0, 0, 1, 10, 20), (0, 1, 2, 20, 30), (0, 2, 3, 30, 40),
    (1, 0, 2, 50, 60), (1, 1, 1, 60, None),
]  # fmt: skip


@pytest.mark.parametrize("context", [KRAFT, ZOOKEEPER])
def test_a_topic_that_was_deleted_and_created_again_has_two_histories(
    context: FoldContext,
) -> None:
    assert history(*FIRST, *AGAIN, context=deleted(context, 40)) == APART
    assert history(*AGAIN, *FIRST, context=deleted(context, 40)) == APART


def test_its_isr_versions_are_two_histories_too() -> None:
    rows = [row | {"isr": [row["leader"]]} for row in (*FIRST, *AGAIN)]

    assert history(*rows, context=deleted(KRAFT, 40), table="isr") == APART


def test_topic_ids_tell_them_apart_without_a_line_about_the_deletion() -> None:
    rows = [row | {"topic_id": OLD} for row in FIRST] + [row | {"topic_id": NEW} for row in AGAIN]
    folded = [row for row in fold(rows, KRAFT) if row["table"] == "leadership"]

    assert [row["topic_id"] for row in folded] == [OLD, OLD, OLD, NEW, NEW]
    assert [row["leader"] for row in folded] == [1, 2, 3, 2, 1]
    # When the first one ended nobody saw.
    assert folded[2]["ended"] == "unknown"
    assert history(*rows, context=deleted(KRAFT, 40)) == APART


def test_a_line_with_an_id_belongs_to_its_topic_however_late_it_is() -> None:
    rows = [row | {"topic_id": OLD} for row in FIRST] + [row | {"topic_id": NEW} for row in AGAIN]
    late = event(55, "broker-9", topic_id=OLD, leader=3, leader_epoch=2, partition_epoch=2)

    assert history(*rows, late, context=deleted(KRAFT, 40)) == APART


def test_a_controller_that_replays_a_topic_of_long_ago_tells_no_history_of_it() -> None:
    replayed = event(
        5, "controller-1", topic_id=OLD, telling="always", leader=7, leader_epoch=9,
        partition_epoch=9,
    )  # fmt: skip
    rows = [row | {"topic_id": NEW} for row in AGAIN]

    assert history(replayed, *rows) == [(0, 0, 2, 50, 60), (0, 1, 1, 60, None)]


def test_a_follower_that_names_no_id_is_sorted_by_what_it_knew() -> None:
    """Its clock may be a little behind that of those who name the new id."""
    rows = [row | {"topic_id": OLD} for row in FIRST] + [row | {"topic_id": NEW} for row in AGAIN]
    before = event(31, "broker-5", leader=3, leader_epoch=2, partition_epoch=2)
    after = event(49.9, "broker-5", leader=2, leader_epoch=0, partition_epoch=0, log_end=0)

    found = history(*rows, before, after, context=deleted(KRAFT, 40))

    assert found[:3] == APART[:3]
    assert [row[:3] for row in found[3:]] == [row[:3] for row in APART[3:]]


def test_a_controller_that_logs_no_later_epochs_begins_the_new_topic_all_the_same() -> None:
    """Under ZooKeeper it logs the first state as news, and later ones only as requests."""
    created = event(9.9, "broker-7", leader=1, leader_epoch=0, partition_epoch=0, broker=None)
    again = event(49.9, "broker-7", leader=2, leader_epoch=0, partition_epoch=0, broker=None)

    found = history(*FIRST, *AGAIN, created, again, context=deleted(ZOOKEEPER, 40))

    assert found == [(0, 0, 1, 9.9, 20), *APART[1:3], (1, 0, 2, 49.9, 60), APART[4]]


def test_a_topic_that_first_shows_at_a_later_epoch_is_another_too() -> None:
    found = history(*FIRST, leads(60, 1, 1, 1), context=deleted(ZOOKEEPER, 40))

    assert found[-1] == (1, 1, 1, 60, None)
    assert found[2] == (0, 2, 3, 30, 40)


def test_a_topic_may_be_made_again_twice() -> None:
    third = (leads(90, 3, 0, 0), leads(95, 1, 1, 1))
    twice = deleted(KRAFT, 40, 40.1, 300)
    later = [row | {"ts": row["ts"] + 300 * SECOND} for row in third]

    found = history(*FIRST, *AGAIN, *later, context=twice)

    assert found[:4] == APART[:4]
    assert found[4:] == [(1, 1, 1, 60, 300), (2, 0, 3, 390, 395), (2, 1, 1, 395, None)]


@pytest.mark.parametrize("after", [2.1, 40])
def test_a_topic_may_be_made_again_within_the_same_minute(after: float) -> None:
    """All nodes have a minute to hear of a topic, unless it is deleted again meanwhile."""
    third = [
        event(52 + after, f"broker-{one}", leader=3, leader_epoch=0, partition_epoch=0)
        for one in (1, 2, 3)
    ]
    twice = deleted(ZOOKEEPER, 40, 52 + after - 0.05)

    found = history(*FIRST, AGAIN[0], *third, context=twice)

    assert [row[:4] for row in found[3:]] == [(1, 0, 2, 50), (2, 0, 3, 52 + after)]
    assert [row[0] for row in history(*FIRST, AGAIN[0], *third, context=deleted(ZOOKEEPER, 40))][
        -1
    ] == 1


def test_one_node_alone_does_not_make_a_topic_anew() -> None:
    """It may have lost its disk, and repeat what it reads."""
    again = event(50, "broker-3", leader=3, leader_epoch=0, partition_epoch=0)

    assert [row[:2] for row in history(*FIRST, again)] == [(0, 0), (0, 1), (0, 2)]
    assert {row[0] for row in history(*FIRST, again, context=deleted(KRAFT, 40))} == {0, 1}


def test_a_deletion_that_was_put_off_ends_nothing() -> None:
    later = leads(60, 1, 3, 3)

    assert history(*FIRST, later, context=deleted(ZOOKEEPER, 40))[-2:] == [
        (0, 2, 3, 30, 60),
        (0, 3, 1, 60, None),
    ]


def test_a_topic_that_was_deleted_ends_then() -> None:
    assert history(*FIRST, context=deleted(KRAFT, 40))[-1] == (0, 2, 3, 30, 40)


def test_a_leader_that_goes_with_the_deletion_is_no_outage() -> None:
    """A ZooKeeper controller takes away the leader of a topic that it deletes."""
    gone = event(40.5, "broker-1", leader=-1, leader_epoch=3, partition_epoch=3)

    assert history(*FIRST, gone, context=deleted(ZOOKEEPER, 40))[-1] == (0, 3, -1, 40.5, 40.5)
