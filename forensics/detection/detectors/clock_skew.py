"""Nodes whose clock or time zone is off; their times are corrected in everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext
from forensics.detection.kafka_cli import quote
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import MINUTE, to_arrow_timestamp, to_iso
from forensics.run_output.findings import Finding

NAME = "clock-skew"
# If the time zone is wrong, smaller offsets are not mentioned.
_MENTIONED_MS = 100
_SHOWN = 4
# Changes that several nodes log, the most exact first.
_SHARED_KINDS = ("partition_state", "broker_registered", "group_joined", "controller_elected")


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each node that is off by more than its own uncertainty."""
    zones = {row["zone_shift_minutes"] for row in context.history.clocks.rows if row["anchors"]}
    for row in context.history.clocks.rows:
        offset, uncertainty = row["offset_ms"] or 0, row["uncertainty_ms"] or 0
        threshold = max(context.limits[NAME]["least"] * 1000, uncertainty)
        odd_zone = row["zone_shift_minutes"] != 0 and len(zones) > 1
        if row["anchors"] and (abs(offset) > threshold or odd_zone):
            yield from _finding(context, row)
        elif row["anchors"] and uncertainty >= context.limits[NAME]["medium"] * 1000:
            yield from _unknown_finding(context, row)


def _unknown_finding(context: DetectionContext, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Build the finding on a clock that no offset, drift or few steps explain."""
    node, uncertainty, limits = row["node"], row["uncertainty_ms"], context.limits[NAME]
    lines = _find_examples(context, row)
    if not lines:
        return
    broker = broker_id(node)
    yield context.finding(
        NAME,
        limits["large"],
        f"The clock of {node} cannot be told: its times may be wrong by {_seconds(uncertainty)}",
        lines[0]["at"],
        lines[-1]["at"],
        lines,
        confidence=("confirmed", f"{row['anchors']} changes that other nodes log too disagree"),
        brokers=[] if broker is None else [broker],
        measures={
            "offset_ms": row["offset_ms"], "kind": "unknown", "node": node,
            "zone_shift_minutes": row["zone_shift_minutes"], "uncertainty_ms": uncertainty,
        },
        explanation=f"The same changes, numbered by Kafka, stand in the log of {node} now earlier"
        " and now later than in the logs of other nodes, and nothing steady explains by how much:"
        f" its clock was set several times, or is not kept at all. What is dated by {node} alone"
        " (when it stopped, started, lost or took partitions) may be wrong by as much, and so may"
        " be how long it lasted; what other nodes log about it has their times.",
        actions=[
            f"chronyc tracking   # on the host of {quote(node)}: is its clock kept right?",
            _WHEN_SET.format(quote(node)),
            _SLEW,
        ],
        why=f"known to {uncertainty} ms only; from {limits['medium']} s on times mislead",
        doubts=[
            "Log lines that were written late, by a busy host, push a clock's offset by as much."
        ],
    )  # fmt: skip


def _finding(context: DetectionContext, row: Mapping[str, Any]) -> Iterator[Finding]:
    node, offset, zone = row["node"], row["offset_ms"] or 0, row["zone_shift_minutes"]
    lines = _find_examples(context, row)
    if not lines:
        return
    is_far = abs(offset) >= context.limits[NAME]["medium"] * 1000
    kind = "step" if row.get("kind") == "step" else "zone" if zone and not is_far else "drift"
    broker = broker_id(node)
    limits = context.limits[NAME]
    yield context.finding(
        NAME,
        limits["large" if is_far else "small"],
        _title(row),
        lines[0]["at"],
        lines[-1]["at"],
        lines,
        confidence=_rate_confidence(row, is_far=is_far),
        brokers=[] if broker is None else [broker],
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
        f" times than in the logs of other nodes{_describe_difference(row, kind)}."
        " All times here are corrected for it.",
        actions=[
            *_set_right(node, offset, kind),
            f"chronyc tracking   # on the host of {quote(node)}: is its clock kept right?"
            if kind != "zone"
            else f"timedatectl   # on the host of {quote(node)}: which time zone do its logs use?",
            *([_SLEW] if kind != "drift" else []),
        ],
        why=_why(limits, row, kind),
        doubts=[
            "Log lines that were written late, by a busy host, push a clock's offset by as much."
        ],
    )


_WHEN_SET = (
    "journalctl -u chronyd -u ntpd -u systemd-timesyncd   # on the host of {}: when was it set?"
)
_SLEW = "Let the clock be slewed, not set: time that jumps ends sessions and rolls segments."


def _set_right(node: str, offset: int, kind: str) -> list[str]:
    if kind != "drift":
        return []
    way = "ahead" if offset > 0 else "behind"
    return [f"Set the clock of {quote(node)} right: it is {_seconds(offset)} {way}. {_SLEW}"]


def _rate_confidence(row: Mapping[str, Any], *, is_far: bool) -> tuple[str, str]:
    """Return the confidence: no single line states an offset, but many anchors confirm it."""
    uncertainty, anchors = row["uncertainty_ms"] or 0, row["anchors"]
    reason = f"{anchors} changes that other nodes log too, known to {uncertainty} ms"
    return ("confirmed" if is_far and anchors > 1 else "likely"), reason


def _why(limits: Mapping[str, Any], row: Mapping[str, Any], kind: str) -> str:
    if kind == "zone":
        return "other nodes log in another time zone"
    return (
        f"{row['offset_ms'] or 0} ms off; from {limits['least']} s on it is reported, from"
        f" {limits['medium']} s on it misleads"
    )


def _find_examples(context: DetectionContext, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Find lines about changes that other nodes log too; after a step, some on either side."""
    live = (pc.field("node") == row["node"]) & pc.field("telling").is_null()
    model = context.history.clocks.models.get(row["node"])
    for kind in _SHARED_KINDS:
        lines = context.first_events(kind, _SHOWN, live)
        if lines and model and model.steps:
            zone = row["zone_shift_minutes"] * MINUTE
            is_after = pc.field("ts") > to_arrow_timestamp(model.steps[-1].high + zone)
            after = context.first_events(kind, _SHOWN // 2, live & is_after)
            lines = lines[: _SHOWN - len(after)] + [line for line in after if line not in lines]
        if lines:
            return lines
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


def _describe_difference(row: Mapping[str, Any], kind: str) -> str:
    """Describe how the clocks differ: always, more and more, or from some moment on."""
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
