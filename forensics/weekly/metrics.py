"""Counts of one window, by broker and for the whole cluster: what a trend is drawn of.

Which topics a window names, and which of them its logs say were made or deleted.

Partitions that go through nights with one replica in sync: nobody is awake to notice it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib.time_units import MILLISECOND, to_arrow_timestamp
from forensics.report.absences import read_lifecycles
from forensics.run_output.partition_histories import Ints, IsrCodes, IsrHistory, read_isr_histories
from forensics.run_output.reader import Finding, Row, RunOutput, corrected_times
from forensics.weekly.coverage_normalisation import Span, clipped, length, merged, server_logs_end

# A summary is no catalogue; beyond that topics are counted.
KEPT_TOPICS, TURNS = 2000, 200
_TURNS = {"topic_created": "created", "topic_deleted": "deleted"}


def count_topics(run: RunOutput, window: Span) -> dict[str, Any]:
    """Count the partitions of each topic whose leader is known at some time of the window."""
    begun, over = ds.field("started_at"), ds.field("ended_at")
    where = (begun < _at(window[1])) & (over.is_null() | (over >= _at(window[0])))
    keys = ["topic", "partition"]
    known = pa.table({"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32())})
    for part in run.chunks("leadership", keys, where):
        known = pa.concat_tables([known, part.group_by(keys).aggregate([])])
    names = known.group_by(keys).aggregate([])["topic"].to_pylist()
    counted = sorted(Counter(names).items())
    return {
        "partitions": dict(counted[:KEPT_TOPICS]),
        "topics": len(counted),
        "all_partitions": len(names),
    }


def created_and_deleted_topics(run: RunOutput, window: Span) -> dict[str, list[str]]:
    """Name the topics that some line of the window says were created or deleted."""
    moment = ds.field("ts")
    where = ds.field("kind").isin(sorted(_TURNS)) & ds.field("telling").is_null()
    where &= (moment >= _at(window[0])) & (moment < _at(window[1]))
    found: dict[str, set[str]] = {word: set() for word in _TURNS.values()}
    if "telling" in run.column_names("events"):
        for row in run.rows("events", ["kind", "topic"], where):
            if row["topic"]:
                found[_TURNS[row["kind"]]].add(row["topic"])
    return {word: sorted(names)[:TURNS] for word, names in found.items()}


def _at(ms: int) -> pa.Scalar:
    return to_arrow_timestamp(ms * MILLISECOND)


HOUR = 3_600_000
# The night in UTC, as hours after the midnight before it: a store has no other time zone.
NIGHT = (22, 30)
# Less than that is a restart.
LONG = 60_000
# One night is a replica that failed, two are one that waits for Monday; a third is a habit.
MAX_LOW_ISR_NIGHTS = 2
# A broker that is down leaves thousands of partitions thin; their count is told.
KEPT_PARTITIONS = 200


@dataclass(frozen=True)
class LowIsrNights:
    """One partition, in how many nights of the window it was thin, and for how many minutes."""

    partition: str
    nights: int
    minutes: float


def nights_in(window: Span) -> list[Span]:
    """Give the nights that begin in a window, each cut where the window ends."""
    day = 24 * HOUR
    first = window[0] // day
    found = [(at * day + NIGHT[0] * HOUR, at * day + NIGHT[1] * HOUR)
             for at in range(first, window[1] // day + 1)]  # fmt: skip
    return clipped(((start, end) for start, end in found if start >= window[0]), window)


def find_low_isr_nights(run: RunOutput, window: Span) -> list[LowIsrNights]:
    """Give the partitions that were thin in some night, those of the most nights first."""
    nights = nights_in(window)
    # What is open ends where the logs do.
    whole = (run.window or window)[0], server_logs_end(run, window)
    found = [
        burn for one in read_isr_histories(run, whole, IsrCodes()) if (burn := _burn(one, nights))
    ]
    return sorted(found, key=lambda burn: (-burn.nights, -burn.minutes, burn.partition))


def _burn(one: IsrHistory, nights: list[Span]) -> LowIsrNights | None:
    thin = merged(_thin(one.columns))
    lengths = [length(clipped(thin, night)) for night in nights] if thin else []
    long = [ms for ms in lengths if ms >= LONG]
    if not long:
        return None
    topic, number = one.name
    return LowIsrNights(f"{topic}-{number}", len(long), round(sum(long) / LONG, 1))


def _thin(columns: Ints) -> Iterator[Span]:
    """Give when one replica was in sync where there should be more.

    Where no line names the replicas, a partition that had more in sync at some time has more.
    """
    _, size, wanted, start, end = columns
    most = int(size.max(initial=-1))
    should = np.where(wanted >= 0, wanted, most)
    for at in np.flatnonzero((size >= 0) & (size <= 1) & (should > 1)).tolist():
        yield int(start[at]), int(end[at])


MINUTE = 60_000
CLEAN = "clean shutdown"
LOUD = ("ERROR", "FATAL")


@dataclass(frozen=True)
class Signal:
    """One count: its name in week.json, and what people call it."""

    key: str
    title: str
    # what one of it is; empty where it is measured and not counted
    noun: str = ""


BROKER_SIGNALS = (
    Signal("leaders_lost", "Leaderships lost", "leadership lost"),
    Signal("isr_drops", "Drops from an ISR", "drop"),
    Signal("absences", "Unplanned absences", "absence"),
    Signal("minutes_away", "Minutes away, unplanned"),
    Signal("unclean", "Unclean elections", "unclean election"),
    Signal("errors", "Error lines understood", "error line"),
)
CLUSTER_SIGNALS = (
    Signal("minutes_dark", "Partition minutes without a leader"),
    Signal("records_lost", "Records lost at most", "record"),
    Signal("controller_changes", "Controllers elected", "election"),
    Signal("stale_bursts", "Bursts of stale metadata", "burst"),
    Signal("stale_errors", "Errors of stale metadata", "error"),
)


@dataclass(frozen=True)
class Counts:
    """What was counted; `away` holds how often, and how long, each broker was away."""

    brokers: Mapping[int, Mapping[str, float]]
    cluster: Mapping[str, float | None]
    # when leaderships were lost, in milliseconds
    moves: Ints
    away: Mapping[int, Mapping[str, float | None]] = field(default_factory=dict)


def count_signals(run: RunOutput, window: Span, findings: Sequence[Finding]) -> Counts:
    """Count what the tables tell of a window."""
    found: dict[str, Mapping[int, float]] = {}
    moves, found["leaders_lost"] = _moves(run, window)
    found["isr_drops"] = _drops(run, window)
    found["unclean"] = _unclean(run, window)
    found["errors"] = _errors(run, window)
    away = _away(run, window)
    found["absences"] = {broker: told["unplanned"] or 0 for broker, told in away.items()}
    found["minutes_away"] = {broker: told["minutes"] or 0 for broker, told in away.items()}
    numbers = sorted({number for one in found.values() for number in one if number >= 0})
    keys = [signal.key for signal in BROKER_SIGNALS]
    brokers = {number: {key: found[key].get(number, 0) for key in keys} for number in numbers}
    return Counts(brokers, _cluster(run, window, findings), moves, away)


def starting_in(window: Span) -> ds.Expression:
    """Choose the rows of a table that begin within a window."""
    begun = ds.field("started_at")
    return (begun >= _at(window[0])) & (begun < _at(window[1]))


def _moves(run: RunOutput, window: Span) -> tuple[Ints, Counter[int]]:
    """Find when somebody ceased to lead: that the next one is chosen is no move of its own."""
    where = starting_in(window) & (ds.field("previous_leader") >= 0)
    lost, when = Counter[int](), [np.zeros(0, np.int64)]
    for part in run.chunks("leadership", ["leader", "previous_leader", "started_at"], where):
        changed = part.filter(pc.not_equal(part["leader"], part["previous_leader"]))
        lost.update(changed["previous_leader"].to_pylist())
        when.append(changed["started_at"].to_numpy().astype(np.int64))
    return np.sort(np.concatenate(when)), lost


def _drops(run: RunOutput, window: Span) -> Counter[int]:
    """Count how often each broker fell out of an ISR."""
    codes, pairs = IsrCodes(), [np.zeros((2, 0), np.int64)]
    for one in read_isr_histories(run, run.window or window, codes):
        known, starts = one.columns[0], one.columns[3]
        after = starts[1:]
        told = (after >= window[0]) & (after < window[1]) & (known[:-1] >= 0) & (known[1:] >= 0)
        pairs.append(np.stack([known[:-1], known[1:]])[:, told & (known[:-1] != known[1:])])
    isrs, found = [set(isr) for isr in codes.isrs], Counter[int]()
    unique, many = np.unique(np.concatenate(pairs, axis=1), axis=1, return_counts=True)
    for (before, after), times in zip(unique.T.tolist(), many.tolist(), strict=True):
        found.update(dict.fromkeys(isrs[before] - isrs[after], times))
    return found


def _unclean(run: RunOutput, window: Span) -> Counter[int]:
    where = starting_in(window) & (ds.field("election") == "unclean")
    rows = run.rows("leadership", ["leader"], where)
    return Counter(row["leader"] for row in rows if row["leader"] is not None)


def _errors(run: RunOutput, window: Span) -> Counter[int]:
    """Count the lines of level ERROR and above that a rule understands, by the broker's own log."""
    found = Counter[int]()
    for part in _events(run, window, ds.field("level").isin(LOUD)):
        for node, many in Counter(part["node"].to_pylist()).items():
            name, _, number = str(node).rpartition("-")
            if name == "broker" and number.isdecimal():
                found[int(number)] += many
    return found


