"""Draws the signals of twelve weeks: a row for each broker and a column for each signal.

Beneath each point stands how much of that week the broker's logs cover. A point is the count scaled
up to a week that is covered throughout; where too little is, there is no point, only a mark for
what was seen. The line is broken there, and where the rules changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from forensics.lib.text_format import count, join_names
from forensics.lib.text_safety import escape_plotly as escape
from forensics.report import theme
from forensics.report.html import Child, Markup, figure, table, tag
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure
from forensics.weekly.coverage_normalisation import MIN_SCALABLE_SHARE, WindowCoverage, format_count
from forensics.weekly.pages.week_view import WeekView
from forensics.weekly.week_metrics import BROKER_SIGNALS, CLUSTER_SIGNALS
from forensics.weekly.week_summary import WeekSummary
from forensics.weekly.week_verdict import lowercase_first

# Nobody reads more rows; the table below the figure has more of them.
_MAX_ROWS, _MAX_TABLE_BROKERS = 8, 60
# In pixels: a row, and the space above and below all of them.
_ROW_HEIGHT, _TOP, _BOTTOM = 74, 56, 34
# In letters: six columns stand beside each other on paper, too.
_TITLE_WIDTH = 12
# Shares of a row, from below: the bar of coverage ends, the lines begin, and their height.
BAR_HEIGHT, LINE_BASE, LINE_HEIGHT = 0.14, 0.26, 0.58
_HOVER = {"hovertemplate": "%{customdata}<extra></extra>"}


@dataclass(frozen=True)
class Point:
    """One signal of one broker, or of all, in one week; None is not known."""

    week: str
    count: float | None = None
    coverage: WindowCoverage | None = None

    @property
    def scaled(self) -> float | None:
        """What the count would be if the logs covered all of the week."""
        if self.count is None or self.coverage is None:
            return None
        return self.coverage.per_window(self.count)

    @property
    def count_text(self) -> str:
        """What is counted, and how much is covered."""
        if self.coverage is None:
            return "this week is not in the store"
        covered = f"logs cover {self.coverage}"
        if self.count is None or (self.scaled is None and not self.count):
            return f"not known, {covered}"
        if self.scaled is None:
            return f"at least {_format(self.count)}, {covered}"
        if self.scaled == self.count:
            return f"{_format(self.count)}, {covered}"
        scaled = _format(self.scaled)
        return f"{_format(self.count)} seen, {scaled} were all covered; {covered}"


def _points(view: WeekView, signal: str, broker: int | None) -> list[Point]:
    """Return one signal of a broker, or of all, in each week."""
    points = []
    for name, week in zip(view.names, view.weeks, strict=True):
        if week is None:
            points.append(Point(name))
        elif broker is None:
            points.append(Point(name, week.count(signal), week.coverage()))
        elif broker not in week.brokers:
            points.append(Point(name, None, WindowCoverage(0, week.window_ms, week.window_ms)))
        else:
            coverage = week.broker_coverage(broker)
            points.append(Point(name, week.count(signal, broker), coverage))
    return points


def _row_name(broker: int | None) -> str:
    return "all brokers" if broker is None else f"broker {broker}"


def _format(number: float | None) -> str:
    """Write a count, whole where it is large."""
    if number is None:
        return "not known"
    return f"{number:,.0f}" if number >= 100 else format_count(number)


def _choose_brokers(weeks: Sequence[WeekSummary], limit: int) -> list[int]:
    """Choose the brokers of the highest signals, and return them by number."""
    brokers = sorted({broker for week in weeks for broker in week.brokers})
    harm = dict.fromkeys(brokers, 0.0)
    for signal in BROKER_SIGNALS:
        sums = {
            broker: sum(week.count(signal, broker) or 0 for week in weeks) for broker in brokers
        }
        highest = max(sums.values(), default=0)
        for broker in brokers if highest else ():
            harm[broker] += sums[broker] / highest
    return sorted(sorted(brokers, key=lambda broker: (-harm[broker], broker))[:limit])


def draw_trend(view: WeekView) -> Markup:
    """Draw the grid, with what it says in words and its numbers below it."""
    grid = _draw_grid(view)
    summary = tag("summary", "Signals as a table")
    folded = tag("details", summary, _broker_table(view), class_="off-paper")
    return figure("figure-trend", grid, _caption(view), folded, _cluster_table(view))


def _draw_grid(view: WeekView) -> Figure:
    rows: list[int | None] = [None, *_choose_brokers(view.known_weeks, _MAX_ROWS)]
    breaks = _rule_changes(view.weeks)
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    traces: list[Figure] = []
    for index, (signal, title) in enumerate(BROKER_SIGNALS.items()):
        number = str(index + 1) if index else ""
        grid = [_points(view, signal, broker) for broker in rows]
        axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"} if number else {}
        traces += [trace | axes for trace in _draw_column(title, grid, rows, breaks)]
        layout |= _axes(index, number, len(view.names), rows)
        layout["annotations"].append(_column_title(number, title))
        layout["shapes"] += [_rule_change_line(number, week) for week in breaks]
    layout["xaxis"]["ticktext"] = [escape(name[-3:]) for name in (view.names[0], view.names[-1])]
    layout |= {
        "height": _TOP + _BOTTOM + _ROW_HEIGHT * len(rows), "showlegend": False,
        "barmode": "overlay", "margin": {"l": 8, "r": 8, "t": _TOP, "b": _BOTTOM},
        "hovermode": "closest", "font": {"family": FONT, "size": 11}, "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR, "uirevision": "fixed", "dragmode": False,
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
    }  # fmt: skip
    config = CONFIG | {"modeBarButtons": [["toImage"]]}
    return {"data": traces, "layout": layout, "config": config}


def _rule_changes(weeks: Sequence[WeekSummary | None]) -> list[int]:
    """Return the indices of weeks whose rules differ from those of the last known week before."""
    known = [index for index, week in enumerate(weeks) if week is not None]
    rules = [week.rules for week in weeks if week is not None]
    return [known[place] for place in range(1, len(known)) if rules[place] != rules[place - 1]]


def _axes(index: int, number: str, weeks: int, rows: Sequence[int | None]) -> Figure:
    width = 1 / len(BROKER_SIGNALS)
    return {
        f"xaxis{number}": {
            "domain": [round(index * width + 0.012, 4), round((index + 1) * width - 0.012, 4)],
            "range": [-0.7, weeks + 1.3], "fixedrange": True, "zeroline": False, "showgrid": False,
            "tickvals": [0, weeks - 1], "anchor": f"y{number}", "tickangle": 0,
            "ticktext": ["", ""], "ticks": "",
        },
        f"yaxis{number}": {
            "domain": [0, 1], "range": [-len(rows) + 0.95, 1.0], "fixedrange": True,
            "zeroline": False, "tickvals": [-row for row in range(len(rows))], "showgrid": True,
            "ticktext": [""] * len(rows) if index else list(map(_row_name, rows)),
            "automargin": not index, "anchor": f"x{number}", "ticks": "", "tickfont": {"size": 12},
            "ticklabelshift": 0 if index else -14,
        },
    }  # fmt: skip


def _column_title(number: str, title: str) -> Figure:
    lines = "<br>".join(wrap(title, _TITLE_WIDTH))
    return {
        "text": f"<b>{lines}</b>", "x": 0, "y": 1, "yshift": 4, "showarrow": False,
        "xref": f"x{number} domain", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "align": "left", "font": {"size": 11},
    }  # fmt: skip


def _rule_change_line(number: str, week: int) -> Figure:
    return {
        "type": "line", "xref": f"x{number}", "yref": "paper", "x0": week - 0.5,
        "x1": week - 0.5, "y0": 0, "y1": 1, "line": {"width": 1.5, "dash": "dot",
        "color": theme.WORSE}, "layer": "below",
    }  # fmt: skip


def _draw_column(
    title: str, grid: Sequence[Sequence[Point]], rows: Sequence[int | None],
    breaks: Sequence[int],
) -> list[Figure]:  # fmt: skip
    # Brokers share a scale, so that a bad one stands out; all of them together have their own.
    highest = [max((point.scaled or 0.0 for point in points), default=0.0) for points in grid]
    by_broker = zip(highest, rows, strict=True)
    scale = max([1.0, *(high for high, broker in by_broker if broker is not None)])
    traces = [_coverage_bars(grid)]
    for row, (points, broker) in enumerate(zip(grid, rows, strict=True)):
        colour = theme.HATCH if broker is None else theme.broker_colour(broker)
        hovers = [f"{_row_name(broker)}: {title}, {escape(point.week)}: {point.count_text}"
                  for point in points]  # fmt: skip
        heights = [
            None if point.scaled is None
            else _height(point.scaled / (max(1.0, highest[row]) if broker is None else scale), row)
            for point in points
        ]  # fmt: skip
        traces.append(_line(points, heights, hovers, colour, breaks))
        if any(point.scaled is None and point.count for point in points):
            traces.append(_unscaled_marks(points, row, hovers, colour))
    return traces


def _height(share: float, row: int) -> float:
    return round(-row + LINE_BASE + LINE_HEIGHT * share, 3)


def _coverage_bars(grid: Sequence[Sequence[Point]]) -> Figure:
    """Draw under each point how much is covered; a week that is not in the store has no bar."""
    bars = [(week, -row, point.week, point.coverage) for row, points in enumerate(grid)
            for week, point in enumerate(points) if point.coverage is not None]  # fmt: skip
    return {
        "type": "bar", "x": [week for week, *_ in bars], "base": [base for _, base, *_ in bars],
        "y": [round(BAR_HEIGHT * coverage.share, 3) for *_, coverage in bars], "width": 0.72,
        "marker": {"color": theme.HATCH, "line": {"width": 0}},
        "customdata": [f"{escape(name)}: logs cover {coverage}" for *_, name, coverage in bars],
    } | _HOVER  # fmt: skip


def _line(
    points: Sequence[Point], heights: Sequence[float | None], hovers: Sequence[str], colour: str,
    breaks: Sequence[int],
) -> Figure:  # fmt: skip
    marks: list[tuple[float, float | None, str, int, str]] = []
    for week, (point, height, hover) in enumerate(zip(points, heights, hovers, strict=True)):
        if week in breaks:
            # Half a step without a value: what other rules have counted is another line.
            marks.append((week - 0.5, None, "", 0, ""))
        is_last = week == len(points) - 1
        label = f" {_format(point.count)}" if is_last and point.scaled is not None else ""
        marks.append((float(week), height, hover, 7 if is_last else 4, label))
    xs, ys, texts, sizes, labels = (list(column) for column in zip(*marks, strict=True))
    return {
        "type": "scatter", "mode": "lines+markers+text", "x": xs, "y": ys, "connectgaps": False,
        "line": {"color": colour, "width": 1.8}, "marker": {"color": colour, "size": sizes},
        "text": labels, "textposition": "middle right", "textfont": {"size": 11},
        "cliponaxis": False, "customdata": texts,
    } | _HOVER  # fmt: skip


def _unscaled_marks(
    points: Sequence[Point], row: int, hovers: Sequence[str], colour: str
) -> Figure:
    """Mark what was seen where too little is covered to scale it up."""
    weeks = [week for week, point in enumerate(points) if point.scaled is None and point.count]
    last = len(points) - 1
    return {
        "type": "scatter", "mode": "markers+text", "x": weeks,
        "y": [_height(0.12, row)] * len(weeks), "textfont": {"size": 11},
        "text": [f" {_format(points[week].count)}+" if week == last else "" for week in weeks],
        "textposition": "middle right", "cliponaxis": False,
        "marker": {"symbol": "triangle-up-open", "size": 8, "color": colour,
                   "line": {"width": 1.6}},
        "customdata": [hovers[week] for week in weeks],
    } | _HOVER  # fmt: skip


def _caption(view: WeekView) -> str:
    drawn = len(_choose_brokers(view.known_weeks, _MAX_ROWS))
    left = len({broker for week in view.known_weeks for broker in week.brokers}) - drawn
    more = f"; {count(left, 'broker')} with less to tell in the table" if left else ""
    rises = [f"{lowercase_first(title)} {rise}" for signal, title in BROKER_SIGNALS.items()
             if (rise := _rise(view, signal))]  # fmt: skip
    far_above = f" Far above the weeks before: {join_names(rises, len(rises))}." if rises else ""
    return (
        f"{count(len(view.known_weeks), 'week')} of {view.names[0]} to "
        f"{view.names[-1]}, {count(drawn, 'broker')}{more}.{far_above} "
        "Numbers are counted; a point is the count for a whole week, scaled up where logs are "
        "missing; the grey bar beneath it is the share of that week that the broker's logs cover. "
        f"With less than {MIN_SCALABLE_SHARE:.0%} of it there is no point; a triangle marks that "
        "something was seen nevertheless. At a dotted line the rules changed: the counts beside it "
        "are not of the "
        "same kind."
    )


def _rise(view: WeekView, signal: str) -> str | None:
    """Return the count beside the median of the weeks before, if it is at least twice as high."""
    points = _points(view, signal, None)
    before = sorted(point.scaled for point in points[:-1] if point.scaled is not None)
    now, counted = points[-1].scaled, points[-1].count
    if now is None or counted is None or len(before) < 2:
        return None
    median = before[len(before) // 2]
    if now < max(1, 2 * median):
        return None
    # What was counted, not what would have been.
    past = sorted(point.count for point in points[:-1] if point.count is not None)
    return f"{_format(counted)}, usually {_format(past[len(past) // 2])}"


def _broker_table(view: WeekView) -> Markup:
    rows: list[list[Child]] = []
    for broker in (None, *_choose_brokers(view.known_weeks, _MAX_TABLE_BROKERS)):
        for signal, title in BROKER_SIGNALS.items():
            points = _points(view, signal, broker)
            rows.append([_row_name(broker), title, *map(_cell, points)])
    weeks = _week_heads(view)
    head = ("Broker", "Signal", *weeks)
    caption = "Counted, not scaled up; in brackets the share of the week that logs cover"
    return table(head, rows, caption=caption, numbers=weeks)


def _cell(point: Point) -> str:
    if point.coverage is None:
        return "-"
    # Where too little is covered, no count is not zero.
    number = "?" if point.scaled is None and not point.count else _format(point.count)
    covered, expected, _ = point.coverage
    return f"{number} ({100 * covered // expected if expected else 0} %)"


def _cluster_table(view: WeekView) -> Markup:
    rows: list[list[Child]] = [
        [title, *("-" if week is None else _format(week.count(signal)) for week in view.weeks)]
        for signal, title in CLUSTER_SIGNALS.items()
    ]  # fmt: skip
    weeks = _week_heads(view)
    head = ("Signal", *weeks)
    return table(head, rows, caption="Of the whole cluster, counted", numbers=weeks)


def _week_heads(view: WeekView) -> list[str]:
    """Name weeks so briefly that twelve fit beside each other: the last is the one asked for."""
    years = {name[:4] for name in view.names}
    return [name[5:] if len(years) == 1 else f"{name[5:]} {name[:4]}" for name in view.names]
