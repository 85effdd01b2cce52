"""Figure 6: how long clients worked with old leaders, and when the partitions had moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report import colours, figures, marks, tracks, volumes
from forensics.report.bins import Ints
from forensics.report.escape import plotly as shown
from forensics.report.markup import Markup, figure, table, tag
from forensics.report.plots import shares
from forensics.report.saved import Finding, Saved
from forensics.report.words import clock, count, lasting, listed

__all__ = ["section"]

MOST = 60
# In pixels: the curve beside a single bar must still be read.
MIN_HEIGHT = 190
STEPS = (100, 1000, 5000, 15_000, 30_000, 60_000, 300_000)
# A client hears of a move at the latest when its metadata are five minutes old; clocks differ.
BEFORE, AFTER = 300_000, 250


def section(saved: Saved) -> Markup | None:
    """Draw the episodes of stale metadata; None where no client had one."""
    view = tracks.view(saved)
    every = [one for one in saved.findings if one.detector == "stale-metadata"]
    every = [one for one in every if one.start is not None]
    if not view or not every:
        return None
    ordered = sorted(every, key=lambda one: (-_length(one, view), one.start or 0, one.id))
    drawn = ordered[:MOST]
    names = [f"{at}. {listed(one.clients, 1) or 'not named'}" for at, one in enumerate(drawn, 1)]
    lengths = [_length(one, view) for one in ordered]
    rows = [("First to last error, longest first; a tick: a leader moved",
             max(MIN_HEIGHT, 20 * len(drawn) + 10))]  # fmt: skip
    sheet = figures.Sheet(rows, _around(view, drawn))
    for verdict in dict.fromkeys(_verdict(one) for one in drawn):
        mine = [pair for pair in zip(drawn, names, strict=True) if _verdict(pair[0]) == verdict]
        sheet.add_trace(_bars(mine, verdict, sheet.view))
    moves = zip(_moves(saved, drawn), names, strict=True)
    moved = [(at, name) for at, name in moves if at is not None]
    if moved:
        sheet.add_trace(_ticks(moved))
    sheet.update_yaxes(**figures.row_names(names))
    drawing = sheet.done(saved.findings, volumes.holes(saved), showlegend=True)
    known = shares.limits(saved)
    shares.beside(drawing, lengths, known)
    says = _says(ordered, len(drawn), len(moved), view)
    return figure("figure-episodes", drawing, says, _table(lengths, [*known.values()]))


def _around(view: tuple[int, int], drawn: Sequence[Finding]) -> tuple[int, int]:
    starts = [one.start for one in drawn if one.start is not None]
    ends = [one.end or view[1] for one in drawn]
    least, most = min(starts), max(ends)
    edge = max(1000, (most - least) // 20)
    return least - edge, most + edge


def _length(one: Finding, view: tuple[int, int]) -> int:
    """Say how long it lasted: as measured, to the millisecond where both ends are known."""
    start, end = marks.reach(one, view)
    return end - start


def _verdict(one: Finding) -> str:
    return str(one.measures.get("verdict") or "other")


def _bars(
    pairs: Sequence[tuple[Finding, str]], verdict: str, view: tuple[int, int]
) -> figures.Figure:
    bars = []
    for one, name in pairs:
        start, end = marks.reach(one, view)
        cause = str(one.measures.get("cause") or "not known").replace("_", " ")
        story = (
            f"{shown(listed(one.clients) or 'not named')}: {shown(verdict)}, cause {shown(cause)}, "
            f"{count(one.measures.get('errors'), 'error')}<br>{clock(start, exact=True)} for "
            f"{lasting(end - start)}"
        )
        bars.append((start, end, shown(name), "", story))
    fill = colours.VERDICT.get(verdict, colours.HATCH)
    trace = figures.bar_trace(bars, view, [fill] * len(bars), name=shown(verdict))
    # A short episode is a line, not nothing.
    trace["marker"]["line"] = {"width": 3, "color": fill}
    return trace


def _moves(saved: Saved, drawn: Sequence[Finding]) -> list[int | None]:
    """Find for each episode when a leader of its topics last moved before it was over."""
    topics = [_topics(one) for one in drawn]
    found: list[int | None] = [None] * len(drawn)
    every = sorted(set[str]().union(*topics))
    where = ds.field("topic").isin(every) & (ds.field("leader_epoch") > 0)
    where &= ds.field("started_at").is_valid()
    for part in saved.parts("leadership", ["topic", "started_at"], where) if every else ():
        names = part["topic"].cast(pa.string()).combine_chunks()
        started = part["started_at"].to_numpy()
        for at, one in enumerate(drawn):
            mine = pc.is_in(names, pa.array(sorted(topics[at]), pa.string()))
            known = started[mine.to_numpy(zero_copy_only=False)]
            found[at] = _latest(known, one, found[at])
    return found


def _topics(one: Finding) -> set[str]:
    names = {name.rpartition("-")[0] for name in one.partitions}
    return names | {str(name) for name in one.measures.get("topics") or ()}


def _latest(started: Ints, one: Finding, before: int | None) -> int | None:
    start = one.start or 0
    end = max(start, start if one.end is None else one.end)
    inside = started[(started >= start - BEFORE) & (started <= end + AFTER)]
    return max([*([] if before is None else [before]), *inside.tolist()], default=None)


def _ticks(moved: Sequence[tuple[int, str]]) -> figures.Figure:
    return {
        "type": "scatter", "mode": "markers", "name": "a leader of its topics moved",
        "x": [at for at, _ in moved], "y": [shown(name) for _, name in moved],
        "customdata": [f"a leader moved at {clock(at, exact=True)}" for at, _ in moved],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"symbol": "line-ns", "size": 14, "line": {"width": 2.5, "color": "#009E73"}},
    }  # fmt: skip


def _says(every: Sequence[Finding], drawn: int, moved: int, view: tuple[int, int]) -> str:
    lengths = sorted(_length(one, view) for one in every)
    verdicts = Counter(map(_verdict, every))
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(verdicts.items()))
    within = sum(length <= 1000 for length in lengths)
    more = f" The longest {drawn} are drawn." if drawn < len(every) else ""
    lacks = drawn - moved
    none = f" For {count(lacks, 'episode')} no move of a leader is seen before." if lacks else ""
    return (
        f"{count(len(every), 'episode')} of stale metadata: {kinds}; half were over within "
        f"{lasting(max(1, lengths[len(lengths) // 2]))}, {count(within)} within a second, the "
        f"longest took {lasting(max(1, lengths[-1]))}.{none}{more}"
    )


def _table(lengths: Sequence[int], limits: Sequence[int]) -> Markup:
    """Say what the curve says, at a few times and at the limits."""
    steps = sorted({*STEPS, *limits})
    within = [(step, sum(length <= step for length in lengths)) for step in steps]
    # One line that says that all were over is enough.
    last = next((at for at, (_, number) in enumerate(within) if number == len(lengths)), len(steps))
    listing = table(
        ("Over within", "Episodes", "Share"),
        [[lasting(step), number, f"{100 * number // len(lengths)} %"]
         for step, number in within[: last + 1]],
        caption="How soon episodes were over", numbers=("Episodes", "Share"),
    )  # fmt: skip
    return tag("details", tag("summary", "How soon, as a table"), listing)
