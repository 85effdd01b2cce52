"""The only file that knows Plotly: rows of marks on one time axis, as JSON for the page.

What a mark on a figure says and where it stands, before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from plotly.offline import get_plotlyjs

from forensics.lib.formatting import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.lib.time_zone import current_zone, shift_figure
from forensics.report import theme
from forensics.report.html import anchor
from forensics.report.lane_intervals import LaneInterval, assign_rows
from forensics.report.partition_groups import PartitionGroup
from forensics.report.time_bins import Grid, Volume
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import SavedFinding

MAX_NAME_CHARS = 28
# More rows of flags than this would push the rest of the figure off the screen.
MAX_FLAG_ROWS = 5
# From when to when logs are missing, and of which share of the nodes.
Holes = Sequence[tuple[int, int, float]]


@dataclass(frozen=True)
class TimelineData:
    """Everything that the master timeline shows on its one time axis."""

    view: tuple[int, int]
    findings: Sequence[SavedFinding]
    controller: Sequence[LaneInterval]
    brokers: Sequence[LaneInterval]
    debt: Mapping[str, Sequence[tuple[int, int]]]
    clients: Sequence[LaneInterval] = ()
    holes: Holes = ()
    silences: Sequence[tuple[str, int, int, str]] = ()
    volume: Volume | None = None
    grid: Grid | None = None


def finding_span(found: SavedFinding, view: tuple[int, int]) -> tuple[int, int]:
    """Say from when to when a finding reaches, an open side being the edge of the view."""
    start = view[0] if found.start_ms is None else found.start_ms
    return start, max(start, view[1] if found.end_ms is None else found.end_ms)


def flag_rows(tracks: TimelineData) -> list[int]:
    """Give each finding's flag a row of its own where two would stand on each other."""
    apart = (tracks.view[1] - tracks.view[0]) // 40
    spans = [_standing(*finding_span(found, tracks.view), tracks.view) for found in tracks.findings]
    order = sorted(range(len(spans)), key=lambda at: (spans[at], at))
    rows = dict(zip(order, assign_rows([spans[at] for at in order], apart), strict=True))
    return [min(rows[at], MAX_FLAG_ROWS) for at in range(len(spans))]


def _standing(start: int, end: int, view: tuple[int, int]) -> tuple[int, int]:
    """Say from where to where a flag is drawn."""
    at = flag_position(start, end, view)
    return at, max(at, end)


def flag_position(start: int, end: int, view: tuple[int, int]) -> int:
    """Say where the head of a flag stands: one that an edge would cut is moved off it.

    >>> [flag_position(at, at, (0, 1000)) for at in (5, 500, 995, 1001, 5000)]
    [20, 500, 980, 980, 5000]
    """
    inside = (view[1] - view[0]) // 50
    if end < view[0] or start >= view[1] + inside:
        return start
    return min(max(start, view[0] + inside), view[1] - inside)


def lane_label(lane: LaneInterval) -> str:
    """Say what stands in the bar of one stretch of a node's life."""
    if lane.state != "active":
        return lane.state
    led = "node not known" if lane.broker is None else f"node {lane.broker}"
    return led if lane.epoch is None else f"{led}, epoch {lane.epoch}"


def shorten_name(name: str) -> str:
    """Cut a long name in the middle: topics may have 249 letters, and tell at both ends.

    >>> shorten_name("a-topic-with-a-very-long-name-indeed-17")
    'a-topic-with-a…e-indeed-17'
    """
    return (
        name
        if len(name) <= MAX_NAME_CHARS
        else f"{name[: MAX_NAME_CHARS // 2]}…{name[-MAX_NAME_CHARS // 2 + 3 :]}"
    )


def split_at_edges(start: int, end: int, view: tuple[int, int]) -> list[tuple[int, int]]:
    """Cut a bar at the edges of the view: its words stand in a piece that can be seen."""
    edges = [start, *(edge for edge in view if start < edge < end), end]
    return list(pairwise(edges))


def epoch_label(reign: LeaderInterval) -> str:
    """Say the leader epoch, or the first and last where a row holds several."""
    first, last = reign.epochs
    if first < 0:
        return ""
    return str(first) if first == last else f"{first}..{last}"


