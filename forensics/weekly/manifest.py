"""Knows what was ever read: the files on disk by their bytes, and the logs in them by theirs.

Names are only what files are called: one that comes again under another name is the same file, and
is called by the shortest of its names. So neither order nor repetition leaves a trace.

Finds logs that were given while they were still written to: a longer one takes their place.

The longer one must begin with the same bytes, as far as their heads were digested, which is half
of the shorter one at the least; and the shorter one's events must be the longer one's, but for
those of its last line, which may have been cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forensics.events.file_accounts import FileAccount
from forensics.ingest.archive_reader import FIRST_PREFIX
from forensics.weekly.iso_week import EARLIEST, LATEST, Week, week_of

CONTAINERS = "inputs/containers.parquet"
LOGS = "inputs/logs.parquet"

_CONTAINERS = pa.schema([("sha256", pa.string()), ("name", pa.string()), ("size", pa.int64())])
_PLACES = pa.list_(pa.struct([("container", pa.string()), ("inside", pa.string())]))
_LOGS = pa.schema(
    [
        ("id", pa.string()),
        # the shortest of its names
        ("name", pa.string()),
        # the files on disk that hold it, and where in them
        ("places", _PLACES),
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
# What depends on the name of a file, its neighbours, or how it was cut into pieces.
_NOT_KEPT = ("file", "node", "role", "version", "duplicate_of", "bases")


@dataclass(frozen=True)
class Container:
    """One file on disk, by its bytes."""

    sha256: str
    name: str
    size: int

    def with_name(self, name: str) -> Container:
        """Give it with this name, too: the shortest is kept."""
        return replace(self, name=min(self.name, name, key=_shortest))


@dataclass(frozen=True)
class Log:
    """One log file, by its content; `account` is the account of all its lines, as JSON.

    What is empty has no content that names it, and is named by its place.
    """

    id: str
    places: frozenset[tuple[str, str]]
    read_by: str
    account: str
    weeks: tuple[Week, ...] = ()
    superseded_by: str | None = None
    parsed_account: FileAccount = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Read the account once."""
        object.__setattr__(self, "parsed_account", _account(self.account))

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        return self.parsed_account.counts["bytes"]

    @property
    def is_undated(self) -> bool:
        """Whether it says something, but not when."""
        return bool(self.size) and self.parsed_account.first is None and not self.weeks

    def weeks_with_lines(self) -> set[Week]:
        """Give the weeks in which it has lines: all of its span but its long silences."""
        return {week for week in self._spanned() if EARLIEST <= week < LATEST}

    def _spanned(self) -> set[Week]:
        first, last = self.parsed_account.first, self.parsed_account.last
        if first is None or last is None:
            return set()
        if last < first:
            return {week_of(first), week_of(last)}
        stretches, since = [], first
        for begin, end, _ in sorted(self.parsed_account.gaps):
            if begin >= since:
                stretches.append((since, begin))
                since = end
        stretches.append((since, max(since, last)))
        return {
            Week(number)
            for begin, end in stretches
            for number in range(week_of(begin).number, week_of(end).number + 1)
        }


@dataclass
class Manifest:
    """All containers and all logs that were ever given."""

    containers: dict[str, Container] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)

    @classmethod
    def load(cls, containers: Path | None, logs: Path | None) -> Manifest:
        """Read what a store says, if it says anything yet."""
        if containers is None or logs is None:
            return cls()
        packed = (Container(**row) for row in pq.read_table(containers).to_pylist())
        found = (_log(row) for row in pq.read_table(logs).to_pylist())
        return cls({one.sha256: one for one in packed}, {one.id: one for one in found})

    def save(self, containers: Path, logs: Path) -> None:
        """Write it, sorted."""
        packed = [vars(self.containers[name]) for name in sorted(self.containers)]
        _write(pa.Table.from_pylist(packed, schema=_CONTAINERS), containers)
        rows = [self._row(self.logs[name]) for name in sorted(self.logs)]
        _write(pa.Table.from_pylist(rows, schema=_LOGS), logs)

    def name(self, log: Log) -> str:
        """Give the shortest name of a log."""
        return min(self.names(log), key=_shortest)

    def names(self, log: Log) -> Iterator[str]:
        """Give a name for each place of a log."""
        return (self.containers[one].name + inside for one, inside in log.places)

    def current_logs(self) -> Iterator[Log]:
        """Give the logs that no longer one takes the place of."""
        return (log for log in self.logs.values() if log.superseded_by is None)

    def logs_by_container(self) -> dict[str, list[Log]]:
        """Give the logs of each container."""
        found: dict[str, list[Log]] = {one: [] for one in self.containers}
        for log in self.logs.values():
            for container in {container for container, _ in log.places}:
                found[container].append(log)
        return found

    def _row(self, log: Log) -> dict[str, object]:
        places = sorted(log.places)
        return {
            "id": log.id,
            "name": self.name(log),
            "places": [{"container": one, "inside": inside} for one, inside in places],
            "read_by": log.read_by,
            "bytes": log.size,
            "weeks": [str(week) for week in sorted(log.weeks)],
            "superseded_by": log.superseded_by,
            "account": log.account,
        }


