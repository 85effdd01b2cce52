"""Matches entries to rules, by logger first, and yields events column by column.

Turns captured text into the types of the tables, column by column; nonsense becomes null.

Puts what the wordings captured together as the table of events, each column at once.

Hundreds of wordings take a few lines each, and every call of Arrow has its price: so what they
captured is kept as text, joined, and turned into numbers once for each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.error_codes import canonical
from forensics.events.rules import MORE, Each, Rule, Wording
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE, first_quoted_error
from forensics.schemas import EVENTS, FACTS

_WIDEST = {pa.int32(): (-(2**31), 2**31 - 1)}


def convert(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert captured bytes into one column of a table.

    >>> convert(pa.array([b"Some(2)", b"None"], pa.binary()), pa.int32()).to_pylist()
    [2, None]
    >>> convert(pa.array([b"[1, 2]", b""], pa.binary()), pa.list_(pa.int32())).to_pylist()
    [[1, 2], []]
    """
    if pa.types.is_list(wanted):
        return _lists(captured, wanted)
    if pa.types.is_integer(wanted):
        return _integers(captured, wanted)
    return text(captured)


def text(raw: pa.Array) -> pa.Array:
    """Read bytes as UTF-8; what is not UTF-8 is replaced, never lost."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = [
            None if one is None else one.decode("utf-8", "replace") for one in raw.to_pylist()
        ]
        return pa.array(values, pa.string())


def _integers(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    digits = pc.extract_regex(captured, r"(?P<n>-?[0-9]+)").field("n")
    sane = pc.match_substring_regex(digits, r"^-?[0-9]{1,18}$")
    known = pc.fill_null(sane, False)
    digits = pc.if_else(known, digits, pa.scalar(None, pa.binary()))
    numbers = pc.cast(text(digits), pa.int64())
    if wanted in _WIDEST:
        low, high = _WIDEST[wanted]
        fits = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
        numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    return pc.cast(numbers, wanted)


def _lists(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    bare = pc.replace_substring_regex(captured, r"[^-0-9,]", "")
    parts = pc.split_pattern(bare, ",")
    values = parts.flatten()
    filled = pc.match_substring_regex(values, r"^-?[0-9]{1,9}$|^[01][0-9]{9}$")
    parents = parts.value_parent_indices().filter(filled) if len(values) else None
    numbers = pc.cast(text(values.filter(filled)), wanted.value_type)
    return _regrouped(parents, numbers, captured, wanted)


def _regrouped(
    parents: pa.Array | None, numbers: pa.Array, captured: pa.Array, wanted: pa.DataType
) -> pa.Array:
    """Put numbers back into the lists they came from, an empty text being an empty list."""
    counts = np.zeros(len(captured), np.int32)
    if parents is not None:
        np.add.at(counts, parents.to_numpy(), 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), numbers).cast(wanted)
    return pc.if_else(captured.is_valid(), lists, pa.scalar(None, wanted))


Rows = npt.NDArray[np.int64]

_PLACES = ("line", "offset", "level", "logger", "text")
# One line may name thousands of partitions. Its text is evidence once; after that a part will do.
_TEXT_OF_ITEMS = 240


@dataclass(frozen=True)
class Part:
    """The events of one wording: the entries they come from, and their facts as captured."""

    rows: Rows
    kind: str
    rule: str
    telling: str | None
    facts: Mapping[str, Any]

    @property
    def repeats(self) -> npt.NDArray[np.bool_]:
        """Which events come from the same entry as the one before: later items of a list."""
        again: npt.NDArray[np.bool_] = np.diff(self.rows, prepend=-1) == 0
        return again


def assembled(entries: pa.RecordBatch, parts: Sequence[Part]) -> pa.RecordBatch:
    """Give the events of all parts, in the order of the entries."""
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=EVENTS)
    rows = np.concatenate([part.rows for part in parts])
    told = entries.take(pa.array(rows))
    columns: dict[str, pa.Array] = {name: told[name] for name in _PLACES}
    columns["text"] = _shortened(columns["text"], np.concatenate([one.repeats for one in parts]))
    columns = {
        name: text(column) if pa.types.is_binary(column.type) else column
        for name, column in columns.items()
    }
    columns["ts"] = told["ts"].cast(EVENTS.field("ts").type)
    columns |= _facts(parts, len(rows))
    columns["client"] = pc.coalesce(columns["client"], text(told["client"]))
    columns["error"], columns["retriable"] = canonical(columns["error"])
    columns |= {name: _labels(parts, name) for name in ("kind", "rule")}
    columns["telling"] = _telling(_labels(parts, "telling"), columns["previous_epoch"])
    # Which file and node it was is known to who reads the file.
    columns |= {name: pa.nulls(len(rows), pa.string()) for name in ("file", "node")}
    events = pa.RecordBatch.from_arrays([columns[field.name] for field in EVENTS], schema=EVENTS)
    return events.take(pc.sort_indices(events, [("offset", "ascending"), ("rule", "ascending")]))


def _facts(parts: Sequence[Part], total: int) -> dict[str, pa.Array]:
    """Join what the parts hold of each fact, nulls where they hold nothing, and convert it."""
    pieces: dict[str, list[pa.Array]] = {name: [] for name in FACTS.names}
    filled = dict.fromkeys(FACTS.names, 0)
    begin = 0
    for part in parts:
        count = len(part.rows)
        for name, value in part.facts.items():
            if name in pieces:
                if begin > filled[name]:
                    pieces[name].append(pa.nulls(begin - filled[name], pa.binary()))
                pieces[name].append(_raw(value, count))
                filled[name] = begin + count
        begin += count
    columns = {}
    for field in FACTS:
        found = pieces[field.name]
        if not found:
            columns[field.name] = pa.nulls(total, field.type)
            continue
        if filled[field.name] < total:
            found.append(pa.nulls(total - filled[field.name], pa.binary()))
        columns[field.name] = convert(pa.concat_arrays(found), field.type)
    return columns


def _raw(value: Any, count: int) -> pa.Array:
    """Give a constant as if it had been captured."""
    if isinstance(value, pa.Array):
        return value
    written = None if value is None else str(value).encode()
    return pa.repeat(pa.scalar(written, pa.binary()), count)


def _labels(parts: Sequence[Part], name: str) -> pa.Array:
    labels = pa.array([getattr(part, name) for part in parts], pa.string())
    counts = [len(part.rows) for part in parts]
    return labels.take(pa.array(np.repeat(np.arange(len(parts)), counts)))


def _telling(labels: pa.Array, epochs: pa.Array) -> pa.Array:
    """Mark the lines that may re-tell an older fact under today's time.

    A start is told afresh after a restart, and knows of no epoch before it then.
    """
    started = pc.and_(pc.equal(labels, "fresh"), pc.fill_null(pc.not_equal(epochs, -1), True))
    return pc.if_else(pc.fill_null(started, False), pa.scalar(None, pa.string()), labels)


def _shortened(texts: pa.Array, again: npt.NDArray[np.bool_]) -> pa.Array:
    """Cut the text where an entry is told of again."""
    if not again.any():
        return texts
    return pc.if_else(pa.array(again), pc.binary_slice(texts, 0, _TEXT_OF_ITEMS), texts)


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
        return [name for name in self._by_logger if name != ANY_LOGGER]

    @property
    def strangers(self) -> bool:
        """Whether some rule listens to loggers that no rule names, for the errors they quote."""
        return ANY_LOGGER in self._by_logger

    @property
    def loud(self) -> set[str]:
        """The loggers of which only warnings, and worse, are of interest."""
        return {
            logger
            for logger, pairs in self._by_logger.items()
            if logger != ANY_LOGGER and all(rule.loud for rule, _ in pairs)
        }

    @property
    def probes(self) -> dict[str, set[str]]:
        """For each logger the cheap patterns, one of which a line must meet to be claimed."""
        return {
            logger: {wording.template.probe for _, wording in pairs}
            for logger, pairs in self._by_logger.items()
            if logger != ANY_LOGGER
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
            parts += list(self._logger(entries, ANY_LOGGER, *strange))
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
            for rule, wording in self._by_logger[ANY_LOGGER]:
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
        held = pc.match_substring(messages, wording.template.longest_literal)
        rows = np.flatnonzero(held.to_numpy(zero_copy_only=False))
        if not len(rows):
            return rows, None
        fields = pc.extract_regex(messages.take(pa.array(rows)), wording.template.pattern)
        fits = fields.is_valid()
        return rows[fits.to_numpy(zero_copy_only=False)], fields.filter(fits)


def _strangers(entries: pa.RecordBatch, taken: Rows) -> tuple[Rows, pa.Array]:
    """Give the loud entries that no rule takes by its logger, and the errors that they quote."""
    levels = pa.array([level.encode() for level in WARN_OR_WORSE], pa.binary())
    loud = pc.is_in(entries["level"], levels).to_numpy(zero_copy_only=False)
    left = np.array(loud, copy=True)
    left[taken] = False
    numbers = np.flatnonzero(left)
    some = entries.select(["message", "more"]).take(pa.array(numbers))
    messages = first_quoted_error(some["message"], some["more"])
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
