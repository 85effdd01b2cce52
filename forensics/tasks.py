"""The tasks of a scan: each reads some splits where it runs, and gives what it finds in batches."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from forensics.archives.planning import Split
from forensics.errors import ArchiveError
from forensics.meter import Meter
from forensics.places import shown
from forensics.scan import scanner

__all__ = ["Tasks"]


@dataclass(frozen=True)
class Tasks:
    """Runs the tasks whose numbers it is given.

    `overlays` are the packs that lie over the shipped rules; `context` asks for the events that
    only give context, too; `meter` is where tasks say how far they are.
    """

    bundles: Sequence[Sequence[Split]]
    overlays: str
    meter: str
    context: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the events and accounts of each task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._run(number)

    def _run(self, number: int) -> Iterator[pa.RecordBatch]:
        meter = Meter(self.meter, number)
        for split in self.bundles[number]:
            try:
                yield from scanner(self.overlays, context=self.context).scan(split, meter)
            except FileNotFoundError as error:
                message = (
                    f"{shown(split.path)} is not there on {socket.gethostname()}. Archives must"
                    " lie where the driver and all executors see the same files."
                )
                raise ArchiveError(message) from error
            meter.settle(split.bytes)
