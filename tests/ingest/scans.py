"""Reads archives as the program does, without Spark: plan, scan, add up, assign, settle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from forensics.events.file_accounts import (
    FileAccount,
    assign_nodes,
    make_event_finalizer,
    sum_accounts,
)
from forensics.events.packs import open_packs, packs_to_json
from forensics.events.scan import STAGED_SCHEMA, load_scanner
from forensics.ingest.container_accounts import (
    CONTAINER_SPLIT,
    ContainerAccount,
    sum_containers,
    wrong_sums,
)
from forensics.ingest.read_plan import bundle_splits, plan_reading
from forensics.lib.limits import DEFAULT_LIMITS
from forensics.settings import SPLIT_SIZE

__all__ = ["KINDS_OF_LINES", "Scanned", "scan"]

KINDS_OF_LINES = ("records", "continuation_lines", "blank_lines", "unparsed_lines")
_ACCOUNT = ("bytes", "lines", *KINDS_OF_LINES, "events")
_EVENT = ("kind", "ts", "line", "offset", "topic", "partition", "leader_epoch", "isr", "text")

Row = dict[str, Any]


@dataclass(frozen=True)
class Scanned:
    """What was read: accounts, events with their lines in the whole file, and problems."""

    files: dict[str, FileAccount]
    events: list[Row]
    problems: tuple[tuple[str, str], ...]
    containers: dict[str, ContainerAccount]

    def accounts(self, after: str = "/") -> dict[str, Row]:
        """Give the counts of each file, named by what stands behind the archive's name."""
        return {name.rpartition(after)[2]: account_of(one) for name, one in self.files.items()}

    def facts(self) -> list[Row]:
        """Give the events of all files, without the names of the files."""
        return sorted(
            ({name: row[name] for name in _EVENT} for row in self.events),
            key=lambda row: (row["text"], row["line"], row["kind"], row["ts"]),
        )

    def notes(self) -> dict[str, str]:
        """Say what is damaged, by the last part of its name."""
        return {
            name.rpartition("/")[2]: "; ".join(one.notes)
            for name, one in self.files.items()
            if one.notes
        }


def account_of(one: FileAccount) -> Row:
    """Give the counts of one file, without its name."""
    counts: Row = {name: one.counts[name] for name in _ACCOUNT}
    return counts | {"layouts": dict(one.layouts), "first": one.first, "last": one.last}


def scan(
    *archives: Path | str,
    split_size: int = SPLIT_SIZE,
    limits: Any = DEFAULT_LIMITS,
    patterns: Sequence[str] = (),
) -> Scanned:
    """Read archives; `patterns` are those that a user pastes."""
    packs = packs_to_json(open_packs((), patterns))
    work = plan_reading([str(path) for path in archives], split_size, limits)
    splits = [split for bundle in bundle_splits(work.splits, 2) for split in bundle]
    batches = list(load_scanner(packs).scan_all(splits))
    staged = pa.Table.from_batches(batches, schema=STAGED_SCHEMA).select(
        ["file", "split", "account"]
    )
    rows = [row for row in staged.to_pylist() if row["account"] is not None]
    rows = [row | {"account": json.loads(row["account"])} for row in rows]
    files = sum_accounts(rows)
    for label, problem in work.problems:
        files.setdefault(label, FileAccount(label, broken=True)).notes.append(problem)
    containers = sum_containers(
        work.containers, [row["account"] for row in rows if row["split"] == CONTAINER_SPLIT]
    )
    assert list(wrong_sums(containers, (one.container for one in files.values()))) == []
    for label in set(dict(work.problems)) - {row["file"] for row in rows}:
        del files[label]
    assign_nodes(files)
    events = [row for batch in make_event_finalizer(files)(batches) for row in batch.to_pylist()]
    return Scanned(files, events, work.problems, containers)
