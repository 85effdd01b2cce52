"""How ISRs shrink, recover, and are refused.

- shrink runs: followers that leaders dropped for lagging. Only a leader's own line tells of that: a
  broker that is fenced or stops is taken out of every ISR by the controller, which says nothing of
  how well it kept up.
- recoveries: how ISRs became whole again after that, in tables/isr
- rejection loops: leaders whose ISR changes are refused again and again, with the same version
- dropouts: brokers that leave the ISR again and again, while they themselves are up
- returns: when all replicas that left an ISR by a broker's absence were in sync again
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import (
    DetectionContext,
    Row,
    in_topics,
    once_per_run,
    partition_name,
)
from forensics.detection.shared.event_sessions import (
    EventSession,
    SessionIndex,
    Subject,
    SubjectSession,
    add_first,
    find_sessions,
)
from forensics.history.nodes.broker_states import Absence
from forensics.lib.sessionize import SessionCounter
from forensics.lib.time_units import MILLISECOND, SECOND, to_iso
from forensics.run_output.reader import Tables

# So many partitions of a run are counted by name.
_MAX_COUNTED = 10_000
_SHRINK_COLUMNS = (
    "ts", "node", "file", "line", "text", "rule", "topic", "partition", "broker", "previous_isr",
    "isr", "log_end", "detail",
)  # fmt: skip
_POSITION = re.compile(r"brokerId: (\d{1,10}), endOffset: (-?\d{1,18})\b")
_CAUGHT_UP = re.compile(r"brokerId: (\d{1,10}), endOffset: -?\d+, lastCaughtUpTimeMs: (\d{1,15})\b")
# Leaders look for followers that lag at intervals: who is dropped within that has lagged as long.
_SAME_LAG = 5 * SECOND

# Others drop a broker that is away from the ISR within replica.lag.time.max.ms.
_LEFT_LATER = 45 * SECOND
_LEFT_EARLIER = SECOND
_RETURN_COLUMNS = ("topic", "partition", "isr", "started_at")
_NO_END = 1 << 62
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class IsrShrink:
    """One line by which a leader drops followers from the ISR of one partition."""

    at: int
    leader: int
    replicas: Sequence[int]
    partition: str
    # how many records the last of them was behind, where the line says so
    lag: int | None
    # whether one of the brokers concerned hung or died around that moment
    excused: bool
    row: Row


@dataclass
class ShrinkRun(SubjectSession):
    """Shrinks of one subject that follow each other closely."""

    # how often each leader dropped each follower; how often each partition lost one
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    # in how many shrinks the followers had all records, and the most that one was behind
    caught_up: int = 0
    max_lag: int | None = None
    excused: int = 0

    def add(self, shrink: IsrShrink) -> None:
        """Add one of its shrinks."""
        self.pairs.update((shrink.leader, replica) for replica in shrink.replicas)
        if shrink.partition in self.partitions or len(self.partitions) < _MAX_COUNTED:
            self.partitions[shrink.partition] += 1
        if shrink.lag is not None:
            self.caught_up += shrink.lag == 0
            self.max_lag = max(shrink.lag, self.max_lag or 0)
        self.excused += shrink.excused
        add_first(self.first, shrink.row)

    def blame(self) -> tuple[list[int], list[int]]:
        """Return the followers that were slow, and the leaders from which nobody could read.

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
    """Group the shrinks of each subject that are no further than `gap` seconds apart.

    Left out are brokers that were stopped or started on purpose within `near` seconds, and leaders
    that are none any more. A shrink of a broker that left otherwise is excused: other detectors
    report that.
    """
    absences = _NearbyAbsences(context, round(near * SECOND))
    counter = SessionCounter[Subject](round(gap * SECOND))
    for shrink in _read_shrinks(context, absences):
        for subject in subjects_of(shrink):
            counter.add(subject, shrink.at)
    index = SessionIndex(ShrinkRun, counter, min_count)
    for shrink in _read_shrinks(context, absences) if index else ():
        for subject in subjects_of(shrink):
            if run := index.find(subject, shrink.at):
                run.add(shrink)
    return index.finish()


