"""The thresholds of all detectors: those of rules/limits.yaml, and what packs lay over them.

`suppress` beside the thresholds of a detector holds what somebody has looked at and accepted: which
topics, partitions, brokers or clients, why, and until when. Findings that match are counted, not
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from forensics.errors import Problem, RuleError, did_you_mean, reading_page
from forensics.lib.time_units import to_datetime
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rules_folder
from forensics.run_output.findings import Finding

Limits = Mapping[str, Mapping[str, Any]]

SUPPRESS = "suppress"
_SCOPES = ("topics", "partitions", "brokers", "clients")
_SUPPRESSION = {*_SCOPES, "reason", "until"}


def load_limits(overlays: Iterable[FileText] = (), own_detectors: Iterable[str] = ()) -> Limits:
    """Read limits: detector to name to value; `own_detectors` are those that are not shipped."""
    shipped = rules_folder() / "limits.yaml"
    read = _read_shipped(shipped)
    found = {name: dict(values) for name, values in read.items()}
    found |= {name: {} for name in own_detectors if name not in found}
    problems = list(_suppression_faults(str(shipped), read))
    for page in overlays:
        given = load_yaml(page)
        with reading_page(str(page)):
            problems += [
                *_limit_faults(page, given, found, set(own_detectors)),
                *_suppression_faults(str(page), given),
            ]
        for name, values in given.items():
            found.setdefault(name, {}).update(values if isinstance(values, Mapping) else {})
    if problems:
        raise RuleError(sorted(problems))
    return found


@cache
def _read_shipped(path: Path) -> Mapping[str, Any]:
    """Read the shipped limits, once a process."""
    return load_yaml(path)


def find_expired_suppressions(pages: Iterable[FileText], today: date) -> Iterator[Problem]:
    """Find suppressions whose last day is over."""
    path = rules_folder() / "limits.yaml"
    shipped = FileText(str(path), path.read_bytes())
    for page in (shipped, *pages):
        for name, values in load_yaml(page).items():
            for one in values.get(SUPPRESS) or () if isinstance(values, Mapping) else ():
                if isinstance(one, Mapping) and _day(one.get("until", "")) < today:
                    says = f"{name}: suppressed until {one.get('until')}, which is over"
                    yield Problem(str(page), line_of(one), says)


def _limit_faults(
    page: FileText, given: Mapping[str, Any], known: Limits, own: set[str]
) -> Iterator[Problem]:
    for name, values in given.items():
        line = line_of(given, name)
        if name not in known:
            yield Problem(
                str(page), line, f"there is no detector {name!r}{did_you_mean(name, known)}"
            )
            continue
        if not isinstance(values, Mapping):
            yield Problem(str(page), line, f"{name}: a mapping of limits was expected")
            continue
        for key, value in values.items():
            at = line_of(values, key)
            if key != SUPPRESS and key not in known[name] and name not in own:
                says = f"{name} has no limit {key!r}{did_you_mean(key, known[name])}"
                yield Problem(str(page), at, says)
            elif key in known[name] and not _is_same_type(known[name][key], value):
                says = f"{name}: {key} must be like {known[name][key]!r}, not {value!r}"
                yield Problem(str(page), at, says)


def _is_same_type(shipped: object, value: object) -> bool:
    number = (int, float)
    if isinstance(shipped, number) and not isinstance(shipped, bool):
        return isinstance(value, number) and not isinstance(value, bool) and value >= 0
    return isinstance(value, type(shipped)) or shipped is None


def _suppression_faults(origin: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    for name, values in given.items():
        items = values.get(SUPPRESS) if isinstance(values, Mapping) else None
        if items is None:
            continue
        if not isinstance(items, Sequence) or isinstance(items, str):
            yield Problem(origin, line_of(values, SUPPRESS), f"{name}: 'suppress' must be a list")
            continue
        for item in items:
            for says in _item_faults(item):
                yield Problem(origin, line_of(item), f"{name}: {says}")


def _item_faults(item: object) -> Iterator[str]:
    if not isinstance(item, Mapping):
        yield "each item of 'suppress' says whom, why, and until when"
        return
    for key in item:
        if key not in _SUPPRESSION:
            yield f"unknown key {key!r}; known: {sorted(_SUPPRESSION)}"
    if not any(key in item for key in _SCOPES):
        yield f"name whom it is about: {', '.join(_SCOPES)}"
    if not item.get("reason"):
        yield "say the reason"
    if _day(item.get("until", "")) == date.min:
        yield "say until when, as in 2026-12-31"


def _day(text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return date.min


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
