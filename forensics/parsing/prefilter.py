"""Lets through the records that can hold a fact: a cheap question before the dear one.

Where a layout ends a line with its logger, the last bytes of the line say whether any rule listens
to that logger: one look per line, whatever the number of rules. What is left is scanned,
many blocks at once, with one cheap pattern made of the rules of that very logger.

Tells from the last bytes of a line whether some rule listens to the logger that ends it.

One look per line at eight bytes settles most lines, whatever the number of rules; where these fit,
the eight bytes before decide. Nothing is cut out of the line for it, and nothing is compared twice.

Words of Kafka's clients in other people's lines.

An application logs what its client threw at it by loggers of its own, which no rule can know. The
error that it quotes, in the line or in the trace below, is Kafka's own text again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.ingest.record_splitter import Records
from forensics.ingest.record_starts import Bytes, Offsets, read_words
from forensics.lib.log_templates import TYPES
from forensics.parsing.fast_path import extract_loggers, sort_by_fit
from forensics.parsing.layouts import Layout

# Many names end alike in eight bytes (..Manager), hardly any two in so many.
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
# What a line number is made of, where it is one: log4j prints ? or, ill configured, %L.
_DIGIT_LIKE = np.isin(np.arange(256), list(b"0123456789%L?"))
_LONGEST_NUMBER = 6
# What may stand before the last part of a logger's name.
_BEFORE = b".("

Words = npt.NDArray[np.uint64]


class LoggerFilter:
    """The loggers that are listened to, by how a line that they end looks from behind."""

    def __init__(self, loggers: Iterable[str]) -> None:
        """Listen to loggers, by the last part of their names."""
        size = 1 << (64 - int(_SHIFT))
        # By the last word: how many bytes of the word before it are to be compared, as bits.
        self._last = np.zeros(size, np.uint16)
        self._both = np.zeros(size, np.bool_)
        # Names shorter than a word, by their length.
        self._short: dict[int, npt.NDArray[np.bool_]] = {}
        for name in loggers:
            for before in _BEFORE:
                self._add(bytes([before]) + name.encode() + b")")

    def matches(self, data: Bytes, ends: Offsets) -> npt.NDArray[np.bool_]:
        """Say of lines that end so whether somebody listens; three words lie before each end."""
        ends = _names_end(data, ends)
        # A name may be followed by a line number: what closes the line is put behind it again.
        last = (read_words(data, ends - (_WORD - 1)) & _OPEN) | _CLOSED
        heard = np.zeros(len(ends), np.bool_)
        sizes = self._last[_hashed(last)]
        for length, table in self._short.items():
            heard |= table[_hashed(last >> _bits(_WORD - length))]
        rows = np.flatnonzero(sizes)
        sizes, last = sizes[rows], last[rows]
        before = read_words(data, ends[rows] - (TAIL - 1))
        known = np.zeros(len(rows), np.bool_)
        for size in range(_WORD + 1):
            mine = np.flatnonzero(sizes & np.uint16(1 << size))
            if len(mine):
                rest = before[mine] >> _bits(_WORD - size) if size else before[mine] * _NONE
                known[mine] |= self._both[_hashed(_paired(last[mine], rest, size))]
        heard[rows] |= known
        return heard

    def _add(self, end: bytes) -> None:
        last = np.array([int.from_bytes(end[-_WORD:], "little")], np.uint64)
        if len(end) < _WORD:
            table = self._short.setdefault(len(end), np.zeros(len(self._both), np.bool_))
            table[_hashed(last)] = True
            return
        rest = end[-TAIL:-_WORD]
        before = np.array([int.from_bytes(rest, "little")], np.uint64)
        self._last[_hashed(last)] |= np.uint16(1 << len(rest))
        self._both[_hashed(_paired(last, before, len(rest)))] = True


def _names_end(data: Bytes, ends: Offsets) -> Offsets:
    """Say where the loggers' names end: before the parenthesis, or before a line number."""
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


def _paired(last: Words, before: Words, size: int) -> Words:
    return (last ^ (before * _MIX)) + np.uint64(size)


def _bits(count: int) -> np.uint64:
    return np.uint64(8 * count)


