"""What a detector may look at: the saved tables, the rebuilt history, limits, and shared facts.

Tables of events, leadership and ISR grow with the archive. `rows` and `events` are for what is few
whatever the size; all else is read with `each`, which holds a few thousand rows at a time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce, wraps
from itertools import islice
from operator import or_
from typing import Any, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.kafka_cli import KafkaCli, read_cli
from forensics.detection.requirements import Visibility
from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import FOREVER, Absence, Absences, Span
from forensics.history.rebuild import History
from forensics.lib.arrow_io import is_any_of
from forensics.lib.intervals import IntervalIndex
from forensics.lib.node_ids import broker_id
from forensics.lib.sessionize import sessions
from forensics.lib.time_units import SECOND, to_arrow_timestamp
from forensics.run_output.findings import CONFIDENCES, Finding, PartitionLoss
from forensics.run_output.reader import Tables

Row = dict[str, Any]
_Place = tuple[str, int]
# What evidence needs of an event.
EVIDENCE_COLUMNS = ("ts", "node", "file", "line", "text", "rule")
Arguments = ParamSpec("Arguments")
Fact = TypeVar("Fact")
# A finding quotes lines of so many of its partitions.
MAX_QUOTED_PARTITIONS = 200
# Rows of a chunk while a whole table is read.
_CHUNK_ROWS = 10_000
# A line written as a process falls asleep or wakes up says nothing about the time in between.
_DOZING = SECOND // 2
# A process that dies may have had nothing to log for a while.
_QUIET_BEFORE = 60 * SECOND
_START_STATES = ("starting", "recovering")


class FindingDetails(TypedDict, total=False):
    """The fields of `Finding` that a detector may leave out."""

    brokers: Sequence[int]
    partitions: Sequence[str]
    clients: Sequence[str]
    measures: Mapping[str, Any]
    losses: Sequence[PartitionLoss]
    explanation: str
    actions: Sequence[str]
    why: str
    doubts: Sequence[str]


@dataclass(frozen=True)
class DetectionContext:
    """Tables, history and limits of one run."""

    tables: Tables
    history: History
    limits: Mapping[str, Mapping[str, Any]]

    def rows(
        self, table: str, where: pc.Expression, columns: Sequence[str] | None = None
    ) -> list[Row]:
        """Read some rows of a table, times as microseconds; events get `at`, the corrected time."""
        return list(self.each(table, where, columns))

    def each(
        self, table: str, where: pc.Expression | None, columns: Sequence[str] | None = None
    ) -> Iterator[Row]:
        """Read rows as `rows` does, a few at a time, in the order of the table."""
        for batch in self.batches(table, where, columns):
            yield from self._to_rows(pa.Table.from_batches([batch]))

    def batches(
        self, table: str, where: pc.Expression | None, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        """Read a table in columns, where a Python object for each row would cost too much."""
        return self.tables.scan(table, columns, where, _CHUNK_ROWS)

    def first_rows(self, table: str, limit: int, where: pc.Expression | None = None) -> list[Row]:
        """Read the first rows of a table that may be as long as the archive."""
        return list(islice(self.each(table, where), limit))

    def count_beyond(self, table: str, limit: int, where: pc.Expression | None = None) -> int:
        """Count the rows that `first_rows` leaves out, so that a finding can say so."""
        return max(0, self.tables.count_rows(table, where) - limit)

    def first_events(self, kind: str, limit: int, where: pc.Expression) -> list[Row]:
        """Read the first events of a kind by corrected time."""
        columns = EVIDENCE_COLUMNS
        chosen = (pc.field("kind") == kind) & pc.field("ts").is_valid() & where
        return heapq.nsmallest(limit, self.each("events", chosen, columns), key=by_time)

    def _to_rows(self, chunk: pa.Table) -> list[Row]:
        for index, field in enumerate(chunk.schema):
            if pa.types.is_timestamp(field.type):
                chunk = chunk.set_column(index, field.name, chunk[index].cast(pa.int64()))
        rows: list[Row] = chunk.to_pylist()
        for row in rows:
            if row.get("ts") is not None:
                row["at"] = self.history.clocks.event_time(row)
        return rows

    def events(self, *kinds: str, where: pc.Expression | None = None) -> list[Row]:
        """Read the events of some kinds, by corrected time; an event without a time is left out."""
        chosen = pc.field("kind").isin(list(kinds))
        rows = self.each("events", chosen if where is None else chosen & where)
        return sorted((row for row in rows if "at" in row), key=by_time)

    def is_live(self, row: Mapping[str, Any]) -> bool:
        """Return True if an event was logged as it happened, not while a node replayed its log.

        The row needs `telling`, `node` and `ts` (as `each` reads them).
        """
        replaying = self.history.context.startups.is_replaying(row["node"] or "", row["ts"])
        return row["telling"] is None or (row["telling"] == "replay" and not replaying)

    def leader_epochs(
        self, partitions: Collection[str], columns: Sequence[str] = ()
    ) -> Iterator[Row]:
        """Read the leader epochs of some partitions: leader, begin, end and further columns."""
        where = in_topics({name.rpartition("-")[0] for name in partitions})
        always = ["topic", "partition", "leader", "started_at", "ended_at"]
        for row in self.each("leadership", where, list(dict.fromkeys([*always, *columns]))):
            if partition_name(row) in partitions:
                yield row

    def is_silent(self, node: str, begin: int, end: int) -> bool:
        """Return True if a node that has logs wrote no event between two corrected moments."""
        where = self._logged_between(node, begin, end)
        return not any(len(batch) for batch in self.batches("events", where, ["line"]))

    def nodes_that_logged(self, spans: Sequence[tuple[str, int, int]]) -> set[str]:
        """Return the nodes that wrote an event in the span given for each, in one pass."""
        if not spans:
            return set()
        where = reduce(or_, (self._logged_between(*span) for span in spans))
        return {row["node"] for row in self.each("events", where, ["node"])}

    def _logged_between(self, node: str, begin: int, end: int) -> pc.Expression:
        off = begin - self.history.clocks.correct(node, begin)
        low, high = (to_arrow_timestamp(at + off) for at in (begin + _DOZING, end - _DOZING))
        return (pc.field("node") == node) & (pc.field("ts") > low) & (pc.field("ts") < high)

    def read_lines(self, evidence: Iterable[Mapping[str, Any]]) -> list[Row]:
        """Look up the text of lines that a table names as evidence, in their order."""
        places = {_place(one) for one in evidence}
        known = self._lines if places <= self._lines.keys() else self._find_lines(places)
        return [dict(row) for place in sorted(places) for row in known[place]]

    def look_up(self, evidence: Iterable[Mapping[str, Any]]) -> None:
        """Read at once what `read_lines` is going to be asked for many times."""
        self._lines.update(self._find_lines({_place(one) for one in evidence}))

    @cached_property
    def _lines(self) -> dict[_Place, list[Row]]:
        return {}

    def _find_lines(self, places: Collection[_Place]) -> dict[_Place, list[Row]]:
        found: dict[_Place, list[Row]] = {place: [] for place in places}
        files, lines = {file for file, _ in places}, {line for _, line in places}
        where = is_any_of("file", files) & is_any_of("line", lines)
        for batch in self.batches("events", where, EVIDENCE_COLUMNS) if places else ():
            # Of many files and lines most pairs are not asked for.
            named = zip(batch["file"].to_pylist(), batch["line"].to_pylist(), strict=True)
            chosen = pa.array([place in found for place in named], pa.bool_())
            for row in self._to_rows(pa.Table.from_batches([batch.filter(chosen)])):
                found[_place(row)].append(row)
        return found

    @cached_property
    def last_logged(self) -> Mapping[str, int]:
        """The last moment in each node's files, as logged."""
        last: dict[str, int] = {}
        for row in self._last_lines():
            moment = self.history.clocks.in_zone(row["node"], row["last_ts"], row["file"])
            last[row["node"] or ""] = max(moment, last.get(row["node"] or "", moment))
        return last

    @cached_property
    def logs_end(self) -> int:
        """The last moment in any file, corrected."""
        correct = self.history.clocks.correct
        moments = (correct(row["node"], row["last_ts"], row["file"]) for row in self._last_lines())
        return max(moments, default=0)

    def _last_lines(self) -> Iterator[Row]:
        return self.each("files", pc.field("last_ts").is_valid(), ["node", "last_ts", "file"])

    @cached_property
    def visibility(self) -> Visibility:
        """Which files were read, and the gaps in what they cover."""
        return Visibility(self.tables)

    @cached_property
    def commands(self) -> KafkaCli:
        """The Kafka commands for the version of this cluster."""
        return read_cli(self.tables, kraft=self.history.context.kraft)

    def confidence(
        self,
        begin: int,
        end: int,
        evidence: Iterable[Mapping[str, Any]],
        *,
        stated: bool,
        apart: int | None = None,
    ) -> tuple[str, str]:
        """Return the confidence of a finding and the reason for it.

        `stated`: a line of the evidence says it in so many words. `apart`: the finding rests on one
        thing having come before another, by so many microseconds.
        """
        nodes = sorted({node for row in evidence if (node := self.visibility.node_of(row["file"]))})
        step = CONFIDENCES.index(
            "confirmed" if stated else "likely" if len(nodes) > 1 else "possible"
        )
        basis = "Stated in" if stated else "Inferred from"
        reasons = [f"{basis} {_count_logs(len(nodes))}"]
        if apart is not None:
            uncertainty = _clock_uncertainty(self.history.clocks, nodes, begin)
            if uncertainty is None or uncertainty >= apart:
                step -= 1
                off = (
                    "are not known"
                    if uncertainty is None
                    else f"may be off by {uncertainty // 1000} ms"
                )
                reasons.append(f"the order rests on {apart // 1000} ms, and the clocks {off}")
        gaps = self.visibility.gaps(begin, end, nodes)
        hole = next((gap for gap in gaps if not self._was_down(gap)), None)
        if hole is not None:
            step -= 1
            reasons.append(f"the logs of {hole['node']} have a hole then ({hole['why']})")
        return CONFIDENCES[max(0, step)], "; ".join(reasons)

    def finding(  # noqa: PLR0913, PLR0917
        self,
        detector: str,
        severity: str,
        title: str,
        begin: int,
        end: int,
        evidence: Sequence[Mapping[str, Any]],
        *,
        stated: bool = True,
        apart: int | None = None,
        confidence: tuple[str, str] | None = None,
        **details: Unpack[FindingDetails],
    ) -> Finding:
        """Build a finding; its confidence follows from the evidence, as `confidence` rates it.

        `stated` and `apart` are those of `confidence`, all else are fields of `Finding`. A
        detector that rates its confidence by another rule gives it, with the reason.
        """
        level, reason = confidence or self.confidence(
            begin, end, evidence, stated=stated, apart=apart
        )
        details["actions"] = self.commands.adapt(details.get("actions", ()))
        return Finding(
            detector, severity, level, title, begin, end, evidence, reason=reason, **details
        )

    def _was_down(self, gap: Mapping[str, Any]) -> bool:
        """Return True if a broker logged nothing because its process was known to be gone."""
        broker, start, stop = broker_id(gap["node"]), gap["started_at"], gap["ended_at"]
        if broker is None or start is None or stop is None:
            return False
        return any(
            one.kind in ("crash", "controlled")
            and one.begin - _QUIET_BEFORE <= start
            and one.begin <= stop <= (stop if one.end is None else one.end)
            for one in self.absences_around(broker, start, stop)
        )

    @property
    def absences(self) -> Sequence[Absence]:
        """Every absence of every broker."""
        return self.history.lanes.absences

    def absences_around(
        self, brokers: int | Collection[int | None] | None, begin: float, end: float
    ) -> list[Absence]:
        """Return the absences of a broker, or of several, that meet a time."""
        asked = brokers if isinstance(brokers, Collection) else [brokers]
        return self._absences.around(asked, round(begin), round(end))

    @cached_property
    def _absences(self) -> Absences:
        return Absences(self.absences)

    def spans_of(self, broker: int, begin: int, end: int | None = None) -> list[Span]:
        """Return the states of a broker that begin between two moments, in their order."""
        index = self._spans.get(broker)
        return index.around(begin, FOREVER if end is None else end) if index else []

    @cached_property
    def _spans(self) -> Mapping[int, IntervalIndex[Span]]:
        return {
            broker: IntervalIndex(spans, lambda span: (span.begin, span.begin))
            for broker, spans in self.history.lanes.brokers.items()
        }

    def next_start(self, broker: int, moment: int) -> int | None:
        """Return when a broker was first started from a moment on."""
        starts = self._starts.get(broker, ())
        place = bisect_left(starts, moment)
        return starts[place] if place < len(starts) else None

    @cached_property
    def _starts(self) -> Mapping[int, Sequence[int]]:
        return {
            broker: sorted(span.begin for span in spans if span.state in _START_STATES)
            for broker, spans in self.history.lanes.brokers.items()
        }

    @cached_property
    def facts(self) -> dict[Hashable, Any]:
        """What `once_per_run` remembers."""
        return {}


