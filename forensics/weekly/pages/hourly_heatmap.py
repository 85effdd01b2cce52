"""Draws the hours of one week as a heatmap: when leaders were lost, and when no log tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forensics.report import theme
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NONE, _FEW, _SOME, _MANY = "rgba(0,158,115,0.18)", "#f2c879", "#dd8452", "#a3123a"
_BLANK = "rgba(128,136,145,0.38)"
_HOURS = 24


def draw_heatmap(hours: Sequence[int | None]) -> Figure:
    """Draw a row for each day, from Monday on, and a cell for each hour."""
    rows = [hours[start : start + _HOURS] for start in range(0, len(hours), _HOURS)]
    names = list(WEEKDAYS[: len(rows)])
    common: dict[str, Any] = {
        "type": "heatmap", "x": list(range(_HOURS)), "y": names, "xgap": 1, "ygap": 1,
        "showscale": False, "zsmooth": False, "hoverongaps": False,
    }  # fmt: skip
    highest = max([1, *(number for number in hours if number is not None)])
    known = common | {
        "z": [list(row) for row in rows], "zmin": 0, "zmax": highest,
        "colorscale": [[0, _NONE], [0.001, _FEW], [0.4, _SOME], [1, _MANY]],
        "text": [[str(number) if number else "" for number in row] for row in rows],
        "texttemplate": "%{text}", "textfont": {"size": 10},
        "hovertemplate": "%{y} %{x}:00-%{x}:59 UTC: %{z} leaderships lost<extra></extra>",
    }  # fmt: skip
    blank = common | {
        "z": [[1 if number is None else None for number in row] for row in rows],
        "zmin": 0, "zmax": 1, "colorscale": [[0, _BLANK], [1, _BLANK]],
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


def legend(hours: Sequence[int | None]) -> list[tuple[str, str]]:
    """Return each colour and its meaning."""
    colours = [(_NONE, "none lost"), (_FEW, "few"), (_MANY, "most of this week")]
    return [*colours, (_BLANK, "no log tells")] if None in hours else colours
