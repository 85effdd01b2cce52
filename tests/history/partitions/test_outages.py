"""When nobody could serve a partition: no leader, or one that was dead, hung or cut off."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forensics.history.nodes.broker_states import FOREVER, Absence, EvidenceRow, Span
from forensics.history.partitions.outages import (
    LeaderGap,
    OfflineReplica,
    build_outages,
    find_leader_gaps,
    read_offline_replicas,
)
from forensics.schemas import EVENTS, LEADERSHIP
from tests.history.log_lines import NO_CLOCKS, SECOND, event

Found = tuple[int, float, float | None, str, int | None, bool]


def epoch(
    leader: int | None, begin: float, end: float | None, partition: int = 0, **more: Any
) -> dict[str, Any]:
    place = {"file": "broker-9/state-change.log", "line": int(begin * 10)}
    return {
        "topic": "orders", "partition": partition, "leader": leader, "replicas": [1, 2, 3],
        "started_at": int(begin * SECOND), "ended_at": None if end is None else int(end * SECOND),
        "evidence": [place],
    } | more  # fmt: skip


def away(broker: int, kind: str, begin: float, end: float | None = None) -> Absence:
    place: EvidenceRow = {"file": f"broker-{broker}/server.log", "line": 7, "what": None}
    return Absence(
        broker, kind, int(begin * SECOND), None if end is None else int(end * SECOND), (place,),
        (int(begin * SECOND), int((begin + 1) * SECOND)) if kind == "crash" else None,
    )  # fmt: skip


def offline(broker: int, begin: float, end: float | None = None) -> OfflineReplica:
    """Let the disk fail that holds a broker's replica of orders-0."""
    until = FOREVER if end is None else int(end * SECOND)
    line = {"file": f"broker-{broker}/server.log", "line": 709}
    return OfflineReplica("orders", 0, broker, int(begin * SECOND), until, line)


def found(
    tmp_path: Path,
    epochs: Sequence[dict[str, Any]],
    *absences: Absence,
    disks: Sequence[OfflineReplica] = (),
) -> list[Found]:
    folder = tmp_path / "leadership"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(list(epochs), schema=LEADERSHIP), folder / "part-0.parquet")
    table = build_outages(folder, absences, disks)
    times = {
        name: table[name].cast(pa.int64()).to_pylist()
        for name in ("started_at", "ended_at", "started_before")
    }
    assert all(row["evidence"] for row in table.to_pylist())
    return [
        (
            row["partition"], begin / SECOND, None if end is None else end / SECOND, row["why"],
            row["leader"], row["planned"],
        )
        for row, begin, end in zip(
            table.to_pylist(), times["started_at"], times["ended_at"], strict=True
        )
    ]  # fmt: skip


def test_a_dead_leader_serves_nobody_until_the_next_one_takes_over(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 109.5), epoch(2, 109.5, None), epoch(2, 0, None, 1)]

    assert found(tmp_path, epochs, away(1, "crash", 100, 140)) == [
        (0, 100, 109.5, "leader_dead", 1, False)
    ]


def test_a_leader_whose_disk_failed_serves_nobody_though_its_broker_runs(tmp_path: Path) -> None:
    """KRaft's controller takes the leader away, and no broker logs it: it had no other replica."""
    epochs = [epoch(1, 0, 148), epoch(1, 148, None), epoch(1, 0, None, 1)]

    assert found(tmp_path, epochs, disks=[offline(1, 100, 146)]) == [
        (0, 100, 146, "no_leader", None, False)
    ]


def test_another_leader_or_none_left_ends_what_a_failed_disk_began(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 101), epoch(2, 101, 130), epoch(-1, 130, None, previous_leader=2)]

    disks = [offline(1, 100), offline(2, 128.9)]
    assert found(tmp_path, epochs, disks=disks) == [(0, 128.9, None, "no_leader", None, False)]


