"""Figures made with Plotly: rows of marks on one time axis, in one template.

It also decides the words of the marks and where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from plotly import graph_objects as go
from plotly.basedatatypes import BaseTraceType

from forensics.lib.text_format import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.lib.time_zone import current_zone, shift_figure
from forensics.report import theme
from forensics.report.finding_text import short_title
from forensics.report.html import anchor
from forensics.report.incident_span import group_incidents, reach_of
from forensics.report.lane_intervals import LaneInterval, assign_rows
from forensics.report.partition_groups import PartitionGroup
from forensics.report.time_bins import Grid, Volume
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import SavedFinding

Figure = dict[str, Any]
Span = tuple[int, int]
# From when to when logs are missing, and of which share of the nodes.
Holes = Sequence[tuple[int, int, float]]

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
# Each mark brings its words.
HOVER = "%{customdata}<extra></extra>"
MAX_NAME_CHARS = 28
# More rows of flags would push the rest of the figure off the screen; the numbers of more flags
# would stand on each other.
MAX_FLAG_ROWS, MAX_NUMBERED_FLAGS = 5, 60
MAX_NAMED_FLAGS = 12
# So many letters of such a name fit into the width of a window of 1280 pixels.
LETTERS_ACROSS = 170
# The shortest bar of trouble is this part of the width.
SHORTEST_BAR = 250
MAX_BANDS, ROW_GAP, HEAD_HEIGHT = 50, 21, 30
# Room for the axis and its title, below the rows or above them; each line of a legend takes this
# much more.
FOOT_HEIGHT, TOP_AXIS, LEGEND_LINE_HEIGHT = 52, 62, 20


@cache
def template() -> go.layout.Template:
    """Return what all figures have in common; a script adds the colours of light and dark."""
    return go.layout.Template(
        layout=go.Layout(
            font={"family": FONT, "size": 12}, paper_bgcolor=CLEAR, plot_bgcolor=CLEAR,
            bargap=0.15, dragmode="zoom", hovermode="closest",
            hoverlabel={"font": {"family": FONT, "size": 12}, "align": "left"},
            modebar={"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
            legend={"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom",
                    "font": {"size": 11}},
            annotationdefaults={"showarrow": False, "font": {"size": 12}, "xanchor": "left",
                                "yanchor": "bottom", "xref": "paper", "yref": "paper"},
            shapedefaults={"layer": "below", "line": {"width": 0}},
            xaxis={"automargin": True, "zeroline": False},
            yaxis={"automargin": True, "zeroline": False},
        ),
        data={
            "bar": [go.Bar(hovertemplate=HOVER, textposition="inside", textangle=0,
                           insidetextanchor="start")],
            "heatmap": [go.Heatmap(showscale=False, zsmooth=False)],
        },
    )  # fmt: skip


@dataclass(frozen=True)
class TimelineData:
    """Everything that the master timeline shows on its one time axis."""

    view: Span
    findings: Sequence[SavedFinding]
    controller: Sequence[LaneInterval]
    brokers: Sequence[LaneInterval]
    debt: Mapping[str, Sequence[tuple[int, int]]]
    clients: Sequence[LaneInterval] = ()
    clients_title: str = "Clients"
    partitions: Sequence[LaneInterval] = ()
    holes: Holes = ()
    silences: Sequence[tuple[str, int, int, str]] = ()
    volume: Volume | None = None
    grid: Grid | None = None


def finding_span(finding: SavedFinding, view: Span) -> Span:
    """Return from when to when a finding reaches, an open side being the edge of the view."""
    start = view[0] if finding.start_ms is None else finding.start_ms
    return start, max(start, view[1] if finding.end_ms is None else finding.end_ms)


def flag_rows(data: TimelineData) -> list[int]:
    """Give each finding's flag a row of its own where two would stand on each other."""
    apart = (data.view[1] - data.view[0]) // 40
    letter = (data.view[1] - data.view[0]) // LETTERS_ACROSS
    named = _named_flags(data)
    spans = []
    for finding in data.findings:
        start, end = finding_span(finding, data.view)
        head = flag_position(start, end, data.view)
        # The name stands above the line, and begins behind the head.
        words = letter * (len(short_title(finding)) + 4) if finding in named else 0
        spans.append((head, max(head + words, end)))
    order = sorted(range(len(spans)), key=lambda index: (spans[index], index))
    rows = dict(zip(order, assign_rows([spans[index] for index in order], apart), strict=True))
    return [min(rows[index], MAX_FLAG_ROWS) for index in range(len(spans))]


