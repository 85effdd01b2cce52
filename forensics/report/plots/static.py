"""Figure 1 as plain SVG: for readers without scripts, for mail, and for a first sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from forensics.report import colours, grids, marks
from forensics.report.markup import Child, Markup, join, tag
from forensics.report.plots import heat
from forensics.report.tracks import Lane
from forensics.report.words import clock
from forensics.report.zones import current

__all__ = ["static_timeline"]

# Sizes in pixels of a page that is as wide as the text; the browser makes it fit.
SVG_WIDTH, SVG_LEFT, SVG_RIGHT, TITLE, GAP = 1100, 150, 1090, 18, 10
Draw = Callable[["_Paper"], None]


@dataclass
class _Paper:
    """What has been drawn, how far down, and which time is where."""

    view: tuple[int, int]
    y: float = 8
    parts: list[Child] = field(default_factory=list)

    def x(self, moment: float) -> float:
        """Place a moment, within the edges."""
        share = (moment - self.view[0]) / (self.view[1] - self.view[0])
        return round(SVG_LEFT + min(max(share, 0.0), 1.0) * (SVG_RIGHT - SVG_LEFT), 1)

    def box(self, start: float, end: float, y: float, high: float, fill: str) -> float:
        """Fill a stretch of time; gives how wide it is. A moment is still half a pixel wide."""
        if end < self.view[0] or start > self.view[1]:
            return 0
        left, wide = self.x(start), max(self.x(end) - self.x(start), 0.5)
        self.parts.append(tag("rect", x=f"{left}", y=f"{y:.1f}", width=f"{wide:.1f}",
                              height=f"{high:.1f}", fill=fill))  # fmt: skip
        return wide

    def hatch(self, start: float, end: float, y: float, high: int) -> None:
        """Draw slanted lines over a stretch of time."""
        left, right = round(self.x(start)), round(self.x(end)) - high
        lines = "".join(f"M{x} {round(y) + high}l{high} -{high}" for x in range(left, right, 6))
        if lines:
            self.parts.append(tag("path", d=lines, stroke=colours.HATCH, fill="none"))

    def words(self, text: str, x: float, y: float, side: str = "start", ink: str = "") -> None:
        """Write a few words."""
        self.parts.append(tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=ink or None,
                              text_anchor=None if side == "start" else side))  # fmt: skip


def static_timeline(tracks: marks.Tracks) -> Markup:
    """Draw the rows of figure 1 without Plotly."""
    paper = _Paper(tracks.view)
    for title, draw in _rows(tracks):
        paper.words(title, SVG_LEFT, paper.y + 12)
        paper.y += TITLE
        draw(paper)
        paper.y += GAP
    _axis(paper)
    bands = _bands(paper, tracks)
    return tag(
        "svg", bands, join(paper.parts), class_="still", role="img",
        viewBox=f"0 0 {SVG_WIDTH} {round(paper.y)}", aria_label="Timeline of the incident",
    )  # fmt: skip


def _rows(tracks: marks.Tracks) -> Iterator[tuple[str, Draw]]:
    if tracks.findings:
        yield "Findings, numbered as below", lambda paper: _flags(paper, tracks)
    if tracks.controller:
        yield "Active controller", lambda paper: _lanes(paper, tracks.controller)
    if tracks.brokers:
        yield "Brokers", lambda paper: _lanes(paper, tracks.brokers)
    if tracks.grid is not None:
        grid = tracks.grid
        yield "Leaders of partitions, worst first", lambda paper: _leaders(paper, grid)
    if any(level for points in tracks.debt.values() for _, level in points):
        yield "Partitions in debt", lambda paper: _static_debt(paper, tracks)
    if tracks.volume is not None and tracks.volume.errors:
        yield "Client errors", lambda paper: _static_errors(paper, tracks)


def _bands(paper: _Paper, tracks: marks.Tracks) -> Markup:
    """Shade the windows of what was found, behind all else."""
    found = [one for one in tracks.findings if one.is_incident and one.start is not None][:50]
    parts = [
        tag("rect", x=f"{paper.x(start)}", y=0,
            width=f"{max(paper.x(end) - paper.x(start), 0.5):.1f}",
            height=round(paper.y - 24), fill=colours.LEVEL.get(one.severity, colours.HATCH),
            opacity="0.07")
        for one in found
        for start, end in [marks.reach(one, paper.view)]
    ]  # fmt: skip
    return tag("g", *parts)


def _flags(paper: _Paper, tracks: marks.Tracks) -> None:
    levels = marks.levels(tracks)
    for at in reversed(range(len(tracks.findings))):
        found, y = tracks.findings[at], paper.y + 9 + 18 * levels[at]
        start, end = marks.reach(found, paper.view)
        if start > paper.view[1] or end < paper.view[0]:
            continue
        fill = colours.LEVEL.get(found.severity, colours.HATCH)
        paper.box(start, end, y - 2, 4, fill)
        paper.parts.append(tag("circle", cx=f"{paper.x(start)}", cy=f"{y:.1f}", r=8, fill=fill))
        paper.words(str(at + 1), paper.x(start), y + 4, "middle", "paper")
    paper.y += 18 * (1 + max(levels)) + 2


def _lanes(paper: _Paper, lanes: Sequence[Lane]) -> None:
    names = list(dict.fromkeys(lane.name for lane in lanes))
    high = 18 if len(names) <= 12 else 12
    for at, name in enumerate(names):
        paper.words(marks.short(name), SVG_LEFT - 6, paper.y + at * high + high - 5, "end")
    for lane in lanes:
        y = paper.y + names.index(lane.name) * high
        plain, shape = colours.STATE.get(lane.state, ("", ""))
        own = colours.HATCH if lane.broker is None else colours.broker(lane.broker)
        wide = paper.box(lane.start, lane.end, y, high - 2, plain or own)
        if wide and shape:
            paper.hatch(lane.start, lane.end, y, high - 2)
        word = marks.lane_word(lane)
        if wide > 7 * len(word) + 6 and high > 12:
            ink = "ink" if colours.ink(plain or own) == "#000000" else "paper"
            paper.words(word, max(paper.x(lane.start), SVG_LEFT) + 4, y + high - 6, ink=ink)
    paper.y += high * len(names)


def _leaders(paper: _Paper, grid: grids.Grid) -> None:
    rows = min(len(grid.names), 40)
    high = 12 if rows <= 20 else 6
    looks = dict(heat.looks(grid))
    for at in range(rows):
        if high == 12 or at % 3 == 0:
            paper.words(marks.short(grid.names[at]), SVG_LEFT - 6, paper.y + at * high + 9, "end")
        codes = grid.leaders[at]
        turns = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        for first, last in zip(turns, turns[1:], strict=False):
            fill = looks[int(codes[first])]
            span = int(grid.edges[first]), int(grid.edges[last])
            paper.box(*span, paper.y + at * high, high - (high == 12), fill)
    paper.y += rows * high


def _static_debt(paper: _Paper, tracks: marks.Tracks) -> None:
    high = 60
    most = max(level for points in tracks.debt.values() for _, level in points)
    for name in reversed(colours.DEBT):
        points = tracks.debt.get(name, ())
        for (moment, level), (after, _) in zip(points, points[1:], strict=False):
            if level:
                tall = max(1, high * level / most)
                paper.box(moment, after, paper.y + high - tall, tall, colours.DEBT[name])
    paper.words(f"{most:,}", SVG_LEFT - 6, paper.y + 10, "end")
    paper.y += high


def _static_errors(paper: _Paper, tracks: marks.Tracks) -> None:
    if tracks.volume is None:
        return
    high, below = 50, np.zeros(len(tracks.volume.facts))
    rates = {name: counts * 1000 / np.diff(tracks.volume.edges)
             for name, counts in tracks.volume.errors.items()}  # fmt: skip
    most = float(np.sum(list(rates.values()), axis=0).max())
    for name, rate in rates.items():
        for at in np.flatnonzero(rate):
            tall = max(1.0, high * float(rate[at]) / most)
            y = paper.y + high - float(below[at]) - tall
            span = int(tracks.volume.edges[at]), int(tracks.volume.edges[at + 1])
            paper.box(*span, y, tall, colours.VERDICT.get(name, colours.HATCH))
            below[at] += tall
    paper.words(f"{most:.3g}/s", SVG_LEFT - 6, paper.y + 10, "end")
    paper.y += high


def _axis(paper: _Paper) -> None:
    start, end = paper.view
    for at in range(6):
        moment = start + (end - start) * at // 5
        side = {0: "start", 5: "end"}.get(at, "middle")
        paper.words(clock(moment)[11:], paper.x(moment), paper.y + 10, side)
    paper.y += 26
    paper.words(f"time, {current().label} ({clock(start)[:10]})", SVG_LEFT, paper.y)
    paper.y += 8
