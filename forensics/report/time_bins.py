"""How many partitions are in trouble at each moment.

Stretches of time that are short where much happens and long where nothing does.

What the heatmaps of partitions show in each cell.

How much is told at each time, what clients complain of, and who says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.detection.shared.min_isr import MIN_ISR_COLUMNS, MIN_ISR_EVENTS, MinIsr, find_min_isr
from forensics.history.log_coverage import GAP_STATES
from forensics.run_output.partition_histories import UNKNOWN_LEADER
from forensics.run_output.reader import RunOutput, SavedFinding, corrected_times

MAX_BINS = 600
SECOND, MAX_BIN = 1000, 600_000
# How much longer a stretch is for every millisecond that it lies further from what happened.
_WIDER = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# The grid on which the widths are worked out.
_FINE = 20_000
Ints = npt.NDArray[np.int64]


def bin_edges(whole: tuple[int, int], moments: Iterable[int], most: int = MAX_BINS) -> Ints:
    """Cut a window into at most `most` stretches, about a second long around each moment.

    Moments come by their importance: where there are too many, the last ones have to do without.

    >>> bin_edges((0, 10_000), [5000], 10).tolist()
    [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000]
    """
    start, end = whole
    length = end - start
    least = max(1.0, min(SECOND, length / most))
    grid = np.linspace(start, end, min(_FINE, max(2 * most, length // SECOND * 2)) + 1)
    steps = np.diff(grid)
    known = np.fromiter(moments, np.int64)
    for kept in _fewer(known):
        far = _distances((grid[1:] + grid[:-1]) / 2, kept)
        for rate in _WIDER:
            widths = np.minimum(np.maximum(least, rate * far), max(MAX_BIN, length / most))
            needed = np.concatenate([[0.0], np.cumsum(steps / widths)])
            if needed[-1] <= most + 1e-6:
                return _cut(grid, needed, whole)
    return np.linspace(start, end, most + 1).astype(np.int64)


def _fewer(moments: Ints) -> Iterator[Ints]:
    kept = len(moments)
    while kept:
        yield np.unique(moments[:kept])
        kept = kept * 3 // 4
    yield moments[:0]


def _distances(points: npt.NDArray[np.float64], moments: Ints) -> npt.NDArray[np.float64]:
    if not len(moments):
        return np.full(len(points), float(MAX_BIN) * 1000)
    after = np.searchsorted(moments, points)
    before = moments[np.maximum(after - 1, 0)]
    follows = moments[np.minimum(after, len(moments) - 1)]
    found: npt.NDArray[np.float64] = np.minimum(np.abs(points - before), np.abs(follows - points))
    return found


def _cut(grid: npt.NDArray[np.float64], needed: npt.NDArray[np.float64],
         whole: tuple[int, int]) -> Ints:  # fmt: skip
    number = max(1, int(needed[-1] + 1e-6))
    wanted = np.linspace(0, needed[-1], number + 1)
    inner = np.interp(wanted, needed, grid).round().astype(np.int64)[1:-1]
    return np.unique(np.concatenate([[whole[0]], inner, [whole[1]]]))


def merge_bins(fine: Ints, most: int) -> Ints:
    """Put neighbouring stretches together until they are few.

    >>> merge_bins(np.arange(7), 3).tolist()
    [0, 2, 4, 6]
    """
    every = -(-(len(fine) - 1) // most)
    kept = fine[::every]
    return kept if kept[-1] == fine[-1] else np.append(kept, fine[-1])


# Where a cell of leaders holds no broker's number: -1 is "no leader", -2 is "not known".
SEVERAL, MANY = -3, -4
# Where a cell of missing replicas holds more than how many are missing.
BELOW_MIN_ISR, NOT_KNOWN, MAX_LEVEL = 10, 20, 9
Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Rows of partitions, worst first, by stretches of time."""

    edges: Ints
    names: Sequence[str]
    leaders: Cells
    missing: Cells
    # where on the page each row is told of exactly: what a click on one of its cells opens
    links: Sequence[str] = ()


def leader_cells(led: Ints, edges: Ints) -> Cells:
    """Give who leads at the end of each stretch, or that more than two led in it.

    A leader of a moment is in none of the ends, so its stretch says that there were several.
    """
    leader, _, _, start, end, _ = led
    last = edges[1:] - 1
    at = np.searchsorted(start, last, "right") - 1
    known = (at >= 0) & (last <= end[at])
    found: Cells = np.where(known, leader[at], UNKNOWN_LEADER)
    changes = np.flatnonzero(leader[1:] != leader[:-1]) + 1
    places = np.searchsorted(edges, start[changes], "right") - 1
    inside = places[(places >= 0) & (places < len(found))]
    found[np.bincount(inside, minlength=len(found)) > 1] = SEVERAL
    return found


