"""A finding with its evidence, and findings.json: the same bytes for the same findings."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from forensics.lib.storage import write_atomically
from forensics.lib.time_units import SECOND, to_iso
from forensics.lib.whole_numbers import whole_number
from forensics.settings import SEVERITIES

# From the worst to the least.
WORST_FIRST = SEVERITIES[::-1]
# Any finding as bad as these makes the verdict an incident.
INCIDENT_SEVERITIES = frozenset(SEVERITIES[2:])
CONFIDENCES = ("possible", "likely", "confirmed")
_MAX_EVIDENCE = 40


# The detectors that tell of records whose last copy in sync was lost.
LOSING = ("unclean-election", "emptied-logs")


@dataclass(frozen=True)
class PartitionLoss:
    """Records that one partition lost as its leader changed; null is what no line bounds."""

    partition: str = ""
    # the leader that took over
    leader_epoch: int | None = None
    leader: int | None = None
    # offsets: the first that was lost, and the one behind the last
    lost_from: int | None = None
    lost_to: int | None = None
    lost_records_min: int = 0
    lost_records_max: int | None = None
    # ISO times between which the lost records were written
    written_from: str | None = None
    written_to: str | None = None
    check: str = ""
    note: str = ""
    # after an unclean election only
    previous_leader: int | None = None
    acknowledged_min: int | None = None
    acknowledged_max: int | None = None
    manner: str | None = None
    also_cut: Sequence[Mapping[str, Any]] = ()
    # after a clean change of leader only: the brokers that cut their logs
    cut_on: Sequence[int] | None = None
    below_high_watermark: int | None = None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> PartitionLoss:
        """Read an entry of findings.json; a value of another type counts as missing."""
        types = _LOSS_TYPES.items()
        return cls(**{name: row[name] for name, kind in types if isinstance(row.get(name), kind)})

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in findings.json."""
        left_out = set(_UNCLEAN_ONLY if self.cut_on is not None else _CLEAN_ONLY)
        left_out |= {name for name in ("note", "also_cut") if not getattr(self, name)}
        return {name: getattr(self, name) for name in _LOSS_TYPES if name not in left_out}


def total_loss(losses: Sequence[PartitionLoss]) -> tuple[int, int | None]:
    """Return how many records were lost at least, and at most; null where one has no bound."""
    most = [loss.lost_records_max for loss in losses]
    known = [number for number in most if number is not None]
    least = sum(loss.lost_records_min for loss in losses)
    return least, sum(known) if len(known) == len(most) else None


_UNCLEAN_ONLY = ("previous_leader", "acknowledged_min", "acknowledged_max", "manner", "also_cut")
_CLEAN_ONLY = ("cut_on", "below_high_watermark")
_TEXTS = ("partition", "written_from", "written_to", "check", "note", "manner")
_LOSS_TYPES = {
    one.name: str if one.name in _TEXTS else list if one.name in ("also_cut", "cut_on") else int
    for one in fields(PartitionLoss)
}


def severity_rank(severity: object) -> int:
    """Return the place of a severity among all, the worst first; an unknown one comes last."""
    return WORST_FIRST.index(severity) if severity in WORST_FIRST else len(WORST_FIRST)


@dataclass(frozen=True)
class Finding:
    """What a detector has found; times in microseconds of UTC."""

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
    # what each partition lost; saved among the measures, as `partitions`
    losses: Sequence[PartitionLoss] = ()
    explanation: str = ""
    actions: Sequence[str] = ()
    # the thresholds that were passed and by how much, the reason of the confidence, and other
    # explanations
    why: str = ""
    reason: str = ""
    doubts: Sequence[str] = ()
    # the failed checks of quality, and the confidence after each of them
    downgraded: Sequence[Mapping[str, str]] = ()

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES or self.confidence not in CONFIDENCES:
            message = f"no such severity or confidence: {self.severity}, {self.confidence}"
            raise ValueError(message)
        if not self.evidence:
            message = f"{self.detector}: a finding without evidence says nothing: {self.title}"
            raise ValueError(message)

    @cached_property
    def id(self) -> str:
        """An id that is the same in all runs: detector, subjects and the second of the begin."""
        scope = [self.detector, sorted(self.brokers), sorted(self.partitions), sorted(self.clients)]
        text = repr([*scope, self.begin // SECOND])
        return "F-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    def to_json(self) -> dict[str, Any]:
        """Return the finding as an object of findings.json."""
        losses = {"partitions": [loss.to_json() for loss in self.losses]} if self.losses else {}
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
            "measures": {**self.measures, **losses},
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
        findings, key=lambda found: (severity_rank(found.severity), found.begin // 1000, found.id)
    )


def _evidence(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Order evidence by time and text first: the names of files differ between archives."""
    # If a line is cited more than once, only one row quotes it in full.
    by_length = sorted(lines, key=lambda line: len(line["text"] or ""))
    unique = {(line["file"], line["line"]): line for line in by_length}
    in_order = sorted(
        unique.values(),
        key=lambda line: (line.get("at") or 0, line["text"] or "", line["line"], line["file"]),
    )
    return [
        {name: line.get(name) for name in ("file", "line", "text", "rule")}
        for line in in_order[:_MAX_EVIDENCE]
    ]


def _by_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, -1 if (partition := whole_number(number)) is None else partition


# The order of the keys in every object; other keys follow by name.
KEY_ORDER = (
    "schema", "verdict", "summary", "window", "archive", "trigger", "impact",
    "id", "detector", "severity", "confidence", "title", "from", "to",
    "brokers", "clients", "measures", "evidence", "explanation", "actions",
    "partition", "leader_epoch", "leader", "previous_leader",
    "lost_from", "lost_to", "lost_records_min", "lost_records_max",
    "file", "line", "text", "findings",
)  # fmt: skip
KEY_RANK = {key: place for place, key in enumerate(KEY_ORDER)}
# Legal in JSON, but a terminal or an editor would obey them.
UNSAFE_CHARS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def write_findings(document: Mapping[str, Any], path: Path) -> None:
    """Write findings.json whole or not at all: readers never see half a file."""
    findings = sorted(document.get("findings", ()), key=_sort_key)
    plain = _plain({**document, "findings": findings})
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
    text = UNSAFE_CHARS.sub(lambda char: f"\\u{ord(char[0]):04x}", text)
    with write_atomically(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def _sort_key(finding: Mapping[str, Any]) -> tuple[int, str, str]:
    rank = severity_rank(finding.get("severity"))
    return rank, str(finding.get("from") or ""), str(finding.get("id") or "")


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
