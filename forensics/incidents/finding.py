"""A finding: what happened, how sure that is, and the lines that say so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

__all__ = ["SEVERITIES", "Finding", "iso", "ordered"]

SEVERITIES = ("info", "low", "medium", "high", "critical")
CONFIDENCES = ("possible", "likely", "confirmed")
_EVIDENCE_KEPT = 40
_MICROS = 1_000_000


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the page should know; times in microseconds of UTC."""

    detector: str
    severity: str
    confidence: str
    title: str
    begin: int
    end: int
    evidence: Sequence[Mapping[str, Any]]
    brokers: Sequence[int] = ()
    partitions: Sequence[str] = ()
    clients: Sequence[str] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    explanation: str = ""
    actions: Sequence[str] = ()
    # the limits that were passed and by how much, why it is as sure as it says, and what would
    # make it wrong
    why: str = ""
    reason: str = ""
    doubts: Sequence[str] = ()
    # which checks of quality failed for it, and what that made of its confidence
    downgraded: Sequence[Mapping[str, str]] = ()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES or self.confidence not in CONFIDENCES:
            message = f"no such severity or confidence: {self.severity}, {self.confidence}"
            raise ValueError(message)
        if not self.evidence:
            message = f"{self.detector}: a finding without evidence says nothing: {self.title}"
            raise ValueError(message)

    @property
    def id(self) -> str:
        """A name that stays the same between runs: what, about whom, since which second."""
        scope = [self.detector, sorted(self.brokers), sorted(self.partitions), sorted(self.clients)]
        text = repr([*scope, self.begin // _MICROS])
        return "F-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    def document(self) -> dict[str, Any]:
        """Give the finding as it stands in findings.json."""
        return {
            "id": self.id,
            "detector": self.detector,
            "severity": self.severity,
            "confidence": self.confidence,
            "title": self.title,
            "from": iso(self.begin),
            "to": iso(self.end),
            "brokers": sorted(self.brokers),
            "partitions": sorted(self.partitions, key=_by_number),
            "clients": sorted(self.clients),
            "measures": dict(self.measures),
            "evidence": _evidence(self.evidence),
            "explanation": self.explanation,
            "actions": list(self.actions),
            "why": self.why,
            "confidence_reason": self.reason,
            "doubts": list(self.doubts),
            "downgraded": [dict(step) for step in self.downgraded],
        }


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: the worst first, then by time, then by id."""
    return sorted(
        findings, key=lambda one: (-SEVERITIES.index(one.severity), iso(one.begin), one.id)
    )


def iso(micros: int) -> str:
    """Write a moment as the contract does.

    >>> iso(1_500_000)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(micros // 1000 / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{micros // 1000 % 1000:03d}Z"


def _evidence(places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Order evidence by time and text first: the names of files differ between archives."""
    # A line that tells of many things is quoted in full by the first of them only.
    fullest = sorted(places, key=lambda one: len(one["text"] or ""))
    unique = {(one["file"], one["line"]): one for one in fullest}
    kept = sorted(
        unique.values(),
        key=lambda one: (one.get("at") or 0, one["text"] or "", one["line"], one["file"]),
    )
    return [
        {name: one.get(name) for name in ("file", "line", "text", "rule")}
        for one in kept[:_EVIDENCE_KEPT]
    ]


def _by_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else -1
