"""For the review: what people fill in, on paper or in notes.yaml beside findings.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forensics.errors import RuleError
from forensics.lib.yaml_with_lines import load_yaml
from forensics.report.html import Child, Markup, join, table, tag
from forensics.run_output.reader import RunOutput

TITLE = "Review"
NOTES = "notes.yaml"
PARTS = {
    "summary": "In our own words",
    "went_well": "What went well",
    "went_wrong": "What went wrong",
    "lucky": "Where we were lucky",
    "decisions": "Decisions",
}
ACTION = ("What", "Owner", "Due", "Ticket")
LINES, ROWS = 3, 4
HOW = (
    "Blank, to be printed. What is written into notes.yaml, beside findings.json, stands here "
    "when the page is drawn again (kafka-forensics report OUT):"
)
EXAMPLE = """\
went_well:
  - The alert on offline partitions fired within a minute.
went_wrong: []
lucky: []
decisions: []
actions:
  - {what: forbid unclean elections, owner: name, due: 2030-01-31, ticket: OPS-1}"""


def render(run: RunOutput) -> Markup:
    """Show what was noted, and lines to write on for what was not."""
    notes, trouble = _notes(run)
    parts = [_part(title, notes.get(name)) for name, title in PARTS.items()]
    example = tag("pre", EXAMPLE)
    how = tag("details", tag("summary", "How to fill this in"), tag("p", HOW), example)
    complaint = tag("p", trouble, class_="warning") if trouble else None
    words = tag("div", *parts, class_="notes")
    return join([complaint, how, words, tag("h3", "Actions"), _actions(notes.get("actions"))])


def _notes(run: RunOutput) -> tuple[Mapping[str, Any], str]:
    path = run.folder / NOTES
    if not path.is_file():
        return {}, ""
    try:
        notes = load_yaml(path)
    except (RuleError, OSError, UnicodeDecodeError) as error:
        return {}, f"{NOTES} could not be read: {error}"
    if not isinstance(notes, Mapping):
        return {}, f"{NOTES} could not be read: it is no mapping of headings to lists."
    return notes, ""


def _part(title: str, noted: object) -> Markup:
    lines = _texts(noted)
    inside = tag("ul", *(tag("li", line) for line in lines)) if lines else _blank()
    return tag("div", tag("h3", title), inside)


def _texts(noted: object) -> list[str]:
    if noted is None or noted == "":
        return []
    if isinstance(noted, Sequence) and not isinstance(noted, str):
        return [str(one) for one in noted if one is not None]
    return [str(noted)]


def _blank() -> Markup:
    lines = (tag("div", class_="rule") for _ in range(LINES))
    return tag("div", *lines, class_="blank", role="img", aria_label="space to write")


def _actions(noted: object) -> Markup:
    rows: list[list[Child]] = []
    for one in noted if isinstance(noted, Sequence) and not isinstance(noted, str) else ():
        if isinstance(one, Mapping):
            rows.append([str(one.get(name.lower()) or "") for name in ACTION])
        elif one is not None:
            rows.append([str(one), "", "", ""])
    filled = rows or [["\u00a0", "", "", ""] for _ in range(ROWS)]
    return table(ACTION, filled, caption="Actions, each with an owner", class_="actions-table")
