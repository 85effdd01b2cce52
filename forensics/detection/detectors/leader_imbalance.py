"""Leadership that piles up after failovers: brokers are in sync again, and lead nothing of theirs.

Told wherever it lasts for several looks of the controller, which should give leadership back.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    in_topics,
)
from forensics.detection.shared.assignments import read_assignments
from forensics.detection.shared.leader_moves import (
    rebalance_interval,
    rebalances_itself,
    switched_off,
)
from forensics.lib.arrow_io import is_any_of, iter_values
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_arrow_timestamp, to_datetime
from forensics.run_output.findings import Finding

NAME = "leader-imbalance"
_LED = ("topic", "partition", "leader", "started_at", "ended_at")
_STATE = ("topic", "partition", "isr", "started_at", "ended_at")
# Of the partitions led by another broker, how many show their lines, and how many are named.
_SHOWN, _MAX_NAMES = 20, 10_000
_HELD = 200
_PARTITION = itemgetter(0, 1)
_Partition = tuple[str, int]


@dataclass
class _Waits:
    """Times in which another broker led a partition whose first replica was in sync, as columns.

    There may be a million: the lines of a few are read once these are known.
    """

    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    # who should have led, and who did
    firsts: array[int] = field(default_factory=lambda: array("q"))
    leaders: array[int] = field(default_factory=lambda: array("q"))
    # when that leader epoch began
    epochs: array[int] = field(default_factory=lambda: array("q"))
    partitions: list[_Partition] = field(default_factory=list)

    def add(self, partition: _Partition, epoch: _Epoch, begin: int, end: int) -> None:
        """Add the wait of a partition in a leader epoch."""
        self.begins.append(begin)
        self.ends.append(end)
        self.firsts.append(epoch.first)
        self.leaders.append(epoch.leader)
        self.epochs.append(epoch.begin)
        self.partitions.append(partition)

    def find_worst(self) -> tuple[int, int]:
        """Return the first moment at which most waits went on, and how many."""
        starts, stops = np.sort(self.begins), np.sort(self.ends)
        if not len(starts):
            return 0, 0
        # How many have begun by the begin of each, without those that are over.
        begun = np.searchsorted(starts, starts, "right")
        going = begun - np.searchsorted(stops, starts, "right")
        worst = int(np.argmax(going))
        return int(starts[worst]), int(going[worst])

    def find_going(self, moment: int) -> list[int]:
        """Return which waits went on at a moment, those that began first before the others."""
        begins, ends = np.array(self.begins), np.array(self.ends)
        rows: list[int] = np.flatnonzero((begins <= moment) & (ends > moment)).tolist()
        return sorted(rows, key=lambda row: (self.begins[row], self.name(row)))

    def name(self, row: int) -> str:
        """Name the partition that waited."""
        topic, partition = self.partitions[row]
        return f"{topic}-{partition}"


class _Epoch(NamedTuple):
    """A long leader epoch of another broker than the first replica."""

    begin: int
    end: int
    leader: int
    first: int


@dataclass
class _Imbalance:
    """What waited at the moment when most partitions did, and who led and should have led what."""

    begin: int
    end: int
    partitions: Sequence[str]
    # how many partitions each broker should lead and does not, and who leads them instead
    waiting: Counter[int]
    instead: Counter[int]
    # the lines of some that waited first
    lines: Sequence[Mapping[str, Any]]
    leads: Counter[int]
    preferred: Counter[int]

    @property
    def even_share(self) -> float:
        """How many partitions a broker would lead if all led as many."""
        brokers = len(set(self.leads) | set(self.preferred))
        return sum(self.leads.values()) / max(1, brokers)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding if too many partitions waited for their first replica to lead again."""
    limits = context.limits[NAME]
    waits = _find_waits(context)
    worst, count = waits.find_worst()
    if count < limits["partitions"]:
        return
    rows = waits.find_going(worst)
    begins, ends = [waits.begins[row] for row in rows], [waits.ends[row] for row in rows]
    assigned = read_assignments(context).values()
    imbalance = _Imbalance(
        min(worst, *begins),
        max(worst, *ends),
        [waits.name(row) for row in rows],
        Counter(waits.firsts[row] for row in rows),
        Counter(waits.leaders[row] for row in rows),
        _find_lines(context, waits, rows),
        _count_leaders(context, max(begins)),
        Counter(replicas[0] for replicas in assigned if replicas),
    )
    uneven = [broker for broker, count in imbalance.waiting.items()
              if count > limits["share"] * imbalance.preferred[broker]]  # fmt: skip
    if uneven:
        yield _finding(context, imbalance)


