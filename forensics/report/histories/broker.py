"""The timeline of one broker: its states, its terms as controller, what it led, its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forensics.history.nodes.controller_terms import TERM_STATES
from forensics.lib.intervals import gaps
from forensics.lib.sessionize import sessions
from forensics.lib.text_format import count, detector_label, join_names
from forensics.report.histories.phrases import describe_election, summarise_broker
from forensics.report.histories.timeline import (
    MAX_ROWS,
    Location,
    OrderedStep,
    ShownTime,
    Step,
    Timeline,
    arrange_steps,
    row_locations,
)
from forensics.run_output.reader import Row, RunOutput

LANE_COLUMNS = ("node", "role", "broker", "state", "started_at", "ended_at", "epoch", "evidence")
LEADER_COLUMNS = (
    "topic", "partition", "leader_epoch", "leader", "previous_leader", "started_at", "election",
    "evidence",
)  # fmt: skip
MOVE_VERBS = {"took": "took over", "lost": "lost", "kept": "kept, in a new leader epoch,"}
RANKS = {"state": 0, "unknown": 0, "controller": 1, "moves": 2}
# Moves of partitions within so many seconds become one step.
MAX_GAP_SECONDS = 2
MAX_NAMES, MAX_EVIDENCE = 6, 4


def build_timeline(run: RunOutput, broker: int, shown: ShownTime) -> Timeline:
    """Build the timeline of one broker, or of a controller by its id."""
    rows = run.rows("lanes", LANE_COLUMNS, ds.field("broker") == broker)
    rows.sort(key=lambda row: (row["started_at"] or 0, row["ended_at"] or shown.last))
    window = run.window or shown.span
    omitted = max(0, len(rows) - MAX_ROWS)
    terms = [row for row in rows[:MAX_ROWS] if row["state"] in TERM_STATES]
    states = [row for row in rows[:MAX_ROWS] if row["state"] not in TERM_STATES]
    steps = [*map(_state_step, states), *map(_term_step, terms)]
    # Of a controller that is no broker nothing is told while it is not the active one.
    is_broker = not terms or any(row["role"] == "broker" for row in states)
    if is_broker:
        steps += _unknown_steps(states, window)
    steps += [*_move_steps(run, broker), *_finding_steps(run, broker)]
    ordered = [
        OrderedStep(window[0] if step.start is None else step.start, RANKS.get(step.kind, 3), step)
        for step in steps
    ]
    kept = arrange_steps(ordered, shown)
    name = f"{'broker' if is_broker else 'controller'} {broker}"
    return Timeline("broker", name, summarise_broker(name, kept, shown), kept, shown, omitted)


def _state_step(row: Row) -> Step:
    state = str(row["state"] or "unknown")
    return _lane_step("state", row, state, {"state": state, "node": row["node"]})


def _term_step(row: Row) -> Step:
    state = "active" if row["state"] is None else str(row["state"])
    epoch = "" if row["epoch"] is None else f", epoch {row['epoch']}"
    facts = {name: row[name] for name in ("node", "state", "epoch") if row[name] is not None}
    return _lane_step("controller", row, f"{state} controller{epoch}", facts)


def _lane_step(kind: str, row: Row, text: str, facts: Row) -> Step:
    end_kind = "open" if row["ended_at"] is None else "known"
    return Step(kind, row["started_at"], text, row["ended_at"], end_kind, row_locations(row),
                facts, is_main=True)  # fmt: skip


def _unknown_steps(states: Sequence[Row], window: tuple[int, int]) -> Iterator[Step]:
    """Yield a step for each part of the window in which no state is known."""
    spans = [
        (window[0] if row["started_at"] is None else row["started_at"],
         window[1] if row["ended_at"] is None else row["ended_at"])
        for row in states
    ]  # fmt: skip
    for start, end in gaps(spans, window):
        text = "unknown: no line tells how the broker was"
        yield Step("unknown", start, text, end, "known", is_main=True)


def _move_steps(run: RunOutput, broker: int) -> Iterator[Step]:
    """Yield a step for partitions that the broker took over or lost shortly after each other."""
    before, now = ds.field("previous_leader"), ds.field("leader")
    table = run.table("leadership", LEADER_COLUMNS, (now == broker) | (before == broker))
    if not table.num_rows or not pa.types.is_integer(table["leader"].type):
        return
    leads = pc.fill_null(pc.equal(table["leader"], broker), fill_value=False)
    previous = table["previous_leader"].cast(pa.int32())
    led = pc.fill_null(pc.equal(previous, broker), fill_value=False)
    moves = pa.table(
        {
            "move": pc.if_else(leads, pc.if_else(led, "kept", "took"), "lost"),
            "second": pc.divide(table["started_at"], 1000),
            "election": pc.fill_null(table["election"].cast(pa.string()), "unknown"),
            "row": pa.array(range(table.num_rows)),
        }
    )
    groups = moves.group_by(["move", "second", "election"]).aggregate([("row", "list")])
    for move in MOVE_VERBS:
        in_order = groups.filter(pc.equal(groups["move"], move)).sort_by("second").to_pylist()
        dated = (group for group in in_order if group["second"] is not None)
        for close in sessions(dated, lambda group: int(group["second"]), MAX_GAP_SECONDS):
            yield _move_step(move, close, table)
        for group in in_order:
            if group["second"] is None:
                yield _move_step(move, [group], table)


def _move_step(move: str, groups: Sequence[Row], table: pa.Table) -> Step:
    rows = [row for group in groups for row in group["row_list"]]
    first_rows = table.take(sorted(rows)[:MAX_NAMES]).to_pylist()
    names = [f"{row['topic']}-{row['partition']}" for row in first_rows]
    elections: Counter[str] = Counter()
    for group in groups:
        elections[group["election"]] += len(group["row_list"])
    by_count = sorted(elections.items(), key=lambda item: (-item[1], item[0]))
    each = [f"{number} by {_election(kind)}" for kind, number in by_count]
    by = f": {', '.join(each)}" if len(by_count) > 1 else f" by {_election(by_count[0][0])}"
    # Only the first are named; the others are counted in the same phrase.
    listed = join_names(names + [""] * (len(rows) - len(names)), MAX_NAMES)
    return Step(
        "moves",
        pc.min(table.take(rows)["started_at"]).as_py(),
        f"{MOVE_VERBS[move]} {count(len(rows), 'partition')}{by} ({listed})",
        evidence=tuple(line for row in first_rows for line in row_locations(row)[:1])[
            :MAX_EVIDENCE
        ],
        facts={"move": move, "count": len(rows), "elections": dict(by_count), "partitions": names},
    )


def _election(kind: str) -> str:
    if kind == "unknown":
        return "an election of a kind not known"
    return describe_election(kind, None)


def _finding_steps(run: RunOutput, broker: int) -> Iterator[Step]:
    for finding in run.findings:
        if broker in finding.brokers:
            title = finding.title or detector_label(finding.detector)
            yield Step(
                "finding",
                finding.start_ms,
                f"{finding.severity} finding {finding.id}: {title}",
                finding.end_ms,
                "unknown" if finding.end_ms is None else "known",
                tuple(Location(line.file, line.line) for line in finding.evidence[:MAX_EVIDENCE]),
                {"id": finding.id, "detector": finding.detector, "severity": finding.severity},
            )
