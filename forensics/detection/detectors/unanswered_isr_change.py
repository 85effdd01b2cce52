"""Leaders that ask for another ISR and hear nothing: the way to the controller is stuck.

No error tells of it. Until there is an answer the leader holds on to followers that are gone, and
the high watermark stands still.

Which of the ISR changes that leaders asked for got an answer, and when.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, in_topics
from forensics.detection.requirements import LogRequirements
from forensics.lib.formatting import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

# Wishes that are looked at; more of them are told as storms.
MOST = 100_000
# Lines of one moment are not always written in its order.
_SLACK = SECOND


@dataclass(slots=True)
class Asked:
    """One wish for another ISR; times are corrected."""

    at: int
    broker: int
    node: str | None
    topic: str
    partition: int
    file: str
    line: int
    # when the ISR changed, or the wish was refused
    answered: int | None = None

    @property
    def name(self) -> str:
        """Name the partition as Kafka's tools do."""
        return f"{self.topic}-{self.partition}"


def asked(context: DetectionContext) -> list[Asked]:
    """Read the first wishes, as they stand in the table, and find the answer to each."""
    columns = ["ts", "node", "topic", "partition", "broker", "file", "line"]
    where = (pc.field("kind") == "isr_proposed") & pc.field("ts").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    found: dict[tuple[str, int], list[Asked]] = {}
    where &= pc.field("broker").is_valid()
    for row in islice(context.each("events", where, columns), MOST):
        one = Asked(row["at"], row["broker"], row["node"], row["topic"], row["partition"],
                    row["file"], row["line"])  # fmt: skip
        found.setdefault((one.topic, one.partition), []).append(one)
    for mine in found.values():
        mine.sort(key=lambda one: one.at)
    moments = {key: [one.at for one in mine] for key, mine in found.items()}
    for key, moment in _answers(context, found) if found else ():
        # It answers the last wish before it, and all before that were repeated in vain.
        mine, at = found[key], bisect_right(moments[key], moment + _SLACK) - 1
        while at >= 0 and ((known := mine[at].answered) is None or known > moment):
            mine[at].answered = moment
            at -= 1
    return sorted(
        (one for mine in found.values() for one in mine), key=lambda one: (one.at, one.name)
    )


def _answers(
    context: DetectionContext, keys: dict[tuple[str, int], list[Asked]]
) -> Iterator[tuple[tuple[str, int], int]]:
    """Give when the state of one of these partitions changed, or a wish was refused."""
    where = in_topics(topic for topic, _ in keys)
    for row in context.each("isr", where, ["topic", "partition", "started_at"]):
        key = row["topic"], row["partition"]
        if key in keys and row["started_at"] is not None:
            yield key, row["started_at"]
    refused = where & (pc.field("kind") == "isr_rejected") & pc.field("ts").is_valid()
    for row in context.each("events", refused, ["topic", "partition", "ts", "node"]):
        key = row["topic"], row["partition"]
        if key in keys:
            yield key, row["at"]


NAME = "unanswered-isr-change"
# The leader's own log tells what it asks for.
NEEDS = LogRequirements(("broker",), ("server",))
_SHOWN = 40


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each leader."""
    limits = context.limits[NAME]
    every = asked(context)
    if all(one.answered is None for one in every):
        # Answers are not logged here at all (before Kafka 0.11 they never are).
        return
    late: dict[int, list[Asked]] = {}
    for one in every:
        if _is_late(context, one):
            late.setdefault(one.broker, []).append(one)
    for broker, mine in sorted(late.items()):
        if len(mine) >= limits["least"]:
            yield _finding(context, broker, mine)


def _is_late(context: DetectionContext, one: Asked) -> bool:
    """Whether an answer was due, and did not come."""
    until = one.at + context.limits[NAME]["wait"] * SECOND
    if one.answered is not None and one.answered <= until:
        return False
    last = context.last_logged.get(one.node or "")
    heard = last is not None and context.history.clocks.correct(one.node, last) > until
    away = any(
        absence.broker == one.broker
        and absence.begin <= until
        and (absence.end is None or absence.end >= one.at)
        for absence in context.absences
    )
    return heard and not away


def _finding(context: DetectionContext, broker: int, mine: Sequence[Asked]) -> Finding:
    limits = context.limits[NAME]
    never = [one for one in mine if one.answered is None]
    begin = min(one.at for one in mine)
    end = context.logs_end if never else max(one.answered or 0 for one in mine)
    waits = [(one.answered - one.at) / SECOND for one in mine if one.answered is not None]
    evidence = context.read_lines({"file": one.file, "line": one.line} for one in mine[:_SHOWN])
    confidence, reason = context.confidence(begin, mine[-1].at, evidence, stated=False)
    names = sorted({one.name for one in mine})
    many = quantity(len(names), "partition")
    how = f"{len(never)} never" if never else f"after up to {max(waits):.0f} s"
    return Finding(
        detector=NAME,
        severity=str(limits["never" if never else "late"]),
        confidence=confidence,
        title=f"Broker {broker} asked {len(mine)} times to change the ISR of {many};"
        f" answered: {how}",
        begin=begin,
        end=max(begin, end),
        evidence=evidence,
        brokers=[broker],
        partitions=names,
        measures={
            "asked": len(mine),
            "never_answered": len(never),
            "longest_s": round(max(waits), 1) if waits else None,
            "partitions": len(names),
        },
        explanation=_MECHANISM.format(broker=broker),
        actions=[
            f"{context.commands.controller()}   # is there one, and does it answer?",
            f"{context.commands.under_replicated()}   # if all are whole, it has passed",
            _RESTART.format(broker=broker),
        ],
        why=f"{len(mine)} wishes without an answer within {limits['wait']} s; from"
        f" {limits['least']} on it is no line that got lost",
        reason=reason,
        doubts=_DOUBTS,
    )


_RESTART = (
    "If it goes on, restart broker {broker}, or move the controller: in the cases known only that "
    "helped."
)
_MECHANISM = (
    "Broker {broker} wanted to change ISRs, and neither the change nor a refusal is seen in time. "
    "Without an answer a leader still waits for followers that are gone: writes with acks=all time "
    "out though every broker seems well."
)
_DOUBTS = (
    f"Only the first {MOST:,} wishes of the archive are looked at.",
    "An answer whose line is missing from these logs.",
    "While controllers change nobody answers; look whether one did just then.",
)
