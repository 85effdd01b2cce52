"""What one run has saved: findings.json and the tables, read no further than asked.

Takes the wrong of a node's clock off the times that it logged: zone, offset, drift and steps.

Times without a date, where the whole page is of one day.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

from forensics.lib.formatting import LEVELS, parse_millis, time_text
from forensics.schemas import scanned

Times = npt.NDArray[np.int64]

# What of the table of clocks tells how to correct.
CLOCK_COLUMNS = ("node", "offset_ms", "zone_shift_minutes", "stretches")


@dataclass(frozen=True)
class ClockCorrection:
    """What one clock showed too much, stretch by stretch; all times in milliseconds as logged."""

    # when each stretch but the first begins
    starts: tuple[int, ...]
    anchors: tuple[int, ...]
    offsets_ms: tuple[float, ...]
    drifts_ppm: tuple[float, ...]

    def max_offset(self, *moments: int) -> int:
        """Give how far off the clock may be near some moments, on whatever stretch."""
        return max(
            math.ceil(abs(offset) + abs(ppm) * (abs(moment - at) + abs(offset)) / 1e6)
            for at, offset, ppm in zip(self.anchors, self.offsets_ms, self.drifts_ppm, strict=True)
            for moment in moments
        )

    def offsets_at(self, moments: Times) -> Times:
        """Give what is to be taken off some moments."""
        begins = np.array(self.starts, np.int64)
        there = (moments[:, None] >= begins[None, :]).sum(axis=1)
        drifted = (
            np.array(self.drifts_ppm)[there]
            * (moments - np.array(self.anchors, np.int64)[there])
            / 1e6
        )
        off: Times = np.rint(np.array(self.offsets_ms)[there] + drifted).astype(np.int64)
        return off


def parse_correction(row: Mapping[str, Any]) -> ClockCorrection | None:
    """Read how to correct a node's times off its row of clocks; null: nothing is known."""
    stretches: Sequence[Mapping[str, Any]] | None = row["stretches"]
    if stretches:
        return ClockCorrection(
            tuple(_millis(one["since"]) for one in stretches[1:]),
            tuple(_millis(one["at"]) for one in stretches),
            tuple(one["offset_ms"] for one in stretches),
            tuple(one["drift_ppm"] for one in stretches),
        )
    # A clock that nothing tells of is no clock that is right; a zone can be known without it.
    offset, zone = row["offset_ms"], row["zone_shift_minutes"]
    if offset is None and not zone:
        return None
    return ClockCorrection((), (0,), (float((offset or 0) + (zone or 0) * 60_000),), (0.0,))


def corrected_times(events: pa.Table, known: Mapping[str, ClockCorrection]) -> Times:
    """Give the moments of events, which have a node and a time `ts` in milliseconds, corrected."""
    moments: Times = events["ts"].combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    nodes = events["node"].combine_chunks().cast(pa.string()).dictionary_encode()
    codes = pc.fill_null(nodes.indices, -1).to_numpy(zero_copy_only=False)
    for code, node in enumerate(nodes.dictionary.to_pylist()):
        if node in known:
            mine = codes == code
            moments[mine] -= known[node].offsets_at(moments[mine])
    return moments


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


INCIDENT_SEVERITIES = frozenset({"critical", "high", "medium"})
Row = dict[str, Any]
# Rows held at once by who reads a table in parts.
_PART = 50_000


@dataclass(frozen=True)
class Evidence:
    """One line of one input file, quoted."""

    file: str
    line: int | None
    text: str
    rule: str | None = None


@dataclass(frozen=True)
class Finding:
    """One finding as the page needs it; times are milliseconds in UTC."""

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
    # which limits were passed and by how much, why it is as sure as it says, what would make it
    # wrong, and whether it is new
    why: str = ""
    reason: str = ""
    doubts: tuple[str, ...] = ()
    status: str = ""
    # in how many weeks it was seen, the first of them, and until when somebody lives with it
    weeks_seen: int | None = None
    first_seen: str = ""
    accepted_until: str = ""

    @property
    def is_incident(self) -> bool:
        """Whether this alone makes the verdict an incident."""
        return self.severity in INCIDENT_SEVERITIES

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """Worst first, then by time, then by id."""
        place = LEVELS.index(self.severity) if self.severity in LEVELS else len(LEVELS)
        return place, self.start_ms or 0, self.id


