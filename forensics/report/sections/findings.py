"""One card a finding, worst first: why it fired, on what lines, and what to do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from forensics.lib.formatting import count, detector_label, join_names, time_text
from forensics.lib.time_zone import current_zone
from forensics.report.evidence_html import QuoteContext, render_quote
from forensics.report.finding_text import count_statuses, describe_status, render_actions
from forensics.report.headline import finding_period
from forensics.report.html import (
    Child,
    Markup,
    anchor,
    code,
    join,
    render_prose,
    render_strip,
    table,
    tag,
)
from forensics.report.size_budget import fit_quotes
from forensics.run_output.reader import Finding, RunOutput

ORDER = 40
TITLE = "Findings"
# At most 40 lines a card, and 2,000 on the page, to keep it small; findings.json has them all.
PROOFS, LINES, FEWEST, NAMES, VALUES = 40, 2000, 5, 12, 8
# Letters of all quoted lines together; with more of them each is cut.
LETTERS = 300_000
# So many findings of one detector stand open; with more of them the rest is folded.
OPEN = 3
Numbered = tuple[int, Finding]


def render(run: RunOutput) -> Markup:
    """Show every finding; those below medium, and repeated ones, are folded away but counted."""
    numbered = list(enumerate(run.findings, 1))
    if not numbered:
        return join([tag("p", "No finding."), _below(run, [])])
    most = max(FEWEST, min(PROOFS, LINES // len(numbered)))
    quoted = [proof for finding in run.findings for proof in finding.evidence[:most]]
    drawer = _Drawer(run, QuoteContext(run, quoted), most)
    loud = [(number, finding) for number, finding in numbered if finding.is_incident]
    quiet = [(number, finding) for number, finding in numbered if not finding.is_incident]
    says = tag("p", _says(run))
    return join([says, *drawer.folded(loud), drawer.below(quiet)], "\n")


def _says(run: RunOutput) -> str:
    levels = [finding.severity for finding in run.findings]
    counts = [f"{levels.count(level)} {level}" for level in dict.fromkeys(levels)]
    says = f"{count(len(levels), 'finding')}: {', '.join(counts)}."
    if any(finding.status for finding in run.findings):
        return f"{says} Compared with the weeks before: {count_statuses(run.findings)}."
    return f"{says} No earlier run was compared, so new and recurring ones are not told apart."


def _below(run: RunOutput, quiet: Sequence[Numbered]) -> Markup:
    """Say what is not shown open: never nothing."""
    accepted = run.document.get("suppressed") or ()
    levels = Counter(finding.severity for _, finding in quiet)
    parts = [f"{level} {number}" for level, number in levels.items()]
    says = ", ".join([*parts, f"suppressed {len(accepted)}"])
    return join([f"And {len(quiet) + len(accepted)} more below the fold: {says}"])


class _Drawer:
    """Draws the cards of one page."""

    def __init__(self, run: RunOutput, places: QuoteContext, most: int) -> None:
        self._run, self._places, self._most = run, places, most
        quoted = (proof.text for one in run.findings for proof in one.evidence[:most])
        self._letters = fit_quotes(quoted, LETTERS)

    def folded(self, numbered: Sequence[Numbered]) -> Iterator[Markup]:
        """Give the cards; of a detector that found very much, all but the worst are folded."""
        mine: dict[str, list[Numbered]] = {}
        for number, finding in numbered:
            mine.setdefault(finding.detector, []).append((number, finding))
        for number, finding in numbered:
            all_of_it = mine[finding.detector]
            place = all_of_it.index((number, finding))
            if place < OPEN or len(all_of_it) == OPEN + 1:
                yield self._card(number, finding)
            elif place == OPEN:
                # The fold stands where the first of its cards would.
                rest = all_of_it[OPEN:]
                cards = (self._card(*one) for one in rest)
                yield tag("details", tag("summary", _rest(rest)), *cards, class_="below")

    def below(self, numbered: Sequence[Numbered]) -> Markup:
        """Give what is of level low or info, and what was accepted, folded."""
        cards = [self._card(number, finding) for number, finding in numbered]
        rows = self._run.document.get("suppressed") or ()
        accepted = [self._accepted(row) for row in rows]
        summary = tag("summary", _below(self._run, numbered))
        return tag("details", summary, *cards, *accepted, class_="below")

    def _accepted(self, row: Mapping[str, object]) -> Markup:
        says = f"{row.get('title')}: accepted until {row.get('until')}, {row.get('reason')}"
        name = str(row.get("id"))
        level = str(row.get("severity"))
        return tag("p", code(name), f" {level}. {says}", id=anchor(name), class_="accepted")

    def _card(self, number: int, finding: Finding) -> Markup:
        badge = tag("span", finding.severity, class_="badge")
        title = f"{number}. {finding.title or detector_label(finding.detector)}"
        return tag(
            "article",
            tag("h3", badge, " ", tag("a", title, href=f"#{anchor(finding.id)}")),
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

    def _when(self, finding: Finding) -> Markup:
        state = f". State: {describe_status(finding)}." if describe_status(finding) else "."
        return tag(
            "div",
            tag("p", code(finding.id), " ", detector_label(finding.detector), ". ",
                finding_period(self._run, finding), state),
            render_strip(self._run, [(finding.start_ms, finding.end_ms)]),
            class_="when",
        )  # fmt: skip

    def _evidence(self, finding: Finding) -> Markup:
        if not finding.evidence:
            return tag("p", "No line of evidence was kept.")
        more = len(finding.evidence) - self._most
        rest = tag("p", f"And {count(more, 'line')} more in findings.json.") if more > 0 else None
        chips = (
            render_quote(proof, self._places, self._letters, f"{finding.id}/{at}")
            for at, proof in enumerate(finding.evidence[: self._most])
        )
        summary = tag("summary", f"Evidence: {count(len(finding.evidence), 'line')}")
        # The archive is the reader's to name: where it lies now, nothing on this page knows.
        shows = code(f"kafka-forensics show {anchor(finding.id)} --archive ARCHIVE")
        around = tag("p", "With the lines around them, from the archive itself: ", shows)
        is_open = finding.is_incident
        return tag("details", summary, *chips, rest, around, class_="evidence", open=is_open)


def _rest(numbered: Sequence[Numbered]) -> str:
    """Say what is in the fold of one detector."""
    found = [finding for _, finding in numbered]
    levels = Counter(finding.severity for finding in found)
    starts = [finding.start_ms for finding in found if finding.start_ms is not None]
    during = ""
    if starts:
        during = f", {time_text(min(starts))} to {time_text(max(starts))} {current_zone().label}"
    counts = ", ".join(f"{number} {level}" for level, number in levels.items())
    return f"{len(found):,} more of {detector_label(found[0].detector)}: {counts}{during}"


def _reasons(finding: Finding) -> Markup:
    """Say why it fired, how sure it is and why, and what would make it wrong."""
    sure = f"{finding.confidence}: {finding.reason}" if finding.reason else finding.confidence
    doubts = tag("ul", *(tag("li", doubt) for doubt in finding.doubts))
    pairs: tuple[tuple[str, Child], ...] = (
        ("Confidence", sure),
        ("Why it fired", finding.why),
        ("What would make it wrong", doubts if finding.doubts else ""),
    )
    rows = (tag("div", tag("dt", name), tag("dd", says)) for name, says in pairs if says)
    return tag("dl", *rows, class_="reasons")


def _scope(finding: Finding) -> Markup | None:
    groups = (
        ("Brokers", [str(broker) for broker in finding.brokers]),
        ("Partitions", list(finding.partitions)),
        ("Clients", list(finding.clients)),
    )
    pairs = [
        tag("div", tag("dt", name), tag("dd", join_names(names, NAMES)))
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
    shown = table(["Measure", "Value"], rows, caption="Measured")
    return tag("details", tag("summary", "Measured"), shown, class_="measured")


def _value(value: object) -> Child:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        link = tag("a", "data-loss ledger", href="#ledger")
        rows = count(len(value), "row")
        return join([rows, ", see the ", link]) if "lost_from" in value[0] else f"{rows} of data"
    if isinstance(value, list):
        return join_names([str(item) for item in value], VALUES) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if value is None:
        return "not known"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
