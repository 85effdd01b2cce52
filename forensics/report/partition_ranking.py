"""How badly each partition fared, worst first, and its exact history for those that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from forensics.lib import intervals
from forensics.lib.whole_numbers import whole_number
from forensics.report.data_loss import loss_rows
from forensics.run_output.partition_histories import (
    UNKNOWN_LEADER,
    IsrCodes,
    IsrHistory,
    LeaderHistory,
    TopicPartition,
    read_isr_histories,
    read_leader_histories,
)
from forensics.run_output.reader import RunOutput

# What the page may hold of partitions, in bytes of JSON, and what a row takes without its history.
MAX_BYTES, ROW_BYTES = 900_000, 36
# A leader epoch is four numbers there, an ISR two, and a number takes two bytes or more.
_MOST_EPOCHS, _MOST_ISRS = MAX_BYTES // 8, MAX_BYTES // 4
Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PartitionImpact:
    """What became of one partition; times in milliseconds."""

    name: TopicPartition
    # records lost at most; None: no bound is known
    max_lost: int | None
    unclean_count: int
    # but for what was planned, as the shutdown at the end of the logs
    unavailable_ms: int
    single_isr_ms: int
    epoch_count: int
    isr_count: int
    leader: int | None

    @property
    def has_changed(self) -> bool:
        """Return True if there is anything to tell."""
        troubles = self.unavailable_ms, self.unclean_count, self.single_isr_ms, self.max_lost != 0
        return self.epoch_count > 1 or self.isr_count > 1 or any(troubles)

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Worst first: lost, without a leader, changes of leaders, one replica in sync."""
        lost = 1 << 60 if self.max_lost is None else self.max_lost
        troubles = (
            lost,
            self.unclean_count,
            self.unavailable_ms,
            self.epoch_count,
            self.single_isr_ms,
        )
        return *(-trouble for trouble in troubles), self.name


@dataclass(frozen=True)
class PackedHistories:
    """The histories of some partitions, each different one once."""

    # by partition, the index of its history; those without room have none
    positions: dict[TopicPartition, int]
    # pairs of flat lists: leader, epoch, milliseconds since the row before, mark; and ISR, the same
    histories: list[tuple[list[int], list[int]]]
    isrs: list[list[int]]


def rank_partitions(run: RunOutput) -> tuple[list[PartitionImpact], int]:
    """Return the partitions that changed, worst first, and how many there are in all."""
    window = run.window
    if not window:
        return [], 0
    lost, outages = _max_lost(run), read_unavailable_times(run)
    isrs = {
        history.name: (history.single_isr_ms, history.columns.shape[1])
        for history in read_isr_histories(run, window, IsrCodes())
    }
    impacts = []
    for history in read_leader_histories(run, window):
        name, last = history.name, int(history.columns[0][-1])
        unclean_count, leaderless_ms, epoch_count = history.impact
        unavailable_ms = leaderless_ms if outages is None else outages.get(name, 0)
        single_isr_ms, isr_count = isrs.pop(name, (0, 0))
        impacts.append(
            PartitionImpact(
                name, lost.get(name, 0), unclean_count, unavailable_ms, single_isr_ms,
                epoch_count, isr_count, None if last == UNKNOWN_LEADER else last,
            )
        )  # fmt: skip
    # A partition whose leaders nobody names still has its ISR.
    impacts += [
        PartitionImpact(name, lost.get(name, 0), 0, 0, single_isr_ms, 0, isr_count, None)
        for name, (single_isr_ms, isr_count) in isrs.items()
    ]
    changed = [impact for impact in impacts if impact.has_changed]
    return sorted(changed, key=lambda impact: impact.sort_key), len(impacts)


def read_unavailable_times(run: RunOutput) -> dict[TopicPartition, int] | None:
    """Return for how long nobody served a partition, unplanned; None where no table says so."""
    if not run.tables.has("outages"):
        return None
    spans: dict[TopicPartition, list[Window]] = {}
    columns = ("topic", "partition", "started_at", "ended_at")
    for row in run.rows("outages", columns, ~ds.field("planned")):
        start = row["started_at"]
        end = run.logs_end if row["ended_at"] is None else row["ended_at"]
        if start is not None and end is not None and start < end:
            spans.setdefault((row["topic"], row["partition"]), []).append((start, end))
    return {name: intervals.total_length(own) for name, own in spans.items()}


def _max_lost(run: RunOutput) -> dict[TopicPartition, int | None]:
    lost: dict[TopicPartition, int | None] = {}
    for _, row in loss_rows(run.findings):
        topic, _, number = row.partition.rpartition("-")
        if (partition := whole_number(number)) is None:
            continue
        name, bound = (topic, partition), row.lost_records_max
        before = lost.get(name, 0)
        lost[name] = None if before is None or bound is None else before + bound
    return lost


def pack_histories(run: RunOutput, chosen: list[PartitionImpact]) -> PackedHistories:
    """Pack the exact histories of some partitions, as many as there is room for."""
    window = run.window
    wanted = {impact.name for impact in chosen}
    if not window or not wanted:
        return PackedHistories({}, [], [])
    codes = IsrCodes()
    # What has no room in any case is not made into objects: a partition may have a million epochs.
    wanted -= {one.name for one in chosen
               if one.epoch_count > _MOST_EPOCHS or one.isr_count > _MOST_ISRS}  # fmt: skip
    isrs = {
        history.name: list(_flatten_isrs(history, window))
        for history in read_isr_histories(run, window, codes)
        if history.name in wanted
    }
    leaders = {
        history.name: list(_flatten_leaders(history, window))
        for history in read_leader_histories(run, window)
        if history.name in wanted
    }
    positions: dict[TopicPartition, int] = {}
    known: dict[str, int] = {}
    packed: list[tuple[list[int], list[int]]] = []
    room = max(0, MAX_BYTES - ROW_BYTES * len(chosen))
    for impact in chosen:
        if impact.name not in wanted:
            continue
        pair = (leaders.get(impact.name, []), isrs.get(impact.name, []))
        key = json.dumps(pair, separators=(",", ":"))
        if key not in known:
            if len(key) > room:
                continue
            room -= len(key)
            known[key] = len(packed)
            packed.append(pair)
        positions[impact.name] = known[key]
    return PackedHistories(positions, packed, codes.isrs)


def _flatten_leaders(history: LeaderHistory, window: Window) -> Iterator[int]:
    """Yield the numbers that say who led; what lies between two leader epochs is not known."""
    at, reached = window[0], None
    for leader, epoch, _, start, end, mark in history.columns.T.tolist():
        if reached is not None and start > reached:
            yield from (UNKNOWN_LEADER, -1, reached - at, 0)
            at = reached
        yield from (leader, epoch, start - at, mark)
        at, reached = start, end
    if reached is not None and reached < window[1]:
        yield from (UNKNOWN_LEADER, -1, reached - at, 0)


def _flatten_isrs(history: IsrHistory, window: Window) -> Iterator[int]:
    """Yield the numbers that say who was in sync; -1 stands for what is not known."""
    codes, _, _, starts, ends = history.columns
    at = window[0]
    following = [*starts[1:].tolist(), window[1]]
    for code, start, end, after in np.stack([codes, starts, ends, following]).T.tolist():
        yield from (code, start - at)
        at = start
        if end < after:
            yield from (-1, end - at)
            at = end