@once_per_run
def find_isr_storms(context: DetectionContext) -> list[ShrinkRun]:
    """Find the runs of shrinks, whoever was dropped by whom, that are long enough for a storm."""
    limits = context.limits["isr-storm"]
    gap, near = limits["gap"], limits["near"]
    return find_shrink_runs(context, lambda _: [()], gap, limits["shrinks"], near)


# A stop takes nobody out of an ISR before it begins; others may log it a little earlier.
_BEFORE = 5 * SECOND


class _NearbyAbsences:
    """How brokers were away around the moments at which they are dropped or drop others.

    The leader notices a lag only after its time-out, and a follower that is back still has to read.
    A leader that hung finds on waking that nobody has fetched from it.
    """

    def __init__(self, context: DetectionContext, reach: int) -> None:
        self._reach = reach
        self._absences: dict[int, list[Absence]] = {}
        for absence in context.absences:
            self._absences.setdefault(absence.broker, []).append(absence)

    def kinds(self, broker: int, moment: int) -> set[str]:
        """Return how a broker was away around a moment."""
        return {
            absence.kind
            for absence in self._absences.get(broker, ())
            if absence.begin - _BEFORE <= moment
            and (absence.end is None or moment <= absence.end + self._reach)
        }


def _read_shrinks(context: DetectionContext, absences: _NearbyAbsences) -> Iterator[IsrShrink]:
    """Read every shrink that no planned stop or start explains."""
    # A leader that is refused again and again is one only in its own view.
    rejected = rejected_leaders(context)
    shorter = pc.list_value_length(pc.field("isr")) < pc.list_value_length(pc.field("previous_isr"))
    where = (pc.field("kind") == "isr_proposed") & shorter & pc.field("ts").is_valid()
    for row in context.each("events", where, _SHRINK_COLUMNS):
        leader, at = row["broker"], row["at"]
        if None in (leader, row["topic"], row["partition"]):
            continue
        dropped = sorted(set(row["previous_isr"]) - set(row["isr"]))
        away = {replica: absences.kinds(replica, at) for replica in dropped}
        left = {replica: kinds for replica, kinds in away.items() if "controlled" not in kinds}
        kinds, name = absences.kinds(leader, at), partition_name(row)
        if left and "controlled" not in kinds and (leader, name) not in rejected:
            excused = bool(kinds) or all(left.values())
            yield IsrShrink(at, leader, list(left), name, _lag(row, left), excused, row)


def _lag(row: Row, replicas: Iterable[int]) -> int | None:
    """Return how far the last of them was behind; an end of -1 has not fetched here yet."""
    ends = {int(broker): int(end) for broker, end in _POSITION.findall(row["detail"] or "")}
    known = [ends[replica] for replica in replicas if ends.get(replica, -1) >= 0]
    return max(0, row["log_end"] - min(known)) if known and row["log_end"] is not None else None


def find_last_caught_up(
    context: DetectionContext, run: ShrinkRun, brokers: Collection[int], reach: int
) -> int | None:
    """Return when the followers dropped first had last read all, as their leaders say.

    None where the lines do not tell, or name a time further back than `reach`.
    """
    found = []
    for row in run.first:
        at = row["at"]
        for broker, millis in _CAUGHT_UP.findall(row["detail"] or ""):
            told = context.history.clocks.correct(row["node"], int(millis) * MILLISECOND)
            is_first = at <= run.begin + _SAME_LAG and at - reach <= told <= run.begin
            if int(broker) in brokers and is_first:
                found.append(told)
    return max(found, default=None)


_RECOVERY_COLUMNS = (
    "topic", "partition", "isr", "replicas", "leader", "started_at", "ended_at", "ended",
)  # fmt: skip


@dataclass(frozen=True)
class IsrRecovery:
    """What became of the ISRs of some partitions after a run of shrinks."""

    # how often one of them grew until the last of those that became whole was so
    expands: int
    recovered_at: int
    # the partitions that lack a replica to the end of the logs
    still_short: Sequence[str]


