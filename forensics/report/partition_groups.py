"""Partitions with equal histories become one row, and the row lists its members."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from forensics.detection.shared.min_isr import MinIsr
from forensics.report import time_bins
from forensics.report.html import entity_id
from forensics.report.time_bins import Ints, Window, bin_edges, read_min_isr
from forensics.run_output.findings import severity_rank
from forensics.run_output.partition_histories import (
    UNKNOWN_LEADER,
    IsrCodes,
    IsrHistory,
    LeaderHistory,
    LeaderInterval,
    TopicPartition,
    read_change_times,
    read_isr_histories,
    read_leader_histories,
)
from forensics.run_output.reader import RunOutput

# Rows of a heatmap, bars of leaders in one row, and bars of ISRs in one row.
MAX_ROWS, MAX_EPOCHS, MAX_ISR_STATES = 298, 300, 100
# With no more rows than this the partitions that never changed are shown too.
FEW_ROWS = 40
# Brokers log the same change a little apart; changes this close are the same.
SAME_CHANGE_MS = 1000


class GroupImpact(NamedTuple):
    """How bad a history is; a worse one is greater."""

    unclean_count: int
    leaderless_ms: int
    single_isr_ms: int
    epoch_count: int


class IsrState(NamedTuple):
    """Who was in sync from when to when; nothing is known where the ISR is None."""

    isr: tuple[int, ...] | None
    replica_count: int
    start: int
    end: int


@dataclass(frozen=True)
class PartitionGroup:
    """One row of a figure: the partitions that share a history, and that history."""

    members: tuple[str, ...]
    impact: GroupImpact
    leader_epochs: tuple[LeaderInterval, ...]
    isr_states: tuple[IsrState, ...] = ()

    @property
    def label(self) -> str:
        """The first member and how many more."""
        more = len(self.members) - 1
        return self.members[0] + (f" +{more}" if more else "")

    @property
    def omitted_epochs(self) -> int:
        """How many leader epochs are too many to draw."""
        return self.impact.epoch_count - len(self.leader_epochs)


@dataclass(frozen=True)
class GroupedHistories:
    """The worst histories, what the heatmaps show of them, and how many partitions there are."""

    rows: tuple[PartitionGroup, ...]
    grid: time_bins.Grid
    partition_count: int
    history_count: int
    min_isr: MinIsr


@dataclass(slots=True)
class _Group:
    """The partitions that share a history, and how bad it is."""

    key: bytes
    impact: GroupImpact
    is_still: bool
    members: list[TopicPartition]

    @property
    def names(self) -> list[TopicPartition]:
        return sorted(self.members, key=_member_order)

    @property
    def sort_key(self) -> tuple[int, int, int, int, tuple[str, int]]:
        unclean, leaderless, single, epochs = self.impact
        first = _member_order(min(self.members, key=_member_order))
        return -unclean, -leaderless, -single, -epochs, first


def _member_order(name: TopicPartition) -> tuple[str, int]:
    return str(name[0]), -1 if name[1] is None else name[1]


@dataclass
class _DrawnHistory:
    """One history that is drawn, with its cells of the heatmaps."""

    history: LeaderHistory
    leaders: Ints
    missing: Ints
    isr_states: tuple[IsrState, ...] = ()


def group_partitions(run: RunOutput) -> GroupedHistories | None:
    """Read, group and rank; of a partition that is not drawn only its name is held.

    The tables are read in parts, thrice: for the moments of change, to see which partitions are
    alike and how bad each history is, and then for the few that are drawn.
    """
    # Several figures ask; it is kept with the run, as cached properties are.
    cache = vars(run)
    if "_grouped_partitions" not in cache:
        cache["_grouped_partitions"] = _group(run, run.window) if run.window else None
    grouped: GroupedHistories | None = cache["_grouped_partitions"]
    return grouped


def _group(run: RunOutput, window: Window) -> GroupedHistories | None:
    min_isr = read_min_isr(run)
    changes = _first_times(read_change_times(run, window))
    isrs = _isr_fingerprints(run, window, changes, min_isr)
    groups: dict[bytes, _Group] = {}
    keys: dict[TopicPartition, bytes] = {}
    for history in read_leader_histories(run, window):
        # Each is asked for once, and there may be hundreds of thousands.
        isr_key, single_isr_ms, is_still = isrs.pop(history.name, (b"", 0, True))
        columns = history.columns
        key = _fingerprint(columns[[0, 5]], columns[3:5], changes, isr_key)
        unclean_count, leaderless_ms, epoch_count = history.impact
        impact = GroupImpact(unclean_count, leaderless_ms, single_isr_ms, epoch_count)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(key, impact, is_still and epoch_count < 2, [])
        group.members.append(history.name)
        keys[history.name] = group.key
    if not groups:
        return None
    edges = heatmap_edges(run, window)
    worst = _choose_worst(groups)
    drawn, other_changes = _read_drawn(run, keys, worst, edges, min_isr)
    rows = tuple(_row(groups[key], drawn[key]) for key in worst)
    left = [group for key, group in groups.items() if key not in drawn]
    grid = _grid(rows, [drawn[key] for key in worst], left, edges, other_changes)
    return GroupedHistories(rows, grid, len(keys), len(groups), min_isr)


def heatmap_edges(run: RunOutput, window: Window) -> Ints:
    """Cut time into the cells of heatmaps: short ones where findings begin and end."""
    # Of equally bad findings any first few are spread over the whole time, should all be too many.
    ranked = sorted(enumerate(run.findings), key=lambda pair: (
        severity_rank(pair[1].severity), f"{pair[0]:032b}"[::-1], pair[0]))  # fmt: skip
    moments = (moment for _, finding in ranked for moment in (finding.start_ms, finding.end_ms))
    return bin_edges(window, [moment for moment in moments if moment is not None])


def _first_times(times: Ints) -> Ints:
    """Return the first of each group of moments that are taken for one and the same.

    A group ends at a pause of half a second; one without a pause is cut after a whole second.
    """
    pauses = np.append(np.flatnonzero(np.diff(times) > SAME_CHANGE_MS // 2) + 1, len(times))
    firsts, index = [], 0
    while index < len(times):
        firsts.append(times[index])
        reach = int(np.searchsorted(times, times[index] + SAME_CHANGE_MS, "right"))
        index = min(reach, int(pauses[np.searchsorted(pauses, index, "right")]))
    return np.array(firsts, np.int64)


def _fingerprint(facts: Ints, times: Ints, changes: Ints, more: bytes = b"") -> bytes:
    """Digest a history: equal ones have the same facts between the same changes."""
    places = np.searchsorted(changes, times, "right")
    whole = np.concatenate([facts, places]).tobytes() + more
    return hashlib.blake2b(whole, digest_size=16).digest()


def _isr_fingerprints(
    run: RunOutput, window: Window, changes: Ints, min_isr: MinIsr
) -> dict[TopicPartition, tuple[bytes, int, bool]]:
    """Digest each partition's ISRs; say how long one replica was alone, and if all stayed still."""
    codes = IsrCodes()
    fingerprints = {}
    for history in read_isr_histories(run, window, codes):
        code, _, wanted, start, end = history.columns
        minimum = (min_isr.for_topic(history.name[0]) or 0).to_bytes(8, "big", signed=True)
        key = _fingerprint(np.stack([code, wanted]), np.stack([start, end]), changes, minimum)
        fingerprints[history.name] = (key, history.single_isr_ms, len(code) < 2)
    return fingerprints


