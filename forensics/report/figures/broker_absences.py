"""Figure 4: when each broker came back, after how long, and how much had moved meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.formatting import count, duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import lane_intervals, plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure
from forensics.report.lane_intervals import LaneInterval
from forensics.run_output.reader import RunOutput

BROKERS = 30
# In pixels: larger dots would hide those of the next row.
LARGEST = 28
MINUTE = 60_000
# A broker that says nothing may be well: only these states say that it was away.
AWAY = frozenset({"crashed", "fenced", "paused", "stopped", "stopping"})
BACK = frozenset({"starting", "recovering"})
ASKED = frozenset({"stopping", "stopped"})


@dataclass(frozen=True)
class Return:
    """One broker that was away and came back."""

    broker: str
    number: int | None
    gone: int
    back: int
    state: str
    asked: bool
    moved: int = 0


def render(run: RunOutput) -> Markup | None:
    """Draw the returns of all brokers; None where no broker came back."""
    view, found = lane_intervals.choose_view(run), returns(run)
    if not view or not found:
        return None
    names = list(dict.fromkeys(one.broker for one in found))[:BROKERS]
    sheet = plotly_sheet.Sheet([("", 34 * len(names) + 20)], view)
    highest = max(1.0, *(_minutes(one) for one in found))
    lowest = min(0.01, *(_minutes(one) for one in found))
    for at, name in enumerate(names):
        mine = [one for one in found if one.broker == name]
        for asked in (False, True):
            some = [one for one in mine if one.asked == asked]
            if some:
                sheet.add_trace(_dots(some, len(names) - 1 - at, (lowest, highest)))
    sheet.update_yaxes(
        range=[-0.55, len(names) - 0.45], tickvals=list(range(len(names))), fixedrange=True,
        ticktext=[shown(name) for name in reversed(names)], showgrid=True,
    )  # fmt: skip
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=False)
    return figure("figure-returns", drawing, _says(found))


def _minutes(one: Return) -> float:
    return max(one.back - one.gone, 10) / MINUTE


def returns(run: RunOutput) -> list[Return]:
    """Find every absence that ended, by broker and time."""
    by_name: dict[str, list[LaneInterval]] = {}
    for lane in lane_intervals.read_lanes(run, "broker"):
        by_name.setdefault(lane.name, []).append(lane)
    found = [one for lanes in by_name.values() for one in _absences(lanes)]
    return _moves(run, found)


def _absences(lanes: Sequence[LaneInterval]) -> list[Return]:
    found, away = [], list[LaneInterval]()
    for lane, after in pairwise([*lanes, None]):
        if lane is not None and (lane.state in AWAY or (away and lane.state in BACK)):
            away.append(lane)
            if after is not None and after.state == "up":
                states = {one.state for one in away}
                worst = next((s for s in ("crashed", "paused", "fenced") if s in states), "stopped")
                asked = bool(states & ASKED) and "crashed" not in states
                found.append(Return(lane.name, lane.broker, away[0].start, after.start, worst,
                                    asked))  # fmt: skip
        if lane is not None and lane.state not in AWAY | BACK:
            away = []
    return found


def _moves(run: RunOutput, found: Sequence[Return]) -> list[Return]:
    """Count the leaderships that each broker lost when it went, and until it was back."""
    numbers = sorted({one.number for one in found if one.number is not None})
    counts = [0] * len(found)
    where = ds.field("leader").isin(numbers) & ds.field("ended_at").is_valid()
    for part in run.chunks("leadership", ["leader", "ended_at"], where) if numbers else ():
        for at, one in enumerate(found):
            ended = part.filter(pc.equal(part["leader"], one.number))["ended_at"].to_numpy()
            counts[at] += int(np.sum((ended >= one.gone - 1000) & (ended <= one.back + 1000)))
    return [
        Return(one.broker, one.number, one.gone, one.back, one.state, one.asked, moved)
        for one, moved in zip(found, counts, strict=True)
    ]


def _dots(some: Sequence[Return], row: int, bounds: tuple[float, float]) -> plotly_sheet.Figure:
    """Put dots into a row: higher is longer away, on a scale of powers of ten."""
    low, high = np.log10(bounds[0]), np.log10(bounds[1])
    heights = [(np.log10(_minutes(one)) - low) / (high - low) * 0.7 - 0.35 for one in some]
    number = some[0].number
    fill = theme.HATCH if number is None else theme.broker_colour(number)
    hollow = some[0].asked
    return {
        "type": "scatter", "mode": "markers", "cliponaxis": False, "x": [one.back for one in some],
        "y": [round(row + float(height), 3) for height in heights],
        "customdata": [_story(one) for one in some],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": "circle-open" if hollow else "circle", "opacity": 0.85,
            "color": theme.HATCH if hollow else fill,
            "size": [round(min(LARGEST, 8 + 1.6 * float(np.sqrt(one.moved))), 1) for one in some],
            "line": {"width": 2.5 if hollow else 1, "color": theme.HATCH},
        },
    }  # fmt: skip


def _story(one: Return) -> str:
    how = "shut down in order" if one.asked else one.state
    return (
        f"{shown(one.broker)} back at {time_text(one.back)} after {duration(one.back - one.gone)} "
        f"({how}); {count(one.moved, 'leadership')} lost meanwhile"
    )


def _says(found: Sequence[Return]) -> str:
    loose = [one for one in found if not one.asked]
    by_name: dict[str, list[Return]] = {}
    for one in loose:
        by_name.setdefault(one.broker, []).append(one)
    told = [
        f"{name} left and returned {count(len(mine), 'time')}"
        + (f" in {duration(mine[-1].back - mine[0].gone)}" if len(mine) > 1 else "")
        + f", away {duration(max(one.back - one.gone for one in mine))} at most; up to "
        f"{count(max(one.moved for one in mine), 'leadership')} lost each time"
        for name, mine in sorted(by_name.items(), key=lambda item: -len(item[1]))
    ]
    planned = len(found) - len(loose)
    tail = f"{count(planned, 'return')} after an ordered shutdown (rings)." if planned else ""
    more = f" and {count(len(told) - 3, 'other broker')}" if len(told) > 3 else ""
    says = f"{'; '.join(told[:3])}{more}." if told else "No broker left unasked and came back."
    return (
        f"{says[0].upper()}{says[1:]} {tail} Higher is longer away, larger is more leaderships "
        "lost: a rolling restart looks like a staircase of rings, flapping like a row of dots."
    )
