"""Figure 6: how long clients worked with old leaders, and how soon that was over."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from plotly import graph_objects as go

from forensics.detection.thresholds import load_limits
from forensics.lib.text_format import count, duration, join_names, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure, table, tag
from forensics.report.lane_intervals import choose_view
from forensics.report.plotly_sheet import Figure, Sheet, Span, finding_span
from forensics.report.time_bins import Ints
from forensics.run_output.reader import RunOutput, SavedFinding

DETECTOR = "stale-metadata"
MAX_EPISODES = 60
# In pixels: the curve beside a single bar must still be read.
MIN_HEIGHT = 190
# A client hears of a move at the latest when its metadata are five minutes old; clocks differ.
BEFORE_MS, AFTER_MS = 300_000, 250
TABLE_STEPS = (100, 1000, 5000, 15_000, 30_000, 60_000, 300_000)

# What the names of limits say, in the order of their lengths.
LIMITS = {"settled": "after the new leader: no longer transient", "long": "and not over: stuck"}
MIN_LENGTH = 1
TICKS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000)
BARS_DOMAIN, CURVE_DOMAIN = (0.0, 0.62), (0.72, 1.0)


def render(run: RunOutput) -> Markup | None:
    """Draw the episodes of stale metadata; None where no client had one."""
    view = choose_view(run)
    episodes = [one for one in run.findings if one.detector == DETECTOR]
    episodes = [one for one in episodes if one.start_ms is not None]
    if not view or not episodes:
        return None
    episodes.sort(key=lambda one: (-_length(one, view), one.start_ms or 0, one.id))
    drawn = episodes[:MAX_EPISODES]
    names = [f"{number}. {join_names(one.clients, 1) or 'not named'}"
             for number, one in enumerate(drawn, 1)]  # fmt: skip
    lengths = [_length(one, view) for one in episodes]
    title = "First to last error, longest first; a tick: a leader moved"
    sheet = Sheet([(title, max(MIN_HEIGHT, 20 * len(drawn) + 10))], _around(view, drawn))
    for verdict in dict.fromkeys(map(_verdict, drawn)):
        pairs = [pair for pair in zip(drawn, names, strict=True) if _verdict(pair[0]) == verdict]
        sheet.add_trace(_bars(pairs, verdict, sheet.view))
    moves = [(at, name) for at, name in zip(_find_moves(run, drawn), names, strict=True)
             if at is not None]  # fmt: skip
    if moves:
        sheet.add_trace(_move_ticks(moves))
    sheet.update_yaxes(**plotly_sheet.name_axis(names))
    limits = read_limits(run)
    curve = add_duration_curve(sheet, lengths, limits)
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=True, **curve)
    caption = _caption(episodes, lengths, len(drawn), len(moves))
    return figure("figure-episodes", drawing, caption, _table(lengths, [*limits.values()]))


def _around(view: Span, episodes: Sequence[SavedFinding]) -> Span:
    start = min(one.start_ms for one in episodes if one.start_ms is not None)
    end = max(one.end_ms or view[1] for one in episodes)
    margin = max(1000, (end - start) // 20)
    return start - margin, end + margin


def _length(episode: SavedFinding, view: Span) -> int:
    """Return how long it lasted: as measured, to the millisecond where both ends are known."""
    start, end = finding_span(episode, view)
    return end - start


def _verdict(episode: SavedFinding) -> str:
    return str(episode.measures.get("verdict") or "other")


def _bars(episodes: Sequence[tuple[SavedFinding, str]], verdict: str, view: Span) -> go.Bar:
    bars = []
    for episode, name in episodes:
        start, end = finding_span(episode, view)
        cause = str(episode.measures.get("cause") or "not known").replace("_", " ")
        hover = (
            f"{shown(join_names(episode.clients) or 'not named')}: {shown(verdict)}, cause "
            f"{shown(cause)}, {count(episode.measures.get('errors'), 'error')}<br>"
            f"{time_text(start, exact=True)} for {duration(end - start)}"
        )
        bars.append((start, end, shown(name), "", hover))
    fill = theme.VERDICT.get(verdict, theme.HATCH)
    trace = plotly_sheet.bar_trace(bars, [fill] * len(bars), name=shown(verdict))
    # A short episode is a line, not nothing.
    trace.marker.line = {"width": 3, "color": fill}
    return trace


def _find_moves(run: RunOutput, episodes: Sequence[SavedFinding]) -> list[int | None]:
    """Find for each episode when a leader of its topics last moved before it was over."""
    topics = [_topics(one) for one in episodes]
    latest: list[int | None] = [None] * len(episodes)
    every = sorted(set[str]().union(*topics))
    where = ds.field("topic").isin(every) & (ds.field("leader_epoch") > 0)
    where &= ds.field("started_at").is_valid()
    for chunk in run.chunks("leadership", ["topic", "started_at"], where) if every else ():
        names = chunk["topic"].cast(pa.string()).combine_chunks()
        times = chunk["started_at"].to_numpy()
        for index, episode in enumerate(episodes):
            is_own = pc.is_in(names, pa.array(sorted(topics[index]), pa.string()))
            own = times[is_own.to_numpy(zero_copy_only=False)]
            latest[index] = _latest_move(own, episode, latest[index])
    return latest


def _topics(episode: SavedFinding) -> set[str]:
    names = {name.rpartition("-")[0] for name in episode.partitions}
    return names | {str(name) for name in episode.measures.get("topics") or ()}


def _latest_move(times: Ints, episode: SavedFinding, before: int | None) -> int | None:
    start = episode.start_ms or 0
    end = max(start, start if episode.end_ms is None else episode.end_ms)
    inside = times[(times >= start - BEFORE_MS) & (times <= end + AFTER_MS)]
    return max([*([] if before is None else [before]), *inside.tolist()], default=None)


def _move_ticks(moves: Sequence[tuple[int, str]]) -> go.Scatter:
    return go.Scatter(
        mode="markers", name="a leader of its topics moved",
        x=[at for at, _ in moves], y=[shown(name) for _, name in moves],
        hovertemplate=plotly_sheet.HOVER,
        customdata=[f"a leader moved at {time_text(at, exact=True)}" for at, _ in moves],
        marker={"symbol": "line-ns", "size": 14, "line": {"width": 2.5, "color": "#009E73"}},
    )  # fmt: skip


def _caption(
    episodes: Sequence[SavedFinding], lengths: Sequence[int], drawn: int, with_move: int
) -> str:
    ordered = sorted(lengths)
    verdicts = Counter(map(_verdict, episodes))
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(verdicts.items()))
    within = sum(length <= 1000 for length in lengths)
    more = f" The longest {drawn} are drawn." if drawn < len(episodes) else ""
    unmoved = drawn - with_move
    none = f" For {count(unmoved, 'episode')} no move of a leader is seen before."
    return (
        f"{count(len(episodes), 'episode')} of stale metadata: {kinds}; half were over within "
        f"{duration(max(1, ordered[len(ordered) // 2]))}, {count(within)} within a second, the "
        f"longest took {duration(max(1, ordered[-1]))}.{none if unmoved else ''}{more}"
    )


def _table(lengths: Sequence[int], limits: Sequence[int]) -> Markup:
    """Say what the curve says, at a few times and at the limits."""
    steps = sorted({*TABLE_STEPS, *limits})
    within = [(step, sum(length <= step for length in lengths)) for step in steps]
    # One line that says that all were over is enough.
    last = next((at for at, (_, number) in enumerate(within) if number == len(lengths)), len(steps))
    listing = table(
        ("Over within", "Episodes", "Share"),
        [[duration(step), number, f"{100 * number // len(lengths)} %"]
         for step, number in within[: last + 1]],
        caption="How soon episodes were over", numbers=("Episodes", "Share"),
    )  # fmt: skip
    return tag("details", tag("summary", "How soon, as a table"), listing)


def read_limits(run: RunOutput) -> dict[str, int]:
    """Return in milliseconds what divides transient, sustained and stuck; empty if not known.

    Packs of one's own may set limits, and only their digests are saved.
    """
    if len(run.document.get("packs") or ()) > 1:
        return {}
    limits: Mapping[str, Any] = load_limits().get(DETECTOR) or {}
    return {name: int(limits[name] * 1000) for name in LIMITS if name in limits}


def add_duration_curve(sheet: Sheet, lengths: Sequence[int], limits: Mapping[str, int]) -> Figure:
    """Draw to the right of the bars how many were over within which time.

    Return what the layout needs, room for it included.
    """
    longest = max([*lengths, *limits.values(), 1000]) * 1.5
    ticks = [tick for tick in TICKS if tick <= longest]
    sheet.add_title("Share of all episodes", CURVE_DOMAIN[0], 1)
    sheet.traces += [_curve(lengths, longest), *(_limit_line(*one) for one in limits.items())]
    axis = {
        "type": "log", "domain": CURVE_DOMAIN, "anchor": "y2", "fixedrange": True,
        "range": [round(math.log10(ms), 3) for ms in (MIN_LENGTH, longest)], "tickangle": -40,
        "tickvals": ticks, "ticktext": list(map(duration, ticks)),
        "title": {"text": "over within", "standoff": 6},
    }  # fmt: skip
    return {
        "xaxis": sheet.time_axis() | {"domain": BARS_DOMAIN}, "xaxis2": axis,
        "yaxis2": {"domain": [0, 1], "anchor": "x2", "range": [0, 104], "ticksuffix": " %",
                   "nticks": 5, "fixedrange": True},
    }  # fmt: skip


def _curve(lengths: Sequence[int], longest: float) -> go.Scatter:
    ordered = sorted(max(MIN_LENGTH, length) for length in lengths)
    steps = [(MIN_LENGTH, 0), *((length, at) for at, length in enumerate(ordered, 1)), (longest, 0)]
    # Of equally long ones the last counts all.
    last = [step for step, after in pairwise(steps) if step[0] != after[0]]
    points = [(length, 100 * number / len(ordered)) for length, number in last]
    points.append((longest, 100.0))
    return go.Scatter(
        mode="lines", x=[length for length, _ in points], xaxis="x2", name="over within",
        y=[round(share, 2) for _, share in points], yaxis="y2", showlegend=False,
        line={"shape": "hv", "width": 2.5, "color": "#0072B2"},
        hovertemplate=plotly_sheet.HOVER,
        customdata=[f"{share:.0f} % over within {duration(length)}" for length, share in points],
    )  # fmt: skip


def _limit_line(name: str, at: int) -> go.Scatter:
    fill = theme.VERDICT["sustained" if name == "settled" else "stuck"]
    words = f"{duration(at)} {LIMITS[name]}"
    return go.Scatter(
        mode="lines", x=[at, at], y=[0, 100], xaxis="x2", yaxis="y2", name=words, showlegend=True,
        line={"width": 2, "dash": "dot" if name == "settled" else "dash", "color": fill},
        hovertemplate=f"{words}<extra></extra>",
    )  # fmt: skip
