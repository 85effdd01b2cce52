"""Beside figure 7: the course of each clock that drifted or was set, as a small line.

Figure 7: how far each node's clock is off, and how sure that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from forensics.lib.formatting import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import plotly_sheet, theme
from forensics.run_output.reader import ClockCorrection, Row, parse_correction

# The worst clocks that get a line, and how high it is in pixels.
MAX_COURSES, TALL = 8, 70
MINUTE = 60_000


def find_moved_clocks(rows: Sequence[Row]) -> list[Row]:
    """Choose the nodes whose clocks did not stay as they were, the farthest off first."""
    found = [row for row in rows if row.get("stretches") and (row["steps"] or row["drift_ppm"])]
    return sorted(found, key=lambda row: (-abs(row["offset_ms"] or 0), row["node"] or ""))


def draw_courses(rows: Sequence[Row], window: tuple[int, int] | None) -> plotly_sheet.Figure | None:
    """Draw how far each of them was off, over the time of the logs."""
    chosen = find_moved_clocks(rows)[:MAX_COURSES]
    if not chosen or not window:
        return None
    sheet = plotly_sheet.Sheet(
        [(f"{shown(row['node'])}, ahead by", TALL) for row in chosen], window
    )
    for at, row in enumerate(chosen, 1):
        known = parse_correction(row)
        if known is None:
            continue
        trace = _line(known, (row["zone_shift_minutes"] or 0) * MINUTE, window)
        sheet.add_trace(trace, at)
        sheet.update_yaxes(at, **_axis(trace["y"]))
    return sheet.build((), showlegend=False)


def _line(known: ClockCorrection, zone: int, window: tuple[int, int]) -> plotly_sheet.Figure:
    """Put points at both ends of each stretch; what lies between is straight."""
    # Stretches are in time as logged; the figure is on the reference clock, on which a clock that
    # is set jumps up or down in no time.
    edges = [window[0] + _off(known, window[0]), *known.starts, window[1] + _off(known, window[1])]
    x: list[int] = []
    y: list[int] = []
    for begin, end in pairwise(edges):
        last = max(begin, end - 1)
        off, then = _off(known, begin), _off(known, last)
        x += [begin - off, end - _off(known, end)]
        y += [off - zone, then - zone]
    x = [min(max(moment, window[0]), window[1]) for moment in x]
    says = [f"{time_text(at)}: {'-' if ms < 0 else '+'}{duration(abs(ms))}"
            for at, ms in zip(x, y, strict=True)]  # fmt: skip
    return {
        "type": "scatter", "mode": "lines+markers", "x": x, "y": y, "customdata": says,
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False,
        "line": {"width": 2, "color": "#0072B2"}, "marker": {"size": 5, "color": "#0072B2"},
    }  # fmt: skip


def _off(known: ClockCorrection, moment: int) -> int:
    return int(known.offsets_at(np.array([moment], np.int64))[0])


def _axis(values: Sequence[int]) -> plotly_sheet.Figure:
    """Name the lowest and the highest offset, and zero where it lies between them."""
    low, high = min(values), max(values)
    ticks = sorted({low, high} | ({0} if low < 0 < high else set()))
    words = [f"{'-' if ms < 0 else ''}{duration(abs(ms))}" for ms in ticks]
    edge = max(1, (high - low) // 5)
    return {
        "tickvals": ticks, "ticktext": words, "range": [low - edge, high + edge],
        "fixedrange": True, "gridcolor": theme.HATCH,
    }  # fmt: skip


# Offsets are from milliseconds to years: linear within this, by powers of ten beyond.
LINEAR = 10.0
MAX_NODES, FEW = 200, 12
TICKS = (0, 10, 100, 1000, 10_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000)
WORDS = ("0", "10 ms", "100 ms", "1 s", "10 s", "1 min", "1 h", "1 day", "1 year")


def draw_offsets(rows: Sequence[Row]) -> plotly_sheet.Figure | None:
    """Draw a dot with its interval for each node whose clock could be compared."""
    known = [row for row in rows if row["offset_ms"] is not None][:MAX_NODES]
    if not known:
        return None
    names = [str(row["node"] or "node not known") for row in known]
    sheet = plotly_sheet.Sheet([("", 22 * len(known) + 10)], (0, 1))
    sheet.add_trace(_dots(known, names))
    sheet.update_yaxes(**plotly_sheet.name_axis(names))
    reach = max(LINEAR, *(abs(row["offset_ms"]) + (row["uncertainty_ms"] or 0) for row in known))
    kept = [at for at, tick in enumerate(TICKS) if tick <= reach * 3]
    places = [_place(TICKS[at]) for at in kept]
    axis = {
        "title": {"text": "ahead of the reference (right) or behind (left)", "standoff": 6},
        "range": [-_place(reach) * 1.15, _place(reach) * 1.15], "fixedrange": True,
        "tickvals": [-place for place in places[:0:-1]] + places, "zeroline": True,
        "ticktext": [f"-{WORDS[at]}" for at in kept[:0:-1]] + [WORDS[at] for at in kept],
        "type": "linear", "anchor": "y", "automargin": True, "zerolinecolor": theme.HATCH,
    }  # fmt: skip
    return sheet.build((), xaxis=axis, showlegend=False)


def _place(ms: float) -> float:
    """Put an offset on an axis that is linear near zero and logarithmic far from it.

    >>> [round(_place(ms), 2) for ms in (0, 10, 100, -100)]
    [0.0, 1.0, 2.0, -2.0]
    """
    size = abs(ms) / LINEAR
    return float(np.sign(ms) * (size if size <= 1 else 1 + np.log10(size)))


def _dots(known: Sequence[Row], names: Sequence[str]) -> plotly_sheet.Figure:
    at = [_place(row["offset_ms"]) for row in known]
    doubts = [row["uncertainty_ms"] or 0 for row in known]
    high = [_place(row["offset_ms"] + doubt) for row, doubt in zip(known, doubts, strict=True)]
    low = [_place(row["offset_ms"] - doubt) for row, doubt in zip(known, doubts, strict=True)]
    symbols = ["diamond" if row["reference"] else "circle" for row in known]
    return {
        "type": "scatter", "mode": "markers+text", "x": at, "y": plotly_sheet.escape_names(names),
        "error_x": {"type": "data", "array": [h - x for h, x in zip(high, at, strict=True)],
                    "arrayminus": [x - b for b, x in zip(low, at, strict=True)],
                    "symmetric": False, "thickness": 2, "width": 5, "color": theme.HATCH},
        # Where rows are many their words would stand on each other; the table has them.
        "text": [f"  {row['anchors'] or 0} anchors" for row in known[: FEW * (len(known) <= FEW)]],
        "textposition": "top center", "textfont": {"size": 9}, "cliponaxis": False,
        "customdata": [f"{shown(name)}: {row['offset_ms']:+,} ms ± {doubt:,} ms"
                       f"{', the reference' if row['reference'] else ''}"
                       for name, row, doubt in zip(names, known, doubts, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"size": 10, "symbol": symbols, "color": "#0072B2"},
    }  # fmt: skip