def test_a_follower_or_a_later_leader_is_not_offline(tmp_path: Path) -> None:
    epochs = [epoch(2, 0, 120), epoch(1, 120, None)]

    assert found(tmp_path, epochs, disks=[offline(1, 100)]) == []


def test_a_stop_after_a_failed_disk_does_not_make_the_outage_planned(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 110, replicas=[1]), epoch(1, 160, None, replicas=[1])]
    epochs.insert(1, epoch(-1, 110, 160, replicas=[1], previous_leader=1))
    stop = away(1, "controlled", 109, 159)

    assert found(tmp_path, epochs, stop, disks=[offline(1, 100, 150)]) == [
        (0, 100, 160, "no_leader", None, False)
    ]


def test_a_replica_is_offline_from_its_first_line_until_the_broker_starts(tmp_path: Path) -> None:
    rows = [
        event(second, "broker-2", "replica_offline", topic="orders", partition=partition,
              broker=broker, line=line)
        for second, partition, broker, line in [
            (100.2, 0, None, 9), (100, 0, 2, 7), (100, None, 2, 6), (170, 0, 2, 11),
        ]
    ]  # fmt: skip
    folder = tmp_path / "events"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=EVENTS), folder / "part-0.parquet")
    lanes = {2: [Span("starting", 1 * SECOND, 2 * SECOND), Span("recovering", 150 * SECOND, None)]}

    read = read_offline_replicas(folder, NO_CLOCKS, lanes)

    assert [(one.broker, one.begin / SECOND, one.end, one.evidence["line"]) for one in read] == [
        (2, 100, 150 * SECOND, 7), (2, 170, FOREVER, 11),
    ]  # fmt: skip


def test_a_topic_that_is_deleted_needs_no_leader(tmp_path: Path) -> None:
    """Under ZooKeeper the controller takes the leader of each partition away first."""
    epochs = [epoch(1, 0, 100), epoch(-1, 100, 100.1), epoch(-1, 100.1, None)]
    folder = save(tmp_path, epochs)

    def left(*seconds: float, topic: str = "orders") -> int:
        moments = [int(second * SECOND) for second in seconds]
        return len(build_outages(folder, (), deletions={topic: moments}).to_pylist())

    assert left(95.1, 99.9) == 0
    assert left(95) == 1  # the second step is 5.1 s later
    assert left(100.11) == left(94) == left(99.9, topic="payments") == 1


def test_a_leader_that_hangs_or_is_cut_off_serves_nobody(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 109), epoch(2, 109, None), epoch(3, 0, 209, 1)]

    assert found(tmp_path, epochs, away(1, "pause", 100, 114), away(3, "isolated", 200, 220)) == [
        (0, 100, 109, "leader_hung", 1, False), (1, 200, 209, "leader_isolated", 3, False),
    ]  # fmt: skip


def test_a_moment_without_a_leader_belongs_to_the_failover(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 109), epoch(-1, 109, 109.1), epoch(2, 109.1, None)]

    assert found(tmp_path, epochs, away(1, "crash", 100, 140)) == [
        (0, 100, 109.1, "leader_dead", 1, False)
    ]


def test_two_outages_of_a_partition_are_two(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 20), epoch(2, 20, 50), epoch(-1, 50, 60), epoch(2, 60, None)]

    assert found(tmp_path, epochs, away(1, "crash", 10, 30)) == [
        (0, 10, 20, "leader_dead", 1, False), (0, 50, 60, "no_leader", None, False),
    ]  # fmt: skip


def test_an_orderly_handover_is_planned(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 100.2), epoch(2, 100.2, None)]

    assert found(tmp_path, epochs, away(1, "controlled", 100, 130)) == [
        (0, 100, 100.2, "leader_stopped", 1, True)
    ]


