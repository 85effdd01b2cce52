"""A strip of the whole time under a figure: shows which part is seen, and moves it."""

from __future__ import annotations

import numpy as np

from forensics.report import colours, figures
from forensics.report.volumes import Volume

__all__ = ["HIGH", "under"]

# In pixels: the strip itself, and the margin below it, to which Plotly adds the strip, the words of
# the axis above it and the title below it.
HIGH, BELOW, ADDED = 34, 30, 105
# Of the height: Plotly takes a lower row for none.
LEAST = 0.0003


def under(sheet: figures.Sheet, volume: Volume) -> figures.Figure:
    """Add a strip below the last row, and give what the layout needs for it.

    A strip shows all that its axis has, so it has an axis of its own, on which there is the volume
    of the logs and nothing else; that axis goes with the one of the rows.
    """
    row = sheet.high + 1
    rate = volume.facts * 1000 / np.diff(volume.edges)
    # Quiet hours would be flat beside one loud second.
    tall = np.sqrt(rate / max(float(rate.max()), 0.001)).round(3)
    sheet.layout[f"yaxis{row}"] = {
        "domain": [0, LEAST], "anchor": "x2", "visible": False, "fixedrange": True,
    }  # fmt: skip
    sheet.add_trace({
        "type": "scatter", "mode": "lines", "x": volume.edges.tolist(),
        "y": [*tall.tolist(), 0], "line": {"shape": "hv", "width": 1, "color": colours.HATCH},
        "fill": "tozeroy", "hoverinfo": "skip", "showlegend": False, "name": "all of the logs",
    }, row)  # fmt: skip
    sheet.traces[-1]["xaxis"] = "x2"
    time = sheet.time_axis()
    strip = {
        "visible": True, "thickness": round(HIGH / sheet.total, 4), "borderwidth": 1,
        "bordercolor": colours.HATCH, "bgcolor": figures.CLEAR,
    }  # fmt: skip
    whole = [int(volume.edges[0]), int(volume.edges[-1])]
    below = time | {"anchor": f"y{row}", "matches": "x", "showspikes": False, "rangeslider": strip}
    below["rangeslider"]["range"] = whole
    # Plotly puts the title where the strip ends, and leaves no room for the foot of its letters.
    below["title"] = time["title"] | {"standoff": 0, "font": {"size": 11}}
    above = {key: value for key, value in time.items() if key != "title"}
    return {
        "xaxis": above | {"showticklabels": False}, "xaxis2": below,
        "height": sheet.total + figures.HEAD + BELOW + ADDED,
        "margin": {"l": 8, "r": 12, "t": figures.HEAD, "b": BELOW},
    }  # fmt: skip
