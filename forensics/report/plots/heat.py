"""Figures 1d and 3: partitions by time as coloured cells."""

from __future__ import annotations

import numpy as np

from forensics.report import colours, figures, grids
from forensics.report.grids import Grid
from forensics.report.plots.packing import dense

__all__ = ["debts", "debts_key", "leaders", "leaders_key", "looks", "tall"]

# Half transparent, so that they are quiet on white and on black.
SEVERAL, MANY, BLANK = "#d6006c", "rgba(128,136,145,0.22)", "rgba(128,136,145,0.45)"
WHOLE, SHORT = "rgba(0,158,115,0.28)", (colours.BAD, "#7d63b5", "#543a91")
BELOW = colours.WORSE
NAMED = 30
Key = list[tuple[str, str]]


def tall(grid: Grid) -> int:
    """Give a height in which rows can be told apart, or, if there are many, a tall picture."""
    return max(60, min(20 * len(grid.names), 24 * NAMED))


def leaders(sheet: figures.Sheet, row: int, grid: Grid) -> None:
    """Draw who leads each group of partitions."""
    shades = looks(grid)
    trace = _trace(grid, grid.leaders, shades) | {
        "hovertemplate": "%{y}<br>%{x}<br>leader at the end: %{z} "
        "(-1 none, -2 not known, -3 several, -4 many partitions)<extra></extra>",
    }  # fmt: skip
    sheet.add_trace(trace, row)
    sheet.update_yaxes(row, **figures.row_names(grid.names, NAMED))


def leaders_key(grid: Grid) -> Key:
    """Say which colour is which leader."""
    words = {-1: "no leader", -2: "leader not known", grids.SEVERAL: "several within the cell",
             grids.MANY: "many partitions"}  # fmt: skip
    shades = looks(grid)
    ordered = sorted(shades, key=lambda code: (code < 0, abs(code)))
    shown = [code for code in ordered if code < 0 or shades[code] not in colours.GREYS]
    key = [(shades[code], words.get(code) or f"broker {code}") for code in shown]
    if len(shown) < len(shades):
        key.append((colours.GREYS[0], "other brokers"))
    return key


def debts(sheet: figures.Sheet, row: int, grid: Grid) -> None:
    """Draw how many replicas were out of sync."""
    trace = _trace(grid, grid.missing, {code: _debt(code) for code in np.unique(grid.missing)}) | {
        "hovertemplate": "%{y}<br>%{x}<br>replicas missing at worst: %{z} "
        "(10 and more: under min.insync, 20: not known)<extra></extra>",
    }  # fmt: skip
    sheet.add_trace(trace, row)
    sheet.update_yaxes(row, **figures.row_names(grid.names, NAMED))


def debts_key(grid: Grid) -> Key:
    """Say which colour is how bad."""
    words = ["all replicas in sync", "1 missing", "2 missing", "3 or more missing"]
    known = {int(code) for code in np.unique(grid.missing)}
    key = {_debt(code): words[min(code, 3)] for code in sorted(known) if code < grids.UNDER}
    if any(grids.UNDER <= code < grids.NOT_KNOWN for code in known):
        key[BELOW] = "under min.insync.replicas"
    if grids.NOT_KNOWN in known:
        key[BLANK] = "not known"
    return list(key.items())


def _debt(code: int) -> str:
    if code == grids.NOT_KNOWN:
        return BLANK
    if code >= grids.UNDER:
        return BELOW
    return SHORT[min(code, 3) - 1] if code else WHOLE


def looks(grid: Grid) -> dict[int, str]:
    """Give the colour of each code of a leader."""
    known = {-1: colours.DARK, -2: BLANK, grids.SEVERAL: SEVERAL, grids.MANY: MANY}
    codes = (int(code) for code in np.unique(grid.leaders))
    return {code: known.get(code) or colours.broker(code) for code in codes}


def _trace(grid: Grid, cells: grids.Cells, looks: dict[int, str]) -> figures.Figure:
    codes = sorted(looks)
    low, high = codes[0] - 0.5, codes[-1] + 0.5
    scale: list[list[float | str]] = []
    for at, code in enumerate(codes):
        # Halfway to its neighbours: a number between two codes does not occur.
        begin = low if not at else (codes[at - 1] + code) / 2
        end = high if at + 1 == len(codes) else (code + codes[at + 1]) / 2
        scale += [[(side - low) / (high - low), looks[code]] for side in (begin, end)]
    return {
        "type": "heatmap", "x": grid.edges.tolist(), "y": list(figures.plain(grid.names)),
        "z": dense(cells), "zmin": low, "zmax": high, "colorscale": scale,
        "showscale": False, "xgap": 0, "ygap": 1 if len(grid.names) <= NAMED else 0,
        "zsmooth": False, "meta": {"links": list(grid.links)},
    }  # fmt: skip
