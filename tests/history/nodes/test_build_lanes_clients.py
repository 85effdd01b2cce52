"""The life of clients: runs of trouble, and what lies between them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from forensics.history.nodes.build_lanes import ClientLanes
from tests.history.log_lines import SECOND, event

Row = dict[str, Any]
STALE = "NOT_LEADER_OR_FOLLOWER"


def line(second: float, kind: str = "client_setting_seen", **facts: Any) -> Row:
    return event(second, "app-orders", kind, **facts)


def lane(*rows: Row) -> list[str]:
    found = ClientLanes()
    for row in rows:
        found.add_line(row, row["ts"])
    return [
        f"{span.state} {span.begin / SECOND:g}..{(span.end or 0) / SECOND:g}"
        for span in found.build().get("app-orders", [])
    ]


def test_no_line_is_no_client() -> None:
    assert {} == ClientLanes().build()


def test_a_client_that_says_nothing_bad_is_well_from_its_first_line_to_its_last() -> None:
    """After its last line nobody knows."""
    assert ["healthy 1..90"] == lane(line(1), line(90))


def test_errors_about_leaders_are_stale_metadata() -> None:
    errors = [line(10, "client_error", error=STALE), line(14, "client_refresh")]

    assert ["healthy 1..10", "stale 10..14", "healthy 14..90"] == lane(line(1), *errors, line(90))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("client_disconnected", None),
        ("client_timeout", None),
        ("client_error", "NETWORK_EXCEPTION"),
        ("client_error", "REQUEST_TIMED_OUT"),
    ],
)
def test_a_client_that_gets_no_answer_is_disconnected(kind: str, error: str | None) -> None:
    found = lane(line(1), line(10, kind, error=error), line(90))

    assert ["healthy 1..10", "disconnected 10..10", "healthy 10..90"] == found


def test_an_error_of_another_sort_changes_nothing() -> None:
    assert ["healthy 1..90"] == lane(
        line(1), line(9, "client_error", error="NOT_ENOUGH_REPLICAS"), line(90)
    )


@pytest.mark.parametrize(("second", "runs"), [(20, 1), (20.001, 2)])
def test_trouble_that_comes_back_within_ten_seconds_went_on(second: float, runs: int) -> None:
    found = lane(line(10, "client_timeout"), line(second, "client_timeout"))

    assert runs == sum("disconnected" in one for one in found)


def test_stale_metadata_say_more_than_a_lost_connection() -> None:
    rows = [line(10, "client_disconnected"), line(30, "client_disconnected")]
    rows += [line(20, "client_disconnected"), line(15, "client_error", error=STALE)]
    rows += [line(18, "client_error", error=STALE)]

    assert ["disconnected 10..15", "stale 15..18", "disconnected 18..30"] == lane(*rows)


def test_every_stretch_names_the_lines_at_its_ends() -> None:
    found = ClientLanes()
    for row in (line(1), line(10, "client_timeout"), line(14, "client_timeout"), line(90)):
        found.add_line(row, row["ts"])

    assert [[10, 100], [100, 140], [140, 900]] == [
        [place["line"] for place in span.evidence] for span in found.build()["app-orders"]
    ]


@drawn(st.lists(st.integers(0, 200), max_size=40), st.randoms(use_true_random=False))
def test_the_order_of_the_lines_does_not_matter(seconds: list[int], order: random.Random) -> None:
    kinds = ["client_timeout", "client_refresh", "client_setting_seen"]
    rows = [line(second, kinds[second % 3]) for second in seconds]
    shuffled = list(rows)
    order.shuffle(shuffled)

    assert lane(*rows) == lane(*shuffled)


@drawn(st.lists(st.integers(0, 300), max_size=60))
def test_a_lane_has_no_hole(seconds: list[int]) -> None:
    found = ClientLanes()
    for second in seconds:
        row = line(second, ("client_timeout", "client_refresh", "client_setting_seen")[second % 3])
        found.add_line(row, row["ts"])

    for spans in found.build().values():
        assert [span.begin for span in spans[1:]] == [span.end for span in spans[:-1]]


def test_a_request_that_waited_shows_since_when_nobody_answered() -> None:
    """A client says so only as the request times out; others that end then waited less."""
    asked = {"kind": "client_request_cancelled", "detail": "PRODUCE"}
    rows = [line(10, "kafka_version"), line(90, "kafka_version")]
    rows += [line(60, **asked, duration_ms=waited) for waited in (34_000, 30_000, 400)]
    assert lane(*rows) == ["healthy 10..26", "disconnected 26..60", "healthy 60..90"]


def test_a_group_waits_for_its_members() -> None:
    rows = [line(10, "kafka_version"), line(90, "kafka_version")]
    rows.append(line(60, "client_request_cancelled", detail="JOIN_GROUP", duration_ms=34_000))
    assert lane(*rows) == ["healthy 10..60", "disconnected 60..60", "healthy 60..90"]
