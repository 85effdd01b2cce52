"""What the heatmaps of partitions show in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forensics.report.bins import Ints
from forensics.report.histories import UNKNOWN

__all__ = ["MANY", "NOT_KNOWN", "SEVERAL", "UNDER", "Grid", "leaders", "missing"]

# Where a cell of leaders holds no broker's number: -1 is "no leader", -2 is "not known".
SEVERAL, MANY = -3, -4
# Where a cell of missing replicas holds more than how many are missing.
UNDER, NOT_KNOWN, MAX_LEVEL = 10, 20, 9
Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Rows of partitions, worst first, by stretches of time."""

    edges: Ints
    names: Sequence[str]
    leaders: Cells
    missing: Cells
    # where on the page each row is told of exactly: what a click on one of its cells opens
    links: Sequence[str] = ()


def leaders(led: Ints, edges: Ints) -> Cells:
    """Give who leads at the end of each stretch, or that more than two led in it.

    A leader of a moment is in none of the ends, so its stretch says that there were several.
    """
    leader, _, _, start, end, _ = led
    last = edges[1:] - 1
    at = np.searchsorted(start, last, "right") - 1
    known = (at >= 0) & (last <= end[at])
    found: Cells = np.where(known, leader[at], UNKNOWN)
    changes = np.flatnonzero(leader[1:] != leader[:-1]) + 1
    places = np.searchsorted(edges, start[changes], "right") - 1
    inside = places[(places >= 0) & (places < len(found))]
    found[np.bincount(inside, minlength=len(found)) > 1] = SEVERAL
    return found


def missing(in_sync: Ints | None, floor: int, edges: Ints) -> Cells:
    """Give how many replicas were out of sync at the worst moment of each stretch."""
    found = np.full(len(edges) - 1, NOT_KNOWN, np.int64)
    if in_sync is None:
        return found
    _, size, wanted, start, end = in_sync
    short = np.minimum(np.maximum(wanted - size, 0), MAX_LEVEL) + UNDER * (size < floor)
    known = (size >= 0) & (wanted > 0)
    first = np.searchsorted(edges, start, "right") - 1
    last = np.searchsorted(edges, np.maximum(end - 1, start), "right") - 1
    # A stretch that is known in part says what is known of it.
    worst = np.full(len(found), -1, np.int64)
    for value, begin, till in zip(short[known], first[known], last[known], strict=True):
        part = worst[max(0, begin) : max(0, till + 1)]
        np.maximum(part, value, out=part)
    return np.where(worst >= 0, worst, found)


def changes(led: Ints, edges: Ints) -> Cells:
    """Count the changes of leader in each stretch."""
    moved = led[3][1:][led[0][1:] != led[0][:-1]]
    places = np.searchsorted(edges, moved, "right") - 1
    inside = places[(places >= 0) & (places < len(edges) - 1)]
    return np.bincount(inside, minlength=len(edges) - 1)
