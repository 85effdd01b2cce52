"""Folds the events of one partition into its leadership, ISR history, truncations and breaches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

import pyarrow as pa

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import FOREVER, Absence, Absences
from forensics.history.nodes.controller_terms import DeposedControllers
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions import elections, observers
from forensics.history.partitions.elections import ControllerActions, ElectionHint, LeaderChange
from forensics.history.partitions.incarnations import Incarnation, find_incarnations
from forensics.history.partitions.invariants import DELETION_KINDS, find_breaches
from forensics.history.partitions.leader_epochs import LeaderEpoch, build_leader_epochs, initial_isr
from forensics.history.partitions.observations import (
    DECISION_KINDS,
    STATE_COLUMNS,
    STATE_KINDS,
    Observations,
    read_observations,
)
from forensics.history.partitions.observers import AROUND, Ending, Observers
from forensics.history.partitions.states import PartitionState, States, build_states
from forensics.history.partitions.truncations import TRUNCATION_KINDS, find_truncations
from forensics.schemas import BREACHES, CUTS, ISR, LEADERSHIP

FOLD_KINDS = tuple(
    dict.fromkeys((*STATE_KINDS, *elections.ELECTION_KINDS, *TRUNCATION_KINDS, *DELETION_KINDS))
)
FOLD_COLUMNS = (*STATE_COLUMNS, "cut_to")
# All tables in one: `table` says which; a fold yields all, and Spark writes them apart.
FOLDED = pa.unify_schemas([pa.schema([("table", pa.string())]), LEADERSHIP, ISR, CUTS, BREACHES])
_MAX_EVIDENCE = 4

Row = Mapping[str, Any]
# Leader epochs, in order, and when each, or the first of those after it to do so, began.
EpochStarts = tuple[Sequence[int], Sequence[int]]


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
    void: DeposedControllers = field(default_factory=DeposedControllers)

    def is_by_deposed(self, row: Row) -> bool:
        """Return True if a deposed controller says so, which nobody else ever heard of.

        One that ZooKeeper deposed logs a state only once it has written it.
        """
        if not self.kraft and row["kind"] in STATE_KINDS:
            return False
        return row["ts"] is not None and self.void.include(row, self.clocks.event_time(row))

    def is_late(self, row: Row, at: int) -> bool:
        """Return True if a node may log at a moment what it missed before."""
        written = row["partition_epoch"] is not None or row["controller"] is not None
        if not self.kraft and (written or row["kind"] in DECISION_KINDS):
            # Under ZooKeeper a node that names the version has just written it, and so has a
            # controller, whether or not it names one.
            return False
        return self.observers.is_late(row["node"] or "", at, row["ts"], self.startups)

    @cached_property
    def _absences(self) -> Absences:
        return Absences(self.absences)

    def absences_of(
        self, brokers: Iterable[int | None], begin: int | None, end: int | None = None
    ) -> list[Absence]:
        """Return the absences of some brokers near a moment, or between two moments."""
        if begin is None:
            return []
        until = begin if end is None else end
        return self._absences.around(brokers, begin - AROUND, until + AROUND)


def fold_rows(rows: Iterable[Row], context: FoldContext) -> Iterator[dict[str, Any]]:
    """Fold the events of one partition; yield rows of FOLDED, of which there may be millions."""
    rows = iter(rows)
    if context.void.times:
        rows = (row for row in rows if not context.is_by_deposed(row))
    first = next(rows, None)
    if first is None:
        return
    key = {"topic": first["topic"], "partition": first["partition"]}
    # The few events that carry no state (hints, truncations, deletions) are kept while the many
    # that do stream through.
    others: list[Row] = []
    clocks = context.clocks
    state_rows = _split_off(chain([first], rows), others)
    observations = read_observations(state_rows, clocks, context.startups, context.is_late)
    dated = [row for row in others if row["ts"] is not None]
    deletions = context.actions.deletions.get(key["topic"], ())
    removals = [clocks.event_time(row) for row in dated if row["kind"] in DELETION_KINDS]
    incarnations = find_incarnations(observations, deletions, removals)
    for one in incarnations.parts:
        own = [
            row
            for row in dated
            if incarnations.number_at(row["node"], clocks.event_time(row)) == one.number
        ]
        for row in _fold_incarnation(one, own, context):
            row.update(key)
            yield row
    for row in find_breaches(observations, [*removals, *deletions], context.absences):
        yield key | row


def _fold_incarnation(
    incarnation: Incarnation, others: Sequence[Row], context: FoldContext
) -> Iterator[dict[str, Any]]:
    observations, clocks = incarnation.observations, context.clocks
    states = build_states(observations, elr=context.elr)
    _date_leader_losses(states, context)
    epochs = build_leader_epochs(observations, states, kraft=context.kraft)
    hints = elections.read_election_hints(others, clocks)
    # Leader epochs are needed again only where a log was truncated.
    is_truncated = any(row["kind"] == "truncated" for row in others)
    kept: list[Row] = []
    which = {"incarnation": incarnation.number, "topic_id": incarnation.topic_id}
    for row in _leadership_rows(epochs, context, hints, incarnation):
        if is_truncated:
            kept.append(row)
        row.update(which)
        yield row
    for row in _isr_rows(states, incarnation, context):
        row.update(which)
        yield row
    yield from find_truncations(others, observations, kept, clocks, context.absences)


def _split_off(rows: Iterable[Row], others: list[Row]) -> Iterator[Row]:
    """Yield the rows that carry a state, and put all others and hints of elections into a list."""
    for row in rows:
        if row["kind"] in STATE_KINDS:
            yield row
        if row["kind"] not in STATE_KINDS or row["kind"] in elections.ELECTION_KINDS:
            others.append(row)


def _date_leader_losses(states: States, context: FoldContext) -> None:
    """Date the loss of a leader by the line that fenced it, where no replica was left to log it."""
    following = observers.next_dated([state.at for state in states])
    for (before, state), end_index in zip(pairwise(states), following[1:], strict=False):
        if state.leader != -1 or state.at is not None or before.at is None:
            continue
        follows = state.partition_epoch == before.partition_epoch + 1
        if before.leader_epoch is not None:
            # A shrink of the ISR between the two changes no leader.
            follows |= state.leader_epoch == before.leader_epoch + 1
        if before.leader is None or not follows:
            # Another broker may have led between these two.
            continue
        end = None if end_index is None else states[end_index].at
        until = FOREVER if end is None else end
        for absence in context.absences_of([before.leader], before.at, until):
            fencing = absence.fencing
            if fencing and before.at <= fencing["at"] and (end is None or fencing["at"] <= end):
                state.at, state.inferred, state.fencing = fencing["at"], True, fencing
                break


def _leadership_rows(
    epochs: Sequence[LeaderEpoch],
    context: FoldContext,
    hints: Sequence[ElectionHint],
    incarnation: Incarnation,
) -> Iterator[dict[str, Any]]:
    follows = [after.epoch == epoch.epoch + 1 for epoch, after in pairwise(epochs)]
    endings = observers.find_endings(
        epochs, follows, context.observers, kraft=context.kraft, incarnation=incarnation
    )
    before = zip([None, None, *epochs], [None, *epochs], strict=False)
    bounds = _latest_starts(epochs)
    for (second_last, last), epoch, bound, (end, ended) in zip(
        before, epochs, bounds, endings, strict=False
    ):
        change = _leader_change(epoch, last, context)
        if change.old == -1 and second_last is not None and last is not None:
            led = second_last.leader if second_last.epoch == last.epoch - 1 else None
            outside = elections.is_chosen_outside_isr(hints, epoch.at, epoch.leader)
            change = replace(change, last_leader=led, chosen_outside_isr=outside)
        candidates = (change.old_isr or change.replicas or ()) if change.old is None else ()
        absences = context.absences_of((change.old, *candidates), epoch.at)
        election = elections.classify_election(change, absences, hints, context.actions)
        lines = epoch.observations
        start = next((x for x in lines if x.by_leader and x.log_end is not None and x.is_new), None)
        if start is not None:
            lines = [start, *(line for line in lines if line != start)]
        first = epoch.first_state
        yield {
            "table": "leadership",
            "leader_epoch": epoch.epoch,
            "leader": epoch.leader,
            "started_at": epoch.at,
            "started_before": bound if epoch.at is None else None,
            "ended_at": end,
            "ended": ended,
            "how": "observed" if lines or first else "inferred",
            "election": election if epoch.leader is not None else "unknown",
            "manner": elections.classify_manner(change, context.actions),
            "clean": elections.is_clean_election(change),
            "previous_leader": change.old,
            "isr": change.new_isr,
            "previous_isr": change.old_isr,
            "replicas": change.replicas,
            "log_end": start.log_end if start else None,
            "high_watermark": start.high_watermark if start else None,
            "evidence": _evidence(
                lines or (first.observations if first else epoch.next_observations),
                first.fencing if first else None,
            ),
        }


def _latest_starts(epochs: Sequence[LeaderEpoch]) -> list[int | None]:
    """Return by when each epoch had begun: whoever names it, or a later one, knows that."""
    named = (
        min([*(line.at for line in epoch.observations), *([] if epoch.at is None else [epoch.at])],
            default=FOREVER)
        for epoch in reversed(epochs)
    )  # fmt: skip
    bounds = [*accumulate(named, min)][::-1]
    return [None if bound == FOREVER else bound for bound in bounds]


def _leader_change(
    epoch: LeaderEpoch, last: LeaderEpoch | None, context: FoldContext
) -> LeaderChange:
    before = epoch.state_before
    if last is not None and last.epoch == epoch.epoch - 1:
        old = last.leader
    else:
        named = {
            line.previous_leader
            for line in epoch.observations
            if line.previous_leader is not None and line.previous_epoch == epoch.epoch - 1
        }
        old = named.pop() if len(named) == 1 else None
    absences = context.absences_of([old], epoch.at)
    return LeaderChange(
        epoch=epoch.epoch,
        at=epoch.at,
        old=old,
        new=epoch.leader,
        old_isr=before.isr if before else None,
        new_isr=initial_isr(epoch, kraft=context.kraft),
        old_replicas=before.replicas if before else None,
        replicas=epoch.replicas,
        elr=before.elr if before else None,
        is_recovering=epoch.is_recovering,
        kraft=context.kraft,
        is_adjacent=before is not None,
        departure_logged=context.observers.explains_departure(old, epoch.at, absences),
        keeps_elr=context.elr,
    )


def _isr_rows(
    states: States, incarnation: Incarnation, context: FoldContext
) -> Iterator[dict[str, Any]]:
    observations = incarnation.observations
    follows = [b.partition_epoch == a.partition_epoch + 1 for a, b in pairwise(states)]
    endings = observers.find_endings(
        states, follows, context.observers, kraft=context.kraft, incarnation=incarnation
    )
    starts = _unnumbered_starts(observations)
    for state, ending, is_followed in zip(states, endings, [*follows, False], strict=False):
        yield _isr_row(state, *(ending if is_followed else _bound(state, ending, starts)))
    known = {state.leader_epoch for state in states}
    for line in observations:
        # Lines without a partition epoch still show the ISR of an epoch that nothing else shows.
        if line.isr is None or line.partition_epoch is not None or line.leader_epoch in known:
            continue
        known.add(line.leader_epoch)
        alone = PartitionState(-1, line.leader, line.leader_epoch, line.isr, line.replicas)
        alone.at, alone.observations = line.at if line.is_timely else None, [line]
        yield _isr_row(alone, alone.at, observers.UNKNOWN) | {"partition_epoch": None}


def _unnumbered_starts(observations: Observations) -> EpochStarts:
    """Return the leader epochs of unknown versions, by the lines in which leaders begin them."""
    starts: dict[int, int] = {}
    for line in observations:
        epoch = line.leader_epoch
        if line.by_leader and line.is_timely and line.partition_epoch is None and epoch is not None:
            starts[epoch] = min(line.at, starts.get(epoch, line.at))
    epochs = sorted(starts)
    return epochs, list(accumulate((starts[epoch] for epoch in reversed(epochs)), min))[::-1]


def _bound(state: PartitionState, ending: Ending, starts: EpochStarts) -> Ending:
    """End a state where a later leader began: there are versions between, though unknown."""
    end, epochs = ending[0], starts[0]
    if state.at is None or end is None or state.leader_epoch is None:
        return ending
    later = bisect_right(epochs, state.leader_epoch)
    if later < len(epochs) and starts[1][later] < end:
        return max(state.at, starts[1][later]), observers.UNKNOWN
    return ending


def _isr_row(state: PartitionState, end: int | None, ended: str) -> dict[str, Any]:
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


def _evidence(lines: Observations, fencing: Row | None) -> list[dict[str, Any]]:
    evidence = [{"file": line.file, "line": line.line} for line in lines[:_MAX_EVIDENCE]]
    return evidence + ([{"file": fencing["file"], "line": fencing["line"]}] if fencing else [])
