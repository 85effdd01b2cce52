"""What the page cannot say, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow.dataset as ds

from forensics.report.answer import loss
from forensics.report.markup import Child, Markup, join, tag
from forensics.report.saved import Row, Saved
from forensics.report.words import count, share

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 90
TITLE = "What we could not see"
MOST = 30
TABLES = ("events", "leadership", "isr", "lanes", "clocks", "files")


def render(saved: Saved) -> Markup:
    """List every hole that could change the verdict."""
    holes = [*_files(saved), *_loss(saved), *_leaders(saved), *_tables(saved)]
    if not holes:
        return tag("p", "Every file was read whole and every loss is bounded.")
    return tag("ul", *(tag("li", hole) for hole in holes))


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
            named = (tag("li", f"{row['file']}: {why(row)}") for row in rows[:MOST])
            more = len(rows) - MOST
            rest = tag("li", f"and {count(more, 'file')} more") if more > 0 else None
            yield join([f"{count(len(rows), 'file')} {what}:", tag("ul", *named, rest)])


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


def _tables(saved: Saved) -> Iterator[Child]:
    missing = [name for name in TABLES if not saved.has(name)]
    if missing:
        yield f"Tables that were not saved: {', '.join(missing)}."
