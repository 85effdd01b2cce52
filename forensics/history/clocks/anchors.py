"""Finds anchors: moments that several nodes logged, and so tie their clocks together.

States of partitions, registrations of brokers and generations of consumer groups have numbers of
Kafka's own; requests and responses are logged by both sides within milliseconds. All anchors of two
nodes, however many, are reduced to one row of bounded size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.clocks import line_fit
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.lib.arrow_io import iter_rows, to_batches
from forensics.lib.time_units import SECOND

# One row: two nodes saw the same state, the first `delta` milliseconds after the second.
ANCHORS = pa.schema(
    [("node", pa.string()), ("other", pa.string()), ("delta", pa.float64()), ("at", pa.int64())]
)
PARTITION_KINDS = ("partition_state",)
_PARTITION_COLUMNS = (
    "topic", "partition", "ts", "node", "telling", "leader_epoch", "partition_epoch", "log_end",
)  # fmt: skip
# What both sides log of a registered broker: a request and its response.
_ANSWERS = {
    "broker_unfenced": "unfenced",
    "process_started": "unfenced",
    "broker_shutdown_granted": "leaving",
    "process_stopping": "leaving",
    "controlled_shutdown_granted": "left",
}
BROKER_KINDS = ("broker_registered", "brokers_joined", *_ANSWERS)
GROUP_KINDS = ("group_stable", "group_member_left", "group_joined", "group_leaving")

_BROKER_COLUMNS = (
    "broker", "kind", "ts", "node", "file", "line", "telling", "broker_epoch", "controller",
)  # fmt: skip
_GROUP_COLUMNS = ("group", "kind", "ts", "node", "member", "generation", "client")

# How many anchors of a pair of nodes are kept of one partition, broker or group.
_KEPT = 256
Row = Mapping[str, Any]
# A state, the node that logged it, and when.
Sighting = tuple[object, str, int]
Anchor = tuple[str, str, float, int]


@dataclass(frozen=True)
class AnchorSource:
    """Events that must be looked at together: those of some kinds that share the keys."""

    keys: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: tuple[str, ...]
    find_anchors: Callable[[Iterable[Row]], list[dict[str, Any]]]

    def __call__(self, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Find anchors in batches of events sorted by the keys."""
        groups = groupby(iter_rows(events, self.columns), itemgetter(*self.keys))
        return to_batches(
            chain.from_iterable(self.find_anchors(rows) for _, rows in groups), ANCHORS
        )


def pair_sightings(
    sightings: Iterable[Sighting], among: Callable[[str, str], bool] | None = None
) -> list[Anchor]:
    """Pair up the nodes that logged the same state, as rows of ANCHORS."""
    first: dict[object, dict[str, int]] = defaultdict(dict)
    for state, node, micros in sightings:
        seen = first[state]
        seen[node] = min(micros, seen.get(node, micros))
    return [
        (node, other, (seen[node] - seen[other]) / 1000, seen[other])
        for seen in first.values()
        for node in sorted(seen)
        for other in sorted(seen)
        if node < other and (among is None or among(node, other))
    ]


def list_anchor_sources(startups: StartupWindows) -> tuple[AnchorSource, ...]:
    """Return all kinds of events that tie clocks together, and how to find anchors in them."""
    of_broker = partial(find_broker_anchors, startups=startups)
    key = ("topic", "partition")
    return (
        AnchorSource(key, PARTITION_KINDS, _PARTITION_COLUMNS, find_partition_anchors),
        AnchorSource(("broker",), BROKER_KINDS, _BROKER_COLUMNS, of_broker),
        AnchorSource(("group",), GROUP_KINDS, _GROUP_COLUMNS, find_group_anchors),
    )


