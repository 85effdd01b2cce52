"""What a mark on a figure says and where it stands, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from forensics.report.escape import plotly as shown
from forensics.report.folds import Strand
from forensics.report.grids import Grid
from forensics.report.histories import Reign
from forensics.report.markup import anchor
from forensics.report.saved import Finding
from forensics.report.tracks import Lane, stagger
from forensics.report.volumes import Volume
from forensics.report.words import clock, lasting

__all__ = [
    "Holes", "Tracks", "epoch", "lane_word", "levels", "link", "pieces", "reach", "short", "story",
    "word",
]  # fmt: skip


LETTERS = 28
# More rows of flags than this would push the rest of the figure off the screen.
DEEPEST = 5
# From when to when logs are missing, and of which share of the nodes.
Holes = Sequence[tuple[int, int, float]]


@dataclass(frozen=True)
class Tracks:
    """Everything that the master timeline shows on its one time axis."""

    view: tuple[int, int]
    findings: Sequence[Finding]
    controller: Sequence[Lane]
    brokers: Sequence[Lane]
    debt: Mapping[str, Sequence[tuple[int, int]]]
    clients: Sequence[Lane] = ()
    holes: Holes = ()
    silences: Sequence[tuple[str, int, int, str]] = ()
    volume: Volume | None = None
    grid: Grid | None = None


def reach(found: Finding, view: tuple[int, int]) -> tuple[int, int]:
    """Say from when to when a finding reaches, an open side being the edge of the view."""
    start = view[0] if found.start is None else found.start
    return start, max(start, view[1] if found.end is None else found.end)


def levels(tracks: Tracks) -> list[int]:
    """Give each finding's flag a row of its own where two would stand on each other."""
    apart = (tracks.view[1] - tracks.view[0]) // 40
    spans = [_standing(*reach(found, tracks.view), tracks.view) for found in tracks.findings]
    order = sorted(range(len(spans)), key=lambda at: (spans[at], at))
    rows = dict(zip(order, stagger([spans[at] for at in order], apart), strict=True))
    return [min(rows[at], DEEPEST) for at in range(len(spans))]


def _standing(start: int, end: int, view: tuple[int, int]) -> tuple[int, int]:
    """Say from where to where a flag is drawn."""
    at = standing(start, end, view)
    return at, max(at, end)


def standing(start: int, end: int, view: tuple[int, int]) -> int:
    """Say where the head of a flag stands: one that an edge would cut is moved off it.

    >>> [standing(at, at, (0, 1000)) for at in (5, 500, 995, 1001, 5000)]
    [20, 500, 980, 980, 5000]
    """
    inside = (view[1] - view[0]) // 50
    if end < view[0] or start >= view[1] + inside:
        return start
    return min(max(start, view[0] + inside), view[1] - inside)


def link(name: str) -> str:
    """Name the place on the page that tells of a finding."""
    return f"#{anchor(name)}"


def lane_word(lane: Lane) -> str:
    """Say what stands in the bar of one stretch of a node's life."""
    if lane.state != "active":
        return lane.state
    led = "node not known" if lane.broker is None else f"node {lane.broker}"
    return led if lane.epoch is None else f"{led}, epoch {lane.epoch}"


def short(name: str) -> str:
    """Cut a long name in the middle: topics may have 249 letters, and tell at both ends.

    >>> short("a-topic-with-a-very-long-name-indeed-17")
    'a-topic-with-a…e-indeed-17'
    """
    return name if len(name) <= LETTERS else f"{name[: LETTERS // 2]}…{name[-LETTERS // 2 + 3 :]}"


def pieces(start: int, end: int, view: tuple[int, int]) -> list[tuple[int, int]]:
    """Cut a bar at the edges of the view: its words stand in a piece that can be seen."""
    edges = [start, *(edge for edge in view if start < edge < end), end]
    return list(pairwise(edges))


def epoch(reign: Reign) -> str:
    """Say the leader epoch, or the first and last where a row holds several."""
    first, last = reign.epochs
    if first < 0:
        return ""
    return str(first) if first == last else f"{first}..{last}"


def word(reign: Reign) -> str:
    """Say what stands in a leader's bar."""
    # The letter says what the red edge says, for eyes that see no red.
    return f"U {epoch(reign)}" if reign.unclean else epoch(reign)


def story(row: Strand, reign: Reign, name: str) -> str:
    """Say what hovering over a leader's bar shows."""
    kind = f"{shown(reign.election)}{', inferred' if reign.inferred else ''}"
    when = f"{clock(reign.start, exact=True)} for {lasting(reign.end - reign.start)}"
    return f"{shown(row.label)}: {name}, epoch {epoch(reign) or 'not known'} ({kind})<br>{when}"
