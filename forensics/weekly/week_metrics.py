"""What is counted in one window: signals of each broker and of the cluster, topics, low-ISR nights.

In a low-ISR night a partition has one replica in sync where there should be more, and nobody is
awake to notice it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib import intervals
from forensics.lib.intervals import Interval
from forensics.lib.node_ids import broker_id
from forensics.lib.text_format import HOUR, MINUTE
from forensics.lib.time_units import MILLISECOND, to_arrow_timestamp
from forensics.run_output.broker_lifecycles import read_lifecycles
from forensics.run_output.partition_histories import Ints, IsrCodes, read_isr_histories
from forensics.run_output.reader import RunOutput, SavedFinding, corrected_times
from forensics.weekly.coverage_normalisation import server_logs_end

DAY = 24 * HOUR
# A summary is no catalogue; what is beyond is counted.
_MAX_TOPICS, _MAX_CHANGED_TOPICS, _MAX_LOW_ISR_PARTITIONS = 2000, 200, 200
# The night in UTC, as hours after the midnight before it: a store has no other time zone.
NIGHT = (22, 30)
# Anything shorter is a restart.
_MIN_LOW_ISR_MS = MINUTE
# One night is a replica that failed, two are one that waits for Monday; a third is a habit.
MAX_LOW_ISR_NIGHTS = 2
_TOPIC_CHANGES = {"topic_created": "created", "topic_deleted": "deleted"}
_CLEAN = "clean shutdown"
# The title of each signal, by its key in week.json.
BROKER_SIGNALS = {
    "leaders_lost": "Leaderships lost",
    "isr_drops": "Drops from an ISR",
    "absences": "Unplanned absences",
    "minutes_away": "Minutes away, unplanned",
    "unclean": "Unclean elections",
    "errors": "Error lines understood",
}
CLUSTER_SIGNALS = {
    "minutes_dark": "Partition minutes unavailable, unplanned",
    "records_lost": "Records lost at most",
    "controller_changes": "Controllers elected",
    "stale_bursts": "Bursts of stale metadata",
    "stale_errors": "Errors of stale metadata",
}


class TopicCounts(TypedDict):
    """How many partitions some topics have, and how many topics and partitions there are in all."""

    partitions: dict[str, int]
    topics: int
    all_partitions: int


class AbsenceCounts(TypedDict):
    """How often one broker left, and for how many minutes it was away unplanned."""

    unplanned: int
    planned: int
    minutes: float
    longest: float | None
    median: float | None


class LowIsrNights(TypedDict):
    """How many nights a window has, and the partitions that had one replica in sync in some."""

    nights: int
    # name, number of such nights, and their minutes; those of the most nights first
    partitions: list[tuple[str, int, float]]
    left_out: int
    # how many partitions have more such nights than is usual
    often: int


@dataclass(frozen=True)
class SignalCounts:
    """The signals of one window."""

    brokers: Mapping[int, dict[str, float]]
    cluster: dict[str, float | None]
    # when leaderships were lost, in milliseconds
    lost_at: Ints
    away: Mapping[int, AbsenceCounts] = field(default_factory=dict)


def count_topics(run: RunOutput, window: Interval) -> TopicCounts:
    """Count the partitions of each topic whose leader is known at some time of the window."""
    start, end = ds.field("started_at"), ds.field("ended_at")
    where = (start < _timestamp(window[1])) & (end.is_null() | (end >= _timestamp(window[0])))
    keys = ["topic", "partition"]
    known = pa.table({"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32())})
    for part in run.chunks("leadership", keys, where):
        known = pa.concat_tables([known, part.group_by(keys).aggregate([])])
    names = known.group_by(keys).aggregate([])["topic"].to_pylist()
    counts = sorted(Counter(names).items())
    return {
        "partitions": dict(counts[:_MAX_TOPICS]),
        "topics": len(counts),
        "all_partitions": len(names),
    }


def created_and_deleted_topics(run: RunOutput, window: Interval) -> dict[str, list[str]]:
    """Return the topics that a line of the window calls created or deleted."""
    where = ds.field("kind").isin(sorted(_TOPIC_CHANGES)) & ds.field("telling").is_null()
    where &= _within("ts", window)
    topics: dict[str, set[str]] = {change: set() for change in _TOPIC_CHANGES.values()}
    if "telling" in run.tables.column_names("events"):
        for row in run.rows("events", ["kind", "topic"], where):
            if row["topic"]:
                topics[_TOPIC_CHANGES[row["kind"]]].add(row["topic"])
    return {change: sorted(names)[:_MAX_CHANGED_TOPICS] for change, names in topics.items()}


def nights_in(window: Interval) -> list[Interval]:
    """Return the nights that begin in a window, the last one cut where the window ends."""
    days = range(window[0] // DAY * DAY, window[1] + 1, DAY)
    nights = ((day + NIGHT[0] * HOUR, day + NIGHT[1] * HOUR) for day in days)
    return intervals.clip((night for night in nights if night[0] >= window[0]), window)


def count_low_isr_nights(run: RunOutput, window: Interval) -> LowIsrNights:
    """Count the nights in which each partition had one replica in sync, and their minutes."""
    nights = nights_in(window)
    # An open state ends where the logs do.
    whole = (run.window or window)[0], server_logs_end(run, window)
    found = []
    for history in read_isr_histories(run, whole, IsrCodes()):
        low_isr = _low_isr_intervals(history.columns)
        lengths = (intervals.total_length(intervals.clip(low_isr, night)) for night in nights)
        long = [ms for ms in lengths if ms >= _MIN_LOW_ISR_MS] if low_isr else []
        if long:
            name = "-".join(map(str, history.name))
            found.append((name, len(long), round(sum(long) / MINUTE, 1)))
    found.sort(key=lambda each: (-each[1], -each[2], each[0]))
    return {
        "nights": len(nights),
        "partitions": found[:_MAX_LOW_ISR_PARTITIONS],
        "left_out": max(0, len(found) - _MAX_LOW_ISR_PARTITIONS),
        "often": sum(number > MAX_LOW_ISR_NIGHTS for _, number, _ in found),
    }


def _low_isr_intervals(columns: Ints) -> list[Interval]:
    """Return when one replica was in sync where there should be more.

    Where no line names the replicas, a partition should have as many as it ever had in sync.
    """
    _, size, replicas, start, end = columns
    wanted = np.where(replicas >= 0, replicas, int(size.max(initial=-1)))
    is_low = (size >= 0) & (size <= 1) & (wanted > 1)
    return intervals.merge(zip(start[is_low].tolist(), end[is_low].tolist(), strict=True))


def count_signals(
    run: RunOutput, window: Interval, findings: Sequence[SavedFinding]
) -> SignalCounts:
    """Count what the tables of a run say about a window."""
    away = _count_absences(run, window)
    lost_at, leaders_lost = _count_lost_leaders(run, window)
    counts: dict[str, Mapping[int, float]] = {
        "leaders_lost": leaders_lost,
        "isr_drops": _count_isr_drops(run, window),
        "absences": {broker: counted["unplanned"] for broker, counted in away.items()},
        "minutes_away": {broker: counted["minutes"] or 0 for broker, counted in away.items()},
        "unclean": _count_unclean_elections(run, window),
        "errors": _count_error_lines(run, window),
    }
    numbers = sorted({number for each in counts.values() for number in each if number >= 0})
    brokers = {
        number: {key: each.get(number, 0) for key, each in counts.items()} for number in numbers
    }
    return SignalCounts(brokers, _count_cluster_signals(run, window, findings), lost_at, away)


def _timestamp(ms: int) -> pa.Scalar:
    return to_arrow_timestamp(ms * MILLISECOND)


def _within(column: str, window: Interval) -> ds.Expression:
    moment = ds.field(column)
    return (moment >= _timestamp(window[0])) & (moment < _timestamp(window[1]))


def _count_lost_leaders(run: RunOutput, window: Interval) -> tuple[Ints, Counter[int]]:
    """Return when leaderships were lost and by whom; the election after it is not another loss."""
    where = _within("started_at", window) & (ds.field("previous_leader") >= 0)
    lost, lost_at = Counter[int](), [np.zeros(0, np.int64)]
    for part in run.chunks("leadership", ["leader", "previous_leader", "started_at"], where):
        changed = part.filter(pc.not_equal(part["leader"], part["previous_leader"]))
        lost.update(changed["previous_leader"].to_pylist())
        lost_at.append(changed["started_at"].to_numpy().astype(np.int64))
    return np.sort(np.concatenate(lost_at)), lost


def _count_isr_drops(run: RunOutput, window: Interval) -> Counter[int]:
    """Count how often each broker dropped out of an ISR."""
    codes, pairs = IsrCodes(), [np.zeros((2, 0), np.int64)]
    for history in read_isr_histories(run, run.window or window, codes):
        isr, start = history.columns[0], history.columns[3][1:]
        before, after = isr[:-1], isr[1:]
        counts = (start >= window[0]) & (start < window[1])
        counts &= (before >= 0) & (after >= 0) & (before != after)
        pairs.append(np.stack([before, after])[:, counts])
    isrs, drops = [set(isr) for isr in codes.isrs], Counter[int]()
    unique, numbers = np.unique(np.concatenate(pairs, axis=1), axis=1, return_counts=True)
    for (old, new), number in zip(unique.T.tolist(), numbers.tolist(), strict=True):
        drops.update(dict.fromkeys(isrs[old] - isrs[new], number))
    return drops


def _count_unclean_elections(run: RunOutput, window: Interval) -> Counter[int]:
    where = _within("started_at", window) & (ds.field("election") == "unclean")
    rows = run.rows("leadership", ["leader"], where)
    return Counter(row["leader"] for row in rows if row["leader"] is not None)


def _count_error_lines(run: RunOutput, window: Interval) -> Counter[int]:
    """Count the lines of level ERROR and above that a rule understands, by the broker's own log.

    The window is one of corrected times: a node's own clock may be off.
    """
    clocks = run.clock_corrections
    off = max((clock.max_offset(*window) for clock in clocks.values()), default=0)
    where = ds.field("level").isin(("ERROR", "FATAL"))
    where &= _within("ts", (window[0] - off, window[1] + off))
    errors = Counter[int]()
    for part in run.chunks("events", ["node", "ts"], where):
        moments = corrected_times(part, clocks)
        nodes = part["node"].filter(pa.array((moments >= window[0]) & (moments < window[1])))
        for node, number in Counter(nodes.to_pylist()).items():
            broker = broker_id(node)
            if broker is not None:
                errors[broker] += number
    return errors


def _count_absences(run: RunOutput, window: Interval) -> dict[int, AbsenceCounts]:
    """Count how often each broker left in the window, and how long it was away meanwhile."""
    last = server_logs_end(run, window)
    counts: dict[int, AbsenceCounts] = {}
    for life in read_lifecycles(run):
        # An open state ends where the logs do.
        states = ((_or_last(row["started_at"], last), _or_last(row["ended_at"], last))
                  for row in life.states)  # fmt: skip
        if life.broker is None or not intervals.clip(states, window):
            continue
        left = Counter[bool]()
        lengths: list[int] = []
        for absence in life.absences:
            if absence.left_at is None:
                continue
            away = intervals.clip([(absence.left_at, _or_last(absence.back_at, last))], window)
            is_planned = absence.kind == _CLEAN
            left[is_planned] += bool(away) and absence.left_at >= window[0]
            lengths += [end - start for start, end in away if not is_planned]
        lengths.sort()
        counts[life.broker] = {
            "unplanned": left[False],
            "planned": left[True],
            "minutes": _minutes(sum(lengths)),
            "longest": _minutes(lengths[-1]) if lengths else None,
            "median": _minutes(lengths[len(lengths) // 2]) if lengths else None,
        }
    return counts


def _or_last(moment: int | None, last: int) -> int:
    return last if moment is None else moment


def _minutes(ms: int) -> float:
    return round(ms / MINUTE, 3)


def _count_cluster_signals(
    run: RunOutput, window: Interval, findings: Sequence[SavedFinding]
) -> dict[str, float | None]:
    stale = [finding for finding in findings if finding.detector == "stale-metadata"]
    where = (ds.field("role") == "controller") & _within("started_at", window)
    terms = run.rows("lanes", ["state"], where)
    return {
        "minutes_dark": _unavailable_minutes(run, window),
        "records_lost": _max_records_lost(findings),
        "controller_changes": sum(row["state"] == "active" for row in terms),
        "stale_bursts": len(stale),
        "stale_errors": sum(int(finding.measures.get("errors") or 0) for finding in stale),
    }


def _unavailable_minutes(run: RunOutput, window: Interval) -> float:
    """Add up how long partitions were unavailable unplanned; an open outage ends with the logs."""
    last = server_logs_end(run, window)
    total = 0
    where = ~ds.field("planned") & (ds.field("started_at") < _timestamp(window[1]))
    for part in run.chunks("outages", ["started_at", "ended_at"], where):
        start = part["started_at"].cast(pa.int64()).to_numpy()
        end = pc.fill_null(part["ended_at"].cast(pa.int64()), last).to_numpy()
        total += int(np.maximum(np.minimum(end, last) - np.maximum(start, window[0]), 0).sum())
    return _minutes(total)


def _max_records_lost(findings: Sequence[SavedFinding]) -> int | None:
    """Add up the records that unclean elections lost at most; None if one has no bound."""
    unclean = (finding for finding in findings if finding.detector == "unclean-election")
    bounds = [loss.lost_records_max for finding in unclean for loss in finding.losses]
    return None if None in bounds else sum(bound or 0 for bound in bounds)
