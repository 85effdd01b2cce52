"""Controlled shutdowns that failed: a broker stopped before its leaderships were handed over."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, partition_name
from forensics.lib.arrow_io import is_any_of
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "failed-shutdown"
_FAILED, _DELAYED = "controlled_shutdown_failed", "controlled_shutdown_delayed"
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each, where some other broker could have taken over."""
    if not context.visibility.has_kinds(_FAILED):
        return
    for row in context.events(_FAILED):
        broker = broker_id(row["node"]) if row["broker"] is None else row["broker"]
        if broker is not None and _others_up(context, broker, row["at"]):
            yield _finding(context, broker, row)


def _others_up(context: DetectionContext, broker: int, moment: int) -> bool:
    """Return False if every other broker was away, as when the whole cluster is shut down."""
    away = {
        absence.broker
        for absence in context.absences
        if absence.begin <= moment and (absence.end is None or moment <= absence.end)
    }
    return bool(set(context.history.lanes.brokers) - away - {broker})


def _finding(context: DetectionContext, broker: int, row: Row) -> Finding:
    limits = context.limits[NAME]
    begin = row["at"] - limits["tries"] * SECOND
    where = is_any_of("node", [row["node"]]) if row["node"] else pc.scalar(True)
    tries = [
        one for one in context.events(_DELAYED, where=where) if begin <= one["at"] <= row["at"]
    ]
    left = sorted({partition_name(one) for one in tries if one["partition"] is not None})
    errors = sorted({one["error"] for one in tries if one["error"] not in (None, "NONE")})
    outages = [
        one for one in context.each("outages", pc.field("leader") == broker)
        if abs(one["started_at"] - row["at"]) <= limits["near"] * SECOND
    ]  # fmt: skip
    count = quantity(len(left), "partition")
    return context.finding(
        NAME,
        limits["harmful" if outages else "severity"],
        f"Broker {broker} stopped though its controlled shutdown had failed"
        + (f", still leading {count}" if left else ""),
        min([row["at"], *(one["at"] for one in tries)]),
        row["at"],
        [row, *tries[:_SHOWN]],
        brokers=[broker],
        partitions=left,
        measures={"tries": len(tries), "errors": errors, "outages": len(outages)},
        explanation=_MECHANISM,
        actions=[
            f"{context.commands.under_replicated()}   # stop the next broker when it lists nothing",
            f"{context.commands.controller()}   # is there a controller that answers?",
            _WAIT,
        ],
        why=f"{quantity(len(tries), 'line')} of tries before it, then it went on without leave",
        doubts=["A partition with one replica, or one in sync, always keeps its broker from it."],
    )


_MECHANISM = (
    "A broker that is told to stop asks the controller to move its leaderships first. After "
    "controlled.shutdown.max.retries it stops all the same: what it still leads has no leader until"
    " the cluster notices, and it may recover its logs at the next start."
)
_WAIT = (
    "Stop a broker only while all its partitions have another replica in sync; raise "
    "controlled.shutdown.max.retries if leaders need longer to move."
)
