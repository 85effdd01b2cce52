"""Suites of expectations, read from YAML: those of rules/quality/, and those of packs over them.

An expectation is one of Great Expectations by its name and arguments, in words, with what follows
when it does not hold. One that has the id of a shipped one takes its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forensics.errors import Problem, RuleError
from forensics.events.packs import Pack
from forensics.quality.columns import TABLES
from forensics.yamls import Page, line_of, read, shipped

__all__ = ["CONSEQUENCES", "SEVERITIES", "Expectation", "near", "suites"]

# What a failed expectation brings about, from a word to the end of all trust.
CONSEQUENCES = ("note", "downgrade", "close")
SEVERITIES = ("info", "warning", "critical")
# Arguments of Great Expectations that name columns.
_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_HEAD = {"about", "expectations"}
_NEEDED = ("id", "table", "expectation", "words", "otherwise", "consequence")
_KEYS = {*_NEEDED, "arguments", "where", "severity"}
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Expectation:
    """One expectation, where it is written, and what it means when it fails."""

    id: str
    table: str
    kind: str
    words: str
    otherwise: str
    consequence: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    # only rows whose columns have these values; a list names several
    where: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"
    origin: str = ""
    line: int = 1


def suites(packs: Sequence[Pack] = ()) -> list[Expectation]:
    """Read all expectations by id, or say in one error all that is wrong with them."""
    found: dict[str, Expectation] = {}
    problems: list[Problem] = []
    own = [Page(str(path), path.read_bytes()) for path in shipped("quality")]
    for pages in (own, *(pack.folder("quality") for pack in packs)):
        mine: dict[str, Expectation] = {}
        for page in pages:
            try:
                for one in _expectations(page, problems):
                    if one.id in mine:
                        says = f"the id {one.id!r} is taken (line {mine[one.id].line})"
                        problems.append(Problem(str(page), one.line, says))
                    mine[one.id] = one
            except RuleError as error:
                problems += error.problems
        found |= mine
    if problems:
        raise RuleError(sorted(problems))
    return [found[name] for name in sorted(found)]


def near(name: object, known: Iterable[object]) -> str:
    """Suggest what was meant, or name what there is where that is short enough to read."""
    names = sorted(map(str, known))
    close = difflib.get_close_matches(str(name), names, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if len(names) <= 12 else ""


def _expectations(page: Page, problems: list[Problem]) -> Iterator[Expectation]:
    document = read(page)
    for key in sorted(set(document) - _HEAD, key=str):
        says = f"unknown key {key!r}{near(key, _HEAD)}"
        problems.append(Problem(str(page), line_of(document, key), says))
    given = document.get("expectations")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        says = "'expectations' must be a list, and not empty"
        problems.append(Problem(str(page), line_of(document, "expectations"), says))
        return
    for one in given:
        faults = [(line_of(one, key), says) for key, says in _faults(one)]
        problems += [Problem(str(page), line, says) for line, says in faults]
        if not faults:
            yield _expectation(one, page)


def _expectation(one: Mapping[str, Any], page: Page) -> Expectation:
    return Expectation(
        id=one["id"],
        table=one["table"],
        kind=one["expectation"],
        words=one["words"].strip(),
        otherwise=one["otherwise"].strip(),
        consequence=one["consequence"],
        arguments=dict(one.get("arguments") or {}),
        where=dict(one.get("where") or {}),
        severity=one.get("severity", "warning"),
        origin=str(page),
        line=line_of(one),
    )


def _faults(one: object) -> Iterator[tuple[object, str]]:
    """Yield what is wrong with one expectation, with the key that it is about."""
    if not isinstance(one, Mapping):
        yield None, "each expectation is a mapping, such as {id: ..., table: files, ...}"
        return
    for key in sorted(set(one) - _KEYS, key=str):
        yield key, f"unknown key {key!r}{near(key, _KEYS)}"
    lacking = [key for key in _NEEDED if not isinstance(one.get(key), str) or not one[key].strip()]
    yield from ((key, f"{key!r} is missing, or is no text") for key in lacking)
    if not lacking:
        yield from _values(one)


def _values(one: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    if not _ID.fullmatch(one["id"]):
        yield "id", f"the id {one['id']!r} must be lower case, with dashes"
    for key in ("arguments", "where"):
        if not isinstance(one.get(key) or {}, Mapping):
            yield key, f"{key!r} must be a mapping"
            return
    named = {"consequence": CONSEQUENCES, "severity": SEVERITIES, "table": TABLES}
    for key, known in named.items():
        if key in one and one[key] not in known:
            yield key, f"there is no {key} {one[key]!r}{near(one[key], known)}"
    if one["table"] in TABLES:
        yield from _columns(one)


def _columns(one: Mapping[str, Any]) -> Iterator[tuple[object, str]]:
    known = TABLES[one["table"]].columns
    arguments = one.get("arguments") or {}
    named = [(key, name) for key in _COLUMNS for name in _listed(arguments.get(key))]
    named += [("where", name) for name in one.get("where") or {}]
    for key, name in named:
        if name not in known:
            at = "where" if key == "where" else "arguments"
            yield at, f"{one['table']} has no column {name!r}{near(name, known)}"


def _listed(value: object) -> Sequence[object]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)
