"""Timelines as one self-contained page: a sentence, a figure and every step with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.lib.formatting import count, join_names, time_text
from forensics.report import page
from forensics.report.histories import figures
from forensics.report.histories.model import Location, Step, Timeline
from forensics.report.histories.phrases import describe_end, format_time
from forensics.report.html import Child, Markup, anchor, code, figure, join, table, tag
from forensics.run_output.reader import RunOutput

# A page has an end: so many histories with a figure, and so many steps of each.
STORIES, STEPS, ROWS = 100, 1000, 200
HEAD = ("From, UTC", "How long", "What", "Evidence")
HINT = {
    "partition": "The number in a leader's bar is the leader epoch, U an unclean election. "
    "Hatched: not known.",
    "broker": "Hatched: not known.",
}


def write_page(run: RunOutput, stories: Sequence[Timeline], target: Path) -> Path:
    """Draw histories into one page, and give its path."""
    names = join_names([story.name for story in stories], 2)
    drawn = stories[:STORIES]
    left = len(stories) - len(drawn)
    more = tag("p", f"{count(left, 'more history', 'more histories')} asked for, not drawn.")
    parts = [_part(run, story, at) for at, story in enumerate(drawn)]
    return page.write_page(
        target,
        f"History of {names}",
        tag("a", "Skip to the first history", href=f"#{_id(0)}", class_="skip"),
        _header(names, drawn),
        tag("main", _overview(drawn), join(parts), more if left else None),
        tag("footer", tag("p", "All times are UTC, corrected by the clocks that are known.")),
    )


def _header(names: str, stories: Sequence[Timeline]) -> Markup:
    links = (
        tag("li", tag("a", story.name, href=f"#{_id(at)}")) for at, story in enumerate(stories)
    )
    nav = tag("nav", tag("ul", *links), aria_label="Parts of this page")
    return tag("header", tag("h1", f"History of {names}"), nav if len(stories) > 1 else None)


def _id(at: int) -> str:
    return f"history-{at + 1}"


def _overview(stories: Sequence[Timeline]) -> Markup | None:
    rows = [story for story in stories if story.kind == "partition"][:ROWS]
    if len(rows) < 2:
        return None
    says = f"The leaders of {count(len(rows), 'partition')}. {HINT['partition']}"
    inside = figure("figure-overview", figures.overview(rows), says)
    return tag("section", tag("h2", "All together", id="overview"), inside)


def _part(run: RunOutput, story: Timeline, at: int) -> Markup:
    of = figures.partition_figure if story.kind == "partition" else figures.broker_figure
    span = story.shown
    window = f"{time_text(span.start)} to {time_text(span.end)} UTC"
    drawing = figure(
        f"figure-{anchor(_id(at))}", of(run, story), f"Shown: {window}. {HINT[story.kind]}"
    )
    title = f"{_id(at)}-title"
    return tag(
        "section",
        tag("h2", story.name, id=title),
        tag("p", tag("strong", story.summary)),
        drawing,
        _steps(story),
        id=_id(at),
        aria_labelledby=title,
        tabindex=-1,
    )


def _steps(story: Timeline) -> Markup:
    rows = [_row(step, story) for step in story.steps[:STEPS]]
    left = len(story.steps) - len(rows) + story.omitted
    more = f"{count(left, 'step')} more; choose a shorter time." if left else None
    shown = table(HEAD, rows, caption=f"{story.name}, step by step")
    return join([shown, tag("p", more) if more else None])


def _row(step: Step, story: Timeline) -> list[Child]:
    at = "not known" if step.start is None else format_time(step.start)
    says: Child = tag("strong", step.text) if step.is_main else tag("span", step.text)
    return [at, describe_end(step, story.shown), says, _evidence(step, story)]


def _evidence(step: Step, story: Timeline) -> Child:
    if not step.evidence:
        return "-"
    chips = (_chip(place, story) for place in step.evidence)
    return tag("details", tag("summary", count(len(step.evidence), "line")), *chips)


def _chip(place: Location, story: Timeline) -> Markup:
    text = story.texts.get(place)
    if not text:
        return tag("p", code(str(place)))
    return tag("details", tag("summary", code(str(place))), tag("pre", text), class_="chip")
