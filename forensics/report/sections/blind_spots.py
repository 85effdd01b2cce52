"""What the page cannot say, and why, and what to collect so that the next one can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow.dataset as ds

from forensics.lib.formatting import count, listed, named, share
from forensics.report.coverage_advice import advised, holes, said
from forensics.report.headline import blind, loss
from forensics.report.html import Child, Markup, command, join, table, tag
from forensics.run_output.reader import Row, Saved

# Links to the page go to this anchor.
ANCHOR = "unseen"
ORDER = 90
TITLE = "What we could not see"
MOST, REASONS = 30, 3
TABLES = ("events", "leadership", "isr", "lanes", "clocks", "files")


def render(saved: Saved) -> Markup:
    """List every hole that could change the verdict."""
    found = [*_files(saved), *_loss(saved), *_leaders(saved), *_unread(saved), *_tables(saved)]
    listing = tag("ul", *(tag("li", hole) for hole in found)) if found else None
    parts = [_detectors(saved), _half_blind(saved), _gaps(saved), listing]
    if not any(parts):
        parts = [tag("p", "Every file was read whole and every loss is bounded.")]
    return join([*parts, _next_time(saved)])


def _detectors(saved: Saved) -> Markup | None:
    """Name what was not looked for: its silence says nothing."""
    rows = blind(saved)
    if not rows:
        return None
    lines: list[list[Child]] = [
        [
            named(str(row.get("detector"))),
            "failed" if row.get("status") == "failed" else "not evaluable",
            "; ".join(map(str, row.get("reasons") or ())) or "no reason given",
            str(row.get("about") or "").strip(),
        ]
        for row in rows
    ]
    head = ("Looked for", "Answer", "Why", "What it would have told")
    says = f"{count(len(rows), 'kind')} of trouble could not be looked for:"
    return join([tag("p", says), table(head, lines, caption="Detectors without an answer")])


def _half_blind(saved: Saved) -> Markup | None:
    """Name those that found nothing, but could not see everywhere: many share their reasons."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in saved.document.get("detectors") or ():
        if row.get("status") == "quiet" and row.get("reasons"):
            reasons = tuple(map(str, row["reasons"]))
            groups.setdefault(reasons, []).append(named(str(row.get("detector"))))
    if not groups:
        return None
    lines = (
        tag(
            "li", f"{listed(names, 40)}: nothing found, but not seen: {listed(list(why), REASONS)}."
        )
        for why, names in groups.items()
    )
    return join([tag("h3", "Found nothing, and could not see everywhere"), tag("ul", *lines)])


def _gaps(saved: Saved) -> Markup | None:
    rows = holes(saved)
    if not rows:
        return None
    lines = [tag("li", said(saved, row)) for row in rows[:MOST]]
    more = len(rows) - MOST
    rest = tag("li", f"and {count(more, 'hole')} more in tables/coverage") if more > 0 else None
    return join([tag("h3", "Holes in the logs"), tag("ul", *lines, rest)])


def _next_time(saved: Saved) -> Markup | None:
    found = advised(saved)
    if not found:
        return None
    steps = (tag("li", tag("p", one.what), command(one.command.splitlines())) for one in found)
    return join([tag("h3", "What to collect next time"), tag("ol", *steps, class_="actions")])


def _files(saved: Saved) -> Iterator[Child]:
    checks: tuple[tuple[str, Callable[[Row], object], Callable[[Row], str]], ...] = (
        ("damaged", lambda row: row["damaged"], lambda row: str(row["damaged"])),
        ("without a node", lambda row: not row["node"], lambda row: count(row["lines"], "line")),
        (
            "with more than 5 % of its lines not understood",
            lambda row: row["unparsed_lines"] * 20 > row["lines"],
            lambda row: f"{share(row['unparsed_lines'], row['lines'])} not understood",
        ),
    )
    for what, is_so, why in checks:
        rows = [row for row in saved.files if is_so(row)]
        if rows:
            yield join([f"{count(len(rows), 'file')} {what}:", _named(rows, why)])


def _named(rows: Sequence[Row], why: Callable[[Row], str]) -> Markup:
    lines = (tag("li", f"{row['file']}: {why(row)}") for row in rows[:MOST])
    more = len(rows) - MOST
    rest = tag("li", f"and {count(more, 'file')} more") if more > 0 else None
    return tag("ul", *lines, rest)


def _loss(saved: Saved) -> Iterator[Child]:
    taken = loss(saved.findings)
    if taken and taken.unbounded:
        yield (
            f"How much {count(taken.unbounded, 'partition')} lost at most: no line says "
            "where the old leader's log ended."
        )


def _leaders(saved: Saved) -> Iterator[Child]:
    blank = saved.count("leadership", ds.field("leader").is_null())
    if blank:
        yield f"Who led during {count(blank, 'leader epoch')}: known to exist, stated by no line."


def _unread(saved: Saved) -> Iterator[Child]:
    unread = sum(row["unparsed_lines"] for row in saved.files)
    lines = sum(row["lines"] for row in saved.files)
    if unread:
        yield (
            f"What {count(unread, 'line')} say ({share(unread, lines)} of all): they are in no "
            "known layout. kafka-forensics rules coverage ARCHIVE names their shapes."
        )


def _tables(saved: Saved) -> Iterator[Child]:
    missing = [name for name in TABLES if not saved.has(name)]
    if missing:
        yield f"Tables that were not saved: {', '.join(missing)}."
