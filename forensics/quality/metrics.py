"""Measures what expectations are about: inputs, events, rebuilt history and findings.

Leadership and ISR states grow with the archive, so they are read in parts that end where a
partition does, and only a row for each partition is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.shared.isr_changes import MEMBER_SHIFT, member_keys
from forensics.events.file_accounts import FileAccount
from forensics.history.clocks.model import Clocks
from forensics.history.nodes.controller_terms import TERM_STATES
from forensics.lib.time_units import DAY, SECOND, to_datetime
from forensics.quality.expectations import TABLES
from forensics.run_output.findings import Finding
from forensics.run_output.reader import Tables
from forensics.schemas import FILES


@dataclass(frozen=True)
class GateInput:
    """What the gate looks at: saved tables, accounts of the files, and findings."""

    tables: Tables
    files: Sequence[FileAccount]
    clocks: Clocks = field(default_factory=lambda: Clocks({}, {}, ()))
    findings: Sequence[Finding] = ()

    @cached_property
    def rows(self) -> pa.Table:
        """The table of files, in the order of `files`."""
        return pa.Table.from_pylist([file.to_row() for file in self.files], schema=FILES)

    @cached_property
    def accounts(self) -> Mapping[str, FileAccount]:
        """The accounts by the names of their files."""
        return {account.file: account for account in self.files}

    @cached_property
    def brokers(self) -> frozenset[int]:
        """The broker ids that a replica list, an ISR, a registration or a node's logs name."""
        ids: set[int | None] = set()
        for table, columns in (("lanes", ("broker",)), ("isr", ("isr", "replicas"))):
            for batch in self.tables.scan(table, columns):
                for column in batch.columns:
                    flat = column.flatten() if pa.types.is_list(column.type) else column
                    ids.update(flat.unique().to_pylist())
        return frozenset(broker for broker in ids if broker is not None)


_BUCKETS = (
    "records", "continuation_lines", "blank_lines", "unparsed_lines", "duplicate_lines",
)  # fmt: skip
_FILE_COLUMNS = (
    "file", "node", "role", "layout", "kafka_version", "bytes", "lines", *_BUCKETS, "events",
    "damaged",
)  # fmt: skip
# First letters of levels of Java's loggers, syslog, Python, Go and librdkafka; a level that is
# shorter than its field has a space in front.
_LETTERS = frozenset("TDVINWECFSAtdvinwecfsa01234567 ")
_LEVELS = (
    "TRACE", "DEBUG", "VERBOSE", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL",
    "SEVERE", "ALERT", "EMERG",
)  # fmt: skip
_KNOWN_LEVELS = pa.array(
    [word for level in _LEVELS for word in (level, level.lower(), level.capitalize())]
)
_EVENT_GROUPS = ["file", "node", "kind"]
_EVENT_COLUMNS = (
    *_EVENT_GROUPS, "ts", "line", "level", "partition", "leader_epoch", "partition_epoch", "leader",
)  # fmt: skip
_EVENT_FLAGS = (
    "without_time", "without_place", "odd_levels", "negative_partitions", "negative_epochs",
    "strange_leaders",
)  # fmt: skip
_EVENT_COUNTS = ("events", *_EVENT_FLAGS)
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Groups = npt.NDArray[np.int64]


def measure_archive(run: GateInput) -> pd.DataFrame:
    """Measure the whole archive in one row."""
    counted = ("lines", "records", "events", "unparsed_lines")
    sums = {name: pc.sum(run.rows[name]).as_py() or 0 for name in counted}
    row = {
        "files": len(run.files),
        "nodes": len({account.node for account in run.files if account.node}),
        **sums,
        "parsed_share": 1.0 - sums["unparsed_lines"] / max(sums["lines"], 1),
        "leader_epochs": run.tables.count_rows("leadership"),
        "findings": len(run.findings),
    }
    return pd.DataFrame([row])


