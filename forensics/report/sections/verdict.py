"""The first screen: what happened, when, why, to whom, what to do now, what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.detection.verdict import UNREAD_ERRORS
from forensics.lib.text_format import time_text
from forensics.lib.time_zone import current_zone
from forensics.report.coverage_advice import advise_collection
from forensics.report.headline import (
    confidence_text,
    describe_reading,
    headline,
    list_doubts,
    list_unread_errors,
)
from forensics.report.html import Markup, anchor, join, render_inline, tag, verdict_box
from forensics.report.incident_span import describe_others, describe_span, incident_span
from forensics.report.routine import merge_routine
from forensics.report.summary import SummaryLine, explain_why, list_impact
from forensics.report.summary_actions import describe_logs, list_actions, list_unknown
from forensics.run_output.reader import RunOutput

TITLE = "Summary"
WORDS = {"clear": "clear", "cannot_tell": "cannot tell"}
MAX_ROUTINE = 8


def render(run: RunOutput) -> Markup:
    """Answer what somebody asks who has two minutes."""
    level = run.incidents[0].severity if run.incidents else "none"
    verdict = str(run.document.get("verdict"))
    word = level if verdict == "incident" else WORDS.get(verdict, verdict)
    kind = anchor(level if verdict == "incident" else verdict.replace("_", "-"))
    if (run.document.get("quality") or {}).get("closed"):
        answers = _closed_gate(run)
    elif verdict == "incident" and run.incidents:
        answers = _incident(run)
    elif verdict == "clear":
        answers = _clear(run)
    else:
        answers = _cannot_tell(run)
    return verdict_box(word, kind, render_inline(headline(run)), tag("p", _when(run),
                       class_="moment"), _list_answers(answers))  # fmt: skip


Answers = list[tuple[str, Sequence[SummaryLine]]]


def _when(run: RunOutput) -> str:
    """Say when it was, for how long, whether it is over, and how sure that is."""
    span = incident_span(run)
    if run.document.get("verdict") == "incident" and span:
        parts = [describe_span(run, span)]
        parts += [confidence_text(run), describe_others(span)]
        return ". ".join(f"{part[:1].upper()}{part[1:]}" for part in parts if part) + "."
    if not run.window:
        return "No line has a time."
    start, end = map(time_text, run.window)
    end = end[11:] if start[:10] == end[:10] else end
    told = f"{start} \u2013 {end} {current_zone().label}; {describe_reading(run)}."
    if run.document.get("verdict") != "clear":
        return told
    sure = "limited by what is not known, below" if list_unknown(run) else "high"
    return f"{told} Confidence that no incident was missed: {sure}."


def _incident(run: RunOutput) -> Answers:
    return [
        ("Why", explain_why(run)),
        ("Impact", list_impact(run)),
        ("Do now", list_actions(run)),
        ("Not known", list_unknown(run)),
        ("Logs", describe_logs(run)),
    ]


def _clear(run: RunOutput) -> Answers:
    merged = merge_routine(run, run.findings)
    lines = [
        SummaryLine(f"{one.text}.", one.findings[0].id, "Evidence") for one in merged[:MAX_ROUTINE]
    ]
    if len(merged) > MAX_ROUTINE:
        lines.append(SummaryLine("And more.", "findings", "Findings"))
    merged = [one for one in merged if one.findings[0].detector != UNREAD_ERRORS]
    nothing = SummaryLine("Nothing: no finding of level medium or higher.")
    read = [SummaryLine(f"Read what no rule reads: {one.title}.", one.id, "Evidence")
            for one in list_unread_errors(run)[:MAX_ROUTINE]]  # fmt: skip
    return [
        ("Do now", read or [nothing]),
        ("Routine", lines),
        ("Not known", list_unknown(run)),
        ("Logs", describe_logs(run)),
    ]


def _cannot_tell(run: RunOutput) -> Answers:
    doubts = [
        SummaryLine(f"{doubt[:1].upper()}{doubt[1:]}.", "unseen", "What the logs do not show")
        for doubt in list_doubts(run)
    ]
    seen = [SummaryLine(f"{one.text}.", one.findings[0].id, "Evidence")
            for one in merge_routine(run, run.findings)[:3]]  # fmt: skip
    collect = [SummaryLine(one.what, "unseen", "Command") for one in advise_collection(run)[:3]]
    return [("Why not", doubts), ("Seen", seen), ("Collect", collect)]


def _closed_gate(run: RunOutput) -> Answers:
    closed = [str(one) for one in run.document["quality"]["closed"]]
    why = [SummaryLine(f"{one[:1].upper()}{one[1:].rstrip('.')}.", "quality", "Checks")
           for one in closed[:3]]  # fmt: skip
    number = len(run.incidents)
    if number:
        why.append(SummaryLine("Do not act on the findings below before that is settled."))
    return [("Why not", why), ("Not known", list_unknown(run))]


def _list_answers(answers: Answers) -> Markup:
    groups = [
        tag("div", tag("dt", name), tag("dd", _render_lines(name, lines)))
        for name, lines in answers
        if lines
    ]
    return tag("dl", *groups, class_="answers")


def _render_lines(name: str, lines: Sequence[SummaryLine]) -> Markup:
    """Set actions and routine as a list, and all else as short paragraphs."""
    inside = [_render_line(line) for line in lines]
    if name in ("Do now", "Collect") and (len(lines) > 1 or lines[0].anchor):
        return tag("ol", *(tag("li", one) for one in inside))
    if name == "Routine":
        return tag("ul", *(tag("li", one) for one in inside))
    if name == "Not known":
        return tag("p", join(inside, " "))
    return join(tag("p", one) for one in inside)


def _render_line(line: SummaryLine) -> Markup:
    text = render_inline(line.text)
    shown = tag("b", text) if line.is_strong else text
    if not line.anchor:
        return shown
    link = tag("a", line.link, href=f"#{anchor(line.anchor)}", class_="more-of-it")
    return join([shown, " ", link])
