"""The history of one broker: its life, its reigns as controller, what it led, its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.lib import intervals
from forensics.lib.formatting import count, detector_label, join_names
from forensics.report.histories.model import (
    MAX_ROWS,
    Location,
    OrderedStep,
    ShownTime,
    Step,
    Timeline,
    row_locations,
    sort_steps,
    steps_within,
)
from forensics.report.histories.phrases import describe_election, summarise_broker
from forensics.run_output.reader import Row, RunOutput

LANES = ("node", "role", "broker", "state", "started_at", "ended_at", "epoch", "evidence")
MOVES = (
    "topic", "partition", "leader_epoch", "leader", "previous_leader", "started_at", "election",
    "evidence",
)  # fmt: skip
WORDS = {"took": "took over", "lost": "lost", "kept": "kept, in a new leader epoch,"}
# A broker's partitions move within seconds of each other: that is one stroke.
STROKE = 2
NAMED, PROOFS = 6, 4


@dataclass
class _Stroke:
    """Partitions that came or went together; `at` and `last` are seconds."""

    at: int
    last: int
    kinds: Counter[str]
    rows: list[int]


def build_timeline(run: RunOutput, broker: int, shown: ShownTime) -> Timeline:
    """Tell the history of one broker, or of a controller by its id."""
    rows = run.rows("lanes", LANES, ds.field("broker") == broker)
    rows.sort(key=lambda row: (row["started_at"] or 0, row["ended_at"] or shown.last))
    window = run.window or shown.span
    left_out = max(0, len(rows) - MAX_ROWS)
    lives = [row for row in rows[:MAX_ROWS] if row["role"] == "broker"]
    reigns = [row for row in rows[:MAX_ROWS] if row["role"] == "controller"]
    steps = [
        *_life(lives, window, reigns=bool(reigns)),
        *_reigns(reigns),
        *_moves(run, broker),
        *_findings(run, broker),
    ]
    ranks = {"state": 0, "unknown": 0, "controller": 1, "moves": 2}
    placed = [
        OrderedStep(window[0] if step.start is None else step.start, ranks.get(step.kind, 3), step)
        for step in steps
    ]
    kept = tuple(steps_within(sort_steps(placed), shown))
    name = f"{'broker' if lives or not reigns else 'controller'} {broker}"
    return Timeline("broker", name, summarise_broker(name, kept, shown), kept, shown, left_out)


def _life(rows: Sequence[Row], window: tuple[int, int], *, reigns: bool) -> Iterator[Step]:
    """Tell the states of a broker, and where none is known."""
    for row in rows:
        ends = "open" if row["ended_at"] is None else "known"
        state = str(row["state"] or "unknown")
        yield Step(
            "state", row["started_at"], state, row["ended_at"], ends, row_locations(row),
            {"state": state, "node": row["node"]}, is_main=True,
        )  # fmt: skip
    spans = [
        (window[0] if row["started_at"] is None else row["started_at"],
         window[1] if row["ended_at"] is None else row["ended_at"])
        for row in rows
    ]  # fmt: skip
    # A controller of a quorum has no such life.
    for start, end in intervals.gaps(spans, window) if rows or not reigns else ():
        says = "unknown: no line tells how the broker was"
        yield Step("unknown", start, says, end, "known", is_main=True)


def _reigns(rows: Sequence[Row]) -> Iterator[Step]:
    for row in rows:
        state = "active" if row["state"] is None else str(row["state"])
        epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
        says = f"{state} controller{epoch}"
        facts = {name: row[name] for name in ("node", "state", "epoch") if row[name] is not None}
        ends = "open" if row["ended_at"] is None else "known"
        yield Step(
            "controller", row["started_at"], says, row["ended_at"], ends, row_locations(row), facts,
            is_main=True,
        )  # fmt: skip


def _moves(run: RunOutput, broker: int) -> Iterator[Step]:
    """Count what the broker took over and lost, a step for each stroke."""
    before, now = ds.field("previous_leader"), ds.field("leader")
    table = run.table("leadership", MOVES, (now == broker) | (before == broker))
    if not table.num_rows or not pa.types.is_integer(table["leader"].type):
        return
    leads = pc.fill_null(pc.equal(table["leader"], broker), fill_value=False)
    led = pc.fill_null(_equal(table["previous_leader"], broker), fill_value=False)
    move = pc.if_else(leads, pc.if_else(led, "kept", "took"), "lost")
    moved = pa.table(
        {
            "move": move,
            "second": pc.divide(table["started_at"], 1000),
            "election": pc.fill_null(table["election"].cast(pa.string()), "unknown"),
            "row": pa.array(range(table.num_rows)),
        }
    )
    groups = moved.group_by(["move", "second", "election"]).aggregate([("row", "list")])
    for kind in WORDS:
        mine = groups.filter(pc.equal(groups["move"], kind)).sort_by("second")
        for stroke in _strokes(mine.to_pylist()):
            yield _stroke_step(kind, stroke, table)
        for row in mine.filter(pc.is_null(mine["second"])).to_pylist():
            rows = row["row_list"]
            undated = _Stroke(0, 0, Counter({row["election"]: len(rows)}), rows)
            yield _stroke_step(kind, undated, table, dated=False)


def _equal(column: pa.ChunkedArray, broker: int) -> pa.ChunkedArray:
    return pc.equal(column.cast(pa.int32()), broker)


def _strokes(groups: Sequence[Mapping[str, Any]]) -> Iterator[_Stroke]:
    stroke: _Stroke | None = None
    for group in groups:
        second, rows = group["second"], group["row_list"]
        if second is None:
            continue
        if stroke is None or second - stroke.last > STROKE:
            if stroke:
                yield stroke
            stroke = _Stroke(second, second, Counter(), [])
        stroke.last = second
        stroke.kinds[group["election"]] += len(rows)
        stroke.rows += rows
    if stroke:
        yield stroke


def _stroke_step(kind: str, stroke: _Stroke, table: pa.Table, *, dated: bool = True) -> Step:
    told = table.take(sorted(stroke.rows)[:NAMED]).to_pylist()
    names = [f"{row['topic']}-{row['partition']}" for row in told]
    # Only so many are named; the others are counted by the same words.
    names += [""] * (len(stroke.rows) - len(names))
    kinds = sorted(stroke.kinds.items(), key=lambda item: (-item[1], item[0]))
    each = [f"{number} by {_kind(name)}" for name, number in kinds]
    by = f": {', '.join(each)}" if len(kinds) > 1 else f" by {_kind(kinds[0][0])}"
    at = pc.min(table.take(stroke.rows)["started_at"]).as_py() if dated else None
    number = len(stroke.rows)
    return Step(
        "moves",
        at,
        f"{WORDS[kind]} {count(number, 'partition')}{by} ({join_names(names, NAMED)})",
        evidence=tuple(place for row in told for place in row_locations(row)[:1])[:PROOFS],
        facts={"move": kind, "count": number, "elections": dict(kinds), "partitions": names[:6]},
    )


def _kind(name: str) -> str:
    return "an election of a kind not known" if name == "unknown" else describe_election(name, None)


def _findings(run: RunOutput, broker: int) -> Iterator[Step]:
    for found in run.findings:
        if broker in found.brokers:
            title = found.title or detector_label(found.detector)
            says = f"{found.severity} finding {found.id}: {title}"
            ends = "unknown" if found.end_ms is None else "known"
            yield Step(
                "finding",
                found.start_ms,
                says,
                found.end_ms,
                ends,
                tuple(Location(proof.file, proof.line) for proof in found.evidence[:PROOFS]),
                {"id": found.id, "detector": found.detector, "severity": found.severity},
            )
