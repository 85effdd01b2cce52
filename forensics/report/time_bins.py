"""What happened in each stretch of time: bins, cells of heatmaps, levels, events and silences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.detection.shared.min_isr import MIN_ISR_COLUMNS, MIN_ISR_EVENTS, MinIsr, find_min_isr
from forensics.run_output.partition_histories import UNKNOWN_LEADER
from forensics.run_output.reader import RunOutput, SavedFinding, corrected_times

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Window = tuple[int, int]
# Moments, and how many there are of something from then on.
Points = list[tuple[int, int]]

MAX_BINS = 600
MIN_BIN, MAX_BIN = 1000, 600_000
# How much longer a bin is for every millisecond that it lies further from what happened.
_GROWTH_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# The grid on which the widths are worked out.
_MAX_GRID = 20_000

# Where a cell of leaders holds no broker's number: -1 is "no leader", -2 is "not known".
SEVERAL, MANY = -3, -4
# Where a cell of missing replicas holds more than how many are missing.
BELOW_MIN_ISR, NOT_KNOWN, MAX_MISSING = 10, 20, 9

MAX_POINTS = 1500
# Spans that wait to be put in order together.
_MAX_PENDING = 500_000

# Bars of counts are fewer than the cells of a heatmap: each costs what a whole row of cells does.
MAX_BARS = 150
SILENT_STATES = ("silent", "missing", "rotated", "hidden")
VERDICTS = ("stuck", "sustained", "transient", "other")
MAX_HOLES = 20


def bin_edges(window: Window, moments: Iterable[int], max_bins: int = MAX_BINS) -> Ints:
    """Cut a window into at most `max_bins` bins, about a second long around each moment.

    Moments come by their importance: where there are too many, the last ones have to do without.

    >>> bin_edges((0, 10_000), [5000], 10).tolist()
    [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000]
    """
    start, end = window
    length = end - start
    shortest = max(1.0, min(MIN_BIN, length / max_bins))
    grid_size = min(_MAX_GRID, max(2 * max_bins, length // MIN_BIN * 2))
    grid = np.linspace(start, end, grid_size + 1)
    steps = np.diff(grid)
    for kept in _fewer(np.fromiter(moments, np.int64)):
        distances = _distances((grid[1:] + grid[:-1]) / 2, kept)
        for rate in _GROWTH_RATES:
            widths = np.clip(rate * distances, shortest, max(MAX_BIN, length / max_bins))
            bins = np.concatenate([[0.0], np.cumsum(steps / widths)])
            if bins[-1] <= max_bins + 1e-6:
                return _cut_grid(grid, bins, window)
    return np.linspace(start, end, max_bins + 1).astype(np.int64)


def _fewer(moments: Ints) -> Iterator[Ints]:
    kept = len(moments)
    while kept:
        yield np.unique(moments[:kept])
        kept = kept * 3 // 4
    yield moments[:0]


def _distances(points: Floats, moments: Ints) -> Floats:
    """Return how far each point is from the nearest moment."""
    if not len(moments):
        return np.full(len(points), float(MAX_BIN) * 1000)
    after = np.searchsorted(moments, points)
    previous = moments[np.maximum(after - 1, 0)]
    following = moments[np.minimum(after, len(moments) - 1)]
    distances: Floats = np.minimum(np.abs(points - previous), np.abs(following - points))
    return distances


def _cut_grid(grid: Floats, bins: Floats, window: Window) -> Ints:
    number = max(1, int(bins[-1] + 1e-6))
    wanted = np.linspace(0, bins[-1], number + 1)
    inner = np.interp(wanted, bins, grid).round().astype(np.int64)[1:-1]
    return np.unique(np.concatenate([[window[0]], inner, [window[1]]]))


def merge_bins(edges: Ints, max_bins: int) -> Ints:
    """Join neighbouring bins until they are few.

    >>> merge_bins(np.arange(7), 3).tolist()
    [0, 2, 4, 6]
    """
    every = -(-(len(edges) - 1) // max_bins)
    kept = edges[::every]
    return kept if kept[-1] == edges[-1] else np.append(kept, edges[-1])


@dataclass(frozen=True)
class Grid:
    """Cells of a heatmap: rows of partitions, worst first, by bins of time."""

    edges: Ints
    names: Sequence[str]
    leaders: Ints
    missing: Ints
    # where on the page each row is told of exactly: what a click on one of its cells opens
    links: Sequence[str] = ()


def leader_cells(leader_columns: Ints, edges: Ints) -> Ints:
    """Return who leads at the end of each bin, or that more than two led in it.

    A leader of a moment is in none of the ends, so its bin says that there were several.
    """
    leader, _, _, start, end, _ = leader_columns
    last = edges[1:] - 1
    at = np.searchsorted(start, last, "right") - 1
    is_known = (at >= 0) & (last <= end[at])
    cells: Ints = np.where(is_known, leader[at], UNKNOWN_LEADER)
    cells[count_leader_changes(leader_columns, edges) > 1] = SEVERAL
    return cells


def count_leader_changes(leader_columns: Ints, edges: Ints) -> Ints:
    """Count the changes of leader in each bin."""
    leader, starts = leader_columns[0], leader_columns[3]
    bins = np.searchsorted(edges, starts[1:][leader[1:] != leader[:-1]], "right") - 1
    inside = bins[(bins >= 0) & (bins < len(edges) - 1)]
    return np.bincount(inside, minlength=len(edges) - 1)


def missing_cells(isr_columns: Ints | None, min_isr: int, edges: Ints) -> Ints:
    """Return how many replicas were out of sync at the worst moment of each bin."""
    cells = np.full(len(edges) - 1, NOT_KNOWN, np.int64)
    if isr_columns is None:
        return cells
    _, size, wanted, start, end = isr_columns
    missing = np.minimum(np.maximum(wanted - size, 0), MAX_MISSING)
    missing += BELOW_MIN_ISR * (size < min_isr)
    is_known = (size >= 0) & (wanted > 0)
    first = np.searchsorted(edges, start, "right") - 1
    last = np.searchsorted(edges, np.maximum(end - 1, start), "right") - 1
    # A bin that is known in part says what is known of it.
    worst = np.full(len(cells), -1, np.int64)
    for value, begin, till in zip(missing[is_known], first[is_known], last[is_known], strict=True):
        part = worst[max(0, begin) : max(0, till + 1)]
        np.maximum(part, value, out=part)
    return np.where(worst >= 0, worst, cells)


def count_open_spans(spans: Iterable[tuple[int, int]], window: Window) -> Points:
    """Count how many spans are open at each moment it changes.

    >>> count_open_spans([(1, 3), (1, 5)], (0, 9))
    [(0, 0), (1, 2), (3, 1), (5, 0), (9, 0)]
    """
    counter = OpenSpanCounter(window)
    counter.add(*np.array(list(spans), np.int64).reshape(-1, 2).T)
    return counter.points()


class OpenSpanCounter:
    """Counts how many spans are open at each moment; holds moments only, however many the spans."""

    def __init__(self, window: Window) -> None:
        """Begin with nothing open in the window."""
        self._window = window
        self._moments = np.array(window, np.int64)
        self._changes = np.zeros(2, np.int64)
        self._pending: list[tuple[Ints, Ints]] = []
        self._pending_spans = 0

    def add(self, starts: Ints, ends: Ints) -> None:
        """Add spans."""
        starts, ends = (np.clip(moments, *self._window) for moments in (starts, ends))
        ones = np.ones(len(starts), np.int64)
        self._pending += [(starts, ones), (ends, -ones)]
        self._pending_spans += len(starts)
        if self._pending_spans > max(_MAX_PENDING, len(self._moments)):
            self._merge_pending()

    def _merge_pending(self) -> None:
        both = [(self._moments, self._changes), *self._pending]
        moments, changes = (np.concatenate(arrays) for arrays in zip(*both, strict=True))
        self._moments, places = np.unique(moments, return_inverse=True)
        self._changes = np.zeros(len(self._moments), np.int64)
        np.add.at(self._changes, places, changes)
        self._pending, self._pending_spans = [], 0

    def points(self) -> Points:
        """Return moments and how many spans are open from then on."""
        self._merge_pending()
        moments, levels = self._moments, np.cumsum(self._changes)
        if len(moments) > MAX_POINTS:
            width = max(1, 3 * (self._window[1] - self._window[0]) // MAX_POINTS)
            kept = _choose_points(moments, levels, width)
            moments, levels = moments[kept], levels[kept]
        return list(zip(moments.tolist(), levels.tolist(), strict=True))


def _choose_points(moments: Ints, levels: Ints, width: int) -> Ints:
    """Choose of each slice its peak, the lowest level after it, and its end.

    So a short peak does not disappear, and is not stretched over what comes after it.
    """
    slots = moments // width
    order = np.lexsort((moments, -levels, slots))
    slices, firsts = np.unique(slots[order], return_index=True)
    peaks = order[firsts]
    follow = np.flatnonzero(np.arange(len(slots)) >= peaks[np.searchsorted(slices, slots)])
    order = follow[np.lexsort((moments[follow], levels[follow], slots[follow]))]
    troughs = order[np.unique(slots[order], return_index=True)[1]]
    ends = np.append(np.flatnonzero(np.diff(slots)), len(slots) - 1)
    return np.unique(np.concatenate([peaks, troughs, ends]))


def read_min_isr(run: RunOutput) -> MinIsr:
    """Read min.insync.replicas from the saved events; an old run may lack columns."""
    if not set(MIN_ISR_COLUMNS) <= set(run.tables.column_names("events")):
        return MinIsr({}, None)
    chunks = run.chunks("events", MIN_ISR_COLUMNS, MIN_ISR_EVENTS)
    rows = (row for chunk in chunks for row in chunk.to_pylist())
    return find_min_isr(row | {"at": run.correct_time(row["node"], row["ts"] or 0)} for row in rows)


def count_degraded_partitions(run: RunOutput) -> dict[str, Points]:
    """Count partitions unavailable unplanned, under min.insync.replicas, and under-replicated.

    What no line tells of is not among them: nothing is counted as none. Neither are replicas that
    are missing since the cluster was shut down at the end of the logs.
    """
    window = run.window
    if not window:
        return {}
    in_service = (window[0], _shutdown_at_end(run) or window[1])
    times = ["started_at", "ended_at"]
    unavailable = run.chunks("outages", times, ~ds.field("planned"))
    debt = {"unavailable": _count_open(unavailable, window)}
    if {"isr", "replicas"} <= set(run.tables.column_names("isr")):
        min_isr = read_min_isr(run)
        if min_isr.largest:
            states = run.chunks("isr", [*times, "topic", "isr"])
            below = (_filter_below(part, min_isr) for part in states)
            debt["under min.insync"] = _count_open(below, in_service)
        states = run.chunks("isr", [*times, "isr", "replicas"])
        debt["under-replicated"] = _count_open(map(_filter_under_replicated, states), in_service)
    return debt


def _shutdown_at_end(run: RunOutput) -> int | None:
    """Return when brokers began to stop, if partitions were shut down and did not come back."""
    is_last = ds.field("planned") & ds.field("ended_at").is_null()
    outages = run.rows("outages", ["started_at"], is_last)
    begins = [int(row["started_at"]) for row in outages if row["started_at"] is not None]
    if not begins:
        return None
    is_stopping = (ds.field("role") == "broker") & (ds.field("state") == "stopping")
    for row in run.rows("lanes", ["started_at", "ended_at"], is_stopping):
        start, end = row["started_at"], row["ended_at"]
        if start is not None and (end is None or end >= min(begins)):
            begins.append(int(start))
    return min(begins)


def max_level(points: Sequence[tuple[int, int]], view: Window) -> int:
    """Return the highest level within a view, with that which it begins with.

    >>> max_level([(0, 3), (5, 1), (9, 7)], (6, 8))
    1
    """
    before = [level for moment, level in points if moment <= view[0]][-1:]
    inside = [level for moment, level in points if view[0] < moment < view[1]]
    return max([0, *before, *inside])


def _filter_under_replicated(states: pa.Table) -> pa.Table:
    """Choose the states with fewer replicas in sync than there are."""
    missing = pc.less(pc.list_value_length(states["isr"]), pc.list_value_length(states["replicas"]))
    return states.filter(pc.fill_null(missing, fill_value=False))


def _filter_below(states: pa.Table, min_isr: MinIsr) -> pa.Table:
    """Choose the states with too few replicas in sync for a leader to take records."""
    topics = states["topic"].combine_chunks().dictionary_encode()
    known = [min_isr.for_topic(str(name)) or 0 for name in topics.dictionary.to_pylist()]
    minimums = pa.array([*known, 0], pa.int64())
    wanted = minimums.take(pc.fill_null(topics.indices, len(known)))
    below = pc.less(pc.list_value_length(states["isr"]), wanted)
    return states.filter(pc.fill_null(below, fill_value=False))


def _count_open(chunks: Iterable[pa.Table], window: Window) -> Points:
    """Count open spans; one that began at an unknown moment is not counted."""
    counter = OpenSpanCounter(window)
    for rows in chunks:
        chunk = rows.filter(pc.is_valid(rows["started_at"]))
        starts = chunk["started_at"].cast(pa.int64()).to_numpy()
        ends = pc.fill_null(chunk["ended_at"].cast(pa.int64()), window[1]).to_numpy()
        counter.add(starts, np.maximum(starts, ends))
    return counter.points()


@dataclass(frozen=True)
class Volume:
    """Per bin of time: how many facts were read, and how many errors of clients by verdict."""

    edges: Ints
    facts: Ints
    errors: Mapping[str, Ints]


def count_events(run: RunOutput, cells: Ints) -> Volume:
    """Count facts, and client errors by the verdict of their episode."""
    edges = merge_bins(cells, MAX_BARS)
    facts = np.zeros(len(edges) - 1, np.int64)
    errors = {name: np.zeros(len(edges) - 1, np.int64) for name in VERDICTS}
    episodes: dict[str, list[SavedFinding]] = {}
    for finding in run.findings:
        for name in finding.clients if finding.detector == "stale-metadata" else ():
            episodes.setdefault(name, []).append(finding)
    is_timed = ds.field("ts").is_valid()
    for chunk in run.chunks("events", ["ts", "node"], is_timed):
        facts += _histogram(corrected_times(chunk, run.clock_corrections), edges)
    is_error = is_timed & (ds.field("kind") == "client_error")
    for chunk in run.chunks("events", ["ts", "node", "client"], is_error):
        _add_errors(chunk, corrected_times(chunk, run.clock_corrections), episodes, edges, errors)
    return Volume(edges, facts, {name: counts for name, counts in errors.items() if counts.any()})


def _histogram(times: Ints, edges: Ints) -> Ints:
    inside = times[(times >= edges[0]) & (times <= edges[-1])]
    bins = np.minimum(np.searchsorted(edges, inside, "right") - 1, len(edges) - 2)
    return np.bincount(bins, minlength=len(edges) - 1)


def _add_errors(
    events: pa.Table, times: Ints, episodes: Mapping[str, Sequence[SavedFinding]], edges: Ints,
    errors: Mapping[str, Ints],
) -> None:  # fmt: skip
    """Add the errors of each client to their bins, under the verdict of their episode."""
    names = pc.fill_null(pc.coalesce(events["client"].cast(pa.string()), events["node"]), "")
    clients = names.combine_chunks().dictionary_encode()
    codes = clients.indices.to_numpy()
    for code, name in enumerate(clients.dictionary.to_pylist()):
        left = codes == code
        for finding in episodes.get(name, ()):
            start = finding.start_ms or 0
            end = finding.end_ms if finding.end_ms is not None else 1 << 62
            # Findings are cut to whole milliseconds, and errors too.
            inside = left & (times >= start - 1) & (times <= end + 1)
            verdict = str(finding.measures.get("verdict"))
            counts = errors[verdict if verdict in errors else "other"]
            counts += _histogram(times[inside], edges)
            left &= ~inside
        counts = errors["other"]
        counts += _histogram(times[left], edges)


def find_silences(run: RunOutput) -> list[tuple[str, int, int, str]]:
    """Return who logs nothing from when to when, and why, where the logs should go on."""
    window = run.window
    if not window:
        return []
    columns = ["node", "log", "state", "started_at", "ended_at", "why"]
    rows = run.rows("coverage", columns, ds.field("state").isin(list(SILENT_STATES)))
    silences = [
        (str(row["node"] or "node not known"),
         window[0] if row["started_at"] is None else max(window[0], row["started_at"]),
         window[1] if row["ended_at"] is None else min(window[1], row["ended_at"]),
         str(row["why"] or row["state"]))
        for row in rows if row["log"] is None
    ]  # fmt: skip
    return sorted(silence for silence in silences if silence[1] < silence[2])


def find_holes(run: RunOutput) -> list[tuple[int, int, float]]:
    """Return the longest times in which servers are silent, and which share of them is."""
    servers = {row["node"] for row in run.files if row["role"] in ("broker", "controller")}
    silences = [silence for silence in find_silences(run) if silence[0] in servers]
    moments = sorted({moment for _, *ends, _ in silences for moment in ends})
    holes: list[tuple[int, int, float]] = []
    for start, end in zip(moments, moments[1:], strict=False):
        share = len({node for node, a, b, _ in silences if a <= start and end <= b}) / len(servers)
        if share and holes and holes[-1][1] == start and holes[-1][2] == share:
            holes[-1] = (holes[-1][0], end, share)
        elif share:
            holes.append((start, end, share))
    return sorted(sorted(holes, key=lambda hole: hole[0] - hole[1])[:MAX_HOLES])
