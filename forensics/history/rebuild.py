"""Rebuilds the past from the table of events: clocks, lanes, leadership, ISR.

Small things (starts, fencings, elections of controllers) are read here; the fold of each partition
is handed out to be run where the data is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from forensics.history.clocks.model import Clocks
from forensics.history.clocks.solver import estimate_zone_shifts, solve_clocks
from forensics.history.clocks.steps import count_unconfirmed_steps, locate_steps
from forensics.history.log_coverage import Coverage
from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.build_lanes import Lanes
from forensics.history.nodes.startup_windows import StartupWindows, read_startup_windows
from forensics.history.partitions.controller_actions import ACTION_KINDS, ControllerActions
from forensics.history.partitions.fold import FOLD_COLUMNS, FOLDED, FoldContext, fold_rows
from forensics.history.partitions.observers import Observers
from forensics.lib.arrow_io import SIGHTING, iter_partitions, read_events, to_batches

Batches = Iterator[pa.RecordBatch]

_FIRST_WITH_ELR = 4
# What only nodes of a cluster without ZooKeeper write, and seldom.
_KRAFT = (
    "caught_up",
    "broker_unfenced",
    "feature_set",
    "controller_activating",
    "raft_transition",
    "broker_registration_changed",
)


@dataclass(frozen=True)
class History:
    """What incidents need beside the tables."""

    clocks: Clocks
    lanes: Lanes
    context: FoldContext


def build_clocks(pairs: pa.Table, events: Path, nodes: Sequence[str]) -> Clocks:
    """Solve the clocks of all nodes from paired sightings and from lines with epoch times."""
    moments = read_events(events, ["process_clock"], [*SIGHTING, "epoch_ms"])
    zones = estimate_zone_shifts(
        (row["node"], row["ts"], row["epoch_ms"])
        for row in moments
        if row["node"] and row["epoch_ms"]
    )
    rows = pairs.to_pylist()
    clocks = locate_steps(solve_clocks(rows, zones, nodes), events)
    if not count_unconfirmed_steps(clocks):
        return clocks
    # Of two nodes either may have been set anew: the one whose own lines show it was.
    first = {row["node"] for row in clocks.rows if row["reference"]}
    other = locate_steps(solve_clocks(rows, zones, nodes, first), events)
    return min(clocks, other, key=count_unconfirmed_steps)


def build_fold_context(
    events: Path, clocks: Clocks, away: Sequence[Absence], coverage: Coverage | None = None
) -> FoldContext:
    """Gather what the fold of a partition must know of the cluster."""
    phases = read_startup_windows(events)
    features = read_events(events, ["feature_set"])
    levels = [row["count"] for row in features if "eligible.leader" in (row["detail"] or "")]
    majors = _majors(events)
    # From 4.0 on there is nothing but KRaft; before, its nodes say so in one of many ways.
    kraft = max(majors, default=0) >= _FIRST_WITH_ELR or bool(read_events(events, _KRAFT, SIGHTING))
    may = kraft and (not majors or max(majors) >= _FIRST_WITH_ELR)
    elr = bool(levels[-1]) if levels else (None if may else False)
    moves = _moves(events, clocks, phases)
    # Whoever waits for a peer may wait for a dead one; ZooKeeper is there, so who waited hung.
    wakes = read_events(events, ["zookeeper_disconnected"], [*SIGHTING, "duration_ms"])
    told = (
        (row["node"], clocks.event_time(row), row["duration_ms"] or 0)
        for row in wakes
        if row["node"]
    )
    attention = Observers.from_absences(away, coverage or Coverage(), told)
    return FoldContext(clocks, phases, tuple(away), elr, kraft, moves, attention)


def _moves(events: Path, clocks: Clocks, phases: StartupWindows) -> ControllerActions:
    """Gather what controllers did to many partitions at once; what they replay is no news."""
    columns = [*SIGHTING, "telling", "topic", "broker", "detail", "count", "added", "bounced"]
    rows = read_events(events, ACTION_KINDS, columns)
    live = (
        row | {"at": clocks.event_time(row)}
        for row in rows
        if row["telling"] is None or not phases.is_replaying(row["node"] or "", row["ts"])
    )
    return ControllerActions.from_events(live)


def _majors(events: Path) -> list[int]:
    """Read which major versions the servers run; clients, which say theirs too, may be newer."""
    rows = read_events(events, ["kafka_version"], ["ts", "node", "line", "kind", "file", "detail"])
    servers = (row for row in rows if (row["node"] or "").startswith(("broker-", "controller-")))
    named = ((row["detail"] or "").partition(".")[0] for row in servers)
    return [int(major) for major in named if major.isdigit()]


def make_partition_folder(known: FoldContext) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Make the function that folds events sorted by partition."""

    def work(events: Iterable[pa.RecordBatch]) -> Batches:
        found = (fold_rows(rows, known) for rows in iter_partitions(events, FOLD_COLUMNS))
        return to_batches(chain.from_iterable(found), FOLDED)

    return work
