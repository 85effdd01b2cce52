"""What the clients saw: their episodes of stale metadata."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, anchor, join, table, tag
from forensics.report.saved import Finding, Saved
from forensics.report.words import clock, count, lasting, listed
from forensics.report.zones import current

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 70
TITLE = "Clients"
HEAD = ("Client", "Verdict", "Cause", "Errors", "Lasted", "From", "Partitions", "Finding")
MOST = 300


def render(saved: Saved) -> Markup:
    """List every episode, the longest verdicts first."""
    found = [finding for finding in saved.findings if finding.detector == "stale-metadata"]
    if not found:
        return tag("p", "No client was seen with stale metadata.")
    verdicts = [str(finding.measures.get("verdict")) for finding in found]
    counts = [f"{verdicts.count(name)} {name}" for name in sorted(set(verdicts))]
    caption = "Episodes of stale metadata"
    if len(found) > MOST:
        caption += f", the worst {MOST} of {len(found):,}"
    head = [f"{name}, {current().label}" if name == "From" else name for name in HEAD]
    rows = (_row(finding) for finding in found[:MOST])
    return join(
        [
            tag("p", f"{count(len(found), 'episode')}: {', '.join(counts)}."),
            table(head, rows, caption=caption, numbers=("Errors",)),
        ]
    )


def _row(finding: Finding) -> list[Child]:
    measures = finding.measures
    seconds = measures.get("duration_s")
    return [
        listed(list(finding.clients)) or "not named",
        str(measures.get("verdict") or "not known"),
        str(measures.get("cause") or "not known").replace("_", " "),
        count(measures.get("errors")),
        lasting(seconds * 1000) if isinstance(seconds, int | float) else "not known",
        clock(finding.start),
        listed(list(finding.partitions)) or "-",
        tag("a", finding.id, href=f"#{anchor(finding.id)}"),
    ]
