"""Folds the events of one partition into its leadership and its ISR history.

What is said of a partition beside its states: elections, cuts of its log, deletions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions import observations
from forensics.history.partitions.controller_actions import ControllerActions
from forensics.history.partitions.elections import (
    ELECTION_KINDS,
    ElectionHint,
    LeaderChange,
    classify_election,
    classify_manner,
    is_clean,
    read_election_hints,
)
from forensics.history.partitions.invariants import DELETION_KINDS, find_breaches
from forensics.history.partitions.leader_epochs import LeaderEpoch, build_leader_epochs, initial_isr
from forensics.history.partitions.observations import Observation, read_observations
from forensics.history.partitions.observers import (
    UNKNOWN,
    Ending,
    Observers,
    OpenState,
    find_endings,
    next_dated,
)
from forensics.history.partitions.states import PartitionState, build_states
from forensics.history.partitions.truncations import TRUNCATION_KINDS, find_truncations
from forensics.schemas import BREACHES, CUTS, ISR, LEADERSHIP

FOLD_KINDS = (*observations.STATE_KINDS, *ELECTION_KINDS, *TRUNCATION_KINDS, *DELETION_KINDS)
FOLD_COLUMNS = (*observations.STATE_COLUMNS, "cut_to")

Row = Mapping[str, Any]


class SideEvents:
    """Keeps the few lines that state no state, while the many that do pass by."""

    def __init__(self, clocks: Clocks, moves: ControllerActions) -> None:
        """Begin with one partition."""
        self.hints: list[ElectionHint] = []
        self._clocks = clocks
        self._moves = moves
        self._kept: list[Row] = []
        self._epochs: list[Row] = []

    def split(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass on what states a state, and keep the rest."""
        for row in rows:
            if row["kind"] in observations.STATE_KINDS:
                yield row
            else:
                self._kept.append(row)
        self.hints = read_election_hints(self._kept, self._clocks)

    def tee(self, epochs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Pass on rows of LEADERSHIP; they are needed again where a log was cut."""
        needed = any(row["kind"] == "truncated" for row in self._kept)
        for row in epochs:
            if needed:
                self._epochs.append(row)
            yield row

    def finish(
        self, topic: str, said: list[Observation], away: Iterable[Absence]
    ) -> Iterator[dict[str, Any]]:
        """Give rows of CUTS and BREACHES, once everything else was given."""
        gone = [
            row for row in self._kept if row["kind"] in DELETION_KINDS and row["ts"] is not None
        ]
        ends = [self._clocks.event_time(row) for row in gone]
        ends += self._moves.deletions.get(topic, ())
        yield from chain(
            find_truncations(self._kept, said, self._epochs, self._clocks),
            find_breaches(said, ends, list(away)),
        )


# All tables in one: `table` says which; a fold yields all, and Spark writes them apart.
FOLDED = pa.unify_schemas([pa.schema([("table", pa.string())]), LEADERSHIP, ISR, CUTS, BREACHES])
_EVIDENCE_KEPT = 4


@dataclass(frozen=True)
class FoldContext:
    """What a partition's history must know of the cluster."""

    clocks: Clocks
    startups: StartupWindows
    absences: Sequence[Absence]
    elr: bool | None
    kraft: bool
    actions: ControllerActions = field(default_factory=ControllerActions)
    observers: Observers = field(default_factory=Observers)

    def is_late(self, row: Mapping[str, Any], at: int) -> bool:
        """Whether a node may tell at a moment what it missed before."""
        if not self.kraft and row["partition_epoch"] is not None:
            # Under ZooKeeper who names the version has just written it.
            return False
        return self.observers.is_late(row["node"] or "", at, row["ts"], self.startups)

    @cached_property
    def by_broker(self) -> Mapping[int, Sequence[tuple[int, Absence]]]:
        """The absences of each broker, with their places among all."""
        found: dict[int, list[tuple[int, Absence]]] = defaultdict(list)
        for place, absence in enumerate(self.absences):
            found[absence.broker].append((place, absence))
        return found

    def absences_of(self, brokers: Iterable[int | None]) -> list[Absence]:
        """Give the absences of some brokers, in the order of `away`."""
        named = {one for one in brokers if one is not None and one in self.by_broker}
        found = [pair for broker in named for pair in self.by_broker[broker]]
        return [one for _, one in (sorted(found, key=lambda pair: pair[0]) if named else ())]


def fold(rows: Iterable[Mapping[str, Any]], context: FoldContext) -> list[dict[str, Any]]:
    """Fold the events of one partition; gives rows of FOLDED."""
    return list(fold_rows(rows, context))


def fold_rows(rows: Iterable[Mapping[str, Any]], context: FoldContext) -> Iterator[dict[str, Any]]:
    """Fold as `fold` does, row by row: a partition may have a million states."""
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    key = {"topic": first["topic"], "partition": first["partition"]}
    beside = SideEvents(context.clocks, context.actions)
    passing = beside.split(chain([first], rows))
    said = read_observations(passing, context.clocks, context.startups, context.is_late)
    states = build_states(said, elr=context.elr)
    _time_leaderless(states, context)
    reigns = build_leader_epochs(said, states, kraft=context.kraft)
    for row in beside.tee(_leadership(reigns, context, beside.hints)):
        yield key | row
    for row in _versions(states, said, context):
        yield key | row
    for row in beside.finish(key["topic"], said, context.absences):
        yield key | row


def _time_leaderless(states: Sequence[PartitionState], context: FoldContext) -> None:
    """Date the loss of a leader by the line that fenced it, where no replica was left to tell."""
    ends = next_dated([state.at for state in states])
    for before, state, end_at in zip(states, states[1:], ends[1:], strict=False):
        if state.leader != -1 or state.at is not None or before.at is None:
            continue
        if before.leader is None or state.partition_epoch != before.partition_epoch + 1:
            # Somebody may have led between these two.
            continue
        end = None if end_at is None else states[end_at].at
        for absence in context.absences_of([before.leader]):
            fence = absence.fencing
            if fence is None or fence["at"] < before.at:
                continue
            if end is None or fence["at"] <= end:
                state.at, state.inferred, state.fencing = fence["at"], True, fence
                break


def _leadership(
    reigns: Sequence[LeaderEpoch], context: FoldContext, said: Sequence[ElectionHint]
) -> Iterable[dict[str, Any]]:
    held = [
        OpenState(
            one.at,
            one.observations,
            one.first_state.replicas if one.first_state else None,
            one.leader,
            after is None or after.epoch == one.epoch + 1,
        )
        for one, after in zip(reigns, [*reigns[1:], None], strict=False)
    ]
    ends = find_endings(held, context.observers, kraft=context.kraft)
    for last, reign, (end, ended) in zip([None, *reigns], reigns, ends, strict=False):
        previous = last if last and last.epoch == reign.epoch - 1 else None
        change = _change(reign, previous, context)
        could = (change.old_isr or change.replicas or ()) if change.old is None else ()
        concerned = (change.old, *could)
        starts = [
            one
            for one in reign.observations
            if one.by_leader and one.log_end is not None and one.is_new
        ]
        lines = starts[:1] + [one for one in reign.observations if one not in starts[:1]]
        if not lines:
            lines = list(
                reign.first_state.observations if reign.first_state else reign.next_observations
            )
        yield {
            "table": "leadership",
            "leader_epoch": reign.epoch,
            "leader": reign.leader,
            "started_at": reign.at,
            "ended_at": end,
            "ended": ended,
            "how": "observed" if reign.observations or reign.first_state else "inferred",
            "election": classify_election(
                change, context.absences_of(concerned), said, context.actions
            )
            if reign.leader is not None
            else "unknown",
            "manner": classify_manner(change, context.actions),
            "clean": is_clean(change),
            "previous_leader": change.old,
            "isr": change.new_isr,
            "previous_isr": change.old_isr,
            "replicas": change.replicas,
            "log_end": starts[0].log_end if starts else None,
            "high_watermark": starts[0].high_watermark if starts else None,
            "evidence": _evidence(lines, reign.first_state.fencing if reign.first_state else None),
        }


def _change(reign: LeaderEpoch, previous: LeaderEpoch | None, context: FoldContext) -> LeaderChange:
    first, before = reign.first_state, reign.state_before
    stated = {
        one.previous_leader
        for one in reign.observations
        if one.previous_leader is not None and one.previous_epoch == reign.epoch - 1
    }
    old = previous.leader if previous else next(iter(stated)) if len(stated) == 1 else None
    return LeaderChange(
        epoch=reign.epoch,
        at=reign.at,
        old=old,
        new=reign.leader,
        old_isr=before.isr if before else None,
        new_isr=initial_isr(reign, kraft=context.kraft),
        old_replicas=before.replicas if before else None,
        replicas=first.replicas if first else None,
        elr=before.elr if before else None,
        is_recovering=reign.is_recovering,
        kraft=context.kraft,
        is_adjacent=before is not None,
        departure_logged=context.observers.explains_departure(
            old, reign.at, context.absences_of([old])
        ),
    )


def _versions(
    states: Sequence[PartitionState], said: Sequence[Observation], context: FoldContext
) -> Iterable[dict[str, Any]]:
    held = [
        OpenState(
            one.at,
            one.observations,
            one.replicas,
            one.leader,
            after is not None and after.partition_epoch == one.partition_epoch + 1,
        )
        for one, after in zip(states, [*states[1:], None], strict=False)
    ]
    ends = find_endings(held, context.observers, kraft=context.kraft)
    begun = _unnumbered(said)
    for state, row, ending in zip(states, held, ends, strict=True):
        yield _version(state, *(ending if row.is_followed else _bounded(state, ending, begun)))
    known = {state.leader_epoch for state in states}
    for one in said:
        # Lines without a partition epoch still tell the ISR of an epoch that nothing else tells.
        if one.isr is not None and one.partition_epoch is None and one.leader_epoch not in known:
            known.add(one.leader_epoch)
            alone = PartitionState(
                -1, one.leader, one.leader_epoch, one.isr, one.replicas, observations=[one]
            )
            alone.at = one.at if one.is_timely else None
            yield _version(alone, alone.at, UNKNOWN) | {"partition_epoch": None}


def _unnumbered(said: Sequence[Observation]) -> tuple[list[int], list[int]]:
    """Give leader epochs, in order, of which the version is not known, as leaders say they begin.

    Beside each stands when it, or the first of those after it to do so, began.
    """
    found: dict[int, int] = {}
    for one in said:
        if (
            one.by_leader
            and one.is_timely
            and one.partition_epoch is None
            and one.leader_epoch is not None
        ):
            found[one.leader_epoch] = min(one.at, found.get(one.leader_epoch, one.at))
    epochs = sorted(found)
    return epochs, list(accumulate((found[one] for one in reversed(epochs)), min))[::-1]


def _bounded(state: PartitionState, ending: Ending, begun: tuple[list[int], list[int]]) -> Ending:
    """End a state where a later leader began: the versions between are not known, but are there."""
    end, how = ending
    if state.at is None or end is None or state.leader_epoch is None:
        return ending
    epochs, firsts = begun
    later = bisect_right(epochs, state.leader_epoch)
    if later < len(epochs) and firsts[later] < end:
        return max(state.at, firsts[later]), UNKNOWN
    return end, how


def _version(state: PartitionState, end: int | None, ended: str) -> dict[str, Any]:
    return {
        "table": "isr",
        "partition_epoch": state.partition_epoch,
        "leader_epoch": state.leader_epoch,
        "leader": state.leader,
        "isr": state.isr,
        "replicas": state.replicas,
        "started_at": state.at,
        "ended_at": end,
        "ended": ended,
        "how": "inferred" if state.inferred else "observed",
        "evidence": _evidence(state.observations, state.fencing),
    }


def _evidence(said: Sequence[Observation], fence: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    lines = [{"file": one.file, "line": one.line} for one in said[:_EVIDENCE_KEPT]]
    return lines + ([{"file": fence["file"], "line": fence["line"]}] if fence else [])
