"""Leadership that piles up after failovers: brokers are back in sync, and lead nothing of theirs.

Looked at where the logs end. Under auto.leader.rebalance.enable it takes care of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, partition_name
from forensics.lib.formatting import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "leader-imbalance"
_COLUMNS = ("topic", "partition", "leader", "replicas", "started_at", "evidence")
_STATE = ("topic", "partition", "isr", "started_at")
_OPEN = (pc.field("ended") == "open") & pc.field("started_at").is_valid()
_SETTING = "auto.leader.rebalance.enable"
_PLACE = ("ts", "node", "file", "line", "text", "rule")
# Of the partitions that are led by another so many show their lines, and so many are named.
_SHOWN, _NAMES = 20, 10_000


@dataclass
class _Balance:
    """Who leads what at the end of the logs, and who should: the first replica of each."""

    begin: int = 0
    leads: Counter[int] = field(default_factory=Counter)
    should: Counter[int] = field(default_factory=Counter)
    # of the first replica, which is in sync and does not lead; and who does instead
    waits: Counter[int] = field(default_factory=Counter)
    instead: Counter[int] = field(default_factory=Counter)
    partitions: list[str] = field(default_factory=list)
    places: list[Mapping[str, Any]] = field(default_factory=list)

    def take(self, led: Row, state: Row, until: int) -> None:
        """Take a partition whose first replica is in sync, if that is so since long enough."""
        since = max(led["started_at"], state["started_at"])
        if since > until:
            return
        self.waits[led["replicas"][0]] += 1
        self.instead[led["leader"]] += 1
        self.begin = min(self.begin, since)
        if len(self.partitions) < _NAMES:
            self.partitions.append(partition_name(led))
        if len(self.places) < _SHOWN:
            self.places += led["evidence"][:1]

    @property
    def even(self) -> float:
        """How many partitions a broker would lead if all led as many."""
        brokers = len(set(self.leads) | set(self.should))
        return sum(self.leads.values()) / max(1, brokers)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding if too many partitions wait for their first replica to lead again."""
    limits = context.limits[NAME]
    found = _balance(context)
    count = sum(found.waits.values())
    uneven = [one for one in found.waits if found.waits[one] > limits["share"] * found.should[one]]
    if count >= limits["partitions"] and uneven:
        yield _finding(context, found)


def _balance(context: DetectionContext) -> _Balance:
    """Count over the last state of every partition; there is one row of each."""
    found = _Balance(begin=context.logs_end)
    where = _OPEN & (pc.field("leader") >= 0) & (pc.list_value_length(pc.field("replicas")) > 1)
    elsewhere: dict[tuple[str, int], Row] = {}
    for row in context.each("leadership", where, _COLUMNS):
        leader, first = row["leader"], row["replicas"][0]
        found.leads[leader] += 1
        found.should[first] += 1
        if leader != first:
            elsewhere[row["topic"], row["partition"]] = row
    # A line that tells of an ISR need not tell the leader: that is known from the other table.
    for row in context.each("isr", _OPEN & pc.field("isr").is_valid(), _STATE) if elsewhere else ():
        led = elsewhere.get((row["topic"], row["partition"]))
        if led is not None and led["replicas"][0] in row["isr"]:
            found.take(led, row, context.logs_end - context.limits[NAME]["lasting"] * SECOND)
    return found


def _finding(context: DetectionContext, found: _Balance) -> Finding:
    limits = context.limits[NAME]
    [(most, leads)] = sorted(found.leads.items(), key=lambda one: (-one[1], one[0]))[:1]
    piled = leads >= limits["pile"] * found.even
    off, failed = _switched_off(context), _failures(context, found.begin)
    evidence = [*off, *failed, *context.read_lines(found.places)]
    confidence, reason = context.confidence(found.begin, context.logs_end, evidence, stated=True)
    count = sum(found.waits.values())
    return Finding(
        detector=NAME,
        severity=str(limits["piled" if piled else "scattered"]),
        confidence=confidence,
        title=_title(count, most, leads, found, piled=piled),
        begin=found.begin,
        end=context.logs_end,
        evidence=evidence,
        brokers=sorted({*found.waits, *([most] if piled else [])}),
        partitions=sorted(found.partitions),
        measures={
            "misplaced": count,
            "waiting": {str(one): number for one, number in sorted(found.waits.items())},
            "leading_instead": {str(one): number for one, number in sorted(found.instead.items())},
            "most_led": leads,
            "even_share": round(found.even, 1),
            "automatic": False if off else None,
            "failed_elections": len(failed),
        },
        explanation=_explanation(off, failed),
        actions=[context.commands.preferred_election(), _WHEN, _DO_NOT],
        why=_why(limits, found, count, leads),
        reason=reason,
        doubts=_DOUBTS,
    )


def _title(count: int, most: int, leads: int, found: _Balance, *, piled: bool) -> str:
    if piled:
        return (
            f"Leadership piles up on broker {most}: it leads {leads} partitions, an even share"
            f" would be {found.even:.0f}"
        )
    many = quantity(count, "partition")
    return f"{many} led by another broker than their first replica, though that one is in sync"


def _why(limits: Mapping[str, Any], found: _Balance, count: int, leads: int) -> str:
    shares = {one: found.waits[one] / found.should[one] for one in found.waits}
    worst = max(sorted(shares), key=lambda one: shares[one])
    return (
        f"{count} partitions for at least {limits['lasting']} s; {shares[worst]:.0%} of those of"
        f" broker {worst}, and Kafka itself acts from {limits['share']:.0%} on; the busiest leads"
        f" {leads / found.even:.1f} times an even share, a pile is {limits['pile']} times"
    )


def _switched_off(context: DetectionContext) -> list[Row]:
    """Find the lines by which a broker says that it leaves leadership where it is."""
    where = (pc.field("kind") == "setting_seen") & (pc.field("setting") == _SETTING)
    where &= (pc.field("value") == "false") & pc.field("ts").is_valid()
    return sorted(context.each("events", where, _PLACE), key=by_time)[:_SHOWN]


def _failures(context: DetectionContext, begin: int) -> list[Row]:
    """Find elections of first replicas that failed meanwhile."""
    where = (pc.field("kind") == "preferred_election_failed") & pc.field("ts").is_valid()
    rows = [row for row in context.each("events", where, _PLACE) if row["at"] >= begin]
    return sorted(rows, key=by_time)[:_SHOWN]


def _explanation(off: Sequence[Row], failed: Sequence[Row]) -> str:
    told = [_MECHANISM]
    if off:
        told.append(f"{_SETTING} is false: nobody gives leadership back by itself.")
    elif failed:
        told.append("Elections of first replicas were tried, and failed.")
    else:
        told.append("The controller looks every leader.imbalance.check.interval.seconds (300).")
    return " ".join(told)


_MECHANISM = (
    "After a failover partitions stay with their new leader until the first replica, which is meant"
    " to lead, is elected again. Until then few brokers do the work of all: produce and fetch "
    "requests all go to leaders."
)
_WHEN = (
    "Run it at a quiet hour, since each move costs clients a refresh of their metadata, and not "
    "while a broker is unstable: it would get leaders that it loses again."
)
_DO_NOT = "Nothing is lost meanwhile: if the load is fine, it can stay so until the next restart."
_DOUBTS = (
    "Tools such as Cruise Control put leadership elsewhere on purpose.",
    "Partitions differ in load: an even number of them is not an even load.",
)
