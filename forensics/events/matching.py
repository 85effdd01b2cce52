"""Matches entries to rules, by logger first, and yields events column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.converting import convert, text
from forensics.events.faults import MORE
from forensics.events.rules import Each, Rule, Wording
from forensics.events.vocabulary import canonical
from forensics.tables import EVENTS, FACTS

__all__ = ["Matcher"]

_PLACES = ("ts", "line", "offset", "level", "logger", "text")
_TELLING = EVENTS.get_field_index("telling")
_CAST = {"ts": EVENTS.field("ts").type}


class Matcher:
    """All rules, sorted by the logger they listen to."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Take rules; what they listen to and look for also feeds the sieve."""
        self._by_logger: dict[str, list[tuple[Rule, Wording]]] = {}
        for rule in rules:
            for wording in rule.wordings:
                for logger in rule.loggers:
                    self._by_logger.setdefault(logger, []).append((rule, wording))
        self._hits = {logger: [0] * len(pairs) for logger, pairs in self._by_logger.items()}

    @property
    def loggers(self) -> list[str]:
        """The loggers that some rule listens to."""
        return list(self._by_logger)

    @property
    def probes(self) -> dict[str, set[str]]:
        """For each logger the cheap patterns, one of which a line must meet to be claimed."""
        return {
            logger: {wording.template.probe for _, wording in pairs}
            for logger, pairs in self._by_logger.items()
        }

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Give the events of some entries, in the order of the entries."""
        parts = [
            part for logger in self._present(entries) for part in self._logger(entries, logger)
        ]
        if not parts:
            return pa.RecordBatch.from_pylist([], schema=EVENTS)
        events = pa.concat_batches(parts)
        return events.take(
            pc.sort_indices(events, [("offset", "ascending"), ("rule", "ascending")])
        )

    def _present(self, entries: pa.RecordBatch) -> list[str]:
        found = {
            name.decode("utf-8", "replace")
            for name in entries["logger"].unique().to_pylist()
            if name
        }
        return sorted(found & set(self._by_logger))

    def _logger(self, entries: pa.RecordBatch, logger: str) -> Iterator[pa.RecordBatch]:
        mine = entries.filter(pc.equal(entries["logger"], pa.scalar(logger.encode(), pa.binary())))
        hits = self._hits[logger]
        # No line is claimed twice, so the order is free: what was frequent so far comes first, and
        # leaves little for the others.
        for number in sorted(range(len(hits)), key=lambda at: (-hits[at], at)):
            if not len(mine):
                return
            rule, wording = self._by_logger[logger][number]
            rows, fields = self._claim(mine["message"], rule, wording)
            if not len(rows):
                continue
            yield from _events(mine.take(pa.array(rows)), fields, rule, wording)
            hits[number] += len(rows)
            left = np.ones(len(mine), np.bool_)
            left[rows] = False
            mine = mine.filter(left)

    def _claim(
        self, messages: pa.Array, rule: Rule, wording: Wording
    ) -> tuple[npt.NDArray[np.int64], pa.StructArray]:
        """Give the numbers of the messages that a wording takes, and what it captures there."""
        del rule  # who measures what each rule costs, asks for it
        held = pc.match_substring(messages, wording.template.longest)
        rows = np.flatnonzero(held.to_numpy(zero_copy_only=False))
        if not len(rows):
            return rows, None
        fields = pc.extract_regex(messages.take(pa.array(rows)), wording.template.pattern)
        fits = fields.is_valid()
        return rows[fits.to_numpy(zero_copy_only=False)], fields.filter(fits)


def _events(
    entries: pa.RecordBatch, fields: pa.StructArray, rule: Rule, wording: Wording
) -> Iterator[pa.RecordBatch]:
    captured = {field.name: fields.field(field.name) for field in fields.type}
    if "client" not in captured:
        captured["client"] = entries["client"]
    if wording.each:
        entries, captured = _itemised(entries, captured, wording.each)
    facts = dict(captured) | _chosen(wording.settings, captured)
    yield _batch(entries, rule.kind, facts, rule, wording)
    shared = {name: facts[name] for name in ("topic", "partition", "controller") if name in facts}
    for extra in wording.also:
        told = _batch(entries, extra.kind, shared | _chosen(extra.facts, captured), rule, wording)
        # What a line says beside its news, such as the state before, was so at some earlier time.
        yield told.set_column(_TELLING, "telling", pa.repeat(pa.scalar("always"), len(entries)))


def _itemised(
    entries: pa.RecordBatch, captured: Mapping[str, pa.Array], each: Each
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Give every item of a list its own row; a line whose list holds no item keeps one row."""
    lists = pc.split_pattern(entries["more"] if each.of == MORE else captured[each.of], each.by)
    items, parents = lists.flatten(), lists.value_parent_indices()
    fields = pc.extract_regex(items, each.template.pattern)
    fits = fields.is_valid()
    for name, values in each.only.items():
        wanted = pa.array([value.encode() for value in values], pa.binary())
        fits = pc.and_(fits, pc.is_in(fields.field(name), wanted))
    fields, parents = fields.filter(fits), parents.filter(fits)
    without = np.setdiff1d(np.arange(len(entries)), parents.to_numpy(zero_copy_only=False))
    rows = np.concatenate([parents.to_numpy(zero_copy_only=False), without]).astype(np.int64)
    order = np.argsort(rows, kind="stable")
    rows = pa.array(rows[order])
    found = {name: column.take(rows) for name, column in captured.items()}
    for field in fields.type:
        padded = pa.concat_arrays([fields.field(field.name), pa.nulls(len(without), pa.binary())])
        found[field.name] = padded.take(pa.array(order))
    return entries.take(rows), found


def _chosen(wanted: Mapping[str, Any], captured: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Resolve `{name}` to what was captured; anything else is a constant."""
    return {
        name: captured[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for name, value in wanted.items()
    }


def _batch(
    entries: pa.RecordBatch, kind: str, facts: Mapping[str, Any], rule: Rule, wording: Wording
) -> pa.RecordBatch:
    count = len(entries)
    columns: dict[str, pa.Array] = {
        "kind": pa.repeat(pa.scalar(kind), count),
        "rule": pa.repeat(pa.scalar(f"{rule.id}@{wording.versions[0]}"), count),
    }
    for name in _PLACES:
        column = entries[name]
        columns[name] = column.cast(_CAST[name]) if name in _CAST else column
        if pa.types.is_binary(column.type):
            columns[name] = text(column)
    for name, value in facts.items():
        if name in FACTS.names:
            columns[name] = _column(value, FACTS.field(name).type, count)
    if "error" in columns:
        columns["error"], columns["retriable"] = canonical(columns["error"])
    columns["telling"] = _telling(wording, columns, count)
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in EVENTS]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENTS)


def _column(value: Any, wanted: pa.DataType, count: int) -> pa.Array:
    if isinstance(value, pa.Array):
        return convert(value, wanted)
    return (
        pa.array([value] * count, wanted)
        if pa.types.is_list(wanted)
        else pa.repeat(pa.scalar(value, wanted), count)
    )


def _telling(wording: Wording, columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Mark the lines that may re-tell an older fact under today's time."""
    if wording.restates == "fresh":
        epochs = columns.get("previous_epoch", pa.nulls(count, pa.int32()))
        again = pc.fill_null(pc.equal(epochs, -1), False)
        return pc.if_else(again, pa.scalar("fresh"), pa.scalar(None, pa.string()))
    if wording.restates:
        return pa.repeat(pa.scalar(wording.restates), count)
    return pa.nulls(count, pa.string())
