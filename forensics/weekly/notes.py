"""What people have written down about findings: owner, ticket, and until when one is accepted.

notes.yaml lies in the store and is theirs alone. Its keys are the id of a finding or its signature;
what is said of an id holds for all that recurs of that finding, since its id has a time in it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from forensics.detection.registry import all_detectors
from forensics.errors import Problem, RuleError
from forensics.lib.yaml_with_lines import line_of, load_yaml

NAME = "notes.yaml"
ALIASES = "aliases"
KEYS = ("owner", "ticket", "accepted_until", "comment")
_ID = re.compile(r"F-[0-9a-f]{8}")


@dataclass(frozen=True)
class Note:
    """What is said of one finding."""

    owner: str = ""
    ticket: str = ""
    accepted_until: date | None = None
    comment: str = ""

    def accepts(self, day: date) -> bool:
        """Whether that still holds on a day: the last day is one of them."""
        return self.accepted_until is not None and day <= self.accepted_until


@dataclass(frozen=True)
class Notes:
    """All notes of one store, and the new names of detectors that were renamed."""

    entries: Mapping[str, Note] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    def current_signature(self, signature: str) -> str:
        """Give a signature by the name that its detector has now.

        >>> Notes(aliases={"old": "new"}).renamed("old: broker 2")
        'new: broker 2'
        """
        detector, between, subject = signature.partition(": ")
        return f"{self.aliases.get(detector, detector)}{between}{subject}"

    def find(self, signature: str) -> Note | None:
        """Find what is said of a signature by its name of today."""
        return self.entries.get(signature)

    def accepts(self, signature: str, day: date) -> bool:
        """Whether somebody knows of it, and has accepted it until that day or longer."""
        note = self.find(signature)
        return note is not None and note.accepts(day)

    def resolve_ids(self, summaries: Iterable[Mapping[str, Any]]) -> Notes:
        """Say of the signatures of some weeks what was said of ids that are found in them."""
        found: dict[str, Note] = {}
        for one in summaries:
            for group in one["findings"]:
                for told in group["findings"]:
                    if told[0] in self.entries:
                        found[self.current_signature(group["signature"])] = self.entries[told[0]]
        # What is said of a signature by its name comes before what is said of one of its ids.
        return Notes(
            found | {self.current_signature(key): note for key, note in self.entries.items()},
            self.aliases,
        )


def load_notes(store: Path, detectors: Iterable[str] = ()) -> Notes:
    """Read the notes of a store; `detectors` are those of packs, beside the shipped ones."""
    path = store / NAME
    if not path.is_file() or not path.read_text("utf-8", "replace").strip():
        return Notes()
    given = load_yaml(path)
    problems = sorted(_faults(str(path), given, {*detectors}))
    if problems:
        raise RuleError(problems)
    entries = {key: _note(told) for key, told in given.items() if key != ALIASES}
    return Notes(entries, dict(given.get(ALIASES) or {}))


def _note(told: Mapping[str, Any]) -> Note:
    until = told.get("accepted_until")
    words = {key: str(told[key]) for key in KEYS if key != "accepted_until" and told.get(key)}
    return Note(**words, accepted_until=_day(until))


def _faults(file: str, given: Mapping[str, Any], packs: set[str]) -> Iterator[Problem]:
    aliases = given.get(ALIASES) or {}
    known = {one.name for one in all_detectors()} | packs
    if not isinstance(aliases, Mapping):
        says = f"{ALIASES}: a mapping was expected, from the old name of a detector to its new one"
        yield Problem(file, line_of(given, ALIASES), says)
        aliases = {}
    for old, new in aliases.items():
        if new not in known:
            says = f"{ALIASES}: there is no detector {new!r}{_near(str(new), known)}"
            yield Problem(file, line_of(aliases, old), says)
    for key, told in given.items():
        if key == ALIASES:
            continue
        line = line_of(given, key)
        yield from (Problem(file, line, says) for says in _key_faults(str(key), known | {*aliases}))
        if not isinstance(told, Mapping):
            says = f"{key}: say {', '.join(KEYS)}, each after a colon on a line of its own"
            yield Problem(file, line, says)
            continue
        yield from _note_faults(file, str(key), told)


def _key_faults(key: str, known: set[str]) -> Iterator[str]:
    detector, between, _ = key.partition(": ")
    if _ID.fullmatch(key) or (between and detector in known):
        return
    if between:
        yield f"there is no detector {detector!r}{_near(detector, known)}"
    else:
        close = _near(key, {ALIASES})
        yield (
            f"{key!r} names no finding{close or ''}; write an id, as F-3f2a91c0, or a signature as "
            'the weekly page shows it, as "flapping-broker: broker 2"'
        )


def _note_faults(file: str, key: str, told: Mapping[str, Any]) -> Iterator[Problem]:
    for name, value in told.items():
        line = line_of(told, name)
        if name not in KEYS:
            says = f"{key}: unknown key {name!r}{_near(str(name), KEYS)}; known: {', '.join(KEYS)}"
            yield Problem(file, line, says)
        elif name == "accepted_until":
            if _day(value) is None:
                yield Problem(file, line, f"{key}: {name} must be a day such as 2026-12-31")
        elif isinstance(value, Mapping | list):
            yield Problem(file, line, f"{key}: {name} must be one line of text")


def _day(text: object) -> date | None:
    try:
        return date.fromisoformat(str(text)) if text is not None else None
    except ValueError:
        return None


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
