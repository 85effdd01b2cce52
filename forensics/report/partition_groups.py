"""Partitions with equal histories become one row, and the row lists its members."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from forensics.detection.shared.min_isr import MinIsr
from forensics.report import time_bins
from forensics.report.html import entity_id
from forensics.report.time_bins import Ints, bin_edges, read_min_isr
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


@dataclass
class _Group:
    """The partitions that share a history, and how bad it is."""

    harm: GroupImpact
    is_still: bool
    members: list[TopicPartition] = field(default_factory=list)


@dataclass
class _Chosen:
    """One history that is drawn."""

    led: LeaderHistory
    leaders: Ints
    missing: Ints
    states: tuple[IsrState, ...] = ()


def group_partitions(run: RunOutput) -> GroupedHistories | None:
    """Read, fold and rank; nothing is held of a partition that is not drawn but its name.

    The tables are read in parts, thrice: for the moments of change, to see which partitions are
    alike and how bad each history is, and then for the few that are drawn.
    """
    # Several figures ask; it is kept with the run, as cached properties are.
    kept = vars(run)
    if "_folded" not in kept:
        kept["_folded"] = _fold(run, run.window) if run.window else None
    found: GroupedHistories | None = kept["_folded"]
    return found


def _fold(run: RunOutput, whole: tuple[int, int]) -> GroupedHistories | None:
    floor = read_min_isr(run)
    ticks = _ticks(read_change_times(run, whole))
    alike = _alike(run, whole, ticks, floor)
    groups: dict[bytes, _Group] = {}
    keys: dict[TopicPartition, bytes] = {}
    for one in read_leader_histories(run, whole):
        key, thin, still = alike.get(one.name, (b"", 0, True))
        key = _digest(one.columns[[0, 5]], one.columns[3:5], ticks, key)
        torn, dark, changes = one.impact
        harm = GroupImpact(torn, dark, thin, changes)
        group = groups.setdefault(key, _Group(harm, still and changes < 2))
        group.members.append(one.name)
        keys[one.name] = key
    if not groups:
        return None
    cut = heatmap_edges(run, whole)
    wanted = _wanted(groups)
    chosen, other = _draw(run, keys, wanted, cut, floor)
    rows = tuple(_strand(groups[key], chosen[key]) for key in wanted)
    left = [group for key, group in groups.items() if key not in chosen]
    grid = _grid(rows, [chosen[key] for key in wanted], left, cut, other)
    return GroupedHistories(rows, grid, len(keys), len(groups), floor)


def heatmap_edges(run: RunOutput, whole: tuple[int, int]) -> Ints:
    """Cut time into what heatmaps have as cells: short ones where findings begin and end."""
    # Of equally bad findings any first few are spread over the whole time, should all be too many.
    ranked = sorted(enumerate(run.findings), key=lambda pair: (
        severity_rank(pair[1].severity),
        f"{pair[0]:032b}"[::-1], pair[0]))  # fmt: skip
    sides = (side for _, one in ranked for side in (one.start_ms, one.end_ms))
    return bin_edges(whole, [moment for moment in sides if moment is not None])


def _ticks(known: Ints) -> Ints:
    """Give the first moment of each group of moments that are one and the same tick.

    A group ends at a pause of half a tick; one without a pause is cut after a whole tick.
    """
    pauses = np.append(np.flatnonzero(np.diff(known) > SAME_CHANGE_MS // 2) + 1, len(known))
    firsts, at = [], 0
    while at < len(known):
        firsts.append(known[at])
        reach = int(np.searchsorted(known, known[at] + SAME_CHANGE_MS, "right"))
        at = min(reach, int(pauses[np.searchsorted(pauses, at, "right")]))
    return np.array(firsts, np.int64)


def _digest(facts: Ints, times: Ints, ticks: Ints, more: bytes = b"") -> bytes:
    at = np.searchsorted(ticks, times, "right")
    whole = np.concatenate([facts, at]).tobytes() + more
    return hashlib.blake2b(whole, digest_size=16).digest()


def _alike(
    run: RunOutput, whole: tuple[int, int], ticks: Ints, floor: MinIsr
) -> Mapping[TopicPartition, tuple[bytes, int, bool]]:
    """Say of each partition's ISRs which they are like, how long they were thin, if they moved."""
    codes = IsrCodes()
    found = {}
    for one in read_isr_histories(run, whole, codes):
        code, _, wanted, start, end = one.columns
        low = (floor.for_topic(one.name[0]) or 0).to_bytes(4, "big", signed=True)
        key = _digest(np.stack([code, wanted]), np.stack([start, end]), ticks, low)
        found[one.name] = (key, one.single_isr_ms, len(code) < 2)
    return found