def measure_files(run: GateInput) -> pd.DataFrame:
    """Measure each file; a duplicate counts as empty."""
    frame: pd.DataFrame = run.rows.select(_FILE_COLUMNS).to_pandas()
    accounts = [_measured(account) for account in run.files]
    lines = frame["lines"].clip(lower=1)
    jumps = [max((begin - end for begin, end, _ in one.steps), default=0) for one in accounts]
    times = [list(_known_times(account)) for account in accounts]
    years = [to_datetime(min(own)).year if own else None for own in times]
    odd_levels = [
        sum(count for letter, count in account.levels.items() if letter not in _LETTERS)
        for account in accounts
    ]
    frame["parsed_share"] = 1.0 - frame["unparsed_lines"] / lines
    frame["stray_share"] = _numbers([one.counts["stray_lines"] for one in accounts]) / lines
    frame["lines_left_over"] = frame["lines"] - frame[list(_BUCKETS)].sum(axis=1)
    frame["steps_back"] = _numbers([account.stepped for account in accounts])
    frame["farthest_step_back"] = _numbers(jumps) / SECOND
    frame["first_year"] = _numbers(years)
    frame["days_ahead"] = _numbers(_days_ahead(accounts, times, run.clocks))
    frame["odd_levels"] = _numbers(odd_levels)
    frame["fallen_epochs"] = _numbers([account.fallen for account in accounts])
    return frame


def _measured(account: FileAccount) -> FileAccount:
    """Return what is measured of a file: what is there twice counts as empty.

    Where several nodes wrote to a file, time and epochs go their own way in each part of it.
    """
    if account.duplicate_of is not None:
        return FileAccount(account.file)
    if account.parts:
        stepped = sum(part.stepped for part in account.origins.values())
        steps = [step for part in account.origins.values() for step in part.steps]
        return replace(account, steps=steps, stepped=stepped, falls=[], fallen=0)
    return account


def measure_events(run: GateInput) -> pd.DataFrame:
    """Count the events of each kind in each file, and what is odd about them."""
    counts = [
        _count_flags(batch, run.brokers) for batch in run.tables.scan("events", _EVENT_COLUMNS)
    ]
    if not counts:
        empty = {name: pd.Series([], dtype=object) for name in _EVENT_GROUPS}
        return pd.DataFrame(empty | dict.fromkeys(_EVENT_COUNTS, pd.Series([], dtype=float)))
    total = _sum_counts(pa.concat_tables(counts))
    frame: pd.DataFrame = total.sort_by([("file", "ascending"), ("kind", "ascending")]).to_pandas()
    return frame[[*_EVENT_GROUPS, *_EVENT_COUNTS]]


def _count_flags(batch: pa.RecordBatch, brokers: frozenset[int]) -> pa.Table:
    """Count the flags of a batch's events by file, node and kind."""
    states = pc.equal(batch["kind"], "partition_state")
    leads = pc.and_(states, pc.greater_equal(batch["leader"], 0))
    known = pc.is_in(batch["leader"], pa.array(sorted(brokers), pa.int32()))
    flags = (
        batch["ts"].is_null(),
        pc.or_(batch["file"].is_null(), batch["line"].is_null()),
        pc.and_(batch["level"].is_valid(), pc.invert(pc.is_in(batch["level"], _KNOWN_LEVELS))),
        pc.less(batch["partition"], 0),
        pc.or_kleene(pc.less(batch["leader_epoch"], -1), pc.less(batch["partition_epoch"], -1)),
        pc.and_(leads, pc.invert(known)) if brokers else pc.and_(leads, leads.is_null()),
    )
    columns = {name: batch[name] for name in _EVENT_GROUPS}
    columns["events"] = pa.repeat(pa.scalar(1, pa.int64()), len(batch))
    for name, flag in zip(_EVENT_FLAGS, flags, strict=True):
        columns[name] = pc.fill_null(flag, fill_value=False).cast(pa.int64())
    return _sum_counts(pa.table(columns))


def _sum_counts(table: pa.Table) -> pa.Table:
    sums = table.group_by(_EVENT_GROUPS).aggregate([(name, "sum") for name in _EVENT_COUNTS])
    return sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names])


def _numbers(values: Iterable[float | None]) -> Numbers:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _known_times(account: FileAccount) -> Iterator[int]:
    """Yield the times that a file is known to name: its ends, and where it jumps."""
    yield from (edge for edge in (account.first, account.last) if edge is not None)
    for begin, end, _ in (*account.gaps, *account.steps):
        yield from (begin, end)


