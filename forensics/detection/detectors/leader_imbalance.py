"""Leadership that piles up after failovers: brokers are in sync again, and lead nothing of theirs.

Told wherever it lasts for several looks of the controller, which should give leadership back.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
    partition_name,
)
from forensics.detection.shared.assignments import read_assignments
from forensics.detection.shared.leader_moves import (
    rebalance_interval,
    rebalances_itself,
    switched_off,
)
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import Finding

NAME = "leader-imbalance"
_LED = ("topic", "partition", "leader", "started_at", "ended_at", "evidence")
_STATE = ("topic", "partition", "isr", "started_at", "ended_at")
# Of the partitions led by another broker, how many show their lines, and how many are named.
_SHOWN, _MAX_NAMES = 20, 10_000
_HELD = 2_000


@dataclass(slots=True)
class _Wait:
    """A time in which another broker led a partition whose first replica was in sync."""

    partition: str
    first: int
    leader: int
    begin: int
    end: int
    line: Mapping[str, Any] | None


@dataclass
class _Imbalance:
    """What waited at the moment when most partitions did, and who led and should have led what.

    Most partitions of a wide cluster may have waited: they are counted, and a few are kept.
    """

    begin: int
    end: int
    # when the last of them had begun to wait
    moment: int
    partitions: list[str] = field(default_factory=list)
    # how many partitions each broker should lead and does not, and who leads them instead
    waiting: Counter[int] = field(default_factory=Counter)
    instead: Counter[int] = field(default_factory=Counter)
    first_waits: list[_Wait] = field(default_factory=list)
    leads: Counter[int] = field(default_factory=Counter)
    preferred: Counter[int] = field(default_factory=Counter)

    def add(self, wait: _Wait) -> None:
        """Count a wait, whose lines are kept if it is one of the first."""
        self.begin, self.end = min(self.begin, wait.begin), max(self.end, wait.end)
        self.moment = max(self.moment, wait.begin)
        self.partitions.append(wait.partition)
        self.waiting[wait.first] += 1
        self.instead[wait.leader] += 1
        if wait.line:
            self.first_waits.append(wait)
            if len(self.first_waits) > _HELD:
                self.keep_first()

    def keep_first(self) -> None:
        """Keep those that began first."""
        self.first_waits.sort(key=lambda one: (one.begin, one.partition))
        del self.first_waits[_SHOWN:]

    @property
    def even_share(self) -> float:
        """How many partitions a broker would lead if all led as many."""
        brokers = len(set(self.leads) | set(self.preferred))
        return sum(self.leads.values()) / max(1, brokers)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding if too many partitions waited for their first replica to lead again."""
    limits = context.limits[NAME]
    worst, count = _find_worst(_find_waits(context))
    if count < limits["partitions"]:
        return
    imbalance = _Imbalance(worst, worst, 0)
    for wait in _find_waits(context):
        if wait.begin <= worst < wait.end:
            imbalance.add(wait)
    imbalance.keep_first()
    imbalance.leads = _count_leaders(context, imbalance.moment)
    assigned = read_assignments(context).values()
    imbalance.preferred = preferred = Counter(replicas[0] for replicas in assigned if replicas)
    uneven = [broker for broker, count in imbalance.waiting.items()
              if count > limits["share"] * preferred[broker]]  # fmt: skip
    if uneven:
        yield _finding(context, imbalance)


def _lasting(context: DetectionContext) -> int:
    return int(context.limits[NAME]["looks"] * rebalance_interval(context))


def _find_waits(context: DetectionContext) -> Iterator[_Wait]:
    """Find how long each partition was not led by its first replica though that was in sync.

    Both tables are in the order of partitions, of which one is held at a time: there may be
    millions of leader epochs.
    """
    least = _lasting(context) * SECOND
    topics = {row["topic"] for row in _led_by_others(context, ["topic", "partition", "leader"])}
    where = in_topics(topics) & pc.field("isr").is_valid() & pc.field("started_at").is_valid()
    states = groupby(context.each("isr", where, _STATE), _partition)
    state = next(states, None)
    for key, epochs in groupby(_led_by_others(context, _LED), _partition):
        while state is not None and state[0] < key:
            state = next(states, None)
        # A line about an ISR need not name the leader: that is known from the other table.
        if state is not None and state[0] == key:
            yield from _waits_of(context, list(epochs), state[1], least)


