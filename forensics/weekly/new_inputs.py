"""Merges the events of new logs into the weeks in which they were logged.

A week's events are one file, sorted by log and line, so that the same logs give the same bytes
whenever they came. Events are kept as they were read, before anything is said about nodes.

Finds what is new in archives: files on disk are known by their bytes, and read only once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from forensics.events.file_accounts import FileAccount
from forensics.ingest.read_plan import list_files, nothing_to_read_error
from forensics.lib import storage
from forensics.lib.arrow_io import read_batches, release_arrow_memory
from forensics.lib.deterministic_parquet import (
    PART_FILE,
    DeterministicWriter,
    digest_rows,
    iter_tables,
    sort_rows,
)
from forensics.lib.secrets import NameMasker
from forensics.lib.time_units import DAY, to_arrow_timestamp
from forensics.schemas import EVENTS
from forensics.weekly.iso_week import EARLIEST, LATEST, UNDATED, Week
from forensics.weekly.manifest import Container, Log, Manifest, account_json
from forensics.weekly.store_files import Transaction

_BLOCK = 1 << 20
_READERS = 4
Named = tuple[str, str]


@dataclass(frozen=True)
class NewInputs:
    """What a run was given: all files on disk by their bytes, and where those to read are."""

    containers: Mapping[str, Container]
    # digest to path
    unread: Mapping[str, str]
    # digest to a name for the time of reading: a digest itself looks like a secret, and is masked
    keys: Mapping[str, str]
    problems: Sequence[Named]
    files: int = 0

    @property
    def work(self) -> list[Named]:
        """Give what is to be read, each by its name of now and its path."""
        return sorted((self.keys[one], path) for one, path in self.unread.items())

    def place(self, file: str) -> Named:
        """Give the digest of the container, and the place in it, that a name of now stands for."""
        key, joint, inside = file.partition("!")
        found = next(one for one, name in self.keys.items() if name == key)
        return found, joint + inside

    @property
    def size(self) -> int:
        """How many bytes are to be read."""
        return sum(self.containers[one].size for one in self.unread)


def find_new_inputs(archives: Sequence[str], known: Manifest, read_by: str) -> NewInputs:
    """Look at every file on disk, and say which are to be read.

    That is what nobody has read yet, and what was read by other rules than those of now.
    """
    problems: list[Named] = []
    # One archive at a time: two of the same name are two runs' or one's, and nobody can tell.
    files = [one for archive in archives for one in list_files([archive], problems)]
    stale = {
        container
        for container, logs in known.logs_by_container().items()
        if any(log.read_by != read_by and log.superseded_by is None for log in logs)
    }
    containers: dict[str, Container] = {}
    unread: dict[str, str] = {}
    for label, path, found in _digested(files):
        if isinstance(found, OSError):
            problems.append(
                (label, f"{storage.display(path)} cannot be read: {found.strerror or found}")
            )
            continue
        one = containers.get(found.sha256, found).with_name(found.name)
        containers[found.sha256] = one
        if found.sha256 not in known.containers or found.sha256 in stale:
            unread.setdefault(found.sha256, path)
    if not containers:
        raise nothing_to_read_error(archives, problems)
    keys = {one: f"c{number}" for number, one in enumerate(sorted(unread))}
    return NewInputs(containers, unread, keys, problems, len(files))


def register_inputs(
    known: Manifest, new: NewInputs, read: Mapping[str, FileAccount], read_by: str
) -> dict[str, str]:
    """Note what was read; gives each log that counts as new, and the file its events are read from.

    The accounts in `read` have the names of the time of reading.
    """
    for one in new.containers.values():
        same = known.containers.get(one.sha256, one)
        known.containers[one.sha256] = same.with_name(one.name)
    news: dict[str, str] = {}
    for file in sorted(read):
        log = _log(new.place(file), read[file], read_by)
        before = known.logs.get(log.id)
        if before is not None:
            all_places = before.places | log.places
            if before.read_by == read_by:
                # The same content, in another archive: one of both accounts, whichever came first.
                account = min(before.account, log.account)
                known.logs[log.id] = replace(before, places=all_places, account=account)
                continue
            log = replace(log, places=all_places, superseded_by=before.superseded_by)
        known.logs[log.id] = log
        news[log.id] = file
    return news


def _log(place: Named, account: FileAccount, read_by: str) -> Log:
    name = account.sha256 if account.sha256 and account.counts["bytes"] else "".join(place)
    return Log(name, frozenset([place]), read_by, account_json(account))


def _digested(files: Iterable[Named]) -> Iterator[tuple[str, str, Container | OSError]]:
    with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as pool:
        files = list(files)
        for (label, path), found in zip(files, pool.map(_container, files), strict=True):
            yield label, path, found


def _container(named: Named) -> Container | OSError:
    label, path = named
    digest, size = hashlib.sha256(), 0
    try:
        with storage.open_file(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return error
    return Container(digest.hexdigest(), NameMasker().mask(label), size)


_ORDER = ("file", "line", "offset", "kind", "topic", "partition", "rule")
_SECTION = "events"
Place = Week | None


@dataclass(frozen=True)
class EventsByWeek:
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
            part.filter(pc.invert(pc.is_in(part["file"], gone)))
            for part in iter_tables(self.files[week])
        ]
        return sort_rows(pa.concat_tables([EVENTS.empty_table(), *found]), _ORDER)


@dataclass(frozen=True)
class WeekEvents:
    """What is known of a week's events: how many there are, and digests of all and of the edges."""

    rows: int
    all: str
    first_day: str | None
    last_day: str | None


