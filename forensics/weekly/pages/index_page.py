"""Draws the index of a store: all its weeks, the newest first, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.lib.text_format import count, time_text
from forensics.report import page
from forensics.report.html import Child, Markup, TableRow, join, section, table, tag, verdict_box
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.pages.week_view import (
    WeekView,
    build_view,
    compared_text,
    list_incident_levels,
    percent_text,
    short_why,
    week_headline,
    week_level,
)
from forensics.weekly.week_summary import WeekSummary

_HEAD = ("Week", "Worst", "vs last week", "Why", "Incidents begun", "New", "Recurring", "Resolved",
         "Not evaluable", "Logs cover")  # fmt: skip


def build_views(summaries: Sequence[WeekSummary], notes: Notes = NO_NOTES) -> list[WeekView]:
    """Compare every week with those before it, the newest first."""
    ordered = sorted(summaries, key=lambda week: week.week)
    views = [build_view(week, ordered[:index], notes) for index, week in enumerate(ordered)]
    return views[::-1]


def draw_index(store: Path, summaries: Sequence[WeekSummary], notes: Notes = NO_NOTES) -> Path:
    """Draw `index.html` of a store from the week.json of all its weeks."""
    views = build_views(summaries, notes)
    # Stores of several clusters stand open side by side.
    cluster = next((view.week.cluster for view in views if view.week.cluster), "")
    title = "Kafka, week by week" + f" \u00b7 {cluster}" * bool(cluster)
    return page.write_page(
        store / "index.html",
        title,
        tag("a", "Skip to the weeks", href="#weeks", class_="skip"),
        tag("header", tag("h1", title)),
        tag("main", _newest(views), _weeks(views)),
        tag("footer", tag("p", "All times are UTC; a week begins on Monday.")),
        page.number_sheets("Kafka, week by week"),
        shared=True,
    )


def _newest(views: Sequence[WeekView]) -> Markup:
    if not views:
        return tag("p", "No week is in this store yet.")
    newest = views[0]
    word, level = week_level(newest)
    link = tag("a", newest.name, href=f"weeks/{newest.name}/index.html")
    compared = f"{compared_text(newest.verdict.word)}: {short_why(newest)}"
    box = verdict_box(
        word, level, join([link, f": {week_headline(newest)}"]),
        tag("p", compared[:1].upper(), compared[1:], ".", class_="moment"),
    )  # fmt: skip
    return section("newest", "The newest week", box, tabindex=None)


def _weeks(views: Sequence[WeekView]) -> Markup | None:
    if not views:
        return None
    rows = map(_row, views)
    weeks = table(_HEAD, rows, caption="All weeks, the newest first", numbers=_HEAD[5:10])
    return section("weeks", count(len(views), "week"), weeks)


def _row(view: WeekView) -> TableRow:
    word, level = week_level(view)
    incidents = list_incident_levels(view.week.levels) or "none"
    accepted = f" ({view.accepted_incidents} accepted)" if view.accepted_incidents else ""
    folder = f"weeks/{view.name}"
    report = tag("a", "postmortem", href=f"{folder}/report.html",
                 aria_label=f"Postmortem of {view.name}")  # fmt: skip
    page_link = tag("a", view.name, href=f"{folder}/index.html")
    begin = time_text(view.week.window[0])[:10]
    cells: list[Child] = [
        tag("div", page_link, tag("br"), tag("small", f"from {begin}"), tag("br"),
            tag("small", report)),
        tag("span", word, class_="badge"),
        tag("span", view.verdict.word),
        tag("span", short_why(view)),
        join([incidents, accepted]),
        len(view.incidents("new", "seen")),
        len(view.incidents("recurring", "worse", "better")),
        len(view.incidents("resolved")),
        len(view.incidents("not evaluable")),
        percent_text(view),
    ]  # fmt: skip
    return TableRow(cells, {"class_": f"level-{level}"})
