"""The history of single partitions and brokers: as text, as JSON, as a page with pictures."""

from __future__ import annotations

from forensics.report.histories import broker, partition
from forensics.report.histories.model import Story
from forensics.report.histories.selection import Wanted, check, choose, shown
from forensics.run_output.reader import Saved


def tell(saved: Saved, wanted: Wanted) -> list[Story]:
    """Tell the histories that were asked for: partitions first, then brokers."""
    check(wanted)
    when = shown(saved, wanted)
    pairs, numbers = choose(saved, wanted)
    told = [partition.tell(saved, topic, number, when) for topic, number in pairs]
    return told + [broker.tell(saved, number, when) for number in numbers]
