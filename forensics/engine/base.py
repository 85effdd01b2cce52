"""What an engine offers to the stages: Spark for archives, one process for a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from forensics.ingest.read_plan import Split

Notify = Callable[[str], None]
Batches = Iterator[pa.RecordBatch]


class EventReader(Protocol):
    """A function of batches of events, sorted by keys, that names the events it reads."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose rows of equal values must come together."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of events."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, including the keys."""

    def __call__(self, events: Batches) -> Batches:
        """Turn batches of events into batches of rows."""


class Engine(Protocol):
    """Runs what grows with the archive; its tables are opaque to its callers."""

    def scan(
        self, splits: Sequence[Split], overlays: str, target: Path, *, context: bool = False
    ) -> None:
        """Read splits by the shipped rules and packs over them; leave events and accounts."""

    def map_batches(
        self, source: Path, target: Path, transform: Callable[[Batches], Batches], schema: pa.Schema
    ) -> None:
        """Pass a table through a function of batches."""

    def map_partitions(
        self,
        source: Path,
        kinds: Sequence[str],
        columns: Sequence[str],
        transform: Callable[[Batches], Batches],
        schema: pa.Schema,
    ) -> Any:
        """Hand the events of some kinds to a function, each partition's together."""

    def run_readers(self, source: Path, readers: Iterable[EventReader], schema: pa.Schema) -> Any:
        """Hand events to readers, each of which names its kinds, its columns and its keys."""

    def write_temporary(self, table: Any, target: Path) -> None:
        """Write a table that is read once and thrown away."""

    def write_sorted(
        self, source: Path, table: str, columns: Sequence[str], order: Sequence[str], target: Path
    ) -> None:
        """Write the rows of one folded table so that the files, by name, hold them in order."""

    def reduce_groups(
        self, table: Any, keys: list[str], reduce: Callable[[pa.Table], pa.Table], schema: pa.Schema
    ) -> pa.Table:
        """Reduce groups of rows to a table small enough to hold here."""