def _named_flags(data: TimelineData) -> Sequence[SavedFinding]:
    """Return the findings whose names stand at their flags: none where there are too many."""
    named = [finding for finding in data.findings if finding.is_incident]
    return named if len(named) <= MAX_NAMED_FLAGS else ()


def flag_position(start: int, end: int, view: Span) -> int:
    """Return where the head of a flag stands: one that an edge would cut is moved off it.

    >>> [flag_position(at, at, (0, 1000)) for at in (5, 500, 995, 1001, 5000)]
    [20, 500, 980, 980, 5000]
    """
    inside = (view[1] - view[0]) // 50
    if end < view[0] or start >= view[1] + inside:
        return start
    return min(max(start, view[0] + inside), view[1] - inside)


def lane_label(lane: LaneInterval) -> str:
    """Return what stands in the bar of one interval of a node's lane."""
    if lane.state in ("leader", "unclean leader") and not lane.words:
        mark = "U " if lane.state == "unclean leader" else ""
        return f"{mark}led by {lane.broker}"
    if lane.state in theme.OVERLAYS:
        return ""
    if lane.words or lane.state != "active":
        return lane.words or theme.state_words(lane.state)
    node = "node not known" if lane.broker is None else f"node {lane.broker}"
    return node if lane.epoch is None else f"{node}, epoch {lane.epoch}"


def shorten_name(name: str) -> str:
    """Cut a long name in the middle: topics may have 249 letters, and tell at both ends.

    >>> shorten_name("a-topic-with-a-very-long-name-indeed-17")
    'a-topic-with-a…e-indeed-17'
    """
    half = MAX_NAME_CHARS // 2
    return name if len(name) <= MAX_NAME_CHARS else f"{name[:half]}…{name[-half + 3 :]}"


def epoch_label(epoch: LeaderInterval) -> str:
    """Return the leader epoch, or the first and last where a row holds several."""
    first, last = epoch.epochs
    if first < 0:
        return ""
    return str(first) if first == last else f"{first}..{last}"


def leader_label(epoch: LeaderInterval) -> str:
    """Return what stands in a leader's bar."""
    # The letter says what the red edge says, for eyes that see no red.
    return f"U {epoch_label(epoch)}" if epoch.unclean else epoch_label(epoch)


def leader_hover(row: PartitionGroup, epoch: LeaderInterval, name: str) -> str:
    """Return what hovering over a leader's bar shows."""
    kind = f"{shown(epoch.election)}{', inferred' if epoch.inferred else ''}"
    when = f"{time_text(epoch.start, exact=True)} for {duration(epoch.end - epoch.start)}"
    label = epoch_label(epoch) or "not known"
    return f"{shown(row.label)}: {name}, epoch {label} ({kind})<br>{when}"


