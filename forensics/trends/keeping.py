"""Merges the events of new logs into the weeks in which they were logged.

A week's events are one file, sorted by log and line, so that the same logs give the same bytes
whenever they came. Events are kept as they were read, before anything is said about nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.accounting import FileAccount
from forensics.tables import EVENTS, give_back, scanned
from forensics.trends.parts import PART, Writer, digest_of, in_order, parts
from forensics.trends.shelf import Draft
from forensics.trends.weeks import DAY, EARLIEST, LATEST, UNDATED, Week

__all__ = ["Kept", "Spread", "events_name", "keep", "kept_weeks", "spread", "told"]

_ORDER = ("file", "line", "offset", "kind", "topic", "partition", "rule")
_SECTION = "events"
Place = Week | None


@dataclass(frozen=True)
class Spread:
    """New events by weeks, in files that are thrown away; and the logs they come from."""

    files: Mapping[Place, Path]
    logs: Mapping[Place, frozenset[str]]
    rows: int = 0

    def table(self, week: Place, without: Iterable[str] = ()) -> pa.Table:
        """Give the new events of a week in order, but for those of some logs."""
        if week not in self.files:
            return EVENTS.empty_table()
        gone = pa.array(sorted(without), pa.string())
        found = [
            part.filter(pc.invert(pc.is_in(part["file"], gone))) for part in parts(self.files[week])
        ]
        return in_order(pa.concat_tables([EVENTS.empty_table(), *found]), _ORDER)


@dataclass(frozen=True)
class Kept:
    """What is known of a week's events: how many there are, and digests of all and of the edges."""

    rows: int
    all: str
    first_day: str | None
    last_day: str | None


def events_name(week: Place) -> str:
    """Name the file of a week's events; what has no time is kept by itself."""
    return f"{_SECTION}/week={UNDATED if week is None else week}/{PART}"


def kept_weeks(draft: Draft) -> list[Week]:
    """Give the weeks that have events in the store."""
    names = (name.split("/")[1].partition("=")[2] for name in draft.names(_SECTION))
    return sorted(Week.named(name) for name in names if name != UNDATED)


def spread(
    staged: Path, news: Mapping[str, str], read: Mapping[str, FileAccount], scratch: Path,
    floor: Week | None = None,
) -> Spread:  # fmt: skip
    """Sort new events out by weeks; `news` names each log and the file it was read from.

    What is older than `floor` is let go: that week is kept no more.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    writers: dict[Place, Writer] = {}
    files: dict[Place, Path] = {}
    logs: dict[Place, set[str]] = {}
    for batch in _numbered(staged, news, read):
        for week, rows in _by_week(batch):
            if week is not None and floor is not None and week < floor:
                continue
            if week not in writers:
                files[week] = scratch / f"{len(files)}.parquet"
                writers[week] = Writer(files[week], EVENTS)
            writers[week].add(rows)
            logs.setdefault(week, set()).update(pc.unique(rows["file"]).to_pylist())
    for writer in writers.values():
        writer.close()
    rows = sum(writer.rows for writer in writers.values())
    return Spread(files, {week: frozenset(found) for week, found in logs.items()}, rows)


def keep(draft: Draft, week: Place, new: pa.Table, gone: Iterable[str]) -> None:
    """Write the events of a week anew: the old ones without those of some logs, and the new."""
    name = events_name(week)
    old = draft.find(name)
    target = draft.scratch / PART
    with Writer(target, EVENTS) as writer:
        for part in _merged(old, new, pa.array(sorted(gone), pa.string())):
            writer.add(part)
    if writer.rows:
        target.replace(draft.path(name))
    else:
        draft.drop(name)
    give_back()


def told(draft: Draft, week: Week) -> Kept | None:
    """Say what is kept of a week; null if there are no events in it."""
    path = draft.find(events_name(week))
    if path is None:
        return None
    every = digest_of(parts(path), EVENTS)
    first = digest_of(parts(path, None, _before(week.begin + DAY)), EVENTS)
    last = digest_of(parts(path, None, ~_before(week.end - DAY)), EVENTS)
    rows = sum(len(part) for part in parts(path, ["line"]))
    return Kept(rows, str(every), first, last)


def _before(micros: int) -> pc.Expression:
    return pc.field("ts") < pa.scalar(micros, EVENTS.field("ts").type)


def _numbered(
    staged: Path, news: Mapping[str, str], read: Mapping[str, FileAccount]
) -> Iterator[pa.Table]:
    """Give the events of new logs under the log's own name, with lines of the whole file."""
    keys, names, bases = list[str](), list[str](), list[int]()
    for log, file in news.items():
        for split, base in read[file].bases.items():
            keys.append(f"{split} {file}")
            names.append(log)
            bases.append(base)
    if not staged.is_dir():
        # Nothing could be opened.
        return
    known = pa.array(keys, pa.string())
    called, starts = pa.array(names, pa.string()), pa.array(bases, pa.int64())
    for batch in scanned(staged, [*EVENTS.names, "split"], pc.field("kind").is_valid()):
        split = pc.cast(batch["split"], pa.string())
        at = pc.index_in(pc.binary_join_element_wise(split, batch["file"], " "), known)
        rows = pa.Table.from_batches([batch.filter(at.is_valid())])
        at = at.filter(at.is_valid())
        columns = {name: rows[name] for name in EVENTS.names}
        columns["file"] = called.take(at)
        columns["line"] = pc.add(rows["line"], starts.take(at))
        yield pa.table(columns).cast(EVENTS)


def _by_week(rows: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
    """Give the rows of each week; wrong dates count as none."""
    low, high = (pa.scalar(one.begin, pa.int64()) for one in (EARLIEST, LATEST))
    moments = rows["ts"].cast(pa.int64())
    right = pc.and_(pc.greater_equal(moments, low), pc.less(moments, high))
    # From the first of these weeks on, so that no number is below 0 and is rounded the other way.
    since = pc.if_else(right, pc.subtract(moments, low), pa.scalar(None, pa.int64()))
    numbers = pc.divide(since, 7 * DAY)
    for number in pc.unique(numbers).to_pylist():
        if number is None:
            yield None, rows.filter(pc.is_null(numbers))
        else:
            yield EARLIEST.after(number), rows.filter(pc.equal(numbers, number))


def _merged(old: Path | None, new: pa.Table, gone: pa.Array) -> Iterator[pa.Table]:
    """Merge rows that are sorted by log into others; no log has rows in both."""
    begin = 0
    for part in parts(old) if old else ():
        rest = part.filter(pc.invert(pc.is_in(part["file"], gone)))
        if not len(rest):
            continue
        last = rest["file"][len(rest) - 1].as_py()
        end = _below(new, last)
        yield in_order(pa.concat_tables([rest, new.slice(begin, end - begin)]), ("file", "line"))
        begin = end
    yield new.slice(begin)


def _below(new: pa.Table, last: str) -> int:
    """Count the rows of logs whose names come before one."""
    return int(pc.sum(pc.less(new["file"], last)).as_py() or 0)