def leader_label(reign: LeaderInterval) -> str:
    """Say what stands in a leader's bar."""
    # The letter says what the red edge says, for eyes that see no red.
    return f"U {epoch_label(reign)}" if reign.unclean else epoch_label(reign)


def leader_hover(row: PartitionGroup, reign: LeaderInterval, name: str) -> str:
    """Say what hovering over a leader's bar shows."""
    kind = f"{shown(reign.election)}{', inferred' if reign.inferred else ''}"
    when = f"{time_text(reign.start, exact=True)} for {duration(reign.end - reign.start)}"
    return (
        f"{shown(row.label)}: {name}, epoch {epoch_label(reign) or 'not known'} ({kind})<br>{when}"
    )


Figure = dict[str, Any]

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
CLEAR = "rgba(0,0,0,0)"
MAX_BANDS, ROW_GAP, HEAD_HEIGHT = 50, 30, 30
# With more flags than this their numbers would stand on each other.
MAX_NUMBERED_FLAGS = 60
# Room for the axis and its title; each line of a legend takes this much more.
FOOT_HEIGHT, LEGEND_LINE_HEIGHT = 52, 20


class Sheet:
    """Rows one under the other that share one time axis."""

    def __init__(self, rows: Sequence[tuple[str, int]], view: tuple[int, int]) -> None:
        """Take (title, height in pixels) of each row, from the top."""
        heights = [height for _, height in rows] or [60]
        self.view, self.traces, self.high = view, list[Figure](), len(rows)
        self.total = sum(heights) + ROW_GAP * (len(heights) - 1)
        self.layout: Figure = {"annotations": []}
        top = float(self.total)
        for at, height in enumerate(heights, 1):
            domain = [max(0.0, top - height) / self.total, top / self.total]
            self.layout[_name("yaxis", at)] = {
                "domain": domain, "anchor": "x", "automargin": True, "zeroline": False,
            }  # fmt: skip
            top -= height + ROW_GAP
        for at, (title, _) in enumerate(rows, 1):
            self._title(title, self.layout[_name("yaxis", at)]["domain"][1])

    def _title(self, text: str, y: float) -> None:
        self.layout["annotations"].append({
            "text": text, "x": 0, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left",
            "yanchor": "bottom", "showarrow": False, "font": {"size": 12},
        })  # fmt: skip

    def add_trace(self, trace: Mapping[str, Any], row: int = 1, col: int = 1) -> None:
        """Put a trace into a row; there is one column."""
        self.traces.append(dict(trace) | {"xaxis": "x", "yaxis": _name("y", row * col)})

    def update_yaxes(self, row: int = 1, col: int = 1, **settings: object) -> None:
        """Set the axis of a row."""
        self.layout[_name("yaxis", row * col)] |= settings

    def build(self, findings: Iterable[SavedFinding], holes: Holes = (), **more: Any) -> Figure:
        """Give the figure, with bands for what was found and for what no log tells of."""
        bands = [_hole(*hole) for hole in holes]
        incidents = (one for one in findings if one.is_incident and one.start_ms is not None)
        bands += [_band(found, self.view[1]) for found in incidents]
        self._name_groups_once()
        foot = FOOT_HEIGHT + LEGEND_LINE_HEIGHT * _legend_lines(self.traces)
        layout = self.layout | {
            "xaxis": self.time_axis(), "shapes": bands[:MAX_BANDS], "barmode": "stack",
            "bargap": 0.15, "height": self.total + HEAD_HEIGHT + foot,
            "font": {"family": FONT, "size": 12}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
            "uirevision": "fixed",
            "margin": {"l": 8, "r": 12, "t": HEAD_HEIGHT, "b": foot}, "dragmode": "zoom",
            "hovermode": "closest",
            "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
            "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
            "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container",
                       "yanchor": "bottom", "font": {"size": 11}},
        } | more  # fmt: skip
        drawing = {"data": self.traces, "layout": layout, "config": CONFIG}
        return shift_figure(drawing) if layout["xaxis"]["type"] == "date" else drawing

    def _name_groups_once(self) -> None:
        """Let one trace of a group speak for it in the legend."""
        seen: set[str] = set()
        for trace in self.traces:
            group = trace.get("legendgroup")
            if group in seen:
                trace["showlegend"] = False
            elif group:
                seen.add(group)

    def time_axis(self) -> Figure:
        """Give the axis that all rows share."""
        title = f"time, {current_zone().label} ({time_text(self.view[0])[:10]})"
        return {
            "type": "date", "range": list(self.view), "automargin": True, "zeroline": False,
            "anchor": _name("y", max(self.high, 1)), "showspikes": True, "spikemode": "across",
            "spikethickness": 1, "spikedash": "dot", "spikecolor": theme.HATCH,
            "spikesnap": "cursor", "title": {"text": title, "standoff": 6},
        }  # fmt: skip


