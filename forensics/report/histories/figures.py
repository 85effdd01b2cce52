"""What the figures of a timeline draw: rows of bars and marks, in the look of the postmortem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.dataset as ds

from forensics.lib.text_safety import escape_plotly as plain
from forensics.report import lane_intervals, partition_groups, plotly_sheet, theme, time_bins
from forensics.report.figures import leadership
from forensics.report.histories.model import MAX_ROWS, Step, Timeline
from forensics.report.histories.phrases import (
    describe_end,
    describe_leader,
    format_ids,
    format_time,
)
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import RunOutput

LEADER = "leader"
BAR, HEAD = 24, 20
# Shape, colour and word of a moment, by what it was.
MARKS = {
    "cut": ("triangle-down", "#c00000", "log cut"),
    "loss": ("x", "#c00000", "records lost"),
    "unclean": ("line-ns", "#c00000", "unclean election"),
}


@dataclass(frozen=True)
class _Bar:
    """One bar of one row; `shape` hatches what is not known."""

    start: int
    end: int
    row: str
    word: str
    story: str
    name: str
    fill: str
    shape: str = ""


def partition_figure(run: RunOutput, story: Timeline) -> plotly_sheet.Figure:
    """Draw leaders, in-sync replicas and the lives of their brokers."""
    replicas = _replicas(story)
    rows: list[tuple[str, int, plotly_sheet.RowDrawer]] = [
        ("Leader epochs", HEAD + BAR, lambda f, row: _leaders(f, row, story)),
    ]
    if replicas:
        tall = HEAD + BAR * len(replicas)
        rows.append(("In sync", tall, lambda f, row: _in_sync(f, row, story, replicas)))
    lives = [lane for lane in lane_intervals.read_lanes(run, "broker") if lane.broker in replicas]
    names = {lane.name for lane in lives}
    lives = [lane for lane in lane_intervals.read_lanes(run, "broker") if lane.name in names]
    if lives:
        tall = HEAD + BAR * len(names)
        span = story.shown.span
        rows.append(("Brokers", tall, lambda f, row: plotly_sheet.draw_lanes(f, row, lives, span)))
    return plotly_sheet.build_rows(rows, _axis(story))


def broker_figure(run: RunOutput, story: Timeline) -> plotly_sheet.Figure:
    """Draw the findings, the controllers, the life, and how many partitions were led."""
    broker = int(story.name.split()[-1])
    mine = [found for found in run.findings if broker in found.brokers]
    axis = _axis(story, mine)
    lives = lane_intervals.read_lanes(run, "broker")
    names = {lane.name for lane in lives if lane.broker == broker}
    lives = [lane for lane in lives if lane.name in names]
    reigns = lane_intervals.read_lanes(run, "controller")
    led = _led(run, story, broker)
    rows: list[tuple[str, int, plotly_sheet.RowDrawer]] = []
    if mine:
        tall = 34 + HEAD * (1 + max(plotly_sheet.flag_rows(axis)))
        rows.append(("Findings", tall, lambda f, row: plotly_sheet.draw_flags(f, row, axis)))
    if reigns:
        rows.append(
            (
                "Active controller",
                HEAD + BAR,
                lambda f, row: plotly_sheet.draw_lanes(f, row, reigns, axis.view),
            )
        )
    if lives:
        rows.append(
            ("Life", HEAD + BAR, lambda f, row: plotly_sheet.draw_lanes(f, row, lives, axis.view))
        )
    if led:
        rows.append(("Partitions led", 110, lambda f, row: _counts(f, row, led, broker)))
    return plotly_sheet.build_rows(rows, axis)


def overview(stories: Sequence[Timeline]) -> plotly_sheet.Figure:
    """Draw the leaders of several partitions under each other."""
    rows = [_strand(story) for story in stories]
    return leadership.draw_leaders(rows, stories[0].shown.span)


def _strand(story: Timeline) -> partition_groups.PartitionGroup:
    reigns = tuple(_reigns(story))
    unclean = sum(reign.unclean for reign in reigns)
    return partition_groups.PartitionGroup(
        (story.name,), partition_groups.GroupImpact(unclean, 0, 0, len(reigns)), reigns
    )


def _axis(story: Timeline, findings: Sequence[Any] = ()) -> plotly_sheet.TimelineData:
    return plotly_sheet.TimelineData(story.shown.span, findings, (), (), {})


def _reigns(story: Timeline) -> Iterator[LeaderInterval]:
    for step in _led_by(story):
        epoch, facts = step.facts["leader_epoch"], step.facts
        start, end = step.clip(story.shown)
        yield LeaderInterval(
            None if _is_open(step) else facts["leader"], (epoch, epoch), start, end,
            facts["clean"] is False, facts["election"] or "unknown", facts["how"] == "inferred",
        )  # fmt: skip


def _led_by(story: Timeline) -> list[Step]:
    """Give the leader epochs that can be drawn; one that began nobody knows when is in its past."""
    reigns = [step for step in story.steps if step.kind == "leader"]
    return [step for at, step in enumerate(reigns) if step.start is not None or not at]


def _is_open(step: Step) -> bool:
    """Whether one of its sides is not known: nothing is stretched over a hole unseen."""
    return step.start is None or step.end_kind == "unknown"


def _replicas(story: Timeline) -> list[int]:
    """Give every broker that a line names as a replica, as in sync, or as the leader."""
    found: set[int] = set()
    for step in story.steps:
        if step.kind in ("isr", "leader"):
            found |= {*(step.facts["isr"] or ()), *(step.facts["replicas"] or ())}
            found |= {step.facts["leader"]} - {None, -1}
    return sorted(found)


def _leaders(figure: Any, row: int, story: Timeline) -> None:
    bars = []
    holes = [step for step in story.steps if step.kind == "unknown" and step.is_main]
    for step in [*holes, *_led_by(story)]:
        start, end = step.clip(story.shown)
        told = f"{plain(step.text)}<br>{format_time(step.start)}; {describe_end(step, story.shown)}"
        name, fill, shape, word = "not known", *theme.STATE["unknown"], ""
        leader = step.facts.get("leader")
        if step.kind == "leader" and leader is not None:
            word = f"{'U ' if step.facts['clean'] is False else ''}{step.facts['leader_epoch']}"
            name = "no leader" if leader == -1 else describe_leader(leader)
            fill = theme.DARK if leader == -1 else theme.broker_colour(leader)
            shape = "\\" if leader == -1 else ""
            shape = "/" if _is_open(step) else shape
        bars.append(_Bar(start, end, LEADER, word, told, name, fill, shape))
    _draw(figure, row, bars, story)
    _mark(figure, row, story, {})
    figure.update_yaxes(**plotly_sheet.name_axis([LEADER]), row=row)


def _in_sync(figure: Any, row: int, story: Timeline, replicas: Sequence[int]) -> None:
    states = [step for step in story.steps if step.kind == "isr"]
    bars = [
        _membership(step, broker, story)
        for at, step in enumerate(states)
        if step.start is not None or not at
        for broker in replicas
    ]
    fill, shape = theme.STATE["unknown"]
    bars += [
        _Bar(
            start,
            end,
            describe_leader(broker),
            "",
            f"{describe_leader(broker)}: not known",
            "",
            fill,
            shape,
        )
        for start, end in _unsure(states, story)
        for broker in replicas
    ]
    _draw(figure, row, bars, story, legend=False)
    _mark(figure, row, story, {f"broker-{broker}": describe_leader(broker) for broker in replicas})
    figure.update_yaxes(
        **plotly_sheet.name_axis([describe_leader(broker) for broker in replicas]), row=row, col=1
    )


def _unsure(states: Sequence[Step], story: Timeline) -> Iterator[tuple[int, int]]:
    """Give the stretches after what is surely known, up to what is known next."""
    for step, after in zip(states, [*states[1:], None], strict=False):
        following = story.shown.end if after is None else after.start
        if step.end_kind == "sure" and step.end is not None and following is not None:
            yield step.end, max(step.end, following)


def _membership(step: Step, broker: int, story: Timeline) -> _Bar:
    start, end = step.clip(story.shown)
    isr, row = step.facts["isr"], describe_leader(broker)
    told = f"ISR {format_ids(isr)}<br>{format_time(step.start)}; {describe_end(step, story.shown)}"
    if isr is None or _is_open(step):
        fill, shape = theme.STATE["unknown"]
        word = "" if isr is None else ("in" if broker in isr else "out") + ", then?"
        return _Bar(start, end, row, word, f"{row}: not known how long; {told}", "", fill, shape)
    if broker in isr:
        return _Bar(start, end, row, "", f"{row}: in sync; {told}", "", theme.broker_colour(broker))
    fill, _ = theme.STATE["stopped"]
    return _Bar(start, end, row, "out", f"{row}: not in sync; {told}", "", fill)


def _draw(
    figure: Any, row: int, bars: Sequence[_Bar], story: Timeline, *, legend: bool = True
) -> None:
    looks = sorted({(bar.name, bar.fill, bar.shape) for bar in bars})
    named: set[str] = set()
    for name, fill, shape in looks:
        mine = [bar for bar in bars if (bar.name, bar.fill, bar.shape) == (name, fill, shape)]
        trace = plotly_sheet.bar_trace(
            [(bar.start, bar.end, plain(bar.row), bar.word, bar.story) for bar in mine],
            story.shown.span, [fill] * len(mine), shape, name=plain(name), legendgroup=plain(name),
            showlegend=legend and name not in named,
        )  # fmt: skip
        named.add(name)
        figure.add_trace(trace, row=row)


def _mark(figure: Any, row: int, story: Timeline, rows: dict[str, str]) -> None:
    """Set marks; with `rows` those of the nodes that have a row, without those of no node."""
    for what, (symbol, colour, word) in MARKS.items():
        mine = [
            (step, rows.get(str(step.facts.get("node")), "") if rows else LEADER)
            for step in story.steps
            if step.start is not None and _is(step, what) and bool(rows) == (what == "cut")
        ]
        mine = [(step, place) for step, place in mine if place]
        if mine:
            look = {"width": 4 if symbol == "line-ns" else 1, "color": colour}
            trace = {
                "type": "scatter", "mode": "markers", "name": word, "showlegend": True,
                "x": [step.start for step, _ in mine], "y": [plain(place) for _, place in mine],
                "customdata": [
                    f"{plain(step.text)}<br>{format_time(step.start)}" for step, _ in mine
                ],
                "hovertemplate": "%{customdata}<extra></extra>",
                "marker": {"symbol": symbol, "size": 20 if symbol == "line-ns" else 11,
                           "color": colour, "line": look},
            }  # fmt: skip
            figure.add_trace(trace, row=row)


def _is(step: Step, what: str) -> bool:
    return step.kind == what or (what == "unclean" and step.facts.get("clean") is False)


def _led(run: RunOutput, story: Timeline, broker: int) -> list[tuple[int, int]]:
    """Count the partitions led at each moment, as far as lines tell."""
    window = run.window or story.shown.span
    where = ds.field("leader") == broker
    table = run.table("leadership", ["started_at", "ended_at"], where)
    if not table.num_rows or table.num_rows > MAX_ROWS:
        return []
    rows = [row for row in table.to_pylist() if row["started_at"] is not None]
    ends = [window[1] if row["ended_at"] is None else row["ended_at"] for row in rows]
    spans = [(row["started_at"], max(row["started_at"], end))
             for row, end in zip(rows, ends, strict=True)]  # fmt: skip
    return time_bins.count_open_spans(spans, window)


def _counts(figure: Any, row: int, points: Sequence[tuple[int, int]], broker: int) -> None:
    trace = {
        "type": "scatter", "mode": "lines", "name": "partitions led", "fill": "tozeroy",
        "x": [at for at, _ in points], "y": [level for _, level in points], "showlegend": False,
        "line": {"shape": "hv", "width": 2, "color": theme.broker_colour(broker)},
        "hovertemplate": "%{y} partitions<extra></extra>",
    }  # fmt: skip
    figure.add_trace(trace, row=row)
    most = max(level for _, level in points)
    figure.update_yaxes(**plotly_sheet.count_axis(most), row=row)
