"""Measures of what was rebuilt: leadership and states by partition, clocks, lanes, coverage.

Leadership and states grow with the archive, so they are read in parts that end where a partition
does, and a row for each partition is kept.

What the gate looks at: the saved tables, the accounts of the files, and what was found.

Measures of what was read: the archive, its files, and their events by kind.

Measures of what is claimed: each finding, and whether its lines are where it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import FileAccount
from forensics.history.clocks.model import Clocks
from forensics.lib.time_units import DAY, to_datetime
from forensics.quality.expectations import TABLES
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables
from forensics.schemas import FILES


@dataclass(frozen=True)
class GateInput:
    """One run, as far as it can be judged."""

    tables: Tables
    files: Sequence[FileAccount]
    clocks: Clocks = field(default_factory=lambda: Clocks({}, {}, ()))
    findings: Sequence[Finding] = ()

    @cached_property
    def rows(self) -> pa.Table:
        """The rows of the table of files, in the order of `files`."""
        return pa.Table.from_pylist([one.to_row() for one in self.files], schema=FILES)

    @cached_property
    def accounts(self) -> Mapping[str, FileAccount]:
        """The accounts by the names of their files."""
        return {one.file: one for one in self.files}

    @cached_property
    def brokers(self) -> frozenset[int]:
        """The ids that a replica list, an ISR, a registration or a node's own logs name."""
        found: set[int | None] = set()
        for table, columns in (("lanes", ("broker",)), ("isr", ("isr", "replicas"))):
            for batch in self.tables.scan(table, columns):
                for column in batch.columns:
                    flat = column.flatten() if pa.types.is_list(column.type) else column
                    found.update(flat.unique().to_pylist())
        return frozenset(one for one in found if one is not None)


_BUCKETS = (
    "records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines",
)  # fmt: skip
_SHOWN = (
    "file", "node", "role", "layout", "kafka_version", "bytes", "lines", *_BUCKETS, "events",
    "damaged",
)  # fmt: skip
# Levels of Java's loggers, of syslog, and of what Python, Go and librdkafka write; by letter, and
# where a level is shorter than its place, what is in front of it.
_LETTERS = frozenset("TDVINWECFSAtdvinwecfsa01234567 ")
_LEVELS = (
    "TRACE", "DEBUG", "VERBOSE", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL",
    "SEVERE", "ALERT", "EMERG",
)  # fmt: skip
_WRITTEN = pa.array([word for one in _LEVELS for word in (one, one.lower(), one.capitalize())])
_READ = ("file", "kind", "ts", "line", "level", "partition", "leader_epoch", "partition_epoch",
         "leader", "node")  # fmt: skip
_INPUT_FLAGS = (
    "without_time", "without_place", "odd_levels", "negative_partitions", "negative_epochs",
    "strange_leaders",
)  # fmt: skip


def measure_archive(run: GateInput) -> pd.DataFrame:
    """Measure all of it in one row."""
    sums = {name: pc.sum(run.rows[name]).as_py() or 0 for name in ("lines", "records", "events")}
    unparsed = pc.sum(run.rows["unparsed_lines"]).as_py() or 0
    row = {
        "files": len(run.files),
        "nodes": len({one.node for one in run.files if one.node}),
        **sums,
        "parsed_share": 1.0 - unparsed / max(sums["lines"], 1),
        "leader_epochs": run.tables.count_rows("leadership"),
        "findings": len(run.findings),
    }
    return pd.DataFrame([row])