class Sheet:
    """Rows one under the other that share one time axis, as a figure of Plotly's.

    Subplots of Plotly's own have an axis each, which are kept alike: then a zoom is done once for
    each row, and the line under the mouse ends at the edge of its row. So the rows are axes here.
    """

    def __init__(
        self, rows: Sequence[tuple[str, int]], view: tuple[int, int], *, axis_on_top: bool = False
    ) -> None:
        """Take (title, height in pixels) of each row, from the top."""
        heights = [height for _, height in rows] or [60]
        self.view, self.row_count = view, len(rows)
        self.axis_on_top = axis_on_top
        # Below an axis on top the first row needs room for its title.
        above = ROW_GAP if axis_on_top and rows and rows[0][0] else 0
        self.height = sum(heights) + ROW_GAP * (len(heights) - 1) + above
        self.traces = list[BaseTraceType]()
        self.layout: Figure = {"annotations": []}
        top = float(self.height) - above
        for row, height in enumerate(heights, 1):
            domain = [max(0.0, top - height) / self.height, top / self.height]
            self.update_yaxes(row, domain=domain, anchor="x")
            if row <= len(rows) and rows[row - 1][0]:
                self.add_title(rows[row - 1][0], 0, domain[1])
            top -= height + ROW_GAP

    def add_title(self, text: str, x: float, y: float) -> None:
        """Write above a row, at a share of the width and of the height."""
        self.layout["annotations"].append({"text": text, "x": x, "y": y})

    def add_trace(self, trace: BaseTraceType, row: int = 1) -> None:
        """Put a trace into a row."""
        trace.xaxis, trace.yaxis = "x", _axis_name("y", row)
        self.traces.append(trace)

    def update_yaxes(self, row: int = 1, **settings: Any) -> None:
        """Set the axis of a row."""
        self.layout.setdefault(_axis_name("yaxis", row), {}).update(settings)

    def build(self, findings: Iterable[SavedFinding], holes: Holes = (), **more: Any) -> Figure:
        """Return the figure as JSON, with bands for what was found and for what no log tells of.

        What a figure needs beyond that goes into its layout.
        """
        bands = [_hole_band(*hole) for hole in holes]
        bands += [_incident_band(*span) for span in incident_bands(findings, self.view[1])]
        self._name_groups_once()
        head, foot = (TOP_AXIS, 8) if self.axis_on_top else (HEAD_HEIGHT, FOOT_HEIGHT)
        foot += LEGEND_LINE_HEIGHT * _legend_lines(self.traces)
        layout = self.layout | {
            "template": template(), "uirevision": "fixed",
            "xaxis": self.time_axis(), "shapes": bands[:MAX_BANDS], "barmode": "stack",
            "height": self.height + head + foot,
            "margin": {"l": 8, "r": 12, "t": head, "b": foot},
        }  # fmt: skip
        figure = go.Figure(self.traces, layout | more)
        drawing = figure.to_dict() | {"config": CONFIG}
        is_dated = drawing["layout"]["xaxis"]["type"] == "date"
        return shift_figure(drawing) if is_dated else drawing

    def _name_groups_once(self) -> None:
        """Let one trace of a group speak for it in the legend."""
        seen: set[str] = set()
        for trace in self.traces:
            if trace.type == "heatmap":
                continue
            if trace.legendgroup in seen:
                trace.showlegend = False
            elif trace.legendgroup:
                seen.add(trace.legendgroup)

    def time_axis(self) -> Figure:
        """Return the axis that all rows share."""
        title = f"time, {current_zone().label} ({time_text(self.view[0])[:10]})"
        place: Figure = {"anchor": _axis_name("y", max(self.row_count, 1))}
        if self.axis_on_top:
            place = {"anchor": "free", "position": 1, "side": "top"}
        return place | {
            "type": "date", "range": list(self.view),
            "showspikes": True, "spikemode": "across", "spikethickness": 1, "spikedash": "dot",
            "spikecolor": theme.HATCH, "spikesnap": "cursor",
            "title": {"text": title, "standoff": 6},
        }  # fmt: skip


def _axis_name(axis: str, row: int) -> str:
    return axis if row == 1 else f"{axis}{row}"


def _legend_lines(traces: Sequence[BaseTraceType]) -> int:
    """Count the lines that a legend needs where the window is narrow."""
    named = {
        trace.legendgroup or trace.name: len(trace.name)
        for trace in traces
        if trace.showlegend is not False and trace.name
    }
    return -(-sum(46 + 7 * letters for letters in named.values()) // 600)


RowDrawer = Callable[[Sheet, int], None]


def escape_names(names: Iterable[str]) -> list[str]:
    """Escape the names of rows, which are what marks are put into rows by."""
    return [shown(name) for name in names]


def draw_rows(
    rows: Sequence[tuple[str, int, RowDrawer]], view: Span, *, axis_on_top: bool = False
) -> Sheet:
    """Put (title, height, what draws it) one under the other on one time axis."""
    sheet = Sheet([(title, height) for title, height, _ in rows], view, axis_on_top=axis_on_top)
    for row, (_, _, draw) in enumerate(rows, 1):
        draw(sheet, row)
    return sheet


def build_rows(
    rows: Sequence[tuple[str, int, RowDrawer]], data: TimelineData, **more: Any
) -> Figure:
    """Draw such rows as a figure, with what all figures have."""
    return draw_rows(rows, data.view).build(data.findings, data.holes, **more)


def incident_bands(findings: Iterable[SavedFinding], last: int) -> list[Span]:
    """Return from when to when each incident lasted: the times that the headline names."""
    return [reach_of(group, last) for group in group_incidents(list(findings), last)]


def _incident_band(start: int, end: int) -> Figure:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "x0": start, "x1": end,
        "fillcolor": theme.LEVEL["critical"], "opacity": 0.08,
    }  # fmt: skip


