"""Layouts and rules, put together: what lines become records, entries and events by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from forensics.events.matcher import Matcher
from forensics.events.rules import Rule
from forensics.ingest.record_splitter import Records, RecordSplitter
from forensics.lib.secrets import mask_column
from forensics.parsing.entries import (
    extract_records,
    group_layouts,
    group_signatures,
    parse_extracted,
)
from forensics.parsing.layouts import Layout
from forensics.parsing.prefilter import Prefilter


class LogReader:
    """All that is asked of a line: a scan reads logs by one, and a rule is tried by one."""

    def __init__(self, layouts: tuple[Layout, ...], rules: Sequence[Rule]) -> None:
        """Sort layouts by how they start, and rules by what they listen to."""
        self.groups = group_layouts(layouts)
        self.signatures = group_signatures(self.groups)
        self.rules = tuple(rules)
        self.matcher = Matcher(rules)
        heard = self.matcher
        self.sieve = Prefilter(
            heard.probes, heard.warn_only_loggers, has_wildcards=heard.has_wildcard_rules
        )

    def split_records(self, lines: Sequence[str]) -> Records | None:
        """Cut lines into records."""
        text = "\n".join(lines).encode("utf-8", "replace")
        return RecordSplitter(self.signatures).feed(text, final=True)

    def extract(self, cut: Records) -> pa.RecordBatch:
        """Lift those records out of a cut whose logger some rule listens to."""
        return extract_records(cut, self.sieve.select_by_logger(cut, self.groups), self.groups)

    def prefilter(self, lifted: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the records that some rule may take."""
        return self.sieve.select_by_probe(lifted, self.groups)

    def parse(self, passed: pa.RecordBatch) -> pa.RecordBatch:
        """Read records as entries, their secrets masked: nothing that follows ever sees one."""
        return parse_extracted(_mask_secrets(passed), self.groups)

    def match(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Give the events of entries."""
        return self.matcher.match(entries)

    def prefiltered(self, cut: Records) -> pa.RecordBatch:
        """Give the records of a cut that pass the sieve."""
        return self.prefilter(self.extract(cut))

    def parse_all(self, cut: Records) -> pa.RecordBatch:
        """Parse all records of a cut, whether a rule listens to them or not."""
        return self.parse(extract_records(cut, np.arange(len(cut.starts)), self.groups))

    def read_events(self, cut: Records) -> pa.RecordBatch:
        """Give what a scan makes of a cut: only records that pass the sieve meet the rules."""
        return self.match(self.parse(self.prefiltered(cut)))


def _mask_secrets(records: pa.RecordBatch) -> pa.RecordBatch:
    # Both at once: patterns have a price each time they are used.
    both = mask_column(pa.concat_arrays([records["text"], records["more"]]))
    for at, name in enumerate(("text", "more")):
        part = both.slice(at * len(records), len(records))
        column = records.schema.get_field_index(name)
        records = records.set_column(column, records.schema.field(column), part)
    return records
