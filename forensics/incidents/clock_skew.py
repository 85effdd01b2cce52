"""Nodes whose clock or time zone is off; their times are corrected in everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from forensics.incidents.case import Case
from forensics.incidents.finding import Finding

__all__ = ["find"]

NAME = "clock-skew"
# Beside a wrong time zone, a clock that is right to a tenth of a second is right.
_MENTIONED_MS = 100


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each node that is off by more than its own uncertainty."""
    zones = {row["zone_shift_minutes"] for row in case.past.clocks.rows if row["anchors"]}
    for row in case.past.clocks.rows:
        offset, doubt = row["offset_ms"] or 0, row["uncertainty_ms"] or 0
        least = max(case.limits[NAME]["least"] * 1000, doubt)
        odd_zone = row["zone_shift_minutes"] != 0 and len(zones) > 1
        if row["anchors"] and (abs(offset) > least or odd_zone):
            yield from _finding(case, row)


def _finding(case: Case, row: Mapping[str, Any]) -> Iterator[Finding]:
    node, offset = row["node"], row["offset_ms"]
    seen = [one for one in _examples(case, node) if one["telling"] is None][:4]
    if not seen:
        return
    zone = row["zone_shift_minutes"] != 0
    drift = abs(offset) >= case.limits[NAME]["medium"] * 1000
    digits = node.rpartition("-")[2]
    yield Finding(
        detector=NAME,
        severity="medium" if drift else "low",
        confidence="confirmed" if drift else "likely",
        title=_title(node, offset, row["zone_shift_minutes"]),
        begin=seen[0]["at"],
        end=seen[-1]["at"],
        evidence=seen,
        brokers=[int(digits)] if node.startswith("broker-") and digits.isdigit() else [],
        measures={
            "offset_ms": offset,
            "kind": "zone" if zone and not drift else "drift",
            "zone_shift_minutes": row["zone_shift_minutes"],
            "uncertainty_ms": row["uncertainty_ms"],
            "node": node,
        },
        explanation=f"The same changes of partitions, numbered by Kafka, stand in the log of {node}"
        " at other times than in the logs of other nodes. All times here are corrected for it.",
        actions=[f"Check the time service on the host of {node}: chronyc tracking"],
    )


def _examples(case: Case, node: str) -> list[dict[str, Any]]:
    return case.events("partition_state", where=pc.field("node") == node)


def _title(node: str, offset: int, zone: int) -> str:
    parts = []
    if not zone or abs(offset) >= _MENTIONED_MS:
        parts.append(f"{abs(offset) / 1000:.1f} s {'ahead' if offset > 0 else 'behind'}")
    if zone:
        parts.append(f"logs in another time zone ({zone / 60:+g} h)")
    return f"The clock of {node}: {', '.join(parts)}"
