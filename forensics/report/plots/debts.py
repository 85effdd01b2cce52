"""Figure 3: how many replicas were out of sync, group by group of partitions."""

from __future__ import annotations

import numpy as np

from forensics.incidents.minimums import Minimums
from forensics.report import figures, grids, marks
from forensics.report.grids import Grid
from forensics.report.markup import Markup, figure, key, table, tag
from forensics.report.plots import heat
from forensics.report.saved import Saved
from forensics.report.words import count, lasting

__all__ = ["section"]

LISTED = 100


def section(
    saved: Saved, grid: Grid, floor: Minimums, view: tuple[int, int], holes: marks.Holes
) -> Markup | None:
    """Draw the deficit of the ISRs, if any ISR is known."""
    if not (grid.missing != grids.NOT_KNOWN).any():
        return tag("p", "No line tells who was in sync, so there is no figure of ISRs.")
    sheet = figures.Sheet([("Replicas missing from the ISR, worst first", heat.tall(grid))], view)
    heat.debts(sheet, 1, grid)
    drawing = sheet.done(saved.findings, holes)
    return figure(
        "figure-isr", drawing, _says(grid, floor), key(heat.debts_key(grid)), _table(grid)
    )


def _says(grid: Grid, floor: Minimums) -> str:
    known = grid.missing != grids.NOT_KNOWN
    short = known & (grid.missing > 0)
    under = known & (grid.missing >= grids.UNDER)
    rows = count(int(short.any(axis=1).sum()), "row")
    says = f"Replicas were missing from the ISR in {rows}, "
    if not short.any():
        says = "No replica was missing from an ISR that is known"
    else:
        spans = np.diff(grid.edges)
        longest = int((short * spans).sum(axis=1).max())
        says += f"in one of them for up to {lasting(longest)}"
    if not floor.most:
        return f"{says}. min.insync.replicas is not in these logs."
    below = count(int(under.any(axis=1).sum()), "row") if under.any() else "no row"
    return f"{says}; {below} fell below min.insync.replicas."


def _table(grid: Grid) -> Markup | None:
    spans = np.diff(grid.edges)
    rows = []
    for name, cells in zip(grid.names, grid.missing, strict=True):
        known = cells != grids.NOT_KNOWN
        short, under = known & (cells > 0), known & (cells >= grids.UNDER)
        if short.any():
            most = int((cells[short] % grids.UNDER).max())
            sums = [int((which * spans).sum()) for which in (short, under)]
            rows.append([name, str(most), *(lasting(ms) if ms else "-" for ms in sums)])
    if not rows:
        return None
    head = ("Row", "Missing at worst", "Cells with one missing", "Cells under min.insync")
    caption = "Rows with replicas missing; a cell counts whole"
    listing = table(head, rows[:LISTED], caption=caption, numbers=head[1:2])
    return tag("details", tag("summary", "Replicas missing as a table"), listing)
