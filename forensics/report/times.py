"""Times without a date, where the whole page is of one day."""

from __future__ import annotations

from forensics.report.saved import Saved
from forensics.report.words import clock

__all__ = ["short"]


def short(saved: Saved, moment: int | None, *, exact: bool = False) -> str:
    """Say a time; the date only where the logs are of more than one day."""
    text = clock(moment, exact=exact)
    days = {clock(edge)[:10] for edge in saved.window or ()}
    return text[11:] if moment is not None and days == {text[:10]} else text
