"""Layouts, prefilter and rules together: turns lines into records, entries and events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from forensics.events.matcher import Matcher
from forensics.events.rules import Rule
from forensics.ingest.record_splitter import Records, RecordSplitter
from forensics.ingest.wrapper_base import Wrapper
from forensics.lib.secrets import mask_column
from forensics.parsing.entries import (
    extract_records,
    group_layouts,
    group_signatures,
    parse_extracted,
)
from forensics.parsing.layout_judge import LayoutJudge
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import Prefilter


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
        self.judge = LayoutJudge(self.groups, self.matcher.loggers)
        self._filter = Prefilter(
            self.matcher.probes, self.matcher.warn_only_loggers,
            has_wildcards=self.matcher.has_wildcard_rules,
        )  # fmt: skip

    def split_records(self, lines: Sequence[str]) -> Records | None:
        """Split lines into records."""
        text = "\n".join(lines).encode("utf-8", "replace")
        return RecordSplitter(self.signatures).feed(text, final=True)

    def extract(self, records: Records) -> pa.RecordBatch:
        """Extract the records whose logger some rule listens to."""
        return extract_records(
            records, self._filter.select_by_logger(records, self.groups), self.groups
        )

    def prefilter(self, extracted: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the records that some rule may take."""
        return self._filter.select_by_probe(extracted, self.groups)

    def parse(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Parse records as entries, with secrets masked: nothing that follows ever sees one."""
        return parse_extracted(_mask_secrets(records), self.groups)

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events of entries."""
        return self.matcher.match(entries)

    def prefiltered(self, records: Records) -> pa.RecordBatch:
        """Return the records that pass the prefilter."""
        return self.prefilter(self.extract(records))

    def parse_all(self, records: Records) -> pa.RecordBatch:
        """Parse all records, whether a rule listens to them or not."""
        return self.parse(extract_records(records, np.arange(len(records.starts)), self.groups))

    def read_events(self, records: Records) -> pa.RecordBatch:
        """Return what a scan reads: only records that pass the prefilter meet the rules."""
        return self.match(self.parse(self.prefiltered(records)))


def _mask_secrets(records: pa.RecordBatch) -> pa.RecordBatch:
    # Both columns at once: every use of a pattern has its price.
    both = mask_column(pa.concat_arrays([records["text"], records["more"]]))
    for index, name in enumerate(("text", "more")):
        part = both.slice(index * len(records), len(records))
        column = records.schema.get_field_index(name)
        records = records.set_column(column, records.schema.field(column), part)
    return records
