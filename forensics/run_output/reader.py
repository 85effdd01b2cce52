"""Reads the output folder of a run: its tables and findings.json.

`Tables` gives the tables as they were written, times in microseconds. `RunOutput` gives them as the
report needs them: times in milliseconds, corrected by what is known of the clocks.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.errors import ForensicsError
from forensics.lib.arrow_io import read_batches
from forensics.lib.node_ids import name_clients
from forensics.lib.text_format import parse_millis, time_text
from forensics.run_output.findings import INCIDENT_SEVERITIES, PartitionLoss, severity_rank
from forensics.run_output.integrity import (
    FINDINGS_FILE,
    check_tables,
    naming_table,
    read_document,
    refuse_unfinished,
)
from forensics.run_output.remote_folder import place_name

Times = npt.NDArray[np.int64]

# The columns of the table of clocks that a correction is made of.
CLOCK_COLUMNS = ("node", "offset_ms", "zone_shift_minutes", "stretches")


@dataclass(frozen=True)
class ClockCorrection:
    """How far one clock was ahead, segment by segment; times in milliseconds as logged."""

    # when each segment but the first begins
    starts: tuple[int, ...]
    anchors: tuple[int, ...]
    offsets_ms: tuple[float, ...]
    drifts_ppm: tuple[float, ...]

    def max_offset(self, *times: int) -> int:
        """Return how far off the clock may be near some times, in whatever segment."""
        return max(
            math.ceil(abs(offset) + abs(ppm) * (abs(time - anchor) + abs(offset)) / 1e6)
            for anchor, offset, ppm in zip(
                self.anchors, self.offsets_ms, self.drifts_ppm, strict=True
            )
            for time in times
        )

    def offsets_at(self, times: Times) -> Times:
        """Return what to subtract from some times."""
        segments = (times[:, None] >= np.array(self.starts, np.int64)[None, :]).sum(axis=1)
        since_anchor = times - np.array(self.anchors, np.int64)[segments]
        drifted = np.array(self.drifts_ppm)[segments] * since_anchor / 1e6
        offsets: Times = np.rint(np.array(self.offsets_ms)[segments] + drifted).astype(np.int64)
        return offsets

    def offset_at(self, time: int) -> int:
        """Return what to subtract from one time."""
        segment = sum(time >= start for start in self.starts)
        drifted = self.drifts_ppm[segment] * (time - self.anchors[segment]) / 1e6
        return round(self.offsets_ms[segment] + drifted)


def parse_correction(row: Mapping[str, Any]) -> ClockCorrection | None:
    """Read the correction of a node's times from its row of clocks; None if nothing is known."""
    if segments := row["stretches"]:
        return ClockCorrection(
            tuple(_millis(segment["since"]) for segment in segments[1:]),
            tuple(_millis(segment["at"]) for segment in segments),
            tuple(segment["offset_ms"] for segment in segments),
            tuple(segment["drift_ppm"] for segment in segments),
        )
    offset = _offset(row)
    return None if offset is None else ClockCorrection((), (0,), (float(offset),), (0.0,))


def _offset(row: Mapping[str, Any]) -> int | None:
    """Return offset and zone shift in milliseconds; None if neither is known.

    A clock without a known offset is not a right one, but its zone may be known.
    """
    offset, zone = row["offset_ms"], row["zone_shift_minutes"]
    return None if offset is None and not zone else (offset or 0) + (zone or 0) * 60_000


def corrected_times(events: pa.Table, corrections: Mapping[str, ClockCorrection]) -> Times:
    """Return the corrected times of events with a `node` and a time `ts` in milliseconds."""
    times: Times = events["ts"].combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    nodes = events["node"].combine_chunks().cast(pa.string()).dictionary_encode()
    codes = pc.fill_null(nodes.indices, -1).to_numpy(zero_copy_only=False)
    for code, node in enumerate(nodes.dictionary.to_pylist()):
        if node in corrections:
            logged_by_node = codes == code
            times[logged_by_node] -= corrections[node].offsets_at(times[logged_by_node])
    return times


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


