"""Timelines as a self-contained page: a summary, a figure and every step with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forensics.lib.text_format import count, join_names, time_text
from forensics.report import page
from forensics.report.histories import figures
from forensics.report.histories.phrases import describe_end, format_time
from forensics.report.histories.timeline import Location, Step, Timeline
from forensics.report.html import Child, Markup, anchor, code, figure, join, table, tag
from forensics.run_output.reader import RunOutput

# Timelines with a figure, steps of each, and rows of the overview, at most.
MAX_TIMELINES, MAX_STEPS, MAX_OVERVIEW_ROWS = 100, 1000, 200
COLUMNS = ("From, UTC", "How long", "What", "Evidence")
HINTS = {
    "partition": "The number in a leader's bar is the leader epoch, U an unclean election. "
    "Hatched: not known.",
    "broker": "Hatched: not known.",
}


def write_page(run: RunOutput, timelines: Sequence[Timeline], target: Path) -> Path:
    """Write a page of timelines; return its path."""
    names = join_names([timeline.name for timeline in timelines], 2)
    drawn = timelines[:MAX_TIMELINES]
    left = len(timelines) - len(drawn)
    more = tag("p", f"{count(left, 'more history', 'more histories')} asked for, not drawn.")
    parts = [_part(run, timeline, index) for index, timeline in enumerate(drawn)]
    return page.write_page(
        target,
        f"History of {names}",
        tag("a", "Skip to the first history", href=f"#{_id(0)}", class_="skip"),
        _header(names, drawn),
        tag("main", _overview(drawn), join(parts), more if left else None),
        tag("footer", tag("p", "All times are UTC, corrected by the clocks that are known.")),
    )


def _header(names: str, timelines: Sequence[Timeline]) -> Markup:
    links = (
        tag("li", tag("a", timeline.name, href=f"#{_id(index)}"))
        for index, timeline in enumerate(timelines)
    )
    nav = tag("nav", tag("ul", *links), aria_label="Parts of this page")
    return tag("header", tag("h1", f"History of {names}"), nav if len(timelines) > 1 else None)


def _id(index: int) -> str:
    return f"history-{index + 1}"


def _overview(timelines: Sequence[Timeline]) -> Markup | None:
    rows = [timeline for timeline in timelines if timeline.kind == "partition"][:MAX_OVERVIEW_ROWS]
    if len(rows) < 2:
        return None
    caption = f"The leaders of {count(len(rows), 'partition')}. {HINTS['partition']}"
    inside = figure("figure-overview", figures.overview(rows), caption)
    return tag("section", tag("h2", "All together", id="overview"), inside)


def _part(run: RunOutput, timeline: Timeline, index: int) -> Markup:
    of = figures.partition_figure if timeline.kind == "partition" else figures.broker_figure
    span = timeline.shown
    window = f"{time_text(span.start)} to {time_text(span.end)} UTC"
    caption = f"Shown: {window}. {HINTS[timeline.kind]}"
    drawing = figure(f"figure-{anchor(_id(index))}", of(run, timeline), caption)
    title = f"{_id(index)}-title"
    return tag(
        "section",
        tag("h2", timeline.name, id=title),
        tag("p", tag("strong", timeline.summary)),
        drawing,
        _steps(timeline),
        id=_id(index),
        aria_labelledby=title,
        tabindex=-1,
    )


def _steps(timeline: Timeline) -> Markup:
    rows = [_row(step, timeline) for step in timeline.steps[:MAX_STEPS]]
    left = len(timeline.steps) - len(rows) + timeline.omitted
    more = f"{count(left, 'step')} more; choose a shorter time." if left else None
    shown = table(COLUMNS, rows, caption=f"{timeline.name}, step by step")
    return join([shown, tag("p", more) if more else None])


def _row(step: Step, timeline: Timeline) -> list[Child]:
    time = "not known" if step.start is None else format_time(step.start)
    text: Child = tag("strong", step.text) if step.is_main else tag("span", step.text)
    return [time, describe_end(step, timeline.shown), text, _evidence(step, timeline)]


def _evidence(step: Step, timeline: Timeline) -> Child:
    if not step.evidence:
        return "-"
    chips = (_chip(line, timeline) for line in step.evidence)
    return tag("details", tag("summary", count(len(step.evidence), "line")), *chips)


def _chip(line: Location, timeline: Timeline) -> Markup:
    text = timeline.texts.get(line)
    if not text:
        return tag("p", code(str(line)))
    return tag("details", tag("summary", code(str(line))), tag("pre", text), class_="chip")
