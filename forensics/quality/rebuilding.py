"""Measures of what was rebuilt: leadership and states by partition, clocks, lanes, coverage.

Leadership and states grow with the archive, so they are read in parts that end where a partition
does, and a row for each partition is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forensics.quality.given import Given
from forensics.tables import scanned

__all__ = ["clocks", "coverage", "isr", "lanes", "leadership"]

_COMMON = (
    "topic", "partition", "leader", "isr", "replicas", "started_at", "ended_at", "how", "evidence",
)  # fmt: skip
_HISTORY_FLAGS = (
    "unknown_leaders", "inferred", "without_evidence", "strange_leaders", "strange_isr",
)  # fmt: skip
# Rows of a part, to which those are added that belong to its last partition.
_PART = 100_000
_BITS = 64
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Groups = npt.NDArray[np.int64]


def leadership(given: Given) -> pd.DataFrame:
    """Measure the leader epochs of each partition."""
    parts = [_measured(part) for part in _parts(given, "leadership")]
    return _frame(parts, "epochs", "unknown_leaders", "inferred")


def isr(given: Given) -> pd.DataFrame:
    """Measure the states of each partition."""
    return _frame([_measured(part) for part in _parts(given, "isr")], "states")


def clocks(given: Given) -> pd.DataFrame:
    """Give the clocks as they were found."""
    names = ["node", "offset_ms", "uncertainty_ms", "anchors", "zone_shift_minutes", "kind",
             "drift_ppm", "steps"]  # fmt: skip
    table = given.read("clocks", names)
    lengths = pc.fill_null(pc.list_value_length(table["steps"]), 0)
    table = table.set_column(names.index("steps"), "steps", lengths)
    frame: pd.DataFrame = table.to_pandas()
    return frame


def lanes(given: Given) -> pd.DataFrame:
    """Measure each stretch of each node's life."""
    names = ["node", "role", "state", "started_at", "ended_at", "evidence"]
    frame = _timed(given.read("lanes", names), ["node", "role"])
    return frame[["node", "role", "state", "seconds", "overlap", "evidence"]]


def coverage(given: Given) -> pd.DataFrame:
    """Measure each stretch of what a log covers."""
    names = ["node", "role", "log", "state", "started_at", "ended_at", "files", "records"]
    frame = _timed(given.read("coverage", names), ["node", "role", "log"])
    return frame[["node", "role", "log", "state", "seconds", "overlap", "files", "records"]]


def _timed(table: pa.Table, keys: Sequence[str]) -> pd.DataFrame:
    if "evidence" in table.column_names:
        counts = pc.fill_null(pc.list_value_length(table["evidence"]), 0)
        at = table.column_names.index("evidence")
        table = table.set_column(at, "evidence", counts)
    groups = np.zeros(len(table), np.int64)
    for key in keys:
        codes = pc.fill_null(pc.dictionary_encode(table[key]).combine_chunks().indices, -1)
        groups = groups * (len(table) + 1) + codes.to_numpy(zero_copy_only=False) + 1
    begin, end = (_seconds(table, name) for name in ("started_at", "ended_at"))
    frame: pd.DataFrame = table.drop_columns(["started_at", "ended_at"]).to_pandas()
    frame["seconds"] = end - begin
    frame["overlap"] = _overlaps(groups, begin, end)
    return frame


def _parts(given: Given, table: str) -> Iterator[pa.Table]:
    """Give a table in parts; a partition's rows stand together, and no part cuts through them."""
    if not given.has(table):
        return
    data = given.data(table)
    epoch = "leader_epoch" if table == "leadership" else "partition_epoch"
    columns = [*_COMMON, epoch]
    held = pa.table({})
    for batch in scanned(data, columns):
        slim = _slim(pa.Table.from_batches([batch]), epoch)
        held = pa.concat_tables([held, slim]) if len(held) else slim
        if len(held) >= _PART:
            whole = _start_of_last(held)
            if whole:
                yield held.slice(0, whole)
                held = held.slice(whole).combine_chunks()
    if len(held):
        yield held


def _slim(rows: pa.Table, epoch: str) -> pa.Table:
    """Look at each row by itself, and keep what it is: one partition may have a million of them."""
    told = pc.fill_null(pc.list_value_length(rows["evidence"]), 0).to_numpy()
    observed = pc.fill_null(pc.equal(rows["how"], "observed"), fill_value=False).to_numpy()
    leaders, members = _outside(rows)
    flags = (
        rows["leader"].is_null().to_numpy(), ~observed, observed & (told == 0), leaders, members,
    )  # fmt: skip
    kept = rows.select(["topic", "partition", "started_at", "ended_at"])
    kept = kept.append_column("epoch", rows[epoch])
    for name, flag in zip(_HISTORY_FLAGS, flags, strict=True):
        kept = kept.append_column(name, pa.array(flag))
    return kept


def _start_of_last(held: pa.Table) -> int:
    """Say where the rows of the last partition begin; the rest of them may be yet to come."""
    last = [held[name][len(held) - 1] for name in ("topic", "partition")]
    mine = pc.and_(pc.equal(held["topic"], last[0]), pc.equal(held["partition"], last[1]))
    return int(pc.index(mine, value=True).as_py())


