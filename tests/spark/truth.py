"""The truth of a recording, and how far the tables of a postmortem agree with it.

A recording ends with everything being shut down; what follows the action `clients-stopped` does not
count, and neither do Kafka's own topics, whose names begin with two underscores.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

__all__ = ["Truth", "claimed_isr", "claimed_leaders", "claimed_losses", "table"]

Row = dict[str, Any]
# Topic, partition, and the leader epoch or version that is meant.
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Truth:
    """What the cluster itself wrote down."""

    folder: Path

    @cached_property
    def run(self) -> Row:
        """The versions, the actions and the producers' counts."""
        found: Row = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def states(self) -> list[Row]:
        """Every state of every partition that counts, in the cluster's own order."""
        end = next(one["t"] * 1000 for one in self.run["actions"] if one["do"] == "clients-stopped")
        text = (self.folder / "partitions.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        return [row for row in rows if row["ts"] <= end and not row["topic"].startswith("__")]

    @cached_property
    def leaders(self) -> dict[Key, int]:
        """Who led in each leader epoch; the first state of an epoch tells."""
        found: dict[Key, int] = {}
        for row in self.states:
            found.setdefault((row["topic"], row["partition"], row["leader_epoch"]), row["leader"])
        return found

    @cached_property
    def isr(self) -> dict[Key, list[int]]:
        """The in-sync replicas of each version, which KRaft calls a partition epoch."""
        found: dict[Key, list[int]] = {}
        for row in self.states:
            version = row["version"] if "version" in row else row["partition_epoch"]
            found[row["topic"], row["partition"], version] = sorted(row["isr"])
        return found

    @cached_property
    def last_epochs(self) -> dict[tuple[str, int], int]:
        """The last leader epoch of each partition before the teardown."""
        return {
            key[:2]: max(k[2] for k in self.leaders if k[:2] == key[:2]) for key in self.leaders
        }

    @cached_property
    def unclean(self) -> set[Key]:
        """Elections of a leader from outside the ISR; under KRaft the state says so itself."""
        before: dict[tuple[str, int], list[int]] = {}
        found: set[Key] = set()
        for row in self.states:
            key = (row["topic"], row["partition"])
            outside = key in before and row["leader"] >= 0 and row["leader"] not in before[key]
            if outside and row.get("recovery", 1) == 1:
                found.add((*key, row["leader_epoch"]))
            before[key] = row["isr"]
        return found

    @cached_property
    def lost(self) -> dict[str, int]:
        """How many acknowledged records of each partition could not be read back."""
        counts = self.run["acknowledged"]
        return {name: one["lost"] for name, one in counts.items() if one["lost"]}

    @cached_property
    def flapping(self) -> set[int]:
        """Brokers taken away three times or more; a pause counts when the session ran out."""
        paused: dict[str, float] = {}
        away: Counter[str] = Counter()
        for one in self.run["actions"]:
            node = one.get("node", "")
            if one["do"] == "pause":
                paused[node] = one["t"]
            long = one["do"] == "resume" and one["t"] - paused[node] > 9.5
            away[node] += one["do"] in ("kill", "stop") or long
        return {
            int(node.removeprefix("broker-"))
            for node, count in away.items()
            if node.startswith("broker-") and count >= 3
        }


def table(out: Path, name: str) -> list[Row]:
    """Read one table of a postmortem."""
    rows: list[Row] = ds.dataset(out / "tables" / name, format="parquet").to_table().to_pylist()
    return rows


def claimed_leaders(out: Path, truth: Truth) -> dict[Key, int | None]:
    """Give the leaders that a postmortem names, up to each partition's last true epoch."""
    return {
        key: row["leader"]
        for row in table(out, "leadership")
        if (key := (row["topic"], row["partition"], row["leader_epoch"]))
        and key[2] <= truth.last_epochs.get(key[:2], -1)
    }


def claimed_isr(out: Path) -> dict[Key, list[int]]:
    """Give the in-sync replicas that a postmortem names."""
    return {
        (row["topic"], row["partition"], row["partition_epoch"]): sorted(row["isr"])
        for row in table(out, "isr")
        if row["partition_epoch"] is not None and row["isr"] is not None
    }


def claimed_losses(document: Mapping[str, Any]) -> dict[Key, Row]:
    """Give the unclean elections that a postmortem names, with what each is said to have cost."""
    found: dict[Key, Row] = {}
    for finding in document["findings"]:
        if finding["detector"] == "unclean-election":
            for one in finding["measures"]["partitions"]:
                topic, _, number = one["partition"].rpartition("-")
                if not topic.startswith("__"):
                    found[topic, int(number), one["leader_epoch"]] = one
    return found
