"""Whether a finding is new, comes again, or is accepted, as runs of other weeks tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from forensics.report.saved import Finding
from forensics.report.words import count

__all__ = ["counted", "told"]


def told(finding: Finding) -> str:
    """Say the state of one finding; empty where no other run was compared.

    >>> from forensics.report.saved import Finding
    >>> told(Finding("F-1", "x", "high", "likely", "", 0, 0, status="recurring", weeks=3,
    ...              first_seen="2026-10-26"))
    'recurring (3 weeks, since 2026-10-26)'
    """
    parts = [count(finding.weeks, "week")] if finding.weeks else []
    parts += [f"since {finding.first_seen}"] if finding.first_seen else []
    state = f"{finding.status} ({', '.join(parts)})" if finding.status and parts else finding.status
    until = f"accepted until {finding.accepted_until}" if finding.accepted_until else ""
    return "; ".join(part for part in (state, until) if part)


def counted(findings: Sequence[Finding]) -> str:
    """Count the findings by their states, the commonest first."""
    first = [_kind(finding) for finding in findings]
    ranked = sorted(Counter(first).items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number} {name}" for name, number in ranked)


def _kind(finding: Finding) -> str:
    # The state may go on to say since when: "recurring, 3 weeks".
    return finding.status.partition(",")[0].partition("(")[0].strip() or "not compared"
