"""Finds the year of times that were written without one: that in which the logs lie."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.documents.facts import YEARLESS
from forensics.lib.time_units import to_arrow_timestamp, to_datetime

Window = tuple[int, int]
_FROM, _TO = (
    to_arrow_timestamp(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000)
    for year in (YEARLESS, YEARLESS + 1)
)


def find_window(moments: Iterable[int | None]) -> Window | None:
    """Return from when to when logs reach, if any has a time."""
    known = [moment for moment in moments if moment is not None]
    return (min(known), max(known)) if known else None


def settle_years(times: pa.Array, window: Window | None) -> pa.Array:
    """Move times without a year to the year that lies nearest; null where nothing tells."""
    lacks = pc.and_(pc.greater_equal(times, _FROM), pc.less(times, _TO))
    if not pc.any(lacks).as_py():
        return times
    micros = times.cast(pa.int64()).to_pylist()
    settled = [
        _settle(moment, window) if lacking else moment
        for moment, lacking in zip(micros, lacks.to_pylist(), strict=True)
    ]
    return pa.array(settled, pa.int64()).cast(times.type)


def _settle(moment: int, window: Window | None) -> int | None:
    if window is None:
        return None
    written = to_datetime(moment)
    years = {to_datetime(edge).year + away for edge in window for away in (-1, 0, 1)}
    found = []
    for year in sorted(years):
        try:
            dated = written.replace(year=year)
        except ValueError:
            continue
        micros = int(dated.timestamp()) * 1_000_000 + dated.microsecond
        found.append((max(window[0] - micros, micros - window[1], 0), micros))
    return min(found)[1] if found else None
