"""What a detector may look at: the saved tables, read in parts, and the small things at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history import Past
from forensics.history.lanes import Absence

__all__ = ["Case", "name_of", "strokes"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Tables, history and limits of one run."""

    tables: Path
    past: Past
    limits: Mapping[str, Mapping[str, Any]]

    def rows(
        self, table: str, where: pc.Expression, columns: Sequence[str] | None = None
    ) -> list[Row]:
        """Read some rows of a table, times as microseconds; events get `at`, the corrected time."""
        data = ds.dataset(self.tables / table, format="parquet")
        found = data.to_table(columns=list(columns) if columns else None, filter=where)
        for at, field in enumerate(found.schema):
            if pa.types.is_timestamp(field.type):
                found = found.set_column(at, field.name, found[at].cast(pa.int64()))
        rows: list[Row] = found.to_pylist()
        for row in rows:
            if "ts" in row and row["ts"] is not None:
                row["at"] = self.past.clocks.correct(row["node"], row["ts"])
        return rows

    def events(self, *kinds: str, where: pc.Expression | None = None) -> list[Row]:
        """Read the events of some kinds, by corrected time; an event without a time is left out."""
        chosen = pc.field("kind").isin(list(kinds))
        rows = self.rows("events", chosen if where is None else chosen & where)
        timed = [row for row in rows if "at" in row]
        return sorted(
            timed,
            key=lambda row: (row["at"], row["node"] or "", row["line"], row["text"], row["file"]),
        )

    def places(self, evidence: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Look up the text of places that a table names."""
        wanted = {(one["file"], one["line"]) for one in evidence}
        if not wanted:
            return []
        lines = pc.field("line").isin(sorted({line for _, line in wanted}))
        files = pc.field("file").isin(sorted({file for file, _ in wanted}))
        columns = ["file", "line", "text", "rule", "ts", "node"]
        found = self.rows("events", lines & files, columns)
        return [row for row in found if (row["file"], row["line"]) in wanted]

    @cached_property
    def end(self) -> int:
        """The last moment that any file speaks of."""
        columns = ["node", "last_ts"]
        rows = self.rows("files", pc.field("last_ts").is_valid(), columns)
        clocks = self.past.clocks
        return max((clocks.correct(row["node"], row["last_ts"]) for row in rows), default=0)

    @property
    def away(self) -> Sequence[Absence]:
        """Every absence of every broker."""
        return self.past.lanes.away


def strokes(rows: Iterable[Row], gap: float, begin: str = "started_at") -> list[list[Row]]:
    """Group rows that follow each other within `gap` seconds."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda one: (one[begin], one["topic"], one["partition"])):
        if groups and row[begin] - groups[-1][-1][begin] <= gap * 1_000_000:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def name_of(row: Mapping[str, Any]) -> str:
    """Name a partition as Kafka's tools do."""
    return f"{row['topic']}-{row['partition']}"
