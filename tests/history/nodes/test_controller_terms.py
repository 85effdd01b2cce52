"""The terms of controllers: when and how each ended, who held on, and who is a rival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forensics.history.clocks.model import ClockModel, Clocks, ClockSegment
from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.history.nodes.controller_terms import (
    ControllerTerm,
    DeposedControllers,
    Event,
    TermEvents,
    close_terms,
    find_deposed,
    find_epoch_conflicts,
    find_terms,
)
from tests.history.log_lines import NO_CLOCKS, SECOND, event

Row = dict[str, Any]


def span_of(span: Span) -> str:
    end = "" if span.end is None else f"{span.end / SECOND:g}"
    return f"{span.begin / SECOND:g}..{end}"


def elected(second: float, node: str, term: int | None) -> Row:
    row = event(second, node, "controller_elected", controller_epoch=term, controller=int(node[-1]))
    return row | {"at": row["ts"]}


def test_a_reign_ends_with_the_next() -> None:
    """Several nodes tell of an election; whoever told first gave its time."""
    rows = [
        elected(9, "controller-2", 5),
        elected(9.5, "controller-3", 5),
        elected(1, "controller-1", 4),
    ]

    assert [("controller-1", 1, 4, "1..9"), ("controller-2", 2, 5, "9..")] == [
        (one.node, one.controller, one.span.epoch, span_of(one.span)) for one in find_terms(rows)
    ]


def test_an_election_without_an_epoch_is_no_reign() -> None:
    assert [] == find_terms([elected(9, "controller-2", None)])


def test_reigns_follow_epochs_and_not_clocks() -> None:
    rows = [elected(9, "controller-2", 4), elected(5, "controller-1", 5)]

    assert [4, 5] == [term.span.epoch for term in find_terms(rows)]


def gives_up(second: float, node: str, kind: str = "controller_resigned", **facts: Any) -> Row:
    row = event(second, node, kind, controller=int(node[-1]), **facts)
    return row | {"at": row["ts"]}


class Logs:
    """What the logs show beside the lines of controllers."""

    def __init__(
        self, lost: Row | None = None, own: Sequence[Row] = (), epochs: Sequence[int] = ()
    ) -> None:
        self.lost, self.own, self.epochs = lost, own, epochs

    def epochs_seen(self) -> frozenset[int]:
        return frozenset(self.epochs)

    def lost_contact(self, node: str, id_: int | None, begin: int, end: int) -> Event | None:
        lost = self.lost if self.lost and begin <= self.lost["at"] <= end else None
        return lost if lost and lost["peer"] == id_ and node == "broker-1" else None

    def lines(self, node: str, begin: int, end: int) -> tuple[Event, Event] | None:
        own = [row for row in self.own if row["node"] == node and begin <= row["at"] < end]
        return (own[0], own[-1]) if own else None


def close(
    *rows: Row, logs: Logs | None = None, starts: Sequence[int] = (), **lives: list[Span]
) -> list[ControllerTerm]:
    known = TermEvents(
        sorted(rows, key=lambda row: row["at"]),
        {name.replace("_", "-"): spans for name, spans in lives.items()},
        {"broker-1": [second * SECOND for second in starts]},
        logs,
    )
    terms = find_terms(rows)
    return close_terms(terms, known, find_deposed(terms, known))


def closed_terms(*rows: Row, **more: Any) -> list[tuple[str, str, str]]:
    return [(term.node, term.span.state, span_of(term.span)) for term in close(*rows, **more)]


def endings(*rows: Row, **more: Any) -> list[tuple[str, str | None]]:
    """Give the end of each term but the last, and how it ended."""
    active = [term for term in close(*rows, **more) if term.span.state == "active"]
    return [(span_of(term.span).partition("..")[2], term.how) for term in active[:-1]]


def said(second: float, node: str, kind: str, **facts: Any) -> Row:
    row = event(second, node, kind, **facts)
    return row | {"at": row["ts"]}


FIRST, SECOND_ONE = elected(1, "broker-1", 4), elected(9, "broker-2", 5)


def test_who_gives_up_leaves_the_office_vacant() -> None:
    assert [
        ("broker-1", "active", "1..7"),
        ("broker-1", "vacant", "7..9"),
        ("broker-2", "active", "9.."),
    ] == closed_terms(FIRST, gives_up(7, "broker-1"), SECOND_ONE)


def test_between_epochs_that_are_missing_nobody_knows_who_ruled() -> None:
    later = elected(9, "broker-2", 7)

    assert [("broker-1", "active", "1..7"), ("broker-2", "active", "9..")] == closed_terms(
        FIRST, gives_up(7, "broker-1"), later
    )


def test_who_does_not_notice_that_another_took_over_is_deposed() -> None:
    """It hung, its session ended, and it gives up as it wakes."""
    assert [
        ("broker-1", "active", "1..9"),
        ("broker-1", "deposed", "9..15"),
        ("broker-2", "active", "9.."),
    ] == closed_terms(FIRST, SECOND_ONE, gives_up(15, "broker-1"))


def test_a_process_that_was_started_anew_is_not_deposed() -> None:
    line: EvidenceRow = {"file": "broker-1/server.log", "line": 60, "at": 6 * SECOND}
    death = Span("crashed", 6 * SECOND, 12 * SECOND, [line])
    found = closed_terms(FIRST, SECOND_ONE, gives_up(15, "broker-1"), broker_1=[death], starts=[12])

    assert "deposed" not in {state for _, state, _ in found}


def test_a_second_late_is_no_overlap() -> None:
    assert [("broker-1", "active", "1..9"), ("broker-2", "active", "9..")] == closed_terms(
        FIRST, SECOND_ONE, gives_up(10, "broker-1")
    )


def test_who_rules_again_gives_up_the_later_reign() -> None:
    again = elected(20, "broker-1", 6)

    assert [
        ("broker-1", "active", "1..9"),
        ("broker-2", "active", "9..20"),
        ("broker-1", "active", "20..30"),
    ] == closed_terms(FIRST, SECOND_ONE, again, gives_up(30, "broker-1"))


def test_who_never_ruled_may_resign_without_effect() -> None:
    assert [("broker-1", "active", "1..")] == closed_terms(FIRST, gives_up(7, "broker-3"))


def test_an_epoch_that_is_named_ends_only_that_reign() -> None:
    other = gives_up(7, "broker-1", controller_epoch=3)

    assert [("broker-1", "active", "1..")] == closed_terms(FIRST, other)


def test_a_controller_that_dies_rules_no_more() -> None:
    line: EvidenceRow = {"file": "broker-1/server.log", "line": 60, "at": 6 * SECOND}
    death = Span("crashed", 6 * SECOND, 12 * SECOND, [line])

    assert [
        ("broker-1", "active", "1..6"),
        ("broker-1", "vacant", "6..9"),
        ("broker-2", "active", "9.."),
    ] == closed_terms(FIRST, SECOND_ONE, broker_1=[Span("up", 0, 6 * SECOND), death])


def seen(second: float, node: str, term: int | None, owner: int) -> Row:
    row = event(second, node, "controller_seen", controller_epoch=term, controller=owner)
    return row | {"at": row["ts"]}


def test_two_that_claim_one_epoch_are_rivals() -> None:
    [found] = find_epoch_conflicts([FIRST, elected(5, "broker-2", 4)])

    assert "Controller epoch 4 is claimed for node 1 and for node 2" == found.title
    assert [10, 50] == [place["line"] for place in found.evidence]


def test_two_that_are_seen_in_one_epoch_are_rivals_too() -> None:
    assert [4] == [one.epoch for one in find_epoch_conflicts([FIRST, seen(5, "broker-3", 4, 2)])]


def test_who_is_seen_as_what_it_claims_has_no_rival() -> None:
    rows = [FIRST, seen(5, "broker-3", 4, 1), seen(6, "broker-3", None, 2), SECOND_ONE]

    assert [] == find_epoch_conflicts([*rows, seen(7, "broker-3", 4, -1)])


TIMED_OUT = said(8, "broker-2", "raft_fetch_timed_out")


def test_elections_that_nobody_won_leave_no_room_for_another_controller() -> None:
    later = elected(9, "broker-2", 7)
    rows = [FIRST, gives_up(7, "broker-1"), later]

    assert ("broker-1", "vacant", "7..9") in closed_terms(*rows, logs=Logs(epochs=[4, 5, 6, 7]))
    assert "vacant" not in {state for _, state, _ in closed_terms(*rows, logs=Logs(epochs=[4, 6]))}


def test_a_term_ends_where_followers_last_heard_of_it() -> None:
    """They wait for two seconds before they call an election."""
    assert endings(FIRST, TIMED_OUT, SECOND_ONE) == [("6.25", "unheard")]


def test_a_follower_that_found_its_leader_again_shows_no_end() -> None:
    again = said(
        8.5, "broker-2", "raft_transition", to_state="FollowerState", controller_epoch=4,
        controller=1,
    )  # fmt: skip

    assert endings(FIRST, TIMED_OUT, again, SECOND_ONE) == [("9", None)]


def test_a_follower_that_is_cut_off_itself_ends_no_term() -> None:
    """Its elections end it once it is heard again: the other voters had followed all the while."""
    first, last = elected(1, "broker-3", 4), elected(9, "broker-1", 7)
    cut = said(4, "broker-2", "raft_fetch_timed_out")
    moves = said(
        8.5, "broker-1", "raft_transition", to_state="Unattached", from_state="FollowerState",
        controller_epoch=7,
    )  # fmt: skip
    named = moves | {"text": "Unattached(epoch=7, voters=[1, 2, 3])"}

    assert endings(first, cut, moves, last) == [("8.5", "resigned")]
    assert endings(first, cut, named, last) == [("8.5", "resigned")]


def test_voters_without_logs_may_have_followed_on() -> None:
    named = said(
        8.5, "broker-2", "raft_transition", to_state="Candidate", from_state="FollowerState",
        controller_epoch=5, text="CandidateState(epoch=5, voters=[1, 2, 3])",
    )  # fmt: skip
    two = named | {"text": "CandidateState(epoch=5, voters=[1, 2])"}

    assert endings(FIRST, TIMED_OUT, named, SECOND_ONE) == [("9", None)]
    assert endings(FIRST, TIMED_OUT, two, SECOND_ONE) == [("6.25", "unheard")]


def test_brokers_that_do_not_vote_end_no_term() -> None:
    later = elected(9, "controller-2", 5)
    observer = said(5, "broker-2", "raft_fetch_timed_out")

    assert endings(elected(1, "controller-1", 4), observer, later) == [("9", None)]


def test_who_logs_on_while_others_no_longer_hear_of_it_is_cut_off() -> None:
    own = [said(second, "broker-1", "partition_state") for second in (5, 8.4)]

    assert endings(FIRST, TIMED_OUT, SECOND_ONE, logs=Logs(own=own)) == [("6.25", "isolated")]


def test_who_is_silent_and_logs_again_without_a_start_stood_still() -> None:
    own = [said(second, "broker-1", "partition_state") for second in (5, 20)]
    rows = FIRST, TIMED_OUT, SECOND_ONE

    assert endings(*rows, logs=Logs(own=own)) == [("6.25", "paused")]
    assert endings(*rows, logs=Logs(own=own), starts=[19]) == [("6.25", "crashed")]


def test_who_is_silent_for_good_crashed_if_its_connections_broke() -> None:
    own = [said(5, "broker-1", "partition_state")]
    lost = said(7, "broker-2", "peer_disconnected", peer=1)
    rows = FIRST, TIMED_OUT, SECOND_ONE

    assert endings(*rows, logs=Logs(lost, own)) == [("7", "crashed")]
    assert endings(*rows, logs=Logs(own=own)) == [("6.25", "unheard")]


def test_who_has_lost_its_majority_leads_no_more_since_it_last_heard_of_one() -> None:
    lost = said(8, "broker-1", "raft_majority_lost", controller=1, duration_ms=3000)

    assert endings(FIRST, lost, SECOND_ONE) == [("5", "no_majority")]


def test_a_controller_that_is_stopped_hands_over() -> None:
    """A follower that is told so calls the next election as if it had timed out."""
    resigns = said(
        7, "broker-1", "raft_transition", from_state="Leader", to_state="ResignedState",
        controller_epoch=4,
    )  # fmt: skip
    stop = Span("stopping", 6 * SECOND, None, [])

    assert endings(FIRST, TIMED_OUT, resigns, SECOND_ONE, broker_1=[stop]) == [("7", "stopped")]
    assert endings(FIRST, TIMED_OUT, resigns, SECOND_ONE) == [("6.25", "unheard")]


def test_a_pause_that_was_over_before_ends_no_term() -> None:
    line: EvidenceRow = {"file": "broker-1/server.log", "line": 60, "at": 3 * SECOND}
    brief = Span("paused", 3 * SECOND, 5 * SECOND, [line])
    long = Span("paused", 3 * SECOND, 12 * SECOND, [line])

    assert endings(FIRST, SECOND_ONE, broker_1=[brief]) == [("9", None)]
    assert endings(FIRST, SECOND_ONE, broker_1=[long]) == [("3", "paused")]


def test_a_log_that_ends_says_no_more_of_its_controller() -> None:
    """It may have led on: the time until the next one is not vacant."""
    own = [said(5, "broker-1", "partition_state")]

    assert closed_terms(FIRST, SECOND_ONE, logs=Logs(own=own)) == [
        ("broker-1", "active", "1..5"),
        ("broker-2", "active", "9.."),
    ]


def test_a_controller_without_logs_is_known_from_those_who_follow_it() -> None:
    follows = said(
        3, "broker-2", "raft_transition", to_state="FollowerState", from_state="Unattached",
        controller_epoch=6, controller=3001,
    )  # fmt: skip
    starts = follows | {"from_state": "null", "controller_epoch": 5}
    found = find_terms([starts, follows, elected(9, "controller-2", 7)])

    assert [(one.node, one.controller, one.span.epoch) for one in found] == [
        ("controller-3001", 3001, 6),
        ("controller-2", 2, 7),
    ]


def void(uncertainty_ms: float) -> DeposedControllers:
    line = ClockSegment(0, 0.0, 0.0, uncertainty_ms, 0, 100 * SECOND)
    models = {node: ClockModel([line]) for node in ("broker-1", "broker-2")}
    rows = [FIRST, SECOND_ONE, gives_up(15, "broker-1")]
    terms = find_terms(rows)
    deposed = find_deposed(terms, TermEvents(rows))
    return DeposedControllers.from_terms(deposed, Clocks({}, {}, (), models))


def test_what_a_deposed_controller_decides_is_void() -> None:
    acts = void(500)
    at = [said(second, "broker-1", "broker_fenced", controller=1) for second in (9.5, 10.5, 14.9)]

    assert [acts.include(row, row["at"]) for row in at] == [False, True, True]
    assert not acts.include(at[1] | {"controller": None}, at[1]["at"])
    assert not acts.include(at[1] | {"node": "broker-2"}, at[1]["at"])
    assert not acts.include(at[1], 15 * SECOND)


def voted(second: float, node: str, epoch: int) -> Row:
    return said(
        second, node, "raft_transition", to_state="CandidateState", from_state="FollowerState",
        controller_epoch=epoch, text=f"to CandidateState(epoch={epoch}, voters=[1, 2, 3])",
    )  # fmt: skip


def test_a_term_is_over_when_too_few_voters_are_left_in_it() -> None:
    """Nobody was elected after it, and nothing that it decides from then on is committed."""
    rows = [elected(1, "broker-1", 5), voted(10, "broker-2", 6), voted(11, "broker-3", 6),
            gives_up(20, "broker-1", controller_epoch=5)]  # fmt: skip
    frozen = {"broker_1": [Span("paused", 9 * SECOND, 20 * SECOND)]}

    assert closed_terms(*rows, **frozen) == [
        ("broker-1", "active", "1..11"), ("broker-1", "deposed", "11..20")]  # fmt: skip
    assert closed_terms(rows[0], *rows[2:], **frozen) == [("broker-1", "active", "1..20")]


def test_clocks_that_are_not_known_make_nothing_void() -> None:
    row = said(14, "broker-1", "broker_fenced", controller=1)

    assert not void(4000).include(row, row["at"])
    deposed = ControllerTerm("broker-1", 1, Span("deposed", 9 * SECOND, 15 * SECOND))
    assert DeposedControllers.from_terms([deposed], NO_CLOCKS).times == {}


def asks(second: float, to: str, epoch: int, *, before: str, node: str = "controller-2") -> Row:
    """Let a follower that lost its leader take another state of the quorum."""
    return said(
        second, node, "raft_transition", controller_epoch=epoch, to_state=to, from_state=before
    )


def loses(second: float) -> list[Row]:
    """Let the fetch of a follower time out; it asks for votes, and returns 1.6 s later."""
    return [
        said(second, "controller-2", "raft_fetch_timed_out"),
        asks(second, "ProspectiveState", 4, before="FollowerState"),
        asks(second + 1.6, "FollowerState", 4, before="ProspectiveState"),
    ]


def vain(*rows: Row) -> list[float]:
    return sorted(at / SECOND for _, at in TermEvents(rows).vain_returns)


def test_who_follows_a_dead_leader_again_has_found_nobody() -> None:
    """Since 4.0 a follower that gets no votes follows the leader that it knew again (KIP-996)."""
    assert vain(*loses(10), *loses(13.6), *loses(17.2)) == [11.6, 15.2]


def test_a_return_is_vain_only_if_the_next_fetch_is_not_answered() -> None:
    assert vain(*loses(10), *loses(14.6)) == [11.6]
    assert vain(*loses(10), *loses(14.601)) == []
    other = said(13.6, "controller-3", "raft_fetch_timed_out")
    assert vain(*loses(10), other) == []


def test_a_leader_of_a_new_epoch_was_elected_however_soon_it_is_lost() -> None:
    found = asks(11.6, "FollowerState", 5, before="ProspectiveState")

    assert vain(*loses(10)[:2], found, *loses(13.6)) == []
    assert vain(*loses(10), asks(13.6, "UnattachedState", 5, before="FollowerState")) == [11.6]


def test_a_controller_is_lost_when_its_voters_last_heard_of_it() -> None:
    """They return to it in vain until one of them is elected, half a minute later."""
    rows = [elected(1, "controller-1", 4)]
    for second in (10, 13.6, 17.2):
        rows += [
            row | {"node": node, "text": "voters=[1, 2, 3]"}
            for row in loses(second)
            for node in ("controller-2", "controller-3")
        ]
    rows += [
        asks(20, "FollowerState", 5, before="FollowerState", node="controller-3"),
        elected(21, "controller-2", 5),
        said(20, "controller-2", "raft_fetch_timed_out"),
    ]
    rows.sort(key=lambda row: row["at"])
    terms = find_terms(rows)

    first = close_terms(terms, TermEvents(rows), [])[0]

    assert (first.controller, first.span.end) == (1, int(8.25 * SECOND))
