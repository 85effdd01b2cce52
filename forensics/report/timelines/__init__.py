"""The history of single partitions and brokers: as text, as JSON, as a page with pictures."""

from __future__ import annotations

from forensics.report.saved import Saved
from forensics.report.timelines import brokers, partitions
from forensics.report.timelines.choosing import Wanted, check, choose, shown
from forensics.report.timelines.steps import Story

__all__ = ["Wanted", "check", "tell"]


def tell(saved: Saved, wanted: Wanted) -> list[Story]:
    """Tell the histories that were asked for: partitions first, then brokers."""
    check(wanted)
    when = shown(saved, wanted)
    pairs, numbers = choose(saved, wanted)
    told = [partitions.tell(saved, topic, number, when) for topic, number in pairs]
    return told + [brokers.tell(saved, number, when) for number in numbers]