def _days_ahead(
    accounts: Sequence[FileAccount], times: Sequence[Sequence[int]], clocks: Clocks
) -> Iterator[float | None]:
    """Yield how many days later each file ends than all files of other nodes, if there are any."""
    owners = [account.node or account.file for account in accounts]
    ends = [
        clocks.correct(account.node, max(own), account.file) if own else None
        for account, own in zip(accounts, times, strict=True)
    ]
    latest: dict[str, int] = {}
    for owner, end in zip(owners, ends, strict=True):
        if end is not None:
            latest[owner] = max(end, latest.get(owner, end))
    last_two = sorted(latest, key=lambda owner: latest[owner], reverse=True)[:2]
    for owner, end in zip(owners, ends, strict=True):
        others = [latest[other] for other in last_two if other != owner]
        yield (end - others[0]) / DAY if others and end is not None else None


_COMMON = (
    "topic", "partition", "leader", "isr", "replicas", "started_at", "ended_at", "how", "evidence",
)  # fmt: skip
_HISTORY_FLAGS = (
    "unknown_leaders", "inferred", "without_evidence", "strange_leaders", "strange_isr",
)  # fmt: skip
# Rows of a part; those that belong to its last partition are added.
_PART = 100_000


def measure_leadership(run: GateInput) -> pd.DataFrame:
    """Measure the leader epochs of each partition."""
    parts = [_measure_partitions(part) for part in _parts(run, "leadership")]
    return _frame(parts, "epochs", "unknown_leaders", "inferred")


def measure_isr(run: GateInput) -> pd.DataFrame:
    """Measure the states of each partition."""
    return _frame([_measure_partitions(part) for part in _parts(run, "isr")], "states")


def measure_clocks(run: GateInput) -> pd.DataFrame:
    """Return the clocks as they were solved."""
    names = ["node", "offset_ms", "uncertainty_ms", "anchors", "zone_shift_minutes", "kind",
             "drift_ppm", "steps"]  # fmt: skip
    frame: pd.DataFrame = _with_lengths(run.tables.read("clocks", names), "steps").to_pandas()
    return frame


def _with_lengths(table: pa.Table, column: str) -> pa.Table:
    lengths = pc.fill_null(pc.list_value_length(table[column]), 0)
    return table.set_column(table.column_names.index(column), column, lengths)


def measure_lanes(run: GateInput) -> pd.DataFrame:
    """Measure each span of each node's lane."""
    names = ["node", "role", "state", "started_at", "ended_at", "evidence"]
    table = _with_lengths(run.tables.read("lanes", names), "evidence")
    # The terms of a controller stand beside the states of its process.
    is_term = pc.is_in(table["state"], pa.array(TERM_STATES)).cast(pa.int8())
    spans = _measure_spans(table.append_column("term", is_term), [*names[:2], "term"])
    return spans.drop(columns="term")


def measure_coverage(run: GateInput) -> pd.DataFrame:
    """Measure each span that a log covers, and each gap."""
    names = ["node", "role", "log", "state", "started_at", "ended_at", "files", "records"]
    return _measure_spans(run.tables.read("coverage", names), names[:3])


def _measure_spans(table: pa.Table, keys: Sequence[str]) -> pd.DataFrame:
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
    """Yield a table in parts that end where the rows of a partition do."""
    epoch = "leader_epoch" if table == "leadership" else "partition_epoch"
    columns = [*_COMMON, "incarnation", epoch]
    held = pa.table({})
    for batch in run.tables.scan(table, columns):
        flagged = _flag_rows(pa.Table.from_batches([batch]), epoch)
        held = pa.concat_tables([held, flagged]) if len(held) else flagged
        if len(held) >= _PART:
            # More rows of the last partition may follow.
            last = [pc.equal(held[name], held[name][-1]) for name in ("topic", "partition")]
            start = pc.index(pc.and_(*last), value=True).as_py()
            if start:
                yield held.slice(0, start)
                held = held.slice(start).combine_chunks()
    if len(held):
        yield held