def _hashed(words: Words) -> Words:
    return (words * _HASH) >> _SHIFT


# What a rule names as its logger when it listens to whoever quotes an error.
ANY_LOGGER = "*"
# The Java client's exceptions, kafka-python's, and librdkafka's errors as bindings print them.
_QUOTED = (
    r"(?:org\.apache\.kafka\.(?:common\.errors|clients\.(?:consumer|producer))\.[A-Z]\w*"
    r"(?:Exception|Error)|kafka\.errors\.[A-Z]\w*|KafkaError\{code=)"
)
_FIRST = rf"(?P<quoted>{_QUOTED}[^\n]*)"
# Cheap to look for, and all of them hold one of the two.
_PROBE = "afka"


def has_quoted_error(texts: pa.Array, later: pa.Array) -> pa.Array:
    """Say of each record whether its first line or a later one quotes an error."""
    return pc.or_(_quotes(texts), _quotes(later))


def first_quoted_error(messages: pa.Array, later: pa.Array) -> pa.Array:
    """Give the first error that each record quotes, from its name to the end of the line."""
    first = pc.extract_regex(messages, _FIRST)
    below = pc.extract_regex(later, _FIRST)
    return pc.coalesce(_field(first), _field(below))


def _quotes(texts: pa.Array) -> pa.Array:
    likely = pc.fill_null(pc.match_substring(texts, _PROBE), fill_value=False)
    if not pc.any(likely).as_py():
        return likely
    found = pc.match_substring_regex(texts.filter(likely), _QUOTED)
    return pc.replace_with_mask(likely, likely, found)


def _field(found: pa.StructArray) -> pa.Array:
    return pc.struct_field(found, "quoted")


# The numbers of patterns: nothing is asked where no rule listens, everything where who knows who.
_NOTHING, _ANYTHING = -1, 0
# Numbers so small that numpy sorts them by counting; nobody has thirty thousand loggers.
_SMALL = np.int16
_Numbers = npt.NDArray[np.int16]
# Levels that tell of trouble, and which first letters they have.
WARN_OR_WORSE = ("WARN", "WARNING", "ERROR", "FATAL")
_IS_LOUD_LETTER = np.isin(np.arange(256), [ord(level[0]) for level in WARN_OR_WORSE])
_LETTERS = pa.array(sorted({level[0].encode() for level in WARN_OR_WORSE}), pa.binary())
_CLOSING = ord(")")
# A line number behind the logger, and how long it may be.
_PLACE = re.compile((TYPES["place"] + r"\)$").encode())
_NUMBER_PROBE = 8
_RETURN = ord("\r")
# So much is kept of a record's later lines: the settings a broker prints at its start, not a heap.
_MAX_LATER_BYTES = 64 << 10


