"""Rebuilds the history of a cluster from the table of events: clocks, lanes, leadership, ISR.

Small things (starts, fencings, elections of controllers) are read here; the fold of each partition
is handed out to be run where the data is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from forensics.events.file_accounts import FileAccount
from forensics.history.clocks.model import Clocks
from forensics.history.clocks.solver import estimate_zone_shifts, solve_clocks
from forensics.history.clocks.steps import count_unconfirmed_steps, locate_steps
from forensics.history.log_coverage import Coverage
from forensics.history.nodes.build_lanes import Lanes
from forensics.history.nodes.controller_terms import DeposedControllers
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.elections import ACTION_KINDS, ControllerActions
from forensics.history.partitions.fold import FOLD_COLUMNS, FOLDED, FoldContext, fold_rows
from forensics.history.partitions.observers import Observers
from forensics.lib.arrow_io import SIGHTING, iter_partitions, read_events, to_batches
from forensics.lib.whole_numbers import whole_number

_FIRST_WITH_ELR = 4
# What only nodes of a cluster without ZooKeeper write, and seldom.
_KRAFT_KINDS = (
    "caught_up",
    "broker_unfenced",
    "feature_set",
    "controller_activating",
    "raft_transition",
    "broker_registration_changed",
)


@dataclass(frozen=True)
class History:
    """What detectors need beside the tables."""

    clocks: Clocks
    lanes: Lanes
    context: FoldContext


def build_clocks(
    pairs: pa.Table, events: Path, nodes: Sequence[str], files: Iterable[FileAccount] = ()
) -> Clocks:
    """Solve the clocks of all nodes from pairs of anchors and from lines with epoch times."""
    by_node: dict[str, list[FileAccount]] = defaultdict(list)
    for file in files:
        if file.node and file.first is not None:
            by_node[file.node].append(file)
    zoned = frozenset(f.file for owned in by_node.values() for f in owned if f.logs_offsets)
    rows = read_events(events, ["process_clock"], [*SIGHTING, "epoch_ms"])
    timed = [row for row in rows if row["node"] and row["epoch_ms"]]
    zones = estimate_zone_shifts((row["node"], row["ts"], row["epoch_ms"]) for row in timed)
    zones |= {node: 0 for node, owned in by_node.items() if all(f.file in zoned for f in owned)}
    anchors = pairs.to_pylist()
    clocks = locate_steps(replace(solve_clocks(anchors, zones, nodes), zoned=zoned), events)
    if not count_unconfirmed_steps(clocks):
        return clocks
    # Of two nodes either may have been stepped: the one whose own lines show it was.
    references = {row["node"] for row in clocks.rows if row["reference"]}
    solved = solve_clocks(anchors, zones, nodes, references)
    other = locate_steps(replace(solved, zoned=zoned), events)
    return min(clocks, other, key=count_unconfirmed_steps)


def build_fold_context(
    events: Path, clocks: Clocks, lanes: Lanes, coverage: Coverage, startups: StartupWindows
) -> FoldContext:
    """Gather what the fold of a partition must know of the cluster."""
    features = read_events(events, ["feature_set"])
    elr_levels = [row["count"] for row in features if "eligible.leader" in (row["detail"] or "")]
    majors = _read_major_versions(events)
    newest = max(majors, default=0)
    # From 4.0 on there is nothing but KRaft; before, its nodes show it in one of many ways.
    kraft = newest >= _FIRST_WITH_ELR or bool(read_events(events, _KRAFT_KINDS, SIGHTING))
    may_have_elr = kraft and (not majors or newest >= _FIRST_WITH_ELR)
    elr = bool(elr_levels[-1]) if elr_levels else (None if may_have_elr else False)
    # Only ZooKeeper timeouts prove a local pause: a timed-out peer request may mean that the peer
    # died.
    wakes = read_events(events, ["zookeeper_disconnected"], [*SIGHTING, "duration_ms"])
    waits = [(row["node"], clocks.event_time(row), row["duration_ms"] or 0) for row in wakes]
    absences = tuple(lanes.absences)
    observers = Observers.from_absences(absences, coverage, (wait for wait in waits if wait[0]))
    actions = _read_actions(events, clocks, startups, lanes.void)
    return FoldContext(clocks, startups, absences, elr, kraft, actions, observers, lanes.void)


def _read_actions(
    events: Path, clocks: Clocks, startups: StartupWindows, void: DeposedControllers
) -> ControllerActions:
    """Gather what controllers did to many partitions at once; what they replay is no news."""
    columns = [*SIGHTING, "telling", "topic", "broker", "detail", "count", "added", "bounced"]
    rows = (
        row | {"at": clocks.event_time(row)}
        for row in read_events(events, ACTION_KINDS, [*columns, "controller"])
        if row["telling"] is None or not startups.is_replaying(row["node"] or "", row["ts"])
    )
    return ControllerActions.from_events(row for row in rows if not void.include(row, row["at"]))


def _read_major_versions(events: Path) -> list[int]:
    """Read which major versions the servers run; clients, which log theirs too, may be newer."""
    rows = read_events(events, ["kafka_version"], [*SIGHTING, "detail"])
    servers = (row for row in rows if (row["node"] or "").startswith(("broker-", "controller-")))
    majors = ((row["detail"] or "").partition(".")[0] for row in servers)
    return [number for major in majors if (number := whole_number(major)) is not None]


def fold_batches(
    events: Iterable[pa.RecordBatch], context: FoldContext
) -> Iterator[pa.RecordBatch]:
    """Fold events that are sorted by partition; yield rows of FOLDED."""
    partitions = (fold_rows(rows, context) for rows in iter_partitions(events, FOLD_COLUMNS))
    return to_batches(chain.from_iterable(partitions), FOLDED)
