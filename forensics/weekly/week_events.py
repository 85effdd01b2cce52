"""The events of a store, in one file for each week in which they were logged.

The file is sorted by log and line, so the same logs give the same bytes, whenever they came. Events
are kept as they were read, before anything is said about nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount
from forensics.lib.arrow_io import (
    PART_FILE,
    DeterministicWriter,
    digest_rows,
    iter_tables,
    read_batches,
    release_arrow_memory,
    sort_rows,
)
from forensics.lib.time_units import DAY, to_arrow_timestamp
from forensics.run_output.integrity import check_file
from forensics.schemas import EVENTS
from forensics.weekly.atomic_commit import ADVICE, STORE_FILE, Transaction
from forensics.weekly.iso_week import EARLIEST, LATEST, UNDATED, Week

# None for events without a time, or with a wrong date.
MaybeWeek = Week | None
EVENT_ORDER = ("file", "line", "offset", "kind", "topic", "partition", "rule")
_FOLDER = "events"
# A bomb has more rows than a table of its size can have; this is beyond all weeks.
_MOST_EVENTS = 1 << 34


@dataclass(frozen=True)
class EventsByWeek:
    """New events, in a temporary file for each week, and the ids of the logs they come from."""

    files: Mapping[MaybeWeek, Path]
    logs: Mapping[MaybeWeek, frozenset[str]]
    rows: int

    def read(self, week: MaybeWeek, without_logs: Iterable[str]) -> pa.Table:
        """Return the new events of a week in order, but not those of some logs."""
        if week not in self.files:
            return EVENTS.empty_table()
        kept = _without_logs(self.files[week], without_logs)
        return sort_rows(pa.concat_tables([EVENTS.empty_table(), *kept]), EVENT_ORDER)


class WeekEvents(NamedTuple):
    """How many events a week has, and digests of all of them and of its first and last day."""

    rows: int
    all: str
    first_day: str | None
    last_day: str | None


def events_file(week: MaybeWeek) -> str:
    """Return the name of the file with the events of a week."""
    return f"{_FOLDER}/week={UNDATED if week is None else week}/{PART_FILE}"


def read_figures(saved: Any) -> WeekEvents:
    """Read what a store has saved of the events of a week."""
    try:
        return WeekEvents(**saved)
    except TypeError as error:
        raise ForensicsError(f"{STORE_FILE} is damaged: {error}. {ADVICE}") from error


def check_events(files: Transaction) -> None:
    """Raise an error for the first table of events that is not as it was written."""
    for name in files.names(_FOLDER):
        if path := files.find(name):
            check_file(path, EVENTS, _MOST_EVENTS, ADVICE)


def weeks_with_events(files: Transaction) -> list[Week]:
    """Return the weeks that have events in a store."""
    names = {name.split("/")[1].partition("=")[2] for name in files.names(_FOLDER)}
    return sorted(Week.parse(name) for name in names - {UNDATED})


def partition_by_week(
    staged: Path, new_logs: Mapping[str, str], accounts: Mapping[str, FileAccount], scratch: Path,
    *, first_kept: Week | None = None,
) -> EventsByWeek:  # fmt: skip
    """Write new events into a file for each week, but not those of weeks before `first_kept`.

    `new_logs` has the id of each log, and the file it was read from.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    writers: dict[MaybeWeek, DeterministicWriter] = {}
    files: dict[MaybeWeek, Path] = {}
    logs: dict[MaybeWeek, set[str]] = {}
    for batch in _read_staged(staged, new_logs, accounts):
        for week, rows in _split_by_week(batch):
            if week is not None and first_kept is not None and week < first_kept:
                continue
            if week not in writers:
                files[week] = scratch / f"{len(files)}.parquet"
                writers[week] = DeterministicWriter(files[week], EVENTS)
            writers[week].add(rows)
            logs.setdefault(week, set()).update(pc.unique(rows["file"]).to_pylist())
    for writer in writers.values():
        writer.close()
    rows = sum(writer.rows for writer in writers.values())
    return EventsByWeek(files, {week: frozenset(ids) for week, ids in logs.items()}, rows)


