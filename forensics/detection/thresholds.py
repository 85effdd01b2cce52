"""The limits of all detectors: those of rules/limits.yaml, and what packs lay over them.

`suppress` beside the thresholds of a detector holds what somebody has looked at and accepted: which
topics, partitions, brokers or clients, why, and until when.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from forensics.errors import Problem, RuleError
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rules_folder

Limits = Mapping[str, Mapping[str, Any]]

SUPPRESS = "suppress"
_WHOM = ("topics", "partitions", "brokers", "clients")
_SUPPRESSION = {*_WHOM, "reason", "until"}


def load_limits(overlays: Iterable[FileText] = (), own_detectors: Iterable[str] = ()) -> Limits:
    """Read limits: detector to name to value; `own` are detectors that are not rule_files."""
    shipped = rules_folder() / "limits.yaml"
    found = {name: dict(values) for name, values in load_yaml(shipped).items()}
    found |= {name: {} for name in own_detectors if name not in found}
    problems = list(_suppression_faults(str(shipped), load_yaml(shipped)))
    for page in overlays:
        given = load_yaml(page)
        problems += [
            *_faults(page, given, found, set(own_detectors)),
            *_suppression_faults(str(page), given),
        ]
        for name, values in given.items():
            found.setdefault(name, {}).update(values if isinstance(values, Mapping) else {})
    if problems:
        raise RuleError(sorted(problems))
    return found


def find_expired_suppressions(pages: Iterable[FileText], today: date) -> Iterator[Problem]:
    """Find what is suppressed for longer than somebody meant it to be."""
    shipped = FileText(
        str(rules_folder() / "limits.yaml"), (rules_folder() / "limits.yaml").read_bytes()
    )
    for page in (shipped, *pages):
        for name, values in load_yaml(page).items():
            for one in values.get(SUPPRESS) or () if isinstance(values, Mapping) else ():
                if isinstance(one, Mapping) and _day(one.get("until", "")) < today:
                    says = f"{name}: suppressed until {one.get('until')}, which is over"
                    yield Problem(str(page), line_of(one), says)


def _faults(
    page: FileText, given: Mapping[str, Any], known: Limits, own: set[str]
) -> Iterator[Problem]:
    for name, values in given.items():
        line = line_of(given, name)
        if name not in known:
            yield Problem(str(page), line, f"there is no detector {name!r}{_near(name, known)}")
            continue
        if not isinstance(values, Mapping):
            yield Problem(str(page), line, f"{name}: a mapping of limits was expected")
            continue
        for key, value in values.items():
            at = line_of(values, key)
            if key != SUPPRESS and key not in known[name] and name not in own:
                says = f"{name} has no limit {key!r}{_near(key, known[name])}"
                yield Problem(str(page), at, says)
            elif key in known[name] and not _alike(known[name][key], value):
                says = f"{name}: {key} must be like {known[name][key]!r}, not {value!r}"
                yield Problem(str(page), at, says)


def _alike(one: object, other: object) -> bool:
    number = (int, float)
    if isinstance(one, number) and not isinstance(one, bool):
        return isinstance(other, number) and not isinstance(other, bool) and other >= 0
    return isinstance(other, type(one)) or one is None


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, [str(one) for one in known], 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _suppression_faults(origin: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    for name, values in given.items():
        told = values.get(SUPPRESS) if isinstance(values, Mapping) else None
        if told is None:
            continue
        if not isinstance(told, Sequence) or isinstance(told, str):
            yield Problem(origin, line_of(values, SUPPRESS), f"{name}: 'suppress' must be a list")
            continue
        for one in told:
            for says in _wrong(one):
                yield Problem(origin, line_of(one), f"{name}: {says}")


def _wrong(one: object) -> Iterator[str]:
    if not isinstance(one, Mapping):
        yield "each item of 'suppress' says whom, why, and until when"
        return
    for key in one:
        if key not in _SUPPRESSION:
            yield f"unknown key {key!r}; known: {sorted(_SUPPRESSION)}"
    if not any(key in one for key in _WHOM):
        yield f"name whom it is about: {', '.join(_WHOM)}"
    if not one.get("reason"):
        yield "say the reason"
    if _day(one.get("until", "")) == date.min:
        yield "say until when, as in 2026-12-31"


def _day(text: object) -> date:
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return date.min
