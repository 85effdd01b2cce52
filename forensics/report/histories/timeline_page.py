"""Timelines as a self-contained page: a summary, a figure and every step with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from plotly import graph_objects as go

from forensics.lib.text_format import count, join_names, time_text
from forensics.lib.text_safety import escape_plotly as plain
from forensics.report import lane_intervals, page, plotly_sheet, theme, time_bins
from forensics.report.figures import leadership
from forensics.report.histories import phrases
from forensics.report.histories.phrases import describe_end, format_time
from forensics.report.histories.timeline import MAX_ROWS, Location, Step, Timeline
from forensics.report.html import Child, Markup, anchor, code, figure, join, table, tag
from forensics.report.partition_groups import GroupImpact, PartitionGroup
from forensics.report.plotly_sheet import Figure, RowDrawer
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import RunOutput

# Timelines with a figure, steps of each, and rows of the overview, at most.
MAX_TIMELINES, MAX_STEPS, MAX_OVERVIEW_ROWS = 100, 1000, 200
COLUMNS = ("From, UTC", "How long", "What", "Evidence")
HINTS = {
    "partition": "The number in a leader's bar is the leader epoch, U an unclean election. "
    "Hatched: not known.",
    "broker": "Hatched: not known.",
}
# Title, height and drawing of a row.
Row = tuple[str, int, RowDrawer]
LEADER_ROW = "leader"
BAR_HEIGHT, HEAD_HEIGHT = 24, 20
# Symbol, colour and name of the marks, by the kind of step.
MARKS = {
    "cut": ("triangle-down", theme.UNCLEAN, "log cut"),
    "loss": ("x", theme.UNCLEAN, "records lost"),
    "unclean": ("line-ns", theme.UNCLEAN, "unclean election"),
}


def write_page(run: RunOutput, timelines: Sequence[Timeline], target: Path) -> Path:
    """Write a page of timelines; return its path."""
    names = join_names([timeline.name for timeline in timelines], 2)
    drawn = timelines[:MAX_TIMELINES]
    left = len(timelines) - len(drawn)
    more = tag("p", f"{count(left, 'more history', 'more histories')} asked for, not drawn.")
    parts = [_part(run, timeline, index) for index, timeline in enumerate(drawn)]
    return page.write_page(
        target,
        f"History of {names}",
        tag("a", "Skip to the first history", href=f"#{_id(0)}", class_="skip"),
        _header(names, drawn),
        tag("main", _overview(drawn), join(parts), more if left else None),
        tag("footer", tag("p", "All times are UTC, corrected by the clocks that are known.")),
    )


def _header(names: str, timelines: Sequence[Timeline]) -> Markup:
    links = (
        tag("li", tag("a", timeline.name, href=f"#{_id(index)}"))
        for index, timeline in enumerate(timelines)
    )
    nav = tag("nav", tag("ul", *links), aria_label="Parts of this page")
    return tag("header", tag("h1", f"History of {names}"), nav if len(timelines) > 1 else None)


def _id(index: int) -> str:
    return f"history-{index + 1}"


def _overview(timelines: Sequence[Timeline]) -> Markup | None:
    rows = [timeline for timeline in timelines if timeline.kind == "partition"][:MAX_OVERVIEW_ROWS]
    if len(rows) < 2:
        return None
    caption = f"The leaders of {count(len(rows), 'partition')}. {HINTS['partition']}"
    inside = figure("figure-overview", overview(rows), caption)
    return tag("section", tag("h2", "All together", id="overview"), inside)


def _part(run: RunOutput, timeline: Timeline, index: int) -> Markup:
    of = partition_figure if timeline.kind == "partition" else broker_figure
    span = timeline.shown
    window = f"{time_text(span.start)} to {time_text(span.end)} UTC"
    caption = f"Shown: {window}. {HINTS[timeline.kind]}"
    drawing = figure(f"figure-{anchor(_id(index))}", of(run, timeline), caption)
    title = f"{_id(index)}-title"
    return tag(
        "section",
        tag("h2", timeline.name, id=title),
        tag("p", tag("strong", timeline.summary)),
        drawing,
        _steps(timeline),
        id=_id(index),
        aria_labelledby=title,
        tabindex=-1,
    )


def _steps(timeline: Timeline) -> Markup:
    rows = [_row(step, timeline) for step in timeline.steps[:MAX_STEPS]]
    left = len(timeline.steps) - len(rows) + timeline.omitted
    more = f"{count(left, 'step')} more; choose a shorter time." if left else None
    shown = table(COLUMNS, rows, caption=f"{timeline.name}, step by step")
    return join([shown, tag("p", more) if more else None])


def _row(step: Step, timeline: Timeline) -> list[Child]:
    time = "not known" if step.start is None else format_time(step.start)
    text: Child = tag("strong", step.text) if step.is_main else tag("span", step.text)
    return [time, describe_end(step, timeline.shown), text, _evidence(step, timeline)]


def _evidence(step: Step, timeline: Timeline) -> Child:
    if not step.evidence:
        return "-"
    chips = (_chip(line, timeline) for line in step.evidence)
    return tag("details", tag("summary", count(len(step.evidence), "line")), *chips)


def _chip(line: Location, timeline: Timeline) -> Markup:
    text = timeline.texts.get(line)
    if not text:
        return tag("p", code(str(line)))
    return tag("details", tag("summary", code(str(line))), tag("pre", text), class_="chip")


@dataclass(frozen=True)
class _Bar:
    """A bar of a row; `shape` hatches what is not known."""

    start: int
    end: int
    row: str
    label: str
    hover: str
    name: str
    fill: str
    shape: str = ""


def partition_figure(run: RunOutput, timeline: Timeline) -> Figure:
    """Draw the leaders, the in-sync replicas and the states of their brokers."""
    replicas = _replicas(timeline)
    rows: list[Row] = [
        ("Leader epochs", HEAD_HEIGHT + BAR_HEIGHT, lambda f, row: _leaders(f, row, timeline)),
    ]
    if replicas:
        height = HEAD_HEIGHT + BAR_HEIGHT * len(replicas)
        rows.append(("In sync", height, lambda f, row: _in_sync(f, row, timeline, replicas)))
    lanes = _broker_lanes(run, replicas)
    bars = len({lane.name for lane in lanes})
    rows += _lane_rows("Brokers", lanes, bars)
    return plotly_sheet.build_rows(rows, _data(timeline))


def broker_figure(run: RunOutput, timeline: Timeline) -> Figure:
    """Draw the findings, the controllers, the states, and how many partitions were led."""
    broker = timeline.broker
    findings = [finding for finding in run.findings if broker in finding.brokers]
    data = _data(timeline, findings)
    controllers = lane_intervals.read_lanes(run, "controller")
    led = _led_counts(run, timeline)
    rows: list[Row] = []
    if findings:
        height = 34 + HEAD_HEIGHT * (1 + max(plotly_sheet.flag_rows(data)))
        rows.append(("Findings", height, lambda f, row: plotly_sheet.draw_flags(f, row, data)))
    rows += _lane_rows("Active controller", controllers)
    rows += _lane_rows("Life", _broker_lanes(run, [broker]))
    if led:
        rows.append(("Partitions led", 110, lambda f, row: _counts(f, row, led, broker)))
    return plotly_sheet.build_rows(rows, data)


def _broker_lanes(run: RunOutput, brokers: Sequence[int]) -> list[lane_intervals.LaneInterval]:
    lanes = lane_intervals.read_lanes(run, "broker")
    names = {lane.name for lane in lanes if lane.broker in brokers}
    return [lane for lane in lanes if lane.name in names]


def _lane_rows(title: str, lanes: list[lane_intervals.LaneInterval], bars: int = 1) -> list[Row]:
    draw = partial(plotly_sheet.draw_lanes, lanes=lanes)
    return [(title, HEAD_HEIGHT + BAR_HEIGHT * bars, draw)] if lanes else []


def overview(timelines: Sequence[Timeline]) -> Figure:
    """Draw the leaders of several partitions below each other."""
    groups = [
        PartitionGroup((timeline.name,), _impact(intervals), intervals)
        for timeline in timelines
        for intervals in (tuple(_leader_intervals(timeline)),)
    ]
    return leadership.draw_leaders(groups, timelines[0].shown.span)


def _impact(intervals: Sequence[LeaderInterval]) -> GroupImpact:
    return GroupImpact(sum(interval.unclean for interval in intervals), 0, 0, len(intervals))


def _data(timeline: Timeline, findings: Sequence[Any] = ()) -> plotly_sheet.TimelineData:
    return plotly_sheet.TimelineData(timeline.shown.span, findings, (), (), {})


def _leader_intervals(timeline: Timeline) -> Iterator[LeaderInterval]:
    for step in _drawable(timeline, "leader"):
        epoch, facts = step.facts["leader_epoch"], step.facts
        start, end = step.clip(timeline.shown)
        yield LeaderInterval(
            None if _is_open(step) else facts["leader"], (epoch, epoch), start, end,
            facts["clean"] is False, facts["election"] or "unknown", facts["how"] == "inferred",
        )  # fmt: skip


def _drawable(timeline: Timeline, kind: str) -> list[Step]:
    """Return the steps whose start is known, and the first one, which starts before the figure."""
    steps = [step for step in timeline.steps if step.kind == kind]
    return [step for number, step in enumerate(steps) if step.start is not None or not number]


def _is_open(step: Step) -> bool:
    """Return True if start or end is not known: no bar may hide a gap."""
    return step.start is None or step.end_kind == "unknown"


def _replicas(timeline: Timeline) -> list[int]:
    """Return the brokers that are named as a replica, as in sync, or as the leader."""
    brokers: set[int] = set()
    for step in timeline.steps:
        if step.kind in ("isr", "leader"):
            brokers |= {*(step.facts["isr"] or ()), *(step.facts["replicas"] or ())}
            brokers |= {step.facts["leader"]} - {None, -1}
    return sorted(brokers)


def _leaders(figure: Any, row: int, timeline: Timeline) -> None:
    unknown = [step for step in timeline.steps if step.kind == "unknown" and step.is_main]
    bars = [_leader_bar(step, timeline) for step in (*unknown, *_drawable(timeline, "leader"))]
    _draw(figure, row, bars)
    _mark(figure, row, timeline, {})
    figure.update_yaxes(**plotly_sheet.name_axis([LEADER_ROW]), row=row)


def _leader_bar(step: Step, timeline: Timeline) -> _Bar:
    start, end = step.clip(timeline.shown)
    name, fill, shape, label = "not known", *theme.STATE["unknown"], ""
    leader = step.facts.get("leader")
    if step.kind == "leader" and leader is not None:
        label = f"{'U ' if step.facts['clean'] is False else ''}{step.facts['leader_epoch']}"
        name = "no leader" if leader == -1 else phrases.describe_leader(leader)
        fill = theme.NONE if leader == -1 else theme.broker_colour(leader)
        shape = "/" if _is_open(step) else "\\" if leader == -1 else ""
    hover = f"{plain(step.text)}<br>{_times(step, timeline)}"
    return _Bar(start, end, LEADER_ROW, label, hover, name, fill, shape)


def _times(step: Step, timeline: Timeline) -> str:
    return f"{phrases.format_time(step.start)}; {phrases.describe_end(step, timeline.shown)}"


def _in_sync(figure: Any, row: int, timeline: Timeline, replicas: Sequence[int]) -> None:
    names = {broker: phrases.describe_leader(broker) for broker in replicas}
    bars = [_isr_bar(step, broker, timeline)
            for step in _drawable(timeline, "isr") for broker in replicas]  # fmt: skip
    fill, shape = theme.STATE["unknown"]
    bars += [
        _Bar(start, end, names[broker], "", f"{names[broker]}: not known", "", fill, shape)
        for start, end in _unsure(timeline)
        for broker in replicas
    ]
    _draw(figure, row, bars, legend=False)
    _mark(figure, row, timeline, {f"broker-{broker}": name for broker, name in names.items()})
    figure.update_yaxes(**plotly_sheet.name_axis(list(names.values())), row=row)


def _unsure(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """Yield the time from the end of each version that is sure to the next known version."""
    steps = [step for step in timeline.steps if step.kind == "isr"]
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        end = timeline.shown.end if following is None else following.start
        if step.end_kind == "sure" and step.end is not None and end is not None:
            yield step.end, max(step.end, end)


def _isr_bar(step: Step, broker: int, timeline: Timeline) -> _Bar:
    start, end = step.clip(timeline.shown)
    isr, row = step.facts["isr"], phrases.describe_leader(broker)
    hover = f"ISR {phrases.format_ids(isr)}<br>{_times(step, timeline)}"
    if isr is None or _is_open(step):
        fill, shape = theme.STATE["unknown"]
        label = "" if isr is None else ("in" if broker in isr else "out") + ", then?"
        return _Bar(start, end, row, label, f"{row}: not known how long; {hover}", "", fill, shape)
    if broker in isr:
        return _Bar(
            start, end, row, "", f"{row}: in sync; {hover}", "", theme.broker_colour(broker)
        )
    fill, _ = theme.STATE["stopped"]
    return _Bar(start, end, row, "out", f"{row}: not in sync; {hover}", "", fill)


def _draw(figure: Any, row: int, bars: Sequence[_Bar], *, legend: bool = True) -> None:
    styles = sorted({(bar.name, bar.fill, bar.shape) for bar in bars})
    in_legend: set[str] = set()
    for name, fill, shape in styles:
        styled = [bar for bar in bars if (bar.name, bar.fill, bar.shape) == (name, fill, shape)]
        trace = plotly_sheet.bar_trace(
            [(bar.start, bar.end, plain(bar.row), bar.label, bar.hover) for bar in styled],
            [fill] * len(styled), shape, name=plain(name),
            legendgroup=plain(name), showlegend=legend and name not in in_legend,
        )  # fmt: skip
        in_legend.add(name)
        figure.add_trace(trace, row=row)


def _mark(figure: Any, row: int, timeline: Timeline, rows: dict[str, str]) -> None:
    """Draw marks: cuts into the rows of their nodes, all others into the row of the leader."""
    for kind, (symbol, colour, name) in MARKS.items():
        marks = [
            (step, rows.get(str(step.facts.get("node")), "") if rows else LEADER_ROW)
            for step in timeline.steps
            if step.start is not None and _is(step, kind) and bool(rows) == (kind == "cut")
        ]
        marks = [(step, place) for step, place in marks if place]
        if marks:
            line = {"width": 4 if symbol == "line-ns" else 1, "color": colour}
            trace = go.Scatter(
                mode="markers", name=name, showlegend=True,
                x=[step.start for step, _ in marks], y=[plain(place) for _, place in marks],
                hovertemplate=plotly_sheet.HOVER,
                customdata=[
                    f"{plain(step.text)}<br>{phrases.format_time(step.start)}" for step, _ in marks
                ],
                marker={"symbol": symbol, "size": 20 if symbol == "line-ns" else 11,
                        "color": colour, "line": line},
            )  # fmt: skip
            figure.add_trace(trace, row=row)


def _is(step: Step, kind: str) -> bool:
    return step.kind == kind or (kind == "unclean" and step.facts.get("clean") is False)


def _led_counts(run: RunOutput, timeline: Timeline) -> list[tuple[int, int]]:
    """Count the partitions led at each time, as far as it is known."""
    window = run.window or timeline.shown.span
    where = ds.field("leader") == timeline.broker
    table = run.table("leadership", ["started_at", "ended_at"], where)
    if not table.num_rows or table.num_rows > MAX_ROWS:
        return []
    spans = [
        (row["started_at"], max(row["started_at"], window[1] if end is None else end))
        for row in table.to_pylist()
        for end in (row["ended_at"],)
        if row["started_at"] is not None
    ]
    return time_bins.count_open_spans(spans, window)


def _counts(figure: Any, row: int, points: Sequence[tuple[int, int]], broker: int) -> None:
    trace = go.Scatter(
        mode="lines", name="partitions led", fill="tozeroy", showlegend=False,
        x=[time for time, _ in points], y=[level for _, level in points],
        line={"shape": "hv", "width": 2, "color": theme.broker_colour(broker)},
        hovertemplate="%{y} partitions<extra></extra>",
    )  # fmt: skip
    figure.add_trace(trace, row=row)
    highest = max(level for _, level in points)
    figure.update_yaxes(**plotly_sheet.count_axis(highest), row=row)