def measure_files(run: GateInput) -> pd.DataFrame:
    """Measure each file."""
    frame: pd.DataFrame = run.rows.select(_SHOWN).to_pandas()
    buckets = frame[list(_BUCKETS)].sum(axis=1)
    mine = [one if one.duplicate_of is None else FileAccount(one.file) for one in run.files]
    frame["parsed_share"] = 1.0 - frame["unparsed_lines"] / frame["lines"].clip(lower=1)
    strays = np.array([one.counts["stray_lines"] for one in mine], np.float64)
    frame["stray_share"] = strays / frame["lines"].clip(lower=1)
    frame["lines_left_over"] = frame["lines"] - buckets
    frame["steps_back"] = _numbers([one.stepped for one in mine])
    far = [max((begin - end for begin, end, _ in one.steps), default=0) for one in mine]
    frame["farthest_step_back"] = _numbers(far) / 1_000_000
    frame["first_year"] = _numbers([_year(one) for one in mine])
    frame["days_ahead"] = _numbers(_ahead(mine, run))
    frame["odd_levels"] = _numbers([_odd(one) for one in mine])
    frame["fallen_epochs"] = _numbers([one.fallen for one in mine])
    return frame


def measure_events(run: GateInput) -> pd.DataFrame:
    """Count the events of each kind in each file, and what is odd about them."""
    found = [_flagged(batch, run.brokers) for batch in run.tables.scan("events", _READ)]
    names = ["file", "node", "kind"]
    if not found:
        empty = {name: pd.Series([], dtype=object) for name in names}
        return pd.DataFrame(
            empty | dict.fromkeys(("events", *_INPUT_FLAGS), pd.Series([], dtype=float))
        )
    counts = [(name, "sum") for name in ("events", *_INPUT_FLAGS)]
    total = pa.concat_tables(found).group_by(names).aggregate(counts).sort_by(
        [("file", "ascending"), ("kind", "ascending")]
    )  # fmt: skip
    total = total.rename_columns([name.removesuffix("_sum") for name in total.column_names])
    frame: pd.DataFrame = total.to_pandas()
    return frame[[*names, "events", *_INPUT_FLAGS]]


def _flagged(batch: pa.RecordBatch, brokers: frozenset[int]) -> pa.Table:
    """Count in a batch: what is kept of it is a row for each file and kind."""
    told = pc.equal(batch["kind"], "partition_state")
    leads = pc.and_(told, pc.greater_equal(batch["leader"], 0))
    known = pc.is_in(batch["leader"], pa.array(sorted(brokers), pa.int32()))
    strange = pc.and_(leads, pc.invert(known)) if brokers else pc.and_(leads, leads.is_null())
    odd = pc.and_(batch["level"].is_valid(), pc.invert(pc.is_in(batch["level"], _WRITTEN)))
    flags = (
        batch["ts"].is_null(),
        pc.or_(batch["file"].is_null(), batch["line"].is_null()),
        odd,
        pc.less(batch["partition"], 0),
        pc.or_kleene(pc.less(batch["leader_epoch"], -1), pc.less(batch["partition_epoch"], -1)),
        strange,
    )
    columns = {name: batch[name] for name in ("file", "node", "kind")}
    columns["events"] = pa.repeat(pa.scalar(1, pa.int64()), len(batch))
    for name, flag in zip(_INPUT_FLAGS, flags, strict=True):
        columns[name] = pc.fill_null(flag, fill_value=False).cast(pa.int64())
    counts = [(name, "sum") for name in ("events", *_INPUT_FLAGS)]
    found = pa.table(columns).group_by(["file", "node", "kind"]).aggregate(counts)
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names])


