"""Lives of nodes and counts of partitions by time, computed without any drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.incidents.minimums import Minimums
from forensics.report.saved import Row, Saved
from forensics.report.shortfalls import least, of_topics

__all__ = ["Lane", "coarse", "debt", "gaps", "highest", "lanes", "stagger", "steps", "terms", "view"]

POINTS = 1500
SECOND = 1000
# Spans that wait to be put in order together.
_HELD = 500_000
Ints = npt.NDArray[np.int64]


# Who is deposed and does not know it stands beside the next one, not on its lane.
_OFFICE = ("active", "vacant")
# A lane and the line of its election may be this far apart where a clock drifts.
_APART = 5000


@dataclass(frozen=True)
class Lane:
    """One stretch of one node's life."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int
    epoch: int | None = None


def view(saved: Saved) -> tuple[int, int] | None:
    """Choose what the time axis shows first: the incident and a little around it, or all."""
    whole = saved.window
    if not whole:
        return None
    starts = [finding.start for finding in saved.incidents if finding.start is not None]
    if not starts or saved.is_part:
        return whole
    ends = [finding.end or whole[1] for finding in saved.incidents if finding.start is not None]
    around = max((max(ends) - min(starts)) // 4, 15 * SECOND)
    return max(whole[0], min(starts) - around), min(whole[1], max(ends) + around)


def gaps(spans: Iterable[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    """Give the stretches of `whole` that no span covers.

    >>> gaps([(2, 4), (3, 6)], (0, 9))
    [(0, 2), (6, 9)]
    """
    holes, reached = [], whole[0]
    for start, end in sorted(spans):
        if start > reached:
            holes.append((reached, min(start, whole[1])))
        reached = max(reached, end)
    if reached < whole[1]:
        holes.append((reached, whole[1]))
    return [(start, end) for start, end in holes if start < end]


def lanes(saved: Saved, role: str) -> list[Lane]:
    """Read the lanes of one role; what no line covers is there as unknown."""
    whole = saved.window
    if not whole:
        return []
    columns = ["node", "broker", "state", "started_at", "ended_at"]
    rows = saved.rows("lanes", columns, ds.field("role") == role)
    if role == "controller":
        # One lane for them all: only one node may lead at a time.
        terms = _terms(saved)
        rows = [row | {"name": "controller", "epoch": _epoch(row, terms)}
                for row in rows if row["state"] in _OFFICE]  # fmt: skip
    known: dict[str, list[Lane]] = {}
    for row in rows:
        name = row.get("name") or _name(row["broker"], row["node"])
        start, end = row["started_at"], row["ended_at"]
        lane = Lane(
            name,
            row["broker"],
            row["state"] or "unknown",
            whole[0] if start is None else start,
            whole[1] if end is None else end,
            row.get("epoch"),
        )
        known.setdefault(name, []).append(lane)
    return [lane for name in sorted(known, key=_by_number) for lane in _filled(known[name], whole)]


def terms(saved: Saved) -> list[Lane]:
    """Give the terms of controllers by time, with those who did not notice that theirs was over."""
    whole = saved.window
    if not whole:
        return []
    columns = ["node", "broker", "state", "started_at", "ended_at"]
    where = (ds.field("role") == "controller") & ds.field("state").isin(["active", "deposed"])
    elected = _terms(saved)
    found = [
        Lane(row["node"] or "node not known", row["broker"], row["state"],
             whole[0] if row["started_at"] is None else row["started_at"],
             whole[1] if row["ended_at"] is None else row["ended_at"], _epoch(row, elected))
        for row in saved.rows("lanes", columns, where)
    ]  # fmt: skip
    return sorted(found, key=lambda lane: (lane.start, lane.end, lane.name))


def _terms(saved: Saved) -> list[tuple[int, int | None, int]]:
    """Give the moment, the node and the epoch of each election of a controller."""
    columns = ["ts", "node", "controller", "controller_epoch"]
    rows = saved.rows("events", columns, ds.field("kind") == "controller_elected")
    return [
        (saved.corrected(row["node"], row["ts"]), row["controller"], row["controller_epoch"])
        for row in rows if row["ts"] is not None and row["controller_epoch"] is not None
    ]  # fmt: skip


def _epoch(row: Row, terms: Sequence[tuple[int, int | None, int]]) -> int | None:
    """Find the epoch of a controller's term by when it began."""
    began = row["started_at"]
    if began is None or row["state"] != "active":
        return None
    mine = [(abs(at - began), epoch) for at, node, epoch in terms if node in (None, row["broker"])]
    near, epoch = min(mine, default=(_APART + 1, 0))
    return epoch if near <= _APART else None


def coarse(lanes: Sequence[Lane], most: int, whole: tuple[int, int]) -> list[Lane]:
    """Join what is too short to be seen, until there are at most so many stretches.

    >>> coarse([Lane("a", 1, "up", 0, 5), Lane("a", 1, "down", 5, 6), Lane("a", 1, "up", 6, 7),
    ...         Lane("a", 1, "down", 7, 99)], 3, (0, 99))[1]
    Lane(name='a', broker=1, state='several states', start=5, end=7, epoch=None)
    """
    found, least = list(lanes), max(1, (whole[1] - whole[0]) // 1000)
    while len(found) > most:
        joined: list[Lane] = []
        for (name, short), group in groupby(
            found, lambda lane: (lane.name, lane.end - lane.start < least)
        ):
            some = list(group)
            if short and len(some) > 1:
                end = max(lane.end for lane in some)
                some = [replace(some[0], state="several states", start=some[0].start, end=end)]
            joined += some
        found, least = joined, least * 2
        if least > 2 * (whole[1] - whole[0]):
            break
    return found


def _name(broker: int | None, node: str | None) -> str:
    return f"broker {broker}" if broker is not None else (node or "node not known")


def _by_number(name: str) -> tuple[int, str]:
    number = name.rpartition(" ")[2]
    return (int(number) if number.isdigit() else 1 << 31, name)


def _filled(known: list[Lane], whole: tuple[int, int]) -> list[Lane]:
    holes = gaps(((lane.start, lane.end) for lane in known), whole)
    unknown = [Lane(known[0].name, None, "unknown", *hole) for hole in holes]
    return sorted([*known, *unknown], key=lambda lane: (lane.start, lane.end, lane.state))


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
            # Of each slice the highest point stays, so that a short peak does not disappear, and
            # the last, so that it ends when it did.
            slots = moments // max(1, 2 * (self._whole[1] - self._whole[0]) // POINTS)
            order = np.lexsort((moments, -levels, slots))
            peaks = order[np.unique(slots[order], return_index=True)[1]]
            lasts = np.append(np.flatnonzero(np.diff(slots)), len(slots) - 1)
            kept = np.union1d(peaks, lasts)
            moments, levels = moments[kept], levels[kept]
        return list(zip(moments.tolist(), levels.tolist(), strict=True))


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


def stagger(spans: Sequence[tuple[int, int]], apart: int) -> list[int]:
    """Give each span a row so that none of a row stand closer than `apart`.

    >>> stagger([(0, 4), (1, 2), (9, 9)], 2)
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for start, end in spans:
        row = next((at for at, last in enumerate(ends) if last + apart <= start), len(ends))
        ends[row : row + 1] = [max(end, start)]
        rows.append(row)
    return rows
