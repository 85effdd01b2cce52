"""Selects the records that can match a rule, by cheap checks before the rules' regexes.

A block is searched once for the cheap patterns of all rules, and what a record has counts if its
logger has such a rule. Without such a search, the last bytes of a line decide first whether any
rule has its logger (`LoggerFilter`), where a layout ends with it; what is left is searched, many
blocks at once, for one cheap pattern made of the rules of that very logger.

Applications log the errors of their Kafka clients by loggers of their own, which no rule knows. The
error they quote, in the line or in the stack trace below, is Kafka's own text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Bytes, Offsets, read_words
from forensics.ingest.text_buffer import slice_texts
from forensics.lib.log_templates import TYPES
from forensics.lib.pattern_set import PatternSet
from forensics.parsing.fast_path import extract_loggers, sort_by_fit
from forensics.parsing.layouts import OF_FOUND_LAYOUTS, Layout

# Many loggers end alike in eight bytes (..Manager), hardly any two in so many.
TAIL = 16
_WORD = 8
_HASH = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(48)
# A shift by a whole word is not defined.
_NONE = np.uint64(0)
# All bytes of a word but its last, and a closing parenthesis for its last.
_OPEN = np.uint64(0x00FFFFFFFFFFFFFF)
_CLOSED = np.uint64(ord(")") << 56)
# What a line number consists of; instead of one, log4j may print ? or, ill configured, %L.
_DIGIT_LIKE = np.isin(np.arange(256), list(b"0123456789%L?"))
_LONGEST_NUMBER = 6
# Characters before the last part of a logger's name.
_BEFORE = b".("

# The numbers of the cheap patterns that a text has.
PROBES = pa.list_(pa.uint16())

Words = npt.NDArray[np.uint64]


class LoggerFilter:
    """A set of loggers, keyed by hashes of the last 8 to 16 bytes of lines that end with them."""

    def __init__(self, loggers: Iterable[str]) -> None:
        """Add loggers by the last part of their names."""
        size = 1 << (64 - int(_SHIFT))
        # By the last word: how many bytes of the word before it must be compared, as bits.
        self._last = np.zeros(size, np.uint16)
        self._both = np.zeros(size, np.bool_)
        # Names shorter than a word, by their length.
        self._short: dict[int, npt.NDArray[np.bool_]] = {}
        for name in loggers:
            for before in _BEFORE:
                self._add(bytes([before]) + name.encode() + b")")

    def matches(self, data: Bytes, ends: Offsets) -> npt.NDArray[np.bool_]:
        """Return which lines end with a logger of the set; three words lie before each end."""
        ends = _find_name_ends(data, ends)
        # A line number may follow the name: replace it by the closing parenthesis.
        last = (read_words(data, ends - (_WORD - 1)) & _OPEN) | _CLOSED
        heard = np.zeros(len(ends), np.bool_)
        sizes = self._last[_hash(last)]
        for length, table in self._short.items():
            heard |= table[_hash(last >> _bits(_WORD - length))]
        rows = np.flatnonzero(sizes)
        sizes, last = sizes[rows], last[rows]
        before = read_words(data, ends[rows] - (TAIL - 1))
        known = np.zeros(len(rows), np.bool_)
        for size in range(_WORD + 1):
            same = np.flatnonzero(sizes & np.uint16(1 << size))
            if len(same):
                rest = before[same] >> _bits(_WORD - size) if size else before[same] * _NONE
                known[same] |= self._both[_hash(_combine(last[same], rest, size))]
        heard[rows] |= known
        return heard

    def _add(self, end: bytes) -> None:
        last = np.array([int.from_bytes(end[-_WORD:], "little")], np.uint64)
        if len(end) < _WORD:
            table = self._short.setdefault(len(end), np.zeros(len(self._both), np.bool_))
            table[_hash(last)] = True
            return
        rest = end[-TAIL:-_WORD]
        before = np.array([int.from_bytes(rest, "little")], np.uint64)
        self._last[_hash(last)] |= np.uint16(1 << len(rest))
        self._both[_hash(_combine(last, before, len(rest)))] = True


def _find_name_ends(data: Bytes, ends: Offsets) -> Offsets:
    """Return where the loggers' names end: before the parenthesis, or before a line number."""
    ends = ends - 1
    numbered = np.flatnonzero(_DIGIT_LIKE[data[ends - 1]])
    if not len(numbered):
        return ends
    at = ends[numbered] - 1
    for _ in range(_LONGEST_NUMBER):
        at = at - _DIGIT_LIKE[data[at]]
    colon = data[at] == ord(":")
    ends[numbered[colon]] = at[colon]
    return ends


