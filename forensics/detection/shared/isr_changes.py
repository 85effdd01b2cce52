"""Followers that leaders dropped from their ISR for lagging, grouped in time.

Only a leader's own line tells of that: a broker that is fenced or stops is taken out of every ISR
by the controller, which says nothing of how well it kept up.

How ISRs became whole again after followers were dropped from them, as tables/isr tells.

Leaders whose changes of the ISR are refused again and again, with the same version.

Brokers that leave the in-sync replicas again and again, while they themselves are there.

The table of ISRs may hold millions of rows: it is compared with itself, a row with the one before
it, in columns, and only how many replicas left in which second is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, by_time, partition_name
from forensics.detection.shared.event_sessions import EventSession, find_sessions
from forensics.history.nodes.broker_states import Absence
from forensics.lib.time_units import SECOND
from forensics.run_output.reader import Tables

# Of the drops of a run so many of the first give it their lines, and so many partitions a name.
_KEPT, _NAMES = 40, 10_000
_SHRINK_COLUMNS = (
    "ts", "node", "file", "line", "text", "rule", "topic", "partition", "broker", "previous_isr",
    "isr", "log_end", "detail",
)  # fmt: skip
_POSITION = re.compile(r"brokerId: (\d+), endOffset: (-?\d+)")

Subject = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsrShrink:
    """One line by which a leader drops followers from the ISR of one partition."""

    at: int
    leader: int
    replicas: Sequence[int]
    partition: str
    # how many records the last of them was behind, where the line says so
    lag: int | None
    # whether one of those concerned hung or died around that moment
    excused: bool
    row: Row


@dataclass
class ShrinkRun:
    """Drops of one subject that follow each other closely; times are corrected."""

    subject: Subject
    begin: int
    end: int
    count: int
    # who dropped whom, and how often; and how often each partition lost somebody
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    # in how many drops the followers had all records, and the most that one was behind
    caught_up: int = 0
    max_lag: int | None = None
    excused: int = 0
    first: list[Row] = field(default_factory=list)

    def add(self, drop: IsrShrink) -> None:
        """Take one of the drops of the run."""
        self.pairs.update((drop.leader, replica) for replica in drop.replicas)
        if drop.partition in self.partitions or len(self.partitions) < _NAMES:
            self.partitions[drop.partition] += 1
        if drop.lag is not None:
            self.caught_up += drop.lag == 0
            self.max_lag = max(drop.lag, self.max_lag or 0)
        self.excused += drop.excused
        self.first.append(drop.row)
        if len(self.first) > 4 * _KEPT:
            self.first = sorted(self.first, key=by_time)[:_KEPT]

    def blame(self) -> tuple[list[int], list[int]]:
        """Name the followers that were slow, and the leaders that nobody could read from.

        Many leaders that drop one follower speak of that follower; one leader that drops many
        speaks of itself.
        """
        by = Counter(replica for _, replica in self.pairs)
        of = Counter(leader for leader, _ in self.pairs)
        slow = {replica for leader, replica in self.pairs if by[replica] >= of[leader]}
        cut_off = {leader for leader, replica in self.pairs if by[replica] < of[leader]}
        return sorted(slow), sorted(cut_off)


def find_shrink_runs(
    context: DetectionContext,
    subjects_of: Callable[[IsrShrink], Iterable[Subject]],
    gap: float,
    min_count: int,
    near: float,
) -> list[ShrinkRun]:
    """Group the drops of each subject that are no further than `gap` seconds apart.

    Left out is who was on its way down or up on purpose, within `near` seconds, and what a leader
    says that is none. A drop of one that went in another way is excused: that is told elsewhere.
    """
    reasons = _Reasons(context, round(near * SECOND))
    found = _spans(context, subjects_of, round(gap * SECOND), min_count, reasons)
    begins = {who: [one.begin for one in mine] for who, mine in found.items()}
    for drop in _drops(context, reasons) if found else ():
        for who in subjects_of(drop):
            at = bisect_right(begins.get(who, ()), drop.at) - 1
            if at >= 0 and drop.at <= found[who][at].end:
                found[who][at].add(drop)
    every = [one for mine in found.values() for one in mine]
    for one in every:
        one.first = sorted(one.first, key=by_time)[:_KEPT]
    return sorted(every, key=lambda one: (one.begin, repr(one.subject)))


def find_isr_storms(context: DetectionContext) -> list[ShrinkRun]:
    """Find the runs of shrinks, whoever was dropped by whom, that are long enough for a storm."""
    limits = context.limits["isr-storm"]
    gap, near = limits["gap"], limits["near"]
    return find_shrink_runs(context, lambda _: [()], gap, limits["shrinks"], near)


class _Reasons:
    """How brokers were away, around the moments at which they are dropped or drop others.

    The leader notices a lag only after its time-out, and a follower that is back still has to read.
    A leader that hung finds on waking that nobody has fetched from it.
    """

    def __init__(self, context: DetectionContext, reach: int) -> None:
        self._reach = reach
        # A leader that is refused again and again leads in its own eyes only.
        self.void = rejected_leaders(context)
        self._away: dict[int, list[Absence]] = {}
        for one in context.absences:
            self._away.setdefault(one.broker, []).append(one)

    def of(self, broker: int, moment: int) -> set[str]:
        """Say how a broker was away around a moment."""
        return {
            one.kind
            for one in self._away.get(broker, ())
            if one.begin - self._reach <= moment
            and (one.end is None or moment <= one.end + self._reach)
        }


def _drops(context: DetectionContext, reasons: _Reasons) -> Iterator[IsrShrink]:
    """Read every drop that no planned stop or start explains."""
    shorter = pc.list_value_length(pc.field("isr")) < pc.list_value_length(pc.field("previous_isr"))
    where = (pc.field("kind") == "isr_proposed") & shorter & pc.field("ts").is_valid()
    for row in context.each("events", where, _SHRINK_COLUMNS):
        leader, at = row["broker"], row["at"]
        if None in (leader, row["topic"], row["partition"]):
            continue
        dropped = {
            replica: reasons.of(replica, at)
            for replica in sorted(set(row["previous_isr"]) - set(row["isr"]))
        }
        left = {who: why for who, why in dropped.items() if "controlled" not in why}
        why = reasons.of(leader, at)
        if left and "controlled" not in why and (leader, partition_name(row)) not in reasons.void:
            excused = bool(why) or all(left.values())
            yield IsrShrink(
                at, leader, list(left), partition_name(row), _gap(row, left), excused, row
            )


def _gap(row: Row, replicas: Iterable[int]) -> int | None:
    """How far behind the last of them was; an end of -1 is one that has not fetched here yet."""
    ends = {int(who): int(end) for who, end in _POSITION.findall(row["detail"] or "")}
    known = [ends[one] for one in replicas if ends.get(one, -1) >= 0]
    return max(0, row["log_end"] - min(known)) if known and row["log_end"] is not None else None


def _spans(
    context: DetectionContext,
    of: Callable[[IsrShrink], Iterable[Subject]],
    gap: int,
    least: int,
    reasons: _Reasons,
) -> dict[Subject, list[ShrinkRun]]:
    """Read when each subject had drops; within a stretch of `gap` they all belong together."""
    told: dict[Subject, dict[int, ShrinkRun]] = {}
    for drop in _drops(context, reasons):
        for who in of(drop):
            stretches = told.setdefault(who, {})
            one = stretches.get(drop.at // max(gap, 1))
            if one is None:
                stretches[drop.at // max(gap, 1)] = ShrinkRun(who, drop.at, drop.at, 1)
            else:
                one.begin, one.end = min(drop.at, one.begin), max(drop.at, one.end)
                one.count += 1
    joined = {who: [one for one in _joined(told[who], gap) if one.count >= least] for who in told}
    return {who: mine for who, mine in joined.items() if mine}


def _joined(stretches: dict[int, ShrinkRun], gap: int) -> list[ShrinkRun]:
    found: list[ShrinkRun] = []
    for at in sorted(stretches):
        one = stretches[at]
        if found and one.begin - found[-1].end <= gap:
            found[-1].end = one.end
            found[-1].count += one.count
        else:
            found.append(one)
    return found


_RECOVERY_COLUMNS = (
    "topic",
    "partition",
    "isr",
    "replicas",
    "leader",
    "started_at",
    "ended_at",
    "ended",
)


@dataclass(frozen=True)
class IsrRecovery:
    """What became of the ISRs of some partitions after a run of drops."""

    # how often one of them grew, from the first drop to the moment when all that came back were
    expands: int
    recovered_at: int
    # the partitions that are short of a replica to the very end
    still_short: Sequence[str]


def find_recovery(
    context: DetectionContext, partitions: Collection[str], begin: int, end: int
) -> IsrRecovery:
    """Follow the ISRs of some partitions from the begin of a run, to when they are whole."""
    moments: list[int] = []
    short: list[str] = []
    back = end
    for rows in _each_partition(context, partitions, begin):
        known = [row for row in rows if row["isr"] is not None]
        if not known:
            continue
        moments += [
            after["started_at"]
            for before, after in pairwise(known)
            if set(after["isr"]) - set(before["isr"]) and (after["started_at"] or 0) >= begin
        ]
        wanted, seen = _wanted(known)
        whole = (row for row in known if wanted <= set(row["isr"]) and _holds(row, end))
        first = next(whole, None)
        if first is not None and seen:
            back = max(back, first["started_at"] or 0)
        elif first is None and known[-1]["ended"] == "open" and known[-1]["leader"] != -1:
            # A cluster that is shut down leaves its partitions without a leader.
            short.append(partition_name(known[-1]))
    return IsrRecovery(sum(one <= back for one in moments), back, sorted(short))


def _wanted(known: Sequence[Row]) -> tuple[set[int], bool]:
    """Give the replicas that a whole ISR has, and whether that is more than a guess.

    Where no line tells the replicas, they are those that were in sync at any time: if that never
    changed, nothing can be said.
    """
    told = next((row["replicas"] for row in reversed(known) if row["replicas"]), None)
    if told:
        return set(told), True
    every = {one for row in known for one in row["isr"]}
    return every, any(set(row["isr"]) < every for row in known)


def _holds(row: Row, moment: int) -> bool:
    return row["ended_at"] is None or row["ended_at"] > moment


def _each_partition(
    context: DetectionContext, partitions: Collection[str], begin: int
) -> Iterator[Sequence[Row]]:
    """Read the versions of each partition that held at that moment or later, in their order."""
    topics = sorted({name.rpartition("-")[0] for name in partitions})
    if not topics:
        return
    topic = pc.field("topic")
    where = topic.isin(topics) & (topic >= topics[0]) & (topic <= topics[-1])
    chosen = (
        row
        for row in context.each("isr", where, _RECOVERY_COLUMNS)
        if _holds(row, begin) and partition_name(row) in partitions
    )
    for _, rows in groupby(chosen, partition_name):
        yield list(rows)


_LIMITS = "metadata-version-loop"


def find_rejection_loops(context: DetectionContext) -> Mapping[int, list[EventSession]]:
    """Give, for each broker, the loops of its partitions (topic, partition, broker)."""
    limits = context.limits[_LIMITS]
    where = (pc.field("kind") == "isr_rejected") & pc.field("broker").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    found: dict[int, list[EventSession]] = {}
    subject = ["topic", "partition", "broker"]
    for one in find_sessions(
        context, where, subject, limits["gap"], ["partition_epoch"], limits["repeats"]
    ):
        # A leader that is refused once, learns of it and asks with the new version is well.
        same = max(one.value_counts["partition_epoch"].values(), default=0)
        if one.seconds > limits["lasting"] and same >= limits["repeats"]:
            found.setdefault(one.subject[2], []).append(one)
    return found


def rejected_leaders(context: DetectionContext) -> frozenset[tuple[int, str]]:
    """Name the brokers and partitions whose words on the ISR are void."""
    return frozenset(
        (broker, f"{topic}-{partition}")
        for broker, mine in find_rejection_loops(context).items()
        for topic, partition, _ in (one.subject for one in mine)
    )


_DROPOUT_COLUMNS = ("topic", "partition", "started_at", "leader", "isr", "replicas")
# A row's number and a broker's id in one integer, so that whole lists are compared at once.
_SHIFT = 1 << 32
# Rows compared at once: several lists are made of each, and they are held together.
_HELD = 20_000
# Of the partitions that a broker leaves again and again, so many are named.
_NAMED = 200


@dataclass
class Dropouts:
    """When and by which leaders one broker was dropped, and from which partitions repeatedly."""

    # second, leader and the number of partitions: numbers side by side, since there may be millions
    parts: list[npt.NDArray[np.int64]] = field(default_factory=list)
    # topic, partition and how often; only those it left often enough
    repeated: dict[tuple[str, int], int] = field(default_factory=dict)
    more_repeated: int = 0

    @property
    def drops(self) -> Counter[tuple[int, int]]:
        """Give by second and leader the number of partitions."""
        found: Counter[tuple[int, int]] = Counter()
        for part in self.parts:
            for second, leader, count in part.tolist():
                found[second, leader] += count
        return found


def find_dropouts(context: DetectionContext, min_count: int) -> dict[int, Dropouts]:
    """Find the brokers that left the ISR of one and the same partition `least` times or more."""
    found: dict[int, Dropouts] = {}
    often: Counter[tuple[int, str, int]] = Counter()
    for rows in _rows(context.tables):
        left = _left(rows)
        _count(found, left)
        _repeated(found, often, left, min_count)
        _forget(often, rows)
    return {broker: one for broker, one in sorted(found.items()) if one.repeated}


def _rows(tables: Tables) -> Iterator[pa.Table]:
    """Read the table; the last row of each part is the first one of the next, to compare with."""
    last: pa.Table | None = None
    for batch in tables.scan("isr", _DROPOUT_COLUMNS, None, _HELD):
        rows = pa.Table.from_batches([batch])
        rows = rows if last is None else pa.concat_tables([last, rows])
        last = rows.slice(rows.num_rows - 1)
        if rows.num_rows > 1:
            yield rows.combine_chunks()


def _left(rows: pa.Table) -> pa.Table:
    """Give who left an ISR from one row to the next: broker, second, leader and partition."""
    now, before = rows.slice(1), rows.slice(0, rows.num_rows - 1)
    same = pc.and_(
        pc.equal(now["topic"], before["topic"]), pc.equal(now["partition"], before["partition"])
    )
    # A change lets members in or out, never both; only few rows are looked at any closer.
    shorter = pc.less(pc.list_value_length(now["isr"]), pc.list_value_length(before["isr"]))
    told = pc.fill_null(pc.and_(pc.and_(same, shorter), pc.is_valid(now["started_at"])), False)
    now, before = now.filter(told), before.filter(told)
    was = _keys(before["isr"])
    gone = was.filter(pc.invert(pc.is_in(was, value_set=_keys(now["isr"]))))
    # Whoever is no replica any more was moved away.
    kept = pc.is_in(gone, value_set=_keys(now["replicas"]))
    gone = gone.filter(kept)
    at = pc.divide(gone, _SHIFT)
    here = now.select(["topic", "partition", "started_at", "leader"]).take(at)
    seconds = pc.divide(here["started_at"].cast(pa.int64()), SECOND)
    broker = pc.subtract(gone, pc.multiply(at, _SHIFT))
    return here.append_column("broker", broker).append_column("second", seconds)


def _keys(lists: pa.ChunkedArray) -> pa.Array:
    """Make one integer of a row's number and each member of its list."""
    whole = lists.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    rows = pc.list_parent_indices(whole).cast(pa.int64())
    return pc.add(pc.multiply(rows, _SHIFT), pc.list_flatten(whole).cast(pa.int64()))