def once_per_run(
    compute: Callable[Concatenate[DetectionContext, Arguments], Fact],
) -> Callable[Concatenate[DetectionContext, Arguments], Fact]:
    """Let a function remember its result for each context and further arguments."""

    @wraps(compute)
    def remembered(
        context: DetectionContext, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Fact:
        key = (compute, args, tuple(kwargs.items()))
        if key not in context.facts:
            context.facts[key] = compute(context, *args, **kwargs)
        fact: Fact = context.facts[key]
        return fact

    return remembered


def _place(row: Mapping[str, Any]) -> _Place:
    return row["file"], row["line"]


def by_time(row: Row) -> tuple[Any, ...]:
    """Order events by corrected time, and by place where that is the same."""
    return row["at"], row["node"] or "", row["line"], row["text"], row["file"]


def group_by_gap(
    rows: Iterable[Row], gap: float, end: Callable[[Row], int] | None = None
) -> list[list[Row]]:
    """Group rows that begin within `gap` seconds of those before, or of their ends."""
    ordered = sorted(rows, key=lambda row: (row["started_at"], row["topic"], row["partition"]))
    return list(sessions(ordered, lambda row: int(row["started_at"]), gap * SECOND, end))


def partition_name(row: Mapping[str, Any]) -> str:
    """Name a partition as Kafka's tools do."""
    return f"{row['topic']}-{row['partition']}"


def in_topics(topics: Iterable[str]) -> pc.Expression:
    """Filter rows of some topics."""
    return is_any_of("topic", topics)


def _clock_uncertainty(clocks: Clocks, nodes: Sequence[str], moment: int) -> int | None:
    """Return how far two of these nodes' clocks may be apart; None if one of them is unknown."""
    if len(nodes) < 2:
        return 0 if nodes else None
    # Uncertainty is looked up by the time as logged.
    each = [clocks.uncertainty(node, 2 * moment - clocks.correct(node, moment)) for node in nodes]
    known = sorted(one for one in each if one is not None)
    return sum(known[-2:]) if len(known) == len(each) else None


def _count_logs(nodes: int) -> str:
    if not nodes:
        return "a log whose node is not known"
    return "the log of one node" if nodes == 1 else f"the logs of {nodes} nodes"
