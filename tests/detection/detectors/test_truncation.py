"""Records truncated after a clean failover: how many, since when, and how bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forensics.detection.detectors.truncation import find
from tests.detection.cases import SECOND, absence, case, epoch, event, row

Row = dict[str, Any]


def cut(second: float = 100, broker: int = 1, **more: Any) -> Row:
    """Make the cut of a log of 75 records to the 70 of the new leader, broker 2."""
    place = {"file": "broker-9/server.log", "line": int(second * 10) + broker}
    plain: Row = {
        "topic": "t",
        "partition": 0,
        "leader_epoch": 5,
        "leader": 2,
        "kept": 70,
        "broker": broker,
        "started_at": int(second * SECOND),
        "cut_to": 70,
        "log_end": 75,
        "high_watermark": 70,
        "unclean": False,
        "written_from": 80 * SECOND,
        "written_to": 99 * SECOND,
        "evidence": [place],
    }
    return row("cuts", **(plain | more))


def test_a_cut_after_a_clean_election_is_a_loss_that_matters_little(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, cuts=[cut()]))

    assert (
        found.severity,
        found.confidence,
        found.brokers,
        found.partitions,
    ) == ("low", "confirmed", [1, 2], ["t-0"])
    assert found.title == "5 records truncated on 1 partition after a clean failover"
    [entry] = found.losses
    assert (entry.lost_from, entry.lost_to, entry.below_high_watermark) == (70, 75, 0)
    assert (entry.lost_records_min, entry.lost_records_max) == (5, 5)
    assert (
        entry.written_from,
        entry.written_to,
    ) == ("1970-01-01T00:01:20.000Z", "1970-01-01T00:01:39.000Z")
    assert "cat LOG_DIR/t-0/leader-epoch-checkpoint" in entry.check
    assert "acks=1" in found.explanation
    assert found.evidence


def test_the_same_records_on_two_replicas_are_lost_once(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, cuts=[cut(), cut(130, 3, log_end=73, written_to=98 * SECOND)]))

    [entry] = found.losses
    assert (entry.cut_on, entry.lost_to, entry.lost_records_max) == ([1, 3], 75, 5)
    # Broker 3 held fewer of them: it does not bound the last ones.
    assert entry.written_to == "1970-01-01T00:01:39.000Z"


def test_two_changes_of_leader_lose_two_lots(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, cuts=[cut(), cut(120, leader_epoch=6, cut_to=80, log_end=81)]))

    assert (len(found.losses), found.measures["lost_records_max"]) == (2, 6)


def test_what_an_unclean_leader_made_necessary_is_told_there(tmp_path: Path) -> None:
    assert list(find(case(tmp_path, cuts=[cut(unclean=True)]))) == []


def test_a_cut_of_which_nobody_knows_is_told_here_as_that(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, cuts=[cut(unclean=None)]))

    assert found.title == "5 records truncated on 1 partition after a leader change"
    assert "nor whether every election was clean" in found.explanation


def test_a_log_whose_end_nobody_tells_held_one_record_more_at_least(tmp_path: Path) -> None:
    [found] = find(case(tmp_path, cuts=[cut(log_end=None)]))

    [entry] = found.losses
    assert (
        entry.lost_records_min,
        entry.lost_records_max,
        entry.lost_to,
    ) == (1, None, None)
    assert "At least 1 records" in found.title
    assert "no line says" in entry.note


@pytest.mark.parametrize(("kept", "least"), [(None, 0), (60, 5), (73, 2), (80, 0)])
def test_what_the_new_leader_may_have_had_too_is_not_lost_for_sure(
    kept: int | None, least: int, tmp_path: Path
) -> None:
    [found] = find(case(tmp_path, cuts=[cut(kept=kept)]))

    assert (least, 5) == (found.measures["lost_records_min"], found.measures["lost_records_max"])


@pytest.mark.parametrize(("mark", "severity"), [(70, "low"), (71, "high"), (None, "low")])
def test_a_cut_below_the_high_watermark_takes_committed_records(
    mark: int | None, severity: str, tmp_path: Path
) -> None:
    [found] = find(case(tmp_path, cuts=[cut(high_watermark=mark)]))

    assert severity == found.severity
    assert ("below the high watermark" in found.title) is (severity == "high")


@pytest.mark.parametrize(("second", "strokes"), [(160, 1), (160.001, 2)])
def test_strokes_are_parted_by_more_than_a_minute(
    second: float, strokes: int, tmp_path: Path
) -> None:
    rows = [cut(), cut(second, partition=1)]

    assert strokes == len(list(find(case(tmp_path, cuts=rows))))


def test_a_run_without_that_table_finds_nothing(tmp_path: Path) -> None:
    some = case(tmp_path)
    (tmp_path / "cuts" / "part-0.parquet").unlink()
    (tmp_path / "cuts").rmdir()

    assert list(find(some)) == []


def follows(end: int = 75, mark: int = 70, **more: Any) -> Row:
    """Make the last line of broker 1 on its log, which it ends to follow broker 2."""
    facts = {
        "topic": "t", "partition": 0, "leader_epoch": 5, "leader": 2, "log_end": end,
        "high_watermark": mark,
    }  # fmt: skip
    return event(99, "broker-1", "partition_state", **(facts | more))


def left(folder: Path, line: Row, *leaders: Row, back: float | None = None) -> list[Any]:
    away = absence(1, "controlled", 100, back)
    return list(find(case(folder, away=[away], events=[line], leadership=leaders)))


def test_records_that_only_a_broker_has_which_is_not_back_are_told(tmp_path: Path) -> None:
    [found] = left(tmp_path, follows(), epoch(5, 2, 99), epoch(6, 3, 101, log_end=70))

    assert found.title == "5 records on 1 partition left on broker 1, which is not back"
    [loss] = found.losses
    assert (loss.lost_from, loss.lost_to, loss.leader, loss.cut_on) == (70, 75, 3, [])
    assert (loss.lost_records_min, loss.lost_records_max) == (5, 5)
    assert "copy its folder of t-0" in found.actions[0]
    assert [1, 3] == found.brokers


@pytest.mark.parametrize(
    ("line", "leader", "back"),
    [
        (follows(), epoch(6, 3, 101, log_end=75), None),
        (follows(), epoch(6, 3, 101, log_end=69), None),
        (follows(), epoch(6, 3, 101, log_end=70, clean=False), None),
        (follows(), epoch(6, 1, 101, log_end=70), None),
        (follows(), epoch(6, 3, 101, log_end=None), None),
        (follows(leader_epoch=6), epoch(6, 3, 101, log_end=70), None),
        (follows(), epoch(6, 3, 101, log_end=70), 200),
    ],
    ids=["kept", "emptied", "unclean", "its own", "not told", "no later leader", "back"],
)
def test_nothing_is_left_where_no_later_leader_is_shown_to_lack_it(
    line: Row, leader: Row, back: float | None, tmp_path: Path
) -> None:
    assert left(tmp_path, line, leader, back=back) == []


def test_what_it_has_cut_already_is_told_as_that(tmp_path: Path) -> None:
    away = absence(1, "crash", 120)
    context = case(
        tmp_path,
        away=[away],
        events=[follows()],
        leadership=[epoch(6, 3, 101, log_end=70)],
        cuts=[cut(110, leader_epoch=6, leader=3)],
    )
    [found] = find(context)
    assert found.title.endswith("truncated on 1 partition after a clean failover")


def test_records_that_two_brokers_have_which_are_not_back_count_once(tmp_path: Path) -> None:
    gone = [absence(1, "controlled", 100), absence(4, "crash", 101)]
    ends = [follows(), follows(73) | {"node": "broker-4", "file": "broker-4/server.log"}]
    leader = epoch(6, 3, 101, log_end=70)
    [found] = find(case(tmp_path, away=gone, events=ends, leadership=[leader]))

    assert (found.title, found.measures["lost_records_max"]) == (
        "5 records on 1 partition left on broker 1, which is not back", 5,
    )  # fmt: skip
    assert "only brokers 1 and 4 have them" in found.losses[0].note


@pytest.mark.parametrize(("end", "left"), [(75, [5]), (73, [3, 2])])
def test_what_a_broker_that_runs_has_truncated_is_not_counted_again(
    end: int, left: list[int], tmp_path: Path
) -> None:
    away = [absence(1, "crash", 100)]
    other = cut(110, 4, leader_epoch=6, leader=3, log_end=end)
    leader = epoch(6, 3, 101, log_end=70)
    found = find(case(tmp_path, away=away, events=[follows()], leadership=[leader], cuts=[other]))

    assert left == [one.measures["lost_records_max"] for one in found]