@dataclass(frozen=True)
class RunOutput:
    """One output folder; a table that is missing reads as empty."""

    folder: Path
    document: Mapping[str, Any]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, worst first."""
        found = (_finding(row) for row in self.document.get("findings") or ())
        return tuple(sorted(found, key=lambda finding: finding.sort_key))

    @property
    def incidents(self) -> tuple[Finding, ...]:
        """The findings of level medium and above."""
        return tuple(finding for finding in self.findings if finding.is_incident)

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """From when to when there are log lines at all."""
        named = self.document.get("window") or {}
        start, end = parse_millis(named.get("from")), parse_millis(named.get("to"))
        return (start, end) if start is not None and end is not None and start < end else None

    @property
    def is_windowed(self) -> bool:
        """Whether only a window of the run is looked at, as a person has chosen."""
        return False

    @cached_property
    def short_digest(self) -> str:
        """What tells this report from others: the first letters of the digest of its findings."""
        held = self.folder / "findings.json"
        return sha256(held.read_bytes()).hexdigest()[:12] if held.is_file() else "not saved"

    @cached_property
    def clock_offsets(self) -> dict[str, int]:
        """How far each node's clock is from the reference, in milliseconds."""
        rows = self.rows("clocks", ["node", "offset_ms", "zone_shift_minutes"])
        # A clock that nothing tells of is no clock that is right; a zone can be known without it.
        return {
            str(row["node"]): (row["offset_ms"] or 0) + (row["zone_shift_minutes"] or 0) * 60_000
            for row in rows
            if row["offset_ms"] is not None or row["zone_shift_minutes"]
        }

    @cached_property
    def clock_corrections(self) -> dict[str, ClockCorrection]:
        """How to correct the times of each node whose clock is known."""
        rows = self.rows("clocks", CLOCK_COLUMNS)
        found = {str(row["node"]): parse_correction(row) for row in rows}
        return {node: one for node, one in found.items() if one}

    def correct_time(self, node: str | None, moment: int) -> int:
        """Give on the reference clock what a node logged at a moment; all in milliseconds."""
        known = self.clock_corrections.get(node or "")
        return moment - int(known.offsets_at(np.array([moment]))[0]) if known else moment

    @cached_property
    def files(self) -> list[Row]:
        """Every input file, by node and name; counts that are missing are zero."""
        rows = self.rows("files", FILE_COLUMNS)
        for row in rows:
            row.update({name: row[name] or 0 for name in FILE_COUNTS})
            for name in ("first_ts", "last_ts"):
                row[name] = None if row[name] is None else self.correct_time(row["node"], row[name])
        return sorted(rows, key=lambda row: (row["node"] or "", row["file"] or ""))

    def has_table(self, name: str) -> bool:
        """Whether a table of that name was saved."""
        return (self.folder / "tables" / name).is_dir()

    def column_names(self, name: str) -> list[str]:
        """The columns that a saved table has."""
        data = self.dataset(name)
        return list(data.schema.names) if data else []

    def table(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> pa.Table:
        """Read some columns and rows; times come as milliseconds, missing columns as nulls."""
        data = self.dataset(name)
        if data is None:
            return pa.table({column: pa.nulls(0) for column in columns})
        have = set(data.schema.names)
        read = data.to_table(columns=[column for column in columns if column in have], filter=where)
        return _plain(read, columns)

    def chunks(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> Iterator[pa.Table]:
        """Read as `table` does, part by part: for tables that grow with the archive."""
        data = self.dataset(name)
        if data is None:
            return
        have = [column for column in columns if column in set(data.schema.names)]
        for batch in scanned(data, have, where, _PART):
            yield _plain(pa.Table.from_batches([batch]), columns)

    def count_rows(self, name: str, where: ds.Expression | None = None) -> int:
        """Count rows without reading them all into memory."""
        data = self.dataset(name)
        return data.count_rows(filter=where) if data is not None else 0

    @cached_property
    def partition_count(self) -> int:
        """How many partitions there are whose leaders are known or asked for."""
        keys = ["topic", "partition"]
        found = pa.table(
            {"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32())}
        )
        for part in self.chunks("leadership", keys):
            found = pa.concat_tables([found, part.group_by(keys).aggregate([])])
        return int(found.group_by(keys).aggregate([]).num_rows)

    def rows(
        self, name: str, columns: Sequence[str], where: ds.Expression | None = None
    ) -> list[Row]:
        """Read some columns and rows as dictionaries."""
        rows: list[Row] = self.table(name, columns, where).to_pylist()
        return rows

    def dataset(self, name: str) -> ds.Dataset | None:
        """Open a table as it is; null where it was not saved."""
        if not self.has_table(name):
            return None
        data = ds.dataset(self.folder / "tables" / name, format="parquet", partitioning="hive")
        return data if data.schema.names else None


FILE_COUNTS = (
    "bytes", "lines", "records", "continuation_lines", "blank_lines", "unparsed_lines",
    "duplicate_lines", "events",
)  # fmt: skip
FILE_COLUMNS = (
    "file", "node", "role", "layout", "kafka_version", "first_ts", "last_ts", "damaged", "sha256",
    *FILE_COUNTS,
)  # fmt: skip


def load_run(out: Path) -> RunOutput:
    """Open one output folder."""
    return RunOutput(out, json.loads((out / "findings.json").read_text(encoding="utf-8")))


def _plain(read: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Give the columns that were asked for, times as milliseconds, what is missing as nulls."""
    have = set(read.column_names)
    values = [
        _in_millis(read.column(column)) if column in have else pa.nulls(read.num_rows)
        for column in columns
    ]
    return pa.table(values, names=list(columns))


def _in_millis(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_timestamp(column.type):
        return column
    # Floor, so that a microsecond never moves a line into the next bin.
    coarse = pc.floor_temporal(column, unit="millisecond")
    return coarse.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())


def _finding(row: Mapping[str, Any]) -> Finding:
    return Finding(
        id=str(row.get("id") or ""),
        detector=str(row.get("detector") or ""),
        severity=str(row.get("severity") or "info"),
        confidence=str(row.get("confidence") or "possible"),
        title=str(row.get("title") or ""),
        start_ms=parse_millis(row.get("from")),
        end_ms=parse_millis(row.get("to")),
        brokers=tuple(row.get("brokers") or ()),
        partitions=tuple(map(str, row.get("partitions") or ())),
        clients=tuple(map(str, row.get("clients") or ())),
        measures=row.get("measures") or {},
        evidence=tuple(map(_proof, row.get("evidence") or ())),
        explanation=str(row.get("explanation") or ""),
        actions=tuple(map(str, row.get("actions") or ())),
        why=str(row.get("why") or ""),
        reason=str(row.get("confidence_reason") or ""),
        doubts=tuple(map(str, row.get("doubts") or ())),
        status=str(row.get("state") or ""),
        weeks_seen=weeks if isinstance(weeks := row.get("weeks"), int) else None,
        first_seen=str(row.get("first_seen") or ""),
        accepted_until=str(row.get("accepted_until") or ""),
    )


def _proof(row: Mapping[str, Any]) -> Evidence:
    rule = str(row.get("rule") or "").partition("@")[0] or None
    return Evidence(str(row.get("file") or ""), row.get("line"), str(row.get("text") or ""), rule)


def short_time(run: RunOutput, moment: int | None, *, exact: bool = False) -> str:
    """Say a time; the date only where the logs are of more than one day."""
    text = time_text(moment, exact=exact)
    days = {time_text(edge)[:10] for edge in run.window or ()}
    return text[11:] if moment is not None and days == {text[:10]} else text
