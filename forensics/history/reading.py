"""Reads the events that the past of a whole cluster rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from forensics.history.batches import rows_of
from forensics.tables import EVENTS, scanned

__all__ = ["SEEN", "events_of"]

# What says when and where something was seen, and no more.
SEEN = ("kind", "ts", "node", "file", "line")


def events_of(
    path: Path, kinds: Iterable[str], columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Read the events of some kinds, times as microseconds, in the order of time."""
    where = pc.field("kind").isin(list(kinds)) & pc.field("ts").is_valid()
    names = EVENTS.names if columns is None else columns
    rows = rows_of(scanned(path, names, where), names)
    return sorted(
        rows, key=lambda row: (row["ts"], row["node"] or "", row["line"], row["kind"], row["file"])
    )
