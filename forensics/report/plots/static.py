"""Figure 1 as plain SVG: for readers without scripts, for mail, and for a first sight."""

from __future__ import annotations

from forensics.report import marks
from forensics.report.markup import Markup

__all__ = ["timeline"]


def timeline(tracks: marks.Tracks) -> Markup | None:
    """Draw the rows of figure 1 without Plotly."""
    return None