def _hole_band(start: int, end: int, share: float) -> Figure:
    """Shade where logs are missing, darker where more nodes are silent."""
    return {
        "type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "x0": start, "x1": end,
        "line": {"width": 1, "dash": "dot", "color": theme.HATCH},
        "fillcolor": theme.HATCH, "opacity": round(0.12 + 0.3 * share, 2),
    }  # fmt: skip


def draw_flags(sheet: Sheet, row: int, data: TimelineData) -> None:
    """Draw a numbered flag for each finding."""
    rows = flag_rows(data)
    is_crowded = len(data.findings) > MAX_NUMBERED_FLAGS
    for level, colour in theme.LEVEL.items():
        flags = [
            (number, finding, rows[number - 1])
            for number, finding in enumerate(data.findings, 1)
            if finding.severity == level
        ]
        if flags:
            for trace in _flag_traces(flags, level, colour, data.view, is_crowded=is_crowded):
                sheet.add_trace(trace, row)
    names = _named_flags(data)
    named = [pair for pair in zip(data.findings, rows, strict=True) if pair[0] in names]
    if named:
        sheet.add_trace(_flag_names(named, data.view), row)
    sheet.update_yaxes(row, visible=False, fixedrange=True, range=[max(rows) + 0.6, -0.6])


def _flag_traces(
    flags: Sequence[tuple[int, SavedFinding, int]], level: str, colour: str, view: Span,
    *, is_crowded: bool,
) -> tuple[go.Scatter, go.Scatter]:  # fmt: skip
    spans = [finding_span(finding, view) for _, finding, _ in flags]
    numbers = [] if is_crowded else [str(number) for number, _, _ in flags]
    lines = go.Scatter(
        x=[moment for start, end in spans for moment in (start, end, None)],
        y=[at for _, _, row in flags for at in (row, row, None)], mode="lines",
        line={"color": colour, "width": 5}, showlegend=False, hoverinfo="skip",
    )  # fmt: skip
    heads = go.Scatter(
        mode="markers+text", name=level, showlegend=False,
        x=[flag_position(*span, view) for span in spans], y=[row for _, _, row in flags],
        text=numbers, textposition="middle center", textfont={"color": "var(--ground)", "size": 11},
        ids=[f"#{anchor(finding.id)}" for _, finding, _ in flags],
        hovertemplate=HOVER,
        customdata=[f"{number}. {shown(finding.title)} ({level})" for number, finding, _ in flags],
        marker={"size": 9 if is_crowded else 18, "color": colour, "opacity": 1},
    )  # fmt: skip
    return lines, heads


def _flag_names(flags: Sequence[tuple[SavedFinding, int]], view: Span) -> go.Scatter:
    """Write what each finding is above its line."""
    return go.Scatter(
        mode="text", showlegend=False, hoverinfo="skip",
        x=[flag_position(*finding_span(finding, view), view) for finding, _ in flags],
        y=[at - 0.4 for _, at in flags],
        text=[f"      {shown(short_title(finding))}" for finding, _ in flags],
        textposition="middle right", textfont={"size": 10.5}, cliponaxis=False,
    )  # fmt: skip


