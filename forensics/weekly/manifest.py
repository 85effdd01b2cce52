"""What was ever read, and what is new: files on disk by their bytes, the logs in them by theirs.

A name only labels a file: one that comes again under another name is the same file, and is called
by the shortest of its names. So neither order nor repetition leaves a trace.

A log that was given while it was still written to is superseded by the longer one that begins with
the same bytes, as far as both heads were digested (at least half of the shorter one). All events of
the shorter log must be events of the longer one, but for its last line, which may have been cut.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.errors import ForensicsError
from forensics.events.file_accounts import FileAccount
from forensics.ingest.archive_reader import FIRST_PREFIX
from forensics.ingest.inputs import Inputs
from forensics.ingest.read_plan import list_files, nothing_to_read_error
from forensics.lib import storage
from forensics.lib.secrets import NameMasker
from forensics.run_output.integrity import check_file
from forensics.weekly.atomic_commit import ADVICE
from forensics.weekly.iso_week import EARLIEST, LATEST, Week, week_of

CONTAINERS = "inputs/containers.parquet"
LOGS = "inputs/logs.parquet"

_CONTAINERS = pa.schema([("sha256", pa.string()), ("name", pa.string()), ("size", pa.int64())])
_LOGS = pa.schema(
    [
        ("id", pa.string()),
        # the shortest of its names
        ("name", pa.string()),
        # the files on disk that hold it, and where in them
        ("places", pa.list_(pa.struct([("container", pa.string()), ("inside", pa.string())]))),
        # the rules by which it was read
        ("read_by", pa.string()),
        ("bytes", pa.int64()),
        # weeks that have events of it
        ("weeks", pa.list_(pa.string())),
        # a log that begins with all of this one, and goes on
        ("superseded_by", pa.string()),
        ("account", pa.string()),
    ]
)
# What depends on the name of a file, its neighbours, or how it was split.
_NOT_KEPT = (
    "file", "container", "node", "role", "version", "duplicate_of", "repeats", "copy_of", "bases",
    "origin", "begins", "parts", "placement", "shifts", "layout_stretches", "unread", "patterns",
)  # fmt: skip
_MOST_ROWS = 10_000_000
_COMPARED = ("line", "offset", "kind", "topic", "partition", "text")
_MAX_READERS = 4
# A name, and a path, a problem or a place.
NamePair = tuple[str, str]


@dataclass(frozen=True)
class Container:
    """One file on disk, by its bytes."""

    sha256: str
    name: str
    size: int

    def with_name(self, name: str) -> Container:
        """Return the container with the shorter of two names."""
        return replace(self, name=min(self.name, name, key=_shortest))


@dataclass(frozen=True)
class Log:
    """One log file, by its content; an empty one, which has none, is identified by its place."""

    id: str
    # the digests of the containers that hold it, and where in them
    places: frozenset[tuple[str, str]]
    read_by: str
    # the account of all its lines, as JSON
    account: str
    weeks: tuple[Week, ...] = ()
    superseded_by: str | None = None

    @cached_property
    def parsed_account(self) -> FileAccount:
        """The account of all its lines; not to be changed."""
        try:
            return _parse_account(json.loads(self.account))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ForensicsError(f"the account of log {self.id} is damaged. {ADVICE}") from error

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        return self.parsed_account.counts["bytes"]

    @property
    def is_undated(self) -> bool:
        """Return True if it has lines, but no time."""
        return bool(self.size) and self.parsed_account.first is None and not self.weeks

    def weeks_with_lines(self) -> set[Week]:
        """Return the weeks in which it has lines: all of its span but its long silences."""
        first, last = self.parsed_account.first, self.parsed_account.last
        if first is None or last is None:
            return set()
        if last < first:
            bounds = [(first, first), (last, last)]
        else:
            bounds, start = [], first
            for begin, end, _ in sorted(self.parsed_account.gaps):
                if begin >= start:
                    bounds.append((start, begin))
                    start = end
            bounds.append((start, max(start, last)))
        weeks = {
            Week(number)
            for start, end in bounds
            for number in range(week_of(start).number, week_of(end).number + 1)
        }
        return {week for week in weeks if EARLIEST <= week < LATEST}


# Returns the events of a log with the columns in `_COMPARED`, in the order of lines.
EventReader = Callable[[Log], pa.Table]


@dataclass
class Manifest:
    """All containers and all logs that were ever given."""

    containers: dict[str, Container] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)

    @classmethod
    def load(cls, containers: Path | None, logs: Path | None) -> Manifest:
        """Read what a store has kept so far."""
        manifest = cls()
        if containers is not None and logs is not None:
            check_file(containers, _CONTAINERS, _MOST_ROWS, ADVICE)
            check_file(logs, _LOGS, _MOST_ROWS, ADVICE)
            for row in pq.read_table(containers).to_pylist():
                manifest.containers[row["sha256"]] = Container(**row)
            for row in pq.read_table(logs).to_pylist():
                manifest.logs[row["id"]] = Log(
                    row["id"],
                    frozenset((place["container"], place["inside"]) for place in row["places"]),
                    row["read_by"],
                    row["account"],
                    tuple(map(Week.parse, row["weeks"])),
                    row["superseded_by"],
                )
        return manifest

    def save(self, containers: Path, logs: Path) -> None:
        """Write all of it, sorted."""
        rows = [vars(container) for _, container in sorted(self.containers.items())]
        table = pa.Table.from_pylist(rows, schema=_CONTAINERS)
        pq.write_table(table, containers, compression="zstd")
        rows = [
            {
                "id": log.id,
                "name": self.name(log),
                "places": [{"container": one, "inside": name} for one, name in sorted(log.places)],
                "read_by": log.read_by,
                "bytes": log.size,
                "weeks": [str(week) for week in sorted(log.weeks)],
                "superseded_by": log.superseded_by,
                "account": log.account,
            }
            for _, log in sorted(self.logs.items())
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=_LOGS), logs, compression="zstd")

    def name(self, log: Log) -> str:
        """Return the shortest name of a log."""
        names = (self.containers[container].name + inside for container, inside in log.places)
        return min(names, key=_shortest)

    def current_logs(self) -> Iterator[Log]:
        """Yield the logs that are not superseded."""
        return (log for log in self.logs.values() if log.superseded_by is None)

    def stale_containers(self, read_by: str) -> set[str]:
        """Return the containers of logs that were read by other rules than these."""
        return {
            container
            for log in self.current_logs()
            if log.read_by != read_by
            for container, _ in log.places
        }


def account_json(account: FileAccount) -> str:
    """Write an account as it is kept: with nothing that depends on a name."""
    return json.dumps(_kept_values(account), sort_keys=True, ensure_ascii=False)


def _kept_values(account: FileAccount) -> dict[str, Any]:
    kept = {name: value for name, value in vars(account).items() if name not in _NOT_KEPT}
    origins = {origin: _kept_values(part) for origin, part in account.origins.items()}
    # JSON has no sets.
    lists = {name: sorted(value) for name, value in kept.items() if isinstance(value, set)}
    return kept | lists | {"origins": origins}


def _parse_account(values: Mapping[str, Any]) -> FileAccount:
    account = FileAccount("")
    for name, value in values.items():
        if name == "origins":
            account.origins = {origin: _parse_account(part) for origin, part in value.items()}
        elif isinstance(vars(account)[name], Counter):
            setattr(account, name, Counter(value))
        elif isinstance(value, list):
            # JSON has no tuples.
            items = [tuple(each) if isinstance(each, list) else each for each in value]
            setattr(account, name, type(vars(account)[name])(items))
        else:
            setattr(account, name, value)
    return account


def disambiguate_names(names: Mapping[str, str], order: Sequence[str]) -> dict[str, str]:
    """Return a name of its own for each log: the first in `order` keeps a name of several.

    >>> disambiguate_names({"a1": "server.log", "b2": "server.log"}, ["b2", "a1"])
    {'b2': 'server.log', 'a1': 'server.log#a1'}
    """
    unique: dict[str, str] = {}
    taken: set[str] = set()
    for log in order:
        candidates = (names[log], f"{names[log]}#{log[:8]}", f"{names[log]}#{log}")
        unique[log] = next((name for name in candidates if name not in taken), candidates[-1])
        taken.add(unique[log])
    return unique


def _shortest(name: str) -> tuple[int, str]:
    return len(name), name


def mark_superseded_logs(
    manifest: Manifest, new_logs: Iterable[str], read: EventReader
) -> set[str]:
    """Note which logs are the beginnings of longer ones, and return those."""
    superseded: set[str] = set()
    for short, candidates in _candidates(manifest, set(new_logs)):
        longer = [log for log in candidates if _is_beginning(short, log, read)]
        if longer:
            best = max(longer, key=lambda log: (log.size, log.id))
            manifest.logs[short.id] = replace(short, superseded_by=best.id)
            superseded.add(short.id)
    _skip_superseded(manifest)
    return superseded


def _candidates(manifest: Manifest, new_logs: set[str]) -> Iterator[tuple[Log, list[Log]]]:
    """Yield each log with the longer ones that have the same head; one of two must be new."""
    by_head: dict[str, list[Log]] = {}
    for log in manifest.current_logs():
        if (head := log.parsed_account.heads.get(str(FIRST_PREFIX))) is not None:
            by_head.setdefault(head, []).append(log)
    for logs in by_head.values():
        for short in logs:
            longer = [
                log
                for log in logs
                if log.size > short.size and _has_same_head(short, log)
                if log.id in new_logs or short.id in new_logs
            ]
            if longer:
                yield short, longer


def _has_same_head(short: Log, longer: Log) -> bool:
    heads = short.parsed_account.heads
    length = max(heads, key=int)
    return heads[length] == longer.parsed_account.heads.get(length)


def _is_beginning(short: Log, longer: Log, read: EventReader) -> bool:
    """Return True if the events of a log, without its last line, are the first of a longer one."""
    events = read(short)
    if not len(events):
        return True
    last = pc.max(events["line"])
    before, longer_before = (
        rows.select(list(_COMPARED)).filter(pc.less(rows["line"], last))
        for rows in (events, read(longer))
    )
    if short.read_by == longer.read_by:
        return bool(before.equals(longer_before))
    # Other rules find other events, but lines that both quote must be the same.
    texts, longer_texts = _texts_by_line(before), _texts_by_line(longer_before)
    both = texts.keys() & longer_texts.keys()
    return (bool(both) or not texts) and all(texts[line] == longer_texts[line] for line in both)


def _texts_by_line(events: pa.Table) -> Mapping[int, str]:
    """Return the text of each line; a line with many events is quoted in full by one of them."""
    texts: dict[int, str] = {}
    for line, text in zip(events["line"].to_pylist(), events["text"].to_pylist(), strict=True):
        texts[line] = max(texts.get(line, ""), text or "", key=len)
    return texts


def _skip_superseded(manifest: Manifest) -> None:
    """Let every superseded log name the one that is current."""
    for log in list(manifest.logs.values()):
        current = log.superseded_by
        while current is not None and (newer := manifest.logs[current].superseded_by) is not None:
            current = newer
        if current != log.superseded_by:
            manifest.logs[log.id] = replace(log, superseded_by=current)


@dataclass(frozen=True)
class NewInputs:
    """What a run was given: all files on disk by their bytes, and the paths of those to read."""

    containers: Mapping[str, Container]
    # digest to path
    unread: Mapping[str, str]
    # a name while reading, to digest: a digest itself looks like a secret, and would be masked
    digests: Mapping[str, str]
    problems: Sequence[NamePair]
    file_count: int

    @property
    def files_to_read(self) -> list[NamePair]:
        """The name of each file while reading, and its path."""
        return sorted((name, self.unread[digest]) for name, digest in self.digests.items())

    @property
    def bytes_to_read(self) -> int:
        """The size of all files to read."""
        return sum(self.containers[digest].size for digest in self.unread)

    def place_of(self, file: str) -> NamePair:
        """Return the digest of the container, and the place in it, of a name while reading."""
        name, separator, inside = file.partition("!")
        return self.digests[name], separator + inside


def find_new_inputs(inputs: Inputs, manifest: Manifest, read_by: str) -> NewInputs:
    """Find the files that were never read, or that were read by other rules than these."""
    problems: list[NamePair] = list(inputs.problems)
    archives = inputs.archives
    # List archives one by one: equal names of different runs are not told apart by each other.
    files = [file for archive in archives for file in list_files([archive], problems)]
    files += list_files((), problems, spooled=inputs.spooled)
    stale = manifest.stale_containers(read_by)
    containers: dict[str, Container] = {}
    unread: dict[str, str] = {}
    with ThreadPoolExecutor(min(_MAX_READERS, os.cpu_count() or 1)) as pool:
        digested = pool.map(_digest_container, files)
    for (label, path), found in zip(files, digested, strict=True):
        if isinstance(found, OSError):
            reason = f"{storage.display(path)} cannot be read: {found.strerror or found}"
            problems.append((label, reason))
            continue
        digest = found.sha256
        containers[digest] = containers.get(digest, found).with_name(found.name)
        if digest not in manifest.containers or digest in stale:
            unread.setdefault(digest, path)
    if not containers:
        raise nothing_to_read_error([*archives, *(name for name, _ in inputs.spooled)], problems)
    digests = {f"c{number}": digest for number, digest in enumerate(sorted(unread))}
    return NewInputs(containers, unread, digests, problems, len(files))


def _digest_container(file: NamePair) -> Container | OSError:
    label, path = file
    digest, size = hashlib.sha256(), 0
    try:
        with storage.open_file(path) as content:
            while block := content.read(1 << 20):
                digest.update(block)
                size += len(block)
    except OSError as error:
        return error
    return Container(digest.hexdigest(), NameMasker().mask(label), size)


def register_inputs(
    manifest: Manifest, new: NewInputs, accounts: Mapping[str, FileAccount], read_by: str
) -> dict[str, str]:
    """Note what was read; return the id of each new log, and the file its events are read from.

    Accounts and files have the names that they had while reading.
    """
    for digest, container in new.containers.items():
        known = manifest.containers.get(digest, container)
        manifest.containers[digest] = known.with_name(container.name)
    new_logs: dict[str, str] = {}
    for file in sorted(accounts):
        log = _build_log(new.place_of(file), accounts[file], read_by)
        known_log = manifest.logs.get(log.id)
        if known_log is not None:
            places = known_log.places | log.places
            if known_log.read_by == read_by:
                # The same content in another archive: of two accounts keep one, in any order.
                account = min(known_log.account, log.account)
                manifest.logs[log.id] = replace(known_log, places=places, account=account)
                continue
            log = replace(log, places=places, superseded_by=known_log.superseded_by)
        manifest.logs[log.id] = log
        new_logs[log.id] = file
    return new_logs


def _build_log(place: NamePair, account: FileAccount, read_by: str) -> Log:
    id_ = account.sha256 if account.sha256 and account.counts["bytes"] else "".join(place)
    return Log(id_, frozenset([place]), read_by, account_json(account))
