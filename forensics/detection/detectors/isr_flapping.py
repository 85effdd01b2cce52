"""Partitions whose ISR shrinks and grows again and again, and the follower that is too slow.

What is part of a storm of shrinks, or of a flapping broker, is reported there only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.flapping_brokers import find_flapping_absences, find_isr_flapping
from forensics.detection.shared.isr_changes import (
    ShrinkRun,
    find_isr_storms,
    find_shrink_runs,
    lag_time_text,
)
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

NAME = "isr-flapping"
# Only the leader's own log says that it drops a follower.
NEEDS = LogRequirements(("broker",), ("server",))
# The first lines of so many partitions are evidence.
_SHOWN = 10


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each follower."""
    limits = context.limits[NAME]
    runs = find_shrink_runs(
        context,
        lambda shrink: [(replica, shrink.partition) for replica in shrink.replicas],
        limits["gap"],
        limits["cycles"],
        limits["near"],
    )
    own = [run for run in runs if 2 * run.excused < run.count]
    storms = find_isr_storms(context) if own else []
    own = [
        run
        for run in own
        if not any(storm.begin <= run.begin and run.end <= storm.end for storm in storms)
    ]
    for replica in sorted({run.subject[0] for run in own} - _flapping_brokers(context, own)):
        yield _finding(context, replica, [run for run in own if run.subject[0] == replica])


def _flapping_brokers(context: DetectionContext, runs: Sequence[ShrinkRun]) -> set[int]:
    """Return the brokers that are reported as flapping."""
    if not runs:
        return set()
    absences = find_flapping_absences(context)
    return {*absences, *(flapping.broker for flapping in find_isr_flapping(context, absences))}


def _finding(context: DetectionContext, replica: int, runs: Sequence[ShrinkRun]) -> Finding:
    limits = context.limits[NAME]
    worst = sorted(runs, key=lambda run: (-run.count, run.subject))
    begin, end = min(run.begin for run in runs), max(run.end for run in runs)
    evidence = [row for run in worst[:_SHOWN] for row in run.first]
    names = sorted(run.subject[1] for run in runs)
    leaders = sorted({leader for run in runs for leader, _ in run.pairs})
    lags = [run.max_lag for run in runs if run.max_lag is not None]
    many = quantity(len(names), "partition")
    return context.finding(
        NAME,
        limits["severity"],
        f"Broker {replica} fell out of sync and came back on {many},"
        f" up to {worst[0].count} times each",
        begin,
        end,
        evidence,
        brokers=[replica],
        partitions=names,
        measures={
            "slow_replica": replica,
            "cycles": worst[0].count,
            "shrinks": sum(run.count for run in runs),
            "partitions": len(names),
            "leaders": leaders,
            "widest_gap": max(lags, default=None),
        },
        explanation=_MECHANISM.format(replica=replica)
        + _describe_lags(runs, leaders)
        + lag_time_text(context),
        actions=_actions(context, replica, worst[0].subject[1]),
        why=f"dropped {worst[0].count} times from {worst[0].subject[1]}, no two more than"
        f" {limits['gap']} s apart; {limits['cycles']} are too often",
        doubts=_DOUBTS,
    )


def _describe_lags(runs: Sequence[ShrinkRun], leaders: Sequence[int]) -> str:
    """Describe what the lags say about the follower, and the leaders about the way between."""
    text = ""
    if all(run.caught_up == run.count for run in runs):
        text = " It had every record each time: it was paused or cut off for moments, not slow."
    elif (max_lag := max((run.max_lag or 0 for run in runs), default=0)) > 0:
        text = f" It was up to {max_lag:,} records behind: more is written than it can copy."
    if len(leaders) == 1:
        text += f" Only broker {leaders[0]} drops it: look at the way between the two as well."
    return text


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
