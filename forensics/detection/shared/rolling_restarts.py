"""Rolling restarts: brokers that were stopped on purpose one after the other, each once.

Before each stop all brokers that were restarted before it should be in sync again: what is missing
then is found in tables/isr.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run, partition_name
from forensics.detection.shared.assignments import read_assignments, replicas_of
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND, to_arrow_timestamp

_COLUMNS = ("topic", "partition", "isr", "replicas", "started_at", "ended_at", "evidence")


@dataclass
class RollingStop:
    """One stop of a roll, and the partitions on which earlier brokers were not in sync by then."""

    absence: Absence
    earlier: frozenset[int]
    # the partitions that have a replica on an earlier broker, as far as their ISR is known
    known: int = 0
    late: dict[str, Row] = field(default_factory=dict)
    # one that had them all
    whole: Row | None = None


@once_per_run
def find_rolling_restarts(context: DetectionContext) -> list[list[RollingStop]]:
    """Find the rolls, and judge each stop of them."""
    rolls = [_stops(run) for run in _group(context)]
    for roll in rolls:
        _judge(context, roll)
    return rolls


@once_per_run
def rolled_absences(context: DetectionContext) -> frozenset[tuple[int, int]]:
    """Return broker and begin of each absence that is part of a roll."""
    return frozenset(
        (stop.absence.broker, stop.absence.begin)
        for roll in find_rolling_restarts(context)
        for stop in roll
    )


def _group(context: DetectionContext) -> Iterator[list[Absence]]:
    """Group planned absences; one that never ended may be the shutdown of the whole cluster."""
    gap = context.limits["rolling-restart"]["gap"] * SECOND
    planned = [one for one in context.absences if one.kind == "controlled" and one.end is not None]
    run: list[Absence] = []
    for absence in sorted(planned, key=lambda one: (one.begin, one.broker)):
        last = max((one.end or 0 for one in run), default=0)
        again = absence.broker in {one.broker for one in run}
        if run and (again or absence.begin - last > gap):
            if len(run) > 1:
                yield run
            run = []
        run.append(absence)
    if len(run) > 1:
        yield run


def _stops(run: Sequence[Absence]) -> list[RollingStop]:
    brokers = [absence.broker for absence in run]
    return [RollingStop(one, frozenset(brokers[:index])) for index, one in enumerate(run)]


def _judge(context: DetectionContext, roll: Sequence[RollingStop]) -> None:
    first, last = (roll[index].absence.begin for index in (1, -1))
    begin, end = pc.field("started_at"), pc.field("ended_at")
    where = (begin <= to_arrow_timestamp(last)) & pc.field("isr").is_valid()
    where &= end.is_null() | (end >= to_arrow_timestamp(first))
    assignments = read_assignments(context)
    for row in context.each("isr", where, _COLUMNS):
        for stop in roll[1:]:
            moment = stop.absence.begin
            holds = row["started_at"] <= moment < (row["ended_at"] or moment + 1)
            awaited = stop.earlier & set(replicas_of(assignments, row))
            if holds and awaited:
                stop.known += 1
                if awaited - set(row["isr"]):
                    stop.late[partition_name(row)] = row
                else:
                    stop.whole = stop.whole or row
