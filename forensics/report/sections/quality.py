"""The checks on the tables, where they were run."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, join, table, tag
from forensics.report.saved import Saved
from forensics.report.words import count

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 100
TITLE = "Data quality"
MOST = 200
HIDDEN = frozenset({"evidence"})


def render(saved: Saved) -> Markup:
    """Show the checks as they were saved, failed ones first; nothing where there are none."""
    columns = [name for name in saved.columns("checks") if name not in HIDDEN]
    if not columns:
        return Markup("")
    rows = saved.rows("checks", columns)
    outcome = next((name for name in ("success", "passed", "ok") if name in columns), None)
    if outcome:
        rows.sort(key=lambda row: bool(row[outcome]))
    failed = sum(1 for row in rows if outcome and not row[outcome])
    verdict = f", {failed:,} failed" if outcome else ""
    cells = ([_cell(row[name]) for name in columns] for row in rows[:MOST])
    caption = "Checks" if len(rows) <= MOST else f"The first {MOST} of {len(rows):,} checks"
    heads = [name.replace("_", " ") for name in columns]
    return join(
        [tag("p", f"{count(len(rows), 'check')}{verdict}."), table(heads, cells, caption=caption)]
    )


def _cell(value: object) -> Child:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