def draw_lanes(sheet: Sheet, row: int, lanes: Sequence[LaneInterval]) -> None:
    """Draw the lanes of nodes, one row a node."""
    # What is laid over other states is drawn after them, and what may be short over what is long.
    spans = shown_spans(lanes, (sheet.view[1] - sheet.view[0]) // SHORTEST_BAR)
    for state in sorted(
        {lane.state for lane in lanes},
        key=lambda one: (one in theme.OVERLAYS, one not in theme.LASTING, one),
    ):
        own = [(lane, spans[lane]) for lane in lanes if lane.state == state]
        sheet.add_trace(_lane_trace(own), row)
    sheet.update_yaxes(row, **name_axis(list(dict.fromkeys(lane.name for lane in lanes))))


def shown_spans(lanes: Sequence[LaneInterval], shortest: int) -> dict[LaneInterval, Span]:
    """Return from where to where each piece is drawn.

    A moment of trouble is a thin bar, not nothing, and what follows it begins behind that bar; the
    words of both tell their true times.
    """
    spans: dict[LaneInterval, Span] = {}
    reached: dict[str, int] = {}
    for lane in sorted(lanes, key=lambda one: (one.start, one.end)):
        start, end = lane.start, lane.end
        if lane.state not in theme.OVERLAYS:
            if reached.get(lane.name, start) < end:
                start = max(start, reached.get(lane.name, start))
            if lane.state not in theme.LASTING and end - start < shortest:
                end = reached[lane.name] = start + shortest
        spans[lane] = (start, end)
    return spans


def _lane_trace(pairs: Sequence[tuple[LaneInterval, Span]]) -> go.Bar:
    lanes = [lane for lane, _ in pairs]
    state = lanes[0].state
    plain, pattern = theme.STATE.get(state, ("", ""))
    numbers = [lane.broker for lane in lanes]
    fills = [plain or (theme.HATCH if n is None else theme.broker_colour(n)) for n in numbers]
    bars = [
        (*span, shown(lane.name), shown(lane_label(lane)),
         (f"{shown(lane.name)}: {shown(_lane_words(lane))}, {time_text(lane.start)} "
          f"for {duration(lane.end - lane.start)}"))
        for lane, span in pairs
    ]  # fmt: skip
    own = lanes[0].words
    name = own if own in theme.STATE_MEANINGS else theme.state_words(state)
    trace = bar_trace(bars, fills, pattern, name=shown(name), showlegend=False)
    if state in theme.OVERLAYS:
        trace.marker = _pattern(pattern, CLEAR) | {"line": {"width": 0}}
        trace.marker.pattern.update(fgcolor=theme.OVERLAYS[state][0], fgopacity=1, solidity=0.4)
    return trace


def _lane_words(lane: LaneInterval) -> str:
    """Say in words what a bar stands for."""
    if lane.state in theme.OVERLAYS:
        return theme.OVERLAYS[lane.state][1]
    if lane.state in ("leader", "unclean leader"):
        unclean = ", elected although not in sync" if lane.state == "unclean leader" else ""
        return f"led by broker {lane.broker}{unclean}"
    return lane.about or lane_label(lane)


def bar_trace(
    bars: Sequence[tuple[int, int, str, str, str]], fills: Sequence[str], pattern: str = "",
    **more: object,
) -> go.Bar:  # fmt: skip
    """Draw horizontal bars of (start, end, row, label, hover text) with one colour each."""
    return go.Bar(
        orientation="h", base=[start for start, *_ in bars],
        x=[end - start for start, end, *_ in bars], y=[row for _, _, row, *_ in bars],
        text=[label for *_, label, _ in bars], customdata=[hover for *_, hover in bars],
        textfont={"color": _one_or_all([theme.text_colour(fill) for fill in fills])},
        # What is as light or as dark as the ground is told by its edge.
        marker={"color": _one_or_all(fills),
                "line": {"width": 1, "color": theme.HATCH}}
               | _pattern(pattern, fills[0]),
        **more,
    )  # fmt: skip


def _one_or_all(values: Sequence[str]) -> str | Sequence[str]:
    """Return one value where all are the same."""
    return values[0] if len(set(values)) == 1 else values


def _pattern(shape: str, fill: str) -> Figure:
    # Plotly lays a pattern over one colour only, never over a list of colours.
    look = {"shape": shape, "size": 6, "solidity": 0.2, "fgcolor": theme.HATCH,
            "fillmode": "overlay"}  # fmt: skip
    return {"color": fill, "pattern": look} if shape else {}


def name_axis(names: Sequence[str], max_ticks: int = 0) -> Figure:
    """Name rows from the top, their names cut to what fits; hovering gives them whole.

    Of more than `max_ticks` rows only every second, third or so is named.
    """
    upwards = list(reversed(names))
    every = -(-len(upwards) // max_ticks) if max_ticks else 1
    ticks = [at for at in range(len(upwards)) if (len(upwards) - 1 - at) % every == 0]
    return {
        "type": "category", "categoryorder": "array", "categoryarray": escape_names(upwards),
        "tickmode": "array", "tickvals": ticks, "fixedrange": not max_ticks,
        "ticktext": [shown(shorten_name(upwards[at])) for at in ticks],
    }  # fmt: skip


def count_axis(highest: float) -> Figure:
    """Return an axis of counts: whole numbers from zero."""
    every = {"dtick": 1} if highest <= 4 else {"nticks": 4}
    return {"rangemode": "tozero", "tickformat": ",d", "fixedrange": True, **every}
