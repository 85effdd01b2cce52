"""Leaders that ask for another ISR and hear nothing: the way to the controller is stuck.

No error is logged. Until there is an answer the leader holds on to followers that are gone, and the
high watermark stands still.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, in_topics, partition_name
from forensics.detection.requirements import LogRequirements
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "unanswered-isr-change"
# The leader's own log has its proposals.
NEEDS = LogRequirements(("broker",), ("server",))
_SHOWN = 40
# How many proposals are looked at; more of them are reported as storms.
_MAX_PROPOSALS = 100_000
# Lines of one moment are not always written in its order.
_SLACK = SECOND


@dataclass(slots=True)
class _Proposal:
    """A leader's request for another ISR; times are corrected."""

    at: int
    broker: int
    node: str | None
    partition: str
    file: str
    line: int
    # when the ISR changed, or the proposal was refused
    answered_at: int | None = None


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each leader."""
    proposals = _read_proposals(context)
    if all(proposal.answered_at is None for proposal in proposals):
        # Answers are not logged here at all (before Kafka 0.11 they never are).
        return
    late: dict[int, list[_Proposal]] = defaultdict(list)
    for proposal in proposals:
        if _is_late(context, proposal):
            late[proposal.broker].append(proposal)
    for broker, own in sorted(late.items()):
        if len(own) >= context.limits[NAME]["least"]:
            yield _finding(context, broker, own)


def _read_proposals(context: DetectionContext) -> list[_Proposal]:
    """Read the first proposals, as they stand in the table, and find the answer to each."""
    columns = ["ts", "node", "topic", "partition", "broker", "file", "line"]
    where = (pc.field("kind") == "isr_proposed") & pc.field("ts").is_valid()
    for column in ("topic", "partition", "broker"):
        where &= pc.field(column).is_valid()
    found: dict[tuple[str, int], list[_Proposal]] = defaultdict(list)
    for row in islice(context.each("events", where, columns), _MAX_PROPOSALS):
        place = row["node"], partition_name(row), row["file"], row["line"]
        found[row["topic"], row["partition"]].append(_Proposal(row["at"], row["broker"], *place))
    for proposals in found.values():
        proposals.sort(key=lambda proposal: proposal.at)
    times = {key: [proposal.at for proposal in proposals] for key, proposals in found.items()}
    for key, moment in _read_answers(context, found) if found else ():
        # It answers the last proposal before it, and all before that were repeated in vain.
        proposals, index = found[key], bisect_right(times[key], moment + _SLACK) - 1
        while index >= 0 and ((known := proposals[index].answered_at) is None or known > moment):
            proposals[index].answered_at = moment
            index -= 1
    every = (proposal for proposals in found.values() for proposal in proposals)
    return sorted(every, key=lambda proposal: (proposal.at, proposal.partition))


def _read_answers(
    context: DetectionContext, keys: Collection[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield when the state of one of these partitions changed, or a proposal was refused."""
    where = in_topics(topic for topic, _ in keys)
    changed = where & pc.field("started_at").is_valid()
    for row in context.each("isr", changed, ["topic", "partition", "started_at"]):
        if (key := (row["topic"], row["partition"])) in keys:
            yield key, row["started_at"]
    refused = where & (pc.field("kind") == "isr_rejected") & pc.field("ts").is_valid()
    for row in context.each("events", refused, ["topic", "partition", "ts", "node"]):
        if (key := (row["topic"], row["partition"])) in keys:
            yield key, row["at"]


def _is_late(context: DetectionContext, proposal: _Proposal) -> bool:
    """Return True if an answer was due, and did not come."""
    until = proposal.at + context.limits[NAME]["wait"] * SECOND
    if proposal.answered_at is not None and proposal.answered_at <= until:
        return False
    last = context.last_logged.get(proposal.node or "")
    is_heard = last is not None and context.history.clocks.correct(proposal.node, last) > until
    return is_heard and not any(
        absence.begin <= until and (absence.end is None or absence.end >= proposal.at)
        for absence in context.absences
        if absence.broker == proposal.broker
    )


def _finding(context: DetectionContext, broker: int, proposals: Sequence[_Proposal]) -> Finding:
    limits = context.limits[NAME]
    never = [proposal for proposal in proposals if proposal.answered_at is None]
    begin = min(proposal.at for proposal in proposals)
    end = context.logs_end if never else max(proposal.answered_at or 0 for proposal in proposals)
    waits = [
        (proposal.answered_at - proposal.at) / SECOND
        for proposal in proposals
        if proposal.answered_at is not None
    ]
    evidence = context.read_lines(
        {"file": proposal.file, "line": proposal.line} for proposal in proposals[:_SHOWN]
    )
    names = sorted({proposal.partition for proposal in proposals})
    where = quantity(len(names), "partition")
    how = f"{len(never)} never" if never else f"after up to {max(waits):.0f} s"
    return context.finding(
        NAME,
        limits["never" if never else "late"],
        f"Broker {broker} asked {len(proposals)} times to change the ISR of {where};"
        f" answered: {how}",
        begin,
        max(begin, end),
        evidence,
        confidence=context.confidence(begin, proposals[-1].at, evidence, stated=False),
        brokers=[broker],
        partitions=names,
        measures={
            "asked": len(proposals),
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
        why=f"{len(proposals)} wishes without an answer within {limits['wait']} s; from"
        f" {limits['least']} on it is no line that got lost",
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
    f"Only the first {_MAX_PROPOSALS:,} wishes of the archive are looked at.",
    "An answer whose line is missing from these logs.",
    "While controllers change nobody answers; look whether one did just then.",
)
