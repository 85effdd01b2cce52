"""Reads detectors written in YAML, validates them, and turns their conditions into filters.

A detector selects rows of a table (`where`, `lasts`), looks for others near each row (`then`: they
must be there, `unless`: they must not), and fires for a subject (`by`) with at least `count` such
rows `within` so many seconds. Windows slide, and both their ends belong to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics import schemas
from forensics.errors import Problem, RuleError
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml
from forensics.settings import SEVERITIES

# The tables of detectors, and the column with the time of a row.
TABLES: Mapping[str, tuple[pa.Schema, str]] = {
    "events": (schemas.EVENTS, "ts"),
    "leadership": (schemas.LEADERSHIP, "started_at"),
    "isr": (schemas.ISR, "started_at"),
    "lanes": (schemas.LANES, "started_at"),
    "cuts": (schemas.CUTS, "started_at"),
}
_WORDS = ("not", "least", "most", "like", "known", "size")


def plain_columns(table: str) -> list[str]:
    """Return the columns of a table by which rows can be grouped: no lists."""
    return [column.name for column in TABLES[table][0] if not pa.types.is_list(column.type)]


def build_filter(where: Mapping[str, Any]) -> pc.Expression:
    """Combine all conditions to a filter; a null meets none but `known: false`."""
    return reduce(
        and_, (part for name, wanted in where.items() for part in _parts(pc.field(name), wanted))
    )


def find_condition_problems(where: object, table: str) -> Iterator[tuple[str | None, str]]:
    """Yield what is wrong with conditions: the key, and a sentence."""
    if not isinstance(where, Mapping) or not where:
        yield None, "'where' is a mapping of columns to what they must be"
        return
    schema = TABLES[table][0]
    for name, wanted in where.items():
        if name not in schema.names:
            yield name, f"{table} has no column {name!r}; it has {', '.join(schema.names)}"
            continue
        kind = schema.field(name).type
        if pa.types.is_timestamp(kind):
            yield name, f"{name!r} is a time; use lasts, within and gap"
        yield from ((name, text) for text in _condition_faults(name, wanted, kind))


def _condition_faults(name: str, wanted: object, kind: pa.DataType) -> Iterator[str]:
    if not isinstance(wanted, Mapping):
        yield from _value_faults(name, wanted, kind)
        return
    for word, value in wanted.items():
        if word not in _WORDS:
            yield f"{name}: unknown condition {word!r}; known: {', '.join(_WORDS)}"
        elif word == "not":
            yield from _condition_faults(name, value, kind)
        elif not _fits(word, value, kind):
            yield f"{name} is {kind}; as a condition of it {word}: {value!r} makes no sense"


def _value_faults(name: str, wanted: object, kind: pa.DataType) -> Iterator[str]:
    values = wanted if isinstance(wanted, list) else [wanted]
    if pa.types.is_list(kind) or not values:
        yield f"{name!r} is a list; ask for its size, as in size: {{most: 1}}"
    for value in values:
        try:
            pa.scalar(value, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            yield f"{name!r} is {kind}, and never {value!r}"


def _fits(word: str, value: object, kind: pa.DataType) -> bool:
    if word == "size":
        bounds = isinstance(value, Mapping) and value and not set(value) - {"least", "most"}
        return bool(pa.types.is_list(kind) and bounds)
    if word == "like":
        return bool(pa.types.is_string(kind) and isinstance(value, str))
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return word == "known" or bool(number and isinstance(value, (int, float)))


def _parts(column: pc.Expression, wanted: Any) -> Iterator[pc.Expression]:
    if not isinstance(wanted, Mapping):
        yield _one_of(column, wanted)
        return
    for word, value in wanted.items():
        if word == "not":
            yield column.is_valid() & ~_one_of(column, value)
        elif word == "known":
            yield column.is_valid() if value else ~column.is_valid()
        elif word == "like":
            yield pc.match_substring_regex(column, _regex(value))
        elif word == "size":
            yield from _parts(pc.list_value_length(column), value)
        else:
            yield column >= value if word == "least" else column <= value


def _one_of(column: pc.Expression, wanted: Any) -> pc.Expression:
    return column.isin(list(wanted) if isinstance(wanted, list) else [wanted])


def _regex(glob: str) -> str:
    """Translate a shell pattern to RE2.

    >>> _regex("pay*_v?")
    '^(?s:pay.*_v.)$'
    """
    parts = {"*": ".*", "?": "."}
    return "^(?s:" + "".join(parts.get(char, re.escape(char)) for char in glob) + ")$"


_KEYS = {
    "id", "title", "means", "beware", "level", "status", "references", "needs", "table", "where",
    "lasts", "then", "unless", "by", "count", "within", "gap", "actions", "samples",
}  # fmt: skip
_NEEDED = ("id", "title", "means", "level", "table", "where", "samples")
_NEAR_KEYS = {"table", "where", "same", "within", "when"}
_WHEN = ("after", "before", "around")
_SAMPLE_KEYS = {"name", "kind", "logs", "finds"}
_SAMPLE_KINDS = ("fires", "quiet", "near miss")
_ROLES = ("broker", "controller", "client")
_ID = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_NAME = re.compile(r"\{([a-z_]+)\}")
# What titles and actions may name beside the columns of `by`.
_COUNTED = ("count", "seconds")


@dataclass(frozen=True)
class NearbyCondition:
    """Rows that must be, or must not be, near a row."""

    table: str
    where: Mapping[str, Any]
    same: tuple[str, ...]
    within: float
    when: str


@dataclass(frozen=True)
class Sample:
    """Logs, and how many findings a detector must yield for them."""

    name: str
    kind: str
    logs: Mapping[str, str]
    expected: int
    line: int


@dataclass(frozen=True)
class DeclaredDetector:
    """A detector as its file declares it; limits.yaml may change its `limits`."""

    id: str
    origin: str
    title: str
    means: str
    beware: tuple[str, ...]
    roles: tuple[str, ...]
    table: str
    where: Mapping[str, Any]
    by: tuple[str, ...]
    then: tuple[NearbyCondition, ...]
    unless: tuple[NearbyCondition, ...]
    limits: Mapping[str, Any]
    actions: tuple[str, ...]
    references: tuple[str, ...]
    samples: tuple[Sample, ...] = field(default=())


def load_declaration(page: Path | FileText) -> DeclaredDetector:
    """Read one detector; one error names everything that is wrong with it."""
    found = load_yaml(page)
    problems = [Problem(str(page), line, text) for line, text in _faults(found)]
    if problems:
        raise RuleError(problems)
    needs = found.get("needs") or {}
    limits = {name: found[name] for name in ("level", "count", "within", "lasts", "gap")
              if name in found}  # fmt: skip
    return DeclaredDetector(
        id=found["id"],
        origin=str(page),
        title=found["title"],
        means=found["means"],
        beware=_texts(found.get("beware")),
        roles=_texts(needs.get("roles")) or ("broker", "controller"),
        table=found["table"],
        where=found["where"],
        by=_texts(found.get("by")),
        then=tuple(_near(one, found["table"]) for one in _listed(found.get("then"))),
        unless=tuple(_near(one, found["table"]) for one in _listed(found.get("unless"))),
        limits={"count": 1, "gap": 60, **limits},
        actions=_texts(found.get("actions")),
        references=_texts(found.get("references")),
        samples=tuple(_sample(one) for one in found["samples"]),
    )


def _near(one: Mapping[str, Any], table: str) -> NearbyCondition:
    table, when = one.get("table", table), one.get("when", "after")
    return NearbyCondition(table, one["where"], _texts(one.get("same")), one["within"], when)


def _sample(one: Mapping[str, Any]) -> Sample:
    kind = one["kind"]
    finds = one.get("finds", 1 if kind == "fires" else 0)
    return Sample(one["name"], kind, one["logs"], finds, line_of(one))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in _listed(value))


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else () if value is None else [value]


Fault = tuple[int, str]


def _faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    for key in rule:
        if key not in _KEYS:
            yield line_of(rule, key), f"unknown key {key!r}; known: {', '.join(sorted(_KEYS))}"
    missing = [key for key in _NEEDED if not rule.get(key)]
    for key in missing:
        yield 1, f"{key!r} is missing"
    if rule.get("table") is not None and rule["table"] not in TABLES:
        text = f"there is no table {rule['table']!r}; there are {', '.join(TABLES)}"
        yield line_of(rule, "table"), text
        return
    if missing:
        return
    checks: tuple[Callable[[Mapping[str, Any]], Iterator[Fault]], ...] = (
        _head_faults, _number_faults, _where_faults, _near_faults, _name_faults, _sample_faults,
    )  # fmt: skip
    for check in checks:
        yield from check(rule)


def _head_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    if not _ID.fullmatch(str(rule["id"])):
        yield line_of(rule, "id"), "'id' is words in small letters with hyphens between"
    if rule["level"] not in SEVERITIES:
        text = f"there is no level {rule['level']!r}; there are {', '.join(SEVERITIES)}"
        yield line_of(rule, "level"), text
    needs = rule.get("needs") or {}
    roles = needs.get("roles") if isinstance(needs, Mapping) else None
    for role in _listed(roles) if roles else ():
        if role not in _ROLES:
            yield line_of(rule, "needs"), f"there is no role {role!r}; there are {_ROLES}"


def _number_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    for key in ("count", "within", "lasts", "gap"):
        value = rule.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            yield line_of(rule, key), f"{key!r} must be a number, in seconds where it is a time"
    if rule.get("count", 1) != 1 and "within" not in rule:
        yield line_of(rule, "count"), "'count' needs 'within': so many in how many seconds?"
    if "within" in rule and rule.get("count", 1) == 1:
        yield line_of(rule, "within"), "'within' needs 'count': how many in so many seconds?"
    if "lasts" in rule and "ended_at" not in TABLES[rule["table"]][0].names:
        yield line_of(rule, "lasts"), f"rows of {rule['table']} do not last"


def _where_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    for key, text in find_condition_problems(rule["where"], rule["table"]):
        yield line_of(rule["where"], key) if key else line_of(rule, "where"), text
    for name in _texts(rule.get("by")):
        if name not in plain_columns(rule["table"]):
            yield line_of(rule, "by"), f"{rule['table']} has no plain column {name!r}"


def _near_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    for key in ("then", "unless"):
        for one in _listed(rule.get(key)):
            for text in _nearby_faults(one, rule["table"]):
                line = line_of(one) if isinstance(one, Mapping) else line_of(rule, key)
                yield line, f"{key}: {text}"


def _nearby_faults(one: object, table: str) -> Iterator[str]:
    if not isinstance(one, Mapping) or "where" not in one or "within" not in one:
        yield "say where it is told and within how many seconds: {where: ..., within: 60}"
        return
    for key in set(one) - _NEAR_KEYS:
        yield f"unknown key {key!r}; known: {', '.join(sorted(_NEAR_KEYS))}"
    other = one.get("table", table)
    if other not in TABLES:
        yield f"there is no table {other!r}; there are {', '.join(TABLES)}"
        return
    yield from (text for _, text in find_condition_problems(one["where"], other))
    for name in _texts(one.get("same")):
        if name not in plain_columns(table) or name not in plain_columns(other):
            yield f"'same' names {name!r}, which is no plain column of both tables"
    if one.get("when", "after") not in _WHEN:
        yield f"'when' is one of {', '.join(_WHEN)}"
    if not isinstance(one["within"], (int, float)):
        yield "'within' must be a number of seconds"


def _name_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    known = {*_texts(rule.get("by")), *_COUNTED}
    for key in ("title", "actions"):
        for text in _texts(rule.get(key)):
            for name in _NAME.findall(text):
                if name not in known:
                    fault = f"{{{name}}} is not known here; known: {', '.join(sorted(known))}"
                    yield line_of(rule, key), fault


def _sample_faults(rule: Mapping[str, Any]) -> Iterator[Fault]:
    samples = rule["samples"]
    if not isinstance(samples, list):
        yield line_of(rule, "samples"), "'samples' must be a list"
        return
    for one in samples:
        logs = one.get("logs") if isinstance(one, Mapping) else None
        if not isinstance(one, Mapping) or not isinstance(logs, Mapping) or not one.get("name"):
            yield line_of(one), "a sample has a name, a kind, and logs: file name to text"
        elif one.get("kind") not in _SAMPLE_KINDS:
            yield line_of(one), f"'kind' of a sample is one of: {', '.join(_SAMPLE_KINDS)}"
        else:
            for key in set(one) - _SAMPLE_KEYS:
                yield line_of(one, key), f"unknown key {key!r} in a sample"
    kinds = {one.get("kind") for one in samples if isinstance(one, Mapping)}
    for kind in _SAMPLE_KINDS:
        if kind not in kinds:
            yield line_of(rule, "samples"), f"there is no sample of kind {kind!r}"
