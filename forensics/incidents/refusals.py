"""Leaders whose changes of the ISR are refused again and again, with the same version."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from forensics.incidents.bursts import Burst, bursts
from forensics.incidents.case import Case

__all__ = ["looping", "loops"]

_LIMITS = "metadata-version-loop"


def loops(case: Case) -> Mapping[int, list[Burst]]:
    """Give, for each broker, the loops of its partitions (topic, partition, broker)."""
    limits = case.limits[_LIMITS]
    where = (pc.field("kind") == "isr_rejected") & pc.field("broker").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    found: dict[int, list[Burst]] = {}
    subject = ["topic", "partition", "broker"]
    for one in bursts(case, where, subject, limits["gap"], ["partition_epoch"], limits["repeats"]):
        # A leader that is refused once, learns of it and asks with the new version is well.
        same = max(one.seen["partition_epoch"].values(), default=0)
        if one.seconds > limits["lasting"] and same >= limits["repeats"]:
            found.setdefault(one.subject[2], []).append(one)
    return found


def looping(case: Case) -> frozenset[tuple[int, str]]:
    """Name the brokers and partitions whose words on the ISR are void."""
    return frozenset(
        (broker, f"{topic}-{partition}")
        for broker, mine in loops(case).items()
        for topic, partition, _ in (one.subject for one in mine)
    )
