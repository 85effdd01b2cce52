"""Partitions by time as coloured cells: leaders in figure 1, and figure 3, missing replicas."""

from __future__ import annotations

import numpy as np
from plotly import graph_objects as go

from forensics.detection.shared.min_isr import MinIsr
from forensics.lib.text_format import count, duration
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure, render_legend, table, tag
from forensics.report.plotly_sheet import Sheet, Span
from forensics.report.time_bins import BELOW_MIN_ISR, NOT_KNOWN, Grid, Ints
from forensics.run_output.reader import RunOutput

# What is quiet on white and on black: nothing is wrong there. No cell lets a band shine through.
SEVERAL, MANY, BLANK = "#d6006c", "var(--many)", theme.LACKING
IN_SYNC, MISSING = "var(--in-sync)", (theme.BAD, "#7d63b5", theme.WORST)
BELOW = theme.WORSE
MAX_NAMES, MAX_ROWS = 30, 100
Legend = list[tuple[str, str]]
LEADER_WORDS = {
    -1: "no leader", -2: "leader not known", time_bins.SEVERAL: "several leaders within this cell",
    time_bins.MANY: "many partitions",
}  # fmt: skip


def draw_leaders(sheet: Sheet, row: int, grid: Grid) -> None:
    """Draw who leads each group of partitions."""
    colours = leader_colours(grid)
    words = {code: LEADER_WORDS.get(code, f"led by broker {code}") for code in colours}
    sheet.add_trace(_trace(grid, grid.leaders, colours, words), row)
    sheet.update_yaxes(row, **plotly_sheet.name_axis(grid.names, MAX_NAMES))


def leaders_legend(grid: Grid) -> Legend:
    """Say which colour is which leader."""
    words = {-1: "no leader", -2: "leader not known", time_bins.SEVERAL: "several within the cell",
             time_bins.MANY: "many partitions"}  # fmt: skip
    colours = leader_colours(grid)
    codes = sorted(colours, key=lambda code: (code < 0, abs(code)))
    named = [code for code in codes if code < 0 or colours[code] not in theme.GREYS]
    legend = [(colours[code], words.get(code) or f"broker {code}") for code in named]
    if len(named) < len(codes):
        legend.append((theme.GREYS[0], "other brokers"))
    return legend


def leader_colours(grid: Grid) -> dict[int, str]:
    """Return the colour of each code of a leader."""
    known = {-1: theme.NONE, -2: BLANK, time_bins.SEVERAL: SEVERAL, time_bins.MANY: MANY}
    codes = (int(code) for code in np.unique(grid.leaders))
    return {code: known.get(code) or theme.broker_colour(code) for code in codes}


def draw_missing(sheet: Sheet, row: int, grid: Grid) -> None:
    """Draw how many replicas were out of sync."""
    colours = {int(code): _missing_colour(code) for code in np.unique(grid.missing)}
    words = {code: _missing_words(code) for code in colours}
    sheet.add_trace(_trace(grid, grid.missing, colours, words), row)
    sheet.update_yaxes(row, **plotly_sheet.name_axis(grid.names, MAX_NAMES))


def missing_legend(grid: Grid) -> Legend:
    """Say which colour is how bad."""
    words = ["all replicas in sync", "1 missing", "2 missing", "3 or more missing"]
    codes = [int(code) for code in np.unique(grid.missing)]
    legend = {_missing_colour(code): words[min(code, 3)] for code in codes if code < BELOW_MIN_ISR}
    if any(BELOW_MIN_ISR <= code < NOT_KNOWN for code in codes):
        legend[BELOW] = "under min.insync.replicas"
    if NOT_KNOWN in codes:
        legend[BLANK] = "not known"
    return list(legend.items())


def _missing_words(code: int) -> str:
    if code == NOT_KNOWN:
        return "in-sync replicas not known"
    missing = code % BELOW_MIN_ISR
    text = f"{count(missing, 'replica')} missing at worst" if missing else "all replicas in sync"
    return f"{text}, under min.insync.replicas" if code >= BELOW_MIN_ISR else text


