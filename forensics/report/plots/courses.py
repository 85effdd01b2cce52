"""Beside figure 7: the course of each clock that drifted or was set, as a small line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from forensics.report import colours, figures
from forensics.report.corrections import Correction, correction
from forensics.report.escape import plotly as shown
from forensics.report.saved import Row
from forensics.report.words import clock, lasting

__all__ = ["courses", "moved"]

# The worst clocks that get a line, and how high it is in pixels.
MAX_COURSES, TALL = 8, 70
MINUTE = 60_000


def moved(rows: Sequence[Row]) -> list[Row]:
    """Choose the nodes whose clocks did not stay as they were, the farthest off first."""
    found = [row for row in rows if row.get("stretches") and (row["steps"] or row["drift_ppm"])]
    return sorted(found, key=lambda row: (-abs(row["offset_ms"] or 0), row["node"] or ""))


def courses(rows: Sequence[Row], window: tuple[int, int] | None) -> figures.Figure | None:
    """Draw how far each of them was off, over the time of the logs."""
    chosen = moved(rows)[:MAX_COURSES]
    if not chosen or not window:
        return None
    sheet = figures.Sheet([(f"{shown(row['node'])}, ahead by", TALL) for row in chosen], window)
    for at, row in enumerate(chosen, 1):
        known = correction(row)
        if known is None:
            continue
        trace = _line(known, (row["zone_shift_minutes"] or 0) * MINUTE, window)
        sheet.add_trace(trace, at)
        sheet.update_yaxes(at, **_axis(trace["y"]))
    return sheet.done((), showlegend=False)


def _line(known: Correction, zone: int, window: tuple[int, int]) -> figures.Figure:
    """Put points at both ends of each stretch; what lies between is straight."""
    # Stretches are in time as logged; the figure is on the reference clock, on which a clock that
    # is set jumps up or down in no time.
    edges = [window[0] + _off(known, window[0]), *known.since, window[1] + _off(known, window[1])]
    x: list[int] = []
    y: list[int] = []
    for begin, end in pairwise(edges):
        last = max(begin, end - 1)
        off, then = _off(known, begin), _off(known, last)
        x += [begin - off, end - _off(known, end)]
        y += [off - zone, then - zone]
    x = [min(max(moment, window[0]), window[1]) for moment in x]
    says = [f"{clock(at)}: {'-' if ms < 0 else '+'}{lasting(abs(ms))}"
            for at, ms in zip(x, y, strict=True)]  # fmt: skip
    return {
        "type": "scatter", "mode": "lines+markers", "x": x, "y": y, "customdata": says,
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False,
        "line": {"width": 2, "color": "#0072B2"}, "marker": {"size": 5, "color": "#0072B2"},
    }  # fmt: skip


def _off(known: Correction, moment: int) -> int:
    return int(known.off(np.array([moment], np.int64))[0])


def _axis(values: Sequence[int]) -> figures.Figure:
    """Name the lowest and the highest offset, and zero where it lies between them."""
    low, high = min(values), max(values)
    ticks = sorted({low, high} | ({0} if low < 0 < high else set()))
    words = [f"{'-' if ms < 0 else ''}{lasting(abs(ms))}" for ms in ticks]
    edge = max(1, (high - low) // 5)
    return {
        "tickvals": ticks, "ticktext": words, "range": [low - edge, high + edge],
        "fixedrange": True, "gridcolor": colours.HATCH,
    }  # fmt: skip
