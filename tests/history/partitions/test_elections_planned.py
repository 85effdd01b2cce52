"""What controllers did to many partitions at once, and whose will an unclean election was."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.history.partitions.elections import ControllerActions
from tests.history.log_lines import SECOND, event

Row = dict[str, Any]


def said(second: float, kind: str, **facts: Any) -> Row:
    row = event(second, "controller-1", kind, topic=None, partition=None, **facts)
    return row | {"at": row["ts"]}


@pytest.mark.parametrize(
    "row",
    [
        said(10, "controlled_shutdown_asked", broker=2),
        said(10, "brokers_shutting_down", broker=2),
        said(10, "broker_shutdown_granted", broker=2),
        said(10, "leaders_changing", broker=2, detail="enterControlledShutdown", count=23),
    ],
)
def test_a_broker_stops_for_a_while_after_it_asked(row: Row) -> None:
    moves = ControllerActions.from_events([row])

    assert [False, True, True, True, False] == [
        moves.is_shutting_down(2, int(second * SECOND)) for second in (7.9, 8, 10, 25, 25.1)
    ]
    assert not moves.is_shutting_down(1, 10 * SECOND)
    assert not moves.is_shutting_down(2, None)
    assert not moves.is_shutting_down(None, 10 * SECOND)


@pytest.mark.parametrize(
    "row",
    [
        said(10, "leaders_changing", detail="handleBrokerUnfenced", count=3),
        said(10, "election_started", detail="UNCLEAN", count=4),
        said(10, "unclean_enabled"),
        said(10, "brokers_changed", added=[2]),
        said(10, "controller_ready", controller_epoch=2),
        said(10, "unclean_election_chosen", leader=2) | {"topic": "t"},
    ],
)
def test_what_a_controller_does_by_itself(row: Row) -> None:
    moves = ControllerActions.from_events([row])

    assert ("automatic", None) == (
        moves.unclean_trigger(12 * SECOND),
        moves.unclean_trigger(26 * SECOND),
    )


@pytest.mark.parametrize(
    "row",
    [
        said(10, "leaders_changing", broker=2, detail="enterControlledShutdown", count=3),
        said(10, "election_started", detail="UNCLEAN", count=0),
        said(10, "election_started", detail="PREFERRED", count=7),
        said(10, "brokers_changed", removed=[2]),
    ],
)
def test_what_elects_nobody_uncleanly(row: Row) -> None:
    assert ControllerActions.from_events([row]).unclean_trigger(10 * SECOND) is None


def test_under_zookeeper_an_unclean_election_that_is_announced_was_ordered() -> None:
    assert "manual" == ControllerActions.from_events(
        [said(10, "election_started", detail="UNCLEAN")]
    ).unclean_trigger(11 * SECOND)


def test_under_kraft_a_choice_without_a_move_of_the_controller_s_own_was_ordered() -> None:
    chosen = said(10, "unclean_election_chosen", leader=2, detail="TMlCK9LzTRuSMBv-gcB_jw")
    move = said(10.5, "leaders_changing", detail="handleBrokerUnfenced", count=1)

    assert "manual" == ControllerActions.from_events([chosen]).unclean_trigger(11 * SECOND)
    assert "automatic" == ControllerActions.from_events([chosen, move]).unclean_trigger(11 * SECOND)


def test_two_wills_at_once_cannot_be_told_apart() -> None:
    order = said(10, "election_started", detail="UNCLEAN")

    assert (
        ControllerActions.from_events(
            [order, said(11, "brokers_changed", added=[2])]
        ).unclean_trigger(12 * SECOND)
        is None
    )


def test_deletions_are_kept_by_topic() -> None:
    rows = [said(second, "topic_deleted") | {"topic": "t"} for second in (9, 5)]

    assert {"t": [5 * SECOND, 9 * SECOND]} == ControllerActions.from_events(rows).deletions


def test_a_controller_that_gives_partitions_back_says_so() -> None:
    regular = said(10, "election_started", detail="PREFERRED", count=7)
    nobody = said(10, "election_started", detail="PREFERRED", count=0)

    assert [False, True, True, False] == [
        ControllerActions.from_events([regular]).is_preferred_election(int(second * SECOND))
        for second in (7.9, 8, 25, 25.1)
    ]
    assert not ControllerActions.from_events([nobody]).is_preferred_election(10 * SECOND)
    assert ControllerActions.from_events([regular | {"count": None}]).is_preferred_election(
        10 * SECOND
    )
    assert not ControllerActions.from_events([regular]).is_preferred_election(None)
