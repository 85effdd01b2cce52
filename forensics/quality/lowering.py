"""What a failed expectation does to what was found: findings are downgraded, detectors fall silent.

A finding all of whose lines are in files that failed is only possible; one that has other lines,
too, goes down by one step. A detector that found nothing, and whose logs all failed, cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from forensics.incidents import Answers, Finding, Outcome
from forensics.incidents.finding import CONFIDENCES
from forensics.incidents.needs import Needs
from forensics.quality.gate import Check, Gate
from forensics.quality.given import Given

__all__ = ["lowered"]

# Tables whose failed files nothing can be read from at all.
_OF_FILES = ("archive", "files", "events")


def lowered(answers: Answers, gate: Gate, given: Given) -> tuple[Answers, Gate]:
    """Give the answers as far as they can be trusted, and the gate with what it brought about."""
    failed = [*gate.failed("close"), *gate.failed("downgrade")]
    if not failed:
        return answers, gate
    scope = _Scope(given)
    findings = [_finding(one, failed, scope) for one in answers.findings]
    outcomes = [_outcome(one, failed, answers.needs.get(one.detector), scope)
                for one in answers.outcomes]  # fmt: skip
    touched: dict[str, list[str]] = {}
    for one in findings:
        for step in one.downgraded:
            touched.setdefault(step["check"], []).append(one.id)
    checks = [
        replace(check, findings=touched.get(check.expectation.id, ())) for check in gate.checks
    ]
    return replace(answers, findings=findings, outcomes=outcomes), Gate(checks)


@dataclass(frozen=True)
class _Scope:
    """Says what of a finding or a detector a check concerns."""

    given: Given

    def of_finding(self, check: Check, finding: Finding) -> bool | None:
        """Whether a finding rests on what failed, wholly (true) or in part; null: not at all."""
        if not check.names:
            # It is about the whole: everything rests on that, and on much else.
            return False
        if check.about == "findings":
            return True if finding.id in check.names else None
        if check.about == "partitions":
            mine = check.names.intersection(finding.partitions)
            return None if not mine else len(mine) == len(set(finding.partitions))
        places = {place["file"] for place in finding.evidence}
        failed = places & self.files(check)
        return None if not failed else failed == places

    def files(self, check: Check) -> set[str]:
        """Give the files that a check concerns, by their names or by whose they are."""
        if check.about == "files":
            return set(check.names)
        return {one.file for one in self.given.files if one.node in check.names}

    def of_needs(self, check: Check, needs: Needs) -> tuple[set[str], set[str]]:
        """Give the files that a detector needs, and those of them that failed."""
        mine = {str(row["file"]) for row in self._read if needs.meet(row)}
        if check.expectation.table not in _OF_FILES or check.about == "partitions":
            return mine, set()
        return mine, mine & self.files(check) if check.names else mine

    @cached_property
    def _read(self) -> Sequence[Mapping[str, object]]:
        return [row for row in self.given.rows.to_pylist() if row["records"]]


def _finding(finding: Finding, failed: Sequence[Check], scope: _Scope) -> Finding:
    for check in failed:
        wholly = scope.of_finding(check, finding)
        if wholly is None:
            continue
        before = CONFIDENCES.index(finding.confidence)
        after = CONFIDENCES[0 if wholly else max(0, before - 1)]
        says = check.expectation.otherwise
        step = {
            "check": check.expectation.id,
            "from": finding.confidence,
            "to": after,
            "because": says,
        }
        reasons = [finding.reason, f"the check {check.expectation.id} failed: {says}"]
        finding = replace(
            finding,
            confidence=after,
            reason="; ".join(reason for reason in reasons if reason),
            doubts=[*finding.doubts, _doubt(check, wholly=wholly)],
            downgraded=[*finding.downgraded, step],
        )
    return finding


def _doubt(check: Check, *, wholly: bool) -> str:
    rests = "it rests on that" if wholly else "it rests on that in part"
    return f"An expectation failed: {check.expectation.words} {check.says}; {rests}."


def _outcome(
    outcome: Outcome, failed: Sequence[Check], needs: Needs | None, scope: _Scope
) -> Outcome:
    if needs is None or outcome.status not in ("quiet", "fired"):
        return outcome
    left: set[str] | None = None
    reasons = []
    for check in failed:
        mine, gone = scope.of_needs(check, needs)
        left = (mine if left is None else left) - gone
        if gone:
            reasons.append(f"{check.expectation.id}: {check.says}")
    status = outcome.status
    if status == "quiet" and reasons and not left:
        status = "not_evaluable"
    return replace(outcome, status=status, reasons=[*reasons, *outcome.reasons])
