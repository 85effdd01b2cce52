"""Solves the nodes' clocks from states that several nodes saw, and tells zones from drift."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["ANCHORS", "PAIRS", "Clocks", "anchors", "densest", "settle_pair", "solve", "zone_shifts"]

# One row: two nodes saw the same state, the first `delta` milliseconds after the second.
ANCHORS = pa.schema([("node", pa.string()), ("other", pa.string()), ("delta", pa.float64())])
# One row: how far apart two clocks are by all their anchors, and how closely these agree.
PAIRS = pa.schema(
    [
        ("node", pa.string()),
        ("other", pa.string()),
        ("count", pa.int64()),
        ("delta", pa.float64()),
        ("spread", pa.float64()),
    ]
)
_ZONE_STEP = 15
_MINUTE_MS = 60_000
# A zone is off by whole quarters of an hour; what is left over must be drift, and small.
_ZONE_REST_MS = 5 * _MINUTE_MS


@dataclass(frozen=True)
class Clocks:
    """Offsets and zone shifts of nodes, to be taken off their logged times."""

    offsets_ms: Mapping[str, float]
    zones_min: Mapping[str, int]
    rows: tuple[Mapping[str, Any], ...]

    def correct(self, node: str | None, micros: int) -> int:
        """Give the moment on the reference clock."""
        offset = self.offsets_ms.get(node or "", 0.0)
        zone = self.zones_min.get(node or "", 0)
        return int(micros - offset * 1000) - zone * _MINUTE_MS * 1000


def anchors(sightings: Iterable[tuple[object, str, int]]) -> list[tuple[str, str, float]]:
    """Pair up who saw the same state when: (state, node, micros) to (node, other, delta in ms)."""
    first: dict[object, dict[str, int]] = defaultdict(dict)
    for state, node, micros in sightings:
        seen = first[state]
        seen[node] = min(micros, seen.get(node, micros))
    return [
        (node, other, (seen[node] - seen[other]) / 1000)
        for seen in first.values()
        for node in sorted(seen)
        for other in sorted(seen)
        if node < other
    ]


def densest(values: Sequence[float]) -> tuple[float, float]:
    """Find where values crowd: the middle of the narrowest half, again and again, and its width.

    A node that was paused sees things late, never early, so its deltas have a long tail on one
    side; a median is drawn into it, the place where they crowd is not.

    >>> densest([1.0, 1.0, 1.0, 9.0, 20.0])[0]
    1.0
    """
    ordered = sorted(values)
    width = ordered[-1] - ordered[0]
    while len(ordered) > 2:  # noqa: PLR2004
        half = (len(ordered) + 1) // 2
        starts = range(len(ordered) - half + 1)
        best = min(starts, key=lambda at: ordered[at + half - 1] - ordered[at])
        ordered = ordered[best : best + half]
        if half > len(values) // 4:
            width = ordered[-1] - ordered[0]
    return sum(ordered) / len(ordered), width


def settle_pair(deltas: pa.Table) -> pa.Table:
    """Reduce the anchors of one pair of nodes to one row of PAIRS."""
    middle, width = densest(deltas["delta"].to_pylist())
    row = {"node": deltas["node"][0].as_py(), "other": deltas["other"][0].as_py()}
    row |= {"count": len(deltas), "delta": middle, "spread": width}
    return pa.Table.from_pylist([row], schema=PAIRS)


def zone_shifts(moments: Iterable[tuple[str, int, int]]) -> dict[str, int]:
    """Read zones off lines that hold the epoch time: (node, logged micros, epoch ms) to minutes."""
    found: dict[str, list[float]] = defaultdict(list)
    for node, logged, epoch_ms in moments:
        found[node].append((logged / 1000 - epoch_ms) / _MINUTE_MS)
    return {
        node: round(statistics.median(shifts) / _ZONE_STEP) * _ZONE_STEP
        for node, shifts in found.items()
    }


def solve(
    pairs: Sequence[Mapping[str, Any]], zones: Mapping[str, int], nodes: Sequence[str]
) -> Clocks:
    """Solve all clocks from PAIRS, strongest first."""
    zones = dict(zones)
    relative, counts, spread = _walk(pairs, zones)
    offsets: dict[str, float] = {}
    for group in relative:
        middle = statistics.median_low(group.values())
        offsets |= {node: value - middle for node, value in group.items()}
    for node, offset in offsets.items():
        if node not in zones:
            shift = round(offset / _MINUTE_MS / _ZONE_STEP) * _ZONE_STEP
            if shift and abs(offset - shift * _MINUTE_MS) < _ZONE_REST_MS:
                zones[node] = shift
                offsets[node] = offset - shift * _MINUTE_MS
    rows = [
        {
            "node": node,
            "offset_ms": round(offsets.get(node, 0.0)),
            "uncertainty_ms": round(spread[node]) if node in spread else None,
            "anchors": counts.get(node, 0),
            "zone_shift_minutes": zones.get(node, 0),
            "reference": node in offsets and offsets[node] == 0.0,
        }
        for node in sorted(nodes)
    ]
    return Clocks(offsets, zones, tuple(rows))


def _walk(
    pairs: Sequence[Mapping[str, Any]], zones: Mapping[str, int]
) -> tuple[list[dict[str, float]], dict[str, int], dict[str, float]]:
    """Join nodes by their strongest pair first, so that every offset rests on the best evidence."""
    groups: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = defaultdict(int)
    spread: dict[str, float] = {}
    for pair in sorted(pairs, key=lambda p: (-p["count"], p["node"], p["other"])):
        node, other, middle = pair["node"], pair["other"], pair["delta"]
        counts[node] += pair["count"]
        counts[other] += pair["count"]
        mine = groups.setdefault(node, {node: 0.0})
        theirs = groups.setdefault(other, {other: 0.0})
        for one in (node, other):
            spread.setdefault(one, max(pair["spread"], 1.0))
        if mine is theirs:
            continue
        zone = (zones.get(node, 0) - zones.get(other, 0)) * _MINUTE_MS
        shift = mine[node] - (middle - zone) - theirs[other]
        for one, value in theirs.items():
            mine[one] = value + shift
            groups[one] = mine
    unique = {id(group): group for group in groups.values()}
    return list(unique.values()), counts, spread
