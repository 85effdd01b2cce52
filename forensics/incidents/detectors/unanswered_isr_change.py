"""Leaders that ask for another ISR and hear nothing: the way to the controller is stuck.

No error tells of it. Until there is an answer the leader holds on to followers that are gone, and
the high watermark stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forensics.incidents.answers import MOST, Asked, asked
from forensics.incidents.case import Case
from forensics.incidents.confidence import sureness
from forensics.incidents.finding import Finding
from forensics.incidents.needs import Needs

__all__ = ["find"]

NAME = "unanswered-isr-change"
# The leader's own log tells what it asks for.
NEEDS = Needs(("broker",), ("server",))
_MICROS = 1_000_000
_SHOWN = 40


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each leader."""
    limits = case.limits[NAME]
    every = asked(case)
    if all(one.answered is None for one in every):
        # Answers are not logged here at all (before Kafka 0.11 they never are).
        return
    late: dict[int, list[Asked]] = {}
    for one in every:
        if _is_late(case, one):
            late.setdefault(one.broker, []).append(one)
    for broker, mine in sorted(late.items()):
        if len(mine) >= limits["least"]:
            yield _finding(case, broker, mine)


def _is_late(case: Case, one: Asked) -> bool:
    """Whether an answer was due, and did not come."""
    until = one.at + case.limits[NAME]["wait"] * _MICROS
    if one.answered is not None and one.answered <= until:
        return False
    last = case.last_words.get(one.node or "")
    heard = last is not None and case.past.clocks.correct(one.node, last) > until
    away = any(
        absence.broker == one.broker
        and absence.begin <= until
        and (absence.end is None or absence.end >= one.at)
        for absence in case.away
    )
    return heard and not away


def _finding(case: Case, broker: int, mine: Sequence[Asked]) -> Finding:
    limits = case.limits[NAME]
    never = [one for one in mine if one.answered is None]
    begin = min(one.at for one in mine)
    end = case.end if never else max(one.answered or 0 for one in mine)
    waits = [(one.answered - one.at) / _MICROS for one in mine if one.answered is not None]
    evidence = case.places({"file": one.file, "line": one.line} for one in mine[:_SHOWN])
    confidence, reason = sureness(case, begin, mine[-1].at, evidence, stated=False)
    names = sorted({one.name for one in mine})
    many = f"{len(names)} partition{'' if len(names) == 1 else 's'}"
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
            f"{case.commands.controller()}   # is there one, and does it answer?",
            f"{case.commands.under_replicated()}   # if all are whole, it has passed",
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