def find_recovery(
    context: DetectionContext, partitions: Collection[str], begin: int, end: int
) -> IsrRecovery:
    """Follow the ISRs of some partitions from the begin of a run to when they are whole."""
    expands: list[int] = []
    short: list[str] = []
    recovered = end
    for rows in _each_partition(context, partitions, begin):
        known = [row for row in rows if row["isr"] is not None]
        if not known:
            continue
        expands += [
            after["started_at"]
            for before, after in pairwise(known)
            if set(after["isr"]) - set(before["isr"]) and (after["started_at"] or 0) >= begin
        ]
        wanted, is_certain = _full_isr(known)
        whole = (row for row in known if wanted <= set(row["isr"]) and _lasts_beyond(row, end))
        first = next(whole, None)
        if first is not None and is_certain:
            recovered = max(recovered, first["started_at"] or 0)
        elif first is None and known[-1]["ended"] == "open" and known[-1]["leader"] != -1:
            # A cluster that is shut down leaves its partitions without a leader.
            short.append(partition_name(known[-1]))
    return IsrRecovery(sum(time <= recovered for time in expands), recovered, sorted(short))


def _full_isr(known: Sequence[Row]) -> tuple[set[int], bool]:
    """Return the replicas of a whole ISR, and whether that is more than a guess.

    Where no line tells the replicas, they are those that were in sync at any time: if that never
    changed, nothing can be said.
    """
    replicas = next((row["replicas"] for row in reversed(known) if row["replicas"]), None)
    if replicas:
        return set(replicas), True
    every = {replica for row in known for replica in row["isr"]}
    return every, any(set(row["isr"]) < every for row in known)


def _lasts_beyond(row: Row, moment: int) -> bool:
    return row["ended_at"] is None or row["ended_at"] > moment


def _each_partition(
    context: DetectionContext, partitions: Collection[str], begin: int
) -> Iterator[Sequence[Row]]:
    """Read the versions of each partition that held at that moment or later, in their order."""
    where = in_topics(name.rpartition("-")[0] for name in partitions)
    chosen = (
        row
        for row in context.each("isr", where, _RECOVERY_COLUMNS)
        if _lasts_beyond(row, begin) and partition_name(row) in partitions
    )
    for _, rows in groupby(chosen, partition_name):
        yield list(rows)


@once_per_run
def find_rejection_loops(context: DetectionContext) -> Mapping[int, list[EventSession]]:
    """Return the rejection loops of each broker, by (topic, partition, broker)."""
    limits = context.limits["metadata-version-loop"]
    where = (pc.field("kind") == "isr_rejected") & pc.field("broker").is_valid()
    where &= pc.field("topic").is_valid() & pc.field("partition").is_valid()
    found: dict[int, list[EventSession]] = {}
    subject = ["topic", "partition", "broker"]
    for one in find_sessions(
        context, where, subject, limits["gap"], ["partition_epoch"], limits["repeats"]
    ):
        # A leader that is refused once and then asks with the new version is healthy.
        same = max(one.value_counts["partition_epoch"].values(), default=0)
        if one.seconds > limits["lasting"] and same >= limits["repeats"]:
            found.setdefault(one.subject[2], []).append(one)
    return found


@once_per_run
def rejected_leaders(context: DetectionContext) -> frozenset[tuple[int, str]]:
    """Return the brokers and partitions whose changes of the ISR do not count."""
    return frozenset(
        (broker, "{}-{}".format(*loop.subject))
        for broker, loops in find_rejection_loops(context).items()
        for loop in loops
    )


# The table of ISRs may hold millions of rows: it is compared with itself, a row with the one before
# it, in columns, and only how many replicas left in which second is kept.
_DROPOUT_COLUMNS = ("topic", "partition", "started_at", "leader", "isr", "replicas")
# A row's number and a broker's id in one integer, so that whole lists are compared at once.
MEMBER_SHIFT = 1 << 32
# Rows compared at once: several arrays are made of them.
_CHUNK_ROWS = 20_000
# So many partitions that a broker leaves again and again are named.
_MAX_NAMED = 200


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
        """The number of partitions by second and leader."""
        drops: Counter[tuple[int, int]] = Counter()
        for part in self.parts:
            for second, leader, count in part.tolist():
                drops[second, leader] += count
        return drops