def _combine(last: Words, before: Words, size: int) -> Words:
    return (last ^ (before * _MIX)) + np.uint64(size)


def _bits(count: int) -> np.uint64:
    return np.uint64(8 * count)


def _hash(words: Words) -> Words:
    return (words * _HASH) >> _SHIFT


# The logger of rules for quoted errors, whoever logs them.
ANY_LOGGER = "*"
# The Java client's exceptions, kafka-python's, and librdkafka's errors as bindings print them.
QUOTED_ERROR = (
    r"(?:org\.apache\.kafka\.(?:common\.errors|clients\.(?:consumer|producer))\.[A-Z]\w*"
    r"(?:Exception|Error)|kafka\.errors\.[A-Z]\w*|KafkaError\{code=)"
)
_FIRST = rf"(?P<quoted>{QUOTED_ERROR}[^\n]*)"
# Cheap to search for, and part of all of them.
_PROBE = "afka"


def has_quoted_error(texts: pa.Array, later: pa.Array) -> pa.Array:
    """Return which records quote an error, in the first line or a later one."""
    return pc.or_(_quotes_error(texts), _quotes_error(later))


def first_quoted_error(messages: pa.Array, later: pa.Array) -> pa.Array:
    """Return the first error that each record quotes, from its name to the end of the line."""
    fields = (pc.extract_regex(texts, _FIRST) for texts in (messages, later))
    return pc.coalesce(*(pc.struct_field(field, "quoted") for field in fields))


def _quotes_error(texts: pa.Array) -> pa.Array:
    likely = pc.fill_null(pc.match_substring(texts, _PROBE), fill_value=False)
    if not pc.any(likely).as_py():
        return likely
    found = pc.match_substring_regex(texts.filter(likely), QUOTED_ERROR)
    return pc.replace_with_mask(likely, likely, found)


# Pattern numbers: no rule has this logger, skip; or the logger is unknown, try all patterns.
_NOTHING, _ANYTHING = -1, 0
# numpy sorts small numbers by counting; nobody has thirty thousand loggers.
_SMALL = np.int16
_Numbers = npt.NDArray[np.int16]
# The levels of trouble, and their first letters.
WARN_OR_WORSE = ("WARN", "WARNING", "ERROR", "FATAL")
_IS_LOUD_LETTER = np.isin(np.arange(256), [ord(level[0]) for level in WARN_OR_WORSE])
_LETTERS = pa.array(sorted({level[0].encode() for level in WARN_OR_WORSE}), pa.binary())
# Those of errors. What servers of Kafka log at them is told even if no rule knows it.
ERRORS = ("ERROR", "FATAL")
_IS_ERROR_LETTER = np.isin(np.arange(256), [ord(level[0]) for level in ERRORS])
_ERROR_LETTERS = pa.array(sorted(level[0].encode() for level in ERRORS), pa.binary())
_ERROR_WORDS = "|".join(ERRORS)
_MAY_BE_KAFKA = r"afka|state\.change|\b(?:o\.a\.k|k)\.[a-z]"
_CLOSING = ord(")")
# A line number after the logger, and how long it may be.
_PLACE = re.compile((TYPES["place"] + r"\)$").encode())
_NUMBER_PROBE = 8
_MOST_TAILS = 10_000
_RETURN = ord("\r")
# So much of a record's later lines is kept: enough for the settings that a broker logs.
_MAX_LATER_BYTES = 64 << 10


