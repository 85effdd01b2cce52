"""Episodes of errors in clients, read in two passes: archives may hold millions of errors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, by_time, name_of

__all__ = ["Episode", "episodes", "meet_moves"]

_MICROS = 1_000_000
# Of errors and of moves so many of the first are kept as evidence.
_ERRORS, _MOVES = 40, 5
_ERROR_COLUMNS = ("node", "client", "ts", "topic", "partition", "file", "line", "text", "rule")
_MOVE_COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "previous_leader", "started_at", "election",
    "evidence",
)  # fmt: skip


@dataclass
class Episode:
    """Errors of one client that follow each other closely, and the moves of leaders near them."""

    node: str
    client: str
    begin: int
    end: int
    errors: int
    topics: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    first: list[Row] = field(default_factory=list)
    # the first moves, how any of them came about, and the last new leader before the end
    moves: list[Row] = field(default_factory=list)
    elections: set[tuple[str, int | None]] = field(default_factory=set)
    settled: int | None = None

    def take_error(self, row: Row) -> None:
        """Take one of the errors that the episode consists of."""
        if row["topic"]:
            self.topics.add(row["topic"])
        if row["partition"] is not None:
            self.partitions.add(name_of(row))
        self.first.append(row)
        if len(self.first) > 4 * _ERRORS:
            self.first = sorted(self.first, key=by_time)[:_ERRORS]

    def take_move(self, row: Row) -> None:
        """Take a change of leader that lies near, if it is about the episode's partitions."""
        if self.partitions and name_of(row) not in self.partitions:
            return
        self.elections.add((row["election"], row["previous_leader"]))
        self.moves.append(row)
        if len(self.moves) > 4 * _MOVES:
            self.moves = sorted(self.moves, key=_by_start)[:_MOVES]
        if (row["leader"] or -1) >= 0 and row["started_at"] <= self.end:
            self.settled = max(row["started_at"], self.settled or row["started_at"])


def episodes(case: Case, errors: Sequence[str], gap: float) -> list[Episode]:
    """Find the episodes of each client in turn: errors further apart than `gap` are two."""
    where = (pc.field("kind") == "client_error") & pc.field("error").isin(errors)
    where &= pc.field("ts").is_valid()
    found = _spans(case, where, round(gap * _MICROS))
    begins = {who: [one.begin for one in mine] for who, mine in found.items()}
    for row in case.each("events", where, _ERROR_COLUMNS):
        who = _who(row)
        found[who][bisect_right(begins[who], row["at"]) - 1].take_error(row)
    every = [one for who in sorted(found) for one in found[who]]
    for one in every:
        one.first = sorted(one.first, key=by_time)[:_ERRORS]
    return every


def _spans(case: Case, where: pc.Expression, gap: int) -> dict[tuple[str, str], list[Episode]]:
    """Read when each client had errors; within a stretch of `gap` they all belong together."""
    told: dict[tuple[str, str], dict[int, Episode]] = {}
    for row in case.each("events", where, ["node", "client", "ts"]):
        who, at = _who(row), row["at"]
        stretches = told.setdefault(who, {})
        one = stretches.get(at // max(gap, 1))
        if one is None:
            stretches[at // max(gap, 1)] = Episode(*who, at, at, 1)
        else:
            one.begin, one.end = min(at, one.begin), max(at, one.end)
            one.errors += 1
    return {who: list(_joined(told[who], gap)) for who in told}


def _joined(stretches: dict[int, Episode], gap: int) -> Iterator[Episode]:
    before: Episode | None = None
    for at in sorted(stretches):
        one = stretches[at]
        if before is not None and one.begin - before.end <= gap:
            before.end = one.end
            before.errors += one.errors
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before


def _who(row: Row) -> tuple[str, str]:
    return row["node"] or "", row["client"] or row["node"] or "unknown"


def meet_moves(case: Case, every: Sequence[Episode], near: float) -> None:
    """Tell each episode of the changes of leaders that lie near it, in one reading of them."""
    topics = sorted({topic for one in every for topic in one.topics})
    if not topics:
        return
    around = round(near * _MICROS)
    ordered = sorted(every, key=lambda one: one.begin)
    begins = [one.begin - around for one in ordered]
    ends = list(accumulate((one.end + around for one in ordered), max))
    topic, moment = pc.field("topic"), pc.field("started_at")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    where &= (moment >= _moment(begins[0])) & (moment <= _moment(ends[-1]))
    for row in case.each("leadership", where, _MOVE_COLUMNS):
        if row["leader"] == row["previous_leader"] or row["election"] == "initial":
            continue
        last = bisect_right(begins, row["started_at"]) - 1
        while last >= 0 and ends[last] >= row["started_at"]:
            one = ordered[last]
            if row["topic"] in one.topics and row["started_at"] <= one.end + around:
                one.take_move(row)
            last -= 1
    for one in every:
        one.moves = sorted(one.moves, key=_by_start)[:_MOVES]


def _by_start(row: Row) -> tuple[int, str, int]:
    return row["started_at"], name_of(row), row["leader_epoch"]


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.timestamp("us", tz="UTC"))
