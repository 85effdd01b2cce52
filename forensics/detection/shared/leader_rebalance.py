"""Whether and how often the controller itself gives leadership back to the first replicas."""

from __future__ import annotations

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, once_per_run
from forensics.lib.whole_numbers import whole_number

_ENABLED, _INTERVAL = "auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds"


@once_per_run
def rebalance_settings(context: DetectionContext) -> dict[str, list[Row]]:
    """Read the lines of brokers and controllers that name these settings."""
    found: dict[str, list[Row]] = {_ENABLED: [], _INTERVAL: []}
    where = (pc.field("kind") == "setting_seen") & pc.field("setting").isin(list(found))
    columns = [*EVIDENCE_COLUMNS, "setting", "value"]
    for row in context.each("events", where & pc.field("ts").is_valid(), columns):
        found[row["setting"]].append(row)
    return found


def switched_off(context: DetectionContext) -> list[Row]:
    """Return the lines that show it switched off."""
    return [row for row in rebalance_settings(context)[_ENABLED] if row["value"] == "false"]


def rebalances_itself(context: DetectionContext) -> bool | None:
    """Return whether the controller does it; None if no line tells."""
    values = {row["value"] for row in rebalance_settings(context)[_ENABLED]}
    return None if not values else "false" not in values


def rebalance_interval(context: DetectionContext) -> int:
    """Return how often it looks, in seconds: as logged, or Kafka's default."""
    values = (whole_number(row["value"]) for row in rebalance_settings(context)[_INTERVAL])
    return max((value for value in values if value is not None), default=300)
