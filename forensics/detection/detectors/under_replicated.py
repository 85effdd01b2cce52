"""Partitions that lack in-sync replicas for long, or to the end of the logs, by broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row, in_topics, partition_name
from forensics.detection.shared.assignments import read_assignments, replicas_of
from forensics.history.nodes.broker_states import FOREVER
from forensics.lib.arrow_io import is_any_of, iter_rows
from forensics.lib.text_format import quantity
from forensics.lib.time_units import SECOND, to_datetime
from forensics.run_output.findings import Finding

NAME = "under-replicated"
# Without evidence: lists of places cost more to read than all else.
_COLUMNS = ("topic", "partition", "isr", "replicas", "started_at", "ended_at", "ended")
_SHOWN, _MAX_NAMES = 20, 10_000


@dataclass(slots=True)
class _Shortfall:
    """A time in which one partition lacked one of its replicas in sync."""

    begin: int
    end: int
    is_open: bool
    topic: str


@dataclass
class _Missing:
    """All long times in which partitions lacked one broker, explained by an absence or not."""

    begin: int
    end: int
    open_count: int = 0
    longest: int = 0
    # those that were read first
    lacks: list[_Shortfall] = field(default_factory=list)
    partitions: set[str] = field(default_factory=set)

    def add(self, name: str, lack: _Shortfall) -> None:
        """Count what one partition lacked."""
        self.begin, self.end = min(self.begin, lack.begin), max(self.end, lack.end)
        self.open_count += lack.is_open
        self.longest = max(self.longest, lack.end - lack.begin)
        if len(self.lacks) < _SHOWN:
            self.lacks.append(lack)
        if len(self.partitions) < _MAX_NAMES:
            # A partition may have lacked many brokers.
            self.partitions.add(sys.intern(name))


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each broker that partitions lacked for long."""
    found: dict[tuple[int, bool], _Missing] = {}
    for name, broker, lack in _find_shortfalls(context):
        if not _is_long(context, lack):
            continue
        away = _absence_kind(context, broker, lack)
        if away != "controlled":
            key = broker, away is not None
            found.setdefault(key, _Missing(lack.begin, lack.end)).add(name, lack)
    places = _find_places(context, found)
    context.look_up(place for some in places.values() for place in some)
    for (broker, explained), missing in sorted(found.items()):
        lines = context.read_lines(places[broker, explained])
        yield _finding(context, broker, missing, lines, explained=explained)


def _find_shortfalls(context: DetectionContext) -> Iterator[tuple[str, int, _Shortfall]]:
    """Yield how long each partition lacked which of its replicas, partition by partition."""
    assignments = read_assignments(context)
    most = max((len(replicas) for replicas in assignments.values()), default=0)
    short = pc.list_value_length(pc.field("isr")) < pc.coalesce(
        pc.list_value_length(pc.field("replicas")), pc.scalar(most)
    )
    # Most partitions are short for seconds, if ever: only those with one long version are read.
    begun, ended = pc.field("started_at"), pc.field("ended_at")
    least = pa.scalar(context.limits[NAME]["open"] * SECOND, pa.duration("us"))
    short &= begun.is_valid()
    long: set[str] = set()
    for batch in context.batches(
        "isr", short & (ended.is_null() | (ended - begun > least)), ["topic", "partition"]
    ):
        long |= set(_names(batch).unique().to_pylist())
    short &= in_topics({name.rpartition("-")[0] for name in long})
    open_lacks: dict[int, _Shortfall] = {}
    last: str | None = None
    for row in _rows_of(context, short, pa.array(sorted(long), pa.string())):
        name, begin = partition_name(row), row["started_at"]
        if name != last:
            yield from ((last or name, broker, lack) for broker, lack in open_lacks.items())
            open_lacks, last = {}, name
        absent = set(replicas_of(assignments, row)) - set(row["isr"])
        for broker in [
            one for one, lack in open_lacks.items() if one not in absent or lack.end < begin
        ]:
            yield name, broker, open_lacks.pop(broker)
        is_open = row["ended"] == "open" or (row["ended"] is None and row["ended_at"] is None)
        end = context.logs_end if row["ended_at"] is None else row["ended_at"]
        for broker in absent:
            lack = open_lacks.setdefault(broker, _Shortfall(begin, end, is_open, row["topic"]))
            lack.end, lack.is_open = max(begin, end), is_open
    yield from ((last or "", broker, lack) for broker, lack in open_lacks.items())