def _lasting(context: DetectionContext) -> int:
    return int(context.limits[NAME]["looks"] * rebalance_interval(context))


def _find_waits(context: DetectionContext) -> _Waits:
    """Find how long each partition was not led by its first replica though that was in sync.

    Both tables are in the order of partitions, of which one is held at a time: there may be
    millions of leader epochs.
    """
    waits, least = _Waits(), _lasting(context) * SECOND
    topics = {epoch[0] for epoch in _read_long_epochs(context, ("topic",))}
    where = in_topics(topics) & pc.field("isr").is_valid() & pc.field("started_at").is_valid()
    states = groupby(iter_values(context.batches("isr", where, _STATE), _STATE), _PARTITION)
    state = next(states, None)
    for key, rows in groupby(_read_long_epochs(context, _LED), _PARTITION):
        epochs = list(_led_by_others(context, key, rows))
        while state is not None and state[0] < key:
            state = next(states, None)
        # A line about an ISR need not name the leader: that is known from the other table.
        if epochs and state is not None and state[0] == key:
            for epoch, begin, end in _waits_of(context, epochs, state[1], least):
                waits.add(key, epoch, begin, end)
    return waits


def _read_long_epochs(
    context: DetectionContext, columns: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Read leader epochs that are so long that the controller should have ended them."""
    begun, ended = pc.field("started_at"), pc.field("ended_at")
    where = (pc.field("leader") >= 0) & begun.is_valid() & pc.field("topic").is_valid()
    least = pa.scalar(_lasting(context) * SECOND, pa.duration("us"))
    where &= ended.is_null() | (ended - begun >= least)
    return iter_values(context.batches("leadership", where, columns), columns)


def _led_by_others(
    context: DetectionContext, partition: _Partition, rows: Iterable[tuple[Any, ...]]
) -> Iterator[_Epoch]:
    """Yield the leader epochs of others than the first replica of a partition."""
    first = next(iter(read_assignments(context).get(partition, ())), None)
    if first is None:
        return
    for _, _, leader, begin, end in rows:
        if leader != first:
            yield _Epoch(begin, context.logs_end if end is None else end, leader, first)


def _waits_of(
    context: DetectionContext, epochs: Sequence[_Epoch], states: Iterable[tuple[Any, ...]],
    least: int,
) -> Iterator[tuple[_Epoch, int, int]]:  # fmt: skip
    """Find the waits of one partition, one for each leader epoch, with their begins and ends."""
    waits: dict[int, tuple[_Epoch, int, int]] = {}
    for _, _, isr, started, ended in states:
        until = context.logs_end if ended is None else ended
        for one in epochs:
            begin, end = max(started, one.begin), min(until, one.end)
            if end < begin or one.first not in isr:
                continue
            known = waits.get(one.begin)
            if known is not None and begin <= known[2]:
                waits[one.begin] = (known[0], known[1], max(end, known[2]))
            elif known is None or known[2] - known[1] < least:
                waits[one.begin] = (one, begin, end)
    yield from (wait for wait in waits.values() if wait[2] - wait[1] >= least)


def _find_lines(
    context: DetectionContext, waits: _Waits, rows: Sequence[int]
) -> list[Mapping[str, Any]]:
    """Read the lines of the leader epochs in which the first of some waits were."""
    found: list[Mapping[str, Any]] = []
    for at in range(0, len(rows), _HELD):
        some = [(*waits.partitions[row], waits.epochs[row], waits.leaders[row])
                for row in rows[at : at + _HELD]]  # fmt: skip
        wanted, lines = set(some), dict[tuple[Any, ...], Mapping[str, Any]]()
        where = in_topics({one[0] for one in some})
        where &= is_any_of("started_at", [to_datetime(begin) for _, _, begin, _ in some])
        columns = ("topic", "partition", "started_at", "leader", "evidence")
        for *epoch, evidence in iter_values(context.batches("leadership", where, columns), columns):
            if evidence and tuple(epoch) in wanted:
                lines.setdefault(tuple(epoch), evidence[0])
        found += [lines[one] for one in some if one in lines]
        if len(found) >= _SHOWN:
            break
    return found[:_SHOWN]


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
    waiting, instead = imbalance.waiting, imbalance.instead
    return context.finding(
        NAME,
        limits["piled" if is_piled else "scattered"],
        _title(count, busiest, leads, imbalance, is_piled=is_piled),
        begin,
        end,
        [*off, *failed, *context.read_lines(imbalance.lines)],
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
