"""Draws the page of one week: what it is like beside the weeks before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from forensics.report import page
from forensics.report.html import Child, Markup, section, section_links, tag
from forensics.weekly.notes import Notes
from forensics.weekly.pages import small_multiples, week_sections
from forensics.weekly.pages.week_view import WeekView, build_view
from forensics.weekly.week_summary import WeekSummary

_SECTIONS: Sequence[tuple[str, str, Callable[[WeekView], Markup]]] = (
    ("verdict", "Verdict", week_sections.draw_verdict),
    ("findings", "Findings", week_sections.draw_findings),
    ("trend", "Week by week", small_multiples.draw_trend),
    ("flapping", "Brokers away", week_sections.draw_absences),
    ("nights", "One replica in sync at night", week_sections.draw_low_isr_nights),
    ("hours", "Hour by hour", week_sections.draw_hours),
    ("changes", "What else changed", week_sections.draw_changes),
    ("coverage", "Coverage", week_sections.draw_coverage),
    ("days", "Day by day", week_sections.draw_days),
)


def draw_week(
    week: WeekSummary, earlier: Iterable[WeekSummary], notes: Notes, target: Path
) -> Path:
    """Draw the page of a week, and return its path."""
    view = build_view(week, earlier, notes)
    return page.write_page(
        target,
        _title(view),
        tag("a", "Skip to the verdict", href="#verdict", class_="skip"),
        _header(view),
        tag("main", *(section(id_, title, draw(view), "\n") for id_, title, draw in _SECTIONS)),
        tag("footer", tag("p", "All times are UTC; a week begins on Monday. A finding belongs to "
                          "the week in which it begins.")),
        page.number_sheets(f"Kafka in week {view.name}"),
        shared="../..",
    )  # fmt: skip


def _title(view: WeekView) -> str:
    """Name the week, and the cluster: weeks of several stores stand open side by side."""
    return " \u00b7 ".join(
        part for part in (f"Kafka in week {view.name}", view.week.cluster) if part
    )


def _header(view: WeekView) -> Markup:
    pages: list[Child] = [tag("a", "All weeks", href="../../index.html")]
    if view.before is not None:
        name = view.before.week
        pages.append(tag("a", f"The week before, {name}", href=f"../{name}/index.html"))
    pages.append(tag("a", "Postmortem of this week", href="report.html"))
    return tag(
        "header",
        tag("h1", _title(view)),
        tag("nav", tag("ul", *(tag("li", link) for link in pages)), aria_label="Other pages"),
        section_links((id_, title) for id_, title, _ in _SECTIONS[1:]),
    )