class Prefilter:
    """Selects records that may match a rule; no other record can."""

    def __init__(
        self,
        probes_by_logger: Mapping[str, Iterable[str]],
        warn_or_worse_only: Collection[str] = (),
        *,
        has_wildcards: bool = False,
        library_probes: Collection[str] = (),
        library_loggers: Collection[str] = (),
    ) -> None:
        """Select by loggers (their last part), each with the cheap patterns of its rules.

        To those in `warn_or_worse_only` only at the levels of WARN_OR_WORSE. With `has_wildcards`,
        to all others too, at these levels, where they quote an error of a client. Records of
        loggers that no rule has, and of `library_loggers`, are selected by `library_probes`, too.
        """
        self._library_probe = _pattern(library_probes)
        self._has_wildcards = has_wildcards
        self._loggers = LoggerFilter(set(probes_by_logger) - set(warn_or_worse_only))
        self._loud_loggers = LoggerFilter(warn_or_worse_only)
        self._by_logger = frozenset(probes_by_logger)
        self._probes = {name.encode(): set(probes_by_logger[name]) for name in probes_by_logger}
        self._ends = [((name + b")")[-TAIL:], name) for name in self._probes]
        # Patterns by number: the first is for lines of unknown loggers.
        self._wanted = [{one for probes in self._probes.values() for one in probes}]
        self._numbers: dict[frozenset[bytes], int] = {}
        self._of_others = len(self._wanted) if library_probes else _NOTHING
        self._wanted += [set(library_probes)] if library_probes else []
        for name in sorted(self._probes):
            if name.decode() in library_loggers:
                self._probes[name] |= set(library_probes)
            self._numbers[frozenset([name])] = len(self._wanted)
            self._wanted.append(self._probes[name])
        # Files of one cluster end their lines alike.
        self._known_tails = functools.lru_cache(_MOST_TAILS)(self._pattern_of_tail)
        self._at_once: PatternSet | None = None
        # the same as masks of the patterns of the set
        self._asked: list[npt.NDArray[np.bool_]] = []

    def select(
        self, records: Records, groups: list[list[Layout]]
    ) -> tuple[Offsets, pa.Array | None]:
        """Return the rows of the records that rules may take, and the patterns that each has.

        Where not all patterns are searched for at once, it is their loggers that decide.
        """
        found = self._search(records)
        if found is None:
            rows = self.select_by_logger(records, groups)
            return np.union1d(rows, self._find_errors(records, groups)), None
        numbers, rows, quoted = found
        chosen = np.full(len(records.starts), _NOTHING, _SMALL)
        likely = np.flatnonzero(np.bincount(rows, minlength=len(chosen)))
        heard = likely[self._is_heard(records, likely, groups)]
        texts = first_lines(records, heard)
        chosen[heard] = self._choose_patterns(texts, records.kinds[heard], groups)
        wanted = chosen[rows] != _NOTHING
        numbers, rows = numbers[wanted], rows[wanted]
        wanted = self._asked_by(chosen[rows], numbers)
        numbers, rows = numbers[wanted], rows[wanted]
        if self._has_wildcards:
            quoted = np.setdiff1d(quoted, rows)
            quoted = quoted[self._may_quote(records, quoted, groups)]
        errors = np.setdiff1d(self._find_errors(records, groups), rows)
        return _gather_probes(rows, numbers, np.union1d(quoted, errors))

    def _search(self, records: Records) -> tuple[Offsets, Offsets, Offsets] | None:
        """Return pairs of patterns and records that have them, and the records that quote errors.

        None if that cannot be said of all patterns at once.
        """
        if self._at_once is None or self._at_once.has_others or not len(records.starts):
            return None
        begin, end = int(records.starts[0]), int(records.ends[-1])
        found = self._at_once.search(records.data[begin:end], len(records.starts))
        if found is None:
            return None
        numbers, ends = found
        ends += begin
        rows = np.searchsorted(records.starts, ends, "left") - 1
        quotes = numbers == self._at_once.numbers[QUOTED_ERROR]
        later = rows[quotes]
        quoted = np.unique(later[ends[quotes] <= _later_ends(records, later)[1]])
        inside = ~quotes & (ends <= records.heads[rows])
        return numbers[inside], rows[inside], quoted

    def _is_heard(
        self, records: Records, rows: Offsets, groups: list[list[Layout]]
    ) -> npt.NDArray[np.bool_]:
        """Mark the records whose logger has a rule, as far as their last bytes tell."""
        heard = np.zeros(len(rows), np.bool_)
        kinds = records.kinds[rows]
        for kind in list_kinds(kinds):
            some, layouts = np.flatnonzero(kinds == kind), groups[kind - 1]
            if all(layout.ends_with_logger for layout in layouts):
                heard[some] = self._has_logger(records, rows[some], layouts)
                if self._library_probe and layouts[0].id in OF_FOUND_LAYOUTS:
                    # Written anew from another form: it may be a library's, whatever its logger.
                    heard[some] = True
            else:
                heard[some] = not self._hears_none(layouts)
        return heard

    def _may_quote(
        self, records: Records, rows: Offsets, groups: list[list[Layout]]
    ) -> npt.NDArray[np.bool_]:
        """Mark the records that may quote errors: those at WARN or worse, where that shows."""
        may = self._is_heard(records, rows, groups)
        kinds = records.kinds[rows]
        for kind in list_kinds(kinds):
            layouts, some = groups[kind - 1], np.flatnonzero(kinds == kind)
            loud = _find_loud(records, rows[some], layouts)
            last = all(layout.ends_with_logger for layout in layouts)
            if loud is not None and (last or not self._hears_none(layouts)):
                may[some] = False
                may[some[loud]] = True
        return may

    def _find_errors(self, records: Records, groups: list[list[Layout]]) -> Offsets:
        """Return the records that may be errors of Kafka itself."""
        parts = [np.zeros(0, np.int64)]
        unplaced = []
        for kind in list_kinds(records.kinds):
            levels = _level_offsets(groups[kind - 1])
            if levels is None:
                unplaced.append(kind)
                continue
            rows = np.flatnonzero(records.kinds == kind)
            begins = records.starts[rows]
            letters = [_IS_ERROR_LETTER[records.data[begins + at]] for at in levels]
            parts.append(rows[np.array(letters).any(axis=0)])
        if unplaced:
            rows = _find_words(records)
            parts.append(rows[np.isin(records.kinds[rows], unplaced)])
        rows = np.unique(np.concatenate(parts))
        likely = pc.match_substring_regex(first_lines(records, rows), _MAY_BE_KAFKA)
        may = likely.to_numpy(zero_copy_only=False) | self._is_heard(records, rows, groups)
        errors: Offsets = rows[may]
        return errors

    def _hears_none(self, layouts: list[Layout]) -> bool:
        """Return True if the layouts name loggers themselves, and no rule hears one of them."""
        return all(one.logger and one.logger not in self._by_logger for one in layouts)

    def select_by_logger(self, records: Records, groups: list[list[Layout]]) -> Offsets:
        """Return the rows of the records whose logger has a rule."""
        parts = []
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(records.kinds == kind)
            if all(layout.ends_with_logger for layout in layouts):
                parts.append(rows[self._has_logger(records, rows, layouts)])
                if self._has_wildcards:
                    parts.append(self._find_quoting(records, rows, layouts))
                if self._library_probe and layouts[0].id in OF_FOUND_LAYOUTS:
                    parts.append(self._find_library_lines(records, rows))
            elif not self._hears_none(layouts):
                parts.append(rows)
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def select_by_probe(
        self, extracted: pa.RecordBatch, groups: list[list[Layout]]
    ) -> pa.RecordBatch:
        """Keep the records that match the cheap pattern of some rule of their logger.

        What was searched for at once was selected by that.
        """
        left = np.flatnonzero(extracted["probes"].is_null())
        if not len(left):
            return extracted
        some = extracted.take(pa.array(left))
        chosen = self._choose_patterns(some["text"], some["kind"].to_numpy(), groups)
        passed = self._find_one_by_one(some["text"], chosen)
        if self._has_wildcards:
            passed = np.append(passed, _find_loud_quotes(some, passed, groups))
        passed = np.union1d(passed, _find_error_texts(some, groups))
        keep = extracted["probes"].is_valid().to_numpy(zero_copy_only=False).copy()
        keep[left[passed]] = True
        return extracted.filter(pa.array(keep))

    def search_at_once(self, patterns: PatternSet) -> None:
        """Search for all cheap patterns at once from now on."""
        self._at_once = patterns

    def _asked_by(self, chosen: _Numbers, numbers: Offsets) -> npt.NDArray[np.bool_]:
        """Mark where a pattern of the set is one of those that were chosen."""
        assert self._at_once is not None
        for wanted in self._wanted[len(self._asked) :]:
            row = np.zeros(len(self._at_once.numbers), np.bool_)
            row[[self._at_once.numbers[one] for one in wanted]] = True
            self._asked.append(row)
        asked: npt.NDArray[np.bool_] = np.array(self._asked)[chosen, numbers]
        return asked

    def _find_one_by_one(self, texts: pa.Array, chosen: _Numbers) -> Offsets:
        parts = [np.zeros(0, np.int64)]
        # Sort by pattern, so that the texts are copied once, and not once for each pattern.
        order = np.argsort(chosen, kind="stable")
        order = order[np.searchsorted(chosen[order], _NOTHING, side="right") :]
        texts, chosen = texts.take(pa.array(order)), chosen[order]
        begins = np.flatnonzero(np.diff(chosen, prepend=_NOTHING))
        for begin, end in zip(begins, np.append(begins[1:], len(chosen)), strict=False):
            some = texts.slice(begin, end - begin)
            found = pc.match_substring_regex(some, _pattern(self._wanted[chosen[begin]]))
            parts.append(order[begin:end][found.to_numpy(zero_copy_only=False)])
        return np.concatenate(parts)

    def _choose_patterns(
        self, texts: pa.Array, kinds: npt.NDArray[np.uint8], groups: list[list[Layout]]
    ) -> _Numbers:
        """Return for each record the number of the pattern to search for."""
        chosen = np.full(len(texts), _NOTHING, _SMALL)
        for kind in list_kinds(kinds):
            rows, layouts = np.flatnonzero(kinds == kind), groups[kind - 1]
            some = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
            last = all(layout.ends_with_logger for layout in layouts)
            chosen[rows] = (
                self._choose_by_tail(some) if last else self._choose_by_name(some, layouts)
            )
        return chosen

    def _choose_by_tail(self, texts: pa.Array) -> _Numbers:
        """Choose patterns by the ends of texts."""
        tails = pc.binary_slice(texts, -TAIL - _NUMBER_PROBE, None)
        return _map_distinct(tails, self._known_tails)

    def _choose_by_name(self, texts: pa.Array, layouts: list[Layout]) -> _Numbers:
        """Choose patterns by the loggers of texts.

        Layouts of one signature may have the logger in different places: a text without a known
        logger by the first layout is read by the next; without any logger it gets all patterns.
        """
        chosen = np.full(len(texts), _ANYTHING, _SMALL)
        left = np.arange(len(texts))
        for place, layout in enumerate(sort_by_fit(texts, layouts)):
            some = texts if len(left) == len(texts) else texts.take(pa.array(left))
            numbers = _map_distinct(extract_loggers(some, layout), self._pattern_of_name)
            if not place and layout.opening:
                # The logger of a long message stands further down: any word could be taken for it.
                left = left[numbers != _ANYTHING]
                numbers = numbers[numbers != _ANYTHING]
            known = numbers != _ANYTHING
            chosen[left[known]] = numbers[known]
            left = left[(numbers <= _ANYTHING) | (numbers == self._of_others)]
            if not len(left):
                break
        return chosen

    def _pattern_of_name(self, name: bytes) -> int:
        known = self._numbers.get(frozenset([name.rpartition(b".")[2]]), self._of_others)
        return known if name else _ANYTHING

    def _pattern_of_tail(self, tail: bytes) -> int:
        """Return the pattern of all loggers that fit the end of a line."""
        # The first line of a long message does not end with its logger: it may be any.
        if not tail.endswith(b")"):
            return _ANYTHING
        tail = _PLACE.sub(b")", tail)
        fits = frozenset(name for end, name in self._ends if tail.endswith(end))
        if fits and fits not in self._numbers:
            self._numbers[fits] = len(self._wanted)
            self._wanted.append({one for name in fits for one in self._probes[name]})
        return self._numbers.get(fits, self._of_others)

    def _find_library_lines(self, records: Records, rows: Offsets) -> Offsets:
        """Return the records that were written anew from another form and may be a library's."""
        found = pc.match_substring_regex(first_lines(records, rows), self._library_probe)
        lines: Offsets = rows[found.to_numpy(zero_copy_only=False)]
        return lines

    def _find_quoting(self, records: Records, rows: Offsets, layouts: list[Layout]) -> Offsets:
        """Return the records at WARN or worse that quote an error of a client."""
        loud_rows = _find_loud(records, rows, layouts)
        if loud_rows is None:
            # All records would have to be searched.
            return np.zeros(0, np.int64)
        loud = rows[loud_rows]
        found = has_quoted_error(first_lines(records, loud), later_lines(records, loud))
        quoting: Offsets = loud[found.to_numpy(zero_copy_only=False)]
        return quoting

    def _has_logger(
        self, records: Records, rows: Offsets, layouts: list[Layout]
    ) -> npt.NDArray[np.bool_]:
        ends = records.heads[rows]
        # A signature is as long as three words, so they always lie before the end.
        heard = self._loggers.matches(records.data, ends)
        loud_rows = _find_loud(records, rows, layouts)
        chosen = np.arange(len(rows)) if loud_rows is None else loud_rows
        heard[chosen] |= self._loud_loggers.matches(records.data, ends[chosen])
        # The logger of a long message is further down: keep the record for the second check.
        heard |= records.data[ends - 1] != _CLOSING
        return heard