def _name(axis: str, row: int) -> str:
    return axis if row == 1 else f"{axis}{row}"


def _legend_lines(traces: Sequence[Figure]) -> int:
    """Count the lines that a legend needs where the window is narrow."""
    named = {
        trace.get("legendgroup") or trace["name"]: len(trace["name"])
        for trace in traces
        if trace.get("showlegend", True) and trace.get("name")
    }
    return -(-sum(46 + 7 * letters for letters in named.values()) // 600)


RowDrawer = Callable[[Sheet, int], None]


@cache
def plotly_js() -> str:
    """Return the source of plotly.js as the installed package carries it."""
    return str(get_plotlyjs())


def escape_names(names: Iterable[str]) -> list[str]:
    """Escape the names of rows, which are what marks are put into rows by."""
    return [shown(name) for name in names]


def draw_rows(rows: Sequence[tuple[str, int, RowDrawer]], view: tuple[int, int]) -> Sheet:
    """Put (title, height, what draws it) one under the other on one time axis."""
    sheet = Sheet([(title, height) for title, height, _ in rows], view)
    for row, (_, _, draw) in enumerate(rows, 1):
        draw(sheet, row)
    return sheet


def build_rows(
    rows: Sequence[tuple[str, int, RowDrawer]], tracks: TimelineData, **more: Any
) -> Figure:
    """Give such rows as a figure, with what all figures have."""
    return draw_rows(rows, tracks.view).build(tracks.findings, tracks.holes, **more)


def _band(found: SavedFinding, last: int) -> Figure:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "x0": found.start_ms, "x1": found.end_ms or last, "line": {"width": 0}, "opacity": 0.07,
        "fillcolor": theme.LEVEL.get(found.severity, theme.HATCH),
    }  # fmt: skip


def _hole(start: int, end: int, share: float) -> Figure:
    """Shade where logs are missing, darker where more nodes are silent."""
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
        "x0": start, "x1": end, "line": {"width": 1, "dash": "dot", "color": theme.HATCH},
        "fillcolor": theme.HATCH, "opacity": round(0.12 + 0.3 * share, 2),
    }  # fmt: skip


def draw_flags(figure: Sheet, row: int, tracks: TimelineData) -> None:
    """Draw a numbered flag for each finding."""
    rows = flag_rows(tracks)
    crowded = len(tracks.findings) > MAX_NUMBERED_FLAGS
    for level, colour in theme.LEVEL.items():
        mine = [
            (number, found, rows[number - 1])
            for number, found in enumerate(tracks.findings, 1)
            if found.severity == level
        ]
        if mine:
            for trace in _flag_traces(mine, level, colour, tracks.view, crowded=crowded):
                figure.add_trace(trace, row=row, col=1)
    lowest = max(rows) + 0.6
    figure.update_yaxes(visible=False, fixedrange=True, range=[lowest, -0.6], row=row, col=1)


