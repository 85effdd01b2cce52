"""Processes that hung: only what their own log and the others' prove together."""

from __future__ import annotations

from typing import Any

import pytest

from forensics.history.nodes.broker_states import Span, insert_pauses
from tests.history.log_lines import SECOND, event

Row = dict[str, Any]


def spans(*states: tuple[str, float, float | None]) -> list[Span]:
    return [
        Span(
            state,
            int(begin * SECOND),
            None if end is None else int(end * SECOND),
            [{"file": "c/controller.log", "line": int(begin * 10), "at": int(begin * SECOND)}],
        )
        for state, begin, end in states
    ]


def wake(second: float, seconds: float, kind: str = "zookeeper_disconnected") -> Row:
    row = event(second, "broker-1", kind, duration_ms=int(seconds * 1000))
    return row | {"at": row["ts"]}


FENCED = spans(("up", 1, 20), ("fenced", 20, 30), ("up", 30, None))


def told(*wakes: Row, life: list[Span] = FENCED, silent: bool = True) -> list[str]:
    found = insert_pauses(life, wakes, lambda _begin, _end: silent)
    return [f"{one.state} {one.begin / SECOND:g}..{(one.end or 0) / SECOND:g}" for one in found]


PLAIN = ["up 1..20", "fenced 20..30", "up 30..0"]


def test_a_process_that_wakes_says_since_when_it_hung() -> None:
    assert ["up 1..14", "paused 14..20", "fenced 20..30", "up 30..0"] == told(wake(29, 15))


def test_the_pause_names_the_line_of_its_end_and_that_of_the_fence() -> None:
    paused = insert_pauses(FENCED, [wake(29, 15)], lambda _begin, _end: True)[1]

    assert [290, 200] == [place["line"] for place in paused.evidence]


def test_a_broker_that_went_on_to_write_was_only_cut_off() -> None:
    assert PLAIN == told(wake(29, 15), silent=False)


def test_a_fence_alone_proves_no_pause() -> None:
    assert PLAIN == told()


@pytest.mark.parametrize("row", [wake(29, 9), wake(29, 0), wake(19, 10), wake(31, 15)])
def test_a_wait_that_does_not_span_the_fence_proves_none_either(row: Row) -> None:
    assert PLAIN == told(row)


def test_the_last_sign_of_life_begins_the_pause() -> None:
    first = wake(29, 15, "peer_request_lost")

    assert "paused 16..20" in told(first, wake(29.5, 13.5, "peer_request_lost"))
    assert "paused 14..20" in told(first, wake(31.5, 13.5, "peer_request_lost"))


def test_a_broker_that_was_started_again_did_not_wake() -> None:
    life = spans(("up", 1, 20), ("fenced", 20, 30), ("starting", 30, 35), ("up", 35, None))

    assert "paused" not in " ".join(told(wake(29, 15), life=life))
