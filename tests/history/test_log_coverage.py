"""What logs cover, where they have holes, and what a hole takes away from the history."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from forensics.events.file_accounts import FileAccount
from forensics.history.log_coverage import (
    Coverage,
    build_coverage_table,
    classify_log_file,
    measure_coverage,
)
from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.fold import FoldContext
from forensics.history.partitions.observers import Observers
from tests.history.log_lines import NO_CLOCKS, SECOND, event, fold

Row = dict[str, Any]


def log(
    name: str, first: float, last: float, *gaps: tuple[float, float], **more: Any
) -> FileAccount:
    node, _, _ = name.partition("/")
    found = [(int(begin * SECOND), int(end * SECOND), 7) for begin, end in gaps]
    one = FileAccount(name, Counter(records=10, lines=10, bytes=10), gaps=found, **more)
    one.first, one.last = int(first * SECOND), int(last * SECOND)
    one.node, one.role = node, node.partition("-")[0]
    return one


def cover(*files: FileAccount) -> Coverage:
    return measure_coverage(files, NO_CLOCKS)


def rows(coverage: Coverage, *away: Absence, named: str = "") -> list[tuple[Any, ...]]:
    table = build_coverage_table(coverage, away, dict.fromkeys(named.split(), "broker"))
    return [
        (row["node"], row["log"], row["state"], *(_second(row[at]) for at in _TIMES))
        for row in table.to_pylist()
    ]


_TIMES = ("started_at", "ended_at")


def _second(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp())


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("a.tgz!logs/broker-1/server.log", "server"),
        ("broker-1/state-change.log.2026-11-18-11", "state-change"),
        ("b/stage-change.log.2026-11-18-11", "state-change"),
        ("controller-1/controller.log", "controller"),
        ("kafkaServer-gc.log.0.current", "gc"),
        ("controller-1/server.log", "server"),
        ("broker-2.log", "all"),
        ("kafka-2-stdout.txt", "all"),
    ],
)
def test_the_kind_of_a_log_is_told_by_its_name(file: str, kind: str) -> None:
    assert kind == classify_log_file(file)


def test_a_broker_without_its_state_change_log_is_said_to_lack_it() -> None:
    assert rows(cover(log("broker-1/server.log", 0, 100))) == [
        ("broker-1", "server", "covered", 0, 100),
        ("broker-1", "state-change", "missing", 0, 100),
    ]


def test_a_file_that_holds_everything_lacks_nothing() -> None:
    assert rows(cover(log("broker-1/broker-1.log", 0, 100))) == [
        ("broker-1", "all", "covered", 0, 100)
    ]


def test_a_broker_that_others_name_and_that_has_no_logs_is_missing() -> None:
    assert rows(cover(log("broker-1/stdout.log", 5, 100)), named="broker-1 broker-2")[1] == (
        "broker-2", None, "missing", 5, 100,
    )  # fmt: skip


def test_a_silence_of_all_logs_far_beyond_the_usual_is_a_hole() -> None:
    found = rows(
        cover(
            log("broker-1/server.log", 0, 1000, (200, 215), (300, 700)),
            log("broker-1/state-change.log", 0, 1000, (100, 400), (410, 900)),
        )
    )

    assert ("broker-1", None, "silent", 410, 700) in found
    assert ("broker-1", "server", "covered", 0, 300) in found
    assert ("broker-1", "server", "covered", 700, 1000) in found


def test_one_quiet_log_beside_one_that_talks_is_no_hole() -> None:
    found = rows(
        cover(
            log("broker-1/server.log", 0, 1000),
            log("broker-1/state-change.log", 0, 1000, (100, 900)),
        )
    )

    assert ["covered", "covered"] == [state for _, _, state, _, _ in found]


def test_a_node_that_is_often_silent_for_long_is_not_silent_then() -> None:
    gaps = [(begin, begin + 300.0) for begin in range(0, 3000, 310)]

    assert [] == cover(log("broker-1/stdout.log", 0, 3100, *gaps)).find_gaps("broker-1")


def test_a_process_that_was_down_had_nothing_to_say() -> None:
    gone = Absence(1, "crash", 100 * SECOND, 400 * SECOND, ())
    found = rows(cover(log("broker-1/stdout.log", 0, 1000, (100, 399))), gone)

    assert ("broker-1", None, "down", 100, 399) in found


def test_a_node_whose_logs_end_before_the_others_is_missing_from_then_on() -> None:
    found = rows(cover(log("broker-1/stdout.log", 0, 100), log("broker-2/stdout.log", 0, 1000)))

    assert ("broker-1", None, "missing", 100, 1000) in found


def test_a_log_with_nothing_below_warn_hides_info() -> None:
    loud = log("broker-1/stdout.log", 0, 100, levels=Counter(W=5, E=1))
    usual = log("broker-2/stdout.log", 0, 100, levels=Counter(W=5, I=1))

    assert [("broker-1", "all", "hidden", 0, 100)] == [
        row for row in rows(cover(loud, usual)) if row[2] == "hidden"
    ]


@pytest.mark.parametrize(
    ("name", "hides"),
    [
        ("state-change.log", True),
        ("stdout.log", True),
        ("controller.log", True),
        ("server.log", True),
        ("kafka-request.log", False),
        ("log-cleaner.log", False),
        ("kafka-authorizer.log", False),
        ("kafkaServer-gc.log", False),
    ],
)
def test_only_logs_that_tell_of_partitions_hide_something(name: str, *, hides: bool) -> None:
    """Kafka's own settings keep the log of requests, for one, at WARN."""
    coverage = cover(log(f"broker-1/{name}", 0, 100, levels=Counter(W=5, E=1)))

    assert [one.hides_info for one in coverage.logs] == [hides]
    assert [row[3:] for row in rows(coverage) if row[2] == "hidden"] == [(0, 100)] * hides


