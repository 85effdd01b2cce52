"""Draws the page of one week: what it is like beside the weeks before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from forensics.report import page
from forensics.report.html import Child, Markup, join, tag
from forensics.weekly.coverage_normalisation import WeekSummary
from forensics.weekly.notes import Notes
from forensics.weekly.pages import small_multiples, week_sections
from forensics.weekly.pages.week_view import WeekView, build_view

SUMMARY = "week.json"
Section = tuple[str, str, Callable[[WeekView], Markup]]
FOOT = (
    "All times are UTC; a week begins on Monday. A finding belongs to the week in which it begins."
)
SECTIONS: Sequence[Section] = (
    ("verdict", "Verdict", week_sections.draw_verdict),
    ("findings", "Findings", week_sections.draw_findings),
    ("trend", "Week by week", small_multiples.draw_trend),
    ("flapping", "Brokers away", week_sections.draw_flapping),
    ("nights", "Slow burn", week_sections.draw_nights),
    ("hours", "Hour by hour", week_sections.hourly),
    ("changes", "What else changed", week_sections.changed),
    ("coverage", "Coverage", week_sections.covered),
    ("days", "Day by day", week_sections.days),
)


def draw_week(week_dir: Path, earlier: Sequence[WeekSummary], notes: Notes | None = None) -> Path:
    """Draw `index.html` of a week from its week.json and those of the weeks before it."""
    told = build_view(json.loads((week_dir / SUMMARY).read_text("utf-8")), earlier, notes)
    parts = [(id_, title, inside(told)) for id_, title, inside in SECTIONS]
    return page.write_page(
        week_dir / "index.html",
        f"Kafka in week {told.name}",
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        _header(told, parts),
        tag("main", join(_part(*part) for part in parts)),
        tag("footer", tag("p", FOOT)),
        shared="../..",
    )


def _header(told: WeekView, parts: Sequence[tuple[str, str, Markup]]) -> Markup:
    links = (tag("li", tag("a", title, href=f"#{id_}")) for id_, title, _ in parts[1:])
    return tag(
        "header",
        tag("h1", f"Kafka in week {told.name}"),
        tag("nav", tag("ul", *(tag("li", one) for one in _ways(told))), aria_label="Other pages"),
        tag("nav", tag("ul", *links), aria_label="Parts of this page"),
    )


def _ways(told: WeekView) -> list[Child]:
    ways: list[Child] = [tag("a", "All weeks", href="../../index.html")]
    if told.before is not None:
        name = str(told.before["week"])
        ways.append(tag("a", f"The week before, {name}", href=f"../{name}/index.html"))
    return [*ways, tag("a", "Postmortem of this week", href="report.html")]


def _part(id_: str, title: str, inside: Markup) -> Markup:
    named = f"{id_}-title"
    heading = tag("h2", title, id=named)
    return tag("section", heading, inside, "\n", id=id_, aria_labelledby=named, tabindex=-1)