def _map_distinct(values: pa.Array, number: Callable[[bytes], int]) -> _Numbers:
    """Map values to numbers, each distinct value once."""
    codes = values.dictionary_encode()
    numbers = np.array([number(value) for value in codes.dictionary.to_pylist()], _SMALL)
    mapped: _Numbers = numbers[codes.indices.to_numpy(zero_copy_only=False)]
    return mapped


def _find_loud(records: Records, rows: Offsets, layouts: list[Layout]) -> Offsets | None:
    """Return which records are at WARN or worse; None if the level has no fixed place."""
    levels = _level_offsets(layouts)
    if levels is None:
        return None
    begins = records.starts[rows]
    is_loud = np.array([_IS_LOUD_LETTER[records.data[begins + at]] for at in levels]).any(axis=0)
    return np.flatnonzero(is_loud)


def _level_offsets(layouts: list[Layout]) -> list[int] | None:
    """Return where the level may stand; None if it has no fixed place."""
    levels = [layout.level_offset for layout in layouts if layout.level_offset is not None]
    return levels if len(levels) == len(layouts) else None


def _find_words(records: Records) -> Offsets:
    """Return the records whose first lines name the level of an error."""
    if not len(records.starts):
        return np.zeros(0, np.int64)
    begin, end = int(records.starts[0]), int(records.ends[-1])
    text = records.data[begin:end].tobytes()
    found = [begin + one.start() for word in ERRORS for one in re.finditer(word.encode(), text)]
    places = np.array(found, np.int64)
    rows = np.searchsorted(records.starts, places, "right") - 1
    return np.unique(rows[places < records.heads[rows]])


