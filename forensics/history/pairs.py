"""Reduces all that ties two nodes' clocks, however much, to one row of bounded size."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.crowds import both_ways, offset_of, thinned

__all__ = ["PAIRS", "pair_settler", "settle_pair"]

# One row: how far apart two clocks are by all their anchors, how closely these agree, and which
# of them are kept to be looked at again.
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
# Of all pairs together that many are held at once; of each, some must be left.
_HELD, _FEWEST = 300_000, 24
_MANY = 20_000
_SECOND = 1_000_000


def pair_settler(nodes: int) -> Callable[[pa.Table], pa.Table]:
    """Make the `settle_pair` for so many nodes: of a hundred there are five thousand pairs."""
    kept = min(_KEPT_PER_PAIR, max(_FEWEST, _HELD // max(1, nodes * nodes)))

    def settle(deltas: pa.Table) -> pa.Table:
        return settle_pair(deltas, kept)

    return settle


def settle_pair(deltas: pa.Table, kept: int = _KEPT_PER_PAIR) -> pa.Table:
    """Reduce the anchors of one pair of nodes to one row of PAIRS."""
    row = {"node": deltas["node"][0].as_py(), "other": deltas["other"][0].as_py()}
    if deltas.num_rows > _MANY:
        deltas = _first_of_each_second(deltas)
    pairs = list(zip(deltas["at"].to_pylist(), deltas["delta"].to_pylist(), strict=True))
    # What one node writes in a moment may take the other, if it hangs, many seconds, and either may
    # be the one that hangs: bursts are taken by both clocks.
    mine, other = both_ways(pairs)
    middle, width = offset_of([delta for _, delta in thinned(mine + other, 4 * _KEPT_PER_PAIR)])
    points = sorted({*thinned(mine, kept), *thinned(other, kept)})
    row |= {"count": min(len(mine), len(other)), "delta": middle, "spread": width}
    row["points"] = [{"at": at, "delta": delta} for at, delta in points]
    return pa.Table.from_pylist([row], schema=PAIRS)


def _first_of_each_second(deltas: pa.Table) -> pa.Table:
    """Thin out very many anchors, second by second of both clocks, without a loop."""
    theirs = pc.add(deltas["at"], pc.cast(pc.multiply(deltas["delta"], 1000.0), pa.int64(), False))
    parts = []
    for clock in (deltas["at"], theirs):
        table = deltas.select(["at", "delta"]).append_column("second", pc.divide(clock, _SECOND))
        table = table.append_column("clock", clock).sort_by([("clock", "ascending")])
        first = table.group_by("second", use_threads=False).aggregate(
            [("at", "first"), ("delta", "first")]
        )
        parts.append(first.select(["at_first", "delta_first"]).rename_columns(["at", "delta"]))
    return pa.concat_tables(parts)
