"""Figure 7: how far each node's clock is off, and how each moved that drifted or was set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from plotly import graph_objects as go

from forensics.lib.text_format import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import plotly_sheet, theme
from forensics.report.plotly_sheet import Figure, Sheet, Span
from forensics.run_output.reader import ClockCorrection, Row, parse_correction

MINUTE = 60_000
# The worst clocks that get a line, and how high it is in pixels.
MAX_COURSES, LINE_HEIGHT = 8, 70
# Offsets are from milliseconds to years: linear within this, by powers of ten beyond.
LINEAR_MS = 10.0
# Nodes that are drawn, and so many that words stand beside their dots.
MAX_NODES, FEW_NODES = 200, 12
TICKS = {
    0: "0", 10: "10 ms", 100: "100 ms", 1000: "1 s", 10_000: "10 s", MINUTE: "1 min",
    3_600_000: "1 h", 86_400_000: "1 day", 31_536_000_000: "1 year",
}  # fmt: skip


def draw_offsets(rows: Sequence[Row]) -> Figure | None:
    """Draw a dot with its interval for each node whose clock could be compared."""
    known = [row for row in rows if row["offset_ms"] is not None][:MAX_NODES]
    if not known:
        return None
    names = [str(row["node"] or "node not known") for row in known]
    sheet = Sheet([("", 22 * len(known) + 10)], (0, 1))
    sheet.add_trace(_dots(known, names))
    sheet.update_yaxes(**plotly_sheet.name_axis(names))
    reach = max(LINEAR_MS, *(abs(row["offset_ms"]) + _uncertainty(row) for row in known))
    ticks = [ms for ms in TICKS if ms <= reach * 3]
    axis = {
        "title": {"text": "ahead of the reference (right) or behind (left)", "standoff": 6},
        "range": [-_place(reach) * 1.15, _place(reach) * 1.15], "fixedrange": True,
        "tickvals": [*(-_place(ms) for ms in ticks[:0:-1]), *map(_place, ticks)], "zeroline": True,
        "ticktext": [*(f"-{TICKS[ms]}" for ms in ticks[:0:-1]), *(TICKS[ms] for ms in ticks)],
        "type": "linear", "anchor": "y", "automargin": True, "zerolinecolor": theme.HATCH,
    }  # fmt: skip
    return sheet.build((), xaxis=axis, showlegend=False)


def _uncertainty(row: Row) -> int:
    return row["uncertainty_ms"] or 0


def _place(ms: float) -> float:
    """Put an offset on an axis that is linear near zero and logarithmic far from it.

    >>> [round(_place(ms), 2) for ms in (0, 10, 100, -100)]
    [0.0, 1.0, 2.0, -2.0]
    """
    size = abs(ms) / LINEAR_MS
    return float(np.sign(ms) * (size if size <= 1 else 1 + np.log10(size)))


def _dots(rows: Sequence[Row], names: Sequence[str]) -> go.Scatter:
    places = [_place(row["offset_ms"]) for row in rows]
    high = [_place(row["offset_ms"] + _uncertainty(row)) for row in rows]
    low = [_place(row["offset_ms"] - _uncertainty(row)) for row in rows]
    symbols = ["diamond" if row["reference"] else "circle" for row in rows]
    # Where rows are many their words would stand on each other; the table has them.
    with_words = rows if len(rows) <= FEW_NODES else ()
    return go.Scatter(
        mode="markers+text", x=places, y=plotly_sheet.escape_names(names),
        error_x={"type": "data", "array": [h - x for h, x in zip(high, places, strict=True)],
                    "arrayminus": [x - b for b, x in zip(low, places, strict=True)],
                    "symmetric": False, "thickness": 2, "width": 5, "color": theme.HATCH},
        text=[f"  {row['anchors'] or 0} anchors" for row in with_words],
        textposition="top center", textfont={"size": 9}, cliponaxis=False,
        hovertemplate=plotly_sheet.HOVER,
        customdata=[f"{shown(name)}: {row['offset_ms']:+,} ms ± {_uncertainty(row):,} ms"
                       f"{', the reference' if row['reference'] else ''}"
                       for name, row in zip(names, rows, strict=True)],
        marker={"size": 10, "symbol": symbols, "color": "#0072B2"},
    )  # fmt: skip


def find_moved_clocks(rows: Sequence[Row]) -> list[Row]:
    """Choose the nodes whose clocks did not stay as they were, the farthest off first."""
    moved = [row for row in rows if row.get("stretches") and (row["steps"] or row["drift_ppm"])]
    return sorted(moved, key=lambda row: (-abs(row["offset_ms"] or 0), row["node"] or ""))


def draw_courses(rows: Sequence[Row], window: Span | None) -> Figure | None:
    """Draw how far each of them was off, over the time of the logs."""
    moved = find_moved_clocks(rows)[:MAX_COURSES]
    if not moved or not window:
        return None
    sheet = Sheet([(f"{shown(row['node'])}, ahead by", LINE_HEIGHT) for row in moved], window)
    for index, row in enumerate(moved, 1):
        correction = parse_correction(row)
        if correction is not None:
            trace = _line(correction, (row["zone_shift_minutes"] or 0) * MINUTE, window)
            sheet.add_trace(trace, index)
            sheet.update_yaxes(index, **_offset_axis(trace.y))
    return sheet.build((), showlegend=False)


def _line(correction: ClockCorrection, zone: int, window: Span) -> go.Scatter:
    """Put points at both ends of each segment; what lies between is straight."""

    def offset(moment: int) -> int:
        return int(correction.offsets_at(np.array([moment], np.int64))[0])

    # Segments are in time as logged; the figure is on the reference clock, on which a clock that
    # is set jumps up or down in no time.
    edges = [window[0] + offset(window[0]), *correction.starts, window[1] + offset(window[1])]
    x: list[int] = []
    y: list[int] = []
    for start, end in pairwise(edges):
        x += [start - offset(start), end - offset(end)]
        y += [offset(start) - zone, offset(max(start, end - 1)) - zone]
    x = [min(max(moment, window[0]), window[1]) for moment in x]
    hovers = [f"{time_text(at)}: {'-' if ms < 0 else '+'}{duration(abs(ms))}"
              for at, ms in zip(x, y, strict=True)]  # fmt: skip
    return go.Scatter(
        mode="lines+markers", x=x, y=y, customdata=hovers, showlegend=False,
        hovertemplate=plotly_sheet.HOVER,
        line={"width": 2, "color": "#0072B2"}, marker={"size": 5, "color": "#0072B2"},
    )  # fmt: skip


def _offset_axis(offsets: Sequence[int]) -> Figure:
    """Name the lowest and the highest offset, and zero where it lies between them."""
    low, high = min(offsets), max(offsets)
    ticks = sorted({low, high} | ({0} if low < 0 < high else set()))
    margin = max(1, (high - low) // 5)
    return {
        "tickvals": ticks, "range": [low - margin, high + margin], "fixedrange": True,
        "ticktext": [f"{'-' if ms < 0 else ''}{duration(abs(ms))}" for ms in ticks],
        "gridcolor": theme.HATCH,
    }  # fmt: skip