def test_a_stop_before_others_were_in_sync_is_an_outage(tmp_path: Path) -> None:
    """Brokers 2 and 3 live, but neither may take over until broker 1 is back."""
    epochs = [epoch(1, 0, 101), epoch(-1, 101, 130), epoch(1, 130, None)]

    assert found(tmp_path, epochs, away(1, "controlled", 100, 130)) == [
        (0, 100, 130, "leader_stopped", 1, False)
    ]


def test_a_partition_with_one_replica_is_away_while_its_broker_is_restarted(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 101, replicas=[1]), epoch(-1, 101, 130, replicas=[1])]

    assert found(tmp_path, epochs, away(1, "controlled", 100, 130)) == [
        (0, 100, 130, "leader_stopped", 1, True)
    ]


def test_the_shutdown_of_everything_is_planned(tmp_path: Path) -> None:
    epochs = [epoch(1, 0, 102), epoch(2, 102, 104), epoch(-1, 104, None)]
    stops = [away(one, "controlled", 100 + one) for one in (1, 2, 3)]

    assert found(tmp_path, epochs, *stops) == [(0, 101, None, "leader_stopped", 1, True)]


def test_nobody_plans_that_a_stopped_broker_fails_to_start(tmp_path: Path) -> None:
    stop = away(1, "controlled", 100, 140)
    epochs = [epoch(1, 0, 101), epoch(-1, 101, 140), epoch(1, 140, None)]
    (tmp_path / "more").mkdir()

    [(*_, planned)] = found(tmp_path, epochs, stop, *others(40))
    [(*_, failed)] = found(tmp_path / "more", epochs, replace(stop, start_failed=True), *others(40))

    assert (planned, failed) == (True, False)


def others(length: int) -> list[Absence]:
    return [away(one, "controlled", 100, 100 + length) for one in (2, 3)]


def test_nothing_is_said_of_an_epoch_whose_begin_is_not_known(tmp_path: Path) -> None:
    assert found(tmp_path, [epoch(-1, 0, 50) | {"started_at": None}]) == []


def test_an_epoch_whose_end_nobody_saw_is_no_outage_after_it(tmp_path: Path) -> None:
    assert found(tmp_path, [epoch(1, 0, 90)], away(1, "crash", 100)) == []


def test_an_open_end_that_is_not_known_is_no_outage(tmp_path: Path) -> None:
    assert found(tmp_path, [epoch(-1, 50, None, ended="unknown")]) == []
    table = [epoch(-1, 50, 60, ended="unknown")]
    (tmp_path / "more").mkdir()
    assert found(tmp_path / "more", table) == [(0, 50, 60, "no_leader", None, False)]


SECONDS = st.integers(0, 40)
LEADERS = st.sampled_from([-1, 1, 2])
KINDS = st.sampled_from(["crash", "pause", "isolated", "controlled", "unknown"])


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.lists(st.tuples(LEADERS, st.integers(1, 9)), max_size=6),
    st.lists(st.tuples(st.sampled_from([1, 2]), KINDS, SECONDS, st.integers(1, 20)), max_size=4),
)
def test_a_partition_is_unavailable_just_when_nobody_could_serve_it(
    tmp_path: Path, reigns: list[tuple[int, int]], absent: list[tuple[int, str, int, int]]
) -> None:
    """At each moment: it has no leader, or the one that it has is away."""
    epochs, begin = [], 0
    for leader, length in reigns:
        epochs.append(epoch(leader, begin, begin + length))
        begin += length
    absences = [away(one, kind, start, start + length) for one, kind, start, length in absent]
    folder = Path(tempfile.mkdtemp(dir=tmp_path))

    outages = found(folder, epochs, *absences)

    for moment in (second + 0.5 for second in range(begin)):
        leader = next(
            row["leader"]
            for row in epochs
            if row["started_at"] <= moment * SECOND < row["ended_at"]
        )
        gone = any(
            one.broker == leader and one.begin <= moment * SECOND < (one.end or 0)
            for one in absences
        )
        covering = [row for row in outages if row[1] <= moment < (row[2] or 1e9)]
        assert len(covering) == (leader == -1 or gone)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 2]), st.sampled_from(["controlled", "crash"]), st.integers(0, 8),
            st.integers(1, 8), st.booleans(),
        ),
        max_size=4,
    ),
    st.dictionaries(st.sampled_from([1, 2]), st.sampled_from(["controlled", "crash"])),
)  # fmt: skip
def test_an_outage_without_end_is_planned_if_stops_left_nobody_for_good(
    ended: list[tuple[int, str, int, int, bool]], open_: dict[int, str]
) -> None:
    absences = [
        replace(away(broker, kind, 100 + begin, 100 + begin + length), start_failed=failed)
        for broker, kind, begin, length, failed in ended
    ]
    absences += [away(broker, kind, 120) for broker, kind in open_.items()]
    with tempfile.TemporaryDirectory() as folder:
        table = found(Path(folder), [epoch(-1, 104, None, replicas=[1, 2])], *absences)

    met = [one for one in absences if one.end is None or one.end > 104 * SECOND]
    stops = [one for one in met if one.kind == "controlled"]
    stopped = stops and not any(one.start_failed for one in stops)
    everybody = set(open_) == {1, 2}
    by_order = everybody and set(open_.values()) == {"controlled"}
    assert [row[5] for row in table] == [by_order or bool(everybody and stopped)]


