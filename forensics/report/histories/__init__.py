"""The history of single partitions and brokers: as text, as JSON, as a page with pictures."""

from __future__ import annotations

from forensics.report.histories import broker, partition
from forensics.report.histories.model import Timeline
from forensics.report.histories.selection import (
    Selection,
    check_selection,
    find_selected,
    find_shown_time,
)
from forensics.run_output.reader import RunOutput


def build_timelines(run: RunOutput, wanted: Selection) -> list[Timeline]:
    """Tell the histories that were asked for: partitions first, then brokers."""
    check_selection(wanted)
    when = find_shown_time(run, wanted)
    pairs, numbers = find_selected(run, wanted)
    told = [partition.build_timeline(run, topic, number, when) for topic, number in pairs]
    return told + [broker.build_timeline(run, number, when) for number in numbers]
