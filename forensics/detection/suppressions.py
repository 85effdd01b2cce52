"""What somebody has looked at and accepted is counted, and not shouted again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from typing import Any

from forensics.detection.thresholds import SUPPRESS
from forensics.run_output.findings import Finding


@dataclass(frozen=True)
class SuppressedFinding:
    """A finding that is not shown among the others, and why."""

    finding: Finding
    reason: str
    until: str

    def document(self) -> dict[str, Any]:
        """Give it as it stands in findings.json."""
        one = self.finding
        return {
            "id": one.id,
            "detector": one.detector,
            "severity": one.severity,
            "title": one.title,
            "reason": self.reason,
            "until": self.until,
        }


def find_suppression(
    finding: Finding, limits: Mapping[str, Mapping[str, Any]]
) -> SuppressedFinding | None:
    """Say why a finding is not to be shown, if so.

    It is if all that it is about was accepted, and it began while that held: the day it is read on
    plays no part, so that the same logs give the same findings tomorrow.
    """
    for one in limits.get(finding.detector, {}).get(SUPPRESS) or ():
        day = datetime.fromtimestamp(finding.begin / 1_000_000, UTC).date()
        if day <= date.fromisoformat(str(one["until"])) and _covers(one, finding):
            return SuppressedFinding(finding, str(one["reason"]), str(one["until"]))
    return None


def _covers(one: Mapping[str, Any], finding: Finding) -> bool:
    topics = [name.rpartition("-")[0] for name in finding.partitions]
    about: tuple[tuple[str, Iterable[object]], ...] = (
        ("topics", topics),
        ("partitions", finding.partitions),
        ("brokers", finding.brokers),
        ("clients", finding.clients),
    )
    asked = [(one[name], list(values)) for name, values in about if name in one]
    return all(values and _all_in(values, wanted) for wanted, values in asked)


def _all_in(values: Iterable[object], wanted: Sequence[object] | object) -> bool:
    listed = wanted if isinstance(wanted, list) else [wanted]
    return all(any(fnmatchcase(str(value), str(one)) for one in listed) for value in values)
