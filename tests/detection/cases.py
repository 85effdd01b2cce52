"""Builds small cases: tables on disk as a run leaves them, and the past beside them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from forensics import schemas
from forensics.detection.context import DetectionContext
from forensics.detection.thresholds import load_limits
from forensics.history.clocks.model import Clocks
from forensics.history.nodes.broker_states import Absence, EvidenceRow, Span
from forensics.history.nodes.build_lanes import Lanes
from forensics.history.nodes.controller_terms import ControllerTerm, ControllerTerms, EpochConflict
from forensics.history.nodes.startup_windows import StartupWindows
from forensics.history.partitions.fold import FoldContext
from forensics.history.partitions.outages import build_outages
from forensics.history.rebuild import History
from forensics.run_output.reader import Tables

__all__ = [
    "SECOND",
    "absence",
    "case",
    "epoch",
    "event",
    "logs",
    "only_state_changes",
    "reign",
    "row",
    "version",
]

SECOND = 1_000_000
Row = dict[str, Any]


def row(table: str, **values: Any) -> Row:
    """Make a row of a table; what is not given is null."""
    empty: Row = dict.fromkeys(getattr(schemas, table.upper()).names)
    assert set(values) <= set(empty), f"{table} has no {set(values) - set(empty)}"
    return empty | values


def event(second: float, node: str, kind: str, **facts: Any) -> Row:
    """Make an event; its line is its tenth of a second."""
    place = {"file": f"{node}/server.log", "line": int(second * 10)}
    text = f"{node} says {kind} at {second:g}"
    return row("events", kind=kind, ts=int(second * SECOND), node=node, text=text, **place) | facts


def epoch(
    number: int, leader: int | None, begin: float | None, end: float | None = None, **more: Any
) -> Row:
    """Make one leader epoch of partition t-0, told by one line."""
    line = {"file": "broker-9/state-change.log", "line": number * 100 + more.get("partition", 0)}
    plain = row(
        "leadership",
        topic="t",
        partition=0,
        leader_epoch=number,
        leader=leader,
        started_at=None if begin is None else int(begin * SECOND),
        ended_at=None if end is None else int(end * SECOND),
        how="observed",
        election="failover",
        clean=True,
        evidence=[line],
    )
    return plain | more


def version(
    number: int, isr: Sequence[int] | None, begin: float, end: float | None = None, **more: Any
) -> Row:
    """Make one version of partition t-0, led by broker 1 and told by one line."""
    line = {"file": "broker-9/state-change.log", "line": 10_000 + number}
    plain = row(
        "isr",
        topic="t",
        partition=0,
        partition_epoch=number,
        leader_epoch=0,
        leader=1,
        isr=None if isr is None else list(isr),
        replicas=[1, 2, 3],
        started_at=int(begin * SECOND),
        ended_at=None if end is None else int(end * SECOND),
        ended="open" if end is None else "observed",
        how="observed",
        evidence=[line],
    )
    return plain | more


def absence(broker: int, kind: str, begin: float, end: float | None = None) -> Absence:
    """Make one absence, told by one line."""
    place: EvidenceRow = {
        "file": f"broker-{broker}/server.log",
        "line": int(begin * 10),
        "text": f"broker {broker} away",
        "at": int(begin * SECOND),
        "what": None,
    }
    ends = None if end is None else int(end * SECOND)
    return Absence(broker, kind, int(begin * SECOND), ends, (place,))


def reign(node: str, owner: int, term: int, begin: float) -> ControllerTerm:
    """Make one reign of a controller."""
    place: EvidenceRow = {
        "file": f"{node}/controller.log",
        "line": term,
        "text": f"{node} leads",
        "at": int(begin * SECOND),
        "what": None,
    }
    return ControllerTerm(node, owner, Span("active", int(begin * SECOND), None, [place], term))


def logs(node: str, last: float, **more: Any) -> Row:
    """Make the row of one file."""
    plain = row(
        "files", file=f"{node}/server.log", node=node, last_ts=int(last * SECOND), lines=100
    )
    return plain | more


def _save(folder: Path, table: str, rows: Sequence[Row]) -> None:
    (folder / table).mkdir(exist_ok=True)
    content = _write(table, rows) if rows else _empty(table)
    (folder / table / "part-0.parquet").write_bytes(content)


def _write(table: str, rows: Sequence[Row]) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(list(rows), schema=getattr(schemas, table.upper())), written
    )
    content: bytes = written.getvalue().to_pybytes()
    return content


@functools.cache
def _empty(table: str) -> bytes:
    """Write a table without rows once: most tables of most cases have none."""
    return _write(table, ())


def case(
    folder: Path,
    *,
    leadership: Sequence[Row] = (),
    events: Sequence[Row] = (),
    files: Sequence[Row] = (),
    away: Iterable[Absence] = (),
    controllers: Sequence[ControllerTerm] = (),
    clocks: Clocks | None = None,
    cuts: Sequence[Row] = (),
    breaches: Sequence[Row] = (),
    rivalries: Sequence[EpochConflict] = (),
    coverage: Sequence[Row] = (),
    isr: Sequence[Row] = (),
    brokers: Mapping[int, list[Span]] | None = None,
    kraft: bool = True,
    offices: Sequence[ControllerTerm] = (),
    processes: Mapping[str, list[Span]] | None = None,
) -> DetectionContext:
    """Save tables and put the case together; events hold what leadership calls evidence."""
    told = [
        event(one["started_at"] / SECOND, "broker-9", "partition_state") | place
        for one in (*leadership, *isr, *cuts, *breaches)
        for place in one["evidence"]
        if one["started_at"] is not None
    ]
    for name, rows in (
        ("leadership", leadership),
        ("events", [*events, *told]),
        ("cuts", cuts),
        ("breaches", breaches),
        ("isr", isr),
        ("coverage", coverage),
        ("files", files or [logs("broker-1", 10_000)]),
    ):
        _save(folder, name, rows)
    outages = build_outages(folder / "leadership", list(away)).to_pylist() if leadership else []
    _save(folder, "outages", outages)
    known_brokers = brokers or {1: [], 2: [], 3: []}
    lanes = Lanes(
        known_brokers,
        list(controllers),
        frozenset(),
        ControllerTerms(offices or controllers, rivalries),
        processes or {},
    )
    lanes.absences = list(away)
    known = clocks or Clocks({}, {}, ())
    context = FoldContext(known, StartupWindows({}, {}), (), elr=False, kraft=kraft)
    return DetectionContext(Tables(folder), History(known, lanes, context), load_limits())


def only_state_changes(folder: Path) -> DetectionContext:
    """Save a case of which only a state-change log is there, and not what brokers log."""
    log = logs("broker-1", 100, file="broker-1/state-change.log", role="broker", records=9)
    return case(folder, files=[log])