class Prefilter:
    """What passes may hold a fact; what does not pass cannot."""

    def __init__(
        self,
        probes_by_logger: Mapping[str, Iterable[str]],
        warn_or_worse_only: Collection[str] = (),
        *,
        has_wildcards: bool = False,
    ) -> None:
        """Listen to loggers (their last part); each has the cheap patterns of its rules.

        To those in `warn_or_worse_only` only at the levels of WARN_OR_WORSE. With `has_wildcards`,
        to all others too, at these levels, where they quote an error of a client.
        """
        self._has_wildcards = has_wildcards
        self._ears = LoggerFilter(set(probes_by_logger) - set(warn_or_worse_only))
        self._loud = LoggerFilter(warn_or_worse_only)
        self._by_logger = frozenset(probes_by_logger)
        self._probes = {name.encode(): set(probes_by_logger[name]) for name in probes_by_logger}
        self._ends = [((name + b")")[-TAIL:], name) for name in self._probes]
        # Patterns by number: the first is for lines of which nothing is known.
        self._patterns = [_pattern(one for probes in self._probes.values() for one in probes)]
        self._numbers: dict[frozenset[bytes], int] = {}
        for name in sorted(self._probes):
            self._numbers[frozenset([name])] = len(self._patterns)
            self._patterns.append(_pattern(self._probes[name]))

    def select_by_logger(self, cut: Records, groups: list[list[Layout]]) -> Offsets:
        """Give the numbers of the records of a cut whose logger some rule listens to."""
        parts = []
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(cut.kinds == kind)
            if all(layout.ends_with_logger for layout in layouts):
                parts.append(rows[self._heard(cut, rows, layouts)])
                if self._has_wildcards:
                    parts.append(self._quoting(cut, rows, layouts))
            elif not all(one.logger and one.logger not in self._by_logger for one in layouts):
                parts.append(rows)
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def select_by_probe(self, lifted: pa.RecordBatch, groups: list[list[Layout]]) -> pa.RecordBatch:
        """Keep the records that meet the cheap pattern of some rule of their logger."""
        texts = lifted["text"]
        asked = self._asked(texts, lifted["kind"].to_numpy(), groups)
        parts = [np.zeros(0, np.int64)]
        # Put side by side what is asked the same: the texts are copied once, not once for each.
        order = np.argsort(asked, kind="stable")
        order = order[np.searchsorted(asked[order], _NOTHING, side="right") :]
        texts, asked = texts.take(pa.array(order)), asked[order]
        begins = np.flatnonzero(np.diff(asked, prepend=_NOTHING))
        for begin, end in zip(begins, np.append(begins[1:], len(asked)), strict=False):
            some = texts.slice(begin, end - begin)
            found = pc.match_substring_regex(some, self._patterns[asked[begin]])
            parts.append(order[begin:end][found.to_numpy(zero_copy_only=False)])
        passed = np.concatenate(parts)
        if self._has_wildcards:
            passed = np.append(passed, _find_loud_quotes(lifted, passed, groups))
        return lifted.take(pa.array(np.sort(passed)))

    def _asked(
        self, texts: pa.Array, kinds: npt.NDArray[np.uint8], groups: list[list[Layout]]
    ) -> _Numbers:
        """Give for each record the number of the pattern that it is to meet."""
        asked = np.full(len(texts), _NOTHING, _SMALL)
        for kind, layouts in enumerate(groups, 1):
            rows = np.flatnonzero(kinds == kind)
            if len(rows):
                some = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
                last = all(layout.ends_with_logger for layout in layouts)
                asked[rows] = self._by_tail(some) if last else self._by_name(some, layouts)
        return asked

    def _by_tail(self, texts: pa.Array) -> _Numbers:
        """Ask texts by how they end."""
        tails = pc.binary_slice(texts, -TAIL - _NUMBER_PROBE, None).dictionary_encode()
        numbers = np.array([self._of_tail(tail) for tail in tails.dictionary.to_pylist()], _SMALL)
        asked: _Numbers = numbers[tails.indices.to_numpy(zero_copy_only=False)]
        return asked

    def _by_name(self, texts: pa.Array, layouts: list[Layout]) -> _Numbers:
        """Ask texts by their loggers.

        Layouts that begin alike may name the logger in different places: what has no known name by
        the first is asked by the next, and what nobody finds a name in is asked everything.
        """
        asked = np.full(len(texts), _ANYTHING, _SMALL)
        left = np.arange(len(texts))
        for layout in sort_by_fit(texts, layouts):
            some = texts if len(left) == len(texts) else texts.take(pa.array(left))
            found = extract_loggers(some, layout).dictionary_encode()
            names = found.dictionary.to_pylist()
            numbers = np.array([self._of_name(name) for name in names], _SMALL)
            numbers = numbers[found.indices.to_numpy(zero_copy_only=False)]
            unsure = numbers == _ANYTHING
            asked[left[~unsure]] = numbers[~unsure]
            left = left[numbers <= _ANYTHING]
            if not len(left):
                break
        return asked

    def _of_name(self, name: bytes) -> int:
        known = self._numbers.get(frozenset([name.rpartition(b".")[2]]), _NOTHING)
        return known if name else _ANYTHING

    def _of_tail(self, tail: bytes) -> int:
        """Give the pattern for lines that end so: that of all loggers whose names fit."""
        # A message of several lines does not end with its logger, and may be of any.
        if not tail.endswith(b")"):
            return _ANYTHING
        tail = _PLACE.sub(b")", tail)
        fits = frozenset(name for end, name in self._ends if tail.endswith(end))
        if fits and fits not in self._numbers:
            self._numbers[fits] = len(self._patterns)
            self._patterns.append(_pattern(one for name in fits for one in self._probes[name]))
        return self._numbers.get(fits, _NOTHING)

    def _quoting(self, cut: Records, rows: Offsets, layouts: list[Layout]) -> Offsets:
        """Give the loud records that quote an error of a client, whoever wrote them."""
        shouting = _find_loud(cut, rows, layouts)
        if shouting is None:
            # All would have to be looked at.
            return np.zeros(0, np.int64)
        loud = rows[shouting]
        found = has_quoted_error(first_lines(cut, loud), later_lines(cut, loud))
        quoting: Offsets = loud[found.to_numpy(zero_copy_only=False)]
        return quoting

    def _heard(self, cut: Records, rows: Offsets, layouts: list[Layout]) -> npt.NDArray[np.bool_]:
        ends = cut.heads[rows]
        # A signature is as long as three words, so they always lie before the end.
        heard = self._ears.matches(cut.data, ends)
        shouting = _find_loud(cut, rows, layouts)
        asked = np.arange(len(rows)) if shouting is None else shouting
        heard[asked] |= self._loud.matches(cut.data, ends[asked])
        # A message of several lines has its logger further down: it is looked at closely.
        heard |= cut.data[ends - 1] != _CLOSING
        return heard


