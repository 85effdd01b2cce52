"""Figure 1, everything on one time axis: for Plotly with a range slider, and as plain SVG.

The SVG is for readers without scripts, for mail, and for a first sight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
from plotly import graph_objects as go

from forensics.lib.text_format import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.lib.time_zone import current_zone
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.figures import partition_heatmap
from forensics.report.html import Child, Markup, join, tag
from forensics.report.lane_intervals import LaneInterval
from forensics.report.plotly_sheet import (
    SHORTEST_BAR,
    Figure,
    Sheet,
    TimelineData,
    finding_span,
    shorten_name,
)
from forensics.report.time_bins import Ints, Volume

# In pixels: the range slider itself, and the margin below it, to which Plotly adds the slider, the
# words of the axis above it and the title below it.
SLIDER_HEIGHT, SLIDER_MARGIN, SLIDER_FOOT = 34, 28, 76
# Of the height: Plotly takes a lower row for none.
MIN_DOMAIN = 0.0003
# Many brokers get less room each: what they went through is seen all the same.
WIDE_LANE, NARROW_LANE, MANY_LANES = 20, 13, 12
MAX_SILENCES = 40
# Sizes in pixels of an SVG as wide as the text; the browser makes it fit.
SVG_WIDTH, SVG_LEFT, SVG_RIGHT, TITLE, GAP = 1100, 164, 1090, 18, 10
MAX_SVG_BANDS, MAX_SVG_LEADERS = 50, 40
# A group of partitions is named by one of them and how many more there are.
MORE = re.compile(r" \+\d+$")
# Colour, colour of its hatching, words; in place of a colour a letter that stands in bars.
LegendItem = tuple[str, str, str]
# The class of letters by their colour.
LETTERS = {"#000000": "ink", "#ffffff": "paper", "var(--ground)": "ground", "var(--text)": ""}


def draw_timeline(data: TimelineData) -> Figure:
    """Draw flags, lanes of nodes, leaders, replication debt, client errors and log volume."""
    rows: list[tuple[str, int, plotly_sheet.RowDrawer]] = []
    for title, lane in lane_rows(data):
        names = len({interval.name for interval in lane})
        height = (WIDE_LANE if names <= MANY_LANES else NARROW_LANE) * names + 6
        draw_lanes = partial(plotly_sheet.draw_lanes, lanes=lane)
        rows.append((title, height, draw_lanes))
    if data.findings:
        height = 12 + 26 * (1 + max(plotly_sheet.flag_rows(data)))
        draw_flags = partial(plotly_sheet.draw_flags, data=data)
        rows.append(("Findings, numbered as below", height, draw_flags))
    if data.grid is not None:
        title = "Leaders of partitions, worst first; click a cell for all of them"
        height = min(80 if data.partitions else 150, 14 * len(data.grid.names) + 10)
        rows.append((title, height, partial(_draw_leaders, grid=data.grid)))
    if _has_debt(data):
        rows.append(("Unhealthy partitions", 56, partial(_draw_debt, data=data)))
    if data.volume is not None:
        if data.volume.errors:
            draw_errors = partial(_draw_errors, volume=data.volume)
            rows.append(("Client errors per second", 50, draw_errors))
        if data.silences:
            title = "Log events per second; hatched: a node without logs"
            draw_volume = partial(_draw_volume, volume=data.volume, silences=data.silences)
            rows.append((title, 40, draw_volume))
    sheet = plotly_sheet.draw_rows(rows, data.view, axis_on_top=True)
    slider = add_range_slider(sheet, data.volume) if data.volume is not None and rows else {}
    # Lanes are hatched where a node has no logs: the only band is the incident.
    return sheet.build(data.findings, **slider)


def lane_rows(data: TimelineData) -> Iterator[tuple[str, Sequence[LaneInterval]]]:
    """Yield the rows of lanes that have something to show, in their order."""
    partitions = "Partitions that were unavailable"
    if any(MORE.search(lane.name) for lane in data.partitions):
        partitions += " (+1: one more with the same history)"
    lanes = (
        ("Brokers", data.brokers),
        (partitions, data.partitions),
        (data.clients_title, data.clients),
        ("Active controller", data.controller),
    )
    yield from ((title, lane) for title, lane in lanes if lane)


def state_legend(data: TimelineData) -> list[LegendItem]:
    """Return colour, colour of the hatching and words of each look that the lanes have.

    Behind them stands the shade of the incident.
    """
    start, end = data.view
    every = [
        lane
        for _, lanes in lane_rows(data)
        for lane in lanes
        if lane.start <= end and lane.end >= start
    ]
    words = {lane.state: lane.words for lane in every if lane.words in theme.STATE_MEANINGS}
    states = {lane.state for lane in every}
    doing = "up or leading" if data.partitions else "up"
    brokers = {lane.broker for lane in every if lane.state in ("up", "leader", "unclean leader")}
    numbers = sorted(number for number in brokers if number is not None)
    coloured = [one for one in numbers if theme.broker_colour(one) not in theme.GREYS]
    legend = [(theme.broker_colour(one), "", f"broker {one} ({doing})") for one in coloured[:1]]
    legend += [(theme.broker_colour(one), "", f"broker {one}") for one in coloured[1:]]
    if len(coloured) < len(numbers):
        legend.append((theme.GREYS[0], "", "other brokers"))
    if "unclean leader" in states:
        legend.append(("U", "", "leader that was not in sync (unclean election)"))
    for state, (fill, pattern) in theme.STATE.items():
        if state in states and fill:
            name = words.get(state, state)
            meaning = theme.STATE_MEANINGS.get(name, theme.state_words(name))
            lines, said = theme.OVERLAYS.get(state, (theme.HATCH if pattern else "", meaning))
            legend.append((fill, lines, said))
    if plotly_sheet.incident_bands(data.findings, data.view[1]):
        shade = "color-mix(in srgb, var(--critical) 12%, transparent)"
        legend.append((shade, "", "incident"))
    return legend


def timeline_legend(data: TimelineData) -> list[tuple[str, str]]:
    """Return the colours of the rows below the lanes, with what they stand for."""
    legend = partition_heatmap.leaders_legend(data.grid) if data.grid is not None else []
    debts = [name for name, points in data.debt.items() if any(level for _, level in points)]
    legend += [(theme.DEBT[name], f"partitions {name}") for name in debts]
    errors = data.volume.errors if data.volume else ()
    return legend + [(theme.VERDICT[name], f"errors: {name}") for name in errors]


def _has_debt(data: TimelineData) -> bool:
    return any(level for points in data.debt.values() for _, level in points)


def _draw_leaders(sheet: Sheet, row: int, grid: time_bins.Grid) -> None:
    partition_heatmap.draw_leaders(sheet, row, grid)
    # So many names fit into the height of the row.
    sheet.update_yaxes(row, **plotly_sheet.name_axis(grid.names, 5))


def _draw_debt(sheet: Sheet, row: int, data: TimelineData) -> None:
    # What is worse is also less: it is drawn later, over the others.
    for name in reversed(theme.DEBT):
        points = data.debt.get(name, ())
        if any(level for _, level in points):
            trace = go.Scatter(
                x=[moment for moment, _ in points], y=[level for _, level in points], name=name,
                line={"shape": "hv", "width": 2, "color": theme.DEBT[name]}, mode="lines",
                fill="tozeroy", hovertemplate=f"%{{y}} {name}<extra></extra>", showlegend=False,
            )  # fmt: skip
            sheet.add_trace(trace, row)
    highest = max((level for points in data.debt.values() for _, level in points), default=0)
    sheet.update_yaxes(row, **plotly_sheet.count_axis(highest))


def _draw_errors(sheet: Sheet, row: int, volume: Volume) -> None:
    for verdict, counts in volume.errors.items():
        bars = _rate_bars(volume, counts, shown(verdict))
        bars.update(name=f"errors: {shown(verdict)}",
                    marker_color=theme.VERDICT.get(verdict, theme.HATCH))  # fmt: skip
        sheet.add_trace(bars, row)
    highest = np.sum([_rates(volume, counts) for counts in volume.errors.values()], axis=0).max()
    sheet.update_yaxes(row, **_rate_axis(highest))


def _draw_volume(
    sheet: Sheet, row: int, volume: Volume, silences: Sequence[tuple[str, int, int, str]]
) -> None:
    bars = _rate_bars(volume, volume.facts, "facts")
    bars.update(name="facts", marker_color=theme.HATCH)
    sheet.add_trace(bars, row)
    highest = float(max(_rates(volume, volume.facts).max(), 0.001))
    if silences:
        sheet.add_trace(_silence_bars(silences, highest), row)
    sheet.update_yaxes(row, **_rate_axis(highest))


def _rate_axis(highest: float) -> Figure:
    return {"rangemode": "tozero", "fixedrange": True, "nticks": 4, "range": [0, highest * 1.1]}


def _rates(volume: Volume, counts: Ints) -> npt.NDArray[np.float64]:
    """Return counts per second: bins differ in length."""
    return counts * 1000 / np.diff(volume.edges)


def _rate_bars(volume: Volume, counts: Ints, word: str) -> go.Bar:
    """Draw counts as rates, so that the area of a bar is its count."""
    some = np.flatnonzero(counts)
    starts, widths = volume.edges[:-1][some], np.diff(volume.edges)[some]
    bars = zip(counts[some].tolist(), starts.tolist(), widths.tolist(), strict=True)
    return go.Bar(
        x=starts.tolist(), width=widths.tolist(), offset=0, marker_line_width=0,
        y=[round(rate, 3) for rate in _rates(volume, counts)[some].tolist()],
        customdata=[f"{number:,} {word}<br>{time_text(start)} for {duration(width)}"
                    for number, start, width in bars],
        showlegend=False,
    )  # fmt: skip


def _silence_bars(silences: Sequence[tuple[str, int, int, str]], height: float) -> go.Bar:
    """Hatch where a node should have logs and has none."""
    longest = sorted(silences, key=lambda silence: silence[1] - silence[2])[:MAX_SILENCES]
    fill, pattern = theme.STATE["unknown"]
    return go.Bar(
        x=[start for _, start, _, _ in longest], offset=0,
        width=[end - start for _, start, end, _ in longest], y=[height] * len(longest),
        customdata=[
            f"{shown(node)}: {shown(why)}<br>{time_text(start)} for {duration(end - start)}"
            for node, start, end, why in longest
        ],
        showlegend=False, name="no logs", opacity=0.5,
        marker={"color": fill, "line": {"width": 0}, "pattern": {
            "shape": pattern, "size": 6, "solidity": 0.2, "fgcolor": theme.HATCH,
            "fillmode": "overlay"}},
    )  # fmt: skip


def add_range_slider(sheet: Sheet, volume: Volume) -> Figure:
    """Add a range slider below the last row, and return what the layout needs for it.

    A slider shows all that its axis has, so it has an axis of its own, on which there is the volume
    of the logs and nothing else; that axis goes with the one of the rows.
    """
    row = sheet.row_count + 1
    rates = _rates(volume, volume.facts)
    # Quiet hours would be flat beside one loud second.
    heights = np.sqrt(rates / max(float(rates.max()), 0.001)).round(3)
    sheet.update_yaxes(row, domain=[0, MIN_DOMAIN], anchor="x2", visible=False, fixedrange=True)
    sheet.traces.append(go.Scatter(
        mode="lines", x=volume.edges.tolist(), y=[*heights.tolist(), 0], xaxis="x2",
        yaxis=f"y{row}", line={"shape": "hv", "width": 1, "color": theme.HATCH}, fill="tozeroy",
        hoverinfo="skip", showlegend=False, name="all of the logs",
    ))  # fmt: skip
    axis = sheet.time_axis()
    slider = {
        "visible": True, "thickness": round(SLIDER_HEIGHT / sheet.height, 4), "borderwidth": 1,
        "bordercolor": theme.HATCH, "bgcolor": plotly_sheet.CLEAR,
        "range": [int(volume.edges[0]), int(volume.edges[-1])],
    }  # fmt: skip
    # Plotly puts the title where the slider ends, and leaves no room for the foot of its letters.
    below = axis | {
        "anchor": f"y{row}", "matches": "x", "showspikes": False, "rangeslider": slider,
        "side": "bottom", "showticklabels": False, "ticks": "",
        "title": axis["title"] | {"standoff": 0, "font": {"size": 11}},
    }  # fmt: skip
    above = {key: value for key, value in axis.items() if key != "title"}
    return {
        "xaxis": above, "xaxis2": below,
        "height": sheet.height + plotly_sheet.TOP_AXIS + SLIDER_MARGIN + SLIDER_FOOT,
        "margin": {"l": 8, "r": 12, "t": plotly_sheet.TOP_AXIS, "b": SLIDER_MARGIN},
    }  # fmt: skip


@dataclass
class _Canvas:
    """What has been drawn as SVG, how far down, and which time is where."""

    view: tuple[int, int]
    y: float = 8
    parts: list[Child] = field(default_factory=list)

    def x(self, moment: float) -> float:
        """Place a moment, within the edges."""
        share = (moment - self.view[0]) / (self.view[1] - self.view[0])
        return round(SVG_LEFT + min(max(share, 0.0), 1.0) * (SVG_RIGHT - SVG_LEFT), 1)

    def box(self, start: float, end: float, y: float, height: float, fill: str) -> float:
        """Fill a span of time and return its width; a moment is still half a pixel wide."""
        if end < self.view[0] or start > self.view[1]:
            return 0
        left, width = self.x(start), max(self.x(end) - self.x(start), 0.5)
        self.parts.append(tag("rect", x=f"{left}", y=f"{y:.1f}", width=f"{width:.1f}",
                              height=f"{height:.1f}", fill=fill))  # fmt: skip
        return width

    def hatch(
        self, start: float, end: float, y: float, height: int, colour: str = theme.HATCH
    ) -> None:
        """Draw slanted lines over a span of time."""
        left, right = round(self.x(start)), round(self.x(end)) - height
        bottom = round(y) + height
        lines = "".join(f"M{x} {bottom}l{height} -{height}" for x in range(left, right, 6))
        if lines:
            wide = None if colour == theme.HATCH else "2.5"
            self.parts.append(tag("path", d=lines, stroke=colour, fill="none", stroke_width=wide))

    def text(self, text: str, x: float, y: float, side: str = "start", class_: str = "") -> None:
        """Write a few words."""
        self.parts.append(tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=class_ or None,
                              text_anchor=None if side == "start" else side))  # fmt: skip

    def label(self, text: str, y: float) -> None:
        """Write to the left of a row."""
        self.text(text, SVG_LEFT - 6, y, "end")


def draw_static_timeline(data: TimelineData) -> Markup:
    """Draw the rows of figure 1 without Plotly."""
    canvas = _Canvas(data.view)
    _svg_axis(canvas)
    for title, draw in _svg_rows(data):
        canvas.text(title, SVG_LEFT, canvas.y + 12)
        canvas.y += TITLE
        draw(canvas)
        canvas.y += GAP
    return tag(
        "svg", _svg_bands(canvas, data), join(canvas.parts), class_="still", role="img",
        viewBox=f"0 0 {SVG_WIDTH} {round(canvas.y)}", aria_label="Timeline of the incident",
    )  # fmt: skip


def _svg_rows(data: TimelineData) -> Iterator[tuple[str, Callable[[_Canvas], None]]]:
    for title, lanes in lane_rows(data):
        yield title, partial(_svg_lanes, lanes=lanes)
    if data.findings:
        yield "Findings, numbered as below", partial(_svg_flags, data=data)
    if data.grid is not None:
        yield "Leaders of partitions, worst first", partial(_svg_leaders, grid=data.grid)
    if _has_debt(data):
        yield "Unhealthy partitions", partial(_svg_debt, data=data)
    if data.volume is not None and data.volume.errors:
        yield "Client errors", partial(_svg_errors, volume=data.volume)


def _svg_bands(canvas: _Canvas, data: TimelineData) -> Markup:
    """Shade the times of findings, behind all else."""
    bands = []
    for span in plotly_sheet.incident_bands(data.findings, canvas.view[1])[:MAX_SVG_BANDS]:
        left, right = map(canvas.x, span)
        bands.append(tag(
            "rect", x=f"{left}", y=0, width=f"{max(right - left, 0.5):.1f}",
            height=round(canvas.y), fill=theme.LEVEL["critical"], opacity="0.08",
        ))  # fmt: skip
    return tag("g", *bands)


def _svg_flags(canvas: _Canvas, data: TimelineData) -> None:
    rows = plotly_sheet.flag_rows(data)
    for index in reversed(range(len(data.findings))):
        finding, y = data.findings[index], canvas.y + 9 + 18 * rows[index]
        start, end = finding_span(finding, canvas.view)
        if start > canvas.view[1] or end < canvas.view[0]:
            continue
        fill = theme.LEVEL.get(finding.severity, theme.HATCH)
        canvas.box(start, end, y - 2, 4, fill)
        canvas.parts.append(tag("circle", cx=f"{canvas.x(start)}", cy=f"{y:.1f}", r=8, fill=fill))
        canvas.text(str(index + 1), canvas.x(start), y + 4, "middle", "ground")
    canvas.y += 18 * (1 + max(rows)) + 2


def _svg_lanes(canvas: _Canvas, lanes: Sequence[LaneInterval]) -> None:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    height = 18 if len(names) <= MANY_LANES else 12
    for row, name in enumerate(names):
        canvas.label(shorten_name(name), canvas.y + row * height + height - 5)
    spans = plotly_sheet.shown_spans(lanes, (canvas.view[1] - canvas.view[0]) // SHORTEST_BAR)
    for lane in sorted(
        lanes, key=lambda one: (one.state in theme.OVERLAYS, one.state not in theme.LASTING)
    ):
        y = canvas.y + names.index(lane.name) * height
        fill, pattern = theme.STATE.get(lane.state, ("", ""))
        if lane.state in theme.OVERLAYS:
            canvas.hatch(lane.start, lane.end, y, height - 2, theme.OVERLAYS[lane.state][0])
            continue
        fill = fill or (theme.HATCH if lane.broker is None else theme.broker_colour(lane.broker))
        start, end = spans[lane]
        width = canvas.box(start, end, y, height - 2, fill)
        if width and pattern:
            canvas.hatch(lane.start, lane.end, y, height - 2)
        label = plotly_sheet.lane_label(lane)
        if width > 7 * len(label) + 6 and height > 12:
            class_ = LETTERS[theme.text_colour(fill)]
            x = max(canvas.x(start), SVG_LEFT) + 4
            canvas.text(label, x, y + height - 6, class_=class_)
    canvas.y += height * len(names)


def _svg_leaders(canvas: _Canvas, grid: time_bins.Grid) -> None:
    rows = min(len(grid.names), MAX_SVG_LEADERS)
    height = 12 if rows <= 20 else 6
    colours = partition_heatmap.leader_colours(grid)
    for row in range(rows):
        y = canvas.y + row * height
        if height == 12 or row % 3 == 0:
            canvas.label(shorten_name(grid.names[row]), y + 9)
        codes = grid.leaders[row]
        edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for first, last in zip(edges, edges[1:], strict=False):
            start, end = int(grid.edges[first]), int(grid.edges[last])
            canvas.box(start, end, y, height - (height == 12), colours[int(codes[first])])
    canvas.y += rows * height


def _svg_debt(canvas: _Canvas, data: TimelineData) -> None:
    height = 60
    highest = max(1, *(level for points in data.debt.values() for _, level in points))
    for name in reversed(theme.DEBT):
        points = data.debt.get(name, ())
        for (start, level), (end, _) in zip(points, points[1:], strict=False):
            if level:
                bar = max(1, height * level / highest)
                canvas.box(start, end, canvas.y + height - bar, bar, theme.DEBT[name])
    canvas.label(f"{highest:,}", canvas.y + 10)
    canvas.y += height


def _svg_errors(canvas: _Canvas, volume: Volume) -> None:
    height, below = 50, np.zeros(len(volume.facts))
    rates = {name: _rates(volume, counts) for name, counts in volume.errors.items()}
    highest = float(np.sum(list(rates.values()), axis=0).max())
    for name, rate in rates.items():
        for index in np.flatnonzero(rate):
            bar = max(1.0, height * float(rate[index]) / highest)
            y = canvas.y + height - float(below[index]) - bar
            start, end = int(volume.edges[index]), int(volume.edges[index + 1])
            canvas.box(start, end, y, bar, theme.VERDICT.get(name, theme.HATCH))
            below[index] += bar
    canvas.label(f"{highest:.3g}/s", canvas.y + 10)
    canvas.y += height


def _svg_axis(canvas: _Canvas) -> None:
    start, end = canvas.view
    for tick in range(6):
        moment = start + (end - start) * tick // 5
        side = {0: "start", 5: "end"}.get(tick, "middle")
        canvas.text(time_text(moment)[11:], canvas.x(moment), canvas.y + 10, side)
    canvas.label(f"{time_text(start)[:10]}, {current_zone().label}", canvas.y + 10)
    canvas.y += 18
