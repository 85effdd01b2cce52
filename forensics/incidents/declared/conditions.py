"""Conditions on the columns of a table, as a rule writes them and as Arrow asks them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics import tables

__all__ = ["TABLES", "column_faults", "expression", "plain_columns"]

# The tables a rule may look at, and the column that says when a row is.
TABLES: Mapping[str, tuple[pa.Schema, str]] = {
    "events": (tables.EVENTS, "ts"),
    "leadership": (tables.LEADERSHIP, "started_at"),
    "isr": (tables.ISR, "started_at"),
    "lanes": (tables.LANES, "started_at"),
    "cuts": (tables.CUTS, "started_at"),
}
_WORDS = ("not", "least", "most", "like", "known", "size")


def plain_columns(table: str) -> list[str]:
    """Name the columns of a table that rows can be sorted by: no lists."""
    return [one.name for one in TABLES[table][0] if not pa.types.is_list(one.type)]


def expression(where: Mapping[str, Any]) -> pc.Expression:
    """Ask all conditions at once; a null meets none but `known: false`."""
    parts = [part for name, wanted in where.items() for part in _parts(pc.field(name), wanted)]
    found = parts[0]
    for part in parts[1:]:
        found &= part
    return found


def column_faults(where: object, table: str) -> Iterator[tuple[str | None, str]]:
    """Yield what is wrong with conditions: the key it stands at, and a sentence."""
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
        yield from ((name, says) for says in _condition_faults(name, wanted, kind))


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
    """Write a shell pattern as RE2 reads it.

    >>> _regex("pay*_v?")
    '^(?s:pay.*_v.)$'
    """
    parts = {"*": ".*", "?": "."}
    return "^(?s:" + "".join(parts.get(one, re.escape(one)) for one in glob) + ")$"
