"""Partitions that go through nights with one replica in sync: nobody is awake to notice it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from forensics.report.histories import Codes, Ints, States, states
from forensics.report.saved import Saved
from forensics.trends.covering import Span, clipped, length, merged, told_until

__all__ = ["KEPT_PARTITIONS", "LONG", "NIGHT", "NIGHTS", "Burn", "burns", "nights_of"]

HOUR = 3_600_000
# The night in UTC, as hours after the midnight before it: a store has no other time zone.
NIGHT = (22, 30)
# Less than that is a restart.
LONG = 60_000
# One night is a replica that failed, two are one that waits for Monday; a third is a habit.
NIGHTS = 2
# A broker that is down leaves thousands of partitions thin; their count is told.
KEPT_PARTITIONS = 200


@dataclass(frozen=True)
class Burn:
    """One partition, in how many nights of the window it was thin, and for how many minutes."""

    partition: str
    nights: int
    minutes: float


def nights_of(window: Span) -> list[Span]:
    """Give the nights that begin in a window, each cut where the window ends."""
    day = 24 * HOUR
    first = window[0] // day
    found = [(at * day + NIGHT[0] * HOUR, at * day + NIGHT[1] * HOUR)
             for at in range(first, window[1] // day + 1)]  # fmt: skip
    return clipped(((start, end) for start, end in found if start >= window[0]), window)


def burns(saved: Saved, window: Span) -> list[Burn]:
    """Give the partitions that were thin in some night, those of the most nights first."""
    nights = nights_of(window)
    # What is open ends where the logs do.
    whole = (saved.window or window)[0], told_until(saved, window)
    found = [burn for one in states(saved, whole, Codes()) if (burn := _burn(one, nights))]
    return sorted(found, key=lambda burn: (-burn.nights, -burn.minutes, burn.partition))


def _burn(one: States, nights: list[Span]) -> Burn | None:
    thin = merged(_thin(one.columns))
    lengths = [length(clipped(thin, night)) for night in nights] if thin else []
    long = [ms for ms in lengths if ms >= LONG]
    if not long:
        return None
    topic, number = one.name
    return Burn(f"{topic}-{number}", len(long), round(sum(long) / LONG, 1))


def _thin(columns: Ints) -> Iterator[Span]:
    """Give when one replica was in sync where there should be more.

    Where no line names the replicas, a partition that had more in sync at some time has more.
    """
    _, size, wanted, start, end = columns
    most = int(size.max(initial=-1))
    should = np.where(wanted >= 0, wanted, most)
    for at in np.flatnonzero((size >= 0) & (size <= 1) & (should > 1)).tolist():
        yield int(start[at]), int(end[at])
