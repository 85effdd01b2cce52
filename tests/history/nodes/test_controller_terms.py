"""The reigns of controllers: by epoch, with who gave up, who held on, and who is a rival."""

from __future__ import annotations

from typing import Any

from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.history.nodes.controller_terms import close_terms, find_epoch_conflicts, find_terms
from tests.history.log_lines import SECOND, event

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


def closed_terms(*rows: Row, **lives: list[Span]) -> list[tuple[str, str, str]]:
    brokers = {int(name[-1]): spans for name, spans in lives.items()}
    terms = close_terms(find_terms(rows), rows, brokers)
    return [(term.node, term.span.state, span_of(term.span)) for term in terms]


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
    found = closed_terms(FIRST, SECOND_ONE, gives_up(15, "broker-1"), broker_1=[death])

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
