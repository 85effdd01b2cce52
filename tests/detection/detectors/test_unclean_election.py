"""Unclean elections, and their cost: exact where the old leader came back, else bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors import unclean_election
from forensics.detection.detectors.unclean_election import estimate_lost_records, find
from forensics.run_output.findings import PartitionLoss
from tests.detection.cases import SECOND, case, epoch, event

Row = dict[str, Any]


def unclean(begin: float | None = 100, number: int = 2, **more: Any) -> Row:
    """Make the epoch in which broker 2 leads uncleanly, after broker 1."""
    plain: Row = {"clean": False, "election": "unclean", "previous_leader": 1, "log_end": 400}
    return epoch(number, 2, begin, **(plain | more))


def log_event(second: float, node: str, kind: str = "partition_state", **facts: Any) -> Row:
    row = event(second, node, kind, topic="t", partition=0, **facts)
    return row | {"at": row["ts"]}


def cost(*events: Row, **more: Any) -> PartitionLoss:
    return estimate_lost_records(unclean(**more), 1, list(events))[0]


def bounds(loss: PartitionLoss) -> tuple[int | None, ...]:
    return loss.lost_from, loss.lost_to, loss.lost_records_min, loss.lost_records_max


BEFORE = log_event(90, "broker-1", "isr_proposed", log_end=500)
BACK = log_event(150, "broker-1", "log_loaded", log_end=1000)
CUT = log_event(155, "broker-1", "truncated", cut_to=400)


def test_an_old_leader_that_comes_back_tells_exactly_what_went() -> None:
    found = cost(BEFORE, BACK, CUT)

    assert bounds(found) == (400, 1000, 600, 600)
    assert (found.partition, found.leader_epoch, found.leader) == ("t-0", 2, 2)
    assert found.previous_leader == 1
    _, places = estimate_lost_records(unclean(), 1, [BEFORE, BACK, CUT])
    assert [place["line"] for place in places] == [900, 1500, 1550]
    assert "note" not in found.to_json()


def test_an_old_leader_that_never_comes_back_leaves_the_loss_open_above() -> None:
    found = cost(BEFORE)

    assert bounds(found) == (400, None, 100, None)
    assert "leader before" in found.note


def test_without_a_word_of_the_old_leader_nothing_is_sure() -> None:
    assert (cost().lost_records_min, cost().lost_records_max) == (0, None)


def test_an_old_leader_with_nothing_more_lost_nothing() -> None:
    found = cost(log_event(150, "broker-1", "log_loaded", log_end=400))

    assert bounds(found) == (400, 400, 0, 0)


def test_a_shorter_old_log_lost_nothing_either() -> None:
    found = cost(log_event(150, "broker-1", "log_loaded", log_end=300))

    assert (found.lost_records_min, found.lost_records_max) == (0, 0)
    assert found.lost_to == found.lost_from


def test_without_the_end_of_the_new_leader_s_log_the_cut_tells_where_it_ended() -> None:
    assert (
        cost(BACK, CUT, log_end=None).lost_from,
        cost(BACK, CUT, log_end=None).lost_records_max,
    ) == (400, 600)


def test_a_cut_that_goes_deeper_counts() -> None:
    deeper = log_event(155, "broker-1", "truncated", cut_to=350)

    assert (cost(BACK, deeper).lost_from, cost(BACK, deeper).lost_records_max) == (350, 650)


def test_without_either_nothing_is_known() -> None:
    found = cost(BACK, log_end=None)

    assert bounds(found) == (None, None, 0, None)
    assert found.note == "no line says where the new leader's log ended"


def test_what_the_unclean_leader_itself_cut_widens_the_upper_bound_only() -> None:
    tail = [
        log_event(200, "broker-2", leader=1, leader_epoch=3, log_end=700),
        log_event(201, "broker-2", "truncated", cut_to=650),
    ]
    found = cost(BACK, CUT, *tail)

    assert (found.lost_records_min, found.lost_records_max) == (600, 650)
    assert found.also_cut == [{"from": 650, "to": 700, "records": 50, "leader_epoch": 3,
                               "cut_at": "1970-01-01T00:03:21.000Z"}]  # fmt: skip
    _, places = estimate_lost_records(unclean(), 1, [BACK, CUT, *tail])
    assert 2010 in [place["line"] for place in places]


@pytest.mark.parametrize(
    "more",
    [
        {"leader": 2},
        {"leader_epoch": 4},
        {"log_end": None},
        {"log_end": 650},
        {"telling": "always"},
    ],
)
def test_other_cuts_of_that_leader_widen_nothing(more: Row) -> None:
    follows: Row = {"leader": 1, "leader_epoch": 3, "log_end": 700} | more
    tail = [
        log_event(200, "broker-2", **follows),
        log_event(201, "broker-2", "truncated", cut_to=650),
    ]

    assert cost(BACK, CUT, *tail).lost_records_max == 600


def test_what_the_old_leader_said_before_is_no_return() -> None:
    """A line about the ISR that it wanted to change tells nothing of its log after the election."""
    late = log_event(101, "broker-1", "isr_proposed", log_end=990)

    assert cost(BEFORE, late).lost_records_max is None


def test_only_elections_known_to_be_unclean_are_found(tmp_path: Path) -> None:
    rows = [epoch(0, 1, 1), epoch(1, 2, 9, clean=None)]

    assert list(find(case(tmp_path, leadership=rows))) == []


def test_a_stroke_is_one_finding_with_every_partition(tmp_path: Path) -> None:
    rows = [epoch(1, 1, 1), unclean(), epoch(1, 1, 1, partition=1), unclean(101, partition=1)]
    events = [BEFORE, BACK, CUT]

    [found] = find(case(tmp_path, leadership=rows, events=[_stored(one) for one in events]))

    assert (found.severity, found.brokers, found.partitions) == ("critical", [1, 2], ["t-0", "t-1"])
    entries = found.losses
    assert [(one.partition, one.previous_leader, one.lost_records_max) for one in entries] == [
        ("t-0", 1, 600),
        ("t-1", 1, None),
    ]
    assert "at least 600 records lost" in found.title
    # It ends as the last of the lost records are cut off.
    assert (found.begin, found.end) == (100 * SECOND, 155 * SECOND)


def _stored(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "at"}


@pytest.mark.parametrize(("second", "strokes"), [(160, 1), (160.001, 2)])
def test_strokes_are_parted_by_more_than_a_minute(
    second: float, strokes: int, tmp_path: Path
) -> None:
    rows = [unclean(100), unclean(second, partition=1)]

    assert strokes == len(list(find(case(tmp_path, leadership=rows))))


def test_an_unclean_election_that_cost_nothing_is_less_bad(tmp_path: Path) -> None:
    events = [_stored(log_event(150, "broker-1", "log_loaded", log_end=400))]

    [found] = find(case(tmp_path, leadership=[epoch(1, 1, 1), unclean()], events=events))

    assert found.severity == "medium"
    assert "no records lost" in found.title


def test_the_leader_before_is_the_last_one_there_was(tmp_path: Path) -> None:
    """Between the two the partition had no leader."""
    rows = [epoch(0, 1, 1), epoch(1, -1, 50), unclean(previous_leader=-1)]

    [found] = find(case(tmp_path, leadership=rows, events=[_stored(BACK)]))

    assert found.losses[0].previous_leader == 1
    assert found.losses[0].lost_records_max == 600


def test_where_nobody_knows_who_led_in_between_nothing_bounds_the_loss(tmp_path: Path) -> None:
    """The leader before may be the very one that was elected, or one whose logs are not here."""
    rows = [epoch(0, 2, 1), epoch(1, None, None), epoch(2, -1, 50), unclean(number=3)]
    events = [_stored(log_event(90, "broker-2", log_end=400, leader=2, broker=2))]

    [found] = find(case(tmp_path, leadership=rows, events=events))

    [entry] = found.losses
    assert entry.previous_leader is None
    assert (entry.lost_records_min, entry.lost_records_max) == (0, None)
    assert "whether records were lost is not in the logs" in found.title
    assert "For 1 of 1 the logs do not say whether any was lost." in found.explanation
    assert found.severity == "high"


def acknowledged(*events: Row) -> tuple[int | None, int | None]:
    found = cost(*events)
    return found.acknowledged_min, found.acknowledged_max


def test_what_lay_below_the_high_watermark_had_been_acknowledged() -> None:
    marked = log_event(95, "broker-1", "isr_proposed", log_end=900, high_watermark=850)

    assert acknowledged(marked, BACK, CUT) == (450, 600)


def test_without_a_high_watermark_nothing_is_known_to_be_acknowledged() -> None:
    assert acknowledged(BACK, CUT) == (None, 600)
    assert acknowledged(BEFORE) == (None, None)


def test_the_line_that_warns_of_the_high_watermark_counts() -> None:
    warning = log_event(154.9, "broker-1", "truncated_below_high_watermark", high_watermark=990)

    assert acknowledged(BACK, warning, CUT) == (590, 600)


def test_a_high_watermark_after_the_cut_is_about_another_history() -> None:
    later = log_event(200, "broker-1", high_watermark=5000)

    assert acknowledged(BACK, CUT, later) == (None, 600)


def test_the_loss_was_written_while_the_old_leader_led() -> None:
    led = log_event(60, "broker-1", broker=1, leader=1, leader_epoch=1, log_end=400)
    found = cost(led, BACK, CUT)

    assert (
        found.written_from,
        found.written_to,
    ) == ("1970-01-01T00:01:00.000Z", "1970-01-01T00:01:40.000Z")
    assert cost(BACK, CUT).written_from is None


def test_the_finding_says_whose_will_it_was_and_how_to_check(tmp_path: Path) -> None:
    rows = [epoch(1, 1, 1), unclean(manner="manual")]

    [found] = find(case(tmp_path, leadership=rows))

    assert "an unclean election was ordered" in found.explanation
    assert found.losses[0].manner == "manual"
    assert any("t-0/leader-epoch-checkpoint" in action for action in found.actions)
    assert any("who ran kafka-leader-election.sh" in action for action in found.actions)
    assert not any("unclean.leader.election.enable" in action for action in found.actions)


def test_each_election_is_explained_by_its_own_lines(tmp_path: Path) -> None:
    text = (
        "[2026-11-18 11:00:00,000] INFO [QuorumController id=1] UNCLEAN partition change for t-{} "
        "with topic ID x: isr: [] -> [2], leader: -1 -> 2, lastKnownElr: {} -> [] (x)"
    )
    places = [{"file": "controller-1/controller.log", "line": line} for line in (1, 2)]
    rows = [
        unclean(manner="automatic", partition=number, evidence=[place])
        for number, place in enumerate(places)
    ]
    lines = [
        event(
            100,
            "controller-1",
            "leader_elected",
            file="controller-1/controller.log",
            line=1,
            text=text.format(0, "[2]"),
        ),
        event(
            100,
            "controller-1",
            "leader_elected",
            file="controller-1/controller.log",
            line=2,
            text=text.format(1, "[1]"),
        ),
    ]

    [found] = find(case(tmp_path, leadership=rows, events=lines))

    assert "On 1 partition no in-sync replica was alive" in found.explanation
    assert "On 1 partition no replica was in sync, and the controller elected the last" in (
        found.explanation
    )
    assert "--entity-name t " in found.actions[0]


def test_elections_with_few_events_are_looked_at_in_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []
    each = DetectionContext.each

    def noted(context: DetectionContext, table: str, *more: Any) -> Any:
        read.append(table == "events" and "cut_to" in more[1])
        return each(context, table, *more)

    monkeypatch.setattr(DetectionContext, "each", noted)
    elections = [unclean(partition=number) for number in range(250)]
    lines = [event(90, "broker-1", "isr_proposed", topic="t", partition=7, log_end=500)]
    seen = []
    for at_once in (20_000, 0):
        monkeypatch.setattr(unclean_election, "_EVENTS_AT_ONCE", at_once)
        read.clear()
        [found] = find(case(tmp_path, leadership=elections, events=lines))
        seen.append((sum(read), found))

    assert [readings for readings, _ in seen] == [1, 3]
    assert seen[0][1] == seen[1][1]
    assert len(seen[0][1].losses) == 250
