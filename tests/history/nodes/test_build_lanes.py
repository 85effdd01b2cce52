"""Lanes over holes: unknown, unless a controller's log watched the broker meanwhile."""

from __future__ import annotations

from pathlib import Path

from forensics.history.log_coverage import Coverage, Log, LogGap
from forensics.history.nodes.broker_states import EvidenceRow, Span
from forensics.history.nodes.build_lanes import mark_unobserved
from forensics.history.nodes.controller_terms import ControllerTerm
from forensics.sandbox import run_lines
from tests.history.log_lines import SECOND

PLACE: EvidenceRow = {"file": "b/server.log", "line": 1}
LIFE = [
    Span("starting", 0, 10 * SECOND, [PLACE]),
    Span("up", 10 * SECOND, None, [PLACE]),
]
WATCHED = [ControllerTerm("broker-2", 2, Span("active", 0, None, [PLACE], 1))]


def log(node: str, last: float, *silences: tuple[float, float]) -> Log:
    """Make a node's one log, from the beginning to a last line."""
    file = f"{node}/server.log"
    quiet = tuple(LogGap(int(a * SECOND), int(b * SECOND), file, int(a)) for a, b in silences)
    return Log(
        node=node,
        role="broker",
        kind="server",
        first=0,
        last=int(last * SECOND),
        gaps=quiet,
        files=(file,),
        levels={"I": 100},
        records=100,
        ends=({"file": file, "line": 1}, {"file": file, "line": 99}),
    )


def lane(
    *logs: Log, life: list[Span] = LIFE, terms: list[ControllerTerm] | None = None
) -> list[str]:
    known = Coverage(tuple(logs), 0, max(one.last for one in logs))
    found = mark_unobserved("broker-1", life, known, terms or [])
    return [
        f"{one.state} {one.begin / SECOND:g}..{'' if one.end is None else f'{one.end / SECOND:g}'}"
        for one in found
    ]


def test_a_log_that_goes_on_to_the_end_leaves_nothing_unknown() -> None:
    assert ["starting 0..10", "up 10.."] == lane(log("broker-1", 990), log("broker-2", 1000))


def test_after_the_last_line_of_its_log_a_broker_may_be_anything() -> None:
    assert ["starting 0..10", "up 10..400", "unknown 400.."] == lane(
        log("broker-1", 400), log("broker-2", 1000)
    )


def test_a_controller_that_watches_would_have_told() -> None:
    logs = log("broker-1", 400), log("broker-2", 1000)

    assert ["starting 0..10", "up 10.."] == lane(*logs, terms=WATCHED)
    own = [ControllerTerm("broker-1", 1, WATCHED[0].span)]
    assert "unknown 400.." in lane(*logs, terms=own)


def test_a_broker_that_stopped_stays_stopped() -> None:
    life = [Span("up", 0, 300 * SECOND, [PLACE]), Span("stopped", 300 * SECOND, None, [PLACE])]

    assert ["up 0..300", "stopped 300.."] == lane(
        log("broker-1", 310), log("broker-2", 1000), life=life
    )


def test_a_hole_in_the_middle_is_unknown_and_what_follows_is_not() -> None:
    holed = log("broker-1", 1000, (200, 800))

    assert ["starting 0..10", "up 10..200", "unknown 200..800", "up 800.."] == lane(holed)
    assert ["starting 0..10", "up 10.."] == lane(holed, log("broker-2", 1000), terms=WATCHED)


def test_without_coverage_lanes_stay_as_they_are() -> None:
    assert LIFE == mark_unobserved("broker-1", LIFE, Coverage(), [])


def test_each_of_several_brokers_that_write_to_one_file_has_its_own_life(tmp_path: Path) -> None:
    begun = "Registered kafka:type=kafka.Log4jController MBean"
    log = "".join(
        f"[2026-11-18 11:3{minute}:00,000] INFO {text} ({logger})\n"
        for minute, (text, logger) in enumerate([
            (begun, "kafka.utils.Log4jControllerRegistration$"),
            ("[KafkaServer id=1] started", "kafka.server.KafkaServer"),
            (begun, "kafka.utils.Log4jControllerRegistration$"),
            ("[KafkaServer id=2] started", "kafka.server.KafkaServer"),
            ("[GroupCoordinator 1]: Elected as the group coordinator for partition 4 in epoch 2",
             "kafka.coordinator.group.GroupCoordinator"),
            (begun, "kafka.utils.Log4jControllerRegistration$"),
            ("[KafkaServer id=2] started", "kafka.server.KafkaServer"),
        ])
    )  # fmt: skip
    lanes = run_lines({"server.log": log}, tmp_path / "out").past.lanes

    assert {1: ["starting", "up"], 2: ["starting", "up", "crashed", "starting", "up"]} == {
        broker: [span.state for span in spans] for broker, spans in lanes.brokers.items()
    }
    # Its own last line, not the one that another wrote later.
    assert [4] == [line["line"] for line in lanes.brokers[2][2].evidence]
