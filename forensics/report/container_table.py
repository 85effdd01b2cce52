"""The table of containers: what was found in each archive and folder, read, and left out."""

from __future__ import annotations

from forensics.lib.text_format import count, natural_key
from forensics.report.html import Child, Markup, join, note_left_out, table, tag
from forensics.run_output.reader import Row, RunOutput

MAX_ROWS, MAX_OPEN_ROWS = 200, 8
COLUMNS = ("container", "format", "how", "entries", "read", "left_out", "reasons", "damaged")
HEAD = ("Archive or folder", "Format", "Entries", "Read", "Left out", "Damaged")


def render(run: RunOutput) -> Markup | None:
    """Show one row for each archive and folder, and for each compressed file that is not whole."""
    rows = run.rows("containers", COLUMNS)
    shown = [row for row in rows if not _is_plain(row)]
    if not shown:
        return None
    shown.sort(
        key=lambda row: (not row["damaged"], not row["left_out"], natural_key(row["container"]))
    )
    found, read, left_out = (sum(row[name] for row in rows) for name in COLUMNS[3:6])
    sums = (
        f"{count(len(rows), 'container')}, which are folders, archives and compressed files:"
        f" {count(found, 'entry', 'entries')}, {read:,} read, {left_out:,} left out."
    )
    listing = table(
        HEAD, map(_cells, shown[:MAX_ROWS]), caption="What was found in archives",
        numbers=("Entries", "Read"),
    )  # fmt: skip
    rest = note_left_out(len(shown) - MAX_ROWS, "row", "{} more are not shown.")
    if len(shown) <= MAX_OPEN_ROWS:
        return join([tag("p", sums), listing])
    return join([tag("p", sums), tag("details", tag("summary", "Each of them"), listing, rest)])


def _is_plain(row: Row) -> bool:
    """Return True for a compressed file of which all was read."""
    whole = not row["left_out"] and not row["damaged"]
    return bool(whole and row["entries"] == 1 and row["how"] == "in order" and _is_single(row))


def _is_single(row: Row) -> bool:
    return str(row["format"]).rpartition(", ")[2] not in {"tar", "zip", "ar", "folder"}


def _cells(row: Row) -> list[Child]:
    reasons = [f"{one['entries']:,} {one['reason']}" for one in row["reasons"] or ()]
    damaged = tag("strong", f"damaged: {row['damaged']}") if row["damaged"] else "no"
    return [
        row["container"],
        row["format"],
        f"{row['entries']:,}",
        f"{row['read']:,}",
        "; ".join(reasons) or "none",
        damaged,
    ]
