"""What an incident took from clients: partitions that were unavailable, clients, records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.lib.intervals import IntervalSet, merge
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding, total_loss

_COLUMNS = ("topic", "partition", "started_at", "ended_at", "planned")
# States of a client by its own log in which it does not get on.
_HIT = ("stale", "disconnected")


def measure_impact(context: DetectionContext, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return `impact` of findings.json; planned outages count on their own only."""
    hit: set[tuple[str, int]] = set()
    seconds = {True: 0, False: 0}
    longest = 0
    spans: list[tuple[int, int]] = []
    for row in context.each("outages", None, _COLUMNS):
        end = row["ended_at"] if row["ended_at"] is not None else context.logs_end
        length = max(0, end - row["started_at"])
        seconds[row["planned"]] += length
        if not row["planned"]:
            hit.add((row["topic"], row["partition"]))
            longest = max(longest, length)
            spans.append((row["started_at"], end))
            if len(spans) > _MAX_SPANS:
                spans = merge(spans)
    least, most = total_loss([loss for finding in findings for loss in finding.losses])
    return {
        "partitions_unavailable": len(hit),
        "partitions": _count_partitions(context),
        "partition_seconds": round(seconds[False] / SECOND, 1),
        "longest_s": round(longest / SECOND, 1),
        "planned_partition_seconds": round(seconds[True] / SECOND, 1),
        "clients_affected": len(_clients_hit(context, spans)),
        "records_lost_min": least,
        "records_lost_max": most,
    }


_MAX_SPANS = 10_000


def _count_partitions(context: DetectionContext) -> int:
    """Count the partitions in the order of the table, where those of one follow each other."""
    count, last = 0, None
    for batch in context.batches(
        "leadership", pc.field("topic").is_valid(), ("topic", "partition")
    ):
        keys = zip(batch["topic"].to_pylist(), batch["partition"].to_pylist(), strict=True)
        for key in keys:
            count, last = count + (key != last), key
    return count


def _clients_hit(context: DetectionContext, spans: Iterable[tuple[int, int]]) -> set[str]:
    """Return the clients that logged errors while partitions were unavailable."""
    outages = IntervalSet(spans).intervals
    where = (pc.field("role") == "client") & pc.field("state").isin(list(_HIT))
    columns = ("node", "started_at", "ended_at")
    return {
        row["node"]
        for row in context.each("lanes", where & pc.field("started_at").is_valid(), columns)
        if any(
            begin <= (row["ended_at"] or context.logs_end) and row["started_at"] <= end
            for begin, end in outages
        )
    }
