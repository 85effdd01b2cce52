"""Who was the active controller, for how long, and when nobody or two were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow.dataset as ds

from forensics.lib.formatting import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report import lane_intervals
from forensics.report.figures import controller_terms as drawn
from forensics.report.html import Child, Markup, anchor, join, table, tag
from forensics.run_output.reader import Row, RunOutput, short_time

ORDER = 76
TITLE = "Controller"
COLUMNS = ("node", "broker", "state", "epoch", "started_at", "ended_at", "evidence")
HEAD = ("Node", "State", "Epoch", "From, {}", "To, {}", "For", "First line of it")
IN_OFFICE = "active"
# The kinds of lines that tell of elections, of the quorum's and of ZooKeeper's controllers.
TOLD = {
    "controller_elected": "elected",
    "controller_resigned": "resigned",
    "controller_renouncing": "gave up after an error",
    "raft_election_retried": "elections asked for again",
    "raft_election_timed_out": "elections without a winner in time",
    "raft_votes_refused": "elections lost",
    "raft_majority_lost": "majorities lost",
    "raft_fetch_timed_out": "followers that heard nothing from the leader",
}
FINDINGS = ("controller-churn", "quorum-trouble", "slow-controller")
ROWS = 200
# A controller that is seen this early was there from the beginning.
SOON = 1000


def render(run: RunOutput) -> Markup:
    """List the terms, and what lies between and across them."""
    rows = run.rows("lanes", COLUMNS, ds.field("role") == "controller")
    rows.sort(key=lambda row: (row["started_at"] or 0, row["node"] or ""))
    terms = [row for row in rows if row["state"] == IN_OFFICE]
    if not terms:
        return join([tag("p", "No line says who was the active controller."), _found(run)])
    whole = run.window
    vacant = _vacant(terms)
    over = _overlaps(terms)
    heads = [name.format(current_zone().label) for name in HEAD]
    lines = sorted([*rows, *vacant], key=lambda row: (row["started_at"] or 0, row["state"]))
    caption = "Terms of the controllers"
    if len(lines) > ROWS:
        caption += f", the first {ROWS} of {len(lines):,}"
    epochs = {
        lane.start: lane.epoch
        for lane in lane_intervals.read_controller_terms(run)
        if lane.state == IN_OFFICE
    }
    rows_ = (_row(run, row, epochs) for row in lines[:ROWS])
    listing = table(heads, rows_, caption=caption)
    return join(
        [
            tag("p", _says(terms, vacant, whole), " ", _elections(run)),
            *(tag("p", line, class_="warning") for line in _said(run, over)),
            _found(run),
            drawn.render(run, listing) or listing,
        ]
    )


def _says(terms: Sequence[Row], vacant: Sequence[Row], whole: tuple[int, int] | None) -> str:
    nodes = list(dict.fromkeys(str(row["node"]) for row in terms))
    gaps = [row["ended_at"] - row["started_at"] for row in vacant]
    none = "nobody was seen to lead for "
    empty = (
        f"{none}{duration(sum(gaps))} in {count(len(gaps), 'stretch', 'stretches')} between them"
    )
    said = f"{count(len(terms), 'term')} of {join_names(nodes, 6)}; " + (
        empty if gaps else "no time without a controller between them"
    )
    first = terms[0]["started_at"]
    if whole is None or first is None or first - whole[0] <= SOON:
        return f"{said}."
    return f"{said}; in the first {duration(first - whole[0])} of the logs none is known."


def _vacant(terms: Sequence[Row]) -> list[Row]:
    """Give the stretches between terms; those before and after them are simply not known."""
    known = [row for row in terms if row["started_at"] is not None]
    found, reached = list[Row](), None
    for row in known:
        if reached is not None and row["started_at"] > reached:
            gap = {"started_at": reached, "ended_at": row["started_at"], "evidence": None}
            found.append(gap | {"node": "nobody seen", "state": "vacant"})
        end = row["ended_at"]
        reached = max(reached or 0, (1 << 60) if end is None else end)
    return found


def _overlaps(terms: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Give the terms that begin before the one before them is over."""
    return [
        (one, other)
        for one, other in pairwise(terms)
        if one["started_at"] is not None
        and other["started_at"] is not None
        and one["node"] != other["node"]
        and (one["ended_at"] is None or one["ended_at"] > other["started_at"])
    ]


def _said(run: RunOutput, over: Sequence[tuple[Row, Row]]) -> list[str]:
    lines = []
    for one, other in over[:10]:
        since = short_time(run, other["started_at"], exact=True)
        end = one["ended_at"]
        until = "the end of the logs" if end is None else short_time(run, end, exact=True)
        lines.append(
            f"{one['node']} and {other['node']} both led from {since} to {until}, as far as "
            "their clocks can tell; the one with the lower epoch is not obeyed."
        )
    left = len(over) - len(lines)
    return [*lines, f"And {count(left, 'overlap')} more."] if left > 0 else lines


def _elections(run: RunOutput) -> str:
    counts: Counter[str] = Counter()
    for part in run.chunks("events", ("kind",), ds.field("kind").isin(list(TOLD))):
        grouped = part.group_by(["kind"]).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            counts[row["kind"]] += row["count_all"]
    told = [f"{counts[kind]:,} {words}" for kind, words in TOLD.items() if counts[kind]]
    return f"Lines that tell of elections: {', '.join(told) or 'none'}."


def _found(run: RunOutput) -> Markup | None:
    mine = [finding for finding in run.findings if finding.detector in FINDINGS]
    if not mine:
        return None
    links = [tag("a", one.title, href=f"#{anchor(one.id)}") for one in mine[:8]]
    return tag("p", "Findings: ", join(links, "; "), ".")


def _row(run: RunOutput, row: Row, epochs: Mapping[int, int | None]) -> list[Child]:
    start, end = row["started_at"], row["ended_at"]
    known = start is not None and end is not None
    places = row["evidence"] or []
    place = f"{places[0]['file']}:{places[0]['line']}" if places else ""
    number = f" (node {row['broker']})" if row.get("broker") is not None else ""
    epoch = row.get("epoch") or (epochs.get(start) if start is not None else None)
    return [
        f"{row['node'] or 'not known'}{number}",
        row["state"] or "unknown",
        "-" if epoch is None else str(epoch),
        short_time(run, start, exact=True),
        "the end of the logs" if end is None else short_time(run, end, exact=True),
        duration(end - start) if known else "not known",
        tag("code", place) if place else "-",
    ]
