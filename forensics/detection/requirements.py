"""Which logs a detector must have seen before its silence means that nothing happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from forensics.detection.kafka_cli import parse_version
from forensics.history.log_coverage import classify_log_file
from forensics.run_output.reader import Tables

Row = Mapping[str, Any]

# Some holes are named; more of them would only be read by nobody.
_MAX_NAMED = 5
_WORDS = {"client": "clients'", "broker": "brokers'", "controller": "controllers'"}


@dataclass(frozen=True)
class LogRequirements:
    """Logs of nodes of some roles, and where only one kind of log tells, of these kinds.

    `events`: kinds of events without which nothing can be said, such as a garbage collector's.
    """

    roles: tuple[str, ...]
    logs: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    # the version from which on Kafka says it at all
    since: tuple[int, int] | None = None

    def accepts(self, row: Row) -> bool:
        """Whether a file, or a stretch of coverage, is of such a log."""
        kind = row["log"] if "log" in row else classify_log_file(row["file"])
        fits = not self.logs or kind in (None, "all", *self.logs)
        return row["role"] in self.roles and fits

    @property
    def description(self) -> str:
        """Name the logs."""
        roles = " or ".join(_WORDS.get(role, role) for role in self.roles)
        kinds = f" ({' or '.join(f'{kind}.log' for kind in self.logs)})" if self.logs else ""
        return f"{roles} log{kinds}"


SERVERS = LogRequirements(("broker", "controller"))
BROKERS = LogRequirements(("broker",))
CONTROLLERS = LogRequirements(("broker", "controller"), ("controller", "server"))
CLIENTS = LogRequirements(("client",))


@dataclass(frozen=True)
class Visibility:
    """What the archive lets anyone see: its files, and the holes in what they cover."""

    tables: Tables

    def missing_logs(self, requirements: LogRequirements) -> str | None:
        """Say why a detector with such needs cannot say anything, if so."""
        if not any(requirements.accepts(row) and row["records"] for row in self.files):
            return f"there is no {requirements.description} in the archive"
        if requirements.events and not any(kind in self._kinds for kind in requirements.events):
            kinds = " or ".join(kind.replace("_", " ") for kind in requirements.events)
            return f"no line tells of {kinds}"
        return self._too_old_versions(requirements)

    def _too_old_versions(self, requirements: LogRequirements) -> str | None:
        told = [row["kafka_version"] for row in self.files if row["role"] in requirements.roles]
        known = [one for text in told if text and (one := parse_version(text))]
        if requirements.since is None or not known or max(known) >= requirements.since:
            return None
        return f"Kafka says nothing of it before {'.'.join(map(str, requirements.since))}"

    def has_kinds(self, *kinds: str) -> bool:
        """Whether any line of the archive tells of one of these: else nobody need look for them."""
        return any(kind in self._kinds for kind in kinds)

    def describe_gaps(self, requirements: LogRequirements) -> list[str]:
        """Say what such a detector cannot have seen, in words."""
        holes = [row for row in self._gaps if requirements.accepts(row)]
        named = [_describe_gap(row) for row in holes[:_MAX_NAMED]]
        more = len(holes) - len(named)
        return [*named, *([f"and {more} more"] if more else [])]

    def gaps(self, begin: int, end: int, nodes: Iterable[str] | None = None) -> Iterator[Row]:
        """Give the holes that touch a stretch of corrected time, of some nodes or of all."""
        wanted = None if nodes is None else set(nodes)
        for row in self._gaps:
            low, high = row["started_at"], row["ended_at"]
            touches = (low is None or _micros(low) <= end) and (
                high is None or _micros(high) >= begin
            )
            if touches and (wanted is None or row["node"] in wanted):
                yield row

    def node_of(self, file: str) -> str | None:
        """Return the node that wrote a file."""
        return self._nodes.get(file)

    @cached_property
    def _nodes(self) -> Mapping[str, str | None]:
        return {row["file"]: row["node"] for row in self.files}

    @cached_property
    def files(self) -> Sequence[Row]:
        """All files that were read."""
        columns = ["file", "node", "role", "records", "kafka_version"]
        rows: Sequence[Row] = self._read("files", columns)
        return rows

    @cached_property
    def _gaps(self) -> Sequence[Row]:
        rows = self._read("coverage", ["node", "role", "log", "state", "started_at", "ended_at",
                                       "why"])  # fmt: skip
        holes = [row for row in rows if row["state"] in ("missing", "rotated", "hidden", "silent")]
        # A silence says least: many a quiet node just has nothing to say.
        return sorted(holes, key=lambda row: row["state"] == "silent")

    @cached_property
    def _kinds(self) -> set[str]:
        found: set[str] = set()
        for batch in self.tables.scan("events", ["kind"]):
            found.update(batch["kind"].unique().to_pylist())
        return found

    def _read(self, table: str, columns: list[str]) -> list[Row]:
        rows: list[Row] = self.tables.read(table, columns).to_pylist()
        return rows


def _describe_gap(row: Row) -> str:
    log = f"'s {row['log']}.log" if row["log"] else ""
    when = [_clock(row[name]) for name in ("started_at", "ended_at")]
    span = f" {when[0]} to {when[1]}" if all(when) else ""
    return f"{row['node']}{log}{span}: {row['why']}"


def _clock(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).strftime("%H:%M:%S")


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
