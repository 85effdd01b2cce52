"""Figure 1: everything on one time axis."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

from forensics.report import colours, figures, marks
from forensics.report.bins import Ints
from forensics.report.escape import plotly as shown
from forensics.report.plots import heat, slider
from forensics.report.volumes import Volume
from forensics.report.words import clock, lasting

__all__ = ["key", "timeline"]

# Many brokers get less room each: what they went through is seen all the same.
WIDE, NARROW, MANY = 24, 14, 12


def timeline(tracks: marks.Tracks) -> figures.Figure:
    """Draw flags, lives of nodes, leaders, replication debt, client errors and log volume."""
    rows: list[tuple[str, int, figures.Draw]] = []
    if tracks.findings:
        tall = 12 + 22 * (1 + max(marks.levels(tracks)))
        rows.append(("Findings, numbered as below", tall, partial(figures.flags, tracks=tracks)))
    lives = [("Active controller", tracks.controller), ("Brokers", tracks.brokers)]
    for title, life in [*lives, ("Clients", tracks.clients)]:
        if life:
            draw = partial(figures.lanes, lanes=life, view=tracks.view)
            rows.append((title, _tall({lane.name for lane in life}), draw))
    if tracks.grid is not None:
        tall = min(220, 14 * len(tracks.grid.names) + 10)
        rows.append(
            (
                "Leaders of partitions, worst first; click a cell for all of them",
                tall,
                partial(_led, tracks=tracks),
            )
        )
    if any(level for points in tracks.debt.values() for _, level in points):
        rows.append(("Partitions in debt", 100, partial(_debt, tracks=tracks)))
    if tracks.volume is not None:
        if tracks.volume.errors:
            rows.append(("Client errors per second", 90, partial(_errors, tracks=tracks)))
        title = "Facts read from the logs per second; hatched: a node without logs"
        rows.append((title, 70, partial(_volume, tracks=tracks)))
    sheet = figures.filled(rows, tracks.view)
    strip = slider.under(sheet, tracks.volume) if tracks.volume is not None and rows else {}
    return sheet.done(tracks.findings, tracks.holes, **strip)


def key(tracks: marks.Tracks) -> list[tuple[str, str]]:
    """Give the colours that no word on the figure explains."""
    found = heat.leaders_key(tracks.grid) if tracks.grid is not None else []
    debts = [name for name, points in tracks.debt.items() if any(level for _, level in points)]
    found += [(colours.DEBT[name], f"partitions {name}") for name in debts]
    errors = tracks.volume.errors if tracks.volume else ()
    return found + [(colours.VERDICT[name], f"errors: {name}") for name in errors]


def _tall(names: Iterable[str]) -> int:
    rows = len(list(names))
    return (WIDE if rows <= MANY else NARROW) * rows + 6


def _led(sheet: figures.Sheet, row: int, tracks: marks.Tracks) -> None:
    if tracks.grid is not None:
        heat.leaders(sheet, row, tracks.grid)
        names = figures.row_names(tracks.grid.names, 16)
        sheet.update_yaxes(row, **names)


def _debt(sheet: figures.Sheet, row: int, tracks: marks.Tracks) -> None:
    # What is worse is also less: it is drawn later, over the others.
    for name in reversed(colours.DEBT):
        points = tracks.debt.get(name, ())
        if not any(level for _, level in points):
            continue
        trace = {
            "type": "scatter", "x": [moment for moment, _ in points],
            "y": [level for _, level in points], "name": name, "mode": "lines",
            "line": {"shape": "hv", "width": 2, "color": colours.DEBT[name]}, "fill": "tozeroy",
            "hovertemplate": f"%{{y}} {name}<extra></extra>", "showlegend": False,
        }  # fmt: skip
        sheet.add_trace(trace, row)
    most = max((level for points in tracks.debt.values() for _, level in points), default=0)
    sheet.update_yaxes(row, **figures.count_axis(most))


def _errors(sheet: figures.Sheet, row: int, tracks: marks.Tracks) -> None:
    if tracks.volume is None:
        return
    highest = np.zeros(len(tracks.volume.facts))
    for verdict, counts in tracks.volume.errors.items():
        look = {"color": colours.VERDICT.get(verdict, colours.HATCH), "line": {"width": 0}}
        rate = _bars(tracks.volume, counts, shown(verdict))
        sheet.add_trace(rate | {"name": f"errors: {shown(verdict)}", "marker": look}, row)
        highest += _rate(tracks.volume, counts)
    sheet.update_yaxes(row, **_rates(highest.max()))


def _volume(sheet: figures.Sheet, row: int, tracks: marks.Tracks) -> None:
    if tracks.volume is None:
        return
    rate = _bars(tracks.volume, tracks.volume.facts, "facts")
    look = {"color": colours.HATCH, "line": {"width": 0}}
    sheet.add_trace(rate | {"name": "facts", "marker": look}, row)
    high = float(max(_rate(tracks.volume, tracks.volume.facts).max(), 0.001))
    if tracks.silences:
        sheet.add_trace(_holes(tracks, high), row)
    sheet.update_yaxes(row, **_rates(high))


def _rates(high: float) -> figures.Figure:
    return {"rangemode": "tozero", "fixedrange": True, "nticks": 4, "range": [0, high * 1.1]}


def _rate(volume: Volume, counts: Ints) -> npt.NDArray[np.float64]:
    return counts * 1000 / np.diff(volume.edges)


def _bars(volume: Volume, counts: Ints, word: str) -> figures.Figure:
    """Draw what was counted as a rate: stretches differ in length, the area is the count."""
    some = np.flatnonzero(counts)
    start, wide = volume.edges[:-1][some], np.diff(volume.edges)[some]
    spans = zip(counts[some].tolist(), start.tolist(), wide.tolist(), strict=True)
    return {
        "type": "bar", "x": start.tolist(), "width": wide.tolist(), "offset": 0,
        "y": [round(rate, 3) for rate in _rate(volume, counts)[some].tolist()],
        "customdata": [
            f"{many:,} {word}<br>{clock(at)} for {lasting(ms)}" for many, at, ms in spans
        ],
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False,
    }  # fmt: skip


def _holes(tracks: marks.Tracks, high: float) -> figures.Figure:
    """Hatch where a node should have logs and has none."""
    silent = sorted(tracks.silences, key=lambda one: one[1] - one[2])[:40]
    fill, shape = colours.STATE["unknown"]
    return {
        "type": "bar", "x": [start for _, start, _, _ in silent], "offset": 0,
        "width": [end - start for _, start, end, _ in silent], "y": [high] * len(silent),
        "customdata": [f"{shown(node)}: {shown(why)}<br>{clock(start)} for {lasting(end - start)}"
                       for node, start, end, why in silent],
        "hovertemplate": "%{customdata}<extra></extra>", "showlegend": False, "name": "no logs",
        "opacity": 0.5,
        "marker": {"color": fill, "line": {"width": 0}, "pattern": {
            "shape": shape, "size": 6, "solidity": 0.2, "fgcolor": colours.HATCH,
            "fillmode": "overlay"}},
    }  # fmt: skip
