"""Folds the events of one partition into its leadership and its ISR history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from forensics.history.clocks import Clocks
from forensics.history.elections import Change, is_clean, kind_of
from forensics.history.lanes import Absence
from forensics.history.phases import Phases
from forensics.history.statements import Statement, statements
from forensics.history.states import State, begun, in_order
from forensics.tables import ISR, LEADERSHIP

__all__ = ["FOLDED", "Context", "fold"]

# Both tables in one: `table` says which; a fold yields both, and Spark writes them apart.
FOLDED = pa.unify_schemas([pa.schema([("table", pa.string())]), LEADERSHIP, ISR])
_EVIDENCE_KEPT = 4
_JUST = 5_000_000


@dataclass(frozen=True)
class Context:
    """What a partition's history must know of the cluster."""

    clocks: Clocks
    phases: Phases
    away: Sequence[Absence]
    elr: bool | None
    kraft: bool


@dataclass
class _Reign:
    """One leader epoch."""

    epoch: int
    leader: int | None
    at: int | None
    said: list[Statement]
    first: State | None
    before: State | None
    recovering: bool


def fold(rows: Iterable[Mapping[str, Any]], context: Context) -> list[dict[str, Any]]:
    """Fold the events of one partition; gives rows of FOLDED."""
    rows = list(rows)
    if not rows:
        return []
    key = {"topic": rows[0]["topic"], "partition": rows[0]["partition"]}
    said = statements(rows, context.clocks, context.phases)
    states = in_order(said, elr=context.elr)
    _time_leaderless(states, context.away)
    reigns = _reigns(said, states)
    return [
        *(key | row for row in _leadership(reigns, context)),
        *(key | row for row in _versions(states, said)),
    ]


def _time_leaderless(states: Sequence[State], away: Sequence[Absence]) -> None:
    """Date the loss of a leader by the line that fenced it, where no replica was left to tell."""
    for before, state, after in zip(states, states[1:], [*states[2:], None], strict=False):
        if state.leader != -1 or state.at is not None or before.at is None:
            continue
        end = after.at if after is not None else None
        for absence in away:
            fence = absence.fenced
            if absence.broker != before.leader or fence is None or fence["at"] < before.at:
                continue
            if end is None or fence["at"] <= end:
                state.at, state.inferred, state.fence = fence["at"], True, fence
                break


def _reigns(said: Sequence[Statement], states: Sequence[State]) -> list[_Reign]:
    epochs = {one.leader_epoch for one in said if one.leader_epoch is not None}
    epochs |= {state.leader_epoch for state in states if state.leader_epoch is not None}
    epochs -= {epoch for epoch in epochs if epoch < 0}
    if not epochs:
        return []
    # An epoch between two others was, whether or not a line tells of it.
    return [_reign(epoch, said, states) for epoch in range(min(epochs), max(epochs) + 1)]


def _reign(epoch: int, said: Sequence[Statement], states: Sequence[State]) -> _Reign:
    lines = [one for one in said if one.leader_epoch == epoch]
    mine = [state for state in states if state.leader_epoch == epoch]
    first = mine[0] if mine else None
    before = None
    if first is not None:
        at = states.index(first)
        if at and states[at - 1].partition_epoch == first.partition_epoch - 1:
            before = states[at - 1]
    named = [one for one in lines if one.leader is not None]
    own = [one.leader for one in named if one.leads] or [one.leader for one in named]
    leader = first.leader if first is not None and first.leader is not None else None
    moments = [one.at for one in lines if one.news] + [s.at for s in mine if s.at is not None]
    start = begun(min(moments, default=None), lines)
    recovering = first is not None and first.recovery == "RECOVERING"
    recovering = recovering or _marked(said, [one for one in lines if one.leads and one.news])
    return _Reign(
        epoch,
        leader if leader is not None else (own[0] if own else None),
        start,
        sorted(lines, key=lambda one: (not one.news, not one.leads, one.place)),
        first,
        before,
        recovering,
    )


def _marked(said: Sequence[Statement], starts: Sequence[Statement]) -> bool:
    """Whether the leader said, just before it began, that the partition was recovering."""
    return any(
        one.kind == "recovering" and one.node == start.node and 0 <= start.at - one.at <= _JUST
        for start in starts
        for one in said
    )


def _leadership(reigns: Sequence[_Reign], context: Context) -> Iterable[dict[str, Any]]:
    for at, reign in enumerate(reigns):
        previous = reigns[at - 1] if at else None
        change = _change(reign, previous, context)
        starts = [one for one in reign.said if one.leads and one.log_end is not None and one.news]
        lines = starts[:1] + [one for one in reign.said if one not in starts[:1]]
        if not lines and reign.first:
            lines = reign.first.said
        yield {
            "table": "leadership",
            "leader_epoch": reign.epoch,
            "leader": reign.leader,
            "started_at": reign.at,
            "ended_at": next((one.at for one in reigns[at + 1 :] if one.at is not None), None),
            "how": "observed" if reign.said or reign.first else "inferred",
            "election": kind_of(change, context.away) if reign.leader is not None else "unknown",
            "clean": is_clean(change),
            "previous_leader": change.old,
            "isr": change.new_isr,
            "previous_isr": change.old_isr,
            "replicas": change.replicas,
            "log_end": starts[0].log_end if starts else None,
            "high_watermark": starts[0].high_watermark if starts else None,
            "evidence": _evidence(lines, reign.first.fence if reign.first else None),
        }


def _change(reign: _Reign, previous: _Reign | None, context: Context) -> Change:
    first, before = reign.first, reign.before
    stated = {one.previous_leader for one in reign.said if one.previous_leader is not None}
    old = previous.leader if previous else next(iter(stated)) if len(stated) == 1 else None
    isr = first.isr if first else None
    if isr is None:
        isr = next((one.isr for one in reign.said if one.isr is not None and one.leads), None)
    return Change(
        epoch=reign.epoch,
        at=reign.at,
        old=old,
        new=reign.leader,
        old_isr=before.isr if before else None,
        new_isr=isr,
        old_replicas=before.replicas if before else None,
        replicas=first.replicas if first else None,
        elr=before.elr if before else None,
        recovering=reign.recovering,
        kraft=context.kraft,
    )


def _versions(states: Sequence[State], said: Sequence[Statement]) -> Iterable[dict[str, Any]]:
    for at, state in enumerate(states):
        later = (one.at for one in states[at + 1 :] if one.at is not None)
        yield _version(state, next(later, None))
    known = {state.leader_epoch for state in states}
    for one in said:
        # Lines without a partition epoch still tell the ISR of an epoch that nothing else tells.
        if one.isr is not None and one.partition_epoch is None and one.leader_epoch not in known:
            known.add(one.leader_epoch)
            alone = State(-1, one.leader, one.leader_epoch, one.isr, one.replicas, said=[one])
            alone.at = one.at if one.news else None
            yield _version(alone, None) | {"partition_epoch": None}


def _version(state: State, ended: int | None) -> dict[str, Any]:
    return {
        "table": "isr",
        "partition_epoch": state.partition_epoch,
        "leader_epoch": state.leader_epoch,
        "leader": state.leader,
        "isr": state.isr,
        "replicas": state.replicas,
        "started_at": state.at,
        "ended_at": ended,
        "how": "inferred" if state.inferred else "observed",
        "evidence": _evidence(state.said, state.fence),
    }


def _evidence(said: Sequence[Statement], fence: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    lines = [{"file": one.file, "line": one.line} for one in said[:_EVIDENCE_KEPT]]
    return lines + ([{"file": fence["file"], "line": fence["line"]}] if fence else [])
