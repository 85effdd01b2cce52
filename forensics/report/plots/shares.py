"""Beside figure 6: how soon the episodes were over, and the limits that they are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from forensics.limits import load_limits
from forensics.report import colours, figures
from forensics.report.saved import Saved
from forensics.report.words import lasting

__all__ = ["beside", "limits"]

NAME = "stale-metadata"
# What the names of limits say, in the order of their lengths.
WORDS = {"settled": "after the new leader: no longer transient", "long": "and not over: stuck"}
MIN_EPISODES = 1
TICKS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000)
LEFT, RIGHT = (0.0, 0.62), (0.72, 1.0)


def limits(saved: Saved) -> dict[str, int]:
    """Give in milliseconds what divides transient, sustained and stuck; nothing where not known.

    Packs of one's own may set limits, and only their digests are saved.
    """
    if len(saved.document.get("packs") or ()) > 1:
        return {}
    known: Mapping[str, Any] = load_limits().get(NAME) or {}
    return {name: int(known[name] * 1000) for name in WORDS if name in known}


def beside(drawing: figures.Figure, lengths: Sequence[int], known: Mapping[str, int]) -> None:
    """Make room to the right of the bars, and draw there how many were over within which time."""
    layout = drawing["layout"]
    most = max([*lengths, *known.values(), 1000]) * 1.5
    layout["xaxis"] = layout["xaxis"] | {"domain": list(LEFT)}
    layout["xaxis2"] = {
        "type": "log", "domain": list(RIGHT), "anchor": "y2", "automargin": True,
        "range": [_power(MIN_EPISODES), _power(most)], "zeroline": False, "fixedrange": True,
        "tickvals": [tick for tick in TICKS if tick <= most],
        "ticktext": [lasting(tick) for tick in TICKS if tick <= most], "tickangle": -40,
        "title": {"text": "over within", "standoff": 6},
    }  # fmt: skip
    layout["yaxis2"] = {
        "domain": [0, 1], "anchor": "x2", "range": [0, 104], "ticksuffix": " %", "nticks": 5,
        "fixedrange": True, "zeroline": False, "automargin": True,
    }  # fmt: skip
    title = dict(layout["annotations"][0])
    layout["annotations"].append(title | {"text": "Share of all episodes", "x": RIGHT[0]})
    drawing["data"] += [_curve(lengths, most), *(_line(*one) for one in known.items())]


def _power(ms: float) -> float:
    return round(math.log10(ms), 3)


def _curve(lengths: Sequence[int], most: float) -> figures.Figure:
    ordered = sorted(max(MIN_EPISODES, length) for length in lengths)
    steps = [(MIN_EPISODES, 0), *((length, at) for at, length in enumerate(ordered, 1)), (most, 0)]
    # Of equally long ones the last counts all.
    last = [one for one, after in pairwise(steps) if one[0] != after[0]]
    points = [(length, 100 * at / len(ordered)) for length, at in last]
    points.append((most, 100.0))
    return {
        "type": "scatter", "mode": "lines", "x": [at for at, _ in points], "xaxis": "x2",
        "y": [round(share, 2) for _, share in points], "yaxis": "y2", "showlegend": False,
        "line": {"shape": "hv", "width": 2.5, "color": "#0072B2"}, "name": "over within",
        "customdata": [f"{share:.0f} % over within {lasting(at)}" for at, share in points],
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _line(name: str, at: int) -> figures.Figure:
    says = f"{lasting(at)} {WORDS[name]}"
    fill = colours.VERDICT["sustained" if name == "settled" else "stuck"]
    return {
        "type": "scatter", "mode": "lines", "x": [at, at], "y": [0, 100], "xaxis": "x2",
        "yaxis": "y2", "name": says, "hoverinfo": "name", "showlegend": True,
        "line": {"width": 2, "dash": "dot" if name == "settled" else "dash", "color": fill},
    }  # fmt: skip