def _wanted(groups: Mapping[bytes, _Group]) -> list[bytes]:
    """Choose the histories that are drawn, the worst first."""
    ranked = sorted(groups, key=lambda key: _rank(groups[key]))
    if len(ranked) > FEW_ROWS:
        ranked = [key for key in ranked if not groups[key].is_still] or ranked[:1]
    return ranked[:MAX_ROWS]


def _rank(group: _Group) -> tuple[list[int], tuple[str, int]]:
    topic, number = min(group.members, key=_sortable)
    return [-part for part in group.harm], (str(topic), number if number is not None else -1)


def _sortable(name: TopicPartition) -> tuple[str, int]:
    return str(name[0]), -1 if name[1] is None else name[1]


def _draw(
    run: RunOutput,
    keys: Mapping[TopicPartition, bytes],
    wanted: Sequence[bytes],
    cut: Ints,
    floor: MinIsr,
) -> tuple[dict[bytes, _Chosen], Ints]:
    """Read once more what is drawn; gives too when leaders changed that are not drawn."""
    whole = int(cut[0]), int(cut[-1])
    asked, chosen = set(wanted), dict[bytes, _Chosen]()
    other = np.zeros(len(cut) - 1, np.int64)
    nothing = np.full(len(cut) - 1, time_bins.NOT_KNOWN, np.int64)
    for one in read_leader_histories(run, whole):
        key = keys[one.name]
        if key not in asked:
            other += time_bins.count_leader_changes(one.columns, cut)
        elif key not in chosen:
            chosen[key] = _Chosen(_trimmed(one), time_bins.leader_cells(one.columns, cut), nothing)
        elif one.columns.shape[1] <= MAX_EPOCHS:
            chosen[key].led = chosen[key].led.merge(one)
    codes = IsrCodes()
    for state in read_isr_histories(run, whole, codes):
        row = chosen.get(keys.get(state.name, b""))
        if row is not None and not row.states:
            low = floor.for_topic(state.name[0]) or 0
            row.missing = time_bins.missing_cells(state.columns, low, cut)
            row.states = _spelled(state, codes)
    return chosen, other


def _trimmed(one: LeaderHistory) -> LeaderHistory:
    """Keep of very many leader epochs those that matter most: unclean, dark, long."""
    leader, _, _, start, end, marks = one.columns
    if len(leader) <= MAX_EPOCHS:
        return one
    worst = np.lexsort((start, start - end, leader != -1, (marks & 1) == 0))[:MAX_EPOCHS]
    kept = np.sort(worst)
    return replace(one, columns=one.columns[:, kept], elections=one.elections.take(kept))


def _spelled(one: IsrHistory, codes: IsrCodes) -> tuple[IsrState, ...]:
    isrs = codes.isrs
    code, size, wanted, start, end = one.columns
    short = np.where(size >= 0, np.maximum(wanted - size, 0), 0)
    kept = np.sort(np.lexsort((start, start - end, -short))[:MAX_ISR_STATES])
    rows = zip(*(part[kept].tolist() for part in (code, wanted, start, end)), strict=True)
    return tuple(IsrState(None if c < 0 else tuple(isrs[c]), w, a, b) for c, w, a, b in rows)


def _strand(group: _Group, one: _Chosen) -> PartitionGroup:
    names = (f"{topic}-{number}" for topic, number in sorted(group.members, key=_sortable))
    return PartitionGroup(tuple(names), group.harm, tuple(one.led.intervals()), one.states)


def _grid(
    rows: Sequence[PartitionGroup], chosen: Sequence[_Chosen], left: Sequence[_Group], cut: Ints,
    other: Ints,
) -> time_bins.Grid:  # fmt: skip
    """Put the rows together, and count in two more rows what has none of its own."""
    names, links = [row.label for row in rows], [_link(row.members[0]) for row in rows]
    led, short = [one.leaders for one in chosen], [one.missing for one in chosen]
    for still, says in ((False, "others"), (True, "with no change")):
        many = sum(len(group.members) for group in left if group.is_still == still)
        if many:
            names.append(f"{many:,} {says}")
            links.append("#partitions")
            moved = other if not still else np.zeros_like(other)
            led.append(np.where(moved > 0, time_bins.SEVERAL, time_bins.MANY))
            short.append(np.full(len(cut) - 1, time_bins.NOT_KNOWN, np.int64))
    return time_bins.Grid(cut, names, np.stack(led), np.stack(short), links)


def _link(member: str) -> str:
    topic, _, number = member.rpartition("-")
    return f"#{entity_id('p', topic, number)}"


def leader_word(leader: int | None) -> str:
    """Name a leader in a cell of a table."""
    if leader in (None, UNKNOWN_LEADER):
        return "not known"
    return "none" if leader == -1 else str(leader)
