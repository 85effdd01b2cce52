"""What the figures draw, computed from the tables without any drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.report.saved import Finding, Saved

__all__ = ["Lane", "client_errors", "debt", "gaps", "lanes", "stagger", "steps", "view"]

BINS = 180
POINTS = 1500
SECOND = 1000
# Spans that wait to be put in order together.
_HELD = 500_000
Ints = npt.NDArray[np.int64]


# Who is deposed and does not know it stands beside the next one, not on its lane.
_OFFICE = ("active", "vacant")


@dataclass(frozen=True)
class Lane:
    """One stretch of one node's life."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int


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
        rows = [row | {"name": "controller"} for row in rows if row["state"] in _OFFICE]
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
        )
        known.setdefault(name, []).append(lane)
    return [lane for name in sorted(known, key=_by_number) for lane in _filled(known[name], whole)]


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
            # Of each slice the highest point stays, so a short peak never disappears.
            slots = moments // max(1, (self._whole[1] - self._whole[0]) // POINTS)
            order = np.lexsort((moments, -levels, slots))
            kept = order[np.unique(slots[order], return_index=True)[1]]
            moments, levels = moments[kept], levels[kept]
        return list(zip(moments.tolist(), levels.tolist(), strict=True))


def debt(saved: Saved) -> dict[str, list[tuple[int, int]]]:
    """Count partitions without a leader, and with fewer replicas in sync than they should have."""
    whole = saved.window
    if not whole:
        return {}
    times = ["started_at", "ended_at"]
    offline = saved.parts("leadership", times, ds.field("leader") == -1)
    found = {"no leader": _level(offline, whole)}
    if {"isr", "replicas"} <= set(saved.columns("isr")):
        states = saved.parts("isr", [*times, "isr", "replicas"])
        found["under-replicated"] = _level(map(_thin, states), whole)
    return found


def _thin(states: pa.Table) -> pa.Table:
    """Choose the states with fewer replicas in sync than there are."""
    short = pc.less(pc.list_value_length(states["isr"]), pc.list_value_length(states["replicas"]))
    return states.filter(pc.fill_null(short, fill_value=False))


def _level(parts: Iterable[pa.Table], whole: tuple[int, int]) -> list[tuple[int, int]]:
    changes = Changes(whole)
    for part in parts:
        starts = pc.fill_null(part["started_at"].cast(pa.int64()), whole[0]).to_numpy()
        ends = pc.fill_null(part["ended_at"].cast(pa.int64()), whole[1]).to_numpy()
        changes.take(starts, np.maximum(starts, ends))
    return changes.points()


def client_errors(saved: Saved) -> tuple[int, dict[str, dict[int, int]]]:
    """Count client errors per bin and verdict; gives the bin width in milliseconds too."""
    shown = view(saved)
    if not shown:
        return SECOND, {}
    width = max(SECOND, -(-(shown[1] - shown[0]) // BINS // SECOND) * SECOND)
    counts: Counter[tuple[str | None, int]] = Counter()
    is_error = ds.field("kind") == "client_error"
    for part in saved.parts("events", ["ts", "node", "client"], is_error):
        counts.update(_binned(part, saved.offsets, width))
    stories: dict[str, list[Finding]] = {}
    for finding in saved.findings:
        for name in finding.clients:
            stories.setdefault(name, []).append(finding)
    counted: dict[str, dict[int, int]] = {}
    for (client, moment), number in counts.items():
        verdict = _verdict(stories.get(client or "", ()), client, moment, moment + width)
        bins = counted.setdefault(verdict, {})
        bins[moment] = bins.get(moment, 0) + number
    return width, counted


def _binned(part: pa.Table, offsets: dict[str, int], width: int) -> Counter[tuple[str | None, int]]:
    out: Counter[tuple[str | None, int]] = Counter()
    counts = part.group_by(["node", "client", "ts"]).aggregate([([], "count_all")])
    for row in counts.to_pylist():
        if row["ts"] is not None:
            # Events carry the node's own time; the figure is in the reference's.
            moment = (row["ts"] - offsets.get(row["node"] or "", 0)) // width * width
            out[row["client"] or row["node"], moment] += row["count_all"]
    return out


def _verdict(findings: Sequence[Finding], client: str | None, start: int, end: int) -> str:
    for finding in findings:
        if finding.detector != "stale-metadata" or client not in finding.clients:
            continue
        if (finding.start or 0) < end and (finding.end or end) >= start:
            return str(finding.measures.get("verdict") or "other")
    return "other"


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
