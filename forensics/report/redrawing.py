"""Draws the page of a run once more: as it was, in another time zone, or for a shorter window."""

from __future__ import annotations

import re
from pathlib import Path

from forensics.errors import ForensicsError
from forensics.report import zones
from forensics.report.narrowing import Narrowed, asked, narrow
from forensics.report.page import NAME, render
from forensics.report.saved import Saved, load
from forensics.report.words import clock

__all__ = ["opened", "redraw"]


def opened(out: Path) -> Saved:
    """Open the output folder of a postmortem, or say what is wrong with it."""
    if not (out / "findings.json").is_file():
        raise ForensicsError(
            f"{out} is no output folder of a postmortem: it has no findings.json. Make one with "
            "kafka-forensics postmortem ARCHIVE... -o OUT."
        )
    try:
        return load(out)
    except ValueError as error:
        raise ForensicsError(f"{out / 'findings.json'} is no JSON: {error}.") from error


def redraw(  # noqa: PLR0913 - each is an option of its own
    out: Path,
    *,
    since: str | None = None,
    till: str | None = None,
    zone: str = "UTC",
    target: Path | None = None,
    shared: bool = False,
) -> Path:
    """Draw the page of what is saved in `out`, and give its path.

    `shared` leaves the library of the figures in a file beside the page, for many pages together.
    """
    saved = opened(out)
    if target and not target.parent.is_dir():
        message = f"--html {target}: there is no folder {target.parent}; make it first."
        raise ForensicsError(message)
    chosen = zones.zone(zone, saved.window)
    with zones.shown_in(chosen):
        if since is not None or till is not None:
            saved = narrow(saved, asked(saved, since, till))
        page = target or out / _name(saved, "" if chosen.is_utc else zone)
        return render(saved, page, shared=shared)


def _name(saved: Saved, zone: str) -> str:
    """Name a page after what it shows, so that it takes no other one's place."""
    parts = [clock(moment) for moment in saved.span] if isinstance(saved, Narrowed) else []
    parts += [zone] if zone else []
    if not parts:
        return NAME
    words = (re.sub(r"[^A-Za-z0-9+.]+", "-", part.replace(":", ".")) for part in parts)
    return f"report-{'-'.join(words)}.html"