@pytest.mark.parametrize(
    ("levels", "hides"),
    [
        ({"W": 1}, True),
        ({"F": 1}, True),
        ({"W": 9, "I": 1}, False),
        ({"W": 9, "D": 1}, False),
        ({"W": 9, "T": 1}, False),
        # Where no layout tells the level, nothing is known of it.
        ({}, False),
        ({"": 9}, False),
    ],
)
def test_one_line_below_warn_is_enough_to_hide_nothing(
    levels: dict[str, int], *, hides: bool
) -> None:
    (one,) = cover(log("broker-1/server.log", 0, 100, levels=Counter(levels))).logs

    assert one.hides_info is hides


@pytest.mark.parametrize(
    ("name", "rotated"),
    [
        ("server.log", 1),
        ("state-change.log", 1),
        ("stdout.log", 1),
        ("kafkaServer-gc.log", 0),
        ("kafka-request.log", 0),
        ("log-cleaner.log", 0),
    ],
)
def test_only_logs_that_tell_of_partitions_miss_rotated_files(name: str, rotated: int) -> None:
    """The JVM writes its log over in a ring: a number that is gone says nothing."""
    files = [log(f"broker-1/{name}.{n}", at, at + 90) for n, at in ((0, 300), (1, 200), (4, 0))]

    found = [row[3:] for row in rows(cover(*files)) if row[2] == "rotated"]

    assert found == [(90, 200)] * rotated


def test_missing_rotations_are_found_by_number_and_by_hour() -> None:
    numbered = [
        log(f"broker-1/stdout.log{n}", at, at + 90) for n, at in (("", 300), (".1", 200), (".3", 0))
    ]
    hourly = [
        log(f"broker-2/server.log.2026-11-18-{hour}", at, at + 90)
        for hour, at in (("09", 0), ("10", 100), ("12", 300))
    ]
    found = [row for row in rows(cover(*numbered, *hourly)) if row[2] == "rotated"]

    assert [
        ("broker-1", "all", "rotated", 90, 200),
        ("broker-2", "server", "rotated", 190, 300),
    ] == found


def state(second: float, node: str, leader: int, epoch: int, version: int, **more: Any) -> Row:
    facts: Row = {"leader": leader, "leader_epoch": epoch, "partition_epoch": version}
    return event(second, node, **facts, replicas=[1, 2, 3], previous_epoch=epoch - 1, **more)