def _count(found: dict[int, Dropouts], left: pa.Table) -> None:
    counts = left.group_by(["broker", "second", "leader"]).aggregate([([], "count_all")])
    columns = (counts["second"], pc.fill_null(counts["leader"], -1), counts["count_all"])
    told = np.stack([column.to_numpy().astype(np.int64) for column in columns], axis=1)
    brokers = counts["broker"].to_numpy()
    for broker in np.unique(brokers).tolist():
        found.setdefault(broker, Dropouts()).parts.append(told[brokers == broker])


def _repeated(
    found: Mapping[int, Dropouts],
    often: Counter[tuple[int, str, int]],
    left: pa.Table,
    least: int,
) -> None:
    """Note the partitions that a broker left often; `often` is of the partition just being read."""
    names = ["broker", "topic", "partition"]
    for row in left.group_by(names).aggregate([([], "count_all")]).to_pylist():
        key = (row["broker"], row["topic"], row["partition"])
        often[key] += row["count_all"]
        if often[key] < least:
            continue
        one = found[row["broker"]]
        if len(one.repeated) < _NAMED or key[1:] in one.repeated:
            one.repeated[key[1:]] = often[key]
        else:
            one.more_repeated += 1


def _forget(often: Counter[tuple[int, str, int]], rows: pa.Table) -> None:
    """Keep what was counted of the last partition only: it may go on in the next part."""
    [last] = rows.slice(rows.num_rows - 1).select(["topic", "partition"]).to_pylist()
    for key in [one for one in often if one[1:] != (last["topic"], last["partition"])]:
        del often[key]
