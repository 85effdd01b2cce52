"""The hours of one week as a heatmap: when leaders were lost, and when nobody could tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forensics.report import theme
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
NONE, FEW, SOME, MANY = "rgba(0,158,115,0.18)", "#f2c879", "#dd8452", "#a3123a"
BLANK = "rgba(128,136,145,0.38)"
HOURS = 24


def drawing(hours: Sequence[int | None]) -> Figure:
    """Draw a row for each day, from Monday, and a cell for each hour."""
    rows = [hours[at : at + HOURS] for at in range(0, len(hours), HOURS)]
    names = list(DAYS[: len(rows)])
    common: dict[str, Any] = {
        "type": "heatmap", "x": list(range(HOURS)), "y": names, "xgap": 1, "ygap": 1,
        "showscale": False, "zsmooth": False, "hoverongaps": False,
    }  # fmt: skip
    highest = max([1, *(many for many in hours if many is not None)])
    known = common | {
        "z": [list(row) for row in rows], "zmin": 0, "zmax": highest,
        "colorscale": [[0, NONE], [0.001, FEW], [0.4, SOME], [1, MANY]],
        "text": [[str(many) if many else "" for many in row] for row in rows],
        "texttemplate": "%{text}", "textfont": {"size": 10},
        "hovertemplate": "%{y} %{x}:00-%{x}:59 UTC: %{z} leaderships lost<extra></extra>",
    }  # fmt: skip
    blank = common | {
        "z": [[1 if many is None else None for many in row] for row in rows],
        "zmin": 0, "zmax": 1, "colorscale": [[0, BLANK], [1, BLANK]],
        "hovertemplate": "%{y} %{x}:00-%{x}:59 UTC: no log tells<extra></extra>",
    }  # fmt: skip
    return {"data": [blank, known], "layout": _layout(names), "config": CONFIG}


def _layout(names: Sequence[str]) -> Figure:
    return {
        "height": 44 + 30 * len(names) + 20, "showlegend": False, "hovermode": "closest",
        "margin": {"l": 8, "r": 8, "t": 30, "b": 40}, "dragmode": False, "uirevision": "fixed",
        "font": {"family": FONT, "size": 12}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "xaxis": {"title": {"text": "hour of the day, UTC", "standoff": 4}, "dtick": 2,
                  "fixedrange": True, "showgrid": False, "zeroline": False, "ticks": ""},
        "yaxis": {"autorange": "reversed", "fixedrange": True, "showgrid": False,
                  "type": "category", "automargin": True, "ticks": ""},
    }  # fmt: skip


def key(hours: Sequence[int | None]) -> list[tuple[str, str]]:
    """Say which colour is what."""
    found = [(NONE, "none lost"), (FEW, "few"), (MANY, "most of this week")]
    return [*found, (BLANK, "no log tells")] if None in hours else found