def _flag_rows(rows: pa.Table, epoch: str) -> pa.Table:
    """Flag each row by itself, and keep few columns: one partition may have a million rows."""
    quoted = pc.fill_null(pc.list_value_length(rows["evidence"]), 0).to_numpy() > 0
    observed = pc.fill_null(pc.equal(rows["how"], "observed"), fill_value=False).to_numpy()
    unknown = rows["leader"].is_null().to_numpy()
    flags = (unknown, ~observed, observed & ~quoted, *_flag_non_replicas(rows))
    kept = rows.select(["topic", "partition", "started_at", "ended_at"])
    # A topic that was created again begins at epoch 0 again.
    life = pc.shift_left(pc.fill_null(rows["incarnation"].cast(pa.int64()), 0), 32)
    kept = kept.append_column("epoch", pc.add(life, rows[epoch].cast(pa.int64())))
    for name, flag in zip(_HISTORY_FLAGS, flags, strict=True):
        kept = kept.append_column(name, pa.array(flag))
    return kept


def _measure_partitions(part: pa.Table) -> pd.DataFrame:
    """Measure the partitions of a part, a row for each."""
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
        "doubled_epochs": _flag_repeated(groups, part["epoch"]),
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
    """Return times in seconds; a double is exact enough for times that lie far apart."""
    micros = pc.cast(table[name], pa.int64()).to_numpy(zero_copy_only=False)
    return np.asarray(micros, np.float64) / SECOND


def _overlaps(groups: Groups, begin: Numbers, end: Numbers) -> Numbers:
    """Return how far each span reaches into the next one of its group."""
    overlaps = np.full(len(begin), np.nan)
    before, after = _neighbours(groups, begin)
    overlaps[before] = end[before] - begin[after]
    return overlaps


def _flag_repeated(groups: Groups, epochs: pa.ChunkedArray) -> Flags:
    """Flag the rows whose epoch another row of the group has, all but the first."""
    numbers = np.asarray(epochs.to_numpy(zero_copy_only=False), np.float64)
    repeated = np.zeros(len(numbers), bool)
    before, after = _neighbours(groups, numbers)
    repeated[after] = numbers[before] == numbers[after]
    return repeated


def _neighbours(groups: Groups, values: Numbers) -> tuple[Groups, Groups]:
    """Return the rows that follow each other in a group, in the order of known values."""
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.lexsort((values[known], groups[known]))]
    same = groups[order[1:]] == groups[order[:-1]]
    return order[:-1][same], order[1:][same]


def _flag_non_replicas(rows: pa.Table) -> tuple[Flags, Flags]:
    """Flag the rows whose leader, and those of whose ISR a member, is none of the replicas."""
    known = pc.fill_null(pc.list_value_length(rows["replicas"]), 0).to_numpy() > 0
    leader = pc.fill_null(rows["leader"], -1).to_numpy().astype(np.int64)
    led = np.flatnonzero(leader >= 0)
    members = member_keys(rows["replicas"])
    # A leader is looked up as a member of its row.
    strangers = (
        keys.filter(pc.invert(pc.is_in(keys, value_set=members))).to_numpy() // MEMBER_SHIFT
        for keys in (pa.array(led * MEMBER_SHIFT + leader[led]), member_keys(rows["isr"]))
    )
    leaders, isrs = (np.isin(np.arange(len(rows)), numbers) & known for numbers in strangers)
    return leaders, isrs


_NUMBERS = ("seconds", "evidence", "strange_places", "brokers", "partitions", "clients")


def measure_findings(run: GateInput) -> pd.DataFrame:
    """Measure each finding."""
    rows = [
        {
            "id": finding.id,
            "detector": finding.detector,
            "severity": finding.severity,
            "confidence": finding.confidence,
            "seconds": (finding.end - finding.begin) / SECOND,
            "evidence": len(finding.evidence),
            "strange_places": sum(not _exists(line, run) for line in finding.evidence),
            "brokers": len(finding.brokers),
            "partitions": len(finding.partitions),
            "clients": len(finding.clients),
        }
        for finding in run.findings
    ]
    frame = pd.DataFrame(rows, columns=list(TABLES["findings"].columns))
    return frame.astype(dict.fromkeys(_NUMBERS, float))


def _exists(line: Mapping[str, Any], run: GateInput) -> bool:
    """Return True if a quoted line is one of a file that was read."""
    account = run.accounts.get(line["file"])
    return account is not None and 1 <= (line["line"] or 0) <= account.counts["lines"]
