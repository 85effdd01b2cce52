"""When each broker was away, how it left, and what it lost and regained by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.run_output.partition_histories import Ints, IsrCodes, read_isr_histories
from forensics.run_output.reader import Row, RunOutput

COLUMNS = ("node", "broker", "state", "started_at", "ended_at", "evidence")
LED = ("leader", "previous_leader", "started_at")
# Others notice that a broker is gone a little before or after its own last line.
AROUND = 2000
UP = "up"
# What a way of leaving is called, the most telling state first.
WAYS = (
    ("crashed", "crash"),
    ("paused", "pause"),
    ("fenced", "fenced"),
    ("stopping", "clean shutdown"),
    ("stopped", "clean shutdown"),
)


@dataclass(frozen=True)
class BrokerAbsence:
    """One stretch in which a broker did not serve; times in milliseconds, None is not known."""

    left_at: int | None
    back_at: int | None
    kind: str
    first_line: str = ""
    leaders: tuple[int, int] = (0, 0)
    isrs: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class BrokerLifecycle:
    """One broker: its states in the order of time, and its absences."""

    name: str
    broker: int | None
    states: Sequence[Row]
    absences: Sequence[BrokerAbsence] = ()

    @property
    def sort_key(self) -> tuple[int, int, int]:
        """How bad: unplanned absences, time away by them, all absences."""
        bad = [one for one in self.absences if one.kind != "clean shutdown"]
        away = sum(one.back_at - one.left_at for one in bad if one.left_at and one.back_at)
        return len(bad), away, len(self.absences)


def read_lifecycles(run: RunOutput) -> list[BrokerLifecycle]:
    """Give every broker, those first that were away unplanned, and longest."""
    rows: dict[tuple[int | None, str], list[Row]] = {}
    for row in run.rows("lanes", COLUMNS, ds.field("role") == "broker"):
        key = (row["broker"], "" if row["broker"] is not None else str(row["node"]))
        rows.setdefault(key, []).append(row)
    moves = _Moves(run) if rows else None
    found = []
    for (number, node), mine in rows.items():
        mine.sort(key=lambda row: (row["started_at"] or 0, row["ended_at"] or 1 << 60))
        name = node if number is None else f"broker {number}"
        away = list(_absences(mine))
        told = moves.told(number, away) if moves and number is not None else away
        found.append(BrokerLifecycle(name, number, mine, told))
    return sorted(found, key=_rank)


def _rank(life: BrokerLifecycle) -> tuple[list[int], int, str]:
    return [-part for part in life.sort_key], -1 if life.broker is None else life.broker, life.name


def _absences(rows: Sequence[Row]) -> Iterator[BrokerAbsence]:
    """Cut a life at the stretches in which the broker served."""
    served, run = False, list[Row]()
    for row in rows:
        if row["state"] != UP:
            run.append(row)
            continue
        # A first start is no return.
        if served and run:
            yield _absence(run, row["started_at"])
        served, run = True, []
    if served and run:
        yield _absence(run, None)


def _absence(run: Sequence[Row], back: int | None) -> BrokerAbsence:
    seen = {row["state"] for row in run}
    how = next((name for state, name in WAYS if state in seen), "not known")
    places = run[0]["evidence"] or [{}]
    place = f"{places[0].get('file')}:{places[0].get('line')}" if places[0].get("file") else ""
    return BrokerAbsence(run[0]["started_at"], back, how, place)


@dataclass
class _Turns:
    """When a broker lost something, and when it got it, in the order of time."""

    lost: list[Ints] = field(default_factory=list)
    got: list[Ints] = field(default_factory=list)

    def counted(self, absence: BrokerAbsence, until: int | None) -> tuple[int, int]:
        left = 0 if absence.left_at is None else absence.left_at - AROUND
        back = 1 << 60 if absence.back_at is None else absence.back_at
        end = 1 << 60 if until is None else until
        return _within(self.lost, left, back), _within(self.got, back - AROUND, end)


def _within(parts: Sequence[Ints], first: int, last: int) -> int:
    return sum(int(((part >= first) & (part < last)).sum()) for part in parts)


class _Moves:
    """Every change of leaders and of ISRs, by the broker that it is about."""

    def __init__(self, run: RunOutput) -> None:
        self._leaders: dict[int, _Turns] = {}
        self._isrs: dict[int, _Turns] = {}
        for part in run.chunks("leadership", LED):
            rows = part.filter(pc.is_valid(part["started_at"]))
            one, other, at = (_ints(rows, name) for name in ("previous_leader", "leader", LED[2]))
            self._take(self._leaders, one, other, at)
        if run.window:
            self._shift(run, run.window)

    @staticmethod
    def _take(into: dict[int, _Turns], before: Ints, after: Ints, at: Ints) -> None:
        changed = before != after
        for number in np.unique(np.concatenate([before[changed], after[changed]])):
            if number >= 0:
                turns = into.setdefault(int(number), _Turns())
                turns.lost.append(at[changed & (before == number)])
                turns.got.append(at[changed & (after == number)])

    def _shift(self, run: RunOutput, whole: tuple[int, int]) -> None:
        """Compare each ISR with the one after it; there are few different pairs of them."""
        codes = IsrCodes()
        pairs: list[Ints] = []
        for one in read_isr_histories(run, whole, codes):
            known, starts = one.columns[0], one.columns[3]
            if len(known) > 1:
                pairs.append(np.stack([known[:-1], known[1:], starts[1:]]))
        if not pairs:
            return
        every = np.concatenate(pairs, axis=1)
        every = every[:, (every[0] != every[1]) & (every[0] >= 0) & (every[1] >= 0)]
        isrs = [set(isr) for isr in codes.isrs]
        for one_code, other_code in np.unique(every[:2], axis=1).T.tolist():
            at = every[2][(every[0] == one_code) & (every[1] == other_code)]
            for number in isrs[one_code] - isrs[other_code]:
                self._isrs.setdefault(number, _Turns()).lost.append(at)
            for number in isrs[other_code] - isrs[one_code]:
                self._isrs.setdefault(number, _Turns()).got.append(at)

    def told(self, number: int, away: Sequence[BrokerAbsence]) -> list[BrokerAbsence]:
        """Say for each absence what the broker lost by it, and regained before the next one."""
        found = []
        for at, one in enumerate(away):
            until = away[at + 1].left_at if at + 1 < len(away) else None
            leaders = self._leaders.get(number, _Turns()).counted(one, until)
            isrs = self._isrs.get(number, _Turns()).counted(one, until)
            found.append(replace(one, leaders=leaders, isrs=isrs))
        return found


def _ints(rows: ds.Dataset, name: str) -> Ints:
    found: Ints = pc.fill_null(rows[name].cast("int64"), -1).to_numpy()
    return found
