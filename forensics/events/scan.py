"""One pass over one piece of work: bytes to records to entries to events, with every line counted.

Runs in the executors, knows nothing of Spark, and holds one block of text at a time.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from threading import Lock, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.documents.document_reader import DocumentLines, ProbedLines, read_events
from forensics.events.documents.facts import MAX_WHOLE_BYTES, Line
from forensics.events.documents.formats import Format, find_host_reader, recognise
from forensics.events.documents.host_lines import PROBE
from forensics.events.file_accounts import SEARCHED_BYTES
from forensics.events.layout_stretches import StretchCounter
from forensics.events.log_reader import Compiled, LogReader
from forensics.events.matcher import IMPOSSIBLE
from forensics.events.packs import load_rule_set, packs_from_json
from forensics.events.piece_parts import PieceParts
from forensics.events.writers import WriterCounter
from forensics.ingest.archive_reader import (
    FilePart,
    OpenedPart,
    PrefixDigest,
    digest_file,
    open_parts,
    open_splitter,
)
from forensics.ingest.container_accounts import CONTAINER_SPLIT, ContainerAccount
from forensics.ingest.conversion_patterns import find_patterns
from forensics.ingest.documents import DocumentSplitter, Splitter
from forensics.ingest.json_documents import SECTION
from forensics.ingest.read_counters import ReadCounter
from forensics.ingest.read_plan import Split
from forensics.ingest.record_splitter import LineCounts, Records
from forensics.parsing.entries import find_layout, read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.time_statistics import EpochRegressions, TimeStatistics
from forensics.parsing.timestamps import NO_TIME
from forensics.schemas import EVENTS

# What a scan yields: events with line numbers in their split, and an account of each piece.
STAGED_SCHEMA = pa.schema([*EVENTS, ("split", pa.int32()), ("account", pa.string())])
# So much text is matched at once: Arrow compiles a pattern each time it is used.
_MATCH_BATCH_BYTES = 32 << 20
# Starts of a process tell how far its clock is from UTC; so many of them are kept.
_CLOCK, _MAX_CLOCKS = "process_clock", 1000
# So much of the head of a file that nothing reads is kept, to try patterns on.
_UNREAD_BYTES, _UNREAD_LINES, _UNREAD_CHARS = 64 << 10, 40, 1000
# Text has no zero bytes; one in a thousand is too many for a log.
_BINARY_SHARE = 0.001
# So many blocks of a document are searched for messages of Kafka that nobody reads there.
_MAX_SEARCHED = 16


@functools.lru_cache(maxsize=8)
def load_scanner(overlays: str = "", *, context: bool = False) -> Scanner:
    """Return the scanner of this process; rules and layouts are read once.

    `overlays` are the packs that lie over the shipped rules, as `packs_to_json` writes them;
    `context` asks for the events that only give context, too.
    """
    rules = load_rule_set(packs_from_json(overlays))
    active = rules.active_rules(context=context)
    return Scanner(LogReader(rules.layouts, active, rules.wrappers))


# Half a second goes into compiling all patterns: as much as these take longer without.
_MANY_SPLITS, _MANY_BYTES = 64, 32 << 20
_COMPILING = Lock()


def compile_patterns(
    splits: Sequence[Split], overlays: str = "", *, context: bool = False
) -> Compiled:
    """Compile the cheap patterns of all rules, once, if there is so much to read that it pays."""
    if len(splits) < _MANY_SPLITS and sum(split.bytes for split in splits) < _MANY_BYTES:
        return ()
    with _COMPILING:
        return _compile_once(overlays, context=context)


def preload_patterns(splits: Sequence[Split], overlays: str, *, context: bool) -> None:
    """Begin to compile patterns in a thread, while Spark starts."""
    begin = partial(compile_patterns, splits, overlays, context=context)
    Thread(target=begin, name="patterns", daemon=True).start()


@functools.cache
def _compile_once(overlays: str, *, context: bool) -> Compiled:
    return load_scanner(overlays, context=context).reader.compile_patterns()


class Scanner:
    """Scans one split after the other by the same layouts and rules."""

    def __init__(self, reader: LogReader) -> None:
        self.reader = reader
        self.writers = WriterCounter()

    def scan(self, split: Split, meter: ReadCounter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the events of a split, and an account of every file in it."""
        if split.role == "digest":
            try:
                digest = digest_file(split)
            except OSError:
                # The other splits of the file say that it is gone.
                return
            account = {"sha256": digest.hexdigest(), "heads": digest.prefixes}
            yield _account_row(split.file, -1, account)
            return
        containers: list[ContainerAccount] = []
        for piece in open_parts(split, meter, containers):
            yield from self._piece(piece)
            yield from _container_rows(containers)
        yield from _container_rows(containers)

    def _piece(self, piece: FilePart) -> Iterator[pa.RecordBatch]:
        reader = self.reader
        opened = open_splitter(piece, reader.signatures, reader.wrappers, reader.judge)
        # A document may have lines that look like those of an unknown log.
        unknown = opened.wrappers is not None and opened.wrappers.is_found
        if opened.headless and opened.windows:
            unknown = not opened.windows.finds_records(opened.head)
        document = recognise(opened.head, headless=unknown)
        in_document = isinstance(opened.splitter, DocumentSplitter) and not opened.headless
        section = SECTION.search(opened.head) if in_document else None
        if document and not (in_document and (document.is_counted or section)):
            yield from self._read_document(document, piece, opened)
            return
        summary, splitter = _PieceSummary(piece, opened, self.reader.groups), opened.splitter
        if document and section and piece.number == 0:
            # What stands before the logs of a dump tells of the machines.
            lines = DocumentLines([opened.head[: section.start()]])
            yield from self._read_facts(document, lines, piece, summary)
        extracted: list[pa.RecordBatch] = []
        size = 0
        # What the machine says between the lines of Kafka; a file is read for it as a whole.
        host = find_host_reader(opened.head) if piece.number == 0 else None
        probed = ProbedLines(PROBE)
        summary.is_host_log = host is not None
        for block, final in opened.blocks:
            summary.add_block(block)
            if host:
                told = probed.feed(block, final=final)
                yield from self._read_facts(host, told, piece, summary)
            records = splitter.feed(block, final=final)
            if records is not None:
                summary.add_records(records, splitter)
                extracted.append(self.reader.extract(records))
                size += extracted[-1].nbytes
            if size > _MATCH_BATCH_BYTES or summary.parts.is_full:
                yield from self._match(extracted, piece, summary)
                extracted, size = [], 0
            if splitter.done and not host:
                break
        yield from self._match(extracted, piece, summary)
        if splitter.counts.lines and piece.number == 0:
            summary.note_head(opened, reader)
        yield _account_row(piece.file, piece.number, summary.to_account(splitter.counts))

    @staticmethod
    def _read_facts(
        document: Format, lines: Iterable[Line], piece: FilePart, summary: _PieceSummary
    ) -> Iterator[pa.RecordBatch]:
        """Read the facts that some lines of a document state."""
        for events in read_events(document, lines, piece.file):
            summary.events += len(events)
            yield _to_staged(events, piece)

    def _read_document(
        self, document: Format, piece: FilePart, opened: OpenedPart
    ) -> Iterator[pa.RecordBatch]:
        """Read a document to its end as the first piece of its file; the others have nothing."""
        summary = _PieceSummary(piece, opened, [])
        found: list[int] = []
        blocks = _search_blocks(self.reader, summary.watch(opened.blocks), found)
        lines = DocumentLines(() if piece.number else blocks)
        yield from self._read_facts(document, lines, piece, summary)
        lines.drain()
        if document.is_tree and lines.counts.bytes > MAX_WHOLE_BYTES:
            summary.note_cut()
        summary.messages = 0 if document.is_host_log else sum(found)
        account = summary.to_account(lines.counts)
        account |= {"layouts": {document.name: lines.counts.records}, "document": True}
        account |= {"yearless": document.is_host_log, "forms": {}, "layout_stretches": []}
        account["patterns"] = find_patterns(opened.head.decode("utf-8", "replace"))
        yield _account_row(piece.file, piece.number, account)

    def _match(
        self, extracted: list[pa.RecordBatch], piece: FilePart, summary: _PieceSummary
    ) -> Iterator[pa.RecordBatch]:
        """Parse and match what was extracted from many blocks at once."""
        if not any(map(len, extracted)):
            summary.parts.forget_matched()
            return
        entries = self.reader.parse(self.reader.prefilter(pa.concat_batches(extracted)))
        named = self.writers.find(entries["message"], entries["client"], entries["more"])
        summary.parts.add_writers(named, entries["line"].to_numpy(), entries["offset"].to_numpy())
        events = self.reader.match(entries)
        if len(events):
            summary.add_events(events)
            summary.regressions.add(events)
            voices = summary.parts.voices_of(events["offset"].to_numpy())
            yield _to_staged(events, piece, voices)
        summary.parts.forget_matched()