def _find_loud(cut: Records, rows: Offsets, layouts: list[Layout]) -> Offsets | None:
    """Give which of some records are loud; nobody knows where the level has no fixed place."""
    levels = [layout.level_offset for layout in layouts if layout.level_offset is not None]
    if len(levels) < len(layouts):
        return None
    begins = cut.starts[rows]
    shouts = np.array([_IS_LOUD_LETTER[cut.data[begins + at]] for at in levels]).any(axis=0)
    return np.flatnonzero(shouts)


def _find_loud_quotes(
    lifted: pa.RecordBatch, passed: Offsets, groups: list[list[Layout]]
) -> Offsets:
    """Give those of the records that did not pass that are loud and quote an error of a client."""
    left = np.ones(len(lifted), np.bool_)
    left[passed] = False
    kinds = lifted["kind"].to_numpy()
    for kind in set(kinds[left].tolist()):
        levels = [
            layout.level_offset for layout in groups[kind - 1] if layout.level_offset is not None
        ]
        if len(levels) == len(groups[kind - 1]):
            mine = np.flatnonzero(left & (kinds == kind))
            some = lifted["text"].take(pa.array(mine))
            letters = [pc.binary_slice(some, at, at + 1) for at in levels]
            loud = np.array(
                [pc.is_in(one, _LETTERS).to_numpy(zero_copy_only=False) for one in letters]
            )
            left[mine] = loud.any(axis=0)
    rows = np.flatnonzero(left)
    some = lifted.select(["text", "more"]).take(pa.array(rows))
    found: Offsets = rows[
        has_quoted_error(some["text"], some["more"]).to_numpy(zero_copy_only=False)
    ]
    return found


def first_lines(cut: Records, rows: Offsets) -> pa.Array:
    """Give the first lines of records as one Arrow array of bytes."""
    return _between(cut, cut.starts, cut.heads, rows)


def later_lines(cut: Records, rows: Offsets) -> pa.Array:
    """Give the lines that follow the first lines of records; empty where none does."""
    breaks = np.minimum(cut.heads, len(cut.data) - 1)
    begins = cut.heads + 1 + (cut.data[breaks] == _RETURN)
    ends = np.minimum(cut.ends, begins + _MAX_LATER_BYTES)
    return _between(cut, np.minimum(begins, ends), ends, rows)


def _between(cut: Records, begins: Offsets, ends: Offsets, rows: Offsets) -> pa.Array:
    # Between two wanted texts lies one that is not wanted: both are named by the same offsets.
    bounds = np.empty(2 * len(begins), np.int32)
    bounds[0::2] = begins
    bounds[1::2] = ends
    both = pa.Array.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(cut.data)]
    )
    return both.take(pa.array(2 * rows))


def _pattern(wanted: Iterable[str]) -> str:
    return "|".join(sorted(set(wanted)))
