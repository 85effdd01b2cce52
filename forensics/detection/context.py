"""What a detector may look at: the saved tables, read in parts, and the small things at hand.

Tables of events, leadership and ISR grow with the archive. `rows` and `events` are for what is few
whatever the size; all else is read with `each`, which holds a few thousand rows at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypedDict, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.confidence import rate_confidence
from forensics.detection.kafka_cli import KafkaCli
from forensics.detection.requirements import Visibility
from forensics.history.nodes.broker_states import Absence
from forensics.history.rebuild import History
from forensics.run_output.findings import Finding, PartitionLoss
from forensics.run_output.reader import Tables

Row = dict[str, Any]
# Of the partitions that one finding is about, so many give it their lines.
MAX_QUOTED_PARTITIONS = 200
# Rows held at once by who reads a whole table.
_HELD = 10_000


class FindingDetails(TypedDict, total=False):
    """The fields of `Finding` that a detector may leave out."""

    brokers: Sequence[int]
    partitions: Sequence[str]
    clients: Sequence[str]
    measures: Mapping[str, Any]
    losses: Sequence[PartitionLoss]
    explanation: str
    actions: Sequence[str]
    why: str
    doubts: Sequence[str]


@dataclass(frozen=True)
class DetectionContext:
    """Tables, history and limits of one run."""

    tables: Tables
    history: History
    limits: Mapping[str, Mapping[str, Any]]

    def rows(
        self, table: str, where: pc.Expression, columns: Sequence[str] | None = None
    ) -> list[Row]:
        """Read some rows of a table, times as microseconds; events get `at`, the corrected time."""
        return list(self.each(table, where, columns))

    def each(
        self, table: str, where: pc.Expression | None, columns: Sequence[str] | None = None
    ) -> Iterator[Row]:
        """Read rows as `rows` does, a few at a time, in the order of the table."""
        for batch in self.tables.scan(table, columns, where, _HELD):
            yield from self._rows(pa.Table.from_batches([batch]))

    def batches(
        self, table: str, where: pc.Expression | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read a table as Arrow does: for questions about so many rows that each costs too much."""
        yield from self.tables.scan(table, columns, where, _HELD)

    def first_rows(self, table: str, limit: int, where: pc.Expression | None = None) -> list[Row]:
        """Read the first rows of a table that may be as long as the archive, or may be missing."""
        return list(islice(self.each(table, where), limit))

    def count_beyond(self, table: str, limit: int, where: pc.Expression | None = None) -> int:
        """Count the rows that `some` leaves out: what is not looked at must be said."""
        return max(0, self.tables.count_rows(table, where) - limit)

    def first_events(self, kind: str, limit: int, where: pc.Expression) -> list[Row]:
        """Read the first events of a kind by corrected time, of however many there are."""
        columns = ["ts", "node", "file", "line", "text", "rule"]
        chosen = (pc.field("kind") == kind) & pc.field("ts").is_valid() & where
        return heapq.nsmallest(limit, self.each("events", chosen, columns), key=by_time)

    def _rows(self, found: pa.Table) -> list[Row]:
        for at, field in enumerate(found.schema):
            if pa.types.is_timestamp(field.type):
                found = found.set_column(at, field.name, found[at].cast(pa.int64()))
        rows: list[Row] = found.to_pylist()
        for row in rows:
            if "ts" in row and row["ts"] is not None:
                row["at"] = self.history.clocks.event_time(row)
        return rows

    def events(self, *kinds: str, where: pc.Expression | None = None) -> list[Row]:
        """Read the events of some kinds, by corrected time; an event without a time is left out."""
        chosen = pc.field("kind").isin(list(kinds))
        rows = self.rows("events", chosen if where is None else chosen & where)
        timed = [row for row in rows if "at" in row]
        return sorted(timed, key=by_time)

    def is_live(self, row: Mapping[str, Any]) -> bool:
        """Whether an event is told as it happened, by who is not just reading up on the past.

        The row needs `telling`, `node` and `ts` (as `each` reads them).
        """
        told = row["telling"]
        replaying = self.history.context.startups.is_replaying(row["node"] or "", row["ts"])
        return told is None or (told == "replay" and not replaying)

    def read_lines(self, evidence: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Look up the text of places that a table names."""
        wanted = {(one["file"], one["line"]) for one in evidence}
        if not wanted:
            return []
        names, numbers = (sorted(set(one)) for one in zip(*wanted, strict=True))
        file, line = pc.field("file"), pc.field("line")
        # The bounds say no more, but whole parts of the table can be passed over by them.
        where = file.isin(names) & (file >= names[0]) & (file <= names[-1])
        where &= line.isin(numbers) & (line >= numbers[0]) & (line <= numbers[-1])
        columns = ["file", "line", "text", "rule", "ts", "node"]
        found = self.each("events", where, columns)
        return [row for row in found if (row["file"], row["line"]) in wanted]

    @cached_property
    def last_logged(self) -> Mapping[str, int]:
        """The last moment that each node's files speak of, as logged."""
        found: dict[str, int] = {}
        for row in self.rows("files", pc.field("last_ts").is_valid(), ["node", "last_ts"]):
            node = row["node"] or ""
            found[node] = max(row["last_ts"], found.get(node, row["last_ts"]))
        return found

    @cached_property
    def logs_end(self) -> int:
        """The last moment that any file speaks of."""
        columns = ["node", "last_ts"]
        rows = self.rows("files", pc.field("last_ts").is_valid(), columns)
        clocks = self.history.clocks
        return max((clocks.correct(row["node"], row["last_ts"]) for row in rows), default=0)

    @cached_property
    def visibility(self) -> Visibility:
        """What the archive lets anyone see."""
        return Visibility(self.tables)

    @cached_property
    def commands(self) -> KafkaCli:
        """What to type on this cluster."""
        servers = (row for row in self.visibility.files if row["role"] in ("broker", "controller"))
        versions = (row["kafka_version"] for row in servers)
        return KafkaCli.for_versions(versions, kraft=self.history.context.kraft)

    def confidence(
        self,
        begin: int,
        end: int,
        evidence: Iterable[Mapping[str, Any]],
        *,
        stated: bool,
        apart: int | None = None,
    ) -> tuple[str, str]:
        """Return the confidence of a finding and its reason, as `rate_confidence` has them."""
        return rate_confidence(
            self.history.clocks, self.visibility, begin, end, evidence, stated=stated, apart=apart
        )

    def finding(  # noqa: PLR0913, PLR0917
        self,
        detector: str,
        severity: str,
        title: str,
        begin: int,
        end: int,
        evidence: Sequence[Mapping[str, Any]],
        *,
        stated: bool = True,
        apart: int | None = None,
        confidence: tuple[str, str] | None = None,
        **details: Unpack[FindingDetails],
    ) -> Finding:
        """Build a finding; its confidence follows from the evidence, as `confidence` rates it.

        `stated` and `apart` are those of `confidence`, all else are fields of `Finding`. A
        detector that rates its confidence by another rule gives it, with the reason.
        """
        level, reason = confidence or self.confidence(
            begin, end, evidence, stated=stated, apart=apart
        )
        return Finding(
            detector, severity, level, title, begin, end, evidence, reason=reason, **details
        )

    @property
    def absences(self) -> Sequence[Absence]:
        """Every absence of every broker."""
        return self.history.lanes.absences


def by_time(row: Row) -> tuple[Any, ...]:
    """Order events by corrected time, and by place where that is the same."""
    return row["at"], row["node"] or "", row["line"], row["text"], row["file"]


def group_by_gap(rows: Iterable[Row], gap: float, begin: str = "started_at") -> list[list[Row]]:
    """Group rows that follow each other within `gap` seconds."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda one: (one[begin], one["topic"], one["partition"])):
        if groups and row[begin] - groups[-1][-1][begin] <= gap * 1_000_000:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def partition_name(row: Mapping[str, Any]) -> str:
    """Name a partition as Kafka's tools do."""
    return f"{row['topic']}-{row['partition']}"
