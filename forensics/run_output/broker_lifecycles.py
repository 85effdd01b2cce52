"""Every broker's states and absences from the saved lanes, with what each absence cost it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history.nodes.broker_states import SHUTDOWN_STATES, split_absences
from forensics.run_output.partition_histories import Ints, IsrCodes, read_isr_histories
from forensics.run_output.reader import Row, RunOutput

COLUMNS = ("node", "broker", "state", "started_at", "ended_at", "evidence")
LEADER_COLUMNS = ("previous_leader", "leader", "started_at")
# Others notice that a broker is gone a little before or after its own last line.
SLACK_MS = 2000
SHUTDOWN = "clean shutdown"
FAR_FUTURE = 1 << 60


@dataclass(frozen=True)
class BrokerAbsence:
    """One stretch in which a broker did not serve; times in milliseconds, None is not known."""

    left_at: int | None
    back_at: int | None
    kind: str
    # file:line that says how it left
    first_line: str = ""
    # how many were lost by it, and regained before the next absence
    leaders: tuple[int, int] = (0, 0)
    isrs: tuple[int, int] = (0, 0)

    @property
    def is_planned(self) -> bool:
        """Return True if the broker was asked to stop."""
        return self.kind == SHUTDOWN

    @property
    def length(self) -> int | None:
        """How long it lasted, where both ends are known."""
        if self.left_at is None or self.back_at is None:
            return None
        return self.back_at - self.left_at


@dataclass(frozen=True)
class BrokerLifecycle:
    """One broker: its states in the order of time, and its absences."""

    name: str
    broker: int | None
    states: Sequence[Row]
    absences: Sequence[BrokerAbsence] = ()

    @property
    def unplanned(self) -> list[BrokerAbsence]:
        """The absences that nobody asked for."""
        return [absence for absence in self.absences if not absence.is_planned]

    @property
    def sort_key(self) -> tuple[int, int, int, int, str]:
        """Most unplanned absences first, then the longest time away by them, then by number."""
        away = sum(absence.length or 0 for absence in self.unplanned)
        number = -1 if self.broker is None else self.broker
        return -len(self.unplanned), -away, -len(self.absences), number, self.name


def read_lifecycles(run: RunOutput) -> list[BrokerLifecycle]:
    """Read every broker, those first that were away unplanned, and longest."""
    lanes: dict[tuple[int | None, str], list[Row]] = {}
    for row in run.rows("lanes", COLUMNS, ds.field("role") == "broker"):
        key = (row["broker"], "" if row["broker"] is not None else str(row["node"]))
        lanes.setdefault(key, []).append(row)
    changes = _Changes(run) if lanes else None
    lifecycles = []
    for (number, node), rows in lanes.items():
        rows.sort(key=lambda row: (row["started_at"] or 0, row["ended_at"] or FAR_FUTURE))
        absences = find_broker_absences(rows)
        if changes and number is not None:
            absences = changes.count_for(number, absences)
        name = node if number is None else f"broker {number}"
        lifecycles.append(BrokerLifecycle(name, number, rows, absences))
    return sorted(lifecycles, key=lambda lifecycle: lifecycle.sort_key)


def find_broker_absences(rows: Iterable[Row]) -> list[BrokerAbsence]:
    """Find the absences in the lane of one broker, given in the order of time."""
    runs = split_absences(rows, lambda row: row["state"] or "unknown")
    return [_absence(run, back["started_at"] if back else None) for run, back in runs]


def _absence(run: Sequence[Row], back_at: int | None) -> BrokerAbsence:
    first = (run[0]["evidence"] or [{}])[0]
    line = f"{first.get('file')}:{first.get('line')}" if first.get("file") else ""
    return BrokerAbsence(run[0]["started_at"], back_at, _kind({row["state"] for row in run}), line)


def _kind(states: set[str]) -> str:
    if "crashed" in states:
        return "crash"
    if states & SHUTDOWN_STATES:
        return SHUTDOWN
    if "isolated" in states:
        return "cut off"
    if "paused" in states:
        return "pause"
    return "fenced" if "fenced" in states else "not known"


@dataclass
class _GainsAndLosses:
    """When a broker lost something, and when it gained it."""

    lost: list[Ints] = field(default_factory=list)
    gained: list[Ints] = field(default_factory=list)

    def count(self, absence: BrokerAbsence, until: int | None) -> tuple[int, int]:
        left = 0 if absence.left_at is None else absence.left_at - SLACK_MS
        back = FAR_FUTURE if absence.back_at is None else absence.back_at
        end = FAR_FUTURE if until is None else until
        return _count_within(self.lost, left, back), _count_within(
            self.gained, back - SLACK_MS, end
        )


def _count_within(chunks: Sequence[Ints], first: int, last: int) -> int:
    return sum(int(((times >= first) & (times < last)).sum()) for times in chunks)


class _Changes:
    """Every change of leaders and of ISRs, by the broker that it is about."""

    def __init__(self, run: RunOutput) -> None:
        self._leaders: dict[int, _GainsAndLosses] = defaultdict(_GainsAndLosses)
        self._isrs: dict[int, _GainsAndLosses] = defaultdict(_GainsAndLosses)
        for chunk in run.chunks("leadership", LEADER_COLUMNS):
            rows = chunk.filter(pc.is_valid(chunk["started_at"]))
            self._add_leaders(*(_ints(rows, name) for name in LEADER_COLUMNS))
        if run.window:
            self._add_isrs(run, run.window)

    def _add_leaders(self, before: Ints, after: Ints, at: Ints) -> None:
        changed = before != after
        for number in np.unique(np.concatenate([before[changed], after[changed]])):
            if number >= 0:
                leaders = self._leaders[int(number)]
                leaders.lost.append(at[changed & (before == number)])
                leaders.gained.append(at[changed & (after == number)])

    def _add_isrs(self, run: RunOutput, window: tuple[int, int]) -> None:
        """Compare each ISR with the one after it; there are few different pairs of them."""
        codes = IsrCodes()
        pairs: list[Ints] = []
        for history in read_isr_histories(run, window, codes):
            isrs, starts = history.columns[0], history.columns[3]
            if len(isrs) > 1:
                pairs.append(np.stack([isrs[:-1], isrs[1:], starts[1:]]))
        if not pairs:
            return
        changes = np.concatenate(pairs, axis=1)
        before, after, times = changes[
            :, (changes[0] != changes[1]) & (changes[0] >= 0) & (changes[1] >= 0)
        ]
        members = [set(isr) for isr in codes.isrs]
        for old, new in np.unique(np.stack([before, after]), axis=1).T.tolist():
            at = times[(before == old) & (after == new)]
            for number in members[old] - members[new]:
                self._isrs[number].lost.append(at)
            for number in members[new] - members[old]:
                self._isrs[number].gained.append(at)

    def count_for(self, number: int, absences: Sequence[BrokerAbsence]) -> list[BrokerAbsence]:
        """Count for each absence what the broker lost by it, and regained before the next one."""
        counted = []
        for index, absence in enumerate(absences):
            until = absences[index + 1].left_at if index + 1 < len(absences) else None
            leaders = self._leaders[number].count(absence, until)
            isrs = self._isrs[number].count(absence, until)
            counted.append(replace(absence, leaders=leaders, isrs=isrs))
        return counted


def _ints(rows: pa.Table, name: str) -> Ints:
    values: Ints = pc.fill_null(rows[name].cast("int64"), -1).to_numpy()
    return values
