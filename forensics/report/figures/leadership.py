"""Figure 2: who led which partition in which epoch, exactly, and who was in sync."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from forensics.lib.formatting import duration, time_text
from forensics.lib.text_safety import escape_plotly as shown
from forensics.report import plotly_sheet, theme
from forensics.report.lane_intervals import find_gaps
from forensics.report.partition_groups import IsrState, PartitionGroup
from forensics.run_output.partition_histories import LeaderInterval
from forensics.run_output.reader import SavedFinding

TALL = 30
# Rows, bars of leaders and bars of ISRs: with what other figures draw, 4,000 at most.
ROWS, BARS, STATES = 200, 1200, 500
# The axis goes upwards: the bar of the ISR is the lower one.
LEADING: plotly_sheet.Figure = {"width": 0.64, "offset": -0.2}
SYNC: plotly_sheet.Figure = {"width": 0.14, "offset": -0.4}
# By how many are missing.
SIZES = ("#4b5a68", theme.BAD, "#7d63b5", theme.WORST)


def choose_rows(rows: Sequence[PartitionGroup]) -> list[PartitionGroup]:
    """Choose as many of the worst rows as can be drawn exactly."""
    found, bars = list[PartitionGroup](), 0
    for row in rows[:ROWS]:
        bars += 2 * len(row.leader_epochs) + 1
        if bars > BARS and found:
            break
        found.append(row)
    return found


def draw_leaders(
    rows: Sequence[PartitionGroup], view: tuple[int, int], whole: tuple[int, int] | None = None,
    findings: Iterable[SavedFinding] = (), holes: plotly_sheet.Holes = (),
) -> plotly_sheet.Figure:  # fmt: skip
    """Draw who led which partition when: one bar a leader epoch, one trace a broker."""
    sheet = plotly_sheet.Sheet([("", TALL * len(rows))], view)
    reigns = [(row, reign) for row in rows for reign in row.leader_epochs]
    leaders = {reign.leader for _, reign in reigns}
    for leader in sorted(leaders, key=lambda n: (n is None, n == -1, n or 0)):
        mine = [pair for pair in reigns if pair[1].leader == leader]
        sheet.add_trace(_reign_trace(mine, view))
    unknown = list(_unknown(rows, whole)) if whole else []
    if unknown:
        sheet.add_trace(_unknown_trace(unknown, view))
    for trace in _sync_traces(rows, view):
        sheet.add_trace(trace)
    unclean = [pair for pair in reigns if pair[1].unclean]
    if unclean:
        sheet.add_trace(_unclean_trace(unclean))
    sheet.update_yaxes(
        **plotly_sheet.name_axis([row.label for row in rows]), range=[-0.5, len(rows) - 0.5]
    )
    meta = {"rows": {"count": len(rows), "height": TALL}}
    return sheet.build(findings, holes, barmode="overlay", showlegend=True, meta=meta)


def _reign_trace(
    pairs: Sequence[tuple[PartitionGroup, LeaderInterval]], view: tuple[int, int]
) -> plotly_sheet.Figure:
    leader = pairs[0][1].leader
    name, fill, shape = f"broker {leader}", "", ""
    if leader is None:
        name, (fill, shape) = "leader not known", theme.STATE["unknown"]
    elif leader == -1:
        name, fill, shape = "no leader", theme.DARK, "\\"
    bars = [
        (
            reign.start,
            reign.end,
            shown(row.label),
            plotly_sheet.leader_label(reign),
            plotly_sheet.leader_hover(row, reign, name),
        )
        for row, reign in pairs
    ]
    fills = [fill or theme.broker_colour(leader or 0)] * len(bars)
    if fills[0] in theme.GREYS:
        # The eye does not tell greys apart: in the legend they are one.
        name = "other brokers"
    return plotly_sheet.bar_trace(bars, view, fills, shape, name=name, legendgroup=name, **LEADING)


def _unknown(
    rows: Sequence[PartitionGroup], whole: tuple[int, int]
) -> Iterator[tuple[PartitionGroup, tuple[int, int]]]:
    """Give the stretches of which no line says who led."""
    left = BARS // 2
    for row in rows:
        for hole in find_gaps(((reign.start, reign.end) for reign in row.leader_epochs), whole):
            if left and not row.omitted_epochs:
                left -= 1
                yield row, hole


def _unknown_trace(
    holes: Sequence[tuple[PartitionGroup, tuple[int, int]]], view: tuple[int, int]
) -> plotly_sheet.Figure:
    fill, shape = theme.STATE["unknown"]
    bars = [
        (start, end, shown(row.label), "",
         (f"{shown(row.label)}: leader not known<br>"
          f"{time_text(start)} for {duration(end - start)}"))
        for row, (start, end) in holes
    ]  # fmt: skip
    fills = [fill] * len(bars)
    name = "leader not known"
    return plotly_sheet.bar_trace(bars, view, fills, shape, name=name, legendgroup=name, **LEADING)


def _sync_traces(
    rows: Sequence[PartitionGroup], view: tuple[int, int]
) -> Iterator[plotly_sheet.Figure]:
    """Draw a thin bar below each leader's: how many replicas are missing from the ISR."""
    every = [(row, state) for row in rows for state in row.isr_states if state.isr is not None]
    # Where there are too many, what is whole is left out first: blank then means whole.
    short = sorted(every, key=lambda pair: (-_missing(pair[1]), pair[1].start - pair[1].end))
    kept = short[:STATES]
    for missing in sorted({_missing(state) for _, state in kept}):
        mine = [(row, state) for row, state in kept if _missing(state) == missing]
        bars = [(state.start, state.end, shown(row.label), "", _sync(row, state))
                for row, state in mine]  # fmt: skip
        name = (
            "ISR whole"
            if not missing
            else f"{missing}{' or more' if missing == 3 else ''} out of sync"
        )
        fills = [SIZES[missing]] * len(bars)
        yield plotly_sheet.bar_trace(bars, view, fills, name=name, **SYNC)


def _missing(state: IsrState) -> int:
    return min(3, max(0, state.replica_count - len(state.isr or ())))


def _sync(row: PartitionGroup, state: IsrState) -> str:
    isr = ", ".join(map(str, state.isr or ())) or "nobody"
    when = f"{time_text(state.start, exact=True)} for {duration(state.end - state.start)}"
    return f"{shown(row.label)}: in sync {isr}, of {state.replica_count}<br>{when}"


def _unclean_trace(pairs: Sequence[tuple[PartitionGroup, LeaderInterval]]) -> plotly_sheet.Figure:
    return {
        "type": "scatter", "x": [reign.start for _, reign in pairs],
        "y": [shown(row.label) for row, _ in pairs], "mode": "markers",
        "name": "U, red edge: unclean election", "hoverinfo": "skip",
        "marker": {"symbol": "line-ns", "size": 18, "line": {"width": 4, "color": theme.UNCLEAN}},
    }  # fmt: skip
