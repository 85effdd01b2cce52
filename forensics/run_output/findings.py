"""A finding: what happened, how sure that is, and the lines that say so.

Writes findings.json, byte for byte the same for the same findings.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forensics.lib.formatting import LEVELS
from forensics.lib.time_units import SECOND, to_iso

SEVERITIES = ("info", "low", "medium", "high", "critical")
CONFIDENCES = ("possible", "likely", "confirmed")
_EVIDENCE_KEPT = 40


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
        text = repr([*scope, self.begin // SECOND])
        return "F-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    def to_json(self) -> dict[str, Any]:
        """Give the finding as it stands in findings.json."""
        return {
            "id": self.id,
            "detector": self.detector,
            "severity": self.severity,
            "confidence": self.confidence,
            "title": self.title,
            "from": to_iso(self.begin),
            "to": to_iso(self.end),
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


def sort_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: the worst first, then by time, then by id."""
    return sorted(
        findings, key=lambda one: (-SEVERITIES.index(one.severity), to_iso(one.begin), one.id)
    )


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


# One order for the keys of every object; a key that is not named here follows, by name.
KEY_ORDER = (
    "schema", "verdict", "summary", "window", "archive",
    "id", "detector", "severity", "confidence", "title", "from", "to",
    "brokers", "clients", "measures", "evidence", "explanation", "actions",
    "partition", "leader_epoch", "leader", "previous_leader",
    "lost_from", "lost_to", "lost_records_min", "lost_records_max",
    "file", "line", "text", "findings",
)  # fmt: skip
KEY_RANK = {key: place for place, key in enumerate(KEY_ORDER)}
# Legal in JSON, but they turn a terminal or an editor against its reader.
UNSAFE_CHARS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def write_findings(document: Mapping[str, Any], path: Path) -> None:
    """Write the document whole or not at all: readers never see half a file."""
    ordered = dict(document)
    ordered["findings"] = sorted(document.get("findings", ()), key=_harm)
    text = json.dumps(_plain(ordered), indent=1, ensure_ascii=False, allow_nan=False)
    text = UNSAFE_CHARS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text + "\n", encoding="utf-8")
    half.replace(path)


def _harm(finding: Mapping[str, Any]) -> tuple[int, str, str]:
    level = finding.get("severity")
    place = LEVELS.index(level) if level in LEVELS else len(LEVELS)
    return place, str(finding.get("from") or ""), str(finding.get("id") or "")


def _plain(value: object) -> object:
    if isinstance(value, str):
        # Half a surrogate pair is no character and breaks strict readers: keep it as its code.
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: (KEY_RANK.get(str(key), len(KEY_ORDER)), str(key)))
        return {str(_plain(str(key))): _plain(value[key]) for key in keys}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