def _read_staged(
    staged: Path, new_logs: Mapping[str, str], accounts: Mapping[str, FileAccount]
) -> Iterator[pa.Table]:
    """Yield the events of new logs, under the log's id and with line numbers of the whole file."""
    if not staged.is_dir():
        # Nothing could be opened.
        return
    splits = [
        (f"{split} {file}", log, base)
        for log, file in new_logs.items()
        for split, base in accounts[file].bases.items()
    ]
    keys = pa.array([key for key, _, _ in splits], pa.string())
    ids = pa.array([log for _, log, _ in splits], pa.string())
    bases = pa.array([base for _, _, base in splits], pa.int64())
    for batch in read_batches(staged, [*EVENTS.names, "split"], pc.field("kind").is_valid()):
        split = pc.cast(batch["split"], pa.string())
        index = pc.index_in(pc.binary_join_element_wise(split, batch["file"], " "), keys)
        rows = pa.Table.from_batches([batch.filter(index.is_valid())])
        index = index.filter(index.is_valid())
        columns = {name: rows[name] for name in EVENTS.names}
        columns["file"] = ids.take(index)
        columns["line"] = pc.add(rows["line"], bases.take(index))
        yield pa.table(columns).cast(EVENTS)


def _split_by_week(rows: pa.Table) -> Iterator[tuple[MaybeWeek, pa.Table]]:
    first, end = (pa.scalar(week.begin, pa.int64()) for week in (EARLIEST, LATEST))
    moments = rows["ts"].cast(pa.int64())
    is_dated = pc.and_(pc.greater_equal(moments, first), pc.less(moments, end))
    # Count from the earliest week, as division rounds numbers below 0 the other way.
    since = pc.if_else(is_dated, pc.subtract(moments, first), pa.scalar(None, pa.int64()))
    numbers = pc.divide(since, 7 * DAY)
    for number in pc.unique(numbers).to_pylist():
        if number is None:
            yield None, rows.filter(pc.is_null(numbers))
        else:
            yield EARLIEST.shift(number), rows.filter(pc.equal(numbers, number))


def merge_week(
    files: Transaction, week: MaybeWeek, new: pa.Table, without_logs: Iterable[str]
) -> None:
    """Write the events of a week anew: the old ones but those of some logs, and the new ones."""
    name = events_file(week)
    old = files.find(name)
    target = files.scratch / PART_FILE
    with DeterministicWriter(target, EVENTS) as writer:
        begin = 0
        # Both are sorted by log, and no log has rows in both.
        for part in _without_logs(old, without_logs) if old else ():
            last = part["file"][len(part) - 1].as_py()
            end = int(pc.sum(pc.less(new["file"], last)).as_py() or 0)
            rows = pa.concat_tables([part, new.slice(begin, end - begin)])
            writer.add(sort_rows(rows, ("file", "line")))
            begin = end
        writer.add(new.slice(begin))
    if writer.rows:
        target.replace(files.new_path(name))
    else:
        files.delete(name)
    release_arrow_memory()


def _without_logs(path: Path, logs: Iterable[str]) -> Iterator[pa.Table]:
    """Yield the events of a file that are not of some logs."""
    ids = pa.array(sorted(logs), pa.string())
    for part in iter_tables(path):
        kept = part.filter(pc.invert(pc.is_in(part["file"], ids)))
        if len(kept):
            yield kept


def describe_week(files: Transaction, week: Week) -> WeekEvents | None:
    """Count and digest the events of a week; None if it has none."""
    path = files.find(events_file(week))
    if path is None:
        return None
    is_first = pc.field("ts") < to_arrow_timestamp(week.begin + DAY)
    is_last = pc.field("ts") >= to_arrow_timestamp(week.end - DAY)
    first = digest_rows(iter_tables(path, None, is_first), EVENTS)
    last = digest_rows(iter_tables(path, None, is_last), EVENTS)
    rows = sum(len(part) for part in iter_tables(path, ["line"]))
    return WeekEvents(rows, str(digest_rows(iter_tables(path), EVENTS)), first, last)
