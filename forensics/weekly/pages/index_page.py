"""Draws the index of a store: all its weeks, the newest first, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.lib.text_format import count
from forensics.report import page
from forensics.report.html import Child, Markup, TableRow, join, section, table, tag, verdict_box
from forensics.weekly.notes import NO_NOTES, Notes
from forensics.weekly.pages.week_view import (
    VERDICT_LEVELS,
    WeekView,
    build_view,
    list_incident_levels,
)
from forensics.weekly.week_summary import WeekSummary

_HEAD = ("Week", "Than the week before", "Incidents begun", "New", "Recurring", "Resolved",
         "Not evaluable", "Coverage", "Why", "Postmortem")  # fmt: skip
_OWN_VERDICTS = {"incident": "incident", "clear": "clear", "cannot_tell": "cannot tell"}


def build_views(summaries: Sequence[WeekSummary], notes: Notes = NO_NOTES) -> list[WeekView]:
    """Compare every week with those before it, the newest first."""
    ordered = sorted(summaries, key=lambda week: week.week)
    views = [build_view(week, ordered[:index], notes) for index, week in enumerate(ordered)]
    return views[::-1]


def draw_index(store: Path, summaries: Sequence[WeekSummary], notes: Notes = NO_NOTES) -> Path:
    """Draw `index.html` of a store from the week.json of all its weeks."""
    views = build_views(summaries, notes)
    title = "Kafka, week by week"
    return page.write_page(
        store / "index.html",
        title,
        tag("a", "Skip to the weeks", href="#weeks", class_="skip"),
        tag("header", tag("h1", title)),
        tag("main", _newest(views), _weeks(views)),
        tag("footer", tag("p", "All times are UTC; a week begins on Monday.")),
        shared=True,
    )


def _newest(views: Sequence[WeekView]) -> Markup:
    if not views:
        return tag("p", "No week is in this store yet.")
    newest = views[0]
    word = newest.verdict.word
    link = tag("a", newest.name, href=f"weeks/{newest.name}/index.html")
    text = f": {newest.verdict.why}. Coverage {newest.verdict.now}."
    box = verdict_box(word, VERDICT_LEVELS[word], join([link, text]))
    return section("newest", "The newest week", box, tabindex=None)


def _weeks(views: Sequence[WeekView]) -> Markup | None:
    if not views:
        return None
    rows = map(_row, views)
    weeks = table(_HEAD, rows, caption="All weeks, the newest first", numbers=_HEAD[3:7])
    return section("weeks", count(len(views), "week"), weeks)


def _row(view: WeekView) -> TableRow:
    own_verdict = _OWN_VERDICTS.get(view.week.verdict, "not known")
    incidents = list_incident_levels(view.week.levels) or own_verdict
    accepted = f" ({view.accepted_incidents} accepted)" if view.accepted_incidents else ""
    folder = f"weeks/{view.name}"
    cells: list[Child] = [
        tag("a", view.name, href=f"{folder}/index.html"),
        tag("span", view.verdict.word, class_="badge"),
        join([incidents, accepted]),
        len(view.incidents("new", "seen")),
        len(view.incidents("recurring", "worse", "better")),
        len(view.incidents("resolved")),
        len(view.incidents("not evaluable")),
        str(view.verdict.now),
        tag("span", view.verdict.why),
        tag("a", "postmortem", href=f"{folder}/report.html",
            aria_label=f"Postmortem of {view.name}"),
    ]  # fmt: skip
    return TableRow(cells, {"class_": f"level-{VERDICT_LEVELS[view.verdict.word]}"})