def _find_error_texts(extracted: pa.RecordBatch, groups: list[list[Layout]]) -> Offsets:
    """Return the extracted records that are at the level of an error, or name it."""
    parts = [np.zeros(0, np.int64)]
    kinds = extracted["kind"].to_numpy()
    for kind in list_kinds(kinds):
        rows = np.flatnonzero(kinds == kind)
        some = extracted["text"].take(pa.array(rows))
        levels = _level_offsets(groups[kind - 1])
        if levels is None:
            found = [pc.match_substring_regex(some, _ERROR_WORDS)]
        else:
            found = [pc.is_in(pc.binary_slice(some, at, at + 1), _ERROR_LETTERS) for at in levels]
        parts += [rows[one.to_numpy(zero_copy_only=False)] for one in found]
    return np.unique(np.concatenate(parts))


def _find_loud_quotes(
    extracted: pa.RecordBatch, passed: Offsets, groups: list[list[Layout]]
) -> Offsets:
    """Return the rejected records at WARN or worse that quote an error of a client."""
    left = np.ones(len(extracted), np.bool_)
    left[passed] = False
    kinds = extracted["kind"].to_numpy()
    for kind in set(kinds[left].tolist()):
        layouts = groups[kind - 1]
        levels = [layout.level_offset for layout in layouts if layout.level_offset is not None]
        if len(levels) == len(layouts):
            unselected = np.flatnonzero(left & (kinds == kind))
            some = extracted["text"].take(pa.array(unselected))
            letters = [pc.binary_slice(some, at, at + 1) for at in levels]
            loud = np.array(
                [pc.is_in(one, _LETTERS).to_numpy(zero_copy_only=False) for one in letters]
            )
            left[unselected] = loud.any(axis=0)
    rows = np.flatnonzero(left)
    some = extracted.select(["text", "more"]).take(pa.array(rows))
    found: Offsets = rows[
        has_quoted_error(some["text"], some["more"]).to_numpy(zero_copy_only=False)
    ]
    return found


