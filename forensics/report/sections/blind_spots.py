"""What the page cannot say, and why, and what to collect so that the next one can."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow.dataset as ds

from forensics.lib.text_format import count, detector_label, join_names, percent
from forensics.report.coverage_advice import (
    advise_collection,
    count_lines,
    describe_hole,
    find_log_holes,
    unanswered_detectors,
)
from forensics.report.data_loss import sum_losses
from forensics.report.html import Child, Markup, command_block, join, table, tag
from forensics.run_output.reader import Row, RunOutput

TITLE = "Not in the logs"
MAX_ROWS, MAX_REASONS = 30, 3
TABLES = ("events", "leadership", "isr", "lanes", "clocks", "files")
# What may be wrong with a file, how that is seen, and what to say of it.
FILE_CHECKS: tuple[tuple[str, Callable[[Row], object], Callable[[Row], str]], ...] = (
    ("damaged", lambda row: row["damaged"], lambda row: str(row["damaged"])),
    ("without a node", lambda row: not row["node"], lambda row: count(row["lines"], "line")),
    (
        "with more than 5 % of its lines not understood",
        lambda row: row["unparsed_lines"] * 20 > row["lines"],
        lambda row: f"{percent(row['unparsed_lines'], row['lines'])} not understood",
    ),
)


def render(run: RunOutput) -> Markup:
    """List every hole that could change the verdict."""
    gaps = [tag("li", gap) for gap in (*_files(run), *_facts(run))]
    parts = [_detectors(run), _half_blind(run), _log_holes(run), tag("ul", *gaps) if gaps else None]
    if not any(parts):
        parts = [tag("p", "Every file was read whole and every loss is bounded.")]
    return join([*parts, _next_time(run)])


def _detectors(run: RunOutput) -> Markup | None:
    """Name what was not looked for: its silence says nothing."""
    rows = unanswered_detectors(run)
    if not rows:
        return None
    lines: list[list[Child]] = [
        [
            detector_label(str(row.get("detector"))),
            "failed" if row.get("status") == "failed" else "could not run",
            "; ".join(map(str, row.get("reasons") or ())) or "no reason given",
            str(row.get("about") or "").strip(),
        ]
        for row in rows
    ]
    head = ("Check", "Answer", "Why", "What it would have found")
    text = f"{count(len(rows), 'check')} could not run:"
    return join([tag("p", text), table(head, lines, caption="Detectors without an answer")])


def _half_blind(run: RunOutput) -> Markup | None:
    """Name those that found nothing, but could not see everywhere: many share their reasons."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in run.document.get("detectors") or ():
        if row.get("status") == "quiet" and row.get("reasons"):
            reasons = tuple(map(str, row["reasons"]))
            groups.setdefault(reasons, []).append(detector_label(str(row.get("detector"))))
    if not groups:
        return None
    pairs = [
        (join_names(names, 40), join_names(list(reasons), MAX_REASONS))
        for reasons, names in groups.items()
    ]
    lines = (tag("li", f"{names}: nothing found, but not seen: {why}.") for names, why in pairs)
    return join([tag("h3", "Found nothing, and could not see everywhere"), tag("ul", *lines)])


def _log_holes(run: RunOutput) -> Markup | None:
    holes = [describe_hole(run, row) for row in find_log_holes(run)]
    if not holes:
        return None
    left = f"and {count(len(holes) - MAX_ROWS, 'hole')} more in tables/coverage"
    return join([tag("h3", "Holes in the logs"), _list(holes, left)])


def _list(lines: list[str], left: str) -> Markup:
    items = lines[:MAX_ROWS] + ([left] if len(lines) > MAX_ROWS else [])
    return tag("ul", *(tag("li", item) for item in items))


def _next_time(run: RunOutput) -> Markup | None:
    advice = advise_collection(run)
    if not advice:
        return None
    steps = (tag("li", tag("p", one.what), command_block(one.command.splitlines()))
             for one in advice)  # fmt: skip
    return join([tag("h3", "What to collect next time"), tag("ol", *steps, class_="actions")])


def _files(run: RunOutput) -> Iterator[Child]:
    for what, is_wrong, describe in FILE_CHECKS:
        lines = [f"{row['file']}: {describe(row)}" for row in run.files if is_wrong(row)]
        left = f"and {count(len(lines) - MAX_ROWS, 'file')} more"
        if lines:
            yield join([f"{count(len(lines), 'file')} {what}:", _list(lines, left)])


def _facts(run: RunOutput) -> Iterator[Child]:
    totals = sum_losses(run.findings)
    if totals and totals.unbounded:
        yield (
            f"How much {count(totals.unbounded, 'partition')} lost at most: no line says "
            "where the old leader's log ended."
        )
    if unknown := run.count_rows("leadership", ds.field("leader").is_null()):
        yield f"The leader of {count(unknown, 'epoch')} is not in the logs."
    lines, unparsed = count_lines(run)
    if unparsed:
        yield (
            f"{percent(unparsed, lines)} of the input ({count(unparsed, 'line')}) is in no log "
            "format we know; kafka-forensics rules coverage ARCHIVE shows their shapes."
        )
    missing = [name for name in TABLES if not run.tables.has(name)]
    if missing:
        yield f"Tables that were not saved: {', '.join(missing)}."
