"""Draws a store of weeks that are made by hand, and reads its pages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forensics.weekly.notes import Notes, load_notes
from forensics.weekly.pages import index_page, week_page
from forensics.weekly.week_summary import WeekSummary

NOTES = """\
"stale-metadata: client app-orders":
  owner: ana
  ticket: https://tickets.example/OPS-12
  accepted_until: 2026-12-31
  comment: they upgrade in December
"""


def draw_store(
    folder: Path, weeks: Sequence[WeekSummary], notes: Notes | None = None
) -> dict[str, Path]:
    """Draw every week of a store and its index; return the page of each by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    if notes is None:
        (folder / "notes.yaml").write_text(NOTES, encoding="utf-8")
        notes = load_notes(folder)
    pages = {}
    for index, week in enumerate(weeks):
        out = folder / "weeks" / week.week
        out.mkdir(parents=True, exist_ok=True)
        # What the links of a page lead to.
        ids = (row[0] for group in week.findings for row in group["findings"])
        anchors = "".join(f"<p id='{html.escape(id_)}'>" for id_ in ids)
        (out / "report.html").write_text(f"<!doctype html>{anchors}", encoding="utf-8")
        pages[week.week] = week_page.draw_week(week, weeks[:index], notes, out / "index.html")
    pages["index"] = index_page.draw_index(folder, weeks, notes)
    return pages


def read_figure(page: Path, name: str) -> dict[str, Any]:
    """Return the data of one figure of a page."""
    text = page.read_text("utf-8")
    match = re.search(rf'<script type="application/json" data-figure="{name}">(.*?)</script>', text)
    assert match, f"no figure {name}"
    figure: dict[str, Any] = json.loads(match[1])
    return figure


def section_text(page: Path, id_: str) -> str:
    """Return the words of one section of a page."""
    source = page.read_text("utf-8")
    match = re.search(rf'<section id="{id_}".*?</section>', source, re.DOTALL)
    assert match, f"no section {id_}"
    words = re.sub(r"<script.*?</script>", " ", match[0], flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", words)))