def find_dropouts(context: DetectionContext, min_count: int) -> dict[int, Dropouts]:
    """Find the brokers that left the ISR of one partition `min_count` times or more."""
    found: dict[int, Dropouts] = {}
    # how often a broker left the partition that is just being read
    counts: Counter[tuple[int, str, int]] = Counter()
    for rows in _read_overlapping(context.tables):
        left = _members_that_left(rows)
        _count_drops(found, left)
        _count_repeated(found, counts, left, min_count)
        # The last partition may go on in the next chunk.
        [last] = rows.slice(rows.num_rows - 1).select(["topic", "partition"]).to_pylist()
        for key in [one for one in counts if one[1:] != (last["topic"], last["partition"])]:
            del counts[key]
    return {broker: one for broker, one in sorted(found.items()) if one.repeated}


def _read_overlapping(tables: Tables) -> Iterator[pa.Table]:
    """Read the table; the last row of each chunk is the first one of the next, to compare with."""
    last: pa.Table | None = None
    for batch in tables.scan("isr", _DROPOUT_COLUMNS, None, _CHUNK_ROWS):
        rows = pa.Table.from_batches([batch])
        rows = rows if last is None else pa.concat_tables([last, rows])
        last = rows.slice(rows.num_rows - 1)
        if rows.num_rows > 1:
            yield rows.combine_chunks()


def _members_that_left(rows: pa.Table) -> pa.Table:
    """Return who left an ISR from one row to the next: broker, second, leader and partition."""
    now, before = rows.slice(1), rows.slice(0, rows.num_rows - 1)
    same = pc.and_(
        pc.equal(now["topic"], before["topic"]), pc.equal(now["partition"], before["partition"])
    )
    # A change lets members in or out, never both, so only few rows need a closer look.
    shorter = pc.less(pc.list_value_length(now["isr"]), pc.list_value_length(before["isr"]))
    shrinks = pc.fill_null(pc.and_(pc.and_(same, shorter), pc.is_valid(now["started_at"])), False)
    now, before = now.filter(shrinks), before.filter(shrinks)
    members = member_keys(before["isr"])
    left = members.filter(pc.invert(pc.is_in(members, value_set=member_keys(now["isr"]))))
    # A broker that is no replica any more was reassigned.
    left = left.filter(pc.is_in(left, value_set=member_keys(now["replicas"])))
    row = pc.divide(left, MEMBER_SHIFT)
    here = now.select(["topic", "partition", "started_at", "leader"]).take(row)
    seconds = pc.divide(here["started_at"].cast(pa.int64()), SECOND)
    broker = pc.subtract(left, pc.multiply(row, MEMBER_SHIFT))
    return here.append_column("broker", broker).append_column("second", seconds)


def member_keys(lists: pa.ChunkedArray) -> pa.Array:
    """Return one integer for a row's number and each member of its list."""
    whole = lists.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    rows = pc.list_parent_indices(whole).cast(pa.int64())
    return pc.add(pc.multiply(rows, MEMBER_SHIFT), pc.list_flatten(whole).cast(pa.int64()))


def _count_drops(found: dict[int, Dropouts], left: pa.Table) -> None:
    counts = left.group_by(["broker", "second", "leader"]).aggregate([([], "count_all")])
    columns = (counts["second"], pc.fill_null(counts["leader"], -1), counts["count_all"])
    numbers = np.stack([column.to_numpy().astype(np.int64) for column in columns], axis=1)
    brokers = counts["broker"].to_numpy()
    for broker in np.unique(brokers).tolist():
        found.setdefault(broker, Dropouts()).parts.append(numbers[brokers == broker])


def _count_repeated(
    found: Mapping[int, Dropouts],
    counts: Counter[tuple[int, str, int]],
    left: pa.Table,
    min_count: int,
) -> None:
    names = ["broker", "topic", "partition"]
    for row in left.group_by(names).aggregate([([], "count_all")]).to_pylist():
        key = (row["broker"], row["topic"], row["partition"])
        counts[key] += row["count_all"]
        if counts[key] < min_count:
            continue
        one = found[row["broker"]]
        if len(one.repeated) < _MAX_NAMED or key[1:] in one.repeated:
            one.repeated[key[1:]] = counts[key]
        else:
            one.more_repeated += 1


