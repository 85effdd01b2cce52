"""Layouts, prefilter and rules together: turns lines into records, entries and events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.event_columns import Rows
from forensics.events.matcher import Matcher
from forensics.events.rules import LIBRARY_LOGGERS, Rule
from forensics.events.unread_messages import KnownMessages
from forensics.ingest.embedded_client_lines import THREAD
from forensics.ingest.logger_names import find_loggers, holds_logger, is_logger
from forensics.ingest.message_columns import OWN_BRACKET, MessageStarts, leads_with_column
from forensics.ingest.record_splitter import Records, RecordSplitter
from forensics.ingest.record_starts import Flags, Offsets, Signature
from forensics.ingest.wrapper_base import Wrapper
from forensics.lib.pattern_set import PatternSet, open_pattern_set
from forensics.lib.secrets import list_probes, mask_column
from forensics.parsing.entries import (
    extract_records,
    group_layouts,
    group_signatures,
    parse_extracted,
)
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import QUOTED_ERROR, Prefilter

# Patterns of rules and of secrets as one database each, for processes on machines like this one.
Compiled = tuple[bytes, ...]


class LogReader:
    """Reads logs by some layouts and rules; scans and the checks of rules share it."""

    def __init__(
        self,
        layouts: tuple[Layout, ...],
        rules: Sequence[Rule],
        wrappers: Sequence[Wrapper] | None = None,
        quiet: Sequence[Rule] = (),
    ) -> None:
        """Read by these; without `wrappers`, by the shipped ones.

        `quiet` are rules for lines that are known and give no event.
        """
        self.groups = group_layouts(layouts)
        self.signatures = group_signatures(self.groups)
        self.rules = tuple(rules)
        self.wrappers = wrappers
        self.matcher = Matcher(rules)
        self._quiet = Matcher(quiet)
        starts = (
            wording.template.source.partition("{")[0] for rule in rules for wording in rule.wordings
        )
        self.judge = LayoutJudge(self.groups, self.matcher.loggers, starts)
        self.messages = KnownMessages(rules, self.judge.loggers, quiet)
        self._secrets: PatternSet | None = None
        self._filter = Prefilter(
            self.matcher.probes, self.matcher.warn_only_loggers,
            has_wildcards=self.matcher.has_wildcard_rules,
            library_probes=self.matcher.library_probes, library_loggers=LIBRARY_LOGGERS,
        )  # fmt: skip

    def compile_patterns(self) -> Compiled:
        """Compile the cheap patterns of all rules for `search_at_once`; empty where nothing can."""
        sets = [open_pattern_set(patterns) for patterns in self._list_patterns()]
        return tuple(one.to_bytes() for one in sets if one)

    def search_at_once(self, compiled: Compiled) -> None:
        """Search for all cheap patterns at once from now on, by what `compile_patterns` returned.

        The events are the same. It is not worth while for a few lines.
        """
        if self._secrets or not compiled:
            return
        rules, self._secrets = map(open_pattern_set, self._list_patterns(), compiled)
        if rules:
            self.matcher.number_probes(rules.numbers)
            self._filter.search_at_once(rules)

    def _list_patterns(self) -> tuple[list[str], list[str]]:
        """Return those of rules, and those of secrets."""
        probes = {probe for some in self.matcher.probes.values() for probe in some}
        return [*sorted(probes), QUOTED_ERROR], list_probes()

    def split_records(self, lines: Sequence[str]) -> Records | None:
        """Split lines into records."""
        text = "\n".join(lines).encode("utf-8", "replace")
        return RecordSplitter(self.signatures).feed(text, final=True)

    def select(self, records: Records) -> tuple[Offsets, pa.Array | None]:
        """Return the rows of the records that rules may take, and the patterns that each has."""
        return self._filter.select(records, self.groups)

    def extract(
        self,
        records: Records,
        part: int = 0,
        selected: tuple[Offsets, pa.Array | None] | None = None,
    ) -> pa.RecordBatch:
        """Extract the records whose logger some rule listens to, or only those it may take."""
        rows, probes = self.select(records) if selected is None else selected
        return extract_records(records, rows, self.groups, probes, part)

    def prefilter(self, extracted: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the records that some rule may take."""
        return self._filter.select_by_probe(extracted, self.groups)

    def parse(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Parse records as entries, with secrets masked: nothing that follows ever sees one."""
        return parse_extracted(_mask_secrets(records, self._secrets), self.groups)

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events of entries."""
        return self.matcher.match(entries)

    def match_parts(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, Rows]:
        """Return the events of entries, by part and offset, and the part of each.

        Errors of Kafka that no rule knows are among them.
        """
        return self.matcher.match_parts(entries, self._quiet)

    def prefiltered(self, records: Records) -> pa.RecordBatch:
        """Return the records that pass the prefilter."""
        return self.prefilter(self.extract(records))

    def parse_all(self, records: Records) -> pa.RecordBatch:
        """Parse all records, whether a rule listens to them or not."""
        return self.parse(extract_records(records, np.arange(len(records.starts)), self.groups))

    def read_events(self, records: Records) -> pa.RecordBatch:
        """Return what a scan reads: only records that pass the prefilter meet the rules."""
        return self.match(self.parse(self.prefiltered(records)))


def _mask_secrets(records: pa.RecordBatch, probes: PatternSet | None) -> pa.RecordBatch:
    # Both columns at once: every use of a pattern has its price.
    both = mask_column(pa.concat_arrays([records["text"], records["more"]]), probes)
    for index, name in enumerate(("text", "more")):
        part = both.slice(index * len(records), len(records))
        column = records.schema.get_field_index(name)
        records = records.set_column(column, records.schema.field(column), part)
    return records


# A thread in brackets, before the message.
_BRACKET = r"^\[(?P<inside>[^\[\]\n]*)\] "
_LIKELY_SHARE = 0.3
# Loggers are looked for in so many characters of a line.
_NAMED_IN = 2000
# The layouts of logs of a JVM.
_JVM = "jvm"
_MIN_THREADS, _THREAD_SHARE, _OWN_SHARE = 8, 0.95, 0.2
_RUN = 12
_MIN_NAMES = 3


class LayoutJudge:
    """The known layouts, grouped by how their records begin, and what rules know.

    These are loggers, and what messages begin with.
    """

    def __init__(
        self,
        groups: Sequence[Sequence[Layout]],
        loggers: Iterable[str],
        starts: Iterable[str] = (),
    ) -> None:
        self.signatures: Sequence[Signature] = [group[0].signature for group in groups]
        self.loggers = frozenset(loggers)
        self.starts = MessageStarts(starts)
        self._groups = groups

    def reads(self, lines: pa.Array, kinds: npt.NDArray[np.uint8], followed: Flags) -> Flags:
        """Say which lines a layout reads; `followed` marks those with lines below them.

        A message that begins with a blank, and messages that all begin with the name of a thread,
        speak of another layout.
        """
        read = np.zeros(len(lines), np.bool_)
        messages: list[bytes | None] = [None] * len(lines)
        for kind in np.unique(kinds[kinds > 0]).tolist():
            rows = np.flatnonzero(kinds == kind)
            some = lines.take(pa.array(rows))
            good = np.zeros(len(rows), np.bool_)
            for layout in self._groups[kind - 1]:
                fits, found = self._fitting(some, layout, followed[rows])
                good |= fits
                for row, message in zip(rows[fits].tolist(), found, strict=False):
                    messages[row] = message
            read[rows] = good
        # Some lines may have threads, and the others none.
        known = [row for row, message in enumerate(messages) if message is not None]
        for begin in range(0, len(known), _RUN):
            run = known[max(0, min(begin, len(known) - _RUN)) : begin + _RUN]
            if _are_threads([messages[row] or b"" for row in run]):
                read[run] = False
        return read

    def proves(self, lines: pa.Array, kinds: npt.NDArray[np.uint8], followed: Flags) -> Flags:
        """Say which lines a layout reads that ends with the logger, each by itself."""
        read = np.zeros(len(lines), np.bool_)
        for kind in np.unique(kinds[kinds > 0]).tolist():
            rows = np.flatnonzero(kinds == kind)
            some = lines.take(pa.array(rows))
            for layout in self._groups[kind - 1]:
                if layout.ends_with_logger:
                    read[rows] |= self._fitting(some, layout, followed[rows])[0]
        return read

    def count_known(self, lines: pa.Array, kinds: npt.NDArray[np.uint8]) -> int:
        """Count the messages and loggers in some records that rules know."""
        known = 0
        for kind in np.unique(kinds[kinds > 0]).tolist():
            some = lines.take(pa.array(np.flatnonzero(kinds == kind)))
            found = []
            for layout in self._groups[kind - 1]:
                fields = pc.extract_regex(some, layout.template.pattern).drop_null()
                names = {"message", "logger"} & set(layout.template.fields)
                texts = {
                    name: [one.decode("utf-8", "replace") for one in fields.field(name).to_pylist()]
                    for name in names
                }
                messages = sum(self.starts.find(one) == 0 for one in texts.get("message", ()))
                loggers = [one for one in texts.get("logger", ()) if is_logger(one, self.loggers)]
                # One name in all lines may be a word of theirs.
                differ = len(set(loggers)) >= _MIN_NAMES
                found.append(messages + differ * len(loggers))
            known += max(found, default=0)
        return known

    def _fitting(
        self, lines: pa.Array, layout: Layout, followed: Flags
    ) -> tuple[Flags, list[bytes]]:
        fields = pc.extract_regex(lines, layout.template.pattern)
        fits = fields.is_valid().to_numpy(zero_copy_only=False)
        messages: list[bytes] = []
        if "message" in layout.template.fields:
            texts = fields.field("message")
            padded = pc.fill_null(pc.starts_with(texts, b" "), False).to_numpy(zero_copy_only=False)
            # A JVM indents what its messages list.
            fits &= ~padded | (layout.logger == _JVM)
            if "client" not in layout.template.fields and not layout.ends_with_logger:
                held = pc.match_substring(pc.fill_null(texts, b""), THREAD)
                fits &= ~held.to_numpy(zero_copy_only=False)
        if layout.logger and fits.any() and self._name_loggers(lines.filter(pa.array(fits))):
            # The layout of a program that has none: these are records of another layout in it.
            fits[:] = False
        if not layout.ends_with_logger and "logger" in layout.template.fields and fits.any():
            # Where the logger stands in front, any word could be taken for one.
            names = fields.field("logger").filter(pa.array(fits)).to_pylist()
            likely = sum(self._is_likely(name.decode("utf-8", "replace")) for name in names)
            fits &= likely >= _LIKELY_SHARE * len(names)
            if likely and "message" in layout.template.fields and not layout.is_object:
                texts = fields.field("message").filter(pa.array(fits)).to_pylist()
                said = [(text or b"").decode("utf-8", "replace") for text in texts]
                if leads_with_column(said, partial(holds_logger, loggers=self.loggers)):
                    fits[:] = False
        rows = np.flatnonzero(followed & ~fits)
        if layout.opening and len(rows) and (layout.ends_with_logger or fits.any()):
            some = lines.take(pa.array(rows))
            opened = pc.extract_regex(some, layout.opening.pattern).is_valid()
            fits[rows] = opened.to_numpy(zero_copy_only=False) & ~_closes(some)
        if layout.ends_with_logger:
            texts = fields.field("message").filter(pa.array(fits))
            messages = [text or b"" for text in texts.to_pylist()]
        return fits, messages

    def _name_loggers(self, lines: pa.Array) -> bool:
        """Return True if many of some lines name loggers of Kafka with their packages.

        The bare names are words, too, such as those of modules in lines of Sarama.
        """
        texts = [line.decode("utf-8", "replace")[:_NAMED_IN] for line in lines.to_pylist()]
        found = (find_loggers(text, self.loggers) for text in texts)
        named = sum(any("." in name for _, _, name in names) for names in found)
        return named >= _LIKELY_SHARE * len(texts)

    def _is_likely(self, text: str) -> bool:
        return "." in text.strip(".") or text in self.loggers


def _closes(lines: pa.Array) -> Flags:
    """Mark lines that end as a whole record does."""
    flags: Flags = pc.match_substring_regex(lines, r"\([\w.$-]+(?::[0-9]+)?\)\s*$").to_numpy(
        zero_copy_only=False
    )
    return flags


def _are_threads(messages: Sequence[bytes]) -> bool:
    if len(messages) < _MIN_THREADS:
        return False
    fields = pc.extract_regex(pa.array(messages, pa.binary()), _BRACKET)
    inside = fields.drop_null().field("inside").to_pylist()
    if len(inside) < _THREAD_SHARE * len(messages):
        return False
    named = [OWN_BRACKET.search(one.decode("utf-8", "replace")) for one in inside]
    return sum(one is not None for one in named) <= _OWN_SHARE * len(inside)
