"""Figure 2: who led which partition in which epoch, exactly, and who was in sync."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from plotly import graph_objects as go

from forensics.lib import intervals
from forensics.lib.text_format import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import plotly_sheet, theme
from forensics.report.partition_groups import IsrState, PartitionGroup
from forensics.report.plotly_sheet import Figure, Sheet, Span
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import SavedFinding

ROW_HEIGHT = 30
# Rows, bars of leaders and bars of ISRs: with what other figures draw, 4,000 at most.
MAX_ROWS, MAX_BARS, MAX_ISR_BARS = 200, 1200, 500
# The axis goes upwards: the bar of the ISR is the lower one.
LEADER_BAR: Figure = {"width": 0.64, "offset": -0.2}
ISR_BAR: Figure = {"width": 0.14, "offset": -0.4}
# By how many replicas are missing.
ISR_COLOURS = ("#66788a", theme.BAD, "#7d63b5", theme.WORST)
Epoch = tuple[PartitionGroup, LeaderInterval]


def choose_rows(rows: Sequence[PartitionGroup]) -> list[PartitionGroup]:
    """Choose as many of the worst rows as can be drawn exactly."""
    chosen, bars = list[PartitionGroup](), 0
    for row in rows[:MAX_ROWS]:
        bars += 2 * len(row.leader_epochs) + 1
        if bars > MAX_BARS and chosen:
            break
        chosen.append(row)
    return chosen


def draw_leaders(
    rows: Sequence[PartitionGroup], view: Span, window: Span | None = None,
    findings: Iterable[SavedFinding] = (), holes: plotly_sheet.Holes = (),
) -> Figure:  # fmt: skip
    """Draw who led which partition when: one bar a leader epoch, one trace a broker."""
    sheet = Sheet([("", ROW_HEIGHT * len(rows))], view, axis_on_top=True)
    epochs = [(row, epoch) for row in rows for epoch in row.leader_epochs]
    leaders = {epoch.leader for _, epoch in epochs}
    for leader in sorted(leaders, key=lambda n: (n is None, n == -1, n or 0)):
        sheet.add_trace(_leader_trace([pair for pair in epochs if pair[1].leader == leader]))
    if gaps := list(_find_gaps(rows, window)) if window else []:
        sheet.add_trace(_gap_trace(gaps))
    for trace in _isr_traces(rows):
        sheet.add_trace(trace)
    if unclean := [pair for pair in epochs if pair[1].unclean]:
        sheet.add_trace(_unclean_trace(unclean))
    names = plotly_sheet.name_axis([row.label for row in rows])
    sheet.update_yaxes(**names, range=[-0.5, len(rows) - 0.5])
    meta = {"rows": {"count": len(rows), "height": ROW_HEIGHT}}
    return sheet.build(findings, holes, barmode="overlay", showlegend=True, meta=meta)


def _leader_trace(epochs: Sequence[Epoch]) -> go.Bar:
    leader = epochs[0][1].leader
    name, fill, pattern = f"broker {leader}", "", ""
    if leader is None:
        name, (fill, pattern) = "leader not known", theme.STATE["unknown"]
    elif leader == -1:
        name, fill, pattern = "no leader", theme.NONE, "\\"
    bars = [
        (epoch.start, epoch.end, shown(row.label), plotly_sheet.leader_label(epoch),
         plotly_sheet.leader_hover(row, epoch, name))
        for row, epoch in epochs
    ]  # fmt: skip
    fill = fill or theme.broker_colour(leader or 0)
    if fill in theme.GREYS:
        # The eye does not tell greys apart: in the legend they are one.
        name = "other brokers"
    return _bar_trace(bars, fill, pattern, name=name, legendgroup=name, **LEADER_BAR)


def _bar_trace(
    bars: Sequence[tuple[int, int, str, str, str]], fill: str, pattern: str = "",
    **more: object,
) -> go.Bar:  # fmt: skip
    return plotly_sheet.bar_trace(bars, [fill] * len(bars), pattern, **more)


def _find_gaps(
    rows: Sequence[PartitionGroup], window: Span
) -> Iterator[tuple[PartitionGroup, Span]]:
    """Yield the times of which no line says who led."""
    gaps = (
        (row, gap)
        for row in rows
        if not row.omitted_epochs
        for gap in intervals.gaps(((one.start, one.end) for one in row.leader_epochs), window)
    )
    return islice(gaps, MAX_BARS // 2)


def _gap_trace(gaps: Sequence[tuple[PartitionGroup, Span]]) -> go.Bar:
    name, (fill, pattern) = "leader not known", theme.STATE["unknown"]
    bars = [
        (start, end, shown(row.label), "",
         f"{shown(row.label)}: {name}<br>{time_text(start)} for {duration(end - start)}")
        for row, (start, end) in gaps
    ]  # fmt: skip
    return _bar_trace(bars, fill, pattern, name=name, legendgroup=name, **LEADER_BAR)


def _isr_traces(rows: Sequence[PartitionGroup]) -> Iterator[go.Bar]:
    """Draw a thin bar below each leader's: how many replicas are missing from the ISR."""
    states = [(row, state) for row in rows for state in row.isr_states if state.isr is not None]
    # Where there are too many, what is whole is left out first: blank then means whole.
    states.sort(key=lambda pair: (-_missing(pair[1]), pair[1].start - pair[1].end))
    kept = states[:MAX_ISR_BARS]
    for missing in sorted({_missing(state) for _, state in kept}):
        bars = [(state.start, state.end, shown(row.label), "", _isr_hover(row, state))
                for row, state in kept if _missing(state) == missing]  # fmt: skip
        more = " or more" if missing == 3 else ""
        name = f"{missing}{more} out of sync" if missing else "ISR whole"
        yield _bar_trace(bars, ISR_COLOURS[missing], name=name, **ISR_BAR)


def _missing(state: IsrState) -> int:
    return min(3, max(0, state.replica_count - len(state.isr or ())))


def _isr_hover(row: PartitionGroup, state: IsrState) -> str:
    isr = ", ".join(map(str, state.isr or ())) or "nobody"
    when = f"{time_text(state.start, exact=True)} for {duration(state.end - state.start)}"
    return f"{shown(row.label)}: in sync {isr}, of {state.replica_count}<br>{when}"


def _unclean_trace(epochs: Sequence[Epoch]) -> go.Scatter:
    return go.Scatter(
        x=[epoch.start for _, epoch in epochs], y=[shown(row.label) for row, _ in epochs],
        mode="markers", name="U, red edge: unclean election", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 18, "line": {"width": 4, "color": theme.UNCLEAN}},
    )  # fmt: skip
