"""What the page cannot say, and why, and what to collect so that the next one can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow.dataset as ds

from forensics.lib.formatting import count, detector_label, join_names, percent
from forensics.report.coverage_advice import advise_collection, describe_hole, find_log_holes
from forensics.report.headline import sum_losses, unanswered_detectors
from forensics.report.html import Child, Markup, command_block, join, table, tag
from forensics.run_output.reader import Row, RunOutput

# Links to the page go to this anchor.
ANCHOR = "unseen"
ORDER = 90
TITLE = "What we could not see"
MOST, REASONS = 30, 3
TABLES = ("events", "leadership", "isr", "lanes", "clocks", "files")


def render(run: RunOutput) -> Markup:
    """List every hole that could change the verdict."""
    found = [*_files(run), *_loss(run), *_leaders(run), *_unread(run), *_tables(run)]
    listing = tag("ul", *(tag("li", hole) for hole in found)) if found else None
    parts = [_detectors(run), _half_blind(run), _gaps(run), listing]
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
            "failed" if row.get("status") == "failed" else "not evaluable",
            "; ".join(map(str, row.get("reasons") or ())) or "no reason given",
            str(row.get("about") or "").strip(),
        ]
        for row in rows
    ]
    head = ("Looked for", "Answer", "Why", "What it would have told")
    says = f"{count(len(rows), 'kind')} of trouble could not be looked for:"
    return join([tag("p", says), table(head, lines, caption="Detectors without an answer")])


def _half_blind(run: RunOutput) -> Markup | None:
    """Name those that found nothing, but could not see everywhere: many share their reasons."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in run.document.get("detectors") or ():
        if row.get("status") == "quiet" and row.get("reasons"):
            reasons = tuple(map(str, row["reasons"]))
            groups.setdefault(reasons, []).append(detector_label(str(row.get("detector"))))
    if not groups:
        return None
    lines = (
        tag(
            "li",
            f"{join_names(names, 40)}: nothing found, but not seen: "
            f"{join_names(list(why), REASONS)}.",
        )
        for why, names in groups.items()
    )
    return join([tag("h3", "Found nothing, and could not see everywhere"), tag("ul", *lines)])


def _gaps(run: RunOutput) -> Markup | None:
    rows = find_log_holes(run)
    if not rows:
        return None
    lines = [tag("li", describe_hole(run, row)) for row in rows[:MOST]]
    more = len(rows) - MOST
    rest = tag("li", f"and {count(more, 'hole')} more in tables/coverage") if more > 0 else None
    return join([tag("h3", "Holes in the logs"), tag("ul", *lines, rest)])


def _next_time(run: RunOutput) -> Markup | None:
    found = advise_collection(run)
    if not found:
        return None
    steps = (
        tag("li", tag("p", one.what), command_block(one.command.splitlines())) for one in found
    )
    return join([tag("h3", "What to collect next time"), tag("ol", *steps, class_="actions")])


def _files(run: RunOutput) -> Iterator[Child]:
    checks: tuple[tuple[str, Callable[[Row], object], Callable[[Row], str]], ...] = (
        ("damaged", lambda row: row["damaged"], lambda row: str(row["damaged"])),
        ("without a node", lambda row: not row["node"], lambda row: count(row["lines"], "line")),
        (
            "with more than 5 % of its lines not understood",
            lambda row: row["unparsed_lines"] * 20 > row["lines"],
            lambda row: f"{percent(row['unparsed_lines'], row['lines'])} not understood",
        ),
    )
    for what, is_so, why in checks:
        rows = [row for row in run.files if is_so(row)]
        if rows:
            yield join([f"{count(len(rows), 'file')} {what}:", _named(rows, why)])


def _named(rows: Sequence[Row], why: Callable[[Row], str]) -> Markup:
    lines = (tag("li", f"{row['file']}: {why(row)}") for row in rows[:MOST])
    more = len(rows) - MOST
    rest = tag("li", f"and {count(more, 'file')} more") if more > 0 else None
    return tag("ul", *lines, rest)


def _loss(run: RunOutput) -> Iterator[Child]:
    taken = sum_losses(run.findings)
    if taken and taken.unbounded:
        yield (
            f"How much {count(taken.unbounded, 'partition')} lost at most: no line says "
            "where the old leader's log ended."
        )


def _leaders(run: RunOutput) -> Iterator[Child]:
    blank = run.count_rows("leadership", ds.field("leader").is_null())
    if blank:
        yield f"Who led during {count(blank, 'leader epoch')}: known to exist, stated by no line."


def _unread(run: RunOutput) -> Iterator[Child]:
    unread = sum(row["unparsed_lines"] for row in run.files)
    lines = sum(row["lines"] for row in run.files)
    if unread:
        yield (
            f"What {count(unread, 'line')} say ({percent(unread, lines)} of all): they are in no "
            "known layout. kafka-forensics rules coverage ARCHIVE names their shapes."
        )


def _tables(run: RunOutput) -> Iterator[Child]:
    missing = [name for name in TABLES if not run.has_table(name)]
    if missing:
        yield f"Tables that were not saved: {', '.join(missing)}."
