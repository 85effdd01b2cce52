"""Figure 1 as plain SVG: for readers without scripts, for mail, and for a first sight.

A strip of the whole time under a figure: shows which part is seen, and moves it.

Figure 1: everything on one time axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from forensics.lib.formatting import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.lib.time_zone import current_zone
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.figures import partition_heatmap
from forensics.report.html import Child, Markup, join, tag
from forensics.report.lane_intervals import LaneInterval
from forensics.report.time_bins import Ints, Volume

# In pixels: the strip itself, and the margin below it, to which Plotly adds the strip, the words of
# the axis above it and the title below it.
HIGH, BELOW, ADDED = 34, 30, 105
# Of the height: Plotly takes a lower row for none.
LEAST = 0.0003


def add_range_slider(sheet: plotly_sheet.Sheet, volume: Volume) -> plotly_sheet.Figure:
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
        "y": [*tall.tolist(), 0], "line": {"shape": "hv", "width": 1, "color": theme.HATCH},
        "fill": "tozeroy", "hoverinfo": "skip", "showlegend": False, "name": "all of the logs",
    }, row)  # fmt: skip
    sheet.traces[-1]["xaxis"] = "x2"
    time = sheet.time_axis()
    strip = {
        "visible": True, "thickness": round(HIGH / sheet.total, 4), "borderwidth": 1,
        "bordercolor": theme.HATCH, "bgcolor": plotly_sheet.CLEAR,
    }  # fmt: skip
    whole = [int(volume.edges[0]), int(volume.edges[-1])]
    below = time | {"anchor": f"y{row}", "matches": "x", "showspikes": False, "rangeslider": strip}
    below["rangeslider"]["range"] = whole
    # Plotly puts the title where the strip ends, and leaves no room for the foot of its letters.
    below["title"] = time["title"] | {"standoff": 0, "font": {"size": 11}}
    above = {key: value for key, value in time.items() if key != "title"}
    return {
        "xaxis": above | {"showticklabels": False}, "xaxis2": below,
        "height": sheet.total + plotly_sheet.HEAD_HEIGHT + BELOW + ADDED,
        "margin": {"l": 8, "r": 12, "t": plotly_sheet.HEAD_HEIGHT, "b": BELOW},
    }  # fmt: skip


# Sizes in pixels of a page that is as wide as the text; the browser makes it fit.
SVG_WIDTH, SVG_LEFT, SVG_RIGHT, TITLE, GAP = 1100, 150, 1090, 18, 10
Draw = Callable[["_Paper"], None]


@dataclass
class _Paper:
    """What has been drawn, how far down, and which time is where."""

    view: tuple[int, int]
    y: float = 8
    parts: list[Child] = field(default_factory=list)

    def x(self, moment: float) -> float:
        """Place a moment, within the edges."""
        share = (moment - self.view[0]) / (self.view[1] - self.view[0])
        return round(SVG_LEFT + min(max(share, 0.0), 1.0) * (SVG_RIGHT - SVG_LEFT), 1)

    def box(self, start: float, end: float, y: float, high: float, fill: str) -> float:
        """Fill a stretch of time; gives how wide it is. A moment is still half a pixel wide."""
        if end < self.view[0] or start > self.view[1]:
            return 0
        left, wide = self.x(start), max(self.x(end) - self.x(start), 0.5)
        self.parts.append(tag("rect", x=f"{left}", y=f"{y:.1f}", width=f"{wide:.1f}",
                              height=f"{high:.1f}", fill=fill))  # fmt: skip
        return wide

    def hatch(self, start: float, end: float, y: float, high: int) -> None:
        """Draw slanted lines over a stretch of time."""
        left, right = round(self.x(start)), round(self.x(end)) - high
        lines = "".join(f"M{x} {round(y) + high}l{high} -{high}" for x in range(left, right, 6))
        if lines:
            self.parts.append(tag("path", d=lines, stroke=theme.HATCH, fill="none"))

    def words(self, text: str, x: float, y: float, side: str = "start", ink: str = "") -> None:
        """Write a few words."""
        self.parts.append(tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=ink or None,
                              text_anchor=None if side == "start" else side))  # fmt: skip


def draw_static_timeline(tracks: plotly_sheet.TimelineData) -> Markup:
    """Draw the rows of figure 1 without Plotly."""
    paper = _Paper(tracks.view)
    for title, draw in _rows(tracks):
        paper.words(title, SVG_LEFT, paper.y + 12)
        paper.y += TITLE
        draw(paper)
        paper.y += GAP
    _axis(paper)
    bands = _bands(paper, tracks)
    return tag(
        "svg", bands, join(paper.parts), class_="still", role="img",
        viewBox=f"0 0 {SVG_WIDTH} {round(paper.y)}", aria_label="Timeline of the incident",
    )  # fmt: skip


def _rows(tracks: plotly_sheet.TimelineData) -> Iterator[tuple[str, Draw]]:
    if tracks.findings:
        yield "Findings, numbered as below", lambda paper: _flags(paper, tracks)
    if tracks.controller:
        yield "Active controller", lambda paper: _lanes(paper, tracks.controller)
    if tracks.brokers:
        yield "Brokers", lambda paper: _lanes(paper, tracks.brokers)
    if tracks.grid is not None:
        grid = tracks.grid
        yield "Leaders of partitions, worst first", lambda paper: _leaders(paper, grid)
    if any(level for points in tracks.debt.values() for _, level in points):
        yield "Partitions in debt", lambda paper: _static_debt(paper, tracks)
    if tracks.volume is not None and tracks.volume.errors:
        yield "Client errors", lambda paper: _static_errors(paper, tracks)


def _bands(paper: _Paper, tracks: plotly_sheet.TimelineData) -> Markup:
    """Shade the windows of what was found, behind all else."""
    found = [one for one in tracks.findings if one.is_incident and one.start_ms is not None][:50]
    parts = [
        tag("rect", x=f"{paper.x(start)}", y=0,
            width=f"{max(paper.x(end) - paper.x(start), 0.5):.1f}",
            height=round(paper.y - 24), fill=theme.LEVEL.get(one.severity, theme.HATCH),
            opacity="0.07")
        for one in found
        for start, end in [plotly_sheet.finding_span(one, paper.view)]
    ]  # fmt: skip
    return tag("g", *parts)


def _flags(paper: _Paper, tracks: plotly_sheet.TimelineData) -> None:
    levels = plotly_sheet.flag_rows(tracks)
    for at in reversed(range(len(tracks.findings))):
        found, y = tracks.findings[at], paper.y + 9 + 18 * levels[at]
        start, end = plotly_sheet.finding_span(found, paper.view)
        if start > paper.view[1] or end < paper.view[0]:
            continue
        fill = theme.LEVEL.get(found.severity, theme.HATCH)
        paper.box(start, end, y - 2, 4, fill)
        paper.parts.append(tag("circle", cx=f"{paper.x(start)}", cy=f"{y:.1f}", r=8, fill=fill))
        paper.words(str(at + 1), paper.x(start), y + 4, "middle", "paper")
    paper.y += 18 * (1 + max(levels)) + 2


def _lanes(paper: _Paper, lanes: Sequence[LaneInterval]) -> None:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    high = 18 if len(names) <= 12 else 12
    for at, name in enumerate(names):
        paper.words(
            plotly_sheet.shorten_name(name), SVG_LEFT - 6, paper.y + at * high + high - 5, "end"
        )
    for lane in lanes:
        y = paper.y + names.index(lane.name) * high
        plain, shape = theme.STATE.get(lane.state, ("", ""))
        own = theme.HATCH if lane.broker is None else theme.broker_colour(lane.broker)
        wide = paper.box(lane.start, lane.end, y, high - 2, plain or own)
        if wide and shape:
            paper.hatch(lane.start, lane.end, y, high - 2)
        word = plotly_sheet.lane_label(lane)
        if wide > 7 * len(word) + 6 and high > 12:
            ink = "ink" if theme.text_colour(plain or own) == "#000000" else "paper"
            paper.words(word, max(paper.x(lane.start), SVG_LEFT) + 4, y + high - 6, ink=ink)
    paper.y += high * len(names)


def _leaders(paper: _Paper, grid: time_bins.Grid) -> None:
    rows = min(len(grid.names), 40)
    high = 12 if rows <= 20 else 6
    looks = dict(partition_heatmap.leader_colours(grid))
    for at in range(rows):
        if high == 12 or at % 3 == 0:
            paper.words(
                plotly_sheet.shorten_name(grid.names[at]),
                SVG_LEFT - 6,
                paper.y + at * high + 9,
                "end",
            )
        codes = grid.leaders[at]
        turns = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for first, last in zip(turns, turns[1:], strict=False):
            fill = looks[int(codes[first])]
            span = int(grid.edges[first]), int(grid.edges[last])
            paper.box(*span, paper.y + at * high, high - (high == 12), fill)
    paper.y += rows * high


def _static_debt(paper: _Paper, tracks: plotly_sheet.TimelineData) -> None:
    high = 60
    most = max(level for points in tracks.debt.values() for _, level in points)
    for name in reversed(theme.DEBT):
        points = tracks.debt.get(name, ())
        for (moment, level), (after, _) in zip(points, points[1:], strict=False):
            if level:
                tall = max(1, high * level / most)
                paper.box(moment, after, paper.y + high - tall, tall, theme.DEBT[name])
    paper.words(f"{most:,}", SVG_LEFT - 6, paper.y + 10, "end")
    paper.y += high


def _static_errors(paper: _Paper, tracks: plotly_sheet.TimelineData) -> None:
    if tracks.volume is None:
        return
    high, below = 50, np.zeros(len(tracks.volume.facts))
    rates = {name: counts * 1000 / np.diff(tracks.volume.edges)
             for name, counts in tracks.volume.errors.items()}  # fmt: skip
    most = float(np.sum(list(rates.values()), axis=0).max())
    for name, rate in rates.items():
        for at in np.flatnonzero(rate):
            tall = max(1.0, high * float(rate[at]) / most)
            y = paper.y + high - float(below[at]) - tall
            span = int(tracks.volume.edges[at]), int(tracks.volume.edges[at + 1])
            paper.box(*span, y, tall, theme.VERDICT.get(name, theme.HATCH))
            below[at] += tall
    paper.words(f"{most:.3g}/s", SVG_LEFT - 6, paper.y + 10, "end")
    paper.y += high


def _axis(paper: _Paper) -> None:
    start, end = paper.view
    for at in range(6):
        moment = start + (end - start) * at // 5
        side = {0: "start", 5: "end"}.get(at, "middle")
        paper.words(time_text(moment)[11:], paper.x(moment), paper.y + 10, side)
    paper.y += 26
    paper.words(f"time, {current_zone().label} ({time_text(start)[:10]})", SVG_LEFT, paper.y)
    paper.y += 8


# Many brokers get less room each: what they went through is seen all the same.
WIDE, NARROW, MANY = 24, 14, 12


def draw_timeline(tracks: plotly_sheet.TimelineData) -> plotly_sheet.Figure:
    """Draw flags, lives of nodes, leaders, replication debt, client errors and log volume."""
    rows: list[tuple[str, int, plotly_sheet.RowDrawer]] = []
    if tracks.findings:
        tall = 12 + 22 * (1 + max(plotly_sheet.flag_rows(tracks)))
        rows.append(
            ("Findings, numbered as below", tall, partial(plotly_sheet.draw_flags, tracks=tracks))
        )
    lives = [("Active controller", tracks.controller), ("Brokers", tracks.brokers)]
    for title, life in [*lives, ("Clients", tracks.clients)]:
        if life:
            draw = partial(plotly_sheet.draw_lanes, lanes=life, view=tracks.view)
            rows.append((title, _tall({lane.name for lane in life}), draw))
    if tracks.grid is not None:
        tall = min(220, 14 * len(tracks.grid.names) + 10)
        rows.append(
            (
                "Leaders of partitions, worst first; click a cell for all of them",
                tall,
                partial(_led, tracks=tracks),
            )
        )
    if any(level for points in tracks.debt.values() for _, level in points):
        rows.append(("Partitions in debt", 100, partial(_debt, tracks=tracks)))
    if tracks.volume is not None:
        if tracks.volume.errors:
            rows.append(("Client errors per second", 90, partial(_errors, tracks=tracks)))
        title = "Facts read from the logs per second; hatched: a node without logs"
        rows.append((title, 70, partial(_volume, tracks=tracks)))
    sheet = plotly_sheet.draw_rows(rows, tracks.view)
    strip = add_range_slider(sheet, tracks.volume) if tracks.volume is not None and rows else {}
    return sheet.build(tracks.findings, tracks.holes, **strip)


def timeline_legend(tracks: plotly_sheet.TimelineData) -> list[tuple[str, str]]:
    """Give the colours that no word on the figure explains."""
    found = partition_heatmap.leaders_legend(tracks.grid) if tracks.grid is not None else []
    debts = [name for name, points in tracks.debt.items() if any(level for _, level in points)]
    found += [(theme.DEBT[name], f"partitions {name}") for name in debts]
    errors = tracks.volume.errors if tracks.volume else ()
    return found + [(theme.VERDICT[name], f"errors: {name}") for name in errors]


def _tall(names: Iterable[str]) -> int:
    rows = len(list(names))
    return (WIDE if rows <= MANY else NARROW) * rows + 6


def _led(sheet: plotly_sheet.Sheet, row: int, tracks: plotly_sheet.TimelineData) -> None:
    if tracks.grid is not None:
        partition_heatmap.draw_leaders(sheet, row, tracks.grid)
        names = plotly_sheet.name_axis(tracks.grid.names, 16)
        sheet.update_yaxes(row, **names)


def _debt(sheet: plotly_sheet.Sheet, row: int, tracks: plotly_sheet.TimelineData) -> None:
    # What is worse is also less: it is drawn later, over the others.
    for name in reversed(theme.DEBT):
        points = tracks.debt.get(name, ())
        if not any(level for _, level in points):
            continue
        trace = {
            "type": "scatter", "x": [moment for moment, _ in points],
            "y": [level for _, level in points], "name": name, "mode": "lines",
            "line": {"shape": "hv", "width": 2, "color": theme.DEBT[name]}, "fill": "tozeroy",
            "hovertemplate": f"%{{y}} {name}<extra></extra>", "showlegend": False,
        }  # fmt: skip
        sheet.add_trace(trace, row)
    most = max((level for points in tracks.debt.values() for _, level in points), default=0)
    sheet.update_yaxes(row, **plotly_sheet.count_axis(most))


def _errors(sheet: plotly_sheet.Sheet, row: int, tracks: plotly_sheet.TimelineData) -> None:
    if tracks.volume is None:
        return
    highest = np.zeros(len(tracks.volume.facts))
    for verdict, counts in tracks.volume.errors.items():
        look = {"color": theme.VERDICT.get(verdict, theme.HATCH), "line": {"width": 0}}
        rate = _bars(tracks.volume, counts, shown(verdict))
        sheet.add_trace(rate | {"name": f"errors: {shown(verdict)}", "marker": look}, row)
        highest += _rate(tracks.volume, counts)
    sheet.update_yaxes(row, **_rates(highest.max()))


def _volume(sheet: plotly_sheet.Sheet, row: int, tracks: plotly_sheet.TimelineData) -> None:
    if tracks.volume is None:
        return
    rate = _bars(tracks.volume, tracks.volume.facts, "facts")
    look = {"color": theme.HATCH, "line": {"width": 0}}
    sheet.add_trace(rate | {"name": "facts", "marker": look}, row)
    high = float(max(_rate(tracks.volume, tracks.volume.facts).max(), 0.001))
    if tracks.silences:
        sheet.add_trace(_holes(tracks, high), row)
    sheet.update_yaxes(row, **_rates(high))


def _rates(high: float) -> plotly_sheet.Figure:
    return {"rangemode": "tozero", "fixedrange": True, "nticks": 4, "range": [0, high * 1.1]}


def _rate(volume: Volume, counts: Ints) -> npt.NDArray[np.float64]:
    return counts * 1000 / np.diff(volume.edges)


def _bars(volume: Volume, counts: Ints, word: str) -> plotly_sheet.Figure:
    """Draw what was counted as a rate: stretches differ in length, the area is the count."""
    some = np.flatnonzero(counts)
    start, wide = volume.edges[:-1][some], np.diff(volume.edges)[some]
    spans = zip(counts[some].tolist(), start.tolist(), wide.tolist(), strict=True)
    return {
        "type": "bar", "x": start.tolist(), "width": wide.tolist(), "offset": 0,
        "y": [round(rate, 3) for rate in _rate(volume, counts)[some].tolist()],
        "customdata": [
            f"{many:,} {word}<br>{time_text(at)} for {duration(ms)}" for many, at, ms in spans
        ],
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False,
    }  # fmt: skip


def _holes(tracks: plotly_sheet.TimelineData, high: float) -> plotly_sheet.Figure:
    """Hatch where a node should have logs and has none."""
    silent = sorted(tracks.silences, key=lambda one: one[1] - one[2])[:40]
    fill, shape = theme.STATE["unknown"]
    return {
        "type": "bar", "x": [start for _, start, _, _ in silent], "offset": 0,
        "width": [end - start for _, start, end, _ in silent], "y": [high] * len(silent),
        "customdata": [
            f"{shown(node)}: {shown(why)}<br>{time_text(start)} for {duration(end - start)}"
            for node, start, end, why in silent],
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False, "name": "no logs",
        "opacity": 0.5,
        "marker": {"color": fill, "line": {"width": 0}, "pattern": {
            "shape": shape, "size": 6, "solidity": 0.2, "fgcolor": theme.HATCH,
            "fillmode": "overlay"}},
    }  # fmt: skip
