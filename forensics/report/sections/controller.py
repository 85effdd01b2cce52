"""Who was the active controller, for how long, and when nobody or two were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow.dataset as ds

from forensics.history.nodes.controller_terms import TERM_STATES
from forensics.lib.text_format import count, duration, join_names
from forensics.lib.time_zone import current_zone
from forensics.report.figures import controller_terms
from forensics.report.html import Child, Markup, finding_link, join, limit_caption, table, tag
from forensics.report.lane_intervals import read_controller_terms
from forensics.run_output.reader import Row, RunOutput, short_time

TITLE = "Controller"
COLUMNS = ("node", "broker", "state", "epoch", "started_at", "ended_at", "evidence")
HEAD = ("Node", "State", "Epoch", "From, {}", "To, {}", "For", "First line of it")
# The kinds of lines that tell of elections, of the quorum's and of ZooKeeper's controllers.
ELECTION_KINDS = {
    "controller_elected": "elected",
    "controller_resigned": "resigned",
    "controller_renouncing": "gave up after an error",
    "raft_election_retried": "elections asked for again",
    "raft_election_timed_out": "elections without a winner in time",
    "raft_votes_refused": "elections lost",
    "raft_majority_lost": "majorities lost",
    "raft_fetch_timed_out": "followers that heard nothing from the leader",
}
DETECTORS = ("controller-lost", "controller-churn", "quorum-trouble", "slow-controller")
MAX_ROWS, MAX_OVERLAPS, MAX_FINDINGS = 200, 10, 8
# A controller that is seen this early was there from the beginning.
SOON_MS = 1000


def render(run: RunOutput) -> Markup:
    """List the terms, and what lies between and across them."""
    is_term = (ds.field("role") == "controller") & ds.field("state").isin(TERM_STATES)
    rows = run.rows("lanes", COLUMNS, is_term)
    rows.sort(key=lambda row: (row["started_at"] or 0, row["node"] or ""))
    terms = [row for row in rows if row["state"] == "active"]
    if not terms:
        return join([tag("p", "No line says who was the active controller."), _findings(run)])
    vacancies = _find_vacancies(terms)
    known = {row["started_at"] for row in rows if row["state"] == "vacant"}
    others = [row for row in vacancies if row["started_at"] not in known]
    lines = sorted([*rows, *others], key=lambda row: (row["started_at"] or 0, row["state"]))
    epochs = {term.start: term.epoch for term in read_controller_terms(run)
              if term.state == "active"}  # fmt: skip
    listing = table(
        [name.format(current_zone().label) for name in HEAD],
        (_row(run, row, epochs) for row in lines[:MAX_ROWS]),
        caption=limit_caption("Terms of the controllers", len(lines), MAX_ROWS),
    )
    return join(
        [
            tag("p", _summary(run, terms, vacancies), " ", _elections(run)),
            *(tag("p", line, class_="warning") for line in _overlaps(run, terms)),
            _findings(run),
            controller_terms.render(run, listing) or listing,
        ]
    )


def _summary(run: RunOutput, terms: Sequence[Row], vacancies: Sequence[Row]) -> str:
    nodes = list(dict.fromkeys(str(row["node"]) for row in terms))
    text = f"{count(len(terms), 'term')} of {join_names(nodes, 6)}; "
    if vacancies:
        whole = sum(row["ended_at"] - row["started_at"] for row in vacancies)
        stretches = count(len(vacancies), "stretch", "stretches")
        text += f"nobody was seen to lead for {duration(whole)} in {stretches} between them"
    else:
        text += "no time without a controller between them"
    first = terms[0]["started_at"]
    if run.window is None or first is None or first - run.window[0] <= SOON_MS:
        return f"{text}."
    return f"{text}; in the first {duration(first - run.window[0])} of the logs none is known."


def _find_vacancies(terms: Sequence[Row]) -> list[Row]:
    """Return the stretches between terms; those before and after them are simply not known."""
    vacancies, reached = list[Row](), None
    for row in terms:
        if row["started_at"] is None:
            continue
        if reached is not None and row["started_at"] > reached:
            vacancies.append({
                "node": "nobody seen", "state": "vacant", "started_at": reached,
                "ended_at": row["started_at"], "evidence": None,
            })  # fmt: skip
        end = row["ended_at"]
        reached = max(reached or 0, (1 << 60) if end is None else end)
    return vacancies


def _overlaps(run: RunOutput, terms: Sequence[Row]) -> list[str]:
    """Describe the terms that began before the one before them was over."""
    overlaps = [
        (before, after)
        for before, after in pairwise(terms)
        if before["started_at"] is not None
        and after["started_at"] is not None
        and before["node"] != after["node"]
        and (before["ended_at"] is None or before["ended_at"] > after["started_at"])
    ]
    lines = [
        f"{before['node']} and {after['node']} both led from "
        f"{short_time(run, after['started_at'], exact=True)} to {_end(run, before['ended_at'])}, "
        "as far as their clocks can tell; the one with the lower epoch is not obeyed."
        for before, after in overlaps[:MAX_OVERLAPS]
    ]
    left = len(overlaps) - len(lines)
    return [*lines, f"And {count(left, 'overlap')} more."] if left > 0 else lines


def _end(run: RunOutput, end: int | None) -> str:
    return "the end of the logs" if end is None else short_time(run, end, exact=True)


def _elections(run: RunOutput) -> str:
    counts: Counter[str] = Counter()
    for chunk in run.chunks("events", ("kind",), ds.field("kind").isin(list(ELECTION_KINDS))):
        grouped = chunk.group_by(["kind"]).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            counts[row["kind"]] += row["count_all"]
    texts = [f"{counts[kind]:,} {words}" for kind, words in ELECTION_KINDS.items() if counts[kind]]
    return f"Lines about elections: {', '.join(texts) or 'none'}."


def _findings(run: RunOutput) -> Markup | None:
    findings = [finding for finding in run.findings if finding.detector in DETECTORS]
    links = [finding_link(one.id, one.title) for one in findings[:MAX_FINDINGS]]
    return tag("p", "Findings: ", join(links, "; "), ".") if links else None


def _row(run: RunOutput, row: Row, epochs: Mapping[int, int | None]) -> list[Child]:
    start, end = row["started_at"], row["ended_at"]
    is_known = start is not None and end is not None
    lines = row["evidence"] or []
    first_line = f"{lines[0]['file']}:{lines[0]['line']}" if lines else ""
    number = f" (node {row['broker']})" if row.get("broker") is not None else ""
    epoch = row.get("epoch") or (epochs.get(start) if start is not None else None)
    return [
        f"{row['node'] or 'not known'}{number}",
        row["state"] or "unknown",
        "-" if epoch is None else str(epoch),
        short_time(run, start, exact=True),
        _end(run, end),
        duration(end - start) if is_known else "not known",
        tag("code", first_line) if first_line else "-",
    ]
