"""Draws the index of a store: all its weeks, the newest first, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.lib.formatting import count
from forensics.report import page
from forensics.report.html import Child, Markup, TableRow, join, table, tag
from forensics.run_output.findings import WORST_FIRST
from forensics.weekly.coverage_normalisation import WeekSummary, format_coverage
from forensics.weekly.notes import Notes
from forensics.weekly.pages.week_sections import COLOURS
from forensics.weekly.pages.week_view import WeekView, build_view

HEAD = ("Week", "Than the week before", "Incidents begun", "New", "Recurring", "Resolved",
        "Not evaluable", "Coverage", "Why", "Postmortem")  # fmt: skip
OWN = {"incident": "incident", "clear": "clear", "cannot_tell": "cannot tell"}


def views(summaries: Sequence[WeekSummary], notes: Notes | None = None) -> list[WeekView]:
    """Put every week beside those before it, the newest first."""
    ordered = sorted(summaries, key=lambda one: str(one["week"]))
    return [build_view(one, ordered[:at], notes) for at, one in enumerate(ordered)][::-1]


def draw_index(store: Path, summaries: Sequence[WeekSummary], notes: Notes | None = None) -> Path:
    """Draw `index.html` of a store from the week.json of all its weeks."""
    known = views(summaries, notes)
    title = "Kafka, week by week"
    return page.write_page(
        store / "index.html",
        title,
        tag("a", "Skip to the weeks", href="#weeks", class_="skip"),
        tag("header", tag("h1", title)),
        tag("main", _newest(known), _weeks(known)),
        tag("footer", tag("p", "All times are UTC; a week begins on Monday.")),
        shared=True,
    )


def _newest(known: Sequence[WeekView]) -> Markup:
    if not known:
        return tag("p", "No week is in this store yet.")
    last = known[0]
    badge = tag("span", last.judgement.word, class_="badge")
    link = tag("a", last.name, href=f"weeks/{last.name}/index.html")
    says = f": {last.judgement.why}. Coverage {format_coverage(last.judgement.now)}."
    inside = tag("p", badge, " ", link, says, class_="answer")
    colour = COLOURS[last.judgement.word]
    heading = tag("h2", "The newest week", id="newest-title")
    box = tag("div", inside, class_=f"verdict level-{colour}")
    return tag("section", heading, box, id="newest", aria_labelledby="newest-title")


def _weeks(known: Sequence[WeekView]) -> Markup | None:
    if not known:
        return None
    rows = [_row(one) for one in known]
    heading = tag("h2", count(len(known), "week"), id="weeks-title")
    shown = table(HEAD, rows, caption="All weeks, the newest first", numbers=HEAD[3:7])
    return tag("section", heading, shown, id="weeks", aria_labelledby="weeks-title", tabindex=-1)


def _row(one: WeekView) -> TableRow:
    judged, levels = one.judgement, one.week["levels"]
    incidents = [f"{levels[level]} {level}" for level in WORST_FIRST[:3] if levels.get(level)]
    accepted = sum(each.accepted and each.is_incident for each in one.troubles)
    taken = f" ({accepted} accepted)" if accepted else ""
    folder = f"weeks/{one.name}"
    cells: list[Child] = [
        tag("a", one.name, href=f"{folder}/index.html"),
        tag("span", judged.word, class_="badge"),
        join([", ".join(incidents) or OWN.get(str(one.week["verdict"]), "not known"), taken]),
        len(one.some("new", "seen")), len(one.some("recurring", "worse", "better")),
        len(one.some("resolved")), len(one.some("not evaluable")),
        format_coverage(judged.now), tag("span", judged.why),
        tag("a", "postmortem", href=f"{folder}/report.html",
            aria_label=f"Postmortem of {one.name}"),
    ]  # fmt: skip
    return TableRow(cells, {"class_": f"level-{COLOURS[judged.word]}"})
