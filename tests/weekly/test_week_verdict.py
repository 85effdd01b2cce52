"""Better, same or worse: said with numbers, and only where the logs of both windows allow it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from forensics.weekly.notes import Note, Notes
from forensics.weekly.week_summary import WeekSummary
from forensics.weekly.week_verdict import compare_weeks
from tests.weekly.sample_summaries import make_finding, make_week

FLAPS = make_finding("flapping-broker", brokers=[2])
MINOR = make_finding("stale-metadata", "medium", 5, clients=["app"])
BUSY = {2: {"leaders_lost": 400, "minutes_away": 90.0}}


def week(*findings: dict[str, Any], **more: Any) -> WeekSummary:
    return make_week("2026-W46", findings, **more)


def last(*findings: dict[str, Any], **more: Any) -> WeekSummary:
    return make_week("2026-W45", findings, **more)


@pytest.mark.parametrize(
    ("now", "then", "word", "why"),
    [
        (week(FLAPS), last(), "worse", "1 high finding against 0 in the week before"),
        (week(), last(FLAPS), "better", "0 high findings against 1 in the week before"),
        (week(FLAPS), last(FLAPS), "same", "as many findings of each level"),
        # The worst level that differs decides.
        (week(FLAPS), last(MINOR), "worse",
         "1 high finding against 0 in the week before; 0 medium against 5"),
        (week(FLAPS, MINOR), last(FLAPS), "worse", "5 medium findings against 0"),
        (week(make_finding("x", "info", 9)), last(), "same", "as many findings of each level"),
        # Where findings are equal, counts decide, but only if they are far apart.
        (week(signals=BUSY), last(), "worse", "leaderships lost 400 against 0"),
        (week(), last(signals=BUSY), "better", "minutes away, unplanned 0 against 90"),
        (week(signals={2: {"leaders_lost": 400}}), last(signals={2: {"leaders_lost": 300}}),
         "same", "all counts are about the same"),
        (week(signals={2: {"leaders_lost": 40}}), last(), "same", "all counts are about the same"),
        (week(signals={2: {"leaders_lost": 400}}), last(signals={2: {"minutes_away": 90.0}}),
         "same", "point both ways"),
    ],
)  # fmt: skip
def test_the_word_and_its_reason(now: WeekSummary, then: WeekSummary, word: str, why: str) -> None:
    verdict = compare_weeks(now, then)

    assert verdict.word == word
    assert why in verdict.why


@pytest.mark.parametrize(
    ("now", "then", "why"),
    [
        (week(FLAPS), None, "the week before is not in the store"),
        (week(FLAPS), last(rules=[["kafka-forensics", "b" * 64]]), "by other rules"),
        # That nothing was there before is not known, nor that nothing is there now.
        (week(FLAPS), last(covered=0.5), "252 of 504 h of the week before"),
        (week(covered=0.5), last(FLAPS), "252 of 504 h of this window"),
        (week(FLAPS, covered=0.5), last(FLAPS), "252 of 504 h of this window"),
        # Broker 3 had logs last week; now nobody collected them.
        (week(brokers=[1, 2]), last(FLAPS), "336 of 504 h of this window"),
    ],
)
def test_what_the_logs_do_not_allow_is_not_said(
    now: WeekSummary, then: WeekSummary | None, why: str
) -> None:
    verdict = compare_weeks(now, then)

    assert verdict.word == "cannot compare"
    assert why in verdict.why


def test_that_it_is_worse_can_be_seen_with_few_logs_of_now() -> None:
    verdict = compare_weeks(week(FLAPS, covered=0.3), last())

    assert verdict.word == "worse"
    assert verdict.now[:2] == (round(0.3 * 504 * 3_600_000), 504 * 3_600_000)


def test_more_findings_of_more_logs_are_as_many() -> None:
    """One week is covered by four fifths, the other whole: five of it are four of the first."""
    many = [make_finding("flapping-broker", brokers=[at]) for at in range(1, 6)]

    assert compare_weeks(week(*many), last(*many[:4], covered=0.8)).word == "same"
    assert compare_weeks(week(*many), last(*many[:3], covered=0.8)).word == "worse"


def test_a_new_broker_does_not_make_the_week_before_unknown() -> None:
    assert compare_weeks(week(brokers=[1, 2, 3, 4]), last()).word == "same"


def test_what_is_accepted_makes_nothing_worse_and_its_end_does() -> None:
    held = Notes({FLAPS["signature"]: Note(accepted_until=date(2026, 12, 31))})
    over = Notes({FLAPS["signature"]: Note(accepted_until=date(2026, 11, 1))})

    assert compare_weeks(week(FLAPS), last(), held).word == "same"
    assert compare_weeks(week(FLAPS), last(), over).word == "worse"