def _events(run: RunOutput, window: Span, where: ds.Expression) -> Iterator[pa.Table]:
    """Read events of a window by the right time: a node's own clock may be off."""
    known = run.clock_corrections
    off = max((one.max_offset(*window) for one in known.values()), default=0)
    moment = ds.field("ts")
    where &= (moment >= _at(window[0] - off)) & (moment < _at(window[1] + off))
    for part in run.chunks("events", ["node", "ts"], where):
        at = corrected_times(part, known)
        yield part.filter(pa.array((at >= window[0]) & (at < window[1])))


def _away(run: RunOutput, window: Span) -> dict[int, dict[str, float | None]]:
    """Say how often each broker left in the window, and how long it was away meanwhile."""
    last = server_logs_end(run, window)
    found: dict[int, dict[str, float | None]] = {}
    for life in read_lifecycles(run):
        states = (_reach(row, last) for row in life.states)
        if life.broker is None or not clipped(states, window):
            continue
        spans = [(one, (one.left_at, last if one.back_at is None else one.back_at))
                 for one in life.absences if one.left_at is not None]  # fmt: skip
        told = [(one, piece) for one, span in spans for piece in clipped([span], window)]
        loose = [piece for one, piece in told if one.kind != CLEAN]
        lengths = sorted(end - start for start, end in loose)
        found[life.broker] = {
            "unplanned": sum(one.kind != CLEAN and _begins(one.left_at, window) for one, _ in told),
            "planned": sum(one.kind == CLEAN and _begins(one.left_at, window) for one, _ in told),
            "minutes": _minutes(sum(lengths)),
            "longest": _minutes(lengths[-1]) if lengths else None,
            "median": _minutes(lengths[len(lengths) // 2]) if lengths else None,
        }
    return found


def _reach(row: Row, last: int) -> Span:
    """Give how far a state reaches; one that is open ends where the logs do."""
    start, end = row["started_at"], row["ended_at"]
    return last if start is None else start, last if end is None else end


def _begins(moment: int | None, window: Span) -> bool:
    return moment is not None and window[0] <= moment < window[1]


def _minutes(ms: int) -> float:
    return round(ms / MINUTE, 3)


def _cluster(run: RunOutput, window: Span, findings: Sequence[Finding]) -> dict[str, float | None]:
    stale = [one for one in findings if one.detector == "stale-metadata"]
    columns, where = ["state", "started_at"], ds.field("role") == "controller"
    terms = run.rows("lanes", columns, where & starting_in(window))
    return {
        "minutes_dark": _dark(run, window),
        "records_lost": _lost(findings),
        "controller_changes": sum(row["state"] == "active" for row in terms),
        "stale_bursts": len(stale),
        "stale_errors": sum(int(one.measures.get("errors") or 0) for one in stale),
    }


def _dark(run: RunOutput, window: Span) -> float:
    """Add up how long partitions had no leader; what is open ends where the logs do.

    Of one whose end nobody knows, no more counts than what is sure.
    """
    last = server_logs_end(run, window)
    total = 0
    where = (ds.field("leader") == -1) & (ds.field("started_at") < _at(window[1]))
    where &= ds.field("ended_at").is_valid() | (ds.field("ended") == "open")
    for part in run.chunks("leadership", ["started_at", "ended_at"], where):
        start = part["started_at"].cast(pa.int64()).to_numpy()
        end = pc.fill_null(part["ended_at"].cast(pa.int64()), last).to_numpy()
        total += int(np.maximum(np.minimum(end, last) - np.maximum(start, window[0]), 0).sum())
    return _minutes(total)


def _lost(findings: Sequence[Finding]) -> int | None:
    """Add up the records that unclean elections took at most; None: there is no bound."""
    unclean = (one for one in findings if one.detector == "unclean-election")
    most = [loss.lost_records_max for one in unclean for loss in one.losses]
    return None if None in most else sum(one or 0 for one in most)
