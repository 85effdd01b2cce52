"""Brokers that leave the in-sync replicas again and again, while they themselves are there.

The table of ISRs may hold millions of rows: it is compared with itself, a row with the one before
it, in columns, and only how many replicas left in which second is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.incidents.case import Case
from forensics.tables import scanned

__all__ = ["Dropouts", "dropouts"]

_MICROS = 1_000_000
_DROPOUT_COLUMNS = ("topic", "partition", "started_at", "leader", "isr", "replicas")
# A row's number and a broker's id in one integer, so that whole lists are compared at once.
_SHIFT = 1 << 32
# Rows compared at once: several lists are made of each, and they are held together.
_HELD = 20_000
# Of the partitions that a broker leaves again and again, so many are named.
_NAMED = 200


@dataclass
class Dropouts:
    """When and by which leaders one broker was dropped, and from which partitions repeatedly."""

    # second, leader and the number of partitions: numbers side by side, since there may be millions
    parts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    # topic, partition and how often; only those it left often enough
    again: dict[tuple[str, int], int] = field(default_factory=dict)
    more: int = 0

    @property
    def drops(self) -> Counter[tuple[int, int]]:
        """Give by second and leader the number of partitions."""
        found: Counter[tuple[int, int]] = Counter()
        for part in self.parts:
            for second, leader, count in part.tolist():
                found[second, leader] += count
        return found


def dropouts(case: Case, least: int) -> dict[int, Dropouts]:
    """Find the brokers that left the ISR of one and the same partition `least` times or more."""
    folder = case.tables / "isr"
    found: dict[int, Dropouts] = {}
    if not folder.is_dir():
        return found
    often: Counter[tuple[int, str, int]] = Counter()
    for rows in _rows(ds.dataset(folder, format="parquet")):
        left = _left(rows)
        _count(found, left)
        _repeated(found, often, left, least)
        _forget(often, rows)
    return {broker: one for broker, one in sorted(found.items()) if one.again}


def _rows(data: ds.Dataset) -> Iterator[pa.Table]:
    """Read the table; the last row of each part is the first one of the next, to compare with."""
    last: pa.Table | None = None
    for batch in scanned(data, _DROPOUT_COLUMNS, None, _HELD):
        rows = pa.Table.from_batches([batch])
        rows = rows if last is None else pa.concat_tables([last, rows])
        last = rows.slice(rows.num_rows - 1)
        if rows.num_rows > 1:
            yield rows.combine_chunks()


def _left(rows: pa.Table) -> pa.Table:
    """Give who left an ISR from one row to the next: broker, second, leader and partition."""
    now, before = rows.slice(1), rows.slice(0, rows.num_rows - 1)
    same = pc.and_(
        pc.equal(now["topic"], before["topic"]), pc.equal(now["partition"], before["partition"])
    )
    # A change lets members in or out, never both; only few rows are looked at any closer.
    shorter = pc.less(pc.list_value_length(now["isr"]), pc.list_value_length(before["isr"]))
    told = pc.fill_null(pc.and_(pc.and_(same, shorter), pc.is_valid(now["started_at"])), False)
    now, before = now.filter(told), before.filter(told)
    was = _keys(before["isr"])
    gone = was.filter(pc.invert(pc.is_in(was, value_set=_keys(now["isr"]))))
    # Whoever is no replica any more was moved away.
    kept = pc.is_in(gone, value_set=_keys(now["replicas"]))
    gone = gone.filter(kept)
    at = pc.divide(gone, _SHIFT)
    here = now.select(["topic", "partition", "started_at", "leader"]).take(at)
    seconds = pc.divide(here["started_at"].cast(pa.int64()), _MICROS)
    broker = pc.subtract(gone, pc.multiply(at, _SHIFT))
    return here.append_column("broker", broker).append_column("second", seconds)


def _keys(lists: pa.ChunkedArray) -> pa.Array:
    """Make one integer of a row's number and each member of its list."""
    whole = lists.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    rows = pc.list_parent_indices(whole).cast(pa.int64())
    return pc.add(pc.multiply(rows, _SHIFT), pc.list_flatten(whole).cast(pa.int64()))


def _count(found: dict[int, Dropouts], left: pa.Table) -> None:
    counts = left.group_by(["broker", "second", "leader"]).aggregate([([], "count_all")])
    columns = (counts["second"], pc.fill_null(counts["leader"], -1), counts["count_all"])
    told = np.stack([column.to_numpy().astype(np.int64) for column in columns], axis=1)
    brokers = counts["broker"].to_numpy()
    for broker in np.unique(brokers).tolist():
        found.setdefault(broker, Dropouts()).parts.append(told[brokers == broker])


def _repeated(
    found: Mapping[int, Dropouts],
    often: Counter[tuple[int, str, int]],
    left: pa.Table,
    least: int,
) -> None:
    """Note the partitions that a broker left often; `often` is of the partition just being read."""
    names = ["broker", "topic", "partition"]
    for row in left.group_by(names).aggregate([([], "count_all")]).to_pylist():
        key = (row["broker"], row["topic"], row["partition"])
        often[key] += row["count_all"]
        if often[key] < least:
            continue
        one = found[row["broker"]]
        if len(one.again) < _NAMED or key[1:] in one.again:
            one.again[key[1:]] = often[key]
        else:
            one.more += 1


def _forget(often: Counter[tuple[int, str, int]], rows: pa.Table) -> None:
    """Keep what was counted of the last partition only: it may go on in the next part."""
    [last] = rows.slice(rows.num_rows - 1).select(["topic", "partition"]).to_pylist()
    for key in [one for one in often if one[1:] != (last["topic"], last["partition"])]:
        del often[key]
