"""The life of brokers: golden pairs, and what they leave out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from forensics.history.nodes.broker_states import (
    Absence,
    Absences,
    build_broker_lanes,
    find_cluster_absences,
    leave_out_second_processes,
)
from tests.golden.pairs import Pair, pairs
from tests.history.log_lines import SECOND, read

Row = dict[str, Any]
PAIRS = pairs("lanes.txt")


def told(rows: Sequence[Row]) -> tuple[str, ...]:
    """Write lanes and absences as the second half of a golden pair does."""
    words = {
        (start["node"], start["ts"]): max(before, key=lambda row: row["ts"])
        for start in rows
        if start["kind"] == "process_starting"
        and (before := [r for r in rows if r["node"] == start["node"] and r["ts"] < start["ts"]])
    }
    lanes = build_broker_lanes([row for row in rows if row["kind"] != "line"], words)
    lines = []
    for broker, spans in lanes.items():
        text = ", ".join(f"{span.state} {span_of(span)}" for span in spans)
        lines.append(f"broker {broker}: {text}")
        lines += [
            f"broker {broker} away: {a.kind} {span_of(a)}"
            for a in find_cluster_absences(broker, spans)
        ]
    return tuple(lines)


def span_of(span: Any) -> str:
    end = "" if span.end is None else f"{span.end / SECOND:g}"
    return f"{span.begin / SECOND:g}..{end}"


def events(lines: Sequence[str]) -> list[Row]:
    rows = [read(line) for line in lines]
    for row in rows:
        row["at"] = row["ts"]
        row["node_broker"] = int(row["node"][-1]) if row["node"].startswith("broker-") else None
    return rows


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_events_become_the_lanes_beside_them(pair: Pair) -> None:
    assert pair.expected == told(events(pair.given))


@drawn(st.sampled_from(PAIRS), st.randoms(use_true_random=False))
def test_lanes_do_not_depend_on_the_order_of_the_events(pair: Pair, order: random.Random) -> None:
    rows = events(pair.given)
    order.shuffle(rows)

    assert pair.expected == told(rows)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.title)
def test_lanes_have_no_holes_and_every_span_has_evidence(pair: Pair) -> None:
    for spans in build_broker_lanes(
        [row for row in events(pair.given) if row["kind"] != "line"], {}
    ).values():
        assert [span.begin for span in spans[1:]] == [span.end for span in spans[:-1]]
        assert spans[-1].end is None
        assert all(span.evidence for span in spans)
        assert all(span.end is None or span.begin <= span.end for span in spans)


def test_an_absence_knows_the_line_that_fenced_the_broker() -> None:
    rows = events(["1 broker-1 process_started", "12 controller-1 broker_fenced broker=1"])
    away = find_cluster_absences(1, build_broker_lanes(rows, {})[1])

    assert away[0].fencing is not None
    assert ("controller-1/state-change.log", 120) == (
        away[0].fencing["file"],
        away[0].fencing["line"],
    )


def states(broker: int, *lines: str) -> list[tuple[str, str]]:
    return [(span.state, span_of(span)) for span in build_broker_lanes(events(lines), {})[broker]]


def test_under_zookeeper_the_controller_tells_who_came_and_went() -> None:
    lines = [
        "1 broker-3 brokers_changed added=1,2,3",
        "9 broker-3 brokers_changed removed=2",
        "15 broker-3 brokers_changed added=2",
    ]

    assert [("up", "1..")] == states(1, *lines)
    assert [("up", "1..9"), ("fenced", "9..15"), ("up", "15..")] == states(2, *lines)


def test_a_broker_that_bounced_was_away_and_back_at_once() -> None:
    lines = ["1 broker-3 brokers_changed added=1,2", "9 broker-3 brokers_changed bounced=2"]

    assert [("up", "1..9"), ("fenced", "9..9"), ("up", "9..")] == states(2, *lines)


def test_a_broker_that_is_fenced_and_not_seen_again_stays_away() -> None:
    lines = ["1 broker-1 process_started", "12 controller-1 broker_fenced broker=1"]

    assert [("up", "1..12"), ("fenced", "12..")] == states(1, *lines)


@pytest.mark.parametrize(("last", "kinds"), [(30, ["fenced", "crash"]), (13.9, ["crash"])])
def test_a_broker_that_writes_long_after_it_was_fenced_died_later(
    last: float, kinds: list[str]
) -> None:
    rows = events([
        "1 broker-1 process_started", "12 controller-1 broker_fenced broker=1",
        f"{last} broker-1 log_rolled", "40 broker-1 process_starting",
        "45 controller-1 broker_unfenced broker=1",
    ])  # fmt: skip
    [final] = [row for row in rows if row["kind"] == "log_rolled"]
    [start] = [row for row in rows if row["kind"] == "process_starting"]
    rows.remove(final)
    spans = build_broker_lanes(rows, {("broker-1", start["ts"]): final})[1]
    absences = find_cluster_absences(1, spans)

    assert kinds == [one.kind for one in absences]
    assert absences[-1].begin == (final["at"] if last > 14 else 12 * SECOND)
    assert absences[-1].end == 45 * SECOND


def test_who_is_not_among_those_whom_a_new_controller_finds_has_lost_its_session() -> None:
    """The session of the controller itself ends without a word: nobody is left to say it."""
    lines = [
        "1 broker-3 brokers_changed added=1,2,3",
        "30 broker-2 brokers_found alive=1,2",
        "33 broker-2 brokers_changed added=3",
    ]

    assert [("up", "1..30"), ("fenced", "30..33"), ("up", "33..")] == states(3, *lines)
    assert [("up", "1..")] == states(1, *lines)


def test_who_is_found_alive_is_back() -> None:
    lines = [
        "1 broker-3 brokers_changed added=1,2,3",
        "20 broker-3 brokers_changed removed=1",
        "30 broker-2 brokers_found alive=1,2",
    ]

    assert [("up", "1..20"), ("fenced", "20..30"), ("up", "30..")] == states(1, *lines)


def test_a_broker_that_has_just_started_may_come_after_the_list() -> None:
    early = ["1 broker-1 process_started", "11 broker-2 brokers_found alive=2"]
    late = ["1 broker-1 process_started", "11.001 broker-2 brokers_found alive=2"]

    assert [("up", "1..")] == states(1, *early)
    assert [("up", "1..11.001"), ("fenced", "11.001..")] == states(1, *late)


def test_a_broker_that_stops_or_starts_is_not_called_back_by_the_list() -> None:
    lines = ["1 broker-1 process_stopping", "2 broker-2 brokers_found alive=1,2"]

    assert [("stopping", "1..")] == states(1, *lines)


@drawn(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))),
        max_size=8,
    ),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted),
)
def test_absences_around_a_time_are_found_in_their_order(
    given_absences: list[tuple[int, int, int | None]], around: list[int]
) -> None:
    every = [
        Absence(broker, "pause", begin, None if length is None else begin + length, ())
        for broker, begin, length in given_absences
    ]
    begin, end = around

    found = Absences(every).around([1, None, 3], begin, end)

    assert found == [
        one
        for one in every
        if one.broker == 1 and one.begin <= end and (one.end is None or one.end >= begin)
    ]


_TIMES = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted)


@drawn(
    st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=6),
    st.lists(_TIMES, max_size=4),
)
def test_many_times_are_asked_at_once_whether_a_broker_was_away_in_them(
    given_absences: list[tuple[int, int | None]], times: list[list[int]]
) -> None:
    every = [
        Absence(1, "pause", begin, None if length is None else begin + length, ())
        for begin, length in given_absences
    ]
    begins, ends = (np.array([pair[i] for pair in times], np.int64) for i in (0, 1))

    assert Absences(every).meet(1, begins, ends).tolist() == [
        any(one.begin < end and (one.end is None or one.end > begin) for one in every)
        for begin, end in times
    ]
    assert not Absences(every).meet(2, begins, ends).any()


_SECOND = [(100, "process_starting"), (101, "process_starting"), (102, "process_started"),
           (102.2, "process_failed"), (102.3, "process_stopping"), (102.4, "process_stopped"),
           (102.4, "process_failed")]  # fmt: skip


def second_process(first: list[tuple[float, str]], why: str) -> list[tuple[float, str]]:
    """Give what is left of a broker's events when a second process failed at 102.2 s."""
    given = [*first, *_SECOND, (160, "process_stopping")]
    rows: list[Row] = [
        {"node": "broker-1", "ts": round(at * SECOND), "kind": kind, "file": "f", "line": line,
         "detail": why if kind == "process_failed" else None}
        for line, (at, kind) in enumerate(given)
    ]  # fmt: skip
    return [(row["ts"] / SECOND, row["kind"]) for row in leave_out_second_processes(rows)]


def test_who_cannot_lock_the_directories_of_a_broker_that_runs_is_another_process() -> None:
    locked = "Failed to acquire lock on file .lock in /data. A Kafka instance in another process"
    ran = [(1.0, "process_starting"), (5.0, "process_started")]
    end = (160, "process_stopping")

    assert second_process(ran, locked) == [*ran, end]
    assert second_process([], locked) == [end]
    # One that had been told to stop and still held its lock was the only one.
    stopped = [*ran, (90.0, "process_stopping")]
    assert second_process(stopped, locked) == [*stopped, *_SECOND, end]
    assert second_process(ran, "Address already in use") == [*ran, *_SECOND, end]