def find_partition_anchors(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Find, in the events of one partition, the states that several nodes logged as they came."""
    sightings = (
        ((name, row[name]), row["node"], row["ts"])
        for row in rows
        if row["node"] and row["ts"] is not None and (row["telling"] is None or _is_new(row))
        for name in ("leader_epoch", "partition_epoch")
        if row[name] is not None
    )
    return _anchor_rows(pair_sightings(sightings))


def find_broker_anchors(rows: Iterable[Row], startups: StartupWindows) -> list[dict[str, Any]]:
    """Find what both a broker and the controllers log of the broker's life."""
    events = [row for row in rows if row["node"] and row["ts"] is not None]
    events.sort(key=lambda row: (row["node"], row["ts"], row["line"], row["file"]))
    sightings = [*_sightings_by_epoch(events, startups), *_sightings_by_order(events)]
    return _anchor_rows(pair_sightings(sightings))


def find_group_anchors(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Find what both the coordinator of a consumer group and its members log."""
    coordinators = set()
    sightings: list[Sighting] = []
    for row in rows:
        if not row["node"] or row["ts"] is None or _is_static(row):
            continue
        if row["kind"] in ("group_stable", "group_member_left"):
            coordinators.add(row["node"])
        leaves = row["kind"] in ("group_leaving", "group_member_left")
        state = ("left", row["member"]) if leaves else ("generation", row["generation"])
        if state[1] is not None:
            sightings.append((state, row["node"], row["ts"]))
    # Members are many; it is enough to tie each to the coordinator.
    anchors = pair_sightings(sightings, lambda a, b: (a in coordinators) != (b in coordinators))
    return _anchor_rows(anchors)


def _is_static(row: Row) -> bool:
    """Return True if a static member joined, maybe into a generation that is there for long.

    The coordinator names others after their client, and those after their group.instance.id.
    """
    if row["kind"] != "group_joined" or None in (row["member"], row["client"]):
        return False
    return not row["member"].startswith(f"{row['client']}-")


def _is_new(row: Row) -> bool:
    """Return True if a line that may repeat old news is about a partition just created."""
    return row["telling"] == "fresh" and not (
        row["leader_epoch"] or row["partition_epoch"] or row["log_end"]
    )


def _sightings_by_epoch(rows: Iterable[Row], startups: StartupWindows) -> list[Sighting]:
    """Number what is logged about a broker by the epoch of its registration.

    A broker that was fenced is let in again in the same epoch. Where several controllers did that
    in turn, these were several moments.
    """
    sightings: list[Sighting] = []
    granted: dict[object, set[str]] = defaultdict(set)
    epochs: dict[str, int] = {}
    for row in rows:
        node = row["node"]
        if row["telling"] == "replay" and startups.is_replaying(node, row["ts"]):
            continue
        epoch = row["broker_epoch"]
        if epoch is not None:
            epochs[node] = epoch
        elif node in epochs:
            epoch = epochs[node]
        if epoch is None:
            continue
        if row["kind"] == "broker_registered":
            sightings.append((("registered", epoch), node, row["ts"]))
        elif row["kind"] in _ANSWERS:
            state = (_ANSWERS[row["kind"]], epoch)
            sightings.append((state, node, row["ts"]))
            if row["kind"] == "broker_unfenced" and row["telling"] is None:
                granted[state].add(node)
    return [one for one in sightings if len(granted[one[0]]) < 2]


def _sightings_by_order(rows: Iterable[Row]) -> Iterator[Sighting]:
    """Match a broker's registrations in ZooKeeper with what the controller logs of them.

    No number stands on both sides; where both sides count as many, they are matched in order.
    """
    registered: dict[str, set[int]] = defaultdict(set)
    joined: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        if row["kind"] == "broker_registered" and row["controller"] is None:
            registered[row["node"]].add(row["ts"])
        elif row["kind"] == "brokers_joined":
            joined[row["node"]].add(row["ts"])
    for node, moments in registered.items():
        for other, seen in joined.items():
            if node != other and len(moments) == len(seen):
                pairs = zip(sorted(moments), sorted(seen), strict=True)
                for index, (micros, other_micros) in enumerate(pairs):
                    yield ("joined", other, index), node, micros
                    yield ("joined", other, index), other, other_micros


def _anchor_rows(anchors: Iterable[Anchor]) -> list[dict[str, Any]]:
    pairs: dict[tuple[str, str], list[line_fit.Point]] = defaultdict(list)
    for node, other, delta, at in anchors:
        pairs[node, other].append((at, delta))
    return [
        {"node": node, "other": other, "delta": delta, "at": at}
        for (node, other), points in sorted(pairs.items())
        for at, delta in line_fit.downsample(points, _KEPT)
    ]


# One row: how far apart two clocks are by all their anchors, how closely these agree, and which
# of them are kept for the fit.
PAIRS = pa.schema(
    [
        ("node", pa.string()),
        ("other", pa.string()),
        ("count", pa.int64()),
        ("delta", pa.float64()),
        ("spread", pa.float64()),
        ("points", pa.list_(pa.struct([("at", pa.int64()), ("delta", pa.float64())]))),
    ]
)
_KEPT_PER_PAIR = 512
# Of all pairs together so many points are held at once; of each pair, some must be left.
_HELD, _MIN_KEPT = 300_000, 24
_MANY = 20_000


def make_pair_reducer(nodes: int) -> Callable[[pa.Table], pa.Table]:
    """Return the `reduce_pair` for so many nodes: among a hundred there are five thousand pairs."""
    kept = min(_KEPT_PER_PAIR, max(_MIN_KEPT, _HELD // max(1, nodes * nodes)))
    return partial(reduce_pair, kept=kept)


def reduce_pair(deltas: pa.Table, kept: int = _KEPT_PER_PAIR) -> pa.Table:
    """Reduce the anchors of one pair of nodes to one row of PAIRS."""
    row = {"node": deltas["node"][0].as_py(), "other": deltas["other"][0].as_py()}
    if deltas.num_rows > _MANY:
        deltas = _first_of_each_second(deltas)
    pairs = zip(deltas["at"].to_pylist(), deltas["delta"].to_pylist(), strict=True)
    # What one node writes in a moment may take the other, if it hangs, many seconds, and either may
    # be the one that hangs: bursts are taken by both clocks.
    by_one, by_other = line_fit.dedupe_by_either_clock(pairs)
    sample = line_fit.thin_evenly(by_one + by_other, 4 * _KEPT_PER_PAIR)
    offset, uncertainty = line_fit.estimate_offset([delta for _, delta in sample])
    points = sorted({*line_fit.thin_evenly(by_one, kept), *line_fit.thin_evenly(by_other, kept)})
    row |= {"count": min(len(by_one), len(by_other)), "delta": offset, "spread": uncertainty}
    row["points"] = [{"at": at, "delta": delta} for at, delta in points]
    return pa.Table.from_pylist([row], schema=PAIRS)


def _first_of_each_second(deltas: pa.Table) -> pa.Table:
    """Thin out very many anchors, second by second of both clocks, without a Python loop."""
    other = pc.add(deltas["at"], pc.cast(pc.multiply(deltas["delta"], 1000.0), pa.int64(), False))
    parts = []
    for clock in (deltas["at"], other):
        table = deltas.select(["at", "delta"]).append_column("second", pc.divide(clock, SECOND))
        table = table.append_column("clock", clock).sort_by([("clock", "ascending")])
        first = table.group_by("second", use_threads=False).aggregate(
            [("at", "first"), ("delta", "first")]
        )
        parts.append(first.select(["at_first", "delta_first"]).rename_columns(["at", "delta"]))
    return pa.concat_tables(parts)
