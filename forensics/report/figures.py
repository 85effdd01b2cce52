"""The only file that knows Plotly: data in, figures as JSON out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from forensics.report import colours
from forensics.report.escape import plotly as shown
from forensics.report.folds import Reign, Strand
from forensics.report.saved import Finding
from forensics.report.tracks import Lane, stagger
from forensics.report.words import clock, lasting

__all__ = ["CONFIG", "Tracks", "library", "swimlanes", "timeline"]

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
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "xaxis": {"automargin": True, "zeroline": False},
        "yaxis": {"automargin": True, "zeroline": False},
    }
)
BANDS = 50
VERDICTS = {"stuck": "#D55E00", "sustained": "#E69F00", "transient": "#56B4E9", "other": "#8a929b"}
DEBT = {"no leader": "#D55E00", "under-replicated": "#56B4E9"}
DARK, HATCH = "#20242a", "#8a929b"


@dataclass(frozen=True)
class Tracks:
    """Everything that the master timeline shows on its one time axis."""

    view: tuple[int, int]
    findings: Sequence[Finding]
    controller: Sequence[Lane]
    brokers: Sequence[Lane]
    debt: Mapping[str, Sequence[tuple[int, int]]]
    errors: Mapping[str, Mapping[int, int]]
    bin_ms: int


def library() -> str:
    """Give the source of plotly.js as the installed package carries it."""
    return str(get_plotlyjs())


def timeline(tracks: Tracks) -> Figure:
    """Draw flags, controller, brokers, replication debt and client errors on one axis."""
    rows: list[tuple[str, int, Draw]] = []
    if tracks.findings:
        tall = 34 + 20 * (1 + max(_levels(tracks)))
        rows.append(("Findings, numbered as below", tall, lambda f, row: _flags(f, row, tracks)))
    if tracks.controller:
        rows.append(("Active controller", 44, lambda f, row: _lanes(f, row, tracks.controller)))
    if tracks.brokers:
        tall = 20 + 24 * len({lane.name for lane in tracks.brokers})
        rows.append(("Brokers", tall, lambda f, row: _lanes(f, row, tracks.brokers)))
    if tracks.debt:
        rows.append(("Partitions in debt", 110, lambda f, row: _debt(f, row, tracks)))
    if tracks.errors:
        width = lasting(tracks.bin_ms)
        rows.append((f"Client errors per {width}", 100, lambda f, row: _errors(f, row, tracks)))
    return _stacked(rows, tracks)


def _stacked(rows: Sequence[tuple[str, int, Draw]], tracks: Tracks) -> Figure:
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
    figure.update_xaxes(spikethickness=1, spikedash="dot", spikecolor=HATCH)
    day = clock(view[0])[:10]
    figure.update_xaxes(title_text=f"time, UTC ({day})", title_standoff=6, row=last, col=1)
    figure.update_layout(
        template=TEMPLATE, height=height, uirevision="fixed", uniformtext={"minsize": 9,
        "mode": "hide"}, margin_b=96, dragmode="zoom", hovermode="closest",
    )  # fmt: skip
    plain: Figure = figure.to_plotly_json()
    return {"data": plain["data"], "layout": plain["layout"], "config": CONFIG}


def _band(found: Finding, last: int) -> Figure:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "x0": found.start, "x1": found.end or last, "line": {"width": 0}, "opacity": 0.07,
        "fillcolor": colours.LEVEL.get(found.severity, HATCH),
    }  # fmt: skip


def _reach(found: Finding, view: tuple[int, int]) -> tuple[int, int]:
    start = view[0] if found.start is None else found.start
    return start, max(start, view[1] if found.end is None else found.end)


def _levels(tracks: Tracks) -> list[int]:
    apart = (tracks.view[1] - tracks.view[0]) // 40
    spans = [_reach(found, tracks.view) for found in tracks.findings]
    order = sorted(range(len(spans)), key=lambda at: (spans[at], at))
    rows = dict(zip(order, stagger([spans[at] for at in order], apart), strict=True))
    return [rows[at] for at in range(len(spans))]


def _flags(figure: go.Figure, row: int, tracks: Tracks) -> None:
    levels = _levels(tracks)
    for level, colour in colours.LEVEL.items():
        flags = [
            (number, found, levels[number - 1])
            for number, found in enumerate(tracks.findings, 1)
            if found.severity == level
        ]
        if flags:
            figure.add_trace(_flag_trace(flags, level, colour, tracks.view), row=row, col=1)
    figure.update_yaxes(visible=False, range=[max(levels) + 0.6, -0.6], row=row, col=1)


def _flag_trace(
    flags: Sequence[tuple[int, Finding, int]], level: str, colour: str, view: tuple[int, int]
) -> go.Scatter:
    x, y, text, hover = [], [], [], []
    for number, found, at in flags:
        start, end = _reach(found, view)
        x += [start, end, None]
        y += [at, at, None]
        text += [str(number), "", ""]
        hover += [f"{number}. {shown(found.title)} ({shown(found.severity)})", None, None]
    return go.Scatter(
        x=x, y=y, text=text, customdata=hover, mode="lines+markers+text", name=level,
        line={"color": colour, "width": 5}, textposition="middle center", showlegend=False,
        marker={"size": [18 if mark else 0 for mark in text], "color": colour, "opacity": 1},
        textfont={"color": "#ffffff", "size": 11}, hovertemplate="%{customdata}<extra></extra>",
    )  # fmt: skip


def _lanes(figure: go.Figure, row: int, lanes: Sequence[Lane]) -> None:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    for state in sorted({lane.state for lane in lanes}):
        figure.add_trace(_lane_trace(lanes, state), row=row, col=1)
    labels = [shown(name) for name in reversed(names)]
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=labels, row=row, col=1
    )


def _lane_trace(lanes: Sequence[Lane], state: str) -> go.Bar:
    some = [lane for lane in lanes if lane.state == state]
    plain, shape = colours.STATE.get(state, ("", ""))
    led = state == "active"
    fills = [plain or (HATCH if n is None else colours.broker(n)) for n in _brokers(some)]
    words = [f"broker {lane.broker}" if led else state for lane in some]
    return go.Bar(
        orientation="h", name=shown(state), showlegend=False,
        base=[lane.start for lane in some], x=[lane.end - lane.start for lane in some],
        y=[shown(lane.name) for lane in some], text=[shown(word) for word in words],
        customdata=[
            f"{shown(lane.name)}: {shown(word)}, {clock(lane.start)} for "
            f"{lasting(lane.end - lane.start)}"
            for lane, word in zip(some, words, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>", textposition="inside",
        insidetextanchor="start", textangle=0,
        textfont={"color": [colours.ink(fill) for fill in fills]},
        marker={"color": fills, "line": {"width": 0},
                "pattern": {"shape": shape, "size": 6, "solidity": 0.25, "fgcolor": HATCH}},
    )  # fmt: skip


def _brokers(lanes: Sequence[Lane]) -> list[int | None]:
    return [lane.broker for lane in lanes]


def _debt(figure: go.Figure, row: int, tracks: Tracks) -> None:
    for name in sorted(tracks.debt, reverse=True):
        points = tracks.debt[name]
        trace = go.Scatter(
            x=[moment for moment, _ in points], y=[level for _, level in points], name=name,
            mode="lines", line={"shape": "hv", "width": 2, "color": DEBT[name]}, fill="tozeroy",
            hovertemplate=f"%{{y}} {name}<extra></extra>", legendgroup="debt",
        )  # fmt: skip
        figure.add_trace(trace, row=row, col=1)
    figure.update_yaxes(rangemode="tozero", nticks=4, tickformat=",d", row=row, col=1)


def _errors(figure: go.Figure, row: int, tracks: Tracks) -> None:
    for verdict in sorted(tracks.errors, key=lambda name: (name not in VERDICTS, name)):
        bins = sorted(tracks.errors[verdict].items())
        trace = go.Bar(
            x=[moment for moment, _ in bins], y=[number for _, number in bins], offset=0,
            width=[tracks.bin_ms] * len(bins), name=f"errors: {shown(verdict)}",
            marker_color=VERDICTS.get(verdict, HATCH), marker_line_width=0,
            hovertemplate=f"%{{y}} {shown(verdict)}<extra></extra>",
        )  # fmt: skip
        figure.add_trace(trace, row=row, col=1)
    figure.update_yaxes(rangemode="tozero", nticks=4, tickformat=",d", row=row, col=1)


def swimlanes(rows: Sequence[Strand], view: tuple[int, int]) -> Figure:
    """Draw who led which partition when: one bar a leader epoch, one trace a broker."""
    figure = make_subplots(rows=1)
    reigns = [(row, reign) for row in rows for reign in row.reigns]
    leaders = {reign.leader for _, reign in reigns}
    for leader in sorted(leaders, key=lambda n: (n is None, n == -1, n or 0)):
        figure.add_trace(_reign_trace([pair for pair in reigns if pair[1].leader == leader]))
    unclean = [pair for pair in reigns if pair[1].unclean]
    if unclean:
        figure.add_trace(_unclean_trace(unclean))
    labels = [shown(row.label) for row in reversed(rows)]
    figure.update_yaxes(type="category", categoryorder="array", categoryarray=labels, dtick=1)
    figure.update_layout(barmode="overlay", bargap=0.2, showlegend=True)
    return _dressed(figure, view, 150 + 24 * len(rows))


def _reign_trace(pairs: Sequence[tuple[Strand, Reign]]) -> go.Bar:
    leader = pairs[0][1].leader
    name, fill, shape = f"broker {leader}", "", ""
    if leader is None:
        name, (fill, shape) = "leader not known", colours.STATE["unknown"]
    elif leader == -1:
        name, fill, shape = "no leader", DARK, "\\"
    fill = fill or colours.broker(leader or 0)
    return go.Bar(
        orientation="h", name=name, base=[reign.start for _, reign in pairs],
        x=[reign.end - reign.start for _, reign in pairs],
        y=[shown(row.label) for row, _ in pairs], text=[_epoch(reign) for _, reign in pairs],
        customdata=[_story(row, reign, name) for row, reign in pairs],
        hovertemplate="%{customdata}<extra></extra>", textposition="inside", textangle=0,
        insidetextanchor="middle", textfont={"color": colours.ink(fill)},
        marker={"color": fill, "line": {"width": 1, "color": "rgba(255,255,255,0.6)"},
                "pattern": {"shape": shape, "size": 6, "solidity": 0.25, "fgcolor": HATCH}},
    )  # fmt: skip


def _unclean_trace(pairs: Sequence[tuple[Strand, Reign]]) -> go.Scatter:
    return go.Scatter(
        x=[reign.start for _, reign in pairs], y=[shown(row.label) for row, _ in pairs],
        mode="markers+text", text=["<b>U</b>"] * len(pairs), name="U: unclean election",
        textposition="middle right", textfont={"color": "#c00000", "size": 13}, hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 20, "line": {"width": 4, "color": "#c00000"}},
    )  # fmt: skip


def _epoch(reign: Reign) -> str:
    first, last = reign.epochs
    if first < 0:
        return ""
    return str(first) if first == last else f"{first}..{last}"


def _story(row: Strand, reign: Reign, name: str) -> str:
    kind = f"{shown(reign.election)}{', inferred' if reign.inferred else ''}"
    when = f"{clock(reign.start, exact=True)} for {lasting(reign.end - reign.start)}"
    return f"{shown(row.label)}: {name}, epoch {_epoch(reign) or 'not known'} ({kind})<br>{when}"
