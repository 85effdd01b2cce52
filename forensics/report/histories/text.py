"""A timeline as text for a terminal, a pipe or a file, and as values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from forensics.lib.formatting import clock
from forensics.lib.text_safety import visible
from forensics.report.histories.model import MOST, Step, Story
from forensics.report.histories.wording import moment, until
from forensics.run_output.reader import Saved

# Colours a text: what it is, and the text.
Paint = Callable[[str, str], str]
# As wide as a date and a time, so that all sentences begin in one column.
WIDTH = len("2026-11-18 11:38:51.321")
ALARMS = frozenset({"breach", "cut", "loss", "unclean"})


def plain(_: str, text: str) -> str:
    """Leave a text as it is."""
    return text


def lines(story: Story, paint: Paint, *, quote: bool = False) -> Iterator[str]:
    """Write one timeline; `quote` gives the lines of evidence themselves, too.

    Log text is hostile: what a terminal would obey is shown as its code.
    """
    yield paint("summary", _line(story.says))
    yield ""
    if not story.steps:
        yield f"{'':{WIDTH}}  {paint('unknown', 'nothing is told of this time')}"
    for step in story.steps:
        indent = "" if step.main else "  "
        at = f"{'time not known' if step.at is None else moment(step.at):{WIDTH}}"
        says = paint(_colour(step), _line(step.says))
        end = until(step, story.shown)
        yield f"{at}  {indent}{says}{f'; {end}' if end else ''}"
        for place in step.evidence:
            told = story.texts.get(place) if quote else None
            yield f"{'':{WIDTH}}    {indent}{paint('evidence', _line(str(place)))}"
            if told:
                yield f"{'':{WIDTH}}      {indent}{paint('quote', _line(told))}"
    if story.left_out:
        yield f"{story.left_out:,} more rows, after the first {MOST:,}: choose --from and --to"


def _line(text: str) -> str:
    return visible(text).partition("\n")[0].replace("\t", " ")


def _colour(step: Step) -> str:
    if step.what == "leader":
        if step.facts["clean"] is False:
            return "alarm"
        return {None: "unknown", -1: "alarm"}.get(step.facts["leader"], "main")
    if step.what in ALARMS:
        return "alarm"
    if step.what == "state":
        return "main" if step.facts["state"] in ("up", "starting") else "alarm"
    if step.what == "unknown":
        return "unknown"
    return "main" if step.main else "plain"


def values(saved: Saved, stories: list[Story]) -> dict[str, Any]:
    """Give timelines as values that JSON can hold."""
    window = saved.window or (None, None)
    return {
        "schema": 1,
        "window": {"from": _iso(window[0]), "to": _iso(window[1])},
        "timelines": [_story(story) for story in stories],
    }


def _story(story: Story) -> dict[str, Any]:
    return {
        story.kind: story.name if story.kind == "partition" else int(story.name.split()[-1]),
        "summary": story.says,
        "from": _iso(story.shown.start),
        "to": _iso(story.shown.end),
        "left_out": story.left_out,
        "steps": [_step(step, story) for step in story.steps],
    }


def _step(step: Step, story: Story) -> dict[str, Any]:
    evidence = [
        {"file": place.file, "line": place.line}
        | ({"text": story.texts[place]} if place in story.texts else {})
        for place in step.evidence
    ]
    end = {} if step.ends == "moment" else {"to": _iso(step.until), "end": step.ends}
    told: dict[str, Any] = {"what": step.what, "from": _iso(step.at), **end, "says": step.says}
    return told | dict(step.facts) | {"evidence": evidence}


def _iso(at: int | None) -> str | None:
    return None if at is None else clock(at, exact=True).replace(" ", "T") + "Z"
