"""Figure 5: which node was the active controller in which epoch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from plotly import graph_objects as go

from forensics.lib.text_format import count, duration, time_text
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure
from forensics.report.lane_intervals import LaneInterval, choose_view, read_controller_terms
from forensics.report.plotly_sheet import Figure, Sheet
from forensics.run_output.reader import RunOutput

MAX_TERMS = 1000


def render(run: RunOutput, *after: Markup) -> Markup | None:
    """Draw the epochs of controllers; None where there is but one: its line would be straight."""
    view, lanes = choose_view(run), read_controller_terms(run)
    if not view or len(lanes) < 2:
        return None
    terms = [lane for lane in lanes if lane.state == "active"][:MAX_TERMS]
    heights = {id(term): term.epoch if term.epoch is not None else index
               for index, term in enumerate(terms)}  # fmt: skip
    sheet = Sheet([("", 220)], view)
    for number in dict.fromkeys(term.broker for term in terms):
        own = [term for term in terms if term.broker == number]
        sheet.add_trace(_line(own, number, [heights[id(term)] for term in own]))
    deposed = [lane for lane in lanes if lane.state == "deposed"]
    overlaps = [(max(a.start, b.start), min(a.end, b.end), heights[id(b)])
                for a in [*terms, *deposed] for b in terms
                if a is not b and a.start < b.start < a.end]  # fmt: skip
    if overlaps:
        sheet.add_trace(_overlap_line(overlaps))
    has_epochs = any(term.epoch is not None for term in terms)
    axis: Figure = {"title": {"text": "controller epoch" if has_epochs else "in order"}}
    sheet.update_yaxes(fixedrange=True, **axis, **_whole_numbers([*heights.values()]))
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=True)
    return figure("figure-terms", drawing, _caption(terms, len(overlaps)), *after)


def _whole_numbers(heights: Sequence[int]) -> Figure:
    """Name no half of an epoch, and none twice."""
    low, high = min(heights, default=0), max(heights, default=0)
    return {
        "tickformat": "d", "dtick": max(1, -(-(high - low) // 5)), "tick0": low,
        "range": [low - 0.6, high + 0.6],
    }  # fmt: skip


def _line(terms: Sequence[LaneInterval], number: int | None, heights: Sequence[int]) -> go.Scatter:
    fill = theme.HATCH if number is None else theme.broker_colour(number)
    return go.Scatter(
        mode="lines+markers", name=_node(number), connectgaps=False,
        x=[moment for term in terms for moment in (term.start, term.end, None)],
        y=[at for height in heights for at in (height, height, None)],
        hovertemplate=plotly_sheet.HOVER,
        customdata=[text for term in terms for text in (_hover(term), _hover(term), "")],
        line={"color": fill, "width": 6},
        marker={"size": 9, "color": fill, "symbol": "line-ns", "line": {"width": 3, "color": fill}},
    )  # fmt: skip


def _overlap_line(overlaps: Sequence[tuple[int, int, int]]) -> go.Scatter:
    return go.Scatter(
        mode="lines", name="two at once", hoverinfo="skip",
        x=[moment for start, end, _ in overlaps for moment in (start, end, None)],
        y=[at for *_, height in overlaps for at in (height, height, None)],
        line={"color": theme.UNCLEAN, "width": 14}, opacity=0.45,
    )  # fmt: skip


def _node(number: int | None) -> str:
    return "node not known" if number is None else f"node {number}"


def _hover(term: LaneInterval) -> str:
    epoch = "epoch not known" if term.epoch is None else f"epoch {term.epoch}"
    when = f"{time_text(term.start)} for {duration(term.end - term.start)}"
    return f"{_node(term.broker)}, {epoch}<br>{when}"


def _caption(terms: Sequence[LaneInterval], overlaps: int) -> str:
    changes = sum(a.broker != b.broker for a, b in pairwise(terms))
    gaps = [b.start - a.end for a, b in pairwise(terms) if b.start > a.end]
    parts = [f"{count(len(terms), 'controller term')} seen"]
    if changes:
        parts[0] += f", the active controller changed {count(changes, 'time')}"
    else:
        parts.append("the active controller did not change")
    if gaps:
        parts.append(f"nobody is known to have led {count(len(gaps), 'time')} in between, "
                     f"{duration(max(gaps))} at most")  # fmt: skip
    if overlaps:
        parts.append(f"{count(overlaps, 'overlap')} of two that both took themselves for it")
    return f"{'; '.join(parts)}."