def events_file(week: Place) -> str:
    """Name the file of a week's events; what has no time is kept by itself."""
    return f"{_SECTION}/week={UNDATED if week is None else week}/{PART_FILE}"


def weeks_with_events(draft: Transaction) -> list[Week]:
    """Give the weeks that have events in the store."""
    names = (name.split("/")[1].partition("=")[2] for name in draft.names(_SECTION))
    return sorted(Week.parse(name) for name in names if name != UNDATED)


def partition_by_week(
    staged: Path, news: Mapping[str, str], read: Mapping[str, FileAccount], scratch: Path,
    floor: Week | None = None,
) -> EventsByWeek:  # fmt: skip
    """Sort new events out by weeks; `news` names each log and the file it was read from.

    What is older than `floor` is let go: that week is kept no more.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    writers: dict[Place, DeterministicWriter] = {}
    files: dict[Place, Path] = {}
    logs: dict[Place, set[str]] = {}
    for batch in _numbered(staged, news, read):
        for week, rows in _by_week(batch):
            if week is not None and floor is not None and week < floor:
                continue
            if week not in writers:
                files[week] = scratch / f"{len(files)}.parquet"
                writers[week] = DeterministicWriter(files[week], EVENTS)
            writers[week].add(rows)
            logs.setdefault(week, set()).update(pc.unique(rows["file"]).to_pylist())
    for writer in writers.values():
        writer.close()
    rows = sum(writer.rows for writer in writers.values())
    return EventsByWeek(files, {week: frozenset(found) for week, found in logs.items()}, rows)


def merge_week(draft: Transaction, week: Place, new: pa.Table, gone: Iterable[str]) -> None:
    """Write the events of a week anew: the old ones without those of some logs, and the new."""
    name = events_file(week)
    old = draft.find(name)
    target = draft.scratch / PART_FILE
    with DeterministicWriter(target, EVENTS) as writer:
        for part in _merged(old, new, pa.array(sorted(gone), pa.string())):
            writer.add(part)
    if writer.rows:
        target.replace(draft.new_path(name))
    else:
        draft.delete(name)
    release_arrow_memory()


def describe_week(draft: Transaction, week: Week) -> WeekEvents | None:
    """Say what is kept of a week; null if there are no events in it."""
    path = draft.find(events_file(week))
    if path is None:
        return None
    every = digest_rows(iter_tables(path), EVENTS)
    first = digest_rows(iter_tables(path, None, _before(week.begin + DAY)), EVENTS)
    last = digest_rows(iter_tables(path, None, ~_before(week.end - DAY)), EVENTS)
    rows = sum(len(part) for part in iter_tables(path, ["line"]))
    return WeekEvents(rows, str(every), first, last)


def _before(micros: int) -> pc.Expression:
    return pc.field("ts") < to_arrow_timestamp(micros)


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
    for batch in read_batches(staged, [*EVENTS.names, "split"], pc.field("kind").is_valid()):
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
            yield EARLIEST.shift(number), rows.filter(pc.equal(numbers, number))


def _merged(old: Path | None, new: pa.Table, gone: pa.Array) -> Iterator[pa.Table]:
    """Merge rows that are sorted by log into others; no log has rows in both."""
    begin = 0
    for part in iter_tables(old) if old else ():
        rest = part.filter(pc.invert(pc.is_in(part["file"], gone)))
        if not len(rest):
            continue
        last = rest["file"][len(rest) - 1].as_py()
        end = _below(new, last)
        yield sort_rows(pa.concat_tables([rest, new.slice(begin, end - begin)]), ("file", "line"))
        begin = end
    yield new.slice(begin)


def _below(new: pa.Table, last: str) -> int:
    """Count the rows of logs whose names come before one."""
    return int(pc.sum(pc.less(new["file"], last)).as_py() or 0)
