"""The only file that knows Plotly: data in, figures as JSON out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from forensics.report import colours, marks
from forensics.report.escape import plotly as shown
from forensics.report.folds import Reign, Strand
from forensics.report.saved import Finding
from forensics.report.tracks import Lane
from forensics.report.words import clock, lasting
from forensics.report.zones import current, shifted

__all__ = [
    "CONFIG", "Draw", "Figure", "bar_trace", "count_axis", "flags",
    "lanes", "plotly_js", "row_names", "stacked", "swimlanes", "timeline",
]  # fmt: skip

Figure = dict[str, Any]
Draw = Callable[[go.Figure, int], None]

# No cloud, no logo, no links: the page speaks to nobody.
CONFIG: Figure = {
    "displaylogo": False,
    "modeBarButtons": [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    "plotlyServerURL": "",
    "responsive": True,
    "scrollZoom": False,
    "sendData": False,
    "showEditInChartStudio": False,
    "showLink": False,
    "showSendToCloud": False,
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": FONT, "size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 12, "t": 26, "b": 44},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.HATCH, "activecolor": "#0072B2"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "xaxis": {"automargin": True, "zeroline": False},
        "yaxis": {"automargin": True, "zeroline": False},
    }
)
BANDS = 50


def plotly_js() -> str:
    """Give the source of plotly.js as the installed package carries it."""
    return str(get_plotlyjs())


def timeline(tracks: marks.Tracks) -> Figure:
    """Draw flags, lives of nodes, replication debt and client errors on one axis."""
    rows: list[tuple[str, int, Draw]] = []
    view, lives = tracks.view, [("Active controller", tracks.controller)]
    lives += [("Brokers", tracks.brokers), ("Clients", tracks.clients)]
    if tracks.findings:
        tall = 34 + 20 * (1 + max(marks.levels(tracks)))
        rows.append(("Findings, numbered as below", tall, lambda f, row: flags(f, row, tracks)))
    for title, life in ((title, life) for title, life in lives if life):
        tall = 20 + 24 * len({lane.name for lane in life})
        rows.append((title, tall, partial(lanes, lanes=life, view=view)))
    if any(level for points in tracks.debt.values() for _, level in points):
        rows.append(("Partitions in debt", 110, lambda f, row: _debt(f, row, tracks)))
    if tracks.errors:
        width = lasting(tracks.bin_ms)
        rows.append((f"Client errors per {width}", 100, lambda f, row: _errors(f, row, tracks)))
    return stacked(rows, tracks)


def stacked(rows: Sequence[tuple[str, int, Draw]], tracks: marks.Tracks) -> Figure:
    """Put (title, height, what draws it) one under the other on one time axis."""
    heights = [height for _, height, _ in rows] or [60]
    gap = 30
    total = sum(heights) + gap * (len(heights) - 1)
    figure = make_subplots(
        rows=len(heights),
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=gap / total,
        subplot_titles=[title for title, _, _ in rows],
    )
    for row, (_, _, draw) in enumerate(rows, 1):
        draw(figure, row)
    figure.update_annotations(x=0, xanchor="left", font_size=12)
    bands = [found for found in tracks.findings if found.is_incident and found.start is not None]
    shapes = [_band(found, tracks.view[1]) for found in bands[:BANDS]]
    figure.update_layout(shapes=shapes, barmode="stack", bargap=0.15)
    return _dressed(figure, tracks.view, total + 130, last=len(heights))


def _dressed(figure: go.Figure, view: tuple[int, int], height: int, last: int = 1) -> Figure:
    figure.update_xaxes(type="date", range=list(view), showspikes=True, spikemode="across")
    figure.update_xaxes(spikethickness=1, spikedash="dot", spikecolor=colours.HATCH)
    title = f"time, {current().label} ({clock(view[0])[:10]})"
    figure.update_xaxes(title_text=title, title_standoff=6, row=last, col=1)
    figure.update_layout(
        template=TEMPLATE, height=height, uirevision="fixed", uniformtext={"minsize": 9,
        "mode": "hide"}, margin_b=96, dragmode="zoom", hovermode="closest",
    )  # fmt: skip
    plain: Figure = figure.to_plotly_json()
    return shifted({"data": plain["data"], "layout": plain["layout"], "config": CONFIG})


def _band(found: Finding, last: int) -> Figure:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "x0": found.start, "x1": found.end or last, "line": {"width": 0}, "opacity": 0.07,
        "fillcolor": colours.LEVEL.get(found.severity, colours.HATCH),
    }  # fmt: skip


def flags(figure: go.Figure, row: int, tracks: marks.Tracks) -> None:
    """Draw a numbered flag for each finding."""
    levels = marks.levels(tracks)
    for level, colour in colours.LEVEL.items():
        mine = [
            (number, found, levels[number - 1])
            for number, found in enumerate(tracks.findings, 1)
            if found.severity == level
        ]
        if mine:
            for trace in _flag_traces(mine, level, colour, tracks.view):
                figure.add_trace(trace, row=row, col=1)
    figure.update_yaxes(visible=False, range=[max(levels) + 0.6, -0.6], row=row, col=1)


def _flag_traces(
    flags: Sequence[tuple[int, Finding, int]], level: str, colour: str, view: tuple[int, int]
) -> tuple[go.Scatter, go.Scatter]:
    reaches = [marks.reach(found, view) for _, found, _ in flags]
    # A flag that begins before the view stands at its edge, where it can be seen.
    edge = view[0] + (view[1] - view[0]) // 80
    lines = go.Scatter(
        x=[moment for start, end in reaches for moment in (start, end, None)],
        y=[at for _, _, row in flags for at in (row, row, None)],
        mode="lines", line={"color": colour, "width": 5}, showlegend=False, hoverinfo="skip",
    )  # fmt: skip
    heads = go.Scatter(
        x=[max(start, min(edge, end)) for start, end in reaches], y=[row for _, _, row in flags],
        text=[str(number) for number, _, _ in flags], mode="markers+text", name=level,
        customdata=[f"{number}. {shown(found.title)} ({level})" for number, found, _ in flags],
        marker={"size": 18, "color": colour, "opacity": 1}, textposition="middle center",
        textfont={"color": "#ffffff", "size": 11}, hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )  # fmt: skip
    return lines, heads


def lanes(figure: go.Figure, row: int, lanes: Sequence[Lane], view: tuple[int, int]) -> None:
    """Draw the lives of nodes, one row a node."""
    names = list(dict.fromkeys(lane.name for lane in lanes))
    for state in sorted({lane.state for lane in lanes}):
        mine = [lane for lane in lanes if lane.state == state]
        figure.add_trace(_lane_trace(mine, view), row=row, col=1)
    figure.update_yaxes(**row_names(names), row=row, col=1)


def bar_trace(
    bars: Sequence[tuple[int, int, str, str, str]],
    view: tuple[int, int],
    fills: Sequence[str],
    shape: str = "",
    **more: object,
) -> go.Bar:
    """Draw horizontal bars of (start, end, row, word, story) with one colour each."""
    cut = [
        (piece, row, word, story, fill)
        for (start, end, row, word, story), fill in zip(bars, fills, strict=True)
        for piece in marks.pieces(start, end, view)
    ]
    return go.Bar(
        orientation="h", base=[at for (at, _), *_ in cut], x=[end - at for (at, end), *_ in cut],
        y=[row for _, row, *_ in cut], text=[word for _, _, word, _, _ in cut],
        customdata=[story for *_, story, _ in cut], textposition="inside", textangle=0,
        hovertemplate="%{customdata}<extra></extra>", insidetextanchor="start",
        textfont={"color": [colours.ink(fill) for *_, fill in cut]},
        marker={"color": [fill for *_, fill in cut], "line": {"width": 0.5, "color": colours.HATCH}}
        | _pattern(shape, fills[0]), **more,
    )  # fmt: skip


def _pattern(shape: str, fill: str) -> Figure:
    # Plotly lays a pattern over one colour only, never over a list of colours.
    look = {
        "shape": shape,
        "size": 6,
        "solidity": 0.2,
        "fgcolor": colours.HATCH,
        "fillmode": "overlay",
    }
    return {"color": fill, "pattern": look} if shape else {}


def row_names(names: Sequence[str]) -> Figure:
    """Set rows from the top, their names cut to what fits; hovering gives them whole."""
    upwards = list(reversed(names))
    return {
        "type": "category", "categoryorder": "array", "categoryarray": list(map(shown, upwards)),
        "tickmode": "array", "tickvals": list(range(len(upwards))),
        "ticktext": [shown(marks.short(name)) for name in upwards],
    }  # fmt: skip


def count_axis(most: int) -> Figure:
    """Set an axis of counts: whole numbers from zero."""
    every = {"dtick": 1} if most <= 4 else {"nticks": 4}
    return {"rangemode": "tozero", "tickformat": ",d", **every}


def _lane_trace(lanes: Sequence[Lane], view: tuple[int, int]) -> go.Bar:
    state = lanes[0].state
    plain, shape = colours.STATE.get(state, ("", ""))
    numbers = [lane.broker for lane in lanes]
    fills = [plain or (colours.HATCH if n is None else colours.broker(n)) for n in numbers]
    leads = ["node not known" if n is None else f"node {n}" for n in numbers]
    words = leads if state == "active" else [shown(state)] * len(leads)
    bars = [
        (lane.start, lane.end, shown(lane.name), word,
         f"{shown(lane.name)}: {word}, {clock(lane.start)} for {lasting(lane.end - lane.start)}")
        for lane, word in zip(lanes, words, strict=True)
    ]  # fmt: skip
    return bar_trace(bars, view, fills, shape, name=shown(state), showlegend=False)


def _debt(figure: go.Figure, row: int, tracks: marks.Tracks) -> None:
    for name in sorted(tracks.debt, reverse=True):
        points = tracks.debt[name]
        trace = go.Scatter(
            x=[moment for moment, _ in points], y=[level for _, level in points], name=name,
            mode="lines", line={"shape": "hv", "width": 2, "color": colours.DEBT[name]},
            fill="tozeroy",
            hovertemplate=f"%{{y}} {name}<extra></extra>", legendgroup="debt",
        )  # fmt: skip
        figure.add_trace(trace, row=row, col=1)
    most = max((level for points in tracks.debt.values() for _, level in points), default=0)
    figure.update_yaxes(**count_axis(most), row=row, col=1)


def _errors(figure: go.Figure, row: int, tracks: marks.Tracks) -> None:
    for verdict in sorted(tracks.errors, key=lambda name: (name not in colours.VERDICT, name)):
        bins = sorted(tracks.errors[verdict].items())
        trace = go.Bar(
            x=[moment for moment, _ in bins], y=[number for _, number in bins], offset=0,
            width=[tracks.bin_ms] * len(bins), name=f"errors: {shown(verdict)}",
            marker_color=colours.VERDICT.get(verdict, colours.HATCH), marker_line_width=0,
            hovertemplate=f"%{{y}} {shown(verdict)}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(trace, row=row, col=1)
    most = max((number for bins in tracks.errors.values() for number in bins.values()), default=0)
    figure.update_yaxes(**count_axis(most), row=row, col=1)


def swimlanes(rows: Sequence[Strand], view: tuple[int, int]) -> Figure:
    """Draw who led which partition when: one bar a leader epoch, one trace a broker."""
    figure = make_subplots(rows=1)
    reigns = [(row, reign) for row in rows for reign in row.reigns]
    leaders = {reign.leader for _, reign in reigns}
    for leader in sorted(leaders, key=lambda n: (n is None, n == -1, n or 0)):
        figure.add_trace(_reign_trace([pair for pair in reigns if pair[1].leader == leader], view))
    unclean = [pair for pair in reigns if pair[1].unclean]
    if unclean:
        figure.add_trace(_unclean_trace(unclean))
    figure.update_yaxes(**row_names([row.label for row in rows]))
    figure.update_layout(barmode="overlay", bargap=0.2, showlegend=True)
    return _dressed(figure, view, 150 + 24 * len(rows))


def _reign_trace(pairs: Sequence[tuple[Strand, Reign]], view: tuple[int, int]) -> go.Bar:
    leader = pairs[0][1].leader
    name, fill, shape = f"broker {leader}", "", ""
    if leader is None:
        name, (fill, shape) = "leader not known", colours.STATE["unknown"]
    elif leader == -1:
        name, fill, shape = "no leader", colours.DARK, "\\"
    bars = [
        (reign.start, reign.end, shown(row.label), marks.word(reign), marks.story(row, reign, name))
        for row, reign in pairs
    ]
    fills = [fill or colours.broker(leader or 0)] * len(bars)
    return bar_trace(bars, view, fills, shape, name=name)


def _unclean_trace(pairs: Sequence[tuple[Strand, Reign]]) -> go.Scatter:
    return go.Scatter(
        x=[reign.start for _, reign in pairs], y=[shown(row.label) for row, _ in pairs],
        mode="markers", name="U, red edge: unclean election", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 20, "line": {"width": 4, "color": "#c00000"}},
    )  # fmt: skip