def list_kinds(kinds: npt.NDArray[np.uint8]) -> list[int]:
    """Return which kinds there are: a file has one or two of some thirty."""
    found: list[int] = np.flatnonzero(np.bincount(kinds)).tolist()
    return found


def first_lines(records: Records, rows: Offsets) -> pa.Array:
    """Return the first lines of records."""
    return slice_texts(records.data, records.starts[rows], records.heads[rows])


def later_lines(records: Records, rows: Offsets) -> pa.Array:
    """Return the lines after the first lines of records; empty if there is none."""
    begins, ends = _later_ends(records, rows)
    return slice_texts(records.data, np.minimum(begins, ends), ends)


def _later_ends(records: Records, rows: Offsets) -> tuple[Offsets, Offsets]:
    """Return where the lines after the first ones begin and end, as far as they are kept."""
    heads = records.heads[rows]
    begins = heads + 1 + (records.data[np.minimum(heads, len(records.data) - 1)] == _RETURN)
    return begins, np.minimum(records.ends[rows], begins + _MAX_LATER_BYTES)


def _gather_probes(rows: Offsets, numbers: Offsets, quoting: Offsets) -> tuple[Offsets, pa.Array]:
    """Return each row once, with the numbers of all its patterns; those that quote have none."""
    keys = np.unique(rows << 32 | numbers)
    found, counts = np.unique(keys >> 32, return_counts=True)
    chosen = np.concatenate([found, quoting])
    order = np.argsort(chosen, kind="stable")
    counts = np.concatenate([counts, np.zeros(len(quoting), np.int64)])[order]
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    values = pa.array((keys & 0xFFFFFFFF).astype(np.uint16))
    return chosen[order], pa.ListArray.from_arrays(pa.array(bounds), values).cast(PROBES)


def _pattern(wanted: Iterable[str]) -> str:
    return "|".join(sorted(set(wanted)))