def account_json(account: FileAccount) -> str:
    """Write an account as it is kept: with nothing that depends on a name."""
    told = {name: value for name, value in vars(account).items() if name not in _NOT_KEPT}
    return json.dumps(told, sort_keys=True, ensure_ascii=False)


def disambiguate_names(names: Mapping[str, str], order: Sequence[str]) -> dict[str, str]:
    """Give each log a name of its own: of several with the same, all but the first by `order`.

    >>> unlike({"a1": "server.log", "b2": "server.log"}, ["b2", "a1"])
    {'b2': 'server.log', 'a1': 'server.log#a1'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for one in order:
        name = names[one]
        if name in taken:
            name = f"{name}#{one[:8]}"
        if name in taken:
            name = f"{names[one]}#{one}"
        taken.add(name)
        found[one] = name
    return found


def _account(text: str) -> FileAccount:
    found = FileAccount("")
    for name, value in json.loads(text).items():
        blank = vars(found)[name]
        setattr(found, name, Counter(value) if isinstance(blank, Counter) else _tuples(value))
    return found


def _tuples(value: object) -> object:
    """Give the lists of a list as tuples, which JSON does not know."""
    if not isinstance(value, list):
        return value
    return [tuple(one) if isinstance(one, list) else one for one in value]


def _log(row: Mapping[str, object]) -> Log:
    places = frozenset((one["container"], one["inside"]) for one in _rows(row["places"]))
    weeks = tuple(Week.parse(str(name)) for name in _rows(row["weeks"]))
    superseded = row["superseded_by"]
    return Log(
        str(row["id"]), places, str(row["read_by"]), str(row["account"]), weeks,
        None if superseded is None else str(superseded),
    )  # fmt: skip


def _rows(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _shortest(name: str) -> tuple[int, str]:
    return len(name), name


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


# Gives the events of two logs with these columns, in the order of lines.
Rows = Callable[[Log], pa.Table]
_COMPARED = ("line", "offset", "kind", "topic", "partition", "text")


def supersede(known: Manifest, news: Iterable[str], rows: Rows) -> set[str]:
    """Note which logs are the beginnings of longer ones; gives those that no longer count."""
    gone: set[str] = set()
    for short, longer in _candidates(known, set(news)):
        over = [one for one in longer if _begins(short, one, rows)]
        if over:
            best = max(over, key=lambda one: (one.size, one.id))
            known.logs[short.id] = replace(short, superseded_by=best.id)
            gone.add(short.id)
    _follow(known)
    return gone


def _candidates(known: Manifest, news: set[str]) -> Iterator[tuple[Log, list[Log]]]:
    """Give each log with the longer ones that have the same head; one of two must be new."""
    alike: dict[str, list[Log]] = {}
    for log in known.current_logs():
        if (head := log.parsed_account.heads.get(str(FIRST_PREFIX))) is not None:
            alike.setdefault(head, []).append(log)
    for logs in alike.values():
        for short in logs:
            longer = [
                one
                for one in logs
                if one.size > short.size and _same_head(short, one)
                if one.id in news or short.id in news
            ]
            if longer:
                yield short, longer


def _same_head(short: Log, longer: Log) -> bool:
    length = max(short.parsed_account.heads, key=int)
    return short.parsed_account.heads[length] == longer.parsed_account.heads.get(length)


def _begins(short: Log, longer: Log, rows: Rows) -> bool:
    mine = rows(short)
    if not len(mine):
        return True
    last = pc.max(mine["line"])
    mine, theirs = (_before(one, last) for one in (mine, rows(longer)))
    if short.read_by == longer.read_by:
        return bool(mine.equals(theirs))
    # Other rules find other events, but the lines that both quote are the same.
    quoted, others = _texts(mine), _texts(theirs)
    both = quoted.keys() & others.keys()
    return (bool(both) or not quoted) and all(quoted[line] == others[line] for line in both)


def _before(rows: pa.Table, last: pa.Scalar) -> pa.Table:
    return rows.select(list(_COMPARED)).filter(pc.less(rows["line"], last))


def _texts(rows: pa.Table) -> Mapping[int, str]:
    """Give the text of each line; a line that tells of many things is quoted in full once."""
    found: dict[int, str] = {}
    for line, text in zip(rows["line"].to_pylist(), rows["text"].to_pylist(), strict=True):
        found[line] = max(found.get(line, ""), text or "", key=len)
    return found


def _follow(known: Manifest) -> None:
    """Let every log that was superseded name the one that still counts."""
    for log in list(known.logs.values()):
        over = log.superseded_by
        while over is not None and (beyond := known.logs[over].superseded_by) is not None:
            over = beyond
        if over != log.superseded_by:
            known.logs[log.id] = replace(log, superseded_by=over)