def _names(batch: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise(batch["topic"], batch["partition"].cast(pa.string()), "-")


def _rows_of(
    context: DetectionContext, where: pc.Expression, names: pa.Array
) -> Iterator[Mapping[str, Any]]:
    """Read the rows of some partitions, times as microseconds."""
    for batch in context.batches("isr", where, _COLUMNS):
        yield from iter_rows([batch.filter(pc.is_in(_names(batch), names))], _COLUMNS)


def _absence_kind(context: DetectionContext, broker: int, lack: _Shortfall) -> str | None:
    """Return how the broker was away as the lack began, or as it ends; None if it was up."""
    if not context.absences:
        return None
    near = context.limits[NAME]["near"] * SECOND
    away = context.absences_around(broker, lack.begin - near, lack.begin + near)
    gone = context.absences_around(broker, FOREVER, FOREVER)
    kinds = [
        absence.kind
        for absence in (*away, *(one for one in gone if one not in away))
        if absence.begin - near <= lack.end
        and lack.begin <= (context.logs_end if absence.end is None else absence.end) + near
        and (absence.begin - near <= lack.begin or absence.end is None)
        and (absence.kind != "controlled" or absence.end is None or lack.end <= absence.end + near)
    ]
    return "controlled" if "controlled" in kinds else next(iter(kinds), None)


def _is_long(context: DetectionContext, lack: _Shortfall) -> bool:
    limits = context.limits[NAME]
    least: int = limits["open" if lack.is_open else "long"] * SECOND
    return lack.end - lack.begin > least


def _finding(
    context: DetectionContext,
    broker: int,
    missing: _Missing,
    lines: Sequence[Row],
    *,
    explained: bool,
) -> Finding:
    limits, open_count = context.limits[NAME], missing.open_count
    longest = missing.longest / SECOND
    count = quantity(len(missing.partitions), "partition")
    until = "to the end of the logs" if open_count else f"for up to {longest:.0f} s"
    is_known = broker in context.history.lanes.brokers
    up = "It was up all that time, as far as the logs show."
    unknown = f"These logs do not show whether broker {broker} was up."
    stays = any(one.broker == broker and one.end is None for one in context.absences)
    told = f"Broker {broker} {'is not back before the logs end' if stays else 'had been away'}."
    why = told if explained else up if is_known else unknown
    # The finding about its absence says so: it is the same incident.
    level = "away" if explained and stays else "told" if explained or not is_known else "severity"
    return context.finding(
        NAME,
        limits[level],
        f"{count} without broker {broker} in sync {until}",
        missing.begin,
        missing.end,
        lines,
        stated=True,
        brokers=[broker],
        partitions=sorted(missing.partitions),
        measures={
            "partitions": len(missing.partitions),
            "open": open_count,
            "longest_s": round(longest, 1),
            "away": explained,
        },
        explanation=f"{_MECHANISM} {why}",
        actions=[
            f"{context.commands.under_replicated()}   # which are still short of replicas?",
            (_START if explained and stays else _LOOK).format(broker=broker),
        ],
        why=f"{longest:.0f} s; limits: {limits['long']} s, {limits['open']} s at the end of the "
        "logs",
        doubts=_DOUBTS,
    )


def _find_places(
    context: DetectionContext, found: Mapping[tuple[int, bool], _Missing]
) -> dict[tuple[int, bool], list[Row]]:
    """Find the lines by which the first lacks of each finding began, for all in one pass."""
    by_begin: dict[tuple[str, int], set[tuple[int, bool]]] = {}
    for key, missing in found.items():
        for topic in {lack.topic for lack in missing.lacks}:
            for begin in {lack.begin for lack in missing.lacks}:
                by_begin.setdefault((topic, begin), set()).add(key)
    where = in_topics({topic for topic, _ in by_begin})
    begins = sorted({begin for _, begin in by_begin})
    where &= is_any_of("started_at", map(to_datetime, begins))
    places: dict[tuple[int, bool], list[Row]] = {key: [] for key in found}
    for row in context.each("isr", where, ["topic", "started_at", "isr", "evidence"]):
        for key in by_begin.get((row["topic"], row["started_at"]), ()):
            if row["evidence"] and key[0] not in row["isr"] and len(places[key]) < _SHOWN:
                places[key].append(row["evidence"][0])
    return places


_MECHANISM = (
    "Each of these partitions has fewer copies than it should: the next failure may leave it"
    " without a leader, or lose records."
)
_DOUBTS = ("New replicas of a reassignment are missing until they have caught up, as they should.",)
_START = "Start broker {broker}, and wait until all partitions have it in sync."
_LOOK = (
    "Start broker {broker} if it is down; if it is up, look in its server.log for fetchers that "
    "failed, and at its disk and network."
)
