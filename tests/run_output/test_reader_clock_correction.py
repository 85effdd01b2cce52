"""Times that nodes logged are corrected by all that their clocks did, not by one offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forensics.history.clocks.model import (
    ClockModel,
    Clocks,
    ClockSegment,
    ClockStep,
    build_clock_rows,
)
from forensics.run_output.reader import (
    ClockCorrection,
    RunOutput,
    corrected_times,
    parse_correction,
)
from forensics.schemas import CLOCKS

START = datetime(2026, 11, 18, 12, tzinfo=UTC)
MS = int(START.timestamp() * 1000)


def stretch(seconds: float | None, offset: float, ppm: float = 0.0) -> dict[str, Any]:
    since = None if seconds is None else START + timedelta(seconds=seconds)
    return {"since": since, "at": START, "offset_ms": offset, "drift_ppm": ppm}


def read(*stretches: dict[str, Any]) -> ClockCorrection:
    row = {"node": "n", "offset_ms": 5, "zone_shift_minutes": 0, "stretches": list(stretches)}
    found = parse_correction(row)
    assert found is not None
    return found


def off(known: ClockCorrection, *seconds: float) -> list[int]:
    times = [MS + round(s * 1000) for s in seconds]
    values: list[int] = known.offsets_at(np.array(times)).tolist()
    assert values == [known.offset_at(time) for time in times]
    return values


def test_a_step_changes_what_is_taken_off_from_its_moment_on() -> None:
    known = read(stretch(None, 0.0), stretch(60, 20_000.0))

    assert [0, 0, 20_000, 20_000] == off(known, 0, 59.999, 60, 3_600)


def test_what_a_clock_drifted_grows() -> None:
    """Two hundred parts of a million are 720 ms in an hour."""
    assert [0, 720, -720] == off(read(stretch(None, 0.0, 200.0)), 0, 3_600, -3_600)


def test_tables_without_stretches_are_corrected_by_the_offset_and_the_zone() -> None:
    row: dict[str, Any] = {"offset_ms": 37_000, "zone_shift_minutes": 60, "stretches": None}

    assert [3_637_000] == off(parse_correction(row) or read(), 0)
    assert parse_correction(row | {"offset_ms": None, "zone_shift_minutes": 0}) is None


@pytest.mark.parametrize(("end", "least"), [(MS, 20_000), (MS + 3_600_000, 20_720)])
def test_the_farthest_a_clock_is_off_counts_all_stretches(end: int, least: int) -> None:
    known = read(stretch(None, 0.0, 200.0), stretch(60, -20_000.0, 200.0))

    assert least <= known.max_offset(MS, end) <= least + 10


def test_events_are_corrected_each_by_its_own_node() -> None:
    known = {"a": read(stretch(None, 100.0)), "b": read(stretch(None, 0.0), stretch(1, -500.0))}
    events = pa.table({"node": ["a", "b", "b", None, "c"], "ts": [MS, MS, MS + 1_000, MS, MS]})

    assert [-100, 0, 1_500, 0, 0] == (corrected_times(events, known) - MS).tolist()


def test_a_run_corrects_by_what_its_table_of_clocks_says(tmp_path: Path) -> None:
    """History writes the table, and the page reads it: both must mean the same."""
    course = ClockModel(
        (ClockSegment(0, 0.0, 0.0, 50.0, 0, 1), ClockSegment(0, -20_000.0, 0.0, 50.0, 0, 1)),
        (ClockStep(MS * 1000, MS * 1000, MS * 1000, -20_000.0, MS * 1000),),
    )
    rows = build_clock_rows(["b"], {"b": course}, {"b": 60}, {}, ())
    folder = tmp_path / "tables" / "clocks"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), CLOCKS), folder / "part-0.parquet")
    clocks = Clocks({}, {"b": 60}, (), {"b": course})
    run = RunOutput(tmp_path, {})

    for moment in (MS, MS + 3_600_000, MS + 3_601_000, MS + 9_000_000):
        assert clocks.correct("b", moment * 1000) == run.correct_time("b", moment) * 1000
    assert MS == run.correct_time("unknown", MS)
