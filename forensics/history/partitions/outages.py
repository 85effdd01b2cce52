"""Finds when a partition had nobody who could serve it: no leader, or one that was away.

Clients feel a leader that is dead, hung or cut off from the moment it went, long before the
cluster elects another one. A leader whose replica lies on a failed disk serves nobody either,
though its broker runs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import FOREVER, Absence, Absences, Span
from forensics.history.partitions.observations import has_moment_between
from forensics.lib.arrow_io import (
    SIGHTING,
    is_any_of,
    iter_rows,
    read_batches,
    read_events,
    to_batches,
)
from forensics.lib.intervals import clip, intersect, merge, total_length
from forensics.lib.node_ids import broker_id
from forensics.lib.time_units import SECOND
from forensics.schemas import OUTAGES

_COLUMNS = (
    "topic", "partition", "leader", "previous_leader", "started_at", "started_before", "ended_at",
    "ended", "replicas", "evidence",
)  # fmt: skip
_GAP_COLUMNS = (
    "topic", "partition", "incarnation", "leader_epoch", "leader", "started_at", "started_before",
    "ended_at", "ended", "replicas", "previous_leader", "evidence",
)  # fmt: skip
_SORT_KEY = attrgetter("sort_key")
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
# A controller that hears of a failed disk elects another leader within that, where there is one.
_REELECTED = SECOND
# A controller under ZooKeeper takes the leaders from a topic, in steps, as it deletes it.
_DELETING = 5 * SECOND
_MAX_LINES = 4
_STARTS = ("starting", "recovering")
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
    # by when it was over, where its end was not seen
    ended_after: int | None = None
    # whether the leader's replica lay on a disk that had failed
    disk_failed: bool = False

    @property
    def sort_key(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.begin


@dataclass(frozen=True)
class LeaderGap:
    """A time after a leader went away in which no line tells who led its partition."""

    topic: str
    partition: int
    leader: int
    begin: int
    # None: until the logs end
    end: int | None


@dataclass(frozen=True)
class OfflineReplica:
    """A replica on a disk that failed: its broker runs, and does not serve it."""

    topic: str
    partition: int
    broker: int
    begin: int
    # when its broker was started again; `FOREVER` if it was not
    end: int
    evidence: Row


def read_offline_replicas(
    events: Path, clocks: Clocks, brokers: Mapping[int, Sequence[Span]]
) -> list[OfflineReplica]:
    """Read which replicas brokers gave up with a disk; a start looks at each disk anew."""
    starts = {
        broker: sorted(span.begin for span in spans if span.state in _STARTS)
        for broker, spans in brokers.items()
    }
    first: dict[tuple[str, int, int, int], OfflineReplica] = {}
    where = pc.field("topic").is_valid() & pc.field("ts").is_valid()
    columns = [*SIGHTING, "topic", "partition", "broker"]
    for row in read_events(events, ["replica_offline"], columns, where):
        broker = broker_id(row["node"] or "") if row["broker"] is None else row["broker"]
        if broker is None or row["partition"] is None:
            continue
        at = clocks.event_time(row)
        own = starts.get(broker, [])
        place = bisect_right(own, at)
        end = own[place] if place < len(own) else FOREVER
        line = {"file": row["file"], "line": row["line"]}
        one = OfflineReplica(row["topic"], row["partition"], broker, at, end, line)
        key = (one.topic, one.partition, broker, end)
        if key not in first or _order(one) < _order(first[key]):
            first[key] = one
    return sorted(first.values(), key=lambda one: (one.topic, one.partition, *_order(one)))


def _order(replica: OfflineReplica) -> tuple[int, str, int]:
    return replica.begin, replica.evidence["file"], replica.evidence["line"]


def build_outages(
    leadership: Path,
    absences: Sequence[Absence],
    offline: Sequence[OfflineReplica] = (),
    deletions: Mapping[str, Sequence[int]] | None = None,
) -> pa.Table:
    """Build the table of outages from the saved leader epochs, in their order.

    `deletions` are the moments at which topics were being deleted: their partitions then have no
    leader, and nobody is to serve them.
    """
    known = _index(absences)
    deleted = deletions or {}
    unseen = [
        one
        for gap in _read_gaps(leadership, known)
        for one in _outages_in(gap, known)
        if one.why != "no_leader" or not _was_deleted(one.topic, one.begin, deleted)
    ]
    unseen += _read_offline_pieces(leadership, offline)
    seen = _read_pieces(leadership, known, deleted)
    pieces = heapq.merge(seen, sorted(unseen, key=_SORT_KEY), key=_SORT_KEY)
    rows = (_row(outage, known) for outage in _merge(pieces))
    return pa.Table.from_batches(list(to_batches(rows, OUTAGES)), OUTAGES)


def find_leader_gaps(leadership: Path, absences: Sequence[Absence]) -> Iterator[LeaderGap]:
    """Find where a leader went away that nobody stopped, and no line tells who led after it.

    Its partition may have been unavailable meanwhile, or not.
    """
    known = _index(absences)
    for gap in _read_gaps(leadership, known):
        for row in gap.rows:
            end = FOREVER if gap.end is None else gap.end
            away = (
                one
                for one in known.around([row["leader"]], gap.begin, end)
                if one.kind != "controlled" and one.begin < end and _until(one) > gap.begin
            )
            if (first := next(away, None)) is not None:
                begin = max(gap.begin, first.begin)
                yield LeaderGap(row["topic"], row["partition"], first.broker, begin, gap.end)
                break


def _index(absences: Sequence[Absence]) -> Absences:
    return Absences(sorted(absences, key=lambda one: (one.broker, one.begin)))


def _until(absence: Absence) -> int:
    return FOREVER if absence.end is None else absence.end


@dataclass(frozen=True)
class _Gap:
    """From the last certain moment of a leader epoch to the next that is known, or the logs' end.

    Its rows are the epoch before, and those of which nobody knows when they began; the last one of
    them began by the end of the gap, or the row after them did so then.
    """

    begin: int
    end: int | None
    rows: Sequence[Row]
    after: Row | None

    @property
    def leaders(self) -> set[int] | None:
        """Return who may have led meanwhile; None if it may have been any replica."""
        rows = [*self.rows, *([self.after] if self.after else [])]
        epochs = [row["leader_epoch"] for row in rows]
        if self.after is None or epochs != list(range(epochs[0], epochs[0] + len(epochs))):
            return None
        leaders = {row["leader"] for row in rows}
        return None if None in leaders else leaders - {-1}

    @property
    def replicas(self) -> set[int]:
        """Return the replicas, if all rows that name them name the same; else nothing."""
        rows = [*self.rows, *([self.after] if self.after else [])]
        named = {tuple(sorted(row["replicas"])) for row in rows if row["replicas"]}
        return set(named.pop()) if len(named) == 1 else set()


def _read_gaps(leadership: Path, absences: Absences) -> Iterator[_Gap]:
    """Yield the gaps of all partitions that a broker's absence falls into."""
    if not absences.all:
        return
    last_end = max(map(_until, absences.all))
    rows: list[Row] = []
    for batch in read_batches(leadership, _GAP_COLUMNS):
        # Most rows neither begin a gap nor end one, and there may be millions.
        begins = batch["started_at"].cast(pa.int64())
        ends = batch["ended_at"].cast(pa.int64())
        loose = pc.or_(
            pc.is_null(begins),
            pc.and_(
                pc.fill_null(pc.equal(batch["ended"], "unknown"), fill_value=False),
                pc.fill_null(pc.less(ends, last_end), fill_value=False),
            ),
        ).to_numpy(zero_copy_only=False)
        chosen = loose.copy()
        chosen[1:] |= loose[:-1]
        # The row that ends a gap may be the first of a batch.
        chosen[:1] = True
        for row in iter_rows([batch.take(pa.array(np.flatnonzero(chosen)))], _GAP_COLUMNS):
            if rows and _history(row) != _history(rows[0]):
                yield from _gaps_in(rows, absences)
                rows = []
            rows.append(row)
    if rows:
        yield from _gaps_in(rows, absences)


