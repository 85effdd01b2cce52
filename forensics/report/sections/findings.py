"""One card a finding, worst first: why it fired, on what lines, and what to do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from forensics.lib.text_format import count, detector_label, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.evidence_html import QuoteContext, render_quote
from forensics.report.finding_text import (
    count_statuses,
    describe_status,
    finding_period,
    render_actions,
)
from forensics.report.html import (
    Child,
    Markup,
    anchor,
    code,
    finding_link,
    join,
    note_left_out,
    render_prose,
    render_strip,
    table,
    tag,
)
from forensics.report.size_budget import fit_quotes
from forensics.run_output.reader import RunOutput, SavedFinding

TITLE = "Findings"
# Lines of evidence of one card, and of all: the page stays small, findings.json has them all.
MIN_QUOTES, MAX_QUOTES, MAX_ALL_QUOTES = 5, 40, 2000
# Characters of all quoted lines together; with more of them each is cut.
MAX_QUOTED_CHARS = 300_000
MAX_NAMES, MAX_VALUES = 12, 8
# So many findings of one detector stand open; the others are folded.
MAX_OPEN = 3
Numbered = tuple[int, SavedFinding]


def render(run: RunOutput) -> Markup:
    """Show every finding; those below medium, and repeated ones, are folded away but counted."""
    numbered = list(enumerate(run.findings, 1))
    if not numbered:
        return join([tag("p", "No finding."), _fold_title(run, [])])
    cards = _Cards(run)
    incidents = [(number, finding) for number, finding in numbered if finding.is_incident]
    others = [(number, finding) for number, finding in numbered if not finding.is_incident]
    return join([tag("p", _summary(run)), *cards.incidents(incidents), cards.others(others)], "\n")


def _summary(run: RunOutput) -> str:
    counts = _count_levels(run.findings, "{1} {0}")
    text = f"{count(len(run.findings), 'finding')}: {counts}."
    if any(finding.status for finding in run.findings):
        return f"{text} Compared with the weeks before: {count_statuses(run.findings)}."
    return f"{text} No earlier run was compared, so new and recurring ones are not told apart."


def _count_levels(findings: Sequence[SavedFinding], pattern: str) -> str:
    levels = Counter(finding.severity for finding in findings)
    return ", ".join(pattern.format(level, number) for level, number in levels.items())


def _fold_title(run: RunOutput, folded: Sequence[Numbered]) -> str:
    """Say what is not shown open: never nothing."""
    accepted = len(run.document.get("suppressed") or ())
    levels = _count_levels([finding for _, finding in folded], "{0} {1}")
    levels += ", " if levels else ""
    return f"And {len(folded) + accepted} more below the fold: {levels}suppressed {accepted}"


class _Cards:
    """Draws the cards of one page."""

    def __init__(self, run: RunOutput) -> None:
        share = MAX_ALL_QUOTES // len(run.findings)
        self._max_quotes = max(MIN_QUOTES, min(MAX_QUOTES, share))
        quoted = [line for one in run.findings for line in one.evidence[: self._max_quotes]]
        self._run, self._context = run, QuoteContext(run, quoted)
        self._max_chars = fit_quotes((line.text for line in quoted), MAX_QUOTED_CHARS)

    def incidents(self, numbered: Sequence[Numbered]) -> Iterator[Markup]:
        """Yield the cards; of a detector that found very much, all but the worst are folded."""
        by_detector: dict[str, list[Numbered]] = {}
        for pair in numbered:
            by_detector.setdefault(pair[1].detector, []).append(pair)
        for pair in numbered:
            siblings = by_detector[pair[1].detector]
            place = siblings.index(pair)
            if place < MAX_OPEN or len(siblings) == MAX_OPEN + 1:
                yield self._card(*pair)
            elif place == MAX_OPEN:
                # The fold stands where the first of its cards would.
                rest = siblings[MAX_OPEN:]
                cards = (self._card(*one) for one in rest)
                yield tag("details", tag("summary", _describe_rest(rest)), *cards, class_="below")

    def others(self, numbered: Sequence[Numbered]) -> Markup:
        """Draw what is of level low or info, and what was accepted, folded."""
        cards = [self._card(*pair) for pair in numbered]
        accepted = map(_accepted, self._run.document.get("suppressed") or ())
        summary = tag("summary", _fold_title(self._run, numbered))
        return tag("details", summary, *cards, *accepted, class_="below")

    def _card(self, number: int, finding: SavedFinding) -> Markup:
        badge = tag("span", finding.severity, class_="badge")
        title = f"{number}. {finding.title or detector_label(finding.detector)}"
        return tag(
            "article",
            tag("h3", badge, " ", finding_link(finding.id, title)),
            self._when(finding),
            _scope(finding),
            render_prose(finding.explanation),
            _reasons(finding),
            _measures(finding.measures),
            render_actions(finding.actions),
            self._evidence(finding),
            id=anchor(finding.id),
            class_=f"card level-{anchor(finding.severity)}",
            data_kind="finding",
        )

    def _when(self, finding: SavedFinding) -> Markup:
        status = describe_status(finding)
        return tag(
            "div",
            tag("p", code(finding.id), " ", detector_label(finding.detector), ". ",
                finding_period(self._run, finding), f". State: {status}." if status else "."),
            render_strip(self._run, [(finding.start_ms, finding.end_ms)]),
            class_="when",
        )  # fmt: skip

    def _evidence(self, finding: SavedFinding) -> Markup:
        if not finding.evidence:
            return tag("p", "No line of evidence was kept.")
        left = len(finding.evidence) - self._max_quotes
        rest = note_left_out(left, "line", "And {} more in findings.json.")
        quotes = (
            render_quote(line, self._context, self._max_chars, f"{finding.id}/{index}")
            for index, line in enumerate(finding.evidence[: self._max_quotes])
        )
        summary = tag("summary", f"Evidence: {count(len(finding.evidence), 'line')}")
        # The archive is the reader's to name: where it lies now, nothing on this page knows.
        command = code(f"kafka-forensics show {anchor(finding.id)} --archive ARCHIVE")
        around = tag("p", "With the lines around them, from the archive itself: ", command)
        is_open = finding.is_incident
        return tag("details", summary, *quotes, rest, around, class_="evidence", open=is_open)


def _accepted(row: Mapping[str, object]) -> Markup:
    name, level = str(row.get("id")), row.get("severity")
    text = f"{row.get('title')}: accepted until {row.get('until')}, {row.get('reason')}"
    return tag("p", code(name), f" {level}. {text}", id=anchor(name), class_="accepted")


def _describe_rest(numbered: Sequence[Numbered]) -> str:
    """Say what is in the fold of one detector."""
    findings = [finding for _, finding in numbered]
    starts = [finding.start_ms for finding in findings if finding.start_ms is not None]
    during = ""
    if starts:
        first, last = time_text(min(starts)), time_text(max(starts))
        during = f", {first} to {last} {current_zone().label}"
    name, counts = detector_label(findings[0].detector), _count_levels(findings, "{1} {0}")
    return f"{len(findings):,} more of {name}: {counts}{during}"


def _reasons(finding: SavedFinding) -> Markup:
    """Say why it fired, how sure it is and why, and what would make it wrong."""
    sure = f"{finding.confidence}: {finding.reason}" if finding.reason else finding.confidence
    doubts = tag("ul", *(tag("li", doubt) for doubt in finding.doubts))
    pairs: tuple[tuple[str, Child], ...] = (
        ("Confidence", sure),
        ("Why it fired", finding.why),
        ("What would make it wrong", doubts if finding.doubts else ""),
    )
    rows = (tag("div", tag("dt", name), tag("dd", text)) for name, text in pairs if text)
    return tag("dl", *rows, class_="reasons")


def _scope(finding: SavedFinding) -> Markup | None:
    groups = (
        ("Brokers", [str(broker) for broker in finding.brokers]),
        ("Partitions", list(finding.partitions)),
        ("Clients", list(finding.clients)),
    )
    pairs = [
        tag("div", tag("dt", name), tag("dd", join_names(names, MAX_NAMES)))
        for name, names in groups
        if names
    ]
    return tag("dl", *pairs, class_="scope") if pairs else None


def _measures(measures: Mapping[str, object]) -> Markup | None:
    if not measures:
        return None
    rows: list[list[Child]] = [
        [name.replace("_", " "), _value(value)] for name, value in sorted(measures.items())
    ]
    listing = table(["Measure", "Value"], rows, caption="Measured")
    return tag("details", tag("summary", "Measured"), listing, class_="measured")


def _value(value: object) -> Child:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        link = tag("a", "data-loss ledger", href="#ledger")
        rows = count(len(value), "row")
        return join([rows, ", see the ", link]) if "lost_from" in value[0] else f"{rows} of data"
    if isinstance(value, list):
        return join_names([str(item) for item in value], MAX_VALUES) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if value is None:
        return "not known"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
