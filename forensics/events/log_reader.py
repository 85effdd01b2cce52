"""Layouts, prefilter and rules together: turns lines into records, entries and events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from forensics.events.event_columns import Rows
from forensics.events.matcher import Matcher
from forensics.events.rules import LIBRARY_LOGGERS, Rule
from forensics.ingest.record_splitter import Records, RecordSplitter
from forensics.ingest.wrapper_base import Wrapper
from forensics.lib.pattern_set import PatternSet, open_pattern_set
from forensics.lib.secrets import list_probes, mask_column
from forensics.parsing.entries import (
    extract_records,
    group_layouts,
    group_signatures,
    parse_extracted,
)
from forensics.parsing.layout_judge import LayoutJudge
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import QUOTED_ERROR, Prefilter

# Patterns of rules and of secrets as one database each, for processes on machines like this one.
Compiled = tuple[bytes, ...]
# What a rule's message holds word for word, if it is so long, stands in nothing but such messages.
_PHRASE_CHARS = 16
# librdkafka names its thread in every line.
_CLIENT_THREAD = b"[thrd:"
_ESCAPE = re.compile(r"\\(.)")


class LogReader:
    """Reads logs by some layouts and rules; scans and the checks of rules share it."""

    def __init__(
        self,
        layouts: tuple[Layout, ...],
        rules: Sequence[Rule],
        wrappers: Sequence[Wrapper] | None = None,
    ) -> None:
        """Read by these; without `wrappers`, by the shipped ones."""
        self.groups = group_layouts(layouts)
        self.signatures = group_signatures(self.groups)
        self.rules = tuple(rules)
        self.wrappers = wrappers
        self.matcher = Matcher(rules)
        starts = (
            wording.template.source.partition("{")[0] for rule in rules for wording in rule.wordings
        )
        self.judge = LayoutJudge(self.groups, self.matcher.loggers, starts)
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

    @cached_property
    def _phrases(self) -> tuple[bytes, ...]:
        """What the messages of rules hold word for word: of each the longest part."""
        parts = (
            max((_ESCAPE.sub(r"\1", part) for part in probe.split(".*")), key=len)
            for probe in self._list_patterns()[0]
        )
        long = {part for part in parts if len(part) >= _PHRASE_CHARS and " " in part.strip()}
        return tuple(sorted(part.encode() for part in long))

    def count_messages(self, text: bytes) -> int:
        """Count what looks like messages that rules know, however their lines are written."""
        return sum(map(text.count, (*self._find_phrases(text), _CLIENT_THREAD)))

    def _find_phrases(self, text: bytes) -> Sequence[bytes]:
        """Return those that a text has, or all where they cannot be searched for at once."""
        if self._phrase_set is None:
            return self._phrases
        found = self._phrase_set.search(np.frombuffer(text, np.uint8), text.count(b"\n"))
        return self._phrases if found is None else [self._phrases[at] for at in set(found[0])]

    @cached_property
    def _phrase_set(self) -> PatternSet | None:
        return open_pattern_set([re.escape(one.decode()) for one in self._phrases])

    def split_records(self, lines: Sequence[str]) -> Records | None:
        """Split lines into records."""
        text = "\n".join(lines).encode("utf-8", "replace")
        return RecordSplitter(self.signatures).feed(text, final=True)

    def extract(self, records: Records, part: int = 0) -> pa.RecordBatch:
        """Extract the records whose logger some rule listens to, or only those it may take."""
        rows, probes = self._filter.select(records, self.groups)
        return extract_records(records, rows, self.groups, probes, part)

    def prefilter(self, extracted: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the records that some rule may take."""
        return self._filter.select_by_probe(extracted, self.groups)

    def parse(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Parse records as entries, with secrets masked: nothing that follows ever sees one."""
        return parse_extracted(_mask_secrets(records, self._secrets), self.groups)

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events of entries."""
        return self.match_parts(entries)[0]

    def match_parts(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, Rows]:
        """Return the events of entries, by part and offset, and the part of each."""
        return self.matcher.match_parts(entries)

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
