"""Puts what the wordings captured together as the table of events, each column at once.

Hundreds of wordings take a few lines each, and every call of Arrow has its price: so what they
captured is kept as text, joined, and turned into numbers once for each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.converting import convert, text
from forensics.events.vocabulary import canonical
from forensics.tables import EVENTS, FACTS

__all__ = ["Part", "assembled"]

Rows = npt.NDArray[np.int64]

_PLACES = ("line", "offset", "level", "logger", "text")
# One line may name thousands of partitions. Its text is evidence once; after that a part will do.
_TEXT_OF_ITEMS = 240


@dataclass(frozen=True)
class Part:
    """The events of one wording: the entries they come from, and their facts as captured."""

    rows: Rows
    kind: str
    rule: str
    telling: str | None
    facts: Mapping[str, Any]

    @property
    def repeats(self) -> npt.NDArray[np.bool_]:
        """Which events come from the same entry as the one before: later items of a list."""
        again: npt.NDArray[np.bool_] = np.diff(self.rows, prepend=-1) == 0
        return again


def assembled(entries: pa.RecordBatch, parts: Sequence[Part]) -> pa.RecordBatch:
    """Give the events of all parts, in the order of the entries."""
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=EVENTS)
    rows = np.concatenate([part.rows for part in parts])
    told = entries.take(pa.array(rows))
    columns: dict[str, pa.Array] = {name: told[name] for name in _PLACES}
    columns["text"] = _shortened(columns["text"], np.concatenate([one.repeats for one in parts]))
    columns = {
        name: text(column) if pa.types.is_binary(column.type) else column
        for name, column in columns.items()
    }
    columns["ts"] = told["ts"].cast(EVENTS.field("ts").type)
    columns |= _facts(parts, len(rows))
    columns["client"] = pc.coalesce(columns["client"], text(told["client"]))
    columns["error"], columns["retriable"] = canonical(columns["error"])
    columns |= {name: _labels(parts, name) for name in ("kind", "rule")}
    columns["telling"] = _telling(_labels(parts, "telling"), columns["previous_epoch"])
    # Which file and node it was is known to who reads the file.
    columns |= {name: pa.nulls(len(rows), pa.string()) for name in ("file", "node")}
    events = pa.RecordBatch.from_arrays([columns[field.name] for field in EVENTS], schema=EVENTS)
    return events.take(pc.sort_indices(events, [("offset", "ascending"), ("rule", "ascending")]))


def _facts(parts: Sequence[Part], total: int) -> dict[str, pa.Array]:
    """Join what the parts hold of each fact, nulls where they hold nothing, and convert it."""
    pieces: dict[str, list[pa.Array]] = {name: [] for name in FACTS.names}
    filled = dict.fromkeys(FACTS.names, 0)
    begin = 0
    for part in parts:
        count = len(part.rows)
        for name, value in part.facts.items():
            if name in pieces:
                if begin > filled[name]:
                    pieces[name].append(pa.nulls(begin - filled[name], pa.binary()))
                pieces[name].append(_raw(value, count))
                filled[name] = begin + count
        begin += count
    columns = {}
    for field in FACTS:
        found = pieces[field.name]
        if not found:
            columns[field.name] = pa.nulls(total, field.type)
            continue
        if filled[field.name] < total:
            found.append(pa.nulls(total - filled[field.name], pa.binary()))
        columns[field.name] = convert(pa.concat_arrays(found), field.type)
    return columns


def _raw(value: Any, count: int) -> pa.Array:
    """Give a constant as if it had been captured."""
    if isinstance(value, pa.Array):
        return value
    written = None if value is None else str(value).encode()
    return pa.repeat(pa.scalar(written, pa.binary()), count)


def _labels(parts: Sequence[Part], name: str) -> pa.Array:
    labels = pa.array([getattr(part, name) for part in parts], pa.string())
    counts = [len(part.rows) for part in parts]
    return labels.take(pa.array(np.repeat(np.arange(len(parts)), counts)))


def _telling(labels: pa.Array, epochs: pa.Array) -> pa.Array:
    """Mark the lines that may re-tell an older fact under today's time.

    A start is told afresh after a restart, and knows of no epoch before it then.
    """
    started = pc.and_(pc.equal(labels, "fresh"), pc.fill_null(pc.not_equal(epochs, -1), True))
    return pc.if_else(pc.fill_null(started, False), pa.scalar(None, pa.string()), labels)


def _shortened(texts: pa.Array, again: npt.NDArray[np.bool_]) -> pa.Array:
    """Cut the text where an entry is told of again."""
    if not again.any():
        return texts
    return pc.if_else(pa.array(again), pc.binary_slice(texts, 0, _TEXT_OF_ITEMS), texts)
