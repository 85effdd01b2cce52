"""Figure 8: small multiples, a row for each broker and a column for each signal, week by week.

Beneath each point stands how much of that week the broker's logs cover. A point is what the count
would be were all covered; where too little is, there is no point, only a mark for what was seen.
The line is broken there, and where the rules changed.

Twelve weeks of every signal and broker, as small multiples and as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forensics.lib.formatting import count, join_names
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import theme
from forensics.report.html import Child, Markup, figure, table, tag
from forensics.report.plotly_sheet import CLEAR, CONFIG, FONT, Figure
from forensics.weekly.coverage_normalisation import (
    MIN_SCALABLE_SHARE,
    Coverage,
    WeekSummary,
    coverage,
    format_coverage,
    node_of,
    per_window,
    same_rules,
    span_of,
)
from forensics.weekly.metrics import BROKER_SIGNALS, CLUSTER_SIGNALS, Signal
from forensics.weekly.pages.week_view import WeekView
from forensics.weekly.week_verdict import cluster_total, lowercase_first

# More rows than that are read by nobody; the table below the figure has them all.
MOST = 8
ALL = "all brokers"
HIGH, HEAD, FOOT = 74, 46, 34
# Of a row, from below: the bar of coverage, a gap, the line.
BAR, LOW, TALL = 0.14, 0.26, 0.58
Weeks = Sequence[WeekSummary | None]


@dataclass(frozen=True)
class Point:
    """One signal of one broker, or of all, in one week."""

    week: str
    # what was counted, and what it would be were all covered; None: nobody knows
    count: float | None
    value: float | None
    covered: Coverage | None

    @property
    def ratio(self) -> float:
        """Which share is covered."""
        return self.covered[0] / self.covered[1] if self.covered and self.covered[1] else 0.0


def points(names: Sequence[str], weeks: Weeks, key: str, broker: int | None) -> list[Point]:
    """Give one signal of a broker, or of all, in each week."""
    return [_point(name, one, key, broker) for name, one in zip(names, weeks, strict=True)]


def _point(name: str, one: WeekSummary | None, key: str, broker: int | None) -> Point:
    if one is None:
        return Point(name, None, None, None)
    if broker is None:
        count, covered = cluster_total(one, key), coverage(one)
    else:
        told = one["signals"]["brokers"].get(str(broker), {})
        count, covered = float(told.get(key, 0)), coverage(one, [node_of(one, broker)])
        if broker not in one["brokers"]:
            return Point(name, None, None, (0, span_of(one)))
    value = None if count is None else per_window(count, covered)
    return Point(name, count, value, covered)


def chosen(weeks: Weeks, most: int = MOST) -> list[int]:
    """Choose the brokers of which there is most to tell, and give them by number."""
    known = [one for one in weeks if one is not None]
    every = sorted({broker for one in known for broker in one["brokers"]})
    harm = dict.fromkeys(every, 0.0)
    for signal in BROKER_SIGNALS:
        sums = {
            broker: sum(
                one["signals"]["brokers"].get(str(broker), {}).get(signal.key, 0) for one in known
            )
            for broker in every
        }
        highest = max(sums.values(), default=0)
        for broker in every if highest else ():
            harm[broker] += sums[broker] / highest
    return sorted(sorted(every, key=lambda broker: (-harm[broker], broker))[:most])


def drawing(names: Sequence[str], weeks: Weeks) -> Figure:
    """Draw the grid."""
    brokers = chosen(weeks)
    rows: list[int | None] = [None, *brokers]
    breaks = _breaks(weeks)
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    traces: list[Figure] = []
    for at, signal in enumerate(BROKER_SIGNALS):
        grid = [points(names, weeks, signal.key, broker) for broker in rows]
        traces += _column(at, signal, grid, rows, breaks)
        _axes(layout, at, len(names), rows)
        layout["annotations"].append(_title(at, signal))
        layout["shapes"] += [_broken(at, place) for place in breaks]
    layout["xaxis"]["ticktext"] = [shown(names[0][-3:]), shown(names[-1][-3:])]
    layout |= {
        "height": HEAD + FOOT + HIGH * len(rows), "showlegend": False, "barmode": "overlay",
        "margin": {"l": 8, "r": 8, "t": HEAD, "b": FOOT}, "hovermode": "closest",
        "font": {"family": FONT, "size": 11}, "paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR,
        "uirevision": "fixed", "dragmode": False,
        "modebar": {"bgcolor": CLEAR, "color": theme.HATCH, "activecolor": "#0072B2"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
    }  # fmt: skip
    config = CONFIG | {"modeBarButtons": [["toImage"]]}
    return {"data": traces, "layout": layout, "config": config}


def _breaks(weeks: Weeks) -> list[int]:
    """Find the weeks whose rules are others than those of the last week known before."""
    found, last = [], None
    for at, one in enumerate(weeks):
        if one is None:
            continue
        if last is not None and not same_rules((last, one)):
            found.append(at)
        last = one
    return found


def _axes(layout: dict[str, Any], at: int, weeks: int, rows: Sequence[int | None]) -> None:
    number = "" if not at else str(at + 1)
    wide = 1 / len(BROKER_SIGNALS)
    names = [ALL if broker is None else f"broker {broker}" for broker in rows]
    layout[f"xaxis{number}"] = {
        "domain": [round(at * wide + 0.012, 4), round((at + 1) * wide - 0.012, 4)],
        "range": [-0.7, weeks + 1.3], "fixedrange": True, "zeroline": False, "showgrid": False,
        "tickvals": [0, weeks - 1], "anchor": f"y{number}", "tickangle": 0,
        "ticktext": ["", ""], "ticks": "",
    }  # fmt: skip
    layout[f"yaxis{number}"] = {
        "domain": [0, 1], "range": [-len(rows) + 0.95, 1.0], "fixedrange": True,
        "zeroline": False, "tickvals": [-row for row in range(len(rows))], "showgrid": True,
        "ticktext": names if not at else [""] * len(rows), "automargin": not at,
        "anchor": f"x{number}", "ticks": "", "tickfont": {"size": 12},
        "ticklabelshift": -14 if not at else 0,
    }  # fmt: skip


def _title(at: int, signal: Signal) -> Figure:
    number = "" if not at else str(at + 1)
    first, _, rest = signal.title.partition(" ")
    return {
        "text": f"<b>{first}<br>{rest}</b>", "x": 0, "y": 1, "yshift": 4, "showarrow": False,
        "xref": f"x{number} domain", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "align": "left", "font": {"size": 11},
    }  # fmt: skip


def _broken(at: int, place: int) -> Figure:
    number = "" if not at else str(at + 1)
    return {
        "type": "line", "xref": f"x{number}", "yref": "paper", "x0": place - 0.5,
        "x1": place - 0.5, "y0": 0, "y1": 1, "line": {"width": 1.5, "dash": "dot",
        "color": theme.WORSE}, "layer": "below",
    }  # fmt: skip


def _column(
    at: int,
    signal: Signal,
    grid: Sequence[Sequence[Point]],
    rows: Sequence[int | None],
    breaks: Sequence[int],
) -> list[Figure]:
    axes = {} if not at else {"xaxis": f"x{at + 1}", "yaxis": f"y{at + 1}"}
    # Brokers share a scale, so that the one that stands out does.
    shared = max([1.0, *(_top(row) for row, who in zip(grid, rows, strict=True) if who)])
    traces = [_bars(grid) | axes]
    for place, (row, broker) in enumerate(zip(grid, rows, strict=True)):
        scale = shared if broker is not None else max(1.0, _top(row))
        colour = theme.HATCH if broker is None else theme.broker_colour(broker)
        who = ALL if broker is None else f"broker {broker}"
        traces.append(_line(row, place, scale, colour, breaks, f"{who}: {signal.title}") | axes)
        if seen := _seen(row, place, colour, f"{who}: {signal.title}"):
            traces.append(seen | axes)
    return traces


def _top(row: Sequence[Point]) -> float:
    return max((one.value or 0.0 for one in row), default=0.0)


def _bars(grid: Sequence[Sequence[Point]]) -> Figure:
    """Draw under each point how much is covered; a week that is not in the store has no bar."""
    known = [(at, -place, one) for place, row in enumerate(grid) for at, one in enumerate(row)
             if one.covered is not None]  # fmt: skip
    return {
        "type": "bar", "x": [at for at, _, _ in known], "base": [base for _, base, _ in known],
        "y": [round(BAR * one.ratio, 3) for _, _, one in known], "width": 0.72,
        "marker": {"color": theme.HATCH, "line": {"width": 0}},
        "customdata": [f"{shown(one.week)}: logs cover {format_coverage(one.covered or (0, 0))}"
                       for _, _, one in known],
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _line(  # noqa: PLR0913, PLR0917
    row: Sequence[Point], place: int, scale: float, colour: str, breaks: Sequence[int], name: str
) -> Figure:
    marks: list[tuple[float, float | None, str, int, str]] = []
    for at, one in enumerate(row):
        if at in breaks:
            # Half a step without a value: what other rules have counted is another line.
            marks.append((at - 0.5, None, "", 0, ""))
        last = at == len(row) - 1
        height = None if one.value is None else _height(one.value / scale, place)
        word = f" {format_count(one.value)}" if last and one.value is not None else ""
        marks.append((float(at), height, _story(name, one), 7 if last else 4, word))
    xs, ys, says, sizes, words = (list(column) for column in zip(*marks, strict=True))
    return {
        "type": "scatter", "mode": "lines+markers+text", "x": xs, "y": ys, "connectgaps": False,
        "line": {"color": colour, "width": 1.8}, "marker": {"color": colour, "size": sizes},
        "text": words, "textposition": "middle right", "textfont": {"size": 11},
        "cliponaxis": False, "customdata": says, "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _seen(row: Sequence[Point], place: int, colour: str, name: str) -> Figure | None:
    """Mark what was seen where too little is covered to say how much there was in all."""
    some = [(at, one) for at, one in enumerate(row) if one.value is None and one.count]
    if not some:
        return None
    return {
        "type": "scatter", "mode": "markers+text", "x": [at for at, _ in some],
        "y": [_height(0.12, place)] * len(some), "textfont": {"size": 11},
        "text": [f" {format_count(one.count)}+" if at == len(row) - 1 else "" for at, one in some],
        "textposition": "middle right", "cliponaxis": False,
        "marker": {"symbol": "triangle-up-open", "size": 8, "color": colour,
                   "line": {"width": 1.6}},
        "customdata": [_story(name, one) for _, one in some],
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _height(share: float, place: int) -> float:
    return round(-place + LOW + TALL * share, 3)


def _story(name: str, one: Point) -> str:
    told = f"{name}, {shown(one.week)}"
    if one.covered is None:
        return f"{told}: this week is not in the store"
    where = f"logs cover {format_coverage(one.covered)}"
    if one.count is None or (one.value is None and not one.count):
        return f"{told}: not known, {where}"
    if one.value is None:
        return f"{told}: at least {format_count(one.count)}, {where}"
    if one.value == one.count:
        return f"{told}: {format_count(one.count)}, {where}"
    seen, covered = format_count(one.count), format_count(one.value)
    return f"{told}: {seen} seen, {covered} were all covered; {where}"


def format_count(value: float | None) -> str:
    """Write a count, whole where it is large."""
    if value is None:
        return "not known"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")


ROWS = 60


def draw_trend(view: WeekView) -> Markup:
    """Draw the grid, with what it says in words and its numbers below it."""
    grid = drawing(view.names, view.weeks)
    folded = tag("details", tag("summary", "Signals as a table"), _table(view))
    return figure("figure-trend", grid, _says(view), folded, _cluster(view))


def _says(view: WeekView) -> str:
    known = sum(one is not None for one in view.weeks)
    brokers = chosen(view.weeks)
    every = {broker for one in view.weeks if one for broker in one["brokers"]}
    left = len(every) - len(brokers)
    more = f"; {count(left, 'broker')} with less to tell in the table" if left else ""
    told = ((lowercase_first(signal.title), _rise(view, signal)) for signal in BROKER_SIGNALS)
    worst = [f"{title} {words}" for title, words in told if words]
    rises = (
        f" Far above the weeks before: {join_names(worst, len(BROKER_SIGNALS))}." if worst else ""
    )
    over = f"{view.names[0]} to {view.names[-1]}"
    return (
        f"{count(known, 'week')} of {over}, {count(len(brokers), 'broker')}{more}.{rises} "
        "A point is the count for a whole week, scaled up where logs are missing; the grey bar "
        "beneath it is the share of that week that the broker's logs cover. With less than "
        f"{MIN_SCALABLE_SHARE:.0%} there is no point; a triangle marks that something was seen "
        "nevertheless. At a dotted line the rules changed: the counts beside it are not of "
        "the same kind."
    )


def _rise(view: WeekView, signal: Signal) -> str | None:
    """Say how far the week is above the middle of the weeks before it."""
    row = points(view.names, view.weeks, signal.key, None)
    before = sorted(one.value for one in row[:-1] if one.value is not None)
    now = row[-1].value
    if now is None or len(before) < 2:
        return None
    middle = before[len(before) // 2]
    if now < 1 or now < 2 * middle:
        return None
    return f"{format_count(now)} against {format_count(middle)}"


def _table(view: WeekView) -> Markup:
    every = chosen(view.weeks, ROWS)
    rows: list[list[Child]] = []
    for broker in (None, *every):
        name = ALL if broker is None else f"broker {broker}"
        rows.extend(
            [name, signal.title, *(_cell(one) for one in points(view.names, view.weeks, signal.key,
                                                                broker))]
            for signal in BROKER_SIGNALS
        )  # fmt: skip
    head = ("Broker", "Signal", *view.names)
    caption = "Counted, not scaled up; in brackets the share of the week that logs cover"
    return table(head, rows, caption=caption, numbers=view.names)


def _cell(one: Point) -> str:
    if one.covered is None:
        return "-"
    # What is not covered and shows nothing is not nothing.
    told = "?" if one.value is None and not one.count else format_count(one.count)
    part, whole = one.covered
    return f"{told} ({100 * part // whole if whole else 0} %)"


def _cluster(view: WeekView) -> Markup:
    rows: list[list[Child]] = [
        [signal.title, *(_total(one, signal) for one in view.weeks)] for signal in CLUSTER_SIGNALS
    ]
    head = ("Signal", *view.names)
    return table(head, rows, caption="Of the whole cluster, counted", numbers=view.names)


def _total(one: object, signal: Signal) -> str:
    return "-" if one is None else format_count(cluster_total(one, signal.key))  # type: ignore[arg-type]