FILE_COUNTS = (
    "bytes", "lines", "records", "continuation_lines", "blank_lines", "unparsed_lines",
    "duplicate_lines", "events",
)  # fmt: skip
FILE_COLUMNS = (
    "file", "node", "role", "layout", "kafka_version", "first_ts", "last_ts", "damaged", "sha256",
    *FILE_COUNTS,
)  # fmt: skip
Row = dict[str, Any]
# Rows of a chunk.
_CHUNK_ROWS = 50_000
# A table is held in memory from so many questions on; a row of events takes some 600 bytes.
_OFTEN, _MAX_HELD_ROWS = 4, 300_000


@dataclass(frozen=True)
class Tables:
    """The tables of a run, each a folder of Parquet files; a missing table reads as empty."""

    folder: Path

    def __getstate__(self) -> dict[str, Path]:
        """Hand on where the tables are, and not what was read of them."""
        return {"folder": self.folder}

    @cached_property
    def _datasets(self) -> dict[str, ds.Dataset]:
        return {}

    def dataset(self, name: str) -> ds.Dataset | None:
        """Open a table; None if it was not saved."""
        if name not in self._datasets and self.has(name):
            path = self.folder / name
            with naming_table(path):
                self._datasets[name] = ds.dataset(path, format="parquet", partitioning="hive")
        data = self._datasets.get(name)
        return data if data and data.schema.names else None

    def _open(self, name: str) -> ds.Dataset | None:
        """Open a table to read some rows of it; one that is read often is held in memory.

        Some two hundred questions are asked of the events, most about a few of them, and a file of
        Parquet has to be decoded anew for each.
        """
        data = self.dataset(name)
        if data is None or isinstance(data, ds.InMemoryDataset):
            return data
        self._times_read[name] += 1
        if self._times_read[name] == _OFTEN:
            with naming_table(self.folder / name):
                if data.count_rows() <= _MAX_HELD_ROWS:
                    self._datasets[name] = ds.InMemoryDataset(data.to_table())
        return self._datasets[name]

    @cached_property
    def _times_read(self) -> Counter[str]:
        return Counter()

    def has(self, name: str) -> bool:
        """Return True if a table was saved."""
        return (self.folder / name).is_dir()

    def names(self) -> list[str]:
        """Return the names of all saved tables."""
        folders = self.folder.iterdir() if self.folder.exists() else ()
        return sorted(path.name for path in folders if path.is_dir())

    def column_names(self, name: str) -> list[str]:
        """Return the columns of a table."""
        data = self.dataset(name)
        return list(data.schema.names) if data else []

    def scan(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: ds.Expression | None = None,
        rows: int = _CHUNK_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield a table in batches, as it was written, in bounded memory."""
        data = self._open(name)
        if data is None:
            return
        with naming_table(self.folder / name):
            yield from read_batches(data, columns, where, rows)

    def read(
        self, name: str, wanted: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> pa.Table:
        """Read a table at once, as it was written; columns that it lacks are nulls."""
        data = self.dataset(name)
        columns = self.column_names(name) if wanted is None else wanted
        if data is None:
            return pa.table({column: pa.nulls(0) for column in columns})
        have = [column for column in data.schema.names if column in columns]
        with naming_table(self.folder / name):
            return _with_nulls(data.to_table(have, filter=where), columns)

    def count_rows(self, name: str, where: ds.Expression | None = None) -> int:
        """Count rows without holding them in memory."""
        data = self._open(name)
        with naming_table(self.folder / name):
            return data.count_rows(filter=where) if data else 0


@dataclass(frozen=True)
class Evidence:
    """One line of one input file, quoted."""

    file: str
    line: int | None
    text: str
    rule: str | None = None


@dataclass(frozen=True)
class SavedFinding:
    """A finding as read from findings.json; times in milliseconds of UTC."""

    id: str
    detector: str
    severity: str
    confidence: str
    title: str
    start_ms: int | None
    end_ms: int | None
    brokers: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    measures: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    explanation: str = ""
    actions: tuple[str, ...] = ()
    # the thresholds that were passed, the reason of the confidence, other explanations, and
    # whether it is new
    why: str = ""
    reason: str = ""
    doubts: tuple[str, ...] = ()
    status: str = ""
    # in how many weeks it was seen, the first of them, and until when it is accepted
    weeks_seen: int | None = None
    first_seen: str = ""
    accepted_until: str = ""

    @cached_property
    def losses(self) -> Sequence[PartitionLoss]:
        """What each partition lost; empty for findings of any other trouble."""
        rows = self.measures.get("partitions")
        return [
            PartitionLoss.from_json(row)
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, dict) and "lost_from" in row
        ]

    @property
    def is_incident(self) -> bool:
        """Return True if this alone makes the verdict an incident."""
        return self.severity in INCIDENT_SEVERITIES

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """Order by severity, the worst first, then by time, then by id."""
        return severity_rank(self.severity), self.start_ms or 0, self.id


@dataclass(frozen=True)
class RunOutput:
    """One output folder; a missing table reads as empty."""

    folder: Path
    document: Mapping[str, Any]

    def __getstate__(self) -> dict[str, object]:
        """Hand on what it is made of, and not what was read since."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def place(self) -> str:
        """Where the folder is, for people: its address, if this is the copy of one."""
        return place_name(self.folder)

    @cached_property
    def tables(self) -> Tables:
        """The tables as they were written, times in microseconds."""
        return Tables(self.folder / "tables")

    @cached_property
    def findings(self) -> tuple[SavedFinding, ...]:
        """All findings, worst first."""
        findings = (_finding(row) for row in self.document.get("findings") or ())
        return tuple(sorted(findings, key=lambda finding: finding.sort_key))

    @cached_property
    def incidents(self) -> tuple[SavedFinding, ...]:
        """The findings of severity medium and above."""
        return tuple(finding for finding in self.findings if finding.is_incident)

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """The times of the first and the last log line; None if no line has a time."""
        named = self.document.get("window") or {}
        start, end = parse_millis(named.get("from")), parse_millis(named.get("to"))
        return (start, end) if start is not None and end is not None and start < end else None

    @property
    def is_windowed(self) -> bool:
        """Return True if the user has chosen to see only a window of the run."""
        return False

    @property
    def logs_end(self) -> int | None:
        """The time of the last log line, whatever window of the run is looked at."""
        return self.window[1] if self.window else None

    @cached_property
    def short_digest(self) -> str:
        """The first letters of the SHA-256 of findings.json, by which reports are told apart."""
        path = self.folder / "findings.json"
        return sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else "not saved"

    @cached_property
    def clock_offsets(self) -> dict[str, int]:
        """How far each node's clock is ahead of the reference, in milliseconds."""
        rows = self.rows("clocks", CLOCK_COLUMNS)
        return {str(row["node"]): off for row in rows if (off := _offset(row)) is not None}

    @cached_property
    def clock_corrections(self) -> dict[str, ClockCorrection]:
        """The corrections of the nodes whose clock is known."""
        rows = self.rows("clocks", CLOCK_COLUMNS)
        return {str(row["node"]): known for row in rows if (known := parse_correction(row))}

    def correct_time(self, node: str | None, time: int) -> int:
        """Return a node's logged time by the reference clock; both in milliseconds."""
        correction = self.clock_corrections.get(node or "")
        return time - correction.offset_at(time) if correction else time

    @cached_property
    def files(self) -> list[Row]:
        """The input files, by node and name; missing counts are zero."""
        rows = self.rows("files", FILE_COLUMNS)
        for row in rows:
            row.update({name: row[name] or 0 for name in FILE_COUNTS})
            for name in ("first_ts", "last_ts"):
                row[name] = None if row[name] is None else self.correct_time(row["node"], row[name])
        return sorted(rows, key=lambda row: (row["node"] or "", row["file"] or ""))

    def table(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> pa.Table:
        """Read some columns and rows; times in milliseconds, missing columns as nulls."""
        return _in_millis(self.tables.read(name, columns, where))

    def chunks(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Yield what `table` reads in chunks: for tables that grow with the archive."""
        have = [column for column in self.tables.column_names(name) if column in columns]
        for batch in self.tables.scan(name, have, where):
            yield _in_millis(_with_nulls(pa.Table.from_batches([batch]), columns))

    def count_rows(self, name: str, where: ds.Expression | None = None) -> int:
        """Count rows without holding them in memory."""
        return self.tables.count_rows(name, where)

    @cached_property
    def partition_count(self) -> int:
        """The number of partitions in the table of leadership."""
        keys = ["topic", "partition"]
        chunks = [rows.group_by(keys).aggregate([]) for rows in self.chunks("leadership", keys)]
        return len(pa.concat_tables(chunks).group_by(keys).aggregate([])) if chunks else 0

    def rows(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> list[Row]:
        """Read what `table` reads as dictionaries."""
        rows: list[Row] = self.table(name, columns, where).to_pylist()
        return rows


def open_run(out: Path) -> RunOutput:
    """Open the output folder of a postmortem that came to its end, after checking all of it.

    Raises ForensicsError, with the file, if it is none, is half of one, or is damaged.
    """
    if not (out / FINDINGS_FILE).is_file():
        refuse_unfinished(out, whole=not (out / "tables").is_dir())
        raise ForensicsError(
            f"{place_name(out)} is no output folder of a postmortem: it has no findings.json. Make"
            " one with kafka-forensics postmortem ARCHIVE... -o OUT."
        )
    document = read_document(out / FINDINGS_FILE)
    # A week of a store and a redacted copy are written whole or not at all, and have no result.
    whole = (out / "week.json").is_file() or "redaction" in document
    refuse_unfinished(out, whole=whole or not (out / "tables" / "checks").is_dir())
    check_tables(out / "tables")
    return RunOutput(out, document)


def load_run(out: Path) -> RunOutput:
    """Open an output folder that this program has just written."""
    return RunOutput(out, json.loads((out / FINDINGS_FILE).read_text(encoding="utf-8")))


def _with_nulls(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the columns in order; those that the table lacks are nulls."""
    have = set(table.column_names)
    values = [table[name] if name in have else pa.nulls(table.num_rows) for name in columns]
    return pa.table(values, names=list(columns))


def _in_millis(table: pa.Table) -> pa.Table:
    """Turn timestamps into milliseconds, rounded down: a microsecond never changes the bin."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            floored = pc.floor_temporal(table[at], unit="millisecond")
            times = floored.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
            table = table.set_column(at, column.name, times.cast(pa.int64()))
    return table


def _finding(row: Mapping[str, Any]) -> SavedFinding:
    return SavedFinding(
        id=str(row.get("id") or ""),
        detector=str(row.get("detector") or ""),
        severity=str(row.get("severity") or "info"),
        confidence=str(row.get("confidence") or "possible"),
        title=name_clients(str(row.get("title") or "")),
        start_ms=parse_millis(row.get("from")),
        end_ms=parse_millis(row.get("to")),
        brokers=tuple(row.get("brokers") or ()),
        partitions=tuple(map(str, row.get("partitions") or ())),
        clients=tuple(map(str, row.get("clients") or ())),
        measures=row.get("measures") or {},
        evidence=tuple(map(_evidence, row.get("evidence") or ())),
        explanation=name_clients(str(row.get("explanation") or "")),
        actions=tuple(name_clients(str(one)) for one in row.get("actions") or ()),
        why=str(row.get("why") or ""),
        reason=str(row.get("confidence_reason") or ""),
        doubts=tuple(map(str, row.get("doubts") or ())),
        status=str(row.get("state") or ""),
        weeks_seen=weeks if isinstance(weeks := row.get("weeks"), int) else None,
        first_seen=str(row.get("first_seen") or ""),
        accepted_until=str(row.get("accepted_until") or ""),
    )


def _evidence(row: Mapping[str, Any]) -> Evidence:
    rule = str(row.get("rule") or "").partition("@")[0] or None
    return Evidence(str(row.get("file") or ""), row.get("line"), str(row.get("text") or ""), rule)


def short_time(run: RunOutput, time: int | None, *, exact: bool = False) -> str:
    """Format a time, without the date if all logs are of one day."""
    text = time_text(time, exact=exact)
    days = {time_text(edge)[:10] for edge in run.window or ()}
    return text[11:] if time is not None and days == {text[:10]} else text
