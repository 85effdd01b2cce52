"""Matches entries to rules, by logger first, and builds the events column by column.

Hundreds of wordings take a few lines each, and every call of Arrow has its price: what they
captured is kept as bytes, joined, and converted once for each column. Nonsense becomes null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.error_codes import canonical_errors
from forensics.events.rules import LIBRARY_LOGGERS, MORE, ListItems, Rule, Wording
from forensics.ingest.client_lines import UNNAMED
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE, first_quoted_error
from forensics.schemas import EVENTS, FACTS

Rows = npt.NDArray[np.int64]

# A message without a logger is only taken by a text as long as this.
_UNMISTAKABLE = 12
# By a logger that no rule knows, a message must speak of Kafka, or of its port, too.
_SPEAKS_OF_KAFKA = (
    r"(?i)kafka|\b909[0-9]\b|metadata|coordinator|partition|heartbeat|offset|"
    r"(?:consumer|producer|broker)/"
)
# A UUID in URL-safe base64; a topic of old has none, or one that is all zero.
_TOPIC_ID, _NO_TOPIC_IDS = r"(?P<id>[\w-]{22})", pa.array(["", "A" * 22])
# What a column of numbers can hold.
_RANGES = {pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1)}
# Offsets and counts are reckoned with and drawn; beyond 2^53 no reader of JSON holds them exactly.
_EXACT = (-(2**53), 2**53)
# A moment lies before 2200, a duration below a century.
_RANGES_OF = {
    **dict.fromkeys(("log_end", "high_watermark", "cut_to", "position", "count"), _EXACT),
    "epoch_ms": (-1, 7_258_118_400_000),
    "duration_ms": (-3_155_760_000_000, 3_155_760_000_000),
}
# What Java writes for "no limit".
_NO_LIMIT = frozenset({-(2**63), 2**63 - 1})
# No number of 64 bits has more digits.
_MOST_DIGITS = 20
# The kind of events in which a number is beyond all that its column can hold.
IMPOSSIBLE = "impossible_number"


# What Go's loggers leave around a message: level, the name of the library, quotes; and pairs or an
# object behind it.
_AROUND = (
    (r"^(?:(?:DEBUG|INFO|WARN|ERROR)\s+)?(?:\[\w*(?i:kafka|sarama)[^\]\s]*\]:? )?", ""),
    (r"\s+\{\"[^\n]*\}\s*$", ""),
    (r"^\"((?:[^\"\\\n]|\\[^\n])*)\"(?:\s+[\w.]+=[^\n]*)?$", r"\1"),
)


def parse_column(captured: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert captured bytes into one column of a table.

    >>> parse_column(pa.array([b"Some(2)", b"None"], pa.binary()), pa.int32()).to_pylist()
    [2, None]
    >>> parse_column(pa.array([b"[1, 2]", b""], pa.binary()), pa.list_(pa.int32())).to_pylist()
    [[1, 2], []]
    """
    return _parse_captured(captured, wanted)[0]


def _parse_captured(
    captured: pa.Array, wanted: pa.DataType, name: str = ""
) -> tuple[pa.Array, Rows | None]:
    """Convert one column; also return which rows name a number that it cannot hold.

    Such a number is null, and so is a list with one: without it the list would be another.
    """
    if pa.types.is_list(wanted):
        return _parse_lists(captured, wanted)
    if pa.types.is_integer(wanted):
        return _parse_integers(captured, wanted, _RANGES_OF.get(name, _RANGES[wanted]))
    return decode_text(captured), None


