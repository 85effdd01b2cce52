"""Brokers that leave and come back again and again; a rolling restart is not that."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from forensics.history.lanes import Absence
from forensics.incidents.case import Case, name_of
from forensics.incidents.finding import Finding

__all__ = ["find", "flapping"]

NAME = "flapping-broker"
_MICROS = 1_000_000


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each broker that flaps."""
    for broker, run in flapping(case).items():
        yield _finding(case, broker, run)


def flapping(case: Case) -> dict[int, list[Absence]]:
    """Give the unplanned absences of every broker that had too many within the window."""
    limits = case.limits[NAME]
    found: dict[int, list[Absence]] = {}
    for broker in sorted({absence.broker for absence in case.away}):
        unplanned = [a for a in case.away if a.broker == broker and a.kind != "controlled"]
        window = limits["window"] * _MICROS
        for first in range(len(unplanned)):
            run = [a for a in unplanned[first:] if a.begin - unplanned[first].begin <= window]
            if len(run) >= limits["cycles"] and len(run) > len(found.get(broker, ())):
                found[broker] = run
    return found


def _finding(case: Case, broker: int, run: Sequence[Absence]) -> Finding:
    away = [(a.end - a.begin) / _MICROS for a in run if a.end is not None]
    moved = _moved(case, broker, run)
    kinds = {absence.kind for absence in run}
    how = (
        "mixed"
        if len(kinds) > 1
        else {"crash": "crash", "pause": "pause", "gone": "pause"}.get(kinds.pop(), "mixed")
    )
    last = run[-1].end
    median = round(statistics.median(away), 1) if away else None
    return Finding(
        detector=NAME,
        severity="high",
        confidence="confirmed",
        title=f"Broker {broker} left the cluster {len(run)} times ({how})"
        + (f", {median} s away at a time" if median is not None else ""),
        begin=run[0].begin,
        end=last if last is not None else case.end,
        evidence=[place for absence in run for place in absence.evidence],
        brokers=[broker],
        partitions=moved,
        measures={
            "cycles": len(run),
            "median_away_s": median,
            "partitions_moved": len(moved),
            "how": how,
        },
        explanation=_EXPLANATIONS[how].format(broker=broker, cycles=len(run), moved=len(moved)),
        actions=[action.format(broker=broker) for action in _ACTIONS],
    )


_LOOK = (
    "On the host of broker {broker}, look at memory, disk and pauses at the times of the evidence: "
    "journalctl -k | grep -i 'killed process'"
)
_SPARE = (
    "Until it is stable, keep leadership off broker {broker}: do not run preferred elections, and "
    "set auto.leader.rebalance.enable=false while you look."
)
_ACTIONS = (_LOOK, _SPARE)
_EXPLANATIONS = {
    "crash": "Broker {broker} died and was started again {cycles} times, without a word of an "
    "orderly stop. Leadership of {moved} partitions moved away and back each time.",
    "pause": "Broker {broker} lost its session {cycles} times and came back without a restart: the "
    "process hung (a long pause, a stalled disk, a frozen host). {moved} partitions moved.",
    "mixed": "Broker {broker} left {cycles} times, in different ways. {moved} partitions moved.",
}


def _moved(case: Case, broker: int, run: Sequence[Absence]) -> list[str]:
    """Name the partitions that this broker's absences took their leader from."""
    lost = pc.field("previous_leader") == broker
    rows = case.each("leadership", lost, ["topic", "partition", "leader", "started_at"])
    return sorted(
        {
            name_of(row)
            for row in rows
            if row["leader"] != broker
            and row["started_at"] is not None
            and any(
                a.begin - _MICROS <= row["started_at"] <= (a.end or case.end) + _MICROS for a in run
            )
        }
    )
