"""Finds when a partition had nobody who could serve it: no leader, or one that was away.

Clients feel a leader that is dead, hung or cut off from the moment it went, long before the
cluster elects another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.nodes.broker_states import FOREVER, Absence, Absences
from forensics.lib.arrow_io import read_batches, to_batches
from forensics.lib.intervals import clip, total_length
from forensics.lib.time_units import SECOND
from forensics.schemas import OUTAGES

_COLUMNS = (
    "topic", "partition", "leader", "previous_leader", "started_at", "ended_at", "ended",
    "replicas", "evidence",
)  # fmt: skip
_WHY = {
    "crash": "leader_dead",
    "pause": "leader_hung",
    "fenced": "leader_hung",
    "isolated": "leader_isolated",
    "controlled": "leader_stopped",
    "gone": "leader_dead",
    "unknown": "leader_dead",
}
# A broker that stops in order serves until its partitions have other leaders, within that.
_HANDOVER = 5 * SECOND
_MAX_LINES = 4
Row = Mapping[str, Any]


@dataclass
class _Outage:
    """One stretch of time of one partition; an end of `FOREVER` was not seen."""

    topic: str
    partition: int
    begin: int
    end: int
    why: str
    leader: int | None
    # who led last, if nobody does
    previous_leader: int | None
    started_before: int | None
    replicas: Sequence[int]
    # whether its leaders were stopped in order
    stopped: bool
    evidence: list[Row] = field(default_factory=list)


def build_outages(leadership: Path, absences: Sequence[Absence]) -> pa.Table:
    """Build the table of outages from the saved leader epochs, in their order."""
    known = Absences(sorted(absences, key=lambda one: (one.broker, one.begin)))
    rows = (_row(outage, known) for outage in _merge(_read_pieces(leadership, known)))
    return pa.Table.from_batches(list(to_batches(rows, OUTAGES)), OUTAGES)


def _read_pieces(leadership: Path, absences: Absences) -> Iterator[_Outage]:
    """Yield each part of a leader epoch in which nobody served, in the order of the table."""
    for batch in read_batches(leadership, _COLUMNS, pc.field("started_at").is_valid()):
        leaders = batch["leader"].fill_null(-2).to_numpy(zero_copy_only=False)
        begins = batch["started_at"].cast(pa.int64()).to_numpy()
        # An end that nobody saw is the last moment that is certain, if there is one.
        unknown = pc.fill_null(pc.equal(batch["ended"], "unknown"), fill_value=False)
        ends = pc.coalesce(
            batch["ended_at"].cast(pa.int64()),
            pc.if_else(unknown, batch["started_at"].cast(pa.int64()), FOREVER),
        ).to_numpy()
        hit = leaders == -1
        for broker in np.unique(leaders).tolist():
            led = leaders == broker
            hit[led] |= absences.meet(broker, begins[led], ends[led])
        hit &= begins < ends
        chosen = np.flatnonzero(hit)
        for row, begin, end in zip(
            batch.take(pa.array(chosen)).to_pylist(), begins[chosen], ends[chosen], strict=True
        ):
            away = absences.around([row["leader"]], int(begin), int(end))
            yield from _pieces_of(row, int(begin), int(end), away)


def _pieces_of(row: Row, begin: int, end: int, absences: Iterable[Absence]) -> Iterator[_Outage]:
    key, replicas = (row["topic"], row["partition"]), row["replicas"] or ()
    lines = (row["evidence"] or [])[:1]
    if row["leader"] == -1:
        last = row["previous_leader"] if (row["previous_leader"] or 0) >= 0 else None
        yield _Outage(*key, begin, end, "no_leader", None, last, None, replicas, False, lines)
        return
    for absence in absences:
        until = FOREVER if absence.end is None else absence.end
        start, stop = max(begin, absence.begin), min(end, until)
        if start < stop:
            shown = [{"file": line["file"], "line": line["line"]} for line in absence.evidence[:2]]
            latest = absence.begin_bracket[1] if absence.begin_bracket else start
            yield _Outage(
                *key, start, stop, _WHY[absence.kind], absence.broker, absence.broker,
                latest if latest > start == absence.begin else None, replicas,
                absence.kind == "controlled", [*shown, *lines],
            )  # fmt: skip


def _merge(pieces: Iterable[_Outage]) -> Iterator[_Outage]:
    """Join the parts that follow each other without a gap: they began with the first."""
    last: _Outage | None = None
    for piece in pieces:
        follows = (
            last is not None
            and (last.topic, last.partition) == (piece.topic, piece.partition)
            and piece.begin <= last.end
        )
        if last is not None and follows:
            last.end = max(last.end, piece.end)
            last.stopped &= piece.stopped or piece.why == "no_leader"
            last.replicas = last.replicas or piece.replicas
            last.evidence += piece.evidence
        else:
            if last is not None:
                yield last
            last = piece
    if last is not None:
        yield last


def _row(outage: _Outage, absences: Absences) -> dict[str, Any]:
    lines = {(line["file"], line["line"]): line for line in outage.evidence}
    return {
        "topic": outage.topic,
        "partition": outage.partition,
        "started_at": outage.begin,
        "ended_at": None if outage.end == FOREVER else outage.end,
        "started_before": outage.started_before,
        "ended_after": None,
        "why": outage.why,
        "leader": outage.leader,
        "previous_leader": outage.previous_leader,
        "planned": _is_planned(outage, absences),
        "evidence": list(lines.values())[:_MAX_LINES],
    }


def _is_planned(outage: _Outage, absences: Absences) -> bool:
    """Return True if brokers were stopped in order, and nobody else could have taken over.

    The same stops take partitions away unplanned where a replica was alive all the while: it had
    fallen out of the ISR, and the broker was stopped nevertheless.
    """
    replicas = {*outage.replicas, outage.previous_leader} - {None}
    if not outage.stopped and outage.why != "no_leader":
        return False
    if outage.end - outage.begin <= _HANDOVER:
        return outage.stopped
    if outage.end == FOREVER:
        return _is_planned_for_good(outage.begin, replicas, absences)
    away = absences.around(replicas, outage.begin, outage.end)
    stops = [one for one in away if one.kind == "controlled"]
    window = (outage.begin, outage.end)
    near = [one for one in stops if one.begin < outage.end and (one.end or FOREVER) > outage.begin]
    # Nobody plans that a broker does not come up again.
    if not near or any(one.start_failed for one in near):
        return False
    for replica in replicas:
        own = (
            (one.begin, FOREVER if one.end is None else one.end)
            for one in away
            if one.broker == replica
        )
        if 2 * total_length(clip(own, window)) < window[1] - window[0]:
            return False
    return True


def _is_planned_for_good(begin: int, replicas: set[int | None], absences: Absences) -> bool:
    """Return what `_is_planned` says of an outage that the logs saw no end of.

    It meets all later absences, of which there may be thousands, and only those count that did not
    end either: of such a time all others are nothing.
    """
    known = [absences.summary(broker) for broker in replicas]
    if all(one.open_kind == "controlled" for one in known):
        return bool(replicas)
    stopped = any(one.stopped_until > begin for one in known)
    # Nobody plans that a broker does not come up again.
    failed = any(one.failed_until > begin for one in known)
    return stopped and not failed and all(one.open_kind is not None for one in known)
