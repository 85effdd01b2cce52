"""Lives of nodes by time, computed without any drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow.dataset as ds

from forensics.run_output.reader import Row, RunOutput

SECOND = 1000


# Who is deposed and does not know it stands beside the next one, not on its lane.
_OFFICE = ("active", "vacant")
# A lane and the line of its election may be this far apart where a clock drifts.
_APART = 5000


@dataclass(frozen=True)
class LaneInterval:
    """One stretch of one node's life."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int
    epoch: int | None = None


def choose_view(run: RunOutput) -> tuple[int, int] | None:
    """Choose what the time axis shows first: the incident and a little around it, or all."""
    whole = run.window
    if not whole:
        return None
    starts = [finding.start_ms for finding in run.incidents if finding.start_ms is not None]
    if not starts or run.is_windowed:
        return whole
    ends = [finding.end_ms or whole[1] for finding in run.incidents if finding.start_ms is not None]
    around = max((max(ends) - min(starts)) // 4, 15 * SECOND)
    return max(whole[0], min(starts) - around), min(whole[1], max(ends) + around)


def find_gaps(spans: Iterable[tuple[int, int]], whole: tuple[int, int]) -> list[tuple[int, int]]:
    """Give the stretches of `whole` that no span covers.

    >>> find_gaps([(2, 4), (3, 6)], (0, 9))
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


def read_lanes(run: RunOutput, role: str) -> list[LaneInterval]:
    """Read the lanes of one role; what no line covers is there as unknown."""
    whole = run.window
    if not whole:
        return []
    columns = ["node", "broker", "state", "started_at", "ended_at"]
    rows = run.rows("lanes", columns, ds.field("role") == role)
    if role == "controller":
        # One lane for them all: only one node may lead at a time.
        terms = _terms(run)
        rows = [row | {"name": "controller", "epoch": _epoch(row, terms)}
                for row in rows if row["state"] in _OFFICE]  # fmt: skip
    known: dict[str, list[LaneInterval]] = {}
    for row in rows:
        name = row.get("name") or _name(row["broker"], row["node"])
        start, end = row["started_at"], row["ended_at"]
        lane = LaneInterval(
            name,
            row["broker"],
            row["state"] or "unknown",
            whole[0] if start is None else start,
            whole[1] if end is None else end,
            row.get("epoch"),
        )
        known.setdefault(name, []).append(lane)
    return [lane for name in sorted(known, key=name_order) for lane in _filled(known[name], whole)]


def read_controller_terms(run: RunOutput) -> list[LaneInterval]:
    """Give the terms of controllers by time, with those who did not notice that theirs was over."""
    whole = run.window
    if not whole:
        return []
    columns = ["node", "broker", "state", "started_at", "ended_at"]
    where = (ds.field("role") == "controller") & ds.field("state").isin(["active", "deposed"])
    elected = _terms(run)
    found = [
        LaneInterval(row["node"] or "node not known", row["broker"], row["state"],
             whole[0] if row["started_at"] is None else row["started_at"],
             whole[1] if row["ended_at"] is None else row["ended_at"], _epoch(row, elected))
        for row in run.rows("lanes", columns, where)
    ]  # fmt: skip
    return sorted(found, key=lambda lane: (lane.start, lane.end, lane.name))


def _terms(run: RunOutput) -> list[tuple[int, int | None, int]]:
    """Give the moment, the node and the epoch of each election of a controller."""
    columns = ["ts", "node", "controller", "controller_epoch"]
    rows = run.rows("events", columns, ds.field("kind") == "controller_elected")
    return [
        (run.correct_time(row["node"], row["ts"]), row["controller"], row["controller_epoch"])
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


def merge_short_intervals(
    lanes: Sequence[LaneInterval], max_count: int, whole: tuple[int, int]
) -> list[LaneInterval]:
    """Join what is too short to be seen, until there are at most so many stretches.

    >>> states = [("up", 0, 5), ("down", 5, 6), ("up", 6, 7), ("down", 7, 99)]
    >>> lanes = [LaneInterval("a", 1, *state) for state in states]
    >>> merge_short_intervals(lanes, 3, (0, 99))[1]
    LaneInterval(name='a', broker=1, state='several states', start=5, end=7, epoch=None)
    """
    found, least = list(lanes), max(1, (whole[1] - whole[0]) // 1000)
    while len(found) > max_count and least < 2 * (whole[1] - whole[0]):
        found, least = _joined(found, least), least * 2
    return found


def _joined(lanes: Sequence[LaneInterval], least: int) -> list[LaneInterval]:
    found: list[LaneInterval] = []
    held: list[LaneInterval] = []
    for lane in lanes:
        if lane.end - lane.start >= least:
            found, held = [*found, lane], []
        elif held and held[-1].name == lane.name:
            held.append(lane)
            end = max(one.end for one in held)
            found[-1] = replace(held[0], state="several states", end=end, epoch=None)
        else:
            found, held = [*found, lane], [lane]
    return found


def _name(broker: int | None, node: str | None) -> str:
    return f"broker {broker}" if broker is not None else (node or "node not known")


def name_order(name: str) -> tuple[int, str]:
    """Return a key that sorts names that end in a number by it, and all others last."""
    number = name.rpartition(" ")[2]
    return (int(number) if number.isdigit() else 1 << 31, name)


def _filled(known: list[LaneInterval], whole: tuple[int, int]) -> list[LaneInterval]:
    holes = find_gaps(((lane.start, lane.end) for lane in known), whole)
    unknown = [LaneInterval(known[0].name, None, "unknown", *hole) for hole in holes]
    return sorted([*known, *unknown], key=lambda lane: (lane.start, lane.end, lane.state))


def assign_rows(spans: Sequence[tuple[int, int]], apart: int) -> list[int]:
    """Give each span a row so that none of a row stand closer than `apart`.

    >>> assign_rows([(0, 4), (1, 2), (9, 9)], 2)
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for start, end in spans:
        row = next((at for at, last in enumerate(ends) if last + apart <= start), len(ends))
        ends[row : row + 1] = [max(end, start)]
        rows.append(row)
    return rows
