"""How many replicas in sync a partition must have, as far as its logs tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow.dataset as ds

from forensics.detection.shared.min_isr import MinIsr, find_min_isr
from forensics.run_output.reader import Row, RunOutput

if TYPE_CHECKING:
    from forensics.detection.context import DetectionContext


@dataclass(frozen=True)
class _Tells:
    """Reads the saved events as detectors read them."""

    run: RunOutput

    def each(self, table: str, where: ds.Expression, columns: Sequence[str]) -> Iterator[Row]:
        """Read rows one by one, with the corrected time of each."""
        for part in self.run.chunks(table, columns, where):
            for row in part.to_pylist():
                at = row.get("ts") or 0
                yield row | {"at": self.run.correct_time(row.get("node"), at) if at else 0}


def read_min_isr(run: RunOutput) -> MinIsr:
    """Read min.insync.replicas out of the saved events; it may be that nothing is known."""
    if not {"setting", "value", "detail", "error"} <= set(run.column_names("events")):
        return MinIsr({}, None)
    return find_min_isr(cast("DetectionContext", _Tells(run)))


def min_isr_of_topics(known: MinIsr, topics: Sequence[str]) -> npt.NDArray[np.int64]:
    """Give the minimum of each topic, 0 where it is not known."""
    return np.array([known.for_topic(topic) or 0 for topic in topics], np.int64)