def _partition(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _led_by_others(context: DetectionContext, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the long leader epochs of others than the first replica, which is named as `first`."""
    assignments, least = read_assignments(context), _lasting(context) * SECOND
    begun, ended = pc.field("started_at"), pc.field("ended_at")
    where = (pc.field("leader") >= 0) & begun.is_valid() & pc.field("topic").is_valid()
    where &= ended.is_null() | (ended - begun >= pa.scalar(least, pa.duration("us")))
    for row in context.each("leadership", where, columns):
        first = next(iter(assignments.get(_partition(row), ())), row["leader"])
        if row["leader"] != first:
            yield row | {"first": first}


def _waits_of(
    context: DetectionContext, epochs: Sequence[Row], states: Iterable[Row], least: int
) -> Iterator[_Wait]:
    """Find the waits of one partition, one for each leader epoch."""
    waits: dict[int, _Wait] = {}
    for row in states:
        until = context.logs_end if row["ended_at"] is None else row["ended_at"]
        for one in epochs:
            ended = context.logs_end if one["ended_at"] is None else one["ended_at"]
            begin, end = max(row["started_at"], one["started_at"]), min(until, ended)
            if one["first"] not in row["isr"] or end < begin:
                continue
            key, line = one["started_at"], next(iter(one["evidence"]), None)
            if key in waits and begin <= waits[key].end:
                waits[key].end = max(end, waits[key].end)
            elif key not in waits or waits[key].end - waits[key].begin < least:
                name = partition_name(row)
                waits[key] = _Wait(name, one["first"], one["leader"], begin, end, line)
    yield from (wait for wait in waits.values() if wait.end - wait.begin >= least)


def _find_worst(waits: Iterable[_Wait]) -> tuple[int, int]:
    """Return the first moment at which most waits went on, and how many."""
    begins, ends = array("q"), array("q")
    for wait in waits:
        begins.append(wait.begin)
        ends.append(wait.end)
    starts, stops = np.sort(np.array(begins, np.int64)), np.sort(np.array(ends, np.int64))
    if not len(starts):
        return 0, 0
    # How many have begun by the begin of each, without those that are over.
    begun = np.searchsorted(starts, starts, "right")
    going = begun - np.searchsorted(stops, starts, "right")
    worst = int(np.argmax(going))
    return int(starts[worst]), int(going[worst])


def _count_leaders(context: DetectionContext, moment: int) -> Counter[int]:
    """Count what each broker led at a moment."""
    at, ended = to_arrow_timestamp(moment), pc.field("ended_at")
    where = (pc.field("leader") >= 0) & (pc.field("started_at") <= at)
    where &= ended.is_null() | (ended > at)
    leads: Counter[int] = Counter()
    for batch in context.batches("leadership", where, ["leader"]):
        for entry in batch["leader"].value_counts().to_pylist():
            leads[entry["values"]] += entry["counts"]
    return leads


def _finding(context: DetectionContext, imbalance: _Imbalance) -> Finding:
    limits, count = context.limits[NAME], len(imbalance.partitions)
    [(busiest, leads)] = sorted(
        imbalance.leads.items(), key=lambda broker: (-broker[1], broker[0])
    )[:1]
    is_piled = leads >= limits["pile"] * imbalance.even_share
    begin, end = imbalance.begin, imbalance.end
    off, failed = switched_off(context)[:_SHOWN], _failed_elections(context, begin, end)
    cited = [wait.line for wait in imbalance.first_waits if wait.line]
    waiting, instead = imbalance.waiting, imbalance.instead
    return context.finding(
        NAME,
        limits["piled" if is_piled else "scattered"],
        _title(count, busiest, leads, imbalance, is_piled=is_piled),
        begin,
        end,
        [*off, *failed, *context.read_lines(cited)],
        brokers=sorted({*waiting, *([busiest] if is_piled else [])}),
        partitions=sorted(imbalance.partitions)[:_MAX_NAMES],
        measures={
            "misplaced": count,
            "waiting": {str(broker): number for broker, number in sorted(waiting.items())},
            "leading_instead": {str(broker): number for broker, number in sorted(instead.items())},
            "most_led": leads,
            "even_share": round(imbalance.even_share, 1),
            "automatic": rebalances_itself(context),
            "failed_elections": len(failed),
        },
        explanation=_explanation(context, off, failed),
        actions=_actions(context, is_over=end < context.logs_end),
        why=_why(context, imbalance, leads),
        doubts=_DOUBTS,
    )


def _title(count: int, busiest: int, leads: int, imbalance: _Imbalance, *, is_piled: bool) -> str:
    if is_piled:
        return (
            f"Leadership piles up on broker {busiest}: it leads {leads} partitions, an even share"
            f" would be {imbalance.even_share:.0f}"
        )
    partitions = quantity(count, "partition")
    return (
        f"{partitions} led by another broker than their first replica, though that one is in sync"
    )


def _why(context: DetectionContext, imbalance: _Imbalance, leads: int) -> str:
    limits, waiting = context.limits[NAME], imbalance.waiting
    shares = {broker: waiting[broker] / max(1, imbalance.preferred[broker]) for broker in waiting}
    worst = max(sorted(shares), key=lambda broker: shares[broker])
    return (
        f"{len(imbalance.partitions)} partitions for at least {_lasting(context)} s; "
        f"{shares[worst]:.0%} of those of broker {worst}, and Kafka itself acts from "
        f"{limits['share']:.0%} on; the busiest leads {leads / imbalance.even_share:.1f} times an "
        f"even share, a pile is {limits['pile']} times"
    )


def _failed_elections(context: DetectionContext, begin: int, end: int) -> list[Row]:
    """Find elections of first replicas that failed meanwhile."""
    where = (pc.field("kind") == "preferred_election_failed") & pc.field("ts").is_valid()
    rows = context.each("events", where, EVIDENCE_COLUMNS)
    return sorted((row for row in rows if begin <= row["at"] <= end), key=by_time)[:_SHOWN]


def _explanation(context: DetectionContext, off: Sequence[Row], failed: Sequence[Row]) -> str:
    if off:
        said = "auto.leader.rebalance.enable is false: nobody gives leadership back by itself."
    elif failed:
        said = "Elections of first replicas were tried, and failed."
    else:
        interval = rebalance_interval(context)
        said = f"The controller looks every leader.imbalance.check.interval.seconds ({interval})."
    return f"{_MECHANISM} {said}"


def _actions(context: DetectionContext, *, is_over: bool) -> list[str]:
    """Advise what fits: no election by hand where the controller does it, or it is over."""
    if is_over:
        return ["Nothing to do: leadership was given back."]
    if rebalances_itself(context):
        return [_LOOK]
    return [context.commands.preferred_election(), _WHEN, _LEAVE]


_MECHANISM = (
    "After a failover partitions stay with their new leader until the first replica, which is meant"
    " to lead, is elected again. Until then few brokers do the work of all: produce and fetch "
    "requests all go to leaders."
)
_WHEN = (
    "Run it at a quiet hour, since each move costs clients a refresh of their metadata, and not "
    "while a broker is unstable: it would get leaders that it loses again."
)
_LOOK = "Look in the controller's log for why it does not give them back: it should by itself."
_LEAVE = "Nothing is lost by it: if the load is fine, it can stay so until the next restart."
_DOUBTS = (
    "Tools such as Cruise Control put leadership elsewhere on purpose.",
    "Partitions differ in load: an even number of them is not an even load.",
)