def _search_blocks(
    reader: LogReader, blocks: Iterator[tuple[bytes, bool]], found: list[int]
) -> Iterator[bytes]:
    """Yield blocks, and note for the first ones how many messages of Kafka their heads hold."""
    for block, _ in blocks:
        if len(found) < _MAX_SEARCHED:
            found.append(reader.count_messages(block[:SEARCHED_BYTES]))
        yield block


class _PieceSummary:
    """Collects the account of one piece."""

    def __init__(self, piece: FilePart, opened: OpenedPart, groups: list[list[Layout]]) -> None:
        self.events = 0
        # events with a number beyond its column
        self.impossible = 0
        self.is_host_log = False
        # what looks like messages that rules know, where it was searched for them
        self.messages = 0
        # the lines that tell a moment by the clock of the process and since 1970
        self.clocks: list[tuple[int, int, int]] = []
        self.regressions = EpochRegressions()
        self._groups = groups
        self._times = TimeStatistics(groups)
        self._windows = opened.windows
        self._names = opened.windows.names if opened.windows else [""]
        self._piece = piece
        self._digest = PrefixDigest() if piece.whole else None
        self.parts = PieceParts(groups)
        self._stretches = StretchCounter(groups)
        self._hows = opened.windows.hows if opened.windows else ["known"]
        self._rules = Counter[str]()
        self._layouts: dict[int, str | None] = {}
        self._first: int | None = None
        self._last: int | None = None
        self._notes: list[str] = []
        # some lines of a file that no known layout reads
        self._unread: list[str] = []

    def watch(self, blocks: Iterator[tuple[bytes, bool]]) -> Iterator[tuple[bytes, bool]]:
        """Let blocks pass, and digest them."""
        for block, final in blocks:
            self.add_block(block)
            yield block, final

    def add_block(self, block: bytes) -> None:
        if self._digest:
            self._digest.update(block)

    def add_events(self, events: pa.RecordBatch) -> None:
        self.events += len(events)
        self.impossible += pc.sum(pc.equal(events["kind"], IMPOSSIBLE), min_count=0).as_py()
        timed = events.filter(pc.and_(events["epoch_ms"].is_valid(), events["ts"].is_valid()))
        if len(timed):
            timed = timed.filter(pc.equal(timed["kind"], _CLOCK))
            moments = (timed["line"], timed["ts"].cast(pa.int64()), timed["epoch_ms"])
            self.clocks += zip(*(one.to_pylist() for one in moments), strict=True)
        for count in events["rule"].value_counts().to_pylist():
            self._rules[count["values"]] += count["counts"]

    def add_records(self, records: Records, splitter: Splitter) -> None:
        self._times.add(records)
        self._stretches.add(records)
        self.parts.add_records(records, self._times.fallen_back, splitter)
        ends = read_times(records, np.array([0, len(records.starts) - 1], np.int64), self._groups)
        known = [int(time) for time in ends if time != NO_TIME]
        if known:
            self._first = known[0] if self._first is None else self._first
            self._last = known[-1]
        for kind in set(records.kinds.tolist()) - set(self._layouts):
            row = int(np.flatnonzero(records.kinds == kind)[0])
            self._layouts[kind] = find_layout(records, row, self._groups[kind - 1])

    def note_head(self, opened: OpenedPart, reader: LogReader) -> None:
        """Note what is to be said of a file whose layout nobody knows, or that gave no event."""
        if not self.events:
            self.messages = reader.count_messages(opened.head[:SEARCHED_BYTES])
        if opened.headless or (opened.wrappers is not None and opened.wrappers.is_found):
            # A configuration may tell how it is written.
            lines = opened.head[:_UNREAD_BYTES].decode("utf-8", "replace").splitlines()
            self._unread = [line[:_UNREAD_CHARS] for line in lines if line.strip()][:_UNREAD_LINES]
        if opened.headless:
            undated = opened.windows is not None and opened.windows.lacks_date
            self.note_unreadable(opened.head, undated=undated)

    def note_unreadable(self, head: bytes, *, undated: bool) -> None:
        if undated:
            self._notes.append(
                "times without a date: put the day into the file's name (server.log.2026-11-18)"
            )
        elif head.count(0) > len(head) * _BINARY_SHARE:
            self._notes.append("binary data, not a log")
        else:
            self._notes.append("no known log layout at its beginning")

    def note_cut(self) -> None:
        """Say that a document is longer than what is looked at."""
        self._notes.append(f"only its first {MAX_WHOLE_BYTES >> 20} MB were looked at")

    def to_account(self, counts: LineCounts) -> dict[str, Any]:
        if counts.long_lines:
            self._notes.append(f"{counts.long_lines} line(s) longer than 1 MB, read in part")
        self._notes += self._piece.unpacked.notes
        if self._piece.unpacked.damaged:
            self._notes.append(self._piece.unpacked.damaged)
        layouts = {
            kind: self._layouts.get(kind) or self._groups[kind - 1][0].id for kind in counts.layouts
        }
        return vars(counts) | {
            "layouts": {layouts[kind]: count for kind, count in sorted(counts.layouts.items())},
            "zoned": sum(
                count
                for kind, count in counts.layouts.items()
                if self._groups[kind - 1][0].time.zoned
            ),
            "first": self._first,
            "last": self._last,
            "gaps": self._times.gaps,
            "steps": self._times.backward.jumps,
            "stepped": self._times.backward.count,
            "open_steps": self._times.backward.unconfirmed,
            "falls": self.regressions.regressions,
            "fallen": self.regressions.count,
            "levels": dict(self._times.levels),
            "events": self.events,
            "writers": self.parts.writers,
            "folders": sorted(self.parts.folders),
            "cuts": self.parts.cuts,
            "stretches": self.parts.stretches,
            "origins": self.parts.to_accounts(counts, layouts),
            "clocks": self.clocks[:_MAX_CLOCKS],
            "impossible": self.impossible,
            "messages": self.messages,
            "yearless": self.is_host_log,
            "rules": self._rules,
            "notes": self._notes,
            "layout_stretches": self._stretches.to_account(self._names, self._hows),
            "unread": self._unread,
            "unread_parts": self._windows.unread if self._windows else {},
            "forms": {self._names[form]: count for form, count in sorted(counts.forms.items())},
            "broken": self._piece.unpacked.damaged is not None,
            "container": self._piece.container,
            "sha256": self._digest.hexdigest() if self._digest else None,
            "heads": self._digest.prefixes if self._digest else {},
        }


