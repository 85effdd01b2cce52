"""One card a finding, worst first: why it fired, on what lines, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from forensics.report.markup import Child, Markup, anchor, code, join, prose, table, tag
from forensics.report.saved import Finding, Proof, Saved
from forensics.report.words import count, listed, named, span

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 40
TITLE = "Findings"
# At most 40 lines a card, and 3,000 on the page, to keep it small; findings.json has them all.
PROOFS, LINES, FEWEST, NAMES, VALUES = 40, 3000, 5, 12, 8
COMMAND = re.compile(
    r"\s*(\$ |# |(sudo |bin/|\./)?(kafka-[a-z-]+|zookeeper-shell)(\.sh)?( |$)|"
    r"(sudo )?(kcat|zcat|cat|sed|grep|df|du|ls|systemctl|chronyc|timedatectl|ntpq|journalctl|"
    r"jstat|iostat|curl|ssh) )"
)


def render(saved: Saved) -> Markup:
    """Show every finding; those below medium are folded away but counted."""
    numbered = list(enumerate(saved.findings, 1))
    if not numbered:
        return tag("p", "No finding.")
    most = max(FEWEST, min(PROOFS, LINES // len(numbered)))
    cards = [(finding, _card(number, finding, most)) for number, finding in numbered]
    loud = [card for finding, card in cards if finding.is_incident]
    quiet = [card for finding, card in cards if not finding.is_incident]
    below = f"{count(len(quiet), 'finding')} of level low or info"
    folded = tag("details", tag("summary", below), *quiet, class_="below") if quiet else None
    return join([tag("p", _says(saved)), *loud, folded], "\n")


def _says(saved: Saved) -> str:
    levels = [finding.severity for finding in saved.findings]
    counts = [f"{levels.count(level)} {level}" for level in dict.fromkeys(levels)]
    return f"{count(len(levels), 'finding')}: {', '.join(counts)}."


def _card(number: int, finding: Finding, most: int) -> Markup:
    badge = tag("span", finding.severity, class_="badge")
    title = f"{number}. {finding.title or named(finding.detector)}"
    return tag(
        "article",
        tag("h3", badge, " ", tag("a", title, href=f"#{anchor(finding.id)}")),
        tag("p", code(finding.id),
            f" {named(finding.detector)}, confidence {finding.confidence}. ",
            span(finding.start, finding.end), class_="when"),
        _scope(finding),
        prose(finding.explanation),
        _measures(finding.measures),
        _actions(finding.actions),
        _evidence(finding, most),
        id=anchor(finding.id),
        class_=f"card level-{anchor(finding.severity)}",
    )  # fmt: skip


def _scope(finding: Finding) -> Markup | None:
    groups = (
        ("Brokers", [str(broker) for broker in finding.brokers]),
        ("Partitions", list(finding.partitions)),
        ("Clients", list(finding.clients)),
    )
    pairs = [
        tag("div", tag("dt", name), tag("dd", listed(names, NAMES)))
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
    return table(["Measure", "Value"], rows, caption="Measured")


def _value(value: object) -> Child:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        link = tag("a", "data-loss ledger", href="#ledger")
        rows = count(len(value), "row")
        return join([rows, ", see the ", link]) if "lost_from" in value[0] else f"{rows} of data"
    if isinstance(value, list):
        return listed([str(item) for item in value], VALUES) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    if value is None:
        return "not known"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _actions(actions: tuple[str, ...]) -> Markup | None:
    if not actions:
        return None
    items = (tag("li", _action(action)) for action in actions)
    return join([tag("h4", "What to do"), tag("ol", *items, class_="actions")])


def _action(action: str) -> Markup:
    """Set the lines that are commands as one block, and all else as prose."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in action.strip().splitlines():
        is_command = bool(COMMAND.match(line))
        if not blocks or blocks[-1][0] != is_command:
            blocks.append((is_command, []))
        blocks[-1][1].append(line)
    return join(
        tag("pre", code("\n".join(lines)), class_="command", tabindex=0)
        if is_command
        else prose("\n".join(lines))
        for is_command, lines in blocks
    )


def _evidence(finding: Finding, most: int) -> Markup:
    if not finding.evidence:
        return tag("p", "No line of evidence was kept.")
    more = len(finding.evidence) - most
    rest = tag("p", f"And {count(more, 'line')} more in findings.json.") if more > 0 else None
    chips = (_chip(proof) for proof in finding.evidence[:most])
    summary = tag("summary", f"Evidence: {count(len(finding.evidence), 'line')}")
    return tag("details", summary, *chips, rest, class_="evidence", open=finding.is_incident)


def _chip(proof: Proof) -> Markup:
    place = f"{proof.file}:{proof.line}" if proof.line is not None else proof.file
    says = tag("a", f"read by {proof.rule}", href=f"#rule-{proof.rule}") if proof.rule else None
    return tag("details", tag("summary", code(place)), tag("pre", proof.text), says, class_="chip")
