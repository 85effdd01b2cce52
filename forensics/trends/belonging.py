"""Says which findings belong to a week: those that begin in it, told by corrected time.

So each is told of once, however many weeks it lasts; the day before a week is looked at only to
know how things stood when it began, and the day after to see how things went on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forensics.incidents import Answers, Finding, Outcome
from forensics.incidents.finding import iso
from forensics.report.narrowing import Narrowed, narrow
from forensics.report.saved import Saved
from forensics.trends.weeks import Week

__all__ = ["belonging", "carried", "seen"]


def belonging(answers: Answers, week: Week) -> Answers:
    """Keep what begins in a week, and count for each detector what is left."""
    found = [one for one in answers.findings if _begins(one, week)]
    hidden = [one for one in answers.suppressed if _begins(one.finding, week)]
    gone = {one.id for one in answers.findings} - {one.id for one in found}
    chains = [one for one in answers.chains if not any(name in str(one) for name in gone)]
    outcomes = [
        _outcome(
            one,
            sum(finding.detector == one.detector for finding in found),
            sum(taken.finding.detector == one.detector for taken in hidden),
        )
        for one in answers.outcomes
    ]
    return replace(answers, findings=found, suppressed=hidden, chains=chains, outcomes=outcomes)


def carried(findings: Sequence[Finding], week: Week) -> list[dict[str, Any]]:
    """Name what began before a week, and went on in it: the week before tells of it."""
    return [
        {
            "id": one.id, "detector": one.detector, "severity": one.severity, "title": one.title,
            "from": iso(one.begin), "to": iso(one.end),
        }
        for one in findings
        if one.begin < week.begin <= one.end
    ]  # fmt: skip


def seen(out: Path, document: Mapping[str, Any], week: Week) -> Narrowed:
    """Look at a run of nine days through the week in its middle, as far as logs reach."""
    saved = Saved(out, document)
    begin, end = week.begin // 1000, week.end // 1000 - 1
    if saved.window and saved.window[0] < end and saved.window[1] > begin:
        begin, end = max(begin, saved.window[0]), min(end, saved.window[1])
    return narrow(saved, (begin, end))


def _begins(finding: Finding, week: Week) -> bool:
    return week.begin <= finding.begin < week.end


def _outcome(one: Outcome, found: int, taken: int) -> Outcome:
    status = "quiet" if one.status == "fired" and not found + taken else one.status
    return replace(one, findings=found, suppressed=taken, status=status)
