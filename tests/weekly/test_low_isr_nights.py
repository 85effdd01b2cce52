"""A partition burns slowly where it goes through night after night with one replica in sync."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from forensics.weekly.iso_week import Week
from forensics.weekly.week_metrics import MAX_LOW_ISR_NIGHTS, count_low_isr_nights, nights_in
from tests.report import sample_runs as samples
from tests.weekly.sample_summaries import DAY, HOUR

WEEK = Week.parse("2026-W46")
WINDOW = WEEK.begin // 1000, WEEK.end // 1000


def isr_row(start: int, end: int | None, isr: list[int], **more: Any) -> dict[str, Any]:
    defaults = {
        "topic": "orders", "partition": 2, "partition_epoch": start // HOUR, "isr": isr,
        "replicas": [1, 2, 3], "started_at": (WINDOW[0] + start) * 1000,
        "ended_at": None if end is None else (WINDOW[0] + end) * 1000,
    }  # fmt: skip
    return defaults | more


def low_isr_nights(out: Path, rows: list[dict[str, Any]]) -> list[tuple[str, int, float]]:
    samples.save(out, "isr", rows)
    moments = [datetime.fromtimestamp((WINDOW[0] + ms) / 1000, UTC) for ms in (0, 7 * DAY)]
    document = samples.document([], "clear")
    document["window"] = {"from": moments[0].isoformat(), "to": moments[1].isoformat()}
    write_findings(document, out / "findings.json")
    return count_low_isr_nights(load_run(out), WINDOW)["partitions"]


def test_a_week_has_seven_nights_and_the_last_one_ends_with_it() -> None:
    nights = nights_in(WINDOW)

    assert len(nights) == 7
    assert nights[0] == (WINDOW[0] + 22 * HOUR, WINDOW[0] + 30 * HOUR)
    assert nights[-1] == (WINDOW[1] - 2 * HOUR, WINDOW[1])


def test_each_night_counts_once_however_often_it_is_thin_in_it(tmp_path: Path) -> None:
    rows = []
    for night in range(3):
        at = night * DAY + 23 * HOUR
        rows += [isr_row(at, at + HOUR, [1]), isr_row(at + HOUR, at + 2 * HOUR, [1, 2, 3]),
                 isr_row(at + 2 * HOUR, at + 3 * HOUR, [1])]  # fmt: skip

    assert low_isr_nights(tmp_path, rows) == [("orders-2", 3, 360.0)]
    assert MAX_LOW_ISR_NIGHTS < 3


def test_days_and_short_dips_are_no_nights(tmp_path: Path) -> None:
    rows = [
        isr_row(9 * HOUR, 20 * HOUR, [1]),
        isr_row(DAY + 23 * HOUR, DAY + 23 * HOUR + 59_000, [1]),
        isr_row(2 * DAY + 23 * HOUR, 2 * DAY + 24 * HOUR, [1, 2]),
    ]

    assert low_isr_nights(tmp_path, rows) == []


def test_a_partition_of_one_replica_is_never_thin(tmp_path: Path) -> None:
    rows = [isr_row(0, 7 * DAY, [1], replicas=[1])]

    assert low_isr_nights(tmp_path, rows) == []


def test_where_no_line_names_the_replicas_it_has_those_that_it_once_had(tmp_path: Path) -> None:
    lone = [isr_row(0, 7 * DAY, [1], replicas=None)]
    more = [isr_row(0, HOUR, [1, 2], replicas=None), isr_row(HOUR, 7 * DAY, [1], replicas=None)]

    assert low_isr_nights(tmp_path / "lone", lone) == []
    assert [nights for _, nights, _ in low_isr_nights(tmp_path / "more", more)] == [7]


def test_what_is_open_ends_where_the_logs_do(tmp_path: Path) -> None:
    """Nobody knows what the nights after the last line were like."""
    rows = [isr_row(0, None, [1])]
    samples.save(tmp_path, "files", [
        samples.file("broker-1", "server", last_ts=(WINDOW[0] + 2 * DAY) * 1000),
        # A client goes on for longer, and knows nothing of it.
        samples.file("app", "client", role="client", last_ts=WINDOW[1] * 1000),
    ])  # fmt: skip

    assert [nights for _, nights, _ in low_isr_nights(tmp_path, rows)] == [2]
