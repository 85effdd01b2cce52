"""Which logs a detector must have seen before its silence means that nothing happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.kafka_cli import parse_version
from forensics.history.log_coverage import GAP_STATES, SILENT, classify_log_file
from forensics.lib.time_units import to_datetime
from forensics.run_output.reader import Tables

Row = Mapping[str, Any]

# More gaps than these are only counted.
_MAX_NAMED = 5
# No log of that version tells: nobody can collect one that does.
TOO_OLD = "Kafka says nothing of it before"
_WORDS = {"client": "clients'", "broker": "brokers'", "controller": "controllers'"}


@dataclass(frozen=True)
class LogRequirements:
    """Logs of nodes of some roles and, where only some kinds of log count, of these kinds.

    `events`: kinds of events without which nothing can be said, such as a garbage collector's.
    `since`: the first version of Kafka that logs it at all.
    """

    roles: tuple[str, ...]
    logs: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    since: tuple[int, int] | None = None

    def accepts(self, row: Row) -> bool:
        """Return True if a row of tables/files or tables/coverage is about such a log."""
        kind = row["log"] if "log" in row else classify_log_file(row["file"])
        fits = not self.logs or kind in (None, "all", *self.logs)
        return row["role"] in self.roles and fits

    @property
    def description(self) -> str:
        """The logs in words."""
        roles = " or ".join(_WORDS.get(role, role) for role in self.roles)
        kinds = f" ({' or '.join(f'{kind}.log' for kind in self.logs)})" if self.logs else ""
        return f"{roles} log{kinds}"


SERVERS = LogRequirements(("broker", "controller"))
BROKERS = LogRequirements(("broker",))
CONTROLLERS = LogRequirements(("broker", "controller"), ("controller", "server"))
CLIENTS = LogRequirements(("client",))


@dataclass(frozen=True)
class Visibility:
    """Which files were read, and the gaps in what they cover."""

    tables: Tables

    def missing_logs(self, requirements: LogRequirements) -> str | None:
        """Return why a detector with such requirements cannot conclude anything, if so."""
        if not any(requirements.accepts(row) and row["records"] for row in self.files):
            return f"there is no {requirements.description} in the archive"
        if requirements.events and not self.has_kinds(*requirements.events):
            kinds = " or ".join(kind.replace("_", " ") for kind in requirements.events)
            return f"no line mentions {kinds}"
        names = [row["kafka_version"] for row in self.files if row["role"] in requirements.roles]
        versions = [version for name in names if name and (version := parse_version(name))]
        if requirements.since is None or not versions or max(versions) >= requirements.since:
            return None
        return f"{TOO_OLD} {'.'.join(map(str, requirements.since))}"

    def has_kinds(self, *kinds: str) -> bool:
        """Return True if the archive has an event of one of these kinds."""
        return not self._kinds.isdisjoint(kinds)

    def describe_gaps(self, requirements: LogRequirements) -> list[str]:
        """Describe where such a detector cannot have seen anything."""
        gaps = [row for row in self._gaps if requirements.accepts(row)]
        more = len(gaps) - _MAX_NAMED
        named = [_describe_gap(row) for row in gaps[:_MAX_NAMED]]
        return [*named, *([f"and {more} more"] if more > 0 else [])]

    def gaps(self, begin: int, end: int, nodes: Iterable[str] | None = None) -> Iterator[Row]:
        """Yield the gaps that overlap a span of corrected time, of some nodes or of all."""
        wanted = None if nodes is None else set(nodes)
        for row in self._gaps:
            start, stop = row["started_at"], row["ended_at"]
            overlaps = (start is None or start <= end) and (stop is None or stop >= begin)
            if overlaps and (wanted is None or row["node"] in wanted):
                yield row

    def node_of(self, file: str) -> str | None:
        """Return the node that wrote a file; None if several did."""
        return self._nodes.get(file)

    @cached_property
    def _nodes(self) -> Mapping[str, str | None]:
        return single_nodes(self.files)

    @cached_property
    def files(self) -> Sequence[Row]:
        """All files that were read."""
        columns = ["file", "node", "role", "records", "kafka_version"]
        rows: Sequence[Row] = self.tables.read("files", columns).to_pylist()
        return rows

    @cached_property
    def _gaps(self) -> Sequence[Row]:
        columns = ["node", "role", "log", "state", "why", "started_at", "ended_at"]
        table = self.tables.read("coverage", columns, pc.field("state").isin(GAP_STATES))
        for index in (-2, -1):
            micros = table[index].cast(pa.int64())
            table = table.set_column(len(columns) + index, columns[index], micros)
        # A silence means least: a quiet node often just has nothing to say.
        return sorted(table.to_pylist(), key=lambda row: row["state"] == SILENT)

    @cached_property
    def _kinds(self) -> set[str]:
        kinds: set[str] = set()
        for batch in self.tables.scan("events", ["kind"]):
            kinds.update(batch["kind"].unique().to_pylist())
        return kinds


def single_nodes(files: Iterable[Row]) -> dict[str, str | None]:
    """Return the node of each file, None for those that several nodes wrote to."""
    nodes: dict[str, set[str | None]] = {}
    for row in files:
        nodes.setdefault(row["file"], set()).add(row["node"])
    return {file: min(own, key=str) if len(own) == 1 else None for file, own in nodes.items()}


def _describe_gap(row: Row) -> str:
    log = f"'s {row['log']}.log" if row["log"] else ""
    times = [row[name] for name in ("started_at", "ended_at") if row[name] is not None]
    span = " {:%H:%M:%S} to {:%H:%M:%S}".format(*map(to_datetime, times)) if len(times) > 1 else ""
    return f"{row['node']}{log}{span}: {row['why']}"
