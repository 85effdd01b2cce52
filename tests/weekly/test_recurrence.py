"""New, recurring, worse, better, resolved, not evaluable: never said without the logs for it."""

from __future__ import annotations

from datetime import date

import pytest

from forensics.weekly.notes import NO_NOTES, Note, Notes
from forensics.weekly.recurrence import TrackedFinding, track_findings
from forensics.weekly.week_summary import NodeSummary, WeekSummary
from tests.weekly.sample_summaries import make_finding, make_week

FLAPS = make_finding("flapping-broker", brokers=[2])
STALE = make_finding("stale-metadata", "medium", clients=["app-orders"])
OTHER_RULES = [["kafka-forensics", "b" * 64]]


def track_one(week: WeekSummary, *earlier: WeekSummary, notes: Notes = NO_NOTES) -> TrackedFinding:
    heard = track_findings(week, earlier, notes)
    assert len(heard) == 1
    return heard[0]


def test_the_first_week_calls_nothing_new() -> None:
    one = track_one(make_week("2026-W46", [FLAPS]))

    assert one.state == "seen"
    assert "no earlier week" in one.why


def test_what_no_earlier_week_has_is_new_and_it_is_said_which_could_have_shown_it() -> None:
    blind = make_week("2026-W44", covered={1: 1, 2: 0.1, 3: 1})
    one = track_one(make_week("2026-W46", [FLAPS]), blind, make_week("2026-W45"))

    assert (one.state, one.week_count, one.first_week) == ("new", 1, "2026-W46")
    assert one.why == "not in the 2 earlier weeks, 1 could have shown it"


def test_what_comes_again_is_counted_from_the_first_week_on() -> None:
    weeks = [make_week("2026-W43", [FLAPS]), make_week("2026-W44"), make_week("2026-W45", [FLAPS])]
    one = track_one(make_week("2026-W46", [FLAPS]), *weeks)

    assert (one.state, one.week_count, one.first_week) == ("recurring", 3, "2026-W43")


def test_after_a_pause_it_is_recurring_and_not_compared() -> None:
    one = track_one(make_week("2026-W46", [FLAPS | {"size": 9.0}]), make_week("2026-W44", [FLAPS]))

    assert (one.state, one.why) == ("recurring", "last seen in 2026-W44")


@pytest.mark.parametrize(
    ("size", "before", "state"),
    [(9.0, 3.0, "worse"), (3.0, 9.0, "better"), (4.0, 3.0, "recurring"), (1.0, 1.0, "recurring")],
)
def test_worse_and_better_are_by_size(size: float, before: float, state: str) -> None:
    last = make_week("2026-W45", [FLAPS | {"size": before}])

    assert track_one(make_week("2026-W46", [FLAPS | {"size": size}]), last).state == state


def test_a_higher_level_is_worse_whatever_its_size() -> None:
    last = make_week("2026-W45", [make_finding("flapping-broker", "medium", brokers=[2], size=9.0)])
    one = track_one(make_week("2026-W46", [FLAPS]), last)

    assert (one.state, one.why) == ("worse", "high, medium in 2026-W45")


def test_fewer_logs_do_not_look_better_and_more_logs_not_worse() -> None:
    """Half as many of half the week are as many; twice as many of twice as much are, too."""
    whole = make_week("2026-W45", [FLAPS | {"size": 8.0}])
    half = make_week("2026-W45", [FLAPS | {"size": 4.0}], covered=0.5)

    fewer = make_week("2026-W46", [FLAPS | {"size": 4.0}], covered=0.5)
    assert track_one(fewer, whole).state == "recurring"
    more = make_week("2026-W46", [FLAPS | {"size": 8.0}])
    assert track_one(more, half).state == "recurring"
    # All of it may have happened in the half that is covered.
    as_many = make_week("2026-W46", [FLAPS | {"size": 8.0}], covered=0.5)
    assert track_one(as_many, whole).state == "recurring"


def test_too_few_logs_compare_with_nothing() -> None:
    one = track_one(
        make_week("2026-W46", [FLAPS | {"size": 9.0}]), make_week("2026-W45", [FLAPS], covered=0.05)
    )

    assert one.state == "recurring"
    assert "too few logs to say more" in one.why


def test_other_rules_count_otherwise() -> None:
    last = make_week("2026-W45", [FLAPS], rules=OTHER_RULES)
    one = track_one(make_week("2026-W46", [FLAPS | {"size": 99.0}]), last)

    assert one.state == "recurring"
    assert "rules" in one.why


def test_what_would_have_been_seen_and_was_not_is_resolved() -> None:
    one = track_one(make_week("2026-W46"), make_week("2026-W45", [FLAPS]))

    assert (one.state, one.week, one.first_week) == ("resolved", "2026-W45", "2026-W45")


