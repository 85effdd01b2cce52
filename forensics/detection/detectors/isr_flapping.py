"""Partitions whose ISR shrinks and grows again and again, and the follower that is too slow.

What a storm of shrinks or a flapping broker already tells is not told twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.detectors import flapping_broker
from forensics.detection.detectors.isr_storm import storms
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.isr_changes import ShrinkRun, find_shrink_runs
from forensics.lib.formatting import quantity
from forensics.run_output.findings import Finding

NAME = "isr-flapping"
# Only the leader's own log tells that it drops a follower.
NEEDS = LogRequirements(("broker",), ("server",))
# Of each of so many partitions the first lines are evidence.
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each follower."""
    limits = context.limits[NAME]
    every = find_shrink_runs(
        context,
        lambda drop: [(replica, drop.partition) for replica in drop.replicas],
        limits["gap"],
        limits["cycles"],
        limits["near"],
    )
    own = [run for run in every if 2 * run.excused < run.count]
    own = [run for run in own if not _in_one(run, storms(context))] if own else own
    told = _told(context) if own else set()
    for replica in sorted({run.subject[0] for run in own} - told):
        yield _finding(context, replica, [run for run in own if run.subject[0] == replica])


def _in_one(run: ShrinkRun, found: Sequence[ShrinkRun]) -> bool:
    """Whether all of it is part of one storm."""
    return any(storm.begin <= run.begin and run.end <= storm.end for storm in found)


def _told(context: DetectionContext) -> set[int]:
    """Name the brokers of which it is told that they flap."""
    return {broker for finding in flapping_broker.find(context) for broker in finding.brokers}


def _finding(context: DetectionContext, replica: int, mine: Sequence[ShrinkRun]) -> Finding:
    limits = context.limits[NAME]
    most = sorted(mine, key=lambda run: (-run.count, run.subject))
    begin, end = min(run.begin for run in mine), max(run.end for run in mine)
    evidence = [row for run in most[:_SHOWN] for row in run.first]
    confidence, reason = context.confidence(begin, end, evidence, stated=True)
    names = sorted(run.subject[1] for run in mine)
    leaders = sorted({leader for run in mine for leader, _ in run.pairs})
    gaps = [run.max_lag for run in mine if run.max_lag is not None]
    many = quantity(len(names), "partition")
    return Finding(
        detector=NAME,
        severity=str(limits["severity"]),
        confidence=confidence,
        title=f"Broker {replica} fell out of sync and came back on {many},"
        f" up to {most[0].count} times each",
        begin=begin,
        end=end,
        evidence=evidence,
        brokers=[replica],
        partitions=names,
        measures={
            "slow_replica": replica,
            "cycles": most[0].count,
            "shrinks": sum(run.count for run in mine),
            "partitions": len(names),
            "leaders": leaders,
            "widest_gap": max(gaps, default=None),
        },
        explanation=_MECHANISM.format(replica=replica) + _gaps(mine, leaders),
        actions=_actions(context, replica, most[0].subject[1]),
        why=f"dropped {most[0].count} times from {most[0].subject[1]}, no two more than"
        f" {limits['gap']} s apart; {limits['cycles']} are too often",
        reason=reason,
        doubts=_DOUBTS,
    )


def _gaps(mine: Sequence[ShrinkRun], leaders: Sequence[int]) -> str:
    """Say what the gaps tell of the follower, and the leaders of the way between."""
    told = ""
    if all(run.caught_up == run.count for run in mine):
        told = " It had every record each time: it was paused or cut off for moments, not slow."
    elif (widest := max((run.max_lag or 0 for run in mine), default=0)) > 0:
        told = f" It was up to {widest:,} records behind: more is written than it can copy."
    if len(leaders) == 1:
        told += f" Only broker {leaders[0]} drops it: look at the way between the two as well."
    return told


def _actions(context: DetectionContext, replica: int, name: str) -> list[str]:
    topic = name.rpartition("-")[0]
    fetchers = context.commands.broker_config(replica, "num.replica.fetchers")
    return [
        f"{context.commands.topic(topic)}   # is broker {replica} in the ISR of {name} now?",
        f"{fetchers}   # one fetcher copies all of a leader's partitions, busy ones and others",
        "Do not raise replica.lag.time.max.ms to silence it: acknowledgements then wait longer.",
    ]


_MECHANISM = (
    "Each time broker {replica} does not catch up within replica.lag.time.max.ms its leader drops "
    "it, and takes it back once it has. In between, writes with acks=all wait for it, and one "
    "replica fewer is left to fail."
)
_DOUBTS = (
    "Kafka before 0.9 drops followers that are some thousand records behind: bursts are enough.",
    "A broker that holds far more partitions than others may be at its limit, and not at fault.",
)
