"""Leaders that drop followers from the ISR in great numbers: many partitions, or one and the same.

Replicas that the controller removes when a broker stops or is fenced do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.detection.context import DetectionContext
from forensics.detection.requirements import LogRequirements
from forensics.detection.shared.isr_changes import (
    IsrRecovery,
    ShrinkRun,
    find_isr_storms,
    find_recovery,
    lag_time_text,
)
from forensics.lib.text_format import brokers_text, count, quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "isr-storm"
# Only the leader's own log says that it drops a follower.
NEEDS = LogRequirements(("broker",), ("server",))


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each run of drops."""
    for run in find_isr_storms(context):
        yield _finding(context, run, find_recovery(context, run.partitions, run.begin, run.end))


def _finding(context: DetectionContext, run: ShrinkRun, recovery: IsrRecovery) -> Finding:
    limits = context.limits[NAME]
    slow, cut_off = run.blame()
    names = sorted(run.partitions)
    recovered_at = context.logs_end if recovery.still_short else recovery.recovered_at
    seconds = round((recovered_at - run.begin) / SECOND, 1)
    level = "long" if seconds > limits["lasting"] else "short"
    return context.finding(
        NAME,
        limits["excused" if 2 * run.excused >= run.count else level],
        _title(run, slow, cut_off),
        run.begin,
        max(run.end, context.logs_end) if recovery.still_short else recovery.recovered_at,
        run.first,
        confidence=context.confidence(run.begin, run.end, run.first, stated=True),
        brokers=sorted({*slow, *cut_off}),
        partitions=names,
        measures={
            "shrinks": run.count,
            "expands": recovery.expands,
            "partitions": len(names),
            "slow_replicas": slow,
            "cut_off_leaders": cut_off,
            "most_of_one_partition": max(run.partitions.values()),
            "widest_gap": run.max_lag,
            "still_short": len(recovery.still_short),
        },
        explanation=_explanation(run, slow, cut_off, recovery) + lag_time_text(context),
        actions=_actions(context, slow or cut_off, is_excused=2 * run.excused >= run.count),
        why=f"{run.count} times a leader dropped a follower, no two more than {limits['gap']} s"
        f" apart; limit: {limits['shrinks']}. After {seconds} s all were in sync again, or the logs"
        f" end; limit: {limits['lasting']} s",
        doubts=_DOUBTS,
    )


def _title(run: ShrinkRun, slow: Sequence[int], cut_off: Sequence[int]) -> str:
    count = len(run.partitions)
    dropped = brokers_text(slow) if slow else f"the followers of {brokers_text(cut_off)}"
    where = quantity(count, "partition")
    title = f"{dropped} dropped from the ISR {run.count} times on {where}"
    return title[0].upper() + title[1:]


def _explanation(
    run: ShrinkRun, slow: Sequence[int], cut_off: Sequence[int], recovery: IsrRecovery
) -> str:
    parts = [_MECHANISM]
    if slow:
        parts.append(_SLOW.format(who=brokers_text(slow)))
    if cut_off:
        parts.append(_CUT_OFF.format(who=brokers_text(cut_off).capitalize()))
    if run.caught_up == run.count:
        parts.append(_LEVEL)
    elif run.max_lag:
        parts.append(f"The widest gap logged is {count(run.max_lag, 'record')}.")
    if 2 * run.excused >= run.count:
        parts.append(_EXCUSED)
    if recovery.still_short:
        parts.append(
            f"{len(recovery.still_short)} of these partitions still lack replicas at the end."
        )
    return " ".join(parts)


def _actions(context: DetectionContext, brokers: Sequence[int], *, is_excused: bool) -> list[str]:
    was_cut_off = any(
        one.broker == brokers[0] and one.kind == "isolated" for one in context.absences
    )
    return [
        f"{context.commands.under_replicated()}   # does it name broker {brokers[0]} again?",
        (_NETWORK if was_cut_off else _SEE if is_excused else _LOOK).format(broker=brokers[0]),
        "Do not raise replica.lag.time.max.ms to silence it: acknowledgements then wait longer.",
    ]


_SEE = "See the finding about broker {broker}: its absences are behind this."
_NETWORK = "See the finding that broker {broker} was cut off: its network, not its disk."
_LOOK = (
    "On the host of broker {broker}, for those minutes: disk latency (sar -d), network errors and "
    "throughput (sar -n EDEV,DEV), and the broker's garbage collection log."
)


_MECHANISM = (
    "A leader drops a follower that has not caught up for replica.lag.time.max.ms. Until it is "
    "back, the partition has fewer copies, and writes with acks=all may be rejected."
)
_SLOW = "Other leaders dropped {who}: it was slow, frozen or cut off."
_CUT_OFF = "{who} dropped several others at once: it froze or was cut off; they are well."
_LEVEL = "The dropped followers had every record: they were frozen or cut off, not slow."
_EXCUSED = (
    "Most of it comes of brokers that froze, crashed or were cut off: see the findings on these."
)
_DOUBTS = (
    "A broker whose own log is not here may have been restarted on purpose.",
    "A drop that the controller then refused is counted, too.",
)