def unseen(leader: int | None, number: int, **more: Any) -> dict[str, Any]:
    """Give a leader epoch of which nobody knows when it began."""
    return epoch(leader, 0, None, leader_epoch=number, started_at=None, ended="unknown") | more


def known(leader: int | None, number: int, begin: float, end: float | None) -> dict[str, Any]:
    return epoch(leader, begin, end, leader_epoch=number, ended="unknown")


def save(tmp_path: Path, epochs: Sequence[dict[str, Any]]) -> Path:
    folder = tmp_path / "leadership"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(list(epochs), schema=LEADERSHIP), folder / "part-0.parquet")
    return folder


def test_an_outage_lasts_while_all_who_may_have_led_were_away(tmp_path: Path) -> None:
    """The next leader is known, and it was down: whenever it was elected, it served later."""
    epochs = [
        epoch(3, 0, 109, leader_epoch=0), known(-1, 1, 109, 109),
        unseen(3, 2, started_before=130 * SECOND, ended_at=200 * SECOND, ended="observed"),
    ]  # fmt: skip
    folder = save(tmp_path, epochs)

    [row] = build_outages(folder, [away(3, "crash", 100, 128)]).to_pylist()
    ends = [round(row[name].timestamp()) for name in ("started_at", "ended_at", "ended_after")]
    assert (ends, row["why"]) == ([100, 128, 130], "leader_dead")

    # It was back long before it said that it leads: until when nobody led is not known.
    [row] = build_outages(folder, [away(3, "crash", 100, 112)]).to_pylist()
    ends = [round(row[name].timestamp()) for name in ("started_at", "ended_at", "ended_after")]
    assert ends == [100, 112, 130]


def test_epochs_without_a_leader_that_follow_each_other_are_one_outage(tmp_path: Path) -> None:
    """All brokers stop: nobody tells when the last epoch began, and no line says it ended."""
    stops = [away(one, "controlled", 103) for one in (1, 2, 3)]
    last = unseen(-1, 3, started_before=105 * SECOND, ended="open")
    epochs = [epoch(1, 0, 104, leader_epoch=1), known(-1, 2, 104, 104.5), last]

    assert [row[1:4] for row in found(tmp_path, epochs, *stops)] == [(103, None, "leader_stopped")]


def test_between_epochs_without_a_leader_somebody_may_have_led(tmp_path: Path) -> None:
    stops = [away(one, "controlled", 110) for one in (1, 2, 3)]
    last = unseen(-1, 4, started_before=112 * SECOND, ended="open")
    epochs = [epoch(1, 0, 104, leader_epoch=1), known(-1, 2, 104, 104.5), last]

    assert [row[1:3] for row in found(tmp_path, epochs, *stops)] == [(104, 104.5), (110, None)]


