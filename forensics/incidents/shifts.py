"""The moves of leaders that findings may have come of: whom they left, and which were planned."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of
from forensics.incidents.finding import Finding

__all__ = ["LeaderAndEpoch", "Shift", "Shifts"]

_MICROS = 1_000_000
# Of so many partitions so many moves are looked at; what lies beyond is told by no chain.
_PARTITIONS, _ROWS = 2000, 100_000
_STROKE = 60 * _MICROS
# Clients' clocks, which nothing corrects, and those who tell of a move may be off by this much.
_BLUR = 2 * _MICROS
_PLANNED_COLUMNS = ("topic", "partition", "leader", "previous_leader", "started_at", "election")
_PLANNED = {"preferred": "Preferred election", "reassignment": "Reassignment"}
_COORDINATOR = "__consumer_offsets"
_GROUPS = "rebalance-storm"
# Whose partitions are asked for.
_ASKING = ("stale-metadata", "leader-not-available", "offline-partitions", "leader-imbalance",
           "under-min-isr", "isr-storm", "isr-flapping")  # fmt: skip


# A partition, and when its leader moved.
LeaderAndEpoch = tuple[str, int]


@dataclass(frozen=True)
class Shift:
    """Leaders moved on purpose, all in one stroke."""

    election: str
    begin: int
    end: int
    moves: frozenset[LeaderAndEpoch]
    place: Row | None

    @property
    def partitions(self) -> frozenset[str]:
        """Whose leaders they were."""
        return frozenset(name for name, _ in self.moves)

    @property
    def id(self) -> str:
        """A name that stays the same between runs."""
        text = repr([self.election, sorted(self.partitions), self.begin // _MICROS])
        return "M-" + hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def title(self) -> str:
        """Say it in a line."""
        count = len(self.partitions)
        return f"{_PLANNED[self.election]} of {count} partition{'' if count == 1 else 's'}"


@dataclass
class Shifts:
    """What was read of the moves, and questions to it."""

    planned: Sequence[Shift] = ()
    # when the leader of each partition moved, and each broker's losses, all in order
    _starts: dict[str, list[int]] = field(default_factory=dict)
    _left: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _back: dict[tuple[str, int], Row] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, findings: Sequence[Finding]) -> Shifts:
        """Read the moves of the partitions that findings are about, in one pass."""
        found = cls()
        planned: dict[str, list[Row]] = {}
        moves: dict[str, list[tuple[int, int]]] = {}
        for row in islice(_rows(case, findings), _ROWS):
            name, start = name_of(row), row["started_at"]
            before = row["previous_leader"]
            if row["election"] in _PLANNED:
                planned.setdefault(row["election"], []).append(row)
            if before == -1 and (row["leader"] or -1) >= 0:
                found._back[name, start] = row
            moves.setdefault(name, []).append((start, -1 if before is None else before))
        for name in sorted(moves):
            followed = _followed(moves[name])
            found._starts[name] = [at for at, _ in followed]
            for at, left in followed:
                found._left.setdefault(left, []).append((at, name))
        found._left = {broker: sorted(lost) for broker, lost in found._left.items()}
        strokes = [stroke for kind in sorted(planned) for stroke in _strokes(planned[kind])]
        ends = {finding.end for finding in findings if finding.detector == "offline-partitions"}
        found._back = {key: row for key, row in found._back.items() if key[1] in ends}
        evidence = [*(one[0] for one in strokes), *found._back.values()]
        told = _told(case, evidence)
        found._back = {key: told[key] for key in found._back if key in told}
        found.planned = [_shift(rows, told) for rows in strokes]
        return found

    def moved(self, broker: int, begin: int, end: int) -> frozenset[LeaderAndEpoch]:
        """Give the moves away from a broker while it was gone."""
        lost = self._left.get(broker, ())
        first = bisect_left(lost, (begin - _BLUR, ""))
        last = bisect_left(lost, (end + _BLUR + 1, ""))
        return frozenset((name, at) for at, name in lost[first:last])

    def behind(self, partitions: Collection[str], moment: int) -> frozenset[LeaderAndEpoch]:
        """Give the last move of each partition before a moment, or just about then."""
        found = set()
        for name in partitions:
            starts = self._starts.get(name, ())
            if last := bisect_right(starts, moment + _BLUR):
                found.add((name, starts[last - 1]))
        return frozenset(found)

    def regained(self, partitions: Collection[str], moment: int) -> Row | None:
        """Find the line by which the last of some partitions got a leader again."""
        found = (self._back.get((name, moment)) for name in sorted(partitions))
        return next((one for one in found if one is not None), None)


def _followed(moves: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Order moves; one from no leader at all left whom the move before it left."""
    found: list[tuple[int, int]] = []
    for at, left in sorted(moves):
        found.append((at, found[-1][1] if left == -1 and found else left))
    return found