def _measured(part: pa.Table) -> pd.DataFrame:
    """Give a row for each partition of a part."""
    part = part.combine_chunks()
    topics = pc.dictionary_encode(part["topic"]).combine_chunks().indices
    key = topics.to_numpy(zero_copy_only=False).astype(np.int64) << 32
    key |= part["partition"].to_numpy()
    starts = np.flatnonzero(np.append(np.array([True]), key[1:] != key[:-1]))
    groups = np.cumsum(np.isin(np.arange(len(key)), starts)) - 1
    begin, end = (_seconds(part, name) for name in ("started_at", "ended_at"))
    frame: pd.DataFrame = part.select(["topic", "partition"]).take(pa.array(starts)).to_pandas()
    frame["topic"] = frame["topic"].astype("category")
    counted = {
        "rows": np.ones(len(key), bool),
        "doubled_epochs": _doubled(groups, part["epoch"]),
        **{name: part[name].to_numpy() for name in _HISTORY_FLAGS},
    }
    for name, flags in counted.items():
        frame[name] = np.add.reduceat(flags.astype(np.int32), starts)
    frame["shortest"] = np.fmin.reduceat(end - begin, starts).astype(np.float32)
    frame["overlap"] = np.fmax.reduceat(_overlaps(groups, begin, end), starts).astype(np.float32)
    return frame


def _frame(parts: Sequence[pd.DataFrame], rows: str, *more: str) -> pd.DataFrame:
    names = ["topic", "partition", "rows", *more, "doubled_epochs", "shortest", "overlap",
             "without_evidence", "strange_leaders", "strange_isr"]  # fmt: skip
    if not parts:
        frame = pd.DataFrame({name: pd.Series([], dtype=float) for name in names})
    else:
        topics = pd.api.types.union_categoricals([part["topic"] for part in parts])
        frame = pd.concat([part[names] for part in parts], ignore_index=True)
        frame["topic"] = topics
    return frame.rename(columns={"rows": rows})


def _seconds(table: pa.Table, name: str) -> Numbers:
    """Give times in seconds; they lie far apart, so a double holds them well enough."""
    micros = pc.cast(table[name], pa.int64()).to_numpy(zero_copy_only=False)
    seconds: Numbers = np.asarray(micros, np.float64) / 1e6
    return seconds


def _overlaps(groups: Groups, begin: Numbers, end: Numbers) -> Numbers:
    """Say how far each stretch reaches into the next one of its group, by time."""
    found = np.full(len(begin), np.nan)
    known = np.flatnonzero(~np.isnan(begin))
    order = known[np.lexsort((begin[known], groups[known]))]
    if len(order) > 1:
        same = groups[order[1:]] == groups[order[:-1]]
        found[order[:-1]] = np.where(same, end[order[:-1]] - begin[order[1:]], np.nan)
    return found


def _doubled(groups: Groups, epochs: pa.ChunkedArray) -> Flags:
    """Mark the rows whose epoch a row before them has, too."""
    numbers = np.asarray(epochs.to_numpy(zero_copy_only=False), np.float64)
    found = np.zeros(len(numbers), bool)
    known = np.flatnonzero(~np.isnan(numbers))
    order = known[np.lexsort((numbers[known], groups[known]))]
    if len(order) > 1:
        same = groups[order[1:]] == groups[order[:-1]]
        found[order[1:]] = same & (numbers[order[1:]] == numbers[order[:-1]])
    return found


def _outside(part: pa.Table) -> tuple[Flags, Flags]:
    """Mark the rows whose leader, and those of whose ISR a member, is none of the replicas."""
    replicas, isr = (part[name].combine_chunks() for name in ("replicas", "isr"))
    told = pc.fill_null(pc.list_value_length(replicas), 0).to_numpy() > 0
    leader = pc.fill_null(part["leader"], -1).to_numpy()
    alone = np.flatnonzero(leader >= 0)
    owners = pc.list_parent_indices(isr).to_numpy(zero_copy_only=False)
    claims = np.append(owners, alone), np.append(_ids(isr), leader[alone])
    strange = ~_placed(*claims, replicas)
    members, leaders = np.zeros(len(part), bool), np.zeros(len(part), bool)
    members[owners[strange[: len(owners)]]] = True
    leaders[alone[strange[len(owners) :]]] = True
    return leaders & told, members & told


def _placed(rows: Groups, ids: Groups, replicas: pa.ListArray) -> Flags:
    """Say of pairs of a row and an id whether that row's replicas have the id.

    A cluster has few brokers: a bit for each of them makes this a matter of plain arithmetic.
    """
    known = np.unique(pc.unique(pc.list_flatten(replicas)).to_numpy(zero_copy_only=False))
    held = np.zeros((len(replicas), len(known) // _BITS + 1), np.uint64)
    lengths = pc.fill_null(pc.list_value_length(replicas), 0).to_numpy()
    full = np.flatnonzero(lengths)
    starts = np.cumsum(lengths)[full] - lengths[full]
    places = np.searchsorted(known, _ids(replicas))
    for word in range(held.shape[1]) if len(full) else ():
        mine = places // _BITS == word
        bits = np.where(mine, np.uint64(1) << (places % _BITS).astype(np.uint64), np.uint64(0))
        held[full, word] = np.bitwise_or.reduceat(bits, starts)
    at = np.searchsorted(known, ids)
    exists = np.append(known, -1)[at] == ids
    bit = held[rows, np.minimum(at, len(known)) // _BITS] >> (at % _BITS).astype(np.uint64)
    found: Flags = exists & ((bit & np.uint64(1)) == 1)
    return found


def _ids(lists: pa.ListArray) -> Groups:
    found: Groups = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    return found
