"""The fold of one partition: golden pairs, and what must hold for every partition there is."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.controller_terms import DeposedControllers
from forensics.history.nodes.startup_windows import STARTUP_KINDS, StartupWindows
from forensics.history.partitions.fold import FOLDED, FoldContext
from forensics.history.partitions.observations import STATE_KINDS
from forensics.history.partitions.observers import Observers
from forensics.lib.intervals import IntervalSet
from tests.golden.pairs import Pair, pairs
from tests.history.log_lines import NO_CLOCKS, SECOND, event, fold, given, told
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import scan

PLAIN = FoldContext(NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=True)
Row = dict[str, Any]


@pytest.mark.parametrize("pair", pairs("folding.txt"), ids=lambda pair: pair.title)
def test_events_fold_into_the_history_beside_them(pair: Pair) -> None:
    rows, known = given(pair.given)

    assert pair.expected == told(fold(rows, known))


@pytest.mark.parametrize("pair", pairs("folding.txt"), ids=lambda pair: pair.title)
def test_a_history_does_not_depend_on_the_order_of_the_events(pair: Pair) -> None:
    rows, known = given(pair.given)

    assert fold(rows, known) == fold(rows[::-1], known)


def epochs(*events: Row, known: FoldContext = PLAIN) -> list[Row]:
    return [row for row in fold(events, known) if row["table"] == "leadership"]


def versions(*events: Row, known: FoldContext = PLAIN) -> list[Row]:
    return [row for row in fold(events, known) if row["table"] == "isr"]


def state(second: float, leader: int, epoch: int, version: int | None, **more: Any) -> Row:
    facts: Row = {"leader": leader, "leader_epoch": epoch, "partition_epoch": version}
    return event(second, f"broker-{max(leader, 1)}", **facts, **more)


def test_no_events_are_no_history() -> None:
    assert [] == fold([], PLAIN)


def test_an_epoch_that_no_line_tells_of_still_was() -> None:
    """Its leader is not known, and it is said to be inferred."""
    found = epochs(state(1, 1, 0, 0), state(9, 3, 2, 2))[1]

    assert (1, None, None, "inferred", "unknown", None, []) == tuple(
        found[name]
        for name in ("leader_epoch", "leader", "started_at", "how", "election", "clean", "evidence")
    )
    assert (None, "unknown") == (found["ended_at"], found["ended"])


def test_an_epoch_that_no_line_tells_of_ends_where_the_next_begins() -> None:
    found = epochs(state(1, 1, 0, 0), state(9, 3, 2, 2, previous_epoch=0))[1]

    assert (9 * SECOND, "observed") == (found["ended_at"], found["ended"])


def test_whether_an_election_was_clean_is_not_known_when_the_state_before_is_not() -> None:
    assert epochs(state(1, 1, 0, 0, isr=[1]), state(9, 2, 1, 3, isr=[2]))[1]["clean"] is None


def test_the_isr_is_not_inferred_when_a_version_between_two_elections_is_missing() -> None:
    before = state(1, 1, 0, 0, isr=[1, 2, 3])
    after = [state(9, 2, 1, 2), state(10, 3, 2, 3, isr=[1, 3])]

    assert [(1, 2, 3), None, (1, 3)] == [row["isr"] for row in versions(before, *after)]


def test_lines_without_a_version_still_tell_an_isr() -> None:
    """Kafka before 2.8 does not print the version everywhere."""
    found = versions(state(1, 1, 3, None, isr=[2, 1]), state(9, 2, 4, None, isr=[2]))

    assert [(None, 3, (1, 2)), (None, 4, (2,))] == [
        (row["partition_epoch"], row["leader_epoch"], row["isr"]) for row in found
    ]


def test_times_are_corrected_by_the_clock_of_who_tells_them() -> None:
    clocks = Clocks({"broker-1": 37_000.0}, {"broker-1": -300}, ())
    known = FoldContext(clocks, StartupWindows({}, {}), (), elr=False, kraft=True)

    assert (1 - 37 + 5 * 3600) * SECOND == epochs(state(1, 1, 0, 0), known=known)[0]["started_at"]


def test_the_end_of_the_log_comes_from_the_leader_s_own_line() -> None:
    said = event(5, "broker-2", leader=1, leader_epoch=0, partition_epoch=0, log_end=3)
    found = epochs(said, state(6, 1, 0, 0, log_end=7, high_watermark=5))[0]

    assert (7, 5) == (found["log_end"], found["high_watermark"])
    assert {"file": "broker-1/state-change.log", "line": 60} == found["evidence"][0]


def test_evidence_is_kept_short() -> None:
    said = [state(second, 1, 0, 0) for second in range(1, 30)]

    assert [10, 20, 30, 40] == [place["line"] for place in epochs(*said)[0]["evidence"]]


def test_what_a_deposed_controller_says_of_a_partition_is_void() -> None:
    """Brokers of the same node log what was committed, and ZooKeeper's controllers what is true."""
    void = DeposedControllers({"broker-1": (1, IntervalSet([(5 * SECOND, 8 * SECOND)]))})
    known = replace(PLAIN, void=void)
    rows = [
        state(1, 1, 0, 0),
        state(6, 2, 1, 1) | {"node": "broker-1", "broker": None, "controller": 1},
        state(7, 3, 1, 1),
    ]
    own = rows[1] | {"controller": None}

    assert [row["leader"] for row in epochs(*rows, known=known)] == [1, 3]
    assert [row["leader"] for row in epochs(rows[0], own, known=known)] == [1, 2]
    on_zookeeper = replace(known, kraft=False)
    assert [row["leader"] for row in epochs(*rows[:2], known=on_zookeeper)] == [1, 2]


