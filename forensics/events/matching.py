"""Matches entries to rules, by logger first, and yields events column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.entries.quoting import ANY, quoted
from forensics.entries.sieve import LOUD
from forensics.events.assembling import Part, Rows, assembled
from forensics.events.faults import MORE
from forensics.events.rules import Each, Rule, Wording

__all__ = ["Matcher"]


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
        return [name for name in self._by_logger if name != ANY]

    @property
    def strangers(self) -> bool:
        """Whether some rule listens to loggers that no rule names, for the errors they quote."""
        return ANY in self._by_logger

    @property
    def loud(self) -> set[str]:
        """The loggers of which only warnings, and worse, are of interest."""
        return {
            logger
            for logger, pairs in self._by_logger.items()
            if logger != ANY and all(rule.loud for rule, _ in pairs)
        }

    @property
    def probes(self) -> dict[str, set[str]]:
        """For each logger the cheap patterns, one of which a line must meet to be claimed."""
        return {
            logger: {wording.template.probe for _, wording in pairs}
            for logger, pairs in self._by_logger.items()
            if logger != ANY
        }

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Give the events of some entries, in the order of the entries."""
        parts = [
            part
            for logger, numbers, messages in self._heard(entries)
            for part in self._logger(entries, logger, numbers, messages)
        ]
        if self.strangers:
            taken = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])
            strange = _strangers(entries, taken)
            parts += list(self._logger(entries, ANY, *strange))
        return assembled(entries, parts)

    def claims(self, entries: pa.RecordBatch) -> Iterator[tuple[Rule, Wording, list[Part]]]:
        """Give what every wording takes, whoever else takes it too."""
        taken = [np.zeros(0, np.int64)]
        for logger, numbers, messages in self._heard(entries):
            for rule, wording in self._by_logger[logger]:
                rows, fields = self._claim(messages, wording)
                if len(rows):
                    taken.append(numbers[rows])
                    mine = entries.take(pa.array(numbers[rows])) if wording.each else entries
                    yield rule, wording, list(_parts(numbers[rows], mine, fields, rule, wording))
        if self.strangers:
            numbers, messages = _strangers(entries, np.concatenate(taken))
            for rule, wording in self._by_logger[ANY]:
                rows, fields = self._claim(messages, wording)
                if len(rows):
                    yield rule, wording, list(_parts(numbers[rows], entries, fields, rule, wording))

    def _heard(self, entries: pa.RecordBatch) -> Iterator[tuple[str, Rows, pa.Array]]:
        """Give for each logger the numbers of its entries, and what they say."""
        names = entries["logger"].unique().to_pylist()
        found = {name.decode("utf-8", "replace") for name in names if name}
        for logger in sorted(found & set(self.loggers)):
            numbers = _of(entries, logger)
            yield logger, numbers, entries["message"].take(pa.array(numbers))

    def _logger(
        self, entries: pa.RecordBatch, logger: str, numbers: Rows, messages: pa.Array
    ) -> Iterator[Part]:
        hits = self._hits[logger]
        # No line is claimed twice, so the order is free: what was frequent so far comes first, and
        # leaves little for the others.
        for number in sorted(range(len(hits)), key=lambda at: (-hits[at], at)):
            if not len(numbers):
                return
            rule, wording = self._by_logger[logger][number]
            rows, fields = self._claim(messages, wording)
            if not len(rows):
                continue
            mine = entries.take(pa.array(numbers[rows])) if wording.each else entries
            yield from _parts(numbers[rows], mine, fields, rule, wording)
            hits[number] += len(rows)
            left = np.ones(len(numbers), np.bool_)
            left[rows] = False
            numbers, messages = numbers[left], messages.filter(pa.array(left))

    def _claim(self, messages: pa.Array, wording: Wording) -> tuple[Rows, pa.StructArray]:
        """Give the numbers of the messages that a wording takes, and what it captures there."""
        held = pc.match_substring(messages, wording.template.longest)
        rows = np.flatnonzero(held.to_numpy(zero_copy_only=False))
        if not len(rows):
            return rows, None
        fields = pc.extract_regex(messages.take(pa.array(rows)), wording.template.pattern)
        fits = fields.is_valid()
        return rows[fits.to_numpy(zero_copy_only=False)], fields.filter(fits)


def _strangers(entries: pa.RecordBatch, taken: Rows) -> tuple[Rows, pa.Array]:
    """Give the loud entries that no rule takes by its logger, and the errors that they quote."""
    levels = pa.array([level.encode() for level in LOUD], pa.binary())
    loud = pc.is_in(entries["level"], levels).to_numpy(zero_copy_only=False)
    left = np.array(loud, copy=True)
    left[taken] = False
    numbers = np.flatnonzero(left)
    some = entries.select(["message", "more"]).take(pa.array(numbers))
    messages = quoted(some["message"], some["more"])
    speaks = messages.is_valid()
    return numbers[speaks.to_numpy(zero_copy_only=False)], messages.filter(speaks)


def _of(entries: pa.RecordBatch, logger: str) -> Rows:
    heard = pc.equal(entries["logger"], pa.scalar(logger.encode(), pa.binary()))
    return np.flatnonzero(pc.fill_null(heard, False).to_numpy(zero_copy_only=False))


def _parts(
    rows: Rows, entries: pa.RecordBatch, fields: pa.StructArray, rule: Rule, wording: Wording
) -> Iterator[Part]:
    """Give what a wording tells of some entries, whose numbers are `rows`."""
    captured = {field.name: fields.field(field.name) for field in fields.type}
    if wording.each:
        chosen, captured = _itemised(entries, captured, wording.each)
        rows = rows[chosen]
    name = f"{rule.id}@{wording.versions[0]}"
    facts = captured | _chosen(wording.settings, captured)
    yield Part(rows, rule.kind, name, wording.restates, facts)
    shared = {name: facts[name] for name in ("topic", "partition", "controller") if name in facts}
    for extra in wording.also:
        # What a line says beside its news, such as the state before, was so at some earlier time.
        yield Part(rows, extra.kind, name, "always", shared | _chosen(extra.facts, captured))


def _itemised(
    entries: pa.RecordBatch, captured: Mapping[str, pa.Array], each: Each
) -> tuple[Rows, dict[str, pa.Array]]:
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
    rows = rows[order]
    found = {name: column.take(pa.array(rows)) for name, column in captured.items()}
    for field in fields.type:
        padded = pa.concat_arrays([fields.field(field.name), pa.nulls(len(without), pa.binary())])
        found[field.name] = padded.take(pa.array(order))
    return rows, found


def _chosen(wanted: Mapping[str, Any], captured: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Resolve `{name}` to what was captured; anything else is a constant."""
    return {
        name: captured[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for name, value in wanted.items()
    }