def _numbers(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    return np.array([np.nan if one is None else one for one in values], np.float64)


def _moments(one: FileAccount) -> Iterator[int]:
    """Give the times that a file is known to name: its ends, and where it jumps."""
    yield from (edge for edge in (one.first, one.last) if edge is not None)
    for begin, end, _ in (*one.gaps, *one.steps):
        yield from (begin, end)


def _year(one: FileAccount) -> int | None:
    first = min(_moments(one), default=None)
    return None if first is None else to_datetime(first).year


def _ahead(accounts: Sequence[FileAccount], run: GateInput) -> list[float | None]:
    """Say how many days later each file ends than all files of other nodes do.

    Where there are no others, nobody knows what is too late.
    """
    ends: list[int | None] = []
    latest: dict[Any, int] = {}
    for one in accounts:
        last = max(_moments(one), default=None)
        end = None if last is None else run.clocks.correct(one.node or "", last)
        ends.append(end)
        if end is not None:
            whose = one.node or one.file
            latest[whose] = max(end, latest.get(whose, end))
    two = sorted(latest, key=lambda whose: latest[whose], reverse=True)[:2]
    found: list[float | None] = []
    for one, end in zip(accounts, ends, strict=True):
        others = [latest[whose] for whose in two if whose != (one.node or one.file)]
        found.append((end - others[0]) / DAY if others and end is not None else None)
    return found


def _odd(one: FileAccount) -> int:
    return sum(count for letter, count in one.levels.items() if letter not in _LETTERS)


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


def measure_leadership(run: GateInput) -> pd.DataFrame:
    """Measure the leader epochs of each partition."""
    parts = [_measured(part) for part in _parts(run, "leadership")]
    return _frame(parts, "epochs", "unknown_leaders", "inferred")


def measure_isr(run: GateInput) -> pd.DataFrame:
    """Measure the states of each partition."""
    return _frame([_measured(part) for part in _parts(run, "isr")], "states")


def measure_clocks(run: GateInput) -> pd.DataFrame:
    """Give the clocks as they were found."""
    names = ["node", "offset_ms", "uncertainty_ms", "anchors", "zone_shift_minutes", "kind",
             "drift_ppm", "steps"]  # fmt: skip
    table = run.tables.read("clocks", names)
    lengths = pc.fill_null(pc.list_value_length(table["steps"]), 0)
    table = table.set_column(names.index("steps"), "steps", lengths)
    frame: pd.DataFrame = table.to_pandas()
    return frame


def measure_lanes(run: GateInput) -> pd.DataFrame:
    """Measure each stretch of each node's life."""
    names = ["node", "role", "state", "started_at", "ended_at", "evidence"]
    frame = _timed(run.tables.read("lanes", names), ["node", "role"])
    return frame[["node", "role", "state", "seconds", "overlap", "evidence"]]


def measure_coverage(run: GateInput) -> pd.DataFrame:
    """Measure each stretch of what a log covers."""
    names = ["node", "role", "log", "state", "started_at", "ended_at", "files", "records"]
    frame = _timed(run.tables.read("coverage", names), ["node", "role", "log"])
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


def _parts(run: GateInput, table: str) -> Iterator[pa.Table]:
    """Give a table in parts; a partition's rows stand together, and no part cuts through them."""
    epoch = "leader_epoch" if table == "leadership" else "partition_epoch"
    columns = [*_COMMON, epoch]
    held = pa.table({})
    for batch in run.tables.scan(table, columns):
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


_NUMBERS = ("seconds", "evidence", "strange_places", "brokers", "partitions", "clients")


def measure_findings(run: GateInput) -> pd.DataFrame:
    """Measure each finding."""
    rows = [_row(one, run) for one in run.findings]
    frame = pd.DataFrame(rows, columns=list(TABLES["findings"].columns))
    for name in _NUMBERS:
        frame[name] = frame[name].astype(float)
    return frame


def _row(one: Finding, run: GateInput) -> dict[str, Any]:
    return {
        "id": one.id,
        "detector": one.detector,
        "severity": one.severity,
        "confidence": one.confidence,
        "seconds": (one.end - one.begin) / 1e6,
        "evidence": len(one.evidence),
        "strange_places": sum(not _is_there(place, run) for place in one.evidence),
        "brokers": len(one.brokers),
        "partitions": len(one.partitions),
        "clients": len(one.clients),
    }


def _is_there(place: Any, run: GateInput) -> bool:
    """Whether a line is one of a file that was read."""
    file = run.accounts.get(place["file"])
    return file is not None and 1 <= (place["line"] or 0) <= file.counts["lines"]
