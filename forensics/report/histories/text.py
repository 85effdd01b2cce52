"""A timeline as text for a terminal, a pipe or a file, and as values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from forensics.lib.formatting import time_text
from forensics.lib.text_safety import visible
from forensics.report.histories.model import MAX_ROWS, Step, Timeline
from forensics.report.histories.phrases import describe_end, format_time
from forensics.run_output.reader import RunOutput

# Colours a text: what it is, and the text.
Paint = Callable[[str, str], str]
# As wide as a date and a time, so that all sentences begin in one column.
WIDTH = len("2026-11-18 11:38:51.321")
ALARMS = frozenset({"breach", "cut", "loss", "unclean"})


def no_colour(_: str, text: str) -> str:
    """Leave a text as it is."""
    return text


def render_lines(story: Timeline, paint: Paint, *, quote: bool = False) -> Iterator[str]:
    """Write one timeline; `quote` gives the lines of evidence themselves, too.

    Log text is hostile: what a terminal would obey is shown as its code.
    """
    yield paint("summary", _line(story.summary))
    yield ""
    if not story.steps:
        yield f"{'':{WIDTH}}  {paint('unknown', 'nothing is told of this time')}"
    for step in story.steps:
        indent = "" if step.is_main else "  "
        at = f"{'time not known' if step.start is None else format_time(step.start):{WIDTH}}"
        says = paint(_colour(step), _line(step.text))
        end = describe_end(step, story.shown)
        yield f"{at}  {indent}{says}{f'; {end}' if end else ''}"
        for place in step.evidence:
            told = story.texts.get(place) if quote else None
            yield f"{'':{WIDTH}}    {indent}{paint('evidence', _line(str(place)))}"
            if told:
                yield f"{'':{WIDTH}}      {indent}{paint('quote', _line(told))}"
    if story.omitted:
        yield f"{story.omitted:,} more rows, after the first {MAX_ROWS:,}: choose --from and --to"


def _line(text: str) -> str:
    return visible(text).partition("\n")[0].replace("\t", " ")


def _colour(step: Step) -> str:
    if step.kind == "leader":
        if step.facts["clean"] is False:
            return "alarm"
        return {None: "unknown", -1: "alarm"}.get(step.facts["leader"], "main")
    if step.kind in ALARMS:
        return "alarm"
    if step.kind == "state":
        return "main" if step.facts["state"] in ("up", "starting") else "alarm"
    if step.kind == "unknown":
        return "unknown"
    return "main" if step.is_main else "plain"


def to_json(run: RunOutput, stories: list[Timeline]) -> dict[str, Any]:
    """Give timelines as values that JSON can hold."""
    window = run.window or (None, None)
    return {
        "schema": 1,
        "window": {"from": _iso(window[0]), "to": _iso(window[1])},
        "timelines": [_story(story) for story in stories],
    }


def _story(story: Timeline) -> dict[str, Any]:
    return {
        story.kind: story.name if story.kind == "partition" else int(story.name.split()[-1]),
        "summary": story.summary,
        "from": _iso(story.shown.start),
        "to": _iso(story.shown.end),
        "left_out": story.omitted,
        "steps": [_step(step, story) for step in story.steps],
    }


def _step(step: Step, story: Timeline) -> dict[str, Any]:
    evidence = [
        {"file": place.file, "line": place.line}
        | ({"text": story.texts[place]} if place in story.texts else {})
        for place in step.evidence
    ]
    end = {} if step.end_kind == "moment" else {"to": _iso(step.end), "end": step.end_kind}
    told: dict[str, Any] = {"what": step.kind, "from": _iso(step.start), **end, "says": step.text}
    return told | dict(step.facts) | {"evidence": evidence}


def _iso(at: int | None) -> str | None:
    return None if at is None else time_text(at, exact=True).replace(" ", "T") + "Z"