@pytest.mark.parametrize(
    ("kind", "begin", "gap"),
    [
        ("crash", 100, (100, 140)), ("pause", 90, (95, 140)),
        # It was told to stop, or went when others are known to have led.
        ("controlled", 100, None), ("crash", 141, None),
    ],
)  # fmt: skip
def test_who_led_after_a_leader_went_away_may_be_unknown(
    kind: str, begin: float, gap: tuple[int, int] | None, tmp_path: Path
) -> None:
    epochs = [known(2, 0, 10, 95), unseen(None, 1, ended_at=None), known(1, 2, 140, 150)]
    folder = save(tmp_path, epochs)
    absences = [away(2, kind, begin, 160)]

    expected = [LeaderGap("orders", 0, 2, *(at * SECOND for at in gap))] if gap else []
    assert list(find_leader_gaps(folder, absences)) == expected
    # It may have been another replica that lived: that is no outage for sure.
    assert build_outages(folder, absences).num_rows == (begin == 90)


def test_a_gap_may_reach_over_batches_and_to_the_end_of_the_logs(tmp_path: Path) -> None:
    """A file is read in groups of rows; a partition may lie in two of them."""
    epochs = [known(2, 0, 10, 95), unseen(None, 1), known(1, 2, 140, 150)]
    epochs += [one | {"partition": 1} for one in epochs[:2]]
    folder = tmp_path / "leadership"
    folder.mkdir()
    table = pa.Table.from_pylist(epochs, schema=LEADERSHIP)
    pq.write_table(table, folder / "part-0.parquet", row_group_size=1)

    assert list(find_leader_gaps(folder, [away(2, "crash", 100, 160)])) == [
        LeaderGap("orders", 0, 2, 100 * SECOND, 140 * SECOND),
        LeaderGap("orders", 1, 2, 100 * SECOND, None),
    ]


def test_an_epoch_that_began_unseen_counts_from_when_it_was_seen(tmp_path: Path) -> None:
    """Brokers that were started name the epoch that they found: it was there by then."""
    led = unseen(2, 1, started_before=110 * SECOND, ended_at=140 * SECOND, ended="observed")
    epochs = [known(3, 0, 0, 90), led, epoch(1, 140, None, leader_epoch=2)]

    assert [row[1:3] for row in found(tmp_path, epochs, away(2, "crash", 100, 160))] == [(110, 140)]


def test_an_outage_goes_on_over_epochs_that_were_seen_once_only(tmp_path: Path) -> None:
    """The leader was dead, then there was none, and then the same one led when it was back."""
    none, again = (
        unseen(leader, number, started_before=at * SECOND)
        for leader, number, at in ((-1, 1, 120), (2, 2, 131))
    )
    epochs = [known(2, 0, 0, 90), none, again]

    [row] = found(tmp_path, epochs, away(2, "crash", 100, 130))
    assert row[1:4] == (100, 130, "leader_dead")


@pytest.mark.parametrize(
    ("second", "outages"),
    [
        ((120, 150), [(120, 140)]),
        ((105, 118), [(105, 108), (110, 118)]),
        ((108, 110), []),
    ],
)
def test_whoever_led_nobody_served_while_all_replicas_were_away(
    tmp_path: Path, second: tuple[float, float], outages: list[tuple[float, float]]
) -> None:
    """Of an epoch that no line names any replica may have been the leader."""
    rows = [known(2, 0, 0, 90), unseen(None, 1), unseen(1, 3, started_before=160 * SECOND)]
    epochs = [row | {"replicas": [1, 2]} for row in rows]
    stays = [away(1, "crash", 100, 108), away(1, "crash", 110, 140), away(2, "crash", *second)]

    assert [row[1:3] for row in found(tmp_path, epochs, *stays)] == outages
