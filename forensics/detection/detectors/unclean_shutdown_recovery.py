"""Long recovery of logs after an unclean stop: a broker that starts, and does not serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from forensics.detection.context import DetectionContext, Row
from forensics.detection.requirements import LogRequirements
from forensics.history.nodes.broker_states import Span
from forensics.lib.intervals import IntervalIndex, index_by
from forensics.lib.node_ids import broker_node
from forensics.lib.time_units import SECOND
from forensics.run_output.findings import Finding

NAME = "unclean-shutdown-recovery"
NEEDS = LogRequirements(("broker",), ("server",))
_START_STATES = ("starting", "recovering")
# Segments that are read again are counted by stretches of this length.
_STRETCH = 10 * SECOND
_KINDS = ("stopped_unclean", "logs_loaded")
_SHOWN = 40
# The metadata log is short, and read long before those of the topics.
_METADATA = "__cluster_metadata"
_RowsOfNodes = Mapping[str | None, IntervalIndex[Row]]


@dataclass(frozen=True)
class _Start:
    """One start of a broker, and what became of it."""

    broker: int
    begin: int
    end: int
    # the state that followed; null: these logs end before
    outcome: str | None
    evidence: tuple[Row, ...]
    segments: int = 0
    # how long the logs took, if they were all loaded
    loaded_ms: int | None = None

    @property
    def seconds(self) -> float:
        """How long recovery took, or lasted until it was broken off."""
        if self.loaded_ms is not None:
            return round(self.loaded_ms / 1000, 1)
        return round((self.end - self.begin) / SECOND, 1)

    @property
    def is_broken_off(self) -> bool:
        """Return True if it ended before the logs were loaded."""
        return self.loaded_ms is None and self.outcome not in ("up", None)


def find(context: DetectionContext) -> Iterator[Finding]:
    """Yield one finding for each long recovery, and for recoveries that were broken off."""
    if not context.visibility.has_kinds("log_recovering", *_KINDS):
        return
    limits = context.limits[NAME]
    rows, segments = map(_index_by_node, (context.events(*_KINDS), _count_segments(context)))
    for broker in sorted(context.history.lanes.brokers):
        run: list[_Start] = []
        for start in _read_starts(context, broker, rows, segments):
            if not start.segments:
                continue
            if start.is_broken_off:
                run.append(start)
                continue
            if start.seconds >= limits["long"] or len(run) >= limits["again"]:
                yield _finding(context, [*run, start])
            run = []
        if len(run) >= limits["again"]:
            yield _finding(context, run)


def _read_starts(
    context: DetectionContext, broker: int, rows: _RowsOfNodes, segments: _RowsOfNodes
) -> Iterator[_Start]:
    """Yield each start of a broker with what its own log says about recovery in that time."""
    logged, counted = (index.get(broker_node(broker)) for index in (rows, segments))
    for begin, end, outcome in _start_spans(
        context.history.lanes.brokers[broker], context.logs_end
    ):
        own = logged.around(begin, end) if logged else []
        read = counted.around(begin, end) if counted else []
        loaded = [row["duration_ms"] for row in own if row["kind"] == "logs_loaded"]
        lines = (*own, *(row for row in read if row["text"]))[:_SHOWN]
        count = sum(row["segments"] for row in read)
        yield _Start(broker, begin, end, outcome, lines, count, max(loaded, default=None))


def _index_by_node(rows: Iterable[Row]) -> _RowsOfNodes:
    return index_by(rows, lambda row: (row["node"],), lambda row: (row["at"], row["at"]))


def _start_spans(spans: Sequence[Span], last: int) -> Iterator[tuple[int, int, str | None]]:
    begin: int | None = None
    for span in spans:
        if span.state in _START_STATES:
            begin = span.begin if begin is None else begin
        elif begin is not None:
            yield begin, span.begin, span.state
            begin = None
    if begin is not None:
        yield begin, max(last, begin), None


def _count_segments(context: DetectionContext) -> list[Row]:
    """Count the segments that each node read again, by 10 s, with one line of each such stretch."""
    counts: dict[tuple[str, int], Row] = {}
    where = (pc.field("kind") == "log_recovering") & pc.field("ts").is_valid()
    where &= pc.field("topic").is_null() | (pc.field("topic") != _METADATA)
    columns = ["node", "ts", "file", "line", "text", "rule"]
    for batch in context.batches("events", where, columns):
        moments = batch["ts"].cast(pa.int64())
        table = pa.table(
            {
                "node": batch["node"].fill_null(""),
                "stretch": pc.divide(moments, _STRETCH),
                "row": pa.array(range(len(batch))),
            }
        )
        for group in table.group_by(["node", "stretch"]).aggregate(
            [("row", "count"), ("row", "min")]
        ).to_pylist():  # fmt: skip
            key = group["node"], group["stretch"]
            if key in counts:
                counts[key]["segments"] += group["row_count"]
                continue
            row = batch.slice(group["row_min"], 1).to_pylist()[0]
            row["ts"] = moments[group["row_min"]].as_py()
            counts[key] = row | {
                "at": context.history.clocks.event_time(row),
                "segments": group["row_count"],
            }
    return sorted(counts.values(), key=lambda row: (row["at"], row["node"] or ""))


def _finding(context: DetectionContext, run: Sequence[_Start]) -> Finding:
    limits, last = context.limits[NAME], run[-1]
    broken_off = [start for start in run if start.is_broken_off]
    is_repeated = len(broken_off) >= limits["again"]
    longest = max(start.seconds for start in run)
    evidence = [row for start in run for row in start.evidence]
    level = "severe" if longest >= limits["very"] else "slow"
    return context.finding(
        NAME,
        limits["broken" if is_repeated else level],
        _title(last, broken_off, longest, is_repeated=is_repeated),
        run[0].begin,
        last.end,
        evidence,
        stated=not is_repeated,
        brokers=[last.broker],
        measures={
            "broker": last.broker,
            "starts": len(run),
            "broken_off": len(broken_off),
            "longest_s": longest,
            "segments": sum(start.segments for start in run),
        },
        explanation=_MECHANISM + (_BROKEN if is_repeated else ""),
        actions=[*([_PATIENCE] if is_repeated else []), *_actions(context, last.broker)],
        why=f"{longest} s of recovery, from {limits['long']} s on that is long; "
        f"{len(broken_off)} starts were broken off; limit: {limits['again']}",
        doubts=[] if last.outcome else ["These logs end before the broker was up."],
    )


def _title(last: _Start, broken_off: Sequence[_Start], longest: float, *, is_repeated: bool) -> str:
    if is_repeated:
        times = f"{len(broken_off)} times while it recovered its logs"
        end = ", and is not seen to come up" if last.is_broken_off else ""
        return f"Broker {last.broker} was stopped {times}{end}"
    if last.outcome is None and last.loaded_ms is None:
        return f"Broker {last.broker} was still recovering its logs after {longest:.0f} s"
    return f"Broker {last.broker} needed {longest:.0f} s to recover its logs after an unclean stop"


def _actions(context: DetectionContext, broker: int) -> list[str]:
    threads = context.commands.broker_config(broker, "num.recovery.threads.per.data.dir")
    return [
        f"{threads}   # by default one for each directory up to 3.9: more read in parallel",
        (
            "Give the broker more time to stop (terminationGracePeriodSeconds, TimeoutStopSec): "
            "after a clean stop there is nothing to recover."
        ),
    ]


_MECHANISM = (
    "After a stop without a clean close a broker reads all segments that may not be whole again, "
    "before it serves anybody. Until then its partitions have one replica less."
)
_BROKEN = (
    " Each start that is broken off begins from nothing: who stops it after a fixed time keeps it "
    "from ever coming up."
)
_PATIENCE = (
    "Raise the time after which the broker is taken for dead (startup probe, initialDelaySeconds, "
    "TimeoutStartSec), and let it finish."
)