def _choose_worst(groups: Mapping[bytes, _Group]) -> list[bytes]:
    """Choose the histories that are drawn, the worst first."""
    # Of many only some are drawn: to order all would take more memory than to hold them.
    if len(groups) > FEW_ROWS and any(not group.is_still for group in groups.values()):
        chosen = (key for key, group in groups.items() if not group.is_still)
        return nsmallest(MAX_ROWS, chosen, key=lambda key: groups[key].sort_key)
    most = MAX_ROWS if len(groups) <= FEW_ROWS else 1
    return nsmallest(most, groups, key=lambda key: groups[key].sort_key)


def _read_drawn(
    run: RunOutput, keys: Mapping[TopicPartition, bytes], worst: Sequence[bytes], edges: Ints,
    min_isr: MinIsr,
) -> tuple[dict[bytes, _DrawnHistory], Ints]:  # fmt: skip
    """Read once more what is drawn; return too when leaders changed that are not drawn."""
    window = int(edges[0]), int(edges[-1])
    wanted, drawn = set(worst), dict[bytes, _DrawnHistory]()
    other_changes = np.zeros(len(edges) - 1, np.int64)
    for history in read_leader_histories(run, window):
        key = keys[history.name]
        if key not in wanted:
            other_changes += time_bins.count_leader_changes(history.columns, edges)
        elif key not in drawn:
            leaders = time_bins.leader_cells(history.columns, edges)
            drawn[key] = _DrawnHistory(_keep_worst(history), leaders, _unknown_cells(edges))
        elif history.columns.shape[1] <= MAX_EPOCHS:
            drawn[key].history = drawn[key].history.merge(history)
    codes = IsrCodes()
    for isr_history in read_isr_histories(run, window, codes):
        row = drawn.get(keys.get(isr_history.name, b""))
        if row is not None and not row.isr_states:
            minimum = min_isr.for_topic(isr_history.name[0]) or 0
            row.missing = time_bins.missing_cells(isr_history.columns, minimum, edges)
            row.isr_states = _isr_states(isr_history, codes)
    return drawn, other_changes


