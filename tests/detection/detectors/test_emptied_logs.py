"""Brokers that came back without their logs, many times in one archive."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forensics.detection.context import DetectionContext
from forensics.detection.detectors.emptied_logs import find
from forensics.history.nodes.broker_states import Span
from tests.detection.cases import SECOND, absence, case, event, logs, version


def came_back_often(folder: Path, times: int) -> DetectionContext:
    """Let broker 2 lose the log of a topic of its own every 1000 seconds."""
    folder.mkdir()
    events, versions, away, starts = [], [], [], []
    for number in range(times):
        begin = 1000.0 * number
        topic = {"topic": f"t{number}", "partition": 0}
        events += [
            event(begin + 130, "broker-2", "log_created", **topic),
            event(begin + 131, "broker-2", "partition_state", **topic, leader=2, leader_epoch=1,
                  isr=[2], log_end=0),
        ]  # fmt: skip
        versions.append(version(number, [2], begin + 10) | topic)
        away.append(absence(2, "crash", begin + 100, begin + 130))
        start, end = int((begin + 125) * SECOND), int((begin + 130) * SECOND)
        starts.append(Span("starting", start, end))
    server_log = logs("broker-2", 1000.0 * times, role="broker", records=9)
    return case(folder, events=events, isr=versions, away=away, brokers={2: starts},
                files=[server_log])  # fmt: skip


def test_each_return_has_the_partitions_of_its_own(tmp_path: Path) -> None:
    found = list(find(came_back_often(tmp_path / "often", 3)))

    assert [(one.partitions, one.begin // SECOND) for one in found] == [
        (["t0-0"], 100),
        (["t1-0"], 1100),
        (["t2-0"], 2100),
    ]


def test_hundreds_of_returns_take_no_more_reading_than_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()
    each = DetectionContext.each

    def counted(context: DetectionContext, table: str, *more: Any) -> Any:
        read[table] += 1
        return each(context, table, *more)

    monkeypatch.setattr(DetectionContext, "each", counted)
    seen = []
    for times in (2, 6):
        context = came_back_often(tmp_path / str(times), times)
        read.clear()
        assert len(list(find(context))) == times
        seen.append(dict(read))

    assert seen[0] == seen[1]
