"""Stale-metadata errors: harmless behind a move that has just ended, not so long after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors.stale_metadata import STALE_ERRORS, find
from forensics.history.nodes.broker_states import Span
from forensics.history.nodes.controller_terms import ControllerTerm
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
        "fails_fast": [], "lost": "not_known", "duplicated": "not_known", "recovered": True,
        "stable": True, "explained_by": None,
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


SAYS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "a preferred election": (
        {"leadership": [moved(100, "preferred")]},
        ["Transient: the client asked a broker that did not lead",
         "Asked: broker 1, which led before (the errors name no broker).",
         "Leader: broker 2 led t-0 (leader epoch 1) from 00:01:40.000 UTC to the end of the logs",
         "Cause: a preferred election", "Unstable broker: none", "Controller: these logs do not",
         "metadata.max.age.ms: not logged, 300000 by default",
         "Recovered: yes, no further error in its log, which goes on for 9898 s.",
         "Lost: not known", "An application need not catch the error"],
        ["Nothing to do.", "does broker 2 lead t-0?"],
    ),
    "a crash": (
        {"leadership": [moved(100)], "away": [absence(1, "crash", 95, 130)]},
        ["Cause: broker 1 crashed at 00:01:35.000 UTC."], ["Nothing to do for the client"],
    ),
    "a pause": (
        {"leadership": [moved(100)], "away": [absence(1, "pause", 99, 130)]},
        ["Cause: broker 1 froze and was given up at 00:01:39.000 UTC."],
        ["Nothing to do for the client"],
    ),
    "a broker cut off": (
        {"leadership": [moved(100)], "away": [absence(1, "isolated", 99, 130)]},
        ["Cause: broker 1 was cut off from the network and was given up at"],
        ["Nothing to do for the client"],
    ),
    "a broker that lost its session": (
        {"leadership": [moved(100)], "away": [absence(1, "gone", 99, 130)]},
        ["Cause: broker 1 was given up by the cluster at 00:01:39.000 UTC."],
        ["Nothing to do for the client"],
    ),
    "a vacancy is told": (
        {"leadership": [moved(100)], "offices": [
            reign("c-1", 1, 1, 5),
            ControllerTerm("c-1", None, Span("vacant", 99 * SECOND, 103 * SECOND))]},
        ["none was active for 4 s from 00:01:39.000 UTC on"], [],
    ),
    "flapping": (
        {"leadership": [moved(100)],
         "away": [absence(1, "crash", second, second + 5) for second in (90, 200, 300)]},
        ["Unstable broker: broker 1."],
        ["Stabilise broker 1:", "kafka-broker-api-versions.sh", "is there one active controller"],
    ),
    "leaders given back to a flapping broker": (
        {"leadership": [epoch(1, 1, 100, election="preferred", previous_leader=2)],
         "away": [absence(1, "crash", second, second + 5) for second in (90, 200, 300)]},
        ["Unstable broker: broker 1."], ["Stabilise broker 1:"],
    ),
    "a new controller": (
        {"leadership": [moved(100)], "offices": [
            reign("c-1", 1, 1, 5), reign("c-2", 2, 2, 101)]},
        ["Controller: it changed to node 2 at 00:01:41.000 UTC."], [],
    ),
    "one controller": (
        {"leadership": [moved(100)], "offices": [reign("c-1", 1, 1, 5)]},
        ["Controller: node 1 was active all the while."], [],
    ),
    "a partition that moves on": (
        {"leadership": [moved(100), epoch(2, 3, 200, previous_leader=2)]},
        ["until 00:03:20.000 UTC, when broker 3 took over (failover)."],
        ["does broker 3 lead t-0?"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAYS)
def test_a_card_walks_the_steps_of_an_investigation(name: str, tmp_path: Path) -> None:
    built, says, actions = SAYS[name]
    files = [logs("app", 10_000, role="client"), logs("broker-1", 10_000, role="broker")]
    [one] = find(case(tmp_path, events=[error(101), error(102)], files=files, **built))

    assert [text for text in says if text not in one.explanation] == []
    assert [text for text in actions if text not in "\n".join(one.actions)] == []
    unstable = "Stabilise" in "".join(one.actions)
    assert unstable is (name in {"flapping", "leaders given back to a flapping broker"})
    assert not (unstable and any("Nothing to do" in text for text in one.actions))


def settings(**values: str) -> list[Row]:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return [event(1, "app", "client_setting_seen", setting=name, value=value)
            for name, value in ({"client.id": "app"} | named).items()]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "logged", "says"),
    [
        (101, {}, "it played no part"),
        (200, {"metadata_max_age_ms": "300000"}, "300000, as logged; it allows for the 100 s"),
        (200, {"metadata_max_age_ms": "60000"}, "60000, as logged; it does not explain the 100 s"),
    ],
)
def test_the_age_of_metadata_is_held_against_the_time_to_the_first_error(
    second: float, logged: dict[str, str], says: str, tmp_path: Path
) -> None:
    events = [*settings(**logged), error(second)]
    [one] = find(case(tmp_path, events=events, leadership=[moved(100)]))

    assert says in one.explanation


def test_errors_that_go_on_are_not_explained_by_the_age_of_metadata(tmp_path: Path) -> None:
    errors = [error(float(second)) for second in range(100, 170, 10)]
    [one] = find(case(tmp_path, events=errors, leadership=[moved(99)]))

    assert "it does not explain errors that go on" in one.explanation
    text = "\n".join(one.actions)
    for wanted in ("kafka-topics.sh", "kafka-broker-api-versions.sh", "ss -ltnp",
                   "kafka-metadata-quorum.sh", "is a zombie"):  # fmt: skip
        assert wanted in text


def test_a_stuck_client_is_restarted_only_when_no_broker_is_behind(tmp_path: Path) -> None:
    errors = [error(float(second)) for second in range(100, 170, 10)]
    files = [logs("app", 165)]
    [one] = find(case(tmp_path, events=errors, leadership=[moved(99)], files=files))

    assert one.measures["verdict"] == "stuck"
    restart = next(text for text in one.actions if text.startswith("Restart app"))
    assert "only if all brokers name the same leader" in restart
    zombie = next(text for text in one.actions if "is a zombie" in text)
    assert "Do not restart it while it is the only replica in sync" in zombie


def test_a_producer_that_fails_fast_is_told_so(tmp_path: Path) -> None:
    events = [*settings(acks="-1", retries="0", delivery_timeout_ms="5000"), error(101)]
    [one] = find(case(tmp_path, events=events, leadership=[moved(100)]))

    text = "\n".join(one.actions)
    assert "Raise retries of app (0)" in text
    assert "Raise delivery.timeout.ms of app (5000)" in text


def test_a_replica_that_is_not_available_is_told_as_informational(tmp_path: Path) -> None:
    [one] = find(case(tmp_path, events=[error(101, error="REPLICA_NOT_AVAILABLE")]))

    assert one.severity == "info"
    assert one.explanation.startswith("Mostly informational")


def test_errors_that_name_no_topic_are_judged_too(tmp_path: Path) -> None:
    errors = [error(100 + at, topic=None, partition=None) for at in range(5)]

    assert ["no_broker_logs"] == [
        one.measures["suspect"]
        for one in find(case(tmp_path, events=errors, files=[logs("app", 10_000)]))
    ]


@pytest.mark.parametrize("second", [112, 140])
def test_a_new_partition_whose_leader_froze_is_not_the_cause(second: float, tmp_path: Path) -> None:
    made = epoch(0, 1, 100, election="initial")
    for name in ("new", "froze"):
        (tmp_path / name).mkdir()
    errors = [error(second), error(second + 1)]
    frozen = [absence(1, "pause", 105, 111)]

    assert [("transient", "none_seen", "info")] == told(
        tmp_path / "new", [error(112)], leadership=[made]
    )
    assert [("transient", "broker_crash", "info")] == told(
        tmp_path / "froze", errors, leadership=[made], away=frozen
    )