def missing_cells(in_sync: Ints | None, floor: int, edges: Ints) -> Cells:
    """Give how many replicas were out of sync at the worst moment of each stretch."""
    found = np.full(len(edges) - 1, NOT_KNOWN, np.int64)
    if in_sync is None:
        return found
    _, size, wanted, start, end = in_sync
    short = np.minimum(np.maximum(wanted - size, 0), MAX_LEVEL) + BELOW_MIN_ISR * (size < floor)
    known = (size >= 0) & (wanted > 0)
    first = np.searchsorted(edges, start, "right") - 1
    last = np.searchsorted(edges, np.maximum(end - 1, start), "right") - 1
    # A stretch that is known in part says what is known of it.
    worst = np.full(len(found), -1, np.int64)
    for value, begin, till in zip(short[known], first[known], last[known], strict=True):
        part = worst[max(0, begin) : max(0, till + 1)]
        np.maximum(part, value, out=part)
    return np.where(worst >= 0, worst, found)


def count_leader_changes(led: Ints, edges: Ints) -> Cells:
    """Count the changes of leader in each stretch."""
    moved = led[3][1:][led[0][1:] != led[0][:-1]]
    places = np.searchsorted(edges, moved, "right") - 1
    inside = places[(places >= 0) & (places < len(edges) - 1)]
    return np.bincount(inside, minlength=len(edges) - 1)


MAX_POINTS = 1500
# Spans that wait to be put in order together.
_HELD = 500_000


def count_open_spans(
    spans: Iterable[tuple[int, int]], whole: tuple[int, int]
) -> list[tuple[int, int]]:
    """Count how many spans are open at each moment it changes.

    >>> count_open_spans([(1, 3), (1, 5)], (0, 9))
    [(0, 0), (1, 2), (3, 1), (5, 0), (9, 0)]
    """
    changes = OpenSpanCounter(whole)
    pairs = np.array(list(spans), np.int64).reshape(-1, 2)
    changes.add(pairs[:, 0], pairs[:, 1])
    return changes.points()