def _flag_traces(
    flags: Sequence[tuple[int, SavedFinding, int]], level: str, colour: str, view: tuple[int, int],
    *, crowded: bool,
) -> tuple[Figure, Figure]:  # fmt: skip
    reaches = [finding_span(found, view) for _, found, _ in flags]
    lines: Figure = {
        "type": "scatter", "x": [moment for start, end in reaches for moment in (start, end, None)],
        "y": [at for _, _, row in flags for at in (row, row, None)], "mode": "lines",
        "line": {"color": colour, "width": 5}, "showlegend": False, "hoverinfo": "skip",
    }  # fmt: skip
    heads: Figure = {
        "type": "scatter", "mode": "markers+text", "name": level, "showlegend": False,
        "x": [flag_position(*one, view) for one in reaches],
        "y": [row for _, _, row in flags], "text": [] if crowded else [str(n) for n, _, _ in flags],
        "ids": [f"#{anchor(found.id)}" for _, found, _ in flags],
        "customdata": [f"{number}. {shown(found.title)} ({level})" for number, found, _ in flags],
        "marker": {"size": 9 if crowded else 18, "color": colour, "opacity": 1},
        "textposition": "middle center", "textfont": {"color": "#ffffff", "size": 11},
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    return lines, heads


def draw_lanes(
    figure: Sheet, row: int, lanes: Sequence[LaneInterval], view: tuple[int, int]
) -> None:
    """Draw the lives of nodes, one row a node."""
    names = list(dict.fromkeys(lane.name for lane in lanes))
    for state in sorted({lane.state for lane in lanes}):
        mine = [lane for lane in lanes if lane.state == state]
        figure.add_trace(_lane_trace(mine, view), row=row, col=1)
    figure.update_yaxes(**name_axis(names), row=row, col=1)


def _lane_trace(lanes: Sequence[LaneInterval], view: tuple[int, int]) -> Figure:
    state = lanes[0].state
    plain, shape = theme.STATE.get(state, ("", ""))
    numbers = [lane.broker for lane in lanes]
    fills = [plain or (theme.HATCH if n is None else theme.broker_colour(n)) for n in numbers]
    bars = [
        (lane.start, lane.end, shown(lane.name), shown(lane_label(lane)),
         (f"{shown(lane.name)}: {shown(lane_label(lane))}, {time_text(lane.start)} "
          f"for {duration(lane.end - lane.start)}"))
        for lane in lanes
    ]  # fmt: skip
    return bar_trace(bars, view, fills, shape, name=shown(state), showlegend=False)


def bar_trace(
    bars: Sequence[tuple[int, int, str, str, str]],
    view: tuple[int, int],
    fills: Sequence[str],
    shape: str = "",
    **more: object,
) -> Figure:
    """Draw horizontal bars of (start, end, row, word, story) with one colour each."""
    cut = [
        (piece, row, word, story, fill)
        for (start, end, row, word, story), fill in zip(bars, fills, strict=True)
        for piece in split_at_edges(start, end, view)
    ]
    return {
        "type": "bar", "orientation": "h", "base": [at for (at, _), *_ in cut],
        "x": [end - at for (at, end), *_ in cut], "y": [row for _, row, *_ in cut],
        "text": [word for _, _, word, _, _ in cut], "customdata": [story for *_, story, _ in cut],
        "textposition": "inside", "textangle": 0, "insidetextanchor": "start",
        "hovertemplate": "%{customdata}<extra></extra>",
        "textfont": {"color": _one([theme.text_colour(fill) for *_, fill in cut])},
        "marker": {"color": _one([fill for *_, fill in cut]),
                   "line": {"width": 0.5, "color": theme.HATCH}} | _pattern(shape, fills[0]),
    } | more  # fmt: skip


def _one(values: list[str]) -> str | list[str]:
    """Say once what is the same for all."""
    return values[0] if len(set(values)) == 1 else values


def _pattern(shape: str, fill: str) -> Figure:
    # Plotly lays a pattern over one colour only, never over a list of colours.
    look = {"shape": shape, "size": 6, "solidity": 0.2, "fgcolor": theme.HATCH,
            "fillmode": "overlay"}  # fmt: skip
    return {"color": fill, "pattern": look} if shape else {}


def name_axis(names: Sequence[str], most: int = 0) -> Figure:
    """Set rows from the top, their names cut to what fits; hovering gives them whole.

    Of more than `most` rows only every second, third or so is named.
    """
    upwards = list(reversed(names))
    every = -(-len(upwards) // most) if most else 1
    ticks = [at for at in range(len(upwards)) if (len(upwards) - 1 - at) % every == 0]
    return {
        "type": "category", "categoryorder": "array", "categoryarray": list(map(shown, upwards)),
        "tickmode": "array", "tickvals": ticks, "fixedrange": not most,
        "ticktext": [shown(shorten_name(upwards[at])) for at in ticks],
    }  # fmt: skip


def count_axis(most: float) -> Figure:
    """Set an axis of counts: whole numbers from zero."""
    every = {"dtick": 1} if most <= 4 else {"nticks": 4}
    return {"rangemode": "tozero", "tickformat": ",d", "fixedrange": True, **every}