def _wanted(findings: Sequence[Finding]) -> list[str]:
    asking = [one for one in findings if one.detector in _ASKING]
    return sorted({name for one in asking for name in one.partitions})[:_PARTITIONS]


def _rows(case: Case, findings: Sequence[Finding]) -> Iterator[Row]:
    """Read the moves of some partitions, and of coordinators where groups have trouble."""
    wanted = _wanted(findings)
    offsets = any(finding.detector == _GROUPS for finding in findings)
    topics = {name.rpartition("-")[0] for name in wanted} | ({_COORDINATOR} if offsets else set())
    if not topics:
        return
    topic, start = pc.field("topic"), pc.field("started_at")
    low = min(finding.begin for finding in findings) - _STROKE
    high = max(finding.end for finding in findings) + _STROKE
    where = topic.isin(sorted(topics)) & (topic >= min(topics)) & (topic <= max(topics))
    where &= (
        (start >= _moment(low)) & (start <= _moment(high)) & (pc.field("election") != "initial")
    )
    names = pa.array(wanted, pa.string())
    for batch in case.batches("leadership", where, _PLANNED_COLUMNS):
        numbers = batch["partition"].cast(pa.string())
        mine = pc.is_in(pc.binary_join_element_wise(batch["topic"], numbers, "-"), names)
        if offsets:
            mine = pc.or_(mine, pc.equal(batch["topic"], _COORDINATOR))
        at = batch.schema.get_field_index("started_at")
        starts = batch["started_at"].cast(pa.int64())
        for row in batch.set_column(at, "started_at", starts).filter(mine).to_pylist():
            if row["leader"] != row["previous_leader"]:
                yield row


def _strokes(rows: Sequence[Row]) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda one: (one["started_at"], name_of(one))):
        if groups and row["started_at"] - groups[-1][-1]["started_at"] <= _STROKE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _shift(rows: Sequence[Row], told: dict[LeaderAndEpoch, Row]) -> Shift:
    return Shift(
        rows[0]["election"],
        rows[0]["started_at"],
        rows[-1]["started_at"],
        frozenset((name_of(row), row["started_at"]) for row in rows),
        told.get(_move(rows[0])),
    )


def _told(case: Case, rows: Sequence[Row]) -> dict[LeaderAndEpoch, Row]:
    """Look up the first line that tells of each of some moves."""
    wanted = {_move(row) for row in rows}
    if not wanted:
        return {}
    topics, moments = {row["topic"] for row in rows}, {at for _, at in wanted}
    where = pc.field("topic").isin(sorted(topics))
    where &= pc.field("started_at").isin(pa.array(sorted(moments), pa.timestamp("us", "UTC")))
    columns = ["topic", "partition", "started_at", "evidence"]
    lines = {
        _move(row): (row["evidence"][0]["file"], row["evidence"][0]["line"])
        for row in case.each("leadership", where, columns)
        if row["evidence"] and _move(row) in wanted
    }
    named = ({"file": file, "line": line} for file, line in lines.values())
    found = {(one["file"], one["line"]): one for one in case.places(named) if "at" in one}
    return {move: found[line] for move, line in lines.items() if line in found}


def _move(row: Row) -> LeaderAndEpoch:
    return name_of(row), row["started_at"]


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.timestamp("us", tz="UTC"))
