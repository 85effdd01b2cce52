"""Stale-metadata errors: harmless behind a move that has just ended, not so long after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors.stale_metadata import STALE_ERRORS, find
from tests.detection.cases import SECOND, absence, case, epoch, event, logs, reign

Row = dict[str, Any]


def error(second: float, **more: Any) -> Row:
    facts = {"client": "app", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "t", "partition": 0}
    return event(second, "app", "client_error", **(facts | more))


def moved(second: float, election: str = "failover", **more: Any) -> Row:
    """Make the epoch in which broker 2 follows broker 1."""
    return epoch(1, 2, second, election=election, **({"previous_leader": 1} | more))


def told(folder: Path, errors: list[Row], **more: Any) -> list[tuple[str, str, str]]:
    """Say of each episode: verdict, cause, severity."""
    files = more.pop("files", [logs("app", 10_000)])
    found = find(case(folder, events=errors, files=files, **more))
    return [
        (str(one.measures["verdict"]), str(one.measures["cause"]), one.severity) for one in found
    ]


def test_errors_that_end_with_the_move_are_transient(tmp_path: Path) -> None:
    errors = [error(100.5), error(102, partition=0)]
    told = logs("broker-9", 10_000, file="broker-9/state-change.log")
    files = [logs("app", 10_000), told]

    [found] = find(case(tmp_path, events=errors, leadership=[moved(100)], files=files))

    assert found.measures == {
        "errors": 2, "duration_s": 1.5, "verdict": "transient", "cause": "broker_crash",
        "suspect": None, "bursts": 1, "leaderless": 0, "topics": ["t"], "asked": [1],
        "led_before": [1], "leader": 2, "leader_epoch": 1,
        "led_since": "1970-01-01T00:01:40.000Z", "stale_s": 2.0, "spread_s": None,
        "slow_spread": False, "outdated": [], "metadata_max_age_ms": None,
        "lost": "not_known", "duplicated": "not_known", "recovered": True, "stable": True,
        "explained_by": None,
    }  # fmt: skip
    assert (
        found.severity,
        found.confidence,
        found.clients,
        found.partitions,
    ) == ("info", "likely", ["app"], ["t-0"])
    assert (int(100.5 * SECOND), 102 * SECOND) == (found.begin, found.end)
    assert len(found.evidence) == 3


def test_other_errors_are_not_stale_metadata(tmp_path: Path) -> None:
    assert told(tmp_path, [error(100, error="REQUEST_TIMED_OUT"), error(101, error=None)]) == []


@pytest.mark.parametrize("name", STALE_ERRORS)
def test_every_error_of_stale_metadata_counts(name: str, tmp_path: Path) -> None:
    assert len(told(tmp_path, [error(100, error=name)])) == 1


@pytest.mark.parametrize(("second", "verdict"), [(115, "transient"), (115.001, "sustained")])
def test_errors_may_go_on_a_quarter_of_a_minute_after_the_move(
    second: float, verdict: str, tmp_path: Path
) -> None:
    errors = [error(99), error(110), error(second)]

    assert verdict == told(tmp_path, errors, leadership=[moved(100)])[0][0]


def test_a_move_in_the_middle_of_the_errors_begins_the_time_anew(tmp_path: Path) -> None:
    """As long as leaders move, a client cannot settle."""
    errors = [error(second) for second in (100, 110, 120, 130)]
    moves = [moved(100), epoch(2, 3, 118, previous_leader=2)]

    assert told(tmp_path, errors, leadership=moves)[0][0] == "transient"


@pytest.mark.parametrize(
    ("last", "log_end", "verdict"),
    [(130, 145, "stuck"), (130, 145.001, "sustained"), (129.999, 130, "sustained")],
)
def test_errors_that_last_half_a_minute_and_to_the_end_of_the_log_are_stuck(
    last: float, log_end: float, verdict: str, tmp_path: Path
) -> None:
    errors = [error(second) for second in (100, 110, 120, last)]

    assert (
        verdict
        == told(tmp_path, errors, leadership=[moved(99)], files=[logs("app", log_end)])[0][0]
    )


def test_severity_follows_the_verdict(tmp_path: Path) -> None:
    errors = [error(float(second)) for second in range(100, 170, 10)]
    moves = [moved(99)]

    assert told(tmp_path, errors, leadership=moves)[0] == ("sustained", "broker_crash", "medium")
    assert told(tmp_path, errors, leadership=moves, files=[logs("app", 165)])[0] == (
        "stuck",
        "broker_crash",
        "high",
    )


@pytest.mark.parametrize(("gap", "episodes"), [(30, 1), (30.001, 2)])
def test_errors_more_than_half_a_minute_apart_are_two_episodes(
    gap: float, episodes: int, tmp_path: Path
) -> None:
    assert episodes == len(told(tmp_path, [error(100), error(100 + gap)]))


def test_every_process_has_its_own_episodes(tmp_path: Path) -> None:
    errors = [
        error(100),
        error(101, client="other"),
        event(102, "app-2", "client_error", topic="t", error=STALE_ERRORS[0]),
    ]
    found = list(find(case(tmp_path, events=errors, files=[logs("app", 10_000)])))

    assert [one.clients for one in found] == [["app", "other"], ["app-2"]]
    assert found[0].title.startswith("app (2 clients): 2 stale-metadata errors in 1 s, transient")


@pytest.mark.parametrize(
    ("election", "cause"),
    [
        ("unclean", "unclean_election"),
        ("failover", "broker_crash"),
        ("controlled_shutdown", "controlled_restart"),
        ("reassignment", "reassignment"),
        ("preferred", "preferred_election"),
        ("unknown", "none_seen"),
    ],
)
def test_the_cause_is_the_election_behind_the_move(
    election: str, cause: str, tmp_path: Path
) -> None:
    assert cause == told(tmp_path, [error(100)], leadership=[moved(100, election)])[0][1]


def test_a_broker_that_flaps_is_a_better_cause_than_a_crash(tmp_path: Path) -> None:
    away = [absence(1, "crash", second, second + 5) for second in (90, 200, 300)]

    assert told(tmp_path, [error(100)], leadership=[moved(100)], away=away)[0][1] == "flapping"


def test_an_unclean_leader_after_none_at_all_is_the_cause(tmp_path: Path) -> None:
    """First nobody led, then somebody out of sync did: one story, told by its worst part."""
    moves = [
        epoch(1, -1, 100, election="failover", previous_leader=1),
        epoch(2, 3, 103, election="unclean", previous_leader=-1),
    ]
    errors = [error(101), error(104)]

    assert told(tmp_path, errors, leadership=moves) == [("transient", "unclean_election", "info")]


@pytest.mark.parametrize(("second", "cause"), [(130, "controller_change"), (130.001, "none_seen")])
def test_a_new_controller_is_a_cause_when_nothing_else_is(
    second: float, cause: str, tmp_path: Path
) -> None:
    reigns = [reign("controller-1", 1, 1, 5), reign("controller-2", 2, 2, second)]

    assert cause == told(tmp_path, [error(100)], controllers=reigns)[0][1]


@pytest.mark.parametrize(
    "move",
    [
        moved(140.001),
        moved(-200.001),
        moved(100, partition=1),
        moved(100, previous_leader=2),
        moved(100, "initial"),
    ],
    ids=["too late", "too early", "another partition", "the same leader", "the first leader"],
)
def test_what_is_no_move_of_these_partitions_nearby_is_no_cause(move: Row, tmp_path: Path) -> None:
    found: DetectionContext = case(tmp_path, events=[error(100), error(110)], leadership=[move])
    [one] = find(found)

    assert (one.measures["cause"], one.confidence) == ("none_seen", "possible")


def test_an_error_that_names_only_a_topic_is_explained_by_any_of_its_partitions(
    tmp_path: Path,
) -> None:
    errors = [error(100, partition=None)]

    assert told(tmp_path, errors, leadership=[moved(100, partition=7)])[0][1] == "broker_crash"