def folded(coverage: Coverage, *events: Row, away: tuple[Absence, ...] = ()) -> list[Row]:
    observers = Observers.from_absences(away, coverage)
    known = FoldContext(
        NO_CLOCKS, StartupWindows({}, {}), away, elr=False, kraft=True, observers=observers
    )
    return [row for row in fold(events, known) if row["table"] == "leadership"]


def spans(found: list[Row]) -> list[tuple[int | None, int | None, str]]:
    return [(_of(row["started_at"]), _of(row["ended_at"]), row["ended"]) for row in found]


def _of(micros: int | None) -> int | None:
    return None if micros is None else micros // SECOND


def test_a_leader_is_not_said_to_lead_through_a_hole() -> None:
    """The next that is known is two epochs on, and nobody listened in between."""
    coverage = cover(log("broker-2/stdout.log", 0, 1000, (100, 500)))
    found = folded(
        coverage, state(50, "broker-2", 1, 0, 0), state(600, "broker-2", 3, 2, 4, isr=[3])
    )

    assert [(50, 100, "unknown"), (None, 600, "observed"), (600, None, "open")] == spans(found)
    assert [True, None, None] == [row["clean"] for row in found]
    assert "unknown" == found[2]["election"]


def test_who_listened_all_the_time_read_two_changes_at_once() -> None:
    coverage = cover(log("broker-2/stdout.log", 0, 1000))
    found = folded(coverage, state(50, "broker-2", 1, 0, 0), state(600, "broker-2", 3, 2, 4))

    assert (50, 600, "observed") == spans(found)[0]


def test_what_a_broker_tells_as_it_wakes_dates_nothing() -> None:
    """It was fenced from 100 to 130, and tells at 120 what happened meanwhile."""
    away = (Absence(3, "pause", 100 * SECOND, 130 * SECOND, ()),)
    coverage = cover(log("broker-3/stdout.log", 0, 1000))
    found = folded(
        coverage,
        state(50, "broker-3", 3, 0, 0),
        state(120, "broker-3", 1, 1, 1),
        state(300, "broker-3", 3, 2, 2),
        away=away,
    )

    assert [(50, 100, "unknown"), (None, 300, "observed"), (300, None, "open")] == spans(found)


def test_who_was_awake_dates_it_for_all() -> None:
    away = (Absence(3, "pause", 100 * SECOND, 130 * SECOND, ()),)
    coverage = cover(log("broker-3/stdout.log", 0, 1000), log("broker-1/stdout.log", 0, 1000))
    found = folded(
        coverage,
        state(50, "broker-3", 3, 0, 0),
        state(105, "broker-1", 1, 1, 1),
        state(120, "broker-3", 1, 1, 1),
        away=away,
    )

    assert [(50, 105, "observed"), (105, None, "open")] == spans(found)


def test_a_later_state_of_an_epoch_does_not_date_its_beginning() -> None:
    coverage = cover(log("broker-2/stdout.log", 0, 1000, (100, 500)))
    later = state(600, "broker-2", 3, 1, 5, isr=[3]) | {"previous_epoch": None}
    found = folded(coverage, state(50, "broker-2", 1, 0, 0), later)

    assert [(50, 100, "unknown"), (None, None, "open")] == spans(found)
    assert found[1]["isr"] is None


def test_the_last_leader_is_open_only_where_somebody_listened_to_the_end() -> None:
    early = cover(log("broker-2/stdout.log", 0, 100), log("broker-1/stdout.log", 0, 1000))
    found = folded(early, state(50, "broker-2", 2, 0, 0))

    assert [(50, 100, "unknown")] == spans(found)


def test_a_replica_names_the_leader_that_it_knew_before() -> None:
    after = state(60, "broker-2", 3, 2, 2, previous_leader=-1)
    found = folded(cover(), state(50, "broker-2", 1, 0, 0), after)[1]

    assert (-1, "inferred") == (found["leader"], found["how"])
    assert 600 == found["evidence"][0]["line"]
