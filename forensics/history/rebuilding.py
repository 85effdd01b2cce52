"""Rebuilds the past from the table of events: clocks, lanes, leadership, ISR.

Small things (starts, fencings, elections of controllers) are read here; the fold of each partition
is handed out to be run where the data is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history.clocks import ANCHORS, Clocks, anchors, solve, zone_shifts
from forensics.history.folding import FOLDED, Context, fold
from forensics.history.lanes import (
    LANE_KINDS,
    Absence,
    Span,
    absences,
    broker_lanes,
    controller_lanes,
)
from forensics.history.phases import PHASE_KINDS, Phases
from forensics.history.statements import FOLD_KINDS
from forensics.tables import LANES

__all__ = [
    "ANCHOR_KINDS",
    "FOLD_KINDS",
    "Lanes",
    "clock_anchors",
    "context",
    "events_of",
    "folder",
    "lanes",
    "solve_clocks",
]

ANCHOR_KINDS = ("partition_state",)
_FIRST_WITH_ELR = 4
_SEEN = ["kind", "ts", "node", "file", "line"]


def events_of(
    path: Path, kinds: Iterable[str], columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Read the events of some kinds, times as microseconds, in the order of time."""
    table = ds.dataset(path, format="parquet").to_table(
        columns=list(columns) if columns else None, filter=pc.field("kind").isin(list(kinds))
    )
    table = table.set_column(table.schema.get_field_index("ts"), "ts", table["ts"].cast(pa.int64()))
    rows: list[dict[str, Any]] = [row for row in table.to_pylist() if row["ts"] is not None]
    return sorted(
        rows, key=lambda row: (row["ts"], row["node"] or "", row["line"], row["kind"], row["file"])
    )


def clock_anchors(events: pa.Table) -> pa.Table:
    """Find, in the events of one partition, the states that several nodes saw at first hand."""
    sightings = [
        ((name, row[name]), row["node"], row["ts"])
        for row in _micros(events)
        if row["telling"] is None and row["node"] and row["ts"] is not None
        for name in ("leader_epoch", "partition_epoch")
        if row[name] is not None
    ]
    rows = [dict(zip(ANCHORS.names, row, strict=True)) for row in anchors(sightings)]
    return pa.Table.from_pylist(rows, schema=ANCHORS)


def solve_clocks(pairs: pa.Table, events: Path, nodes: Sequence[str]) -> Clocks:
    """Solve the clocks of all nodes from paired sightings and from lines with epoch times."""
    moments = events_of(events, ["process_clock"])
    zones = zone_shifts(
        (row["node"], row["ts"], row["epoch_ms"])
        for row in moments
        if row["node"] and row["epoch_ms"]
    )
    return solve(pairs.to_pylist(), zones, nodes)


class Lanes:
    """Lanes of brokers and controllers, and the absences that follow from them."""

    def __init__(
        self,
        brokers: Mapping[int, list[Span]],
        controllers: Sequence[tuple[str, int | None, Span]],
        speaking: frozenset[int] = frozenset(),
    ) -> None:
        """Take what was followed; `speaking` are the brokers whose own logs are there."""
        self.brokers = brokers
        self.controllers = controllers
        self.away: list[Absence] = [
            absence
            for broker, spans in brokers.items()
            for absence in absences(broker, spans, speaks=broker in speaking)
        ]

    def table(self) -> pa.Table:
        """Give the table of lanes."""
        rows = [
            _row(f"broker-{broker}", "broker", broker, span)
            for broker, spans in self.brokers.items()
            for span in spans
        ]
        rows += [_row(node, "controller", owner, span) for node, owner, span in self.controllers]
        return pa.Table.from_pylist(rows, schema=LANES)


