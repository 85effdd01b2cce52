"""Solves the nodes' clocks from states that several nodes saw, and tells zones from drift."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = [
    "ANCHORS",
    "PAIRS",
    "Clocks",
    "anchors",
    "bursts",
    "offset_of",
    "settle_pair",
    "solve",
    "zone_shifts",
]

# One row: two nodes saw the same state, the first `delta` milliseconds after the second.
ANCHORS = pa.schema(
    [
        ("node", pa.string()),
        ("other", pa.string()),
        ("delta", pa.float64()),
        ("at", pa.int64()),
    ]
)
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
_BURST = 1_000_000
# How far apart healthy nodes hear of a change.
_NEAR_MS = 100.0
# How much longer one tail must be than the other to be called a tail.
_SKEWED = 2.0
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


def anchors(sightings: Iterable[tuple[object, str, int]]) -> list[tuple[str, str, float, int]]:
    """Pair up who saw the same state when: (state, node, micros) to rows of ANCHORS."""
    first: dict[object, dict[str, int]] = defaultdict(dict)
    for state, node, micros in sightings:
        seen = first[state]
        seen[node] = min(micros, seen.get(node, micros))
    return [
        (node, other, (seen[node] - seen[other]) / 1000, seen[other])
        for seen in first.values()
        for node in sorted(seen)
        for other in sorted(seen)
        if node < other
    ]


def offset_of(deltas: Sequence[float]) -> tuple[float, float]:
    """Read the offset of two clocks off how far apart they saw the same states, and its doubt.

    Nodes that are well see a change within a tenth of a second of each other, so the truth lies
    where the deltas crowd. A node that hangs sees things late, never early: of several crowds the
    one away from the long tail is believed.

    >>> offset_of([5000.0, 5010.0, 5200.0, 5300.0, 9000.0, 14000.0, 30000.0, 31000.0])[0]
    5000.0
    >>> offset_of([-2.0, -1.0, 0.0, 1.0, 2.0])[0]
    0.0
    """
    ordered = sorted(deltas)
    crowd = [sum(abs(other - one) <= _NEAR_MS for other in ordered) for one in ordered]
    dense = [one for one, count in zip(ordered, crowd, strict=True) if 2 * count > max(crowd)]
    low, middle, high = (ordered[int(len(ordered) * share)] for share in (0.1, 0.5, 0.9))
    below, above = middle - low, high - middle
    if above > _SKEWED * below:
        chosen = dense[0]
    elif below > _SKEWED * above:
        chosen = dense[-1]
    else:
        chosen = min(dense, key=lambda one: (-crowd[ordered.index(one)], abs(one - middle)))
    return chosen, abs(middle - chosen) + _NEAR_MS


def bursts(deltas: Iterable[tuple[int, float]]) -> list[float]:
    """Keep the first of the anchors that came within a second: they are one, seen many times."""
    kept: list[float] = []
    begun = None
    for at, delta in sorted(deltas):
        if begun is None or at - begun > _BURST:
            begun = at
            kept.append(delta)
    return kept


def settle_pair(deltas: pa.Table) -> pa.Table:
    """Reduce the anchors of one pair of nodes to one row of PAIRS."""
    pairs = list(zip(deltas["at"].to_pylist(), deltas["delta"].to_pylist(), strict=True))
    theirs = [(at + int(delta * 1000), delta) for at, delta in pairs]
    # What one node writes in a moment may take the other, if it hangs, many seconds, and either may
    # be the one that hangs: bursts are taken by both clocks.
    mine, other = bursts(pairs), bursts(theirs)
    middle, width = offset_of(mine + other)
    row = {"node": deltas["node"][0].as_py(), "other": deltas["other"][0].as_py()}
    row |= {"count": min(len(mine), len(other)), "delta": middle, "spread": width}
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
            "offset_ms": round(offsets[node]) if node in offsets else None,
            "uncertainty_ms": round(spread[node]) if node in spread else None,
            "anchors": counts.get(node, 0),
            "zone_shift_minutes": zones.get(node, 0),
            "reference": node in offsets and offsets[node] == 0.0,
        }
        for node in sorted(nodes)
    ]
    # An offset within its own doubt is no offset: correcting by it would only add noise.
    sure = {node: value for node, value in offsets.items() if abs(value) > spread.get(node, 0.0)}
    return Clocks(sure, zones, tuple(rows))


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