def _history(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["incarnation"]


def _gaps_in(rows: Sequence[Row], absences: Absences) -> Iterator[_Gap]:
    """Yield the gaps in the history of one partition."""
    inside: list[Row] = []
    for row in rows:
        start = row["started_at"] if row["started_at"] is not None else row["started_before"]
        if inside and start is not None:
            yield from _gap(inside, start, row, absences)
            inside = []
        if inside:
            inside.append(row)
        elif row["ended"] == "unknown" and _known_until(row) is not None:
            inside = [row]
    if inside:
        yield from _gap(inside, None, None, absences)


def _known_until(row: Row) -> int | None:
    """Return the last moment that is certain of a leader epoch whose end nobody saw."""
    moments = (row["ended_at"], row["started_at"], row["started_before"])
    return next((int(at) for at in moments if at is not None), None)


def _gap(
    rows: Sequence[Row], end: int | None, after: Row | None, absences: Absences
) -> Iterator[_Gap]:
    """Yield a gap if it has a length, and somebody was away in it."""
    begin = _known_until(rows[0]) or 0
    brokers = {row["leader"] for row in [*rows, *([after] if after else [])]}
    brokers |= {broker for row in rows for broker in row["replicas"] or ()}
    until = FOREVER if end is None else end
    if begin < until and absences.around(brokers, begin, until):
        yield _Gap(begin, end, tuple(rows), after)


def _outages_in(gap: _Gap, absences: Absences) -> Iterator[_Outage]:
    """Yield when nobody served for sure: whoever led, it was one broker or none, and that was away.

    The first, of length 0, says of an outage that lasts into the gap by when it was over.
    """
    first, end = gap.rows[0], gap.end
    if end is None:
        return
    own = absences.around([first["leader"]], gap.begin, gap.begin)
    if first["leader"] == -1 or any(one.begin <= gap.begin < _until(one) for one in own):
        yield _Outage(
            first["topic"], first["partition"], gap.begin, gap.begin, "no_leader", None, None,
            None, (), stopped=True, ended_after=end,
        )  # fmt: skip
    if gap.leaders == set() and gap.after is not None:
        # Epoch follows epoch, and none of them has a leader: the first goes on to the last's end.
        seen = gap.after["ended_at"]
        is_open = seen is None and gap.after["ended"] != "unknown"
        until = FOREVER if is_open else end if seen is None else int(seen)
        last = first["previous_leader"] if (first["previous_leader"] or 0) >= 0 else None
        yield _Outage(
            first["topic"], first["partition"], gap.begin, until, "no_leader", None, last, None,
            first["replicas"] or (), stopped=False, evidence=(gap.after["evidence"] or [])[:1],
        )  # fmt: skip
    candidates = gap.leaders if gap.leaders is not None else gap.replicas
    if len(candidates) == 1:
        (leader,) = candidates
        away = absences.around([leader], gap.begin, end)
        for piece in _pieces_of({**first, "leader": leader}, gap.begin, end, away):
            yield replace(piece, ended_after=end if piece.end < end else None)
    elif candidates:
        yield from _while_all_away(gap, end, sorted(candidates), absences)


def _while_all_away(
    gap: _Gap, end: int, candidates: Sequence[int], absences: Absences
) -> Iterator[_Outage]:
    """Yield when all were away of whom one may have led: whoever it was, nobody served."""
    first = gap.rows[0]
    spans = [(gap.begin, end)]
    for broker in candidates:
        own = [(one.begin, _until(one)) for one in absences.around([broker], gap.begin, end)]
        spans = intersect(spans, merge(own))
    for begin, until in spans:
        away = absences.around(candidates, begin, begin)
        last = max(away, key=lambda one: (one.begin, one.broker))
        lines: list[Row] = [{"file": line["file"], "line": line["line"]}
                 for one in away for line in one.evidence[:1]]  # fmt: skip
        yield _Outage(
            first["topic"], first["partition"], begin, until, _WHY[last.kind], None, None, None,
            candidates, all(one.kind == "controlled" for one in away), lines,
            ended_after=end if until < end else None,
        )  # fmt: skip


def _read_pieces(
    leadership: Path, absences: Absences, deletions: Mapping[str, Sequence[int]]
) -> Iterator[_Outage]:
    """Yield each part of a leader epoch in which nobody served, in the order of the table."""
    dated = pc.field("started_at").is_valid() | pc.field("started_before").is_valid()
    for batch in read_batches(leadership, _COLUMNS, dated):
        leaders = batch["leader"].fill_null(-2).to_numpy(zero_copy_only=False)
        begins, ends = _spans_of(batch)
        hit = leaders == -1
        for broker in np.unique(leaders).tolist():
            led = leaders == broker
            hit[led] |= absences.meet(broker, begins[led], ends[led])
        hit &= begins < ends
        chosen = np.flatnonzero(hit)
        for row, begin, end in zip(
            batch.take(pa.array(chosen)).to_pylist(), begins[chosen], ends[chosen], strict=True
        ):
            if row["leader"] == -1 and _was_deleted(row["topic"], int(begin), deletions):
                continue
            away = absences.around([row["leader"]], int(begin), int(end))
            yield from _pieces_of(row, int(begin), int(end), away)


def _was_deleted(topic: str, at: int, deletions: Mapping[str, Sequence[int]]) -> bool:
    """Return True if a topic was being deleted: nobody is to serve it then."""
    return has_moment_between(deletions.get(topic, ()), at - _DELETING, at)


def _spans_of(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return when leader epochs began, or by when they had, and when they ended."""
    begins = pc.coalesce(batch["started_at"], batch["started_before"]).cast(pa.int64())
    # An end that nobody saw is the last moment that is certain, if there is one.
    unknown = pc.fill_null(pc.equal(batch["ended"], "unknown"), fill_value=False)
    ends = pc.coalesce(batch["ended_at"].cast(pa.int64()), pc.if_else(unknown, begins, FOREVER))
    return begins.to_numpy(), ends.to_numpy()


def _read_offline_pieces(leadership: Path, offline: Sequence[OfflineReplica]) -> Iterator[_Outage]:
    """Yield when a partition was led by a broker whose replica was offline."""
    lost: dict[tuple[str, int, int], list[OfflineReplica]] = defaultdict(list)
    for replica in offline:
        lost[replica.topic, replica.partition, replica.broker].append(replica)
    where = pc.field("started_at").is_valid() & is_any_of("topic", {key[0] for key in lost})
    for batch in read_batches(leadership, _COLUMNS, where) if lost else ():
        begins, ends = _spans_of(batch)
        for row, begin, end in zip(batch.to_pylist(), begins, ends, strict=True):
            for one in lost.get((row["topic"], row["partition"], row["leader"]), ()):
                # Who is elected later has a replica to lead with.
                until = min(int(end), one.end)
                if begin < one.begin < until - _REELECTED:
                    yield _Outage(
                        one.topic, one.partition, one.begin, until, "no_leader",
                        None, one.broker, None, row["replicas"] or (), stopped=False,
                        evidence=[one.evidence], disk_failed=True,
                    )  # fmt: skip


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
            if piece.end >= last.end:
                last.end, last.ended_after = piece.end, piece.ended_after
            last.stopped &= piece.stopped or piece.why == "no_leader"
            last.disk_failed |= piece.disk_failed
            last.replicas = last.replicas or piece.replicas
            last.evidence += piece.evidence
        elif piece.begin < piece.end:
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
        "ended_after": outage.ended_after,
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
    if outage.disk_failed or (not outage.stopped and outage.why != "no_leader"):
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
