"""A timeline as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from forensics.lib.text_safety import visible
from forensics.lib.time_units import MILLISECOND, to_iso
from forensics.report.histories.phrases import describe_end, format_time
from forensics.report.histories.timeline import MAX_ROWS, Location, Step, Timeline
from forensics.run_output.reader import RunOutput

# Colours a text by its style.
Paint = Callable[[str, str], str]
# The width of a date and a time: all sentences begin in one column.
WIDTH = len("2026-11-18 11:38:51.321")
ALARMS = frozenset({"breach", "cut", "loss", "unclean"})


def no_colour(_: str, text: str) -> str:
    """Leave a text as it is."""
    return text


def render_lines(timeline: Timeline, paint: Paint, *, quote: bool = False) -> Iterator[str]:
    """Render a timeline; `quote` adds the texts of the lines of evidence.

    Log text is hostile: control characters are shown as their codes.
    """
    yield paint("summary", _one_line(timeline.summary))
    yield ""
    margin = " " * WIDTH
    if not timeline.steps:
        yield f"{margin}  {paint('unknown', 'nothing is known of this time')}"
    for step in timeline.steps:
        indent = "" if step.is_main else "  "
        time = "time not known" if step.start is None else format_time(step.start)
        text = paint(_style(step), _one_line(step.text))
        end = describe_end(step, timeline.shown)
        yield f"{time:{WIDTH}}  {indent}{text}{f'; {end}' if end else ''}"
        for line in step.evidence:
            yield f"{margin}    {indent}{paint('evidence', _one_line(str(line)))}"
            if quote and (quoted := timeline.texts.get(line)):
                yield f"{margin}      {indent}{paint('quote', _one_line(quoted))}"
    if timeline.omitted:
        omitted = f"{timeline.omitted:,} more rows, after the first {MAX_ROWS:,}"
        yield f"{omitted}: choose --from and --to"


def _one_line(text: str) -> str:
    return visible(text).partition("\n")[0].replace("\t", " ")


def _style(step: Step) -> str:
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


def to_json(run: RunOutput, timelines: list[Timeline]) -> dict[str, Any]:
    """Return timelines as a JSON object."""
    start, end = run.window or (None, None)
    return {
        "schema": 1,
        "window": {"from": _iso(start), "to": _iso(end)},
        "timelines": [_timeline(timeline) for timeline in timelines],
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        timeline.kind: timeline.name if timeline.kind == "partition" else timeline.broker,
        "summary": timeline.summary,
        "from": _iso(timeline.shown.start),
        "to": _iso(timeline.shown.end),
        "left_out": timeline.omitted,
        "steps": [_step(step, timeline.texts) for step in timeline.steps],
    }


def _step(step: Step, texts: Mapping[Location, str]) -> dict[str, Any]:
    evidence = [
        {"file": line.file, "line": line.line} | ({"text": texts[line]} if line in texts else {})
        for line in step.evidence
    ]
    end = {} if step.end_kind == "moment" else {"to": _iso(step.end), "end": step.end_kind}
    start: dict[str, Any] = {"what": step.kind, "from": _iso(step.start)}
    return {**start, **end, "says": step.text, **step.facts, "evidence": evidence}


def _iso(ms: int | None) -> str | None:
    return None if ms is None else to_iso(ms * MILLISECOND)
