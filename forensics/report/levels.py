"""How many partitions are in trouble at each moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.incidents.minimums import Minimums
from forensics.report.saved import Saved
from forensics.report.shortfalls import least, of_topics

__all__ = ["Changes", "debt", "highest", "steps"]

POINTS = 1500
# Spans that wait to be put in order together.
_HELD = 500_000
Ints = npt.NDArray[np.int64]


def steps(spans: Iterable[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    """Count how many spans are open at each moment it changes.

    >>> steps([(1, 3), (1, 5)], (0, 9))
    [(0, 0), (1, 2), (3, 1), (5, 0), (9, 0)]
    """
    changes = Changes(whole)
    pairs = np.array(list(spans), np.int64).reshape(-1, 2)
    changes.take(pairs[:, 0], pairs[:, 1])
    return changes.points()


class Changes:
    """How many spans open and close at each moment; holds moments, however many spans there are."""

    def __init__(self, whole: tuple[int, int]) -> None:
        """Begin with nothing open in all of `whole`."""
        self._whole = whole
        self._moments = np.array(whole, np.int64)
        self._levels = np.zeros(2, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._held = 0

    def take(self, starts: Ints, ends: Ints) -> None:
        """Take spans."""
        begun, over = np.maximum(starts, self._whole[0]), np.minimum(ends, self._whole[1])
        ones = np.ones(len(begun), np.int64)
        self._waiting += [(begun, ones), (over, -ones)]
        self._held += len(begun)
        if self._held > max(_HELD, len(self._moments)):
            self._settle()

    def _settle(self) -> None:
        both = [(self._moments, self._levels), *self._waiting]
        moments, levels = (np.concatenate(one) for one in zip(*both, strict=True))
        self._moments, places = np.unique(moments, return_inverse=True)
        self._levels = np.zeros(len(self._moments), np.int64)
        np.add.at(self._levels, places, levels)
        self._waiting, self._held = [], 0

    def points(self) -> list[tuple[int, int]]:
        """Give moments and how many spans are open from then on."""
        self._settle()
        moments, levels = self._moments, np.cumsum(self._levels)
        if len(moments) > POINTS:
            kept = _kept(moments, levels, max(1, 3 * (self._whole[1] - self._whole[0]) // POINTS))
            moments, levels = moments[kept], levels[kept]
        return list(zip(moments.tolist(), levels.tolist(), strict=True))


def _kept(moments: Ints, levels: Ints, wide: int) -> Ints:
    """Choose of each slice its peak, the lowest level after it, and its end.

    So a short peak does not disappear, and is not stretched over what comes after it.
    """
    slots = moments // wide
    order = np.lexsort((moments, -levels, slots))
    slices, firsts = np.unique(slots[order], return_index=True)
    peaks = order[firsts]
    follow = np.flatnonzero(np.arange(len(slots)) >= peaks[np.searchsorted(slices, slots)])
    order = follow[np.lexsort((moments[follow], levels[follow], slots[follow]))]
    troughs = order[np.unique(slots[order], return_index=True)[1]]
    ends = np.append(np.flatnonzero(np.diff(slots)), len(slots) - 1)
    return np.unique(np.concatenate([peaks, troughs, ends]))


def debt(saved: Saved) -> dict[str, list[tuple[int, int]]]:
    """Count partitions without a leader, under min.insync.replicas, and under-replicated.

    What no line tells of is not among them: nothing is counted as none.
    """
    whole = saved.window
    if not whole:
        return {}
    times = ["started_at", "ended_at"]
    offline = saved.parts("leadership", times, ds.field("leader") == -1)
    found = {"offline": _level(offline, whole)}
    if {"isr", "replicas"} <= set(saved.columns("isr")):
        known = least(saved)
        if known.most:
            states = saved.parts("isr", [*times, "topic", "isr"])
            found["under min.insync"] = _level((_under(part, known) for part in states), whole)
        states = saved.parts("isr", [*times, "isr", "replicas"])
        found["under-replicated"] = _level(map(_thin, states), whole)
    return found


def highest(points: Sequence[tuple[int, int]], view: tuple[int, int]) -> int:
    """Give the highest level within a view, with that which it begins with.

    >>> highest([(0, 3), (5, 1), (9, 7)], (6, 8))
    1
    """
    before = [level for moment, level in points if moment <= view[0]][-1:]
    inside = [level for moment, level in points if view[0] < moment < view[1]]
    return max([0, *before, *inside])


def _thin(states: pa.Table) -> pa.Table:
    """Choose the states with fewer replicas in sync than there are."""
    short = pc.less(pc.list_value_length(states["isr"]), pc.list_value_length(states["replicas"]))
    return states.filter(pc.fill_null(short, fill_value=False))


def _under(states: pa.Table, known: Minimums) -> pa.Table:
    """Choose the states with too few replicas in sync for a leader to take records."""
    topics = states["topic"].combine_chunks().dictionary_encode()
    floors = of_topics(known, [str(name) for name in topics.dictionary.to_pylist()])
    floor = pa.array(np.append(floors, 0)).take(pc.fill_null(topics.indices, len(floors)))
    short = pc.less(pc.list_value_length(states["isr"]), floor)
    return states.filter(pc.fill_null(short, fill_value=False))


def _level(parts: Iterable[pa.Table], whole: tuple[int, int]) -> list[tuple[int, int]]:
    changes = Changes(whole)
    for part in parts:
        starts = pc.fill_null(part["started_at"].cast(pa.int64()), whole[0]).to_numpy()
        ends = pc.fill_null(part["ended_at"].cast(pa.int64()), whole[1]).to_numpy()
        changes.take(starts, np.maximum(starts, ends))
    return changes.points()
