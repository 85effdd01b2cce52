"""Settles staged events: line numbers of the whole file, the node, and each fact only once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.accounting import FileAccount
from forensics.tables import EVENTS

__all__ = ["settler"]

Batches = Iterator[pa.RecordBatch]


def settler(files: Mapping[str, FileAccount]) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Make the function that turns staged batches into the table of events."""
    keys: list[str] = []
    bases: list[int] = []
    nodes: list[str | None] = []
    for name, one in files.items():
        if one.duplicate_of is None:
            for split, base in one.bases.items():
                keys.append(f"{split} {name}")
                bases.append(base)
                nodes.append(one.node)

    def settle(batches: Iterable[pa.RecordBatch]) -> Batches:
        known, starts, names = pa.array(keys), pa.array(bases, pa.int64()), pa.array(nodes)
        for staged in batches:
            split = pc.cast(staged["split"], pa.string())
            at = pc.index_in(pc.binary_join_element_wise(split, staged["file"], " "), known)
            counts = pc.and_(at.is_valid(), staged["kind"].is_valid())
            batch, at = staged.filter(counts), at.filter(counts)
            columns = {name: batch[name] for name in EVENTS.names}
            columns["line"] = pc.add(columns["line"], starts.take(at))
            columns["node"] = names.take(at).cast(pa.string())
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)

    return settle
