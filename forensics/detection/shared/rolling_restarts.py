"""Rolling restarts: brokers that were stopped on purpose one after the other, each once.

Before each stop all brokers that were restarted before it should be in sync again: what is missing
then is found in tables/isr.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, once_per_run, partition_name
from forensics.detection.shared.assignments import read_assignments, replicas_of
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND, to_arrow_timestamp

_COLUMNS = ("topic", "partition", "isr", "replicas", "started_at", "ended_at", "evidence")
_NEVER = 1 << 62
# So many of the partitions that lack a replica are shown.
_SHOWN = 5


@dataclass
class RollingStop:
    """One stop of a roll, and the partitions on which earlier brokers were not in sync by then."""

    absence: Absence
    earlier: frozenset[int]
    # the partitions that have a replica on an earlier broker, as far as their ISR is known
    known: int = 0
    late: list[str] = field(default_factory=list)
    # what shows a few of these, and one partition that had them all
    evidence: list[Row] = field(default_factory=list)
    whole: list[Row] = field(default_factory=list)


@once_per_run
def find_rolling_restarts(context: DetectionContext) -> list[list[RollingStop]]:
    """Find the rolls, and judge each stop of them."""
    rolls = [_stops(run) for run in _group(context)]
    _judge(context, [stop for roll in rolls for stop in roll[1:]])
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


def _judge(context: DetectionContext, stops: Sequence[RollingStop]) -> None:
    """Look in one pass which partitions each stop found whole, and which not."""
    if not stops:
        return
    last = max(stop.absence.begin for stop in stops)
    where = (pc.field("started_at") <= to_arrow_timestamp(last)) & pc.field("isr").is_valid()
    assignments = read_assignments(context)
    for batch in context.batches("isr", where, _COLUMNS):
        starts, ends = (batch.column(name).cast(pa.int64()) for name in ("started_at", "ended_at"))
        begins, endings = starts.to_numpy(), pc.fill_null(ends, _NEVER).to_numpy()
        rows = batch.select(["topic", "partition", "replicas", "isr"]).to_pylist()
        names = np.array([partition_name(row) for row in rows], object)
        # There are few pairs of replicas and ISR.
        pairs: dict[tuple[frozenset[int], frozenset[int]], int] = {}
        codes = np.array(
            [
                pairs.setdefault(
                    (frozenset(replicas_of(assignments, row)), frozenset(row["isr"])), len(pairs)
                )
                for row in rows
            ]
        )
        first, end = begins.min(), endings.max()
        for stop in stops:
            moment = stop.absence.begin
            if not first <= moment < end:
                continue
            awaited = [stop.earlier & replicas for replicas, _ in pairs]
            lacking = [bool(one - isr) for one, (_, isr) in zip(awaited, pairs, strict=True)]
            holds = (begins <= moment) & (moment < endings) & np.array([*map(bool, awaited)])[codes]
            is_late = np.array(lacking)[codes]
            late, whole = np.flatnonzero(holds & is_late), np.flatnonzero(holds & ~is_late)[:1]
            stop.known += int(holds.sum())
            stop.late += names[late].tolist()
            stop.evidence += _first_lines(batch, late[: _SHOWN - len(stop.evidence)])
            stop.whole += _first_lines(batch, whole[: 1 - len(stop.whole)])


def _first_lines(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> list[Row]:
    """Return the first line of evidence of some rows, where there is one."""
    evidence = batch.column("evidence").take(pa.array(places)).to_pylist()
    return [lines[0] for lines in evidence if lines]