@functools.cache
def sample() -> tuple[list[list[Row]], FoldContext]:
    """Read the sample's partitions, each with all its events."""
    events = scan(LOGS).events
    for row in events:
        row["ts"] = None if row["ts"] is None else int(row["ts"].timestamp() * SECOND)
    phases = StartupWindows.from_events(row for row in events if row["kind"] in STARTUP_KINDS)
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in events:
        if row["kind"] in STATE_KINDS and row["partition"] is not None:
            found[row["topic"], row["partition"]].append(row)
    known = FoldContext(NO_CLOCKS, phases, (), elr=False, kraft=True)
    return [found[name] for name in sorted(found)], known


@drawn(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_order_of_real_events_does_not_matter(which: int, order: random.Random) -> None:
    partitions, known = sample()
    rows = partitions[which % len(partitions)]
    shuffled = list(rows)
    order.shuffle(shuffled)

    assert fold(rows, known) == fold(shuffled, known)


def test_every_real_partition_s_epochs_follow_each_other() -> None:
    partitions, known = sample()

    assert 28 == len(partitions)
    for rows in partitions:
        found = [row for row in fold(rows, known) if row["table"] == "leadership"]
        assert list(range(len(found))) == [row["leader_epoch"] for row in found]
        for at, row in enumerate(found):
            later = (one["started_at"] for one in found[at + 1 :] if one["started_at"] is not None)
            if row["ended"] == "observed":
                assert row["ended_at"] == next(later)
            else:
                assert (row["ended"] == "open") == (row is found[-1])
        assert all(row["evidence"] for row in found if row["how"] == "observed")
        assert all(set(row) <= set(FOLDED.names) for row in found)


def old_zookeeper(*rows: Row) -> list[Row]:
    """Fold what a controller before 1.1 logs."""
    known = FoldContext(NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=False)
    return epochs(*rows, known=known)


def decision(second: float, kind: str, leader: int, epoch: int | None, isr: list[int]) -> Row:
    facts: Row = {"leader": leader, "leader_epoch": epoch, "isr": isr, "broker": None}
    return event(second, "broker-9", kind, **facts)


def test_what_a_controller_before_1_1_selects_is_a_state() -> None:
    """It writes down what it selected, and logs no version."""
    found = old_zookeeper(
        decision(10, "leader_first", 1, 0, [1, 2]),
        decision(20, "partition_state", -1, 1, []),
        decision(23, "leader_selected", 2, 2, [2]),
        decision(23, "leader_selected", 2, None, [2]),
    )

    assert [(row["leader"], row["started_at"], row["ended"]) for row in found] == [
        (1, 10 * SECOND, "observed"), (-1, 20 * SECOND, "observed"), (2, 23 * SECOND, "open"),
    ]  # fmt: skip
    assert [row["election"] for row in found] == ["initial", "failover", "failover"]


@pytest.mark.parametrize(
    ("elected", "chosen", "clean"),
    [(1, True, True), (1, False, True), (2, True, False), (2, False, None)],
)
def test_the_last_leader_comes_back_with_all_that_was_committed(
    elected: int, chosen: bool, clean: bool | None
) -> None:
    """Kafka words it as a potential loss, though the leader itself was in sync to the end."""
    rows = [
        decision(10, "leader_first", 1, 0, [1, 2]),
        decision(20, "partition_state", -1, 1, []),
        decision(23, "leader_selected", elected, 2, [elected]),
    ]
    if chosen:
        rows.append(decision(23, "unclean_election_chosen", elected, None, []))

    assert old_zookeeper(*rows)[2]["clean"] is clean


def test_what_a_controller_has_cached_tells_leaders_but_no_isr_and_no_moment() -> None:
    cached = decision(15, "leaders_listed", 1, 0, [1, 2, 3]) | {"telling": "always"}
    known = FoldContext(NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=False)
    rows = [cached, decision(20, "partition_state", 2, 1, [2])]

    found = old_zookeeper(*rows)
    assert [(row["leader"], row["started_at"]) for row in found] == [(1, None), (2, 20 * SECOND)]
    assert [row["isr"] for row in versions(*rows, known=known)] == [(2,)]


@pytest.mark.parametrize(("controller", "at"), [(9, 20 * SECOND), (None, None)])
def test_what_a_controller_decides_as_it_comes_back_is_no_old_news(
    controller: int | None, at: int | None
) -> None:
    """A broker that was away logs what it missed; a controller of that process decides it now."""
    away = {"broker-9": IntervalSet([(15 * SECOND, 30 * SECOND)])}
    known = FoldContext(
        NO_CLOCKS, StartupWindows({}, {}), (), elr=False, kraft=False,
        observers=Observers(late=away),
    )  # fmt: skip
    lost = decision(20, "partition_state", -1, 1, []) | {"controller": controller}

    found = epochs(decision(10, "leader_first", 1, 0, [1]), lost, known=known)
    assert found[1]["started_at"] == at
