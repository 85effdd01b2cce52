"""Timelines of single partitions and brokers: as text, as JSON, as a page with figures."""

from __future__ import annotations

from forensics.report.histories import broker, partition
from forensics.report.histories.selection import (
    Selection,
    check_selection,
    find_selected,
    find_shown_time,
)
from forensics.report.histories.timeline import Timeline
from forensics.run_output.reader import RunOutput


def build_timelines(run: RunOutput, wanted: Selection) -> list[Timeline]:
    """Build the timelines that were asked for: partitions first, then brokers."""
    check_selection(wanted)
    shown = find_shown_time(run, wanted)
    partitions, brokers = find_selected(run, wanted)
    timelines = [partition.build_timeline(run, *pair, shown) for pair in partitions]
    return timelines + [broker.build_timeline(run, number, shown) for number in brokers]
