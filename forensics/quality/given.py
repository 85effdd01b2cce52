"""What the gate looks at: the saved tables, the accounts of the files, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from forensics.events.accounting import FileAccount
from forensics.history import Clocks
from forensics.incidents import Finding
from forensics.tables import FILES, scanned

__all__ = ["Given"]


@dataclass(frozen=True)
class Given:
    """One run, as far as it can be judged."""

    tables: Path
    files: Sequence[FileAccount]
    clocks: Clocks = field(default_factory=lambda: Clocks({}, {}, ()))
    findings: Sequence[Finding] = ()

    def read(self, table: str, columns: Sequence[str]) -> pa.Table:
        """Read some columns of a small table; one that was not saved has no rows."""
        return self.data(table).to_table(list(columns))

    def data(self, table: str) -> ds.Dataset:
        """Open a saved table."""
        return ds.dataset(self.tables / table, format="parquet")

    def has(self, table: str) -> bool:
        """Whether a table was saved."""
        return (self.tables / table).is_dir()

    @cached_property
    def rows(self) -> pa.Table:
        """The rows of the table of files, in the order of `files`."""
        return pa.Table.from_pylist([one.row() for one in self.files], schema=FILES)

    @cached_property
    def accounts(self) -> Mapping[str, FileAccount]:
        """The accounts by the names of their files."""
        return {one.file: one for one in self.files}

    @cached_property
    def brokers(self) -> frozenset[int]:
        """The ids that a replica list, an ISR, a registration or a node's own logs name."""
        found: set[int | None] = set()
        for table, columns in (("lanes", ("broker",)), ("isr", ("isr", "replicas"))):
            for batch in scanned(self.data(table), columns) if self.has(table) else ():
                for column in batch.columns:
                    flat = column.flatten() if pa.types.is_list(column.type) else column
                    found.update(flat.unique().to_pylist())
        return frozenset(one for one in found if one is not None)
