"""One pass over one piece of work: bytes to records to entries to events, with every line counted.

Runs in the executors, knows nothing of Spark, and holds one block of text at a time.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.event_columns import IMPOSSIBLE, Rows, rows_where
from forensics.events.file_parts import PieceParts
from forensics.events.layout_stretches import StretchCounter
from forensics.events.log_reader import Compiled, LogReader
from forensics.events.packs import load_rule_set, packs_from_json
from forensics.events.support_files.facts import MAX_WHOLE_BYTES, Line, Row
from forensics.events.support_files.file_kinds import (
    DocumentLines,
    Format,
    ProbedLines,
    find_host_reader,
    read_events,
    recognise,
    to_batch,
)
from forensics.events.support_files.host_logs import PROBE, find_last_words, read_last_words
from forensics.events.unread_messages import MessageWatch
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
from forensics.ingest.read_plan import Split, estimate_text_bytes
from forensics.ingest.record_splitter import LineCounts, Records
from forensics.lib.this_machine import start_helper
from forensics.parsing.entries import find_layout, read_times
from forensics.parsing.layouts import Layout
from forensics.parsing.time_statistics import (
    EpochRegressions,
    TimeStatistics,
    find_news,
    list_states,
)
from forensics.parsing.timestamps import NO_TIME
from forensics.schemas import EVENTS

# What a scan yields: events with line numbers in their split, and an account of each piece.
STAGED_SCHEMA = pa.schema([*EVENTS, ("split", pa.int32()), ("account", pa.string())])
# So much text, of so many pieces, is matched at once: Arrow compiles a pattern at each use.
_MATCH_BATCH_BYTES, _MATCH_BATCH_PIECES = 32 << 20, 1000
# Of so many records at once it is kept who wrote them.
_MATCH_BATCH_NAMED = 2_000_000
# Starts of a process tell how far its clock is from UTC; so many of them are kept.
_CLOCK, _MAX_CLOCKS, _CLOCK_COLUMNS = "process_clock", 1000, ("line", "ts", "epoch_ms")
# So much of the head of a file that nothing reads is kept, to try patterns on.
_UNREAD_BYTES, _UNREAD_LINES, _UNREAD_CHARS = 64 << 10, 40, 1000
# Text has no zero bytes; one in a thousand is too many for a log.
_BINARY_SHARE = 0.001
# So much of a journal's head is searched for messages of Kafka; fewer than a few may be quoted.
_SEARCHED_BYTES, _FEW_MESSAGES = 64 << 10, 5
# A time with a date, as the layouts of logs have it at the beginning of a line.
_DATED = r"^[^\w\n]{0,4}[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
GLUED_NOTE = (
    "in some lines zero bytes or carriage returns stand where lines should end, and what follows"
    r" them is not read by itself; write the file anew: tr '\0\r' '\n\n' < FILE"
)
# A log has times, levels or loggers, however they are written; what has none of them is no log, and
# nobody is warned of it.
TEXT_NOTE = "text, not a log"
_LOG_SIGNS = re.compile(
    rb"(?i)\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b|\d\d:\d\d|\d{10}|kafka\.[a-z]"
)
# In a document that is a log so many of the lines hold one.
_LOG_SHARE = 0.1


def load_scanner(overlays: str = "[]", *, context: bool = False) -> Scanner:
    """Return the scanner of this process; rules and layouts are read once.

    `overlays` are the packs that lie over the shipped rules, as `packs_to_json` writes them;
    `context` asks for the events that only give context, too.
    """
    return _load_scanner(overlays, context)


@functools.lru_cache(maxsize=8)
def _load_scanner(overlays: str, context: bool) -> Scanner:
    rules = load_rule_set(packs_from_json(overlays))
    active = rules.active_rules(context=context)
    quiet = [rule for rule in rules.rules if rule not in active]
    return Scanner(LogReader(rules.layouts, active, rules.wrappers, quiet))


def preload_scanner(overlays: str, *, context: bool) -> None:
    """Read the rules before there is something to scan."""
    load_scanner(overlays, context=context)


# Half a second goes into compiling all patterns: as much as these take longer without.
_MANY_SPLITS, _MANY_BYTES = 64, 32 << 20
_COMPILING = Lock()


def compile_patterns(
    splits: Sequence[Split], overlays: str = "[]", *, context: bool = False
) -> Compiled:
    """Compile the cheap patterns of all rules, once, if there is so much to read that it pays."""
    if len(splits) < _MANY_SPLITS and sum(map(estimate_text_bytes, splits)) < _MANY_BYTES:
        return ()
    with _COMPILING:
        return _compile_once(overlays, context=context)


def preload_patterns(splits: Sequence[Split], overlays: str, *, context: bool) -> None:
    """Begin to compile patterns in a thread, while Spark starts."""
    begin = partial(compile_patterns, splits, overlays, context=context)
    start_helper(begin)


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
        return self.scan_all([split], meter)

    def scan_all(
        self, splits: Iterable[Split], meter: ReadCounter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events of splits, and an account of every file in them.

        What stands in small files is matched together, so the events of a split may come late.
        """
        waiting = _Waiting(self.reader, self.writers)
        for split in splits:
            if split.role == "digest":
                yield from _digest(split)
                continue
            containers: list[ContainerAccount] = []
            for piece in open_parts(split, meter, containers):
                yield from self._piece(piece, waiting)
                yield from _container_rows(containers)
            yield from _container_rows(containers)
        yield from waiting.match()

    def _piece(self, piece: FilePart, waiting: _Waiting) -> Iterator[pa.RecordBatch]:
        reader = self.reader
        opened = open_splitter(piece, reader.signatures, reader.wrappers, reader.judge)
        # A document may have lines that look like those of an unknown log.
        unknown = opened.wrappers is not None and opened.wrappers.is_found
        if opened.headless and opened.windows:
            unknown = not opened.windows.finds_records(opened.head)
        document = recognise(opened.head, headless=unknown)
        if document and self._holds_log(document, opened, is_found=unknown):
            document = None
        in_document = isinstance(opened.splitter, DocumentSplitter) and not opened.headless
        section = SECTION.search(opened.head) if in_document else None
        if document and not (in_document and (document.is_counted or section)):
            yield from self._read_document(document, piece, opened)
            return
        summary, splitter = _PieceSummary(piece, opened, reader.groups, reader), opened.splitter
        if document and section and piece.number == 0:
            # What stands before the logs of a dump tells of the machines.
            lines = DocumentLines([opened.head[: section.start()]])
            yield from self._read_facts(document, lines, piece, summary)
        # What the machine says between the lines of Kafka; a file is read for it as a whole.
        host = find_host_reader(opened.head) if piece.number == 0 else None
        probed = ProbedLines(PROBE)
        summary.is_host_log = host is not None
        part = waiting.begin(summary)
        for block, final in opened.blocks:
            summary.add_block(block)
            if host:
                told = probed.feed(block, final=final)
                yield from self._read_facts(host, told, piece, summary)
            if in_document:
                summary.watch.add_block(block)
            waiting.add(splitter.feed(block, final=final), splitter, part)
            if waiting.is_full:
                yield from waiting.match()
                part = waiting.begin(summary)
            if splitter.done and not host:
                break
        waiting.finish(opened)

    def _holds_log(self, document: Format, opened: OpenedPart, *, is_found: bool) -> bool:
        """Return True if messages of Kafka stand in a document in records that are read."""
        if opened.headless:
            return False
        head = opened.head[:_SEARCHED_BYTES]
        said = self.reader.messages.count(head)
        if document.is_host_log:
            # The found layout reads messages of Kafka, however its lines begin.
            return is_found and said >= _FEW_MESSAGES
        # A block of text in YAML may be a log, and lines may begin as comments do; what is told
        # of pods quotes a few lines at most.
        return said >= max(_FEW_MESSAGES, _LOG_SHARE * head.count(b"\n"))

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
        summary = _PieceSummary(piece, opened, [], self.reader)
        blocks = summary.pass_on(opened.blocks, is_searched=not document.is_host_log)
        lines = DocumentLines(() if piece.number else blocks)
        yield from self._read_facts(document, lines, piece, summary)
        lines.drain()
        if document.is_tree and lines.counts.bytes > MAX_WHOLE_BYTES:
            summary.note_cut()
        account = summary.to_account(lines.counts)
        account |= {"layouts": {document.name: lines.counts.records}, "document": True}
        account |= {"yearless": document.is_host_log, "forms": {}, "layout_stretches": []}
        account["patterns"] = find_patterns(opened.head.decode("utf-8", "replace"))
        yield _account_row(piece.file, piece.number, account)


