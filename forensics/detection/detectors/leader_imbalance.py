"""Leadership that piles up after failovers: brokers are back in sync, and lead nothing of theirs.

Looked at where the logs end. Under auto.leader.rebalance.enable it takes care of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.detection.context import (
    EVIDENCE_COLUMNS,
    DetectionContext,
    Row,
    by_time,
    partition_name,
)
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "leader-imbalance"
_COLUMNS = ("topic", "partition", "leader", "replicas", "started_at", "evidence")
_STATE = ("topic", "partition", "isr", "started_at")
_OPEN = (pc.field("ended") == "open") & pc.field("started_at").is_valid()
_SETTING = "auto.leader.rebalance.enable"
# Of the partitions led by another broker, how many show their lines, and how many are named.
_SHOWN, _MAX_NAMES = 20, 10_000


@dataclass
class _Leadership:
    """Who leads what at the end of the logs, and who should: the first replica of each."""

    begin: int = 0
    leads: Counter[int] = field(default_factory=Counter)
    preferred: Counter[int] = field(default_factory=Counter)
    # by first replica, in sync, that does not lead; and by the broker that leads instead
    waiting: Counter[int] = field(default_factory=Counter)
    instead: Counter[int] = field(default_factory=Counter)
    partitions: list[str] = field(default_factory=list)
    cited: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, led: Row, state: Row, until: int) -> None:
        """Add a partition whose first replica is in sync, if it has been so for long enough."""
        since = max(led["started_at"], state["started_at"])
        if since > until:
            return
        self.waiting[led["replicas"][0]] += 1
        self.instead[led["leader"]] += 1
        self.begin = min(self.begin, since)
        if len(self.partitions) < _MAX_NAMES:
            self.partitions.append(partition_name(led))
        if len(self.cited) < _SHOWN:
            self.cited += led["evidence"][:1]

    @property
    def even_share(self) -> float:
        """How many partitions a broker would lead if all led as many."""
        brokers = len(set(self.leads) | set(self.preferred))
        return sum(self.leads.values()) / max(1, brokers)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding if too many partitions wait for their first replica to lead again."""
    limits = context.limits[NAME]
    leadership = _read_leadership(context)
    count = sum(leadership.waiting.values())
    uneven = [
        broker
        for broker in leadership.waiting
        if leadership.waiting[broker] > limits["share"] * leadership.preferred[broker]
    ]
    if count >= limits["partitions"] and uneven:
        yield _finding(context, leadership)


def _read_leadership(context: DetectionContext) -> _Leadership:
    """Count over the last state of every partition; there is one row of each."""
    leadership = _Leadership(begin=context.logs_end)
    where = _OPEN & (pc.field("leader") >= 0) & (pc.list_value_length(pc.field("replicas")) > 1)
    elsewhere: dict[tuple[str, int], Row] = {}
    for row in context.each("leadership", where, _COLUMNS):
        leader, first = row["leader"], row["replicas"][0]
        leadership.leads[leader] += 1
        leadership.preferred[first] += 1
        if leader != first:
            elsewhere[row["topic"], row["partition"]] = row
    # A line about an ISR need not name the leader: that is known from the other table.
    for row in context.each("isr", _OPEN & pc.field("isr").is_valid(), _STATE) if elsewhere else ():
        led = elsewhere.get((row["topic"], row["partition"]))
        if led is not None and led["replicas"][0] in row["isr"]:
            leadership.add(led, row, context.logs_end - context.limits[NAME]["lasting"] * SECOND)
    return leadership


def _finding(context: DetectionContext, leadership: _Leadership) -> Finding:
    limits = context.limits[NAME]
    [(busiest, leads)] = sorted(
        leadership.leads.items(), key=lambda broker: (-broker[1], broker[0])
    )[:1]
    is_piled = leads >= limits["pile"] * leadership.even_share
    switched_off, failed = _switched_off(context), _failed_elections(context, leadership.begin)
    evidence = [*switched_off, *failed, *context.read_lines(leadership.cited)]
    count = sum(leadership.waiting.values())
    return context.finding(
        NAME,
        limits["piled" if is_piled else "scattered"],
        _title(count, busiest, leads, leadership, is_piled=is_piled),
        leadership.begin,
        context.logs_end,
        evidence,
        brokers=sorted({*leadership.waiting, *([busiest] if is_piled else [])}),
        partitions=sorted(leadership.partitions),
        measures={
            "misplaced": count,
            "waiting": {
                str(broker): number for broker, number in sorted(leadership.waiting.items())
            },
            "leading_instead": {
                str(broker): number for broker, number in sorted(leadership.instead.items())
            },
            "most_led": leads,
            "even_share": round(leadership.even_share, 1),
            "automatic": False if switched_off else None,
            "failed_elections": len(failed),
        },
        explanation=_explanation(switched_off, failed),
        actions=[context.commands.preferred_election(), _WHEN, _DO_NOT],
        why=_why(limits, leadership, count, leads),
        doubts=_DOUBTS,
    )


def _title(count: int, busiest: int, leads: int, leadership: _Leadership, *, is_piled: bool) -> str:
    if is_piled:
        return (
            f"Leadership piles up on broker {busiest}: it leads {leads} partitions, an even share"
            f" would be {leadership.even_share:.0f}"
        )
    partitions = quantity(count, "partition")
    return (
        f"{partitions} led by another broker than their first replica, though that one is in sync"
    )


def _why(limits: Mapping[str, Any], leadership: _Leadership, count: int, leads: int) -> str:
    shares = {
        broker: leadership.waiting[broker] / leadership.preferred[broker]
        for broker in leadership.waiting
    }
    worst = max(sorted(shares), key=lambda broker: shares[broker])
    return (
        f"{count} partitions for at least {limits['lasting']} s; {shares[worst]:.0%} of those of"
        f" broker {worst}, and Kafka itself acts from {limits['share']:.0%} on; the busiest leads"
        f" {leads / leadership.even_share:.1f} times an even share, a pile is {limits['pile']}"
        " times"
    )


def _switched_off(context: DetectionContext) -> list[Row]:
    """Find the lines that show automatic rebalancing of leaders switched off."""
    where = (pc.field("setting") == _SETTING) & (pc.field("value") == "false")
    return context.first_events("setting_seen", _SHOWN, where)


def _failed_elections(context: DetectionContext, begin: int) -> list[Row]:
    """Find elections of first replicas that failed meanwhile."""
    where = (pc.field("kind") == "preferred_election_failed") & pc.field("ts").is_valid()
    rows = [row for row in context.each("events", where, EVIDENCE_COLUMNS) if row["at"] >= begin]
    return sorted(rows, key=by_time)[:_SHOWN]


def _explanation(switched_off: Sequence[Row], failed: Sequence[Row]) -> str:
    parts = [_MECHANISM]
    if switched_off:
        parts.append(f"{_SETTING} is false: nobody gives leadership back by itself.")
    elif failed:
        parts.append("Elections of first replicas were tried, and failed.")
    else:
        parts.append("The controller looks every leader.imbalance.check.interval.seconds (300).")
    return " ".join(parts)


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
