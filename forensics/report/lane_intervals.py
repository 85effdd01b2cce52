"""Lanes of brokers, controllers and clients as intervals that a figure can draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow.dataset as ds

from forensics.report.incident_span import incident_span
from forensics.run_output.reader import Row, RunOutput

COLUMNS = ("node", "broker", "state", "started_at", "ended_at")
# A lane and the line of its election may be this far apart where a clock drifts.
MAX_EPOCH_DISTANCE_MS = 5000
MIN_MARGIN_MS = 15_000
# When a controller was elected, which node, and the epoch.
Election = tuple[int, int | None, int]


@dataclass(frozen=True)
class LaneInterval:
    """The time for which one node was in one state."""

    name: str
    broker: int | None
    state: str
    start: int
    end: int
    epoch: int | None = None


def choose_view(run: RunOutput) -> tuple[int, int] | None:
    """Choose what the time axis shows first: the incident and a little around it, or all."""
    window = run.window
    if not window:
        return None
    span = incident_span(run)
    if span is None or run.is_windowed:
        return window
    start, end = min(span.start, window[1]), max(span.end, window[0])
    margin = max((end - start) // 8, MIN_MARGIN_MS)
    return max(window[0], start - margin), min(window[1], end + margin)


def read_lanes(run: RunOutput, role: str) -> list[LaneInterval]:
    """Read the lanes of one role; what no line covers is there as unknown."""
    window = run.window
    if not window:
        return []
    where = ds.field("role") == role
    elections: Sequence[Election] = ()
    if role == "controller":
        # One lane for them all: only one node may lead at a time. A deposed one that does not know
        # it stands beside the next one, not on its lane.
        where &= ds.field("state").isin(["active", "vacant"])
        elections = _read_elections(run)
    lanes: dict[str, list[LaneInterval]] = {}
    for row in run.rows("lanes", COLUMNS, where):
        name = "controller" if role == "controller" else _lane_name(row)
        lanes.setdefault(name, []).append(_lane_interval(row, name, window, elections))
    return [
        interval
        for name in sorted(lanes, key=name_order)
        for interval in _fill_gaps(lanes[name], window)
    ]


def read_controller_terms(run: RunOutput) -> list[LaneInterval]:
    """Read the terms of controllers by time, with those who did not notice that theirs was over."""
    window = run.window
    if not window:
        return []
    where = (ds.field("role") == "controller") & ds.field("state").isin(["active", "deposed"])
    elections = _read_elections(run)
    terms = (
        _lane_interval(row, row["node"] or "node not known", window, elections)
        for row in run.rows("lanes", COLUMNS, where)
    )
    return sorted(terms, key=lambda term: (term.start, term.end, term.name))


def _lane_interval(
    row: Row, name: str, window: tuple[int, int], elections: Sequence[Election]
) -> LaneInterval:
    start, end = row["started_at"], row["ended_at"]
    return LaneInterval(
        name,
        row["broker"],
        row["state"] or "unknown",
        window[0] if start is None else start,
        window[1] if end is None else end,
        _find_epoch(row, elections),
    )


def _read_elections(run: RunOutput) -> list[Election]:
    columns = ["ts", "node", "controller", "controller_epoch"]
    rows = run.rows("events", columns, ds.field("kind") == "controller_elected")
    return [
        (run.correct_time(row["node"], row["ts"]), row["controller"], row["controller_epoch"])
        for row in rows if row["ts"] is not None and row["controller_epoch"] is not None
    ]  # fmt: skip


def _find_epoch(row: Row, elections: Sequence[Election]) -> int | None:
    """Find the epoch of a controller's term by when it began."""
    start = row["started_at"]
    if start is None or row["state"] != "active":
        return None
    near = [(abs(at - start), epoch) for at, node, epoch in elections
            if node in (None, row["broker"])]  # fmt: skip
    distance, epoch = min(near, default=(MAX_EPOCH_DISTANCE_MS + 1, 0))
    return epoch if distance <= MAX_EPOCH_DISTANCE_MS else None


def merge_short_intervals(
    lanes: Sequence[LaneInterval], max_count: int, window: tuple[int, int]
) -> list[LaneInterval]:
    """Join what is too short to be seen, until there are at most so many intervals.

    >>> up, down = (LaneInterval("a", 1, state, 0, 5) for state in ("up", "down"))
    >>> merge_short_intervals([up, replace(down, start=5, end=6), replace(up, start=6, end=7),
    ...                        replace(down, start=7, end=99)], 3, (0, 99))[1]
    LaneInterval(name='a', broker=1, state='several states', start=5, end=7, epoch=None)
    """
    length = window[1] - window[0]
    merged, min_length = list(lanes), max(1, length // 1000)
    while len(merged) > max_count and min_length < 2 * length:
        merged, min_length = _merge_shorter(merged, min_length), min_length * 2
    return merged


def _merge_shorter(lanes: Sequence[LaneInterval], min_length: int) -> list[LaneInterval]:
    merged: list[LaneInterval] = []
    short: list[LaneInterval] = []
    for lane in lanes:
        if lane.end - lane.start >= min_length:
            merged.append(lane)
            short = []
        elif short and short[-1].name == lane.name:
            short.append(lane)
            end = max(one.end for one in short)
            merged[-1] = replace(short[0], state="several states", end=end, epoch=None)
        else:
            merged.append(lane)
            short = [lane]
    return merged


def _lane_name(row: Row) -> str:
    return row["node"] or "node not known" if row["broker"] is None else f"broker {row['broker']}"


def name_order(name: str) -> tuple[int, str]:
    """Return a key that sorts names that end in a number by it, and all others last."""
    number = name.rpartition(" ")[2]
    return (int(number) if number.isdecimal() and len(number) <= 10 else 1 << 31, name)


def _fill_gaps(lanes: list[LaneInterval], window: tuple[int, int]) -> list[LaneInterval]:
    gaps, reached = list[LaneInterval](), window[0]
    # A state of a moment, too, stands between two gaps.
    for start, end in [*sorted((lane.start, lane.end) for lane in lanes), (window[1], window[1])]:
        if reached < min(start, window[1]):
            gap = (reached, min(start, window[1]))
            gaps.append(LaneInterval(lanes[0].name, None, "unknown", *gap))
        reached = max(reached, end)
    return sorted([*lanes, *gaps], key=lambda lane: (lane.start, lane.end, lane.state))


def assign_rows(spans: Sequence[tuple[int, int]], apart: int) -> list[int]:
    """Give each span a row so that no two in a row stand closer than `apart`.

    >>> assign_rows([(0, 4), (1, 2), (9, 9)], 2)
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for start, end in spans:
        row = next((row for row, last in enumerate(ends) if last + apart <= start), len(ends))
        ends[row : row + 1] = [max(end, start)]
        rows.append(row)
    return rows
