"""How badly each partition fared, worst first, and its exact history for those that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forensics.report.headline import ledger
from forensics.run_output.partition_histories import (
    UNKNOWN,
    Codes,
    History,
    Name,
    States,
    histories,
    states,
)
from forensics.run_output.reader import Saved

# What the page may hold of partitions, in bytes of JSON, and what a row takes without its history.
ROOM, ROW = 900_000, 36


@dataclass(frozen=True)
class Harm:
    """What became of one partition; times in milliseconds."""

    name: Name
    # records lost at most; None: no bound is known
    lost: int | None
    unclean: int
    dark: int
    thin: int
    epochs: int
    versions: int
    leader: int | None

    @property
    def changed(self) -> bool:
        """Whether there is anything to tell."""
        return self.epochs > 1 or self.versions > 1 or bool(self.dark or self.unclean or self.thin)

    @property
    def rank(self) -> tuple[Any, ...]:
        """Worst first: lost, without a leader, changes of leaders, one replica in sync."""
        lost = 1 << 60 if self.lost is None else self.lost
        return -lost, -self.unclean, -self.dark, -self.epochs, -self.thin, self.name


@dataclass(frozen=True)
class Told:
    """The histories of some partitions, each different one once."""

    # by partition, the number of its history; those without room have none
    places: dict[Name, int]
    # pairs of flat lists: leader, epoch, milliseconds since the row before, mark; and ISR, the same
    histories: list[tuple[list[int], list[int]]]
    isrs: list[list[int]]


def harms(saved: Saved) -> tuple[list[Harm], int]:
    """Give the partitions that changed, worst first, and how many there are in all."""
    whole = saved.window
    if not whole:
        return [], 0
    lost = _lost(saved)
    versions = {one.name: (one.thin, one.columns.shape[1]) for one in states(saved, whole, Codes())}
    found, every = [], 0
    for one in histories(saved, whole):
        every += 1
        harm = _harm(one, lost, versions.pop(one.name, (0, 0)))
        if harm.changed or harm.lost != 0:
            found.append(harm)
    # A partition whose leaders nobody names still has its ISR.
    for name, (thin, many) in versions.items():
        every += 1
        if thin or many > 1:
            found.append(Harm(name, lost.get(name, 0), 0, 0, thin, 0, many, None))
    return sorted(found, key=lambda harm: harm.rank), every


def _harm(one: History, lost: dict[Name, int | None], known: tuple[int, int]) -> Harm:
    unclean, dark, epochs = one.harm
    last = int(one.columns[0][-1])
    leader = None if last == UNKNOWN else last
    return Harm(one.name, lost.get(one.name, 0), unclean, dark, known[0], epochs, known[1], leader)


def _lost(saved: Saved) -> dict[Name, int | None]:
    found: dict[Name, int | None] = {}
    for _, row in ledger(saved.findings):
        topic, _, number = row.partition.rpartition("-")
        if not number.isdecimal():
            continue
        name, most = (topic, int(number)), row.lost_records_max
        before = found.get(name, 0)
        found[name] = None if before is None or most is None else before + most
    return found


def histories_of(saved: Saved, chosen: list[Harm]) -> Told:
    """Tell the exact histories of some partitions, as many as there is room for."""
    whole = saved.window
    wanted = {harm.name for harm in chosen}
    if not whole or not wanted:
        return Told({}, [], [])
    codes = Codes()
    synced = {
        one.name: list(_synced(one, whole))
        for one in states(saved, whole, codes)
        if one.name in wanted
    }
    led = {
        one.name: list(_led(one, whole)) for one in histories(saved, whole) if one.name in wanted
    }
    places: dict[Name, int] = {}
    known: dict[str, int] = {}
    kept: list[tuple[list[int], list[int]]] = []
    room = max(0, ROOM - ROW * len(chosen))
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
    return Told(places, kept, codes.isrs)


def _led(one: History, whole: tuple[int, int]) -> Iterator[int]:
    """Code who led: what lies between two leader epochs is not known."""
    at, reached = whole[0], None
    for leader, epoch, _, start, end, mark in one.columns.T.tolist():
        if reached is not None and start > reached:
            yield from (UNKNOWN, -1, reached - at, 0)
            at = reached
        yield from (leader, epoch, start - at, mark)
        at, reached = start, end
    if reached is not None and reached < whole[1]:
        yield from (UNKNOWN, -1, reached - at, 0)


def _synced(one: States, whole: tuple[int, int]) -> Iterator[int]:
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
