"""The kinds of elections: what the states, the absences and the controllers' words allow."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.history.nodes.broker_states import Absence
from forensics.history.partitions.elections import (
    ControllerActions,
    ElectionHint,
    LeaderChange,
    classify_election,
    classify_manner,
    is_clean_election,
    read_election_hints,
)
from tests.history.log_lines import NO_CLOCKS, SECOND, event

AT = 100 * SECOND


def change(**more: Any) -> LeaderChange:
    """Make the step from leader 1 to leader 2 of replicas 1, 2, 3, in epoch 5."""
    plain: dict[str, Any] = {
        "epoch": 5,
        "at": AT,
        "old": 1,
        "new": 2,
        "old_isr": (1, 2, 3),
        "new_isr": (2, 3),
        "old_replicas": (1, 2, 3),
        "replicas": (1, 2, 3),
        "elr": None,
        "is_recovering": False,
        "kraft": True,
        "is_adjacent": True,
    }
    return LeaderChange(**(plain | more))


def away(kind: str, begin: float = 99, end: float | None = None, broker: int = 1) -> Absence:
    ends = None if end is None else int(end * SECOND)
    return Absence(broker, kind, int(begin * SECOND), ends, ())


def hint(kind: str, second: float = 100, **more: Any) -> ElectionHint:
    plain: dict[str, Any] = {"leader": 2, "replicas": None}
    return ElectionHint(int(second * SECOND), kind, **(plain | more))


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("controlled", "controlled_shutdown"),
        ("crash", "failover"),
        ("pause", "failover"),
        ("gone", "failover"),
    ],
)
def test_how_the_old_leader_left_names_the_election(kind: str, named: str) -> None:
    assert named == classify_election(change(), [away(kind)])


def test_who_drops_out_of_the_isr_failed_though_nobody_says_how() -> None:
    assert "failover" == classify_election(change(), [])


def test_the_absence_of_another_broker_names_nothing() -> None:
    stays = change(new_isr=(1, 2, 3))

    assert "unknown" == classify_election(stays, [away("controlled", broker=3)])


@pytest.mark.parametrize("leaves", ["crash", "controlled"])
def test_a_leader_that_stays_in_sync_did_not_leave_yet(leaves: str) -> None:
    """It gave the lead back, and was stopped or died some seconds after."""
    back = change(new=1, old=2, new_isr=(1, 2, 3))

    assert "preferred" == classify_election(back, [away(leaves, begin=110, broker=2)])


def test_states_that_are_no_neighbours_prove_no_stay() -> None:
    """Between them the old leader may have left and come back."""
    back = change(new=1, old=2, new_isr=(1, 2, 3), is_adjacent=False)

    assert "failover" == classify_election(back, [away("crash", broker=2)])


def test_replicas_that_change_with_the_leader_are_a_reassignment() -> None:
    assert "reassignment" == classify_election(change(replicas=(2, 3)), [])


def test_a_leader_that_is_to_leave_is_replaced_by_the_reassignment() -> None:
    moved = change(new_isr=(1, 2, 3))
    begun = hint("reassignment", 60, replicas=(2, 3))

    assert "reassignment" == classify_election(moved, [], [begun])
    assert "unknown" == classify_election(moved, [], [begun, hint("reassignment_done", 90)])
    assert "unknown" == classify_election(moved, [], [hint("reassignment", 60, replicas=(1, 2))])


def test_a_step_that_names_no_replicas_tells_nothing_of_who_is_to_leave() -> None:
    done, record = hint("reassignment_done", 99.5, leader=1), hint("reassignment", 99.6)

    assert "reassignment" == classify_election(change(new_isr=(2, 3)), [], [done, record])
    assert "failover" == classify_election(change(new_isr=(2, 3)), [], [record])


def test_the_last_step_of_a_reassignment_moves_the_leader_away() -> None:
    """The leader reports who is in sync, and is itself not to stay."""
    last_step = hint("reassignment_done", 99.5, leader=1)

    assert "reassignment" == classify_election(change(new_isr=(2, 3)), [], [last_step])
    assert "failover" == classify_election(
        change(new_isr=(2, 3)), [], [hint("reassignment_done", 90, leader=1)]
    )


@pytest.mark.parametrize(("second", "named"), [(95, "preferred"), (94.9, "failover")])
def test_a_controller_s_word_counts_when_it_is_spoken_with_the_election(
    second: float, named: str
) -> None:
    assert named == classify_election(change(), [], [hint("preferred_election_done", second)])


def test_a_controller_s_word_on_another_leader_does_not_count() -> None:
    assert "failover" == classify_election(
        change(), [], [hint("preferred_election_done", leader=3)]
    )


def test_a_broker_that_asked_to_stop_was_stopped_whatever_its_own_log_says() -> None:
    asked = ControllerActions(shutdowns={1: [99 * SECOND]})

    assert "controlled_shutdown" == classify_election(change(), [away("unknown")], (), asked)
    assert "failover" == classify_election(
        change(at=AT + 20 * SECOND), [away("unknown")], (), asked
    )


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ([away("controlled")], "controlled_shutdown"),
        ([away("crash")], "failover"),
        ([], "failover"),
    ],
)
def test_a_partition_without_a_leader_lost_it_as_the_leader_left(
    gone: list[Absence], named: str
) -> None:
    assert named == classify_election(change(new=-1, new_isr=()), gone)


def test_who_led_last_need_not_be_known_where_all_who_could_were_stopped() -> None:
    lost = change(new=-1, new_isr=(), old=None, old_isr=(1, 2))
    stopped = [away("controlled"), away("controlled", broker=2)]

    assert "controlled_shutdown" == classify_election(lost, stopped)
    assert "unknown" == classify_election(lost, stopped[:1])
    assert "unknown" == classify_election(lost, [])
    assert "failover" == classify_election(lost, [away("crash"), away("pause", broker=2)])


def test_a_leader_after_none_is_a_failover() -> None:
    assert "failover" == classify_election(change(old=-1, old_isr=(2,)), [])


def test_the_first_epoch_is_initial_and_an_unknown_one_unknown() -> None:
    assert "initial" == classify_election(change(epoch=0, old=None), [])
    assert "unknown" == classify_election(change(old=None, old_isr=None), [])


def test_an_epoch_that_grows_under_the_same_leader_is_no_election() -> None:
    same = change(new=1, new_isr=(1, 2))

    assert "unknown" == classify_election(same, [away("crash", broker=3)])
    assert "epoch_bump" == classify_manner(same)
    assert is_clean_election(same)


@pytest.mark.parametrize(
    ("new_isr", "is_adjacent", "clean"),
    [((2, 1), True, True), ((2, 1), False, None), ((1,), True, False), ((1, 4), True, False)],
)
def test_a_leader_that_joined_as_a_reassignment_ended_is_clean(
    new_isr: tuple[int, ...], is_adjacent: bool, clean: bool | None
) -> None:
    """The controller calls it unclean itself, and shares the ISR with a replica that was in it."""
    one = change(old=3, new=1, old_isr=(3, 2), new_isr=new_isr, is_adjacent=is_adjacent, kraft=True)
    assert clean is is_clean_election(one)


def test_a_leader_out_of_the_eligible_replicas_is_clean() -> None:
    chosen = change(old=-1, old_isr=(), elr=(2,), new_isr=(2,))

    assert ("failover", "elr", True) == (
        classify_election(chosen, []),
        classify_manner(chosen),
        is_clean_election(chosen),
    )


@pytest.mark.parametrize(("keeps_elr", "clean"), [(True, None), (None, None), (False, False)])
def test_who_was_eligible_is_not_known_where_no_line_says_it(
    keeps_elr: bool | None, clean: bool | None
) -> None:
    """Whoever left an ISR that fell below its minimum is eligible, and brokers do not log it."""
    chosen = change(old=1, old_isr=(1,), elr=None, new=2, new_isr=(2,), keeps_elr=keeps_elr)

    assert is_clean_election(chosen) is clean


@pytest.mark.parametrize(
    ("moves", "manner"),
    [
        (ControllerActions(automatic=[AT]), "automatic"),
        (ControllerActions(manual=[AT]), "manual"),
        (ControllerActions(automatic=[AT], manual=[AT]), None),
        (ControllerActions(automatic=[AT - 16 * SECOND]), None),
        (ControllerActions(), None),
    ],
)
def test_an_unclean_election_was_somebody_s_will(
    moves: ControllerActions, manner: str | None
) -> None:
    unclean = change(is_recovering=True, old=-1, old_isr=())

    assert "unclean" == classify_election(unclean, [], (), moves)
    assert manner == classify_manner(unclean, moves)


def test_a_plain_election_needs_no_more_words() -> None:
    assert classify_manner(change(), ControllerActions(automatic=[AT])) is None


def test_hints_come_in_the_order_of_time() -> None:
    rows = [
        event(9, "broker-1", "reassignment_done"),
        event(5, "broker-1", "reassignment", replicas=[1, 2]),
        event(7, "broker-1", "log_deleted"),
    ]

    assert [("reassignment", (1, 2)), ("reassignment_done", None)] == [
        (one.kind, one.replicas) for one in read_election_hints(rows, NO_CLOCKS)
    ]


def test_a_first_replica_that_leads_again_may_have_been_elected_by_a_failure() -> None:
    """Where nobody says who stayed in sync, the controller must say that it gave the lead back."""
    back = change(new=1, old=2, new_isr=None)

    assert "unknown" == classify_election(back, [])
    assert "preferred" == classify_election(
        back, [], (), ControllerActions(preferred_elections=[AT])
    )
    assert "failover" == classify_election(
        back, [away("crash", broker=2)], (), ControllerActions(preferred_elections=[AT])
    )


def test_the_controller_s_word_counts_where_nobody_names_the_first_replica() -> None:
    """Brokers under ZooKeeper need not say who the first replica is."""
    nameless = change(replicas=None, old_isr=[1, 2], new_isr=[1, 2])

    assert "preferred" == classify_election(
        nameless, [], (), ControllerActions(preferred_elections=[AT])
    )
    assert "unknown" == classify_election(nameless, [], (), ControllerActions())


def test_partitions_do_not_move_before_their_leader_leaves() -> None:
    assert "failover" == classify_election(change(), [away("controlled", begin=102.1)])
    assert "controlled_shutdown" == classify_election(change(), [away("controlled", begin=102)])


def test_clocks_get_no_allowance_where_nobody_says_who_left_the_isr() -> None:
    later = change(new_isr=None)

    assert "unknown" == classify_election(later, [away("controlled", begin=100.1)])
    assert "controlled_shutdown" == classify_election(later, [away("controlled", begin=100)])
