"""Figure 5: which node was the active controller in which epoch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from forensics.lib.formatting import count, duration, time_text
from forensics.report import lane_intervals, plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure
from forensics.report.lane_intervals import LaneInterval
from forensics.run_output.reader import RunOutput

FEWEST, MOST = 2, 1000


def render(run: RunOutput, *after: Markup) -> Markup | None:
    """Draw the epochs of controllers; None where there is but one: its line would be straight."""
    view = lane_intervals.choose_view(run)
    terms = lane_intervals.read_controller_terms(run)
    if not view or len(terms) < FEWEST:
        return None
    steps = [lane for lane in terms if lane.state == "active"][:MOST]
    sheet = plotly_sheet.Sheet([("", 220)], view)
    heights = {id(lane): lane.epoch if lane.epoch is not None else at
               for at, lane in enumerate(steps)}  # fmt: skip
    for number in dict.fromkeys(lane.broker for lane in steps):
        mine = [lane for lane in steps if lane.broker == number]
        sheet.add_trace(_line(mine, number, [heights[id(lane)] for lane in mine]))
    rivals = [lane for lane in terms if lane.state == "deposed"]
    overlaps = [(max(a.start, b.start), min(a.end, b.end), heights[id(b)])
                for a in [*steps, *rivals] for b in steps
                if a is not b and a.start < b.start < a.end]  # fmt: skip
    if overlaps:
        sheet.add_trace(_double(overlaps))
    known = any(lane.epoch is not None for lane in steps)
    axis: plotly_sheet.Figure = {
        "title": {"text": "controller epoch" if known else "in order"},
    } | _whole_numbers([*heights.values()])
    sheet.update_yaxes(fixedrange=True, **axis)
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=True)
    return figure("figure-terms", drawing, _says(steps, len(overlaps)), *after)


def _whole_numbers(heights: Sequence[int]) -> plotly_sheet.Figure:
    """Name no half of an epoch, and none twice."""
    low, high = min(heights, default=0), max(heights, default=0)
    return {
        "tickformat": "d", "dtick": max(1, -(-(high - low) // 5)), "tick0": low,
        "range": [low - 0.6, high + 0.6],
    }  # fmt: skip


def _line(
    mine: Sequence[LaneInterval], number: int | None, heights: Sequence[int]
) -> plotly_sheet.Figure:
    name = "node not known" if number is None else f"node {number}"
    fill = theme.HATCH if number is None else theme.broker_colour(number)
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "connectgaps": False,
        "x": [moment for lane in mine for moment in (lane.start, lane.end, None)],
        "y": [at for high in heights for at in (high, high, None)],
        "customdata": [story for lane in mine for story in (_story(lane), _story(lane), "")],
        "line": {"color": fill, "width": 6},
        "marker": {"size": 9, "color": fill, "symbol": "line-ns",
                   "line": {"width": 3, "color": fill}},
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _double(overlaps: Sequence[tuple[int, int, int]]) -> plotly_sheet.Figure:
    return {
        "type": "scatter", "mode": "lines", "name": "two at once", "hoverinfo": "skip",
        "x": [moment for start, end, _ in overlaps for moment in (start, end, None)],
        "y": [at for *_, high in overlaps for at in (high, high, None)],
        "line": {"color": theme.UNCLEAN, "width": 14}, "opacity": 0.45,
    }  # fmt: skip


def _story(lane: LaneInterval) -> str:
    who = "node not known" if lane.broker is None else f"node {lane.broker}"
    epoch = "epoch not known" if lane.epoch is None else f"epoch {lane.epoch}"
    return f"{who}, {epoch}<br>{time_text(lane.start)} for {duration(lane.end - lane.start)}"


def _says(steps: Sequence[LaneInterval], overlaps: int) -> str:
    changes = sum(a.broker != b.broker for a, b in pairwise(steps))
    gaps = [b.start - a.end for a, b in pairwise(steps) if b.start > a.end]
    says = [
        f"{count(len(steps), 'controller term')} seen, the active controller changed "
        f"{count(changes, 'time')}" if changes else
        f"{count(len(steps), 'controller term')} seen; the active controller did not change"
    ]  # fmt: skip
    if gaps:
        says.append(f"nobody is known to have led {count(len(gaps), 'time')} in between, "
                    f"{duration(max(gaps))} at most")  # fmt: skip
    if overlaps:
        says.append(f"{count(overlaps, 'overlap')} of two that both took themselves for it")
    return f"{'; '.join(says)}."
