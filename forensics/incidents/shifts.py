"""The moves of leaders that findings may have come of: whom they left, and which were planned."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from forensics.incidents.case import Case, Row, name_of
from forensics.incidents.finding import Finding

__all__ = ["Shift", "Shifts"]

_MICROS = 1_000_000
# Of so many partitions so many moves are looked at; what lies beyond is told by no chain.
_PARTITIONS, _ROWS = 2000, 100_000
_STROKE = 60 * _MICROS
# A leader moves when the cluster has noticed, and back when the broker has.
_BLUR = 1 * _MICROS
_COLUMNS = ("topic", "partition", "leader", "previous_leader", "started_at", "election",
            "evidence")  # fmt: skip
_PLANNED = {"preferred": "Preferred election", "reassignment": "Reassignment"}
_COORDINATOR = "__consumer_offsets"
_GROUPS = "rebalance-storm"
# Whose partitions are asked for.
_ASKING = ("stale-metadata", "leader-not-available", "offline-partitions", "leader-imbalance",
           "under-min-isr", "isr-storm", "isr-flapping")  # fmt: skip


@dataclass(frozen=True)
class Shift:
    """Leaders moved on purpose, all in one stroke."""

    election: str
    begin: int
    end: int
    partitions: frozenset[str]
    place: Row | None

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
    _left: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    _back: dict[tuple[str, int], Row] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, findings: Sequence[Finding]) -> Shifts:
        """Read the moves of the partitions that findings are about, in one pass."""
        found = cls()
        planned: dict[str, list[Row]] = {}
        for row in islice(_rows(case, findings), _ROWS):
            name, start = name_of(row), row["started_at"]
            if row["election"] in _PLANNED:
                planned.setdefault(row["election"], []).append(row)
            elif row["previous_leader"] == -1 and (row["leader"] or -1) >= 0:
                found._back[name, start] = row
            elif row["previous_leader"] is not None:
                found._left.setdefault(row["previous_leader"], []).append((start, name))
        strokes = [stroke for kind in sorted(planned) for stroke in _strokes(planned[kind])]
        ends = {finding.end for finding in findings if finding.detector == "offline-partitions"}
        found._back = {key: row for key, row in found._back.items() if key[1] in ends}
        evidence = [*(one[0] for one in strokes), *found._back.values()]
        told = _told(case, evidence)
        found._back = {key: told[_line(row)] for key, row in found._back.items() if _line(row) in told}
        found.planned = [_shift(rows, told) for rows in strokes]
        return found

    def moved(self, broker: int, begin: int, end: int) -> frozenset[str]:
        """Name the partitions that got another leader while a broker was away."""
        left = self._left.get(broker, ())
        return frozenset(name for at, name in left if begin - _BLUR <= at <= end + _BLUR)

    def regained(self, partitions: Collection[str], moment: int) -> Row | None:
        """Find the line by which the last of some partitions got a leader again."""
        found = (self._back.get((name, moment)) for name in sorted(partitions))
        return next((one for one in found if one is not None), None)


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
    where &= (start >= _moment(low)) & (start <= _moment(high)) & (pc.field("election") != "initial")
    names = pa.array(wanted, pa.string())
    for batch in case.batches("leadership", where, _COLUMNS):
        numbers = batch["partition"].cast(pa.string())
        mine = pc.is_in(pc.binary_join_element_wise(batch["topic"], numbers, "-"), names)
        if offsets:
            mine = pc.or_(mine, pc.equal(batch["topic"], _COORDINATOR))
        starts = batch["started_at"].cast(pa.int64())
        for row, at in zip(batch.filter(mine).to_pylist(), starts.filter(mine), strict=True):
            if row["leader"] != row["previous_leader"]:
                yield row | {"started_at": at.as_py()}


def _strokes(rows: Sequence[Row]) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda one: (one["started_at"], name_of(one))):
        if groups and row["started_at"] - groups[-1][-1]["started_at"] <= _STROKE:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _shift(rows: Sequence[Row], told: dict[tuple[str, int], Row]) -> Shift:
    return Shift(
        rows[0]["election"],
        rows[0]["started_at"],
        rows[-1]["started_at"],
        frozenset(name_of(row) for row in rows),
        told.get(_line(rows[0])),
    )


def _told(case: Case, rows: Iterable[Row]) -> dict[tuple[str, int], Row]:
    lines = (row["evidence"][0] for row in rows if row["evidence"])
    return {(one["file"], one["line"]): one for one in case.places(lines) if "at" in one}


def _line(row: Row) -> tuple[str, int]:
    told = row["evidence"]
    return (told[0]["file"], told[0]["line"]) if told else ("", -1)


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(micros, pa.timestamp("us", tz="UTC"))
