"""Reads a document block by block into events, with every line counted; or a log's host lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from forensics.events.support_files.facts import Line, Row, read_moment
from forensics.events.support_files.file_kinds import Format
from forensics.ingest.record_splitter import LineCounts
from forensics.lib.secrets import mask_column
from forensics.parsing.entries import MAX_TEXT_BYTES
from forensics.schemas import EVENTS

# So much of a line is looked at; the rest is only counted.
_MAX_LINE = 1 << 20
_BATCH = 20_000
# What a tool printed holds for the moment at which it ran: some note it in the name of the file.
_OF_A_MOMENT = ("partition_described", "quorum_described", "quorum_replica_described")
_TIME_IN_NAME = re.compile(
    r"(?P<day>20\d\d-?[01]\d-?[0-3]\d)[T_-](?P<hour>[0-2]\d)[:_-]?(?P<minute>[0-5]\d)"
    r"[:_-]?(?P<second>[0-5]\d)Z"
)


class DocumentLines:
    """The lines of some blocks, counted as they are read.

    The first line that is not blank is the record, all others belong to it.
    """

    def __init__(self, blocks: Iterable[bytes], begin: int = 0, limit: int | None = None) -> None:
        """Read from the start of a line, and no line that begins at `limit` or behind it."""
        self.counts = LineCounts()
        self._blocks, self._offset, self._limit = blocks, begin, limit

    def __iter__(self) -> Iterator[Line]:
        """Yield every line, without its line break."""
        for raw, size in _cut_lines(self._blocks):
            if self._limit is not None and self._offset >= self._limit:
                return
            self._count(raw, size)
            text = raw.decode("utf-8", "replace").rstrip("\r")
            if not self._offset:
                text = text.removeprefix("\ufeff")
            yield Line(self.counts.lines, self._offset, text)
            self._offset += size

    def drain(self) -> None:
        """Count what no reader has asked for."""
        for _ in self:
            pass

    def _count(self, raw: bytes, size: int) -> None:
        counts = self.counts
        counts.bytes += size
        counts.lines += 1
        counts.long_lines += size > _MAX_LINE
        if not raw.strip():
            counts.blank_lines += 1
        elif counts.records:
            counts.continuation_lines += 1
        else:
            counts.records = 1


def _cut_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line, cut where it is too long, and its size with the line break."""
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        lines = block.split(b"\n")
        for line in lines[:-1]:
            yield b"".join([*parts, line])[:_MAX_LINE], size + len(line) + 1
            parts, size = [], 0
        if size < _MAX_LINE:
            parts.append(lines[-1])
        size += len(lines[-1])
    if size:
        yield b"".join(parts)[:_MAX_LINE], size


class ProbedLines:
    """The few lines of a log that hold a probe, with their numbers in the whole file."""

    def __init__(self, probe: re.Pattern[bytes]) -> None:
        self._probe = probe
        self._tail = b""
        self._number, self._offset = 1, 0

    def feed(self, block: bytes, *, final: bool) -> Iterator[Line]:
        """Take the next block; yield the lines that are complete now."""
        text = self._tail + block
        end = len(text) if final else text.rfind(b"\n") + 1
        seen = 0
        for found in self._probe.finditer(text, 0, end):
            start = text.rfind(b"\n", 0, found.start()) + 1
            if start < seen:
                continue
            self._number += text.count(b"\n", seen, start)
            stop = text.find(b"\n", found.start(), end)
            stop = end if stop < 0 else stop
            line = text[start : min(stop, start + _MAX_LINE)].decode("utf-8", "replace")
            yield Line(self._number, self._offset + start, line.rstrip("\r"))
            self._number += 1
            seen = min(stop + 1, end)
        self._number += text.count(b"\n", seen, end)
        self._offset += end
        self._tail = text[end:]
        if len(self._tail) > _MAX_LINE:
            # Nothing that is looked for is so long: what follows is a part of the same line.
            self._offset += len(self._tail)
            self._tail = b""


def read_events(format_: Format, lines: Iterable[Line], file: str) -> Iterator[pa.RecordBatch]:
    """Yield what a document states as events; secrets in the lines it quotes are masked."""
    moment = _moment_of(file)
    rows: list[Row] = []
    for row in format_.read(lines):
        if row["ts"] is None and row["kind"] in _OF_A_MOMENT:
            row["ts"] = moment
        rows.append(row)
        if len(rows) == _BATCH:
            yield _to_batch(rows)
            rows = []
    if rows:
        yield _to_batch(rows)


def _to_batch(rows: list[Row]) -> pa.RecordBatch:
    rows = sorted(rows, key=lambda row: row["offset"])
    columns: dict[str, pa.Array] = {}
    for field in EVENTS:
        values: list[Any] = [row.get(field.name) for row in rows]
        columns[field.name] = pa.array(values, field.type)
    columns["text"] = mask_column(
        pa.array([row["text"].encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore") for row in rows])
    )
    for name in ("detail", "value"):
        columns[name] = mask_column(columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)


def _moment_of(file: str) -> int | None:
    """Return the moment that stands in the name of a file, in UTC.

    >>> _moment_of("b.tgz!a/topics-2026-11-18T113845Z.txt") == _moment_of("20261118_113845Z")
    True
    """
    found = _TIME_IN_NAME.search(re.split(r"[/!]", file)[-1])
    if not found:
        return None
    digits = found["day"].replace("-", "")
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"
    return read_moment(f"{day}T{found['hour']}:{found['minute']}:{found['second']}Z")
