"""Matches findings with what somebody has accepted in limits: they are counted, not shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from forensics.detection.thresholds import SUPPRESS
from forensics.lib.time_units import to_datetime
from forensics.run_output.findings import Finding


@dataclass(frozen=True)
class SuppressedFinding:
    """A finding that was accepted, and why."""

    finding: Finding
    reason: str
    until: str

    def document(self) -> dict[str, Any]:
        """Return it as findings.json has it."""
        names = ("id", "detector", "severity", "title")
        named = {name: getattr(self.finding, name) for name in names}
        return named | {"reason": self.reason, "until": self.until}


def find_suppression(
    finding: Finding, limits: Mapping[str, Mapping[str, Any]]
) -> SuppressedFinding | None:
    """Return a finding with the reason if everything that it is about was accepted when it began.

    The day on which the logs are read plays no part, so that they give the same findings tomorrow.
    """
    day = to_datetime(finding.begin).date()
    for item in limits.get(finding.detector, {}).get(SUPPRESS) or ():
        if day <= date.fromisoformat(str(item["until"])) and _covers(item, finding):
            return SuppressedFinding(finding, str(item["reason"]), str(item["until"]))
    return None


def _covers(item: Mapping[str, Any], finding: Finding) -> bool:
    scopes: Mapping[str, Sequence[object]] = {
        "topics": [name.rpartition("-")[0] for name in finding.partitions],
        "partitions": finding.partitions,
        "brokers": finding.brokers,
        "clients": finding.clients,
    }
    return all(
        values and _all_match(values, item[name]) for name, values in scopes.items() if name in item
    )


def _all_match(values: Iterable[object], accepted: Sequence[object] | object) -> bool:
    patterns = accepted if isinstance(accepted, list) else [accepted]
    return all(any(fnmatchcase(str(value), str(one)) for one in patterns) for value in values)