def decode_text(raw: pa.Array) -> pa.Array:
    """Read bytes as UTF-8; what is not UTF-8 is replaced, never lost."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        values = raw.to_pylist()
        decoded = [None if text is None else text.decode("utf-8", "replace") for text in values]
        return pa.array(decoded, pa.string())


def _parse_integers(
    captured: pa.Array, wanted: pa.DataType, known: tuple[int, int]
) -> tuple[pa.Array, Rows | None]:
    # Where there is no digit, the field is empty, and so is no number.
    digits = pc.extract_regex(captured, r"(?P<n>-?[0-9]+)").field("n")
    short = pc.fill_null(pc.match_substring_regex(digits, r"^-?[0-9]{1,18}$"), False)
    shorter = pc.if_else(short, digits, pa.scalar(None, pa.binary()))
    numbers = pc.cast(decode_text(shorter), pa.int64())
    fits = pc.and_(pc.greater_equal(numbers, known[0]), pc.less_equal(numbers, known[1]))
    numbers = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
    there = pc.not_equal(digits, b"")
    strange = _rows_where(pc.and_(there, pc.invert(pc.fill_null(fits, False))))
    if not len(strange):
        return pc.cast(numbers, wanted), None
    read = [_read_number(text) for text in digits.take(pa.array(strange)).to_pylist()]
    values = np.array([value is not None and known[0] <= value <= known[1] for value in read])
    held = [value if ok else None for value, ok in zip(read, values.tolist(), strict=True)]
    mask = np.zeros(len(digits), np.bool_)
    mask[strange] = True
    numbers = pc.replace_with_mask(numbers, pa.array(mask), pa.array(held, pa.int64()))
    limits = np.array([value in _NO_LIMIT and wanted == pa.int64() for value in read])
    return pc.cast(numbers, wanted), strange[~values & ~limits]


def _read_number(digits: bytes) -> int | None:
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def _rows_where(mask: pa.Array) -> Rows:
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))


def _parse_lists(captured: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Rows | None]:
    bare = pc.replace_substring_regex(captured, r"[^-0-9,]", "")
    parts = pc.split_pattern(bare, ",")
    values = parts.flatten()
    filled = pc.match_substring_regex(values, r"^-?[0-9]{1,9}$")
    strange = _rows_where(pc.and_(pc.invert(filled), pc.not_equal(values, b"")))
    beyond = None
    if len(strange):
        parents = parts.value_parent_indices().to_numpy()
        low, high = _RANGES[pa.int32()]
        read = [_read_item(text) for text in values.take(pa.array(strange)).to_pylist()]
        fits = np.array([value is not None and low <= value <= high for value in read])
        beyond = np.unique(parents[strange[~fits]]).astype(np.int64)
        mask = np.array(filled.to_numpy(zero_copy_only=False))
        mask[strange[fits]] = True
        filled = pa.array(mask)
    parents = parts.value_parent_indices().filter(filled) if len(values) else None
    numbers = pc.cast(decode_text(values.filter(filled)), wanted.value_type)
    lists = _build_lists(parents, numbers, captured, wanted)
    if beyond is None or not len(beyond):
        return lists, None
    holds = np.ones(len(lists), np.bool_)
    holds[beyond] = False
    return pc.if_else(pa.array(holds), lists, pa.scalar(None, wanted)), beyond


def _read_item(text: bytes) -> int | None:
    return _read_number(text) if text.removeprefix(b"-").isdigit() else None


def _build_lists(
    parents: pa.Array | None, numbers: pa.Array, captured: pa.Array, wanted: pa.DataType
) -> pa.Array:
    """Put numbers back into the lists they came from; an empty text is an empty list."""
    counts = np.zeros(len(captured), np.int32)
    if parents is not None:
        np.add.at(counts, parents.to_numpy(), 1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), numbers).cast(wanted)
    return pc.if_else(captured.is_valid(), lists, pa.scalar(None, wanted))


_COPIED_COLUMNS = ("line", "offset", "level", "logger", "text")
# One line may name thousands of partitions. Only its first event gets the whole text.
_MAX_ITEM_TEXT = 240


@dataclass(frozen=True)
class MatchedEvents:
    """The events of one wording: the entries they come from, and their facts as captured.

    `below`: how many lines below the first of its entry each event stands, and that line; None
    where all stand in the first.
    """

    rows: Rows
    kind: str
    rule: str
    telling: str | None
    facts: Mapping[str, Any]
    below: tuple[Rows, pa.Array] | None = None

    @property
    def repeats(self) -> npt.NDArray[np.bool_]:
        """A mask of the events from the same entry as the one before: later items of a list."""
        repeats: npt.NDArray[np.bool_] = np.diff(self.rows, prepend=-1) == 0
        return repeats


def build_events(entries: pa.RecordBatch, parts: Sequence[MatchedEvents]) -> pa.RecordBatch:
    """Return the events of all parts, in the order of the entries."""
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=EVENTS)
    rows = np.concatenate([part.rows for part in parts])
    taken = entries.take(pa.array(rows))
    columns: dict[str, pa.Array] = {name: taken[name] for name in _COPIED_COLUMNS}
    columns["text"] = _shorten_repeats(
        columns["text"], np.concatenate([part.repeats for part in parts])
    )
    _cite_own_lines(columns, parts)
    columns = {
        name: decode_text(column) if pa.types.is_binary(column.type) else column
        for name, column in columns.items()
    }
    columns["ts"] = taken["ts"].cast(EVENTS.field("ts").type)
    facts, impossible = _fact_columns(parts, len(rows))
    columns |= facts
    columns["client"] = pc.coalesce(columns["client"], decode_text(taken["client"]))
    ids = pc.extract_regex(columns["topic_id"], _TOPIC_ID).field("id")
    columns["topic_id"] = pc.if_else(pc.is_in(ids, _NO_TOPIC_IDS), None, ids)
    columns["error"], columns["retriable"] = canonical_errors(columns["error"])
    columns |= {name: _label_column(parts, name) for name in ("kind", "rule")}
    if impossible.any():
        # Half a fact would be taken for a whole one.
        kind = pa.scalar(IMPOSSIBLE, pa.string())
        columns["kind"] = pc.if_else(pa.array(impossible), kind, columns["kind"])
    columns["telling"] = _telling_column(_label_column(parts, "telling"), columns["previous_epoch"])
    # The scan sets the file, and a later stage the node.
    columns |= {name: pa.nulls(len(rows), pa.string()) for name in ("file", "node")}
    events = pa.RecordBatch.from_arrays([columns[field.name] for field in EVENTS], schema=EVENTS)
    return events.take(pc.sort_indices(events, [("offset", "ascending"), ("rule", "ascending")]))


def _fact_columns(
    parts: Sequence[MatchedEvents], total: int
) -> tuple[dict[str, pa.Array], npt.NDArray[np.bool_]]:
    """Join what the parts hold of each fact, nulls where they hold nothing, and convert it.

    Also returns a mask of the events that name a number beyond its column.
    """
    pieces: dict[str, list[pa.Array]] = {name: [] for name in FACTS.names}
    filled = dict.fromkeys(FACTS.names, 0)
    begin = 0
    for part in parts:
        count = len(part.rows)
        for name, value in part.facts.items():
            if name in pieces:
                if begin > filled[name]:
                    pieces[name].append(pa.nulls(begin - filled[name], pa.binary()))
                pieces[name].append(_as_captured(value, count))
                filled[name] = begin + count
        begin += count
    columns, impossible = {}, np.zeros(total, np.bool_)
    for field in FACTS:
        arrays = pieces[field.name]
        if not arrays:
            columns[field.name] = pa.nulls(total, field.type)
            continue
        if filled[field.name] < total:
            arrays.append(pa.nulls(total - filled[field.name], pa.binary()))
        captured = pa.concat_arrays(arrays)
        columns[field.name], beyond = _parse_captured(captured, field.type, field.name)
        if beyond is not None:
            impossible[beyond] = True
    return columns, impossible


def _as_captured(value: Any, count: int) -> pa.Array:
    """Return a constant as if it had been captured."""
    if isinstance(value, pa.Array):
        return value
    written = None if value is None else str(value).encode()
    return pa.repeat(pa.scalar(written, pa.binary()), count)


def _label_column(parts: Sequence[MatchedEvents], name: str) -> pa.Array:
    labels = pa.array([getattr(part, name) for part in parts], pa.string())
    counts = [len(part.rows) for part in parts]
    return labels.take(pa.array(np.repeat(np.arange(len(parts)), counts)))


def _telling_column(labels: pa.Array, epochs: pa.Array) -> pa.Array:
    """Mark the lines that may repeat an older fact under their own time.

    A `fresh` start is news unless its previous epoch is -1, as after a restart.
    """
    started = pc.and_(pc.equal(labels, "fresh"), pc.fill_null(pc.not_equal(epochs, -1), True))
    return pc.if_else(pc.fill_null(started, False), pa.scalar(None, pa.string()), labels)


def _shorten_repeats(texts: pa.Array, repeats: npt.NDArray[np.bool_]) -> pa.Array:
    """Shorten the text of an entry's later events."""
    if not repeats.any():
        return texts
    return pc.if_else(pa.array(repeats), pc.binary_slice(texts, 0, _MAX_ITEM_TEXT), texts)


