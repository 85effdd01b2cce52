"""A strip of the whole window with the stretches in it that something lasted."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.report.markup import Markup, tag
from forensics.report.saved import Saved

__all__ = ["piece", "strip"]

Stretch = tuple[int | None, int | None]
# Narrower than this nobody would see it.
THIN = 0.6


def strip(saved: Saved, stretches: Sequence[Stretch]) -> Markup | None:
    """Draw stretches of time on the window of the logs; the text beside it says the same."""
    if not saved.window:
        return None
    pieces = (tag("span", style=piece(one, saved.window)) for one in stretches)
    return tag("div", *pieces, class_="strip", aria_hidden="true")


def piece(stretch: Stretch, whole: tuple[int, int]) -> str:
    """Place a stretch within the whole, in percent.

    >>> piece((2, 4), (0, 8))
    'left:25.00%;width:25.00%'
    """
    start, end = whole
    first = start if stretch[0] is None else stretch[0]
    last = end if stretch[1] is None else stretch[1]
    left = min(max((first - start) / (end - start), 0.0), 1.0) * 100
    right = min(max((last - start) / (end - start), 0.0), 1.0) * 100
    return f"left:{left:.2f}%;width:{max(right - left, THIN):.2f}%"
