"""How badly each partition fared, worst first, and its exact history for those that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forensics.report.headline import loss_rows
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


@dataclass(frozen=True)
class PartitionImpact:
    """What became of one partition; times in milliseconds."""

    name: TopicPartition
    # records lost at most; None: no bound is known
    max_lost: int | None
    unclean_count: int
    leaderless_ms: int
    single_isr_ms: int
    epoch_count: int
    isr_count: int
    leader: int | None

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to tell."""
        return (
            self.epoch_count > 1
            or self.isr_count > 1
            or bool(self.leaderless_ms or self.unclean_count or self.single_isr_ms)
        )

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Worst first: lost, without a leader, changes of leaders, one replica in sync."""
        lost = 1 << 60 if self.max_lost is None else self.max_lost
        return (
            -lost,
            -self.unclean_count,
            -self.leaderless_ms,
            -self.epoch_count,
            -self.single_isr_ms,
            self.name,
        )


@dataclass(frozen=True)
class PackedHistories:
    """The histories of some partitions, each different one once."""

    # by partition, the number of its history; those without room have none
    positions: dict[TopicPartition, int]
    # pairs of flat lists: leader, epoch, milliseconds since the row before, mark; and ISR, the same
    histories: list[tuple[list[int], list[int]]]
    isrs: list[list[int]]


def rank_partitions(run: RunOutput) -> tuple[list[PartitionImpact], int]:
    """Give the partitions that changed, worst first, and how many there are in all."""
    whole = run.window
    if not whole:
        return [], 0
    lost = _lost(run)
    versions = {
        one.name: (one.single_isr_ms, one.columns.shape[1])
        for one in read_isr_histories(run, whole, IsrCodes())
    }
    found, every = [], 0
    for one in read_leader_histories(run, whole):
        every += 1
        harm = _harm(one, lost, versions.pop(one.name, (0, 0)))
        if harm.has_changed or harm.max_lost != 0:
            found.append(harm)
    # A partition whose leaders nobody names still has its ISR.
    for name, (thin, many) in versions.items():
        every += 1
        if thin or many > 1:
            found.append(PartitionImpact(name, lost.get(name, 0), 0, 0, thin, 0, many, None))
    return sorted(found, key=lambda harm: harm.sort_key), every


def _harm(
    one: LeaderHistory, lost: dict[TopicPartition, int | None], known: tuple[int, int]
) -> PartitionImpact:
    unclean, dark, epochs = one.impact
    last = int(one.columns[0][-1])
    leader = None if last == UNKNOWN_LEADER else last
    return PartitionImpact(
        one.name, lost.get(one.name, 0), unclean, dark, known[0], epochs, known[1], leader
    )


def _lost(run: RunOutput) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for _, row in loss_rows(run.findings):
        topic, _, number = row.partition.rpartition("-")
        if not number.isdecimal():
            continue
        name, most = (topic, int(number)), row.lost_records_max
        before = found.get(name, 0)
        found[name] = None if before is None or most is None else before + most
    return found


def pack_histories(run: RunOutput, chosen: list[PartitionImpact]) -> PackedHistories:
    """Tell the exact histories of some partitions, as many as there is room for."""
    whole = run.window
    wanted = {harm.name for harm in chosen}
    if not whole or not wanted:
        return PackedHistories({}, [], [])
    codes = IsrCodes()
    synced = {
        one.name: list(_synced(one, whole))
        for one in read_isr_histories(run, whole, codes)
        if one.name in wanted
    }
    led = {
        one.name: list(_led(one, whole))
        for one in read_leader_histories(run, whole)
        if one.name in wanted
    }
    places: dict[TopicPartition, int] = {}
    known: dict[str, int] = {}
    kept: list[tuple[list[int], list[int]]] = []
    room = max(0, MAX_BYTES - ROW_BYTES * len(chosen))
    for harm in chosen:
        pair = (led.get(harm.name, []), synced.get(harm.name, []))
        key = json.dumps(pair, separators=(",", ":"))
        if key not in known:
            if len(key) > room:
                continue
            room -= len(key)
            known[key] = len(kept)
            kept.append(pair)
        places[harm.name] = known[key]
    return PackedHistories(places, kept, codes.isrs)


def _led(one: LeaderHistory, whole: tuple[int, int]) -> Iterator[int]:
    """Code who led: what lies between two leader epochs is not known."""
    at, reached = whole[0], None
    for leader, epoch, _, start, end, mark in one.columns.T.tolist():
        if reached is not None and start > reached:
            yield from (UNKNOWN_LEADER, -1, reached - at, 0)
            at = reached
        yield from (leader, epoch, start - at, mark)
        at, reached = start, end
    if reached is not None and reached < whole[1]:
        yield from (UNKNOWN_LEADER, -1, reached - at, 0)


def _synced(one: IsrHistory, whole: tuple[int, int]) -> Iterator[int]:
    code, _, _, starts, ends = one.columns
    at = whole[0]
    last = len(code) - 1
    for place, (isr, start, end) in enumerate(np.stack([code, starts, ends]).T.tolist()):
        yield from (isr, start - at)
        at = start
        gap = end < (int(starts[place + 1]) if place < last else whole[1])
        if gap:
            yield from (-1, end - at)
            at = end
