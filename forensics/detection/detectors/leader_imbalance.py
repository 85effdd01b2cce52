"""Leadership that piles up after failovers: brokers are in sync again, and lead nothing of theirs.

Told wherever it lasts for several looks of the controller, which should give leadership back.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
)
from forensics.detection.shared.assignments import read_assignments
from forensics.detection.shared.leader_moves import (
    rebalance_interval,
    rebalances_itself,
    switched_off,
)
from forensics.lib.arrow_io import is_any_of, iter_rows
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import Finding

NAME = "leader-imbalance"
_LED = ("topic", "partition", "leader", "started_at", "ended_at")
_KEYS = ("topic", "partition", "started_at")
_STATE = ("topic", "partition", "isr", "started_at", "ended_at")
_numbers = partial(array, "q")
# Of the partitions led by another broker, how many show their lines, and how many are named.
_SHOWN, _MAX_NAMES = 20, 10_000
# How many waits are looked up at once for lines.
_LOOKED_UP = 5 * _SHOWN


@dataclass
class _Waits:
    """Times in which another broker led a partition whose first replica was in sync.

    Most partitions of a wide cluster may have waited, each many times: they are held in columns.
    """

    begin: array[int] = field(default_factory=_numbers)
    end: array[int] = field(default_factory=_numbers)
    # since when the other broker had led, which that was, and which it should have been
    since: array[int] = field(default_factory=_numbers)
    leader: array[int] = field(default_factory=_numbers)
    first: array[int] = field(default_factory=_numbers)
    # the partition, by its place among the keys
    partition: array[int] = field(default_factory=_numbers)
    keys: list[tuple[str, int]] = field(default_factory=list)

    def add(self, key: tuple[str, int], wait: _Wait) -> None:
        """Take a wait of a partition; those of one partition come one after the other."""
        if not self.keys or self.keys[-1] != key:
            self.keys.append(key)
        self.partition.append(len(self.keys) - 1)
        self.begin.append(wait.begin)
        self.end.append(wait.end)
        self.since.append(wait.since)
        self.leader.append(wait.leader)
        self.first.append(wait.first)

    def name(self, at: int) -> str:
        """Name the partition of a wait."""
        return "{}-{}".format(*self.keys[self.partition[at]])

    def going_on(self, moment: int) -> list[int]:
        """Return the waits that went on at a moment, by their places."""
        begins, ends = np.array(self.begin, np.int64), np.array(self.end, np.int64)
        found: list[int] = np.flatnonzero((begins <= moment) & (moment < ends)).tolist()
        return found


@dataclass(slots=True)
class _Wait:
    """One of them."""

    since: int
    first: int
    leader: int
    begin: int
    end: int


@dataclass
class _Imbalance:
    """What waited at the moment when most partitions did, and who led and should have led what."""

    begin: int
    end: int
    # when the last of them had begun to wait
    moment: int
    partitions: list[str]
    # how many partitions each broker should lead and does not, and who leads them instead
    waiting: Counter[int]
    instead: Counter[int]
    # lines about those that began first
    lines: list[Mapping[str, Any]]
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
    worst, count = _find_worst(waits)
    if count < limits["partitions"]:
        return
    going = waits.going_on(worst)
    moment = max(waits.begin[at] for at in going)
    assigned = read_assignments(context).values()
    imbalance = _Imbalance(
        min(waits.begin[at] for at in going),
        max(waits.end[at] for at in going),
        moment,
        [waits.name(at) for at in going],
        Counter(waits.first[at] for at in going),
        Counter(waits.leader[at] for at in going),
        _find_lines(context, waits, going),
        _count_leaders(context, moment),
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
    found = _Waits()
    least = _lasting(context) * SECOND
    topics = {row["topic"] for row in _led_by_others(context, ["topic", "partition", "leader"])}
    where = in_topics(topics) & pc.field("isr").is_valid() & pc.field("started_at").is_valid()
    states = groupby(iter_rows(context.batches("isr", where, _STATE), _STATE), _partition)
    state = next(states, None)
    for key, epochs in groupby(_led_by_others(context, _LED), _partition):
        while state is not None and state[0] < key:
            state = next(states, None)
        # A line about an ISR need not name the leader: that is known from the other table.
        if state is not None and state[0] == key:
            for wait in _waits_of(context, list(epochs), state[1], least):
                found.add(key, wait)
    return found


def _partition(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _led_by_others(context: DetectionContext, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the long leader epochs of others than the first replica, which is named as `first`."""
    assignments, least = read_assignments(context), _lasting(context) * SECOND
    begun, ended = pc.field("started_at"), pc.field("ended_at")
    where = (pc.field("leader") >= 0) & begun.is_valid() & pc.field("topic").is_valid()
    where &= ended.is_null() | (ended - begun >= pa.scalar(least, pa.duration("us")))
    for row in iter_rows(context.batches("leadership", where, columns), columns):
        first = next(iter(assignments.get(_partition(row), ())), row["leader"])
        if row["leader"] != first:
            row["first"] = first
            yield row


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
            if end < begin or one["first"] not in row["isr"]:
                continue
            key = one["started_at"]
            if key in waits and begin <= waits[key].end:
                waits[key].end = max(end, waits[key].end)
            elif key not in waits or waits[key].end - waits[key].begin < least:
                waits[key] = _Wait(key, one["first"], one["leader"], begin, end)
    yield from (wait for wait in waits.values() if wait.end - wait.begin >= least)


def _find_worst(waits: _Waits) -> tuple[int, int]:
    """Return the first moment at which most waits went on, and how many."""
    starts = np.sort(np.array(waits.begin, np.int64))
    stops = np.sort(np.array(waits.end, np.int64))
    if not len(starts):
        return 0, 0
    # How many have begun by the begin of each, without those that are over.
    begun = np.searchsorted(starts, starts, "right")
    going = begun - np.searchsorted(stops, starts, "right")
    worst = int(np.argmax(going))
    return int(starts[worst]), int(going[worst])


def _find_lines(
    context: DetectionContext, waits: _Waits, going: Sequence[int]
) -> list[Mapping[str, Any]]:
    """Find a line about each of the waits that began first, if they have any."""
    lines: list[Mapping[str, Any]] = []
    ordered = sorted(going, key=lambda at: (waits.begin[at], waits.name(at)))
    for start in range(0, len(ordered), _LOOKED_UP):
        if len(lines) >= _SHOWN:
            break
        some = {(*waits.keys[waits.partition[at]], waits.since[at]): at
                for at in ordered[start : start + _LOOKED_UP]}  # fmt: skip
        since = [key[2] for key in some]
        begun = pc.field("started_at")
        where = in_topics({key[0] for key in some})
        where &= is_any_of("partition", [key[1] for key in some])
        where &= begun >= to_arrow_timestamp(min(since))
        where &= begun <= to_arrow_timestamp(max(since))
        known: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in context.each("leadership", where, [*_KEYS, "evidence"]):
            key = tuple(row[name] for name in _KEYS)
            if key in some and row["evidence"]:
                known.setdefault(key, row["evidence"][0])
        lines += [known[key] for key in some if key in known]
    return lines[:_SHOWN]


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
