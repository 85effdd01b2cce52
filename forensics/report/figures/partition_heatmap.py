"""Figures 1d and 3: partitions by time as coloured cells.

Writes the cells of a heatmap small.

Figure 3: how many replicas were out of sync, group by group of partitions.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from forensics.detection.shared.min_isr import MinIsr
from forensics.lib.formatting import count, duration
from forensics.report import plotly_sheet, theme, time_bins
from forensics.report.html import Markup, figure, render_legend, table, tag
from forensics.report.time_bins import Grid
from forensics.run_output.reader import RunOutput


def encode_array(values: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Write an array as Plotly reads it without a list of numbers, as small as they are.

    >>> encode_array(np.array([[1, -2]]))
    {'dtype': 'i1', 'bdata': 'Af4=', 'shape': '1, 2'}
    """
    low, high = int(values.min()), int(values.max())
    kinds = (np.dtype(f"<i{size}") for size in (1, 2, 4))
    fits = (one for one in kinds if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    kind = next(fits, np.dtype("<f8"))
    text = base64.b64encode(values.astype(kind).tobytes()).decode("ascii")
    return {
        "dtype": f"{kind.kind}{kind.itemsize}",
        "bdata": text,
        "shape": ", ".join(map(str, values.shape)),
    }


# Half transparent, so that they are quiet on white and on black.
SEVERAL, MANY, BLANK = "#d6006c", "rgba(128,136,145,0.22)", "rgba(128,136,145,0.45)"
WHOLE, SHORT = "rgba(0,158,115,0.28)", (theme.BAD, "#7d63b5", "#543a91")
BELOW = theme.WORSE
NAMED = 30
Key = list[tuple[str, str]]


def heatmap_height(grid: Grid) -> int:
    """Give a height in which rows can be told apart, or, if there are many, a tall picture."""
    return max(60, min(20 * len(grid.names), 24 * NAMED))


def draw_leaders(sheet: plotly_sheet.Sheet, row: int, grid: Grid) -> None:
    """Draw who leads each group of partitions."""
    shades = leader_colours(grid)
    trace = _trace(grid, grid.leaders, shades) | {
        "hovertemplate": "%{y}<br>%{x}<br>leader at the end: %{z} "
        "(-1 none, -2 not known, -3 several, -4 many partitions)<extra></extra>",
    }  # fmt: skip
    sheet.add_trace(trace, row)
    sheet.update_yaxes(row, **plotly_sheet.name_axis(grid.names, NAMED))


def leaders_legend(grid: Grid) -> Key:
    """Say which colour is which leader."""
    words = {-1: "no leader", -2: "leader not known", time_bins.SEVERAL: "several within the cell",
             time_bins.MANY: "many partitions"}  # fmt: skip
    shades = leader_colours(grid)
    ordered = sorted(shades, key=lambda code: (code < 0, abs(code)))
    shown = [code for code in ordered if code < 0 or shades[code] not in theme.GREYS]
    key = [(shades[code], words.get(code) or f"broker {code}") for code in shown]
    if len(shown) < len(shades):
        key.append((theme.GREYS[0], "other brokers"))
    return key


def draw_missing(sheet: plotly_sheet.Sheet, row: int, grid: Grid) -> None:
    """Draw how many replicas were out of sync."""
    trace = _trace(grid, grid.missing, {code: _debt(code) for code in np.unique(grid.missing)}) | {
        "hovertemplate": "%{y}<br>%{x}<br>replicas missing at worst: %{z} "
        "(10 and more: under min.insync, 20: not known)<extra></extra>",
    }  # fmt: skip
    sheet.add_trace(trace, row)
    sheet.update_yaxes(row, **plotly_sheet.name_axis(grid.names, NAMED))


def missing_legend(grid: Grid) -> Key:
    """Say which colour is how bad."""
    words = ["all replicas in sync", "1 missing", "2 missing", "3 or more missing"]
    known = {int(code) for code in np.unique(grid.missing)}
    key = {
        _debt(code): words[min(code, 3)] for code in sorted(known) if code < time_bins.BELOW_MIN_ISR
    }
    if any(time_bins.BELOW_MIN_ISR <= code < time_bins.NOT_KNOWN for code in known):
        key[BELOW] = "under min.insync.replicas"
    if time_bins.NOT_KNOWN in known:
        key[BLANK] = "not known"
    return list(key.items())


def _debt(code: int) -> str:
    if code == time_bins.NOT_KNOWN:
        return BLANK
    if code >= time_bins.BELOW_MIN_ISR:
        return BELOW
    return SHORT[min(code, 3) - 1] if code else WHOLE


def leader_colours(grid: Grid) -> dict[int, str]:
    """Give the colour of each code of a leader."""
    known = {-1: theme.DARK, -2: BLANK, time_bins.SEVERAL: SEVERAL, time_bins.MANY: MANY}
    codes = (int(code) for code in np.unique(grid.leaders))
    return {code: known.get(code) or theme.broker_colour(code) for code in codes}


def _trace(grid: Grid, cells: time_bins.Cells, looks: dict[int, str]) -> plotly_sheet.Figure:
    codes = sorted(looks)
    low, high = codes[0] - 0.5, codes[-1] + 0.5
    scale: list[list[float | str]] = []
    for at, code in enumerate(codes):
        # Halfway to its neighbours: a number between two codes does not occur.
        begin = low if not at else (codes[at - 1] + code) / 2
        end = high if at + 1 == len(codes) else (code + codes[at + 1]) / 2
        scale += [[(side - low) / (high - low), looks[code]] for side in (begin, end)]
    return {
        "type": "heatmap", "x": grid.edges.tolist(),
        "y": list(plotly_sheet.escape_names(grid.names)), "z": encode_array(cells),
        "zmin": low, "zmax": high, "colorscale": scale,
        "showscale": False, "xgap": 0, "ygap": 1 if len(grid.names) <= NAMED else 0,
        "zsmooth": False, "meta": {"links": list(grid.links)},
    }  # fmt: skip


LISTED = 100


def render(
    run: RunOutput, grid: Grid, floor: MinIsr, view: tuple[int, int], holes: plotly_sheet.Holes
) -> Markup | None:
    """Draw the deficit of the ISRs, if any ISR is known."""
    if not (grid.missing != time_bins.NOT_KNOWN).any():
        return tag("p", "No line tells who was in sync, so there is no figure of ISRs.")
    sheet = plotly_sheet.Sheet(
        [("Replicas missing from the ISR, worst first", heatmap_height(grid))], view
    )
    draw_missing(sheet, 1, grid)
    drawing = sheet.build(run.findings, holes)
    return figure(
        "figure-isr", drawing, _says(grid, floor), render_legend(missing_legend(grid)), _table(grid)
    )


def _says(grid: Grid, floor: MinIsr) -> str:
    known = grid.missing != time_bins.NOT_KNOWN
    short = known & (grid.missing > 0)
    under = known & (grid.missing >= time_bins.BELOW_MIN_ISR)
    rows = count(int(short.any(axis=1).sum()), "row")
    says = f"Replicas were missing from the ISR in {rows}, "
    if not short.any():
        says = "No replica was missing from an ISR that is known"
    else:
        spans = np.diff(grid.edges)
        longest = int((short * spans).sum(axis=1).max())
        says += f"in one of them for up to {duration(longest)}"
    if not floor.largest:
        return f"{says}. min.insync.replicas is not in these logs."
    below = count(int(under.any(axis=1).sum()), "row") if under.any() else "no row"
    return f"{says}; {below} fell below min.insync.replicas."


def _table(grid: Grid) -> Markup | None:
    spans = np.diff(grid.edges)
    rows = []
    for name, cells in zip(grid.names, grid.missing, strict=True):
        known = cells != time_bins.NOT_KNOWN
        short, under = known & (cells > 0), known & (cells >= time_bins.BELOW_MIN_ISR)
        if short.any():
            most = int((cells[short] % time_bins.BELOW_MIN_ISR).max())
            sums = [int((which * spans).sum()) for which in (short, under)]
            rows.append([name, str(most), *(duration(ms) if ms else "-" for ms in sums)])
    if not rows:
        return None
    head = ("Row", "Missing at worst", "Cells with one missing", "Cells under min.insync")
    caption = "Rows with replicas missing; a cell counts whole"
    listing = table(head, rows[:LISTED], caption=caption, numbers=head[1:2])
    return tag("details", tag("summary", "Replicas missing as a table"), listing)
