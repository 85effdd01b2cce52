"""Takes the wrong of a node's clock off the times that it logged: zone, offset, drift and steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CORRECTING", "Correction", "correction", "moments_of"]

Moments = npt.NDArray[np.int64]

# What of the table of clocks tells how to correct.
CORRECTING = ("node", "offset_ms", "zone_shift_minutes", "stretches")


@dataclass(frozen=True)
class Correction:
    """What one clock showed too much, stretch by stretch; all times in milliseconds as logged."""

    # when each stretch but the first begins
    since: tuple[int, ...]
    at: tuple[int, ...]
    offsets: tuple[float, ...]
    ppm: tuple[float, ...]

    def farthest(self, *moments: int) -> int:
        """Give how far off the clock may be near some moments, on whatever stretch."""
        return max(
            math.ceil(abs(offset) + abs(ppm) * (abs(moment - at) + abs(offset)) / 1e6)
            for at, offset, ppm in zip(self.at, self.offsets, self.ppm, strict=True)
            for moment in moments
        )

    def off(self, moments: Moments) -> Moments:
        """Give what is to be taken off some moments."""
        begins = np.array(self.since, np.int64)
        there = (moments[:, None] >= begins[None, :]).sum(axis=1)
        drifted = np.array(self.ppm)[there] * (moments - np.array(self.at, np.int64)[there]) / 1e6
        off: Moments = np.rint(np.array(self.offsets)[there] + drifted).astype(np.int64)
        return off


def correction(row: Mapping[str, Any]) -> Correction | None:
    """Read how to correct a node's times off its row of clocks; null: nothing is known."""
    stretches: Sequence[Mapping[str, Any]] | None = row["stretches"]
    if stretches:
        return Correction(
            tuple(_millis(one["since"]) for one in stretches[1:]),
            tuple(_millis(one["at"]) for one in stretches),
            tuple(one["offset_ms"] for one in stretches),
            tuple(one["drift_ppm"] for one in stretches),
        )
    # A clock that nothing tells of is no clock that is right; a zone can be known without it.
    offset, zone = row["offset_ms"], row["zone_shift_minutes"]
    if offset is None and not zone:
        return None
    return Correction((), (0,), (float((offset or 0) + (zone or 0) * 60_000),), (0.0,))


def moments_of(events: pa.Table, known: Mapping[str, Correction]) -> Moments:
    """Give the moments of events, which have a node and a time `ts` in milliseconds, corrected."""
    moments: Moments = events["ts"].combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    nodes = events["node"].combine_chunks().cast(pa.string()).dictionary_encode()
    codes = pc.fill_null(nodes.indices, -1).to_numpy(zero_copy_only=False)
    for code, node in enumerate(nodes.dictionary.to_pylist()):
        if node in known:
            mine = codes == code
            moments[mine] -= known[node].off(moments[mine])
    return moments


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