def lanes(events: Path, clocks: Clocks, roles: Mapping[str, str | None]) -> Lanes:
    """Follow every broker and controller."""
    told = events_of(events, LANE_KINDS)
    for row in told:
        row["at"] = clocks.correct(row["node"], row["ts"])
        row["node_broker"] = _broker(row["node"], roles)
    # A controller that replays its log repeats fencings; where live ones are there, they suffice.
    live = {row["kind"] for row in told if row["telling"] is None}
    news = [row for row in told if row["telling"] is None or row["kind"] not in live]
    starts = [row for row in news if row["kind"] == "process_starting"]
    words = _last_words(events, starts, clocks)
    own = (_broker(node, roles) for node in roles)
    speaking = frozenset(broker for broker in own if broker is not None)
    return Lanes(broker_lanes(news, words), controller_lanes(news), speaking)


def context(events: Path, clocks: Clocks, away: Sequence[Absence]) -> Context:
    """Gather what the fold of a partition must know of the cluster."""
    phases = Phases.of(row for row in events_of(events, PHASE_KINDS, _SEEN) if row["node"])
    features = events_of(events, ["feature_set"])
    levels = [row["count"] for row in features if "eligible.leader" in (row["detail"] or "")]
    kraft = bool(events_of(events, ["caught_up", "broker_unfenced", "feature_set"], _SEEN))
    elr = bool(levels[-1]) if levels else (None if kraft and _may_keep_elr(events) else False)
    return Context(clocks, phases, tuple(away), elr, kraft)


def _may_keep_elr(events: Path) -> bool:
    """Whether the brokers are new enough for eligible leader replicas, which came with 4.0."""
    named = events_of(events, ["kafka_version"])
    majors = [(row["detail"] or "").partition(".")[0] for row in named]
    return not any(major.isdigit() for major in majors) or any(
        major.isdigit() and int(major) >= _FIRST_WITH_ELR for major in majors
    )


def folder(known: Context) -> Callable[[pa.Table], pa.Table]:
    """Make the function that folds the events of one partition."""

    def work(events: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(fold(_micros(events), known), schema=FOLDED)

    return work


def _micros(events: pa.Table) -> Iterator[dict[str, Any]]:
    at = events.schema.get_field_index("ts")
    plain = events.set_column(at, "ts", events["ts"].cast(pa.int64()))
    return iter(plain.to_pylist())


def _broker(node: str | None, roles: Mapping[str, str | None]) -> int | None:
    digits = (node or "").rpartition("-")[2]
    return int(digits) if roles.get(node or "") == "broker" and digits.isdigit() else None


def _last_words(
    events: Path, starts: Sequence[Mapping[str, Any]], clocks: Clocks
) -> dict[tuple[str, int], dict[str, Any]]:
    """Find the last line each process wrote before it was started again, in one streaming read."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    wanted: dict[str, list[int]] = {}
    for row in starts:
        wanted.setdefault(row["node"], []).append(row["ts"])
    columns = ["node", "ts", "file", "line", "text", "rule"]
    scan = ds.dataset(events, format="parquet").scanner(
        columns=columns, filter=pc.field("node").isin(list(wanted))
    )
    for batch in scan.to_batches():
        moments = batch["ts"].cast(pa.int64())
        for node in pc.unique(batch["node"]).to_pylist():
            mine = pc.equal(batch["node"], node)
            for start in wanted[node]:
                before = pc.and_(mine, pc.less(moments, start))
                last = pc.max(moments.filter(before)).as_py()
                best = found.get((node, start))
                if last is None or (best and best["ts"] > last):
                    continue
                rows = batch.filter(pc.and_(before, pc.equal(moments, last))).to_pylist()
                final = max(rows, key=lambda one: (one["line"], one["file"]))
                final.update(ts=last, at=clocks.correct(node, last))
                if best is None or (last, final["line"]) >= (best["ts"], best["line"]):
                    found[node, start] = final
    return found


def _row(node: str, role: str, broker: int | None, span: Span) -> dict[str, Any]:
    return {
        "node": node,
        "role": role,
        "broker": broker,
        "state": span.state,
        "started_at": span.begin,
        "ended_at": span.end,
        "evidence": [{"file": one["file"], "line": one["line"]} for one in span.evidence],
    }
