"""Figure 7: how far each node's clock is off, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forensics.report import colours, figures
from forensics.report.escape import plotly as shown
from forensics.report.saved import Row

__all__ = ["offsets"]

# Offsets are from milliseconds to years: linear within this, by powers of ten beyond.
LINEAR = 10.0
MAX_NODES, FEW = 200, 12
TICKS = (0, 10, 100, 1000, 10_000, 60_000, 3_600_000, 86_400_000, 31_536_000_000)
WORDS = ("0", "10 ms", "100 ms", "1 s", "10 s", "1 min", "1 h", "1 day", "1 year")


def offsets(rows: Sequence[Row]) -> figures.Figure | None:
    """Draw a dot with its interval for each node whose clock could be compared."""
    known = [row for row in rows if row["offset_ms"] is not None][:MAX_NODES]
    if not known:
        return None
    names = [str(row["node"] or "node not known") for row in known]
    sheet = figures.Sheet([("", 22 * len(known) + 10)], (0, 1))
    sheet.add_trace(_dots(known, names))
    sheet.update_yaxes(**figures.row_names(names))
    reach = max(LINEAR, *(abs(row["offset_ms"]) + (row["uncertainty_ms"] or 0) for row in known))
    kept = [at for at, tick in enumerate(TICKS) if tick <= reach * 3]
    places = [_place(TICKS[at]) for at in kept]
    axis = {
        "title": {"text": "ahead of the reference (right) or behind (left)", "standoff": 6},
        "range": [-_place(reach) * 1.15, _place(reach) * 1.15], "fixedrange": True,
        "tickvals": [-place for place in places[:0:-1]] + places, "zeroline": True,
        "ticktext": [f"-{WORDS[at]}" for at in kept[:0:-1]] + [WORDS[at] for at in kept],
        "type": "linear", "anchor": "y", "automargin": True, "zerolinecolor": colours.HATCH,
    }  # fmt: skip
    return sheet.done((), xaxis=axis, showlegend=False)


def _place(ms: float) -> float:
    """Put an offset on an axis that is linear near zero and logarithmic far from it.

    >>> [round(_place(ms), 2) for ms in (0, 10, 100, -100)]
    [0.0, 1.0, 2.0, -2.0]
    """
    size = abs(ms) / LINEAR
    return float(np.sign(ms) * (size if size <= 1 else 1 + np.log10(size)))


def _dots(known: Sequence[Row], names: Sequence[str]) -> figures.Figure:
    at = [_place(row["offset_ms"]) for row in known]
    doubts = [row["uncertainty_ms"] or 0 for row in known]
    high = [_place(row["offset_ms"] + doubt) for row, doubt in zip(known, doubts, strict=True)]
    low = [_place(row["offset_ms"] - doubt) for row, doubt in zip(known, doubts, strict=True)]
    symbols = ["diamond" if row["reference"] else "circle" for row in known]
    return {
        "type": "scatter", "mode": "markers+text", "x": at, "y": figures.plain(names),
        "error_x": {"type": "data", "array": [h - x for h, x in zip(high, at, strict=True)],
                    "arrayminus": [x - b for b, x in zip(low, at, strict=True)],
                    "symmetric": False, "thickness": 2, "width": 5, "color": colours.HATCH},
        # Where rows are many their words would stand on each other; the table has them.
        "text": [f"  {row['anchors'] or 0} anchors" for row in known[: FEW * (len(known) <= FEW)]],
        "textposition": "top center", "textfont": {"size": 9}, "cliponaxis": False,
        "customdata": [f"{shown(name)}: {row['offset_ms']:+,} ms ± {doubt:,} ms"
                       f"{', the reference' if row['reference'] else ''}"
                       for name, row, doubt in zip(names, known, doubts, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"size": 10, "symbol": symbols, "color": "#0072B2"},
    }  # fmt: skip
