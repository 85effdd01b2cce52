"""The past, rebuilt: events become clocks, lanes, leadership and ISR."""

from __future__ import annotations

from forensics.history.anchors import ANCHORS, anchor_sources
from forensics.history.clocks import Clocks
from forensics.history.coverage import Coverage, covered
from forensics.history.folding import FOLDED, Context
from forensics.history.holes import coverage_table, named_nodes
from forensics.history.pairs import PAIRS, pair_settler, settle_pair
from forensics.history.rebuilding import (
    FOLD_COLUMNS,
    FOLD_KINDS,
    Lanes,
    Past,
    context,
    events_of,
    folder,
    lanes,
    phases_of,
    solve_clocks,
)

__all__ = [
    "ANCHORS",
    "FOLDED",
    "FOLD_COLUMNS",
    "FOLD_KINDS",
    "PAIRS",
    "Clocks",
    "Context",
    "Coverage",
    "Lanes",
    "Past",
    "anchor_sources",
    "context",
    "coverage_table",
    "covered",
    "events_of",
    "folder",
    "lanes",
    "named_nodes",
    "pair_settler",
    "phases_of",
    "settle_pair",
    "solve_clocks",
]


