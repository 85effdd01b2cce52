"""What an incident took from clients: those count that logged errors because of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics import schemas
from forensics.detection.detectors import offline_partitions, truncation
from forensics.detection.impact import measure_impact
from tests.detection.cases import SECOND, absence, case, epoch, event, row
from tests.detection.scenarios.truncation import cut


@pytest.mark.parametrize(
    ("kind", "second", "hit"),
    [
        ("pause", 105, 1), ("pause", 99, 0),
        # It was elected away at 110, and wakes at 120: those that waited for it hear so then.
        ("pause", 122.9, 1), ("pause", 123.1, 0),
        # A dead one keeps nobody waiting.
        ("crash", 112.9, 1), ("crash", 113.1, 0),
    ],
)  # fmt: skip
def test_a_client_is_hit_if_it_logs_errors_while_a_leader_is_away(
    kind: str, second: float, hit: int, tmp_path: Path
) -> None:
    led = [epoch(1, 1, 1, 110), epoch(2, 2, 110, previous_leader=1)]
    built = case(tmp_path, leadership=led, away=[absence(1, kind, 100, 120)])
    at = int(second * SECOND)
    lane = row("lanes", node="app", role="client", state="stale", started_at=at, ended_at=at)
    (tmp_path / "lanes").mkdir()
    table = pa.Table.from_pylist([lane], schema=schemas.LANES)
    pq.write_table(table, tmp_path / "lanes/part-0.parquet")

    found = measure_impact(built, [])

    assert found["clients_affected"] == hit
    assert found["longest_s"] == 10.0


@pytest.mark.parametrize(("acks", "most"), [("1", 5), ("all", 0)])
def test_what_is_cut_after_a_clean_failover_is_lost_at_most(
    acks: str, most: int, tmp_path: Path
) -> None:
    """A producer with acks=1 that was not told in time has sent the records again."""
    events = [
        event(50, "app", "client_setting_seen", offset=0, setting=name, value=value)
        for name, value in {"acks": acks, "client.id": "app"}.items()
    ]
    events.append(event(60, "app", "client_error", client="app", topic="t"))
    built = case(tmp_path, cuts=[cut()], events=events)

    found = measure_impact(built, list(truncation.find(built)))

    assert (found["records_lost_min"], found["records_lost_max"]) == (0, most)


def test_clients_that_an_incident_is_about_are_affected_without_an_outage(tmp_path: Path) -> None:
    """librdkafka numbers the instances of a client: they are one."""
    built, seen = case(tmp_path), [event(1, "app", "client_error")]
    found = [
        built.finding("unreachable-listener", severity, "x", 1, 2, seen, clients=clients)
        for severity, clients in (
            ("medium", ["app-rd#producer-1", "app-web"]), ("low", ["app-rd"]), ("info", ["b"]),
        )
    ]  # fmt: skip

    assert measure_impact(built, found)["clients_affected"] == 2


def test_what_nobody_saw_makes_the_number_a_lower_bound(tmp_path: Path) -> None:
    """Broker 1 led both as it crashed; of the second no line says who led after it."""
    unseen = epoch(1, 1, 1, 95, partition=1) | {"ended": "unknown"}
    rows = [
        epoch(1, 1, 1, 110), epoch(2, 2, 110, previous_leader=1),
        unseen, epoch(3, 2, 120, partition=1, previous_leader=None),
    ]  # fmt: skip
    built = case(tmp_path, leadership=rows, away=[absence(1, "crash", 100, 140)])

    found = measure_impact(built, [])
    assert found["partitions_unavailable"] == 1
    assert found["unknown_leaders"] == {
        "partitions": 1, "names": ["t-1"], "leaders": [1],
        "from": "1970-01-01T00:01:40.000Z", "to": "1970-01-01T00:02:00.000Z",
    }  # fmt: skip
    [offline] = offline_partitions.find(built)
    assert offline.title.startswith("At least 1 partition unavailable")
    assert (offline.measures["partitions"], offline.measures["possibly"]) == (1, 1)


def test_leaders_lost_at_one_time_are_one_time(tmp_path: Path) -> None:
    """Two brokers crash at once: a reader means stretches of time, not leaders."""
    rows = [
        row
        for number in (0, 1)
        for row in (
            epoch(1, 1 + number, 1, 110, partition=number),
            epoch(2, 3, 110, partition=number, previous_leader=1 + number),
        )
    ]
    away = [absence(1, "crash", 100, 140), absence(2, "crash", 100.5, 140)]
    [offline] = offline_partitions.find(case(tmp_path, leadership=rows, away=away))

    assert offline.title == "2 partitions unavailable, for up to 10.0 s"
    assert offline.measures["losses"] == 1


@pytest.mark.parametrize(("patience", "told"), [("3000", ["app"]), ("15000", []), (None, [])])
def test_a_producer_that_gives_up_before_its_topic_is_back_may_have_lost_records(
    patience: str | None, told: list[str], tmp_path: Path
) -> None:
    """Nobody served t-0 for 10 s; only the application is told what was given up."""
    settings = {"acks": "all", "client.id": "app"}
    settings |= {"delivery.timeout.ms": patience} if patience else {}
    events = [
        event(50, "app", "client_setting_seen", offset=0, setting=name, value=value)
        for name, value in settings.items()
    ]
    events.append(event(60, "app", "client_error", client="app", topic="t"))
    led = [epoch(1, 1, 1, 110), epoch(2, 2, 110, previous_leader=1)]
    built = case(tmp_path, leadership=led, events=events, away=[absence(1, "crash", 100, 120)])

    found = measure_impact(built, [])["gives_up_early"]

    assert [one["client"] for one in found] == told
    assert all((one["topic"], one["wait_s"]) == ("t", 10.0) for one in found)
