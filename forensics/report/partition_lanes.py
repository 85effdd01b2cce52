"""Lanes of the partitions that were unavailable: who led them, and when nobody served them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.dataset as ds

from forensics.lib import intervals
from forensics.report.lane_intervals import LaneInterval
from forensics.report.partition_groups import GroupedHistories, PartitionGroup
from forensics.run_output.reader import RunOutput

# So many rows fit on the first screen below the brokers.
MAX_LANES, MAX_BARS = 5, 200
Span = tuple[int, int]


def read_partition_lanes(
    run: RunOutput, groups: GroupedHistories | None, view: Span
) -> list[LaneInterval]:
    """Return the lanes of the worst groups with an unplanned outage in the view."""
    if groups is None:
        return []
    outages = _read_outages(run, view)
    hit = [row for row in groups.rows if any(name in outages for name in row.members)]
    lanes: list[LaneInterval] = []
    for row in hit[:MAX_LANES]:
        lanes += _leaders(row, view)
        dark = {span for name in row.members for span in outages.get(name, ())}
        # Where there was no leader at all, that says enough.
        leaderless = [(one.start, one.end) for one in row.leader_epochs if one.leader == -1]
        lanes += [
            LaneInterval(row.label, None, "not served", *piece)
            for span in sorted(dark)[:MAX_BARS]
            for piece in intervals.gaps(intervals.clip(leaderless, span), span)
        ]
    return lanes


def _read_outages(run: RunOutput, view: Span) -> dict[str, list[Span]]:
    columns = ("topic", "partition", "started_at", "ended_at")
    found: dict[str, list[Span]] = {}
    for row in run.rows("outages", columns, ~ds.field("planned")):
        start, end = row["started_at"], row["ended_at"]
        end = run.logs_end if end is None else end
        # One that began at an unknown time is painted nowhere.
        if start is not None and end is not None and start < view[1] and end > view[0]:
            found.setdefault(f"{row['topic']}-{row['partition']}", []).append((start, end))
    return found


def _leaders(row: PartitionGroup, view: Span) -> Sequence[LaneInterval]:
    lanes: list[LaneInterval] = []
    for epoch in row.leader_epochs[:MAX_BARS]:
        state = "unclean leader" if epoch.unclean else "leader"
        if epoch.leader is None:
            state = "unknown"
        elif epoch.leader == -1:
            state = "no leader"
        leader = epoch.leader if epoch.leader is not None and epoch.leader >= 0 else None
        if not (epoch.start < view[1] and epoch.end > view[0]):
            continue
        last = lanes[-1] if lanes else None
        if last and (last.broker, last.state, last.end) == (leader, state, epoch.start):
            # The same leader under another epoch: nothing changed for clients.
            lanes[-1] = replace(last, end=epoch.end)
        else:
            lanes.append(LaneInterval(row.label, leader, state, epoch.start, epoch.end))
    if lanes:
        known = [(lane.start, lane.end) for lane in lanes]
        unknown = (
            intervals.gaps(known, (lanes[0].start, view[1])) if lanes[0].start < view[1] else []
        )
        lanes += [LaneInterval(row.label, None, "unknown", *gap) for gap in unknown]
    return lanes
