"""Lines of evidence are found, one by one or all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.detection.context import DetectionContext
from tests.detection.cases import case, event


def test_lines_that_are_read_at_once_are_those_that_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        event(at, node, kind) | {"file": f"{node}.log", "line": line}
        for at, node, kind, line in [
            (3, "broker-1", "log_loaded", 7), (3, "broker-1", "fetch_reset", 7),
            (1, "broker-2", "log_loaded", 7), (2, "broker-1", "log_loaded", 8),
        ]
    ]  # fmt: skip
    context = case(tmp_path, events=events)
    places = [
        {"file": file, "line": line}
        for file, line in [("broker-1.log", 7), ("broker-2.log", 7), ("broker-1.log", 9)]
    ]

    alone = context.read_lines(places)
    context.look_up([*places, {"file": "broker-1.log", "line": 8}])
    monkeypatch.delattr(DetectionContext, "batches")

    assert [(row["file"], row["line"]) for row in alone] == [
        ("broker-1.log", 7), ("broker-1.log", 7), ("broker-2.log", 7),
    ]  # fmt: skip
    assert context.read_lines(places) == alone
    assert len(context.read_lines([{"file": "broker-1.log", "line": 8}])) == 1
