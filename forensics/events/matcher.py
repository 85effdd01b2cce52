"""Matches entries to rules, by logger first; `event_columns.py` builds the events."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.event_columns import (
    MatchedEvents,
    Rows,
    build_events,
    rows_where,
    shorten,
)
from forensics.events.rules import LIBRARY_LOGGERS, MORE, ListItems, Rule, Wording
from forensics.ingest.embedded_client_lines import UNNAMED
from forensics.parsing.prefilter import ANY_LOGGER, ERRORS, WARN_OR_WORSE, first_quoted_error
from forensics.schemas import FACTS

# A message without a logger is only taken by a text as long as this.
_UNMISTAKABLE = 12
# By a logger that no rule knows, a message must speak of Kafka, or of its port, too.
_SPEAKS_OF_KAFKA = (
    r"(?i)kafka|\b909[0-9]\b|metadata|coordinator|partition|heartbeat|offset|"
    r"(?:consumer|producer|broker)/"
)

# What Go's loggers leave around a message: level, the name of the library, quotes; and pairs or an
# object behind it.
_AROUND = (
    (r"^(?:(?:DEBUG|INFO|WARN|ERROR)\s+)?(?:\[\w*(?i:kafka|sarama)[^\]\s]*\]:? )?", ""),
    (r"\s+\{\"[^\n]*\}\s*$", ""),
    (r"^\"((?:[^\"\\\n]|\\[^\n])*)\"(?:\s+[\w.]+=[^\n]*)?$", r"\1"),
)

# The kind of errors of Kafka's servers that no rule knows, and a name in place of a rule's.
ERROR_UNREAD = "error_unread"
_UNREAD_BY = "error.unread"
# Packages of Kafka itself, as they are or shortened; and those of what runs beside servers.
_OF_KAFKA = r"(?:^|[^\w.])((?:kafka|state\.change|org\.apache\.kafka|o\.a\.k|k)(?:\.[\w$-]+)+)"
_OF_CLIENTS = re.compile(
    rb"(?:org\.apache\.kafka|o\.a\.k)\.(?:clients|connect|streams|tools|c|s|t)\."
)
# The first line of a stack trace: its exception.
_EXCEPTION = r"^(?P<error>(?:[a-z][\w$]*\.)+[A-Z][\w$]*)"
# Words of letters are of the message; others are most often names, numbers and addresses.
_PACKAGED = re.compile(_OF_KAFKA.encode())
_WORD, _LONGEST_SHAPE = re.compile(r"[(\[\"']*[A-Za-z][a-zA-Z']*[)\]\"'.,:;!]*"), 160


class Matcher:
    """All rules, by the loggers they listen to."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_logger: dict[str, list[tuple[Rule, Wording]]] = {}
        for rule in rules:
            for wording in rule.wordings:
                for logger in rule.loggers:
                    self._by_logger.setdefault(logger, []).append((rule, wording))
        rules = [rule for pairs in self._by_logger.values() for rule, _ in pairs]
        self._rules = {rule.id: rule for rule in rules if ANY_LOGGER not in rule.loggers}
        self._of_libraries = {
            name: rule for name, rule in self._rules.items() if rule.is_of_library
        }
        self._numbers: Mapping[str, int] = {}

    def number_probes(self, numbers: Mapping[str, int]) -> None:
        """Take from now on what entries say of the cheap patterns that they have."""
        self._numbers = numbers

    @property
    def loggers(self) -> list[str]:
        """The loggers that some rule listens to."""
        return [name for name in self._by_logger if name != ANY_LOGGER]

    @property
    def has_wildcard_rules(self) -> bool:
        """True if some rule reads errors that loggers quote which no rule names."""
        return ANY_LOGGER in self._by_logger

    @property
    def warn_only_loggers(self) -> set[str]:
        """The loggers of which only warnings, and worse, are of interest."""
        return {
            logger
            for logger, pairs in self._by_logger.items()
            if logger != ANY_LOGGER and all(rule.warn_or_worse_only for rule, _ in pairs)
        }

    @property
    def probes(self) -> dict[str, set[str]]:
        """For each logger the cheap patterns, one of which a line must match to be taken."""
        probes = {
            logger: {wording.template.probe for _, wording in pairs}
            for logger, pairs in self._by_logger.items()
            if logger != ANY_LOGGER
        }
        return probes | {UNNAMED: {probe for some in probes.values() for probe in some}}

    @property
    def library_probes(self) -> set[str]:
        """The cheap patterns of what applications log by loggers that no rule knows."""
        rules = self._of_libraries.values()
        return {one.template.probe for rule in rules for one in _unmistakable(rule)}

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events of some entries, in the order of the entries."""
        return self.match_parts(entries)[0]

    def match_parts(
        self, entries: pa.RecordBatch, quiet: Matcher | None = None
    ) -> tuple[pa.RecordBatch, Rows]:
        """Return the events of some entries, and the part of the logs that each is from.

        With `quiet`, the rules that give no event, also of errors that no rule knows.
        """
        likely = _find_likely(entries, self._numbers)
        parts = [
            part
            for logger, numbers, messages in self._by_known_logger(entries)
            for part in (
                self._match_logger(entries, logger, numbers, messages)
                if likely is None
                else self._match_likely(entries, logger, numbers, likely)
            )
        ]
        strange = self._find_strange(entries, parts)
        parts += self._match_unnamed(entries, strange, self._of_libraries, likely)
        unnamed = np.setdiff1d(_rows_of_logger(entries, UNNAMED), _rows_of(parts))
        parts += self._match_unnamed(entries, unnamed, self._rules, likely)
        known = _rows_of(parts)
        if self.has_wildcard_rules:
            quoted = _find_quoted_errors(entries, known)
            parts += self._match_logger(entries, ANY_LOGGER, *quoted)
        if quiet is not None:
            unread = self._find_unread(entries, known, _rows_of(parts), quiet)
            parts += [_build_unread(entries, unread)] if len(unread) else []
        return build_events(entries, parts)

    def _find_unread(
        self, entries: pa.RecordBatch, known: Rows, taken: Rows, quiet: Matcher
    ) -> Rows:
        """Return the errors of Kafka's own loggers that no rule knows.

        Those of servers that only quote the error of a client, which is `taken`, count, too.
        """
        levels = pa.array([level.encode() for level in ERRORS], pa.binary())
        rows = np.setdiff1d(rows_where(pc.is_in(entries["level"], levels)), known)
        if not len(rows):
            return rows
        own = zip(
            rows.tolist(), np.isin(rows, taken).tolist(),
            *(entries[name].take(pa.array(rows)).to_pylist() for name in ("logger", "text")),
            strict=True,
        )  # fmt: skip
        own_rows = [
            row for row, is_taken, logger, text in own
            if self._is_of_kafka(logger or b"", text, is_server=is_taken)
        ]  # fmt: skip
        rows = np.array(own_rows, np.int64)
        some = entries.take(pa.array(rows))
        told = [part.rows for _, parts in quiet.match_all(some) for part in parts]
        return np.delete(rows, np.concatenate([np.zeros(0, np.int64), *told]))

    def _is_of_kafka(self, logger: bytes, text: bytes, *, is_server: bool) -> bool:
        """Return True if a logger is Kafka's, of a server if that is asked.

        A line without its package is known by rules that listen to it.
        """
        named = [one[1] for one in _PACKAGED.finditer(text) if one[1].endswith(logger)]
        if not logger or not named:
            name = logger.decode("utf-8", "replace")
            return not is_server and name in self._by_logger and name not in LIBRARY_LOGGERS
        of_clients = _OF_CLIENTS.match(named[-1])
        return of_clients is None or (not is_server and of_clients[0].endswith(b".clients."))

    def _match_likely(
        self, entries: pa.RecordBatch, logger: str, numbers: Rows, likely: Likely
    ) -> Iterator[MatchedEvents]:
        """Match as `_match_logger` does, but ask each wording only for the likely messages."""
        free = np.zeros(len(entries), np.bool_)
        free[numbers] = True
        for rule, wording in self._by_logger[logger]:
            rows = likely.find(wording.template.probe)
            rows = rows[free[rows]]
            if not len(rows):
                continue
            rows, fields = self._match_wording(entries["message"], wording, rows)
            if len(rows):
                yield from _build_matched(rows, entries, fields, rule, wording)
                free[rows] = False

    def _find_strange(self, entries: pa.RecordBatch, parts: Sequence[MatchedEvents]) -> Rows:
        """Return the entries of loggers that no rule knows, if they speak of Kafka."""
        known = [logger.encode() for logger in {*self.loggers} - LIBRARY_LOGGERS - {UNNAMED}]
        others = pc.invert(pc.is_in(entries["logger"], pa.array(known, pa.binary())))
        rows = np.setdiff1d(rows_where(others), _rows_of(parts))
        messages = entries["message"].take(pa.array(rows))
        found: Rows = rows[rows_where(pc.match_substring_regex(messages, _SPEAKS_OF_KAFKA))]
        return found

    def _match_unnamed(
        self,
        entries: pa.RecordBatch,
        numbers: Rows,
        rules: Mapping[str, Rule],
        likely: Likely | None,
    ) -> Iterator[MatchedEvents]:
        """Match records by the message alone: only what one rule alone may take counts."""
        if not len(numbers):
            return
        messages = entries["message"].take(pa.array(numbers))
        for around, instead in _AROUND if rules is self._of_libraries else ():
            messages = pc.replace_substring_regex(messages, around, instead)
        takers = np.zeros(len(numbers), np.int64)
        found = []
        for name in sorted(rules):
            taken = np.zeros(len(numbers), np.bool_)
            for wording in _unmistakable(rules[name]):
                some = None
                if likely is not None:
                    asked = likely.find(wording.template.probe)
                    if not len(asked):
                        continue
                    some = np.flatnonzero(np.isin(numbers, asked, assume_unique=True))
                rows, fields = self._match_wording(messages, wording, some)
                if len(rows):
                    fresh = ~taken[rows]
                    taken[rows] = True
                    found.append(
                        (rules[name], wording, rows[fresh], fields.filter(pa.array(fresh)))
                    )
            takers += taken
        for rule, wording, rows, fields in found:
            alone = takers[rows] == 1
            if alone.any():
                some = fields.filter(pa.array(alone))
                yield from _build_matched(numbers[rows[alone]], entries, some, rule, wording)

    def match_all(self, entries: pa.RecordBatch) -> Iterator[tuple[Wording, list[MatchedEvents]]]:
        """Yield what every wording matches, even if another one matches it, too."""
        taken = [np.zeros(0, np.int64)]
        for known in self._by_known_logger(entries):
            for wording, parts in self._match_each(entries, *known):
                taken += [part.rows for part in parts]
                yield wording, parts
        if self.has_wildcard_rules:
            quoted = _find_quoted_errors(entries, np.concatenate(taken))
            yield from self._match_each(entries, ANY_LOGGER, *quoted)

    def _match_each(
        self, entries: pa.RecordBatch, logger: str, numbers: Rows, messages: pa.Array
    ) -> Iterator[tuple[Wording, list[MatchedEvents]]]:
        for rule, wording in self._by_logger[logger]:
            rows, fields = self._match_wording(messages, wording)
            if len(rows):
                yield wording, list(_build_matched(numbers[rows], entries, fields, rule, wording))

    def _by_known_logger(self, entries: pa.RecordBatch) -> Iterator[tuple[str, Rows, pa.Array]]:
        """Yield for each known logger the numbers of its entries, and their messages."""
        names = entries["logger"].unique().to_pylist()
        loggers = {name.decode("utf-8", "replace") for name in names if name}
        for logger in sorted(loggers & set(self.loggers)):
            numbers = _rows_of_logger(entries, logger)
            yield logger, numbers, entries["message"].take(pa.array(numbers))

    def _match_logger(
        self, entries: pa.RecordBatch, logger: str, numbers: Rows, messages: pa.Array
    ) -> Iterator[MatchedEvents]:
        # Where two wordings fit a line the first one takes it, whatever was read before.
        for rule, wording in self._by_logger[logger]:
            if not len(numbers):
                return
            rows, fields = self._match_wording(messages, wording)
            if not len(rows):
                continue
            yield from _build_matched(numbers[rows], entries, fields, rule, wording)
            left = np.ones(len(numbers), np.bool_)
            left[rows] = False
            numbers, messages = numbers[left], messages.filter(pa.array(left))

    def _match_wording(
        self, messages: pa.Array, wording: Wording, rows: Rows | None = None
    ) -> tuple[Rows, pa.StructArray]:
        """Return the numbers of the messages that a wording matches, and what it captures.

        `rows` are those that have its probe, if that is known.
        """
        if rows is None:
            hits = pc.match_substring(messages, wording.template.longest_literal)
            rows = np.flatnonzero(hits.to_numpy(zero_copy_only=False))
        if not len(rows):
            return rows, None
        fields = pc.extract_regex(messages.take(pa.array(rows)), wording.template.pattern)
        fits = fields.is_valid()
        return rows[fits.to_numpy(zero_copy_only=False)], fields.filter(fits)


@dataclass(frozen=True)
class Likely:
    """The messages that have the probe of a wording, by the probe, and those that may have any."""

    rows: Mapping[str, Rows]
    more: Rows

    def find(self, probe: str) -> Rows:
        """Return the messages that may have a probe."""
        some = self.rows.get(probe, self.more)
        return np.union1d(some, self.more) if len(self.more) else some


def _find_likely(entries: pa.RecordBatch, probes: Mapping[str, int]) -> Likely | None:
    lists = entries["probes"]
    if not probes or lists.null_count == len(lists):
        return None
    numbers, rows = lists.flatten().to_numpy(), lists.value_parent_indices().to_numpy()
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=-1))
    # A pattern may span the lines of a message, of which a probe has only one.
    long = pc.fill_null(pc.match_substring(entries["message"], "\n"), False)
    more = rows_where(pc.or_(long, lists.is_null()))
    names = list(probes)
    likely = {
        names[numbers[order[begin]]]: rows[order[begin:end]]
        for begin, end in pairwise(begins.tolist())
    }
    return Likely(likely, more)


def _find_quoted_errors(entries: pa.RecordBatch, taken: Rows) -> tuple[Rows, pa.Array]:
    """Return the warnings that no rule took by their logger, and the errors that they quote."""
    levels = pa.array([level.encode() for level in WARN_OR_WORSE], pa.binary())
    warnings = np.array(pc.is_in(entries["level"], levels).to_numpy(zero_copy_only=False))
    warnings[taken] = False
    numbers = np.flatnonzero(warnings)
    some = entries.select(["message", "more"]).take(pa.array(numbers))
    messages = first_quoted_error(some["message"], some["more"])
    quotes = messages.is_valid()
    return numbers[quotes.to_numpy(zero_copy_only=False)], messages.filter(quotes)


def _build_unread(entries: pa.RecordBatch, rows: Rows) -> MatchedEvents:
    """Return the events of errors that no rule knows: what they are like, and their exceptions."""
    some = entries.select(["message", "more"]).take(pa.array(rows))
    shapes = [_find_shape((one or b"").decode("utf-8", "replace"))
              for one in some["message"].to_pylist()]  # fmt: skip
    thrown = pc.extract_regex(some["more"], _EXCEPTION)
    facts = {
        "detail": pa.array([one.encode() for one in shapes], pa.binary()),
        "error": pc.struct_field(thrown, "error"),
    }
    return MatchedEvents(rows, ERROR_UNREAD, _UNREAD_BY, None, facts)


def _find_shape(message: str) -> str:
    """Return a message without what differs from one to the next.

    >>> _find_shape("[ReplicaManager broker=1] Could not move orders-7 to /data/2: disk is slow.")
    '[ReplicaManager * Could not move * to * disk is slow.'
    """
    words = message[: 4 * _LONGEST_SHAPE].partition("\n")[0].split()
    plain = [one if _WORD.fullmatch(one) else "*" for one in words]
    shape = [
        one for one, before in zip(plain, ["", *plain], strict=False) if {one, before} != {"*"}
    ]
    return " ".join(shape)[:_LONGEST_SHAPE]


def _unmistakable(rule: Rule) -> Iterator[Wording]:
    """Yield the wordings that need no logger to be known by."""
    for wording in rule.wordings:
        if len(wording.template.longest_literal) >= _UNMISTAKABLE:
            yield wording


def _rows_of(parts: Sequence[MatchedEvents]) -> Rows:
    return np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])


def _rows_of_logger(entries: pa.RecordBatch, logger: str) -> Rows:
    same = pc.equal(entries["logger"], pa.scalar(logger.encode(), pa.binary()))
    return np.flatnonzero(pc.fill_null(same, False).to_numpy(zero_copy_only=False))


def _build_matched(
    rows: Rows, entries: pa.RecordBatch, fields: pa.StructArray, rule: Rule, wording: Wording
) -> Iterator[MatchedEvents]:
    """Yield the events of a wording in some entries, whose numbers are `rows`."""
    captured = {field.name: fields.field(field.name) for field in fields.type}
    below = None
    if wording.each:
        some = entries.select(["more", "height"]).take(pa.array(rows))
        wanted = _list_wanted(wording)
        lines, captured, places = _explode_items(some, captured, wording.each, wanted)
        below = _find_own_lines(some, lines, places) if wording.each.lists_settings else None
        rows = rows[lines]
    name = f"{rule.id}@{wording.versions[0]}"
    facts = captured | _resolve_facts(wording.settings, captured)
    yield MatchedEvents(rows, rule.kind, name, wording.restates, facts, below)
    shared = {name: facts[name] for name in ("topic", "partition", "controller") if name in facts}
    for extra in wording.also:
        # What a line says beside its news, such as the previous state, is of an earlier time.
        yield MatchedEvents(
            rows, extra.kind, name, "always", shared | _resolve_facts(extra.facts, captured)
        )


def _explode_items(
    entries: pa.RecordBatch,
    captured: Mapping[str, pa.Array],
    each: ListItems,
    wanted: Collection[str],
) -> tuple[Rows, dict[str, pa.Array], Rows]:
    """Give every item of a list its own row; a line without items keeps one row.

    Of what the line itself has only the `wanted` is kept: its list is long where items are many.
    Also returns the place of each in its list, -1 for a line without items.
    """
    lists = pc.split_pattern(entries["more"] if each.of == MORE else captured[each.of], each.by)
    items, parents = lists.flatten(), lists.value_parent_indices()
    places = np.arange(len(items)) - lists.offsets.to_numpy()[parents.to_numpy()]
    if each.only:
        # Few settings of hundreds: what names none of them is not read.
        names = "|".join(re.escape(one) for values in each.only.values() for one in values)
        named = rows_where(pc.match_substring_regex(items, names))
        items, parents = (column.take(pa.array(named)) for column in (items, parents))
        places = places[named]
    fields = pc.extract_regex(items, each.template.pattern)
    fits = fields.is_valid()
    for name, values in each.only.items():
        allowed = pa.array([value.encode() for value in values], pa.binary())
        fits = pc.and_(fits, pc.is_in(fields.field(name), allowed))
    places = places[fits.to_numpy(zero_copy_only=False)]
    fields, parents = fields.filter(fits), parents.filter(fits)
    without = np.setdiff1d(np.arange(len(entries)), parents.to_numpy(zero_copy_only=False))
    rows = np.concatenate([parents.to_numpy(zero_copy_only=False), without]).astype(np.int64)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    columns = {name: captured[name].take(pa.array(rows)) for name in captured if name in wanted}
    for field in fields.type:
        padded = pa.concat_arrays([fields.field(field.name), pa.nulls(len(without), pa.binary())])
        columns[field.name] = padded.take(pa.array(order))
    return rows, columns, np.append(places, np.full(len(without), -1))[order]


def _find_own_lines(entries: pa.RecordBatch, rows: Rows, places: Rows) -> tuple[Rows, pa.Array]:
    """Find the lines of settings; a message that was written in one line has only that."""
    own = places + 1 < entries["height"].to_numpy()[rows]
    below = np.where(own, places + 1, 0)
    lists = pc.split_pattern(entries["more"], "\n")
    at = lists.offsets.to_numpy()[rows] + below - 1
    texts = lists.flatten().take(pa.array(at, mask=below == 0))
    return below, pc.replace_substring_regex(shorten(texts), r"\r$", "")


def _list_wanted(wording: Wording) -> set[str]:
    """Return the names of what events hold of what a wording captures."""
    values = [*wording.settings.values(), *(v for one in wording.also for v in one.facts.values())]
    return {str(value)[1:-1] for value in values} | set(FACTS.names)


def _resolve_facts(wanted: Mapping[str, Any], captured: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Resolve `{name}` to what was captured; anything else is a constant."""
    return {
        name: captured[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for name, value in wanted.items()
    }
