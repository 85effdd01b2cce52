"""A store of twelve weeks made by hand, and what a page of it holds."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forensics.weekly.notes import Notes, load_notes
from forensics.weekly.pages import index_page, week_page

__all__ = ["draw_store", "read_figure", "section_text"]

NOTES = """\
"stale-metadata: client app-orders":
  owner: ana
  ticket: https://tickets.example/OPS-12
  accepted_until: 2026-12-31
  comment: they upgrade in December
"""


def draw_store(
    folder: Path, weeks: Sequence[Mapping[str, Any]], notes: Notes | None = None
) -> dict[str, Path]:
    """Draw every week of a store and its index; gives the page of each by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    if notes is None:
        (folder / "notes.yaml").write_text(NOTES, encoding="utf-8")
        notes = load_notes(folder)
    pages = {}
    for at, one in enumerate(weeks):
        out = folder / "weeks" / str(one["week"])
        out.mkdir(parents=True, exist_ok=True)
        (out / "week.json").write_text(json.dumps(one), encoding="utf-8")
        # What the links of a page lead to.
        ids = (row[0] for group in one["findings"] for row in group["findings"])
        anchors = "".join(f"<p id='{html.escape(name)}'>" for name in ids)
        (out / "report.html").write_text(f"<!doctype html>{anchors}", encoding="utf-8")
        pages[str(one["week"])] = week_page.draw_week(out, weeks[:at], notes)
    pages["index"] = index_page.draw_index(folder, weeks, notes)
    return pages


def read_figure(drawn: Path, name: str) -> dict[str, Any]:
    """Give the data of one figure of a page."""
    text = drawn.read_text("utf-8")
    found = re.search(rf'<script type="application/json" data-figure="{name}">(.*?)</script>', text)
    assert found, f"no figure {name}"
    told: dict[str, Any] = json.loads(found[1])
    return told


def section_text(drawn: Path, id_: str) -> str:
    """Give the words of one section of a page."""
    source = drawn.read_text("utf-8")
    found = re.search(rf'<section id="{id_}".*?</section>', source, re.DOTALL)
    assert found, f"no section {id_}"
    words = re.sub(r"<script.*?</script>", " ", found[0], flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", words)))
