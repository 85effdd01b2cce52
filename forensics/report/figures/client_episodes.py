"""Figure 6: how long clients worked with old leaders, and when the partitions had moved.

Beside figure 6: how soon the episodes were over, and the limits that they are judged by.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.detection.thresholds import load_limits
from forensics.lib.formatting import count, duration, join_names, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import lane_intervals, plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure, table, tag
from forensics.report.time_bins import Ints
from forensics.run_output.reader import RunOutput, SavedFinding

NAME = "stale-metadata"
# What the names of limits say, in the order of their lengths.
WORDS = {"settled": "after the new leader: no longer transient", "long": "and not over: stuck"}
MIN_EPISODES = 1
TICKS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000)
LEFT, RIGHT = (0.0, 0.62), (0.72, 1.0)


def read_limits(run: RunOutput) -> dict[str, int]:
    """Give in milliseconds what divides transient, sustained and stuck; nothing where not known.

    Packs of one's own may set limits, and only their digests are saved.
    """
    if len(run.document.get("packs") or ()) > 1:
        return {}
    known: Mapping[str, Any] = load_limits().get(NAME) or {}
    return {name: int(known[name] * 1000) for name in WORDS if name in known}


def add_duration_curve(
    drawing: plotly_sheet.Figure, lengths: Sequence[int], known: Mapping[str, int]
) -> None:
    """Make room to the right of the bars, and draw there how many were over within which time."""
    layout = drawing["layout"]
    most = max([*lengths, *known.values(), 1000]) * 1.5
    layout["xaxis"] = layout["xaxis"] | {"domain": list(LEFT)}
    layout["xaxis2"] = {
        "type": "log", "domain": list(RIGHT), "anchor": "y2", "automargin": True,
        "range": [_power(MIN_EPISODES), _power(most)], "zeroline": False, "fixedrange": True,
        "tickvals": [tick for tick in TICKS if tick <= most],
        "ticktext": [duration(tick) for tick in TICKS if tick <= most], "tickangle": -40,
        "title": {"text": "over within", "standoff": 6},
    }  # fmt: skip
    layout["yaxis2"] = {
        "domain": [0, 1], "anchor": "x2", "range": [0, 104], "ticksuffix": " %", "nticks": 5,
        "fixedrange": True, "zeroline": False, "automargin": True,
    }  # fmt: skip
    title = dict(layout["annotations"][0])
    layout["annotations"].append(title | {"text": "Share of all episodes", "x": RIGHT[0]})
    drawing["data"] += [_curve(lengths, most), *(_line(*one) for one in known.items())]


def _power(ms: float) -> float:
    return round(math.log10(ms), 3)


def _curve(lengths: Sequence[int], most: float) -> plotly_sheet.Figure:
    ordered = sorted(max(MIN_EPISODES, length) for length in lengths)
    steps = [(MIN_EPISODES, 0), *((length, at) for at, length in enumerate(ordered, 1)), (most, 0)]
    # Of equally long ones the last counts all.
    last = [one for one, after in pairwise(steps) if one[0] != after[0]]
    points = [(length, 100 * at / len(ordered)) for length, at in last]
    points.append((most, 100.0))
    return {
        "type": "scatter", "mode": "lines", "x": [at for at, _ in points], "xaxis": "x2",
        "y": [round(share, 2) for _, share in points], "yaxis": "y2", "showlegend": False,
        "line": {"shape": "hv", "width": 2.5, "color": "#0072B2"}, "name": "over within",
        "customdata": [f"{share:.0f} % over within {duration(at)}" for at, share in points],
        "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip


def _line(name: str, at: int) -> plotly_sheet.Figure:
    says = f"{duration(at)} {WORDS[name]}"
    fill = theme.VERDICT["sustained" if name == "settled" else "stuck"]
    return {
        "type": "scatter", "mode": "lines", "x": [at, at], "y": [0, 100], "xaxis": "x2",
        "yaxis": "y2", "name": says, "hoverinfo": "name", "showlegend": True,
        "line": {"width": 2, "dash": "dot" if name == "settled" else "dash", "color": fill},
    }  # fmt: skip


MOST = 60
# In pixels: the curve beside a single bar must still be read.
MIN_HEIGHT = 190
STEPS = (100, 1000, 5000, 15_000, 30_000, 60_000, 300_000)
# A client hears of a move at the latest when its metadata are five minutes old; clocks differ.
BEFORE, AFTER = 300_000, 250


def render(run: RunOutput) -> Markup | None:
    """Draw the episodes of stale metadata; None where no client had one."""
    view = lane_intervals.choose_view(run)
    every = [one for one in run.findings if one.detector == "stale-metadata"]
    every = [one for one in every if one.start_ms is not None]
    if not view or not every:
        return None
    ordered = sorted(every, key=lambda one: (-_length(one, view), one.start_ms or 0, one.id))
    drawn = ordered[:MOST]
    names = [
        f"{at}. {join_names(one.clients, 1) or 'not named'}" for at, one in enumerate(drawn, 1)
    ]
    lengths = [_length(one, view) for one in ordered]
    rows = [("First to last error, longest first; a tick: a leader moved",
             max(MIN_HEIGHT, 20 * len(drawn) + 10))]  # fmt: skip
    sheet = plotly_sheet.Sheet(rows, _around(view, drawn))
    for verdict in dict.fromkeys(_verdict(one) for one in drawn):
        mine = [pair for pair in zip(drawn, names, strict=True) if _verdict(pair[0]) == verdict]
        sheet.add_trace(_bars(mine, verdict, sheet.view))
    moves = zip(_moves(run, drawn), names, strict=True)
    moved = [(at, name) for at, name in moves if at is not None]
    if moved:
        sheet.add_trace(_ticks(moved))
    sheet.update_yaxes(**plotly_sheet.name_axis(names))
    drawing = sheet.build(run.findings, time_bins.find_holes(run), showlegend=True)
    known = read_limits(run)
    add_duration_curve(drawing, lengths, known)
    says = _says(ordered, len(drawn), len(moved), view)
    return figure("figure-episodes", drawing, says, _table(lengths, [*known.values()]))


def _around(view: tuple[int, int], drawn: Sequence[SavedFinding]) -> tuple[int, int]:
    starts = [one.start_ms for one in drawn if one.start_ms is not None]
    ends = [one.end_ms or view[1] for one in drawn]
    least, most = min(starts), max(ends)
    edge = max(1000, (most - least) // 20)
    return least - edge, most + edge


def _length(one: SavedFinding, view: tuple[int, int]) -> int:
    """Say how long it lasted: as measured, to the millisecond where both ends are known."""
    start, end = plotly_sheet.finding_span(one, view)
    return end - start


def _verdict(one: SavedFinding) -> str:
    return str(one.measures.get("verdict") or "other")


def _bars(
    pairs: Sequence[tuple[SavedFinding, str]], verdict: str, view: tuple[int, int]
) -> plotly_sheet.Figure:
    bars = []
    for one, name in pairs:
        start, end = plotly_sheet.finding_span(one, view)
        cause = str(one.measures.get("cause") or "not known").replace("_", " ")
        story = (
            f"{shown(join_names(one.clients) or 'not named')}: {shown(verdict)}, "
            f"cause {shown(cause)}, {count(one.measures.get('errors'), 'error')}<br>"
            f"{time_text(start, exact=True)} for {duration(end - start)}"
        )
        bars.append((start, end, shown(name), "", story))
    fill = theme.VERDICT.get(verdict, theme.HATCH)
    trace = plotly_sheet.bar_trace(bars, view, [fill] * len(bars), name=shown(verdict))
    # A short episode is a line, not nothing.
    trace["marker"]["line"] = {"width": 3, "color": fill}
    return trace


def _moves(run: RunOutput, drawn: Sequence[SavedFinding]) -> list[int | None]:
    """Find for each episode when a leader of its topics last moved before it was over."""
    topics = [_topics(one) for one in drawn]
    found: list[int | None] = [None] * len(drawn)
    every = sorted(set[str]().union(*topics))
    where = ds.field("topic").isin(every) & (ds.field("leader_epoch") > 0)
    where &= ds.field("started_at").is_valid()
    for part in run.chunks("leadership", ["topic", "started_at"], where) if every else ():
        names = part["topic"].cast(pa.string()).combine_chunks()
        started = part["started_at"].to_numpy()
        for at, one in enumerate(drawn):
            mine = pc.is_in(names, pa.array(sorted(topics[at]), pa.string()))
            known = started[mine.to_numpy(zero_copy_only=False)]
            found[at] = _latest(known, one, found[at])
    return found


def _topics(one: SavedFinding) -> set[str]:
    names = {name.rpartition("-")[0] for name in one.partitions}
    return names | {str(name) for name in one.measures.get("topics") or ()}


def _latest(started: Ints, one: SavedFinding, before: int | None) -> int | None:
    start = one.start_ms or 0
    end = max(start, start if one.end_ms is None else one.end_ms)
    inside = started[(started >= start - BEFORE) & (started <= end + AFTER)]
    return max([*([] if before is None else [before]), *inside.tolist()], default=None)


def _ticks(moved: Sequence[tuple[int, str]]) -> plotly_sheet.Figure:
    return {
        "type": "scatter", "mode": "markers", "name": "a leader of its topics moved",
        "x": [at for at, _ in moved], "y": [shown(name) for _, name in moved],
        "customdata": [f"a leader moved at {time_text(at, exact=True)}" for at, _ in moved],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"symbol": "line-ns", "size": 14, "line": {"width": 2.5, "color": "#009E73"}},
    }  # fmt: skip


def _says(every: Sequence[SavedFinding], drawn: int, moved: int, view: tuple[int, int]) -> str:
    lengths = sorted(_length(one, view) for one in every)
    verdicts = Counter(map(_verdict, every))
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(verdicts.items()))
    within = sum(length <= 1000 for length in lengths)
    more = f" The longest {drawn} are drawn." if drawn < len(every) else ""
    lacks = drawn - moved
    none = f" For {count(lacks, 'episode')} no move of a leader is seen before." if lacks else ""
    return (
        f"{count(len(every), 'episode')} of stale metadata: {kinds}; half were over within "
        f"{duration(max(1, lengths[len(lengths) // 2]))}, {count(within)} within a second, the "
        f"longest took {duration(max(1, lengths[-1]))}.{none}{more}"
    )


def _table(lengths: Sequence[int], limits: Sequence[int]) -> Markup:
    """Say what the curve says, at a few times and at the limits."""
    steps = sorted({*STEPS, *limits})
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
