"""One card a finding, worst first: why it fired, on what lines, and what to do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from forensics.lib.node_ids import client_name
from forensics.lib.text_format import count, detector_label, join_names, pluralize, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.evidence_html import QuoteContext, mark_line, render_quote
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
    table,
    tag,
)
from forensics.report.routine import merge_routine
from forensics.report.size_budget import fit_quotes
from forensics.run_output.reader import RunOutput, SavedFinding

TITLE = "Findings"
# Lines of evidence of one card, and of all: the page stays small, findings.json has them all.
MIN_QUOTES, MAX_QUOTES, MAX_ALL_QUOTES = 5, 40, 2000
# Characters of all quoted lines together; with more of them each is cut.
MAX_QUOTED_CHARS = 300_000
MAX_NAMES, MAX_VALUES = 12, 8
# So many findings have a card, the worst first; so many more a line; of the rest the page gives the
# number, and says where they are.
MAX_CARDS, MAX_LINES = 300, 1000
# So many findings of one detector stand open; the others are folded.
MAX_OPEN = 3
# Lines of evidence that stand on a card as text.
MAX_DECISIVE, MAX_ALL_DECISIVE = 3, 18
Numbered = tuple[int, SavedFinding]


def render(run: RunOutput) -> Markup:
    """Show every finding; those below medium, and repeated ones, are folded away but counted."""
    every = list(enumerate(run.findings, 1))
    numbered, rest = every[:MAX_CARDS], every[MAX_CARDS:]
    if not numbered:
        return join([tag("p", "No finding."), _fold_title(run, [])])
    cards = _Cards(run)
    incidents = [(number, finding) for number, finding in numbered if finding.is_incident]
    others = [(number, finding) for number, finding in numbered if not finding.is_incident]
    parts = [tag("p", _summary(run)), *cards.incidents(incidents), cards.others(others)]
    return join([*parts, _without_cards(rest)] if rest else parts, "\n")


def _without_cards(rest: Sequence[Numbered]) -> Markup:
    """Give what has no card a line, as long as there is room, and say where all of it is."""
    findings = [finding for _, finding in rest]
    text = (
        f"The {MAX_CARDS} worst findings have a card; {len(rest):,} more do not: "
        f"{_count_levels(findings, '{1:,} {0}')}. findings.json has all of them, and "
    )
    lines = [
        tag("li", code(finding.id), f" {finding.severity}: ", finding.title or
            detector_label(finding.detector), id=anchor(finding.id))
        for finding in findings[:MAX_LINES]
    ]  # fmt: skip
    left = note_left_out(len(rest) - MAX_LINES, "finding", "And {} more in findings.json.")
    summary = tag("summary", f"Show {len(lines):,} findings without a card")
    return join([
        tag("p", text, code("kafka-forensics show ID"), " prints one of them with its lines."),
        tag("details", summary, tag("ul", *lines), left, class_="below"),
    ])  # fmt: skip


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
    levels = list(dict.fromkeys(finding.severity for _, finding in folded))
    words = " and ".join(levels)
    parts = [f"{len(folded)} {words} {pluralize('finding', len(folded))}"] if folded else []
    parts += [f"{accepted} accepted"] if accepted else []
    return f"Show {', '.join(parts)}" if parts else "No other findings, none accepted"


class _Cards:
    """Draws the cards of one page."""

    def __init__(self, run: RunOutput) -> None:
        drawn = run.findings[:MAX_CARDS]
        share = MAX_ALL_QUOTES // len(drawn)
        self._max_quotes = max(MIN_QUOTES, min(MAX_QUOTES, share))
        # Where cards are many, each stands for itself with less.
        each = MAX_ALL_DECISIVE // max(len(run.incidents), 1)
        self._most_decisive = max(1, min(MAX_DECISIVE, each))
        quoted = [line for one in drawn for line in one.evidence[: self._max_quotes]]
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
        merged = merge_routine(self._run, (finding for _, finding in numbered))
        lines = [
            tag("li", one.text, ": ", join(map(_number_link(numbered), one.findings), ", "))
            for one in merged
        ]
        overview = tag("ul", *lines) if len(lines) < len(cards) else None
        return tag("details", summary, overview, *cards, *accepted, class_="below")

    def _card(self, number: int, finding: SavedFinding) -> Markup:
        badge = tag("span", finding.severity, class_="badge")
        title = f"{number}. {finding.title or detector_label(finding.detector)}"
        return tag(
            "article",
            tag("h3", badge, " ", finding_link(finding.id, title)),
            self._when(finding),
            render_prose(finding.explanation),
            _decisive(finding, self._most_decisive),
            tag("div", _doing(finding), self._evidence(finding), _more(finding), class_="folds"),
            id=anchor(finding.id),
            class_=f"card level-{anchor(finding.severity)}",
            data_kind="finding",
        )

    def _when(self, finding: SavedFinding) -> Markup:
        status = describe_status(finding)
        return tag(
            "div",
            tag("p", code(finding.id), " ", detector_label(finding.detector), ". ",
                finding_period(self._run, finding), ". Confidence: ", finding.confidence,
                f". State: {status}." if status else "."),
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
        return tag("details", summary, *quotes, rest, around, class_="evidence")


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


def _number_link(numbered: Sequence[Numbered]) -> Callable[[SavedFinding], Markup]:
    numbers = {finding.id: number for number, finding in numbered}
    return lambda finding: finding_link(finding.id, str(numbers[finding.id]))


def _decisive(finding: SavedFinding, most: int) -> Markup | None:
    """Quote the lines that decide it, one of each kind first, with what they say marked."""
    first = list({line.rule or line.text: line for line in reversed(finding.evidence)}.values())
    chosen = sorted(first, key=finding.evidence.index)[:most]
    rest = [line for line in finding.evidence if line not in chosen]
    chosen += rest[: most - len(chosen)]
    setting = finding.measures.get("setting")
    lines = [
        tag("li", mark_line(line, setting if isinstance(setting, str) else ""))
        for line in sorted(chosen, key=finding.evidence.index)
        if line.text
    ]
    return tag("ul", *lines, class_="decisive") if lines else None


def _doing(finding: SavedFinding) -> Markup | None:
    if not finding.actions:
        return None
    summary = tag("summary", f"What to do: {count(len(finding.actions), 'step')}")
    return tag("details", summary, render_actions(finding.actions), class_="doing")


def _more(finding: SavedFinding) -> Markup:
    """Fold what it is about, why it fired, what was measured, and what could be wrong."""
    summary = tag("summary", "Why it fired, scope, doubts")
    inside = (_scope(finding), _reasons(finding), _measures(finding))
    return tag("details", summary, *inside, class_="reasons-fold")


def _reasons(finding: SavedFinding) -> Markup:
    """Say why it fired, how sure it is and why, and what would make it wrong."""
    sure = f"{finding.confidence}: {finding.reason}" if finding.reason else finding.confidence
    doubts = tag("ul", *(tag("li", doubt) for doubt in finding.doubts))
    pairs: tuple[tuple[str, Child], ...] = (
        ("Confidence", sure),
        ("Why it fired", finding.why),
        ("Could be wrong if", doubts if finding.doubts else ""),
    )
    rows = (tag("div", tag("dt", name), tag("dd", text)) for name, text in pairs if text)
    return tag("dl", *rows, class_="reasons")


def _scope(finding: SavedFinding) -> Markup | None:
    groups = (
        ("Brokers", [str(broker) for broker in finding.brokers]),
        ("Partitions", list(finding.partitions)),
        ("Clients", [client_name(one) for one in finding.clients]),
    )
    pairs = [
        tag("div", tag("dt", name), tag("dd", join_names(names, MAX_NAMES)))
        for name, names in groups
        if names
    ]
    return tag("dl", *pairs, class_="scope") if pairs else None


def _measures(finding: SavedFinding) -> Markup | None:
    if not finding.measures:
        return None
    rows: list[list[Child]] = [
        [name.replace("_", " "), _value(value)] for name, value in sorted(finding.measures.items())
    ]
    # A reader who lists the parts of the page hears which is which.
    listing = table(["Measure", "Value"], rows, caption=f"Measured of {finding.id}")
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
