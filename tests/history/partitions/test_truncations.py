"""Logs that were cut: what was on them alone, and whether an unclean leader made it necessary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.fold import FoldContext
from tests.history.log_lines import NO_CLOCKS, SECOND, event, fold

PLAIN = FoldContext(NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=False)
Row = dict[str, Any]


def state(second: float, node: int, leader: int, epoch: int, **more: Any) -> Row:
    """Make what one broker says as it begins to lead or to follow."""
    facts: Row = {"leader": leader, "leader_epoch": epoch, "partition_epoch": epoch}
    return event(second, f"broker-{node}", **(facts | more))


def line(second: float, node: int, kind: str, **facts: Any) -> Row:
    return event(second, f"broker-{node}", kind, **facts)


# Broker 1 leads, broker 2 takes over with 70 records, broker 1 has 75 as it begins to follow.
LEADS = state(1, 1, 1, 0, isr=[1, 2], replicas=[1, 2], log_end=0)
OVER = state(10, 2, 2, 1, isr=[2], replicas=[1, 2], log_end=70)
FOLLOWS = state(11, 1, 2, 1, log_end=75, high_watermark=70)
CUT = line(12, 1, "truncated", cut_to=70)


def cuts(*events: Row) -> list[Row]:
    return [row for row in fold(events, PLAIN) if row["table"] == "cuts"]


def facts(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("broker", "leader_epoch", "kept", "cut_to", "log_end"))


def test_a_cut_tells_what_the_old_leader_alone_had() -> None:
    [cut] = cuts(LEADS, OVER, FOLLOWS, CUT)

    assert (1, 1, 70, 70, 75) == facts(cut)
    assert cut["unclean"] is False
    assert (2, 70) == (cut["leader"], cut["high_watermark"])
    assert [120, 110] == [place["line"] for place in cut["evidence"]]


def test_the_lost_records_were_written_between_two_moments() -> None:
    """Its own leader had none of them as it began; it had all as it began to follow the next."""
    [cut] = cuts(LEADS, OVER, FOLLOWS, CUT)

    assert (1 * SECOND, 11 * SECOND) == (cut["written_from"], cut["written_to"])


@pytest.mark.parametrize(
    ("kind", "begin", "end", "until"),
    [
        ("crash", 6, 10.5, 7),
        # one that hung goes on to write when it wakes up
        ("pause", 6, 10.5, 11),
        ("controlled", 6, 10.5, 11),
        # before it led, and after it had followed
        ("crash", 0.1, 0.5, 11),
        ("crash", 12, 13, 11),
    ],
)
def test_nobody_wrote_after_the_leader_had_died(
    kind: str, begin: float, end: float, until: float
) -> None:
    """The time in which the next one led is not when they were written."""
    begins, ends = int(begin * SECOND), int(end * SECOND)
    died = Absence(1, kind, begins, ends, (), begin_bracket=(begins - SECOND, begins + SECOND))
    known = replace(PLAIN, absences=(died,))
    loaded = line(10.9, 1, "log_loaded", log_end=75)
    [cut] = (row for row in fold([LEADS, OVER, loaded, FOLLOWS, CUT], known) if "kept" in row)

    assert cut["written_from"] == 1 * SECOND
    assert cut["written_to"] == min(int(until * SECOND), int(10.9 * SECOND))


def test_a_log_that_was_loaded_at_that_length_was_written_before() -> None:
    loaded = line(5, 1, "log_loaded", log_end=75)

    assert 5 * SECOND == cuts(LEADS, OVER, loaded, FOLLOWS, CUT)[0]["written_to"]


def test_what_is_loaded_after_tells_the_end_where_nothing_else_does() -> None:
    loaded = line(11, 1, "log_loaded", log_end=75)
    [cut] = cuts(LEADS, OVER, loaded, CUT)

    assert (1, None, None, 70, 75) == facts(cut)
    assert cut["unclean"] is None


def test_an_end_that_is_not_beyond_the_cut_is_not_believed() -> None:
    """The log grew after that line, or the line is about another time."""
    short = state(11, 1, 2, 1, log_end=70)

    assert cuts(LEADS, OVER, short, CUT)[0]["log_end"] is None


def test_one_line_in_two_files_is_one_cut() -> None:
    again = CUT | {"file": "broker-1/controller.log"}

    assert 1 == len(cuts(LEADS, OVER, FOLLOWS, CUT, again))


def test_a_cut_that_cuts_nothing_is_none() -> None:
    assert [] == cuts(LEADS, OVER, FOLLOWS, line(12, 1, "truncated_nothing", cut_to=75))


def test_a_warning_of_the_high_watermark_belongs_to_the_cut_beside_it() -> None:
    warning = line(12.1, 1, "truncated_below_high_watermark", cut_to=70, high_watermark=73)
    late = warning | {"ts": 18 * SECOND}
    other = warning | {"cut_to": 60}

    assert [73, 70, 70] == [
        cuts(LEADS, OVER, FOLLOWS, CUT, one)[0]["high_watermark"] for one in (warning, late, other)
    ]


def test_a_cut_behind_an_unclean_leader_is_marked() -> None:
    alone = LEADS | {"isr": [1]}
    after = state(20, 3, 3, 2, isr=[3], replicas=[1, 2, 3], log_end=90)
    back = state(21, 1, 3, 2, log_end=75)
    cut = line(22, 1, "truncated", cut_to=70)

    assert [True] == [row["unclean"] for row in cuts(alone, OVER, FOLLOWS, CUT)]
    # It was away for the unclean epoch, and only meets the one after.
    assert [True] == [row["unclean"] for row in cuts(alone, OVER, after, back, cut)]


def test_what_an_unclean_leader_itself_cuts_is_its_own_story() -> None:
    alone = LEADS | {"isr": [1]}
    after = state(20, 1, 1, 2, isr=[1, 2], replicas=[1, 2], log_end=80)
    steps_back = state(21, 2, 1, 2, log_end=85)
    cut = line(22, 2, "truncated", cut_to=80)

    assert [True] == [row["unclean"] for row in cuts(alone, OVER, after, steps_back, cut)]


def test_a_later_cut_has_nothing_to_do_with_an_older_unclean_leader() -> None:
    alone = LEADS | {"isr": [1]}
    back = state(15, 1, 2, 1, log_end=70)
    wide = state(16, 2, 2, 1, isr=[1, 2], replicas=[1, 2]) | {"partition_epoch": 2}
    next_one = state(20, 3, 3, 2, isr=[1, 2, 3], replicas=[1, 2, 3], log_end=90)
    last = state(30, 2, 2, 3, isr=[1, 2, 3], replicas=[1, 2, 3], log_end=95)
    follows = state(31, 1, 2, 3, log_end=99)
    there = state(21, 1, 3, 2, log_end=90)
    cut = line(32, 1, "truncated", cut_to=95)

    assert [False] == [
        row["unclean"] for row in cuts(alone, OVER, back, wide, next_one, there, last, follows, cut)
    ]
