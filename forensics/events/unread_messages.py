"""Finds lines that say what rules look for and became no event, however they are written.

The longest run of words of each rule's messages is searched for in all text of a file: in lines
that begin no record, in records that no rule took, and in what documents held beside their
records. A line counts where the rest of the message stands around those words, whatever signs were
put between them, and where it names the rule's logger, or none at all: other loggers write some of
these texts, too, and mean something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.event_columns import Rows, rows_where
from forensics.events.matcher import ERROR_UNREAD
from forensics.events.rules import Rule
from forensics.ingest.logger_names import find_loggers
from forensics.ingest.record_splitter import TakenLines
from forensics.ingest.record_starts import MAX_RECORD, Bytes, Lines
from forensics.ingest.text_buffer import gather_texts, slice_texts, to_buffer
from forensics.lib.pattern_set import PatternSet, open_pattern_set
from forensics.parsing.prefilter import ANY_LOGGER, WARN_OR_WORSE

# Words of a message that stand in nothing else: so many characters, with a blank between them.
_SHORTEST = 12
_WORDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,.-]*[A-Za-z0-9.]")
_BY_SIZE = re.compile(r":(?:digit|tens|hundreds|seconds)\}")
_WORD = re.compile(r"[A-Za-z0-9]+")
# So much of a line is looked at, before and behind the words.
_AROUND = 2000
# The words alone prove a message where a line is cut, if they are so long.
_LONG = 24
# Frames and causes of stack traces quote messages; they are no records.
_TRACE = re.compile(r"^\W*(?:at |Caused by|Suppressed|\.\.\. |[\w$.]+(?:Exception|Error)\b)")
_LOUD = re.compile(rf"(?i)\b(?:{'|'.join(WARN_OR_WORSE)}|SEVERE|ERR|WRN|FTL|CRITICAL)\b|\b[WEFC]\b")
# A record that ends with the name of a logger in a package.
_ENDS_WITH_LOGGER = r"\((?:[\w$-]+\.)+[\w$-]+(?::[0-9]+)?\)\s*$"
_LONGEST_END = 200
# Its last bytes, where the whole name is longer.
_TAIL = 48
_TAIL_OF_LOGGER = r"(?:\((?:[\w$-]+\.)+[\w$-]+|^[\w$.-]+)(?::[0-9]+)?\)$"
# Of a document so many hits are kept with what stands around them, and one in so many after those.
_MOST_KEPT, _ONE_IN = 2000, 97
# What follows the words, as far as nothing in it can be escaped.
_FOLLOWING = re.compile(rb"[A-Za-z0-9 ]{0,16}")
_REACH = 16
_BEGINNING = 80
_NEWLINE, _CLOSING = 10, ord(")")
# No file has so many bytes.
_LONGEST_FILE = 1 << 44

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Message:
    """What one wording of a rule says: its words, in order, whatever stands between them."""

    rule: str
    loggers: frozenset[str]
    words: tuple[bytes, ...]
    loud: bool
    is_quiet: bool

    def fits(self, text: bytes) -> bool:
        """Return True if a text has all words."""
        at = 0
        for word in self.words:
            at = text.find(word, at)
            if at < 0:
                return False
            at += len(word)
        return True


@dataclass(frozen=True)
class Hits:
    """Where words of messages end in a text: the numbers of the words, and offsets."""

    numbers: Numbers
    ends: Numbers

    def take(self, rows: Rows | Flags) -> Hits:
        """Return some of them."""
        return Hits(self.numbers[rows], self.ends[rows])


@dataclass(frozen=True)
class _Spans:
    """Texts in one buffer, from `starts` to `stops`, and the numbers of their lines."""

    data: Bytes
    starts: Numbers
    stops: Numbers
    lines: Numbers

    def find(self, hits: Hits) -> Rows:
        """Return the text that each hit is in."""
        rows: Rows = np.searchsorted(self.starts, hits.ends - 1, "right") - 1
        return rows

    def around(self, row: int, end: int) -> bytes:
        """Return what stands around a hit."""
        begin, stop = max(int(self.starts[row]), end - _AROUND), int(self.stops[row])
        return self.data[begin : min(stop, end + _AROUND)].tobytes()


class KnownMessages:
    """The words of all messages that rules look for."""

    def __init__(
        self, rules: Iterable[Rule], loggers: Collection[str], quiet: Iterable[Rule] = ()
    ) -> None:
        """Look for what `rules` say, but not for what `quiet` ones do, which give no event."""
        self._loggers = loggers
        self._messages: dict[str, list[Message]] = {}
        for rule, is_quiet in (*((one, True) for one in quiet), *((one, False) for one in rules)):
            for words, message in _list_messages(rule, is_quiet=is_quiet):
                self._messages.setdefault(words, []).append(message)
        wanted = {
            words for words, some in self._messages.items() if not all(one.is_quiet for one in some)
        }
        self.words = sorted(wanted)
        self._quiet_words = sorted(set(self._messages) - wanted)

    @cached_property
    def _set(self) -> PatternSet | None:
        return open_pattern_set([re.escape(one) for one in self.words])

    @cached_property
    def _quiet_set(self) -> PatternSet | None:
        return open_pattern_set([re.escape(one) for one in self._quiet_words])

    def search(self, data: Bytes, lines: int) -> Hits:
        """Find the words in a text of so many lines."""
        return _search(self._set, self.words, data, lines)

    def count(self, text: bytes) -> int:
        """Count what looks like messages that rules know, however their lines are written."""
        return len(self.search(np.frombuffer(text, np.uint8), text.count(b"\n")).ends)

    def judge(self, texts: Iterable[tuple[int, int, bytes, bool]]) -> dict[int, str]:
        """Say by which rules some texts are looked for.

        A text has the number of its row and that of the words in it; the last value says if it is
        whole, or may be a part of a broken line.
        """
        said: dict[int, tuple[str, bytes]] = {}
        for row, number, text, whole in texts:
            if row not in said and (rule := self._judge_one(text, self.words[number], whole=whole)):
                said[row] = rule, text
        return self._without_quiet(said)

    def judge_rows(self, hits: Hits, texts: _Spans, is_record: Flags) -> dict[int, str]:
        """Say which rules look for rows of texts, by the hits in them."""
        rows = texts.find(hits)
        # The same words may stand in one text very often.
        _, first = np.unique(rows * len(self.words) + hits.numbers, return_index=True)
        return self.judge(
            (row, number, texts.around(row, end), whole)
            for row, number, end, whole in zip(
                rows[first].tolist(), hits.numbers[first].tolist(), hits.ends[first].tolist(),
                is_record[rows[first]].tolist(), strict=True,
            )
        )  # fmt: skip

    def _judge_one(self, text: bytes, words: str, *, whole: bool) -> str:
        alone = not whole and len(words) >= _LONG
        fitting = [one for one in self._messages[words] if alone or one.fits(text)]
        if not fitting or any(one.is_quiet and one.fits(text) for one in fitting):
            return ""
        plain = text.decode("utf-8", "replace")
        return next((one.rule for one in fitting if self._may_say(plain, one)), "")

    def judge_eventless(
        self,
        watches: Sequence[MessageWatch],
        extracted: pa.RecordBatch,
        events: pa.RecordBatch,
        parts: Rows,
    ) -> None:
        """Count the extracted records of some pieces that gave none of some events.

        That one is an error which no rule knows says nothing of what it tells.
        """
        read = pc.not_equal(events["kind"], ERROR_UNREAD)
        events, parts = events.filter(read), parts[rows_where(read)]
        places = _places(extracted["part"], extracted)
        given = np.isin(places, _places(pa.array(parts), events))
        if any(one.is_of_document for one in watches):
            # Many records may have one place there.
            _, numbers, counts = np.unique(places, return_inverse=True, return_counts=True)
            own = pc.binary_slice(extracted["text"], 0, _BEGINNING)
            said = pc.binary_slice(events["text"].cast(pa.binary()), 0, _BEGINNING)
            same = pc.is_in(own, said).to_numpy(zero_copy_only=False)
            given &= same | (counts[numbers] == 1)
        left = extracted.select(["part", "line", "text"]).take(pa.array(np.flatnonzero(~given)))
        data, bounds = to_buffer(left["text"])
        lines = left["line"].to_numpy()
        texts = _Spans(data, bounds[:-1], bounds[1:], lines)
        hits = self.search(data[: int(bounds[-1])], len(left))
        said_by = self.judge_rows(hits, texts, np.ones(len(left), np.bool_))
        by_part: dict[int, dict[int, str]] = {}
        numbers = left["part"].to_numpy()
        for row, rule in said_by.items():
            by_part.setdefault(int(numbers[row]), {})[int(lines[row])] = rule
        for part, lines_of in by_part.items():
            watches[part].add(lines_of)

    def _without_quiet(self, said: Mapping[int, tuple[str, bytes]]) -> dict[int, str]:
        """Leave out what a rule that gives no event looks for, too."""
        rows = list(said)
        data, bounds = to_buffer(pa.array([text for _, text in said.values()], pa.binary()))
        hits = _search(self._quiet_set, self._quiet_words, data[: int(bounds[-1])], len(rows))
        found = np.searchsorted(bounds, hits.ends, "left") - 1
        quiet = set()
        for number, at in zip(hits.numbers.tolist(), found.tolist(), strict=True):
            text = said[rows[at]][1]
            if any(one.fits(text) for one in self._messages[self._quiet_words[number]]):
                quiet.add(rows[at])
        return {row: rule for row, (rule, _) in said.items() if row not in quiet}

    def _may_say(self, text: str, message: Message) -> bool:
        if message.loud and not _LOUD.search(text):
            return False
        if _TRACE.match(text):
            return False
        names = {
            name.rpartition(".")[2]
            for *_, name in find_loggers(text, self._loggers)
            if "." in name or name[1:] != name[1:].lower()
        }
        return not names or bool(names & message.loggers)


def _search(patterns: PatternSet | None, words: Sequence[str], data: Bytes, lines: int) -> Hits:
    """Find words in a text: at once where that is possible."""
    found = patterns.search(data, lines) if patterns else None
    if found is not None:
        return Hits(*found)
    known = {one.encode(): number for number, one in enumerate(words)}
    either = re.compile(b"|".join(map(re.escape, sorted(known, key=len, reverse=True))) or b"(?!)")
    hits = [(known[one[0]], one.end()) for one in either.finditer(data.tobytes())]
    both = np.array(hits, np.int64).reshape(-1, 2)
    return Hits(both[:, 0], both[:, 1])


def _list_messages(rule: Rule, *, is_quiet: bool) -> Iterator[tuple[str, Message]]:
    if ANY_LOGGER in rule.loggers:
        return
    loggers = frozenset(one.rpartition(".")[2] for one in rule.loggers)
    for wording in rule.wordings:
        if _BY_SIZE.search(wording.template.source):
            # The same text with a small number is no event.
            continue
        literals = wording.template.literals
        runs = [run for literal in literals for run in _WORDS.findall(literal)]
        words = max(runs, key=len, default="")
        if len(words) < _SHORTEST or " " not in words:
            continue
        said = tuple(word.encode() for one in literals for word in _WORD.findall(one))
        yield words, Message(rule.id, loggers, said, rule.warn_or_worse_only, is_quiet)


def _fits(texts: pa.Array, pattern: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(texts, pattern).to_numpy(
        zero_copy_only=False
    )
    return found.copy()


class MessageWatch:
    """Counts the lines of one piece of a file that say what rules look for and give no event."""

    def __init__(self, known: KnownMessages) -> None:
        """Begin before the first line."""
        self.count = 0
        self.rules = Counter[str]()
        self.first: int | None = None
        self._known = known
        self._of_document = _DocumentHits()

    @property
    def is_of_document(self) -> bool:
        """Whether many records may stand at one place of the file."""
        return self._of_document.has_seen

    def to_account(self) -> dict[str, Any]:
        """Return what was found, for the account of the piece."""
        if not self.count:
            return {}
        return {"count": self.count, "first": self.first, "rules": dict(self.rules)}

    def add_lines(self, taken: Iterable[TakenLines], selected: Rows) -> None:
        """Take lines that were split into records.

        `selected` are the records among them that are matched with rules: of those the events tell.
        """
        before = 0
        for one in taken:
            if len(one.lines):
                self._add_lines(one, selected - before)
            before += int(np.count_nonzero(one.lines.kinds))

    def _add_lines(self, taken: TakenLines, selected: Rows) -> None:
        lines = taken.lines
        texts = _Spans(lines.data, lines.starts, lines.stops, taken.numbers)
        records = np.flatnonzero(lines.kinds)
        is_record = lines.kinds > 0
        own = records[selected[(selected >= 0) & (selected < len(records))]]
        wanted = np.ones(len(lines), np.bool_)
        wanted[own] = False
        heads = np.arange(len(lines))
        if lines.continued is not None:
            # A line that goes on in the next one is one record.
            heads = np.maximum.accumulate(np.where(lines.continued, 0, heads))
            wanted = wanted[heads]
        written_anew = taken.is_document or lines.continues is not None
        if not written_anew:
            wanted &= ~_find_named(lines, is_record & wanted)
        rows, hits = self._search(texts, np.ones_like(wanted) if written_anew else wanted)
        if taken.is_document:
            self._of_document.add_seen(taken, rows, hits)
        rows = heads[rows]
        left = wanted[rows]
        left[left] = ~_name_others(rows[left], is_record, texts)
        self._judge(hits.take(left), texts, is_record)
        if written_anew and not taken.is_document:
            # What a wrapper did not take for the line may hold it.
            data = np.frombuffer(taken.text, np.uint8)
            stops = np.append(lines.block_starts, lines.size)[1:]
            whole = _Spans(data, lines.block_starts, stops, taken.numbers)
            found, raw = self._search(whole, np.ones_like(wanted))
            left = ~np.isin(heads[found], rows)
            self._judge(raw.take(left), whole, is_record)

    def _search(self, texts: _Spans, wanted: Flags) -> tuple[Rows, Hits]:
        """Search the wanted texts: the rows of hits, and hits by their places in the buffer."""
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False))
        begins, stops = texts.starts[edges[::2]], texts.stops[edges[1::2] - 1]
        data, bounds = gather_texts(texts.data, begins, stops)
        hits = self._known.search(data[: int(bounds[-1])], len(wanted))
        runs = np.searchsorted(bounds, hits.ends, "left") - 1
        hits = Hits(hits.numbers, hits.ends - bounds[runs] + begins[runs])
        return texts.find(hits), hits

    def _judge(self, hits: Hits, texts: _Spans, is_record: Flags) -> None:
        """Count the lines that say what a rule looks for."""
        said = self._known.judge_rows(hits, texts, is_record)
        self.add({int(texts.lines[row]): rule for row, rule in said.items()})

    def add(self, said: Mapping[int, str], share: float = 1.0) -> None:
        """Count lines, each with the rule that looks for it; each stands for so many."""
        if not said:
            return
        self.count += round(len(said) * share)
        self.rules.update(said.values())
        self.first = min(said) if self.first is None else min(self.first, *said)

    def add_block(self, block: bytes) -> None:
        """Take a block of a document, whose records may come later."""
        self._of_document.add_block(block, self._known)

    def finish(self) -> None:
        """Judge what stands in a document and in none of its records."""
        hits = self._of_document
        hits.add_block(b"", self._known, final=True)
        if not hits.texts:
            return
        left = hits.find_unseen()
        kept = [one for one in left.tolist() if one in hits.texts]
        if not kept:
            return
        numbers, lines = hits.numbers.tolist(), hits.lines
        told = self._known.judge((one, numbers[one], hits.texts[one], False) for one in kept)
        # Several messages may stand in one line.
        said = {int(lines[one]): rule for one, rule in told.items()}
        self.add(said, len(told) / max(1, len(said)) * len(left) / len(kept))


def _places(parts: pa.Array, rows: pa.RecordBatch) -> Numbers:
    """Return what tells the records of some parts of logs apart."""
    places: Numbers = parts.to_numpy().astype(np.int64) * _LONGEST_FILE + rows["offset"].to_numpy()
    return places


def _find_named(lines: Lines, maybe: Flags) -> Flags:
    """Mark records that end with a logger, by their last bytes, of which there are few kinds.

    No rule listens to it: nothing else is to be known of most lines of a log.
    """
    closed: Flags = maybe & (lines.data[np.maximum(lines.own_ends - 1, 0)] == _CLOSING)
    rows = np.flatnonzero(closed)
    ends = lines.own_ends[rows]
    tails = slice_texts(lines.data, np.maximum(lines.starts[rows], ends - _TAIL), ends)
    kinds = tails.dictionary_encode()
    named = _fits(kinds.dictionary, _TAIL_OF_LOGGER)
    closed[rows] = named[kinds.indices.to_numpy()] if len(rows) else False
    return closed


def _name_others(rows: Rows, is_record: Flags, texts: _Spans) -> Flags:
    """Mark the rows of records that end with a logger that no rule listens to."""
    some = np.unique(rows[is_record[rows]])
    if not len(some):
        return np.zeros(len(rows), np.bool_)
    begins = np.maximum(texts.starts[some], texts.stops[some] - _LONGEST_END)
    ends = slice_texts(texts.data, begins, texts.stops[some])
    return np.isin(rows, some[_fits(ends, _ENDS_WITH_LOGGER)])


class _DocumentHits:
    """Where words of messages stand in a document, and in the text that its records became."""

    def __init__(self) -> None:
        """Begin before the first block."""
        # What stands around some of the hits.
        self.texts: dict[int, bytes] = {}
        self._raw: list[tuple[Numbers, Numbers, Numbers]] = []
        self._seen: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
        self._lines = self._count = 0
        self._tail = b""

    @property
    def has_seen(self) -> bool:
        """Whether there are such records."""
        return bool(self._seen)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the words of each hit."""
        return np.concatenate([np.zeros(0, np.int64), *(one[2] for one in self._raw)])

    @property
    def lines(self) -> Numbers:
        """The line of each hit."""
        return np.concatenate([np.zeros(0, np.int64), *(one[1] for one in self._raw)])

    def add_block(self, block: bytes, known: KnownMessages, *, final: bool = False) -> None:
        """Take a block; what ends in the middle of a line is looked at with the next one."""
        block = self._tail + block
        whole = block.rfind(b"\n") + 1
        if final or len(block) - whole > MAX_RECORD:
            whole = len(block)
        block, self._tail = block[:whole], block[whole:]
        data = np.frombuffer(block, np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        hits = known.search(data, len(breaks))
        lines = self._lines + 1 + np.searchsorted(breaks, hits.ends - 1)
        self._lines += len(breaks)
        self._raw.append((_keys(data, hits), lines, hits.numbers))
        for at, end in enumerate(hits.ends.tolist(), self._count):
            if at < _MOST_KEPT or at % _ONE_IN == 0:
                begin = max(block.rfind(b"\n", 0, end) + 1, end - _AROUND)
                stop = block.find(b"\n", end, end + _AROUND)
                self.texts[at] = block[begin : end + _AROUND if stop < 0 else stop]
        self._count += len(hits.ends)

    def add_seen(self, taken: TakenLines, rows: Rows, hits: Hits) -> None:
        data = taken.lines.data[int(taken.lines.starts[0]) :]
        places = taken.numbers[rows], taken.lasts[rows]
        self._seen.append((_keys(data, hits), *places, hits.numbers))

    def find_unseen(self) -> Numbers:
        """Return the hits that stand in the lines of no record with the same words.

        Where a line holds the same words several times, what follows them tells them apart.
        """
        none = np.zeros(0, np.int64)
        raw, seen = (
            [np.concatenate([none, *(one[at] for one in some)]) for at in range(size)]
            for some, size in ((self._raw, 3), (self._seen, 4))
        )
        keys, lines, numbers = raw
        unseen = ~_find_covered(numbers, lines, (seen[3], seen[1], seen[2]))
        _, places, counts = np.unique(
            np.stack([numbers, lines]), axis=1, return_inverse=True, return_counts=True
        )
        crowded = counts[places.reshape(-1)] > 1
        if crowded.any():
            unseen |= crowded & ~_find_covered(keys, lines, (seen[0], seen[1], seen[2]))
        return np.flatnonzero(unseen)


def _find_covered(keys: Numbers, lines: Numbers, seen: tuple[Numbers, Numbers, Numbers]) -> Flags:
    """Mark keys that were seen in their lines: `seen` are keys, first lines and last lines."""
    known, firsts, lasts = seen
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    distinct = np.unique(np.append(keys, known))
    span = int(lines.max(initial=0)) + int(lasts.max(initial=0)) + 2
    places = np.searchsorted(distinct, known) * span + firsts
    order = np.argsort(places, kind="stable")
    wanted = np.searchsorted(distinct, keys) * span
    at = np.searchsorted(places[order], wanted + lines, "right") - 1
    found = order[np.maximum(at, 0)]
    covered: Flags = (at >= 0) & (places[found] >= wanted) & (lasts[found] >= lines)
    return covered


def _keys(data: Bytes, hits: Hits) -> Numbers:
    """Return what tells hits of the same words apart: what follows them."""
    return np.array(
        [
            hash((number, _FOLLOWING.match(data[end : end + _REACH].tobytes())[0].rstrip()))  # type: ignore[index]
            for number, end in zip(hits.numbers.tolist(), hits.ends.tolist(), strict=True)
        ],
        np.int64,
    )