def _unknown_cells(edges: Ints) -> Ints:
    return np.full(len(edges) - 1, time_bins.NOT_KNOWN, np.int64)


def _keep_worst(history: LeaderHistory) -> LeaderHistory:
    """Keep of very many leader epochs those that matter most: unclean, leaderless, long."""
    leader, _, _, start, end, marks = history.columns
    if len(leader) <= MAX_EPOCHS:
        return history
    worst = np.lexsort((start, start - end, leader != -1, (marks & 1) == 0))[:MAX_EPOCHS]
    kept = np.sort(worst)
    elections = history.elections.take(kept)
    return replace(history, columns=history.columns[:, kept], elections=elections)


def _isr_states(history: IsrHistory, codes: IsrCodes) -> tuple[IsrState, ...]:
    code, size, wanted, start, end = history.columns
    missing = np.where(size >= 0, np.maximum(wanted - size, 0), 0)
    kept = np.sort(np.lexsort((start, start - end, -missing))[:MAX_ISR_STATES])
    rows = np.stack([code, wanted, start, end])[:, kept].T.tolist()
    isrs = codes.isrs
    return tuple(IsrState(None if c < 0 else tuple(isrs[c]), w, a, b) for c, w, a, b in rows)


def _row(group: _Group, drawn: _DrawnHistory) -> PartitionGroup:
    names = (f"{topic}-{number}" for topic, number in group.names)
    epochs = tuple(drawn.history.intervals())
    return PartitionGroup(tuple(names), group.impact, epochs, drawn.isr_states)


def _grid(
    rows: Sequence[PartitionGroup], drawn: Sequence[_DrawnHistory], left: Sequence[_Group],
    edges: Ints, other_changes: Ints,
) -> time_bins.Grid:  # fmt: skip
    """Build the grid; two more rows count the partitions that have none of their own."""
    names, links = [row.label for row in rows], [_link(row.members[0]) for row in rows]
    leaders, missing = [one.leaders for one in drawn], [one.missing for one in drawn]
    rest = ((False, "others", other_changes > 0), (True, "with no change", other_changes < 0))
    for is_still, text, has_changed in rest:
        many = sum(len(group.members) for group in left if group.is_still == is_still)
        if many:
            names.append(f"{many:,} {text}")
            links.append("#partitions")
            cells = np.full_like(other_changes, time_bins.MANY)
            cells[has_changed] = time_bins.SEVERAL
            leaders.append(cells)
            missing.append(_unknown_cells(edges))
    return time_bins.Grid(edges, names, np.stack(leaders), np.stack(missing), links)


def _link(member: str) -> str:
    topic, _, number = member.rpartition("-")
    return f"#{entity_id('p', topic, number)}"


def leader_word(leader: int | None) -> str:
    """Name a leader in a cell of a table."""
    if leader in (None, UNKNOWN_LEADER):
        return "not known"
    return "none" if leader == -1 else str(leader)
