"""A broker that leaves again and again flaps; one that is restarted does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forensics.detection.detectors.broker_restart import find as find_restarts
from forensics.detection.detectors.flapping_broker import find
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, absence, case, epoch, event, version


def test_three_crashes_within_an_hour_are_flapping(tmp_path: Path) -> None:
    away = [
        absence(2, "crash", begin, begin + length)
        for begin, length in ((100, 4), (200, 6), (300, 9))
    ]
    moved = [
        epoch(0, 2, 1),
        epoch(1, 1, 101, previous_leader=2),
        epoch(2, 2, 150, previous_leader=1),
        epoch(3, 3, 150, partition=1, previous_leader=2),
    ]

    [found] = find(case(tmp_path, away=away, leadership=moved))

    assert found.measures == {
        "cycles": 3,
        "median_away_s": 6.0,
        "partitions_moved": 1,
        "led_again": 1,
        "how": "crash",
        "ways": {"crash": 3},
        "absences": [
            {"from": "1970-01-01T00:01:40.000Z", "seconds": 4.0},
            {"from": "1970-01-01T00:03:20.000Z", "seconds": 6.0},
            {"from": "1970-01-01T00:05:00.000Z", "seconds": 9.0},
        ],
    }
    assert found.title == "Broker 2 crashed 3 times, down 6 s each (median)"
    assert "1 partition got other leaders, and broker 2 led 1 of them again" in found.explanation
    assert (found.severity, found.brokers, found.partitions) == ("high", [2], ["t-0"])
    assert (found.begin, found.end) == (100_000_000, 309_000_000)
    assert [place["line"] for place in found.evidence] == [1000, 2000, 3000]


def test_what_never_came_back_is_not_said_to_have(tmp_path: Path) -> None:
    away = [absence(2, "crash", 100, 104), absence(2, "crash", 200, 204), absence(2, "crash", 300)]
    moved = [epoch(0, 2, 1), epoch(1, 1, 301, previous_leader=2)]

    [found] = find(case(tmp_path, away=away, leadership=moved))

    assert found.title.endswith("down 4 s each (median); not back before the logs end")
    assert "broker 2 led none of them again later" in found.explanation
    assert "After the last time broker 2 did not come back" in found.explanation
    assert any("Start broker 2" in action for action in found.actions)


@pytest.mark.parametrize(
    ("kind", "verb"),
    [("pause", "froze"), ("fenced", "lost its session"), ("isolated", "was cut off")],
)
def test_how_it_left_is_said_as_the_lines_show_it(kind: str, verb: str, tmp_path: Path) -> None:
    away = [absence(2, kind, begin, begin + 9) for begin in (100, 200, 300)]

    [found] = find(case(tmp_path, away=away))

    assert found.title.startswith(f"Broker 2 {verb}")
    assert not any("killed process" in action for action in found.actions)


def test_why_its_process_ended_is_not_looked_for_where_it_is_logged(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 4) for begin in (100, 200, 300)]
    failed = [event(begin, "broker-2", "log_dir_failed", log_dir="/d1") for begin in (100, 200)]

    [found] = find(case(tmp_path, away=away, events=failed))

    assert "2 times its log directories had failed." in found.explanation
    assert found.measures["reasons"] == ["its log directories had failed"]
    assert "See the finding about the log directory of broker 2" in found.actions[0]
    assert not any("killed process" in action for action in found.actions)


def test_an_error_of_the_next_start_is_not_why_it_ended(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 30) for begin in (100, 200, 300)]
    failed = [event(begin + 6, "broker-2", "process_failed") for begin in (100, 200, 300)]
    starts = [
        Span("starting", (begin + 4) * SECOND, (begin + 6) * SECOND) for begin in (100, 200, 300)
    ]

    [found] = find(case(tmp_path, away=away, events=failed, brokers={2: starts}))

    assert "ended itself" not in found.explanation
    assert "killed process" in found.actions[0]


def test_failed_starts_are_counted_beside_crashes(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 30) for begin in (100, 200, 300)]
    error = {"error": "x.NodeExistsException", "detail": "KeeperErrorCode = NodeExists"}
    failed = [event(begin + 6, "broker-2", "process_failed", **error) for begin in (100, 200)]
    spans = [
        Span(state, (begin + after) * SECOND, (begin + after + 1) * SECOND)
        for begin in (100, 200, 300)
        for after, state in (
            [(4, "starting"), (6, "crashed"), (10, "starting"), (30, "up")]
            if begin < 300
            else [(4, "starting"), (30, "up")]
        )
    ]

    [found] = find(case(tmp_path, away=away, events=failed, brokers={2: spans}))

    assert found.title.startswith("Broker 2 crashed 3 times, and 2 of 5 starts failed")
    assert found.measures["failed_starts"] == 2
    assert '2 starts of 5 came to nothing: "KeeperErrorCode = NodeExists".' in found.explanation


def test_a_start_that_failed_names_javas_own_exception(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 30) for begin in (100, 200, 300)]
    error = {"error": "java.lang.OutOfMemoryError", "detail": "Error starting LogManager"}
    failed = [event(begin + 6, "broker-2", "process_failed", **error) for begin in (100, 200)]
    spans = [
        Span(state, (begin + after) * SECOND, (begin + after + 1) * SECOND)
        for begin in (100, 200)
        for after, state in [(4, "starting"), (6, "crashed"), (10, "starting"), (30, "up")]
    ]

    [found] = find(case(tmp_path, away=away, events=failed, brokers={2: spans}))

    assert '"Error starting LogManager: java.lang.OutOfMemoryError"' in found.explanation


def test_freezes_that_kept_the_session_are_counted_beside_those_that_did_not(
    tmp_path: Path,
) -> None:
    away = [absence(2, "pause", begin, begin + 12) for begin in (100, 200, 300)]
    text = "(elapsed time since send: 7000ms, request timeout: 2000ms)"
    late = [
        event(end, "broker-2", "peer_request_lost", duration_ms=7000, text=text)
        for end in (150, 250, 450)
    ]

    [found] = find(case(tmp_path, away=away, events=late))

    assert "froze at least 5 times and lost its session 3 times" in found.title
    assert found.measures["freezes_min"] == len(found.measures["times"]) == 5
    # How often it froze follows from what others did not hear.
    assert found.confidence != "confirmed"
    assert "2 more freezes of some seconds ended before its session did." in found.explanation
    assert "there may be more" in found.explanation


@pytest.mark.parametrize(
    ("value", "advised"), [("true", "by itself"), ("false", "they give it back leaders")]
)
def test_the_advice_fits_who_moves_leaders_back(tmp_path: Path, value: str, advised: str) -> None:
    away = [absence(2, "crash", begin, begin + 4) for begin in (100, 200, 300)]
    setting = {"setting": "auto.leader.rebalance.enable", "value": value}
    said = [event(1, "broker-1", "setting_seen", **setting)]

    [found] = find(case(tmp_path, away=away, events=said))

    assert advised in found.actions[-1]


def test_it_says_when_redundancy_was_back(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 4) for begin in (100, 200, 300)]
    states = [version(1, [1, 2], 10, 301), version(2, [1], 301, 330), version(3, [1, 2], 330, None)]

    [found] = find(case(tmp_path, away=away, isr=states))

    assert "All its replicas were in sync again at 00:05:30." in found.explanation
    # Nobody need look whether they are, then.
    asked = "are broker 2's replicas in sync again?"
    assert not [action for action in found.actions if asked in action]
    [found] = find(case(tmp_path, away=away, isr=states[:2]))
    assert [action for action in found.actions if asked in action]


def test_two_crashes_are_not(tmp_path: Path) -> None:
    away = [
        absence(2, "crash", 100, 104),
        absence(2, "crash", 200, 204),
        absence(1, "crash", 300, 304),
    ]

    assert list(find(case(tmp_path, away=away))) == []


@pytest.mark.parametrize(("last", "flaps"), [(3700, 1), (3700.001, 0)])
def test_the_window_includes_its_end(last: float, flaps: int, tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 1) for begin in (100, 500, last)]

    assert flaps == len(list(find(case(tmp_path, away=away))))


def test_planned_restarts_do_not_count(tmp_path: Path) -> None:
    away = [absence(2, "controlled", 100 * n, 100 * n + 9) for n in range(1, 9)]

    assert list(find(case(tmp_path, away=away))) == []
    assert list(find(case(tmp_path, away=[*away, absence(2, "crash", 950, 960)]))) == []


def test_a_rolling_restart_that_kills_every_broker_once_is_not_flapping(tmp_path: Path) -> None:
    away = [absence(broker, "crash", 100 * broker, 100 * broker + 9) for broker in (1, 2, 3)]

    assert list(find(case(tmp_path, away=away))) == []


@pytest.mark.parametrize(
    ("kinds", "how"),
    [(["pause"] * 3, "pause"), (["crash", "pause", "crash"], "mixed"), (["crash"] * 3, "crash")],
)
def test_how_it_left_is_told(kinds: list[str], how: str, tmp_path: Path) -> None:
    away = [absence(2, kind, 100 * n, 100 * n + 9) for n, kind in enumerate(kinds, 1)]

    assert how == next(iter(find(case(tmp_path, away=away)))).measures["how"]


def test_a_broker_that_did_not_come_back_the_last_time_is_away_to_the_end(tmp_path: Path) -> None:
    away = [absence(2, "crash", 100, 104), absence(2, "crash", 200, 204), absence(2, "crash", 300)]
    [found] = find(case(tmp_path, away=away))

    assert found.end == 10_000_000_000
    assert found.measures["median_away_s"] == 4.0


def test_the_busiest_hour_is_told(tmp_path: Path) -> None:
    away = [absence(2, "crash", begin, begin + 1) for begin in (1, 3000, 6000, 6100, 6200, 6300)]
    [found] = find(case(tmp_path, away=away))

    assert found.measures["cycles"] == 5
    assert found.begin == 3_000_000_000


def test_two_brokers_that_flap_are_two_findings(tmp_path: Path) -> None:
    away = [
        absence(broker, "pause", 100 * n + 10 * broker, 100 * n + 10 * broker + 9)
        for n in (1, 2, 3)
        for broker in (3, 2)
    ]

    assert [found.brokers for found in find(case(tmp_path, away=away))] == [[2], [3]]


@pytest.mark.parametrize(
    ("kind", "end", "severity", "measures"),
    [
        ("controlled", 109.04, "info", {"kind": "controlled", "away_s": 9.0}),
        ("crash", 109.06, "medium", {"kind": "crash", "away_s": 9.1}),
        ("crash", None, "high", {"kind": "crash", "away_s": None}),
        ("fenced", 109, "medium", {"kind": "unknown", "away_s": 9.0}),
        ("unknown", 109, "low", {"kind": "unknown", "away_s": 9.0}),
        ("controlled", None, "info", {"kind": "controlled", "away_s": None}),
    ],
)
def test_one_absence_is_a_restart(
    kind: str, end: float | None, severity: str, measures: dict[str, object], tmp_path: Path
) -> None:
    [found] = find_restarts(case(tmp_path, away=[absence(2, kind, 100, end)]))

    assert (severity, measures) == (found.severity, found.measures)
    assert found.evidence


@pytest.mark.parametrize("kind", ["pause", "isolated"])
def test_what_hung_or_was_cut_off_is_told_elsewhere(kind: str, tmp_path: Path) -> None:
    assert list(find_restarts(case(tmp_path, away=[absence(2, kind, 100, 109)]))) == []


def test_what_belongs_to_flapping_is_not_told_again_as_restarts(tmp_path: Path) -> None:
    flaps = [absence(2, "crash", 100 * n, 100 * n + 9) for n in (1, 2, 3)]
    others = [absence(2, "controlled", 400, 409), absence(1, "crash", 500, 509)]

    assert [
        (found.brokers, found.severity)
        for found in find_restarts(case(tmp_path, away=flaps + others))
    ] == [([2], "info"), ([1], "medium")]


def test_a_broker_that_zookeeper_refuses_is_started_once_its_old_session_is_over(
    tmp_path: Path,
) -> None:
    away = [absence(2, "crash", 100, 130), absence(2, "crash", 200, 230), absence(2, "crash", 300)]
    error = {"error": "x.NodeExistsException", "detail": "KeeperErrorCode = NodeExists"}
    events = [
        event(50, "broker-2", "zookeeper_connected", duration_ms=9000),
        event(306, "broker-2", "process_failed", **error),
    ]
    spans = [
        Span("starting", 304 * SECOND, 306 * SECOND),
        Span("crashed", 306 * SECOND, None),
    ]

    [found] = find(case(tmp_path, away=away, events=events, brokers={2: spans}, kraft=False))

    assert found.actions[0].startswith("Start broker 2 once the ZooKeeper session of its former")
    assert "zookeeper.session.timeout.ms (9 s here)" in found.actions[0]
    assert "broker.id=2" in found.actions[0]


def test_a_beginning_that_is_an_estimate_says_how_far_it_may_be_off(tmp_path: Path) -> None:
    brackets = {100: (99, 104), 200: (200, 201), 300: None}
    away = [
        replace(
            absence(2, "crash", begin, begin + 4),
            begin_bracket=(known[0] * SECOND, known[1] * SECOND) if known else None,
        )
        for begin, known in brackets.items()
    ]
    [found] = find(case(tmp_path, away=away))

    assert [one.get("within_s") for one in found.measures["absences"]] == [5.0, None, None]