def _missing_colour(code: int) -> str:
    if code == NOT_KNOWN:
        return BLANK
    if code >= BELOW_MIN_ISR:
        return BELOW
    return MISSING[min(code, 3) - 1] if code else IN_SYNC


def _trace(grid: Grid, cells: Ints, colours: dict[int, str], words: dict[int, str]) -> go.Heatmap:
    codes = sorted(colours)
    low, high = codes[0] - 0.5, codes[-1] + 0.5
    scale: list[list[float | str]] = []
    for index, code in enumerate(codes):
        # Halfway to its neighbours: a number between two codes does not occur.
        begin = low if not index else (codes[index - 1] + code) / 2
        end = high if index + 1 == len(codes) else (code + codes[index + 1]) / 2
        scale += [[(side - low) / (high - low), colours[code]] for side in (begin, end)]
    return go.Heatmap(
        x=grid.edges.tolist(), y=plotly_sheet.escape_names(grid.names), z=cells,
        zmin=low, zmax=high, colorscale=scale, ygap=1 if len(grid.names) <= MAX_NAMES else 0,
        # A script puts the words of each code into the cells; codes tell nobody anything.
        meta={"links": list(grid.links), "words": {str(code): words[code] for code in words}},
        hovertemplate="%{y}<br>%{x}<br>%{text}<extra></extra>",
    )  # fmt: skip


def render(
    run: RunOutput, grid: Grid, min_isr: MinIsr, view: Span, holes: plotly_sheet.Holes
) -> Markup:
    """Draw how many replicas were missing from the ISRs, if any ISR is known."""
    if not (grid.missing != NOT_KNOWN).any():
        return tag("p", "No line tells who was in sync, so there is no figure of ISRs.")
    # Rows can be told apart; where there are many, it is a tall picture.
    height = max(60, min(20 * len(grid.names), 24 * MAX_NAMES))
    sheet = Sheet([("Replicas missing from the ISR, worst first", height)], view)
    draw_missing(sheet, 1, grid)
    drawing, legend = sheet.build(run.findings, holes), render_legend(missing_legend(grid))
    return figure("figure-isr", drawing, _caption(grid, min_isr), legend, _table(grid))


def _caption(grid: Grid, min_isr: MinIsr) -> str:
    is_known = grid.missing != NOT_KNOWN
    is_missing = is_known & (grid.missing > 0)
    is_below = is_known & (grid.missing >= BELOW_MIN_ISR)
    text = "No replica was missing from an ISR that is known"
    if is_missing.any():
        rows = count(int(is_missing.any(axis=1).sum()), "row")
        longest = int((is_missing * np.diff(grid.edges)).sum(axis=1).max())
        text = f"Replicas were missing from the ISR in {rows}, "
        text += f"in one of them for up to {duration(longest)}"
    if not min_isr.largest:
        return f"{text}. min.insync.replicas is not in these logs."
    below = count(int(is_below.any(axis=1).sum()), "row") if is_below.any() else "no row"
    return f"{text}; {below} fell below min.insync.replicas."


def _table(grid: Grid) -> Markup | None:
    lengths = np.diff(grid.edges)
    rows = []
    for name, cells in zip(grid.names, grid.missing, strict=True):
        is_known = cells != NOT_KNOWN
        is_missing, is_below = is_known & (cells > 0), is_known & (cells >= BELOW_MIN_ISR)
        if is_missing.any():
            worst = int((cells[is_missing] % BELOW_MIN_ISR).max())
            sums = [int((cells * lengths).sum()) for cells in (is_missing, is_below)]
            rows.append([name, str(worst), *(duration(ms) if ms else "-" for ms in sums)])
    if not rows:
        return None
    head = ("Row", "Missing at worst", "Cells with one missing", "Cells under min.insync")
    caption = "Rows with replicas missing; a cell counts whole"
    listing = table(head, rows[:MAX_ROWS], caption=caption, numbers=head[1:2])
    return tag("details", tag("summary", "Replicas missing as a table"), listing)
