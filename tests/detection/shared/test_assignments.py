"""Which replicas partitions have, by what was logged as their topics were made."""

from __future__ import annotations

from pathlib import Path

from forensics.detection.shared.assignments import read_assignments
from tests.detection.cases import case, event


def test_numbers_that_kafka_cannot_have_written_are_left_out(tmp_path: Path) -> None:
    detail = f"0 -> ArrayBuffer(1, 2), 1 -> ArrayBuffer({'9' * 5000}, 2)"
    made = event(1, "broker-1", "topic_created", topic="orders", detail=detail)

    assert read_assignments(case(tmp_path, events=[made])) == {("orders", 0): (1, 2)}
