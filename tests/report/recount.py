"""Counts again what a verdict says, by small code of its own, from what single lines tell.

It reads the table of events (and from that of files only which nodes are clients), folds the leader
epochs by itself, and shares nothing with the report or the detectors. It stands on logs whose
clocks were right, as those of the recordings were: times are taken as they were logged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds

__all__ = ["Away", "Dark", "Lost", "Recount"]

Row = dict[str, Any]
Name = tuple[str, int]
LIFE = {"process_starting", "process_stopping", "process_stopped"}
# A client has sustained errors that logs one and the same in so many different seconds.
SUSTAINED = 10


class Away(NamedTuple):
    """A broker that was gone, from the last line of its process to its return, if it came back."""

    broker: int
    begin: int
    end: int | None


class Dark(NamedTuple):
    """A partition without a leader."""

    name: Name
    begin: int
    end: int | None


class Lost(NamedTuple):
    """What one partition lost: records, and how many of them were surely acknowledged."""

    name: Name
    records: int
    acknowledged: int


class Recount:
    """The events of one run."""

    def __init__(self, out: Path) -> None:
        rows = ds.dataset(out / "tables/events").to_table().to_pylist()
        files = ds.dataset(out / "tables/files").to_table(["node", "role"]).to_pylist()
        self.clients = {row["node"] for row in files if row["role"] == "client"}
        self.events: list[Row] = sorted(
            (row | {"at": round(row["ts"].timestamp() * 1000)} for row in rows if row["ts"]),
            key=lambda row: (row["at"], row["file"], row["line"]),
        )

    def of(self, *kinds: str) -> Iterator[Row]:
        """Give the events of some kinds, in order."""
        return (row for row in self.events if row["kind"] in kinds)

    @cached_property
    def epochs(self) -> dict[Name, list[tuple[int, int, int]]]:
        """Each partition's (leader epoch, leader, first moment at which a line tells of it)."""
        found: dict[Name, dict[int, tuple[int, int]]] = defaultdict(dict)
        for row in self.of("partition_state"):
            if row["leader"] is not None and row["leader_epoch"] is not None:
                name = row["topic"], row["partition"]
                found[name].setdefault(row["leader_epoch"], (row["leader"], row["at"]))
        return {
            name: [(epoch, *known[epoch]) for epoch in sorted(known)]
            for name, known in found.items()
        }

    @cached_property
    def teardown(self) -> int:
        """When the recording ends: its producers are closed first, before everything is stopped."""
        return min(int(row["at"]) for row in self.of("producer_closing"))

    @cached_property
    def away(self) -> list[Away]:
        """Brokers that were gone without having been asked to stop, or whose session ended."""
        nodes = {row["node"] for row in self.of("process_starting")}
        return sorted(
            (one for node in nodes for one in self._crashes(str(node))), key=lambda one: one.begin
        )

    def _crashes(self, node: str) -> Iterator[Away]:
        mine = [row for row in self.events if row["node"] == node]
        number = int(node.rpartition("-")[2])
        until = 0
        for last, row in zip(mine, mine[1:], strict=False):
            # What a process says of its start, and no line of one before it.
            if row["kind"] != "process_starting" or row["at"] - last["at"] < 3000:
                continue
            lived = [one["kind"] for one in mine if one["kind"] in LIFE and one["at"] <= last["at"]]
            if last["at"] < until or lived[-1:] != ["process_starting"]:
                continue
            back = self._back(node, number, row["at"])
            until = back or self.events[-1]["at"]
            yield Away(number, last["at"], back)

    def _back(self, node: str, number: int, since: int) -> int | None:
        """Find when others count a broker in again; on ZooKeeper it says so itself."""
        kraft = [r["at"] for r in self.of("broker_unfenced") if r["broker"] == number
                 and r["at"] > since and r["node"] != node]  # fmt: skip
        own = [r["at"] for r in self.of("broker_registered") if r["node"] == node
               and r["at"] > since]  # fmt: skip
        told = kraft if any(self.of("broker_unfenced")) else own
        return min(told, default=None)

    @cached_property
    def dark(self) -> list[Dark]:
        """Partitions without a leader, from when the controller gave up the leader before."""
        found = []
        for name, told in self.epochs.items():
            for before, here, after in zip(told, told[1:], [*told[2:], None], strict=False):
                if here[1] != -1 or here[2] >= self.teardown:
                    continue
                fenced = [
                    row["at"]
                    for row in self.of("broker_fenced")
                    if row["broker"] == before[1] and before[2] < row["at"] <= here[2]
                ]
                found.append(Dark(name, min([here[2], *fenced[:1]]), after and after[2]))
        return found

    @cached_property
    def unclean(self) -> dict[Name, tuple[int, int]]:
        """Partitions whose new leader was not in the ISR before: the moment, and the new leader."""
        return {
            (row["topic"], row["partition"]): (row["at"], row["leader"])
            for row in self.of("partition_state")
            if row["previous_isr"] is not None
            and row["leader"] not in (None, -1, *row["previous_isr"], *(row["elr"] or ()))
        }

    @cached_property
    def losses(self) -> list[Lost]:
        """What the unclean elections took: the old leader's log end, less what it cut to."""
        found = []
        for name, (at, leader) in sorted(self.unclean.items()):
            before = [one for one in self.epochs[name] if one[1] != -1 and one[2] < at]
            node = f"broker-{before[-1][1]}"
            if before[-1][1] == leader:
                found.append(Lost(name, 0, 0))
                continue
            mine = [row for row in self.events if row["node"] == node and row["at"] > at
                    and (row["topic"], row["partition"]) == name]  # fmt: skip
            cut = next(row for row in mine if row["kind"] == "truncated")
            here = [row for row in mine if row["at"] <= cut["at"] and row is not cut]
            end = next(row["log_end"] for row in here if row["log_end"] is not None)
            high = max(row["high_watermark"] for row in here if row["high_watermark"] is not None)
            found.append(Lost(name, end - cut["cut_to"], max(0, high - cut["cut_to"])))
        return found

    @cached_property
    def trimmed(self) -> dict[tuple[Name, int], int]:
        """Records cut elsewhere: the longest that any replica had beyond the offset of the cut."""
        found: dict[tuple[Name, int], int] = {}
        for cut in self.of("truncated"):
            name = cut["topic"], cut["partition"]
            ends = [row["log_end"] for row in self.events if row["node"] == cut["node"]
                    and (row["topic"], row["partition"]) == name and row["at"] <= cut["at"]
                    and row["log_end"] is not None]  # fmt: skip
            if name not in self.unclean and ends:
                place = name, cut["cut_to"]
                found[place] = max(found.get(place, 0), ends[-1] - cut["cut_to"])
        return found

    def moved(self, broker: int, begin: int, end: int) -> set[Name]:
        """Give the partitions that one broker led and others took over within a stretch of time."""
        return {
            name
            for name, told in self.epochs.items()
            for here, after in zip(told, told[1:], strict=False)
            if here[1] == broker != after[1] and begin <= after[2] <= end
        }

    @cached_property
    def refused(self) -> set[Name]:
        """Partitions whose leader refused records, with too few replicas in sync."""
        return {(row["topic"], row["partition"]) for row in self.of("append_failed")}

    @cached_property
    def sustained(self) -> set[str]:
        """Clients with one error that went on and on."""
        told: dict[tuple[str, str], set[int]] = defaultdict(set)
        for row in self.of("client_error"):
            told[row["client"] or row["node"], row["error"]].add(row["at"] // 1000)
        return {client for (client, _), seconds in told.items() if len(seconds) >= SUSTAINED}

    @cached_property
    def expired(self) -> dict[int, int]:
        """How often ZooKeeper took the session of a broker that lived."""
        told = {(row["node"], row["at"] // 1000) for row in self.of("session_expired")}
        return Counter(int(str(node).rpartition("-")[2]) for node, _ in told)