class OpenSpanCounter:
    """How many spans open and close at each moment; holds moments, however many spans there are."""

    def __init__(self, whole: tuple[int, int]) -> None:
        """Begin with nothing open in all of `whole`."""
        self._whole = whole
        self._moments = np.array(whole, np.int64)
        self._levels = np.zeros(2, np.int64)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._held = 0

    def add(self, starts: Ints, ends: Ints) -> None:
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
        if len(moments) > MAX_POINTS:
            kept = _kept(
                moments, levels, max(1, 3 * (self._whole[1] - self._whole[0]) // MAX_POINTS)
            )
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


def count_debt(run: RunOutput) -> dict[str, list[tuple[int, int]]]:
    """Count partitions without a leader, under min.insync.replicas, and under-replicated.

    What no line tells of is not among them: nothing is counted as none.
    """
    whole = run.window
    if not whole:
        return {}
    times = ["started_at", "ended_at"]
    offline = run.chunks("leadership", times, ds.field("leader") == -1)
    found = {"offline": _level(offline, whole)}
    if {"isr", "replicas"} <= set(run.tables.column_names("isr")):
        known = read_min_isr(run)
        if known.largest:
            states = run.chunks("isr", [*times, "topic", "isr"])
            found["under min.insync"] = _level((_under(part, known) for part in states), whole)
        states = run.chunks("isr", [*times, "isr", "replicas"])
        found["under-replicated"] = _level(map(_thin, states), whole)
    return found


def max_level(points: Sequence[tuple[int, int]], view: tuple[int, int]) -> int:
    """Give the highest level within a view, with that which it begins with.

    >>> max_level([(0, 3), (5, 1), (9, 7)], (6, 8))
    1
    """
    before = [level for moment, level in points if moment <= view[0]][-1:]
    inside = [level for moment, level in points if view[0] < moment < view[1]]
    return max([0, *before, *inside])


def _thin(states: pa.Table) -> pa.Table:
    """Choose the states with fewer replicas in sync than there are."""
    short = pc.less(pc.list_value_length(states["isr"]), pc.list_value_length(states["replicas"]))
    return states.filter(pc.fill_null(short, fill_value=False))


def read_min_isr(run: RunOutput) -> MinIsr:
    """Read min.insync.replicas from the saved events; an old run may lack columns."""
    if not set(MIN_ISR_COLUMNS) <= set(run.tables.column_names("events")):
        return MinIsr({}, None)
    chunks = run.chunks("events", MIN_ISR_COLUMNS, MIN_ISR_EVENTS)
    rows = (row for chunk in chunks for row in chunk.to_pylist())
    return find_min_isr(row | {"at": run.correct_time(row["node"], row["ts"] or 0)} for row in rows)


def _under(states: pa.Table, known: MinIsr) -> pa.Table:
    """Choose the states with too few replicas in sync for a leader to take records."""
    topics = states["topic"].combine_chunks().dictionary_encode()
    floors = [known.for_topic(str(name)) or 0 for name in topics.dictionary.to_pylist()]
    floor = pa.array(np.append(floors, 0)).take(pc.fill_null(topics.indices, len(floors)))
    short = pc.less(pc.list_value_length(states["isr"]), floor)
    return states.filter(pc.fill_null(short, fill_value=False))


def _level(parts: Iterable[pa.Table], whole: tuple[int, int]) -> list[tuple[int, int]]:
    changes = OpenSpanCounter(whole)
    for part in parts:
        starts = pc.fill_null(part["started_at"].cast(pa.int64()), whole[0]).to_numpy()
        ends = pc.fill_null(part["ended_at"].cast(pa.int64()), whole[1]).to_numpy()
        changes.add(starts, np.maximum(starts, ends))
    return changes.points()


# Bars of counts are fewer than the cells of a heatmap: each costs what a whole row of cells does.
MAX_BARS = 150
VERDICTS = ("stuck", "sustained", "transient", "other")


@dataclass(frozen=True)
class Volume:
    """Per stretch of time: how many facts were read, and how many errors of clients."""

    edges: Ints
    facts: Ints
    errors: Mapping[str, Ints]


def count_events(run: RunOutput, cells: Ints) -> Volume:
    """Count facts, and client errors by the verdict of their episode."""
    bars = merge_bins(cells, MAX_BARS)
    facts = np.zeros(len(bars) - 1, np.int64)
    errors = {name: np.zeros(len(bars) - 1, np.int64) for name in VERDICTS}
    stories: dict[str, list[SavedFinding]] = {}
    for finding in run.findings:
        for name in finding.clients if finding.detector == "stale-metadata" else ():
            stories.setdefault(name, []).append(finding)
    is_timed = ds.field("ts").is_valid()
    for part in run.chunks("events", ["ts", "node"], is_timed):
        facts += _counted(corrected_times(part, run.clock_corrections), bars)
    complaints = is_timed & (ds.field("kind") == "client_error")
    for part in run.chunks("events", ["ts", "node", "client"], complaints):
        _take(part, corrected_times(part, run.clock_corrections), stories, bars, errors)
    return Volume(bars, facts, {name: found for name, found in errors.items() if found.any()})


def _counted(times: Ints, bars: Ints) -> Ints:
    inside = times[(times >= bars[0]) & (times <= bars[-1])]
    places = np.minimum(np.searchsorted(bars, inside, "right") - 1, len(bars) - 2)
    return np.bincount(places, minlength=len(bars) - 1)


def _take(
    part: pa.Table, times: Ints, stories: Mapping[str, Sequence[SavedFinding]], bars: Ints,
    errors: Mapping[str, Ints],
) -> None:  # fmt: skip
    """Put the errors of each client into their stretches, under the verdict of their episode."""
    names = pc.fill_null(pc.coalesce(part["client"].cast(pa.string()), part["node"]), "")
    clients = names.combine_chunks().dictionary_encode()
    places = clients.indices.to_numpy()
    for at, name in enumerate(clients.dictionary.to_pylist()):
        left = places == at
        for finding in stories.get(name, ()):
            start, end = (
                finding.start_ms or 0,
                finding.end_ms if finding.end_ms is not None else 1 << 62,
            )
            # Findings are cut to whole milliseconds, and errors too.
            hit = left & (times >= start - 1) & (times <= end + 1)
            verdict = str(finding.measures.get("verdict"))
            counts = errors[verdict if verdict in errors else "other"]
            counts += _counted(times[hit], bars)
            left &= ~hit
        counts = errors["other"]
        counts += _counted(times[left], bars)


def find_silences(run: RunOutput) -> list[tuple[str, int, int, str]]:
    """Give who says nothing from when to when, and why, where the logs should go on."""
    whole = run.window
    if not whole:
        return []
    columns = ["node", "log", "state", "started_at", "ended_at", "why"]
    rows = run.rows("coverage", columns, ds.field("state").isin(list(GAP_STATES)))
    found = [
        (str(row["node"] or "node not known"),
         whole[0] if row["started_at"] is None else max(whole[0], row["started_at"]),
         whole[1] if row["ended_at"] is None else min(whole[1], row["ended_at"]),
         str(row["why"] or row["state"]))
        for row in rows if row["log"] is None
    ]  # fmt: skip
    return sorted(one for one in found if one[1] < one[2])


def find_holes(run: RunOutput, most: int = 20) -> list[tuple[int, int, float]]:
    """Give the longest stretches in which servers are silent, and which share of them is."""
    silent = find_silences(run)
    servers = {row["node"] for row in run.files if row["role"] in ("broker", "controller")}
    silent = [one for one in silent if one[0] in servers]
    if not silent:
        return []
    moments = sorted({side for _, start, end, _ in silent for side in (start, end)})
    found: list[tuple[int, int, float]] = []
    for start, end in zip(moments, moments[1:], strict=False):
        share = len({node for node, a, b, _ in silent if a <= start and end <= b}) / len(servers)
        if share and found and found[-1][1] == start and found[-1][2] == share:
            found[-1] = (found[-1][0], end, share)
        elif share:
            found.append((start, end, share))
    kept = sorted(found, key=lambda hole: hole[0] - hole[1])[:most]
    return sorted(kept)
