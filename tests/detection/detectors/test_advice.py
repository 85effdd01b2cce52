"""What findings advise fits what the logs say of the version, the settings and the trouble."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from forensics import schemas
from forensics.detection.detectors import (
    config_risk,
    controller_lost,
    disk_failure,
    future_timestamps,
    isr_flapping,
    rebalance_storm,
    under_min_isr,
)
from forensics.history.nodes.broker_states import Span
from forensics.run_output.findings import Finding
from tests.detection.cases import SECOND, case, event, logs, row
from tests.detection.scenarios import controller_lost as losses
from tests.detection.scenarios import isr_flapping as flapping
from tests.detection.scenarios import rebalance_storm as storms
from tests.detection.scenarios.config_risk import UNCLEAN, on_topic
from tests.detection.scenarios.disk_failure import error

KAFKA = [logs("broker-1", 10_000, role="broker", kafka_version="3.9.1")]


def actions(finding: Finding) -> str:
    return "\n".join(finding.actions)


def test_a_full_disk_is_freed_by_retention_and_never_by_hand(tmp_path: Path) -> None:
    [found] = disk_failure.find(case(tmp_path, events=[error(100)], files=KAFKA))

    assert "--add-config retention.bytes=BYTES" in actions(found)
    assert "80 % full" in actions(found)
    assert "Do not delete files below the directory by hand" in actions(found)


def test_controllers_that_are_down_are_to_be_started(tmp_path: Path) -> None:
    """Nobody is elected without a majority, so that one must not be told to leave them alone."""
    down = {"controller-3": [Span("crashed", 101 * SECOND, 139 * SECOND)]}
    for name in ("down", "alone"):
        (tmp_path / name).mkdir()
    [found] = controller_lost.find(losses.lost(gap=40, processes=down)(tmp_path / "down"))
    [alone] = controller_lost.find(losses.lost(gap=40)(tmp_path / "alone"))

    assert "start those that still are" in actions(found)
    assert "Do not restart the other controllers" not in actions(found)
    assert "Do not restart the other controllers" in actions(alone)


def test_a_broken_disk_is_not_freed(tmp_path: Path) -> None:
    given = [error(100, detail="Input/output error")]
    [found] = disk_failure.find(case(tmp_path, events=given, files=KAFKA))

    assert "retention" not in actions(found)


def storm(folder: Path, detail: str, settings: Sequence[dict[str, object]] = ()) -> Finding:
    given = [*storms.rebalances(12, details=[storms.JOIN, detail]), storms.stable(2), *settings]
    [found] = rebalance_storm.find(case(folder, events=given, files=KAFKA))
    return found


def test_members_that_are_eager_are_told_of_cooperative_assignment(tmp_path: Path) -> None:
    found = storm(tmp_path, storms.HEARTBEAT, storms.SETTINGS)

    assert "session.timeout.ms=6000" in actions(found)
    assert "CooperativeStickyAssignor" in actions(found)
    assert "group.instance.id" in actions(found)


def test_members_that_are_cooperative_and_static_are_not(tmp_path: Path) -> None:
    better = {"[RangeAssignor]": "[CooperativeStickyAssignor]", "null": "app-1"}
    settings = [one | {"value": better.get(one["value"], one["value"])} for one in storms.SETTINGS]

    found = storm(tmp_path, storms.HEARTBEAT, settings)

    assert "only the partitions that move" not in actions(found)
    assert "causes no rebalance" not in actions(found)


def test_static_membership_does_not_help_who_polls_too_late(tmp_path: Path) -> None:
    assert "causes no rebalance" not in actions(storm(tmp_path, storms.POLL))


def test_an_unclean_topic_gets_the_command_that_forbids_it(tmp_path: Path) -> None:
    found, *_ = config_risk.find(
        case(tmp_path, events=[on_topic("t", f"{UNCLEAN} to true")], files=KAFKA)
    )

    assert f"--add-config {UNCLEAN}=false" in actions(found)


def test_refused_writes_come_with_the_minimum_of_their_topic(tmp_path: Path) -> None:
    given = [
        on_topic("t", "min.insync.replicas to 2"),
        event(30, "app", "client_error", topic="t", partition=0, error="NOT_ENOUGH_REPLICAS"),
    ]
    [found] = under_min_isr.find(case(tmp_path, events=given, files=KAFKA))

    assert "The minimum, as logged: t 2." in found.explanation


def test_a_flapping_follower_comes_with_the_lag_in_force(tmp_path: Path) -> None:
    fires = next(one for one in flapping.SCENARIOS if one.kind == "fires")
    lag = event(1, "broker-1", "setting_seen", setting="replica.lag.time.max.ms", value="10000")
    context = fires.build(tmp_path)
    rows = pa.Table.from_pylist([lag], schema=schemas.EVENTS)
    pq.write_table(rows, tmp_path / "events" / "part-1.parquet")

    found, *_ = isr_flapping.find(context)

    assert "replica.lag.time.max.ms is 10000 here." in found.explanation


def test_clocks_that_were_ahead_are_named_beside_future_times(tmp_path: Path) -> None:
    context = case(tmp_path, events=[event(10, "broker-1", "future_timestamps", topic="t")])
    (tmp_path / "clocks").mkdir()
    ahead = [row("clocks", node="app", offset_ms=90_000), row("clocks", node="b", offset_ms=100)]
    table = pa.Table.from_pylist(ahead, schema=schemas.CLOCKS)
    pq.write_table(table, tmp_path / "clocks" / "part-0.parquet")

    [found] = future_timestamps.find(context)

    assert "Clocks that were ahead in these logs: app by 90 s." in found.explanation
