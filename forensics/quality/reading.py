"""Measures of what was read: the archive, its files, and their events by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.accounting import FileAccount
from forensics.quality.given import Given
from forensics.tables import scanned

__all__ = ["archive", "events", "files"]

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
_DAY = 86_400_000_000
_READ = ("file", "kind", "ts", "line", "level", "partition", "leader_epoch", "partition_epoch",
         "leader", "node")  # fmt: skip
_INPUT_FLAGS = (
    "without_time", "without_place", "odd_levels", "negative_partitions", "negative_epochs",
    "strange_leaders",
)  # fmt: skip


def archive(given: Given) -> pd.DataFrame:
    """Measure all of it in one row."""
    sums = {name: pc.sum(given.rows[name]).as_py() or 0 for name in ("lines", "records", "events")}
    unparsed = pc.sum(given.rows["unparsed_lines"]).as_py() or 0
    epochs = given.data("leadership").count_rows() if given.has("leadership") else 0
    row = {
        "files": len(given.files),
        "nodes": len({one.node for one in given.files if one.node}),
        **sums,
        "parsed_share": 1.0 - unparsed / max(sums["lines"], 1),
        "leader_epochs": epochs,
        "findings": len(given.findings),
    }
    return pd.DataFrame([row])


def files(given: Given) -> pd.DataFrame:
    """Measure each file."""
    frame: pd.DataFrame = given.rows.select(_SHOWN).to_pandas()
    buckets = frame[list(_BUCKETS)].sum(axis=1)
    mine = [one if one.duplicate_of is None else FileAccount(one.file) for one in given.files]
    frame["parsed_share"] = 1.0 - frame["unparsed_lines"] / frame["lines"].clip(lower=1)
    strays = np.array([one.counts["stray_lines"] for one in mine], np.float64)
    frame["stray_share"] = strays / frame["lines"].clip(lower=1)
    frame["lines_left_over"] = frame["lines"] - buckets
    frame["steps_back"] = _numbers([one.stepped for one in mine])
    far = [max((begin - end for begin, end, _ in one.steps), default=0) for one in mine]
    frame["farthest_step_back"] = _numbers(far) / 1_000_000
    frame["first_year"] = _numbers([_year(one) for one in mine])
    frame["days_ahead"] = _numbers(_ahead(mine, given))
    frame["odd_levels"] = _numbers([_odd(one) for one in mine])
    frame["fallen_epochs"] = _numbers([one.fallen for one in mine])
    return frame


def events(given: Given) -> pd.DataFrame:
    """Count the events of each kind in each file, and what is odd about them."""
    found = [_flagged(batch, given.brokers) for batch in scanned(given.data("events"), _READ)]
    names = ["file", "node", "kind"]
    if not found:
        empty = {name: pd.Series([], dtype=object) for name in names}
        return pd.DataFrame(empty | dict.fromkeys(("events", *_INPUT_FLAGS), pd.Series([], dtype=float)))
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
    return None if first is None else _moment(first).year


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1e6, UTC)


def _ahead(accounts: Sequence[FileAccount], given: Given) -> list[float | None]:
    """Say how many days later each file ends than all files of other nodes do.

    Where there are no others, nobody knows what is too late.
    """
    ends: list[int | None] = []
    latest: dict[Any, int] = {}
    for one in accounts:
        last = max(_moments(one), default=None)
        end = None if last is None else given.clocks.correct(one.node or "", last)
        ends.append(end)
        if end is not None:
            whose = one.node or one.file
            latest[whose] = max(end, latest.get(whose, end))
    two = sorted(latest, key=lambda whose: latest[whose], reverse=True)[:2]
    found: list[float | None] = []
    for one, end in zip(accounts, ends, strict=True):
        others = [latest[whose] for whose in two if whose != (one.node or one.file)]
        found.append((end - others[0]) / _DAY if others and end is not None else None)
    return found


def _odd(one: FileAccount) -> int:
    return sum(count for letter, count in one.levels.items() if letter not in _LETTERS)
