"""The settings that clients logged as they started: of each client those of its last start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run
from forensics.lib.arrow_io import is_any_of
from forensics.lib.whole_numbers import whole_number

_COLUMNS = ("ts", "node", "file", "line", "offset", "text", "rule", "setting", "value")
# Programs that make clients again and again write their settings each time.
_MAX_STARTS = 500
_CLIENT = "client.id"


@dataclass(frozen=True)
class ClientStart:
    """One start of a client: its settings, each with its line, and the first of these lines."""

    node: str
    values: Mapping[str, str]
    line: Row
    lines: Mapping[str, Row]

    @property
    def client(self) -> str:
        """The client's id, or its node's name if it has none of its own."""
        return self.values.get(_CLIENT) or self.node

    @property
    def has_id(self) -> bool:
        """Whether it has an id of its own."""
        return bool(self.values.get(_CLIENT))

    @property
    def is_producer(self) -> bool:
        """Whether it writes records: only producers have acks."""
        return "acks" in self.values

    def number(self, setting: str) -> int | None:
        """Return a setting that is a number."""
        text = self.values.get(setting, "")
        value = whole_number(text.removeprefix("-"))
        return -value if value is not None and text.startswith("-") else value


@once_per_run
def read_client_starts(context: DetectionContext) -> Mapping[str, list[ClientStart]]:
    """Read the starts of the clients of every node, each set of settings once, in order."""
    where = (pc.field("kind") == "client_setting_seen") & pc.field("ts").is_valid()
    starts: dict[tuple[str, int], dict[str, Row]] = {}
    for row in context.each("events", where, _COLUMNS):
        # All settings of one start have the offset of their record.
        place = row["file"], row["offset"]
        if place in starts or len(starts) < _MAX_STARTS:
            starts.setdefault(place, {})[row["setting"]] = row
    found: dict[str, list[ClientStart]] = {}
    for lines in sorted(
        starts.values(), key=lambda start: min(row["at"] for row in start.values())
    ):
        line = min(lines.values(), key=lambda row: int(row["line"]))
        values = {name: row["value"] or "" for name, row in lines.items()}
        node = line["node"] or ""
        found.setdefault(node, []).append(ClientStart(node, values, line, lines))
    return found


def find_client_starts(
    context: DetectionContext, node: str, clients: Collection[str], until: int
) -> list[ClientStart]:
    """Return the last start of each client before a moment.

    Where a client is not among the starts of its node by its name, those without a name count.
    """
    own = [one for one in read_client_starts(context).get(node, ()) if one.line["at"] <= until]
    last = {one.values.get(_CLIENT, ""): one for one in own}
    named = [last[name] for name in sorted(clients) if name in last]
    return named or [one for name, one in sorted(last.items()) if not name]


@once_per_run
def topics_without_acks(context: DetectionContext) -> Mapping[tuple[str, str], set[str]]:
    """Return producers (node, client) that do not wait for followers, each with its topics.

    These are the topics that the client's own lines name.
    """
    last = {
        (one.node, one.client): one.values.get("acks")
        for starts in read_client_starts(context).values()
        for one in starts
    }
    return topics_of_clients(context, [key for key, acks in last.items() if acks in ("0", "1")])


def topics_of_clients(
    context: DetectionContext, clients: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], set[str]]:
    """Return for some clients (node, client) the topics that their own lines name."""
    found: dict[tuple[str, str], set[str]] = {key: set() for key in clients}
    where = is_any_of("node", {node for node, _ in found})
    where &= pc.field("topic").is_valid() & pc.field("client").is_valid()
    keys = ["node", "client", "topic"]
    for batch in context.batches("events", where, keys) if found else ():
        for row in pa.Table.from_batches([batch]).group_by(keys).aggregate([]).to_pylist():
            if (row["node"], row["client"]) in found:
                found[row["node"], row["client"]].add(row["topic"])
    return found


def knows_acks(context: DetectionContext) -> bool:
    """Return True if producers logged their acks here."""
    return any(one.is_producer for starts in read_client_starts(context).values() for one in starts)
