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
from forensics.history.nodes.startup_windows import Phases
from forensics.history.partitions import observations
from forensics.history.partitions.controller_actions import Moves
from forensics.history.partitions.elections import (
    ELECTION_KINDS,
    Change,
    Hint,
    hints,
    is_clean,
    kind_of,
    manner_of,
)
from forensics.history.partitions.invariants import LIFE_KINDS, breaches
from forensics.history.partitions.leader_epochs import Reign, isr_at_first, reigns_of
from forensics.history.partitions.observations import Statement, statements
from forensics.history.partitions.observers import (
    UNKNOWN,
    Attention,
    Ending,
    Held,
    endings,
    next_known,
)
from forensics.history.partitions.states import State, in_order
from forensics.history.partitions.truncations import CUT_KINDS, cuts
from forensics.schemas import BREACHES, CUTS, ISR, LEADERSHIP

FOLD_KINDS = (*observations.FOLD_KINDS, *ELECTION_KINDS, *CUT_KINDS, *LIFE_KINDS)
FOLD_COLUMNS = (*observations.FOLD_COLUMNS, "cut_to")

Row = Mapping[str, Any]


class Beside:
    """Keeps the few lines that state no state, while the many that do pass by."""

    def __init__(self, clocks: Clocks, moves: Moves) -> None:
        """Begin with one partition."""
        self.hints: list[Hint] = []
        self._clocks = clocks
        self._moves = moves
        self._kept: list[Row] = []
        self._epochs: list[Row] = []

    def apart(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass on what states a state, and keep the rest."""
        for row in rows:
            if row["kind"] in observations.FOLD_KINDS:
                yield row
            else:
                self._kept.append(row)
        self.hints = hints(self._kept, self._clocks)

    def heard(self, epochs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Pass on rows of LEADERSHIP; they are needed again where a log was cut."""
        needed = any(row["kind"] == "truncated" for row in self._kept)
        for row in epochs:
            if needed:
                self._epochs.append(row)
            yield row

    def rows(
        self, topic: str, said: list[Statement], away: Iterable[Absence]
    ) -> Iterator[dict[str, Any]]:
        """Give rows of CUTS and BREACHES, once everything else was given."""
        gone = [row for row in self._kept if row["kind"] in LIFE_KINDS and row["ts"] is not None]
        ends = [self._clocks.of(row) for row in gone]
        ends += self._moves.deletions.get(topic, ())
        yield from chain(
            cuts(self._kept, said, self._epochs, self._clocks), breaches(said, ends, list(away))
        )


# All tables in one: `table` says which; a fold yields all, and Spark writes them apart.
FOLDED = pa.unify_schemas([pa.schema([("table", pa.string())]), LEADERSHIP, ISR, CUTS, BREACHES])
_EVIDENCE_KEPT = 4


@dataclass(frozen=True)
class Context:
    """What a partition's history must know of the cluster."""

    clocks: Clocks
    phases: Phases
    away: Sequence[Absence]
    elr: bool | None
    kraft: bool
    moves: Moves = field(default_factory=Moves)
    attention: Attention = field(default_factory=Attention)

    def is_late(self, row: Mapping[str, Any], at: int) -> bool:
        """Whether a node may tell at a moment what it missed before."""
        if not self.kraft and row["partition_epoch"] is not None:
            # Under ZooKeeper who names the version has just written it.
            return False
        return self.attention.is_late(row["node"] or "", at, row["ts"], self.phases)

    @cached_property
    def absences(self) -> Mapping[int, Sequence[tuple[int, Absence]]]:
        """The absences of each broker, with their places among all."""
        found: dict[int, list[tuple[int, Absence]]] = defaultdict(list)
        for place, absence in enumerate(self.away):
            found[absence.broker].append((place, absence))
        return found

    def away_of(self, brokers: Iterable[int | None]) -> list[Absence]:
        """Give the absences of some brokers, in the order of `away`."""
        named = {one for one in brokers if one is not None and one in self.absences}
        found = [pair for broker in named for pair in self.absences[broker]]
        return [one for _, one in (sorted(found, key=lambda pair: pair[0]) if named else ())]


def fold(rows: Iterable[Mapping[str, Any]], context: Context) -> list[dict[str, Any]]:
    """Fold the events of one partition; gives rows of FOLDED."""
    return list(folded(rows, context))


def folded(rows: Iterable[Mapping[str, Any]], context: Context) -> Iterator[dict[str, Any]]:
    """Fold as `fold` does, row by row: a partition may have a million states."""
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    key = {"topic": first["topic"], "partition": first["partition"]}
    beside = Beside(context.clocks, context.moves)
    passing = beside.apart(chain([first], rows))
    said = statements(passing, context.clocks, context.phases, context.is_late)
    states = in_order(said, elr=context.elr)
    _time_leaderless(states, context)
    reigns = reigns_of(said, states, kraft=context.kraft)
    for row in beside.heard(_leadership(reigns, context, beside.hints)):
        yield key | row
    for row in _versions(states, said, context):
        yield key | row
    for row in beside.rows(key["topic"], said, context.away):
        yield key | row


def _time_leaderless(states: Sequence[State], context: Context) -> None:
    """Date the loss of a leader by the line that fenced it, where no replica was left to tell."""
    ends = next_known([state.at for state in states])
    for before, state, end_at in zip(states, states[1:], ends[1:], strict=False):
        if state.leader != -1 or state.at is not None or before.at is None:
            continue
        if before.leader is None or state.partition_epoch != before.partition_epoch + 1:
            # Somebody may have led between these two.
            continue
        end = None if end_at is None else states[end_at].at
        for absence in context.away_of([before.leader]):
            fence = absence.fenced
            if fence is None or fence["at"] < before.at:
                continue
            if end is None or fence["at"] <= end:
                state.at, state.inferred, state.fence = fence["at"], True, fence
                break


def _leadership(
    reigns: Sequence[Reign], context: Context, said: Sequence[Hint]
) -> Iterable[dict[str, Any]]:
    held = [
        Held(
            one.at,
            one.said,
            one.first.replicas if one.first else None,
            one.leader,
            after is None or after.epoch == one.epoch + 1,
        )
        for one, after in zip(reigns, [*reigns[1:], None], strict=False)
    ]
    ends = endings(held, context.attention, kraft=context.kraft)
    for last, reign, (end, ended) in zip([None, *reigns], reigns, ends, strict=False):
        previous = last if last and last.epoch == reign.epoch - 1 else None
        change = _change(reign, previous, context)
        could = (change.old_isr or change.replicas or ()) if change.old is None else ()
        concerned = (change.old, *could)
        starts = [one for one in reign.said if one.leads and one.log_end is not None and one.news]
        lines = starts[:1] + [one for one in reign.said if one not in starts[:1]]
        if not lines:
            lines = list(reign.first.said if reign.first else reign.told_after)
        yield {
            "table": "leadership",
            "leader_epoch": reign.epoch,
            "leader": reign.leader,
            "started_at": reign.at,
            "ended_at": end,
            "ended": ended,
            "how": "observed" if reign.said or reign.first else "inferred",
            "election": kind_of(change, context.away_of(concerned), said, context.moves)
            if reign.leader is not None
            else "unknown",
            "manner": manner_of(change, context.moves),
            "clean": is_clean(change),
            "previous_leader": change.old,
            "isr": change.new_isr,
            "previous_isr": change.old_isr,
            "replicas": change.replicas,
            "log_end": starts[0].log_end if starts else None,
            "high_watermark": starts[0].high_watermark if starts else None,
            "evidence": _evidence(lines, reign.first.fence if reign.first else None),
        }


def _change(reign: Reign, previous: Reign | None, context: Context) -> Change:
    first, before = reign.first, reign.before
    stated = {
        one.previous_leader
        for one in reign.said
        if one.previous_leader is not None and one.previous_epoch == reign.epoch - 1
    }
    old = previous.leader if previous else next(iter(stated)) if len(stated) == 1 else None
    return Change(
        epoch=reign.epoch,
        at=reign.at,
        old=old,
        new=reign.leader,
        old_isr=before.isr if before else None,
        new_isr=isr_at_first(reign, kraft=context.kraft),
        old_replicas=before.replicas if before else None,
        replicas=first.replicas if first else None,
        elr=before.elr if before else None,
        recovering=reign.recovering,
        kraft=context.kraft,
        adjacent=before is not None,
        told_of=context.attention.tells_of(old, reign.at, context.away_of([old])),
    )


def _versions(
    states: Sequence[State], said: Sequence[Statement], context: Context
) -> Iterable[dict[str, Any]]:
    held = [
        Held(
            one.at,
            one.said,
            one.replicas,
            one.leader,
            after is not None and after.partition_epoch == one.partition_epoch + 1,
        )
        for one, after in zip(states, [*states[1:], None], strict=False)
    ]
    ends = endings(held, context.attention, kraft=context.kraft)
    begun = _unnumbered(said)
    for state, row, ending in zip(states, held, ends, strict=True):
        yield _version(state, *(ending if row.followed else _bounded(state, ending, begun)))
    known = {state.leader_epoch for state in states}
    for one in said:
        # Lines without a partition epoch still tell the ISR of an epoch that nothing else tells.
        if one.isr is not None and one.partition_epoch is None and one.leader_epoch not in known:
            known.add(one.leader_epoch)
            alone = State(-1, one.leader, one.leader_epoch, one.isr, one.replicas, said=[one])
            alone.at = one.at if one.prompt else None
            yield _version(alone, alone.at, UNKNOWN) | {"partition_epoch": None}


def _unnumbered(said: Sequence[Statement]) -> tuple[list[int], list[int]]:
    """Give leader epochs, in order, of which the version is not known, as leaders say they begin.

    Beside each stands when it, or the first of those after it to do so, began.
    """
    found: dict[int, int] = {}
    for one in said:
        if (
            one.leads
            and one.prompt
            and one.partition_epoch is None
            and one.leader_epoch is not None
        ):
            found[one.leader_epoch] = min(one.at, found.get(one.leader_epoch, one.at))
    epochs = sorted(found)
    return epochs, list(accumulate((found[one] for one in reversed(epochs)), min))[::-1]


def _bounded(state: State, ending: Ending, begun: tuple[list[int], list[int]]) -> Ending:
    """End a state where a later leader began: the versions between are not known, but are there."""
    end, how = ending
    if state.at is None or end is None or state.leader_epoch is None:
        return ending
    epochs, firsts = begun
    later = bisect_right(epochs, state.leader_epoch)
    if later < len(epochs) and firsts[later] < end:
        return max(state.at, firsts[later]), UNKNOWN
    return end, how


def _version(state: State, end: int | None, ended: str) -> dict[str, Any]:
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
        "evidence": _evidence(state.said, state.fence),
    }


def _evidence(said: Sequence[Statement], fence: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    lines = [{"file": one.file, "line": one.line} for one in said[:_EVIDENCE_KEPT]]
    return lines + ([{"file": fence["file"], "line": fence["line"]}] if fence else [])
