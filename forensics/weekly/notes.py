"""The notes of people about findings, from notes.yaml in the store: owner, ticket, acceptance.

Its keys are ids or signatures of findings. An id has a time in it, so a note on an id holds for
all findings of the same signature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from forensics.detection.registry import all_detectors
from forensics.errors import Problem, RuleError, did_you_mean
from forensics.lib.yaml_with_lines import line_of, load_yaml
from forensics.weekly.atomic_commit import NOTES_FILE
from forensics.weekly.week_summary import WeekSummary

_ALIASES = "aliases"
_KEYS = ("owner", "ticket", "accepted_until", "comment")
_ID = re.compile(r"F-[0-9a-f]{8}")
# A mapping of the file, a key of it, and what is wrong there.
_Fault = tuple[object, object, str]


@dataclass(frozen=True)
class Note:
    """The note on one finding."""

    owner: str = ""
    ticket: str = ""
    accepted_until: date | None = None
    comment: str = ""


@dataclass(frozen=True)
class Notes:
    """All notes of one store, and the new names of detectors that were renamed."""

    entries: Mapping[str, Note] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def current_signature(self, signature: str) -> str:
        """Return a signature under the present name of its detector.

        >>> Notes(aliases={"old": "new"}).current_signature("old: broker 2")
        'new: broker 2'
        """
        detector, colon, subject = signature.partition(": ")
        return f"{self.aliases.get(detector, detector)}{colon}{subject}"

    def accepts(self, signature: str, day: date) -> bool:
        """Return True if a finding is accepted until that day, or longer."""
        note = self.entries.get(signature)
        until = note.accepted_until if note else None
        return until is not None and day <= until

    def resolve_ids(self, summaries: Iterable[WeekSummary]) -> Notes:
        """Return the same notes by signature, also those on ids that are found in these weeks."""
        by_id = {
            self.current_signature(group["signature"]): self.entries[finding[0]]
            for summary in summaries
            for group in summary.findings
            for finding in group["findings"]
            if finding[0] in self.entries
        }
        # A note on the signature itself goes before a note on one of its ids.
        named = {self.current_signature(key): note for key, note in self.entries.items()}
        return Notes(by_id | named, self.aliases)


NO_NOTES = Notes()


def load_notes(store: Path, detectors: Iterable[str] = ()) -> Notes:
    """Read the notes of a store; `detectors` are those of packs, beside the shipped ones."""
    path = store / NOTES_FILE
    if not path.is_file() or not path.read_text("utf-8", "replace").strip():
        return NO_NOTES
    document = load_yaml(path)
    known = {detector.name for detector in all_detectors()} | {*detectors}
    faults = _find_faults(document, known)
    problems = sorted(Problem(str(path), line_of(node, key), text) for node, key, text in faults)
    if problems:
        raise RuleError(problems)
    entries = {key: _build_note(row) for key, row in document.items() if key != _ALIASES}
    return Notes(entries, dict(document.get(_ALIASES) or {}))


def _build_note(row: Mapping[str, Any]) -> Note:
    texts = {key: str(row[key]) for key in _KEYS if key != "accepted_until" and row.get(key)}
    return Note(**texts, accepted_until=_parse_day(row.get("accepted_until")))


def _find_faults(document: Mapping[str, Any], detectors: set[str]) -> Iterator[_Fault]:
    aliases = document.get(_ALIASES) or {}
    if not isinstance(aliases, Mapping):
        text = f"{_ALIASES}: a mapping was expected, from the old name of a detector to its new one"
        yield document, _ALIASES, text
        aliases = {}
    for old, new in aliases.items():
        if new not in detectors:
            text = f"{_ALIASES}: there is no detector {new!r}{did_you_mean(str(new), detectors)}"
            yield aliases, old, text
    for key, row in document.items():
        if key == _ALIASES:
            continue
        if wrong := _key_fault(str(key), detectors | {*aliases}):
            yield document, key, wrong
        if isinstance(row, Mapping):
            yield from ((row, name, f"{key}: {text}") for name, text in _note_faults(row))
        else:
            keys = ", ".join(_KEYS)
            yield document, key, f"{key}: say {keys}, each after a colon on a line of its own"


def _key_fault(key: str, detectors: set[str]) -> str | None:
    detector, colon, _ = key.partition(": ")
    if _ID.fullmatch(key) or (colon and detector in detectors):
        return None
    if colon:
        return f"there is no detector {detector!r}{did_you_mean(detector, detectors)}"
    return (
        f"{key!r} names no finding{did_you_mean(key, {_ALIASES})}; write an id, as F-3f2a91c0, or "
        'a signature as the weekly page shows it, as "flapping-broker: broker 2"'
    )


def _note_faults(row: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    for name, value in row.items():
        if name not in _KEYS:
            close = did_you_mean(str(name), _KEYS)
            yield name, f"unknown key {name!r}{close}; known: {', '.join(_KEYS)}"
        elif name == "accepted_until":
            if _parse_day(value) is None:
                yield name, f"{name} must be a day such as 2026-12-31"
        elif isinstance(value, Mapping | list):
            yield name, f"{name} must be one line of text"


def _parse_day(text: object) -> date | None:
    try:
        return date.fromisoformat(str(text)) if text is not None else None
    except ValueError:
        return None
