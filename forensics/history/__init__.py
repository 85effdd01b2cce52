"""The past, rebuilt: events become clocks, lanes, leadership and ISR."""

from __future__ import annotations

from dataclasses import dataclass

from forensics.history.clocks import ANCHORS, PAIRS, Clocks, settle_pair
from forensics.history.folding import FOLDED, Context
from forensics.history.rebuilding import (
    ANCHOR_KINDS,
    FOLD_KINDS,
    Lanes,
    clock_anchors,
    context,
    events_of,
    folder,
    lanes,
    solve_clocks,
)

__all__ = [
    "ANCHORS",
    "ANCHOR_KINDS",
    "FOLDED",
    "FOLD_KINDS",
    "PAIRS",
    "Clocks",
    "Context",
    "Lanes",
    "Past",
    "clock_anchors",
    "context",
    "events_of",
    "folder",
    "lanes",
    "settle_pair",
    "solve_clocks",
]


@dataclass(frozen=True)
class Past:
    """What incidents need beside the tables."""

    clocks: Clocks
    lanes: Lanes
    context: Context
