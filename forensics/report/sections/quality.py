"""The checks on the tables, where they were run: what was expected, what was seen, what follows."""

from __future__ import annotations

from forensics.report.markup import Child, Markup, join, table, tag
from forensics.report.saved import Row, Saved
from forensics.report.words import count

__all__ = ["ORDER", "TITLE", "render"]

ORDER = 100
TITLE = "Data quality"
MOST = 200
HIDDEN = frozenset({"evidence"})
OUTCOMES = ("success", "passed", "ok")


def render(saved: Saved) -> Markup:
    """Show the checks as they were saved, failed ones first; nothing where there are none."""
    columns = [name for name in saved.columns("checks") if name not in HIDDEN]
    if not columns:
        return Markup("")
    rows = saved.rows("checks", columns)
    outcome = next((name for name in OUTCOMES if name in columns), None)
    if outcome:
        rows.sort(key=lambda row: bool(row[outcome]))
    failed = [row for row in rows if outcome and not row[outcome]]
    verdict = f", {len(failed):,} failed" if outcome else ""
    cells = ([_cell(name, row, outcome) for name in columns] for row in rows[:MOST])
    caption = "Checks" if len(rows) <= MOST else f"The first {MOST} of {len(rows):,} checks"
    heads = [name.replace("_", " ").capitalize() for name in columns]
    shown = table(heads, cells, caption=caption)
    return join([tag("p", f"{count(len(rows), 'check')}{verdict}."), _follows(failed), shown])


def _follows(failed: list[Row]) -> Markup | None:
    """Say first what must not be trusted."""
    told = [
        f"{row.get('expectation') or 'A check'} does not hold for {row.get('table') or 'a table'}: "
        f"{row['consequence']}."
        for row in failed
        if row.get("consequence")
    ]
    return tag("ul", *(tag("li", one) for one in told), class_="warning") if told else None


def _cell(name: str, row: Row, outcome: str | None) -> Child:
    value = row[name]
    if name == "consequence" and outcome and row[outcome]:
        # What would follow if it failed is no news where it holds.
        return "none: it holds"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