def _digest(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the digest of a file whose parts are read by other splits."""
    try:
        digest = digest_file(split)
    except OSError:
        # The other splits of the file say that it is gone.
        return
    account = {"sha256": digest.hexdigest(), "heads": digest.prefixes}
    yield _account_row(split.file, -1, account)


class _Waiting:
    """What was extracted from the blocks of many pieces, until it is matched at once."""

    def __init__(self, reader: LogReader, writers: WriterCounter) -> None:
        self._reader, self._writers = reader, writers
        # the pieces whose records wait, by the number of their part
        self._pieces: list[_PieceSummary] = []
        self._extracted: list[pa.RecordBatch] = []
        self._bytes = self._named = 0

    def begin(self, piece: _PieceSummary) -> int:
        """Return the number of the part whose records are added from now on."""
        self._pieces.append(piece)
        return len(self._pieces) - 1

    def add(self, records: Records | None, splitter: Splitter, part: int) -> None:
        """Keep what is extracted from the records of a block, the last that a splitter took."""
        piece = self._pieces[part]
        piece.note_last_words(records, splitter)
        if records is None:
            piece.watch.add_lines(splitter.taken, np.zeros(0, np.int64))
            return
        piece.add_records(records, splitter)
        selected = self._reader.select(records)
        piece.watch.add_lines(splitter.taken, selected[0])
        extracted = self._reader.extract(records, part, selected)
        if len(extracted):
            self._extracted.append(extracted)
            self._bytes += extracted.nbytes
        if records.origins is not None:
            self._named += len(records.starts)

    def finish(self, opened: OpenedPart) -> None:
        """Say that the last piece was read to its end: once it is matched it has an account."""
        self._pieces[-1].finish(opened)

    @property
    def is_full(self) -> bool:
        """Return True if it is time to match."""
        many = len(self._pieces) > _MATCH_BATCH_PIECES or self._named > _MATCH_BATCH_NAMED
        return many or self._bytes > _MATCH_BATCH_BYTES

    def match(self) -> Iterator[pa.RecordBatch]:
        """Parse and match all that waits; yield events, and the accounts of pieces that ended."""
        pieces, extracted = self._pieces, self._extracted
        self._pieces, self._extracted, self._bytes, self._named = [], [], 0, 0
        if extracted:
            yield from self._match(pa.concat_batches(extracted), pieces)
        for piece in pieces:
            yield from piece.stage_last_words()
            piece.parts.forget_matched()
            if piece.counts is not None:
                yield _account_row(piece.file, piece.number, piece.to_account(piece.counts))

    def _match(
        self, extracted: pa.RecordBatch, pieces: Sequence[_PieceSummary]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events of each piece that has some."""
        entries = self._reader.parse(self._reader.prefilter(extracted))
        named = self._writers.find(entries["message"], entries["client"], entries["more"])
        parts, lines, offsets = (entries[name].to_numpy() for name in ("part", "line", "offset"))
        for part, rows in _split_rows(parts):
            pieces[part].parts.add_writers(named.take(rows), lines[rows], offsets[rows])
        events, parts = self._reader.match_parts(entries)
        watches = [piece.watch for piece in pieces]
        self._reader.messages.judge_eventless(watches, extracted, events, parts)
        for part, rows in _split_rows(parts, pc.equal(events["kind"], IMPOSSIBLE)):
            pieces[part].impossible += len(rows)
        for part, rows in _split_rows(parts, _find_clocks(events)):
            pieces[part].add_clocks(events.select(_CLOCK_COLUMNS).take(pa.array(rows)))
        news = find_news(events)
        states = list_states(events, news)
        for part, rows in _split_rows(parts[rows_where(news)]):
            pieces[part].regressions.add(states.slice(int(rows[0]), len(rows)))
        for part, rows in _split_rows(parts):
            yield pieces[part].stage(events.slice(int(rows[0]), len(rows)))


def _split_rows(parts: Rows, chosen: pa.Array | None = None) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of each part, in order, or the chosen ones of them."""
    rows = np.arange(len(parts)) if chosen is None else rows_where(chosen)
    rows = rows[np.argsort(parts[rows], kind="stable")]
    numbers = parts[rows]
    for some in np.split(rows, np.flatnonzero(np.diff(numbers)) + 1) if len(rows) else ():
        yield int(parts[some[0]]), some


def _find_clocks(events: pa.RecordBatch) -> pa.Array:
    """Mark the events that tell a moment by two clocks."""
    timed = pc.and_(events["epoch_ms"].is_valid(), events["ts"].is_valid())
    return pc.and_(timed, pc.equal(events["kind"], _CLOCK))


class _PieceSummary:
    """Collects the account of one piece."""

    def __init__(
        self,
        piece: FilePart,
        opened: OpenedPart,
        groups: list[list[Layout]],
        reader: LogReader,
    ) -> None:
        self.events = 0
        # events with a number beyond its column, and those at a time that no clock shows
        self.impossible = 0
        self._untimed = 0
        self._untimed_at: int | None = None
        self.is_host_log = False
        # lines that say what rules look for and gave no event
        self.watch = MessageWatch(reader.messages)
        # the lines that tell a moment by the clock of the process and since 1970
        self.clocks: list[tuple[int, int, int]] = []
        self.regressions = EpochRegressions()
        self._groups = groups
        self._times = TimeStatistics(groups)
        self._windows = opened.windows
        self._names = opened.windows.names if opened.windows else [""]
        self._piece = piece
        self.file, self.number = piece.file, piece.number
        # of all that was read, once it was
        self.counts: LineCounts | None = None
        self._digest = PrefixDigest() if piece.whole else None
        self.parts = PieceParts(groups)
        self._stretches = StretchCounter(groups)
        self._hows = opened.windows.hows if opened.windows else ["known"]
        self._rules = Counter[str]()
        self._layouts: dict[int, str | None] = {}
        self._first: int | None = None
        self._last: int | None = None
        self._notes: list[str] = []
        self._last_words: list[Row] = []
        # some lines of a file that no known layout reads
        self._unread: list[str] = []

    def pass_on(
        self, blocks: Iterator[tuple[bytes, bool]], *, is_searched: bool
    ) -> Iterator[bytes]:
        """Let the blocks of a document pass, digest them and look for messages in them."""
        for block, _ in blocks:
            self.add_block(block)
            if is_searched:
                self.watch.add_block(block)
            yield block

    def add_block(self, block: bytes) -> None:
        if self._digest:
            self._digest.update(block)

    def add_clocks(self, events: pa.RecordBatch) -> None:
        """Take events that tell a moment by two clocks."""
        moments = (events["line"], events["ts"].cast(pa.int64()), events["epoch_ms"])
        self.clocks += zip(*(one.to_pylist() for one in moments), strict=True)

    def stage(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Count events, and return them as rows of a scan."""
        self.events += len(events)
        if events["ts"].null_count:
            self._note_untimed(events.filter(events["ts"].is_null()))
        for count in events["rule"].value_counts().to_pylist():
            self._rules[count["values"]] += count["counts"]
        return _to_staged(events, self._piece, self.parts.voices_of(events["offset"].to_numpy()))

    def _note_untimed(self, events: pa.RecordBatch) -> None:
        """Count the lines that have a date, and yet no time that could be."""
        dated = pc.match_substring_regex(events["text"], _DATED)
        lines = pc.unique(events["line"].filter(pc.fill_null(dated, False))).to_pylist()
        self._untimed += len(lines)
        self._untimed_at = (
            min(lines, default=None) if self._untimed_at is None else self._untimed_at
        )

    def finish(self, opened: OpenedPart) -> None:
        """Note what is left to say once all is read."""
        self.counts = opened.splitter.counts
        if self.counts.lines and not self.number:
            self._note_head(opened)

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

    def note_last_words(self, records: Records | None, splitter: Splitter) -> None:
        """Keep what processes wrote as they ended, at the time of the record before it."""
        counted = 0
        for taken in splitter.taken:
            for before, lines in find_last_words(taken):
                at, above = counted + before - 1, (self._last, 0)
                if records is not None and 0 <= at < len(records.starts):
                    time = int(read_times(records, np.array([at], np.int64), self._groups)[0])
                    above = None if time == NO_TIME else time, int(records.offsets[at])
                self._last_words += [
                    row | {"ts": above[0], "offset": above[1]} for row in read_last_words(lines)
                ]
            counted += int(np.count_nonzero(taken.lines.kinds))

    def stage_last_words(self) -> Iterator[pa.RecordBatch]:
        """Yield what processes wrote as they ended."""
        if self._last_words:
            yield self.stage(to_batch(self._last_words))
            self._last_words = []

    def _note_head(self, opened: OpenedPart) -> None:
        """Note what is to be said of a file whose layout nobody knows."""
        if opened.headless or (opened.wrappers is not None and opened.wrappers.is_found):
            # A configuration may tell how it is written.
            lines = opened.head[:_UNREAD_BYTES].decode("utf-8", "replace").splitlines()
            self._unread = [line[:_UNREAD_CHARS] for line in lines if line.strip()][:_UNREAD_LINES]
        if opened.headless:
            self.note_unreadable(opened.head)

    def note_unreadable(self, head: bytes) -> None:
        if head.count(0) > len(head) * _BINARY_SHARE:
            self._notes.append("binary data, not a log")
        elif self.counts and not self.counts.records and not _LOG_SIGNS.search(head):
            self._notes.append(TEXT_NOTE)
        else:
            self._notes.append("no known log layout at its beginning")

    def note_cut(self) -> None:
        """Say that a document is longer than what is looked at."""
        self._notes.append(f"only its first {MAX_WHOLE_BYTES >> 20} MB were looked at")

    def to_account(self, counts: LineCounts) -> dict[str, Any]:
        self.watch.finish()
        if counts.long_lines:
            self._notes.append(f"{counts.long_lines} line(s) longer than 1 MB, read in part")
        if counts.glued_lines:
            self._notes.append(GLUED_NOTE)
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
            "untimed": self._untimed,
            "untimed_at": self._untimed_at,
            "unread_messages": self.watch.to_account(),
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