def _to_staged(
    events: pa.RecordBatch, piece: FilePart, voices: pa.Array | None = None
) -> pa.RecordBatch:
    count = len(events)
    column = EVENTS.get_field_index("file")
    columns = list(events.columns)
    columns[column] = pa.repeat(pa.scalar(piece.file), count)
    # Which node that is can only be said when the whole file is read.
    if voices is not None:
        columns[EVENTS.get_field_index("node")] = voices
    columns += [pa.repeat(pa.scalar(piece.number, pa.int32()), count), pa.nulls(count, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=STAGED_SCHEMA)


def _container_rows(finished: list[ContainerAccount]) -> Iterator[pa.RecordBatch]:
    """Yield the accounts of containers that came to their ends."""
    for one in finished:
        yield _account_row(one.name, CONTAINER_SPLIT, vars(one))
    finished.clear()


def _account_row(file: str, number: int, account: dict[str, Any]) -> pa.RecordBatch:
    columns = list(_no_values())
    row = {"file": file, "split": number, "account": json.dumps(account, sort_keys=True)}
    for name, value in row.items():
        column = STAGED_SCHEMA.get_field_index(name)
        columns[column] = pa.array([value], STAGED_SCHEMA.field(column).type)
    return pa.RecordBatch.from_arrays(columns, schema=STAGED_SCHEMA)


@functools.cache
def _no_values() -> tuple[pa.Array, ...]:
    """Return one row without a value: an archive may have very many files."""
    return tuple(pa.nulls(1, field.type) for field in STAGED_SCHEMA)