def lag_time_text(context: DetectionContext) -> str:
    """Return a sentence with the value of replica.lag.time.max.ms in force; empty if unknown."""
    values = read_lag_times(context)
    return f" replica.lag.time.max.ms is {' or '.join(values)} here." if values else ""


@once_per_run
def read_lag_times(context: DetectionContext) -> Sequence[str]:
    """Return the values of replica.lag.time.max.ms that brokers logged."""
    where = (pc.field("kind") == "setting_seen") & (
        pc.field("setting") == "replica.lag.time.max.ms"
    )
    rows = context.each("events", where, ["value"])
    return sorted({row["value"] for row in rows if row["value"]}, key=lambda one: (len(one), one))


def _in_sync_again(context: DetectionContext, absence: Absence) -> int | None:
    """Return when all replicas that left an ISR by an absence were back; None if not all were."""
    return _find_returns(context).get((absence.broker, absence.begin))


def say_in_sync_again(context: DetectionContext, absence: Absence) -> str:
    """Return the sentence that says when redundancy was back; nothing if no line tells."""
    at = _in_sync_again(context, absence)
    return "" if at is None else f" All its replicas were in sync again at {to_iso(at)[11:19]}."


def check_in_sync(context: DetectionContext, absence: Absence, whose: str = "its") -> list[str]:
    """Return the command that shows whether a broker's replicas are back, unless lines tell it."""
    if absence.end is not None and _in_sync_again(context, absence) is not None:
        return []
    return [f"{context.commands.under_replicated()}   # are {whose} replicas in sync again?"]


@once_per_run
def _find_returns(context: DetectionContext) -> dict[tuple[int, int], int]:
    """Follow the brokers that were away through tables/isr, in one pass."""
    by_broker: dict[int, list[Absence]] = defaultdict(list)
    for absence in sorted(context.absences, key=lambda one: one.begin):
        by_broker[absence.broker].append(absence)
    left: dict[tuple[int, int], int] = defaultdict(int)
    back: dict[tuple[int, int], int] = defaultdict(int)
    last: dict[tuple[int, int], int] = {}
    before: pa.RecordBatch | None = None
    where = pc.field("isr").is_valid() & pc.field("started_at").is_valid()
    for batch in context.batches("isr", where, _RETURN_COLUMNS) if by_broker else ():
        # The last row of the batch before comes first, so that no step is missed.
        rows = batch if before is None else pa.Table.from_batches([before, batch])
        table = pa.table({name: rows[name] for name in _RETURN_COLUMNS}).combine_chunks()
        before = batch.slice(len(batch) - 1)
        same = _same_partition(table)
        times = table["started_at"].cast(pa.int64()).to_numpy()[1:]
        for broker, absences in by_broker.items():
            member = _is_member(table, broker)
            gone = times[same & member[:-1] & ~member[1:]]
            come = times[same & ~member[:-1] & member[1:]]
            for absence, after in zip(absences, [*absences[1:], None], strict=True):
                key, end = (broker, absence.begin), absence.end
                if end is None:
                    continue
                left[key] += int(
                    _count_within(gone, absence.begin - _LEFT_EARLIER, end + _LEFT_LATER)
                )
                until = after.begin if after is not None else _NO_END
                returned = come[(come >= absence.begin) & (come < until)]
                if len(returned):
                    back[key] += len(returned)
                    last[key] = max(last.get(key, 0), int(returned.max()))
    return {key: at for key, at in last.items() if back[key] >= left[key] > 0}


def _same_partition(table: pa.Table) -> Flags:
    """Return for each row but the first whether it is of the same partition as the one before."""
    topics = table["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
    numbers = table["partition"].to_numpy()
    same: Flags = (topics[1:] == topics[:-1]) & (numbers[1:] == numbers[:-1])
    return same


def _is_member(table: pa.Table, broker: int) -> Flags:
    isr = table["isr"].combine_chunks()
    rows = pc.list_parent_indices(isr).to_numpy()
    flags = np.zeros(len(isr), dtype=bool)
    flags[rows[isr.flatten().to_numpy() == broker]] = True
    return flags


def _count_within(times: npt.NDArray[np.int64], begin: int, end: int) -> int:
    return int(((times >= begin) & (times <= end)).sum())
