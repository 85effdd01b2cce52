"""The lag after which leaders drop followers, as brokers logged it at their start."""

from __future__ import annotations

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, once_per_run


@once_per_run
def lag_time_text(context: DetectionContext) -> str:
    """Return a sentence with the value of replica.lag.time.max.ms in force; empty if unknown."""
    where = (pc.field("kind") == "setting_seen") & (
        pc.field("setting") == "replica.lag.time.max.ms"
    )
    rows = context.each("events", where, ["value"])
    values = sorted({row["value"] for row in rows if row["value"]}, key=lambda one: (len(one), one))
    return f" replica.lag.time.max.ms is {' or '.join(values)} here." if values else ""
