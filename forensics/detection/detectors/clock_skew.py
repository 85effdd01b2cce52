"""Nodes whose clock or time zone is off; their times are corrected in everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.lib.time_units import MINUTE
from forensics.run_output.findings import Finding, iso_time

NAME = "clock-skew"
# Beside a wrong time zone, a clock that is right to a tenth of a second is right.
_MENTIONED_MS = 100
_SHOWN = 4
# What several nodes tell of, the most telling first.
_TOLD = ("partition_state", "broker_registered", "group_joined", "controller_elected")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each node that is off by more than its own uncertainty."""
    zones = {row["zone_shift_minutes"] for row in context.history.clocks.rows if row["anchors"]}
    for row in context.history.clocks.rows:
        offset, doubt = row["offset_ms"] or 0, row["uncertainty_ms"] or 0
        least = max(context.limits[NAME]["least"] * 1000, doubt)
        odd_zone = row["zone_shift_minutes"] != 0 and len(zones) > 1
        if row["anchors"] and (abs(offset) > least or odd_zone):
            yield from _finding(context, row)


def _finding(context: DetectionContext, row: Mapping[str, Any]) -> Iterator[Finding]:
    node, offset, zone = row["node"], row["offset_ms"] or 0, row["zone_shift_minutes"]
    seen = _examples(context, row)
    if not seen:
        return
    off = abs(offset) >= context.limits[NAME]["medium"] * 1000
    kind = "step" if row.get("kind") == "step" else "zone" if zone and not off else "drift"
    digits = node.rpartition("-")[2]
    limits = context.limits[NAME]
    confidence, reason = _sure(row, off=off)
    yield Finding(
        detector=NAME,
        severity=limits["large" if off else "small"],
        confidence=confidence,
        title=_title(row),
        begin=seen[0]["at"],
        end=seen[-1]["at"],
        evidence=seen,
        brokers=[int(digits)] if node.startswith("broker-") and digits.isdigit() else [],
        measures={
            "offset_ms": offset,
            "kind": kind,
            "zone_shift_minutes": zone,
            "uncertainty_ms": row["uncertainty_ms"],
            "drift_ppm": row.get("drift_ppm"),
            "steps": [
                {"at": to_iso(step["at"]), "ms": step["ms"]} for step in row.get("steps") or ()
            ],
            "node": node,
        },
        explanation=f"The same changes, numbered by Kafka, stand in the log of {node} at other"
        f" times than in the logs of other nodes{_sentence(row, kind)}."
        " All times here are corrected for it.",
        actions=[
            f"chronyc tracking   # on the host of {quote(node)}: is its clock kept right?"
            if kind != "zone"
            else f"timedatectl   # on the host of {quote(node)}: which time zone do its logs use?",
            "Let the clock be slewed, not set: time that jumps ends sessions and rolls segments.",
        ],
        why=_why(limits, row, kind),
        reason=reason,
        doubts=[
            "Log lines that were written late, by a busy host, push a clock's offset by as much."
        ],
    )


def _sure(row: Mapping[str, Any], *, off: bool) -> tuple[str, str]:
    """Many anchors and little doubt make it sure; the clock is not what a single line states."""
    doubt, anchors = row["uncertainty_ms"] or 0, row["anchors"]
    told = f"{anchors} changes that other nodes log too, known to {doubt} ms"
    return ("confirmed" if off and anchors > 1 else "likely"), told


def _why(limits: Mapping[str, Any], row: Mapping[str, Any], kind: str) -> str:
    if kind == "zone":
        return "other nodes log in another time zone"
    return (
        f"{row['offset_ms'] or 0} ms off; from {limits['least']} s on it is told, from"
        f" {limits['medium']} s on it misleads"
    )


def _examples(context: DetectionContext, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Find lines that other nodes tell too, for a step some on either side of it."""
    mine = pc.field("node") == row["node"]
    news = mine & pc.field("telling").is_null()
    for kind in _TOLD:
        seen = context.first_events(kind, _SHOWN, news)
        course = context.history.clocks.models.get(row["node"])
        if seen and course and course.steps:
            zone = row["zone_shift_minutes"] * MINUTE
            turn = pa.scalar(course.steps[-1].high + zone, pa.timestamp("us", "UTC"))
            after = context.first_events(kind, _SHOWN // 2, news & (pc.field("ts") > turn))
            seen = seen[: _SHOWN - len(after)] + [one for one in after if one not in seen]
        if seen:
            return seen
    return []


def _title(row: Mapping[str, Any]) -> str:
    offset, zone = row["offset_ms"] or 0, row["zone_shift_minutes"]
    steps = row.get("steps") or ()
    parts = []
    if steps:
        parts += [
            f"set {'forward' if step['ms'] > 0 else 'back'} by {_seconds(step['ms'])} at"
            f" {to_iso(step['at'])[11:19]}"
            for step in steps
        ]
    elif not zone or abs(offset) >= _MENTIONED_MS:
        far = f"{_seconds(offset)} {'ahead' if offset > 0 else 'behind'}"
        rate = row.get("drift_ppm") or 0
        parts.append(f"{far}, running {_rate(rate)}" if rate else far)
    if zone:
        parts.append(f"logs in another time zone ({zone / 60:+g} h)")
    return f"The clock of {row['node']}: {', '.join(parts)}"


def _sentence(row: Mapping[str, Any], kind: str) -> str:
    """Say how they are apart: all along, more and more, or from some moment on."""
    if kind == "step":
        return ", and from one line to the next by another amount: the clock was set anew"
    if kind == "zone":
        return ", by whole quarters of an hour: the time zone of its log is another one"
    rate = row.get("drift_ppm") or 0
    if rate:
        return f", and more so from hour to hour: the clock runs {_rate(rate)}"
    return ", always by the same"


def _seconds(ms: float) -> str:
    return f"{abs(ms) / 1000:.1f} s"


def _rate(ppm: float) -> str:
    return f"{abs(ppm) * 3.6:.0f} ms an hour too {'fast' if ppm > 0 else 'slow'}"
