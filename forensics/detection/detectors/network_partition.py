"""Two brokers that could not reach each other, while the others reached both: a broken link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.detection.context import EVIDENCE_COLUMNS, DetectionContext, Row, by_time
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.isr_changes import (
    IsrShrink,
    ShrinkRun,
    find_last_caught_up,
    find_recovery,
    find_shrink_runs,
    read_lag_times,
)
from forensics.lib.node_ids import broker_node
from forensics.lib.text_format import quantity
from forensics.lib.time_units import MILLISECOND, SECOND, to_iso
from forensics.lib.whole_numbers import whole_number
from forensics.run_output.findings import Finding

NAME = "network-partition"
# Only the leaders' own logs say that they drop followers.
NEEDS = LogRequirements(("broker",), ("server",))
# A fetch that is not answered is given up after replica.socket.timeout.ms, 30 s.
_WAITING = 45 * SECOND
_MAX_WAITS = 10
_DEFAULT_LAG_MS = 30_000


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each pair of brokers that dropped each other from ISRs."""
    limits = context.limits[NAME]
    every = find_shrink_runs(context, _pairs, limits["gap"], 1, limits["near"])
    runs = [run for run in every if run.count >= 2 * limits["each"]]
    for run in runs:
        pair = _pair_of(run)
        both = all(run.pairs[one, other] >= limits["each"] for one, other in (pair, pair[::-1]))
        if both and not run.excused and not _are_dropped_by_others(run, runs):
            yield _finding(context, run, [one for one in every if one.subject == run.subject])


def _pairs(shrink: IsrShrink) -> Iterator[tuple[int, int]]:
    for replica in shrink.replicas:
        yield min(shrink.leader, replica), max(shrink.leader, replica)


def _pair_of(run: ShrinkRun) -> tuple[int, int]:
    one, other = run.subject
    return int(one), int(other)


def _are_dropped_by_others(run: ShrinkRun, runs: Sequence[ShrinkRun]) -> bool:
    """Return True if third brokers drop one of the two, too: then it is that broker's trouble."""
    pair = set(_pair_of(run))
    return any(
        other is not run
        and len(pair & set(_pair_of(other))) == 1
        and other.begin <= run.end
        and run.begin <= other.end
        for other in runs
    )


def _finding(context: DetectionContext, run: ShrinkRun, same: Sequence[ShrinkRun]) -> Finding:
    one, other = _pair_of(run)
    recovery = find_recovery(context, run.partitions, run.begin, run.end)
    end = context.logs_end if recovery.still_short else recovery.recovered_at
    # A partition to which nobody wrote before drops its follower later, while the link is broken.
    also = [it for it in same if run.end < it.begin <= end]
    names = sorted({name for it in (run, *also) for name in it.partitions})
    last = max([run.end, *(it.end for it in also)])
    waits = _read_waits(context, one, other, run)
    begin, since = _begin(context, run, (one, other))
    return context.finding(
        NAME,
        context.limits[NAME]["severity"],
        f"Brokers {one} and {other} could not reach each other: each dropped the other from ISRs,"
        f" {quantity(len(names), 'partition')}",
        begin,
        max(last, end),
        [*run.first, *(row for it in also for row in it.first), *waits],
        stated=False,
        brokers=[one, other],
        partitions=names,
        measures={
            "pair": [one, other],
            "shrinks": run.count + sum(it.count for it in also),
            "partitions": len(names),
            "timeouts": len(waits),
            "dropped_from": to_iso(run.begin),
        },
        explanation=_EXPLANATION.format(one=one, other=other, since=since),
        actions=[
            _CHECK.format(one=one, other=other),
            f"{context.commands.under_replicated()}   # are all replicas in sync again?",
        ],
        why=f"{run.pairs[one, other]} drops one way and {run.pairs[other, one]} the other way;"
        f" {context.limits[NAME]['each']} each way are more than chance",
        doubts=["Listeners that only these two use for each other may be what is broken."],
    )


def _begin(context: DetectionContext, run: ShrinkRun, pair: tuple[int, int]) -> tuple[int, str]:
    """Return when the link broke, as far as lines tell it, and how that is known."""
    times = [value for text in read_lag_times(context) if (value := whole_number(text))]
    lag = max(times, default=_DEFAULT_LAG_MS) * MILLISECOND
    # Leaders look each half of it for followers that lag for longer.
    heard = find_last_caught_up(context, run, pair, 2 * lag)
    dropped = to_iso(run.begin)[11:-1]
    if heard is not None:
        return heard, (
            f"The last that either read from the other was at {to_iso(heard)[11:-1]}, as the lines"
            f" of the drops say: they came replica.lag.time.max.ms later, from {dropped} on."
        )
    return run.begin, (
        f"The link broke between {to_iso(run.begin - 2 * lag)[11:-1]} and {dropped}: a follower is"
        " dropped only when it has lagged for replica.lag.time.max.ms."
    )


def _read_waits(context: DetectionContext, one: int, other: int, run: ShrinkRun) -> list[Row]:
    """Read the requests between the two that timed out."""
    where = pc.field("kind").isin(["peer_timed_out", "peer_unreachable"])
    where &= pc.field("node").isin([broker_node(one), broker_node(other)])
    where &= pc.field("peer").isin([one, other]) & pc.field("ts").is_valid()
    rows = [
        row
        for row in context.each("events", where, EVIDENCE_COLUMNS)
        if run.begin - _WAITING <= row["at"] <= run.end + _WAITING
    ]
    return sorted(rows, key=by_time)[:_MAX_WAITS]


_EXPLANATION = (
    "Broker {one} led partitions and dropped broker {other} from their ISRs, broker {other} led "
    "others and dropped broker {one}, at the same time; nobody else dropped one of the two, and "
    "both kept their sessions. {since} A broker that is slow or hangs is dropped by all leaders: "
    "this is the link between the two. Until a follower is dropped, acks=all writes wait for it."
)
_CHECK = (
    "Check the path between brokers {one} and {other} in both directions (nc -vz, MTU, firewall, "
    "security group, routes): other nodes reach both."
)