@pytest.mark.parametrize(
    ("week", "why"),
    [
        (make_week("2026-W46", covered={1: 1, 2: 0.5, 3: 1}), "logs of broker 2 cover 84 of 168 h"),
        (make_week("2026-W46", brokers=[1, 3]), "logs of broker 2 cover 0 of 168 h"),
        (make_week("2026-W46", covered=0.5), "logs of broker 2 cover 84 of 168 h"),
        (make_week("2026-W46", covered={1: 0.1, 2: 1, 3: 0.1}), "the logs cover 201.6 of 504 h"),
        (make_week("2026-W46", rules=OTHER_RULES), "the rules are others than in 2026-W45"),
        (make_week("2026-W46", detectors={}), "flapping-broker was not asked"),
        (
            make_week("2026-W46", detectors={
                "flapping-broker": {"status": "not_evaluable", "why": ["there is no log of it"]}
            }),
            "there is no log of it",
        ),
    ],
)  # fmt: skip
def test_silence_resolves_nothing(week: WeekSummary, why: str) -> None:
    one = track_one(week, make_week("2026-W45", [FLAPS]))

    assert (one.state, one.why) == ("not evaluable", why)


def test_a_client_without_its_log_is_not_cured() -> None:
    client: NodeSummary = {
        "role": "client",
        "broker": None,
        "covered_ms": 3_600_000,
        "days": [0] * 7,
    }
    last = make_week("2026-W45", [STALE])
    last.nodes["app-orders"] = client
    deaf, heard = make_week("2026-W46"), make_week("2026-W46")
    deaf.nodes["app-other"] = client
    heard.nodes["app-orders"] = client

    assert (track_one(deaf, last).state, track_one(deaf, last).why) == (
        "not evaluable", "no log of app-orders"
    )  # fmt: skip
    assert track_one(heard, last).state == "resolved"


def test_what_nobody_could_see_stays_open_until_somebody_can() -> None:
    last, dark = make_week("2026-W44", [FLAPS]), make_week("2026-W45", covered=0.2)

    assert track_one(make_week("2026-W46", covered=0.2), last, dark).state == "not evaluable"
    assert track_one(make_week("2026-W46"), last, dark).state == "resolved"


def test_what_was_over_is_told_of_once() -> None:
    assert (
        track_findings(
            make_week("2026-W46"), [make_week("2026-W44", [FLAPS]), make_week("2026-W45")]
        )
        == []
    )


def test_a_planned_restart_is_not_the_crash_of_last_week() -> None:
    crash = make_finding("broker-restart", "medium", brokers=[1])
    detectors = {"broker-restart": {"status": "fired", "why": []}}
    last = make_week("2026-W45", [crash], detectors=detectors)
    week = make_week(
        "2026-W46", [make_finding("broker-restart", "info", brokers=[1])], detectors=detectors
    )

    assert [(one.state, one.is_incident) for one in track_findings(week, [last])] == [
        ("resolved", True), ("new", False)
    ]  # fmt: skip


def test_weeks_that_come_later_are_not_looked_at() -> None:
    one = track_one(make_week("2026-W46", [FLAPS]), make_week("2026-W47", [FLAPS]))

    assert one.state == "seen"


def test_accepted_is_accepted_until_its_day_by_the_end_of_the_week() -> None:
    """W46 ends on Sunday, 15 November, whatever day it is where the page is drawn."""
    for day, accepted in ((15, True), (14, False), (16, True)):
        notes = Notes({FLAPS["signature"]: Note("ana", accepted_until=date(2026, 11, day))})
        one = track_one(make_week("2026-W46", [FLAPS]), notes=notes)

        assert (one.accepted, one.note and one.note.owner) == (accepted, "ana"), day


def test_what_is_said_of_an_id_holds_for_what_recurs_of_it() -> None:
    old = FLAPS | {"findings": [["F-00000abc", "high", 0]]}
    new = FLAPS | {"findings": [["F-00000def", "high", 0]]}
    notes = Notes({"F-00000abc": Note(accepted_until=date(2026, 12, 31))})
    one = track_one(make_week("2026-W46", [new]), make_week("2026-W45", [old]), notes=notes)

    assert one.accepted


def test_a_renamed_detector_is_the_same_trouble() -> None:
    old = make_finding("flappy", brokers=[2])
    notes = Notes({"flappy: broker 2": Note("ana")}, {"flappy": "flapping-broker"})
    one = track_one(make_week("2026-W46", [FLAPS]), make_week("2026-W45", [old]), notes=notes)

    assert (one.state, one.week_count, one.note and one.note.owner) == ("recurring", 2, "ana")
