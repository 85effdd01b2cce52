"""Which of the ISR changes that leaders asked for got an answer, and when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow.compute as pc

from forensics.incidents.case import Case

__all__ = ["MOST", "Asked", "asked"]

_MICROS = 1_000_000
# Wishes that are looked at; more of them are told as storms.
MOST = 100_000
# Lines of one moment are not always written in its order.
_SLACK = _MICROS


@dataclass(slots=True)
class Asked:
    """One wish for another ISR; times are corrected."""

    at: int
    broker: int
    node: str | None
    topic: str
    partition: int
    file: str
    line: int
    # when the ISR changed, or the wish was refused
    answered: int | None = None

    @property
    def name(self) -> str:
        """Name the partition as Kafka's tools do."""
        return f"{self.topic}-{self.partition}"


def asked(case: Case) -> list[Asked]:
    """Read the first wishes, as they stand in the table, and find the answer to each."""
    columns = ["ts", "node", "topic", "partition", "broker", "file", "line"]
    where = (pc.field("kind") == "isr_proposed") & pc.field("ts").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    found: dict[tuple[str, int], list[Asked]] = {}
    where &= pc.field("broker").is_valid()
    for row in islice(case.each("events", where, columns), MOST):
        one = Asked(row["at"], row["broker"], row["node"], row["topic"], row["partition"],
                    row["file"], row["line"])  # fmt: skip
        found.setdefault((one.topic, one.partition), []).append(one)
    for mine in found.values():
        mine.sort(key=lambda one: one.at)
    moments = {key: [one.at for one in mine] for key, mine in found.items()}
    for key, moment in _answers(case, found) if found else ():
        # It answers the last wish before it, and all before that were repeated in vain.
        mine, at = found[key], bisect_right(moments[key], moment + _SLACK) - 1
        while at >= 0 and ((known := mine[at].answered) is None or known > moment):
            mine[at].answered = moment
            at -= 1
    return sorted(
        (one for mine in found.values() for one in mine), key=lambda one: (one.at, one.name)
    )


def _answers(
    case: Case, keys: dict[tuple[str, int], list[Asked]]
) -> Iterator[tuple[tuple[str, int], int]]:
    """Give when the state of one of these partitions changed, or a wish was refused."""
    topics = sorted({topic for topic, _ in keys})
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    for row in case.each("isr", where, ["topic", "partition", "started_at"]):
        key = row["topic"], row["partition"]
        if key in keys and row["started_at"] is not None:
            yield key, row["started_at"]
    refused = where & (pc.field("kind") == "isr_rejected") & pc.field("ts").is_valid()
    for row in case.each("events", refused, ["topic", "partition", "ts", "node"]):
        key = row["topic"], row["partition"]
        if key in keys:
            yield key, row["at"]