def _cite_own_lines(columns: dict[str, pa.Array], parts: Sequence[MatchedEvents]) -> None:
    """Give events that stand below the first line of their entry their own line."""
    if all(part.below is None for part in parts):
        return
    none = pa.scalar(None, pa.binary())
    blank = [
        (np.zeros(len(part.rows), np.int64), pa.repeat(none, len(part.rows))) for part in parts
    ]
    below, texts = zip(*(part.below or blank[at] for at, part in enumerate(parts)), strict=True)
    columns["line"] = pc.add(columns["line"], pa.array(np.concatenate(below)))
    columns["text"] = pc.coalesce(pa.concat_arrays(texts), columns["text"])


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
        if self.has_wildcard_rules:
            quoted = _find_quoted_errors(entries, _rows_of(parts))
            parts += self._match_logger(entries, ANY_LOGGER, *quoted)
        return build_events(entries, parts)

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
        rows = np.setdiff1d(_rows_where(others), _rows_of(parts))
        messages = entries["message"].take(pa.array(rows))
        found: Rows = rows[_rows_where(pc.match_substring_regex(messages, _SPEAKS_OF_KAFKA))]
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
    more = _rows_where(pc.or_(long, lists.is_null()))
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
        some = entries.take(pa.array(rows))
        lines, captured, places = _explode_items(some, captured, wording.each)
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
    entries: pa.RecordBatch, captured: Mapping[str, pa.Array], each: ListItems
) -> tuple[Rows, dict[str, pa.Array], Rows]:
    """Give every item of a list its own row; a line without items keeps one row.

    Also returns the place of each in its list, -1 for a line without items.
    """
    lists = pc.split_pattern(entries["more"] if each.of == MORE else captured[each.of], each.by)
    items, parents = lists.flatten(), lists.value_parent_indices()
    places = np.arange(len(items)) - lists.offsets.to_numpy()[parents.to_numpy()]
    fields = pc.extract_regex(items, each.template.pattern)
    fits = fields.is_valid()
    for name, values in each.only.items():
        wanted = pa.array([value.encode() for value in values], pa.binary())
        fits = pc.and_(fits, pc.is_in(fields.field(name), wanted))
    places = places[fits.to_numpy(zero_copy_only=False)]
    fields, parents = fields.filter(fits), parents.filter(fits)
    without = np.setdiff1d(np.arange(len(entries)), parents.to_numpy(zero_copy_only=False))
    rows = np.concatenate([parents.to_numpy(zero_copy_only=False), without]).astype(np.int64)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    columns = {name: column.take(pa.array(rows)) for name, column in captured.items()}
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
    return below, pc.replace_substring_regex(pc.binary_slice(texts, 0, _MAX_ITEM_TEXT), r"\r$", "")


def _resolve_facts(wanted: Mapping[str, Any], captured: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Resolve `{name}` to what was captured; anything else is a constant."""
    return {
        name: captured[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for name, value in wanted.items()
    }
