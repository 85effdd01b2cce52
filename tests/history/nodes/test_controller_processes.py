"""Controllers from the table of events: their processes, their ends, and what is void of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from forensics.history.clocks.model import ClockModel, Clocks, ClockSegment
from forensics.history.log_coverage import Coverage
from forensics.history.nodes.broker_states import Span
from forensics.history.nodes.build_lanes import Lanes, build_lanes
from forensics.history.nodes.controller_processes import TableWitnesses
from forensics.history.nodes.startup_windows import read_startup_windows
from forensics.schemas import EVENTS
from tests.history.log_lines import SECOND, Row, event

NODES = ("controller-1", "controller-2", "controller-3")
SURE = ClockModel([ClockSegment(0, 0.0, 0.0, 100.0, 0, 1000 * SECOND)])
CLOCKS = Clocks({}, {}, (), dict.fromkeys((*NODES, "broker-2"), SURE))
ROLES = {**dict.fromkeys(NODES, "controller"), "broker-2": "broker"}


def said(second: float, id_: int, kind: str, **facts: object) -> Row:
    """Let a controller log something; its id in Kafka is 3000 and its number."""
    own = {"topic": None, "partition": None} | facts
    return event(second, f"controller-{id_}", kind, **own)


def elected(second: float, id_: int, epoch: int) -> Row:
    return said(second, id_, "controller_elected", controller=3000 + id_, controller_epoch=epoch)


def starts(second: float, id_: int) -> Sequence[Row]:
    return [
        said(second, id_, "process_starting", rule="process.begun@1.1"),
        said(second + 5, id_, "process_started", rule="raft-server.started@2.8"),
    ]


def lost(second: float, id_: int, **facts: object) -> Row:
    return said(second, id_, "peer_disconnected", peer=3001, **facts)


CLUSTER = [*starts(0, 1), *starts(0, 2), *starts(0, 3), elected(10, 1, 1)]


def lanes(folder: Path, *rows: Row) -> Lanes:
    table = pa.Table.from_pylist(
        [row | {"ts": row["ts"], "elr": None} for row in [*CLUSTER, *rows]], schema=EVENTS
    )
    pq.write_table(table, folder / "part-0.parquet")
    return build_lanes(folder, CLOCKS, ROLES, Coverage(), read_startup_windows(folder))


def told(spans: Sequence[Span]) -> list[str]:
    return [
        f"{one.state} {one.begin / SECOND:g}..{'' if one.end is None else f'{one.end / SECOND:g}'}"
        for one in spans
    ]


def test_a_controller_that_was_killed_crashed_when_others_lost_it(tmp_path: Path) -> None:
    found = lanes(
        tmp_path, said(90, 1, "partition_state"), lost(100, 2), lost(100.2, 3), elected(104, 2, 2),
        *starts(110, 1), said(200, 2, "partition_state"),
    )  # fmt: skip

    assert told(found.processes["controller-1"]) == [
        "starting 0..5", "up 5..100", "crashed 100..110", "starting 110..115", "up 115..",
    ]  # fmt: skip
    assert [(term.how, told([term.span])) for term in found.terms.terms] == [
        ("crashed", ["active 10..100"]),
        (None, ["vacant 100..104"]),
        (None, ["active 104.."]),
    ]


def test_the_crash_of_a_controller_that_never_led_is_dated_by_others_too(tmp_path: Path) -> None:
    moved = {"broker": 3003, "to_state": "Follower", "from_state": "Unattached"}
    found = lanes(
        tmp_path, said(12, 3, "raft_transition", **moved), said(90, 3, "partition_state"),
        said(100, 2, "peer_disconnected", peer=3003), *starts(110, 3),
    )  # fmt: skip

    assert "crashed 100..110" in told(found.processes["controller-3"])


def test_a_request_that_waited_shows_no_crash(tmp_path: Path) -> None:
    waits = lost(100, 2, duration_ms=2001) | {"kind": "peer_request_lost"}
    found = lanes(
        tmp_path, said(90, 1, "partition_state"), waits, elected(104, 2, 2), *starts(110, 1)
    )

    assert "crashed 90..110" in told(found.processes["controller-1"])


PAUSED = [
    said(90, 1, "partition_state"),
    said(102, 2, "raft_fetch_timed_out"),
    said(102, 3, "raft_fetch_timed_out"),
    elected(103, 2, 2),
    said(120, 1, "broker_fenced", controller=3001, broker=2, rule="quorum.fencing@4.0"),
    said(121, 1, "controller_renouncing", controller=3001, controller_epoch=1),
    said(200, 2, "partition_state"),
]


def test_a_controller_that_stood_still_is_paused_and_then_deposed(tmp_path: Path) -> None:
    found = lanes(tmp_path, *PAUSED)

    assert told(found.processes["controller-1"]) == [
        "starting 0..5", "up 5..100.25", "paused 100.25..121", "up 121..",
    ]  # fmt: skip
    assert [told([term.span])[0] for term in found.terms.terms] == [
        "active 10..100.25", "vacant 100.25..103", "deposed 103..121", "active 103..",
    ]  # fmt: skip


def test_who_a_deposed_controller_fences_is_not_fenced(tmp_path: Path) -> None:
    up = [
        said(20, 1, "broker_unfenced", controller=3001, broker=2, rule="quorum.unfence-granted@3.5")
    ]
    late = said(150, 2, "broker_fenced", controller=3002, broker=2, rule="quorum.fencing@4.0")

    assert told(lanes(tmp_path, *up, *PAUSED).brokers[2]) == ["up 20.."]
    assert told(lanes(tmp_path, *up, *PAUSED, late).brokers[2]) == ["up 20..150", "fenced 150.."]


def test_the_first_and_last_line_of_a_time_are_found_among_row_groups(tmp_path: Path) -> None:
    seconds = [9.8, 10.2, 40, 39, 70.3, 70.6]
    rows = [said(second, 1, "partition_state") for second in seconds]
    rows += [said(second, 2, "partition_state") for second in (10, 70)]
    table = pa.Table.from_pylist([row | {"elr": None} for row in rows], schema=EVENTS)
    pq.write_table(table, tmp_path / "part-0.parquet", row_group_size=2)
    witnesses = TableWitnesses(tmp_path, CLOCKS, NODES, {"controller-1": 3001})

    def lines(begin: float, end: float) -> list[float] | None:
        found = witnesses.lines("controller-1", round(begin * SECOND), round(end * SECOND))
        return None if found is None else [one["at"] / SECOND for one in found]

    # What was logged just before the time does not hide what was logged in it.
    assert lines(10, 70.5) == [10.2, 70.3]
    assert lines(39.5, 60) == [40, 40]
    assert lines(41, 60) is None
    assert witnesses.lines("controller-2", 0, 100 * SECOND) is None
