"""Leadership that piles up after failovers: brokers are in sync again, and lead nothing of theirs.

Told wherever it lasts for several looks of the controller, which should give leadership back.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass
class _Wait:
    """A time in which another broker led a partition whose first replica was in sync."""

    partition: str
    first: int
    leader: int
    begin: int
    end: int
    line: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Imbalance:
    """The moment at which most partitions waited: those, and who led and should have led what."""

    waits: Sequence[_Wait]
    leads: Counter[int]
    preferred: Counter[int]

    @property
    def waiting(self) -> Counter[int]:
        """How many partitions each broker should lead and does not."""
        return Counter(wait.first for wait in self.waits)

    @property
    def even_share(self) -> float:
        """How many partitions a broker would lead if all led as many."""
        brokers = len(set(self.leads) | set(self.preferred))
        return sum(self.leads.values()) / max(1, brokers)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding if too many partitions waited for their first replica to lead again."""
    limits = context.limits[NAME]
    waits = _at_worst(list(_find_waits(context)))
    if len(waits) < limits["partitions"]:
        return
    moment = max(wait.begin for wait in waits)
    preferred = Counter(replicas[0] for replicas in read_assignments(context).values() if replicas)
    imbalance = _Imbalance(waits, _count_leaders(context, moment), preferred)
    uneven = [broker for broker, count in imbalance.waiting.items()
              if count > limits["share"] * preferred[broker]]  # fmt: skip
    if uneven:
        yield _finding(context, imbalance)


def _lasting(context: DetectionContext) -> int:
    return int(context.limits[NAME]["looks"] * rebalance_interval(context))


def _find_waits(context: DetectionContext) -> Iterator[_Wait]:
    """Find how long each partition was not led by its first replica though that was in sync."""
    assignments, least = read_assignments(context), _lasting(context) * SECOND
    led: dict[tuple[str, int], list[Row]] = {}
    begun, ended = pc.field("started_at"), pc.field("ended_at")
    where = (pc.field("leader") >= 0) & begun.is_valid()
    where &= ended.is_null() | (ended - begun >= pa.scalar(least, pa.duration("us")))
    for row in context.each("leadership", where, _LED):
        key = row["topic"], row["partition"]
        row["until"] = context.logs_end if row["ended_at"] is None else row["ended_at"]
        first = next(iter(assignments.get(key, ())), row["leader"])
        if row["leader"] != first:
            led.setdefault(key, []).append(row | {"first": first})
    # A line about an ISR need not name the leader: that is known from the other table.
    waits: dict[tuple[str, int], _Wait] = {}
    where = in_topics({topic for topic, _ in led}) & pc.field("isr").is_valid()
    for row in context.each("isr", where & pc.field("started_at").is_valid(), _STATE):
        until = context.logs_end if row["ended_at"] is None else row["ended_at"]
        for one in led.get((row["topic"], row["partition"]), ()):
            begin, end = max(row["started_at"], one["started_at"]), min(until, one["until"])
            if one["first"] not in row["isr"] or end < begin:
                continue
            key, line = (partition_name(row), one["started_at"]), next(iter(one["evidence"]), None)
            if key in waits and begin <= waits[key].end:
                waits[key].end = max(end, waits[key].end)
            elif key not in waits or waits[key].end - waits[key].begin < least:
                waits[key] = _Wait(key[0], one["first"], one["leader"], begin, end, line)
    yield from (wait for wait in waits.values() if wait.end - wait.begin >= least)


def _at_worst(waits: Sequence[_Wait]) -> list[_Wait]:
    """Return those that went on at the moment at which most did."""
    ordered = sorted(waits, key=lambda one: (one.begin, one.partition))
    ends: list[int] = []
    moment, most = 0, 0
    for wait in ordered:
        while ends and ends[0] <= wait.begin:
            heapq.heappop(ends)
        heapq.heappush(ends, wait.end)
        if len(ends) > most:
            moment, most = wait.begin, len(ends)
    return [wait for wait in ordered if wait.begin <= moment < wait.end]


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
    limits, waits = context.limits[NAME], imbalance.waits
    [(busiest, leads)] = sorted(
        imbalance.leads.items(), key=lambda broker: (-broker[1], broker[0])
    )[:1]
    is_piled = leads >= limits["pile"] * imbalance.even_share
    begin, end = min(wait.begin for wait in waits), max(wait.end for wait in waits)
    off, failed = switched_off(context)[:_SHOWN], _failed_elections(context, begin, end)
    cited = [wait.line for wait in waits if wait.line][:_SHOWN]
    waiting, instead = imbalance.waiting, Counter(wait.leader for wait in waits)
    return context.finding(
        NAME,
        limits["piled" if is_piled else "scattered"],
        _title(len(waits), busiest, leads, imbalance, is_piled=is_piled),
        begin,
        end,
        [*off, *failed, *context.read_lines(cited)],
        brokers=sorted({*waiting, *([busiest] if is_piled else [])}),
        partitions=sorted(wait.partition for wait in waits)[:_MAX_NAMES],
        measures={
            "misplaced": len(waits),
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
        f"{len(imbalance.waits)} partitions for at least {_lasting(context)} s; "
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
