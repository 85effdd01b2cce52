"""Lines of evidence are found, one by one or all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from forensics.detection.context import DetectionContext
from forensics.history.log_coverage import SILENT
from tests.detection.cases import SECOND, absence, case, event, logs


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


@pytest.mark.parametrize(
    ("kind", "begin", "level"),
    [
        ("crash", 102, "likely"), ("controlled", 102, "likely"),
        # What it did meanwhile is not known, or what it did before.
        ("pause", 102, "possible"), ("crash", 170, "possible"),
    ],
)  # fmt: skip
def test_the_silence_of_a_dead_broker_lowers_no_confidence(
    kind: str, begin: float, level: str, tmp_path: Path
) -> None:
    lines = [event(at, f"broker-{one}", "log_loaded") for one, at in ((1, 90), (2, 100))]
    silent = {"node": "broker-2", "role": "broker", "state": SILENT, "why": "no line",
              "started_at": 100 * SECOND, "ended_at": 150 * SECOND}  # fmt: skip
    files = [logs(f"broker-{one}", 200) for one in (1, 2)]
    context = case(tmp_path, events=lines, files=files, coverage=[silent],
                   away=[absence(2, kind, begin, begin + 50)])  # fmt: skip

    assert context.confidence(90 * SECOND, 160 * SECOND, lines, stated=False)[0] == level
