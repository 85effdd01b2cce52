"""Followers that leaders dropped from their ISR for lagging, grouped in time.

Only a leader's own line tells of that: a broker that is fenced or stops is taken out of every ISR
by the controller, which says nothing of how well it kept up.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from forensics.history.lanes import Absence
from forensics.incidents.case import Case, Row, by_time, name_of
from forensics.incidents.refusals import looping

__all__ = ["Drop", "Run", "runs"]

_MICROS = 1_000_000
# Of the drops of a run so many of the first give it their lines, and so many partitions a name.
_KEPT, _NAMES = 40, 10_000
_SHRINK_COLUMNS = (
    "ts", "node", "file", "line", "text", "rule", "topic", "partition", "broker", "previous_isr",
    "isr", "log_end", "detail",
)  # fmt: skip
_POSITION = re.compile(r"brokerId: (\d+), endOffset: (-?\d+)")

Subject = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """One line by which a leader drops followers from the ISR of one partition."""

    at: int
    leader: int
    replicas: Sequence[int]
    partition: str
    # how many records the last of them was behind, where the line says so
    gap: int | None
    # whether one of those concerned hung or died around that moment
    excused: bool
    row: Row


@dataclass
class Run:
    """Drops of one subject that follow each other closely; times are corrected."""

    subject: Subject
    begin: int
    end: int
    count: int
    # who dropped whom, and how often; and how often each partition lost somebody
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    # in how many drops the followers had all records, and the most that one was behind
    level: int = 0
    widest: int | None = None
    excused: int = 0
    first: list[Row] = field(default_factory=list)

    def take(self, drop: Drop) -> None:
        """Take one of the drops of the run."""
        self.pairs.update((drop.leader, replica) for replica in drop.replicas)
        if drop.partition in self.partitions or len(self.partitions) < _NAMES:
            self.partitions[drop.partition] += 1
        if drop.gap is not None:
            self.level += drop.gap == 0
            self.widest = max(drop.gap, self.widest or 0)
        self.excused += drop.excused
        self.first.append(drop.row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]

    def blamed(self) -> tuple[list[int], list[int]]:
        """Name the followers that were slow, and the leaders that nobody could read from.

        Many leaders that drop one follower speak of that follower; one leader that drops many
        speaks of itself.
        """
        by = Counter(replica for _, replica in self.pairs)
        of = Counter(leader for leader, _ in self.pairs)
        slow = {replica for leader, replica in self.pairs if by[replica] >= of[leader]}
        cut_off = {leader for leader, replica in self.pairs if by[replica] < of[leader]}
        return sorted(slow), sorted(cut_off)


def runs(
    case: Case,
    of: Callable[[Drop], Iterable[Subject]],
    gap: float,
    least: int,
    near: float,
) -> list[Run]:
    """Group the drops of each subject that are no further than `gap` seconds apart.

    Left out is who was on its way down or up on purpose, within `near` seconds, and what a leader
    says that is none. A drop of one that went in another way is excused: that is told elsewhere.
    """
    reasons = _Reasons(case, round(near * _MICROS))
    found = _spans(case, of, round(gap * _MICROS), least, reasons)
    begins = {who: [one.begin for one in mine] for who, mine in found.items()}
    for drop in _drops(case, reasons) if found else ():
        for who in of(drop):
            at = bisect_right(begins.get(who, ()), drop.at) - 1
            if at >= 0 and drop.at <= found[who][at].end:
                found[who][at].take(drop)
    every = [one for mine in found.values() for one in mine]
    for one in every:
        one.first = sorted(one.first, key=by_time)[:_KEPT]
    return sorted(every, key=lambda one: (one.begin, repr(one.subject)))


class _Reasons:
    """How brokers were away, around the moments at which they are dropped or drop others.

    The leader notices a lag only after its time-out, and a follower that is back still has to read.
    A leader that hung finds on waking that nobody has fetched from it.
    """

    def __init__(self, case: Case, reach: int) -> None:
        self._reach = reach
        # A leader that is refused again and again leads in its own eyes only.
        self.void = looping(case)
        self._away: dict[int, list[Absence]] = {}
        for one in case.away:
            self._away.setdefault(one.broker, []).append(one)

    def of(self, broker: int, moment: int) -> set[str]:
        """Say how a broker was away around a moment."""
        return {
            one.kind
            for one in self._away.get(broker, ())
            if one.begin - self._reach <= moment
            and (one.end is None or moment <= one.end + self._reach)
        }


def _drops(case: Case, reasons: _Reasons) -> Iterator[Drop]:
    """Read every drop that no planned stop or start explains."""
    shorter = pc.list_value_length(pc.field("isr")) < pc.list_value_length(pc.field("previous_isr"))
    where = (pc.field("kind") == "isr_proposed") & shorter & pc.field("ts").is_valid()
    for row in case.each("events", where, _SHRINK_COLUMNS):
        leader, at = row["broker"], row["at"]
        if None in (leader, row["topic"], row["partition"]):
            continue
        dropped = {
            replica: reasons.of(replica, at)
            for replica in sorted(set(row["previous_isr"]) - set(row["isr"]))
        }
        left = {who: why for who, why in dropped.items() if "controlled" not in why}
        why = reasons.of(leader, at)
        if left and "controlled" not in why and (leader, name_of(row)) not in reasons.void:
            excused = bool(why) or all(left.values())
            yield Drop(at, leader, list(left), name_of(row), _gap(row, left), excused, row)


def _gap(row: Row, replicas: Iterable[int]) -> int | None:
    """How far behind the last of them was; an end of -1 is one that has not fetched here yet."""
    ends = {int(who): int(end) for who, end in _POSITION.findall(row["detail"] or "")}
    known = [ends[one] for one in replicas if ends.get(one, -1) >= 0]
    return max(0, row["log_end"] - min(known)) if known and row["log_end"] is not None else None


def _spans(
    case: Case, of: Callable[[Drop], Iterable[Subject]], gap: int, least: int, reasons: _Reasons
) -> dict[Subject, list[Run]]:
    """Read when each subject had drops; within a stretch of `gap` they all belong together."""
    told: dict[Subject, dict[int, Run]] = {}
    for drop in _drops(case, reasons):
        for who in of(drop):
            stretches = told.setdefault(who, {})
            one = stretches.get(drop.at // max(gap, 1))
            if one is None:
                stretches[drop.at // max(gap, 1)] = Run(who, drop.at, drop.at, 1)
            else:
                one.begin, one.end = min(drop.at, one.begin), max(drop.at, one.end)
                one.count += 1
    joined = {who: [one for one in _joined(told[who], gap) if one.count >= least] for who in told}
    return {who: mine for who, mine in joined.items() if mine}


def _joined(stretches: dict[int, Run], gap: int) -> list[Run]:
    found: list[Run] = []
    for at in sorted(stretches):
        one = stretches[at]
        if found and one.begin - found[-1].end <= gap:
            found[-1].end = one.end
            found[-1].count += one.count
        else:
            found.append(one)
    return found
